//! Experiments of the kinds `sweep`, `wear`, `endurance` and `gc` on small devices, from folders on disk.

use flashlab_catalogue::device::Device;
use flashlab_catalogue::library::Library;
use flashlab_fio::cmdline::Invocation;
use flashlab_fio::loader::NoFiles;
use flashlab_fio::stats::Settings;
use flashlab_lab::bench::{Bench, BenchError, refusal};
use flashlab_lab::experiment::{EnduranceSettings, EnduranceWorkload, Experiment, ExperimentError};
use flashlab_lab::progress::Progress;
use flashlab_lab::results::{Cell, ParameterKind, ReferenceKind, Results, Role};
use insta::assert_snapshot;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

pub(super) static LIBRARY: LazyLock<Library> = LazyLock::new(|| {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../catalogue/tests/profiles/library");
    Library::open(&[folder]).unwrap_or_else(|e| panic!("{e}"))
});

/// A folder with an experiment. Dropping it deletes the folder.
pub(super) struct Folder(pub(super) PathBuf);

impl Folder {
    pub(super) fn new(name: &str, experiment: &str, published: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("experiment.toml"), experiment).unwrap();
        fs::write(path.join("published.toml"), published).unwrap();
        Folder(path)
    }
    fn open(&self) -> Result<Experiment, ExperimentError> {
        Experiment::open(self.0.to_str().unwrap(), &LIBRARY)
    }
    pub(super) fn run(&self, seed: u64) -> Results {
        let experiment = self.open().unwrap_or_else(|e| panic!("{e}"));
        experiment.run(&LIBRARY, seed, &Progress::default()).unwrap_or_else(|e| panic!("{e}"))
    }
    /// Returns the error of the experiment, with the path of the folder replaced.
    pub(super) fn wrong(&self) -> String {
        let error =
            self.open().and_then(|experiment| experiment.run(&LIBRARY, 1, &Progress::default())).unwrap_err();
        error.to_string().replace(&self.0.display().to_string(), "DIR")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn cell<'a>(results: &'a Results, table: &str, row: &str, column: &str) -> &'a Cell {
    let here = |c: &&Cell| (c.table.as_str(), c.row.as_str(), c.column.as_str()) == (table, row, column);
    results.cells.iter().find(here).unwrap_or_else(|| panic!("no cell {table} {row}/{column}"))
}

#[test]
fn the_waves_of_a_step_run_one_after_the_other() {
    let experiment = r#"
title = "Waves"
kind = "matrix"
source = "a test"
columns = { card = "test/one" }
[[step]]
table = "one"
unit = "MiB/s"
job = "--name=a --rw=read --bs=128k --size=8m --direct=1"
[[step]]
table = "two"
unit = "MiB/s"
job = "--direct=1 --rw=read --bs=128k --size=8m --name=a --name=b --stonewall"
"#;
    let results = Folder::new("waves", experiment, "").run(1);
    let (one, two) = (cell(&results, "one", "", "card"), cell(&results, "two", "", "card"));
    assert_eq!(two.requests, 2 * one.requests);
    let ratio = two.simulated.mean / one.simulated.mean;
    assert!((0.98..1.02).contains(&ratio), "{ratio}");
}

const KEYS: &str = r#"
title = "Keys"
kind = "matrix"
source = "a test"
[columns]
plain = "test/one"
chosen = "test/one:t_prog=1ms"
[[row]]
name = "narrow"
keys = "host.bus_width=1"
SOURCES
[[step]]
table = "a"
unit = "MiB/s"
job = "--name=a --rw=write --bs=128k --size=1m --direct=1"
"#;
const KEYS_PUBLISHED: &str = r#"
[[table]]
name = "a"
row = "narrow"
unit = "MiB/s"
plain = { mean = 3.0 }
chosen = { mean = 3.0 }
"#;

