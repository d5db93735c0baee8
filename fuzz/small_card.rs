//! A card of 1 MiB with bytes, for the targets that use a card. `choice` selects its parameters.

#[path = "bytes.rs"]
mod bytes;

use bytes::Bytes;
use flashlab_flash::ftl::Wear;
use flashlab_flash::ftl::card::{Mapping, Overwrite};
use flashlab_flash::nand::Nand;
use flashlab_sd::register::Extensions;
use flashlab_sd::{Card, CardParameters, Identity, Mode};
use flashlab_sim::Duration;

const KIB: u64 = 1 << 10;
/// Capacity in bytes.
pub(crate) const CAPACITY: u64 = 1 << 20;

/// Returns the card without power. It is ready at the first ACMD41.
pub(crate) fn card(choice: u8) -> Card {
    let log = choice & 1 == 1;
    let parameters = CardParameters {
        capacity: CAPACITY,
        modes: vec![Mode::DefaultSpeed, Mode::HighSpeed],
        nand: Nand {
            page: 4 * KIB,
            t_read: Duration::from_us(100),
            read_rate: 64 << 20,
            t_prog: Duration::from_us(600),
            t_prog_slc: None,
            bits: None,
            erase_block: 32 * KIB,
            t_bers: Duration::from_us(900),
            spread_ppm: 30_000,
        },
        mapping: Mapping {
            program_unit: 8 * KIB,
            t_commit: Duration::from_us(250),
            map_unit: 32 * KIB,
            rewrite_unit: 32 * KIB,
            overwrite: if log { Overwrite::Log } else { Overwrite::Convert },
            open_units: 2,
            map_cache: (choice & 2 == 2).then_some(512),
            map_page: 512,
        },
        wear: Wear { cycles: (choice & 4 == 4).then_some(30), ..Wear::default() },
        refinements: Default::default(),
    };
    parameters.check().expect("a possible card");
    let mut identity = Identity::new(&parameters);
    identity.t_init = Duration::ZERO;
    identity.extensions = Extensions { power_off_notification: true, cache: true };
    identity.scr.set_commands(0b0111);
    Card::new(parameters, identity, Some(Box::new(Bytes::new(CAPACITY))), 1)
}
