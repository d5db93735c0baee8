//! Results of a live experiment as an HTML page.

use super::table::LIVE;
use super::{Outcome, Row};
use flashlab_report::html::live_page;
use flashlab_report::live;

impl Outcome {
    /// Returns the page.
    pub(crate) fn page(&self, name: &str, title: &str, reference: &str, command: &str) -> String {
        let base = self.rows.iter().find(|row| row.name == reference).and_then(Row::median);
        let base = base.map(|(read, write)| read + write).filter(|base| *base > 0.0);
        let row = |(row, (ratio, published_ratio)): (&Row, (Option<f64>, Option<f64>))| live::Row {
            name: row.name.clone(),
            attached: row.attached.clone(),
            measured: row.median(),
            ratio,
            spread: base.and_then(|base| row.spread(base)),
            published: row.published,
            published_ratio,
            missing: row.missing.clone(),
        };
        let rows: Vec<live::Row> = self.rows.iter().zip(self.ratios(reference)).map(row).collect();
        live_page(&live::Page {
            name,
            title,
            note: LIVE,
            reference,
            setup: &self.setup,
            command,
            rows: &rows,
        })
    }
}

impl Row {
    /// Returns the smallest and the largest repeat as shares of `base`.
    fn spread(&self, base: f64) -> Option<(f64, f64)> {
        let shares = || self.runs.iter().map(|(read, write)| (read + write) / base);
        Some((shares().min_by(f64::total_cmp)?, shares().max_by(f64::total_cmp)?))
    }
}
