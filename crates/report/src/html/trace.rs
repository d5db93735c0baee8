//! The page of a card initialisation: the sequence diagram, every step as a table, and the lines that Linux prints.

use super::{Section, document, folded, footer, sequence, tables};
use crate::markup::{Element, element};
use crate::number::milliseconds;
use crate::terminal::trace::{answer, headline, name, summary};
use flashlab_lab::trace::{Step, Trace};

/// Returns the page of `trace`. `command` is the command that reproduces the page.
pub fn trace_page(trace: &Trace, command: &str) -> String {
    let title = headline(trace);
    let header = element("header")
        .child(element("p").class("kicker").text(format!("{} · {}", trace.title, trace.host_title)))
        .child(element("h1").text(&title))
        .child(element("p").class("lead").text(summary(trace)));
    let linux = element("pre").text(trace.linux.join("\n"));
    let steps = folded("The steps as a table", [table(trace)]);
    let linux =
        folded("The lines that Linux prints", [tables::scrolling("The lines that Linux prints", linux)]);
    let sections = [
        Section::new("sequence", "Step by step", "Sequence", vec![sequence::figure(trace), steps]),
        Section::new("linux", "The kernel's log", "Linux", vec![linux]),
    ];
    document(&title, "flashlab", header, &sections, footer(command))
}

fn table(trace: &Trace) -> Element {
    let columns = [
        ("phase", false),
        ("at ms", true),
        ("took ms", true),
        ("sent", false),
        ("answer", false),
        ("purpose", false),
        ("meaning", false),
    ];
    let rows = trace.steps.iter().map(row);
    let html = element("table").child(tables::head(&columns)).child(element("tbody").children(rows));
    tables::scrolling("The steps", html)
}

fn row(step: &Step) -> Element {
    let number = |ns| element("td").class("n").text(milliseconds(ns));
    let code = |text: String| element("td").child(element("code").text(text));
    element("tr")
        .child(tables::row_head(step.phase))
        .child(number(step.at_ns))
        .child(number(step.duration_ns))
        .child(code(name(step)))
        .child(code(answer(step)))
        .child(tables::text(&step.asked))
        .child(tables::text(&step.means))
}
