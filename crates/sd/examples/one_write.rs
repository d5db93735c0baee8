//! Writes 512 KiB and then 4 KiB to a card, and prints where the time is spent.

use flashlab_flash::ftl::Wear;
use flashlab_flash::ftl::card::{Mapping, Overwrite};
use flashlab_flash::nand::Nand;
use flashlab_sd::{CardModel, CardParameters, Link, Mode};
use flashlab_sim::{Duration, FileId, Instant, Model, Op, Request, RequestId};

const KIB: u64 = 1 << 10;

fn main() {
    let parameters = CardParameters {
        capacity: 64 << 20,
        modes: vec![Mode::DefaultSpeed, Mode::HighSpeed],
        nand: Nand {
            page: 16 * KIB,
            t_read: Duration::from_us(100),
            read_rate: 90 << 20,
            t_prog: Duration::from_us(600),
            t_prog_slc: None,
            bits: None,
            erase_block: 4 << 20,
            t_bers: Duration::ZERO,
            spread_ppm: 0,
        },
        mapping: Mapping {
            program_unit: 16 * KIB,
            t_commit: Duration::from_us(400),
            map_unit: 128 * KIB,
            rewrite_unit: 128 * KIB,
            overwrite: Overwrite::Convert,
            open_units: 8,
            map_cache: None,
            map_page: 4 * KIB,
        },
        wear: Wear::default(),
        refinements: Default::default(),
    };
    parameters.check().expect("a possible card");
    let link = Link { bus: Mode::HighSpeed.bus(), t_block_host: Duration::ZERO };
    let mut card = CardModel::new(parameters, link, 1);
    let mut now = Instant::ZERO;
    for length in [512 * KIB, 4 * KIB] {
        card.submit(
            now,
            Request { id: RequestId(0), op: Op::Write, file: FileId::DEVICE, offset: 0, length },
        );
        let done = card.complete(Instant::MAX).expect("the write completes");
        print!("{:3} KiB: {:>10}", length / KIB, format!("{}", done.spent.total()));
        done.spent.iter().filter(|(_, d)| d.as_ns() > 0).for_each(|(m, d)| print!("  {} {d}", m.name()));
        println!();
        now = done.at;
    }
}
