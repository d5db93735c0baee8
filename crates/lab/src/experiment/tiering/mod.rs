//! Experiments of kind `tiering`: one volume over a fast and a slow drive, for several sets of targets and hot sets.
//!
//! ```toml
//! kind = "tiering"
//! [columns]                     # the two drives
//! ssd = "nvme/p32a80"
//! stick = "usb/usb3-1"
//! [tiering]
//! data_gb = 512                 # data on the volume
//! hot_gb = [16, 64, 256]        # sizes of the hot set: one run of each layout for each
//! gb_per_mib = 2                # scale: GB of the server for each MiB that is simulated
//! fast = "ssd"
//! slow = "stick"
//! acceptable_share = 0.5        # share of the first layout's requests per second that a user accepts
//! [tiering.usd_per_gb]
//! ssd = 0.10
//! stick = 0.05
//! source = "..."
//! [tiering.load]
//! request_kib = 16
//! read_percent = 70
//! hot_percent = 95              # share of the requests that go to the hot set
//! clients = 4
//! think_ms = 10                 # mean pause of a client between two requests
//! warm_up = 12000               # requests before the measurement
//! paced = 6000                  # requests with pauses, whose latencies are measured
//! burst = 4000                  # requests without pauses, whose rate is measured
//! flush_every = 32              # writes of a client between two flushes
//! [[tiering.layout]]            # the other layouts are compared with the first one
//! name = "all on the SSD"
//! fast_gb = 640
//! [[tiering.layout]]
//! name = "SSD before the stick"
//! fast_gb = 128
//! slow_gb = 640
//! foreground = "fast"           # targets are "fast", "slow" or nothing
//! background = "slow"
//! promote = "fast"
//! metadata = "fast"
//! [[tiering.layout]]
//! name = "SSD as a read cache"
//! ...
//! cache_only = true             # the SSD has durability 0: its loss loses no data
//! ```
//!
//! | table | unit | cell, in the row of a hot set and the column of a layout |
//! |---|---|---|
//! | `burst` | IOPS | requests per second without pauses |
//! | `read mean`, `read p99`, `write mean`, `write p99` | ms | latencies of the requests with pauses; a write before a flush includes the flush |
//! | `written to ssd`, `written to stick` | ratio | bytes that the volume writes to the drive per byte that clients write |
//! | `programmed in ssd`, `programmed in stick` | ratio | bytes that the drive programs per byte that clients write |
//! | `price` | USD | sum over both drives of size times price per GB |
//!
//! Charts over the size of the hot set show the burst, the latencies of reads, the bytes, and the price for each 1,000
//! requests per second of a burst.
//!
//! The clients choose each request at random, either in the hot set, which is one range, or in the other
//! data. Warm-up, requests with pauses and the burst follow one another, while the volume's background work
//! runs as in a server. Before the warm-up, all data is written and moved to the background. There are no
//! published figures.

mod choose;
#[cfg(feature = "volume")]
mod simulate;

pub(super) use choose::curves;
#[cfg(feature = "volume")]
pub(super) use simulate::run;

use serde::Deserialize;
use std::collections::BTreeMap;

/// Sizes, prices, load and layouts of an experiment.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Data on the volume in GB.
    pub data_gb: u64,
    /// Sizes of the hot set in GB, ascending.
    pub hot_gb: Vec<u64>,
    /// Gigabytes of the server for each MiB that is simulated.
    pub gb_per_mib: u64,
    /// Column of the fast drive.
    pub fast: String,
    /// Column of the slow drive.
    pub slow: String,
    /// Smallest share of the first layout's requests per second that a user accepts.
    pub acceptable_share: f64,
    /// Prices.
    pub usd_per_gb: Prices,
    /// Requests of the clients.
    pub load: Load,
    /// Layouts in order.
    #[serde(rename = "layout")]
    pub layouts: Vec<Layout>,
}

/// Prices of the drives in USD for each GB, by their columns.
#[derive(Clone, Debug, Deserialize)]
pub struct Prices {
    /// Origin of the prices.
    pub source: String,
    /// The prices.
    #[serde(flatten)]
    pub drives: BTreeMap<String, f64>,
}

/// Requests of the clients.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// Length of a request in KiB.
    pub request_kib: u64,
    /// Share of reads in percent.
    pub read_percent: u64,
    /// Share of the requests to the hot set in percent.
    pub hot_percent: u64,
    /// Number of clients, each with one request in flight.
    pub clients: u32,
    /// Mean pause of a client between two requests, in milliseconds.
    pub think_ms: u64,
    /// Number of requests before the measurement.
    pub warm_up: u64,
    /// Number of requests with pauses.
    pub paced: u64,
    /// Number of requests without pauses.
    pub burst: u64,
    /// Number of writes of a client between two flushes.
    pub flush_every: u64,
}

