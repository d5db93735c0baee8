//! The page of the differences between two results.

use super::{Section, document, footer, tables};
use crate::{
    difference::{change, changed_lines, shown_figures, small_lines, summary, values, without_small},
    figure::{
        Figure,
        interactive::{Axis, Chart, Form, Line, Part, holder},
        mark::{self, mark},
        mechanisms,
    },
    markup::{Element, element},
    number::{self, plural},
    svg::{self, Percent},
};
use flashlab_lab::difference::{Changed, Difference, LineDifference};

/// The content of the page.
#[derive(Clone, Copy, Debug)]
pub struct DifferencePage<'a> {
    /// Name of the first file.
    pub a: &'a str,
    /// Name of the second file.
    pub b: &'a str,
    /// The version of flashlab.
    pub version: &'a str,
    /// The command that reproduces the page.
    pub command: &'a str,
    /// Figures that differ by at most this many percent count as equal.
    pub tolerance: f64,
    /// The differences.
    pub difference: &'a Difference,
}

/// Returns the page.
pub fn difference_page(page: &DifferencePage<'_>) -> String {
    let difference = page.difference;
    let sentences = summary(difference, page.tolerance).into_iter().map(|sentence| {
        // A long list of names is folded. The reader opens it by the sentence that counts the names.
        match sentence.split_once(": ") {
            Some((only, _)) if only.starts_with("Only in") && sentence.len() > LIST_MAX => {
                let names = if only.ends_with('A') { &difference.only_a } else { &difference.only_b };
                let summary = format!("{only}: {}", plural(names.len(), "line"));
                super::folded(&summary, [element("p").text(&sentence)])
            }
            _ => element("p").text(&sentence),
        }
    });
    let header = element("header")
        .child(element("p").class("kicker").text(format!("Compared with flashlab {}", page.version)))
        .child(element("h1").text("Differences"))
        .child(element("p").class("lead").text(format!("A is {}, B is {}.", page.a, page.b)))
        .children(sentences);
    let changed = changed_lines(difference, page.tolerance);
    let (changed, small) = without_small(&changed);
    let mut sections = Vec::new();
    for (id, title, short, values) in [
        ("runs", "Differences between the runs", "Runs", &difference.facts),
        ("inputs", "Changed inputs", "Inputs", &difference.inputs),
    ] {
        if !values.is_empty() {
            let table = tables::folded_if_long(
                &plural(values.len(), "value"),
                values.len(),
                changed_values(title, values),
            );
            sections.push(Section::new(id, title, short, vec![table]));
        }
    }
    sections.extend(overview(changed, page.tolerance));
    if !changed.is_empty() {
        let folded = (!small.is_empty()).then(|| {
            let summary = small_lines(small);
            super::folded(&summary, [figures(small, page.tolerance)])
        });
        let body = [figures(changed, page.tolerance)].into_iter().chain(folded).collect();
        sections.push(Section {
            intro: (changed.len() > 1).then(|| "The line with the largest change comes first.".into()),
            ..Section::new("figures", "Changed figures", "Figures", body)
        });
    }
    let bars: Vec<Element> = changed.iter().filter_map(|line| bars(line)).collect();
    if !bars.is_empty() {
        sections.push(Section {
            id: "mechanisms",
            title: "Where the time changed",
            short: "Mechanisms",
            intro: Some(
                "Each pair of bars shows the mean request of A above that of B, on one scale. The parts are the \
                 mechanisms that took the time."
                    .into(),
            ),
            body: vec![element("div").class("grid2").children(bars)],
        });
    }
    document("Differences", &format!("flashlab {}", page.version), header, &sections, footer(page.command))
}

/// Maximum number of characters of a list of lines that is shown unfolded.
const LIST_MAX: usize = 300;

fn figures(lines: &[&LineDifference], tolerance: f64) -> Element {
    let columns = [("line", false), ("figure", false), ("A", true), ("B", true), ("change", true)];
    let rows = lines.iter().flat_map(|line| {
        shown_figures(line, tolerance).into_iter().map(|figure| {
            let (a, b) = values(figure);
            element("tr")
                .child(tables::row_head(&line.name))
                .child(tables::text(&figure.quantity))
                .child(tables::number(a))
                .child(tables::number(b))
                .child(tables::number(change(figure)))
        })
    });
    let body = element("tbody").children(rows);
    tables::scrolling("Changed figures", element("table").child(tables::head(&columns)).child(body))
}

fn changed_values(title: &str, values: &[Changed<String>]) -> Element {
    let text = |value: &Option<String>| tables::text(value.as_deref().unwrap_or(number::NONE));
    let rows = values.iter().map(|value| {
        element("tr").child(tables::row_head(&value.name)).child(text(&value.a)).child(text(&value.b))
    });
    let columns = [("name", false), ("A", false), ("B", false)];
    let table = element("table").child(tables::head(&columns)).child(element("tbody").children(rows));
    tables::scrolling(title, table)
}

