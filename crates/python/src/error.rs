//! The exception `flashlab.Error`, with the texts of the command line.

use pyo3::prelude::*;
use std::fmt::Display;

pyo3::create_exception!(
    flashlab,
    Error,
    pyo3::exceptions::PyException,
    "A device, a job or an experiment is wrong or could not be carried out. The text names the fault, the place and the \
     way out."
);

/// Returns the exception with the text of `error`.
pub(crate) fn error(error: impl Display) -> PyErr {
    Error::new_err(error.to_string())
}
