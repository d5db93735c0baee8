//! Live measurements as ratios within their own run: published and measured.
//!
//! Absolute figures of two machines are not comparable; ratios of a row to the reference row of the same run are. The
//! whisker of a measured bar extends from the least to the greatest repeat.

use super::{Figure, Key, Labels, scale::Scale};
use crate::live::{Page, Row};
use crate::number;
use crate::svg::{self, Anchor, Percent};

/// Vertical distances in pixels: a bar, the gap between bars, a row without its name, and the space above and below
/// all rows.
const BAR: f64 = 10.0;
const GAP: f64 = 1.5;
const ROW: f64 = 2.0 * BAR + GAP + 12.0;
const TOP: f64 = 8.0;
const AXIS: f64 = 24.0;
/// Left and right edge of the plot, in percent of the width; the numbers are right of it.
const LEFT: Percent = Percent(0.5);
const RIGHT: f64 = 88.0;

/// Returns the name of a row and the way in which its device is attached.
fn name(row: &Row) -> String {
    match &*row.attached {
        "" => row.name.clone(),
        attached => format!("{} ({attached})", row.name),
    }
}

/// Returns the figure of a page's rows.
pub(crate) fn figure(page: &Page<'_>) -> Figure {
    let all = page.rows.iter().flat_map(|row| row.ratio.iter().chain(&row.published_ratio).copied());
    let tops = page.rows.iter().filter_map(|row| row.spread.map(|(_, most)| most));
    let scale = Scale::from_zero(all.chain(tops));
    let x = |value: f64| Percent(LEFT.0 + scale.fraction(value) * (RIGHT - LEFT.0));
    // Names are too long for a gutter, and too similar to be truncated.
    let names: Vec<String> = page.rows.iter().map(name).collect();
    let above: f64 = names.iter().map(|name| Labels::Above.height(name)).sum();
    let height = TOP + above + ROW * page.rows.len() as f64 + AXIS;
    let title = format!("Throughput of each row, as a share of {}", page.reference);
    let mut svg = svg::drawing(height, &title, "Published and measured; the same figures follow as a table");
    for (value, label) in scale.ticks() {
        svg.push(svg::line((x(value), TOP), (x(value), height - AXIS)).class("grid"));
        svg.push(svg::text(x(value), 0.0, height - 8.0, Anchor::Middle, label).class("tick"));
    }
    let mut top = TOP + 5.0;
    for (row, name) in page.rows.iter().zip(&names) {
        top += Labels::Above.height(name);
        Labels::Above.draw(&mut svg, name, top, 0.0);
        let bars = [(row.published_ratio, "published", "solid s5"), (row.ratio, "measured", "solid s0")];
        for (place, (ratio, what, class)) in bars.into_iter().enumerate() {
            let y = top + place as f64 * (BAR + GAP);
            let mut group = svg::named(format!("{}, {what}", row.name));
            let mut end = x(ratio.unwrap_or(0.0));
            if let Some(ratio) = ratio {
                group.push(svg::rect(x(0.0), y, Percent(x(ratio).0 - x(0.0).0), BAR).class(class));
            }
            if let (Some((least, most)), "measured") = (row.spread, what)
                && least < most
            {
                let middle = y + BAR / 2.0;
                group.push(svg::line((x(least), middle), (x(most), middle)).class("halo"));
                group.push(svg::line((x(least), middle), (x(most), middle)).class("whisker"));
                end = Percent(end.0.max(x(most).0));
            }
            let label = match (ratio, what) {
                (Some(ratio), _) => number::significant(ratio, 2),
                (None, "published") => "not published".to_owned(),
                (None, _) => "not measured".to_owned(),
            };
            group.push(svg::text(end, 5.0, y + BAR - 1.5, Anchor::Start, label).class("value"));
            svg.push(group);
        }
        top += ROW;
    }
    svg.push(svg::line((x(0.0), TOP), (x(0.0), height - AXIS)).class("axis"));
    let legend = vec![
        Key::swatch("solid s5", None, "published"),
        Key::swatch("solid s0", None, "measured in this run; the line spans all repeats"),
    ];
    let subtitle = "reads and writes together; 1 is the reference row of the same run".to_owned();
    Figure { title, subtitle, height, svg, legend }
}
