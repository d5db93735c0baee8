//! Measured quantities, and the words for them in files.

use flashlab_fio::stats::DirectionStats;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A quantity with its unit. In files, a word names it: `iops`, `bytes_per_second`, `latency_ns_mean`,
/// `latency_ns_p99.9`, `latency_ns_max`.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Quantity {
    /// Requests per second.
    Iops,
    /// Bytes per second.
    BytesPerSecond,
    /// Mean completion latency in nanoseconds.
    LatencyMean,
    /// Percentile of the completion latency in nanoseconds; the number is above 0 and below 100.
    LatencyPercentile(f64),
    /// Longest completion latency in nanoseconds.
    LatencyMax,
}

/// Error for a word that names no quantity.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownQuantity(String);

impl fmt::Display for UnknownQuantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "unknown quantity `{}`: expected iops, bytes_per_second, latency_ns_mean, latency_ns_max, or a percentile \
             such as latency_ns_p99.9",
            self.0
        )
    }
}

impl std::error::Error for UnknownQuantity {}

impl Quantity {
    /// Returns the value of the quantity for one direction of a job. Rates use the exact runtime, not fio's whole
    /// milliseconds: a short step on a fast device takes only a few milliseconds. A rate is 0 if the run took no time.
    pub fn of(self, stats: &DirectionStats) -> f64 {
        let seconds = stats.runtime.as_ns() as f64 / 1e9;
        let rate = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
        match self {
            Quantity::Iops => rate(stats.total_ios()),
            Quantity::BytesPerSecond => rate(stats.io_bytes),
            Quantity::LatencyMean => stats.clat.mean_ns(),
            Quantity::LatencyPercentile(percent) => stats.clat.percentile(percent).as_ns() as f64,
            Quantity::LatencyMax => stats.clat.max().as_ns() as f64,
        }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Quantity::Iops => f.write_str("iops"),
            Quantity::BytesPerSecond => f.write_str("bytes_per_second"),
            Quantity::LatencyMean => f.write_str("latency_ns_mean"),
            Quantity::LatencyPercentile(percent) => write!(f, "latency_ns_p{percent}"),
            Quantity::LatencyMax => f.write_str("latency_ns_max"),
        }
    }
}

impl FromStr for Quantity {
    type Err = UnknownQuantity;
    fn from_str(word: &str) -> Result<Self, UnknownQuantity> {
        let unknown = || UnknownQuantity(word.to_owned());
        match word {
            "iops" => Ok(Quantity::Iops),
            "bytes_per_second" => Ok(Quantity::BytesPerSecond),
            "latency_ns_mean" => Ok(Quantity::LatencyMean),
            "latency_ns_max" => Ok(Quantity::LatencyMax),
            _ => {
                let percent = word.strip_prefix("latency_ns_p").ok_or_else(unknown)?;
                let percent: f64 = percent.parse().map_err(|_| unknown())?;
                let is_percentile = percent > 0.0 && percent < 100.0;
                is_percentile.then_some(Quantity::LatencyPercentile(percent)).ok_or_else(unknown)
            }
        }
    }
}

impl From<Quantity> for String {
    fn from(quantity: Quantity) -> String {
        quantity.to_string()
    }
}

impl TryFrom<String> for Quantity {
    type Error = UnknownQuantity;
    fn try_from(word: String) -> Result<Self, UnknownQuantity> {
        word.parse()
    }
}
