//! Tables of the page, with column headers, right-aligned numbers, and a region that scrolls in a narrow window.

use crate::{
    grid::{self, Table},
    markup::{Element, element},
    number,
};
use flashlab_lab::results::{Cell, Published, Role};

/// Returns the header row. Each column has a name, and true if it contains numbers.
pub(super) fn head(columns: &[(&str, bool)]) -> Element {
    let cells = columns.iter().map(|(name, is_number)| {
        let cell = element("th").attr("scope", "col");
        if *is_number { cell.class("n").text(name) } else { cell.text(name) }
    });
    element("thead").child(element("tr").children(cells))
}

/// Returns the header cell of a row.
pub(super) fn row_head(text: &str) -> Element {
    wide_if_long(element("th").attr("scope", "row"), text)
}

/// Returns a cell of text.
pub(super) fn text(text: &str) -> Element {
    wide_if_long(element("td"), text)
}

/// Number of characters above which a text gets a wide column.
const WORDS: usize = 24;

/// Returns the cell with its text, as a wide cell if the text is long.
pub(super) fn wide_if_long(cell: Element, text: &str) -> Element {
    let cell = if text.chars().count() > WORDS { cell.class("w") } else { cell };
    cell.text(text)
}

/// Returns a cell with a number.
pub(super) fn number(text: impl AsRef<str>) -> Element {
    element("td").class("n").text(number::typeset(text.as_ref().to_string()))
}

/// Returns a cell with a number in words, which a sortable table sorts by its value.
pub(super) fn number_of(value: f64, text: impl AsRef<str>) -> Element {
    number(text).attr("data-value", value)
}

/// Returns the table in a region that scrolls sideways in a narrow window, below a line that says so.
pub(super) fn scrolling(label: &str, table: Element) -> Element {
    in_region(label, table.class("wide"))
}

/// Returns the table as [`scrolling`] does. A reader sorts its rows by a click on the head of a column.
pub(super) fn sortable(label: &str, table: Element) -> Element {
    in_region(label, table.class("wide sortable"))
}

fn in_region(label: &str, table: Element) -> Element {
    let hint =
        element("p").class("across").attr("aria-hidden", "true").text("Scroll sideways for more columns →");
    let region = element("div")
        .class("scroll")
        .attr("role", "region")
        .attr("tabindex", "0")
        .attr("aria-label", label)
        .child(table);
    element("div").child(hint).child(region)
}

/// Maximum number of rows of a table that is shown unfolded.
const ROWS_MAX: usize = 12;

/// Returns the table, folded under its summary if it has many rows.
pub(super) fn folded_if_long(summary: &str, rows: usize, table: Element) -> Element {
    if rows > ROWS_MAX { super::folded(summary, [table]) } else { table }
}

/// Returns the published and simulated figures of one table, or of one row of it.
pub(super) fn comparison(table: &Table<'_>, row: Option<&str>) -> Element {
    let has_rows = table.has_rows() && row.is_none();
    let cells: Vec<&Cell> =
        table.cells.iter().copied().filter(|cell| row.is_none_or(|row| cell.row == row)).collect();
    let mut columns = vec![];
    if has_rows {
        columns.push(("row", false));
    }
    columns.extend([
        ("device", false),
        (grid::compared_name(cells.iter().copied()), true),
        ("±", true),
        ("simulated", true),
        ("±", true),
        ("error %", true),
        ("role", false),
    ]);
    let has_references = cells.iter().any(|cell| cell.reference.is_some());
    if has_references {
        columns.push(("source", false));
    }
    let rows = cells.iter().map(|cell| {
        let mut line = element("tr");
        if has_rows {
            line.push(row_head(&cell.row));
            line.push(text(&cell.column));
        } else {
            line.push(row_head(&cell.column));
        }
        let (mean, sd) = published(cell, table.decimals);
        let mean = match cell.published {
            Some(Published::Text { .. }) => text(&mean),
            _ => number(mean),
        };
        line.child(mean)
            .child(number(sd))
            .child(number(number::fixed(cell.simulated.mean, table.decimals)))
            .child(number(number::fixed(cell.simulated.sd, table.decimals)))
            .child(number(cell.compared_percent().map_or(number::NONE.into(), |e| number::signed(e, 2))))
            .child(element("td").child(role(cell)))
            .children(has_references.then(|| text(cell.reference.as_ref().map_or("", |found| &found.name))))
    });
    let name = row.map_or(table.name.to_owned(), |row| format!("{}, {row}", table.name));
    let caption = format!("{name}, {}", table.unit);
    let body = element("tbody").children(rows);
    let html = element("table").child(element("caption").text(&caption)).child(head(&columns)).child(body);
    scrolling(&caption, html)
}

/// Returns the mean and deviation of the published figure or of the reference, as text.
pub(super) fn published(cell: &Cell, decimals: usize) -> (String, String) {
    match grid::compared(cell) {
        Some(Published::Figure { mean, sd }) => {
            (number::fixed(mean, decimals), sd.map(|sd| number::fixed(sd, decimals)).unwrap_or_default())
        }
        Some(Published::Below { below }) => (number::below(number::fixed(below, decimals)), String::new()),
        Some(Published::Text { text }) => (text, String::new()),
        None => (number::NONE.into(), String::new()),
    }
}

/// Returns the tag with the role of a cell.
pub(super) fn role(cell: &Cell) -> Element {
    let is_compared = grid::is_compared(cell);
    let class = if cell.role == Role::Predicted && is_compared { "tag predicted" } else { "tag" };
    element("span").class(class).text(grid::role_name(cell.role, is_compared))
}