/// A choice of drives and targets.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layout {
    /// Name in tables.
    pub name: String,
    /// Size of the fast drive in GB; zero for none.
    #[serde(default)]
    pub fast_gb: u64,
    /// Size of the slow drive in GB; zero for none.
    #[serde(default)]
    pub slow_gb: u64,
    /// Drive for new data: `fast`, `slow`, or nothing.
    #[serde(default)]
    pub foreground: String,
    /// Drive to which data moves in the background.
    #[serde(default)]
    pub background: String,
    /// Drive for cached copies.
    #[serde(default)]
    pub promote: String,
    /// Drive for the journal and the checkpoints.
    #[serde(default)]
    pub metadata: String,
    /// True if the fast drive holds only copies, so that its failure loses no data.
    #[serde(default)]
    pub cache_only: bool,
}

impl Settings {
    /// Returns the price of the drives of a layout.
    #[cfg(feature = "volume")]
    fn usd(&self, layout: &Layout) -> f64 {
        let price = |column: &str| self.usd_per_gb.drives.get(column).copied().unwrap_or(0.0);
        layout.fast_gb as f64 * price(&self.fast) + layout.slow_gb as f64 * price(&self.slow)
    }

    /// Returns the name of the row of a hot set.
    fn row(hot_gb: u64) -> String {
        format!("{hot_gb} GB hot")
    }

    /// Returns the simulated size in MiB of a size in GB.
    #[cfg(feature = "volume")]
    fn mib(&self, gb: u64) -> u64 {
        gb / self.gb_per_mib
    }
}

/// Maximum amount of data on a simulated volume, in MiB. The simulation holds all of it in memory.
const MIB_MAX: u64 = 4096;

/// Checks the settings. The error text is a complete message.
pub(super) fn check(settings: &Settings, has_column: impl Fn(&str) -> bool) -> Result<(), String> {
    let Settings { data_gb, hot_gb, gb_per_mib, fast, slow, layouts, .. } = settings;
    if let Some(missing) = [fast, slow].into_iter().find(|column| !has_column(column)) {
        return Err(format!("[tiering]: {missing} is not a column"));
    }
    let is_price =
        |column: &String| settings.usd_per_gb.drives.get(column).is_some_and(|usd| (0.0..=1e6).contains(usd));
    if !is_price(fast) || !is_price(slow) || settings.usd_per_gb.source.is_empty() {
        return Err(format!("[tiering.usd_per_gb]: expected prices of {fast} and {slow}, and a source"));
    }
    let is_size = |gb: &u64| *gb > 0 && gb.is_multiple_of(*gb_per_mib);
    if *gb_per_mib == 0 || !is_size(data_gb) || data_gb / gb_per_mib > MIB_MAX {
        return Err(format!(
            "[tiering]: data_gb must be a multiple of gb_per_mib, at most {MIB_MAX} times gb_per_mib"
        ));
    }
    let is_hot = |gb: &u64| is_size(gb) && gb <= data_gb;
    if hot_gb.is_empty() || !hot_gb.iter().all(is_hot) || !hot_gb.is_sorted_by(|a, b| a < b) {
        return Err("[tiering]: hot_gb needs ascending sizes, multiples of gb_per_mib up to data_gb".into());
    }
    if !(0.0..=1.0).contains(&settings.acceptable_share) {
        return Err("[tiering]: acceptable_share must be from 0 to 1".into());
    }
    settings.load.check()?;
    if layouts.is_empty() {
        return Err("[tiering]: expected at least one layout".into());
    }
    layouts.iter().try_for_each(|layout| layout.check(settings))
}

impl Load {
    fn check(&self) -> Result<(), String> {
        let Load { request_kib, read_percent, hot_percent, clients, .. } = *self;
        if !request_kib.is_power_of_two() || !(4..=1024).contains(&request_kib) {
            return Err("[tiering.load]: request_kib must be a power of two from 4 to 1024".into());
        }
        if read_percent > 100 || hot_percent > 100 || !(1..=1024).contains(&clients) {
            return Err(
                "[tiering.load]: expected shares of at most 100 percent, and 1 to 1024 clients".into()
            );
        }
        let counts = [self.paced, self.burst, self.flush_every];
        if counts.contains(&0)
            || self.think_ms > 60_000
            || counts.iter().chain([&self.warm_up]).any(|n| *n > 1 << 32)
        {
            return Err(
                "[tiering.load]: expected paced, burst and flush_every from 1 to 4294967296, warm_up up to 4294967296, \
                 and think_ms up to 60000"
                    .into(),
            );
        }
        Ok(())
    }
}

