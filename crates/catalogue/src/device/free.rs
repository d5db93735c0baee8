//! The free parameters of an experiment, each counted once.
//!
//! A number is free if it was fitted, chosen as typical, set by hand, or taken from a draft without sources.
//! An optional number that an argument removes counts with the value `none`. Several devices that share a
//! host or a filesystem share its numbers, which count once. Equal values of a parameter in several profiles
//! count once if all of them:
//!
//! - were fitted on the same cells, or
//! - were chosen as typical, or
//! - were set by hand, or
//! - were taken from drafts.
//!
//! A number is not free if a specification, a catalogue, a measurement or other numbers determine it.
//! Conditions of the publication are not free. Undetermined numbers are not free, because the cells that the
//! profile was fitted on do not depend on them. No device depends on the times of its host for the codecs of a
//! volume, so they count only in experiments on volumes ([`free_codec_parameters`]).

use super::numbers::{RemovedParameter, SourcedNumber};
use super::{Device, Filesystem};
use crate::profile::{Parameter, Source};
use crate::provenance::{self, ParameterKind};

/// One free value with all profiles that have it.
struct Free<'a> {
    path: &'static str,
    value: String,
    kind: ParameterKind,
    fitted_on: &'a [String],
    profiles: Vec<&'a str>,
}

/// Returns the free parameters of `devices` and `filesystems`, in the order of the parameter table.
pub fn free_parameters(devices: &[&Device], filesystems: &[&Filesystem]) -> Vec<provenance::Parameter> {
    free(devices, filesystems, &|parameter| !parameter.is_of_codecs())
}

/// Returns the free parameters among the times of the devices' hosts for the codecs `used`, in the order of the
/// parameter table.
pub fn free_codec_parameters(devices: &[&Device], used: &[&str]) -> Vec<provenance::Parameter> {
    free(devices, &[], &|parameter| parameter.is_of_codecs() && used.contains(&parameter.path))
}

fn free(
    devices: &[&Device],
    filesystems: &[&Filesystem],
    counts: &dyn Fn(&Parameter) -> bool,
) -> Vec<provenance::Parameter> {
    let all = || devices.iter().map(|d| &d.numbers).chain(filesystems.iter().map(|f| &f.numbers));
    let set = all().flat_map(|numbers| &numbers.set).filter(|sourced| counts(sourced.number.parameter));
    let numbers = set.map(|SourcedNumber { number, profile }| {
        (number.parameter.path, number.value.to_string(), &number.source, profile.as_str())
    });
    let none = all().flat_map(|numbers| &numbers.removed).filter(|removed| counts(removed.parameter)).map(
        |RemovedParameter { parameter, source, profile }| {
            (parameter.path, "none".to_owned(), source, profile.as_str())
        },
    );
    let mut found: Vec<Free<'_>> = Vec::new();
    for (path, value, source, profile) in numbers.chain(none) {
        let Some(kind) = source.free() else { continue };
        let fitted_on = if let Source::Fitted(cells) = source { cells.as_slice() } else { &[] };
        let same = |f: &&mut Free<'_>| {
            f.path == path && f.value == value && f.kind == kind && f.fitted_on == fitted_on
        };
        match found.iter_mut().find(same) {
            Some(known) if known.profiles.contains(&profile) => {}
            Some(known) => known.profiles.push(profile),
            None => found.push(Free { path, value, kind, fitted_on, profiles: vec![profile] }),
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

fn report(free: &Free<'_>, cards: &[&str]) -> provenance::Parameter {
    provenance::Parameter {
        path: format!("{}:{}", profiles(&free.profiles, cards), free.path),
        value: free.value.clone(),
        kind: free.kind,
        fitted_on: free.fitted_on.to_vec(),
    }
}

/// Names the profiles: `sd/kingston`, `sd/{kingston,sandisk}`, or `sd/*` for all of the experiment's devices.
fn profiles(profiles: &[&str], cards: &[&str]) -> String {
    let [first, _, ..] = profiles else { return profiles.concat() };
    let folder = first.rsplit_once('/').map_or("", |(folder, _)| folder);
    let same_folder = |name: &&str| name.rsplit_once('/').map_or("", |(folder, _)| folder) == folder;
    if !profiles.iter().all(same_folder) {
        return format!("{{{}}}", profiles.join(","));
    }
    let slash = if folder.is_empty() { "" } else { "/" };
    if cards.iter().all(|card| profiles.contains(card)) {
        return format!("{folder}{slash}*");
    }
    let names: Vec<&str> = profiles.iter().map(|name| name.rsplit('/').next().unwrap_or(name)).collect();
    format!("{folder}{slash}{{{}}}", names.join(","))
}
