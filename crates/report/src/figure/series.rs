//! Figures over time or over iterations, such as write amplification, free blocks or bandwidth: one small chart for
//! each name, step and unit, with one line per device.
//!
//! Thousands of points are drawn without hiding any peak. A steady series is a line. Beyond `LINE_MAX` points the line
//! is the mean of each of `BUCKETS` parts of the axis, inside a band from the least to the greatest value of the part.
//! A series that jumps from point to point is drawn as dots or, beyond `DOTS_MAX` points, also as such a band. The
//! caption names the form.

use super::{
    Figure, Key, LINES,
    interactive::{self, Axis, Chart, Part},
    plot::{self, HorizontalAxis, Plot},
    scale::{self, Scale},
    symbol,
};
use crate::{
    markup::Element,
    number,
    svg::{self, Anchor, Path},
};
use flashlab_lab::results::{Results, Series};

/// Maximum number of points of a line.
const LINE_MAX: usize = 1000;
/// Maximum number of dots.
const DOTS_MAX: usize = 4000;
/// Number of parts of the axis of a band.
const BUCKETS: usize = 400;
/// Minimum ratio of the sum of all steps to the span of values in a series that jumps.
const JUMPS_MIN: f64 = 12.0;

const TOP: f64 = 8.0;
const PLOT: f64 = 120.0;
const AXIS: f64 = 36.0;

/// Returns one figure for each name, step and unit of the series of `results`.
pub fn figures(results: &Results) -> Vec<Figure> {
    groups(results).iter().map(|group| figure(group)).collect()
}

/// Returns the series grouped by chart, in order of first appearance.
pub(crate) fn groups(results: &Results) -> Vec<Vec<&Series>> {
    let mut groups: Vec<Vec<&Series>> = vec![];
    let key = |s: &Series| (s.name.clone(), s.step.clone(), s.unit.clone(), s.x_unit.clone());
    for series in &results.series {
        match groups.iter_mut().find(|group| key(group[0]) == key(series)) {
            Some(group) => group.push(series),
            None => groups.push(vec![series]),
        }
    }
    groups
}

/// Returns the finite points of a series.
pub(crate) fn points(series: &Series) -> Vec<(f64, f64)> {
    series.points.iter().filter(|(x, y)| x.is_finite() && y.is_finite()).copied().collect()
}

/// A part of the axis: the mean position of its points, and their least, mean and greatest value.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Bucket {
    pub(crate) x: f64,
    pub(crate) least: f64,
    pub(crate) mean: f64,
    pub(crate) greatest: f64,
}

/// Groups the points in at most `count` parts of the axis. Omits parts without points.
pub(crate) fn buckets(points: &[(f64, f64)], count: usize) -> Vec<Bucket> {
    let Some((from, to)) = scale::ends(points.iter().map(|(x, _)| *x)) else { return vec![] };
    let part = |x: f64| {
        let fraction = (x - from) / (to - from);
        if fraction.is_nan() { 0 } else { ((fraction * count as f64) as usize).min(count.saturating_sub(1)) }
    };
    let mut parts: Vec<Vec<(f64, f64)>> = vec![vec![]; count.max(1)];
    for point in points {
        parts[part(point.0)].push(*point);
    }
    let of = |part: &Vec<(f64, f64)>| {
        let (least, greatest) = scale::ends(part.iter().map(|(_, y)| *y))?;
        let n = part.len() as f64;
        let mean = |of: fn(&(f64, f64)) -> f64| part.iter().map(|point| of(point) / n).sum::<f64>();
        Some(Bucket { x: mean(|p| p.0), least, mean: mean(|p| p.1).clamp(least, greatest), greatest })
    };
    parts.iter().filter_map(of).collect()
}

/// Returns true if adjacent points differ so much that a line between them would fill the plot.
fn jumps(points: &[(f64, f64)]) -> bool {
    let Some((least, greatest)) = scale::ends(points.iter().map(|(_, y)| *y)) else { return false };
    let steps: f64 = points.windows(2).map(|pair| (pair[1].1 - pair[0].1).abs()).sum();
    steps > JUMPS_MIN * (greatest - least)
}

/// The form in which a series is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    Line,
    Dots,
    Band,
}

fn form_of(points: &[(f64, f64)]) -> Form {
    match points.len() {
        0..=2 => Form::Dots,
        n if n <= DOTS_MAX && jumps(points) => Form::Dots,
        n if n <= LINE_MAX => Form::Line,
        _ => Form::Band,
    }
}

/// Returns the name of the link between the charts of one step over the same unit. The axes of these charts
/// begin with the step. Charts of different steps have no common link, because steps may last for different
/// times.
pub(crate) fn link(group: &[&Series]) -> String {
    format!("over {}, {}", group[0].x_unit, group[0].step)
}

