//! What an experiment's run gives: the data behind every table, page and file.

use serde::{Serialize, Serializer, ser::SerializeMap};

/// Everything that a run of an experiment found.
#[derive(Clone, Debug, Default, Serialize)]
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
    /// What is said of the whole: preparation, order, what is not explained. Paragraphs of plain text; those that begin with
    /// "Not explained" belong on every page.
    pub notes: Vec<String>,
    /// Figures over a range: one chart each, in the order of the experiment's steps.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub curves: Vec<Curve>,
    /// The erase blocks of each device at the end of its run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub wear: Vec<WearMap>,
    /// What went on over time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<Series>,
    /// What each device counted, where it counts at all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub statistics: Vec<DeviceStatistics>,
}

impl Results {
    /// Returns true if a cell has a published figure beside it.
    pub fn has_published(&self) -> bool {
        self.cells.iter().any(|cell| cell.published.is_some())
    }
}

/// A free parameter.
#[derive(Clone, Debug, Serialize)]
pub struct Parameter {
    /// Where it stands: `sd/kingston:flash.t_prog`.
    pub path: String,
    /// The value with its unit, as in the profile.
    pub value: String,
    /// How it got its value.
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
    /// Set by key, on a command line or by an experiment that names no source for it.
    #[serde(rename = "set by hand")]
    ByHand,
    /// From a draft: a profile without sources.
    Unsourced,
}

impl ParameterKind {
    /// All kinds, in printing order.
    pub const ALL: [ParameterKind; 4] =
        [ParameterKind::Fitted, ParameterKind::Chosen, ParameterKind::ByHand, ParameterKind::Unsourced];

    /// The name in JSON and in print.
    pub const fn name(self) -> &'static str {
        match self {
            ParameterKind::Fitted => "fitted",
            ParameterKind::Chosen => "chosen",
            ParameterKind::ByHand => "set by hand",
            ParameterKind::Unsourced => "unsourced",
        }
    }

    /// Returns true if nothing but the user vouches for the value.
    pub const fn is_unsourced(self) -> bool {
        matches!(self, ParameterKind::ByHand | ParameterKind::Unsourced)
    }
}

/// Words that begin a note on a number that no measurement determines.
pub const UNDETERMINED: &str = "Undetermined: ";

/// What a note begins with that says a source's words of a table's figures.
pub const PUBLISHED: &str = "Published of ";

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
    /// Rests on a number without a source: one that was set by hand, or of a draft profile.
    Unsourced,
}

impl Role {
    /// As in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Role::Fitted => "fitted",
            Role::Predicted => "predicted",
            Role::Assumed => "assumed",
            Role::Unsourced => "unsourced",
        }
    }
}

impl Cell {
    /// Returns true if a published figure, bound or statement stands beside the cell.
    pub fn is_measured(&self) -> bool {
        self.published.is_some()
    }
}

/// Counts over the cells of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// All cells.
    pub cells: usize,
    /// Cells with a measurement beside them.
    pub measured: usize,
    /// Cells without a measurement, whatever their role.
    pub unmeasured: usize,
    /// Measured cells that parameters were adjusted on.
    pub fitted: usize,
    /// Measured cells that nothing was adjusted on.
    pub predicted: usize,
    /// Measured cells that rest on an assumption.
    pub assumed: usize,
    /// Measured cells that rest on numbers without a source.
    pub unsourced: usize,
    /// Predicted cells whose error in per cent is known.
    pub predicted_with_error: usize,
    /// Median of the absolute errors of these.
    pub error_percent_median: Option<f64>,
}

impl Results {
    /// Counts the cells by role. Cells without a measurement count for no role.
    pub fn summary(&self) -> Summary {
        let measured = || self.cells.iter().filter(|cell| cell.is_measured());
        let of_role = |role| measured().filter(|cell| cell.role == role).count();
        let predicted = measured().filter(|cell| cell.role == Role::Predicted);
        let errors = predicted.filter_map(|cell| cell.error_percent).filter(|error| error.is_finite());
        let errors: Vec<f64> = errors.map(f64::abs).collect();
        Summary {
            cells: self.cells.len(),
            measured: measured().count(),
            unmeasured: self.cells.len() - measured().count(),
            fitted: of_role(Role::Fitted),
            predicted: of_role(Role::Predicted),
            assumed: of_role(Role::Assumed),
            unsourced: of_role(Role::Unsourced),
            predicted_with_error: errors.len(),
            error_percent_median: median(errors),
        }
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        n if n % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
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
    /// `fitted on raw write 1M/kingston`, `typical: ...`, `spec: ...`, `set by hand: ...`, `unsourced`.
    pub source: String,
    /// What it is, in a sentence.
    pub meaning: String,
}

/// One chart of figures over a range: a step of a sweep, with a curve a column.
#[derive(Clone, Debug, Serialize)]
pub struct Curve {
    /// The step, which is the table of its cells: `randread`.
    pub chart: String,
    /// What is shown, in a line.
    pub title: String,
    /// The unit of the horizontal axis: `GiB`.
    pub x_unit: String,
    /// The unit of the figures: `kIOPS`.
    pub y_unit: String,
    /// One a column.
    pub series: Vec<CurveSeries>,
    /// What was published in words about its shape, and what is not explained.
    pub notes: Vec<String>,
}

/// One column's curve.
#[derive(Clone, Debug, Serialize)]
pub struct CurveSeries {
    /// The column: `HMB 128 MiB`.
    pub name: String,
    /// A variant of the model, shown beside it; nothing published belongs to it.
    pub variant: bool,
    /// Simulated figures, with ascending `x`.
    pub points: Vec<CurvePoint>,
    /// Published figures, with ascending `x`.
    pub published: Vec<PublishedPoint>,
    /// Where look-ups of the map were answered; empty where the device counts none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub map_hits: Vec<MapHits>,
}

/// A simulated figure of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CurvePoint {
    /// Where it stands.
    pub x: f64,
    /// The figure, in the curve's unit.
    pub y: f64,
    /// What the figure is worth.
    pub role: Role,
}

