//! Wear on a terminal: a map of the erase blocks and a histogram of their erase counts.
//!
//! In 256 colours, a character shows two cells, one above the other. Without colour, a character is one cell,
//! and its density grows with the erase count. If the space is too small, a cell stands for several
//! neighbouring blocks and shows the most worn of them, or one that is out of use.

use super::lines::{Style, clean, wrap};
use crate::{
    figure::{
        wear_histogram::{self, Bin},
        wear_map::{self, Cells, LEVELS},
    },
    number::{self, plural},
};
use flashlab_lab::results::{Results, WearMap};

/// Maximum number of cells per row.
const COLUMNS_MAX: usize = 96;
/// Maximum number of lines of a map.
const LINES_MAX: usize = 16;
/// Maximum number of bars of a histogram.
const BINS: u64 = 10;
/// Length of the longest bar, and the space for the counts after it, in characters.
const BAR_MAX: usize = 60;
const COUNTS: usize = 38;

/// The scale without colour, and the character of a bad block.
const RAMP: [char; LEVELS] = ['·', '.', ':', '-', '=', '+', 'o', '*', '%', '#', '@'];
const UNUSABLE: char = 'X';

/// The scale in 256 colours, from dark blue to pale yellow, with even steps of lightness on dark and light backgrounds.
const COLOURS: [u8; LEVELS] = [17, 18, 24, 25, 31, 37, 36, 72, 114, 186, 229];
const UNUSABLE_COLOUR: u8 = 196;

/// Returns all maps of `results`.
pub(super) fn text(results: &Results, style: Style) -> String {
    results.wear.iter().map(|map| of_map(map, style)).collect()
}

fn of_map(map: &WearMap, style: Style) -> String {
    let mut facts = format!("{}; {}", plural(map.erase_counts.len(), "erase block"), wear_map::spread(map));
    if let Some(rated) = map.rated_cycles {
        facts += &format!("; rated for {}", number::fixed(f64::from(rated), 0));
    }
    if !map.bad.is_empty() {
        facts += &format!("; {} out of use", map.bad.len());
    }
    let title = style.bold(format!("wear, {}", clean(&map.name)));
    let mut text = format!("{title}\n{}\n", style.dim(wrap(&format!("  {facts}"), style.width)));
    if map.erase_counts.is_empty() {
        return text + "\n";
    }
    let columns = COLUMNS_MAX.min(style.width.saturating_sub(4)).max(8);
    let cells_a_line = if style.colour { 2 * columns } else { columns };
    let cells = wear_map::cells(map, LINES_MAX * cells_a_line);
    text += &if style.colour { coloured(&cells, columns) } else { plain(&cells, columns) };
    let legend = wrap(&legend(&cells, style), style.width - 2).replace('\n', "\n  ");
    text += &format!("  {legend}\n");
    text + &histogram(map, style.width) + "\n"
}

/// Draws one character per cell.
fn plain(cells: &Cells, columns: usize) -> String {
    let sign =
        |count: &Option<u32>| count.map_or(UNUSABLE, |count| RAMP[wear_map::level(count, cells.greatest)]);
    let rows = cells.counts.chunks(columns);
    fold_repeats(&rows.map(|row| row.iter().map(sign).collect()).collect::<Vec<String>>())
}

/// Joins the rows. Replaces repetitions of a row with their count.
fn fold_repeats(rows: &[String]) -> String {
    let mut text = String::new();
    for equal in rows.chunk_by(|a, b| a == b) {
        text += &format!("  {}\n", equal[0]);
        if equal.len() > 1 {
            text += &format!("  ⋮ {} identical to the row above\n", plural(equal.len() - 1, "row"));
        }
    }
    text
}

fn colour(count: Option<u32>, greatest: u32) -> u8 {
    count.map_or(UNUSABLE_COLOUR, |count| COLOURS[wear_map::level(count, greatest)])
}

/// Draws two cells per character: the upper cell in the foreground colour, the lower in the background colour.
fn coloured(cells: &Cells, columns: usize) -> String {
    let mut rows = vec![];
    for pair in cells.counts.chunks(2 * columns) {
        let (upper, lower) = pair.split_at(pair.len().min(columns));
        let mut text = String::new();
        let mut set = None;
        for (i, count) in upper.iter().enumerate() {
            let of = |count: Option<u32>| colour(count, cells.greatest);
            let colours = (of(*count), lower.get(i).map(|count| of(*count)));
            if set != Some(colours) {
                set = Some(colours);
                text += &match colours {
                    (upper, Some(lower)) => format!("\u{1b}[38;5;{upper};48;5;{lower}m"),
                    (upper, None) => format!("\u{1b}[0m\u{1b}[38;5;{upper}m"),
                };
            }
            text.push('▀');
        }
        text.push_str("\u{1b}[0m");
        rows.push(text);
    }
    fold_repeats(&rows)
}

fn legend(cells: &Cells, style: Style) -> String {
    let scale: String = (0..LEVELS)
        .map(|level| {
            if style.colour {
                format!("\u{1b}[38;5;{}m█\u{1b}[0m", COLOURS[level])
            } else {
                RAMP[level].to_string()
            }
        })
        .collect();
    let mut text = format!("0 {scale} {}", plural(cells.greatest as usize, "erase"));
    if cells.counts.iter().any(Option::is_none) {
        let sign = if style.colour {
            format!("\u{1b}[38;5;{UNUSABLE_COLOUR}m█\u{1b}[0m")
        } else {
            UNUSABLE.to_string()
        };
        text += &format!("; {sign} out of use");
    }
    if cells.blocks > 1 {
        text +=
            &format!("; a cell shows the most worn of {} blocks, or one that is out of use", cells.blocks);
    }
    text
}

/// Draws one bar per bin, with a resolution of an eighth of a character.
fn histogram(map: &WearMap, total: usize) -> String {
    let bins = wear_histogram::bins(map, BINS);
    let most = bins.iter().map(|bin| bin.used + bin.bad).max().unwrap_or(0).max(1);
    let width = bins.iter().map(|bin| bin.range().chars().count()).max().unwrap_or(0);
    let rated = map.rated_cycles.map(u64::from);
    let mut text = String::new();
    for bin in &bins {
        let blocks = bin.used + bin.bad;
        let bar = bar(blocks, most, BAR_MAX.min(total.saturating_sub(width + COUNTS)));
        let space = if bar.is_empty() { "" } else { " " };
        let mut line = format!("  {:>width$} {bar}{space}{}", bin.range(), number::fixed(blocks as f64, 0));
        if bin.bad > 0 {
            line += &format!(", {} out of use", bin.bad);
        }
        if rated.is_some_and(|rated| bin.from <= rated && rated <= bin.to) {
            line += " ← rated";
        }
        text += &format!("{line}\n");
    }
    text + &rated_outside(&bins, rated)
}

/// Returns a line on the rated erases if they are outside all bins.
fn rated_outside(bins: &[Bin], rated: Option<u64>) -> String {
    let (Some(rated), Some(first), Some(last)) = (rated, bins.first(), bins.last()) else {
        return String::new();
    };
    let count = number::fixed(rated as f64, 0);
    match rated {
        r if r > last.to => format!("  rated for {count}, above all counts\n"),
        r if r < first.from => format!("  rated for {count}, below all counts\n"),
        _ => String::new(),
    }
}

/// Returns a bar of at most `room` characters.
fn bar(n: usize, most: usize, room: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (n as u128 * (8 * room) as u128 / most as u128) as usize;
    let eighths = if n > 0 { eighths.max(1) } else { 0 };
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}
