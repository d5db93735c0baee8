//! The results of an experiment: the data behind every table, page and file.

mod purchase;

pub use purchase::{Purchase, PurchaseOption};

pub use flashlab_catalogue::provenance::{Device, Number, Parameter, ParameterKind};
use serde::{Deserialize, Deserializer, Serialize, Serializer, ser::SerializeMap};

/// The results of one run of an experiment.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Results {
    /// The experiment's name.
    pub experiment: String,
    /// A one-line description of the comparison.
    pub title: String,
    /// The seed of the medium.
    pub seed: u64,
    /// The version of flashlab.
    pub version: String,
    /// The commit of the program, if its build recorded one. The caller of the experiment fills it in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// First 16 hexadecimal digits of the SHA-256 over the inputs: the experiment's TOML files, the devices'
    /// numbers, the seed, and other inputs of the run, such as saved states, jobs and recordings.
    pub inputs: String,
    /// First 16 hexadecimal digits of the SHA-256 over the names of the cells and the integers of their runs.
    pub digest: String,
    /// The free parameters of all kinds, each once.
    pub parameters: Vec<Parameter>,
    /// The compared figures.
    pub cells: Vec<Cell>,
    /// The bounds that the experiment declares, and their outcomes.
    pub bounds: Vec<Bound>,
    /// The simulated devices and filesystems, with every number of their profiles.
    pub devices: Vec<Device>,
    /// Notes on the whole experiment: preparation, order, unexplained results. Each note is a paragraph of plain text.
    /// A note that begins with "Not explained" belongs on every page.
    pub notes: Vec<String>,
    /// Figures over a range: one chart for each step of the experiment, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub curves: Vec<Curve>,
    /// The erase blocks of devices at the end of their runs, in experiments of kinds `wear` and `endurance`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub wear: Vec<WearMap>,
    /// Figures over time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<Series>,
    /// The counters of devices, if experiments of this kind report them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub statistics: Vec<DeviceStatistics>,
    /// Comparisons of choices, such as filesystems, one per question.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<Answer>,
    /// Choices of drives, one per size of the hot set.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub purchases: Vec<Purchase>,
}

/// A comparison of choices over all devices of a run, such as filesystems for one workload.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// Workload.
    pub question: String,
    /// Number of devices.
    pub devices: usize,
    /// Choices, in the order of the experiment.
    pub choices: Vec<Choice>,
}

/// A choice. Figures are medians over the devices.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Choice {
    /// Name, such as `ext4`.
    pub name: String,
    /// True if a power cut may damage the choice.
    pub fragile: bool,
    /// Elapsed time divided by that of the fastest choice on the same device.
    pub times_fastest: f64,
    /// Number of devices on which no choice is faster.
    pub fastest_on: usize,
    /// Elapsed time in seconds.
    pub elapsed_s: f64,
    /// 99th percentile of the latency that the user waits for, in milliseconds.
    pub p99_ms: f64,
    /// Bytes written to the device per byte that the application wrote.
    pub filesystem_writes: f64,
    /// Bytes programmed in the flash per byte written to the device.
    pub flash_writes: Option<f64>,
    /// Days until the first erase block fails, if the workload repeats without a pause.
    pub days: Option<f64>,
    /// Repetitions of the workload until the first erase block fails. Under a slow choice the flash lives for more days
    /// at the same wear per repetition.
    pub repetitions: Option<f64>,
}

impl Answer {
    /// Returns the choice with the smallest median slowdown. Considers the choices that a power cut may damage only if
    /// `fragile_too` is true.
    fn fastest(&self, fragile_too: bool) -> Option<&Choice> {
        let candidates = self.choices.iter().filter(|choice| fragile_too || !choice.fragile);
        candidates.min_by(|a, b| a.times_fastest.total_cmp(&b.times_fastest))
    }

    /// Returns the choice under which the flash lasts for the most repetitions, among the choices that a
    /// power cut does not damage.
    fn longest_lived(&self) -> Option<&Choice> {
        let known = self.choices.iter().filter(|choice| choice.repetitions.is_some() && !choice.fragile);
        known.max_by(|a, b| a.repetitions.unwrap_or(0.0).total_cmp(&b.repetitions.unwrap_or(0.0)))
    }

