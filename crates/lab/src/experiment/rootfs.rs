//! Experiments of kind `rootfs`: recorded boots from root images, replayed on each card and compared with published
//! boot times.
//!
//! ```toml
//! kind = "rootfs"
//! [columns]                          # cards, with the host of the publication
//! kthn-16gb = "sd/kthn-16gb"
//! [rootfs]
//! published_on = "kthn-16gb"         # column of the published boot times
//! fitted_on = ["EROFS", "SquashFS (xz)"]   # a row with little processor time, and one with much
//! uncompressed_bytes = 324_000_000   # base of the compression ratios: the "uncompressed filesystem size" of mksquashfs
//! unlike = ["EROFS (lzma)"]          # rows whose published ratio cannot result from the published options
//! [[rootfs.image]]
//! name = "EROFS"
//! recording = "erofs"                # the file is recordings/erofs.rec; it may be missing
//! image_bytes = 304_000_000
//! ratio = false                      # true if the image has a compression ratio; false is the default
//! ```
//!
//! | table | cell | unit |
//! |---|---|---|
//! | `boot time` | time of the boot on the card of the publication: the fixed part plus the replay | `s` |
//! | `compression ratio` | size of the image over the uncompressed size; in the column of the publication, although the card has no effect | `%` |
//! | `boot on each card` | the same boot on every card | `s` |
//!
//! The fixed part is the time of firmware, kernel and drivers, which the recordings lack. A recording counts
//! instructions, and the time of an instruction converts their number to time. Each run fits both numbers on
//! the published times of the two rows of `fitted_on`. The difference of these times determines the time of
//! an instruction, and the first time determines the fixed part. All other rows are predicted.
//!
//! Each card is new, and is first written up to the end of the recorded disk. Sleeps of the boot count as instructions.

use super::error::ExperimentError;
use super::map_parallel::map_parallel;
use super::measured::MeasuredCell;
use super::{Experiment, Outcome, Place, cell_name};
use crate::progress::Progress;
use crate::rank::spearman;
use crate::results::{COMPARISON, Parameter, ParameterKind, Published};
use flashlab_catalogue::device::Device;
use flashlab_catalogue::library::Library;
use flashlab_recording::{Cause, Mode, Reader, Replay, Step, fill};
use flashlab_sim::{Duration, Instant, run as run_workload};
use serde::Deserialize;

const BOOT: &str = "boot time";
const RATIO: &str = "compression ratio";
const EACH_CARD: &str = "boot on each card";

/// Images of an experiment.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Column of the published boot times.
    pub published_on: String,
    /// Names of the two images on whose boot times the fixed part and the time of an instruction are fitted.
    pub fitted_on: [String; 2],
    /// Size of all files without compression in bytes.
    pub uncompressed_bytes: u64,
    /// Images whose published compression ratio cannot result from the published options.
    #[serde(default)]
    pub unlike: Vec<String>,
    /// Images, one row each.
    #[serde(rename = "image")]
    pub images: Vec<RootImage>,
}

/// A root image whose boot was recorded.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RootImage {
    /// Name in tables.
    pub name: String,
    /// Name of the recording's file without its ending.
    pub recording: String,
    /// Size of the image in bytes.
    pub image_bytes: u64,
    /// True if the image has a compression ratio.
    #[serde(default)]
    pub ratio: bool,
}

/// Checks the settings. The error text is a complete message.
pub(super) fn check(settings: &Settings, columns: &toml::Table) -> Result<(), String> {
    if !columns.contains_key(&settings.published_on) {
        return Err(format!("[rootfs]: published_on names {}, which is not a column", settings.published_on));
    }
    let is_image = |name: &&String| settings.images.iter().any(|image| image.name == **name);
    if let Some(other) = settings.fitted_on.iter().chain(&settings.unlike).find(|name| !is_image(name)) {
        return Err(format!("[rootfs]: fitted_on or unlike names {other}, which is not an image"));
    }
    if settings.fitted_on[0] == settings.fitted_on[1] || settings.uncompressed_bytes == 0 {
        return Err(
            "[rootfs]: expected two different images in fitted_on, and uncompressed_bytes above 0".into()
        );
    }
    Ok(())
}

