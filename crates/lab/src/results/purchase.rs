//! Choices of drives for one size of the hot set.

use serde::Serialize;
use std::collections::BTreeMap;

/// Options of drives and targets for one size of the hot set. The other options are compared with the first
/// one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Purchase {
    /// Size of the hot set in GB.
    pub hot_gb: u64,
    /// Smallest acceptable share of the first option's requests per second.
    pub acceptable_share: f64,
    /// Options, in the order of the experiment.
    pub options: Vec<PurchaseOption>,
}

/// Drives with targets, and the predictions for them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PurchaseOption {
    /// Name.
    pub name: String,
    /// Price in USD.
    pub usd: f64,
    /// Size of each drive in GB; zero for a drive that is not needed.
    pub drives_gb: BTreeMap<String, u64>,
    /// Requests per second without pauses.
    pub burst_iops: f64,
    /// Mean latency of a read in milliseconds.
    pub read_mean_ms: f64,
    /// 99th percentile of the latency of reads in milliseconds.
    pub read_p99_ms: f64,
    /// 99th percentile of the latency of writes in milliseconds.
    pub write_p99_ms: f64,
    /// Bytes written to each drive per byte that clients write.
    pub written: BTreeMap<String, f64>,
}

impl Purchase {
    /// Returns the requests per second of an option as a share of those of the first option.
    pub fn share(&self, option: &PurchaseOption) -> f64 {
        self.options.first().map_or(0.0, |first| option.burst_iops / first.burst_iops)
    }

    /// Returns the cheapest option with an acceptable share of the requests per second of the first option.
    /// Of options at the same price, returns the fastest.
    pub fn best(&self) -> Option<&PurchaseOption> {
        let is_acceptable = |option: &&PurchaseOption| self.share(option) >= self.acceptable_share;
        let order = |a: &&PurchaseOption, b: &&PurchaseOption| {
            a.usd.total_cmp(&b.usd).then(b.burst_iops.total_cmp(&a.burst_iops))
        };
        self.options.iter().filter(is_acceptable).min_by(order)
    }

    /// Returns the choice in a sentence: the drives, and their price and speed compared with those of the
    /// first option.
    pub fn sentence(&self) -> String {
        let (Some(best), Some(first)) = (self.best(), self.options.first()) else {
            return format!("Hot set of {} GB: no option.", self.hot_gb);
        };
        let needed = best.drives_gb.iter().filter(|(_, gb)| **gb > 0);
        let drives: Vec<String> = needed.map(|(drive, gb)| format!("{gb} GB of {drive}")).collect();
        let drives = drives.join(" and ");
        let text = format!("Hot set of {} GB: {}, {drives}, {:.0} USD", self.hot_gb, best.name, best.usd);
        if best.name == first.name {
            let share = 100.0 * self.acceptable_share;
            return format!("{text}. No cheaper option reaches {share:.0} % of its requests per second.");
        }
        format!(
            "{text}: {:.0} % of the requests per second of \"{}\" for {:.0} % of its price.",
            100.0 * self.share(best),
            first.name,
            100.0 * best.usd / first.usd
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn option(name: &str, usd: f64, burst_iops: f64) -> PurchaseOption {
        PurchaseOption {
            name: name.into(),
            usd,
            drives_gb: [("ssd".into(), 128), ("stick".into(), 0)].into(),
            burst_iops,
            read_mean_ms: 1.0,
            read_p99_ms: 1.0,
            write_p99_ms: 1.0,
            written: BTreeMap::new(),
        }
    }

    #[test]
    fn the_cheapest_acceptable_option_is_chosen_and_compared_with_the_first_one() {
        let options = vec![
            option("all on the SSD", 60.0, 1000.0),
            option("tiers", 40.0, 600.0),
            option("cache", 40.0, 700.0),
            option("slow", 30.0, 499.0),
        ];
        let mut purchase = Purchase { hot_gb: 64, acceptable_share: 0.5, options };
        assert_eq!(
            purchase.sentence(),
            "Hot set of 64 GB: cache, 128 GB of ssd, 40 USD: 70 % of the requests per second of \"all on the SSD\" for 67 % of its price."
        );
        purchase.acceptable_share = 0.8;
        assert_eq!(
            purchase.sentence(),
            "Hot set of 64 GB: all on the SSD, 128 GB of ssd, 60 USD. No cheaper option reaches 80 % of its requests per second."
        );
        purchase.acceptable_share = 0.4;
        assert_eq!(purchase.best().map(|best| best.name.as_str()), Some("slow"));
    }
}
