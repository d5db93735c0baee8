//! The shapes of points, each a path in pixels around (0, 0). The shapes distinguish series without colour.

use flashlab_lab::results::Role;

/// Shapes of simulated points, by series.
const SIMULATED: [&str; 3] =
    ["M-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0Z", "M-3.2 -3.2h6.4v6.4h-6.4Z", "M0 -4.2L4.2 3.2H-4.2Z"];

/// Shape of a published point. The simulated point lies in its centre if the figures agree.
pub(crate) const PUBLISHED: &str = "M0 -7.5L7.5 0L0 7.5L-7.5 0Z";

/// Shape of a figure published as "below": a bar at the bound with an arrow down.
pub(crate) const BELOW: &str = "M-6 0H6M0 0V9M-3.5 5.5L0 9L3.5 5.5";

/// Shape of a line in a legend.
pub(crate) const LINE: &str = "M-8 0H8";

/// Returns the shape of a simulated point.
pub(crate) fn simulated(series: usize) -> &'static str {
    SIMULATED[series % SIMULATED.len()]
}

/// Returns the classes of a point: filled if predicted, open if fitted, dashed if it rests on an assumption or on
/// numbers without a source.
pub(crate) fn class(role: Role) -> &'static str {
    match role {
        Role::Predicted => "mark",
        Role::Fitted => "mark open",
        Role::Assumed | Role::Unsourced => "mark assumed",
    }
}