    /// Returns the answer in a sentence, which names the fastest choice that a power cut does not damage,
    /// a faster choice that a power cut may damage, and the choice under which the flash lasts for the most
    /// repetitions.
    pub fn sentence(&self) -> String {
        let Some(best) = self.fastest(false) else {
            return format!("{}: a power cut may damage every choice.", self.question);
        };
        let mut text = format!("{}: {}", self.question, best.name);
        if let Some(fragile) = self.fastest(true).filter(|fastest| fastest.fragile) {
            let share = 100.0 * fragile.times_fastest / best.times_fastest;
            text += &format!(
                ", the fastest that survives a power cut ({} takes {share:.0} % of the time)",
                fragile.name
            );
        }
        match self.longest_lived() {
            Some(longest) if longest.name == best.name => text += "; it wears the flash least, too.",
            Some(longest) => {
                let stands = longest.repetitions.unwrap_or(0.0) / best.repetitions.unwrap_or(f64::INFINITY);
                let takes = longest.times_fastest / best.times_fastest;
                text += &format!(
                    "; with {}, the flash withstands {stands:.1} times as many repetitions, which take {takes:.2} \
                     times as long.",
                    longest.name
                );
            }
            None => text.push('.'),
        }
        text
    }
}

impl Results {
    /// Returns true if any cell has a published figure.
    pub fn has_published(&self) -> bool {
        self.cells.iter().any(|cell| cell.published.is_some())
    }
}

/// Prefix of a note on a number that no measurement determines.
pub const UNDETERMINED: &str = "Undetermined: ";

/// Beginning of notes that name cells whose jobs mostly read data that was never written.
pub const UNWRITTEN: &str = "Unwritten data: ";

/// Beginning of notes that name tables whose jobs go through the model of the page cache.
pub const BUFFERED: &str = "Buffered: ";

/// Prefix of a note that compares all figures with the publication.
pub const COMPARISON: &str = "Comparison: ";

/// Prefix of a note that quotes a source's own words about the figures of a table.
pub const PUBLISHED: &str = "Published about ";

/// Prefix of the note on the prices of the choices of drives.
pub const PRICES: &str = "Price of a layout";

/// One compared figure.
#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    /// The table: `raw write 1M`.
    pub table: String,
    /// The row: `64-block 30MHz 1bit`; may be empty.
    pub row: String,
    /// The column, usually a device.
    pub column: String,
    /// The unit: `MiB/s`, `IOPS`, `KiB/s`, `B/s`, `KiB`.
    pub unit: String,
    /// The figure measured on hardware.
    pub published: Option<Published>,
    /// A figure that was not published as a measurement: from theory, from another simulation, or measured by the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<Reference>,
    /// The simulated figure.
    pub simulated: Figure,
    /// The role of the cell: whether parameters were fitted on it.
    pub role: Role,
    /// 100 (simulated - published) / published.
    pub error_percent: Option<f64>,
    /// Requests completed in the timed windows.
    pub requests: u64,
    /// Mean latency of these requests in nanoseconds.
    pub latency_ns_mean: f64,
    /// Mean nanoseconds per request by mechanism; they add up to `latency_ns_mean`.
    pub mechanisms: Mechanisms,
    /// Total nanoseconds by mechanism as integers; they add up to the total latency exactly.
    pub mechanism_ns_totals: Mechanisms<u64>,
    /// Tail of the write latency; `None` if the cell does not write. No parameter was fitted on it.
    pub tail: Option<Tail>,
}

/// The mean and the standard deviation over the runs.
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
    /// A mean and, if the source prints it, a standard deviation.
    Figure {
        /// Mean.
        mean: f64,
        /// Standard deviation.
        #[serde(skip_serializing_if = "Option::is_none")]
        sd: Option<f64>,
    },
    /// An upper bound, such as "under 10 K".
    Below {
        /// The bound.
        below: f64,
    },
    /// A statement in words.
    Text {
        /// The words.
        text: String,
    },
}

