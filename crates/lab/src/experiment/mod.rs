//! Experiments: what is compared with what, run and judged.
//!
//! [`Experiment::open`] reads a folder of the library, [`Experiment::run`] gives [`Results`]. Which cells are fitted is
//! not said by the experiment: a cell is fitted if a number of a profile names it as what it was fitted on.

mod bounds;
mod definition;
mod digest;
mod error;
mod matrix;
mod pattern;
pub(crate) mod side_by_side;

pub use definition::{Definition, Kind};
pub use error::ExperimentError;
pub use pattern::{CellPattern, cell_name};

use crate::device::{Device, Filesystem, free_parameters};
use crate::library::{Folder, Library, LibraryError, read_file};
use crate::results::{Bound, Cell, Figure, Mechanisms, Published, Results, Role, Tail};
use definition::{Metric, PublishedTables, Step};
use flashlab_fio::cmdline::Invocation;
use flashlab_fio::job::Job;
use flashlab_sim::{Histogram, Mechanism};
use matrix::{Measured, MeasuredCell, Place, ReadyStep};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Somebody who watches an experiment run, from several threads.
pub trait Watch: Sync {
    /// One run of one cell is done.
    fn ran(&self) {}
    /// Whether the experiment should stop without results.
    fn stopped(&self) -> bool {
        false
    }
}

/// Nobody.
impl Watch for () {}

/// An experiment, read and checked.
#[derive(Clone, Debug)]
pub struct Experiment {
    folder: Folder,
    definition: Definition,
    published: PublishedTables,
}

impl Experiment {
    /// The experiment of this name in the library, or the one of a folder on disk: `./mine`, `./mine/experiment.toml`.
    pub fn open(name: &str, library: &Library) -> Result<Experiment, ExperimentError> {
        let folder = match (library.experiment(name), on_disk(name)) {
            (Ok(folder), _) => folder.clone(),
            (Err(_), Some(path)) => read_folder(&path).map_err(ExperimentError::Library)?,
            (Err(unknown), None) => return Err(ExperimentError::Unknown(unknown)),
        };
        let (definition, published) = definition::read(&folder)?;
        Ok(Experiment { folder, definition, published })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.folder.name
    }
    /// What is compared with what, in a line.
    pub fn title(&self) -> &str {
        &self.definition.title
    }
    /// How often [`Watch::ran`] will be called.
    pub fn runs(&self) -> u64 {
        let places = |step: &Step| {
            let columns = step.columns.as_ref().map_or(self.definition.columns.len(), Vec::len);
            let rows = step.rows.as_ref().map_or(self.definition.rows.len().max(1), Vec::len);
            (columns * rows) as u64
        };
        self.definition.steps.iter().map(places).sum::<u64>() * u64::from(self.definition.runs)
    }

    /// Runs it on the medium of `seed`.
    pub fn run(&self, library: &Library, seed: u64, watch: &dyn Watch) -> Result<Results, ExperimentError> {
        let definition = &self.definition;
        let preparation = definition.preparation.iter().map(|p| self.read_job("preparation", &p.job));
        let preparation = preparation.collect::<Result<Vec<_>, _>>()?;
        let mut steps = Vec::new();
        for step in &definition.steps {
            let filesystem = step.filesystem.as_ref().map(|name| Filesystem::open(name, library)).transpose();
            let filesystem = filesystem
                .map_err(|error| ExperimentError::Device { place: self.step_place(&step.table), error })?;
            steps.push(ReadyStep { step, jobs: self.read_job(&step.table, &step.job)?, filesystem });
        }
        let places = self.places(library)?;

        let measured = matrix::run(definition, &preparation, &steps, &places, seed, watch)?;
        let devices: Vec<&Device> = places.iter().map(|place| &place.device).collect();
        let mut filesystems: Vec<&Filesystem> = Vec::new();
        for filesystem in steps.iter().filter_map(|s| s.filesystem.as_ref()) {
            if !filesystems.iter().any(|f| f.argument == filesystem.argument) {
                filesystems.push(filesystem);
            }
        }
        Ok(self.results(&devices, &filesystems, &measured, seed))
    }

    fn step_place(&self, step: &str) -> String {
        format!("{}: step \"{step}\"", self.folder.path_of("experiment.toml"))
    }

