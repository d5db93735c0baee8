//! Experiments: simulations whose results are compared with published figures.
//!
//! [`Experiment::open`] reads a folder of the library or of the disk. [`Experiment::run`] returns
//! [`Results`]. A cell is fitted if the source of a number in a profile names the cell, or if the experiment
//! itself fits a number on the cell, as [`Kind::Rootfs`] does.

mod assemble;
mod bounds;
mod definition;
pub(crate) mod digest;
mod endurance;
mod error;
mod gc;
mod live;
pub(crate) mod map_parallel;
mod matrix;
mod measured;
#[cfg(feature = "fit")]
mod measurements;
mod names;
mod part;
mod pattern;
#[cfg(feature = "fit")]
mod place;
mod published;
mod recorded;
mod rootfs;
mod sweep;
mod tiering;
mod undetermined;
mod volume;
mod wear;

pub use definition::{Definition, Kind};
pub use endurance::{EnduranceSettings, EnduranceWorkload};
pub use error::ExperimentError;
pub use gc::Settings as GcSettings;
pub use live::{Live, LiveRow, LiveSettings, PublishedPath};
#[cfg(feature = "fit")]
pub use measurements::ENGINE_PUBLISHED;
pub use pattern::{CellPattern, cell_name};
#[cfg(feature = "fit")]
pub(crate) use place::{MatrixPlace, NumbersByKey};
pub use recorded::{RecordedFilesystem, RecordedWorkload, Settings as RecordedSettings};
pub use rootfs::{RootImage, Settings as RootfsSettings};
pub use tiering::{
    Layout as TieringLayout, Load as TieringLoad, Prices as TieringPrices, Settings as TieringSettings,
};
pub use volume::{CodecSettings, CompressionSettings, LayoutSettings, Settings as VolumeSettings};

use crate::progress::Progress;
use crate::results::{Answer, DeviceStatistics, Parameter, Purchase, Reference, Results, Series, WearMap};
use definition::Step;
use flashlab_catalogue::device::{Device, Filesystem};
use flashlab_catalogue::library::{Folder, Library, LibraryError, read_file};
use flashlab_catalogue::units::clip;
use flashlab_fio::cmdline::Invocation;
use flashlab_fio::job::Job;
use measured::MeasuredCell;
use published::PublishedTables;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use undetermined::OtherValue;

/// A parsed and checked experiment.
#[derive(Clone, Debug)]
pub struct Experiment {
    folder: Folder,
    /// The folder on disk, to which paths in the definition are relative; empty for an experiment of the library.
    base: PathBuf,
    definition: Definition,
    published: PublishedTables,
    endurance: EnduranceSettings,
    /// A value that replaces an undetermined number in this run.
    other_value: Option<OtherValue>,
    /// True if only some of the columns run.
    is_part: bool,
}

/// The result of running an experiment of any kind.
#[derive(Default)]
struct Outcome {
    /// The devices and the cells that each of them determines.
    devices: Vec<Place>,
    filesystems: Vec<Filesystem>,
    /// Free parameters that the experiment has in addition to those of its devices.
    parameters: Vec<Parameter>,
    cells: Vec<MeasuredCell>,
    /// Figures from theory, by the name of the cell that is compared with them.
    references: BTreeMap<String, Reference>,
    wear: Vec<WearMap>,
    series: Vec<Series>,
    statistics: Vec<DeviceStatistics>,
    notes: Vec<String>,
    /// Comparisons of choices, for experiments that have them.
    answers: Vec<Answer>,
    /// Choices of drives, for experiments that have them.
    purchases: Vec<Purchase>,
}

/// A device and the cells that it determines.
#[derive(Clone)]
struct Place {
    column: String,
    /// Row of the cells; `None` if the device determines all rows of its column.
    row: Option<String>,
    device: Device,
}

impl Place {
    /// Returns the place of a device that determines all rows of `column`.
    fn of_column((column, device): (String, Device)) -> Place {
        Place { column, row: None, device }
    }

    /// Returns the row; empty if the device determines all rows.
    fn row(&self) -> &str {
        self.row.as_deref().unwrap_or_default()
    }

    fn gives(&self, cell: &MeasuredCell) -> bool {
        self.column == cell.column && self.row.as_ref().is_none_or(|row| *row == cell.row)
    }
}

