//! Experiments of kind `recorded`: recorded workloads on several filesystems, replayed on each device.
//!
//! ```toml
//! kind = "recorded"
//! [columns]                          # devices; with cycles, so that the days can be estimated
//! kingston = "sd/kingston:cycles=3000"
//! [recorded]
//! repeats = 8                        # replays of each recording on one device
//! [[recorded.workload]]
//! name = "SQLite"
//! recordings = "sqlite"
//! payload_bytes = 40000              # bytes that the application asked to write
//! [[recorded.filesystem]]
//! name = "ext4"
//! recordings = "ext4"                # the file is recordings/ext4-sqlite.rec
//! fragile = false                    # true if a power cut may damage the filesystem; false is the default
//! ```
//!
//! | table | cell | unit |
//! |---|---|---|
//! | `NAME: elapsed` | time of the first replay | `s` |
//! | `NAME: p99` | 99th percentile of the latency of operations that the user waits for, in the first replay | `ms` |
//! | `NAME: flash writes` | programmed bytes per byte that the host wrote, in the second half of the replays | `ratio` |
//! | `NAME: life` | days until the first erase block fails, if the workload repeats without a pause | `days` |
//!
//! Each device is new, and is first written up to the capacity of the recorded disk; the rest of the device
//! is empty. The days assume that the bytes programmed in the second half spread evenly over the blocks in
//! use; the block with the lowest limit ends the life.
//!
//! The answers of the results compare the filesystems of each workload by the medians over the devices. They also state
//! the bytes of the recording's writes per byte of the payload, a ratio that does not depend on the device. A device
//! that is smaller than the recorded disk has no cells.

use super::error::ExperimentError;
use super::map_parallel::map_parallel;
use super::measured::MeasuredCell;
use super::{Experiment, Outcome, Place};
use crate::progress::Progress;
use crate::results::{Answer, Choice, median};
use crate::statistics::{Counters, Wear, in_use};
use flashlab_catalogue::device::Device;
use flashlab_catalogue::library::Library;
use flashlab_recording::{Mode, Reader, Replay, Step, Summary, fill};
use flashlab_sim::{Instant, run as run_workload};
use serde::Deserialize;

/// Recordings of an experiment.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Number of replays of each recording on one device; at least 2.
    pub repeats: u32,
    /// Workloads, one group of tables each.
    #[serde(rename = "workload")]
    pub workloads: Vec<RecordedWorkload>,
    /// Filesystems, one row each.
    #[serde(rename = "filesystem")]
    pub filesystems: Vec<RecordedFilesystem>,
}

/// A workload that was recorded on each filesystem.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedWorkload {
    /// Name in tables.
    pub name: String,
    /// Second part of the names of its recordings.
    pub recordings: String,
    /// Bytes that the application asked to write.
    pub payload_bytes: u64,
}

/// A filesystem on which the workloads were recorded.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedFilesystem {
    /// Name in tables.
    pub name: String,
    /// First part of the names of its recordings.
    pub recordings: String,
    /// True if a power cut may damage the filesystem, so that it needs a check.
    #[serde(default)]
    pub fragile: bool,
}

/// Checks the settings. The error text is a complete message.
pub(super) fn check(settings: &Settings) -> Result<(), String> {
    if settings.repeats < 2 || settings.workloads.is_empty() || settings.filesystems.is_empty() {
        return Err("[recorded]: expected at least 2 repeats, one workload and one filesystem".into());
    }
    if settings.workloads.iter().any(|workload| workload.payload_bytes == 0) {
        return Err("[recorded]: payload_bytes must be above 0".into());
    }
    Ok(())
}

/// A recording in memory.
struct Recording<'a> {
    workload: &'a RecordedWorkload,
    filesystem: &'a RecordedFilesystem,
    steps: Vec<Step>,
    summary: Summary,
    /// Capacity of the recorded disk.
    capacity: u64,
}

/// Measurements of a recording on a device.
struct Replayed {
    elapsed_ns: u64,
    p99_ns: u64,
    /// Bytes of the recording's writes.
    written_bytes: u64,
    /// Programmed bytes in the second half of the replays.
    programmed_late: u64,
    /// Bytes that the host wrote in the second half of the replays.
    written_late: u64,
    /// Days until the first block fails.
    days: Option<f64>,
    /// Elapsed time of the second half of the replays.
    late_ns: u64,
    /// Number of replays in the second half.
    late: u32,
}