/// Returns the interactive chart of one group of series.
pub(crate) fn interactive(group: &[&Series], link: &str) -> Chart {
    let lines: Vec<interactive::Line> = group.iter().enumerate().map(|(i, series)| line(series, i)).collect();
    let first = group[0];
    Chart::lines(&title(first), link, &Axis::linear(&first.x_unit), &axis_for(group), &lines)
}

/// Returns a logarithmic axis if all values are positive and differ by a factor of more than `LINEAR_RATIO_MAX`.
fn axis_for(group: &[&Series]) -> Axis {
    let ys = group.iter().flat_map(|series| points(series)).map(|(_, y)| y);
    let logarithmic = scale::ends(ys)
        .is_some_and(|(least, greatest)| least > 0.0 && greatest / least > scale::LINEAR_RATIO_MAX);
    Axis { logarithmic, ..Axis::linear(&group[0].unit) }
}

fn line(series: &Series, colour: usize) -> interactive::Line {
    let points = points(series);
    let part = |form, points: Vec<(f64, f64)>| Part::new(form, "", points);
    let parts = match form_of(&points) {
        Form::Line => vec![part(interactive::Form::Line, points)],
        Form::Dots if points.len() <= LINE_MAX => vec![part(interactive::Form::Dots, points)],
        _ => {
            let buckets = buckets(&points, BUCKETS);
            vec![
                Part::band(buckets.iter().map(|b| (b.x, b.least, b.greatest))),
                part(interactive::Form::Line, buckets.iter().map(|b| (b.x, b.mean)).collect()),
            ]
        }
    };
    let name = if series.column.is_empty() { &series.name } else { &series.column };
    interactive::Line::new(name, colour, parts)
}

fn title(series: &Series) -> String {
    if series.step.is_empty() { series.name.clone() } else { format!("{}, {}", series.name, series.step) }
}

pub(crate) fn figure(group: &[&Series]) -> Figure {
    let all: Vec<Vec<(f64, f64)>> = group.iter().map(|series| points(series)).collect();
    let scale = scale_for(&all);
    let (from, to) = scale::ends(all.iter().flatten().map(|(x, _)| *x)).unwrap_or((0.0, 1.0));
    let from = if from > 0.0 && from < 0.2 * to { 0.0 } else { from };
    let to = if to > from { to } else { from + 1.0 };
    let plot = Plot {
        x_axis: HorizontalAxis::linear(plot::gutter(scale, PLOT), from, to),
        scale,
        top: TOP,
        height: PLOT,
    };
    let height = plot.bottom() + AXIS;
    let first = group[0];
    let title = title(first);
    let mut svg = svg::drawing(height, &title, &description(group, &all));
    plot.frame(&mut svg);
    let mut canvas = svg::canvas(height);
    let mut forms: Vec<Form> = vec![];
    for (i, (series, points)) in group.iter().zip(&all).enumerate() {
        if points.is_empty() {
            continue;
        }
        let form = form_of(points);
        if !forms.contains(&form) {
            forms.push(form);
        }
        draw(&mut canvas, &plot, &summary(series, points), points, form, i % LINES);
    }
    svg.push(canvas);
    plot.label(&mut svg, &plot.x_axis.round_ticks(), plot.bottom() + 16.0);
    let below = plot.bottom() + 30.0;
    svg.push(svg::text(plot.right(), 0.0, below, Anchor::End, &first.x_unit).class("tick"));
    // The words are part of the drawing and not of the caption, because the interactive chart has a scale of
    // its own.
    if let Scale::Linear { least, .. } = scale
        && least > 0.0
    {
        let words = format!("the vertical axis begins at {}", number::compact(least));
        svg.push(svg::text(plot.x_axis.x(from), 0.0, below, Anchor::Start, words).class("tick"));
    }

    let legend =
        group.iter().enumerate().filter(|(_, series)| !series.column.is_empty()).map(|(i, series)| {
            let (class, path) = match all.get(i).map(|points| form_of(points)) {
                Some(Form::Dots) => ("mark", symbol::simulated(0)),
                _ => ("line", symbol::LINE),
            };
            Key::paths([(format!("{class} s{}", i % LINES), path)], &series.column)
        });
    let legend = legend.collect();
    Figure { title, subtitle: subtitle(first, &forms), height, svg, legend }
}

/// Minimum span of the values, as a share of the greatest, for a scale that begins above zero. Labels of a narrower
/// scale would repeat their digits.
const ZOOM_MIN: f64 = 0.02;