impl Experiment {
    /// Opens the experiment of this name in the library, or the experiment in a folder on disk: `./mine`,
    /// `./mine/experiment.toml`. Paths of profiles and states in a definition on disk are relative to its folder.
    pub fn open(name: &str, library: &Library) -> Result<Experiment, ExperimentError> {
        let folder = find(name, library)?;
        if Live::is(&folder) {
            return Err(ExperimentError::Live(folder.name));
        }
        let (definition, published) = definition::read(&folder)?;
        let endurance = EnduranceSettings::default();
        let base = library.experiment(name).is_err().then(|| on_disk(name)).flatten().unwrap_or_default();
        Ok(Experiment { folder, base, definition, published, endurance, other_value: None, is_part: false })
    }

    /// Returns the name of the experiment.
    pub fn name(&self) -> &str {
        &self.folder.name
    }
    /// Returns the subject of the comparison, in one line.
    pub fn title(&self) -> &str {
        &self.definition.title
    }
    /// Returns the kind of the experiment.
    pub fn kind(&self) -> Kind {
        self.definition.kind
    }

    /// Returns the paths of the files that a run reads from disk: the files of the folder, and the profiles
    /// and states of its devices. The values of all settings of a device count as paths, so some of the paths
    /// are not files.
    pub fn paths_read(&self) -> Vec<PathBuf> {
        let columns = self.definition.columns.values().filter_map(toml::Value::as_str);
        let rows = self.definition.rows.iter().map(|row| row.keys.as_str());
        let filesystems = self.definition.steps.iter().filter_map(|step| step.filesystem.as_deref());
        let words = columns.chain(rows).chain(filesystems).flat_map(|text| text.split([':', ',', '=']));
        self.folder.paths().chain(words.map(|word| self.base.join(word))).collect()
    }

    /// Replaces the workload, the devices, the number of media and the budget of an experiment of kind
    /// [`Kind::Endurance`] with the user's.
    ///
    /// # Panics
    /// Panics if the experiment is of another kind.
    pub fn set_endurance(&mut self, settings: EnduranceSettings) {
        assert_eq!(
            self.kind(),
            Kind::Endurance,
            "only experiments of kind endurance have a workload that can be replaced"
        );
        self.endurance = settings;
    }

    /// Runs the experiment on the medium of `seed`. If `progress` is stopped, the run ends without results.
    pub fn run(&self, library: &Library, seed: u64, progress: &Progress) -> Result<Results, ExperimentError> {
        self.check_names_early()?;
        let mut outcome = self.outcome(library, seed, progress)?;
        self.check_names(&outcome)?;
        self.mark_undetermined(&mut outcome, library, seed, progress)?;
        Ok(self.results(outcome, seed))
    }

    fn outcome(&self, library: &Library, seed: u64, progress: &Progress) -> Result<Outcome, ExperimentError> {
        match self.definition.kind {
            Kind::Matrix => matrix::run(self, library, seed, progress),
            Kind::Sweep => sweep::run(self, library, seed, progress),
            Kind::Wear => wear::run(self, library, seed, progress),
            Kind::Endurance => endurance::run(self, library, seed, progress),
            Kind::Gc => gc::run(self, seed, progress),
            Kind::Recorded => recorded::run(self, library, seed, progress),
            Kind::Rootfs => rootfs::run(self, library, seed, progress),
            #[cfg(feature = "volume")]
            Kind::Volume => volume::run(self, library, seed, progress),
            #[cfg(feature = "volume")]
            Kind::Tiering => tiering::run(self, library, seed, progress),
            #[cfg(not(feature = "volume"))]
            Kind::Volume | Kind::Tiering => Err(ExperimentError::NeedsFeature("volume")),
        }
    }