    fn read_job(&self, step: &str, line: &str) -> Result<Vec<Job>, ExperimentError> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let read = Invocation::parse(&words, &flashlab_fio::loader::Nothing);
        read.map(|invocation| invocation.jobs)
            .map_err(|error| ExperimentError::Job { place: self.step_place(step), error })
    }

    fn places(&self, library: &Library) -> Result<Vec<Place>, ExperimentError> {
        let nameless = [definition::Row { name: String::new(), keys: String::new() }];
        let rows = if self.definition.rows.is_empty() { &nameless[..] } else { &self.definition.rows };
        let mut places = Vec::new();
        for row in rows {
            for (column, device) in &self.definition.columns {
                let device = device.as_str().expect("checked when the experiment was read");
                let separator = match (row.keys.is_empty(), device.contains(':')) {
                    (true, _) => "",
                    (false, true) => ",",
                    (false, false) => ":",
                };
                let device = Device::open(&format!("{device}{separator}{}", row.keys), library);
                let device = device.map_err(|error| {
                    let place = format!("{}: column {column}", self.folder.path_of("experiment.toml"));
                    ExperimentError::Device { place, error }
                })?;
                places.push(Place { column: column.clone(), row: row.name.clone(), device });
            }
        }
        Ok(places)
    }

    fn results(
        &self,
        devices: &[&Device],
        filesystems: &[&Filesystem],
        measured: &[MeasuredCell],
        seed: u64,
    ) -> Results {
        let parameters = free_parameters(devices, filesystems);
        let fitted: Vec<&String> = parameters.iter().flat_map(|p| &p.fitted_on).collect();
        let ordered = self.in_published_order(measured);
        let cells: Vec<Cell> = ordered.iter().map(|cell| self.cell(cell, &fitted)).collect();
        let mut bounds: Vec<Bound> =
            self.definition.bounds.iter().map(|b| bounds::judge(b, &cells)).collect();
        if let Some(at_most) = self.definition.parameters.at_most {
            bounds.push(Bound {
                name: "free parameters, fitted and chosen".into(),
                limit: format!("{at_most} in all"),
                cells: Vec::new(),
                worst_cell: format!("for {} cells", cells.len()),
                worst: parameters.len() as f64,
                held: parameters.len() <= at_most,
            });
        }
        let named = |cell: &&MeasuredCell| cell_name(&cell.table, &cell.row, &cell.column);
        let mut shown: Vec<crate::results::Device> = Vec::new();
        for report in devices.iter().map(|d| d.report()).chain(filesystems.iter().map(|f| f.report())) {
            if !shown.iter().any(|s| s.name == report.name) {
                shown.push(report);
            }
        }
        let numbers: Vec<String> = shown
            .iter()
            .flat_map(|device| {
                device.numbers.iter().map(|n| format!("{} {} {}", device.name, n.path, n.value))
            })
            .collect();
        Results {
            experiment: self.folder.name.clone(),
            title: self.definition.title.clone(),
            seed,
            version: env!("CARGO_PKG_VERSION").into(),
            inputs: digest::of_inputs(&self.folder, &numbers, seed),
            digest: digest::of_cells(ordered.iter().map(|cell| (named(cell), cell.runs.as_slice()))),
            parameters,
            cells,
            bounds,
            devices: shown,
            notes: self.notes(),
            ..Results::default()
        }
    }

    /// Tables in the order in which they were published, rows as published, columns as the experiment has them.
    fn in_published_order<'a>(&self, measured: &'a [MeasuredCell]) -> Vec<&'a MeasuredCell> {
        let mut ordered: Vec<&MeasuredCell> = measured.iter().collect();
        let place = |cell: &MeasuredCell| {
            let same = |t: &definition::PublishedTable| t.name == cell.table && t.row == cell.row;
            let table = self.published.tables.iter().position(same);
            let column = self.definition.columns.keys().position(|c| *c == cell.column);
            (table.unwrap_or(usize::MAX), column)
        };
        ordered.sort_by_key(|cell| place(cell));
        ordered
    }

    fn cell(&self, cell: &MeasuredCell, fitted: &[&String]) -> Cell {
        let step =
            self.definition.steps.iter().find(|s| s.table == cell.table).expect("it was measured in a step");
        let published = self.published.cell(&cell.table, &cell.row, &cell.column).map(|(figure, _)| figure);
        let figures: Vec<f64> = cell.runs.iter().map(|run| figure(run, step)).collect();
        let simulated = Figure { mean: mean(&figures), sd: deviation(&figures) };
        let name = cell_name(&cell.table, &cell.row, &cell.column);
        let role = match step.role {
            Some(role) => role.into(),
            None if fitted.iter().any(|f| **f == name) => Role::Fitted,
            None => Role::Predicted,
        };
        let error_percent = match published {
            Some(Published::Figure { mean, .. }) if mean != 0.0 => {
                Some(100.0 * (simulated.mean - mean) / mean)
            }
            _ => None,
        };
        let requests = cell.runs.iter().map(|run| run.requests).sum::<u64>();
        let totals: Vec<u64> = (0..Mechanism::ALL.len())
            .map(|i| cell.runs.iter().map(|run| run.mechanisms_ns[i]).sum())
            .collect();
        let a_request = |ns: u64| ns as f64 / requests.max(1) as f64;
        let names = Mechanism::ALL.map(Mechanism::name);
        Cell {
            table: cell.table.clone(),
            row: cell.row.clone(),
            column: cell.column.clone(),
            unit: step.unit.clone(),
            published,
            simulated,
            role,
            error_percent,
            requests,
            latency_ns_mean: a_request(cell.runs.iter().map(|run| run.latency_ns).sum()),
            mechanisms: Mechanisms(names.into_iter().zip(totals.iter().map(|ns| a_request(*ns))).collect()),
            mechanism_ns_totals: Mechanisms(names.into_iter().zip(totals.iter().copied()).collect()),
            tail: tail(cell),
        }
    }

    /// The paragraphs of the README behind its first heading, without their marks.
    fn notes(&self) -> Vec<String> {
        let text = self
            .folder
            .file("README.md")
            .and_then(|bytes| std::str::from_utf8(bytes).ok())
            .unwrap_or_default();
        let paragraphs = text.split("\n\n").map(|p| p.split_whitespace().collect::<Vec<_>>().join(" "));
        paragraphs.filter(|p| !p.is_empty() && !p.starts_with("# ") && !p.starts_with('|')).collect()
    }
}