/// Checks the kind of a number that is set by key, and the role of the cell in its column.
#[test]
fn a_number_set_by_key_is_a_free_parameter_unless_it_is_a_condition() {
    let run = |name: &str, sources: &str| {
        let results = Folder::new(name, &KEYS.replace("SOURCES", sources), KEYS_PUBLISHED).run(1);
        let kind = |path: &str| {
            let found = results.parameters.iter().find(|p| p.path.ends_with(path));
            found.map(|p| p.kind)
        };
        let (width, t_prog) = (kind("host.bus_width"), kind("one:flash.t_prog"));
        let set = results.parameters.iter().find(|p| p.value == "1ms").map(|p| p.kind);
        let role = |column| cell(&results, "a", "narrow", column).role;
        (width, t_prog.is_some(), set, role("plain"), role("chosen"))
    };
    let by_hand = Some(ParameterKind::SetByKey);
    assert_eq!(run("keys-none", ""), (by_hand, true, by_hand, Role::Unsourced, Role::Unsourced));
    let condition = r#"[sources]
"host.bus_width" = { condition = "one line" }
"#;
    assert_eq!(run("keys-1", condition), (None, true, by_hand, Role::Predicted, Role::Unsourced));
    let fitted = format!("{condition}\"flash.t_prog\" = {{ fitted = [\"a narrow/chosen\"] }}");
    let adjusted = Some(ParameterKind::Fitted);
    assert_eq!(run("keys-2", &fitted), (None, true, adjusted, Role::Predicted, Role::Fitted));
    let typical = format!("{condition}\"flash.t_prog\" = {{ typical = \"slow\" }}");
    let chosen = Some(ParameterKind::Chosen);
    assert_eq!(run("keys-3", &typical), (None, true, chosen, Role::Predicted, Role::Predicted));
    for (sources, words) in [
        ("\"host.bus_widht\" = { condition = \"x\" }", "unknown parameter host.bus_widht"),
        ("\"flash.t_read\" = { typical = \"x\" }", "which no column, row or filesystem sets"),
        ("\"flash.t_prog\" = { guessed = \"x\" }", "unknown variant"),
    ] {
        let wrong = KEYS.replace("SOURCES", &format!("[sources]\n{sources}"));
        let wrong = Folder::new("keys-wrong", &wrong, KEYS_PUBLISHED).wrong();
        assert!(wrong.contains(words), "{wrong}");
    }
}

const UNDETERMINED: &str = r#"
title = "A number that nothing determines"
kind = "matrix"
source = "a test"
[columns]
slow = "sd/sandisk-2gb"
fast = "sd/sandisk-2gb:host=raspberry-pi-4"
[[preparation]]
job = "--name=a --rw=write --bs=1m --size=2m --direct=1"
[[step]]
table = "read"
unit = "MiB/s"
job = "--name=a --rw=read --bs=1m --size=2m --direct=1"
"#;

#[test]
fn a_cell_that_depends_on_an_undetermined_number_is_assumed_and_a_note_names_the_number() {
    let results = Folder::new("undetermined", UNDETERMINED, "").run(1);
    assert_eq!(cell(&results, "read", "", "slow").role, Role::Predicted, "the bus of its own host is slower");
    assert_eq!(cell(&results, "read", "", "fast").role, Role::Assumed, "20 MiB/s hold the card back");
    let notes: Vec<_> = results.notes.iter().filter(|note| note.starts_with("Undetermined: ")).collect();
    assert_eq!(
        notes,
        [
            "Undetermined: flash.read_rate = 20MiB/s, which is undetermined: any rate above the bus gives the same figures. \
          These cells depend on this number and count as assumed: read/fast."
        ]
    );
}

#[test]
fn no_cell_of_at91_depends_on_the_undetermined_numbers_of_its_cards() {
    let experiment = Experiment::open("at91", &LIBRARY).unwrap();
    let results = experiment.run(&LIBRARY, 1, &Progress::default()).unwrap();
    let notes: Vec<_> = results.notes.iter().filter(|note| note.starts_with("Undetermined: ")).collect();
    assert!(notes.is_empty(), "{notes:?}");
    assert_eq!(
        results.digest, "0a6e46c9ad194534",
        "neither the notes nor the limit of the clock change a figure"
    );
    assert_eq!(results.parameters.len(), 8, "conditions of the publication are not free parameters");
}

