//! Mechanisms that a card may have beyond those of the base profile.
//!
//! A mechanism adds numbers to a fit, and possibly fixes others. The module `choice` selects those that the cells need,
//! from the starting points that this module derives from the cells in closed form.

use super::forward::{Access, Setting};
use super::table::least;
use flashlab_fio::job::Direction;
use flashlab_sd::Mode;

/// A mechanism that a card may have.
pub(super) struct Mechanism {
    /// Name in messages.
    pub name: &'static str,
    /// Paths of the mechanism's numbers, each a row of the table.
    pub numbers: &'static [&'static str],
    /// Paths of numbers that the mechanism replaces.
    pub replaces: &'static [&'static str],
    /// Paths of numbers without which the mechanism has no effect.
    pub requires: &'static [&'static str],
    /// Returns the starting points of the search; none if the measurements cannot show the mechanism.
    pub variants: fn(&Facts<'_>) -> Vec<Variant>,
}

/// Facts about the measurements of a card, from which the starting points follow.
pub(super) struct Facts<'a> {
    /// Patterns and times of the measured jobs.
    pub cells: &'a [Access],
    /// Bus modes of the measurements, slowest first.
    pub modes: &'a [Mode],
    /// True if a host of the measurements has a command queue.
    pub has_queue: bool,
    /// True if the card has an access time in the only bus mode of the measurements.
    pub has_access_time: bool,
    /// Size of a page of the array in bytes.
    pub page: f64,
}

/// A starting point of a search.
#[derive(Clone, Debug, Default)]
pub(super) struct Variant {
    /// Initial values of the mechanism's numbers, in their order.
    pub starts: Vec<f64>,
    /// Numbers that the mechanism sets to fixed values.
    pub fixed: Vec<Setting>,
}

