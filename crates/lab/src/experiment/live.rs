//! `kind = "live"`: block devices of this machine, measured by fio; nothing is simulated, so there is no digest.
//!
//! `experiment.toml` says what fio is told and which rows there are, and `published.toml` has what was published of them. The
//! folder's scripts do the measuring: `paths.sh` on a machine, `guest.sh` for a guest around it.

use super::definition::parse;
use super::error::ExperimentError;
use super::find;
use crate::library::{Folder, Library};
use serde::Deserialize;

/// A live experiment, read and checked.
#[derive(Clone, Debug)]
pub struct Live {
    folder: Folder,
    definition: LiveDefinition,
    published: Vec<PublishedPath>,
}

/// `experiment.toml`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LiveDefinition {
    title: String,
    #[allow(dead_code, reason = "looked at before the rest is read")]
    kind: String,
    source: String,
    options: String,
    reference: String,
    machine: LiveSettings,
    guest: LiveSettings,
    #[serde(rename = "row")]
    rows: Vec<LiveRow>,
}

/// How large and how long.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LiveSettings {
    /// MiB of each device.
    pub device: u32,
    /// MiB of each job's files.
    pub size: u32,
    /// Seconds of each measurement.
    pub runtime: u32,
    /// Measurements of each row.
    pub repeats: u32,
    /// MiB of a guest's memory.
    #[serde(default)]
    pub memory: u32,
}

/// One path to a block device.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LiveRow {
    /// Its name in results.
    pub name: String,
    /// What is attached: `loop`, `lio-file`, `lio-ramdisk`, `ours`, `nbdkit`, `qemu-storage-daemon`.
    pub path: String,
    /// How: `device`, with a filesystem on it, or `in-process`.
    #[serde(default = "device")]
    pub how: String,
    /// Connections to a server.
    #[serde(default)]
    pub sockets: u32,
    /// Jobs of fio.
    #[serde(default)]
    pub jobs: u32,
    /// Requests outstanding of each job, or on each connection.
    pub depth: u32,
}

fn device() -> String {
    "device".to_owned()
}

/// `published.toml`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PublishedPaths {
    #[serde(rename = "row")]
    rows: Vec<PublishedPath>,
}

/// What was published of a row: MiB a second each way.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedPath {
    /// The row.
    pub name: String,
    /// Read.
    pub read: f64,
    /// Written.
    pub write: f64,
}

/// What a row may attach, and what it may be called in a script's line.
const PATHS: [&str; 6] = ["loop", "lio-file", "lio-ramdisk", "ours", "nbdkit", "qemu-storage-daemon"];

impl Live {
    /// The experiment of this name, or of a folder on disk, if it is a live one.
    pub fn open(name: &str, library: &Library) -> Result<Option<Live>, ExperimentError> {
        let folder = find(name, library)?;
        if Live::is(&folder) { Live::read(folder).map(Some) } else { Ok(None) }
    }

    /// Whether the experiment of a folder is a live one.
    pub fn is(folder: &Folder) -> bool {
        let text = folder.file("experiment.toml").and_then(|bytes| std::str::from_utf8(bytes).ok());
        let table = text.and_then(|text| text.parse::<toml::Table>().ok());
        table.is_some_and(|table| table.get("kind").and_then(toml::Value::as_str) == Some("live"))
    }

    /// Reads a folder and checks it.
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
                return wrong(format!("row \"{name}\" is there twice"));
            }
            if !PATHS.contains(&row.path.as_str()) {
                return wrong(format!("row \"{name}\": path is one of {}", PATHS.join(", ")));
            }
            if !["device", "in-process"].contains(&row.how.as_str()) {
                return wrong(format!("row \"{name}\": how is device or in-process"));
            }
            let served = !matches!(&*row.path, "loop" | "lio-file" | "lio-ramdisk");
            let in_process = row.how == "in-process";
            if served != (row.sockets > 0) || in_process != (row.jobs == 0) || (in_process && !served) {
                return wrong(format!(
                    "row \"{name}\": servers have sockets, devices have jobs, and nothing else has them"
                ));
            }
        }
        if !rows.iter().any(|row| row.name == *reference) {
            return wrong(format!("reference: there is no row \"{reference}\""));
        }
        for settings in [machine, guest] {
            if [settings.device, settings.size, settings.runtime, settings.repeats].contains(&0) {
                return wrong(
                    "[machine] and [guest]: device, size, runtime and repeats are at least 1".into(),
                );
            }
        }
        match self.published.iter().find(|row| !rows.iter().any(|one| one.name == row.name)) {
            Some(row) => Err(("published.toml", format!("the experiment has no row \"{}\"", row.name))),
            None => Ok(()),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.folder.name
    }
    /// What is compared with what, in a line.
    pub fn title(&self) -> &str {
        &self.definition.title
    }
    /// Where the published figures come from.
    pub fn source(&self) -> &str {
        &self.definition.source
    }
    /// What fio is told in all rows.
    pub fn options(&self) -> &str {
        &self.definition.options
    }
    /// The row that the others are compared with.
    pub fn reference(&self) -> &str {
        &self.definition.reference
    }
    /// Its rows, in order.
    pub fn rows(&self) -> &[LiveRow] {
        &self.definition.rows
    }
    /// How large and how long, on a machine or in a guest.
    pub fn settings(&self, guest: bool) -> LiveSettings {
        if guest { self.definition.guest } else { self.definition.machine }
    }
    /// What was published of a row.
    pub fn published(&self, row: &str) -> Option<&PublishedPath> {
        self.published.iter().find(|published| published.name == row)
    }
    /// A script of its folder.
    pub fn script(&self, name: &str) -> Result<&[u8], ExperimentError> {
        let missing = || ExperimentError::Wrong {
            path: self.folder.path_of(name),
            what: "the file is missing".to_owned(),
        };
        self.folder.file(name).ok_or_else(missing)
    }
}