impl Replayed {
    /// Returns the number of replays until the first block fails.
    fn repetitions(&self) -> Option<f64> {
        let each_s = self.late_ns as f64 / 1e9 / f64::from(self.late);
        Some(self.days? * 86_400.0 / each_s)
    }
}

/// Replays all recordings on all columns.
pub(super) fn run(
    experiment: &Experiment,
    library: &Library,
    seed: u64,
    progress: &Progress,
) -> Result<Outcome, ExperimentError> {
    let settings = experiment.definition.recorded.as_ref().expect("checked when the experiment was read");
    let mut columns = experiment.columns(library)?;
    if let Some(other) = &experiment.other_value {
        columns.retain(|(column, _)| other.changes(column));
    }
    let mut recordings = Vec::new();
    for workload in &settings.workloads {
        for filesystem in &settings.filesystems {
            recordings.push(read(experiment, workload, filesystem)?);
        }
    }
    let runs: Vec<(&Recording<'_>, &(String, Device))> = recordings
        .iter()
        .flat_map(|recording| columns.iter().map(move |column| (recording, column)))
        .filter(|(recording, (_, device))| recording.capacity <= device.capacity())
        .collect();
    progress.plan(runs.len() as u64);
    let replayed = map_parallel(&runs, |(recording, (column, device))| {
        if progress.is_stopped() {
            return Err(ExperimentError::Stopped);
        }
        progress.enter(format!("{}, {}/{column}", recording.workload.name, recording.filesystem.name));
        let replayed = replay(recording, device, seed, settings.repeats);
        progress.advance(1);
        replayed.map_err(|what| wrong(experiment, recording.filesystem, recording.workload, what))
    });
    let replayed = replayed.into_iter().collect::<Result<Vec<_>, _>>()?;
    let all: Vec<_> =
        runs.iter().zip(&replayed).map(|((recording, (column, _)), r)| (*recording, column, r)).collect();
    let mut outcome = Outcome::default();
    for workload in &settings.workloads {
        let of_workload: Vec<_> = all.iter().filter(|(r, ..)| r.workload.name == workload.name).collect();
        for metric in Metric::CELLS {
            outcome
                .cells
                .extend(of_workload.iter().filter_map(|(r, column, found)| cell(metric, r, column, found)));
        }
        let found = of_workload
            .iter()
            .map(|(r, column, found)| (r.filesystem.name.as_str(), column.as_str(), *found));
        outcome.answers.push(answer(settings, workload, &found.collect::<Vec<_>>()));
    }
    outcome.devices = columns.into_iter().map(Place::of_column).collect();
    Ok(outcome)
}

fn wrong(
    experiment: &Experiment,
    filesystem: &RecordedFilesystem,
    workload: &RecordedWorkload,
    what: String,
) -> ExperimentError {
    let file = file_name(filesystem, workload);
    ExperimentError::Wrong { path: experiment.folder.path_of(&file), what }
}

fn file_name(filesystem: &RecordedFilesystem, workload: &RecordedWorkload) -> String {
    format!("recordings/{}-{}.rec", filesystem.recordings, workload.recordings)
}

fn read<'a>(
    experiment: &Experiment,
    workload: &'a RecordedWorkload,
    filesystem: &'a RecordedFilesystem,
) -> Result<Recording<'a>, ExperimentError> {
    let failed = |what: String| wrong(experiment, filesystem, workload, what);
    let bytes = experiment.folder.file(&file_name(filesystem, workload));
    let bytes = bytes.ok_or_else(|| failed("the file is missing; `flashlab record` writes it".into()))?;
    let mut reader = Reader::new(bytes).map_err(|error| failed(error.to_string()))?;
    let (mut steps, mut summary) = (Vec::new(), Summary::default());
    for step in reader.by_ref() {
        let step = step.map_err(|error| failed(error.to_string()))?;
        summary.add(&step);
        steps.push(step);
    }
    if !reader.header().has_dependencies {
        return Err(failed("the recording has no dependencies".into()));
    }
    let capacity = reader.header().capacity.max(summary.end);
    Ok(Recording { workload, filesystem, steps, summary, capacity })
}

