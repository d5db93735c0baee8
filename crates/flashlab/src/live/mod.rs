//! Live experiments: an experiment's scripts measure each row on this machine, or in a guest on it.

mod measure;
mod page;
mod table;

use flashlab_lab::results::median;
pub(crate) use measure::{Settings, measure};

/// Results of a live experiment.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// Names and values that describe the machine, the tools and the settings.
    pub(crate) setup: Vec<(String, String)>,
    pub(crate) rows: Vec<Row>,
}

/// Measurements of a row.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row {
    pub(crate) name: String,
    /// Attachment of the device, as the script reports it.
    pub(crate) attached: String,
    /// Throughput of reads and writes in MiB/s, one pair per repeat.
    pub(crate) runs: Vec<(f64, f64)>,
    /// Reason for a missing measurement.
    pub(crate) missing: Option<String>,
    /// Published throughput of reads and writes in MiB/s.
    pub(crate) published: Option<(f64, f64)>,
}

impl Row {
    /// Returns the medians of reads and writes, if the row was measured.
    pub(crate) fn median(&self) -> Option<(f64, f64)> {
        let of = |which: fn(&(f64, f64)) -> f64| median(self.runs.iter().map(which).collect());
        Some((of(|run| run.0)?, of(|run| run.1)?))
    }
}

impl Outcome {
    /// Returns, for each row, its throughput (reads plus writes) divided by that of the row `reference`: measured, then
    /// published.
    pub(crate) fn ratios(&self, reference: &str) -> Vec<(Option<f64>, Option<f64>)> {
        let both = |pair: Option<(f64, f64)>| pair.map(|(read, write)| read + write);
        let of = |row: &Row| (both(row.median()), both(row.published));
        let base = self.rows.iter().find(|row| row.name == reference).map(of).unwrap_or_default();
        let ratio = |value: Option<f64>, base: Option<f64>| Some(value? / base.filter(|base| *base > 0.0)?);
        self.rows
            .iter()
            .map(|row| {
                let (measured, published) = of(row);
                (ratio(measured, base.0), ratio(published, base.1))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_of_repeats_is_between_the_middle_ones() {
        let row = Row { runs: vec![(4.0, 40.0), (1.0, 10.0), (2.0, 20.0), (3.0, 30.0)], ..Row::default() };
        assert_eq!(row.median(), Some((2.5, 25.0)));
    }

    #[test]
    fn ratios_are_of_medians_within_one_run() {
        let row = |name: &str, runs: &[(f64, f64)], published| Row {
            name: name.to_owned(),
            runs: runs.to_vec(),
            published,
            ..Row::default()
        };
        let rows = vec![
            row("loop", &[(100.0, 100.0), (9.0, 9.0), (110.0, 110.0)], Some((400.0, 400.0))),
            row("half", &[(50.0, 50.0)], Some((100.0, 100.0))),
            row("missing", &[], None),
        ];
        let outcome = Outcome { setup: Vec::new(), rows };
        let wanted = vec![(Some(1.0), Some(1.0)), (Some(0.5), Some(0.25)), (None, None)];
        assert_eq!(outcome.ratios("loop"), wanted);
        assert_eq!(outcome.ratios("nothing")[0], (None, None));
    }
}
