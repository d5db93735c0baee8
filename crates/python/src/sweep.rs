//! Sweeps: the checked points, their rows in a folder, and the work of one chunk.
//!
//! `flashlab.sweep` in `python/src/flashlab/_sweep.py` distributes the chunks over an executor.

use crate::arrow::Table;
use crate::error::{error, not_pickled, warn_of_rounding};
use crate::interrupt::{self, lock};
use crate::library::LibraryHandle;
use arrow_array::{ArrayRef, Float64Array, Int64Array, StringArray};
use flashlab_catalogue::units::take_notes;
use flashlab_sweep::{Cell, Column, Plan, Row, Store, Sweep as Checked, columns};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// Number of rows that a notebook shows.
const ROWS_SHOWN: usize = 20;

/// The points of a sweep and the folder with their rows.
#[pyclass(frozen, module = "flashlab")]
pub(crate) struct Sweep {
    sweep: Checked<LibraryHandle>,
    folder: PathBuf,
    store: Mutex<Store>,
}

#[pymethods]
impl Sweep {
    #[new]
    #[pyo3(signature = (plan, folder, library = None))]
    fn new(py: Python<'_>, plan: &str, folder: PathBuf, library: Option<PathBuf>) -> PyResult<Sweep> {
        let sweep = py.detach(|| {
            let library = LibraryHandle::open(library)?;
            let plan = Plan::from_json(plan).map_err(error)?;
            let sweep = Checked::new(plan, library).map_err(error)?;
            let store = Mutex::new(Store::open(&folder).map_err(error)?);
            Ok::<_, PyErr>(Sweep { sweep, folder, store })
        })?;
        warn_of_rounding(py)?;
        Ok(sweep)
    }

    /// Number of points.
    fn __len__(&self) -> usize {
        self.sweep.points().len()
    }

    /// Return the numbers of the points without a row.
    fn missing(&self) -> Vec<usize> {
        lock(&self.store).missing(self.sweep.points())
    }

    /// Return the plan of a chunk as JSON, for ``run_chunk`` in any process.
    fn chunk(&self, points: Vec<usize>) -> PyResult<String> {
        let all = self.sweep.points();
        let point = |at: usize| all.get(at).map(|(_, point)| point.clone());
        let points: Option<Vec<_>> = points.into_iter().map(point).collect();
        let points = points.ok_or_else(|| error("no such point"))?;
        Ok(self.sweep.plan().with_points(points).to_json())
    }

    /// Add the rows that ``run_chunk`` returned, write them to disk, and return their number.
    fn add(&self, py: Python<'_>, rows: Vec<u8>) -> PyResult<usize> {
        py.detach(|| lock(&self.store).add_encoded(rows).map_err(error))
    }

    /// Write ``results.parquet``. ``is_kept`` is false if the folder is temporary.
    fn finish(&self, py: Python<'_>, is_kept: bool) -> PyResult<SweepResult> {
        // The chunks that ran in this process have repeated the notes on the points, of which `new` has warned.
        drop(take_notes());
        py.detach(|| {
            let mut store = lock(&self.store);
            let points = self.sweep.points();
            let path = store.finish(points).map_err(error)?;
            let rows = store.rows(points).into_iter().cloned().collect();
            let first_error = store.first_error(points);
            let path = is_kept.then_some(path);
            Ok(SweepResult { path, rows, points: points.len(), first_error })
        })
    }

    /// Folder of the results.
    #[getter]
    fn folder(&self) -> PathBuf {
        self.folder.clone()
    }
}

/// Run the points of a chunk and return their rows as bytes.
#[pyfunction]
#[pyo3(signature = (chunk, library = None))]
pub(crate) fn run_chunk<'py>(
    py: Python<'py>,
    chunk: &str,
    library: Option<PathBuf>,
) -> PyResult<Bound<'py, PyBytes>> {
    let library = LibraryHandle::open(library)?;
    let plan = Plan::from_json(chunk).map_err(error)?;
    let rows = interrupt::run(py, |progress| -> PyResult<Vec<Row>> {
        let sweep = Checked::new(plan, library).map_err(error)?;
        Ok((0..sweep.points().len()).map_while(|at| sweep.run(at, progress)).collect())
    })??;
    Ok(PyBytes::new(py, &Store::encode(&rows).map_err(error)?))
}

/// Result of ``sweep``: one row for each point, in the order of the points.
#[pyclass(frozen, module = "flashlab")]
pub(crate) struct SweepResult {
    path: Option<PathBuf>,
    rows: Vec<Row>,
    points: usize,
    first_error: Option<(String, String)>,
}

#[pymethods]
impl SweepResult {
    /// Path of the Parquet file with the rows; ``None`` if ``sweep`` was called without ``to``.
    #[getter]
    fn path(&self) -> Option<PathBuf> {
        self.path.clone()
    }
    /// Number of rows.
    fn __len__(&self) -> usize {
        self.rows.len()
    }
    /// Number of rows whose run failed. Their column ``error`` has the reason, and they run again in the next sweep.
    #[getter]
    fn errors(&self) -> usize {
        self.rows.iter().filter(|row| row.error().is_some()).count()
    }
    /// The first point whose run failed, with its error; ``None`` if there is none.
    #[getter]
    fn first_error(&self) -> Option<(String, String)> {
        self.first_error.clone()
    }

    /// Return the table of the rows, which pandas, polars, DuckDB and pyarrow read without a copy.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The protocol lets a producer ignore the request.
        let _ = requested_schema;
        let keys: Vec<Cell> = self.rows.iter().map(|row| Cell::Text(row.key.clone())).collect();
        let mut table = Table::default();
        for column in columns(&self.rows, &keys) {
            table.column(column.name(), array(&column));
        }
        table.stream(py)
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(not_pickled("SweepResult", "result.path"))
    }

    /// Return the first rows as a table for a notebook.
    fn _repr_html_(&self) -> String {
        let keys: Vec<Cell> = self.rows.iter().map(|row| Cell::Text(row.key.clone())).collect();
        let columns: Vec<Column<'_>> = columns(&self.rows, &keys);
        let mut html = String::from("<table><thead><tr>");
        html.extend(columns.iter().map(|column| format!("<th>{}</th>", escaped(column.name()))));
        html += "</tr></thead><tbody>";
        let columns: Vec<Vec<Option<String>>> =
            columns.iter().map(|column| column.texts().take(ROWS_SHOWN).collect()).collect();
        for row in 0..self.rows.len().min(ROWS_SHOWN) {
            let cells = columns.iter().map(|column| column[row].as_deref().unwrap_or_default());
            html += "<tr>";
            html.extend(cells.map(|cell| format!("<td>{}</td>", escaped(cell))));
            html += "</tr>";
        }
        html += "</tbody></table>";
        match self.rows.len().saturating_sub(ROWS_SHOWN) {
            0 => html,
            more => format!("{html}<p>and {more} more rows</p>"),
        }
    }

    fn __repr__(&self) -> String {
        let errors = match self.errors() {
            0 => String::new(),
            errors => format!(", errors={errors}"),
        };
        let path = self.path.as_ref().map_or(String::new(), |path| format!(", path={path:?}"));
        format!("SweepResult(rows={} of {}{errors}{path})", self.rows.len(), self.points)
    }
}

/// Escapes text for HTML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

fn array(column: &Column<'_>) -> ArrayRef {
    match column {
        column if column.has_numbers() => Arc::new(column.numbers().collect::<Float64Array>()),
        column if column.has_counts() => Arc::new(column.counts().collect::<Int64Array>()),
        column => Arc::new(column.texts().collect::<StringArray>()),
    }
}
