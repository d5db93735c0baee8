//! Statistics of a device in the terms of reports: write amplification, wear, garbage collection, map hits, lifetime.
//!
//! All statistics come from [`Model::observe`]. A counter that the device lacks is 0, and figures that need
//! such a counter are absent.

use crate::results::{DeviceStatistics, Erases, WearMap};
use flashlab_sim::{EraseBlocks, Model, Observer};

/// The counters of a device at one instant.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counters(Vec<(&'static str, u64)>);

impl Observer for Counters {
    fn count(&mut self, name: &'static str, value: u64) {
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, sum)) => *sum += value,
            None => self.0.push((name, value)),
        }
    }
}

/// Selects the values of the blocks in use from `of`, which has one value per block. `bad` holds the indices
/// of the bad blocks in ascending order.
pub(crate) fn in_use(of: &[u32], bad: &[u32]) -> impl Iterator<Item = u32> {
    let mut bad = bad.iter().copied().peekable();
    (0..).zip(of).filter(move |(block, _)| bad.next_if_eq(block).is_none()).map(|(_, number)| *number)
}

impl Counters {
    /// Returns the current counters of `model`.
    pub fn of(model: &dyn Model) -> Self {
        Counters::collect(|to| model.observe(to))
    }

    /// Returns the counters that `tell` reports, for a device that is not a [`Model`].
    pub fn collect(tell: impl FnOnce(&mut dyn Observer)) -> Self {
        let mut counters = Counters::default();
        tell(&mut counters);
        counters
    }

    /// Returns the counter `name`; `None` if the device does not count it.
    pub fn find(&self, name: &str) -> Option<u64> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    /// Returns the counter `name`; 0 if the device does not count it.
    pub fn get(&self, name: &str) -> u64 {
        self.find(name).unwrap_or(0)
    }

    /// Returns the growth of a counter since `before`.
    pub fn since(&self, before: &Counters, name: &str) -> u64 {
        self.get(name).saturating_sub(before.get(name))
    }

    /// Returns all counters, in the order in which the device reported them.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.0.iter().copied()
    }
}

/// The wear of the erase blocks of a device at one instant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wear {
    /// Erase block size in bytes.
    pub bytes: u64,
    /// Number of erases of each block.
    pub erase_counts: Vec<u32>,
    /// Indices of bad blocks, ascending.
    pub bad: Vec<u32>,
    /// Erases that a block is rated for.
    pub rated_cycles: Option<u32>,
    /// Number of erases after which each block fails; empty if wear is not modelled.
    pub limits: Vec<u32>,
}

impl Wear {
    /// Returns the erase blocks of `model`; `None` if the model does not report any.
    pub fn of(model: &dyn Model) -> Option<Self> {
        Wear::collect(|to| model.observe(to))
    }

    /// Returns the erase blocks that `tell` reports, for a device that is not a [`Model`].
    pub fn collect(tell: impl FnOnce(&mut dyn Observer)) -> Option<Self> {
        struct Take(Option<Wear>);
        impl Observer for Take {
            fn count(&mut self, _: &'static str, _: u64) {}
            fn erase_blocks(&mut self, blocks: &EraseBlocks<'_>) {
                let numbers = 0..blocks.erase_counts.len() as u32;
                self.0 = Some(Wear {
                    bytes: blocks.bytes,
                    erase_counts: blocks.erase_counts.to_vec(),
                    bad: blocks.bad.to_vec(),
                    rated_cycles: blocks.rated_cycles,
                    limits: numbers.map_while(|block| (blocks.limit)(block)).collect(),
                });
            }
        }
        let mut take = Take(None);
        tell(&mut take);
        take.0
    }

    /// Returns the erase counts of the blocks in use.
    pub(crate) fn in_use(&self) -> impl Iterator<Item = u32> + '_ {
        in_use(&self.erase_counts, &self.bad)
    }

    /// Returns mean, minimum, maximum and standard deviation of the erases of the blocks in use.
    pub fn erases(&self) -> Erases {
        let (mut blocks, mut sum, mut squares) = (0_u64, 0_u64, 0_u128);
        let (mut min, mut max) = (u32::MAX, 0);
        for count in self.in_use() {
            blocks += 1;
            sum += u64::from(count);
            squares += u128::from(count) * u128::from(count);
            min = min.min(count);
            max = max.max(count);
        }
        if blocks == 0 {
            return Erases::default();
        }
        // n times the sum of the squares minus the square of the sum: exact, and never negative.
        let n = u128::from(blocks);
        let spread = (n * squares - u128::from(sum) * u128::from(sum)) as f64;
        Erases { mean: sum as f64 / blocks as f64, min, max, sd: spread.sqrt() / blocks as f64 }
    }