/// A recorded boot in memory.
struct Boot<'a> {
    image: &'a RootImage,
    steps: Vec<Step>,
    /// Capacity of the recorded disk.
    capacity: u64,
}

/// The two fitted numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Fit {
    /// Time of an instruction in picoseconds.
    instruction_ps: u64,
    /// Time of firmware, kernel and drivers in nanoseconds. Negative if the replay alone is longer than the published
    /// boot.
    fixed_ns: i64,
}

impl Fit {
    /// Returns the numbers as free parameters. Each number depends on both rows.
    fn parameters(self, settings: &Settings) -> [Parameter; 2] {
        let cells = settings.fitted_on.iter().map(|row| cell_name(BOOT, row, &settings.published_on));
        let fitted_on: Vec<String> = cells.collect();
        [
            ("boot:fixed_part", format!("{:.3} s", self.fixed_ns as f64 / 1e9)),
            ("boot:instructions_per_second", format!("{:.0} million", 1e6 / self.instruction_ps as f64)),
        ]
        .map(|(path, value)| Parameter {
            path: path.into(),
            value,
            kind: ParameterKind::Fitted,
            fitted_on: fitted_on.clone(),
        })
    }
}

/// Longest time of an instruction that a fit considers: 10 million instructions per second.
const INSTRUCTION_PS_MAX: u64 = 100_000;

/// Replays all boots on all columns.
pub(super) fn run(
    experiment: &Experiment,
    library: &Library,
    seed: u64,
    progress: &Progress,
) -> Result<Outcome, ExperimentError> {
    let settings = experiment.definition.rootfs.as_ref().expect("checked when the experiment was read");
    let mut columns = experiment.columns(library)?;
    if let Some(other) = &experiment.other_value {
        columns.retain(|(column, _)| other.changes(column) || *column == settings.published_on);
    }
    let mut boots = Vec::new();
    for image in &settings.images {
        boots.extend(read(experiment, image)?);
    }
    let reference = columns.iter().find(|(name, _)| *name == settings.published_on);
    let (_, card) = reference.expect("the settings are checked");
    let fit = fit(experiment, settings, &boots, card, seed)?;
    let runs: Vec<(&Boot<'_>, &(String, Device))> = boots
        .iter()
        .flat_map(|boot| columns.iter().map(move |column| (boot, column)))
        .filter(|(boot, (_, device))| boot.capacity <= device.capacity())
        .collect();
    progress.plan(runs.len() as u64);
    let times = map_parallel(&runs, |(boot, (column, device))| {
        if progress.is_stopped() {
            return Err(ExperimentError::Stopped);
        }
        progress.enter(format!("{}, {column}", boot.image.name));
        let time = replay(boot, device, seed, fit.instruction_ps);
        progress.advance(1);
        time.map(|ns| fit.fixed_ns.saturating_add_unsigned(ns))
            .map_err(|what| wrong(experiment, boot.image, what))
    });
    let times = times.into_iter().collect::<Result<Vec<i64>, _>>()?;
    let mut outcome = Outcome::default();
    let seconds = |table: &str, boot: &Boot<'_>, column: &str, ns: i64| {
        let counted = u64::try_from(ns / 1_000).unwrap_or(0);
        MeasuredCell::of_one_run((table, &boot.image.name, column), "s", counted as f64 / 1e6)
    };
    let timed: Vec<_> =
        runs.iter().zip(&times).map(|((boot, (column, _)), ns)| (*boot, column, *ns)).collect();
    for (boot, column, ns) in timed.iter().filter(|(_, column, _)| **column == settings.published_on) {
        outcome.cells.push(seconds(BOOT, boot, column, *ns));
    }
    for image in settings.images.iter().filter(|image| image.ratio) {
        let ratio = 100.0 * image.image_bytes as f64 / settings.uncompressed_bytes as f64;
        let place = (RATIO, image.name.as_str(), settings.published_on.as_str());
        outcome.cells.push(MeasuredCell::of_one_run(place, "%", ratio));
    }
    for (boot, column, ns) in &timed {
        outcome.cells.push(seconds(EACH_CARD, boot, column, *ns));
    }
    outcome.parameters = fit.parameters(settings).to_vec();
    outcome.notes = notes(experiment, settings, fit, &outcome.cells);
    outcome.devices = columns.into_iter().map(Place::of_column).collect();
    Ok(outcome)
}

