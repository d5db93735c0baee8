//! The erase blocks of a device as a heat map: one cell per block, row by row in the order of their numbers.
//!
//! The colours extend from zero to the greatest count of the map in `LEVELS` perceptually even steps. The
//! colours differ mainly in lightness, so they are readable in grey and with any colour vision. A bad block
//! has a colour outside the scale and an outline. All cells of a step are one path of runs, so the drawing
//! has a dozen elements for any number of blocks. A device with more than `CELLS_MAX` blocks shows the most
//! worn of several neighbours in one cell, and its caption says so.

use super::{Figure, Key};
use crate::{
    markup::{Element, element},
    number::{self, plural},
    svg::{self, Anchor, Percent},
};
use flashlab_lab::results::{Results, WearMap};

/// Number of steps of the scale: 0, a tenth, two tenths, ..., all of the greatest count.
pub(crate) const LEVELS: usize = 11;

/// Maximum number of cells.
const CELLS_MAX: usize = 65_536;

/// Number of cells with a bad block up to which a ring marks each such cell.
const RINGS_MAX: usize = 48;

/// Maximum heights of the map and of a row, the space above the map, and the height of the scale below it, in pixels.
/// The left and right edge are in percent of the width.
const MAP: f64 = 256.0;
const ROW_MAX: f64 = 12.0;
const TOP: f64 = 2.0;
const LEFT: f64 = 13.0;
const RIGHT: f64 = 99.5;
const SCALE: f64 = 46.0;

/// Returns one figure for each map of `results`.
pub fn figures(results: &Results) -> Vec<Figure> {
    results.wear.iter().map(figure).collect()
}

/// The blocks of a device as cells.
pub(crate) struct Cells {
    /// Number of erase blocks per cell.
    pub(crate) blocks: usize,
    /// Count of the most worn block of each cell; `None` if one of its blocks is bad.
    pub(crate) counts: Vec<Option<u32>>,
    /// The greatest count.
    pub(crate) greatest: u32,
}

/// Groups the blocks of `map` into at most `cells_max` cells.
pub(crate) fn cells(map: &WearMap, cells_max: usize) -> Cells {
    let blocks = map.erase_counts.len().div_ceil(cells_max.max(1)).max(1);
    let mut counts: Vec<Option<u32>> =
        map.erase_counts.chunks(blocks).map(|counts| counts.iter().copied().max()).collect();
    for bad in &map.bad {
        let cell = usize::try_from(*bad).ok().and_then(|bad| counts.get_mut(bad / blocks));
        if let Some(cell) = cell {
            *cell = None;
        }
    }
    Cells { blocks, counts, greatest: map.erase_counts.iter().copied().max().unwrap_or(0) }
}

/// Returns, for each block of `map`, true if the block is bad.
pub(crate) fn bad_flags(map: &WearMap) -> Vec<bool> {
    let mut flags = vec![false; map.erase_counts.len()];
    for block in &map.bad {
        if let Some(flag) = usize::try_from(*block).ok().and_then(|block| flags.get_mut(block)) {
            *flag = true;
        }
    }
    flags
}

/// Returns the step of the scale that is nearest to a count.
pub(crate) fn level(count: u32, greatest: u32) -> usize {
    let (count, greatest) = (u64::from(count.min(greatest)), u64::from(greatest.max(1)));
    ((count * (LEVELS as u64 - 1) + greatest / 2) / greatest) as usize
}

/// Returns the number of cells per row: a power of two for which the map is about twice as wide as high and the cells
/// are visible.
pub(crate) fn columns(cells: usize) -> usize {
    let wanted = (2.0 * cells as f64).sqrt();
    [8, 16, 32, 64, 128].into_iter().find(|columns| *columns as f64 >= wanted).unwrap_or(if cells > 32_768 {
        256
    } else {
        128
    })
}