    /// Returns the remaining part of the rated erases in percent, for the most worn block in use; `None` if the blocks
    /// have no rating.
    pub fn lifetime_left_percent(&self) -> Option<f64> {
        let rated = f64::from(self.rated_cycles?);
        Some((100.0 * (1.0 - f64::from(self.erases().max) / rated)).max(0.0))
    }

    /// Returns the wear in the form of a report, under `name`.
    pub fn map(self, name: String) -> WearMap {
        let erases = self.erases();
        WearMap {
            name,
            block_bytes: self.bytes,
            erase_counts: self.erase_counts,
            bad: self.bad,
            rated_cycles: self.rated_cycles,
            erases,
        }
    }
}

/// Bytes that are moved or written in addition to the host's data: cause and counter.
const MOVED: [(&str, &str); 7] = [
    ("collection", "collection_moved_bytes"),
    ("leveling", "leveling_moved_bytes"),
    ("fold", "fold_moved_bytes"),
    ("map", "map_programmed_bytes"),
    ("read-modify-write", "read_modify_write_bytes"),
    ("merge", "merge_bytes"),
    ("padding", "padding_bytes"),
];

/// Places that answer a map look-up, with their counters. `sram` is a map page that the controller holds,
/// changed or not, `hmb` a map page in host memory, and `table` a table of the whole map. `directory` is the
/// directory of map pages, which answers if the map page does not exist. A `miss` loads a map page.
const LOOK_UPS: [(&str, &[&str]); 5] = [
    ("sram", &["map_hit_sram_count", "map_hit_changed_count", "map_hit_count"]),
    ("hmb", &["map_hit_hmb_count"]),
    ("table", &["map_hit_table_count"]),
    ("directory", &["map_hit_nowhere_count"]),
    ("miss", &["map_miss_count"]),
];

/// Computes the statistics of a device between two instants. `wear` belongs to the second instant. The caller fills in
/// the names.
pub fn statistics(before: &Counters, after: &Counters, wear: Option<&Wear>) -> DeviceStatistics {
    let since = |name| after.since(before, name);
    let host_written_bytes = since("host_written_bytes");
    let programmed_bytes = since("programmed_bytes");
    let ratio = programmed_bytes as f64 / host_written_bytes as f64;
    let moved = MOVED.map(|(cause, counter)| (cause, since(counter)));
    let look_ups = LOOK_UPS.map(|(place, counters)| (place, counters.iter().map(|name| since(name)).sum()));
    let look_ups = look_ups.into_iter().filter(|(_, count)| *count > 0);
    let read_only = after.get("read_only") > 0;
    DeviceStatistics {
        host_written_bytes,
        host_read_bytes: after.find("host_read_bytes").map(|_| since("host_read_bytes")),
        programmed_bytes,
        write_amplification: (host_written_bytes > 0).then_some(ratio),
        erase_count: since("erase_count"),
        erases: wear.map(Wear::erases),
        collection_count: since("collection_count"),
        moved_bytes: moved.into_iter().filter(|(_, bytes)| *bytes > 0).collect(),
        map_look_ups: look_ups.collect(),
        effective_spare: after.find("effective_spare_ppm").map(|ppm| ppm as f64 / 1e6),
        lifetime_left_percent: wear
            .and_then(Wear::lifetime_left_percent)
            .map(|left| if read_only { 0.0 } else { left }),
        bad_block_count: after.get("bad_block_count"),
        read_only,
        ..DeviceStatistics::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn erases_are_spread_over_the_blocks_in_use() {
        let wear = Wear {
            bytes: 4096,
            erase_counts: vec![2, 4, 900, 4, 4, 5, 5, 7, 9],
            bad: vec![2],
            rated_cycles: Some(50),
            limits: vec![],
        };
        assert_eq!(wear.erases(), Erases { mean: 5.0, min: 2, max: 9, sd: 2.0 });
        assert_eq!(wear.lifetime_left_percent(), Some(82.0), "the most worn counts");
        let none = Wear { erase_counts: vec![], bad: vec![], ..wear };
        assert_eq!(none.erases(), Erases::default());
    }

    #[test]
    fn figures_without_their_counters_are_absent() {
        let before = Counters(vec![("host_written_bytes", 100), ("programmed_bytes", 100)]);
        let after =
            Counters(vec![("host_written_bytes", 300), ("programmed_bytes", 600), ("merge_bytes", 50)]);
        let found = statistics(&before, &after, None);
        assert_eq!((found.host_written_bytes, found.programmed_bytes), (200, 500));
        assert_eq!(found.write_amplification, Some(2.5));
        assert_eq!(found.moved_bytes, [("merge", 50)]);
        assert!(found.map_look_ups.is_empty() && found.erases.is_none() && found.effective_spare.is_none());
        assert_eq!(statistics(&after, &after, None).write_amplification, None);
    }
}
