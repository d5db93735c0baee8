//! Completions of single requests, in columns.

use crate::arrow::Table;
use crate::error::error;
use crate::figures::mechanisms;
use arrow_array::UInt64Array;
use flashlab_sim::{Completion, Mechanism, Status};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyDict, PyType};
use std::sync::Arc;

/// Completions of requests, in the order of their instants, as columns.
///
/// ``ids``, ``at_ns`` and ``latency_ns`` are memory views of 64-bit integers: ``list(c.latency_ns)`` and
/// ``numpy.asarray(c.latency_ns)`` both work.
#[pyclass(frozen, module = "flashlab")]
pub(crate) struct Completions {
    ids: UInt64Array,
    at_ns: UInt64Array,
    latency_ns: UInt64Array,
    statuses: Vec<u8>,
    /// Nanoseconds by mechanism over all requests.
    spent_ns: [u64; Mechanism::ALL.len()],
}

/// Completions that are being collected.
#[derive(Default)]
pub(crate) struct Collector {
    ids: Vec<u64>,
    at_ns: Vec<u64>,
    latency_ns: Vec<u64>,
    statuses: Vec<u8>,
    spent_ns: [u64; Mechanism::ALL.len()],
}

impl Collector {
    pub(crate) fn with_capacity(count: usize) -> Collector {
        Collector {
            ids: Vec::with_capacity(count),
            at_ns: Vec::with_capacity(count),
            latency_ns: Vec::with_capacity(count),
            statuses: Vec::with_capacity(count),
            ..Collector::default()
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, completion: &Completion) {
        self.ids.push(completion.id.0);
        self.at_ns.push(completion.at.as_ns());
        self.statuses.push(completion.status as u8);
        let mut latency = 0;
        for (sum, mechanism) in self.spent_ns.iter_mut().zip(Mechanism::ALL) {
            let ns = completion.spent[mechanism].as_ns();
            *sum += ns;
            latency += ns;
        }
        self.latency_ns.push(latency);
    }

    pub(crate) fn finish(self) -> Completions {
        let Collector { ids, at_ns, latency_ns, statuses, spent_ns } = self;
        let [ids, at_ns, latency_ns] = [ids, at_ns, latency_ns].map(UInt64Array::from);
        Completions { ids, at_ns, latency_ns, statuses, spent_ns }
    }
}

#[pymethods]
impl Completions {
    fn __len__(&self) -> usize {
        self.ids.len()
    }

    /// Identifiers of the requests, as ``submit`` returned them.
    #[getter]
    fn ids<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        column(py, self.ids.values())
    }
    /// Instants of the completions, in nanoseconds of simulated time.
    #[getter]
    fn at_ns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        column(py, self.at_ns.values())
    }
    /// Latencies in nanoseconds.
    #[getter]
    fn latency_ns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        column(py, self.latency_ns.values())
    }
    /// Statuses as texts: ``ok``, ``out of range``, ``unsupported``, ``read-only``, ``unreadable``.
    #[getter]
    fn statuses(&self) -> Vec<&'static str> {
        self.statuses.iter().map(|status| STATUSES[usize::from(*status)]).collect()
    }
    /// True if every request succeeded.
    #[getter]
    fn ok(&self) -> bool {
        self.statuses.iter().all(|status| *status == Status::Ok as u8)
    }
    /// Return the table of the requests: ``id``, ``at_ns``, ``latency_ns``, ``status``.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The protocol lets a producer ignore the request.
        let _ = requested_schema;
        let mut table = Table::default();
        for (name, values) in [("id", &self.ids), ("at_ns", &self.at_ns), ("latency_ns", &self.latency_ns)] {
            table.column(name, Arc::new(values.clone()));
        }
        table.texts("status", self.statuses().iter());
        table.stream(py)
    }
    /// Nanoseconds by mechanism, summed over the requests; they add up to the sum of the latencies.
    #[getter]
    fn mechanisms<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let spent = Mechanism::ALL.iter().zip(self.spent_ns).filter(|(_, ns)| *ns > 0);
        mechanisms(py, spent.map(|(mechanism, ns)| (mechanism.name(), ns)))
    }

    fn __repr__(&self) -> String {
        format!("Completions({} requests)", self.ids.len())
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Pickled<'py>)> {
        let (py, this) = (slf.py(), slf.get());
        let bytes = |values: &[u64]| {
            let all: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            PyBytes::new(py, &all)
        };
        let columns = [&this.ids, &this.at_ns, &this.latency_ns].map(|column| bytes(column.values()));
        let statuses = PyBytes::new(py, &this.statuses);
        Ok((slf.getattr("_restore")?, (columns, statuses, this.spent_ns)))
    }

    /// Return the completions of which ``__reduce__`` returned the parts.
    #[classmethod]
    fn _restore(
        _class: &Bound<'_, PyType>,
        columns: [Vec<u8>; 3],
        statuses: Vec<u8>,
        spent_ns: [u64; Mechanism::ALL.len()],
    ) -> PyResult<Completions> {
        let count = statuses.len();
        let is_complete = columns.iter().all(|column| column.len() == 8 * count);
        if !is_complete || statuses.iter().any(|status| usize::from(*status) >= STATUSES.len()) {
            return Err(error("the pickled completions are damaged"));
        }
        let [ids, at_ns, latency_ns] = columns.map(|column| {
            let (words, _) = column.as_chunks();
            UInt64Array::from_iter_values(words.iter().map(|word| u64::from_le_bytes(*word)))
        });
        Ok(Completions { ids, at_ns, latency_ns, statuses, spent_ns })
    }
}

