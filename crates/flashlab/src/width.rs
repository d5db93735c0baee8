//! How wide tables may be.

use flashlab_report::terminal::WIDTH;
use std::env;

/// No table is narrower or wider.
const WIDTHS: std::ops::RangeInclusive<usize> = 60..=120;

/// Returns the characters of a line: those that COLUMNS says, else those of the terminal, else [`WIDTH`], so that a file or a
/// pipe gets the same table everywhere.
pub(crate) fn columns() -> usize {
    let said =
        env::var("COLUMNS").ok().and_then(|text| text.trim().parse().ok()).filter(|columns| *columns > 0);
    let terminal = || console::Term::stdout().size_checked().map(|(_, columns)| usize::from(columns));
    said.or_else(terminal).unwrap_or(WIDTH).clamp(*WIDTHS.start(), *WIDTHS.end())
}
