//! A sweep on a terminal: for each chart a plot of its series, descriptions of their shapes, and, if the
//! sweep has at most [`TABLE_MAX`] places, a table of their figures.
//!
//! Each place on the axis of the sweep has a column in the plot, if there are enough columns. The places are
//! evenly spaced, whatever their values, and the line below the plot has as many of their labels as fit. Up
//! to eight series have different symbols, so that the plot is readable without colour.

use super::lines::{Lined, Style, clean, layout, wrap};
use crate::{
    figure::scale,
    html::curves::{figures_at, places},
    number, shape,
};
use flashlab_lab::results::{Curve, Results};

/// Height of the plot in lines.
const HEIGHT: usize = 14;
/// Characters left of the plot: the axis labels and the axis.
const MARGIN: usize = 10;
/// Maximum number of characters per place with short labels. Longer labels have room with a space between them.
const PITCH_MAX: usize = 5;
/// Number of places up to which a sweep has a table.
const TABLE_MAX: usize = 40;

/// Symbols and colours of the series, used in turn.
const SYMBOLS: [(char, &str); 8] =
    [('●', "34"), ('■', "33"), ('▲', "36"), ('○', "35"), ('□', "32"), ('△', "31"), ('+', "94"), ('×', "93")];

/// Returns all curves of `results`.
pub(super) fn text(results: &Results, style: Style) -> String {
    results.curves.iter().map(|curve| of_curve(curve, style)).collect()
}

fn of_curve(curve: &Curve, style: Style) -> String {
    let places = places(curve);
    let title = if curve.title.is_empty() || curve.title == curve.chart {
        clean(&curve.chart)
    } else {
        format!("{}: {}", clean(&curve.chart), clean(&curve.title))
    };
    let units = format!(", {} over {}", clean(&curve.y_unit), clean(&curve.x_unit));
    let mut text = wrap(&(style.bold(title) + &style.dim(units)), style.width) + "\n";
    text += &plot(curve, &places, style);
    for (i, series) in curve.series.iter().enumerate() {
        let (symbol, colour) = SYMBOLS[i % SYMBOLS.len()];
        let sentence = shape::sentence(curve, series).unwrap_or_default();
        let variant = if series.variant { " (variant)" } else { "" };
        let line = format!("{}{variant}: {}", clean(&series.name), clean(&sentence));
        let line = wrap(&line, style.width - 4).replace('\n', "\n    ");
        text += &format!("  {} {line}\n", style.paint(colour, symbol.to_string()));
    }
    text += &format!(
        "  {}\n",
        style.dim(wrap(&clean(&shape::roles(curve)), style.width - 2).replace('\n', "\n  "))
    );
    for note in &curve.notes {
        let of = if note.starts_with("Not explained") { "" } else { "Published: " };
        let note = wrap(&format!("{of}{}", clean(note)), style.width - 2).replace('\n', "\n  ");
        text += &format!("  {note}\n");
    }
    text.push('\n');
    if places.len() <= TABLE_MAX {
        text += &table(curve, &places, style);
    }
    text
}