impl Layout {
    fn check(&self, settings: &Settings) -> Result<(), String> {
        let Layout { name, fast_gb, slow_gb, .. } = self;
        let at = |what: &str| Err(format!("layout \"{name}\": {what}"));
        let has = |drive: &str| match drive {
            "" => true,
            "fast" => *fast_gb > 0,
            "slow" => *slow_gb > 0,
            _ => false,
        };
        let targets = [&self.foreground, &self.background, &self.promote, &self.metadata];
        if !targets.into_iter().all(|drive| has(drive)) {
            return at("a target must be \"fast\" or \"slow\", and the layout must have the drive");
        }
        let holds = if self.cache_only { *slow_gb } else { fast_gb + slow_gb };
        if [fast_gb, slow_gb].iter().any(|gb| !gb.is_multiple_of(settings.gb_per_mib)) {
            return at("fast_gb and slow_gb must be multiples of gb_per_mib");
        }
        if holds < settings.data_gb {
            return at("the drives are smaller than the data");
        }
        if (fast_gb + slow_gb) / settings.gb_per_mib > 2 * MIB_MAX {
            return at("the drives are too large for this gb_per_mib");
        }
        if self.cache_only && (*fast_gb == 0 || self.metadata == "fast") {
            return at("cache_only needs a fast drive without the metadata");
        }
        Ok(())
    }
}

#[cfg(test)]
pub(in crate::experiment) mod tests {
    use super::*;

    /// Returns the settings of the shipped experiment with less data and fewer requests.
    pub(in crate::experiment) fn small() -> Settings {
        let text = include_str!("../../../../../experiments/tiering/experiment.toml");
        let table: toml::Table = text.parse().expect("the shipped experiment is TOML");
        let settings: Settings = table["tiering"].clone().try_into().expect("the shipped settings are valid");
        let load = Load { warm_up: 400, paced: 400, burst: 200, ..settings.load.clone() };
        Settings { data_gb: 64, hot_gb: vec![8, 64], load, ..settings }
    }

    #[test]
    fn settings_out_of_range_are_named() {
        let check = |change: &dyn Fn(&mut Settings)| {
            let mut settings = small();
            change(&mut settings);
            super::check(&settings, |column| ["ssd", "stick"].contains(&column))
        };
        assert_eq!(check(&|_| {}), Ok(()));
        for (change, text) in [
            (&(|s: &mut Settings| s.fast = "disk".into()) as &dyn Fn(&mut Settings), "disk is not a column"),
            (&|s| s.usd_per_gb.drives.clear(), "expected prices of ssd and stick"),
            (&|s| s.hot_gb = vec![64, 8], "hot_gb needs ascending sizes"),
            (&|s| s.gb_per_mib = 0, "data_gb must be a multiple"),
            (&|s| s.data_gb = 1 << 20, "data_gb must be a multiple"),
            (&|s| s.acceptable_share = 1.5, "acceptable_share must be"),
            (&|s| s.load.request_kib = 24, "request_kib must be a power of two"),
            (&|s| s.load.flush_every = 0, "expected paced, burst and flush_every from 1"),
            (&|s| s.layouts[0].fast_gb += 1, "fast_gb and slow_gb must be multiples of gb_per_mib"),
            (
                &|s| s.layouts[0].fast_gb = 8,
                "layout \"all on the SSD\": the drives are smaller than the data",
            ),
            (&|s| s.layouts[0].promote = "slow".into(), "the layout must have the drive"),
            (&|s| s.layouts[0].promote = "hdd".into(), "a target must be \"fast\" or \"slow\""),
            (
                &|s| s.layouts[2].metadata = "fast".into(),
                "cache_only needs a fast drive without the metadata",
            ),
            (&|s| s.layouts.clear(), "expected at least one layout"),
        ] {
            let error = check(change).expect_err(text);
            assert!(error.contains(text), "{error}");
        }
    }

    #[cfg(feature = "volume")]
    #[test]
    fn the_price_is_the_sum_of_the_drives() {
        let settings = small();
        let usd: Vec<f64> = settings.layouts.iter().map(|layout| settings.usd(layout)).collect();
        let expected = [640.0 * 0.1, 128.0 * 0.1 + 640.0 * 0.05, 12.8 + 32.0, 6.4 + 32.0, 32.0];
        for (usd, expected) in usd.into_iter().zip(expected) {
            assert!((usd - expected).abs() < 1e-9, "{usd} instead of {expected}");
        }
    }
}
