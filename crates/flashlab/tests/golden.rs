//! Runs the simulated experiments of the repository at seed 1, the long ones only in part unless
//! `FLASHLAB_FULL` is set, compares the results with `experiments/NAME/golden.txt`, and checks the guarantees
//! of results. `UPDATE_GOLDEN=1` rewrites the golden tables and the README's picture; `UPDATE_GOLDEN=NAME`
//! rewrites the table of this experiment and runs no other one.
//!
//! `cargo xtask golden` writes the tables in a release build. `cargo xtask golden-check` compares them with
//! those of a build for tests, which shows that a seed fixes the digest in both builds. `cargo test` skips
//! this file, because its tests take minutes.

use flashlab_catalogue::library::{Folder, Library};
use flashlab_lab::experiment::{Experiment, ExperimentError, Live, cell_name};
use flashlab_lab::fitting::refit::{RefitSettings, refit};
use flashlab_lab::progress::Progress;
use flashlab_lab::results::{Cell, ParameterKind, Published, Results, Role, Summary};
use flashlab_report::figure::bars;
use flashlab_report::html;
use flashlab_sim::Duration;
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::LazyLock;

/// Experiments that take about a minute each, with the columns that always run. Their other columns, and a
/// second seed, run only if FLASHLAB_FULL or UPDATE_GOLDEN is set.
const LONG: &[(&str, &[&str])] = &[
    ("endurance", &["gigastone", "kingston"]),
    ("gc", &["2 choices", "FIFO", "greedy, 2 streams", "greedy, best pools"]),
    ("hmb", &["HMB off", "off, loads overlap"]),
    ("wear", &["none, 3000 cycles", "static"]),
];

static LIBRARY: LazyLock<Library> = LazyLock::new(|| Library::built_in().unwrap_or_else(|e| panic!("{e}")));
/// Results of the simulated experiments of the library; of a long one, only those of some columns unless
/// `FLASHLAB_FULL` is set. The experiments run at the same time, because some of them have only one or two
/// parts that can run in parallel.
static ALL: LazyLock<Vec<Results>> = LazyLock::new(|| {
    let results = |folder: &Folder| match part_of(&folder.name) {
        None => run(&folder.name, 1),
        Some(columns) => {
            let mut experiment = open(&folder.name);
            let columns: Vec<String> = columns.iter().map(|&column| column.to_owned()).collect();
            experiment.choose_columns(&columns).unwrap_or_else(|e| panic!("{e}"));
            run_opened(&experiment, 1)
        }
    };
    side_by_side(simulated_ones().collect(), results)
});

/// Applies `work` to each of `items` at the same time. Returns the results in the order of the items.
fn side_by_side<T: Send, R: Send>(items: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let work = &work;
    std::thread::scope(|scope| {
        let threads: Vec<_> = items.into_iter().map(|item| scope.spawn(move || work(item))).collect();
        threads.into_iter().map(|thread| thread.join().expect("the thread reports its own panic")).collect()
    })
}

fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some()
}

/// Returns the columns of an experiment that run; `None` for all columns.
fn part_of(experiment: &str) -> Option<&'static [&'static str]> {
    let is_full = is_set("FLASHLAB_FULL") || is_set("UPDATE_GOLDEN");
    LONG.iter().find(|(name, _)| *name == experiment && !is_full).map(|(_, columns)| *columns)
}

/// Returns the experiments without live measurements, or only the experiment whose table is rewritten. Live
/// experiments are left out, because they give different figures each time.
fn simulated_ones() -> impl Iterator<Item = &'static Folder> {
    let only = std::env::var("UPDATE_GOLDEN").ok().filter(|name| name != "1");
    let is_chosen = move |folder: &&Folder| only.as_ref().is_none_or(|name| folder.name == *name);
    LIBRARY.experiments().filter(|folder| !Live::is(folder)).filter(is_chosen)
}

fn open(name: &str) -> Experiment {
    Experiment::open(name, &LIBRARY).unwrap_or_else(|e| panic!("{e}"))
}
fn run(name: &str, seed: u64) -> Results {
    run_opened(&open(name), seed)
}
fn run_opened(experiment: &Experiment, seed: u64) -> Results {
    experiment.run(&LIBRARY, seed, &Progress::default()).unwrap_or_else(|e| panic!("{e}"))
}
fn results_of(name: &str) -> &'static Results {
    ALL.iter().find(|results| results.experiment == name).unwrap_or_else(|| panic!("no experiment {name}"))
}
fn name(cell: &Cell) -> String {
    cell_name(&cell.table, &cell.row, &cell.column)
}

