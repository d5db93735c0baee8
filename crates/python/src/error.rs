//! The exception `flashlab.Error`, with the texts of the command line, and warnings.

use flashlab_block::IoError;
use flashlab_catalogue::units::take_notes;
use pyo3::exceptions::{PyOSError, PyTypeError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple, PyType};
use rustix::io::Errno;
use std::fmt::Display;

pyo3::create_exception!(
    flashlab,
    Error,
    pyo3::exceptions::PyException,
    "A device, a job or an experiment is invalid or could not be carried out. The text names the fault, its place and \
     a remedy."
);

/// Returns the exception with the text of `error`.
pub(crate) fn error(error: impl Display) -> PyErr {
    Error::new_err(error.to_string())
}

/// Issues a warning for each quantity that was rounded.
pub(crate) fn warn_of_rounding(py: Python<'_>) -> PyResult<()> {
    for note in take_notes() {
        py.import("warnings")?.call_method1("warn", (note,))?;
    }
    Ok(())
}

/// Returns the exception for an object that cannot be pickled, with what can be returned `instead`.
pub(crate) fn not_pickled(class: &str, instead: &str) -> PyErr {
    PyTypeError::new_err(format!(
        "{class} cannot be pickled: return {instead} or an Arrow table (pyarrow.table(result)) instead"
    ))
}

/// The exception `flashlab.IoError`, both a `flashlab.Error` and an `OSError`.
static IO_ERROR: PyOnceLock<Py<PyType>> = PyOnceLock::new();

/// Returns the class `flashlab.IoError`.
pub(crate) fn io_error_type(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    let new = || {
        let bases = PyTuple::new(py, [py.get_type::<Error>(), py.get_type::<PyOSError>()])?;
        let members = PyDict::new(py);
        members.set_item("__module__", "flashlab")?;
        members.set_item(
            "__doc__",
            "Raised if a device rejects a request; ``errno`` is the number of the error.",
        )?;
        // PyO3's functions for new exceptions accept only one base class.
        let class = py.get_type::<PyType>().call1(("IoError", bases, members))?;
        Ok::<_, PyErr>(class.cast_into::<PyType>()?.unbind())
    };
    Ok(IO_ERROR.get_or_try_init(py, new)?.bind(py))
}

/// Returns the exception of a failed request.
pub(crate) fn io_error(py: Python<'_>, fault: IoError) -> PyErr {
    let errno = match fault {
        IoError::ReadOnly => Errno::PERM,
        IoError::Medium => Errno::IO,
        IoError::NoMemory => Errno::NOMEM,
        IoError::Invalid => Errno::INVAL,
        IoError::NoSpace => Errno::NOSPC,
        IoError::TooLarge => Errno::OVERFLOW,
        IoError::Unsupported => Errno::NOTSUP,
        IoError::ShuttingDown => Errno::SHUTDOWN,
    };
    match io_error_type(py) {
        Ok(class) => PyErr::from_type(class.clone(), (errno.raw_os_error(), fault.to_string())),
        Err(error) => error,
    }
}
