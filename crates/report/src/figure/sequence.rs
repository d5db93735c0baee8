//! A bring-up as a sequence diagram: host and card as two lines, down which time goes; each command an arrow, each answer one
//! back, data a thick one. The distance down is a step, not a time: the times stand at the left.

use super::{Figure, Key};
use crate::markup::{Element, element};
use crate::svg::{self, Anchor, Percent};
use crate::terminal::trace::{answer, headline, milliseconds, name, summary};
use flashlab_lab::trace::{DataStep, Step, StepKind, Trace};

/// Where things are across.
const TIME: Percent = Percent(7.0);
const HOST: Percent = Percent(13.0);
const CARD: Percent = Percent(48.0);
const WORDS: Percent = Percent(50.5);
const MIDDLE: Percent = Percent(30.5);
const LOST: Percent = Percent(37.0);

/// Pixels down.
const LINE: f64 = 13.0;
const ARROW: f64 = 17.0;
const PHASE: f64 = 26.0;
const GAP: f64 = 9.0;
const TOP: f64 = 26.0;

/// Characters of a line of words.
const LETTERS: usize = 58;

/// The diagram of `trace`.
pub fn figure(trace: &Trace) -> Figure {
    let mut rows = Vec::new();
    let mut y = TOP;
    let mut phase = "";
    for step in &trace.steps {
        if step.phase != phase {
            phase = step.phase;
            rows.push(band(y + 4.0, phase));
            y += PHASE + GAP;
        }
        let (row, height) = draw(step, y);
        rows.push(row);
        y += height + GAP;
    }
    let title = headline(trace);
    let words = summary(trace);
    let mut drawing = svg::drawing(y, &title, &words);
    for (x, name) in [(HOST, "host"), (CARD, "card")] {
        drawing.push(svg::line((x, TOP - 8.0), (x, y)).class("stem"));
        drawing.push(svg::text(x, 0.0, TOP - 14.0, Anchor::Middle, name).class("name"));
    }
    drawing.push(svg::text(TIME, 0.0, TOP - 14.0, Anchor::End, "ms").class("tick"));
    let legend = vec![
        Key::paths([("call".into(), "M-8 0H8M8 0l-4 -3M8 0l-4 3")], "command"),
        Key::paths([("reply".into(), "M-8 0H8M-8 0l4 -3M-8 0l4 3")], "answer"),
        Key::paths([("payload".into(), "M-8 0H8")], "data"),
        Key::paths([("call lost".into(), "M-8 0H4M2 -3l5 6M7 -3l-5 6")], "no answer"),
    ];
    Figure { title, subtitle: words, height: y, svg: drawing.children(rows), legend }
}

/// The heading of a phase, over the whole width.
fn band(y: f64, phase: &str) -> Element {
    element("g")
        .child(svg::rect(Percent(0.0), y, Percent(100.0), PHASE - 6.0).class("band"))
        .child(svg::text(Percent(1.0), 0.0, y + 14.0, Anchor::Start, phase).class("name"))
}

/// A step from `y` on, and how many pixels it takes.
fn draw(step: &Step, y: f64) -> (Element, f64) {
    let mut group = svg::named(format!("{} {}", name(step), step.asked));
    group.push(svg::text(TIME, 0.0, y + 10.0, Anchor::End, milliseconds(step.at_ns)).class("tick"));
    let mut down = y + ARROW;
    match &step.kind {
        StepKind::Command { response, error, data, .. } => {
            let lost = error.is_some() && response.is_none();
            group.push(svg::text(MIDDLE, 0.0, down - 5.0, Anchor::Middle, name(step)).class("value"));
            if lost {
                group.push(svg::line((HOST, down), (LOST, down)).class("call lost"));
                group.push(
                    svg::symbol(LOST, down, "no answer")
                        .child(element("path").class("call").attr("d", "M-3 -4l6 8M3 -4l-6 8")),
                );
            } else {
                arrow(&mut group, (HOST, CARD), down, "call");
            }
            if response.is_some() {
                down += ARROW;
                group.push(svg::text(MIDDLE, 0.0, down - 5.0, Anchor::Middle, answer(step)).class("tick"));
                arrow(&mut group, (CARD, HOST), down, "reply");
            }
            if let Some(data) = data.as_ref().filter(|_| !lost) {
                down += ARROW;
                let (from, to) = if data.direction == "read" { (CARD, HOST) } else { (HOST, CARD) };
                group.push(svg::text(MIDDLE, 0.0, down - 6.0, Anchor::Middle, bytes(data)).class("tick"));
                arrow(&mut group, (from, to), down, "payload");
            }
        }
        StepKind::Wires | StepKind::Note => {
            group.push(
                svg::symbol(HOST, y + 6.0, "")
                    .child(element("path").class("dot").attr("d", "M0 -4l4 4l-4 4l-4 -4Z")),
            );
            down = y + LINE;
        }
    }
    let mut lines = lines(&step.asked);
    let asked = lines.len();
    lines.extend(self::lines(&step.means));
    for (n, line) in lines.iter().enumerate() {
        let class = if n < asked { "value" } else { "tick" };
        let at = y + 10.0 + LINE * n as f64;
        group.push(svg::text(WORDS, 0.0, at, Anchor::Start, line).class(class));
    }
    (group, (down - y).max(LINE * lines.len() as f64))
}

fn bytes(data: &DataStep) -> String {
    let blocks = if data.blocks == 1 { String::new() } else { format!("{} x ", data.blocks) };
    format!("{blocks}{} bytes", data.block)
}

/// A line from one life line to the other, with its head.
fn arrow(group: &mut Element, (from, to): (Percent, Percent), y: f64, class: &str) {
    let head = if from < to { "M0 0l-6 -3.5M0 0l-6 3.5" } else { "M0 0l6 -3.5M0 0l6 3.5" };
    group.push(svg::line((from, y), (to, y)).class(class));
    group.push(svg::symbol(to, y, "").child(element("path").class(class).attr("d", head)));
}

/// Words on lines of [`LETTERS`].
fn lines(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= LETTERS => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