/// Formats a figure with eight significant digits: more precision than any of its inputs has, and enough to reveal a
/// change. A deviation has as many decimals as its mean, and a single run has no deviation.
fn simulated(cell: &Cell) -> String {
    let (mean, sd) = (cell.simulated.mean, cell.simulated.sd);
    let before_the_point = mean.abs().max(1.0).log10().floor() as usize + 1;
    let decimals = 8_usize.saturating_sub(before_the_point);
    if sd == 0.0 { format!("{mean:.decimals$}") } else { format!("{mean:.decimals$} ± {sd:.decimals$}") }
}

fn published(cell: &Cell) -> String {
    match &cell.published {
        Some(Published::Figure { mean, sd: Some(sd) }) => format!("{mean} ± {sd}"),
        Some(Published::Figure { mean, sd: None }) => mean.to_string(),
        Some(Published::Below { below }) => format!("below {below}"),
        Some(Published::Text { .. }) => "in words".into(),
        None => {
            cell.reference.as_ref().map_or("-".into(), |found| format!("{:.4} ({})", found.mean, found.name))
        }
    }
}

/// Returns the line `48 cells, 48 with a measurement: 19 fitted, 29 predicted (median error 1.9 %), 0 assumed, 0
/// unsourced`.
fn counts(results: &Results) -> String {
    let Summary { cells, measured, fitted, predicted, assumed, unsourced, .. } = results.summary();
    let median = results.summary().error_percent_median;
    let median = median.map_or(String::new(), |median| format!(" (median error {median:.1} %)"));
    format!(
        "{cells} cells, {measured} with a measurement: {fitted} fitted, {predicted} predicted{median}, {assumed} assumed, \
         {unsourced} unsourced"
    )
}

/// Returns the table of cells, one line per cell, with aligned columns.
fn table(results: &Results) -> String {
    let head = ["cell", "unit", "published", "simulated", "error %", "role"].map(String::from);
    let line = |cell: &Cell| {
        let error = cell.compared_percent().map_or("-".into(), |error| format!("{error:+.3}"));
        let role = format!("{:?}", cell.role).to_lowercase();
        [name(cell), cell.unit.clone(), published(cell), simulated(cell), error, role]
    };
    let lines: Vec<[String; 6]> = [head].into_iter().chain(results.cells.iter().map(line)).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths = [0, 1, 2, 3, 4, 5].map(width);
    let mut text = format!(
        "{} at seed {}: digest {}, {} parameters\n{}\n\n",
        results.experiment,
        results.seed,
        results.digest,
        results.parameters.len(),
        counts(results)
    );
    for line in &lines {
        let padded = line.iter().zip(widths).map(|(word, width)| format!("{word:width$}"));
        writeln!(text, "{}", padded.collect::<Vec<_>>().join("  ").trim_end()).expect("a String takes all");
    }
    text
}

/// Returns the path of the golden table of an experiment.
fn golden_path(experiment: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../experiments").join(experiment).join("golden.txt")
}

/// Returns the fields of the lines of cells in a table.
fn lines_of_cells(table: &str) -> Vec<Vec<String>> {
    let fields =
        |line: &str| line.split("  ").map(str::trim).filter(|f| !f.is_empty()).map(str::to_owned).collect();
    table.lines().skip(4).map(fields).collect()
}

fn check_golden(results: &Results) {
    let (path, mut now) = (golden_path(&results.experiment), table(results));
    if is_set("UPDATE_GOLDEN") {
        return std::fs::write(&path, now).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    }
    let mut golden = std::fs::read_to_string(&path).unwrap_or_default();
    if let Some(columns) = part_of(&results.experiment) {
        // The digest is that of all cells, and the width of a field that of its longest text.
        let is_in_part =
            |line: &Vec<String>| columns.iter().any(|column| line[0].ends_with(&format!("/{column}")));
        let lines = |table: &str| {
            let lines = lines_of_cells(table).into_iter().filter(is_in_part);
            lines.map(|line| line.join("  ")).collect::<Vec<_>>().join("\n")
        };
        (now, golden) = (lines(&now), lines(&golden));
        assert!(now.lines().count() >= columns.len(), "{}: no cells", results.experiment);
    }
    let mut differences = String::new();
    for at in 0..golden.lines().count().max(now.lines().count()) {
        let (was, is) = (golden.lines().nth(at), now.lines().nth(at));
        if was != is {
            let [was, is] = [was, is].map(|line| line.unwrap_or("(no line)"));
            writeln!(differences, "- {was}\n+ {is}").expect("a String takes all");
        }
    }
    assert!(
        differences.is_empty(),
        "experiments/{}/golden.txt differs from the results of the experiment:\n{differences}\
         If that is what the change should do, write it anew with: cargo xtask golden\n",
        results.experiment
    );
}

