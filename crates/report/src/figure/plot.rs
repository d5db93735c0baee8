//! The frame of a chart with two axes: positions of values, grid lines, labels.
//!
//! The horizontal axis is logarithmic if all points are positive and the greatest is at least
//! [`LOGARITHMIC_RATIO_MIN`] times the least, and linear otherwise. If several points crowd at the beginning
//! of a linear axis (ranges of 1, 2, 4 and 8 GiB before 238 GiB), the beginning gets a linear panel of its
//! own, enlarged and shaded. [`HorizontalAxis::remark`] states the magnification.

use super::scale::{self, Scale};
use crate::{
    markup::Element,
    number,
    svg::{self, Anchor, Path, Percent},
};

/// Right edge of every plot, in percent of the width.
const RIGHT: f64 = 98.5;
/// Share of the plot's width that an enlarged panel takes, and the gap after it.
const ENLARGED: f64 = 0.29;
const GAP: f64 = 0.025;
/// Share of the whole range below which points count as crowded. An enlarged panel extends to the next point.
const ENLARGED_TO: f64 = 0.05;
/// Minimum number of crowded points for an enlarged panel.
const CROWDED_MIN: usize = 3;
/// Least ratio of the greatest to the least point at which the axis of positive points is logarithmic.
const LOGARITHMIC_RATIO_MIN: f64 = 1000.0;
/// Minimum distance between the middles of two labels, and the widths of a letter and of the space between
/// labels on a phone, all in percent of the width.
const TICK_DISTANCE_MIN: f64 = 6.5;
const TICK_LETTER: f64 = 1.75;
const TICK_SPACE: f64 = 1.0;

/// Minimum distance between grid lines in pixels.
const PIXELS_A_STEP: f64 = 40.0;

/// A part of the horizontal axis.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Panel {
    pub(crate) from: f64,
    pub(crate) to: f64,
    left: f64,
    right: f64,
    is_logarithmic: bool,
}

impl Panel {
    fn x(&self, value: f64) -> Percent {
        let of = |v: f64| if self.is_logarithmic { v.ln() } else { v };
        let fraction = (of(value) - of(self.from)) / (of(self.to) - of(self.from));
        let fraction = if fraction.is_nan() { 0.0 } else { fraction.clamp(0.0, 1.0) };
        Percent(self.left + fraction * (self.right - self.left))
    }
    fn contains(&self, value: f64) -> bool {
        self.from <= value && value <= self.to
    }
    /// Returns the percentage of the width that one unit of the axis takes.
    fn magnification(&self) -> f64 {
        (self.right - self.left) / (self.to - self.from)
    }
}

/// A horizontal axis: one panel, or two panels of which the first is enlarged.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct HorizontalAxis {
    panels: Vec<Panel>,
}

impl HorizontalAxis {
    /// Returns the axis for points at `xs`, in any order. The axis begins at `left`.
    pub(crate) fn for_points(left: Percent, xs: &[f64]) -> HorizontalAxis {
        let mut xs: Vec<f64> = xs.iter().copied().filter(|x| x.is_finite()).collect();
        xs.sort_by(f64::total_cmp);
        xs.dedup();
        let (least, greatest) = scale::ends(xs.iter().copied()).unwrap_or((0.0, 1.0));
        let left = left.0;
        let whole = |from: f64, to: f64, is_logarithmic| HorizontalAxis {
            panels: vec![Panel { from, to, left, right: RIGHT, is_logarithmic }],
        };
        if least > 0.0 && greatest / least >= LOGARITHMIC_RATIO_MIN {
            return whole(least, greatest, true);
        }
        if least >= 0.0 {
            let crowded = xs.iter().take_while(|x| **x < greatest * ENLARGED_TO).count();
            if crowded >= CROWDED_MIN && crowded + 1 < xs.len() {
                let seam = xs[crowded];
                let middle = left + ENLARGED * (RIGHT - left);
                let panel = |from, to, left, right| Panel { from, to, left, right, is_logarithmic: false };
                let after = middle + GAP * (RIGHT - left);
                return HorizontalAxis {
                    panels: vec![panel(0.0, seam, left, middle), panel(seam, greatest, after, RIGHT)],
                };
            }
        }
        let from = if least >= 0.0 && least < 0.5 * greatest { 0.0 } else { least };
        whole(from, if greatest > from { greatest } else { from + 1.0 }, false)
    }

    /// Returns the linear axis from `from` to `to`.
    pub(crate) fn linear(left: Percent, from: f64, to: f64) -> HorizontalAxis {
        let panel = Panel { from, to, left: left.0, right: RIGHT, is_logarithmic: false };
        HorizontalAxis { panels: vec![panel] }
    }

    /// Returns the position of `value`. A value at the seam of two panels is in the first.
    pub(crate) fn x(&self, value: f64) -> Percent {
        let panel = self.panels.iter().find(|panel| value <= panel.to).or(self.panels.last());
        panel.map_or(Percent(0.0), |panel| panel.x(value))
    }