/// Returns the plot. If two symbols coincide, the later series covers the earlier.
fn plot(curve: &Curve, places: &[f64], style: Style) -> String {
    let room = style.width - MARGIN - 1;
    // If there are more places than columns, several places share a column, and the later place covers the
    // earlier one.
    let longest = places.iter().map(|place| number::written(*place).chars().count()).max().unwrap_or(0);
    let pitch = (room / places.len().max(1)).clamp(1, PITCH_MAX.max(longest + 1));
    let column = |place: usize| {
        if places.len() <= room { place * pitch + pitch / 2 } else { place * room / places.len() }
    };
    let values = curve.series.iter().flat_map(shape::points).map(|point| point.y);
    let Some((least, greatest)) = scale::ends(values.chain([0.0])) else { return String::new() };
    if places.is_empty() || greatest <= least {
        return String::new();
    }
    let step = scale::step((greatest - least) / 4.0);
    let (bottom, top) = ((least / step).floor() * step, (greatest / step).ceil() * step);
    let line = |y: f64| {
        let fraction = (y - bottom) / (top - bottom);
        let from_below = (fraction * (HEIGHT - 1) as f64).round();
        HEIGHT - 1 - if from_below.is_finite() { (from_below.max(0.0) as usize).min(HEIGHT - 1) } else { 0 }
    };
    let width = places.len().min(room) * if places.len() <= room { pitch } else { 1 };
    let mut has_overlap = false;
    let mut symbols = vec![vec![None; width.max(1)]; HEIGHT];
    for (i, series) in curve.series.iter().enumerate() {
        for point in shape::points(series) {
            let Some(place) = places.iter().position(|x| *x == point.x) else { continue };
            let symbol = &mut symbols[line(point.y)][column(place)];
            has_overlap |= symbol.is_some_and(|other| other != i);
            *symbol = Some(i);
        }
    }
    let mut labels = vec![String::new(); HEIGHT];
    let count = ((top - bottom) / step).round();
    let count = if count.is_finite() { count.clamp(0.0, 12.0) as u32 } else { 0 };
    for i in 0..=count {
        let value = bottom + f64::from(i) * step;
        labels[line(value)] = number::tick(value, number::decimals_for(step, 1));
    }
    let mut text = String::new();
    for (symbols, label) in symbols.iter().zip(&labels) {
        let axis = if label.is_empty() { '│' } else { '┤' };
        let mut row = format!("{label:>width$} {axis}", width = MARGIN - 2);
        let last = symbols.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        for symbol in &symbols[..last] {
            match symbol {
                Some(i) => {
                    let (symbol, colour) = SYMBOLS[i % SYMBOLS.len()];
                    row += &style.paint(colour, symbol.to_string());
                }
                None => row.push(' '),
            }
        }
        text += &format!("{}\n", row.trim_end());
    }
    text += &format!("{}{}\n", " ".repeat(MARGIN - 1), "─".repeat(width));
    text += &labels_below(places, column, width, style.width);
    if has_overlap {
        text += &format!("  {}\n", style.dim("where symbols overlap, the last in this list is shown:"));
    }
    text
}

/// Returns the line of labels below the columns: the last label, and as many of the others as fit.
fn labels_below(places: &[f64], column: impl Fn(usize) -> usize, width: usize, total: usize) -> String {
    let mut row: Vec<char> = vec![' '; MARGIN + width + 8];
    let label = |i: usize| -> (usize, Vec<char>) {
        let label: Vec<char> = number::written(places[i]).chars().collect();
        ((MARGIN + column(i)).saturating_sub(label.len() / 2), label)
    };
    let last = places.len().saturating_sub(1);
    let room = row.len().min(total);
    let mut free = 0;
    for i in 0..places.len() {
        let (from, label_of_i) = label(i);
        let end = if i == last { room } else { label(last).0.saturating_sub(1) };
        if from >= free && from + label_of_i.len() <= end {
            row[from..from + label_of_i.len()].copy_from_slice(&label_of_i);
            free = from + label_of_i.len() + 1;
        }
    }
    let row: String = row.into_iter().collect();
    format!("{}\n\n", row.trim_end())
}

/// Returns a table with one line per place and one column per series, and with the published figures in brackets.
fn table(curve: &Curve, places: &[f64], style: Style) -> String {
    let mut head = vec![format!("  {}", style.dim(clean(&curve.x_unit)))];
    head.extend(curve.series.iter().map(|series| {
        let name = clean(&series.name);
        let words: Vec<String> = wrap(&name, 16).lines().map(|line| style.dim(line)).collect();
        words.join("\n")
    }));
    let mut lines: Lined = vec![head];
    lines.extend(places.iter().map(|x| {
        let mut line = vec![number::written(*x)];
        line.extend(curve.series.iter().map(|series| figures_at(series, *x)));
        line
    }));
    lines.push(vec![String::new(); curve.series.len() + 1]);
    let right: Vec<usize> = (0..=curve.series.len()).collect();
    let has_published = curve.series.iter().any(|series| !series.published.is_empty());
    let legend = if has_published { style.dim("  in brackets: published\n") } else { String::new() };
    layout(lines, &vec![true; curve.series.len() + 1], &right, style.width).trim_end().to_string()
        + "\n"
        + &legend
        + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_place_has_its_label() {
        let places = [64.0, 256.0, 1024.0, 4096.0];
        for pitch in [5, 6] {
            let labels = labels_below(&places, |place| place * pitch + pitch / 2, places.len() * pitch, 80);
            assert!(labels.ends_with("4,096\n\n"), "{labels:?}");
        }
    }
}
