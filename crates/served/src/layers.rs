//! Opens layers from their names and settings.

use crate::Served;
use crate::argument::Part;
use crate::bottom::Made;
use crate::error::{Problem, ServedError};
use crate::new_files::NewFiles;
use flashlab_block::layer::{KINDS, Opened, Overlay, Settings};
use flashlab_block::model::Throttle;
use flashlab_block::{Access, File, Memory, Pages};
use flashlab_catalogue::units::Dimension;
use flashlab_sim::{Duration, Store};
use std::path::Path;

/// Names of the layers below those of the registry: the overlay on the bytes, and the layers that change the
/// timing.
const BELOW: [&str; 3] = ["overlay", "delay", "rate"];

/// Returns the names of all layers.
pub(super) fn names() -> impl Iterator<Item = &'static str> + Clone {
    BELOW.into_iter().chain(KINDS.iter().map(|kind| kind.name))
}

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

/// Opens the layer `overlay` or `overlay:keep=FILE` on `base`. If `part` is `None`, opens an overlay in
/// memory. If `made` is set, kept changes must have been made on the bytes of `made`. Adds the file of new changes to
/// `new_files`.
pub(super) fn overlay(
    mut part: Option<Part<'_>>,
    base: Box<dyn Store>,
    size: u64,
    (made, new_files): (Option<&Made>, &NewFiles),
) -> Result<Box<dyn Store>, ServedError> {
    if let Some(part) = &mut part {
        part.read("overlay", &["keep"], "keep=changes.img")?;
    }
    let room = Overlay::changes_size(size);
    let keep = part.as_ref().and_then(|part| part.value("keep"));
    let changes: Box<dyn Store> = match keep.map(|(path, _)| Path::new(path)) {
        Some(path) => {
            made.map_or(Ok(()), |made| made.check_changes(path))?;
            let file = File::open(path, Some(room), Access::Cached, false)?;
            if file.is_new() {
                new_files.add(path);
            }
            Box::new(file)
        }
        None => Box::new(Memory::new(room, Pages::Small).map_err(|error| match &part {
            Some(part) => part.error(Problem::Memory(error)),
            None => ServedError::Memory(error),
        })?),
    };
    Ok(Box::new(Overlay::new(base, size, changes).map_err(ServedError::Overlay)?))
}

/// Adds a layer of the registry. Ignores the layers that change the timing, which have been applied below.
pub(super) fn add(served: Served, mut part: Part<'_>, seed: u64) -> Result<Served, ServedError> {
    let Some(kind) = KINDS.iter().find(|kind| kind.name == part.word()) else {
        return match part.word() {
            "overlay" => Err(part.error(Problem::NotOnBytes)),
            _ => Ok(served),
        };
    };
    part.read(kind.name, kind.keys, kind.example)?;
    let values = kind.keys.iter().filter_map(|key| Some((*key, part.value(key)?.0))).collect();
    let opened = (kind.open)(served.device.clone(), &Settings { values, seed });
    let Opened { device, faults, stats } = opened.map_err(|error| part.layer_error(error))?;
    let mut served = Served { device, ..served };
    served.faults.extend(faults);
    served.stats.extend(stats);
    Ok(served)
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_layer_has_a_row_in_the_documentation() {
        let rows = include_str!("../../../docs/layers.md");
        for name in super::names() {
            let begins = |row: &str| {
                row.strip_prefix(&format!("| `{name}")).is_some_and(|rest| rest.starts_with([':', '`']))
            };
            assert!(rows.lines().any(begins), "no row for {name}");
        }
    }
}
