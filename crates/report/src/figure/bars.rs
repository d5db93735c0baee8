//! Published and simulated figures as bars with their deviations: one figure per pattern, with raw next to vfat.
//!
//! Published bars are solid. Simulated bars are hatched if predicted, hollow if fitted and dashed if they
//! rest on an assumption, because only a prediction is evidence. In a chart with published figures, a hatched
//! bar without a published figure is pale. Whiskers are one standard deviation.

use super::{
    Figure, Key, Labels,
    chart::{Bar, Chart, Group, charts},
    mark::{self, mark},
    scale::Scale,
    simulated_style,
};
use crate::{
    grid,
    markup::Element,
    number,
    svg::{self, Anchor, Percent},
};
use flashlab_lab::results::{Cell, Published, Results, Role};

/// Vertical distances in pixels: a bar, the gaps between the bars of a pair, between pairs and between groups, and the
/// space above and below all groups.
const BAR: f64 = 10.0;
const PAIR_GAP: f64 = 1.5;
const SERIES_GAP: f64 = 4.5;
const GROUP_GAP: f64 = 15.0;
const TOP: f64 = 6.0;
const AXIS: f64 = 24.0;

/// Minimum width of a visible deviation, in percent of the width.
const WHISKER_MIN: f64 = 0.5;

/// Maximum length of a published text in a figure, in characters. Only the table contains longer texts.
const WORDS_MAX: usize = 24;

/// Right edge of the plot, in percent of the width; the numbers are right of it.
const RIGHT: f64 = 77.0;

/// Returns one figure for each pattern or table of `results`.
pub fn figures(results: &Results) -> Vec<Figure> {
    charts(results).iter().map(figure).collect()
}

/// Returns the figure of one chart.
pub(crate) fn figure(chart: &Chart<'_>) -> Figure {
    let bars = || chart.groups.iter().flat_map(|group| &group.bars);
    let scale = scale(bars());
    let labels = Labels::of(chart.groups.iter().map(|group| group.label));
    let plot = Plot { left: labels.left().0, scale };
    let groups: f64 =
        chart.groups.iter().map(|group| labels.height(group.label) + group_height(group) + GROUP_GAP).sum();
    let height = TOP + groups + AXIS;

    let compared = grid::compared_name(bars().map(|bar| bar.cell));
    let what = format!("{} in {}, {compared} and simulated", chart.title, chart.unit);
    let mut svg = mark::drawing(height, &chart.title, &format!("{what}; the same figures follow as a table"));
    for (value, label) in scale.ticks() {
        let x = plot.x(value);
        svg.push(svg::line((x, TOP), (x, height - AXIS)).class("grid"));
        svg.push(svg::text(x, 0.0, height - 8.0, Anchor::Middle, label).class("tick"));
    }
    let mut y = TOP + GROUP_GAP / 2.0;
    for group in &chart.groups {
        y += labels.height(group.label);
        let height = group_height(group);
        labels.draw(&mut svg, group.label, y, height);
        let mut top = y;
        for bar in &group.bars {
            if let Some(published) = grid::compared(bar.cell) {
                plot.published(&mut svg, (chart, group.label), bar, &published, top);
                top += BAR + PAIR_GAP;
            }
            plot.simulated(&mut svg, (chart, group.label), bar, top);
            top += BAR + SERIES_GAP;
        }
        y += height + GROUP_GAP;
    }
    let origin = plot.at(scale.origin());
    svg.push(svg::line((origin, TOP), (origin, y - GROUP_GAP / 2.0)).class("axis"));

    let mut subtitle = format!("{}{}", chart.unit, scale.note());
    if let Some(conversion) = &chart.conversion {
        subtitle = format!("{subtitle} ({conversion})");
    }
    Figure { title: chart.title.clone(), subtitle, height, svg, legend: legend(chart) }
}

/// Returns the height in pixels of a group's bars. A missing published figure takes no space.
fn group_height(group: &Group<'_>) -> f64 {
    let published = group.bars.iter().filter(|bar| grid::is_compared(bar.cell)).count() as f64;
    published * (BAR + PAIR_GAP) + group.bars.len() as f64 * (BAR + SERIES_GAP) - SERIES_GAP
}

