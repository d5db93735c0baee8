//! Histograms of fio's JSON: the `bins` of `--output-format=json+`, from which the percentiles of several clones of a
//! job follow.

use flashlab_sim::Histogram;
use serde_json::Value;
use std::collections::BTreeMap;

/// Counts of requests by the midpoint of their bucket in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bins(BTreeMap<u64, u64>);

impl Bins {
    /// Returns the sum of the histograms of all latencies, which are the objects that contain `bins`; `None` if one of
    /// them lacks its histogram.
    pub fn of<'a>(latencies: impl IntoIterator<Item = &'a Value>) -> Option<Bins> {
        let mut all = Bins::default();
        for latency in latencies {
            for (midpoint, count) in latency.get("bins")?.as_object()? {
                all.add(midpoint.parse().ok()?, count.as_u64()?);
            }
        }
        (!all.0.is_empty()).then_some(all)
    }

    /// Adds `count` requests to the bucket with this midpoint.
    pub fn add(&mut self, midpoint_ns: u64, count: u64) {
        let of_bucket = self.0.entry(midpoint_ns).or_default();
        *of_bucket = of_bucket.saturating_add(count);
    }

    /// Returns the midpoint of the bucket with the request at `percent` of all requests, as fio does; `None` without
    /// requests.
    pub fn percentile(&self, percent: f64) -> Option<u64> {
        let total: u64 = self.0.values().fold(0, |sum, count| sum.saturating_add(*count));
        let rank = Histogram::rank(total, percent);
        let mut seen = 0_u64;
        let reached = self.0.iter().find(|(_, count)| {
            seen = seen.saturating_add(**count);
            seen >= rank
        });
        reached.map(|(midpoint, _)| *midpoint)
    }
}

impl FromIterator<(u64, u64)> for Bins {
    fn from_iter<I: IntoIterator<Item = (u64, u64)>>(buckets: I) -> Bins {
        let mut all = Bins::default();
        buckets.into_iter().for_each(|(midpoint_ns, count)| all.add(midpoint_ns, count));
        all
    }
}
