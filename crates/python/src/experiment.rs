//! Experiments and their results.

use crate::arrow::Table;
use crate::error::{error, not_pickled};
use crate::figures::{known, mechanisms};
use crate::interrupt;
use crate::library::LibraryHandle;
use crate::notebook::framed;
use crate::result::loads;
use flashlab_lab::experiment::Experiment as Opened;
use flashlab_lab::results::{self, Published, Results, Role};
use flashlab_report::{csv, html, json, terminal};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyType};
use std::path::PathBuf;
use std::sync::Arc;

/// An experiment: a simulation whose results are compared with published figures.
///
/// ``name`` is one of ``experiments()``, or the path of a folder with an experiment.
#[pyclass(frozen, module = "flashlab")]
pub(crate) struct Experiment {
    opened: Opened,
    /// Name or path with which it was opened.
    place: String,
    library: LibraryHandle,
}

#[pymethods]
impl Experiment {
    #[new]
    #[pyo3(signature = (name, *, library = None))]
    fn new(py: Python<'_>, name: &str, library: Option<PathBuf>) -> PyResult<Experiment> {
        py.detach(|| {
            let library = LibraryHandle::open(library)?;
            let opened = Opened::open(name, library.get()).map_err(error)?;
            Ok(Experiment { opened, place: name.to_owned(), library })
        })
    }

    /// Name of the experiment.
    #[getter]
    fn name(&self) -> &str {
        self.opened.name()
    }
    /// Subject of the comparison, in one line.
    #[getter]
    fn title(&self) -> &str {
        self.opened.title()
    }

    /// Run the experiment on the medium of ``seed``. The digest is that of ``flashlab run``.
    #[pyo3(signature = (*, seed = 1))]
    fn run(&self, py: Python<'_>, seed: u64) -> PyResult<ExperimentResult> {
        let results =
            interrupt::run_on_thread(py, |progress| self.opened.run(self.library.get(), seed, progress))?;
        let command = format!("flashlab.Experiment({:?}).run(seed={seed})", self.place);
        Ok(ExperimentResult { results: Arc::new(results.map_err(error)?), command })
    }

    fn __repr__(&self) -> String {
        format!("Experiment({:?})", self.opened.name())
    }
}

/// Results of an experiment.
#[pyclass(frozen, module = "flashlab")]
pub(crate) struct ExperimentResult {
    results: Arc<Results>,
    /// Call that made the results, for the page.
    command: String,
}

#[pymethods]
impl ExperimentResult {
    /// Name of the experiment.
    #[getter]
    fn experiment(&self) -> &str {
        &self.results.experiment
    }
    /// Seed of the medium.
    #[getter]
    fn seed(&self) -> u64 {
        self.results.seed
    }
    /// First 16 hexadecimal digits of the SHA-256 over the canonical cells.
    #[getter]
    fn digest(&self) -> &str {
        &self.results.digest
    }
    /// First 16 hexadecimal digits of the SHA-256 over the inputs: the experiment's TOML files, the devices' numbers, the
    /// seed, and other inputs of the run, such as saved states, jobs and recordings.
    #[getter]
    fn inputs(&self) -> &str {
        &self.results.inputs
    }
    /// The compared figures.
    #[getter]
    fn cells(&self) -> Vec<Cell> {
        (0..self.results.cells.len()).map(|number| Cell { results: self.results.clone(), number }).collect()
    }
    /// Bounds that the experiment declares and that the results miss: the name of each, its limit and its worst cell.
    #[getter]
    fn missed_bounds(&self) -> Vec<(&str, &str, &str)> {
        let missed = self.results.bounds.iter().filter(|bound| !bound.held);
        missed.map(|bound| (bound.name.as_str(), bound.limit.as_str(), bound.worst_cell.as_str())).collect()
    }
    /// Notes on the whole experiment.
    #[getter]
    fn notes(&self) -> Vec<&str> {
        self.results.notes.iter().map(String::as_str).collect()
    }

    /// Return the JSON of ``flashlab run --format json``.
    fn json(&self) -> String {
        json::results(&self.results)
    }
    /// Return the contents of ``json`` as dictionaries and lists.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        loads(py, &self.json())
    }
    /// Return one line of CSV per cell.
    fn csv(&self) -> String {
        csv::cells(&self.results)
    }
    /// Return the tables of ``flashlab run``, at most ``width`` columns wide, but at least 20.
    #[pyo3(signature = (width = 100))]
    fn table(&self, width: usize) -> String {
        terminal::table(&self.results, width, false)
    }
    /// Return the page of ``flashlab run``.
    fn html(&self) -> String {
        html::page(&self.results, &self.command)
    }

    fn _repr_html_(&self) -> String {
        framed(&self.html())
    }

    /// Return the table of the cells.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The protocol lets a producer ignore the request.
        let _ = requested_schema;
        let rows = &self.results.cells;
        let mut table = Table::default();
        table.texts("table", rows.iter().map(|row| &row.table));
        table.texts("row", rows.iter().map(|row| &row.row));
        table.texts("column", rows.iter().map(|row| &row.column));
        table.texts("unit", rows.iter().map(|row| &row.unit));
        table.texts("role", rows.iter().map(|row| row.role.name()));
        table.figures("simulated", rows.iter().map(|row| row.simulated.mean));
        table.figures("simulated_sd", rows.iter().map(|row| row.simulated.sd));
        table.optional_figures("published", rows.iter().map(published));
        table.optional_figures("error_percent", rows.iter().map(|row| row.error_percent));
        table.counts("requests", rows.iter().map(|row| row.requests));
        table.figures("latency_ns_mean", rows.iter().map(|row| row.latency_ns_mean));
        table.mechanisms(&rows.iter().map(|row| &row.mechanisms.0[..]).collect::<Vec<_>>());
        table.stream(py)
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(not_pickled("ExperimentResult", "result.to_dict()"))
    }

    fn __repr__(&self) -> String {
        let Results { experiment, seed, digest, cells, .. } = &*self.results;
        format!("ExperimentResult({experiment:?}, seed={seed}, digest={digest:?}, {} cells)", cells.len())
    }
}