#[test]
fn every_experiment_gives_its_golden_table() {
    ALL.iter().for_each(check_golden);
}

/// The picture shows the random writes of `run sd-cards`.
#[test]
fn the_picture_of_the_readme_is_current() {
    let figures = bars::figures(results_of("sd-cards"));
    let picture = figures.iter().find(|figure| figure.title.contains("Random write"));
    let picture = picture.expect("random writes are drawn").to_svg();
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/sd-cards.svg");
    if is_set("UPDATE_GOLDEN") {
        return std::fs::write(&path, picture).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    }
    let drawn = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(drawn == picture, "docs/sd-cards.svg is not today's picture: cargo xtask golden draws it anew");
}

/// The bounds of the experiment check cheaply that each number meets its own cell; the search itself takes minutes.
#[test]
fn the_shipped_profiles_are_the_output_of_a_refit() {
    if !is_set("FLASHLAB_FULL") {
        return println!("the_shipped_profiles_are_the_output_of_a_refit: skipped without FLASHLAB_FULL");
    }
    let found = refit("sd-cards", &RefitSettings::default(), &LIBRARY, &Progress::default());
    let found = found.unwrap_or_else(|e| panic!("{e}"));
    for (name, text) in &found.profiles {
        let shipped =
            LIBRARY.profiles().find(|(known, _)| known == name).expect("the profile is in the library").1;
        assert_eq!(shipped.text.text, *text, "{name}: run flashlab fit sd-cards --to profiles");
    }
    assert!(found.sum_after <= found.sum_before, "{} {}", found.sum_after, found.sum_before);
}

/// Maximum size of the page of an experiment, in bytes.
const PAGE_MAX: usize = 3_000_000;

#[test]
fn every_page_is_small() {
    for results in ALL.iter() {
        let bytes = html::page(results, "flashlab run").len();
        assert!(bytes <= PAGE_MAX, "{}: its page has {bytes} bytes", results.experiment);
    }
}

#[test]
fn every_bound_holds() {
    for results in ALL.iter() {
        assert_eq!(
            results.bounds.is_empty(),
            results.cells.iter().all(|cell| cell.published.is_none() && cell.reference.is_none()),
            "{} has bounds without a figure to compare with, or such a figure without bounds",
            results.experiment
        );
        for bound in &results.bounds {
            let missed = format!("{}: worst {} at {}", bound.name, bound.worst, bound.worst_cell);
            assert!(bound.held, "{}: missed {missed}, limit {}", results.experiment, bound.limit);
        }
    }
}

#[test]
fn every_cell_occurs_once_and_has_a_figure() {
    for results in ALL.iter() {
        let mut names: Vec<String> = results.cells.iter().map(name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), results.cells.len(), "{}: a cell comes twice", results.experiment);
        for cell in &results.cells {
            assert!(cell.simulated.mean.is_finite() && cell.simulated.mean >= 0.0, "{}", name(cell));
        }
    }
}

#[test]
fn every_cell_of_the_tables_of_cards_has_a_published_figure() {
    for (experiment, cells) in [("at91", 16 + 3), ("sd-cards", 48)] {
        let results = results_of(experiment);
        assert_eq!(results.cells.len(), cells, "{experiment}");
        for cell in &results.cells {
            assert!(cell.published.is_some(), "{} has no published figure", name(cell));
            assert!(cell.simulated.mean > 0.0, "{}", name(cell));
        }
    }
}

#[test]
fn mechanisms_sum_to_the_latency_exactly() {
    let measured = |cell: &&Cell| cell.requests > 0;
    for cell in ALL.iter().flat_map(|results| &results.cells).filter(measured) {
        let total: u64 = cell.mechanism_ns_totals.0.iter().map(|(_, ns)| ns).sum();
        let mean = total as f64 / cell.requests as f64;
        assert_eq!(mean, cell.latency_ns_mean, "{}: the totals do not sum to the latencies", name(cell));
        let parts: f64 = cell.mechanisms.0.iter().map(|(_, ns)| ns).sum();
        let rounding = 8.0 * f64::EPSILON * mean;
        assert!((parts - mean).abs() <= rounding, "{}: the means do not sum to the mean", name(cell));
    }
}

