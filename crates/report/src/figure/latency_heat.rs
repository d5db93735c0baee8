//! Latencies over time as a heat map: one column for each interval, one row for each eighth of a power of two of the
//! latency. The colour is the number of requests, in steps of its logarithm.

use super::interactive::{Axis, Chart};
use super::plot::{HorizontalAxis, Plot};
use super::scale::Scale;
use super::wear_map::LEVELS;
use super::{Figure, Key};
use crate::number;
use crate::svg::{self, Anchor, Path, Percent};
use flashlab_fio::stats::{Column, Timeline, row_begin_ns};

const TOP: f64 = 8.0;
const PLOT: f64 = 170.0;
const AXIS: f64 = 36.0;
/// Left edge of the plot, which leaves room for labels such as `500 µs`.
const LEFT: Percent = Percent(14.0);

/// The heat map of a timeline: occupied rows and the counts of their cells.
#[derive(Clone, PartialEq, Debug)]
struct Cells {
    width_s: f64,
    columns: usize,
    /// Bounds of the rows in nanoseconds, one more than there are rows.
    edges: Vec<f64>,
    /// Column, row and count of each cell that is not empty.
    counts: Vec<(usize, usize, u64)>,
}

fn cells(timeline: &Timeline) -> Option<Cells> {
    let rows = || timeline.columns().iter().flat_map(Column::rows).map(|(row, _)| row);
    let (first, last) = (rows().min()?, rows().max()?);
    let counts = timeline
        .columns()
        .iter()
        .enumerate()
        .flat_map(|(i, column)| column.rows().map(move |(row, count)| (i, row - first, count)));
    Some(Cells {
        width_s: timeline.interval().as_ns() as f64 / 1e9,
        columns: timeline.columns().len(),
        edges: (first..=last + 1).map(|row| row_begin_ns(row).max(1) as f64).collect(),
        counts: counts.collect(),
    })
}

/// Returns the level of a count, from 1 to the last level of the colours.
fn level(count: u64, most: u64) -> usize {
    if most <= 1 {
        return LEVELS - 1;
    }
    1 + ((LEVELS - 2) as f64 * (count as f64).ln() / (most as f64).ln()).round() as usize
}

/// Returns the colours of one request and of the greatest count. If no cell has more than one request, all cells have
/// the same colour.
fn legend(most: u64) -> Vec<Key> {
    let key = |level: usize, label: String| Key::swatch(format!("heat h{level}"), None, label);
    let greatest = key(LEVELS - 1, number::plural(most as usize, "request"));
    if most > 1 { vec![key(1, "1 request".into()), greatest] } else { vec![greatest] }
}

/// Returns the static heat map and the interactive one; `None` without requests.
pub(crate) fn figure(title: &str, link: &str, timeline: &Timeline) -> Option<(Figure, Chart)> {
    let cells = cells(timeline)?;
    let most = cells.counts.iter().map(|(.., count)| *count).max().unwrap_or(1);
    let chart = Chart::heat(
        title,
        link,
        (&Axis::linear("s"), cells.width_s, cells.columns),
        (&Axis::logarithmic("ns"), &cells.edges),
        &cells.counts,
    );
    let power = |ns: &f64| ns.log10();
    let (least, greatest) = (cells.edges.first().map_or(0.0, power), cells.edges.last().map_or(1.0, power));
    let scale = Scale::Linear { least, greatest };
    let to = cells.width_s * cells.columns as f64;
    let plot = Plot { x_axis: HorizontalAxis::linear(LEFT, 0.0, to), scale, top: TOP, height: PLOT };
    let height = plot.bottom() + AXIS;
    let mut paths: Vec<Path> = vec![Path::default(); LEVELS];
    for &(column, row, count) in &cells.counts {
        let (left, right) = (cells.width_s * column as f64, cells.width_s * (column + 1) as f64);
        let (bottom, top) = (plot.y(cells.edges[row].log10()), plot.y(cells.edges[row + 1].log10()));
        let path = &mut paths[level(count, most)];
        path.move_to(plot.x_axis.x(left), bottom);
        path.line_to(plot.x_axis.x(right), bottom);
        path.line_to(plot.x_axis.x(right), top);
        path.line_to(plot.x_axis.x(left), top);
        path.close();
    }
    let mut svg = svg::drawing(height, title, &format!("At most {most} requests in a cell"));
    let powers: Vec<f64> =
        (0..=12).map(f64::from).filter(|power| (least..=greatest).contains(power)).collect();
    // A map of a few rows may contain no power of ten.
    for power in if powers.is_empty() { vec![least, greatest] } else { powers } {
        let y = plot.y(power);
        svg.push(svg::line((plot.left(), y), (plot.right(), y)).class("grid"));
        let label = number::duration_ns(10_f64.powf(power));
        svg.push(svg::text(plot.left(), -6.0, y + 3.5, Anchor::End, label).class("tick"));
    }
    let mut canvas = svg::canvas(height);
    for (level, path) in paths.into_iter().enumerate().filter(|(_, path)| !path.is_empty()) {
        canvas.push(path.element().class(format!("heat crisp h{level}")));
    }
    svg.push(canvas);
    plot.label(&mut svg, &plot.x_axis.round_ticks(), plot.bottom() + 16.0);
    svg.push(svg::text(plot.right(), 0.0, plot.bottom() + 30.0, Anchor::End, "s").class("tick"));
    let legend = legend(most);
    let subtitle = "requests by completion latency over simulated time".into();
    Some((Figure { title: title.into(), subtitle, height, svg, legend }, chart))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_follow_the_logarithm_of_the_count() {
        assert_eq!((level(1, 1_000_000_000), level(1_000_000_000, 1_000_000_000)), (1, LEVELS - 1));
        assert_eq!(level(1_000, 1_000_000_000), 1 + (LEVELS - 2) / 3);
        assert_eq!(level(1, 1), LEVELS - 1);
        assert!(figure("empty", "time", &Timeline::default()).is_none());
    }

    #[test]
    fn a_map_of_single_requests_has_one_key() {
        assert_eq!(legend(1).len(), 1);
        assert_eq!(legend(1_234).len(), 2);
    }
}