const NS: f64 = 1e9;
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// All mechanisms.
pub(super) const MECHANISMS: &[Mechanism] = &[
    mechanism("busy time of every write", &["ftl.t_write"], |facts| {
        let shortest = least(facts.cells, |c| c.direction == Direction::Write);
        shortest.map(|seconds| starts(&[0.3 * NS * seconds])).into_iter().collect()
    }),
    mechanism("switch between rewrite units", &["ftl.t_switch"], |facts| {
        let jumps = |c: &Access| c.direction == Direction::Write && (c.random || c.streams > 1);
        least(facts.cells, jumps).map(|seconds| starts(&[0.3 * NS * seconds])).into_iter().collect()
    }),
    mechanism("minimum program size", &["flash.page"], |facts| {
        let small = |c: &Access| c.direction == Direction::Write && c.block <= 32 * KIB;
        let page = |bytes: u64| starts(&[bytes as f64]);
        if facts.cells.iter().any(small) {
            [4 * KIB, 16 * KIB, 32 * KIB].map(page).to_vec()
        } else {
            Vec::new()
        }
    }),
    mechanism("stripe over dies and planes", &["flash.stripe"], |facts| {
        let writes =
            |of: fn(u64) -> bool| facts.cells.iter().any(|c| c.direction == Direction::Write && of(c.block));
        let stripe = |ways: f64| starts(&[ways * facts.page]);
        let shown = writes(|block| block <= 16 * KIB) && writes(|block| block > 16 * KIB);
        if shown { [4.0, 16.0].map(stripe).to_vec() } else { Vec::new() }
    }),
    mechanism("write buffer", &["card.write_buffer"], |facts| {
        let long = |c: &Access| c.direction == Direction::Write && c.block > 64 * KIB;
        let buffer = |kib: u64| starts(&[(kib * KIB) as f64]);
        if facts.cells.iter().any(long) { [128, 256, 512].map(buffer).to_vec() } else { Vec::new() }
    }),
    mechanism("read-ahead", &["card.read_ahead"], |facts| {
        let follows = |c: &Access| c.direction == Direction::Read && !c.random && c.block <= 128 * KIB;
        let ahead = |kib: u64| starts(&[(kib * KIB) as f64]);
        if facts.cells.iter().any(follows) { [16, 128].map(ahead).to_vec() } else { Vec::new() }
    }),
    mechanism("time of a read command", &["card.t_command"], |facts| {
        let follows = |c: &Access| c.direction == Direction::Read && !c.random && c.block <= 16 * KIB;
        least(facts.cells, follows).map(|seconds| starts(&[0.3 * NS * seconds])).into_iter().collect()
    }),
    mechanism("area for small writes", &["ftl.small_max", "flash.t_prog_small"], |facts| {
        let random = |c: &&Access| c.direction == Direction::Write && c.random && c.block <= 64 * KIB;
        let mut blocks: Vec<u64> = facts.cells.iter().filter(random).map(|c| c.block).collect();
        blocks.sort_unstable();
        blocks.dedup();
        let start = |block: u64| {
            let shortest = least(facts.cells, |c| c.direction == Direction::Write && c.block <= block);
            // Writes of this size go to the area, and those of the next larger size do not.
            Some(starts(&[(block.next_power_of_two().max(KIB)) as f64, 0.5 * NS * shortest?]))
        };
        blocks.into_iter().filter_map(start).collect()
    }),
    Mechanism {
        requires: &["ftl.small_max"],
        ..mechanism("page of the area for small writes", &["ftl.small_page"], |_| {
            [4 * KIB, 16 * KIB].map(|page| starts(&[page as f64])).to_vec()
        })
    },
    Mechanism {
        requires: &["ftl.small_max"],
        ..mechanism("size of the area for small writes", &["ftl.small_size"], |_| {
            [MIB, 16 * MIB, 128 * MIB].map(|size| starts(&[size as f64])).to_vec()
        })
    },
    Mechanism {
        replaces: &["ftl.rewrite_unit"],
        ..mechanism("allocation units", &["ftl.t_copy", "ftl.open_units"], allocation_units)
    },
    mechanism("open units", &["ftl.open_units"], |facts| {
        let counts = facts.cells.iter().map(|c| f64::from(c.streams)).filter(|streams| *streams > 1.0);
        let most = counts.reduce(f64::max);
        most.map(|most| starts(&[(0.5 * most).round()])).into_iter().collect()
    }),
    mechanism("access time in high speed", &["card.t_access_high_speed"], |facts| {
        time_of(facts, Mode::HighSpeed)
    }),
    mechanism("access time in SDR50", &["card.t_access_sdr50"], |facts| time_of(facts, Mode::Sdr50)),
    mechanism("access time in DDR50", &["card.t_access_ddr50"], |facts| time_of(facts, Mode::Ddr50)),
    mechanism("access time in SDR104", &["card.t_access_sdr104"], |facts| time_of(facts, Mode::Sdr104)),
    // The typical access time may be longer than every read of the card.
    mechanism("no access time of the bus mode", &[], |facts| match facts.modes {
        [mode] if facts.has_access_time => {
            let fixed = access_time(*mode).map(|path| (path, "0us".to_owned()));
            vec![Variant { fixed: fixed.into_iter().collect(), ..Variant::default() }]
        }
        _ => Vec::new(),
    }),
    mechanism("command queue", &["flash.dies"], |facts| {
        let queued = |c: &Access| c.direction == Direction::Read && c.depth > 1;
        let dies = |dies: f64| Variant { fixed: vec![("card.queue", "32".to_owned())], ..starts(&[dies]) };
        let shown = facts.has_queue && facts.cells.iter().any(queued);
        if shown { vec![dies(2.0), dies(4.0)] } else { Vec::new() }
    }),
    mechanism("buffers of the command queue", &["card.queue_buffers"], |facts| {
        let queued = |c: &Access| c.direction == Direction::Read && c.depth > 1;
        let buffers =
            |buffers: f64| Variant { fixed: vec![("card.queue", "32".to_owned())], ..starts(&[buffers]) };
        let shown = facts.has_queue && facts.cells.iter().any(queued);
        if shown { vec![buffers(1.0)] } else { Vec::new() }
    }),
    mechanism("volatile cache", &["card.cache"], |facts| {
        let writes = facts.cells.iter().any(|c| c.direction == Direction::Write);
        let cache = |bytes: u64| starts(&[bytes as f64]);
        if writes { vec![cache(MIB), cache(16 * MIB)] } else { Vec::new() }
    }),
    Mechanism {
        requires: &["card.cache"],
        ..mechanism("time of a write into the cache", &["card.t_command_write"], |facts| {
            let small = |c: &Access| c.direction == Direction::Write && c.block <= 16 * KIB;
            least(facts.cells, small).map(|seconds| starts(&[0.3 * NS * seconds])).into_iter().collect()
        })
    },
    Mechanism {
        replaces: &["ftl.rewrite_unit"],
        requires: &["card.cache"],
        ..mechanism("page-mapped layer behind the cache", &["card.drain"], |facts| {
            let random = |c: &Access| c.direction == Direction::Write && c.random && c.block <= 32 * KIB;
            let units = ["ftl.map_unit", "ftl.rewrite_unit"].map(|path| (path, "4KiB".to_owned()));
            let fixed: Vec<Setting> =
                units.into_iter().chain([("ftl.overwrite", "convert".to_owned())]).collect();
            let drain = |kib: u64| Variant { fixed: fixed.clone(), ..starts(&[(kib * KIB) as f64]) };
            if facts.cells.iter().any(random) { [16, 64, 256].map(drain).to_vec() } else { Vec::new() }
        })
    },
];