/// A figure that a cell is compared with and that nobody published as a measurement. Summaries do not count it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reference {
    /// The origin of the figure.
    pub kind: ReferenceKind,
    /// Name of the closed form with its arguments (`G1, rho 0.9346`; docs/closed-forms.md lists the labels),
    /// of the publication, or of the measurement.
    pub name: String,
    /// The figure.
    pub mean: f64,
    /// Standard deviation of a measurement, if it states one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sd: Option<f64>,
    /// 100 (simulated - mean) / mean.
    pub error_percent: f64,
}

/// The origin of a figure that nobody published as a measurement.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReferenceKind {
    /// A closed form, or the numerical solution of an equation.
    ClosedForm,
    /// A simulation that others published.
    Simulation,
    /// A measurement that a fit reads.
    Measurement,
}

impl ReferenceKind {
    /// Returns the name in print.
    pub const fn name(self) -> &'static str {
        match self {
            ReferenceKind::ClosedForm => "closed form",
            ReferenceKind::Simulation => "literature",
            ReferenceKind::Measurement => "measured",
        }
    }
}

/// The role of a cell: whether parameters were fitted on it, and the basis of its simulated figure.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Parameters were fitted on the cell.
    Fitted,
    /// No parameter was fitted on the cell.
    Predicted,
    /// The figure rests on an assumption that the source does not state.
    Assumed,
    /// The figure rests on a number without a source: one set by hand or taken from a draft profile.
    Unsourced,
}

impl Role {
    /// Returns the name in JSON.
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
    /// Returns true if the cell has a published figure, bound or statement.
    pub fn is_measured(&self) -> bool {
        self.published.is_some()
    }
    /// Returns the error in percent of the published figure or, without one, of the reference.
    pub fn compared_percent(&self) -> Option<f64> {
        self.error_percent.or_else(|| Some(self.reference.as_ref()?.error_percent))
    }
}

/// Counts over the cells of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// All cells.
    pub cells: usize,
    /// Cells with a measurement.
    pub measured: usize,
    /// Cells without a measurement, in any role.
    pub unmeasured: usize,
    /// Measured cells on which parameters were fitted.
    pub fitted: usize,
    /// Measured cells on which no parameter was fitted.
    pub predicted: usize,
    /// Measured cells that rest on an assumption.
    pub assumed: usize,
    /// Measured cells that rest on numbers without a source.
    pub unsourced: usize,
    /// Measured predicted cells whose error in percent is known.
    pub predicted_with_error: usize,
    /// Median of the absolute errors of these predicted cells, in percent.
    pub error_percent_median: Option<f64>,
}

impl Results {
    /// Counts the cells by role. Cells without a measurement are not counted under any role.
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

/// Returns the median; `None` without values.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        n if n % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

/// Serialises pairs as an object with their order.
pub(crate) fn ordered<S: Serializer>(pairs: &[(String, String)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(name, value)| (name, value)))
}

/// Reads an object of texts in the order of the file.
pub(crate) fn pairs<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(String, String)>, D::Error> {
    let object = serde_json::Map::<String, serde_json::Value>::deserialize(deserializer)?;
    let text = |value: serde_json::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    Ok(object.into_iter().map(|(key, value)| (key, text(value))).collect())
}