fn replay(recording: &Recording<'_>, device: &Device, seed: u64, repeats: u32) -> Result<Replayed, String> {
    let mut model = device.build(seed);
    let mut now = fill(&mut *model, recording.capacity, Instant::ZERO);
    let before = Counters::of(&*model);
    let mut middle = before.clone();
    let (mut first, mut late_ns) = (None, 0);
    for number in 0..repeats {
        if number == repeats / 2 {
            middle = Counters::of(&*model);
        }
        let mut replay = Replay::new(recording.steps.iter(), Mode::Dependencies, now);
        now = run_workload(&mut *model, &mut replay, now);
        let outcome = replay.finish().map_err(|error| error.to_string())?;
        if number >= repeats / 2 {
            late_ns += outcome.elapsed.as_ns();
        }
        first.get_or_insert(outcome);
    }
    let first = first.expect("there are at least 2 repeats");
    let after = Counters::of(&*model);
    let programmed_late = after.since(&middle, "programmed_bytes");
    Ok(Replayed {
        elapsed_ns: first.elapsed.as_ns(),
        p99_ns: first.operations.percentile(99.0).as_ns(),
        written_bytes: recording.summary.writes.bytes,
        programmed_late,
        written_late: after.since(&middle, "host_written_bytes"),
        days: Wear::of(&*model).and_then(|wear| days(&wear, programmed_late, late_ns)),
        late_ns,
        late: repeats - repeats / 2,
    })
}

/// Returns the days until the block with the lowest limit fails, if the device programs `programmed` bytes in every
/// `ns` nanoseconds, spread evenly over its blocks.
fn days(wear: &Wear, programmed: u64, ns: u64) -> Option<f64> {
    let lowest = f64::from(in_use(&wear.limits, &wear.bad).min()?);
    let whole = lowest * in_use(&wear.erase_counts, &wear.bad).count() as f64 * wear.bytes as f64;
    (programmed > 0).then(|| whole / programmed as f64 * ns as f64 / 1e9 / 86_400.0)
}

/// A measured quantity.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Metric {
    Elapsed,
    P99,
    FilesystemWrites,
    FlashWrites,
    Life,
}

impl Metric {
    /// Metrics that have cells.
    const CELLS: [Metric; 4] = [Metric::Elapsed, Metric::P99, Metric::FlashWrites, Metric::Life];

    /// Returns the name and the unit.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Metric::Elapsed => ("elapsed", "s"),
            Metric::P99 => ("p99", "ms"),
            Metric::FilesystemWrites => ("filesystem writes", "ratio"),
            Metric::FlashWrites => ("flash writes", "ratio"),
            Metric::Life => ("life", "days"),
        }
    }

    fn of(self, found: &Replayed, workload: &RecordedWorkload) -> Option<f64> {
        Some(match self {
            Metric::Elapsed => found.elapsed_ns as f64 / 1e9,
            Metric::P99 => found.p99_ns as f64 / 1e6,
            Metric::FilesystemWrites => found.written_bytes as f64 / workload.payload_bytes as f64,
            Metric::FlashWrites if found.written_late == 0 => return None,
            Metric::FlashWrites => found.programmed_late as f64 / found.written_late as f64,
            Metric::Life => found.days?,
        })
    }
}

fn cell(metric: Metric, recording: &Recording<'_>, column: &str, found: &Replayed) -> Option<MeasuredCell> {
    let figure = metric.of(found, recording.workload)?;
    let (name, unit) = metric.names();
    let table = format!("{}: {name}", recording.workload.name);
    Some(MeasuredCell::of_one_run((&table, &recording.filesystem.name, column), unit, figure))
}