const SWEEP: &str = r#"
title = "Random reads over a range"
kind = "sweep"
source = "a test"
variants = ["two loaders"]
[range]
unit = "MiB"
values = [1, 2, 8, 32]
[columns]
"off" = "drive/ssd"
"4 MiB" = "drive/ssd:hmb=4M"
"two loaders" = "drive/ssd:loaders=2,blocking=false"
[[preparation]]
job = "--name=fill --filename=x --rw=write --bs=128k --direct=1"
[[step]]
table = "randread"
title = "Random reads"
unit = "kIOPS"
before = ["--name=look --filename=x --rw=read --bs=128k --direct=1"]
job = "--name=a --filename=x --rw=randread --bs=4k --direct=1 --ioengine=libaio --iodepth=8 --size={range}m --number_ios=4000 --norandommap"
[[step]]
table = "randwrite"
unit = "kIOPS"
columns = ["off", "4 MiB"]
before = ["--name=trim --filename=x --rw=trim --bs=1M --direct=1"]
pause = "10ms"
job = "--name=a --filename=x --rw=randwrite --bs=4k --direct=1 --ioengine=libaio --iodepth=8 --size={range}m --number_ios=2000 --norandommap"
[[bound]]
name = "without host memory a wide range is slower than a narrow one"
cells = ["randread */off"]
ratio_to = "1 MiB"
at_most = 1.0
[[bound]]
name = "with all of the map in host memory the range does not matter"
cells = ["randread */4 MiB"]
flat_percent = 10.0
[[bound]]
name = "writes do not need it"
cells = ["randwrite *"]
equal_percent = 5.0
[[bound]]
name = "off below 50 K from 8 MiB on"
cells = ["randread */off"]
from = "8 MiB"
below = 50.0
[[bound]]
name = "the knee"
cells = ["randread */off"]
knee = "1 MiB"
rows_away = 1
"#;
const SWEEP_PUBLISHED: &str = r#"
[[table]]
name = "randread"
row = "1 MiB"
unit = "kIOPS"
off = { mean = 40.0 }
[[table]]
name = "randread"
row = "32 MiB"
unit = "kIOPS"
off = { below = 50.0 }
[[shape]]
table = "randwrite"
text = "the same for both"
"#;

#[test]
fn a_sweep_gives_cells_and_curves_in_the_order_of_the_experiment() {
    let results = Folder::new("sweep", SWEEP, SWEEP_PUBLISHED).run(1);
    for bound in &results.bounds {
        assert!(bound.held, "{}: {} at {}, limit {}", bound.name, bound.worst, bound.worst_cell, bound.limit);
    }
    let names: Vec<_> = results.cells.iter().map(|c| format!("{} {}/{}", c.table, c.row, c.column)).collect();
    assert_eq!(names.len(), 3 * 4 + 2 * 4);
    assert_eq!(
        names[..4],
        ["randread 1 MiB/off", "randread 1 MiB/4 MiB", "randread 1 MiB/two loaders", "randread 2 MiB/off"]
    );
    assert!(cell(&results, "randread", "1 MiB", "off").error_percent.is_some());

    let [reads, writes] = results.curves.as_slice() else { panic!("a chart for each step") };
    assert_eq!(
        (reads.title.as_str(), reads.x_unit.as_str(), reads.y_unit.as_str()),
        ("Random reads", "MiB", "kIOPS")
    );
    assert_eq!(writes.notes, ["the same for both"]);
    assert_eq!(writes.series.len(), 2, "not the variant");
    let off = &reads.series[0];
    assert_eq!(off.points.iter().map(|p| p.x).collect::<Vec<_>>(), [1.0, 2.0, 8.0, 32.0]);
    assert_eq!(off.published.iter().map(|p| p.x).collect::<Vec<_>>(), [1.0, 32.0]);
    assert!(!off.variant && reads.series[2].variant);
    // 48 MiB have 12,288 entries of 64 B, in 192 map pages of 64 entries each. The controller holds 4 map pages. A
    // range of 1 MiB needs 4.
    for (hits, held) in off.map_hits.iter().zip([1.0, 0.5, 0.125, 0.03125]) {
        assert!((hits.sram + hits.hmb + hits.miss - 1.0).abs() < 1e-12);
        assert!((hits.sram - held).abs() < 0.03, "{} MiB: {} of look-ups hit, not {held}", hits.x, hits.sram);
    }
}

