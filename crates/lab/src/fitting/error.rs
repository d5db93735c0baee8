//! The reasons why measurements cannot be fitted.

use flashlab_catalogue::profile::{did_you_mean, suggest};
use flashlab_fit::estimate::FitError;
use std::fmt;

/// The reason why measurements cannot be fitted.
#[derive(Clone, PartialEq, Debug)]
pub enum FittingError {
    /// A step cannot run in the simulator.
    Step {
        /// Name of the step.
        step: String,
        /// The fault.
        what: String,
    },
    /// A file of measurements cannot be read.
    File {
        /// The file.
        file: String,
        /// The fault, with its place.
        what: String,
    },
    /// The caller stopped the fit.
    Stopped,
    /// A device cannot be built, or a profile is invalid.
    Device(String),
    /// The estimation failed.
    Fit(FitError),
    /// The measurements contain no rate and no mean latency that a fit uses.
    NoCells {
        /// Sentences on results that were left out.
        left_out: Vec<String>,
    },
    /// No number of the base profile affects the cells.
    NothingToFit,
    /// No number of the profiles that an experiment uses is fitted on cells of that experiment.
    NothingToRefit(String),
    /// A base profile is of a kind that a fit does not know.
    NotFitted {
        /// Name of the profile.
        name: String,
    },
    /// A host takes devices of a kind that a fit does not know.
    NoCardSlot {
        /// Name of the host.
        host: String,
    },
    /// The measurements name no host.
    NoHost,
    /// The measurements name different hosts.
    Hosts(Vec<String>),
    /// The measurements of one card name different hosts, whose numbers cannot be fitted together.
    HostsOfOneCard(Vec<String>),
    /// The number of hosts is neither one nor the number of measurements.
    HostCount {
        /// Count of hosts.
        hosts: usize,
        /// Count of measurements.
        inputs: usize,
    },
    /// No host has this name.
    UnknownHost {
        /// Name that was given.
        name: String,
        /// The most similar known name.
        did_you_mean: Option<String>,
        /// Names of the known hosts.
        known: Vec<String>,
    },
    /// A host is of another kind than the device needs.
    WrongHost {
        /// Name that was given.
        name: String,
        /// Names of the hosts of the right kind.
        known: Vec<String>,
    },
    /// A selected number or step does not exist.
    Unknown {
        /// `number` or `step`.
        what: &'static str,
        /// Name that was given.
        name: String,
        /// Names that exist.
        known: Vec<String>,
    },
    /// A device is named in place of its measurements.
    DeviceNamed(String),
    /// An experiment cannot provide the cells of a column.
    Experiment(String),
}

impl fmt::Display for FittingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FittingError::Step { step, what } => write!(f, "step {step}: {what}"),
            FittingError::File { file, what } => write!(f, "{file}: {what}"),
            FittingError::Stopped => f.write_str("stopped before the fit was done"),
            FittingError::Device(what) | FittingError::Experiment(what) => f.write_str(what),
            FittingError::Fit(error) => error.fmt(f),
            FittingError::NoCells { left_out } if left_out.is_empty() => write!(
                f,
                "the measurements contain no rate and no mean latency; a fit needs jobs with iops, bytes_per_second or latency_ns_mean"
            ),
            FittingError::NoCells { left_out } => {
                write!(f, "no result is left to fit: {}", left_out.join("; "))
            }
            FittingError::NothingToFit => {
                write!(
                    f,
                    "no number of a card affects these cells: the host and its bus limit them, or a page cache served \
                     the requests. Add random reads or writes, or sequential writes that end with a flush \
                     (`conv=fsync`, `end_fsync=1`)"
                )
            }
            FittingError::NothingToRefit(experiment) => write!(
                f,
                "no number of the profiles of {experiment} has the source `fitted` with cells of this experiment; \
                 expected an experiment of kind matrix, such as sd-cards"
            ),
            FittingError::Unknown { what, name, known } => {
                let similar = suggest(name, known.iter().map(String::as_str));
                let known = known.join(", ");
                write!(
                    f,
                    "there is no {what} {name} to fit; expected one of {known}{}",
                    did_you_mean(similar)
                )
            }
            FittingError::DeviceNamed(name) => write!(
                f,
                "{name} is a device; a fit needs measurements of it: `flashlab measure {name} --to card.json`"
            ),
            FittingError::NotFitted { name } => write!(
                f,
                "{name}: an SSD cannot be fitted; a fit estimates the numbers of SD cards, eMMC devices and USB sticks"
            ),
            FittingError::NoCardSlot { host } => write!(
                f,
                "{host} has no card slot: its devices are SSDs, which cannot be fitted. If the card was in a USB reader, the \
                 reader is its host: write a profile of it, and name it with --host ./reader.toml (docs/fit.md, \"A card \
                 in a USB reader\")"
            ),
            FittingError::NoHost => write!(
                f,
                "the measurements do not name their host; add --host NAME (`flashlab devices` lists hosts)"
            ),
            FittingError::Hosts(hosts) => write!(
                f,
                "the measurements name several hosts: {}; fit the cards of one host together, or add --same-card if \
                 all measurements are of one card",
                hosts.join(", ")
            ),
            FittingError::HostsOfOneCard(hosts) => write!(
                f,
                "--fit-host fits the numbers of one host, but the measurements name {}; leave it out, or fit the \
                 measurements of one host",
                hosts.join(", ")
            ),
            FittingError::HostCount { hosts, inputs } => write!(
                f,
                "--host is given {hosts} times for {inputs} measurements; give it once, or once per measurement in \
                 the same order"
            ),
            FittingError::WrongHost { name, known } => write!(
                f,
                "{name} is not a host for this kind of device; the hosts for it are {}",
                known.join(", ")
            ),
            FittingError::UnknownHost { name, did_you_mean: similar, known } => write!(
                f,
                "there is no host {name}; the hosts are {}{}",
                known.join(", "),
                did_you_mean(similar.as_deref())
            ),
        }
    }
}

impl std::error::Error for FittingError {}

impl From<FitError> for FittingError {
    fn from(error: FitError) -> Self {
        FittingError::Fit(error)
    }
}