const fn mechanism(
    name: &'static str,
    numbers: &'static [&'static str],
    variants: fn(&Facts<'_>) -> Vec<Variant>,
) -> Mechanism {
    Mechanism { name, numbers, replaces: &[], requires: &[], variants }
}

/// Returns a variant that fixes nothing.
pub(super) fn starts(values: &[f64]) -> Variant {
    Variant { starts: values.to_vec(), ..Variant::default() }
}

/// Returns the path of the access time in `mode`.
pub(super) fn access_time(mode: Mode) -> Option<&'static str> {
    match mode {
        Mode::HighSpeed => Some("card.t_access_high_speed"),
        Mode::Sdr50 => Some("card.t_access_sdr50"),
        Mode::Ddr50 => Some("card.t_access_ddr50"),
        Mode::Sdr104 => Some("card.t_access_sdr104"),
        _ => None,
    }
}

/// Returns the initial value of the access time in `mode`; none if the card was measured in one mode only, because `t_read`
/// then contains this time.
fn time_of(facts: &Facts<'_>, mode: Mode) -> Vec<Variant> {
    let reads = facts.cells.iter().any(|c| c.direction == Direction::Read);
    let several = facts.modes.iter().any(|other| *other != mode);
    if reads && several && facts.modes.contains(&mode) { vec![starts(&[100e3])] } else { Vec::new() }
}

/// Returns variants in which each rewrite unit is an erase block with its own log. The sizes of the units and the
/// counts of open units are those that interleaved writes suggest.
fn allocation_units(facts: &Facts<'_>) -> Vec<Variant> {
    let in_turn = || facts.cells.iter().filter(|c| c.direction == Direction::Write && c.streams > 1);
    let mut sizes: Vec<u64> =
        in_turn().filter_map(|c| c.area).filter(|size| size.is_power_of_two()).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut counts: Vec<u32> = in_turn().flat_map(|c| [c.streams - 1, c.streams]).collect();
    counts.sort_unstable();
    counts.dedup();
    let variant = |size: u64, count: u32| {
        let fixed = ["flash.erase_block", "ftl.map_unit", "ftl.rewrite_unit"];
        let mut fixed: Vec<Setting> = fixed.iter().map(|path| (*path, format!("{size}B"))).collect();
        fixed.push(("ftl.overwrite", "log".to_owned()));
        // The slowest of these writes approximates the time of a copy.
        let slowest = in_turn().map(|c| c.seconds).reduce(f64::max).unwrap_or(0.1);
        Variant { fixed, ..starts(&[NS * slowest, f64::from(count)]) }
    };
    let sizes = sizes.into_iter().filter(|size| (256 * KIB..=64 * MIB).contains(size));
    sizes.flat_map(|size| counts.iter().map(move |count| variant(size, *count)).collect::<Vec<_>>()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fitting::table::Row;

    #[test]
    fn each_number_of_a_mechanism_is_an_optional_row() {
        for path in MECHANISMS.iter().flat_map(|mechanism| mechanism.numbers) {
            assert!(Row::at(path).is_some_and(|row| row.optional), "{path}");
        }
    }
}