#[test]
fn a_sweep_is_reproducible_and_each_step_begins_with_the_prepared_device() {
    let both = Folder::new("sweep-both", SWEEP, SWEEP_PUBLISHED).run(1);
    assert_eq!(both.digest, Folder::new("sweep-again", SWEEP, SWEEP_PUBLISHED).run(1).digest);
    // A step gives the same results without the preceding step.
    let from = SWEEP.find("[[step]]").unwrap();
    let second = from + 1 + SWEEP[from + 1..].find("[[step]]").unwrap();
    let bounds = SWEEP.find("[[bound]]").unwrap();
    let alone = format!("{}{}", &SWEEP[..from], &SWEEP[second..bounds]);
    let alone = Folder::new("sweep-alone", &alone, "").run(1);
    for cell in &alone.cells {
        let same = self::cell(&both, &cell.table, &cell.row, &cell.column);
        assert_eq!(
            (cell.simulated, cell.latency_ns_mean),
            (same.simulated, same.latency_ns_mean),
            "{}",
            cell.row
        );
    }
}

const WEAR: &str = r#"
title = "Writes to one place"
kind = "wear"
source = "a test"
[columns]
none = "test/one:capacity=64MiB,rewrite_unit=4MiB,overwrite=log,leveling=none"
static = "test/one:capacity=64MiB,rewrite_unit=4MiB,overwrite=log,leveling=static,threshold=4"
worn = "test/one:capacity=64MiB,rewrite_unit=4MiB,overwrite=log,leveling=none,cycles=2,beyond=0"
[[step]]
table = "sequential"
iterations = 60
points = 20
job = "--name=a --filename=x --rw=write --bs=1M --size=8M --direct=1"
[[step.measure]]
row = "throughput"
unit = "MiB/s"
metric = "throughput"
[[step.measure]]
row = "written"
unit = "MiB"
metric = "written"
[[step.measure]]
row = "range"
unit = "erases"
metric = "erases-range"
[[step.measure]]
row = "often"
unit = "blocks"
metric = "blocks-erased-at-least"
erases = 10
[[step.measure]]
row = "identity"
unit = "%"
metric = "identity-error"
[[step.measure]]
row = "failures"
unit = "blocks"
metric = "failures"
[[step.measure]]
row = "first failure"
unit = "iterations"
metric = "first-failure"
[[step.measure]]
row = "near"
unit = "%"
metric = "iterations-near"
figures = [10.0]
within_percent = 90.0
[[bound]]
name = "leveled"
cells = ["sequential range/static"]
at_most = 4.0
[[bound]]
name = "worn"
cells = ["sequential failures/worn"]
at_least = 1
"#;

const WEAR_PUBLISHED: &str = r#"
[[shape]]
table = "sequential"
text = "as fast at the end as at the beginning"
"#;

#[test]
fn a_wear_experiment_gives_cells_maps_and_series() {
    let results = Folder::new("wear", WEAR, WEAR_PUBLISHED).run(1);
    for bound in &results.bounds {
        assert!(
            bound.held,
            "{}: {} at {}, limit {}; {:?}",
            bound.name, bound.worst, bound.worst_cell, bound.limit, results.wear
        );
    }
    for column in ["none", "static", "worn"] {
        let map = results.wear.iter().find(|map| map.name == format!("sequential, {column}")).unwrap();
        assert_eq!(map.block_bytes, 4 << 20);
        let throughput =
            results.series.iter().find(|s| s.column == column && s.name == "throughput").unwrap();
        assert!(throughput.points.len() <= 20 && throughput.points.is_sorted_by(|a, b| a.0 < b.0));
        assert!(cell(&results, "sequential", "identity", column).simulated.mean < 30.0);
    }
    assert_eq!(cell(&results, "sequential", "written", "none").simulated.mean, 480.0);
    // No block failed, so there is no cell for the first failure.
    let failed = |column: &str| results.cells.iter().any(|c| c.row == "first failure" && c.column == column);
    assert!(!failed("none") && !failed("static") && failed("worn"));
    assert_eq!(results.statistics.len(), 3);
    // 64 MiB are 16 blocks of data. The card has 2 more, besides the blocks that it needs to operate.
    for column in ["none", "static"] {
        let found = results.statistics.iter().find(|found| found.column == column).unwrap();
        assert_eq!(found.effective_spare, Some(2.0 / 16.0), "{column}");
    }
    // The device that wears out reports when it became read-only.
    let read_only = |column: &str| results.statistics.iter().find(|found| found.column == column).unwrap();
    let worn = read_only("worn");
    assert!(worn.read_only && worn.host_written_bytes > 0 && worn.effective_spare == Some(0.0), "{worn:?}");
    assert!(worn.read_only_seconds.unwrap() >= worn.first_failure_seconds.unwrap(), "{worn:?}");
    assert!(!read_only("none").read_only && read_only("none").read_only_seconds.is_none());
    assert_eq!(results.notes, ["Published about sequential: as fast at the end as at the beginning"]);
    assert_eq!(results.digest, Folder::new("wear-again", WEAR, "").run(1).digest);
}