fn file_name(image: &RootImage) -> String {
    format!("recordings/{}.rec", image.recording)
}

fn wrong(experiment: &Experiment, image: &RootImage, what: String) -> ExperimentError {
    ExperimentError::Wrong { path: experiment.folder.path_of(&file_name(image)), what }
}

/// Reads the recorded boot of an image; none if the file is missing.
fn read<'a>(experiment: &Experiment, image: &'a RootImage) -> Result<Option<Boot<'a>>, ExperimentError> {
    let failed = |what: String| wrong(experiment, image, what);
    let Some(bytes) = experiment.folder.file(&file_name(image)) else { return Ok(None) };
    let mut reader = Reader::new(bytes).map_err(|error| failed(error.to_string()))?;
    let steps =
        reader.by_ref().collect::<Result<Vec<Step>, _>>().map_err(|error| failed(error.to_string()))?;
    if !reader.header().has_dependencies {
        return Err(failed("the recording has no dependencies".into()));
    }
    Ok(Some(Boot { image, steps, capacity: reader.header().capacity }))
}

/// Returns the elapsed time of a boot on a new card in nanoseconds, if an instruction takes `instruction_ps`.
fn replay(boot: &Boot<'_>, device: &Device, seed: u64, instruction_ps: u64) -> Result<u64, String> {
    let mut model = device.build(seed);
    let start = fill(&mut *model, boot.capacity, Instant::ZERO);
    let steps: Vec<Step> = boot.steps.iter().map(|step| paced(step, instruction_ps)).collect();
    let mut replay = Replay::new(steps.iter(), Mode::Dependencies, start);
    run_workload(&mut *model, &mut replay, start);
    replay.finish().map(|outcome| outcome.elapsed.as_ns()).map_err(|error| error.to_string())
}

/// Returns the step with instructions converted to time. The guest counted an instruction as a nanosecond.
fn paced(step: &Step, instruction_ps: u64) -> Step {
    let time = |instructions: Duration| {
        let ns = u128::from(instructions.as_ns()) * u128::from(instruction_ps) / 1_000;
        Duration::from_ns(u64::try_from(ns).unwrap_or(u64::MAX))
    };
    let cause = |cause: &Cause| match *cause {
        Cause::Instant(at) => Cause::Instant(time(at)),
        Cause::Step { back, event, think } => Cause::Step { back, event, think: time(think) },
    };
    Step { causes: step.causes.iter().map(cause).collect(), ..step.clone() }
}

/// Fits both numbers on the two published boot times.
fn fit(
    experiment: &Experiment,
    settings: &Settings,
    boots: &[Boot<'_>],
    card: &Device,
    seed: u64,
) -> Result<Fit, ExperimentError> {
    let definition = |what: String| ExperimentError::Wrong {
        path: experiment.folder.path_of("experiment.toml"),
        what: format!("[rootfs]: fitted_on: {what}"),
    };
    let mut rows = Vec::new();
    for name in &settings.fitted_on {
        let boot = boots.iter().find(|boot| boot.image.name == *name);
        let boot = boot.ok_or_else(|| definition(format!("{name} has no recording")))?;
        let published = published_s(experiment, BOOT, name, &settings.published_on);
        let published = published.ok_or_else(|| definition(format!("{name} has no published boot time")))?;
        rows.push((boot, (published * 1e9).round() as i64));
    }
    let [(light, light_ns), (heavy, heavy_ns)] = rows[..] else { unreachable!("fitted_on has two names") };
    let time = |boot: &Boot<'_>, instruction_ps: u64| {
        let ns =
            replay(boot, card, seed, instruction_ps).map_err(|what| wrong(experiment, boot.image, what))?;
        Ok(i64::try_from(ns).unwrap_or(i64::MAX))
    };
    let found = solve((light_ns, |ps| time(light, ps)), (heavy_ns, |ps| time(heavy, ps)))?;
    found.ok_or_else(|| {
        definition("no time of an instruction up to 100 ns gives the published difference".into())
    })
}

