//! The page of a probe: the findings as a table, then the evidence of each one as a figure.

use super::{Section, comparison::framed, document, footer, tables};
use crate::figure::evidence;
use crate::markup::{Element, element};
use crate::number;
use crate::probe::{summary, value};
use flashlab_fit::probe::{Finding, Findings};

/// Returns the page of `findings`. `command` is the command that reproduces the page.
pub fn probe_page(findings: &Findings, command: &str) -> String {
    let capacity = number::bytes(findings.capacity);
    let header = element("header")
        .child(element("p").class("kicker").text(format!("{capacity} · blocks of {} B", findings.block)))
        .child(element("h1").text(format!("Probe of {}", findings.target)))
        .child(element("p").class("lead").text(summary(findings)));
    let mut sections = vec![Section::new("findings", "Findings", "Findings", vec![table(findings)])];
    let figures = evidence::figures(findings);
    if !figures.is_empty() {
        let body = vec![element("div").class("grid2").children(figures.iter().map(framed))];
        sections.push(Section::new("evidence", "Evidence", "Evidence", body));
    }
    let title = format!("Probe of {}", findings.target);
    document(&title, &format!("flashlab {}", findings.version), header, &sections, footer(command))
}

fn table(findings: &Findings) -> Element {
    let columns =
        [("finding", false), ("value", false), ("confidence", false), ("written", true), ("reason", false)];
    let rows = findings.findings.iter().map(row);
    let html = element("table").child(tables::head(&columns)).child(element("tbody").children(rows));
    tables::scrolling("Findings", html)
}

fn row(finding: &Finding) -> Element {
    element("tr")
        .child(tables::row_head(finding.name.title()))
        .child(tables::text(&value(finding)))
        .child(tables::text(finding.confidence.name()))
        .child(tables::number(number::bytes(finding.written_bytes)))
        .child(tables::text(&finding.reason))
}
