//! Figures over a range: simulated figures as lines, published figures as marks, and below them the shares of map
//! look-ups by where they were answered.
//!
//! A filled point is a prediction if a figure was published for it; otherwise, it has no measurement. An open
//! point is fitted, assumed or unsourced. A published figure is a diamond. If the simulated figure agrees,
//! its point lies in the centre of the diamond. A published upper bound is a bar with an arrow down. Variants
//! of the model are dashed, in the colour of the series that they vary. A dotted line marks the knee of each
//! series that has one, except for variants.

use super::{
    Figure, Key, LINES,
    interactive::{self, Axis, Chart, Form, Part},
    map_hits,
    plot::{self, HorizontalAxis, Plot},
    scale::Scale,
    symbol,
};
use crate::{
    grid,
    markup::{Element, element},
    number, shape,
    svg::{self, Anchor},
};
use flashlab_lab::results::{Curve, CurvePoint, CurveSeries, Published, Results, Role};

/// Heights in pixels: the space above the plot, the plot, and the axis below it.
const TOP: f64 = 30.0;
const PLOT: f64 = 250.0;
const AXIS: f64 = 38.0;
const PLOT_SMALL: f64 = 110.0;

/// Returns one figure for each curve of `results`.
pub fn figures(results: &Results) -> Vec<Figure> {
    results.curves.iter().map(figure).collect()
}

/// Returns the curves as small figures without points, with a common scale per unit, for comparison. Returns none if
/// there is only one curve.
pub fn multiples(results: &Results) -> Vec<Figure> {
    if results.curves.len() < 2 {
        return vec![];
    }
    results.curves.iter().map(|curve| multiple(results, curve)).collect()
}

pub(crate) fn figure(curve: &Curve) -> Figure {
    let strips = map_hits::height(curve);
    let plot = plot_of(curve, Scale::from_zero(ys(curve)), TOP, PLOT);
    let height = plot.bottom() + AXIS + strips;
    let mut svg = drawing(curve, height);
    plot.frame(&mut svg);
    let knees = knees(&mut svg, curve, &plot);
    let ticks = plot.x_axis.point_ticks(&xs(curve), &knees);
    plot.label(&mut svg, &ticks, plot.bottom() + 16.0);
    let right = plot.right();
    svg.push(svg::text(right, 0.0, plot.bottom() + 30.0, Anchor::End, &curve.x_unit).class("tick"));

    let mut canvas = svg::canvas(height);
    lines(&mut canvas, curve, &plot);
    map_hits::draw(&mut svg, &mut canvas, curve, &plot.x_axis, plot.bottom() + AXIS);
    svg.push(canvas);
    for (i, series) in curve.series.iter().enumerate() {
        published(&mut svg, curve, series, colour(curve, i), &plot);
    }
    for (i, series) in curve.series.iter().enumerate() {
        simulated(&mut svg, curve, series, colour(curve, i), &plot);
    }
    // The remark is part of the drawing and not of the caption, because the interactive chart has an axis of
    // its own.
    if let Some(remark) = plot.x_axis.remark(&curve.x_unit) {
        svg.push(svg::text(plot.left(), 0.0, plot.bottom() + 30.0, Anchor::Start, remark).class("tick"));
    }
    let subtitle = format!("{} over {}", curve.y_unit, curve.x_unit);
    let mut legend = legend(curve);
    legend.extend(map_hits::legend(curve));
    Figure { title: title(curve), subtitle, height, svg, legend }
}

/// Returns the interactive charts of a curve: its figures and, linked, the shares of map look-ups.
pub(crate) fn interactive(curve: &Curve) -> Vec<Chart> {
    let xs = xs(curve);
    let is_uneven = HorizontalAxis::for_points(svg::Percent(8.0), &xs).remark("").is_some();
    let x_axis =
        Axis { logarithmic: is_uneven && xs.iter().all(|x| *x > 0.0), ..Axis::linear(&curve.x_unit) };
    let lines: Vec<interactive::Line> =
        curve.series.iter().enumerate().map(|(i, s)| line(curve, i, s)).collect();
    let link = format!("curve {}", curve.chart);
    let mut charts = vec![Chart::lines(&title(curve), &link, &x_axis, &Axis::linear(&curve.y_unit), &lines)];
    let look_ups = map_hits::interactive(curve, &|i| colour(curve, i));
    if !look_ups.is_empty() {
        let subtitle = format!("% of the look-ups over {}; {}", curve.x_unit, map_hits::LEVELS_IN_WORDS);
        let chart = Chart::lines("Map look-ups", &link, &x_axis, &Axis::linear("%"), &look_ups);
        charts.push(chart.with_caption("Map look-ups by the place of the answer", &subtitle));
    }
    charts
}