#[test]
fn a_worn_out_card_refuses_writes_and_the_error_states_the_bytes_written() {
    let device = "test/one:capacity=64MiB,rewrite_unit=4MiB,overwrite=log,leveling=none,cycles=2,beyond=0";
    let mut bench = Bench::with(&Device::open(device, &LIBRARY).unwrap(), 1);
    let words = "--name=a --filename=x --rw=write --bs=1M --size=8M --loops=100 --direct=1";
    let words: Vec<&str> = words.split(' ').collect();
    let jobs = Invocation::parse(&words, &flashlab_fio::loader::NoFiles).unwrap().jobs;
    let reports = bench.run(&jobs, &Settings::default()).unwrap().reports(&jobs);
    let refused = refusal(&reports).unwrap();
    let BenchError::ReadOnly { written, after, .. } = &refused else { panic!("{refused}") };
    // The card may have executed the first commands of the rejected request.
    let taken = bench.counters().get("host_written_bytes");
    assert!((*written..*written + (1 << 20)).contains(&taken), "{taken} {refused}");
    assert!(*written > 0 && *written < 800 << 20 && after.as_ns() > 0, "{refused}");
    let text = refused.to_string();
    let written = format!("{:.1} MB", *written as f64 / 1e6);
    assert!(text.contains("read-only") && text.contains(&written), "{text}");
}

#[test]
fn experiments_that_are_wrong_say_where() {
    let change = |text: &str, from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        Folder::new("wrong", &text.replacen(from, to, 1), "").wrong()
    };
    let published = |text: &str| Folder::new("wrong", SWEEP, text).wrong();
    assert_snapshot!(
        [
            change(SWEEP, "[range]\nunit = \"MiB\"\nvalues = [1, 2, 8, 32]", ""),
            change(SWEEP, "values = [1, 2, 8, 32]", "values = [1, 1]"),
            change(SWEEP, "values = [1, 2, 8, 32]", "values = []"),
            change(SWEEP, "\"two loaders\"]", "\"ten loaders\"]"),
            change(SWEEP, "pause = \"10ms\"", "pause = \"10\""),
            change(SWEEP, "--rw=trim", "--rw=tirm"),
            change(SWEEP, "--size={range}m", "--size={range}x"),
            change(SWEEP, "kind = \"sweep\"", "kind = \"matrix\""),
            change(SWEEP, "kind = \"sweep\"", "kind = \"sweeep\""),
            change(SWEEP, "unit = \"kIOPS\"", "unit = \"MIOPS\""),
            change(SWEEP, "unit = \"kIOPS\"", "metric = \"bytes-a-command\"\nunit = \"kB\""),
            change(SWEEP, "flat_percent = 10.0", "flat_percent = 10.0\nsd = 1.0"),
            change(SWEEP, "below = 50.0", "below = 50.0\nat_least = 3.0"),
            change(SWEEP, "below = 50.0", "expected = { \"1 MiB\" = 3.0 }"),
            change(SWEEP, "drive/ssd:hmb=4M", "drive/ssd:hmb=4K"),
            published("[[shape]]\ntable = \"x\"\ntext = \"y\""),
            published("[[table]]\nname = \"x\"\nunit = \"y\""),
            change(WEAR, "iterations = 60", ""),
            change(WEAR, "unit = \"blocks\"", "unit = \"erases\""),
            change(WEAR, "erases = 10\n", ""),
            change(WEAR, "figures = [10.0]", ""),
            change(WEAR, "metric = \"failures\"", "metric = \"failings\""),
            change(WEAR, "kind = \"wear\"", "kind = \"sweep\""),
            change(WEAR, "kind = \"wear\"", "kind = \"wear\"\nvariants = [\"none\"]"),
            change(SWEEP, "pause = \"10ms\"", "filesystem = \"vfat\""),
            change(ENDURANCE, "seeds = 4", "seeds = 0"),
            change(ENDURANCE, "--rw=write", "--rw=wirte"),
            change(ENDURANCE, "[endurance]", "[[step]]"),
        ]
        .join("\n\n")
    );
}

