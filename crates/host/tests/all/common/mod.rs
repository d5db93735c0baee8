//! The card and the machine that the tests share.

use flashlab_flash::ftl::Wear;
use flashlab_flash::ftl::card::{Mapping, Overwrite};
use flashlab_flash::nand::Nand;
use flashlab_host::Machine;
use flashlab_sd::{CardParameters, Mode};
use flashlab_sim::Duration;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Returns the parameters of a card of `capacity` bytes that supports all bus modes.
pub(crate) fn parameters(capacity: u64) -> CardParameters {
    let parameters = CardParameters {
        capacity,
        modes: Mode::ALL.to_vec(),
        nand: Nand {
            page: 4 * KIB,
            t_read: Duration::from_us(100),
            read_rate: 20 * MIB,
            t_prog: Duration::from_us(300),
            t_prog_slc: None,
            bits: None,
            erase_block: 64 * KIB,
            t_bers: Duration::from_ms(2),
            spread_ppm: 20_000,
        },
        mapping: Mapping {
            program_unit: 8 * KIB,
            t_commit: Duration::from_us(500),
            map_unit: 64 * KIB,
            rewrite_unit: 64 * KIB,
            overwrite: Overwrite::Log,
            open_units: 2,
            map_cache: None,
            map_page: 4 * KIB,
        },
        wear: Wear::default(),
        refinements: Default::default(),
    };
    parameters.check().unwrap();
    parameters
}

/// Time of the software for each command of [`machine`].
pub(crate) const T_COMMAND: Duration = Duration::from_us(60);

/// Returns a machine with bus modes and a command queue of `queue` tasks.
pub(crate) fn machine(modes: &[Mode], queue: Option<u32>) -> Machine {
    Machine {
        modes: modes.to_vec(),
        bus_clock_hz: None,
        overclock: None,
        bus_width: None,
        command_max: 128 << 10,
        t_request: Duration::from_us(40),
        t_command: T_COMMAND,
        t_block: Duration::from_us(1),
        t_gap: None,
        prepare: Some(true),
        merge: None,
        queue,
        stack: None,
    }
}
