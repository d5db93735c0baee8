//! Fits: a profile from the measurements of a card, with the simulator as the forward model.
//!
//! [`fit`] takes measurement files, a base profile and a host, and estimates the numbers of [`table::TABLE`] that the
//! cells can determine. All other numbers stay as in the base profile. [`CardFit::profile`] writes the result as a
//! profile whose numbers name the cells that they were fitted on.
//!
//! Cells are rates and mean latencies. Percentiles and maxima are not fitted: the model has no numbers for tails that
//! could be estimated from them.

pub mod candidates;
pub mod check;
mod choice;
mod error;
pub mod forward;
mod input;
pub mod mechanisms;
mod profile_text;
pub mod refit;
mod session;
pub mod table;

pub use error::FittingError;
pub use input::{Input, measurements_of_experiment};

use crate::progress::Progress;
use flashlab_catalogue::device::Device;
use flashlab_catalogue::library::Library;
use flashlab_catalogue::profile::Value;
use flashlab_fit::estimate::Estimate;
use forward::Predicted;
use serde::Serialize;
use session::{Model, Session};
use table::TABLE;

/// Name of the profile that a fit starts from if the user names none.
pub const TYPICAL: &str = "sd/typical";

/// Settings of a fit.
#[derive(Clone, Debug)]
pub struct FitSettings {
    /// Profile that provides the numbers that are not fitted.
    pub base: String,
    /// Hosts of the measurements: one for each, or one for all; none for the hosts that they name.
    pub hosts: Vec<String>,
    /// True if all measurements are of one card, on several hosts.
    pub same_card: bool,
    /// True if the numbers of the host are fitted too.
    pub fit_host: bool,
    /// Paths of the numbers to fit, from their values in the base profile on; empty for all that the cells determine.
    pub numbers: Vec<String>,
    /// Names of the steps whose results are cells of the fit; empty for all.
    pub steps: Vec<String>,
    /// True if each step runs as often as it was measured, on a device with the spread between erase blocks.
    pub exact: bool,
    /// Settings of the search.
    pub search: flashlab_fit::estimate::Settings,
}

impl Default for FitSettings {
    fn default() -> Self {
        FitSettings {
            base: TYPICAL.to_owned(),
            hosts: Vec::new(),
            same_card: false,
            fit_host: false,
            numbers: Vec::new(),
            steps: Vec::new(),
            exact: false,
            search: Default::default(),
        }
    }
}

