//! The page of a bring-up: the sequence diagram, every step as a table, and Linux' own lines.

use super::{comparison::framed, document, tables};
use crate::figure::sequence;
use crate::markup::{Element, element};
use crate::terminal::trace::{answer, headline, milliseconds, name, summary};
use flashlab_lab::trace::{Step, Trace};

/// The page of `trace`.
pub fn trace_page(trace: &Trace) -> String {
    let title = headline(trace);
    let header = element("header")
        .child(element("p").class("kicker").text(format!("{} · {}", trace.title, trace.host_title)))
        .child(element("h1").text(&title))
        .child(element("p").class("lead").text(summary(trace)));
    let picture = section("sequence", "Step by step", framed(&sequence::figure(trace)));
    let linux = element("pre").text(trace.linux.join("\n"));
    let main = element("main")
        .attr("id", "main")
        .child(picture)
        .child(section("steps", "The steps as a table", table(trace)))
        .child(section("linux", "What Linux prints", tables::scrolling("What Linux prints", linux)));
    let command =
        format!("flashlab trace bring-up {} --host {} --kernel {}", trace.card, trace.host, trace.kernel);
    let footer = element("footer")
        .child(element("p").text("Run again with ").child(element("code").text(command)).text("."));
    document(&title, "flashlab", [header, main, footer])
}

fn section(id: &'static str, title: &str, content: Element) -> Element {
    element("section").attr("id", id).child(element("h2").text(title)).child(content)
}

fn table(trace: &Trace) -> Element {
    let columns = [
        ("phase", false),
        ("at ms", true),
        ("took ms", true),
        ("sent", false),
        ("answer", false),
        ("asked", false),
        ("means", false),
    ];
    let rows = trace.steps.iter().map(row);
    let html = element("table").child(tables::head(&columns)).child(element("tbody").children(rows));
    tables::scrolling("The steps", html)
}

fn row(step: &Step) -> Element {
    let number = |ns| element("td").class("n").text(milliseconds(ns));
    let code = |text: String| element("td").child(element("code").text(text));
    element("tr")
        .child(element("td").text(step.phase))
        .child(number(step.at_ns))
        .child(number(step.duration_ns))
        .child(code(name(step)))
        .child(code(answer(step)))
        .child(element("td").text(&step.asked))
        .child(element("td").text(&step.means))
}
