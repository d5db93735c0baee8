//! The native module `flashlab._flashlab` of the Python package in `python/`.
//!
//! Each class wraps a type of the crates below and adds no model of its own, so that results equal those of the command
//! line, down to the digest. Long calls release the GIL. Jobs, experiments, fits and sweeps stop at Ctrl-C.
//! Objects are usable from several threads; calls on one object run one after the other.
#![forbid(unsafe_code)]

mod arguments;
mod arrow;
mod block_device;
mod completions;
mod device;
mod error;
mod experiment;
mod figures;
mod fit;
mod interrupt;
mod job;
mod library;
mod notebook;
mod result;
mod server;
mod sweep;

use pyo3::prelude::*;

#[pymodule]
fn _flashlab(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("Error", module.py().get_type::<error::Error>())?;
    module.add("IoError", error::io_error_type(module.py())?)?;
    module.add_class::<block_device::BlockDevice>()?;
    module.add_class::<server::Server>()?;
    module.add_class::<fit::Fit>()?;
    module.add_function(wrap_pyfunction!(fit::fit, module)?)?;
    module.add_class::<device::Device>()?;
    module.add_class::<completions::Completions>()?;
    module.add_class::<result::RunResult>()?;
    module.add_class::<figures::JobFigures>()?;
    module.add_class::<figures::Latency>()?;
    module.add_class::<experiment::Experiment>()?;
    module.add_class::<experiment::ExperimentResult>()?;
    module.add_class::<experiment::Cell>()?;
    module.add_class::<sweep::Sweep>()?;
    module.add_class::<sweep::SweepResult>()?;
    module.add_function(wrap_pyfunction!(sweep::run_chunk, module)?)?;
    module.add_function(wrap_pyfunction!(library::devices, module)?)?;
    module.add_function(wrap_pyfunction!(library::experiments, module)?)
}