    /// Returns a remark on an axis that is enlarged or logarithmic: `up to 16 GiB enlarged 5.7 times`.
    pub(crate) fn remark(&self, unit: &str) -> Option<String> {
        match self.panels.as_slice() {
            [first, second] => {
                let times = first.magnification() / second.magnification();
                Some(format!(
                    "up to {} enlarged {} times",
                    number::with_unit(number::written(first.to), unit),
                    number::significant(times, 2)
                ))
            }
            [only] if only.is_logarithmic => Some(format!("{unit} logarithmic")),
            _ => None,
        }
    }

    /// Returns the positions and labels of ticks: first those of `wanted`, then those of other points that have room.
    pub(crate) fn point_ticks(&self, xs: &[f64], wanted: &[f64]) -> Vec<(Percent, String)> {
        let mut ticks: Vec<(Percent, String)> = vec![];
        let mut sorted: Vec<f64> = xs.iter().copied().filter(|x| x.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let ends = [sorted.first(), sorted.last()].into_iter().flatten().copied();
        let seams = self.panels.iter().skip(1).map(|panel| panel.from);
        for value in wanted.iter().copied().chain(seams).chain(ends.collect::<Vec<_>>()).chain(sorted) {
            let (x, label) = (self.x(value), tick_label(value));
            let has_room = |(other, text): &(Percent, String)| {
                let letters = text.chars().count() + label.chars().count();
                let needed = TICK_SPACE + TICK_LETTER * letters as f64 / 2.0;
                (other.0 - x.0).abs() >= needed.max(TICK_DISTANCE_MIN)
            };
            if ticks.iter().all(has_room) {
                ticks.push((x, label));
            }
        }
        ticks
    }

    /// Returns round values of a linear axis, with labels.
    pub(crate) fn round_ticks(&self) -> Vec<(Percent, String)> {
        self.ticks(4.5)
    }

    /// Returns ticks like [`HorizontalAxis::round_ticks`], but only at whole numbers.
    pub(crate) fn whole_ticks(&self) -> Vec<(Percent, String)> {
        let span = self.panels.first().map_or(1.0, |panel| panel.to - panel.from);
        self.ticks(span.clamp(1.0, 4.5))
    }

    fn ticks(&self, count: f64) -> Vec<(Percent, String)> {
        let Some(panel) = self.panels.first() else { return vec![] };
        let scale = Scale::Linear { least: panel.from, greatest: panel.to };
        scale.ticks_at_most(count).into_iter().map(|(value, label)| (panel.x(value), label)).collect()
    }
}

/// Returns the label of a tick at a point. A label of many decimals would cover its neighbour, so it is rounded.
fn tick_label(value: f64) -> String {
    const LENGTH_MAX: usize = 6;
    let written = number::written(value);
    if value.fract() != 0.0 && written.len() > LENGTH_MAX { number::compact(value) } else { written }
}

/// A plot: its axes and its position.
#[derive(Clone, Debug)]
pub(crate) struct Plot {
    pub(crate) x_axis: HorizontalAxis,
    pub(crate) scale: Scale,
    /// Distance from the upper edge of the drawing in pixels.
    pub(crate) top: f64,
    pub(crate) height: f64,
}

impl Plot {
    pub(crate) fn bottom(&self) -> f64 {
        self.top + self.height
    }
    pub(crate) fn y(&self, value: f64) -> f64 {
        self.bottom() - self.scale.fraction(value) * self.height
    }

    /// Shades the enlarged panel, and draws grid lines with their labels.
    pub(crate) fn frame(&self, svg: &mut Element) {
        let (left, right) = (self.left(), self.right());
        if let [first, _] = self.x_axis.panels.as_slice() {
            let width = Percent(first.right - first.left);
            svg.push(svg::rect(Percent(first.left), self.top, width, self.height).class("enlarged"));
        }
        for (value, label) in self.scale.ticks_at_most(self.height / PIXELS_A_STEP) {
            let y = self.y(value);
            if value != 0.0 {
                svg.push(svg::line((left, y), (right, y)).class("grid"));
            }
            svg.push(svg::text(left, -6.0, y + 3.5, Anchor::End, label).class("tick"));
        }
        let y = self.y(0.0);
        svg.push(svg::line((left, y), (right, y)).class("axis"));
    }

    /// Draws labels with ticks below the plot. `y` is the baseline of the text.
    pub(crate) fn label(&self, svg: &mut Element, ticks: &[(Percent, String)], y: f64) {
        for (x, label) in ticks {
            svg.push(svg::line((*x, self.bottom()), (*x, self.bottom() + 4.0)).class("axis"));
            svg.push(svg::text(*x, 0.0, y, Anchor::Middle, label).class("tick"));
        }
    }

    pub(crate) fn left(&self) -> Percent {
        Percent(self.x_axis.panels.first().map_or(0.0, |panel| panel.left))
    }
    pub(crate) fn right(&self) -> Percent {
        Percent(self.x_axis.panels.last().map_or(100.0, |panel| panel.right))
    }

