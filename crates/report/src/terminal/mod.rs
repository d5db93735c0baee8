//! Results on a terminal: published and simulated figures, then bounds and free parameters, within a given width.
//!
//! Each table is a block with one line per cell, so that the compared figures are adjacent. The decimals of a
//! block are those of the published figures, if there are any. Colour marks bounds, large errors and the
//! series of a plot; names are bold, and secondary text is dim. A sweep is a plot and a table. Wear is a map
//! and a histogram, in 256 colours or, without colour, in characters of increasing density. A series over
//! time is one line.

mod curves;
mod lifetime;
mod lines;
mod series;
mod statistics;
pub(crate) mod trace;
mod wear;

use crate::number::{self, plural};
use crate::{answers, compare, grid, purchases};
use flashlab_lab::results::{
    BUFFERED, Bound, COMPARISON, Cell, PUBLISHED, Parameter, ParameterKind, Published, ReferenceKind,
    Results, Role, UNDETERMINED, UNWRITTEN,
};
pub use lines::columns;
use lines::{Lined, Style, broken, clean, layout, visible_width, wrap};

pub use trace::trace;

/// Line width in characters if the output is not a terminal.
pub const WIDTH: usize = 100;

/// Least width in characters. A smaller width has no room for the axis of a plot.
pub const WIDTH_MIN: usize = 20;

/// Minimum width of a full table. Narrower tables omit deviations, sources and mechanisms, and put the name
/// of a row, or of a group of series, on a separate line.
const WIDE: usize = 80;

/// Table with the prices of the choices of drives.
const PRICE: &str = "price";

/// Least error in percent that is coloured.
const LARGE_ERROR_PERCENT: f64 = 10.0;

/// Returns `results` for a terminal, ending in a line feed, in lines of at most `width` characters, or of
/// [`WIDTH_MIN`] if `width` is smaller. With `colour`, ANSI escape sequences mark parts of the text.
pub fn table(results: &Results, width: usize, colour: bool) -> String {
    let width = width.max(WIDTH_MIN);
    let style = Style { width, colour };
    let mut text = heading(results, style);
    text += &bought(results, style);
    text += &curves::text(results, style);
    text += &match results.answers.is_empty() {
        true => comparison(results, style),
        // Thousands of lines would hide the answers.
        false => answered(results, style),
    };
    if lifetime::has_many_devices(results) {
        text += &bounds(results, style);
        text += &format!("{}\n", style.bold(wrap(&count(results), style.width)));
        let rest =
            "The page and JSON have the wear maps, the survival curves, the counters and the parameters.";
        text += &style.dim(wrap(rest, style.width));
        text.push('\n');
    } else {
        text += &wear::text(results, style);
        text += &series::text(results, style);
        text += &statistics::text(results, style);
        text += &bounds(results, style);
        text += &parameters(results, style);
    }
    text += &needed_notes(results, width);
    let text = number::plain(&text);
    text.lines().flat_map(|line| lines::cut(line, width)).map(|line| lines::trim_end(&line) + "\n").collect()
}

fn heading(results: &Results, style: Style) -> String {
    let title = style.bold(clean(&results.experiment));
    let what = wrap(&format!("{}: {}", clean(&results.experiment), clean(&results.title)), style.width);
    let what = what.replacen(&clean(&results.experiment), &title, 1);
    let origin = format!(
        "seed {}, inputs {}, digest {}, flashlab {}",
        results.seed,
        clean(&results.inputs),
        clean(&results.digest),
        clean(&results.version)
    );
    format!("{what}\n{}\n\n", style.dim(wrap(&origin, style.width)))
}

/// Returns the answers with their figures, one table per question.
fn answered(results: &Results, style: Style) -> String {
    let mut text = String::new();
    for answer in &results.answers {
        text += &format!("{}\n", style.bold(wrap(&clean(&answer.sentence()), style.width)));
        let rows: Vec<[String; 9]> = answer
            .choices
            .iter()
            .map(|choice| answers::cells(answer, choice).map(|cell| clean(&cell)))
            .collect();
        let mut lines: Vec<Vec<&str>> = vec![answers::HEADS.to_vec()];
        lines.extend(rows.iter().map(|row| row.iter().map(String::as_str).collect::<Vec<_>>()));
        let right: Vec<bool> = answers::HEADS.iter().map(|head| !head.is_empty()).collect();
        text += &format!("{}\n", columns(&lines, &right, style.width));
    }
    let figures = plural(results.cells.len(), "figure");
    let all = format!("{} The page, JSON and CSV have all {figures}, by device.", answers::LEGEND);
    text + &style.dim(wrap(&all, style.width)) + "\n\n"
}

