//! What an experiment's run gives: the data behind every table, page and file.

use serde::{Serialize, Serializer, ser::SerializeMap};

/// Everything that a run of an experiment found.
#[derive(Clone, Debug, Serialize)]
pub struct Results {
    /// The experiment's name.
    pub experiment: String,
    /// One line of what is compared with what.
    pub title: String,
    /// The seed of the medium.
    pub seed: u64,
    /// The version of flashlab.
    pub version: String,
    /// First 16 hexadecimal digits of the SHA-256 over profiles, experiment and seed.
    pub inputs: String,
    /// First 16 hexadecimal digits of the SHA-256 over the canonical cells, as integers.
    pub digest: String,
    /// The free parameters: all that were fitted or chosen for these cells. Its length is the count.
    pub parameters: Vec<Parameter>,
    /// The compared figures.
    pub cells: Vec<Cell>,
    /// The bounds that the experiment declares, and how they came out.
    pub bounds: Vec<Bound>,
    /// The devices that were run, with every number of their profiles.
    pub devices: Vec<Device>,
    /// What is said of the whole: preparation, order, what is not explained. Paragraphs of plain text.
    pub notes: Vec<String>,
}

/// A free parameter.
#[derive(Clone, Debug, Serialize)]
pub struct Parameter {
    /// Where it stands: `sd/kingston:flash.t_prog`.
    pub path: String,
    /// The value with its unit, as in the profile.
    pub value: String,
    /// `fitted` (on cells) or `chosen` (one structural choice, the same for all devices).
    pub kind: ParameterKind,
    /// The cells it was fitted on: `raw write 1M/kingston`.
    pub fitted_on: Vec<String>,
}

/// How a parameter got its value.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ParameterKind {
    /// Adjusted until cells came out.
    Fitted,
    /// A structural choice or a typical value, the same for all.
    Chosen,
}

/// One compared figure.
#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    /// `raw write 1M`
    pub table: String,
    /// `64-block 30MHz 1bit`, or empty.
    pub row: String,
    /// The card.
    pub column: String,
    /// `MiB/s`, `IOPS`, `KiB/s`, `B/s`, `KiB`.
    pub unit: String,
    /// What was measured on hardware.
    pub published: Option<Published>,
    /// What was simulated here.
    pub simulated: Figure,
    /// Whether parameters were adjusted on this cell.
    pub role: Role,
    /// 100 (simulated - published) / published.
    pub error_percent: Option<f64>,
    /// Requests that the timed windows completed.
    pub requests: u64,
    /// Mean latency of these requests in nanoseconds.
    pub latency_ns_mean: f64,
    /// Where it went: nanoseconds a request by mechanism, summing to `latency_ns_mean`.
    pub mechanisms: Mechanisms,
    /// The same as integers: total nanoseconds by mechanism; they sum to the total latency exactly.
    pub mechanism_ns_totals: Mechanisms<u64>,
    /// Write-latency tail, where the cell writes. Not fitted on anything.
    pub tail: Option<Tail>,
}

/// A mean with its standard deviation over the runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// Mean over the runs.
    pub mean: f64,
    /// Sample standard deviation over the runs.
    pub sd: f64,
}

/// A published figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Published {
    /// Mean and, where printed, standard deviation.
    Figure {
        /// Mean.
        mean: f64,
        /// Standard deviation.
        #[serde(skip_serializing_if = "Option::is_none")]
        sd: Option<f64>,
    },
    /// "Under 10 K".
    Below {
        /// The bound.
        below: f64,
    },
    /// Only words.
    Text {
        /// The words.
        text: String,
    },
}

/// What a cell's figure is worth.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Parameters were adjusted on it.
    Fitted,
    /// Nothing was adjusted on it.
    Predicted,
    /// Rests on an assumption that the source does not state.
    Assumed,
}

impl Role {
    /// As in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Role::Fitted => "fitted",
            Role::Predicted => "predicted",
            Role::Assumed => "assumed",
        }
    }
}

/// (mechanism, nanoseconds) in printing order; a JSON object.
#[derive(Clone, Debug, PartialEq)]
pub struct Mechanisms<T = f64>(pub Vec<(&'static str, T)>);

impl<T: Serialize> Serialize for Mechanisms<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// The write-latency tail.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Tail {
    /// 99th percentile of the completion latency in nanoseconds.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p99_9_ns: u64,
    /// Greatest.
    pub max_ns: u64,
    /// Bytes that a logger writing at half the cell's mean rate must buffer so as never to wait.
    pub logger_buffer_bytes: u64,
}

/// A bound that the experiment declares on a set of cells.
#[derive(Clone, Debug, Serialize)]
pub struct Bound {
    /// What is bounded, in words.
    pub name: String,
    /// The largest error allowed: `2 %`, `1 sd`.
    pub limit: String,
    /// The cells that it bounds.
    pub cells: Vec<String>,
    /// The worst cell.
    pub worst_cell: String,
    /// Its error, in the limit's unit.
    pub worst: f64,
    /// Whether it holds.
    pub held: bool,
}

/// A device of the experiment, for the page that explains it.
#[derive(Clone, Debug, Serialize)]
pub struct Device {
    /// `sd/kingston`
    pub name: String,
    /// What it is.
    pub title: String,
    /// Every number: path, value, where it comes from, what it means.
    pub numbers: Vec<Number>,
}

/// One number of a profile.
#[derive(Clone, Debug, Serialize)]
pub struct Number {
    /// `flash.t_prog`
    pub path: String,
    /// `581us`
    pub value: String,
    /// `fitted on raw write 1M/kingston`, `typical: ...`, `spec: ...`, `measured: ...`.
    pub source: String,
    /// What it is, in a sentence.
    pub meaning: String,
}
