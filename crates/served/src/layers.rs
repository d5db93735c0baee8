//! Opens layers from their names and settings.

use crate::Served;
use crate::argument::Part;
use crate::error::{Problem, ServedError};
use flashlab_block::layer::{Fault, Faults, Log, Overlay, ReadOnly, Stats};
use flashlab_block::model::Throttle;
use flashlab_block::{Access, File, Memory, Pages, read_whole_text};
use flashlab_catalogue::units::Dimension;
use flashlab_sim::{Duration, Store};
use std::fs;
use std::path::Path;
use std::sync::Arc;

/// Maximum size in bytes of a file of fault-injection rules.
const RULES_BYTES_MAX: u64 = 16 << 20;

/// Returns the pace of a layer that changes timing, or `None` for any other layer.
pub(super) fn pace(part: &mut Part<'_>) -> Result<Option<Throttle>, ServedError> {
    let (pace, given, example) = match part.word() {
        "delay" => {
            let example = "delay:read=1ms,write=2ms,flush=10ms";
            part.read("delay", &["read", "write", "flush"], "read=1ms")?;
            let times = ["read", "write", "flush"].map(|key| part.number(key, Dimension::Time));
            let [read, write, flush] = times;
            let times = [read?, write?, flush?];
            let [read, write, flush] = times.map(|time| Duration::from_ns(time.unwrap_or(0)));
            (Throttle::Delay { read, write, flush }, times.iter().any(Option::is_some), example)
        }
        "rate" => {
            let example = "rate:read=20MiB/s,write=10MiB/s,iops=500";
            part.read("rate", &["read", "write", "iops"], "read=20MiB/s")?;
            let (read, write) =
                (part.number("read", Dimension::Rate)?, part.number("write", Dimension::Rate)?);
            let iops = part.count("iops")?;
            let given = read.or(write).or(iops).is_some();
            (Throttle::Rate { read, write, iops }, given, example)
        }
        _ => return Ok(None),
    };
    if given { Ok(Some(pace)) } else { Err(part.error(Problem::NoPace { example })) }
}

/// Opens the layer `overlay` or `overlay:keep=FILE` on `base`.
pub(super) fn overlay(
    mut part: Part<'_>,
    base: Box<dyn Store>,
    size: u64,
) -> Result<Box<dyn Store>, ServedError> {
    part.read("overlay", &["keep"], "keep=changes.img")?;
    let room = Overlay::changes_size(size);
    let changes: Box<dyn Store> = match part.value("keep") {
        Some((path, _)) => Box::new(File::open(Path::new(path), Some(room), Access::Cached, false)?),
        None => {
            Box::new(Memory::new(room, Pages::Small).map_err(|error| part.error(Problem::Memory(error)))?)
        }
    };
    Ok(Box::new(Overlay::new(base, size, changes).map_err(ServedError::Overlay)?))
}

/// Adds a layer that acts on requests or their data, not on their timing.
pub(super) fn add(served: Served, mut part: Part<'_>, seed: u64) -> Result<Served, ServedError> {
    let below = served.device.clone();
    Ok(match part.word() {
        "readonly" => {
            part.read("readonly", &[], "nothing")?;
            Served { device: Arc::new(ReadOnly::new(below)), ..served }
        }
        "stats" => {
            part.read("stats", &[], "nothing")?;
            let stats = Arc::new(Stats::new(below));
            let mut all = served.stats.clone();
            all.push(stats.clone());
            Served { device: stats, stats: all, ..served }
        }
        "log" => {
            part.read("log", &["to"], "to=requests.log")?;
            let missing = Problem::Missing { key: "to", example: "log:to=requests.log" };
            let (path, _) = part.value("to").ok_or_else(|| part.error(missing))?;
            let path = Path::new(path);
            let to = fs::OpenOptions::new().create(true).append(true).open(path);
            let to = to.map_err(|error| ServedError::System { path: path.to_owned(), error })?;
            Served { device: Arc::new(Log::new(below, Box::new(to))), ..served }
        }
        "error" => {
            let rules = rules(&mut part)?;
            let seed = part.count("seed")?.unwrap_or(seed);
            let faults = Arc::new(Faults::new(below, rules, seed));
            let mut all = served.faults.clone();
            all.push(faults.clone());
            Served { device: faults, faults: all, ..served }
        }
        "overlay" => return Err(part.error(Problem::NotOnBytes)),
        // `Served::open` has already applied the timing layers.
        _ => served,
    })
}

/// Returns the rules of the settings: one rule from the keys and the rules of a file. Without any rule, the layer waits
/// for `flashlab ctl SOCKET fault`.
fn rules(part: &mut Part<'_>) -> Result<Vec<Fault>, ServedError> {
    part.read("error", &["on", "at", "after", "times", "rate", "error", "seed", "rules"], "rate=0.01")?;
    let mut rules = Vec::new();
    if let Some((path, _)) = part.value("rules") {
        let path = Path::new(path);
        let text = read_whole_text(path, RULES_BYTES_MAX)
            .map_err(|error| ServedError::System { path: path.to_owned(), error })?;
        for (line, text) in (1..).zip(text.lines()) {
            let rule = text.split('#').next().unwrap_or_default().trim();
            if !rule.is_empty() {
                let rule = rule.parse();
                rules.push(rule.map_err(|error| ServedError::Rule { path: path.to_owned(), line, error })?);
            }
        }
    }
    let mut words = Vec::new();
    for key in ["on", "error", "at", "after", "times", "rate"] {
        match (key, part.value(key)) {
            (_, None) => {}
            ("on" | "error", Some((value, _))) => words.push(value.to_owned()),
            (_, Some((value, _))) => words.push(format!("{key}={value}")),
        }
    }
    if !words.is_empty() {
        let rule = words.join(" ").parse();
        rules.push(rule.map_err(|error| part.error(Problem::Fault(error)))?);
    }
    Ok(rules)
}
