//! Tables through the Arrow PyCapsule interface: pandas, polars, DuckDB and pyarrow read them without a copy.
//!
//! <https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html>

use crate::error::error;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{ArrayRef, Float64Array, RecordBatch, RecordBatchIterator, StringArray, UInt64Array};
use flashlab_sim::Mechanism;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::sync::Arc;

/// Columns of a table, in order.
#[derive(Default)]
pub(crate) struct Table(Vec<(String, ArrayRef)>);

impl Table {
    pub(crate) fn column(&mut self, name: impl Into<String>, values: ArrayRef) {
        self.0.push((name.into(), values));
    }
    pub(crate) fn texts<T: AsRef<str>>(&mut self, name: &str, values: impl Iterator<Item = T>) {
        self.column(name, Arc::new(StringArray::from_iter_values(values)));
    }
    pub(crate) fn counts(&mut self, name: &str, values: impl Iterator<Item = u64>) {
        self.column(name, Arc::new(UInt64Array::from_iter_values(values)));
    }
    pub(crate) fn figures(&mut self, name: impl Into<String>, values: impl Iterator<Item = f64>) {
        self.column(name, Arc::new(Float64Array::from_iter_values(values)));
    }
    pub(crate) fn optional_figures(&mut self, name: &str, values: impl Iterator<Item = Option<f64>>) {
        self.column(name, Arc::new(values.collect::<Float64Array>()));
    }

    /// Adds a column of nanoseconds for each mechanism that any of `rows` has: `read_ns`, `read-modify-write_ns`.
    pub(crate) fn mechanisms(&mut self, rows: &[&[(&'static str, f64)]]) {
        let of = |row: &[(&'static str, f64)], name: &str| {
            row.iter().find(|(known, _)| *known == name).map_or(0.0, |(_, ns)| *ns)
        };
        for name in Mechanism::ALL.map(Mechanism::name) {
            if rows.iter().any(|row| of(row, name) > 0.0) {
                self.figures(format!("{name}_ns"), rows.iter().map(|row| of(row, name)));
            }
        }
    }

    /// Returns the table as a stream of one batch in a capsule, which the consumer takes over.
    pub(crate) fn stream<'py>(self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let batch = RecordBatch::try_from_iter(self.0).map_err(error)?;
        let schema = batch.schema();
        let stream = FFI_ArrowArrayStream::new(Box::new(RecordBatchIterator::new([Ok(batch)], schema)));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }
}
