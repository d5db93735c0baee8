//! The shapes that mark points, each a path in pixels around (0, 0), so that a series is known by more than its colour.

use flashlab_lab::results::Role;

/// Of a simulated point, by series.
const SIMULATED: [&str; 3] =
    ["M-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0Z", "M-3.2 -3.2h6.4v6.4h-6.4Z", "M0 -4.2L4.2 3.2H-4.2Z"];

/// Around a published point: what was simulated stands in its middle if it agrees.
pub(crate) const PUBLISHED: &str = "M0 -7.5L7.5 0L0 7.5L-7.5 0Z";

/// What was published as "below": a bar at the bound and an arrow down from it.
pub(crate) const BELOW: &str = "M-6 0H6M0 0V9M-3.5 5.5L0 9L3.5 5.5";

/// A line in a legend.
pub(crate) const LINE: &str = "M-8 0H8";

/// A simulated point's shape.
pub(crate) fn simulated(series: usize) -> &'static str {
    SIMULATED[series % SIMULATED.len()]
}

/// Its classes: filled where it was predicted, open where it was fitted, dashed where it rests on an
/// assumption or on numbers without a source.
pub(crate) fn class(role: Role) -> &'static str {
    match role {
        Role::Predicted => "mark",
        Role::Fitted => "mark open",
        Role::Assumed | Role::Unsourced => "mark assumed",
    }
}
