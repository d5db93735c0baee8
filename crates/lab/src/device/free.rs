//! The free parameters behind an experiment, counted once each.
//!
//! A number is free if it was fitted, chosen as typical, set by hand, or taken from a draft without sources. Counted once is
//! one value: of a host or filesystem that several devices share, of several cards that hold the same value fitted on the same
//! cells, or the same typical value. An optional number that was taken away counts with the value `none`. A number is not free
//! where a specification, a catalogue, a measurement or other numbers give it, or where it is a condition of the publication.

use super::{Device, Filesystem, Held, TakenAway};
use crate::profile::{Parameter, Source};
use crate::results::{self, ParameterKind};

/// One value, whoever holds it.
struct Free<'a> {
    path: &'static str,
    value: String,
    kind: ParameterKind,
    fitted_on: &'a [String],
    holders: Vec<&'a str>,
}

/// The free parameters of `devices` and `filesystems`, in the order of the table of parameters.
pub fn free_parameters(devices: &[&Device], filesystems: &[&Filesystem]) -> Vec<results::Parameter> {
    let numbers = devices.iter().map(|d| &d.numbers).chain(filesystems.iter().map(|f| &f.numbers));
    let numbers = numbers.flatten().map(|Held { number, holder }| {
        (number.parameter.path, number.value.to_string(), &number.source, holder.as_str())
    });
    let none = devices.iter().map(|d| &d.none).chain(filesystems.iter().map(|f| &f.none));
    let none = none.flatten().map(|TakenAway { parameter, source, holder }| {
        (parameter.path, "none".to_owned(), source, holder.as_str())
    });
    let mut found: Vec<Free<'_>> = Vec::new();
    for (path, value, source, holder) in numbers.chain(none) {
        let Some(kind) = source.free() else { continue };
        let fitted_on = if let Source::Fitted(cells) = source { cells.as_slice() } else { &[] };
        let same = |f: &&mut Free<'_>| {
            f.path == path && f.value == value && f.kind == kind && f.fitted_on == fitted_on
        };
        match found.iter_mut().find(same) {
            Some(known) if known.holders.contains(&holder) => {}
            Some(known) => known.holders.push(holder),
            None => found.push(Free { path, value, kind, fitted_on, holders: vec![holder] }),
        }
    }
    found.sort_by_key(|f| Parameter::all().iter().position(|p| p.path == f.path));
    let cards = {
        let mut names: Vec<&str> = devices.iter().map(|d| d.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names
    };
    found.iter().map(|f| report(f, &cards)).collect()
}

fn report(free: &Free<'_>, cards: &[&str]) -> results::Parameter {
    results::Parameter {
        path: format!("{}:{}", holders(&free.holders, cards), free.path),
        value: free.value.clone(),
        kind: free.kind,
        fitted_on: free.fitted_on.to_vec(),
    }
}

/// `sd/kingston`; `sd/{kingston,sandisk}`; `sd/*` if it is all of the cards.
fn holders(holders: &[&str], cards: &[&str]) -> String {
    let [first, _, ..] = holders else { return holders.concat() };
    let folder = first.rsplit_once('/').map_or("", |(folder, _)| folder);
    let same_folder = |name: &&str| name.rsplit_once('/').map_or("", |(folder, _)| folder) == folder;
    if !holders.iter().all(same_folder) {
        return format!("{{{}}}", holders.join(","));
    }
    let slash = if folder.is_empty() { "" } else { "/" };
    if cards.iter().all(|card| holders.contains(card)) {
        return format!("{folder}{slash}*");
    }
    let names: Vec<&str> = holders.iter().map(|name| name.rsplit('/').next().unwrap_or(name)).collect();
    format!("{folder}{slash}{{{}}}", names.join(","))
}
