//! What a live experiment measured, for its page.

/// A row.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// How it was attached.
    pub attached: String,
    /// MiB a second, read and written: the medians of its repeats.
    pub measured: Option<(f64, f64)>,
    /// Of what it moved, what the reference moved in the same run.
    pub ratio: Option<f64>,
    /// The least and the greatest repeat, as ratios.
    pub spread: Option<(f64, f64)>,
    /// MiB a second, as published.
    pub published: Option<(f64, f64)>,
    /// Of what was published.
    pub published_ratio: Option<f64>,
    /// Why it was not measured.
    pub missing: Option<String>,
}

/// A page's content.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Page<'a> {
    /// The experiment's name.
    pub name: &'a str,
    /// What it compares.
    pub title: &'a str,
    /// What every reader must know of its figures.
    pub note: &'a str,
    /// The row that the others are compared with.
    pub reference: &'a str,
    /// What it was measured with: name and words.
    pub about: &'a [(String, String)],
    /// The command that measures it again.
    pub command: &'a str,
    /// The rows.
    pub rows: &'a [Row],
}