fn scale<'a>(bars: impl Iterator<Item = &'a Bar<'a>>) -> Scale {
    let mut values = vec![];
    let mut reach: f64 = 0.0;
    for bar in bars {
        let simulated = bar.cell.simulated;
        values.push(simulated.mean * bar.factor);
        reach = reach.max((simulated.mean + simulated.sd) * bar.factor);
        match grid::compared(bar.cell) {
            Some(Published::Figure { mean, sd }) => {
                values.push(mean * bar.factor);
                reach = reach.max((mean + sd.unwrap_or(0.0)) * bar.factor);
            }
            Some(Published::Below { below }) => values.push(below * bar.factor),
            _ => {}
        }
    }
    Scale::for_values(&values, reach)
}

struct Plot {
    left: f64,
    scale: Scale,
}

impl Plot {
    fn at(&self, fraction: f64) -> Percent {
        Percent(self.left + fraction * (RIGHT - self.left))
    }
    fn x(&self, value: f64) -> Percent {
        self.at(self.scale.fraction(value))
    }

    /// Returns the bar from the origin to `value`.
    fn bar(&self, value: f64, y: f64) -> Element {
        let (a, b) = (self.at(self.scale.origin()).0, self.x(value).0);
        svg::rect(Percent(a.min(b)), y, Percent((a - b).abs()), BAR)
    }

    /// Draws one standard deviation on both sides of the mean, if it is visible. Returns the position of the label.
    fn whisker(&self, drawn: &mut Vec<Element>, mean: f64, sd: f64, y: f64) -> Percent {
        let (low, high, middle) = (self.x(mean - sd), self.x(mean + sd), y + BAR / 2.0);
        let is_visible = high.0 - low.0 > WHISKER_MIN && mean.is_finite();
        if !is_visible {
            return self.x(mean.max(0.0));
        }
        drawn.push(svg::line((low, middle), (high, middle)).class("halo"));
        drawn.push(svg::line((low, middle), (high, middle)).class("whisker"));
        for end in [low, high] {
            drawn.push(svg::line((end, middle - 2.5), (end, middle + 2.5)).class("whisker"));
        }
        high
    }