pub(crate) fn figure(map: &WearMap) -> Figure {
    let cells = cells(map, CELLS_MAX);
    let columns = columns(cells.counts.len());
    let rows = cells.counts.len().div_ceil(columns);
    let row = (MAP / rows.max(1) as f64).floor().clamp(1.0, ROW_MAX);
    let height = TOP + row * rows as f64;
    let unusable = cells.counts.iter().filter(|count| count.is_none()).count();
    let mut svg = svg::drawing(height + SCALE, &format!("{}: map", map.name), &description(map));

    // The last row may be shorter than the others.
    let whole = svg::rect(Percent(LEFT), TOP, Percent(RIGHT - LEFT), row * rows as f64);
    svg.push(whole.class("band"));
    let runs = runs(&cells, columns);
    let mut canvas = element("svg")
        .attr("aria-hidden", "true")
        .attr("x", Percent(LEFT))
        .attr("y", TOP)
        .attr("width", Percent(RIGHT - LEFT))
        .attr("height", row * rows as f64)
        .attr("viewBox", format!("0 0 {columns} {}", rows.max(1)))
        .attr("preserveAspectRatio", "none");
    for (level, path) in runs.levels.into_iter().enumerate().filter(|(_, path)| !path.is_empty()) {
        let blocks =
            cells.counts.iter().flatten().filter(|c| self::level(**c, cells.greatest) == level).count();
        let name = format!("{} erases: {}", range(level, cells.greatest), plural(blocks, "cell"));
        let path = element("path").class(format!("blocks h{level}")).attr("d", path);
        canvas.push(svg::named(name).child(path));
    }
    if !runs.unusable.is_empty() {
        let name = format!("out of use: {}", plural(map.bad.len(), "block"));
        let path = element("path").class("unusable").attr("d", runs.unusable);
        canvas.push(svg::named(name).child(path));
    }
    svg.push(canvas);
    ring(&mut svg, map, &cells, columns, row);
    label_rows(&mut svg, columns * cells.blocks, rows, row);
    scale(&mut svg, cells.greatest, height);

    let mut legend = vec![];
    if unusable > 0 {
        legend.push(Key::swatch("unusable", None, format!("out of use: {}", map.bad.len())));
    }
    let title = format!("{}: map", map.name);
    Figure { title, subtitle: subtitle(map, &cells), height: height + SCALE, svg, legend }
}

fn subtitle(map: &WearMap, cells: &Cells) -> String {
    let blocks = plural(map.erase_counts.len(), "erase block");
    let mut text = match map.block_bytes {
        0 => blocks,
        bytes => format!("{blocks} of {}", number::bytes(bytes)),
    };
    if cells.blocks > 1 {
        text += &format!("; a cell shows the most worn of {} neighbouring blocks", cells.blocks);
    }
    text
}

/// Returns the spread of the counts: `mean 742.1 erases, 731 to 760, standard deviation 4.2`.
pub(crate) fn spread(map: &WearMap) -> String {
    let erases = &map.erases;
    let count = |n: u32| number::fixed(f64::from(n), 0);
    format!(
        "mean {} erases, {} to {}, standard deviation {}",
        number::exact(erases.mean),
        count(erases.min),
        count(erases.max),
        number::compact(erases.sd)
    )
}

fn description(map: &WearMap) -> String {
    format!(
        "Erase counts of {}: {}; {} out of use",
        plural(map.erase_counts.len(), "erase block"),
        spread(map),
        map.bad.len()
    )
}

/// Returns the range of counts of a step.
fn range(level: usize, greatest: u32) -> String {
    let (last, greatest) = (LEVELS as u64 - 1, u64::from(greatest));
    let count = |n: u64| number::fixed(n as f64, 0);
    // The first count that `level` rounds to this step.
    let first = |level: usize| ((level as u64 * greatest).saturating_sub(greatest / 2)).div_ceil(last);
    let (from, to) =
        (first(level), if level as u64 == last { greatest } else { first(level + 1).saturating_sub(1) });
    if from >= to { count(from) } else { format!("{} to {}", count(from), count(to)) }
}

/// Runs of equal cells, as paths in units of a cell.
struct Runs {
    /// Strokes along the centre of the row, by step.
    levels: Vec<String>,
    /// Rectangles of cells with a bad block.
    unusable: String,
}

fn runs(cells: &Cells, columns: usize) -> Runs {
    let mut runs = Runs { levels: vec![String::new(); LEVELS], unusable: String::new() };
    for (y, row) in cells.counts.chunks(columns).enumerate() {
        let step = |count: &Option<u32>| count.map(|count| level(count, cells.greatest));
        let mut x = 0;
        for run in row.chunk_by(|a, b| step(a) == step(b)) {
            let length = run.len();
            match step(&run[0]) {
                Some(level) => runs.levels[level] += &format!("M{x} {y}.5h{length}"),
                None => runs.unusable += &format!("M{x} {y}h{length}v1h-{length}Z"),
            }
            x += length;
        }
    }
    runs
}

/// Draws a ring around each cell with a bad block, if such cells are so few that a reader could overlook
/// them.
fn ring(svg: &mut Element, map: &WearMap, cells: &Cells, columns: usize, row: f64) {
    let unusable = || cells.counts.iter().enumerate().filter(|(_, count)| count.is_none());
    if unusable().count() > RINGS_MAX {
        return;
    }
    for (cell, _) in unusable() {
        let x = LEFT + ((cell % columns) as f64 + 0.5) * (RIGHT - LEFT) / columns as f64;
        let y = TOP + ((cell / columns) as f64 + 0.5) * row;
        let blocks = cell * cells.blocks..(cell + 1) * cells.blocks;
        let bad = map.bad.iter().find(|bad| usize::try_from(**bad).is_ok_and(|bad| blocks.contains(&bad)));
        let bad = bad.copied().unwrap_or(0);
        let erases =
            usize::try_from(bad).ok().and_then(|bad| map.erase_counts.get(bad)).copied().unwrap_or(0);
        let count = |n: u32| number::fixed(f64::from(n), 0);
        let name = format!("block {} is out of use after {}", count(bad), plural(erases as usize, "erase"));
        let circle = |class| element("circle").class(class).attr("r", 6.5);
        svg.push(svg::symbol(Percent(x), y, name).child(circle("ring-halo")).child(circle("ring-bad")));
    }
}

