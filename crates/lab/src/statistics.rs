//! What a device counts, taken down and put into a reader's terms: amplification, wear, collection, the map's hits, life.
//!
//! Everything comes from [`Model::observe`]. What a device does not count is left out, never shown as nothing.

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

impl Counters {
    /// Those of `model`, now.
    pub fn of(model: &dyn Model) -> Self {
        Counters::told(|to| model.observe(to))
    }

    /// Those of a device that is no model.
    pub fn told(tell: impl FnOnce(&mut dyn Observer)) -> Self {
        let mut counters = Counters::default();
        tell(&mut counters);
        counters
    }

    /// A counter, if there is one of that name.
    pub fn find(&self, name: &str) -> Option<u64> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    /// A counter; 0 where nothing of that name is counted.
    pub fn get(&self, name: &str) -> u64 {
        self.find(name).unwrap_or(0)
    }

    /// How much a counter has grown since `before`.
    pub fn since(&self, before: &Counters, name: &str) -> u64 {
        self.get(name).saturating_sub(before.get(name))
    }

    /// All of them, in the order in which the device told them.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.0.iter().copied()
    }
}

/// The erase blocks of a device at one instant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wear {
    /// Bytes of an erase block.
    pub bytes: u64,
    /// How often each was erased.
    pub erase_counts: Vec<u32>,
    /// Those out of use, ascending.
    pub bad: Vec<u32>,
    /// Erases that a block is rated for.
    pub rated_cycles: Option<u32>,
    /// Erases that each block takes; empty where wear has no end.
    pub limits: Vec<u32>,
}

impl Wear {
    /// The erase blocks of `model`, if it knows any.
    pub fn of(model: &dyn Model) -> Option<Self> {
        Wear::told(|to| model.observe(to))
    }

    /// Those of a device that is no model.
    pub fn told(tell: impl FnOnce(&mut dyn Observer)) -> Option<Self> {
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

    /// The erase counts of the blocks in use.
    pub fn in_use(&self) -> impl Iterator<Item = u32> + '_ {
        let mut bad = self.bad.iter().copied().peekable();
        let good = move |block: &(u32, u32)| bad.next_if_eq(&block.0).is_none();
        (0..).zip(self.erase_counts.iter().copied()).filter(good).map(|(_, count)| count)
    }

    /// How evenly the blocks in use are worn.
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
        // n times the squares less the square of the sum: exact, and never negative.
        let n = u128::from(blocks);
        let spread = (n * squares - u128::from(sum) * u128::from(sum)) as f64;
        Erases { mean: sum as f64 / blocks as f64, min, max, sd: spread.sqrt() / blocks as f64 }
    }

    /// What is left of the erases that the blocks are rated for, in percent, of the one in use that is worn most; `None`
    /// where wear has no end.
    pub fn lifetime_left_percent(&self) -> Option<f64> {
        let rated = f64::from(self.rated_cycles?);
        Some((100.0 * (1.0 - f64::from(self.erases().max) / rated)).max(0.0))
    }

    /// For a report, under a name.
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

/// Bytes that are moved or written beside the host's data: cause and counter.
const MOVED: [(&str, &str); 7] = [
    ("collection", "collection_moved_bytes"),
    ("levelling", "levelling_moved_bytes"),
    ("fold", "fold_moved_bytes"),
    ("map", "map_programmed_bytes"),
    ("read-modify-write", "read_modify_write_bytes"),
    ("merge", "merge_bytes"),
    ("padding", "padding_bytes"),
];

/// Where a look-up of the map is answered: in a page that the controller holds, changed or not; in a page that the host
/// holds; in a table of the whole map; in the directory of map pages, since there is none; nowhere, so that one is loaded.
const LOOK_UPS: [(&str, &[&str]); 5] = [
    ("sram", &["map_hit_sram_count", "map_hit_changed_count", "map_hit_count"]),
    ("hmb", &["map_hit_hmb_count"]),
    ("table", &["map_hit_table_count"]),
    ("directory", &["map_hit_nowhere_count"]),
    ("miss", &["map_miss_count"]),
];

/// What a device did between two instants, in a reader's terms; `wear` is that of the second. Names are left to the
/// caller.
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
    fn what_is_not_counted_is_left_out() {
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
