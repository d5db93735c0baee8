//! Experiments of kind `live`: measurements of paths to block devices on this machine. Nothing is simulated,
//! so there is no digest.
//!
//! `experiment.toml` contains the options of fio and the rows, and `published.toml` the published figures. Scripts in
//! the folder perform the measurements: `paths.sh` runs on a machine, and `guest.sh` runs `paths.sh` in a guest.

use super::definition::parse;
use super::error::ExperimentError;
use super::find;
use flashlab_catalogue::library::{Folder, Library};
use serde::Deserialize;
use std::path::PathBuf;

/// A parsed and checked live experiment.
#[derive(Clone, Debug)]
pub struct Live {
    folder: Folder,
    definition: LiveDefinition,
    published: Vec<PublishedPath>,
}

/// The content of `experiment.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LiveDefinition {
    title: String,
    #[allow(dead_code, reason = "`Live::is` checks the kind before")]
    kind: String,
    source: String,
    options: String,
    reference: String,
    machine: LiveSettings,
    guest: LiveSettings,
    #[serde(rename = "row")]
    rows: Vec<LiveRow>,
}

/// Sizes and durations of the measurements.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LiveSettings {
    /// Size of each device in MiB.
    pub device: u32,
    /// Size of each job's files in MiB.
    pub size: u32,
    /// Duration of each measurement in seconds.
    pub runtime: u32,
    /// Number of measurements per row.
    pub repeats: u32,
    /// Memory of a guest in MiB.
    #[serde(default)]
    pub memory: u32,
}

/// One path to a block device.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LiveRow {
    /// Name of the row in results.
    pub name: String,
    /// Backend of the block device: `loop`, `lio-file`, `lio-ramdisk`, `ours`, `nbdkit`, `qemu-storage-daemon`.
    pub path: String,
    /// Access to the backend: `device` (a block device with a filesystem) or `in-process`.
    #[serde(default = "device")]
    pub how: String,
    /// Number of connections to a server.
    #[serde(default)]
    pub sockets: u32,
    /// Number of fio jobs.
    #[serde(default)]
    pub jobs: u32,
    /// Number of in-flight requests of each job or, without jobs, on each connection.
    pub depth: u32,
}

fn device() -> String {
    "device".to_owned()
}

/// The content of `published.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PublishedPaths {
    #[serde(rename = "row")]
    rows: Vec<PublishedPath>,
}

/// The published rates of a row, in MiB per second.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedPath {
    /// Name of the row.
    pub name: String,
    /// Read rate.
    pub read: f64,
    /// Write rate.
    pub write: f64,
}

/// Valid backends of a row, in the form that the scripts expect.
const PATHS: [&str; 6] = ["loop", "lio-file", "lio-ramdisk", "ours", "nbdkit", "qemu-storage-daemon"];

impl Live {
    /// Opens the experiment of this name, from the library or a folder on disk; `None` if the experiment is not live.
    pub fn open(name: &str, library: &Library) -> Result<Option<Live>, ExperimentError> {
        let folder = find(name, library)?;
        if Live::is(&folder) { Live::read(folder).map(Some) } else { Ok(None) }
    }

    /// Returns true if the folder contains a live experiment.
    pub fn is(folder: &Folder) -> bool {
        let text = folder.file("experiment.toml").and_then(|bytes| std::str::from_utf8(bytes).ok());
        let table = text.and_then(|text| text.parse::<toml::Table>().ok());
        table.is_some_and(|table| table.get("kind").and_then(toml::Value::as_str) == Some("live"))
    }

    /// Parses and checks the experiment in a folder.
    pub fn read(folder: Folder) -> Result<Live, ExperimentError> {
        let definition: LiveDefinition = parse(&folder, "experiment.toml")?;
        let published: PublishedPaths = parse(&folder, "published.toml")?;
        let live = Live { folder, definition, published: published.rows };
        live.check()
            .map_err(|(file, what)| ExperimentError::Wrong { path: live.folder.path_of(file), what })?;
        Ok(live)
    }

    fn check(&self) -> Result<(), (&'static str, String)> {
        let wrong = |what: String| Err(("experiment.toml", what));
        let LiveDefinition { rows, reference, machine, guest, .. } = &self.definition;
        for (n, row) in rows.iter().enumerate() {
            let name = &row.name;
            if rows[..n].iter().any(|other| other.name == *name) {
                return wrong(format!("row \"{name}\" exists twice"));
            }
            if !PATHS.contains(&row.path.as_str()) {
                return wrong(format!("row \"{name}\": path must be one of {}", PATHS.join(", ")));
            }
            if !["device", "in-process"].contains(&row.how.as_str()) {
                return wrong(format!("row \"{name}\": how must be device or in-process"));
            }
            let served = !matches!(&*row.path, "loop" | "lio-file" | "lio-ramdisk");
            let in_process = row.how == "in-process";
            if served != (row.sockets > 0) || in_process != (row.jobs == 0) || (in_process && !served) {
                return wrong(format!(
                    "row \"{name}\": only servers have sockets, only devices have jobs, and only servers run in-process"
                ));
            }
        }
        if !rows.iter().any(|row| row.name == *reference) {
            return wrong(format!("reference: there is no row \"{reference}\""));
        }
        if guest.memory == 0 || rows.iter().any(|row| row.depth == 0) {
            return wrong("[guest] memory and the depth of a row must be at least 1".into());
        }
        for settings in [machine, guest] {
            if [settings.device, settings.size, settings.runtime, settings.repeats].contains(&0) {
                return wrong(
                    "[machine] and [guest]: device, size, runtime and repeats must be at least 1".into(),
                );
            }
        }
        match self.published.iter().find(|row| !rows.iter().any(|one| one.name == row.name)) {
            Some(row) => Err(("published.toml", format!("the experiment has no row \"{}\"", row.name))),
            None => Ok(()),
        }
    }

    /// Returns the name of the experiment.
    pub fn name(&self) -> &str {
        &self.folder.name
    }
    /// Returns the paths of the files that a run reads from disk.
    pub fn paths_read(&self) -> Vec<PathBuf> {
        self.folder.paths().collect()
    }
    /// Returns the subject of the comparison, in one line.
    pub fn title(&self) -> &str {
        &self.definition.title
    }
    /// Returns the origin of the published figures.
    pub fn source(&self) -> &str {
        &self.definition.source
    }
    /// Returns the fio options that all rows share.
    pub fn options(&self) -> &str {
        &self.definition.options
    }
    /// Returns the name of the row that the others are compared with.
    pub fn reference(&self) -> &str {
        &self.definition.reference
    }
    /// Returns the rows in order.
    pub fn rows(&self) -> &[LiveRow] {
        &self.definition.rows
    }
    /// Returns the sizes and durations of the measurements on a machine or in a guest.
    pub fn settings(&self, guest: bool) -> LiveSettings {
        if guest { self.definition.guest } else { self.definition.machine }
    }
    /// Returns the published rates of a row.
    pub fn published(&self, row: &str) -> Option<&PublishedPath> {
        self.published.iter().find(|published| published.name == row)
    }
    /// Returns the content of a script in the folder.
    pub fn script(&self, name: &str) -> Result<&[u8], ExperimentError> {
        let missing = || ExperimentError::Wrong {
            path: self.folder.path_of(name),
            what: "the file is missing".to_owned(),
        };
        self.folder.file(name).ok_or_else(missing)
    }
}
