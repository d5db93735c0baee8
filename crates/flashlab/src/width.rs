//! Width of tables on standard output.

use flashlab_report::terminal::WIDTH;
use std::env;

/// Limits of the width of a table, in characters.
const WIDTHS: std::ops::RangeInclusive<usize> = 60..=120;

/// Returns the number of characters per line, within [`WIDTHS`]: COLUMNS if it is a positive number, else the
/// terminal's width, else [`WIDTH`], so that a file or a pipe gets the same table on every machine.
pub(crate) fn columns() -> usize {
    let requested =
        env::var("COLUMNS").ok().and_then(|text| text.trim().parse().ok()).filter(|columns| *columns > 0);
    let terminal = || console::Term::stdout().size_checked().map(|(_, columns)| usize::from(columns));
    requested.or_else(terminal).unwrap_or(WIDTH).clamp(*WIDTHS.start(), *WIDTHS.end())
}