/// The columns of integers, the statuses, and the nanoseconds by mechanism.
type Pickled<'py> = ([Bound<'py, PyBytes>; 3], Bound<'py, PyBytes>, [u64; Mechanism::ALL.len()]);

/// Names of the statuses, in the order of [`Status`].
const STATUSES: [&str; 5] = ["ok", "out of range", "unsupported", "read-only", "unreadable"];
const _: () = assert!(Status::Unreadable as usize == STATUSES.len() - 1);

/// Returns a memory view of 64-bit integers.
fn column<'py>(py: Python<'py>, values: &[u64]) -> PyResult<Bound<'py, PyAny>> {
    let length = size_of_val(values);
    let bytes = PyBytes::new_with(py, length, |bytes| {
        for (to, value) in bytes.chunks_exact_mut(8).zip(values) {
            to.copy_from_slice(&value.to_ne_bytes());
        }
        Ok(())
    })?;
    view(py, bytes.as_any())?.call_method1("cast", ("Q",))
}

fn view<'py>(py: Python<'py>, bytes: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    py.import("builtins")?.getattr("memoryview")?.call1((bytes,))
}

/// Integers of 64 bits from Python: a sequence, or an object with a buffer of them, such as `array.array("Q")` and
/// arrays of NumPy.
pub(crate) fn integers(name: &str, values: &Bound<'_, PyAny>) -> PyResult<Vec<u64>> {
    let py = values.py();
    let unexpected = || error(format_args!("{name}: expected a sequence of integers that are not negative"));
    let Ok(view) = view(py, values) else {
        return values.extract().map_err(|_| unexpected());
    };
    let format: String = view.getattr("format")?.extract()?;
    let size: usize = view.getattr("itemsize")?.extract()?;
    let kind = format.trim_start_matches(['@', '=', '<']);
    let is_signed = matches!(kind, "q" | "l" | "n");
    if size != 8 || !(is_signed || matches!(kind, "Q" | "L" | "N")) {
        return Err(error(format_args!(
            "{name}: the buffer has the format {format:?}; expected integers of 64 bits (array.array(\"Q\"), numpy.uint64)"
        )));
    }
    let bytes = view.call_method0("tobytes")?;
    let bytes = bytes.cast::<PyBytes>()?.as_bytes();
    let (words, _) = bytes.as_chunks();
    let values: Vec<u64> = words.iter().map(|word| u64::from_ne_bytes(*word)).collect();
    // A negative integer has its highest bit set.
    if is_signed && values.iter().any(|value| *value > i64::MAX as u64) {
        return Err(unexpected());
    }
    Ok(values)
}
