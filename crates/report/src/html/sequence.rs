//! A card initialisation as a sequence diagram: host and card are vertical lines, and each command, response and data
//! transfer is an arrow between them. The vertical distance is a step, not a time; the times are at the left.
//!
//! The diagram is HTML and CSS, so its text wraps in a narrow window and can be read aloud, searched and copied.

use crate::figure::Key;
use crate::markup::{Element, element};
use crate::number::milliseconds;
use crate::terminal::trace::{answer, name};
use flashlab_lab::trace::{DataStep, Step, StepKind, Trace};

/// Returns the diagram of `trace` with its caption and legend.
pub(super) fn figure(trace: &Trace) -> Element {
    let caption = element("figcaption")
        .child(element("h3").text("Host and card"))
        .child(element("span").class("unit").text("at the left: milliseconds since power up"));
    let keys = [
        Key::paths([("call".into(), "M-8 0H8M8 0l-4 -3M8 0l-4 3")], "command"),
        Key::paths([("reply".into(), "M-8 0H8M-8 0l4 -3M-8 0l4 3")], "answer"),
        Key::paths([("payload".into(), "M-8 0H8")], "data"),
        Key::paths([("call lost".into(), "M-8 0H3M4 -3l5 6M9 -3l-5 6")], "no answer"),
        Key::paths([("dot".into(), "M0 -4l4 4l-4 4l-4 -4Z")], "the host configures the bus"),
    ];
    let legend = element("ul").class("legend").children(keys.iter().map(Key::html));
    let mut diagram = element("div").class("sequence").child(column_heads());
    let mut phase = "";
    for step in &trace.steps {
        if step.phase != phase {
            phase = step.phase;
            diagram.push(element("h4").class("phase").text(phase));
        }
        diagram.push(diagram_row(step));
    }
    element("figure").child(caption).child(legend).child(diagram)
}

/// Returns a row with the names of the two vertical lines.
fn column_heads() -> Element {
    let names =
        element("div").class("heads").child(element("span").text("host")).child(element("span").text("card"));
    element("div").class("step").child(element("span").class("at").text("ms")).child(names)
}

/// Returns one step: its time, its transfers on the bus, and their meaning.
fn diagram_row(step: &Step) -> Element {
    let mut wires = element("div").class("wires");
    match &step.kind {
        StepKind::Command { response, error, data, .. } => {
            let is_lost = error.is_some() && response.is_none();
            wires.push(arrow(if is_lost { "call lost" } else { "call" }, &name(step)));
            if response.is_some() {
                wires.push(arrow("reply", &answer(step)));
            }
            if let Some(data) = data.as_ref().filter(|_| !is_lost) {
                let class = if data.direction == "read" { "data reply" } else { "data call" };
                wires.push(arrow(class, &bytes(data)));
            }
        }
        StepKind::Bus | StepKind::Note => wires.push(element("div").class("host-only")),
    }
    let mut words = element("div").class("words-of-step").child(element("p").text(&step.asked));
    if !step.means.is_empty() {
        words.push(element("p").class("soft").text(&step.means));
    }
    let at = element("span").class("at").text(milliseconds(step.at_ns));
    element("div").class("step").child(at).child(wires).child(words)
}

fn arrow(class: &str, label: &str) -> Element {
    element("div").class(format!("arrow {class}")).child(element("span").text(label))
}

fn bytes(data: &DataStep) -> String {
    let blocks = if data.blocks == 1 { String::new() } else { format!("{} × ", data.blocks) };
    format!("{blocks}{} bytes", data.block)
}