#[test]
fn the_errors_are_computed_from_the_printed_figures() {
    for cell in ALL.iter().flat_map(|results| &results.cells) {
        if let (Some(Published::Figure { mean, .. }), Some(error)) = (&cell.published, cell.error_percent) {
            let again = 100.0 * (cell.simulated.mean / mean - 1.0);
            assert!((again - error).abs() < 1e-9, "{}: {error} %, not {again} %", name(cell));
        }
    }
}

#[test]
fn exactly_the_cells_that_a_profile_names_are_fitted() {
    let tables = simulated_ones().map(|folder| std::fs::read_to_string(golden_path(&folder.name)));
    let tables: Vec<String> = tables.map(|text| text.unwrap_or_else(|e| panic!("{e}"))).collect();
    let cells: Vec<String> =
        tables.iter().flat_map(|table| lines_of_cells(table)).map(|line| line[0].clone()).collect();
    for results in ALL.iter() {
        let fitted_on: Vec<&String> = results.parameters.iter().flat_map(|p| &p.fitted_on).collect();
        for cell in results.cells.iter().filter(|cell| cell.role != Role::Assumed) {
            let named = fitted_on.contains(&&name(cell));
            assert_eq!(cell.role == Role::Fitted, named, "{}", name(cell));
        }
        for fitted in fitted_on {
            assert!(
                cells.contains(fitted),
                "{}: a number was fitted on {fitted}, which is no cell",
                results.experiment
            );
        }
        for parameter in &results.parameters {
            assert!(
                !parameter.kind.lacks_source(),
                "{}: {} has no source",
                results.experiment,
                parameter.path
            );
            let fitted = parameter.kind == ParameterKind::Fitted;
            assert_eq!(fitted, !parameter.fitted_on.is_empty(), "{}", parameter.path);
        }
    }
    let assumed = |results: &Results| results.cells.iter().filter(|c| c.role == Role::Assumed).count();
    assert_eq!(assumed(results_of("at91")), 3, "the cells from interrupt counts are assumed");
    assert_eq!(assumed(results_of("sd-cards")), 0);
}

#[test]
fn there_are_fewer_free_parameters_than_cells() {
    let fitted = |results: &Results| {
        results.parameters.iter().filter(|parameter| parameter.kind == ParameterKind::Fitted).count()
    };
    // In hmb, five parameters are fitted on the reads and four on the mixed load. Its variants, which have no published
    // figures, have three more.
    for (experiment, most) in [("at91", 8), ("hmb", 9 + 3)] {
        let count = fitted(results_of(experiment));
        assert!(count <= most, "{experiment} has {count} fitted parameters");
    }
    let count = results_of("sd-cards").parameters.len();
    assert!(count <= 30, "sd-cards has {count} free parameters");
}

#[test]
fn a_seed_repeats_its_run_and_another_seed_gives_another_run() {
    let json = |results: &Results| serde_json::to_string(results).expect("results are plain data");
    let at91 = results_of("at91");
    assert_eq!(json(&run("at91", 1)), json(at91));
    let other = run("at91", 2);
    assert_ne!(other.inputs, at91.inputs);
    let paths = |results: &Results| results.parameters.iter().map(|p| p.path.clone()).collect::<Vec<_>>();
    assert_eq!(paths(&other), paths(at91), "a seed is no parameter");
}

#[test]
fn another_seed_gives_another_digest() {
    let whole = ALL.iter().filter(|results| part_of(&results.experiment).is_none());
    side_by_side(whole.collect(), |results| {
        assert_ne!(run(&results.experiment, 2).digest, results.digest, "{}", results.experiment);
    });
}

#[test]
fn an_experiment_stops_on_request_and_otherwise_reports_its_progress() {
    let experiment = open("at91");
    let stopped = Progress::default();
    stopped.stop();
    assert_eq!(experiment.run(&LIBRARY, 1, &stopped).err(), Some(ExperimentError::Stopped));
    assert_eq!(stopped.simulated(), Duration::ZERO);
    let whole = Progress::default();
    assert_eq!(whole.share(), None);
    assert!(experiment.run(&LIBRARY, 1, &whole).is_ok());
    assert_eq!(whole.share(), Some(1.0));
    assert!(whole.simulated() > Duration::from_secs(1));
    assert!(whole.phase().contains('/'), "a cell: {}", whole.phase());
}
