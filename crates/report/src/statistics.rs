//! Device counters as text: one line per quantity, one column per run. Quantities that no run has are omitted.

use crate::{grid, number};
use flashlab_lab::results::{DeviceStatistics, Results};

/// One quantity, with its value in each run.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    /// The name: `write amplification`.
    pub(crate) name: String,
    /// A description, in one sentence.
    pub(crate) meaning: &'static str,
    /// One value per run, in order; empty if the run has none.
    pub(crate) values: Vec<String>,
}

/// Returns the name of one device, then its counters with one line per quantity, then the remarks on its numbers.
///
/// ```
/// use flashlab_lab::results::DeviceStatistics;
/// let counted = DeviceStatistics { column: "sd/kingston".into(), host_written_bytes: 4096, ..Default::default() };
/// assert!(flashlab_report::of_device(&counted).starts_with("sd/kingston:\n  host wrote"));
/// ```
pub fn of_device(counted: &DeviceStatistics) -> String {
    let lines = lines(&[counted]);
    let width = lines.iter().map(|line| line.name.chars().count()).max().unwrap_or(0);
    let mut text = format!("{}:\n", name(counted));
    for line in &lines {
        text.push_str(&format!("  {:width$}  {}\n", line.name, line.values.concat()));
    }
    if counted.erases.is_some() {
        text.push_str("  \"erases of a block\" counts the whole life of the device, with its preparation\n");
    }
    for remark in &counted.remarks {
        text.push_str(&format!("  {remark}\n"));
    }
    number::plain(&text)
}

/// Returns the runs that are not points of a curve.
pub(crate) fn whole_runs(results: &Results) -> Vec<&DeviceStatistics> {
    results.statistics.iter().filter(|run| !grid::is_curve(results, &run.table)).collect()
}

/// Returns the runs that are points of a curve.
pub(crate) fn points(results: &Results) -> Vec<&DeviceStatistics> {
    results.statistics.iter().filter(|run| grid::is_curve(results, &run.table)).collect()
}

/// Returns the name of a run: `sequential · static`.
pub(crate) fn name(run: &DeviceStatistics) -> String {
    let words: Vec<&str> =
        [run.table.as_str(), &run.row, &run.column].into_iter().filter(|word| !word.is_empty()).collect();
    if words.is_empty() { "device".into() } else { words.join(" · ") }
}

