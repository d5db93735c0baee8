//! Series over time on a terminal: one line each, with the least, mean, greatest and last value.

use super::lines::{Lined, Style, clean, layout, wrap};
use crate::{
    figure::{
        scale,
        series::{self, Bucket},
    },
    number,
};
use flashlab_lab::results::{Results, Series};

/// Characters of a line's bar chart, in a wide and in a narrow table.
const PICTURE: usize = 32;
const PICTURE_NARROW: usize = 12;

/// Returns all series of `results`, in the groups of [`series::groups`]. The bar charts of one group share a
/// scale that includes zero.
pub(super) fn text(results: &Results, style: Style) -> String {
    let groups = series::groups(results);
    if groups.is_empty() {
        return String::new();
    }
    let room = if style.width < super::WIDTH { PICTURE_NARROW } else { PICTURE };
    let is_narrow = style.width < super::WIDE;
    let (mut text, mut lines): (String, Lined) = Default::default();
    for group in &groups {
        let first = group[0];
        let mut title = style.bold(clean(&first.name));
        let mut more = String::new();
        for word in [&first.step, &first.unit] {
            if !word.is_empty() {
                more += &format!(", {}", clean(word));
            }
        }
        if !first.x_unit.is_empty() {
            more += &format!(" over {}", clean(&first.x_unit));
        }
        title += &style.dim(more);
        let heads = ["min", "mean", "max", "last"].map(|word| style.dim(word));
        if is_narrow {
            text += &format!("{}\n", wrap(&title, style.width));
            title = String::new();
        }
        lines.push([vec![title, String::new()], heads.to_vec()].concat());
        let all: Vec<Vec<(f64, f64)>> = group.iter().map(|series| series::points(series)).collect();
        let ends = scale::ends(all.iter().flatten().map(|(_, y)| *y).chain([0.0])).unwrap_or((0.0, 0.0));
        lines.extend(group.iter().zip(&all).map(|(series, points)| line(series, points, ends, room)));
        lines.push(vec![String::new(); 6]);
        if is_narrow {
            text += &layout(std::mem::take(&mut lines), &[true; 6], &[2, 3, 4, 5], style.width);
        }
    }
    if is_narrow { text } else { layout(lines, &[true; 6], &[2, 3, 4, 5], style.width) }
}

fn line(series: &Series, points: &[(f64, f64)], ends: (f64, f64), room: usize) -> Vec<String> {
    let name = if series.column.is_empty() { &series.name } else { &series.column };
    let mut line = vec![format!("  {}", clean(name)), picture(&series::buckets(points, room), ends)];
    let whole = series::buckets(points, 1).first().copied();
    let last = points.last().map(|(_, y)| *y);
    let values = [whole.map(|b| b.least), whole.map(|b| b.mean), whole.map(|b| b.greatest), last];
    line.extend(values.map(|value| value.map_or(number::NONE.into(), number::exact)));
    line
}

/// Returns the means of the buckets as bars between `ends`.
fn picture(buckets: &[Bucket], (least, greatest): (f64, f64)) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let bar = |bucket: &Bucket| {
        let fraction = (bucket.mean - least) / (greatest - least);
        let i = if fraction.is_nan() { 0.0 } else { (fraction * 7.0).round().clamp(0.0, 7.0) };
        BARS[i as usize]
    };
    buckets.iter().map(bar).collect()
}