/// Returns the changes of `lines` in at most two linked charts: the figures in percent and the mechanisms in
/// time. Returns `None` for a single line, which needs no overview.
fn overview(lines: &[&LineDifference], tolerance: f64) -> Option<Section> {
    if lines.len() < 2 {
        return None;
    }
    let names: Vec<&str> = lines.iter().map(|line| line.name.as_str()).collect();
    let (mut figures, mut times) = (Points::default(), Points::default());
    for (x, line) in lines.iter().enumerate() {
        for figure in shown_figures(line, tolerance) {
            if let Some(percent) = figure.percent {
                figures.add(&figure.quantity, (x as f64, percent));
            }
        }
        for mechanism in &line.mechanisms {
            times.add(&mechanism.mechanism, (x as f64, mechanism.change_ns() / 1e6));
        }
    }
    let colours = times.0.iter().map(|(name, _)| mechanisms::colour(name));
    let times_lines = colours.zip(times.lines()).map(|(colour, line)| Line { colour, ..line });
    let charts = [
        ("Figures", "change from A to B in percent of A", figures.axis("%"), figures.lines()),
        (
            "Mechanisms",
            "change of the time per request in milliseconds",
            times.axis("ms"),
            times_lines.collect(),
        ),
    ];
    let charts = charts.into_iter().filter(|(.., lines)| !lines.is_empty());
    let figures = charts.map(|(title, subtitle, axis, lines)| {
        let chart = Chart::over_names(title, "lines", &names, &axis, &lines);
        let words = element("p").text("The tables below contain these figures.");
        let caption = element("figcaption")
            .child(element("h3").text(title))
            .child(element("span").class("unit").text(subtitle));
        element("figure").child(caption).child(holder(&[chart], [element("noscript").child(words)]))
    });
    Some(Section {
        id: "overview",
        title: "All changes",
        short: "Overview",
        intro: Some(
            "One place on the axis for each changed line of the table below, in its order. A name above a chart switches its \
             series off and on. Drag across a chart to zoom into a range of both; a double click shows everything."
                .into(),
        ),
        body: vec![element("div").class("grid2").children(figures)],
    })
}

/// Named series of points, in order of first appearance.
#[derive(Default)]
struct Points(Vec<(String, Vec<(f64, f64)>)>);

impl Points {
    fn add(&mut self, name: &str, point: (f64, f64)) {
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, points)) => points.push(point),
            None => self.0.push((name.to_owned(), vec![point])),
        }
    }

    fn axis(&self, unit: &str) -> Axis {
        Axis::for_changes(unit, self.0.iter().flat_map(|(_, points)| points).map(|(_, change)| *change))
    }

    fn lines(&self) -> Vec<Line> {
        let part = |points: &Vec<(f64, f64)>| Part::new(Form::Dots, "", points.iter().copied());
        let all = self.0.iter().enumerate();
        all.map(|(i, (name, points))| Line::new(name, i, vec![part(points)])).collect()
    }
}

/// Height of a bar and of the space below it, in pixels.
const BAR: (f64, f64) = (14.0, 8.0);

/// Returns the mechanisms of both results as stacked bars on one scale, with the same figures as a table;
/// `None` if no mechanism took time.
fn bars(line: &LineDifference) -> Option<Element> {
    let all = &line.mechanisms;
    let sums = (all.iter().map(|m| m.a_ns).sum::<f64>(), all.iter().map(|m| m.b_ns).sum::<f64>());
    let scale = sums.0.max(sums.1);
    if scale <= 0.0 {
        return None;
    }
    let subtitle =
        format!("A: {}, B: {} per request", number::duration_ns(sums.0), number::duration_ns(sums.1));
    let height = 2.0 * BAR.0 + BAR.1;
    let mut svg = mark::drawing(height, &line.name, &subtitle);
    for (file, y, of) in [("A", 0.0, true), ("B", BAR.0 + BAR.1, false)] {
        let mut stack = mark::stack();
        let mut x = 0.0;
        for mechanism in all {
            let ns = if of { mechanism.a_ns } else { mechanism.b_ns };
            let width = 100.0 * ns / scale;
            let name = format!("{file}, {}: {}", mechanism.mechanism, number::duration_ns(ns));
            let rect = svg::rect(Percent(x), y, Percent(width), BAR.0)
                .class(mechanisms::class(&mechanism.mechanism));
            stack.push(mark(&mechanism.mechanism, file, name).child(rect));
            x += width;
        }
        svg.push(stack);
    }
    let legend = all.iter().map(|m| mechanisms::key(&m.mechanism)).collect();
    let figure = Figure { title: line.name.clone(), subtitle, height, svg, legend };
    Some(super::comparison::framed(&figure).child(as_table(line)))
}

fn as_table(line: &LineDifference) -> Element {
    let columns = [("mechanism", false), ("A", true), ("B", true), ("change", true)];
    let rows = line.mechanisms.iter().map(|mechanism| {
        element("tr")
            .child(tables::row_head(&mechanism.mechanism))
            .child(tables::number(number::duration_ns(mechanism.a_ns)))
            .child(tables::number(number::duration_ns(mechanism.b_ns)))
            .child(tables::number(number::signed_duration_ns(mechanism.change_ns())))
    });
    let table = element("table").child(tables::head(&columns)).child(element("tbody").children(rows));
    element("details")
        .child(element("summary").text("The figures as a table"))
        .child(tables::scrolling(&line.name, table))
}