const DAYS: &str = "days until the first failure";
const ENDURANCE: &str = r#"
title = "Days until the first block fails"
kind = "endurance"
source = "a test"
[columns]
leveled = "test/one:capacity=64MiB,rewrite_unit=4MiB,overwrite=log,leveling=static,threshold=4,cycles=400,beyond=40"
dynamic = "test/one:capacity=64MiB,rewrite_unit=4MiB,overwrite=log,leveling=dynamic,cycles=400,beyond=40"
none = "test/one:capacity=64MiB,rewrite_unit=4MiB,overwrite=log,leveling=none,cycles=400,beyond=40"
endless = "test/one:capacity=64MiB,rewrite_unit=4MiB,overwrite=log"
[endurance]
job = "--name=a --filename=x --rw=write --bs=1M --size=16M --direct=1"
seeds = 4
steady_percent = 2.0
"#;

/// Maximum error of an estimate that derives wear rates from part of a life. The method requires at least 4 erases of a
/// block, each count is exact to one erase, and the errors average out over tens of blocks. A card without wear
/// leveling wears few blocks, and the simulated part of its life is not a whole number of erase periods of these
/// blocks.
const CARRIED_ON_PERCENT: f64 = 4.0;

#[test]
fn an_extrapolated_life_agrees_with_the_simulated_life() {
    let estimated = Folder::new("endurance", ENDURANCE, "").run(1);
    // No estimate is steady within 0.01 %, so each medium is simulated alone to the end of its life.
    let whole =
        ENDURANCE.replace("steady_percent = 2.0", "steady_percent = 0.01").replace("seeds = 4", "seeds = 1");
    let whole = Folder::new("endurance-whole", &whole, "");
    let media: Vec<Results> = (1..=4).map(|seed| whole.run(seed)).collect();
    for column in ["leveled", "dynamic", "none"] {
        let of = |medium: &Results| {
            let found = medium.statistics.iter().find(|found| found.column == column).unwrap();
            assert_eq!(found.bad_block_count, 1, "{column}: it was simulated to its end");
            cell(medium, DAYS, "median", column).simulated.mean
        };
        let mut lives: Vec<f64> = media.iter().map(of).collect();
        lives.sort_by(f64::total_cmp);
        for (row, life) in [("shortest", lives[0]), ("median", lives[1]), ("longest", lives[3])] {
            let estimate = cell(&estimated, DAYS, row, column).simulated.mean;
            let error = 100.0 * (estimate - life) / life;
            assert!(
                error.abs() < CARRIED_ON_PERCENT,
                "{column}, {row}: {estimate} days instead of {life}, {error:.1} %"
            );
        }
    }
    let written = |results: &Results| results.statistics[0].host_written_bytes;
    let (part, all) = (written(&estimated), written(&media[0]));
    assert!(part * 2 < all, "{part} {all}: most of a life is extrapolated");
    assert!(
        estimated.notes.iter().any(|note| note.starts_with("endless: wear is not limited")),
        "{:?}",
        estimated.notes
    );
    let survivors = estimated.series.iter().find(|s| s.column == "none").unwrap();
    assert_eq!((survivors.points[0], survivors.points.last().unwrap().1), ((0.0, 100.0), 0.0));
}

