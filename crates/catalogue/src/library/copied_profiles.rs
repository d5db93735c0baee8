//! Detection of copied profiles: profiles with numbers that were fitted on the cells of another device.
//!
//! Devices of one experiment may share a number that was fitted on the cells of all of them. A number counts
//! as copied if experiments of the library contain one of its cells, and the profile takes part in none of
//! these experiments. A profile whose title, model and number are those of a participant also takes part. A
//! cell that belongs to no experiment of the library proves nothing.

use super::{Folder, Library, LibraryError};
use crate::profile::{Kind, Mistake, Number, Problem, Profile, ProfileError, Source};
use serde::Deserialize;

/// The part of `experiment.toml` that determines the names of its cells. The experiment's own parser checks the other
/// keys.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Cells {
    #[serde(skip)]
    experiment: String,
    #[serde(default)]
    columns: toml::Table,
    #[serde(default, rename = "row")]
    rows: Vec<Row>,
    #[serde(default, rename = "step")]
    steps: Vec<Step>,
}

#[derive(Clone, Debug, Deserialize)]
struct Row {
    #[serde(default)]
    keys: String,
}

#[derive(Clone, Debug, Deserialize)]
struct Step {
    table: String,
    filesystem: Option<String>,
}

impl Cells {
    /// Reads the cells of an experiment; `None` if its `experiment.toml` cannot be parsed.
    pub(super) fn of(folder: &Folder) -> Option<Cells> {
        let text = std::str::from_utf8(folder.file("experiment.toml")?).ok()?;
        let cells: Cells = toml::from_str(text).ok()?;
        Some(Cells { experiment: folder.name.clone(), ..cells })
    }

    /// Returns the argument of the device that the cell belongs to: `sd/kingston` for `raw write 1M/kingston`.
    fn device_of(&self, cell: &str) -> Option<&str> {
        let (table, column) = cell.rsplit_once('/')?;
        let device = self.columns.get(column)?.as_str()?;
        let is_of = |step: &Step| {
            table.strip_prefix(&step.table).is_some_and(|row| row.is_empty() || row.starts_with(' '))
        };
        self.steps.iter().any(is_of).then_some(device)
    }

    /// Returns the names, with folder, of the profiles of `kind` that the experiment uses.
    fn participants(&self, kind: Kind, library: &Library) -> Vec<String> {
        let name = |argument: &str| argument.split(':').next().unwrap_or_default().to_owned();
        let devices = || self.columns.values().filter_map(|device| device.as_str());
        let named = |argument: String| format!("{}{argument}", kind.omitted_folder());
        if kind.is_device() {
            devices().map(name).collect()
        } else if kind.is_host() {
            let own = devices().filter_map(|device| library.device(&name(device)).ok()?.host.as_deref());
            let keys = devices().chain(self.rows.iter().map(|row| row.keys.as_str()));
            let keys = keys.flat_map(|keys| keys.split([':', ',']));
            let given = keys.filter_map(|key| key.strip_prefix("host="));
            own.chain(given).map(|host| named(host.to_owned())).collect()
        } else {
            let filesystems = self.steps.iter().filter_map(|step| step.filesystem.as_deref());
            filesystems.map(|argument| named(name(argument))).collect()
        }
    }
}

impl Library {
    /// Rejects `profile` if its numbers were fitted for another device. `name` includes the folder:
    /// `host/raspberry-pi-4`.
    pub(crate) fn check_fitted_cells(&self, name: &str, profile: &Profile) -> Result<(), LibraryError> {
        let mistakes = profile.numbers.iter().filter_map(|number| {
            let Source::Fitted(fitted_on) = &number.source else { return None };
            let (cell, experiment, of) =
                fitted_on.iter().find_map(|cell| self.fitted_device(name, profile, number, cell))?;
            let path = number.parameter.path;
            let problem = Problem::FittedElsewhere { path, cell: cell.to_owned(), experiment, of };
            Some(Mistake { place: profile.text.place(number.span.clone()), problem })
        });
        let mistakes: Vec<Mistake> = mistakes.collect();
        if mistakes.is_empty() { Ok(()) } else { Err(LibraryError::Profile(ProfileError { mistakes })) }
    }

    /// Returns the cell, an experiment that contains it, and the profile that the number was fitted for. Returns `None`
    /// if `profile` takes part in such an experiment, or if no experiment contains the cell.
    fn fitted_device<'c>(
        &self,
        name: &str,
        profile: &Profile,
        number: &Number,
        cell: &'c str,
    ) -> Option<(&'c str, String, String)> {
        let mut fitted_device = None;
        for cells in &self.cells {
            let Some(device) = cells.device_of(cell) else { continue };
            let participants = cells.participants(profile.kind, self);
            let is_same = |other: &str| {
                let other = self.profiles.get(other);
                other.is_some_and(|other| {
                    (&other.title, &other.model) == (&profile.title, &profile.model)
                        && other.number(number.parameter.path) == Some(number)
                })
            };
            if participants.iter().any(|other| other == name || is_same(other)) {
                return None;
            }
            let of = if profile.kind.is_device() {
                device.split(':').next().map(str::to_owned)
            } else {
                participants.first().cloned()
            };
            fitted_device = fitted_device.or(of.map(|of| (cell, cells.experiment.clone(), of)));
        }
        fitted_device
    }
}
