//! Histogram of erase counts, with the rated erases of a block.
//!
//! The axis spans the counts and need not include zero, so the width of the histogram shows how even wear is. If the
//! rated erases lie far outside, an arrow at the edge shows their number.

use super::{
    Figure, Key,
    mark::{self, mark},
    plot::{self, HorizontalAxis, Plot},
    scale::{self, Scale},
    wear_map,
};
use crate::{
    number::{self, plural},
    svg::{self, Anchor, Path},
};
use flashlab_lab::results::{Results, WearMap};

/// Maximum number of bins.
const BINS: u64 = 40;
const TOP: f64 = 20.0;
const PLOT: f64 = 200.0;
const AXIS: f64 = 34.0;
/// The axis includes the rated erases if their distance is at most this many times the span of the counts.
const RATED_REACH: u64 = 3;
/// Counts are whole numbers: each takes the space from half below it to half above it.
const HALF: f64 = 0.5;
/// Minimum height of a bar that is not empty, in pixels.
const BAR_MIN: f64 = 1.5;
/// The series: blocks in use, and blocks that failed or were bad from the factory.
const IN_USE: &str = "in use";
const OUT_OF_USE: &str = "out of use";

/// Returns one figure for each map of `results` that has blocks.
pub fn figures(results: &Results) -> Vec<Figure> {
    results.wear.iter().filter(|map| !map.erase_counts.is_empty()).map(figure).collect()
}

/// Blocks with similar erase counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Bin {
    /// Minimum erase count.
    pub(crate) from: u64,
    /// Maximum erase count.
    pub(crate) to: u64,
    /// Blocks in use.
    pub(crate) used: usize,
    /// Blocks out of use.
    pub(crate) bad: usize,
}

impl Bin {
    /// Returns the range as `700 to 704`.
    pub(crate) fn range(&self) -> String {
        let count = |n: u64| number::fixed(n as f64, 0);
        if self.from == self.to {
            count(self.from)
        } else {
            format!("{} to {}", count(self.from), count(self.to))
        }
    }
}

/// Groups the blocks of `map` into at most `bins_max` bins of equal width, which is 1, 2 or 5 times a power of ten.
pub(crate) fn bins(map: &WearMap, bins_max: u64) -> Vec<Bin> {
    let counts = || map.erase_counts.iter().map(|count| u64::from(*count));
    let (Some(least), Some(greatest)) = (counts().min(), counts().max()) else { return vec![] };
    let mut width = scale::step((greatest - least + 1) as f64 / bins_max.max(2) as f64).max(1.0) as u64;
    if greatest / width - least / width >= bins_max.max(2) {
        width = scale::step(width as f64 * 1.5) as u64;
    }
    let first = least / width;
    let mut bins: Vec<Bin> = (first..=greatest / width)
        .map(|i| Bin { from: i * width, to: (i + 1) * width - 1, used: 0, bad: 0 })
        .collect();
    for (count, is_bad) in counts().zip(wear_map::bad_flags(map)) {
        let bin = &mut bins[(count / width - first) as usize];
        if is_bad { bin.bad += 1 } else { bin.used += 1 }
    }
    bins
}

pub(crate) fn figure(map: &WearMap) -> Figure {
    let bins = bins(map, BINS);
    let most = bins.iter().map(|bin| bin.used + bin.bad).max().unwrap_or(0);
    let scale = Scale::from_zero([most as f64].into_iter());
    let (from, to) = match (bins.first(), bins.last()) {
        (Some(first), Some(last)) => (first.from, last.to + 1),
        _ => (0, 1),
    };
    let rated = map.rated_cycles.map(u64::from);
    let is_near = |rated: u64| {
        let distance = if rated < from { from - rated } else { rated.saturating_sub(to) };
        distance <= RATED_REACH * (to - from)
    };
    let near = rated.filter(|rated| is_near(*rated));
    let ends = (
        near.map_or(from, |rated| rated.min(from)),
        near.map_or(to, |rated| (rated + rated / 50 + 1).max(to)),
    );
    let x_axis =
        HorizontalAxis::linear(plot::gutter(scale, PLOT), ends.0 as f64 - HALF, ends.1 as f64 - HALF);
    let plot = Plot { x_axis, scale, top: TOP, height: PLOT };
    let height = plot.bottom() + AXIS;

    let title = format!("{}: histogram", map.name);
    let mut svg = mark::upright_drawing(height, &title, &description(map, &bins));
    plot.frame(&mut svg);
    let mut canvas = svg::canvas(height);
    let has_bad = bins.iter().any(|bin| bin.bad > 0);
    for bin in bins.iter().filter(|bin| bin.used + bin.bad > 0) {
        let middle = (bin.used, IN_USE, bar(&plot, bin, 0, bin.used), "solid s0 crisp");
        let upper = (bin.bad, OUT_OF_USE, bar(&plot, bin, bin.used, bin.used + bin.bad), "unusable");
        for (blocks, key, path, class) in [middle, upper] {
            if !path.is_empty() {
                let name = format!("{} erases: {} {key}", bin.range(), plural(blocks, "block"));
                let series = if has_bad { key } else { "" };
                canvas.push(mark(series, &bin.range(), name).child(path.element().class(class)));
            }
        }
    }
    svg.push(canvas);
    plot.label(&mut svg, &plot.x_axis.whole_ticks(), plot.bottom() + 16.0);
    svg.push(
        svg::text(plot.right(), 0.0, plot.bottom() + 30.0, Anchor::End, "erases of a block").class("tick"),
    );
    if let Some(rated) = rated {
        mark_rated(&mut svg, &plot, rated, near.is_some(), rated < from);
    }
    let mut legend = vec![];
    if has_bad {
        legend.push(Key::swatch("solid s0", None, IN_USE));
        legend.push(Key::swatch("unusable", None, OUT_OF_USE));
    }
    Figure { title, subtitle: "number of erase blocks by erase count".into(), height, svg, legend }
}