#[test]
fn the_interval_estimated_within_a_budget_contains_the_simulated_life() {
    let columns = ["leveled", "dynamic", "none"];
    let whole =
        ENDURANCE.replace("steady_percent = 2.0", "steady_percent = 0.01").replace("seeds = 4", "seeds = 1");
    let whole = Folder::new("endurance-budget-whole", &whole, "").run(1);
    let folder = Folder::new("endurance-budget", ENDURANCE, "");
    let device = |column: &str| {
        let argument = ENDURANCE.lines().find_map(|line| line.strip_prefix(&format!("{column} = \"")));
        Device::open(argument.unwrap().trim_end_matches('"'), &LIBRARY).unwrap()
    };
    let mut found = String::new();
    // The smallest budget covers a hundredth of a life.
    for budget in [20_000, 60_000, 240_000] {
        let run = || {
            let mut experiment = folder.open().unwrap();
            experiment.set_endurance(EnduranceSettings {
                devices: Some(columns.map(|column| (column.to_owned(), device(column))).to_vec()),
                seeds: Some(1),
                budget: Some(budget),
                ..EnduranceSettings::default()
            });
            let progress = Progress::default();
            let results = experiment.run(&LIBRARY, 1, &progress).unwrap();
            assert_eq!(progress.share(), Some(1.0));
            let told = progress.take_news();
            assert!(told.len() > columns.len(), "first figures, and better ones: {told:?}");
            results
        };
        let results = run();
        assert_eq!(results.digest, run().digest, "a budget ends at the same request in each run");
        for column in columns {
            let days = |results, row| cell(results, DAYS, row, column).simulated.mean;
            let life = days(&whole, "median");
            let (from, to) = (days(&results, "95 % from"), days(&results, "95 % to"));
            writeln!(found, "{column}, budget {budget}: {from} <= {life} <= {to}").unwrap();
        }
    }
    let holds = |line: &str| {
        let numbers: Vec<f64> =
            line.split(": ").nth(1).unwrap().split(" <= ").map(|n| n.parse().unwrap()).collect();
        numbers.is_sorted()
    };
    assert!(found.lines().all(holds), "{found}");
}

#[test]
fn a_budget_ends_in_the_middle_of_a_long_job() {
    let folder = Folder::new("endurance-long", ENDURANCE, "");
    let mut experiment = folder.open().unwrap();
    // One run of the job takes half a year.
    let line =
        "--name=log --rw=randwrite --bs=4k --rate=1m --size=32M --time_based --runtime=180d --direct=1";
    let words: Vec<&str> = line.split_whitespace().collect();
    let jobs = Invocation::parse(&words, &NoFiles).unwrap().jobs;
    let name = "log".to_owned();
    let card = Device::open("test/one:capacity=64MiB,cycles=100000", &LIBRARY).unwrap();
    experiment.set_endurance(EnduranceSettings {
        workload: Some(EnduranceWorkload { name, bytes: line.into(), jobs, traces: Vec::new() }),
        devices: Some(vec![("card".into(), card)]),
        seeds: Some(2),
        budget: Some(400_000),
    });
    let results = experiment.run(&LIBRARY, 1, &Progress::default()).unwrap();
    let days = |row| cell(&results, DAYS, row, "card").simulated.mean;
    assert!(days("95 % from") < days("median") && days("median") < days("95 % to"));
    let note = results.notes.iter().find(|note| note.starts_with("card: ") && note.contains("95 %"));
    assert!(note.is_some(), "{:?}", results.notes);
}

#[test]
fn a_budget_that_ends_before_the_first_erase_gives_no_life() {
    let folder = Folder::new("endurance-short", ENDURANCE, "");
    let mut experiment = folder.open().unwrap();
    let words = ["--name=log", "--rw=write", "--bs=4k", "--size=32M", "--direct=1"];
    let jobs = Invocation::parse(&words, &NoFiles).unwrap().jobs;
    let card = Device::open("test/one:capacity=64MiB,cycles=100000", &LIBRARY).unwrap();
    experiment.set_endurance(EnduranceSettings {
        workload: Some(EnduranceWorkload { name: "log".into(), bytes: vec![], jobs, traces: vec![] }),
        devices: Some(vec![("card".into(), card)]),
        seeds: Some(1),
        budget: Some(100),
    });
    let results = experiment.run(&LIBRARY, 1, &Progress::default()).unwrap();
    assert!(results.cells.is_empty(), "{:?}", results.cells);
    let notes: Vec<&String> = results.notes.iter().filter(|note| note.starts_with("card: ")).collect();
    assert!(notes.len() == 1 && notes[0].contains("`--budget`"), "{notes:?}");
}

