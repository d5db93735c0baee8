//! Lifetimes on a terminal: one table with a line per device, in place of a block per figure.

use super::lines::{Style, clean, columns, wrap};
use crate::grid::{self, Table};
use crate::number;
use flashlab_lab::results::{Cell, Results};

/// Number of devices up to which their wear maps, counters and parameters are also printed.
const DETAILED_MAX: usize = 3;

/// Rows of the table of lifetimes that the terminal shows, in order.
const ROWS: [&str; 5] = ["shortest", "median", "longest", grid::LIFE_FROM, grid::LIFE_TO];

/// Returns true if the results are lifetimes of so many devices that only their table is printed.
pub(super) fn has_many_devices(results: &Results) -> bool {
    let tables = grid::tables(results);
    tables.iter().any(|table| grid::is_lifetime(table) && table.columns.len() > DETAILED_MAX)
}

/// Removes the tables of lifetimes, and the tables of the medians of other figures beside them, from `tables`. Returns
/// them as one table with a line per device; empty without lifetimes.
pub(super) fn take(tables: &mut Vec<Table<'_>>, style: Style) -> String {
    let Some(at) = tables.iter().position(grid::is_lifetime) else { return String::new() };
    let lives = tables.remove(at);
    let is_beside = |table: &Table<'_>| table.rows == [grid::LIFE_MEDIAN];
    let beside: Vec<Table<'_>> = tables.extract_if(.., |table| is_beside(table)).collect();
    text(&lives, &beside, style)
}

fn text(lives: &Table<'_>, beside: &[Table<'_>], style: Style) -> String {
    let rows: Vec<&str> = ROWS.into_iter().filter(|row| lives.rows.contains(row)).collect();
    let mut devices = lives.columns.clone();
    devices
        .extend(beside.iter().flat_map(|table| &table.columns).filter(|name| !lives.columns.contains(name)));
    let keys = common_keys(&devices);
    let mut title = style.bold(clean(lives.name));
    if let Some(keys) = keys {
        title += &style.dim(format!(", with {} on all devices", clean(keys)));
    }
    let mut lines: Vec<Vec<String>> = vec![vec![style.dim("device")]];
    lines[0].extend(rows.iter().map(|row| style.dim(*row)));
    lines[0].extend(beside.iter().map(|table| style.dim(heading(table))));
    for device in &devices {
        let name = if keys.is_some() { before_keys(device) } else { device };
        let figures = rows.iter().map(|row| figure(lives, row, device));
        let others = beside.iter().map(|table| figure(table, grid::LIFE_MEDIAN, device));
        lines.push([clean(name)].into_iter().chain(figures).chain(others).collect());
    }
    let right: Vec<bool> = (0..lines[0].len()).map(|column| column > 0).collect();
    let lines: Vec<Vec<&str>> = lines.iter().map(|line| line.iter().map(String::as_str).collect()).collect();
    let mut text = format!("{}\n{}", wrap(&title, style.width), columns(&lines, &right, style.width));
    let is_known = |device: &&str| cell(lives, grid::LIFE_MEDIAN, device).is_some();
    if !lives.columns.iter().all(is_known) {
        let note = "Without a median, the life is not known yet: the workload has caused too few erases on the device. A \
                    larger --budget, or --exact, simulates more.";
        text += &format!("{}\n", wrap(note, style.width));
    }
    text + "\n"
}

/// Returns the name of a table with its unit, except for ratios.
fn heading(table: &Table<'_>) -> String {
    if table.unit == "ratio" {
        clean(table.name)
    } else {
        format!("{}, {}", clean(table.name), clean(table.unit))
    }
}

fn cell<'a>(table: &Table<'a>, row: &str, column: &str) -> Option<&'a Cell> {
    table.cells.iter().copied().find(|cell| cell.row == row && cell.column == column)
}

fn figure(table: &Table<'_>, row: &str, column: &str) -> String {
    cell(table, row, column)
        .map_or(number::NONE.to_owned(), |cell| number::significant(cell.simulated.mean, 3))
}

/// Returns the keys that follow the first colon of every name, if all of several names have the same ones.
fn common_keys<'a>(names: &[&'a str]) -> Option<&'a str> {
    let (first, others) = names.split_first()?;
    let (_, keys) = first.split_once(':')?;
    let has_keys = |name: &&str| name.split_once(':').is_some_and(|(_, other)| other == keys);
    (!others.is_empty() && others.iter().all(has_keys)).then_some(keys)
}

fn before_keys(name: &str) -> &str {
    name.split(':').next().unwrap_or(name)
}
