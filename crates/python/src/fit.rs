//! Fits: estimates of a card's numbers from measurements.

use crate::error::{error, warn_of_rounding};
use crate::interrupt;
use crate::job::read_file;
use crate::library::LibraryHandle;
use crate::notebook::framed;
use crate::result::loads;
use flashlab_catalogue::library::Library;
use flashlab_fit::import::BYTES_MAX;
use flashlab_lab::fitting::{CardFit, FitSettings, FittingError, Input, fit as fit_cards};
use flashlab_report::fit as report;
use flashlab_report::html::{FitPage, fit_page};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::path::PathBuf;

/// Estimate the numbers of a card from measurements, as ``flashlab fit`` does.
///
/// Each of ``measurements`` is a file of ``flashlab measure``, fio's JSON, a table ``job,value,sd``, a log of other
/// programs, or the published cells of a device: ``sd-cards:kingston``. Several cards share one host.
#[pyfunction]
#[pyo3(signature = (*measurements, base = None, host = None, fit_host = false,
                    numbers = vec![], steps = vec![], exact = false, floor = 1.5, seed = 1, library = None))]
#[allow(clippy::too_many_arguments, reason = "keywords of a Python function")]
pub(crate) fn fit(
    py: Python<'_>,
    measurements: &Bound<'_, PyTuple>,
    base: Option<String>,
    host: Option<String>,
    fit_host: bool,
    numbers: Vec<String>,
    steps: Vec<String>,
    exact: bool,
    floor: f64,
    seed: u64,
    library: Option<PathBuf>,
) -> PyResult<Fit> {
    let measurements = measurements.iter().map(|name| name.extract::<PathBuf>());
    let measurements = measurements.collect::<PyResult<Vec<_>>>()?;
    if measurements.is_empty() {
        return Err(error(
            "no measurements: name a file of `flashlab measure`, or cells such as sd-cards:kingston",
        ));
    }
    if !(0.1..=50.0).contains(&floor) {
        return Err(error(format_args!("floor={floor}: expected 0.1 to 50 (per cent)")));
    }
    let library = LibraryHandle::open(library)?;
    let inputs =
        measurements.iter().map(|name| open(&name.to_string_lossy(), base.as_deref(), library.get()));
    let inputs = inputs.collect::<Result<Vec<_>, _>>().map_err(error)?;
    let mut settings = FitSettings {
        bases: base.into_iter().collect(),
        hosts: host.into_iter().collect(),
        fit_host,
        numbers,
        steps,
        exact,
        ..FitSettings::default()
    };
    (settings.search.seed, settings.search.floor) = (seed, floor / 100.0);
    let fitted =
        interrupt::run_on_thread(py, |progress| fit_cards(&inputs, &settings, library.get(), progress))?;
    let labels =
        inputs.into_iter().map(|input| input.measurements.target.model.unwrap_or(input.label)).collect();
    let fitted = fitted.map_err(error)?;
    warn_of_rounding(py)?;
    Ok(Fit { fitted, labels })
}

fn open(name: &str, base: Option<&str>, library: &Library) -> Result<Input, FittingError> {
    Input::open(name, base, library, &|path| match path {
        "-" => Err("standard input is not read: name a file".to_owned()),
        path => read_file(path, BYTES_MAX as u64),
    })
}

/// Numbers that were estimated from measurements.
#[pyclass(frozen, module = "flashlab")]
pub(crate) struct Fit {
    fitted: CardFit,
    /// Name of each card.
    labels: Vec<String>,
}

#[pymethods]
impl Fit {
    /// Names of the cards.
    #[getter]
    fn cards(&self) -> Vec<String> {
        self.fitted.cards.clone()
    }

    /// Return the profile of a card as TOML, for ``Device("./card.toml")``. ``name`` is the name of the product.
    #[pyo3(signature = (card = 0, *, name = None))]
    fn profile(&self, card: usize, name: Option<&str>) -> PyResult<String> {
        let Some(label) = self.labels.get(card) else {
            return Err(error(format_args!(
                "profile({card}): the fit has {} cards, numbered from 0",
                self.labels.len()
            )));
        };
        self.fitted.profile(card, name.unwrap_or(label)).map_err(error)
    }
    /// Return the JSON of ``flashlab fit --format json``.
    fn json(&self) -> String {
        report::json(&self.fitted)
    }
    /// Return the contents of ``json`` as dictionaries and lists: numbers with intervals, cells, conclusions.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        loads(py, &self.json())
    }
    /// Return the tables of ``flashlab fit``, at most ``width`` columns wide.
    #[pyo3(signature = (width = 100))]
    fn table(&self, width: usize) -> String {
        report::table(&self.fitted, width)
    }
    /// Return the page of ``flashlab fit``.
    fn html(&self) -> String {
        fit_page(&FitPage {
            title: &self.fitted.cards.join(", "),
            version: env!("CARGO_PKG_VERSION"),
            command: "flashlab.fit(...)",
            fit: &self.fitted,
        })
    }

    fn _repr_html_(&self) -> String {
        framed(&self.html())
    }
    fn __repr__(&self) -> String {
        let numbers = self.fitted.estimate.numbers.len();
        format!("Fit({}: {numbers} numbers)", self.fitted.cards.join(", "))
    }
}
