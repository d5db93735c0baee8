//! Histogram of latencies: one bar for each step of 1, 2 and 5 in every decade of latency.

use super::{
    Figure, Labels,
    mark::{self, mark},
};
use crate::number;
use crate::svg::{self, Anchor, Percent};
use flashlab_lab::figures::JobFigures;

const BAR: f64 = 12.0;
const GAP: f64 = 4.0;
const TOP: f64 = 2.0;
/// Right end of the longest bar, in percent of the width; the numbers are right of it.
const RIGHT: f64 = 78.0;

/// The number of requests whose latency is in a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Bin {
    from_ns: u64,
    to_ns: u64,
    count: u64,
}

/// Returns the histogram of one direction of a job on `device`.
pub(crate) fn figure(device: &str, job: &JobFigures) -> Figure {
    let bins = bins(&job.latency.histogram_ns);
    let names: Vec<String> =
        bins.iter().map(|bin| number::duration_range_ns(bin.from_ns, bin.to_ns)).collect();
    let labels = Labels::of(names.iter().map(String::as_str));
    let left = labels.left().0;
    let height = TOP + bins.len() as f64 * (BAR + GAP);
    let title = format!("{device}: {}, {}", job.job, job.direction);
    let mut svg = mark::drawing(height, &title, "Number of requests by completion latency");
    let most = bins.iter().map(|bin| bin.count).max().unwrap_or(1).max(1);
    let all = job.requests.max(1) as f64;
    let mut y = TOP;
    for (bin, name) in bins.iter().zip(&names) {
        labels.draw(&mut svg, name, y, BAR);
        let width = Percent((RIGHT - left) * bin.count as f64 / most as f64);
        let share = number::share(bin.count as f64 / all);
        let label = format!("{} ({share})", number::fixed(bin.count as f64, 0));
        let mut group = mark("", name, format!("{title}, {name}: {label}"));
        group.push(svg::rect(Percent(left), y, width, BAR).class("solid s0"));
        let end = Percent(left + width.0);
        group.push(svg::text(end, 5.0, y + BAR - 2.0, Anchor::Start, label).class("value"));
        svg.push(group);
        y += BAR + GAP;
    }
    let subtitle =
        format!("requests by completion latency; {} in all", number::fixed(job.requests as f64, 0));
    Figure { title, subtitle, height, svg, legend: vec![] }
}

/// Returns the ranges from the first to the last with a request.
fn bins(histogram: &[(u64, u64)]) -> Vec<Bin> {
    let mut bins: Vec<Bin> = vec![];
    let (mut from_ns, mut decade) = (0, 1_u64);
    while decade <= 1_000_000_000_000 {
        for step in [1, 2, 5] {
            let to_ns = decade * step;
            let within = histogram.iter().filter(|(ns, _)| (from_ns..to_ns).contains(ns));
            bins.push(Bin { from_ns, to_ns, count: within.map(|(_, count)| count).sum() });
            from_ns = to_ns;
        }
        decade *= 10;
    }
    let first = bins.iter().position(|bin| bin.count > 0).unwrap_or(0);
    let last = bins.iter().rposition(|bin| bin.count > 0).map_or(0, |last| last + 1);
    bins[first..last.max(first)].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_is_in_one_range_and_empty_ends_are_left_out() {
        let bins = bins(&[(150_000, 3), (199_999, 4), (200_000, 1), (3_000_000, 2)]);
        let counts: Vec<(u64, u64, u64)> =
            bins.iter().map(|bin| (bin.from_ns / 1_000, bin.to_ns / 1_000, bin.count)).collect();
        assert_eq!(
            counts,
            [(100, 200, 7), (200, 500, 1), (500, 1_000, 0), (1_000, 2_000, 0), (2_000, 5_000, 2)]
        );
        assert!(super::bins(&[]).is_empty());
    }
}