/// Labels some rows, at the left, with the number of their first block.
fn label_rows(svg: &mut Element, blocks_a_row: usize, rows: usize, row: f64) {
    let stride = (18.0 / row).ceil().max(1.0) as usize;
    let stride = stride.next_power_of_two();
    for i in (0..rows).step_by(stride) {
        let y = TOP + i as f64 * row + row.min(10.0) / 2.0 + 4.0;
        let label = number::fixed((i * blocks_a_row) as f64, 0);
        svg.push(svg::text(Percent(LEFT), -6.0, y.max(9.0), Anchor::End, label).class("tick"));
    }
}

/// Draws the colours from zero to the greatest count, and labels some of them with their counts.
fn scale(svg: &mut Element, greatest: u32, top: f64) {
    let width = (RIGHT - LEFT) / LEVELS as f64;
    for level in 0..LEVELS {
        let x = Percent(LEFT + level as f64 * width);
        let rect = svg::rect(x, top + 12.0, Percent(width), 10.0).class(format!("heat h{level}"));
        svg.push(svg::named(format!("{} erases", range(level, greatest))).child(rect));
    }
    let last = LEVELS - 1;
    let label = |level: usize| number::fixed(level as f64 / last as f64 * f64::from(greatest), 0);
    let end = plural(greatest as usize, "erase");
    svg.push(svg::text(Percent(LEFT), 0.0, top + 36.0, Anchor::Start, label(0)).class("tick"));
    if greatest as usize >= last {
        let middle = Percent(LEFT + (last as f64 / 2.0 + 0.5) * width);
        svg.push(svg::text(middle, 0.0, top + 36.0, Anchor::Middle, label(last / 2)).class("tick"));
    }
    svg.push(svg::text(Percent(RIGHT), 0.0, top + 36.0, Anchor::End, end).class("tick"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use flashlab_lab::results::Erases;

    fn map(erase_counts: Vec<u32>, bad: Vec<u32>) -> WearMap {
        WearMap {
            name: "m".into(),
            block_bytes: 4 << 20,
            erase_counts,
            bad,
            rated_cycles: None,
            erases: Erases::default(),
        }
    }

    #[test]
    fn each_count_lies_in_the_range_of_its_step() {
        for greatest in [0, 1, 2, 7, 10, 11, 12, 99, 3000, u32::MAX] {
            let counts: Vec<u32> =
                if greatest < 5000 { (0..=greatest).collect() } else { vec![0, 1, greatest / 3, greatest] };
            for count in counts {
                let level = level(count, greatest);
                let range = range(level, greatest).replace(',', "");
                let (from, to) = range.split_once(" to ").unwrap_or((&range, &range));
                let (from, to): (u32, u32) = (from.parse().expect("a count"), to.parse().expect("a count"));
                assert!(from <= count && count <= to, "{count} of {greatest} in {range}");
            }
        }
        assert_eq!((level(0, 10_000), level(10_000, 10_000)), (0, LEVELS - 1));
    }

    #[test]
    fn equal_neighbours_are_one_run() {
        let cells = cells(&map([vec![9; 8], vec![0; 20]].concat(), vec![8, 9]), CELLS_MAX);
        let runs = runs(&cells, 8);
        assert_eq!(runs.levels[LEVELS - 1], "M0 0.5h8");
        assert_eq!(runs.levels[0], "M2 1.5h6M0 2.5h8M0 3.5h4");
        assert_eq!(runs.unusable, "M0 1h2v1h-2Z");
    }

    #[test]
    fn a_cell_of_several_blocks_shows_the_most_worn_block_or_a_block_out_of_use() {
        let cells = cells(&map(vec![1, 2, 3, 4, 5, 6, 7], vec![5, 900]), 3);
        assert_eq!((cells.blocks, cells.counts), (3, vec![Some(3), None, Some(7)]));
    }

    #[test]
    fn sixteen_thousand_blocks_take_few_elements() {
        let counts = (0..16_384u32).map(|i| i.wrapping_mul(2_654_435_761) >> 20).collect();
        let text = figure(&map(counts, vec![])).svg.to_string();
        assert!(text.matches("<path").count() <= LEVELS && text.matches('<').count() < 200);
        assert!(text.len() < 300_000, "{}", text.len());
    }
}