/// Returns the bar of a bin from one number of blocks to another.
fn bar(plot: &Plot, bin: &Bin, low: usize, high: usize) -> Path {
    let mut path = Path::default();
    if high > low {
        let (left, right) = (plot.x_axis.x(bin.from as f64 - HALF), plot.x_axis.x(bin.to as f64 + HALF));
        let bottom = plot.y(low as f64);
        let top = plot.y(high as f64).min(bottom - BAR_MIN);
        path.move_to(left, bottom);
        path.line_to(left, top);
        path.line_to(right, top);
        path.line_to(right, bottom);
        path.close();
    }
    path
}

/// Draws a vertical line at the rated erases, or an arrow towards them.
fn mark_rated(svg: &mut crate::markup::Element, plot: &Plot, rated: u64, is_near: bool, is_below: bool) {
    let count = number::fixed(rated as f64, 0);
    let (x, label) = match (is_near, is_below) {
        (true, _) => (plot.x_axis.x(rated as f64), format!("rated for {count}")),
        (false, true) => (plot.left(), format!("← rated for {count}")),
        (false, false) => (plot.right(), format!("rated for {count} →")),
    };
    if is_near {
        svg.push(svg::line((x, plot.top - 4.0), (x, plot.bottom())).class("rated"));
    }
    let anchor = if x.0 > 55.0 { Anchor::End } else { Anchor::Start };
    let dx = if anchor == Anchor::End { -4.0 } else { 4.0 };
    svg.push(svg::text(x, dx, plot.top - 6.0, anchor, label).class("remark"));
}

fn description(map: &WearMap, bins: &[Bin]) -> String {
    let mode = bins.iter().max_by_key(|bin| bin.used + bin.bad);
    let mode = mode.map_or(String::new(), |bin| {
        format!("; most blocks, {}, have {} erases", bin.used + bin.bad, bin.range())
    });
    format!("Histogram of erase counts: {}{mode}", super::wear_map::spread(map))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flashlab_lab::results::Erases;

    fn map(erase_counts: Vec<u32>, bad: Vec<u32>) -> WearMap {
        WearMap {
            name: "m".into(),
            block_bytes: 0,
            erase_counts,
            bad,
            rated_cycles: Some(3000),
            erases: Erases::default(),
        }
    }

    #[test]
    fn every_block_is_in_one_bin_and_bins_are_few() {
        for (least, greatest) in
            [(0, 0), (0, 1), (700, 770), (3, 10_000), (1, u32::MAX), (u32::MAX, u32::MAX)]
        {
            let bins = bins(&map(vec![least, greatest, least], vec![2]), BINS);
            assert!(bins.len() as u64 <= BINS + 1, "{least} to {greatest}: {} bins", bins.len());
            assert_eq!(bins.iter().map(|bin| bin.used).sum::<usize>(), 2);
            assert_eq!(bins.iter().map(|bin| bin.bad).sum::<usize>(), 1);
            assert!(bins[0].from <= least.into() && bins[bins.len() - 1].to >= greatest.into());
        }
    }

    #[test]
    fn rated_erases_are_marked_wherever_they_are() {
        for (counts, mark) in [
            (vec![2500, 3100], ">rated for 3,000<"),
            (vec![700, 710], ">rated for 3,000 →<"),
            (vec![90_000, 90_010], ">← rated for 3,000<"),
        ] {
            let text = figure(&map(counts.clone(), vec![])).svg.to_string();
            assert!(text.contains(mark), "{counts:?}");
        }
    }
}