/// Returns the choices of drives with their figures, one table per hot set.
fn bought(results: &Results, style: Style) -> String {
    let mut text = String::new();
    for purchase in &results.purchases {
        text += &format!("{}\n", style.bold(wrap(&clean(&purchase.sentence()), style.width)));
        let mut rows: Vec<Vec<String>> = vec![purchases::heads(purchase)];
        rows.extend(purchase.options.iter().map(|option| purchases::cells(purchase, option)));
        let rows: Vec<Vec<String>> =
            rows.iter().map(|row| row.iter().map(|cell| clean(cell)).collect()).collect();
        let lines: Vec<Vec<&str>> = rows.iter().map(|row| row.iter().map(String::as_str).collect()).collect();
        let right: Vec<bool> = (0..lines[0].len()).map(|n| n > 0).collect();
        text += &format!("{}\n", columns(&lines, &right, style.width));
    }
    match results.purchases.is_empty() {
        true => text,
        false => text + &style.dim(wrap(purchases::LEGEND, style.width)) + "\n\n",
    }
}

/// Columns of numbers in a block. The columns of a block are: row name, cell name, published, ±, simulated,
/// ±, error, role, source of a reference, mechanism that took most of the time.
const NUMBERS: std::ops::Range<usize> = 2..7;

/// Returns all tables. The tables share their column widths, so that the columns of all blocks are aligned.
/// Of the cells of a curve, only those with a published figure are listed.
fn comparison(results: &Results, style: Style) -> String {
    let mut tables = grid::tables(results);
    for table in &mut tables {
        table.cells.retain(|cell| grid::stands_alone(results, cell));
        if !results.purchases.is_empty() && table.name == PRICE {
            // The size of the hot set does not change the price of a layout.
            let first = table.rows[0];
            table.cells.retain(|cell| cell.row == first);
            table.rows.truncate(1);
        }
    }
    tables.retain(|table| !table.cells.is_empty());
    let lives = lifetime::take(&mut tables, style);
    if style.width < WIDE && !tables.is_empty() {
        return lives + &narrow(results, &tables, style) + &words(&tables, style.width);
    }
    let has_rows = tables.iter().any(grid::Table::has_rows);
    let has_sd = tables.iter().flat_map(|table| &table.cells).any(|cell| {
        cell.simulated.sd != 0.0 || matches!(cell.published, Some(Published::Figure { sd: Some(_), .. }))
    });
    let mut lines: Lined = vec![];
    for table in &tables {
        lines.push(vec![
            block_title(table, style),
            String::new(),
            style.dim(grid::compared_name(table.cells.iter().copied())),
            style.dim("±"),
            style.dim("simulated"),
            style.dim("±"),
            style.dim("error %"),
            style.dim("role"),
            style.dim("source"),
            style.dim("mechanism"),
        ]);
        let mut previous = None;
        for cell in &table.cells {
            let row = if previous == Some(&cell.row) { String::new() } else { clean(&cell.row) };
            previous = Some(&cell.row);
            let mut line = vec![format!("  {row}"), clean(&cell.column)];
            if !has_rows {
                line = vec![format!("  {}", clean(&cell.column)), String::new()];
            }
            line.extend(figures(results, cell, table.decimals, style));
            line.push(cell.reference.as_ref().map_or(String::new(), |found| style.dim(clean(&found.name))));
            line.push(style.dim(compare::most_of(&cell.mechanisms).unwrap_or_default()));
            lines.push(line);
        }
        lines.push(vec![String::new(); 10]);
    }
    if lines.is_empty() {
        return lives;
    }
    let is_compared = tables.iter().flat_map(|table| &table.cells).any(|cell| grid::is_compared(cell));
    let has_source = tables.iter().flat_map(|table| &table.cells).any(|cell| cell.reference.is_some());
    let mut shown = [
        true,
        has_rows,
        is_compared,
        is_compared && has_sd,
        true,
        has_sd,
        is_compared,
        has_roles(&tables),
        has_source,
        true,
    ];
    let right: Vec<usize> = NUMBERS.collect();
    let with_mechanism = layout(lines.clone(), &shown, &right, usize::MAX);
    let fits = with_mechanism.lines().all(|line| visible_width(line) <= style.width);
    let has_mechanism =
        tables.iter().flat_map(|table| &table.cells).any(|cell| !cell.mechanisms.0.is_empty());
    let text = if fits && has_mechanism {
        with_mechanism
    } else {
        shown[9] = false;
        layout(lines, &shown, &right, style.width)
    };
    lives + &text + &words(&tables, style.width)
}

