//! The self-contained page of an experiment: the comparison, its outcome, and an explanation of each number.
//!
//! The page needs no network and is complete without its script. The page follows the reader's light or dark
//! theme, fits a telephone, and has the figures of every bar chart and every curve as a table. Long parts are
//! folded. The source is HTML that is also well-formed XML.

mod answers;
mod comparison;
pub(crate) mod curves;
mod devices;
#[cfg(feature = "fit")]
mod difference;
#[cfg(feature = "fit")]
mod fit;
mod jobs;
mod lifetime;
mod live;
mod notes;
#[cfg(feature = "fit")]
mod probe;
mod purchases;
mod sequence;
mod series;
mod statistics;
pub(crate) mod style;
mod summary;
mod tables;
mod tail;
mod timeline;
mod trace;
mod wear;
mod why;

use crate::{
    figure, grid,
    markup::{Element, element},
    number::plural,
};
use flashlab_lab::results::Results;

#[cfg(feature = "fit")]
pub use difference::{DifferencePage, difference_page};
#[cfg(feature = "fit")]
pub use fit::{FitPage, fit_page};
pub use jobs::{JobPage, jobs_page};
pub use live::live_page;
#[cfg(feature = "fit")]
pub use probe::probe_page;
pub use trace::trace_page;

/// Returns the page of `results`. `command` is the command that reproduces the page.
pub fn page(results: &Results, command: &str) -> String {
    // Without a measurement to compare with, the figures are the main result and precede wear and series.
    let mut shown = [wear::section(results), series::section(results), comparison::figures(results)];
    if !results.has_published() {
        shown.rotate_right(1);
    }
    let [first, second, third] = shown;
    let sections: Vec<Section> = [
        answers::section(results),
        purchases::section(results),
        summary::section(results),
        curves::section(results),
        first,
        second,
        third,
        comparison::errors(results),
        statistics::section(results),
        why::section(results),
        devices::parameters(results),
        devices::devices(results),
        tail::section(results),
        notes::section(results),
    ]
    .into_iter()
    .flatten()
    .collect();

    let generator = format!("flashlab {}", results.version);
    let footer = element("footer").child(
        run_again(command)
            .text(format!(": seed {} gives the digest ", results.seed))
            .child(element("code").text(&results.digest))
            .text(" on every machine."),
    );
    document(&results.experiment, &generator, header(results), &sections, footer)
}

/// Returns a page in the style of all pages: the header, to which this function adds links to the sections, then the
/// sections and the footer.
fn document(title: &str, generator: &str, header: Element, sections: &[Section], footer: Element) -> String {
    let main = element("main").attr("id", "main").children(sections.iter().map(Section::html));
    let head = element("head")
        .child(element("meta").attr("charset", "utf-8"))
        .child(
            element("meta").attr("name", "viewport").attr("content", "width=device-width, initial-scale=1"),
        )
        .child(element("meta").attr("name", "color-scheme").attr("content", "light dark"))
        .child(element("meta").attr("name", "generator").attr("content", generator))
        .child(element("title").text(format!("{title} · flashlab")))
        .child(style::page_sheet());
    let hatches = element("svg")
        .class("hatches")
        .attr("width", 0)
        .attr("height", 0)
        .attr("aria-hidden", "true")
        .child(figure::defs());
    let has = |attribute| sections.iter().any(|section| section.has_attribute(attribute));
    let needs = style::Needs { charts: has(figure::interactive::HOLDER), bars: has(figure::mark::DRAWING) };
    let script = style::script(needs);
    let body = element("body")
        .child(element("a").class("skip").attr("href", "#main").text("Skip to the results"))
        .child(hatches)
        .child(header.child(contents(sections)))
        .child(main)
        .child(footer)
        .child(script);
    format!("<!DOCTYPE html>\n{}", element("html").attr("lang", "en").child(head).child(body))
}

/// A part of the page that the table of contents lists.
struct Section {
    id: &'static str,
    title: &'static str,
    /// Short name for the table of contents.
    short: &'static str,
    intro: Option<String>,
    body: Vec<Element>,
}

impl Section {
    fn new(id: &'static str, title: &'static str, short: &'static str, body: Vec<Element>) -> Section {
        Section { id, title, short, intro: None, body }
    }

    /// Returns true if an element of the section has the attribute.
    fn has_attribute(&self, name: &str) -> bool {
        self.body.iter().any(|part| part.contains_attribute(name))
    }

    fn html(&self) -> Element {
        let heading = format!("{}-title", self.id);
        let intro = self.intro.iter().map(|text| element("p").class("intro").text(text));
        element("section")
            .attr("id", self.id)
            .attr("aria-labelledby", &heading)
            .child(element("h2").attr("id", heading).text(self.title))
            .children(intro)
            .children(self.body.iter().cloned())
    }
}

/// Returns the links to the sections and the button that switches the theme.
fn contents(sections: &[Section]) -> Element {
    let links = sections.iter().map(|s| element("a").attr("href", format!("#{}", s.id)).text(s.short));
    let button = element("button")
        .attr("id", "theme")
        .attr("type", "button")
        .attr("hidden", "hidden")
        .attr("aria-label", "Switch between the light and the dark theme");
    element("nav").class("bar").attr("aria-label", "Contents").children(links).child(button)
}

fn header(results: &Results) -> Element {
    let tables = grid::tables(results);
    let mut names: Vec<&str> = vec![];
    for table in &tables {
        if !names.contains(&table.name) {
            names.push(table.name);
        }
    }
    let kicker = format!(
        "Simulated with flashlab {}: {} in {}",
        results.version,
        plural(results.cells.len(), "figure"),
        plural(names.len(), "table")
    );
    element("header")
        .child(element("p").class("kicker").text(kicker))
        .child(element("h1").text(&results.experiment))
        .child(element("p").class("lead").text(&results.title))
}

/// Returns the facts of a run with their names, in one line.
fn facts(facts: impl IntoIterator<Item = (&'static str, String)>) -> Element {
    element("dl").class("facts").children(facts.into_iter().map(|(name, value)| {
        element("div").child(element("dt").text(name)).child(element("dd").child(element("code").text(value)))
    }))
}

/// Returns a folded part that a reader opens by its summary.
fn folded(summary: &str, body: impl IntoIterator<Item = Element>) -> Element {
    element("details").class("fold").child(element("summary").text(summary)).children(body)
}

/// Returns the footer with the command that reproduces a page.
fn footer(command: &str) -> Element {
    element("footer").child(run_again(command).text("."))
}

/// Returns a paragraph that begins with `Run again with` and a command. The caller completes the sentence.
fn run_again(command: &str) -> Element {
    element("p").text("Run again with ").child(element("code").text(command))
}