fn line(curve: &Curve, i: usize, series: &CurveSeries) -> interactive::Line {
    let form = match (series.variant, is_second_variant(curve, i)) {
        (false, _) => Form::Line,
        (true, false) => Form::Dashed,
        (true, true) => Form::Dotted,
    };
    let mut parts = vec![Part::new(form, "", series.points.iter().map(|point| (point.x, point.y)))];
    for (form, name) in [
        (Form::Dots, Role::Predicted.name()),
        (Form::Dots, grid::role_name(Role::Predicted, false)),
        (Form::Rings, Role::Fitted.name()),
        (Form::Rings, Role::Assumed.name()),
        (Form::Rings, Role::Unsourced.name()),
    ] {
        let points = shape::points(series).into_iter().filter(|point| role_name(series, point) == name);
        parts.push(Part::new(form, name, points.map(|point| (point.x, point.y))));
    }
    let published = |is_bound: bool| {
        series.published.iter().filter_map(move |point| match point.figure {
            Published::Figure { mean, .. } if !is_bound => Some((point.x, mean)),
            Published::Below { below } if is_bound => Some((point.x, below)),
            _ => None,
        })
    };
    parts.push(Part::new(Form::Diamonds, "published", published(false)));
    parts.push(Part::new(Form::Diamonds, "published: below", published(true)));
    let name = if series.variant { format!("{} (variant)", series.name) } else { series.name.clone() };
    interactive::Line::new(
        name,
        colour(curve, i),
        parts.into_iter().filter(|part| !part.is_empty()).collect(),
    )
}

fn role_name(series: &CurveSeries, point: &CurvePoint) -> &'static str {
    grid::role_name(point.role, shape::is_published(series, point.x))
}

fn multiple(results: &Results, curve: &Curve) -> Figure {
    let same = results.curves.iter().filter(|other| other.y_unit == curve.y_unit);
    let plot = plot_of(curve, Scale::from_zero(same.flat_map(ys)), 8.0, PLOT_SMALL);
    let height = plot.bottom() + 22.0;
    let mut svg = drawing(curve, height);
    plot.frame(&mut svg);
    let ends: Vec<f64> = xs(curve);
    let ticks: Vec<_> = plot.x_axis.point_ticks(&ends, &[]).into_iter().take(4).collect();
    plot.label(&mut svg, &ticks, plot.bottom() + 16.0);
    let mut canvas = svg::canvas(height);
    lines(&mut canvas, curve, &plot);
    svg.push(canvas);
    let subtitle = format!("{} over {}, on one scale", curve.y_unit, curve.x_unit);
    Figure { title: title(curve), subtitle, height, svg, legend: vec![] }
}

fn title(curve: &Curve) -> String {
    if curve.title.is_empty() { super::chart::pattern_title(&curve.chart) } else { curve.title.clone() }
}

fn drawing(curve: &Curve, height: f64) -> Element {
    let sentences: Vec<String> = curve
        .series
        .iter()
        .filter_map(|series| Some(format!("{}: {}", series.name, shape::sentence(curve, series)?)))
        .collect();
    svg::drawing(height, &title(curve), &sentences.join(" "))
}

fn plot_of(curve: &Curve, scale: Scale, top: f64, height: f64) -> Plot {
    Plot { x_axis: HorizontalAxis::for_points(plot::gutter(scale, height), &xs(curve)), scale, top, height }
}

fn xs(curve: &Curve) -> Vec<f64> {
    let series = curve.series.iter();
    let of = |s: &CurveSeries| -> Vec<f64> {
        s.points.iter().map(|p| p.x).chain(s.published.iter().map(|p| p.x)).collect()
    };
    series.flat_map(of).collect()
}

fn ys(curve: &Curve) -> impl Iterator<Item = f64> {
    let simulated = curve.series.iter().flat_map(|series| series.points.iter().map(|point| point.y));
    let published = curve.series.iter().flat_map(|series| &series.published);
    simulated.chain(published.filter_map(|point| match point.figure {
        Published::Figure { mean, .. } => Some(mean),
        Published::Below { below } => Some(below),
        Published::Text { .. } => None,
    }))
}

/// Returns the colour of a series. A variant has the colour of the series whose name is a prefix of the variant's name;
/// all others take colours in turn.
fn colour(curve: &Curve, i: usize) -> usize {
    let own = |i: usize| curve.series[..i].iter().filter(|series| !series.variant).count();
    let series = &curve.series[i];
    let base = (0..curve.series.len()).filter(|_| series.variant).find(|&j| {
        let other = &curve.series[j];
        !other.variant && !other.name.is_empty() && series.name.starts_with(&other.name)
    });
    match base {
        Some(j) => own(j) % LINES,
        None if series.variant => {
            let before = curve.series[..i].iter().filter(|series| series.variant).count();
            (own(curve.series.len()) + before) % LINES
        }
        None => own(i) % LINES,
    }
}

/// Draws a dotted line at each knee, with its position in words above it. Returns the `x` of each line.
fn knees(svg: &mut Element, curve: &Curve, plot: &Plot) -> Vec<f64> {
    let mut places: Vec<f64> = vec![];
    for series in curve.series.iter().filter(|series| !series.variant) {
        let Some(knee) = shape::knee(series) else { continue };
        if places.contains(&knee.before.x) {
            continue;
        }
        let x = plot.x_axis.x(knee.before.x);
        let y = plot.top - 4.0 - 12.0 * (places.len() % 2) as f64;
        let label =
            format!("breaks after {}", number::with_unit(number::written(knee.before.x), &curve.x_unit));
        let anchor = if x.0 > 55.0 { Anchor::End } else { Anchor::Start };
        svg.push(svg::line((x, y - 8.0), (x, plot.bottom())).class("knee"));
        let dx = if anchor == Anchor::End { -5.0 } else { 5.0 };
        svg.push(svg::text(x, dx, y, anchor, label).class("remark"));
        places.push(knee.before.x);
    }
    places
}

