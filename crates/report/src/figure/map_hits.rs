//! Shares of map look-ups by where they were answered, over the range of a sweep: one strip per series, stacked to
//! 100 %.
//!
//! From the bottom: the controller's SRAM, the host memory buffer, and the array, whose reads are slow.

use super::{
    Key, LABEL_LINE,
    interactive::{Form, Line, Part},
    lines,
    plot::{HorizontalAxis, Plot},
    scale::Scale,
};
use crate::{
    markup::Element,
    number,
    svg::{self, Anchor},
};
use flashlab_lab::results::{Curve, CurveSeries, MapHits};

/// CSS class and name of each level, from the bottom.
const LEVELS: [(&str, &str); 3] =
    [("l-sram", "SRAM"), ("l-hmb", "HMB"), ("l-miss", "miss: read from the array")];

/// Dashes of the levels in an interactive chart, whose colours distinguish the series.
pub(super) const LEVELS_IN_WORDS: &str = "dotted: SRAM, dashed: HMB, solid: read from the array";

/// Heights in pixels: a strip, and its name above it.
const STRIP: f64 = 40.0;
const NAME: f64 = 18.0;

/// Returns the strips of the series with map hits at two or more points. Series with the same hits share a
/// strip, which has the names of all these series and the first of them.
fn strips(curve: &Curve) -> Vec<(String, &CurveSeries)> {
    let mut strips: Vec<(String, &CurveSeries)> = vec![];
    for series in curve.series.iter().filter(|series| hits(series).count() > 1) {
        match strips.iter_mut().find(|(_, other)| other.map_hits == series.map_hits) {
            Some((names, _)) => *names += &format!("; {}", series.name),
            None => strips.push((series.name.clone(), series)),
        }
    }
    strips
}

fn hits(series: &CurveSeries) -> impl Iterator<Item = &MapHits> {
    series.map_hits.iter().filter(|hits| hits.x.is_finite())
}

/// Returns the share of look-ups at one level.
type Share = fn(&MapHits) -> f64;

/// Returns lines for each strip: the percentages of look-ups that SRAM, host memory buffer and array answer.
/// A line has the colour of its series and the dash of its level. `colour` returns the colour of a series by
/// its number.
pub(super) fn interactive(curve: &Curve, colour: &dyn Fn(usize) -> usize) -> Vec<Line> {
    let mut all = Vec::new();
    for (names, series) in strips(curve) {
        let number = curve.series.iter().position(|other| std::ptr::eq(other, series)).unwrap_or(0);
        let levels: [(&str, Form, Share); 3] = [
            ("SRAM", Form::Dotted, |hits| hits.sram),
            ("HMB", Form::Dashed, |hits| hits.hmb),
            ("miss", Form::Line, |hits| hits.miss),
        ];
        for (level, form, share) in levels {
            let points: Vec<(f64, f64)> = hits(series).map(|hits| (hits.x, 100.0 * share(hits))).collect();
            if points.iter().any(|(_, share)| *share > 0.0) {
                let parts = vec![Part::new(form, "", points)];
                all.push(Line::new(format!("{names}: {level}"), colour(number), parts));
            }
        }
    }
    all
}

/// Returns the name of a strip, wrapped into lines.
fn heading(names: &str) -> Vec<String> {
    lines(&format!("map look-ups, {names}"))
}

/// Returns the height of a strip's name in pixels.
fn heading_height(names: &str) -> f64 {
    NAME + LABEL_LINE * (heading(names).len() - 1) as f64
}

/// Returns the height of the strips of this curve in pixels.
pub(super) fn height(curve: &Curve) -> f64 {
    strips(curve).iter().map(|(names, _)| heading_height(names) + STRIP).sum()
}

/// Draws the strips from `top` downwards, over the horizontal axis of the curve above.
pub(super) fn draw(
    svg: &mut Element,
    canvas: &mut Element,
    curve: &Curve,
    x_axis: &HorizontalAxis,
    top: f64,
) {
    let mut y = top;
    for (names, series) in strips(curve) {
        let plot = Plot {
            x_axis: x_axis.clone(),
            scale: Scale::Linear { least: 0.0, greatest: 1.0 },
            top: y + heading_height(&names),
            height: STRIP,
        };
        for (n, line) in heading(&names).iter().enumerate() {
            let base = y + NAME - 5.0 + LABEL_LINE * n as f64;
            svg.push(svg::text(plot.left(), 0.0, base, Anchor::Start, line).class("group"));
        }
        for share in [0.0, 1.0] {
            let base = plot.y(share) + if share == 0.0 { 0.0 } else { 8.0 };
            svg.push(svg::text(plot.left(), -6.0, base, Anchor::End, number::share(share)).class("tick"));
        }
        let stacked: Vec<(f64, [f64; 4])> = hits(series).map(|hits| (hits.x, stack(hits))).collect();
        for (level, (class, name)) in LEVELS.iter().enumerate() {
            let area: Vec<(f64, f64, f64)> =
                stacked.iter().map(|(x, sums)| (*x, sums[level], sums[level + 1])).collect();
            if area.iter().all(|(_, low, high)| low == high) {
                continue;
            }
            let path = plot.area(&area).element().class(format!("area {class}"));
            canvas.push(svg::named(format!("{names}: {name}, {}", shares(curve, series, level))).child(path));
        }
        y += heading_height(&names) + STRIP;
    }
}

/// Returns the cumulative sums of the shares from the bottom, limited to 1.
fn stack(hits: &MapHits) -> [f64; 4] {
    let mut sums = [0.0; 4];
    for (level, share) in [hits.sram, hits.hmb, hits.miss].into_iter().enumerate() {
        let share = if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0) };
        sums[level + 1] = (sums[level] + share).min(1.0);
    }
    sums
}

/// Returns the shares of one level at both ends: `60 % at 1 GiB, < 1 % at 238 GiB`.
fn shares(curve: &Curve, series: &CurveSeries, level: usize) -> String {
    let ends = [hits(series).next(), hits(series).last()];
    let shares = ends.into_iter().flatten().map(|hits| {
        let sums = stack(hits);
        let share = number::share(sums[level + 1] - sums[level]);
        format!("{share} at {}", number::with_unit(number::written(hits.x), &curve.x_unit))
    });
    shares.collect::<Vec<_>>().join(", ")
}

/// Returns the entries of the legend, if the curve has a strip.
pub(super) fn legend(curve: &Curve) -> Vec<Key> {
    let has_any = !strips(curve).is_empty();
    LEVELS.iter().filter(|_| has_any).map(|(class, name)| Key::swatch(class, None, name)).collect()
}