    fn read_job(&self, step: &str, line: &str) -> Result<Vec<Job>, ExperimentError> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let read = Invocation::parse(&words, &flashlab_fio::loader::NoFiles);
        read.map(|invocation| invocation.jobs)
            .map_err(|error| ExperimentError::Job { place: self.step_place(step), error })
    }

    /// Returns the place of a step in the file. The jobs of `preparation` and `endurance` have sections of their own.
    fn step_place(&self, step: &str) -> String {
        let place = match step {
            "preparation" | "endurance" => format!("[{step}]"),
            step => format!("step \"{step}\""),
        };
        format!("{}: {place}", self.folder.path_of("experiment.toml"))
    }

    /// Opens the filesystem of a step with additional keys.
    fn filesystem(
        &self,
        step: &Step,
        keys: &str,
        library: &Library,
    ) -> Result<Option<Filesystem>, ExperimentError> {
        let open = |name: &String| Filesystem::open_in(&self.base, &with_keys(name, keys), library);
        let filesystem = step.filesystem.as_ref().map(open).transpose();
        let mut filesystem = filesystem
            .map_err(|error| ExperimentError::Device { place: self.step_place(&step.table), error })?;
        if let Some(filesystem) = &mut filesystem {
            filesystem.set_override_sources(&self.definition.sources);
        }
        Ok(filesystem)
    }

    /// Opens the device of a column with additional keys.
    fn device(&self, column: &str, keys: &str, library: &Library) -> Result<Device, ExperimentError> {
        let device = self.definition.columns[column].as_str().expect("checked when the experiment was read");
        let opened = Device::open_in(&self.base, &with_keys(device, keys), library);
        let mut device = opened.map_err(|error| {
            let place = format!("{}: column {column}", self.folder.path_of("experiment.toml"));
            ExperimentError::Device { place, error }
        })?;
        if let Some(other) = &self.other_value {
            device = other.apply_to(device, library);
        }
        device.set_override_sources(&self.definition.sources);
        Ok(device)
    }

    /// Opens the devices of all columns.
    fn columns(&self, library: &Library) -> Result<Vec<(String, Device)>, ExperimentError> {
        let columns = self.definition.columns.keys();
        columns.map(|column| Ok((column.clone(), self.device(column, "", library)?))).collect()
    }

    /// Returns the inputs of a run that are neither in the two TOML files nor among the devices' numbers.
    /// These inputs enter the hash of inputs too.
    fn further_inputs(&self, devices: &[&Device]) -> Vec<String> {
        let states = devices.iter().filter_map(|device| device.state.as_ref()).map(|state| state.checksum());
        let mut inputs: Vec<String> = states.collect();
        if let Some(workload) = &self.endurance.workload {
            inputs.push(flashlab_catalogue::digest::of_bytes(&workload.bytes));
            inputs.extend(workload.traces.iter().map(|(name, trace)| format!("{name} {}", trace.digest())));
        }
        inputs.extend(self.endurance.seeds.map(|seeds| seeds.to_string()));
        inputs.extend(self.endurance.budget.map(|budget| format!("budget {budget}")));
        if self.is_part {
            inputs.extend(self.definition.columns.keys().map(|column| format!("column {column}")));
        }
        let recordings = self.folder.files.iter().filter(|(name, _)| name.ends_with(".rec"));
        inputs.extend(recordings.map(|(_, bytes)| flashlab_catalogue::digest::of_bytes(bytes)));
        inputs
    }
}

/// Returns the argument of a device or filesystem with additional keys.
fn with_keys(argument: &str, keys: &str) -> String {
    let separator = match (keys.is_empty(), argument.contains(':')) {
        (true, _) => "",
        (false, true) => ",",
        (false, false) => ":",
    };
    format!("{argument}{separator}{keys}")
}

/// Finds the folder of an experiment, in the library or on disk.
fn find(name: &str, library: &Library) -> Result<Folder, ExperimentError> {
    match (library.experiment(name), on_disk(name)) {
        (Ok(folder), _) => Ok(folder.clone()),
        (Err(_), Some(path)) => read_folder(&path).map_err(ExperimentError::Library),
        (Err(_), None) if Path::new(name).is_dir() => Err(ExperimentError::NoDefinition(clip(name))),
        (Err(_), None) if name.contains(['/', '\\']) || name.starts_with('.') => {
            Err(ExperimentError::NoFolder(clip(name)))
        }
        (Err(unknown), None) => Err(ExperimentError::Unknown(unknown)),
    }
}

/// Returns the folder on disk with `experiment.toml` that `name` refers to.
fn on_disk(name: &str) -> Option<PathBuf> {
    let path = Path::new(name);
    let folder = if path.ends_with("experiment.toml") { path.parent()? } else { path };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    folder.join("experiment.toml").is_file().then(|| folder.to_owned())
}

fn read_folder(path: &Path) -> Result<Folder, LibraryError> {
    let whole = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let name = whole.file_name().map_or("experiment".into(), |name| name.to_string_lossy().into_owned());
    let mut files = BTreeMap::new();
    for file in ["experiment.toml", "published.toml", "README.md", "paths.sh", "guest.sh"] {
        if path.join(file).is_file() {
            files.insert(file.to_owned(), read_file(&path.join(file))?);
        }
    }
    let recordings = path.join("recordings");
    let unreadable = |error: std::io::Error| LibraryError::CannotRead {
        path: recordings.display().to_string(),
        why: error.to_string(),
    };
    let entries = match std::fs::read_dir(&recordings) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        entries => Some(entries.map_err(unreadable)?),
    };
    for entry in entries.into_iter().flatten() {
        let entry = entry.map_err(unreadable)?;
        if entry.path().extension().is_some_and(|extension| extension == "rec") {
            let name = format!("recordings/{}", entry.file_name().to_string_lossy());
            files.insert(name, read_file(&entry.path())?);
        }
    }
    Ok(Folder { name, path: path.display().to_string(), files })
}