/// Returns true if a cell has a role that its line names. Without any measurement, the line after the tables says so
/// once.
fn has_roles(tables: &[grid::Table<'_>]) -> bool {
    let mut cells = tables.iter().flat_map(|table| &table.cells);
    cells.any(|cell| grid::is_compared(cell) || cell.role != Role::Predicted)
}

/// Returns all tables without deviations. The name of a table or a row is on a line above its figures.
fn narrow(results: &Results, tables: &[grid::Table<'_>], style: Style) -> String {
    let compared = grid::compared_name(tables.iter().flat_map(|table| table.cells.iter().copied()));
    let is_compared = tables.iter().flat_map(|table| &table.cells).any(|cell| grid::is_compared(cell));
    let shown = [is_compared, true, is_compared, has_roles(tables)];
    let only_shown = |all: [String; 4]| -> Vec<String> {
        all.into_iter().zip(shown).filter_map(|(text, is_shown)| is_shown.then_some(text)).collect()
    };
    let heads = only_shown([compared, "simulated", "error %", "role"].map(|head| style.dim(head)));
    let of = |cell: &Cell, decimals| {
        let [published, _, simulated, _, error, role] = figures(results, cell, decimals, style);
        only_shown([published, simulated, error, role])
    };
    let all = || tables.iter().flat_map(|table| table.cells.iter().map(|cell| of(cell, table.decimals)));
    let widest = |i: usize| all().map(|figures| visible_width(&figures[i])).max().unwrap_or(0);
    let widths: Vec<usize> = (0..heads.len()).map(|i| widest(i).max(visible_width(&heads[i]))).collect();
    let room = style.width.saturating_sub(widths.iter().map(|width| width + 2).sum());
    let line = |name: String, figures: &[String]| {
        // A name that is too long for its column is on a line above the figures.
        let (above, name) = if visible_width(&name) > room {
            (wrap(name.trim_start(), style.width - 6).replace('\n', "\n      "), String::new())
        } else {
            (String::new(), name)
        };
        let above = if above.is_empty() { above } else { format!("    {above}\n") };
        let mut text = name.clone() + &" ".repeat(room.saturating_sub(visible_width(&name)));
        for (i, figure) in figures.iter().enumerate() {
            let space = " ".repeat(widths[i] - visible_width(figure));
            // Names of roles are aligned left.
            text += &if shown[3] && i + 1 == widths.len() {
                format!("  {figure}")
            } else {
                format!("  {space}{figure}")
            };
        }
        format!("{above}{text}\n")
    };
    let mut text = String::new();
    for table in tables {
        text += &format!("{}\n", wrap(&block_title(table, style), style.width));
        text += &line(String::new(), &heads);
        let mut row = "";
        for cell in &table.cells {
            if cell.row != row {
                row = &cell.row;
                text += &format!("  {}\n", wrap(&clean(row), style.width - 4).replace('\n', "\n    "));
            }
            let indent = if row.is_empty() { "  " } else { "    " };
            text += &line(format!("{indent}{}", clean(&cell.column)), &of(cell, table.decimals));
        }
        text.push('\n');
    }
    text
}

/// Returns the figures that were published in words, cell by cell.
fn words(tables: &[grid::Table<'_>], width: usize) -> String {
    let mut text = String::new();
    for cell in tables.iter().flat_map(|table| &table.cells).filter(|cell| is_wordy(cell)) {
        if let Some(Published::Text { text: words }) = &cell.published {
            let line = format!("{}, published: {}", clean(&grid::name(cell)), clean(words));
            text += &format!("{}\n", wrap(&line, width - 2).replace('\n', "\n  "));
        }
    }
    if !text.is_empty() {
        text.push('\n');
    }
    text
}

/// Returns the title `raw write 1M, MiB/s`. Omits a unit that equals the name.
fn block_title(table: &grid::Table<'_>, style: Style) -> String {
    let name = style.bold(clean(table.name));
    if table.name == table.unit { name } else { name + &style.dim(format!(", {}", clean(table.unit))) }
}

/// Maximum length of a published text in a table, in characters. Longer texts are below the tables.
const WORDS_MAX: usize = 12;

/// Returns true if a cell was published in words that do not fit in its line.
fn is_wordy(cell: &Cell) -> bool {
    matches!(&cell.published, Some(Published::Text { text }) if text.chars().count() > WORDS_MAX)
}

/// Text in place of the role of a figure that has nothing to compare it with.
const UNMEASURED: &str = "no measurement";

fn figures(results: &Results, cell: &Cell, decimals: usize, style: Style) -> [String; 6] {
    let (published, published_sd) = match grid::compared(cell) {
        Some(Published::Figure { mean, sd }) => {
            (number::fixed(mean, decimals), sd.map(|sd| number::fixed(sd, decimals)).unwrap_or_default())
        }
        Some(Published::Below { below }) => (number::below(number::fixed(below, decimals)), String::new()),
        Some(Published::Text { .. }) if is_wordy(cell) => ("in words".into(), String::new()),
        Some(Published::Text { text }) => (clean(&text), String::new()),
        None => (number::NONE.into(), String::new()),
    };
    let error = cell.compared_percent().map_or(number::NONE.into(), |error| number::signed(error, 2));
    let is_missed = grid::is_missed(results, cell);
    let is_large = cell.compared_percent().is_some_and(|error| error.abs() >= LARGE_ERROR_PERCENT);
    let error = match (is_missed, is_large) {
        (true, _) => style.bad(error),
        (false, true) => style.warn(error),
        (false, false) => error,
    };
    let is_compared = grid::is_compared(cell);
    let role = match cell.role {
        Role::Predicted if !is_compared => style.dim(UNMEASURED),
        Role::Predicted => cell.role.name().to_string(),
        Role::Fitted | Role::Assumed | Role::Unsourced => style.dim(cell.role.name()),
    };
    [
        published,
        published_sd,
        number::fixed(cell.simulated.mean, decimals),
        number::fixed(cell.simulated.sd, decimals),
        error,
        role,
    ]
}

fn bounds(results: &Results, style: Style) -> String {
    if results.bounds.is_empty() {
        return String::new();
    }
    let mut lines: Lined = vec![vec![
        style.bold("bounds"),
        String::new(),
        style.dim("limit"),
        style.dim("worst"),
        style.dim("at"),
    ]];
    for bound in &results.bounds {
        let worst = grid::worst(bound);
        lines.push(vec![
            if bound.held { style.good("  held") } else { style.bad("  MISSED") },
            clean(&bound.name),
            clean(&bound.limit),
            if bound.held { worst } else { style.bad(worst) },
            clean(&bound.worst_cell),
        ]);
    }
    lines.push(vec![String::new(); 5]);
    layout(lines, &[true; 5], &[2, 3], style.width)
}

/// Returns a line on a bound that was missed.
pub fn missed(bound: &Bound) -> String {
    let worst = grid::worst(bound);
    let text = format!("missed: {} (limit {}; worst {worst}, {})", bound.name, bound.limit, bound.worst_cell);
    number::plain(&clean(&text))
}

fn parameters(results: &Results, style: Style) -> String {
    let mut text = format!("{}\n", style.bold(wrap(&count(results), style.width)));
    text += &references(results).map_or(String::new(), |text| wrap(&text, style.width) + "\n");
    if results.parameters.is_empty() {
        return text;
    }
    let (unsourced, sourced): (Vec<&Parameter>, Vec<&Parameter>) =
        results.parameters.iter().partition(|parameter| parameter.kind == ParameterKind::Unsourced);
    let lines = sourced.iter().map(|parameter| {
        let origin = match (parameter.kind, parameter.fitted_on.is_empty()) {
            (kind, true) => kind.name().to_string(),
            (ParameterKind::Fitted, false) => format!("fitted on {}", clean(&parameter.fitted_on.join(", "))),
            (kind, false) => format!("{} for {}", kind.name(), clean(&parameter.fitted_on.join(", "))),
        };
        vec![broken(&clean(&parameter.path), style.width), clean(&parameter.value), style.dim(origin)]
    });
    text += &layout(lines.collect(), &[true; 3], &[1], style.width);
    let profile = |parameter: &Parameter| {
        parameter.path.rsplit_once(':').map_or(parameter.path.clone(), |(profile, _)| profile.to_owned())
    };
    for numbers in unsourced.chunk_by(|a, b| profile(a) == profile(b)) {
        let profile = profile(numbers[0]);
        let has_sourced = sourced.iter().any(|parameter| parameter.path.starts_with(&format!("{profile}:")));
        let line = match (numbers.len(), has_sourced) {
            (1, _) => format!("  {}: 1 number has no source", clean(&profile)),
            (n, true) => format!("  {}: {n} numbers have no source", clean(&profile)),
            (n, false) => format!("  {}: all {n} numbers have no source", clean(&profile)),
        };
        text += &(lines::hanging_indent(&line, style.width) + "\n");
    }
    text
}

/// Returns the notes without which the numbers would mislead: unexplained results, comparisons with the publication,
/// the source's own words, cells that depend on undetermined numbers, reads of unwritten data, and buffered jobs.
fn needed_notes(results: &Results, width: usize) -> String {
    let words = ["Not explained", COMPARISON, PUBLISHED, UNDETERMINED, UNWRITTEN, BUFFERED];
    let needed = |note: &&String| words.iter().any(|words| note.starts_with(words));
    let notes = results.notes.iter().filter(needed);
    notes.map(|note| format!("\n{}\n", wrap(&clean(note), width))).collect()
}

/// Returns `29 free parameters (26 fitted, 3 chosen) for 48 cells (19 fitted, 29 predicted)`. Roles are counted over
/// the cells that have a measurement.
pub(crate) fn count(results: &Results) -> String {
    let of_kind =
        |kind: ParameterKind| (results.parameters.iter().filter(|p| p.kind == kind).count(), kind.name());
    let summary = results.summary();
    let roles = listed(&[
        (summary.fitted, Role::Fitted.name()),
        (summary.predicted, Role::Predicted.name()),
        (summary.assumed, Role::Assumed.name()),
        (summary.unsourced, Role::Unsourced.name()),
    ]);
    let cells = plural(summary.cells, "cell");
    let measured = match (summary.measured, summary.unmeasured) {
        (_, 0) => format!("{cells}{roles}"),
        (0, _) => format!("{cells}, none of which has a measurement"),
        (1, 1) => format!("{cells}: 1 has a measurement{roles}, 1 has none"),
        (1, none) => format!("{cells}: 1 has a measurement{roles}, {none} have none"),
        (n, 1) => format!("{cells}: {n} have a measurement{roles}, 1 has none"),
        (n, none) => format!("{cells}: {n} have a measurement{roles}, {none} have none"),
    };
    format!(
        "{}{} for {measured}",
        plural(results.parameters.len(), "free parameter"),
        listed(&ParameterKind::ALL.map(of_kind))
    )
}

/// Returns a phrase on the cells that are compared with a closed form or a published simulation, if there are any.
pub(crate) fn references(results: &Results) -> Option<String> {
    let of_kind = |kind| move |cell: &&Cell| cell.reference.as_ref().is_some_and(|found| found.kind == kind);
    let all = || results.cells.iter();
    let forms = all().filter(of_kind(ReferenceKind::ClosedForm)).count();
    let simulations = all().filter(of_kind(ReferenceKind::Simulation)).count();
    let with = match (forms, simulations) {
        (0, 0) => return None,
        (n, 0) => format!("{n} with a closed form"),
        (0, n) => format!("{n} with a published simulation"),
        (n, m) => format!("{n} with a closed form and {m} with a published simulation"),
    };
    Some(format!("cells compared with a figure that was not measured on hardware: {with}"))
}

/// Wraps a line at `width` characters. Each resulting line ends in a line feed; longer words are not broken.
pub fn wrapped(text: &str, width: usize) -> String {
    wrap(text, width) + "\n"
}

/// Wraps the lines of a text that are wider than `width` characters. Further parts of a line are indented by two more
/// characters, and longer words are broken.
pub fn fitted(text: &str, width: usize) -> String {
    let parts = |line: &str| lines::hanging_indent(line, width);
    let cut = |part: &str| lines::cut(part, width);
    let lines = text.lines().flat_map(|line| parts(line).split('\n').flat_map(cut).collect::<Vec<_>>());
    lines.map(|line| line.trim_end().to_owned() + "\n").collect()
}

/// Returns ` (19 fitted, 29 predicted)`, without the parts whose count is zero.
fn listed(parts: &[(usize, &str)]) -> String {
    let parts: Vec<String> =
        parts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
    if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) }
}