#[test]
fn a_user_may_bring_devices_and_seeds() {
    let folder = Folder::new("endurance-own", ENDURANCE, "");
    let mut experiment = folder.open().unwrap();
    let of = |cycles: u32| {
        let argument = format!("test/one:capacity=64MiB,cycles={cycles}");
        Device::open(&argument, &LIBRARY).unwrap()
    };
    experiment.set_endurance(EnduranceSettings {
        devices: Some(vec![("a".into(), of(100)), ("b".into(), of(300))]),
        seeds: Some(2),
        ..EnduranceSettings::default()
    });
    let results = experiment.run(&LIBRARY, 7, &Progress::default()).unwrap();
    let median = |column| cell(&results, "days until the first failure", "median", column).simulated.mean;
    assert!((median("b") / median("a") - 3.0).abs() < 0.2, "{} {}", median("a"), median("b"));
    assert!(results.cells.iter().all(|cell| cell.role == Role::Unsourced), "the user's own numbers");
    let by_hand =
        |path| results.parameters.iter().any(|p| p.path == path && p.kind == ParameterKind::SetByKey);
    assert!(by_hand("test/one:wear.cycles") && by_hand("test/one:card.capacity"), "{:?}", results.parameters);
}

const GC: &str = "title = \"t\"\nkind = \"gc\"\nsource = \"s\"\n[gc]\nblocks = 512\nreserve = 4\nwarm_up = 4\n\
    measured = 2\n[columns]\nfifo = \"victim=fifo\"\nbest = \"victim=cost-benefit\"\npools = \"victim=fifo,pools=best\"\n\
    [[row]]\nname = \"OP 28 %\"\nkeys = \"over_provisioning=0.28,pages=8\"\n[[step]]\ntable = \"80/20\"\nunit = \"ratio\"\n\
    job = \"--name=j --filename=d --direct=1 --rw=randwrite --bs=4k --norandommap \
    --random_distribution=zoned:80/20:20/80\"\n[[bound]]\nname = \"b\"\ncells = [\"*/fifo\", \"*/pools\"]\npercent = 4.0\n\
    [[bound]]\nname = \"apart\"\ncells = [\"*/fifo\"]\napart_percent = 20.0\nexpected = { \"OP 28 %\" = 2.2 }\n";

#[test]
fn write_amplification_agrees_with_closed_forms_which_do_not_count_as_measurements() {
    let published = "[[table]]\nname = \"80/20\"\nrow = \"OP 28 %\"\nunit = \"ratio\"\nsimulation = \"Somebody 2012\"\n\
        best = { mean = 2.7 }\n";
    let results = Folder::new("gc", GC, published).run(1);
    let named = |column| cell(&results, "80/20", "OP 28 %", column).reference.clone().expect("it has one");
    assert!(named("fifo").name.starts_with("G6, rho 0.78"), "{:?}", named("fifo"));
    assert!(named("pools").name.starts_with("G7, rho"), "{:?}", named("pools"));
    assert!(named("pools").mean < 0.8 * named("fifo").mean);
    assert_eq!((named("best").kind, named("best").mean), (ReferenceKind::Simulation, 2.7));
    assert!(results.bounds.iter().all(|bound| bound.held), "{:?}", results.bounds);
    let summary = results.summary();
    assert_eq!((summary.cells, summary.measured, summary.error_percent_median), (3, 0, None));
    assert!(results.parameters.is_empty());
    let same = Folder::new("gc-again", GC, "").run(1);
    assert_eq!(same.digest, results.digest);
    assert_ne!(Folder::new("gc-other", GC, "").run(2).digest, results.digest);
}

#[test]
fn errors_in_policies_fill_levels_and_jobs_state_their_place() {
    for (from, to, error) in [
        ("victim=cost-benefit", "victim=worst", "column best: unknown victim worst"),
        (
            "victim=cost-benefit",
            "victim=random,pools=best",
            "column best: pools need victim=greedy or victim=fifo",
        ),
        (
            "pages=8",
            "pages=1",
            "row OP 28 %: expected over_provisioning from 0.01 to 10 and pages from 2 to 4096",
        ),
        ("reserve = 4", "reserve = 1", "[gc]: expected blocks from 64 to 65536, reserve from 4 to 64"),
        ("--bs=4k", "--bs=8k", "step \"80/20\": expected --rw=randwrite --bs=4k --norandommap"),
        ("zoned:80/20:20/80", "zipf:1.2", "columns with pools= need a distribution zoned:"),
        ("expected = { \"OP 28 %\" = 2.2 }", "", "apart_percent requires the key expected"),
        ("kind = \"gc\"", "kind = \"sweep\"", "kind \"sweep\" needs [range]"),
    ] {
        let wrong = Folder::new("gc-wrong", &GC.replace(from, to), "").wrong();
        assert!(wrong.contains(error), "{wrong}");
    }
}
