//! Parameters of a card for examples and tests.

use super::CardParameters;
use crate::Mode;
use alloc::vec;
use flashlab_flash::ftl::Wear;
use flashlab_flash::ftl::card::{Mapping, Overwrite};
use flashlab_flash::nand::Nand;
use flashlab_sim::Duration;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

impl CardParameters {
    /// Returns a card of `capacity` bytes with plausible values, which belong to no real card. Erases take no time, and
    /// blocks do not wear out.
    pub fn example(capacity: u64) -> CardParameters {
        let us = Duration::from_us;
        CardParameters {
            capacity,
            modes: vec![Mode::DefaultSpeed, Mode::HighSpeed],
            nand: Nand {
                page: 16 * KIB,
                t_read: us(100),
                read_rate: 64 * MIB,
                t_prog: us(600),
                t_prog_slc: None,
                bits: None,
                erase_block: 4 * MIB,
                t_bers: Duration::ZERO,
                spread_ppm: 0,
            },
            mapping: Mapping {
                program_unit: 16 * KIB,
                t_commit: us(250),
                map_unit: 128 * KIB,
                rewrite_unit: 128 * KIB,
                overwrite: Overwrite::Convert,
                open_units: 4,
                map_cache: None,
                map_page: 4 * KIB,
            },
            wear: Wear::default(),
            refinements: Default::default(),
        }
    }
}