    /// Returns the line through `points`, separately in each panel. The line breaks at values that are not
    /// finite.
    pub(crate) fn line(&self, points: &[(f64, f64)]) -> Path {
        let mut path = Path::default();
        for panel in &self.x_axis.panels {
            let mut is_begun = false;
            for (x, y) in points.iter().filter(|(x, _)| panel.contains(*x)) {
                if !y.is_finite() {
                    is_begun = false;
                } else if is_begun {
                    path.line_to(panel.x(*x), self.y(*y));
                } else {
                    path.move_to(panel.x(*x), self.y(*y));
                    is_begun = true;
                }
            }
        }
        path
    }

    /// Returns the area between two lines over the same places, separately in each panel.
    pub(crate) fn area(&self, points: &[(f64, f64, f64)]) -> Path {
        let mut path = Path::default();
        for panel in &self.x_axis.panels {
            let inside: Vec<_> = points.iter().filter(|(x, ..)| panel.contains(*x)).collect();
            if inside.len() < 2 {
                continue;
            }
            let mut is_begun = false;
            let lower = inside.iter().map(|(x, low, _)| (*x, *low));
            for (x, y) in lower.chain(inside.iter().rev().map(|(x, _, high)| (*x, *high))) {
                if is_begun {
                    path.line_to(panel.x(x), self.y(y));
                } else {
                    path.move_to(panel.x(x), self.y(y));
                    is_begun = true;
                }
            }
            path.close();
        }
        path
    }
}

/// Returns the space that the labels of this scale take left of a plot of this height, in percent of a narrow drawing.
pub(crate) fn gutter(scale: Scale, height: f64) -> Percent {
    let ticks = scale.ticks_at_most(height / PIXELS_A_STEP);
    let longest = ticks.iter().map(|(_, label)| label.chars().count()).max().unwrap_or(1);
    Percent((2.6 + 2.1 * longest as f64).clamp(5.0, 20.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_ticks_with_many_decimals_are_rounded() {
        assert_eq!(
            [0.020578125, 29.800781, 0.0625, 238.0].map(tick_label),
            ["0.0206", "29.8", "0.0625", "238"]
        );
    }

    const RANGES: [f64; 19] = [
        1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 48.0, 64.0, 80.0, 96.0, 112.0, 128.0, 144.0, 160.0, 176.0, 192.0,
        208.0, 224.0, 238.0,
    ];

    #[test]
    fn long_labels_of_ticks_are_further_apart_than_short_ones() {
        let points: Vec<f64> = (0..18).map(|n| 0.0029300 * 1.7f64.powi(n)).collect();
        let x_axis = HorizontalAxis::for_points(Percent(8.0), &points);
        let mut ticks = x_axis.point_ticks(&points, &[]);
        ticks.sort_by(|(a, _), (b, _)| a.0.total_cmp(&b.0));
        assert!(ticks.len() > 4, "{ticks:?}");
        for pair in ticks.windows(2) {
            let letters = pair[0].1.len() + pair[1].1.len();
            let apart = pair[1].0.0 - pair[0].0.0;
            assert!(apart > 0.85 * letters as f64, "{pair:?}");
        }
    }

    #[test]
    fn crowded_beginnings_are_enlarged_and_the_remark_says_so() {
        let x_axis = HorizontalAxis::for_points(Percent(8.0), &RANGES);
        assert_eq!(x_axis.panels.len(), 2);
        assert_eq!((x_axis.panels[0].from, x_axis.panels[0].to), (0.0, 16.0));
        assert_eq!(x_axis.remark("GiB").as_deref(), Some("up to 16\u{a0}GiB enlarged 5.9 times"));
        let apart = RANGES.windows(2).map(|pair| x_axis.x(pair[1]).0 - x_axis.x(pair[0]).0);
        assert!(apart.fold(f64::INFINITY, f64::min) > 1.5, "each range stands apart from the next");
        let labels: Vec<String> =
            x_axis.point_ticks(&RANGES, &[128.0]).into_iter().map(|(_, label)| label).collect();
        assert!(
            labels.contains(&"128".into()) && labels.contains(&"238".into()) && labels.contains(&"1".into())
        );
    }

    #[test]
    fn even_points_have_one_linear_panel_and_wide_ranges_have_a_logarithmic_panel() {
        let even = HorizontalAxis::for_points(Percent(8.0), &[0.0, 1.0, 2.0, 3.0, 4.0]);
        assert_eq!((even.panels.len(), even.remark("h")), (1, None));
        assert_eq!(even.x(2.0).0, (8.0 + RIGHT) / 2.0);
        let wide = HorizontalAxis::for_points(Percent(8.0), &[4.0, 64.0, 65536.0]);
        assert_eq!(wide.remark("KiB").as_deref(), Some("KiB logarithmic"));
    }

    #[test]
    fn any_points_have_an_axis() {
        for xs in [
            &[][..],
            &[5.0],
            &[0.0],
            &[-1.0, 1e308],
            &[f64::NAN, f64::INFINITY],
            &[1e-300, 1e300],
            &[-1e308, 1e308],
        ] {
            let x_axis = HorizontalAxis::for_points(Percent(8.0), xs);
            for x in [0.0, 1.0, -5.0, 1e308, f64::NAN] {
                assert!(x_axis.x(x).0.is_finite(), "{xs:?} {x}");
            }
            x_axis.round_ticks();
        }
    }
}