/// Compares the filesystems of a workload. Each element of `found` is a filesystem, a column and a
/// measurement.
fn answer(settings: &Settings, workload: &RecordedWorkload, found: &[(&str, &str, &Replayed)]) -> Answer {
    let best = |column: &str| {
        found.iter().filter(|(_, there, _)| *there == column).map(|(.., r)| r.elapsed_ns).min().unwrap_or(0)
    };
    let choice = |filesystem: &RecordedFilesystem| {
        let own: Vec<_> = found.iter().filter(|(name, ..)| *name == filesystem.name).collect();
        let median_of =
            |metric: Metric| median(own.iter().filter_map(|(.., r)| metric.of(r, workload)).collect());
        let slowdown =
            |(_, column, r): &&(&str, &str, &Replayed)| r.elapsed_ns as f64 / best(column).max(1) as f64;
        Choice {
            name: filesystem.name.clone(),
            fragile: filesystem.fragile,
            times_fastest: median(own.iter().map(slowdown).collect()).unwrap_or(f64::INFINITY),
            fastest_on: own.iter().filter(|(_, column, r)| r.elapsed_ns == best(column)).count(),
            elapsed_s: median_of(Metric::Elapsed).unwrap_or(0.0),
            p99_ms: median_of(Metric::P99).unwrap_or(0.0),
            filesystem_writes: median_of(Metric::FilesystemWrites).unwrap_or(0.0),
            flash_writes: median_of(Metric::FlashWrites),
            days: median_of(Metric::Life),
            repetitions: median(own.iter().filter_map(|(.., r)| r.repetitions()).collect()),
        }
    };
    let choices: Vec<Choice> = settings.filesystems.iter().map(choice).collect();
    let mut columns: Vec<&str> = found.iter().map(|(_, column, _)| *column).collect();
    columns.sort_unstable();
    columns.dedup();
    Answer { question: workload.name.clone(), devices: columns.len(), choices }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_life_is_that_of_the_weakest_block_under_even_wear() {
        let wear = Wear {
            bytes: 1 << 20,
            erase_counts: vec![0; 10],
            bad: Vec::new(),
            rated_cycles: Some(100),
            limits: vec![100, 90, 120, 100, 100, 100, 100, 100, 100, 100],
        };
        // 90 erases of each of 10 blocks, at one erase a second, take 900 s.
        let found = days(&wear, 5 << 20, 5_000_000_000).unwrap();
        assert!((found - 900.0 / 86_400.0).abs() < 1e-12, "{found}");
        assert_eq!(days(&wear, 0, 1), None);
        // Without the weakest block, 9 blocks have 100 erases each.
        let without = Wear { bad: vec![1], ..wear.clone() };
        let found = days(&without, 5 << 20, 5_000_000_000).unwrap();
        assert!((found - 900.0 / 86_400.0).abs() < 1e-12, "{found}");
        assert_eq!(days(&Wear { limits: Vec::new(), ..wear }, 1, 1), None);
    }

    #[test]
    fn the_answer_compares_each_device_with_its_own_fastest_filesystem() {
        let found = |elapsed_ns, programmed_late| Replayed {
            elapsed_ns,
            p99_ns: elapsed_ns / 10,
            written_bytes: 4_000,
            programmed_late,
            written_late: 1_000,
            days: None,
            late_ns: 1,
            late: 1,
        };
        let named =
            |name: &str| RecordedFilesystem { name: name.into(), recordings: name.into(), fragile: false };
        let workload =
            RecordedWorkload { name: "SQLite".into(), recordings: "sqlite".into(), payload_bytes: 1_000 };
        let settings = Settings {
            repeats: 2,
            workloads: vec![workload.clone()],
            filesystems: vec![named("ext4"), named("f2fs")],
        };
        let runs = [found(100, 3_000), found(800, 5_000), found(200, 2_000), found(400, 4_000)];
        let places = [("ext4", "a"), ("ext4", "b"), ("f2fs", "a"), ("f2fs", "b")];
        let found: Vec<_> = places.iter().zip(&runs).map(|((fs, column), run)| (*fs, *column, run)).collect();
        let Answer { devices, choices, .. } = answer(&settings, &workload, &found);
        assert_eq!(devices, 2);
        assert_eq!(choices.iter().map(|c| c.fastest_on).collect::<Vec<_>>(), [1, 1]);
        assert_eq!(choices.iter().map(|c| c.times_fastest).collect::<Vec<_>>(), [1.5, 1.5]);
        assert_eq!(choices[0].flash_writes, Some(4.0));
        assert_eq!(choices[1].filesystem_writes, 4.0);
        assert_eq!(choices[0].days, None);
    }
}