/// The result of a fit.
#[derive(Clone, Debug, Serialize)]
pub struct CardFit {
    /// Base profile.
    pub base: String,
    /// Host of the measurements; the first one if they have several.
    pub host: String,
    /// Host of each of the measurements.
    pub hosts: Vec<String>,
    /// Labels of the cards.
    pub cards: Vec<String>,
    /// Estimates, residuals and advice.
    pub estimate: Estimate,
    /// Numbers that keep the value of the base profile, with the reason.
    pub held: Vec<Held>,
    /// Nanoseconds of the mean request by mechanism, for each cell.
    pub mechanisms_ns: Vec<Vec<(&'static str, f64)>>,
    /// Remarks on the cells: what is not modelled and what was left out.
    pub notes: Vec<String>,
    /// The fitted devices.
    #[serde(skip)]
    devices: Vec<Device>,
    /// Numbers of each card that a mechanism sets without an estimate.
    #[serde(skip)]
    companions: Vec<Vec<Companion>>,
    /// Text of the base profile for each card whose own profile it is; a fit changes only its fitted numbers.
    #[serde(skip)]
    own_texts: Vec<Option<String>>,
    /// True if cells are published figures of an experiment.
    #[serde(skip)]
    is_of_experiment: bool,
}

/// A number that was not fitted.
#[derive(Clone, Debug, Serialize)]
pub struct Held {
    /// Path of the number.
    pub name: String,
    /// Value that it keeps; `none` for a mechanism that the profile lacks.
    pub value: String,
    /// The reason.
    pub reason: String,
}

/// Adds the typical card to a library.
pub fn with_typical(library: &Library) -> Library {
    let mut library = library.clone();
    library.add_device(TYPICAL, include_bytes!("typical.toml")).expect("the tests parse the profile");
    library
}

/// Fits the measurements of one or several cards on one host, or of one card on several hosts.
///
/// A fit that `progress` stops ends with [`FittingError::Stopped`].
pub fn fit(
    inputs: &[Input],
    settings: &FitSettings,
    library: &Library,
    progress: &Progress,
) -> Result<CardFit, FittingError> {
    let library = with_typical(library);
    check_names(inputs, settings)?;
    let hosts = input::hosts_of(inputs, settings, &library)?;
    let (session, notes) = Session::new(inputs, settings, &hosts, &library, progress)?;
    let mut model = session.model();
    let selection = session.select(&model)?;
    let mut held = session.held(&model, &selection);
    model = Model {
        numbers: selection.kept.iter().map(|k| model.numbers[*k]).collect(),
        starts: selection.kept.iter().map(|k| model.starts[*k]).collect(),
        fixed: model.fixed,
    };
    if model.numbers.is_empty() {
        return Err(FittingError::NothingToFit);
    }
    held.extend(session.add_mechanisms(&mut model)?);
    let estimate = session.estimate(&model)?;
    let values: Vec<f64> = estimate.numbers.iter().map(|number| number.value).collect();
    let point = session.point(&model, &values);
    let predicted = session.predict(std::slice::from_ref(&point)).pop().expect("one point")?;
    Ok(CardFit {
        base: settings.base.clone(),
        host: hosts[0].clone(),
        hosts,
        cards: session.labels.clone(),
        estimate,
        held,
        mechanisms_ns: predicted.into_iter().map(|cell: Predicted| cell.mechanisms_ns).collect(),
        notes,
        devices: session.devices(&point)?,
        companions: session.companions(&model),
        own_texts: session.first_inputs().map(|input| own_text(&inputs[input], settings, &library)).collect(),
        is_of_experiment: inputs.iter().any(Input::is_of_experiment),
    })
}

/// A number that a mechanism sets without an estimate.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Companion {
    path: &'static str,
    /// Reason for the value, as the source of the profile's number.
    reason: String,
}

/// Returns the text of the base profile if it is the profile of the measured device.
fn own_text(input: &Input, settings: &FitSettings, library: &Library) -> Option<String> {
    let profile = library.device(&settings.base).ok().filter(|_| input.is_refit(settings));
    profile.map(|profile| profile.text.text.clone())
}

/// Rejects selected numbers and steps that do not exist.
fn check_names(inputs: &[Input], settings: &FitSettings) -> Result<(), FittingError> {
    let unknown = |what, name: &String, known: Vec<&str>| {
        let known = known.into_iter().map(str::to_owned).collect();
        Err(FittingError::Unknown { what, name: name.clone(), known })
    };
    let rows: Vec<&str> = TABLE.iter().map(|row| row.path).collect();
    if let Some(name) = settings.numbers.iter().find(|name| !rows.contains(&name.as_str())) {
        return unknown("number", name, rows);
    }
    let steps = || inputs.iter().flat_map(|input| &input.measurements.steps).map(|step| step.name.as_str());
    match settings.steps.iter().find(|name| !steps().any(|step| step == *name)) {
        Some(name) => unknown("step", name, steps().collect()),
        None => Ok(()),
    }
}

/// Path of the spread between erase blocks.
const SPREAD: &str = "flash.spread";

/// Returns a quantity of a device in base units.
fn value_of(device: &Device, path: &str) -> Option<f64> {
    let number = device.sourced_numbers().iter().find(|n| n.number.parameter.path == path)?;
    match number.number.value {
        Value::Quantity(_, value) => Some(value as f64),
        Value::Count(count) => Some(f64::from(count)),
        _ => None,
    }
}
