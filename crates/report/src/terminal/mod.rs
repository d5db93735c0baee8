//! The results on a terminal: published beside simulated, then bounds and free parameters, at most [`WIDTH`] wide.
//!
//! One block a table, one line a cell, so that what is compared stands side by side; the decimals of a block are those
//! of the source. Colour marks only what a reader looks for: missed bounds, large errors, and names. A sweep is a plot and
//! a table; wear is a map and a histogram, in 256 colours on a terminal and in characters that darken elsewhere; what
//! went on over time is one line each.

mod curves;
mod lines;
mod series;
mod statistics;
pub(crate) mod trace;
mod wear;

use crate::{grid, number};
use flashlab_lab::results::{Cell, PUBLISHED, ParameterKind, Published, Results, Role};
use lines::{Lined, Style, broken, clean, layout, wrap};

pub use trace::trace;

/// The greatest width of a line in characters.
pub const WIDTH: usize = 100;

/// An error at least this large is coloured, in per cent.
const LARGE_ERROR_PERCENT: f64 = 10.0;

/// Everything a person at a terminal wants to see of `results`, ending in a line feed; with `colour`, ANSI escape
/// sequences dress it.
pub fn table(results: &Results, colour: bool) -> String {
    let style = Style { colour };
    let mut text = heading(results, style);
    text += &curves::text(results, style);
    text += &comparison(results, style);
    text += &wear::text(results, style);
    text += &series::text(results, style);
    text += &statistics::text(results, style);
    text += &bounds(results, style);
    text += &parameters(results, style);
    text += &needed_notes(results);
    text.lines().map(|line| lines::trim_end(line) + "\n").collect()
}

fn heading(results: &Results, style: Style) -> String {
    let title = style.bold(clean(&results.experiment));
    let what = wrap(&format!("{}: {}", clean(&results.experiment), clean(&results.title)), WIDTH);
    let what = what.replacen(&clean(&results.experiment), &title, 1);
    let origin = format!(
        "seed {}, inputs {}, digest {}, flashlab {}",
        results.seed,
        clean(&results.inputs),
        clean(&results.digest),
        clean(&results.version)
    );
    format!("{what}\n{}\n\n", style.dim(wrap(&origin, WIDTH)))
}

/// Column of a block: row name, cell name, published, ±, simulated, ±, error, role.
const NUMBERS: std::ops::Range<usize> = 2..7;

/// All tables. They share their widths, so that the columns of all blocks stand in line. Of a curve's cells those that
/// were published are listed.
fn comparison(results: &Results, style: Style) -> String {
    let mut tables = grid::tables(results);
    for table in &mut tables {
        table.cells.retain(|cell| grid::stands_alone(results, cell));
    }
    tables.retain(|table| !table.cells.is_empty());
    let has_rows = tables.iter().any(grid::Table::has_rows);
    let has_sd = tables.iter().flat_map(|table| &table.cells).any(|cell| {
        cell.simulated.sd != 0.0 || matches!(cell.published, Some(Published::Figure { sd: Some(_), .. }))
    });
    let mut lines: Lined = vec![];
    for table in &tables {
        lines.push(vec![
            block_title(table, style),
            String::new(),
            style.dim("published"),
            style.dim("±"),
            style.dim("simulated"),
            style.dim("±"),
            style.dim("error %"),
            style.dim("role"),
        ]);
        let mut previous = None;
        for cell in &table.cells {
            let row = if previous == Some(&cell.row) { String::new() } else { clean(&cell.row) };
            previous = Some(&cell.row);
            let mut line = vec![format!("  {row}"), clean(&cell.column)];
            if !has_rows {
                line = vec![format!("  {}", clean(&cell.column)), String::new()];
            }
            line.extend(figures(results, cell, table.decimals, style));
            lines.push(line);
        }
        lines.push(vec![String::new(); 8]);
    }
    if lines.is_empty() {
        return String::new();
    }
    let mut kept = vec![true; 8];
    kept[1] = has_rows;
    kept[3] = has_sd;
    kept[5] = has_sd;
    layout(lines, &kept, &NUMBERS.collect::<Vec<_>>()) + &words(&tables)
}

