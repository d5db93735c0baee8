//! Compares two drivers of the same card: one writes 1 MiB in commands of one block, the other in commands of
//! 1024 blocks.

use flashlab_flash::ftl::Wear;
use flashlab_flash::ftl::card::{Mapping, Overwrite};
use flashlab_flash::nand::Nand;
use flashlab_host::{Host, Machine};
use flashlab_sd::{CardModel, CardParameters, Mode};
use flashlab_sim::{Duration, FileId, Instant, Model, Op, Request, RequestId};

fn main() {
    let nand = Nand {
        page: 8 << 10,
        t_read: Duration::from_us(200),
        read_rate: 90 << 20,
        t_prog: Duration::from_us(300),
        t_prog_slc: None,
        bits: None,
        erase_block: 4 << 20,
        t_bers: Duration::ZERO,
        spread_ppm: 0,
    };
    let mapping = Mapping {
        program_unit: 8 << 10,
        t_commit: Duration::from_us(500),
        map_unit: 128 << 10,
        rewrite_unit: 128 << 10,
        overwrite: Overwrite::Convert,
        open_units: 8,
        map_cache: None,
        map_page: 4 << 10,
    };
    let wear = Wear::default();
    let parameters = CardParameters {
        capacity: 64 << 20,
        modes: vec![Mode::HighSpeed],
        nand,
        mapping,
        wear,
        refinements: Default::default(),
    };
    for command_max in [512, 512 << 10] {
        let machine = Machine {
            modes: vec![Mode::HighSpeed],
            bus_clock_hz: None,
            overclock: None,
            bus_width: None,
            command_max,
            t_request: Duration::ZERO,
            t_command: Duration::from_us(60),
            t_block: Duration::from_us(1),
            t_gap: None,
            prepare: None,
            merge: None,
            queue: None,
            stack: None,
        };
        let card = CardModel::new(parameters.clone(), machine.link(&parameters.modes), 1);
        let mut host = Host::new(&machine, Box::new(card));
        let write =
            Request { id: RequestId(0), op: Op::Write, file: FileId::DEVICE, offset: 0, length: 1 << 20 };
        host.submit(Instant::ZERO, write);
        let done = host.complete(Instant::MAX).expect("the request completes");
        println!("1 MiB in commands of {command_max:6} B: {}", done.spent.total());
    }
}