/// The folder with `experiment.toml` that `name` is a path of.
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
    for file in ["experiment.toml", "published.toml", "README.md"] {
        if path.join(file).is_file() {
            files.insert(file.to_owned(), read_file(&path.join(file))?);
        }
    }
    Ok(Folder { name, path: path.display().to_string(), files })
}

/// The figure of one run in the step's unit.
fn figure(run: &Measured, step: &Step) -> f64 {
    let seconds = run.runtime_ms.max(1) as f64 / 1e3;
    match (step.metric, step.unit.as_str()) {
        (Metric::Throughput, "IOPS") => run.requests as f64 / seconds,
        (Metric::Throughput, unit) => run.bytes as f64 / seconds / bytes_of(unit),
        (Metric::Commands, _) => run.counted as f64,
        (Metric::BytesACommand, unit) => run.counted as f64 / bytes_of(unit),
    }
}

/// Bytes of the unit before a `/s`; 1 for `B/s`.
fn bytes_of(unit: &str) -> f64 {
    match unit.split('/').next() {
        Some("KiB") => 1_024.0,
        Some("MiB") => 1_048_576.0,
        _ => 1.0,
    }
}

fn tail(cell: &MeasuredCell) -> Option<Tail> {
    let mut writes = Histogram::new();
    cell.runs.iter().for_each(|run| writes.merge(&run.writes));
    let tail = flashlab_fio::stats::Tail::of(&writes)?;
    Some(Tail {
        p99_ns: tail.p99.as_ns(),
        p99_9_ns: tail.p99_9.as_ns(),
        max_ns: tail.max.as_ns(),
        logger_buffer_bytes: cell.logger_bytes.unwrap_or(0),
    })
}

fn mean(figures: &[f64]) -> f64 {
    figures.iter().sum::<f64>() / figures.len() as f64
}

/// The sample standard deviation; 0 of a single run.
fn deviation(figures: &[f64]) -> f64 {
    if figures.len() < 2 {
        return 0.0;
    }
    let mean = mean(figures);
    let squares: f64 = figures.iter().map(|x| (x - mean) * (x - mean)).sum();
    (squares / (figures.len() - 1) as f64).sqrt()
}