/// Finds both numbers from two boots. Each boot consists of its published nanoseconds, and a function that
/// returns the nanoseconds of its replay for a given time of an instruction. Returns `None` if no time of an
/// instruction gives the published difference.
fn solve<E>(
    (light_ns, light): (i64, impl Fn(u64) -> Result<i64, E>),
    (heavy_ns, heavy): (i64, impl Fn(u64) -> Result<i64, E>),
) -> Result<Option<Fit>, E> {
    let too_fast = |ps: u64| Ok(heavy(ps)? - light(ps)? < heavy_ns - light_ns);
    let Some(instruction_ps) = first_false(1, INSTRUCTION_PS_MAX, too_fast)? else { return Ok(None) };
    Ok(Some(Fit { instruction_ps, fixed_ns: light_ns - light(instruction_ps)? }))
}

/// Returns the first number from `low` to `high` for which `holds` is false, by bisection, or `None` if `holds` is true
/// for all of them. `holds` is true for small numbers and false for large ones.
fn first_false<E>(
    mut low: u64,
    high: u64,
    mut holds: impl FnMut(u64) -> Result<bool, E>,
) -> Result<Option<u64>, E> {
    let mut end = high + 1;
    while low < end {
        let middle = low + (end - low) / 2;
        match holds(middle)? {
            true => low = middle + 1,
            false => end = middle,
        }
    }
    Ok((low <= high).then_some(low))
}

fn published_s(experiment: &Experiment, table: &str, row: &str, column: &str) -> Option<f64> {
    match experiment.published.cell(table, row, column)?.0 {
        Published::Figure { mean, .. } => Some(mean),
        _ => None,
    }
}

