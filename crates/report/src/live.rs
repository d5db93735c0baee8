//! The measurements of a live experiment, for its page.

/// One row of measurements.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// The name of the row.
    pub name: String,
    /// The way in which the device was attached.
    pub attached: String,
    /// Read and write rate in MiB per second: medians over the repeats.
    pub measured: Option<(f64, f64)>,
    /// Throughput as a ratio to the reference in the same run.
    pub ratio: Option<f64>,
    /// Minimum and maximum over the repeats, as ratios.
    pub spread: Option<(f64, f64)>,
    /// Published read and write rate in MiB per second.
    pub published: Option<(f64, f64)>,
    /// Published throughput as a ratio to the published reference.
    pub published_ratio: Option<f64>,
    /// The reason why the row was not measured.
    pub missing: Option<String>,
}

/// The content of a page.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Page<'a> {
    /// The experiment's name.
    pub name: &'a str,
    /// A description of the comparison.
    pub title: &'a str,
    /// A note that every reader of the figures needs.
    pub note: &'a str,
    /// The row that the others are compared with.
    pub reference: &'a str,
    /// The measurement setup: pairs of name and description.
    pub setup: &'a [(String, String)],
    /// The command that repeats the measurement.
    pub command: &'a str,
    /// The rows.
    pub rows: &'a [Row],
}