/// Returns a scale from zero. If that would leave more than half of the plot empty, the scale begins at a round number
/// below the least value, unless all values are nearly equal.
fn scale_for(all: &[Vec<(f64, f64)>]) -> Scale {
    let ys = || all.iter().flatten().map(|(_, y)| *y);
    match scale::ends(ys()) {
        Some((least, greatest)) if least > 0.5 * greatest && greatest - least > ZOOM_MIN * greatest => {
            let step = scale::step((greatest - least) / 4.0);
            let least = ((least - 0.1 * (greatest - least)) / step).floor() * step;
            Scale::Linear { least: least.max(0.0), greatest: greatest + (greatest - least) * 0.04 }
        }
        _ => Scale::from_zero(ys()),
    }
}

fn subtitle(series: &Series, forms: &[Form]) -> String {
    let mut text = if series.unit.is_empty() { "ratio".into() } else { series.unit.clone() };
    if !series.x_unit.is_empty() {
        text += &format!(" over {}", series.x_unit);
    }
    if forms.contains(&Form::Band) {
        text += "; the line is the mean, the band the range of values";
    }
    if forms.contains(&Form::Dots) {
        text += "; one dot per point";
    }
    text
}

fn draw(canvas: &mut Element, plot: &Plot, name: &str, points: &[(f64, f64)], form: Form, colour: usize) {
    let mut group = svg::named(name);
    match form {
        Form::Line => group.push(plot.line(points).element().class(format!("line s{colour}"))),
        Form::Dots => group.push(dots(plot, points).element().class(format!("dots s{colour}"))),
        Form::Band => {
            let buckets = buckets(points, BUCKETS);
            let band: Vec<(f64, f64, f64)> = buckets.iter().map(|b| (b.x, b.least, b.greatest)).collect();
            let mean: Vec<(f64, f64)> = buckets.iter().map(|b| (b.x, b.mean)).collect();
            group.push(plot.area(&band).element().class(format!("envelope s{colour}")));
            group.push(plot.line(&mean).element().class(format!("line s{colour}")));
        }
    }
    canvas.push(group);
}

fn dots(plot: &Plot, points: &[(f64, f64)]) -> Path {
    let mut path = Path::default();
    for (x, y) in points {
        path.dot(plot.x_axis.x(*x), plot.y(*y));
    }
    path
}

/// Returns the summary `static: 1.02 to 1.31, mean 1.04, last 1.03`.
pub(crate) fn summary(series: &Series, points: &[(f64, f64)]) -> String {
    let name = if series.column.is_empty() { &series.name } else { &series.column };
    let Some(whole) = buckets(points, 1).first().copied() else { return format!("{name}: no values") };
    let last = points.last().map_or(f64::NAN, |(_, y)| *y);
    format!(
        "{name}: {} to {}, mean {}, last {}",
        number::exact(whole.least),
        number::exact(whole.greatest),
        number::exact(whole.mean),
        number::exact(last)
    )
}

fn description(group: &[&Series], all: &[Vec<(f64, f64)>]) -> String {
    group.iter().zip(all).map(|(series, points)| summary(series, points)).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_keep_every_extreme_and_the_mean() {
        let points: Vec<(f64, f64)> =
            (0..10_000).map(|i| (f64::from(i), if i == 7777 { 50.0 } else { f64::from(i % 2) })).collect();
        let buckets = buckets(&points, 100);
        assert_eq!(buckets.len(), 100);
        assert_eq!(buckets.iter().map(|b| b.greatest).fold(0.0, f64::max), 50.0);
        assert!((buckets[3].mean - 0.5).abs() < 1e-9 && buckets[3].least == 0.0);
    }

    #[test]
    fn a_scale_begins_above_zero_only_for_values_that_differ() {
        let begins = |ys: [f64; 2]| match scale_for(&[vec![(0.0, ys[0]), (1.0, ys[1])]]) {
            Scale::Linear { least, .. } => least,
            scale @ Scale::Logarithmic { .. } => panic!("{scale:?}"),
        };
        assert_eq!([begins([433.5, 433.6]), begins([433.5, 433.5]), begins([1.0, 433.5])], [0.0; 3]);
        assert!(begins([400.0, 433.5]) > 380.0);
    }

    #[test]
    fn jumping_series_are_dots_and_steady_series_are_lines_up_to_a_number_of_points() {
        let jumping = |n: u32| (0..n).map(|i| (f64::from(i), f64::from(i % 3))).collect::<Vec<_>>();
        let steady = |n: u32| (0..n).map(|i| (f64::from(i), f64::from(i) * 2.0)).collect::<Vec<_>>();
        assert_eq!((form_of(&jumping(1000)), form_of(&steady(1000))), (Form::Dots, Form::Line));
        assert_eq!((form_of(&jumping(100_000)), form_of(&steady(100_000))), (Form::Band, Form::Band));
    }
}