/// Pairs of mechanism and nanoseconds in printing order; a JSON object.
#[derive(Clone, Debug, PartialEq)]
pub struct Mechanisms<T = f64>(pub Vec<(&'static str, T)>);

impl Mechanisms {
    /// Returns the mechanism that took the most time, and its share from 0 to 1; `None` if no mechanism took time.
    pub fn most(&self) -> Option<(&'static str, f64)> {
        let sum: f64 = self.0.iter().map(|(_, ns)| ns).sum();
        let most = self.0.iter().max_by(|(_, a), (_, b)| a.total_cmp(b));
        most.filter(|_| sum > 0.0).map(|(mechanism, ns)| (*mechanism, ns / sum))
    }
}

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
    /// Mean completion latency of the writes in nanoseconds.
    pub mean_ns: f64,
    /// 99th percentile of the completion latency in nanoseconds.
    pub p99_ns: u64,
    /// 99.9th percentile, in nanoseconds.
    pub p99_9_ns: u64,
    /// Maximum, in nanoseconds.
    pub max_ns: u64,
    /// Buffer in bytes that a data logger needs so that it never waits when it writes at half the cell's mean rate;
    /// `None` if the experiment does not measure it.
    pub logger_buffer_bytes: Option<u64>,
}

/// A bound that the experiment declares on a set of cells.
#[derive(Clone, Debug, Serialize)]
pub struct Bound {
    /// A description of the bounded quantity.
    pub name: String,
    /// The requirement: `2 %`, `1 sd`, `at least 3 times base`.
    pub limit: String,
    /// The cells to which the bound applies.
    pub cells: Vec<String>,
    /// The cell or group that is closest to missing the bound, or misses it most.
    pub worst_cell: String,
    /// The value there, in the unit of the limit: an error, a figure, a ratio or a count.
    pub worst: f64,
    /// True if the bound holds.
    pub held: bool,
    /// Names of the cells that miss the bound.
    #[serde(skip)]
    pub missed: Vec<String>,
}

/// One chart of figures over a range: a step of a sweep, with one curve per column.
#[derive(Clone, Debug, Serialize)]
pub struct Curve {
    /// The step, which is also the table of the cells: `randread`.
    pub chart: String,
    /// A one-line title.
    pub title: String,
    /// The unit of the horizontal axis: `GiB`.
    pub x_unit: String,
    /// The unit of the figures: `kIOPS`.
    pub y_unit: String,
    /// The curves, one per column.
    pub series: Vec<CurveSeries>,
    /// Published statements about the shape of the curve, and notes on unexplained figures.
    pub notes: Vec<String>,
}

/// One column's curve.
#[derive(Clone, Debug, Serialize)]
pub struct CurveSeries {
    /// The column: `HMB 128 MiB`.
    pub name: String,
    /// True for a variant of the model, which has no published figures.
    pub variant: bool,
    /// Simulated figures, with ascending `x`.
    pub points: Vec<CurvePoint>,
    /// Published figures, with ascending `x`.
    pub published: Vec<PublishedPoint>,
    /// Shares of map look-ups by where they were answered; empty if the device does not count them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub map_hits: Vec<MapHits>,
}

/// A simulated figure of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CurvePoint {
    /// The position on the horizontal axis.
    pub x: f64,
    /// The figure, in the curve's unit.
    pub y: f64,
    /// The role of the figure.
    pub role: Role,
}

/// A published figure of a curve.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PublishedPoint {
    /// The position on the horizontal axis.
    pub x: f64,
    /// The figure.
    #[serde(flatten)]
    pub figure: Published,
}

/// Shares of the map look-ups of one point of a curve by where they were answered; they add up to 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MapHits {
    /// The position of the point on the horizontal axis.
    pub x: f64,
    /// Answered from the controller's memory.
    pub sram: f64,
    /// Answered from the host memory buffer.
    pub hmb: f64,
    /// Misses, which read the array.
    pub miss: f64,
}

/// The wear of the erase blocks of a device.
#[derive(Clone, Debug, Serialize)]
pub struct WearMap {
    /// The step and the device: `sequential, static`.
    pub name: String,
    /// Size of an erase block in bytes.
    pub block_bytes: u64,
    /// Erase count of each block.
    pub erase_counts: Vec<u32>,
    /// Numbers of the bad blocks, ascending.
    pub bad: Vec<u32>,
    /// Rated program/erase cycles of a block; `None` if the model has no wear-out.
    pub rated_cycles: Option<u32>,
    /// The spread of erase counts over the blocks in use.
    pub erases: Erases,
}

/// The spread of erase counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Erases {
    /// Mean erase count.
    pub mean: f64,
    /// Minimum.
    pub min: u32,
    /// Maximum.
    pub max: u32,
    /// Standard deviation over the blocks.
    pub sd: f64,
}

/// A figure over time, or over iterations.
#[derive(Clone, Debug, Serialize)]
pub struct Series {
    /// The quantity: `write amplification`.
    pub name: String,
    /// The step: `sequential`.
    pub step: String,
    /// The device: `static`.
    pub column: String,
    /// The unit of `y`: `MiB/s`; empty for a ratio.
    pub unit: String,
    /// The unit of `x`: `h`, `iteration`.
    pub x_unit: String,
    /// Pairs (x, y), with ascending x.
    pub points: Vec<(f64, f64)>,
}