/// What was published in words, cell by cell.
fn words(tables: &[grid::Table<'_>]) -> String {
    let mut text = String::new();
    for cell in tables.iter().flat_map(|table| &table.cells).filter(|cell| is_wordy(cell)) {
        if let Some(Published::Text { text: words }) = &cell.published {
            let line = format!("{}, published: {}", clean(&grid::name(cell)), clean(words));
            text += &format!("{}\n", wrap(&line, WIDTH - 2).replace('\n', "\n  "));
        }
    }
    if !text.is_empty() {
        text.push('\n');
    }
    text
}

/// `raw write 1M, MiB/s`; a unit that says no more than the name is left out.
fn block_title(table: &grid::Table<'_>, style: Style) -> String {
    let name = style.bold(clean(table.name));
    if table.name == table.unit { name } else { name + &style.dim(format!(", {}", clean(table.unit))) }
}

/// Words longer than this stand below the tables, in characters.
const WORDS_MAX: usize = 12;

/// Whether a cell was published in so many words that they do not fit into its line.
fn is_wordy(cell: &Cell) -> bool {
    matches!(&cell.published, Some(Published::Text { text }) if text.chars().count() > WORDS_MAX)
}

fn figures(results: &Results, cell: &Cell, decimals: usize, style: Style) -> [String; 6] {
    let (published, published_sd) = match &cell.published {
        Some(Published::Figure { mean, sd }) => {
            (number::fixed(*mean, decimals), sd.map(|sd| number::fixed(sd, decimals)).unwrap_or_default())
        }
        Some(Published::Below { below }) => (format!("< {}", number::fixed(*below, decimals)), String::new()),
        Some(Published::Text { .. }) if is_wordy(cell) => ("in words".into(), String::new()),
        Some(Published::Text { text }) => (clean(text), String::new()),
        None => (number::NONE.into(), String::new()),
    };
    let error = cell.error_percent.map_or(number::NONE.into(), |error| number::signed(error, 2));
    let is_missed = grid::bound_of(results, cell).is_some_and(|bound| !bound.held);
    let is_large = cell.error_percent.is_some_and(|error| error.abs() >= LARGE_ERROR_PERCENT);
    let error = match (is_missed, is_large) {
        (true, _) => style.bad(error),
        (false, true) => style.warn(error),
        (false, false) => error,
    };
    let role = match cell.role {
        Role::Predicted => cell.role.name().to_string(),
        Role::Fitted | Role::Assumed => style.dim(cell.role.name()),
    };
    [
        published,
        published_sd,
        number::fixed(cell.simulated.mean, decimals),
        number::fixed(cell.simulated.sd, decimals),
        error,
        role,
    ]
}

fn bounds(results: &Results, style: Style) -> String {
    if results.bounds.is_empty() {
        return String::new();
    }
    let mut lines: Lined = vec![vec![
        style.bold("bounds"),
        String::new(),
        style.dim("limit"),
        style.dim("worst"),
        style.dim("at"),
    ]];
    for bound in &results.bounds {
        let worst = grid::worst(bound);
        lines.push(vec![
            if bound.held { style.good("  held") } else { style.bad("  MISSED") },
            clean(&bound.name),
            clean(&bound.limit),
            if bound.held { worst } else { style.bad(worst) },
            clean(&bound.worst_cell),
        ]);
    }
    lines.push(vec![String::new(); 5]);
    layout(lines, &[true; 5], &[2, 3])
}

fn parameters(results: &Results, style: Style) -> String {
    let mut text = format!("{}\n", style.bold(count(results)));
    if results.parameters.is_empty() {
        return text;
    }
    let lines = results.parameters.iter().map(|parameter| {
        let origin = match (parameter.kind, parameter.fitted_on.is_empty()) {
            (ParameterKind::Fitted, true) => "fitted".to_string(),
            (ParameterKind::Fitted, false) => format!("fitted on {}", clean(&parameter.fitted_on.join(", "))),
            (ParameterKind::Chosen, true) => "chosen".to_string(),
            (ParameterKind::Chosen, false) => {
                format!("chosen for {}", clean(&parameter.fitted_on.join(", ")))
            }
        };
        vec![broken(&clean(&parameter.path)), clean(&parameter.value), style.dim(origin)]
    });
    text += &layout(lines.collect(), &[true; 3], &[1]);
    text
}

/// Of the notes what nobody should read the numbers without: what is not explained, and what the source says in words.
fn needed_notes(results: &Results) -> String {
    let needed = |note: &&String| note.starts_with("Not explained") || note.starts_with(PUBLISHED);
    let notes = results.notes.iter().filter(needed);
    notes.map(|note| format!("\n{}\n", wrap(&clean(note), WIDTH))).collect()
}

/// `29 free parameters (26 fitted, 3 chosen) for 48 cells (19 fitted, 29 predicted)`
pub(crate) fn count(results: &Results) -> String {
    let kind = |kind| results.parameters.iter().filter(|p| p.kind == kind).count();
    let role = |role| results.cells.iter().filter(|c| c.role == role).count();
    let list = |parts: &[(usize, &str)]| {
        let parts: Vec<String> =
            parts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
        if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) }
    };
    format!(
        "{}{} for {}{}",
        plural(results.parameters.len(), "free parameter"),
        list(&[(kind(ParameterKind::Fitted), "fitted"), (kind(ParameterKind::Chosen), "chosen")]),
        plural(results.cells.len(), "cell"),
        list(&[
            (role(Role::Fitted), "fitted"),
            (role(Role::Predicted), "predicted"),
            (role(Role::Assumed), "assumed")
        ])
    )
}

pub(crate) fn plural(n: usize, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{} {noun}s", number::fixed(n as f64, 0)) }
}
