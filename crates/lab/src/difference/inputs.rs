//! The inputs of results: devices with their numbers, options of jobs, and the facts of a run. This module
//! pairs the inputs of two results and finds the differences.

use super::{Changed, ResultFile, changed};
use crate::run_inputs::DeviceInputs;
use flashlab_fio::option;
use std::collections::BTreeMap;

/// Prefixes of the numbers of hosts among the numbers of a device.
const OF_HOSTS: [&str; 5] = ["host.", "pc.", "port.", "cache.", "codec."];

/// Returns the name of a device without the keys that were set: `sd/kingston` of `sd/kingston:flash.t_prog=2ms`.
fn base(device: &str) -> &str {
    device.split(':').next().unwrap_or(device)
}

/// Returns the devices of B by their counterparts in A. If each file has a single device, the two are
/// counterparts. Otherwise, devices with equal names are counterparts. Of the remaining devices, two with the
/// same base name and different keys are counterparts if each file has only one device with this base name.
pub(super) fn counterparts<'a>(a: &'a ResultFile, b: &'a ResultFile) -> BTreeMap<&'a str, &'a str> {
    let names = |file: &'a ResultFile| {
        let mut names: Vec<&str> = file.lines.iter().map(|line| line.name[0].as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names
    };
    let (mut of_a, mut of_b) = (names(a), names(b));
    if let ([only_a], [only_b]) = (&of_a[..], &of_b[..]) {
        return BTreeMap::from([(*only_a, *only_b)]);
    }
    let mut pairs: BTreeMap<&str, &str> =
        of_a.iter().filter(|name| of_b.contains(name)).map(|name| (*name, *name)).collect();
    of_a.retain(|name| !pairs.contains_key(name));
    of_b.retain(|name| !pairs.contains_key(name));
    for name in &of_a {
        let is_same = |other: &&&str| base(other) == base(name);
        let mut found = of_b.iter().filter(is_same);
        if let (1, Some(only), None) = (of_a.iter().filter(is_same).count(), found.next(), found.next()) {
            pairs.insert(name, only);
        }
    }
    pairs
}

/// Returns the facts that differ: first the devices that were compared under different names, their hosts and states,
/// then the facts of the whole runs.
pub(super) fn facts(a: &ResultFile, b: &ResultFile, pairs: &BTreeMap<&str, &str>) -> Vec<Changed<String>> {
    let mut all = Vec::new();
    for (name_a, name_b) in pairs {
        let (in_a, in_b) = (device(a, name_a), device(b, name_b));
        let of = if pairs.len() > 1 { format!("{name_a}: ") } else { String::new() };
        let text = |name: &str| Some(name.to_owned()).filter(|name| !name.is_empty());
        all.extend(differing("device", text(name_a), text(name_b)));
        let mut add = |what: &str, read: fn(&DeviceInputs) -> Option<&String>| {
            let value = |found: Option<&DeviceInputs>| found.and_then(read).cloned();
            all.extend(differing(&format!("{of}{what}"), value(in_a), value(in_b)));
        };
        add("host", |inputs| inputs.host.as_ref());
        add("state", |inputs| inputs.state.as_ref());
    }
    all.extend(changed(&a.facts, &b.facts));
    all
}

/// Returns the inputs that differ: numbers of a device or host that both files have, options of jobs, and
/// inputs that the files list.
pub(super) fn inputs(a: &ResultFile, b: &ResultFile, pairs: &BTreeMap<&str, &str>) -> Vec<Changed<String>> {
    let mut all = changed(&a.inputs, &b.inputs);
    for (name_a, name_b) in pairs {
        let (Some(in_a), Some(in_b)) = (device(a, name_a), device(b, name_b)) else { continue };
        // The numbers of two different products are not compared, because most of them differ. The facts
        // already name both products.
        let is_same_device = base(name_a) == base(name_b);
        let is_same_host = in_a.host == in_b.host;
        let of = if pairs.len() > 1 { format!("{}: ", base(name_a)) } else { String::new() };
        let numbers = changed(&in_a.numbers, &in_b.numbers).into_iter().filter(|number| {
            let is_of_host = OF_HOSTS.iter().any(|prefix| number.name.starts_with(prefix));
            if is_of_host { is_same_host } else { is_same_device }
        });
        all.extend(numbers.map(|number| Changed { name: format!("{of}{}", number.name), ..number }));
    }
    all.extend(options(a, b));
    all
}

fn device<'a>(file: &'a ResultFile, name: &str) -> Option<&'a DeviceInputs> {
    file.devices.iter().find(|inputs| inputs.device == name)
}

fn differing(name: &str, a: Option<String>, b: Option<String>) -> Option<Changed<String>> {
    (a != b).then(|| Changed { name: name.to_owned(), a, b })
}

/// Returns the options that differ. An option that one file does not set has fio's default there. A file that states no
/// options at all has none to compare.
fn options(a: &ResultFile, b: &ResultFile) -> Vec<Changed<String>> {
    if a.options.is_empty() || b.options.is_empty() {
        return Vec::new();
    }
    let of = |file: &ResultFile, other: &ResultFile| -> Vec<(String, String)> {
        let known = file.options.iter().filter(|(_, value)| other.states_flags || !value.is_empty());
        known.map(|(name, value)| (name.clone(), text(value))).collect()
    };
    let all = changed(&of(a, b), &of(b, a)).into_iter().map(|option| {
        let default = || default_of(&option.name);
        let (a, b) = (option.a.clone().or_else(default), option.b.clone().or_else(default));
        Changed { name: option.name, a, b }
    });
    all.filter(|option| option.a != option.b).collect()
}

/// Returns the value of an option as text to compare. A flag that is set has the value 1.
fn text(value: &str) -> String {
    if value.is_empty() { "1".to_owned() } else { value.to_owned() }
}

/// Returns fio's default of an option. In `name`, the name of the job may precede the option.
fn default_of(name: &str) -> Option<String> {
    let key = name.rsplit_once(": ").map_or(name, |(_, key)| key);
    let default = option::lookup(key)?.default;
    (!default.is_empty()).then(|| default.to_owned())
}

/// Options that name files or control the output, and do not change a result.
const WITHOUT_EFFECT: [&str; 20] = [
    "name",
    "filename",
    "uri",
    "directory",
    "filename_format",
    "description",
    "group_reporting",
    "new_group",
    "thread",
    "output",
    "output-format",
    "eta",
    "write_bw_log",
    "write_lat_log",
    "write_iops_log",
    "write_hist_log",
    "write_iolog",
    "log_avg_msec",
    "per_job_logs",
    "percentile_list",
];

/// Adds the options of a job to `all`, each under its main name. If `is_one_of_several`, the name of the job
/// precedes the name of the option. If `options` contain an option twice, the first value counts.
pub(super) fn add_options<'a>(
    job: &str,
    is_one_of_several: bool,
    options: impl Iterator<Item = (&'a str, &'a str)>,
    all: &mut Vec<(String, String)>,
) {
    for (key, value) in options {
        let key = option::lookup(key).map_or(key, |entry| entry.name);
        let name = if is_one_of_several { format!("{job}: {key}") } else { key.to_owned() };
        if WITHOUT_EFFECT.contains(&key) || all.iter().any(|(known, _)| *known == name) {
            continue;
        }
        all.push((name, value.to_owned()));
    }
}
