//! The page of a live experiment: ratios within one run compared with the published ones, all figures, and the
//! measurement setup.

use super::{Section, comparison::framed, document, tables};
use crate::figure::paths;
use crate::live::{Page, Row};
use crate::markup::{Element, element};
use crate::number;

/// Returns the page of a live experiment.
pub fn live_page(page: &Page<'_>) -> String {
    let header = element("header")
        .child(element("p").class("kicker").text("Measured live on a real machine, without a digest"))
        .child(element("h1").text(page.name))
        .child(element("p").class("lead").text(page.title))
        .child(element("p").text(format!("{}.", page.note)));
    let mut sections = vec![
        Section::new("ratios", "Ratios within one run", "Ratios", vec![framed(&paths::figure(page))]),
        Section::new("figures", "All figures", "Figures", vec![table(page)]),
    ];
    let missing: Vec<&Row> = page.rows.iter().filter(|row| row.missing.is_some()).collect();
    if !missing.is_empty() {
        let line = |row: &&Row| {
            element("li").text(format!("{}: {}", row.name, row.missing.as_deref().unwrap_or_default()))
        };
        let list = element("ul").children(missing.iter().map(line));
        sections.push(Section::new("missing", "Not measured", "Not measured", vec![list]));
    }
    sections.push(Section::new("with", "Measurement setup", "Setup", vec![setup(page)]));
    let footer = element("footer")
        .child(element("p").text("Measure again with ").child(element("code").text(page.command)).text("."));
    document(page.name, "flashlab", header, &sections, footer)
}

fn table(page: &Page<'_>) -> Element {
    let share = format!("/ {}", page.reference);
    let columns = [
        ("row", false),
        ("attached", false),
        ("read MiB/s", true),
        ("write MiB/s", true),
        (&*share, true),
        ("min to max", true),
        ("published read", true),
        ("write", true),
        (&*share, true),
    ];
    let rows = page.rows.iter().map(row);
    let html = element("table").child(tables::head(&columns)).child(element("tbody").children(rows));
    tables::scrolling("All figures", html)
}

fn row(row: &Row) -> Element {
    let number = |value: Option<f64>, decimals: usize| {
        tables::number(value.map_or_else(|| number::NONE.to_owned(), |value| number::fixed(value, decimals)))
    };
    let spread = row.spread.map_or_else(
        || number::NONE.to_owned(),
        |(least, most)| format!("{} to {}", number::fixed(least, 3), number::fixed(most, 3)),
    );
    element("tr")
        .child(tables::row_head(&row.name))
        .child(tables::text(&row.attached))
        .child(number(row.measured.map(|measured| measured.0), 1))
        .child(number(row.measured.map(|measured| measured.1), 1))
        .child(number(row.ratio, 3))
        .child(element("td").class("n").text(spread))
        .child(number(row.published.map(|published| published.0), 0))
        .child(number(row.published.map(|published| published.1), 0))
        .child(number(row.published_ratio, 3))
}

fn setup(page: &Page<'_>) -> Element {
    let rows = page
        .setup
        .iter()
        .map(|(name, what)| element("tr").child(tables::row_head(name)).child(tables::text(what)));
    tables::scrolling("Measurement setup", element("table").child(element("tbody").children(rows)))
}
