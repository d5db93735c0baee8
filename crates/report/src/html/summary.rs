//! The first look: how many bounds hold, how far off the worst figures are, and on how many free numbers it rests.

use super::{Section, lifetime, tables};
use crate::{
    grid,
    markup::{Element, element},
    number,
    terminal::plural,
};
use flashlab_lab::results::{Cell, ParameterKind, Results, Role};

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

/// What the whole amounts to, in a few sentences.
fn verdict(results: &Results) -> String {
    let count = |role| results.cells.iter().filter(|cell| cell.role == role).count();
    let cells = results.cells.len();
    if cells == 0 {
        return "Nothing was published that could stand beside what is shown here.".into();
    }
    let published = results.cells.iter().filter(|cell| cell.published.is_some()).count();
    let mut text = if published == cells {
        format!(
            "{} beside the same tests on virtual devices in simulated time.",
            plural(cells, "published figure")
        )
    } else {
        let are = match published {
            0 => "none of them has a published one beside it".to_string(),
            1 => "1 of them has a published one beside it".to_string(),
            n => format!("{n} of them have a published one beside them"),
        };
        format!("{} from virtual devices in simulated time; {are}.", plural(cells, "figure"))
    };
    text += &format!(
        " Parameters were adjusted on {} of them; {}",
        count(Role::Fitted),
        match count(Role::Predicted) {
            1 => "1 is a prediction".to_string(),
            n => format!("{n} are predictions"),
        }
    );
    match count(Role::Assumed) {
        0 => {}
        1 => text += ", and 1 rests on an assumption",
        n => text += &format!(", and {n} rest on an assumption"),
    }
    text.push('.');
    if let Some(median) = median(&errors(results, Role::Predicted)) {
        text += &format!(
            " Half of the predictions are within {} % of the measurement.",
            number::fixed(median, 1)
        );
    }
    text
}

/// The absolute errors of the cells of this role.
fn errors(results: &Results, role: Role) -> Vec<f64> {
    let cells = results.cells.iter().filter(|cell| cell.role == role);
    cells.filter_map(|cell| cell.error_percent).filter(|error| error.is_finite()).map(f64::abs).collect()
}

fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

/// The cell of this role that is farthest off.
fn worst(results: &Results, role: Role) -> Option<(&Cell, f64)> {
    let errors = results
        .cells
        .iter()
        .filter(|cell| cell.role == role)
        .filter_map(|cell| Some((cell, cell.error_percent.filter(|error| error.is_finite())?)));
    errors.max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))
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
            ("held", "every one that the experiment declares".to_string())
        } else {
            ("missed", format!("missed: {}", missed.join("; ")))
        };
        tiles.push(tile("Bounds held", &format!("{held} of {}", results.bounds.len()), class, &comment));
    }
    for (role, name) in [(Role::Predicted, "Worst prediction"), (Role::Fitted, "Worst fit")] {
        if let Some((cell, error)) = worst(results, role) {
            let figure = format!("{} %", number::typeset(number::signed(error, 1)));
            tiles.push(tile(name, &figure, "", &grid::name(cell)));
        }
    }
    if let Some(median) = median(&errors(results, Role::Predicted)) {
        let n = results.cells.iter().filter(|cell| cell.role == Role::Predicted).count();
        let comment = format!("of {}", plural(n, "predicted cell"));
        tiles.push(tile("Median error", &format!("{} %", number::fixed(median, 1)), "", &comment));
    }
    let kind = |kind, word: &str| {
        let n = results.parameters.iter().filter(|p| p.kind == kind).count();
        (n > 0).then(|| format!("{n} {word}"))
    };
    let kinds = [kind(ParameterKind::Fitted, "fitted"), kind(ParameterKind::Chosen, "chosen")];
    let kinds: Vec<String> = kinds.into_iter().flatten().collect();
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
    element("dl").class("facts").children(facts.into_iter().map(|(name, value)| {
        element("div").child(element("dt").text(name)).child(element("dd").child(element("code").text(value)))
    }))
}