fn lines(canvas: &mut Element, curve: &Curve, plot: &Plot) {
    for (i, series) in curve.series.iter().enumerate() {
        let points: Vec<(f64, f64)> = series.points.iter().map(|point| (point.x, point.y)).collect();
        let class = line_class(curve, i);
        canvas.push(svg::named(&series.name).child(plot.line(&points).element().class(class)));
    }
}

fn line_class(curve: &Curve, i: usize) -> String {
    let variant = match (curve.series[i].variant, is_second_variant(curve, i)) {
        (false, _) => "",
        (true, false) => " variant",
        (true, true) => " variant second",
    };
    format!("line{variant} s{}", colour(curve, i))
}

/// Returns true if an earlier variant has the colour of this one, so that the two variants need different
/// dashes.
fn is_second_variant(curve: &Curve, i: usize) -> bool {
    let is_alike = |j: usize| curve.series[j].variant && colour(curve, j) == colour(curve, i);
    curve.series[i].variant && (0..i).any(is_alike)
}

fn simulated(svg: &mut Element, curve: &Curve, series: &CurveSeries, colour: usize, plot: &Plot) {
    for point in shape::points(series) {
        let published = series.published.iter().find(|published| published.x == point.x);
        let published = published.map(|published| match &published.figure {
            Published::Figure { mean, .. } => format!("; published {}", number::exact(*mean)),
            Published::Below { below } => format!("; published: below {}", number::exact(*below)),
            Published::Text { text } => format!("; published: {text}"),
        });
        let name = format!(
            "{}, {}: {}, {}{}",
            series.name,
            number::with_unit(number::written(point.x), &curve.x_unit),
            number::with_unit(number::exact(point.y), &curve.y_unit),
            role_name(series, &point),
            published.unwrap_or_default()
        );
        let mark = element("path")
            .class(format!("{} s{colour}", symbol::class(point.role)))
            .attr("d", symbol::simulated(colour));
        let hit = element("circle").class("hit").attr("r", 8);
        svg.push(svg::symbol(plot.x_axis.x(point.x), plot.y(point.y), name).child(hit).child(mark));
    }
}

fn published(svg: &mut Element, curve: &Curve, series: &CurveSeries, colour: usize, plot: &Plot) {
    for point in series.published.iter().filter(|point| point.x.is_finite()) {
        let (class, d, y, word) = match point.figure {
            Published::Figure { mean, .. } => ("mark published", symbol::PUBLISHED, mean, "published"),
            Published::Below { below } => ("mark below", symbol::BELOW, below, "published: below"),
            Published::Text { .. } => continue,
        };
        if !y.is_finite() {
            continue;
        }
        let name = format!(
            "{}, {}: {word} {}",
            series.name,
            number::with_unit(number::written(point.x), &curve.x_unit),
            number::with_unit(number::exact(y), &curve.y_unit)
        );
        let mark = element("path").class(format!("{class} s{colour}")).attr("d", d);
        svg.push(svg::symbol(plot.x_axis.x(point.x), plot.y(y), name).child(mark));
    }
}

/// Returns the legend: the series, then the meaning of the marks.
fn legend(curve: &Curve) -> Vec<Key> {
    let mut keys: Vec<Key> = vec![];
    for (i, series) in curve.series.iter().enumerate() {
        let colour = colour(curve, i);
        let label = if series.variant { format!("{} (variant)", series.name) } else { series.name.clone() };
        let line = (line_class(curve, i), symbol::LINE);
        keys.push(Key::paths([line, (format!("mark s{colour}"), symbol::simulated(colour))], label));
    }
    for role in [Role::Predicted, Role::Fitted, Role::Assumed, Role::Unsourced] {
        let points = || {
            let all = curve.series.iter().flat_map(|series| series.points.iter().map(move |p| (series, p)));
            all.filter(move |(_, point)| point.role == role)
        };
        if points().next().is_some() {
            // Points with and without a published figure have the same mark.
            let is_compared = points().all(|(series, point)| shape::is_published(series, point.x));
            let class = format!("{} any", symbol::class(role));
            keys.push(Key::paths([(class, symbol::simulated(0))], grid::role_name(role, is_compared)));
        }
    }
    let has = |is: fn(&Published) -> bool| {
        curve.series.iter().flat_map(|series| &series.published).any(|point| is(&point.figure))
    };
    if has(|figure| matches!(figure, Published::Figure { .. })) {
        keys.push(Key::paths([("mark published any".into(), symbol::PUBLISHED)], "published"));
    }
    if has(|figure| matches!(figure, Published::Below { .. })) {
        keys.push(Key::paths([("mark below any".into(), symbol::BELOW)], "published: below"));
    }
    keys
}