/// A published figure of a curve.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PublishedPoint {
    /// Where it stands.
    pub x: f64,
    /// The figure.
    #[serde(flatten)]
    pub figure: Published,
}

/// Where the look-ups of the map were answered during one point of a curve: shares that sum to 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MapHits {
    /// Where the point stands.
    pub x: f64,
    /// In the controller's memory.
    pub sram: f64,
    /// In the host's.
    pub hmb: f64,
    /// Nowhere: the array was read.
    pub miss: f64,
}

/// The erase blocks of a device.
#[derive(Clone, Debug, Serialize)]
pub struct WearMap {
    /// What was run: `sequential, static`.
    pub name: String,
    /// Bytes of an erase block.
    pub block_bytes: u64,
    /// How often each was erased.
    pub erase_counts: Vec<u32>,
    /// Those out of use, ascending.
    pub bad: Vec<u32>,
    /// Erases that a block is rated for; none where wear has no end.
    pub rated_cycles: Option<u32>,
    /// Over the blocks in use.
    pub erases: Erases,
}

/// How evenly erases are spread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Erases {
    /// Mean erases of a block.
    pub mean: f64,
    /// Fewest.
    pub min: u32,
    /// Most.
    pub max: u32,
    /// Standard deviation over the blocks.
    pub sd: f64,
}

/// A figure over time, or over iterations.
#[derive(Clone, Debug, Serialize)]
pub struct Series {
    /// What it is: `write amplification`.
    pub name: String,
    /// The step that it is of: `sequential`.
    pub step: String,
    /// The device that it is of: `static`.
    pub column: String,
    /// The unit of `y`: `MiB/s`; empty for a ratio.
    pub unit: String,
    /// The unit of `x`: `h`, `iteration`.
    pub x_unit: String,
    /// (x, y), with ascending x.
    pub points: Vec<(f64, f64)>,
}

/// What a device counted from the end of its preparation, or over its life where a field says so.
#[derive(Clone, Debug, Default, Serialize)]
pub struct DeviceStatistics {
    /// The step or table; empty where it is of the whole run.
    pub table: String,
    /// The row.
    pub row: String,
    /// The column, or the device's name.
    pub column: String,
    /// Remarks on the device's numbers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
    /// Bytes that the host wrote.
    pub host_written_bytes: u64,
    /// Bytes that the host read, where the device counts them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_read_bytes: Option<u64>,
    /// Bytes programmed into the array, for whatever cause.
    pub programmed_bytes: u64,
    /// Programmed over written; none where nothing was written.
    pub write_amplification: Option<f64>,
    /// Erases in all.
    pub erase_count: u64,
    /// How they are spread over the blocks in use, over the device's life; none where the device knows no erase blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub erases: Option<Erases>,
    /// Victims that were collected.
    pub collection_count: u64,
    /// What was moved or written beside the host's data, in bytes by cause, in printing order; only what is not zero.
    #[serde(serialize_with = "as_map")]
    pub moved_bytes: Vec<(&'static str, u64)>,
    /// Look-ups of the map by where they were answered, in printing order; empty where the device counts none.
    #[serde(serialize_with = "as_map", skip_serializing_if = "Vec::is_empty")]
    pub map_look_ups: Vec<(&'static str, u64)>,
    /// (T - U) / U at the end, with the reserve that collection keeps free taken off; none where the device has no such
    /// notion.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effective_spare: Option<f64>,
    /// What is left at the end of the erases that the blocks are rated for, in percent, of the one in use that is worn
    /// most; 0 where the device takes no more writes, none where wear has no end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifetime_left_percent: Option<f64>,
    /// Erase blocks that are out of use.
    pub bad_block_count: u64,
    /// Whether the device takes no more writes.
    pub read_only: bool,
    /// Simulated seconds from the beginning of the run to the first write that was refused since the device takes no
    /// more; all that the host wrote was written until then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only_seconds: Option<f64>,
    /// Simulated seconds from the beginning of the run to the first block that wore out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_failure_seconds: Option<f64>,
}

fn as_map<S: Serializer>(entries: &[(&'static str, u64)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(entries.iter().copied())
}