/// One figure of an experiment.
#[pyclass(frozen, module = "flashlab")]
pub(crate) struct Cell {
    results: Arc<Results>,
    number: usize,
}

impl Cell {
    fn cell(&self) -> &results::Cell {
        &self.results.cells[self.number]
    }
}

#[pymethods]
impl Cell {
    /// Table of the cell: ``raw write 1M``.
    #[getter]
    fn table(&self) -> &str {
        &self.cell().table
    }
    /// Row of the cell; may be empty.
    #[getter]
    fn row(&self) -> &str {
        &self.cell().row
    }
    /// Column of the cell, usually a device.
    #[getter]
    fn column(&self) -> &str {
        &self.cell().column
    }
    /// Unit of the figures.
    #[getter]
    fn unit(&self) -> &str {
        &self.cell().unit
    }
    /// Simulated figure, the mean over the runs.
    #[getter]
    fn simulated(&self) -> f64 {
        self.cell().simulated.mean
    }
    /// Standard deviation of the simulated figure over the runs.
    #[getter]
    fn simulated_sd(&self) -> f64 {
        self.cell().simulated.sd
    }
    /// Figure measured on hardware; ``None`` if there is none, or only a bound or a statement in words.
    #[getter]
    fn published(&self) -> Option<f64> {
        published(self.cell())
    }
    /// ``fitted``, ``predicted``, ``assumed`` or ``unsourced``.
    #[getter]
    fn role(&self) -> &str {
        self.cell().role.name()
    }
    /// 100 (simulated - published) / published.
    #[getter]
    fn error_percent(&self) -> Option<f64> {
        self.cell().error_percent
    }
    /// Number of requests in the timed windows.
    #[getter]
    fn requests(&self) -> u64 {
        self.cell().requests
    }
    /// Mean latency of these requests in nanoseconds.
    #[getter]
    fn latency_ns_mean(&self) -> f64 {
        self.cell().latency_ns_mean
    }
    /// Mean nanoseconds per request by mechanism; they add up to ``latency_ns_mean``.
    #[getter]
    fn mechanisms<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        mechanisms(py, self.cell().mechanisms.0.iter().copied())
    }

    fn __repr__(&self) -> String {
        let results::Cell { table, row, column, simulated, unit, .. } = self.cell();
        let place = [table, row, column].map(String::as_str);
        let place: Vec<&str> = place.into_iter().filter(|part| !part.is_empty()).collect();
        format!("Cell({}: {:.2} {unit})", place.join(" / "), simulated.mean)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Pickled)> {
        let cell = slf.get().cell();
        let place = [&cell.table, &cell.row, &cell.column, &cell.unit].map(String::clone);
        let compared = (published(cell), cell.error_percent, cell.role.name().to_owned());
        let mechanisms = cell.mechanisms.0.iter().map(|(name, ns)| ((*name).to_owned(), *ns)).collect();
        let simulated = (cell.simulated.mean, cell.simulated.sd);
        let pickled = (place, simulated, compared, cell.requests, cell.latency_ns_mean, mechanisms);
        Ok((slf.getattr("_restore")?, pickled))
    }

    /// Return the cell of which ``__reduce__`` returned the parts.
    #[classmethod]
    fn _restore(
        _class: &Bound<'_, PyType>,
        place: [String; 4],
        simulated: (f64, f64),
        compared: (Option<f64>, Option<f64>, String),
        requests: u64,
        latency_ns_mean: f64,
        mechanisms: Vec<(String, f64)>,
    ) -> PyResult<Cell> {
        let [table, row, column, unit] = place;
        let (mean, sd) = simulated;
        let (published, error_percent, role) = compared;
        let role = ROLES.into_iter().find(|known| known.name() == role);
        let cell = results::Cell {
            table,
            row,
            column,
            unit,
            published: published.map(|mean| Published::Figure { mean, sd: None }),
            reference: None,
            simulated: results::Figure { mean, sd },
            role: role.ok_or_else(|| error("the pickled cell has an unknown role"))?,
            error_percent,
            requests,
            latency_ns_mean,
            mechanisms: known(mechanisms)?,
            mechanism_ns_totals: results::Mechanisms(Vec::new()),
            tail: None,
        };
        Ok(Cell { results: Arc::new(Results { cells: vec![cell], ..Results::default() }), number: 0 })
    }
}

/// All roles of a cell.
const ROLES: [Role; 4] = [Role::Fitted, Role::Predicted, Role::Assumed, Role::Unsourced];

/// Place and unit, simulated figure, comparison, requests, mean latency and mechanisms of a cell.
type Pickled = ([String; 4], (f64, f64), (Option<f64>, Option<f64>, String), u64, f64, Vec<(String, f64)>);

/// Returns the figure measured on hardware, if there is one.
fn published(cell: &results::Cell) -> Option<f64> {
    match cell.published {
        Some(Published::Figure { mean, .. }) => Some(mean),
        Some(Published::Below { .. } | Published::Text { .. }) | None => None,
    }
}