/// The counters of a device. They count from the end of the device's preparation (in a sweep, over one
/// point), or over the device's life if the documentation of a field says so.
#[derive(Clone, Debug, Default, Serialize)]
pub struct DeviceStatistics {
    /// The step or table; empty if the counters are of the whole run.
    pub table: String,
    /// The row.
    pub row: String,
    /// The column, or the device's name.
    pub column: String,
    /// Remarks on the device's numbers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
    /// Bytes written by the host.
    pub host_written_bytes: u64,
    /// Bytes read by the host; `None` if the device does not count them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_read_bytes: Option<u64>,
    /// Bytes programmed into the array for any cause.
    pub programmed_bytes: u64,
    /// Programmed bytes divided by bytes written by the host; `None` if the host wrote nothing.
    pub write_amplification: Option<f64>,
    /// Total number of erases.
    pub erase_count: u64,
    /// The spread of erase counts over the blocks in use, over the device's life; `None` if the model has no erase
    /// blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub erases: Option<Erases>,
    /// Number of victims of garbage collection.
    pub collection_count: u64,
    /// Bytes moved or written in addition to the host's data, by cause in printing order; causes with zero bytes are
    /// absent.
    #[serde(serialize_with = "as_map")]
    pub moved_bytes: Vec<(&'static str, u64)>,
    /// Look-ups of the map by where they were answered, in printing order; empty if the device does not count them.
    #[serde(serialize_with = "as_map", skip_serializing_if = "Vec::is_empty")]
    pub map_look_ups: Vec<(&'static str, u64)>,
    /// Effective spare (T - U) / U at the end of the run, where T excludes the reserve that garbage collection keeps
    /// free; `None` if the model has no spare.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effective_spare: Option<f64>,
    /// Remaining rated erases, in percent, of the most worn block in use at the end of the run; 0 if the device is
    /// read-only, `None` if the model has no wear-out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifetime_left_percent: Option<f64>,
    /// Number of bad erase blocks, over the device's life.
    pub bad_block_count: u64,
    /// True if the device is read-only.
    pub read_only: bool,
    /// Simulated seconds from the end of the preparation to the end of the jobs in which the device became read-only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only_seconds: Option<f64>,
    /// Simulated seconds from the end of the preparation to the first failure of a block; in a wear experiment, to the
    /// end of the iteration with this failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_failure_seconds: Option<f64>,
}

fn as_map<S: Serializer>(entries: &[(&'static str, u64)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(entries.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(name: &str, fragile: bool, times_fastest: f64, repetitions: f64) -> Choice {
        Choice {
            name: name.into(),
            fragile,
            times_fastest,
            fastest_on: 0,
            elapsed_s: 1.0,
            p99_ms: 1.0,
            filesystem_writes: 1.0,
            flash_writes: None,
            days: Some(1.0),
            repetitions: Some(repetitions),
        }
    }

    #[test]
    fn without_any_time_no_mechanism_took_the_most() {
        assert_eq!(Mechanisms(vec![("bus", 0.0), ("read", 0.0)]).most(), None);
        assert_eq!(Mechanisms(vec![("bus", 1.0), ("read", 3.0)]).most(), Some(("read", 0.75)));
    }

    #[test]
    fn an_answer_recommends_no_choice_that_a_power_cut_may_damage() {
        let choices = vec![
            choice("exfat", true, 1.0, 900.0),
            choice("ext4", false, 2.0, 100.0),
            choice("f2fs", false, 4.0, 300.0),
        ];
        let mut answer = Answer { question: "SQLite".into(), devices: 3, choices };
        assert_eq!(
            answer.sentence(),
            "SQLite: ext4, the fastest that survives a power cut (exfat takes 50 % of the time); with f2fs, the flash \
             withstands 3.0 times as many repetitions, which take 2.00 times as long."
        );
        answer.choices.pop();
        assert!(answer.sentence().ends_with("; it wears the flash least, too."), "{}", answer.sentence());
        answer.choices.pop();
        assert_eq!(answer.sentence(), "SQLite: a power cut may damage every choice.");
    }
}
