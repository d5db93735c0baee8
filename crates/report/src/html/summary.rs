//! The summary: how many bounds hold, how large the worst errors are, and the number of free parameters.

use super::{Section, lifetime, tables};
use crate::{
    grid,
    markup::{Element, element},
    number::{self, plural},
    terminal,
};
use flashlab_lab::results::{Cell, ParameterKind, Results, Role, Summary};

pub(super) fn section(results: &Results) -> Option<Section> {
    let lives = lifetime::tables(results);
    let mut body: Vec<Element> = lives.iter().filter_map(lifetime::tiles).collect();
    body.extend(lives.iter().map(lifetime::table));
    body.push(tiles(results));
    if !results.bounds.is_empty() {
        body.push(bounds(results));
    }
    body.push(facts(results));
    let mut intro: Vec<String> = lives.iter().filter_map(lifetime::sentence).collect();
    intro.push(verdict(results));
    let intro = Some(intro.join(" "));
    Some(Section { id: "summary", title: "Summary", short: "Summary", intro, body })
}

/// Returns the verdict on the whole experiment in a few sentences.
fn verdict(results: &Results) -> String {
    let summary = results.summary();
    let (cells, published) = (summary.cells, summary.measured);
    if cells == 0 {
        return "No published figures exist for comparison.".into();
    }
    let has_references = results.cells.iter().any(|cell| cell.reference.is_some());
    let mut text = if published == 0 && has_references {
        format!("{} from simulations that do not model time.", plural(cells, "figure"))
    } else if published == cells {
        format!(
            "{}, compared with the same tests on virtual devices in simulated time.",
            plural(cells, "published figure")
        )
    } else {
        let are = match published {
            0 => "none of them has a published counterpart".to_string(),
            1 => "1 of them has a published counterpart".to_string(),
            n => format!("{n} of them have published counterparts"),
        };
        format!("{} from virtual devices in simulated time; {are}.", plural(cells, "figure"))
    };
    if let Some(references) = terminal::references(results) {
        text += &format!(" Among them are {references}.");
    }
    if published > 0 {
        text += &roles(&summary, if published == cells { "them" } else { "these" });
    }
    if let Some(median) = summary.error_percent_median {
        let median = number::percent(median, 2);
        text += &match summary.predicted_with_error {
            1 => format!(" The one prediction with a measurement is {median} off."),
            n => format!(" The median error of the {n} predictions with a measurement is {median}."),
        };
    }
    text
}

/// Returns a sentence on the roles of the figures with a measurement. `of` is the pronoun for these figures.
fn roles(summary: &Summary, of: &str) -> String {
    let mut text = format!(
        " Parameters were adjusted on {} of {of}; {}",
        summary.fitted,
        match summary.predicted {
            1 => "1 is a prediction".to_string(),
            n => format!("{n} are predictions"),
        }
    );
    match summary.assumed {
        0 => {}
        1 => text += ", and 1 rests on an assumption",
        n => text += &format!(", and {n} rest on an assumption"),
    }
    match summary.unsourced {
        0 => {}
        1 => text += ", and 1 rests on numbers without a source",
        n => text += &format!(", and {n} rest on numbers without a source"),
    }
    text.push('.');
    text
}

/// Returns the cell of this role with the largest error.
fn worst(results: &Results, role: Role) -> Option<(&Cell, f64)> {
    let errors = results
        .cells
        .iter()
        .filter(|cell| cell.role == role)
        .filter_map(|cell| Some((cell, cell.error_percent.filter(|error| error.is_finite())?)));
    errors.max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))
}

/// Returns the cell with the largest deviation from a closed form or a published simulation, in percent.
fn furthest(results: &Results) -> Option<(&Cell, f64)> {
    let errors = results.cells.iter().filter_map(|cell| Some((cell, cell.reference.as_ref()?.error_percent)));
    errors.filter(|(_, error)| error.is_finite()).max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))
}

pub(super) fn tile(name: &str, figure: &str, class: &str, comment: &str) -> Element {
    let mut value = element("dd");
    if !class.is_empty() {
        value = value.class(class);
    }
    element("div")
        .class("tile")
        .child(element("dt").text(name))
        .child(value.text(figure).child(element("small").text(comment)))
}

fn tiles(results: &Results) -> Element {
    let mut tiles = element("dl").class("tiles");
    if !results.bounds.is_empty() {
        let held = results.bounds.iter().filter(|bound| bound.held).count();
        let missed: Vec<&str> = results.bounds.iter().filter(|b| !b.held).map(|b| b.name.as_str()).collect();
        let (class, comment) = if missed.is_empty() {
            ("held", "all bounds of the experiment".to_string())
        } else {
            ("missed", format!("missed: {}", missed.join("; ")))
        };
        tiles.push(tile("Bounds held", &format!("{held} of {}", results.bounds.len()), class, &comment));
    }
    for (role, name) in [(Role::Predicted, "Worst prediction"), (Role::Fitted, "Worst fit")] {
        if let Some((cell, error)) = worst(results, role) {
            let figure = number::signed_percent(error, 1);
            tiles.push(tile(name, &figure, "", &grid::name(cell)));
        }
    }
    let summary = results.summary();
    if let Some(median) = summary.error_percent_median {
        let predictions = plural(summary.predicted_with_error, "prediction");
        let mut comment = format!("of {predictions} with a measurement");
        if summary.unmeasured > 0 {
            comment += &format!("; {} without", plural(summary.unmeasured, "cell"));
        }
        tiles.push(tile("Median error", &number::percent(median, 2), "", &comment));
    }
    if let Some((cell, error)) = furthest(results) {
        let figure = number::signed_percent(error, 1);
        tiles.push(tile("Furthest from theory", &figure, "", &grid::name(cell)));
    }
    let kind = |kind: ParameterKind| {
        let n = results.parameters.iter().filter(|p| p.kind == kind).count();
        (n > 0).then(|| format!("{n} {}", kind.name()))
    };
    let kinds: Vec<String> = ParameterKind::ALL.into_iter().filter_map(kind).collect();
    let mut comment = format!("for {}", plural(results.cells.len(), "cell"));
    if !kinds.is_empty() {
        comment += &format!(": {}", kinds.join(", "));
    }
    tiles.child(tile("Free parameters", &results.parameters.len().to_string(), "", &comment))
}

fn bounds(results: &Results) -> Element {
    let rows = results.bounds.iter().map(|bound| {
        let worst = grid::worst(bound);
        let (class, verdict) = if bound.held { ("t held", "✓ held") } else { ("t missed", "✗ missed") };
        element("tr")
            .child(element("td").class(class).text(verdict))
            .child(tables::row_head(&bound.name))
            .child(tables::number(bound.limit.as_str()))
            .child(tables::number(worst))
            .child(tables::text(&bound.worst_cell))
    });
    let columns = [("", false), ("bound", false), ("limit", true), ("worst", true), ("at", false)];
    let table = element("table").child(tables::head(&columns)).child(element("tbody").children(rows));
    tables::scrolling("The experiment's bounds", table)
}

fn facts(results: &Results) -> Element {
    let facts = [
        ("seed", results.seed.to_string()),
        ("digest of the cells", results.digest.clone()),
        ("hash of the inputs", results.inputs.clone()),
        ("flashlab", results.version.clone()),
    ];
    let facts = facts.into_iter().chain(results.commit.clone().map(|commit| ("commit", commit)));
    super::facts(facts)
}