/// Returns sentences that compare the cells with the publication.
fn notes(experiment: &Experiment, settings: &Settings, fit: Fit, cells: &[MeasuredCell]) -> Vec<String> {
    let column = &settings.published_on;
    let pairs = |table: &str| -> Vec<(&str, f64, f64)> {
        let of_table = cells.iter().filter(|cell| cell.table == table && cell.column == *column);
        of_table
            .filter_map(|cell| {
                let published = published_s(experiment, table, &cell.row, column)?;
                Some((cell.row.as_str(), cell.simulated.mean, published))
            })
            .collect()
    };
    let order = |pairs: &[(&str, f64, f64)]| {
        let (ours, theirs): (Vec<f64>, Vec<f64>) =
            pairs.iter().map(|(_, ours, theirs)| (*ours, *theirs)).unzip();
        spearman(&ours, &theirs).map_or("undefined".to_owned(), |rho| format!("{rho:.2}"))
    };
    let boots = pairs(BOOT);
    let is_fitted = |name: &str| settings.fitted_on.iter().any(|fitted| fitted == name);
    let mut predicted: Vec<_> = boots.iter().filter(|(name, ..)| !is_fitted(name)).copied().collect();
    predicted.sort_by(|a, b| (b.1 - b.2).abs().total_cmp(&(a.1 - a.2).abs()));
    let errors =
        predicted.iter().take(3).map(|(name, ours, theirs)| format!("{name} {:+.2} s", ours - theirs));
    let [light, heavy] = &settings.fitted_on;
    let mut notes = vec![
        format!(
            "{COMPARISON}two numbers are fitted, on {light} and {heavy}: a fixed part of {:.2} s and {:.0} million \
             instructions per second. {} rows are predicted.",
            fit.fixed_ns as f64 / 1e9,
            1e6 / fit.instruction_ps as f64,
            predicted.len()
        ),
        format!(
            "{COMPARISON}rank correlation of the boot times (Spearman): {} over {} rows, {} over the predicted ones. \
             Largest errors of predicted rows: {}.",
            order(&boots),
            boots.len(),
            order(&predicted),
            errors.collect::<Vec<_>>().join(", ")
        ),
    ];
    let ratios = pairs(RATIO);
    let like: Vec<_> =
        ratios.iter().filter(|(name, ..)| !settings.unlike.iter().any(|u| u == name)).copied().collect();
    let without = match settings.unlike.is_empty() {
        true => String::new(),
        false => format!(", {} without {}", order(&like), settings.unlike.join(", ")),
    };
    notes.push(format!(
        "{COMPARISON}rank correlation of the compression ratios (Spearman): {} over {} rows{without}.",
        order(&ratios),
        ratios.len(),
    ));
    let is_missing = |image: &&RootImage| experiment.folder.file(&file_name(image)).is_none();
    let missing: Vec<&str> =
        settings.images.iter().filter(is_missing).map(|image| image.name.as_str()).collect();
    if !missing.is_empty() {
        notes.push(format!("{COMPARISON}no boot was recorded for: {}.", missing.join(", ")));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use flashlab_recording::{Action, Event, Flags, MarkKind, TaskId};
    use flashlab_sim::Op;

    #[test]
    fn bisection_finds_the_first_number_that_fails() {
        for first in 1..=20 {
            let found = first_false(1, 20, |n| Ok::<_, ()>(n < first)).unwrap();
            assert_eq!(found, Some(first));
        }
        assert_eq!(first_false(1, 20, |_| Ok::<_, ()>(true)), Ok(None));
        assert_eq!(first_false(1, 20, |_| Err(3)), Err(3));
    }

    /// Returns the nanoseconds of a boot that reads `reads` times, each after `instructions`.
    fn boot_ns(reads: u64, instructions: u64, instruction_ps: u64) -> Result<i64, String> {
        let mark = |at, back, think| Step {
            task: TaskId(0),
            at: Duration::ZERO,
            action: Action::Mark(at),
            causes: after(back, think),
        };
        let mut steps = vec![mark(MarkKind::RunBegins, 0, 0)];
        steps.extend((0..reads).map(|n| Step {
            task: TaskId(0),
            at: Duration::ZERO,
            action: Action::Request { op: Op::Read, offset: n << 20, length: 4096, flags: Flags::default() },
            causes: after(1, instructions),
        }));
        steps.push(mark(MarkKind::RunEnds, 1, 0));
        let image = RootImage { name: "a".into(), recording: "a".into(), image_bytes: 1, ratio: false };
        let library = Library::built_in().unwrap();
        let device = Device::open("sd/kingston", &library).unwrap();
        let boot = Boot { image: &image, steps, capacity: 64 << 20 };
        replay(&boot, &device, 1, instruction_ps).map(|ns| i64::try_from(ns).unwrap())
    }

    fn after(back: u32, think: u64) -> Vec<Cause> {
        let cause = Cause::Step { back, event: Event::Completed, think: Duration::from_ns(think) };
        if back == 0 { Vec::new() } else { vec![cause] }
    }

    #[test]
    fn the_fit_recovers_the_numbers_that_made_the_boot_times() {
        let light = |ps| boot_ns(3, 10_000_000, ps);
        let heavy = |ps| boot_ns(9, 90_000_000, ps);
        let made = Fit { instruction_ps: 1_234, fixed_ns: 9_000_000_000 };
        let published = |ns: i64| made.fixed_ns + ns;
        let (a, b) = (light(made.instruction_ps).unwrap(), heavy(made.instruction_ps).unwrap());
        assert!(b > a + 900_000_000, "{a} ns, {b} ns");
        assert_eq!(solve((published(a), light), (published(b), heavy)), Ok(Some(made)));
        assert_eq!(solve((0, light), (i64::MAX, heavy)), Ok(None));
    }

    #[test]
    fn causes_are_converted_to_time_and_the_instant_of_a_step_stays() {
        let step = Step {
            task: TaskId(1),
            at: Duration::from_ns(900),
            action: Action::Mark(MarkKind::RunEnds),
            causes: vec![
                Cause::Instant(Duration::from_ns(10)),
                Cause::Step { back: 2, event: Event::Completed, think: Duration::from_ns(2_000) },
            ],
        };
        let slow = paced(&step, 2_500);
        assert_eq!(slow.at, step.at);
        let think = Duration::from_ns(5_000);
        let expected =
            [Cause::Instant(Duration::from_ns(25)), Cause::Step { back: 2, event: Event::Completed, think }];
        assert_eq!(slow.causes, expected);
        assert_eq!(paced(&step, 1_000), step);
    }
}