    fn published(
        &self,
        svg: &mut Element,
        (chart, place): (&Chart<'_>, &str),
        bar: &Bar<'_>,
        published: &Published,
        y: f64,
    ) {
        let base = y + BAR - 1.5;
        let origin = self.at(self.scale.origin());
        let mut drawn = vec![];
        let (end, label) = match published {
            Published::Figure { mean, sd } if mean.is_finite() => {
                let (mean, sd) = (mean * bar.factor, sd.unwrap_or(0.0) * bar.factor);
                drawn.push(self.bar(mean, y).class(format!("solid s{}", bar.series % super::SERIES)));
                (self.whisker(&mut drawn, mean, sd, y), number::compact(mean))
            }
            Published::Below { below } => {
                let below = below * bar.factor;
                let class = format!("outline hollow dashed s{}", bar.series % super::SERIES);
                drawn.push(self.bar(below, y).class(class));
                (self.x(below), number::below(number::compact(below)))
            }
            Published::Text { text } if text.chars().count() > WORDS_MAX => {
                (origin, "published in words: see the table".into())
            }
            Published::Text { text } => (origin, text.clone()),
            Published::Figure { .. } => (origin, number::NONE.into()),
        };
        let value = match published {
            Published::Figure { sd, .. } => {
                with_deviation(&label, sd.unwrap_or(0.0) * bar.factor, chart.unit)
            }
            Published::Below { .. } => number::with_unit(label.clone(), chart.unit),
            Published::Text { text } => text.clone(),
        };
        let name = format!("{}, {}", self.bar_name(chart, bar), grid::compared_name([bar.cell]));
        drawn.push(svg::text(end, 5.0, base, Anchor::Start, label).class("value"));
        let mark = mark(&published_key(chart, bar.series), place, name).attr("data-value", value);
        svg.push(mark.children(drawn));
    }

    fn simulated(&self, svg: &mut Element, (chart, place): (&Chart<'_>, &str), bar: &Bar<'_>, y: f64) {
        let (mean, sd) = (bar.cell.simulated.mean * bar.factor, bar.cell.simulated.sd * bar.factor);
        let (class, fill) = simulated(chart, bar);
        let rect = self.bar(mean, y).class(class);
        let mut drawn = vec![match fill {
            Some(fill) => rect.attr("fill", fill),
            None => rect,
        }];
        let end = self.whisker(&mut drawn, mean, sd, y);
        let label = number::compact(mean);
        let error = error_label(bar.cell);
        let mut name = format!("{}, simulated", self.bar_name(chart, bar));
        if grid::is_compared(bar.cell) || bar.cell.role != Role::Predicted {
            name += &format!(", {}", bar.cell.role.name());
        }
        let mut value = with_deviation(&label, sd, chart.unit);
        let text = svg::text(end, 5.0, y + BAR - 1.5, Anchor::Start, label).class("value");
        drawn.push(match error {
            Some(error) => {
                value += &format!(", error {error}");
                text.child(crate::markup::element("tspan").class("error").attr("dx", 5).text(error))
            }
            None => text,
        });
        let mark = mark(&simulated_key(chart, bar), place, name).attr("data-value", value);
        svg.push(mark.children(drawn));
    }

    /// Returns the name of the bar: column, row and series, each distinct word once.
    fn bar_name(&self, chart: &Chart<'_>, bar: &Bar<'_>) -> String {
        let cell = bar.cell;
        let series = chart.series.get(bar.series).copied().unwrap_or_default();
        let place = [cell.column.as_str(), cell.row.as_str(), series];
        let mut words: Vec<&str> = vec![];
        for word in place {
            if !word.is_empty() && !words.contains(&word) {
                words.push(word);
            }
        }
        words.join(", ")
    }
}

/// Returns the error as `−0.4 %`.
pub(crate) fn error_label(cell: &Cell) -> Option<String> {
    let error = cell.compared_percent().filter(|error| error.is_finite())?;
    let decimals = if error.abs() < 99.95 { 1 } else { 0 };
    Some(number::signed_percent(error, decimals))
}

/// Returns a figure with its unit and its standard deviation, if it has one: `12.3 ± 0.4 MiB/s`.
fn with_deviation(figure: &str, sd: f64, unit: &str) -> String {
    let figure = if sd > 0.0 && sd.is_finite() {
        format!("{figure} ± {}", number::compact(sd))
    } else {
        figure.to_owned()
    };
    number::with_unit(figure, unit)
}

/// Returns the legend's label for one kind of bars of a series.
fn label(chart: &Chart<'_>, series: usize, kind: &str) -> String {
    match chart.series.get(series) {
        Some(series) if !series.is_empty() => format!("{series}, {kind}"),
        _ => kind.into(),
    }
}

/// Returns the key of the bars with which a series is compared.
fn published_key(chart: &Chart<'_>, series: usize) -> String {
    let bars = chart.groups.iter().flat_map(|group| &group.bars).filter(|bar| bar.series == series);
    let compared = bars.filter(|bar| grid::is_compared(bar.cell)).map(|bar| bar.cell);
    label(chart, series, grid::compared_name(compared))
}

/// Returns the key of the simulated bars of the same series and role.
fn simulated_key(chart: &Chart<'_>, bar: &Bar<'_>) -> String {
    label(chart, bar.series, grid::role_name(bar.cell.role, grid::is_compared(bar.cell)))
}

/// Returns the classes and the fill of a simulated bar.
fn simulated(chart: &Chart<'_>, bar: &Bar<'_>) -> (String, Option<String>) {
    let is_pale = chart.is_compared() && !grid::is_compared(bar.cell);
    simulated_style(bar.series, bar.cell.role, is_pale)
}

/// Returns the legend: for each series, the published bars and the simulated bars of each role.
fn legend(chart: &Chart<'_>) -> Vec<Key> {
    let mut keys: Vec<Key> = vec![];
    for i in 0..chart.series.len() {
        let bars = || chart.groups.iter().flat_map(|group| &group.bars).filter(move |bar| bar.series == i);
        if bars().any(|bar| grid::is_compared(bar.cell)) {
            keys.push(Key::swatch(format!("solid s{}", i % super::SERIES), None, published_key(chart, i)));
        }
        for role in [Role::Predicted, Role::Fitted, Role::Assumed, Role::Unsourced] {
            for bar in bars().filter(|bar| bar.cell.role == role) {
                let label = simulated_key(chart, bar);
                if keys.iter().all(|key| key.label != label) {
                    let (class, fill) = simulated(chart, bar);
                    keys.push(Key::swatch(class, fill, label));
                }
            }
        }
    }
    keys
}
