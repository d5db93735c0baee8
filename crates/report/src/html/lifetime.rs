//! The lifetime of devices in days: the result of an endurance experiment, first in the summary.

use super::{summary::tile, tables};
use crate::{
    grid::{self, Table},
    markup::{Element, element},
    number,
};
use flashlab_fio::explain::capitalised;
use flashlab_lab::results::{Cell, Results};

/// Maximum number of devices for which the summary has tiles; with more devices, it has only the table.
const TILES_MAX: usize = 8;

/// Returns the tables of `results` with the lifetimes of devices in days.
pub(super) fn tables(results: &Results) -> Vec<Table<'_>> {
    let mut tables = grid::tables(results);
    tables.retain(grid::is_lifetime);
    tables
}

fn cell<'a>(table: &Table<'a>, row: &str, column: &str) -> Option<&'a Cell> {
    table.cells.iter().copied().find(|cell| cell.row == row && cell.column == column)
}

/// Returns the median of each device.
fn medians<'a>(table: &Table<'a>) -> Vec<&'a Cell> {
    table.columns.iter().filter_map(|column| cell(table, grid::LIFE_MEDIAN, column)).collect()
}

fn days(days: f64) -> String {
    number::span_s(days * 86_400.0)
}

/// Returns `; 3.5 years` for two years or more, otherwise an empty string.
fn years(days: f64) -> String {
    const YEAR: f64 = 365.25;
    if days < 2.0 * YEAR {
        String::new()
    } else {
        format!("; {}", number::with_unit(number::fixed(days / YEAR, 1), "years"))
    }
}

/// Returns a sentence with the shortest and the longest median.
pub(super) fn sentence(table: &Table<'_>) -> Option<String> {
    let medians = medians(table);
    let by_days = |a: &&&Cell, b: &&&Cell| a.simulated.mean.total_cmp(&b.simulated.mean);
    let (least, most) = (medians.iter().min_by(by_days)?, medians.iter().max_by(by_days)?);
    let of = |cell: &Cell| format!("{} for {}", days(cell.simulated.mean), cell.column);
    let name = capitalised(table.name);
    Some(match medians.len() {
        1 => format!("{name}: {}.", of(least)),
        _ => format!("{name}, by the median: from {} to {}.", of(least), of(most)),
    })
}

/// Returns one tile per device with its median, minimum and maximum; `None` if there are too many devices or
/// no median is known.
pub(super) fn tiles(table: &Table<'_>) -> Option<Element> {
    let medians = medians(table);
    let of = |median: &&Cell| {
        let bound = |row| cell(table, row, &median.column).map(|cell| cell.simulated.mean);
        let comment = match (bound("shortest"), bound("longest")) {
            (Some(shortest), Some(longest)) => {
                format!("median; {} to {}", days(shortest), days(longest))
            }
            _ => "median".into(),
        };
        tile(&median.column, &days(median.simulated.mean), "", &(comment + &years(median.simulated.mean)))
    };
    (1..=TILES_MAX)
        .contains(&medians.len())
        .then(|| element("dl").class("tiles").children(medians.iter().map(of)))
}

/// Returns a table with one line per device and with the rows of the table as columns.
pub(super) fn table(table: &Table<'_>) -> Element {
    let columns: Vec<(&str, bool)> =
        [("device", false)].into_iter().chain(table.rows.iter().map(|row| (*row, true))).collect();
    let rows = table.columns.iter().map(|column| {
        let figures = table.rows.iter().map(|row| {
            let figure =
                cell(table, row, column).map(|cell| number::fixed(cell.simulated.mean, table.decimals));
            tables::number(figure.unwrap_or_else(|| number::NONE.into()))
        });
        element("tr").child(tables::row_head(column)).children(figures)
    });
    let caption = element("caption").text(table.name);
    let html =
        element("table").child(caption).child(tables::head(&columns)).child(element("tbody").children(rows));
    tables::scrolling(table.name, html)
}
