//! The free parameters behind an experiment, counted once each.
//!
//! A number is free if it was fitted, or chosen as typical. Counted once is one value: of a host or filesystem that
//! several devices share, of several cards that hold the same value fitted on the same cells, or the same typical value.
//! What a specification, a catalogue or a measurement says is not free, nor what follows from other numbers, nor what
//! the argument gave.

use super::{Device, Filesystem, Held};
use crate::profile::{Parameter, Source, Value};
use crate::results::{self, ParameterKind};

/// One value, whoever holds it.
struct Free<'a> {
    path: &'static str,
    value: &'a Value,
    kind: ParameterKind,
    fitted_on: &'a [String],
    holders: Vec<&'a str>,
}

/// The free parameters of `devices` and `filesystems`, in the order of the table of parameters.
pub fn free_parameters(devices: &[&Device], filesystems: &[&Filesystem]) -> Vec<results::Parameter> {
    let device_numbers = devices.iter().flat_map(|d| d.held());
    let held = device_numbers.chain(filesystems.iter().flat_map(|f| f.held()));
    let mut found: Vec<Free<'_>> = Vec::new();
    for free in held.filter_map(free) {
        let same = |f: &&mut Free<'_>| {
            f.path == free.path
                && f.value == free.value
                && f.kind == free.kind
                && f.fitted_on == free.fitted_on
        };
        match found.iter_mut().find(same) {
            Some(known) if known.holders.contains(&free.holders[0]) => {}
            Some(known) => known.holders.extend(free.holders),
            None => found.push(free),
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

fn free(held: &Held) -> Option<Free<'_>> {
    let (kind, fitted_on) = match &held.number.source {
        Source::Fitted(cells) => (ParameterKind::Fitted, cells.as_slice()),
        Source::Typical(_) => (ParameterKind::Chosen, &[][..]),
        _ => return None,
    };
    Some(Free {
        path: held.number.parameter.path,
        value: &held.number.value,
        kind,
        fitted_on,
        holders: vec![&held.holder],
    })
}

fn report(free: &Free<'_>, cards: &[&str]) -> results::Parameter {
    results::Parameter {
        path: format!("{}:{}", holders(&free.holders, cards), free.path),
        value: free.value.to_string(),
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