/// Returns all quantities that any of `runs` has.
pub(crate) fn lines(runs: &[&DeviceStatistics]) -> Vec<Line> {
    let mut lines = vec![];
    let mut add = |name: &str, meaning: &'static str, of: &dyn Fn(&DeviceStatistics) -> Option<String>| {
        let values: Vec<String> = runs.iter().map(|run| of(run).unwrap_or_default()).collect();
        if values.iter().any(|value| !value.is_empty()) {
            lines.push(Line { name: name.into(), meaning, values });
        }
    };
    let erases = |of: fn(&flashlab_lab::results::Erases) -> String| {
        move |run: &DeviceStatistics| run.erases.as_ref().map(of)
    };
    let more_than_none = |n: u64| (n > 0).then(|| count(n));
    add("host wrote", "Bytes that the host wrote.", &|run| Some(number::bytes(run.host_written_bytes)));
    add("host read", "Bytes that the host read.", &|run| run.host_read_bytes.map(number::bytes));
    add("flash programmed", "Bytes programmed into the array, for any cause.", &|run| {
        Some(number::bytes(run.programmed_bytes))
    });
    add("write amplification", "Bytes programmed divided by bytes that the host wrote.", &|run| {
        run.write_amplification.map(|value| number::fixed(value, 3))
    });
    add("total erases", "Erases of all blocks in this run.", &|run| Some(count(run.erase_count)));
    add(
        "erases of a block, mean",
        "Mean over the blocks in use, over the life of the device.",
        &erases(|e| number::exact(e.mean)),
    );
    add("erases of a block, min", "", &erases(|e| count(e.min.into())));
    add("erases of a block, max", "", &erases(|e| count(e.max.into())));
    add(
        "erases of a block, stdev",
        "Standard deviation over the blocks.",
        &erases(|e| number::compact(e.sd)),
    );
    add("collections", "Victim blocks whose valid data garbage collection moved.", &|run| {
        more_than_none(run.collection_count)
    });
    for cause in union(runs, |run| &run.moved_bytes) {
        add(&format!("moved by {cause}"), "Bytes programmed in addition to the host's data.", &|run| {
            value(&run.moved_bytes, cause).map(number::bytes)
        });
    }
    for level in union(runs, |run| &run.map_look_ups) {
        add(&format!("map look-ups, {level}"), "Map look-ups that were answered at this level.", &|run| {
            let all: u64 = run.map_look_ups.iter().fold(0, |sum, (_, n)| sum.saturating_add(*n));
            let n = value(&run.map_look_ups, level)?;
            let share = if all > 0 { n as f64 / all as f64 } else { 0.0 };
            Some(format!("{} ({})", count(n), number::share(share)))
        });
    }
    add(
        "effective spare",
        "Good flash beyond the exported capacity, less the blocks that the translation layer needs, as a share of the \
         exported capacity.",
        &|run| run.effective_spare.map(|spare| number::percent(100.0 * spare, 3)),
    );
    add("life left", "Share of the rated erases that the most worn block has left.", &|run| {
        run.lifetime_left_percent.map(|left| number::percent(left, 3))
    });
    add("blocks out of use", "Worn out, failed or bad from the factory.", &|run| {
        more_than_none(run.bad_block_count)
    });
    add("first failure", "Time from the start of the run until the first block wore out.", &|run| {
        run.first_failure_seconds.map(number::span_s)
    });
    add(
        "accepts writes",
        "A read-only device refuses writes; the host wrote all of its bytes before that time.",
        &|run| {
            let since = run.read_only_seconds.map(|after| format!(" after {}", number::span_s(after)));
            run.read_only.then(|| format!("no: read-only{}", since.unwrap_or_default()))
        },
    );
    lines
}

fn count(n: u64) -> String {
    number::fixed(n as f64, 0)
}

type Entries = Vec<(&'static str, u64)>;

/// Returns the names in the lists of all runs, in order of first appearance.
fn union(runs: &[&DeviceStatistics], of: fn(&DeviceStatistics) -> &Entries) -> Vec<&'static str> {
    let mut names = vec![];
    for (name, _) in runs.iter().flat_map(|run| of(run)) {
        if !names.contains(name) {
            names.push(*name);
        }
    }
    names
}

fn value(entries: &Entries, name: &str) -> Option<u64> {
    entries.iter().find(|(other, _)| *other == name).map(|(_, value)| *value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_without_a_value_have_no_line() {
        let runs = [
            DeviceStatistics { moved_bytes: vec![("collection", 4096)], ..Default::default() },
            DeviceStatistics { effective_spare: Some(0.0731), ..Default::default() },
        ];
        let lines = lines(&[&runs[0], &runs[1]]);
        let names: Vec<&str> = lines.iter().map(|line| line.name.as_str()).collect();
        assert_eq!(
            names,
            ["host wrote", "flash programmed", "total erases", "moved by collection", "effective spare"]
        );
        assert_eq!(lines[3].values, ["4.00\u{a0}KiB", ""]);
        assert_eq!(lines[4].values, ["", "7.31\u{a0}%"]);
    }

    #[test]
    fn erases_over_the_life_of_a_device_are_distinguished_from_erases_in_the_run() {
        let erases = flashlab_lab::results::Erases::default();
        let text = of_device(&DeviceStatistics { erases: Some(erases), ..Default::default() });
        assert!(text.contains("counts the whole life of the device"), "{text}");
    }
}
