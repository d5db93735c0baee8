//! The numbers behind the results: the free parameters and the cells on which they were fitted, then every number of
//! every device.

use super::{Section, tables};
use crate::{
    markup::{Element, element},
    number, terminal,
};
use flashlab_lab::results::{Device, Number, Results};

pub(super) fn parameters(results: &Results) -> Option<Section> {
    let rows = results.parameters.iter().map(|parameter| {
        element("tr")
            .child(element("th").attr("scope", "row").child(element("code").text(&parameter.path)))
            .child(tables::number(parameter.value.as_str()))
            .child(element("td").child(element("span").class("tag").text(parameter.kind.name())))
            .child(tables::text(&parameter.fitted_on.join(", ")))
    });
    let columns = [("parameter", false), ("value", true), ("how", false), ("fitted on", false)];
    let table = element("table").child(tables::head(&columns)).child(element("tbody").children(rows));
    let table = tables::scrolling("Free parameters", table);
    let summary = number::plural(results.parameters.len(), "free parameter");
    (!results.parameters.is_empty()).then(|| Section {
        id: "parameters",
        title: "Free parameters",
        short: "Parameters",
        intro: Some(format!(
            "{}. A number that a catalogue or specification gives is not counted; one that is the same for all devices \
             counts once.",
            terminal::count(results)
        )),
        body: vec![tables::folded_if_long(&summary, results.parameters.len(), table)],
    })
}

pub(super) fn devices(results: &Results) -> Option<Section> {
    let devices = &results.devices;
    let profiles = devices.iter().enumerate().map(|(i, device)| {
        let first = devices[..i].iter().find(|other| base(other) == base(device));
        profile(i, device, first)
    });
    let body: Vec<Element> = profiles.collect();
    (!body.is_empty()).then_some(Section {
        id: "devices",
        title: "Every number of every device",
        short: "Devices",
        intro: Some("Every number of each device's profile, its value, its source, and its meaning.".into()),
        body,
    })
}

/// Returns the device's name without the keys that were set: `sd/kingston` of `sd/kingston:flash.t_prog=250us`.
pub(super) fn base(device: &Device) -> &str {
    device.name.split(':').next().unwrap_or(&device.name)
}

/// Returns all numbers of a device, or only those that differ from `first`, the same device with other keys.
fn profile(i: usize, device: &Device, first: Option<&Device>) -> Element {
    let is_known =
        |number: &Number| first.is_some_and(|first| first.numbers.iter().any(|n| is_same(n, number)));
    let numbers: Vec<&Number> = device.numbers.iter().filter(|number| !is_known(number)).collect();
    let rows = numbers.iter().map(|number| {
        element("tr")
            .child(element("th").attr("scope", "row").child(element("code").text(&number.path)))
            .child(tables::number(number.value.as_str()))
            .child(source(&number.source))
            .child(tables::text(&number.meaning))
    });
    let columns = [("number", false), ("value", true), ("source", false), ("meaning", false)];
    let table = element("table").child(tables::head(&columns)).child(element("tbody").children(rows));
    let title = match first {
        None => format!(" {}", device.title),
        Some(first) if numbers.is_empty() => format!(" same as {}", first.name),
        Some(first) => {
            format!(" same as {}, except for {}", first.name, number::plural(numbers.len(), "number"))
        }
    };
    let html = element("details").attr("id", format!("device-{i}")).class("profile");
    let html = html.child(element("summary").child(element("b").text(&device.name)).text(title));
    if numbers.is_empty() { html } else { html.child(tables::scrolling(&device.name, table)) }
}

fn is_same(a: &Number, b: &Number) -> bool {
    a.path == b.path && a.value == b.value && a.source == b.source
}

/// Returns the kind of a source as a tag, followed by the rest of its text.
fn source(text: &str) -> Element {
    let kinds = [
        "fitted on",
        "fitted",
        "typical",
        "spec",
        "measured",
        "catalogue",
        "follows",
        "undetermined",
        "condition",
        "set by hand",
        "unsourced",
        "chosen",
    ];
    let cell = element("td");
    match kinds.iter().find_map(|kind| Some((*kind, text.strip_prefix(kind)?))) {
        Some((kind, rest)) => {
            let tag = kind.trim_end_matches(" on");
            let rest = rest.trim_start_matches(':').trim_start();
            cell.child(element("span").class("tag").text(tag)).text(format!(" {rest}"))
        }
        None => cell.text(text),
    }
}
