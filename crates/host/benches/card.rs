//! Measures how many 4 KiB reads of the command-level card are simulated per CPU second. Each read is a
//! CMD18, eight blocks and a CMD12. The card transfers either no bytes, or bytes with both checksums (CRC7
//! and CRC16) at both ends. The bench also measures the checksums alone.
//!
//! `cargo bench -p flashlab-host --bench card` prints the figures and asserts nothing.

use cpu_time::ProcessTime;
use flashlab_flash::ftl::Wear;
use flashlab_flash::ftl::card::{Mapping, Overwrite};
use flashlab_flash::nand::Nand;
use flashlab_host::driver::mmc::{Controller, Kernel, Mmc};
use flashlab_sd::opcode;
use flashlab_sd::{
    Card, CardParameters, Command, Identity, Ios, Mode, Native, Power, ResponseType, Signal, Timing, crc16,
    crc16_lines,
};
use flashlab_sim::{Duration, Rng, Store, StoreError};
use std::hint::black_box;
use std::ops::Range;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const CAPACITY: u64 = 4 << 30;
const LONG: Duration = Duration::from_secs(1);

/// A store that fills each read with one byte, so that the store itself takes almost no time.
struct Constant;

impl Store for Constant {
    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), StoreError> {
        buffer.fill(offset as u8 | 1);
        Ok(())
    }
    fn write(&self, _offset: u64, _bytes: &[u8]) -> Result<(), StoreError> {
        Ok(())
    }
    fn discard(&self, _offset: u64, _length: u64) -> Result<(), StoreError> {
        Ok(())
    }
    fn data_in(&self, range: Range<u64>) -> Result<Option<Range<u64>>, StoreError> {
        Ok(Some(range))
    }
    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

fn card(store: Option<Box<dyn Store>>) -> Card {
    let parameters = CardParameters {
        capacity: CAPACITY,
        modes: Mode::ALL.to_vec(),
        nand: Nand {
            page: 8 * KIB,
            t_read: Duration::from_us(247),
            read_rate: 96 * MIB,
            t_prog: Duration::from_us(346),
            t_prog_slc: None,
            bits: None,
            erase_block: 4 * MIB,
            t_bers: Duration::ZERO,
            spread_ppm: 30_000,
        },
        mapping: Mapping {
            program_unit: 8 * KIB,
            t_commit: Duration::from_us(548),
            map_unit: 128 * KIB,
            rewrite_unit: 128 * KIB,
            overwrite: Overwrite::Convert,
            open_units: 8,
            map_cache: Some(440 * KIB),
            map_page: 4 * KIB,
        },
        wear: Wear::default(),
        refinements: Default::default(),
    };
    parameters.check().expect("a possible card");
    let identity = Identity::new(&parameters);
    Card::new(parameters, identity, store, 1)
}

const HIGH_SPEED: Ios = Ios {
    clock_hz: 50_000_000,
    width: 4,
    timing: Timing::HighSpeed,
    signal: Signal::V3_3,
    power: Power::On,
    ..Ios::OFF
};

/// Returns a host that has initialised `card` in high speed on `width` data lines.
fn host(card: Card, width: u8) -> Native {
    let mut native = Native::new(Some(card));
    native.set_ios(&Ios { clock_hz: 400_000, width: 1, timing: Timing::Legacy, ..HIGH_SPEED });
    native.advance(Duration::from_ms(10));
    let mut send = |index, argument, expects| native.command(Command::new(index, argument), expects);
    send(opcode::GO_IDLE_STATE, 0, ResponseType::None).expect("nothing is expected");
    send(opcode::SEND_IF_COND, 0x1aa, ResponseType::R7).expect("a card");
    while {
        send(opcode::APP_CMD, 0, ResponseType::R1).expect("a card");
        send(opcode::app::SD_SEND_OP_COND, 0x40ff_8000, ResponseType::R3).expect("a card").word() >> 31 == 0
    } {}
    send(opcode::ALL_SEND_CID, 0, ResponseType::R2).expect("a card");
    let address =
        send(opcode::SEND_RELATIVE_ADDR, 0, ResponseType::R6).expect("an address").word() & 0xffff_0000;
    send(opcode::SELECT_CARD, address, ResponseType::R1).expect("the card is selected");
    if width == 4 {
        send(opcode::APP_CMD, address, ResponseType::R1).expect("a card");
        send(opcode::app::SET_BUS_WIDTH, 2, ResponseType::R1).expect("four lines");
    }
    native.set_ios(&Ios { clock_hz: 400_000, width, timing: Timing::Legacy, ..HIGH_SPEED });
    native.command(Command::new(opcode::SWITCH_FUNC, 0x80ff_fff1), ResponseType::R1).expect("a switch");
    let mut status = [0; 64];
    native.read_block(&mut status, 64, LONG).expect("the functions");
    native.set_ios(&Ios { width, ..HIGH_SPEED });
    native
}

/// Reads 4 KiB from `block` on.
fn read(native: &mut Native, block: u32, buffer: &mut [u8]) {
    native.command(Command::new(opcode::READ_MULTIPLE_BLOCK, block), ResponseType::R1).expect("a read");
    native.read_blocks(buffer, 512, 8, LONG).expect("eight blocks");
    native.command(Command::new(opcode::STOP_TRANSMISSION, 0), ResponseType::R1b).expect("a stop");
}

/// Returns the host stack of Linux with `card` initialised in its slot.
fn linux(card: Card) -> Mmc {
    let mut mmc = Mmc::new(Native::new(Some(card)), Controller::SDHCI, Kernel::V6_1);
    mmc.start_host();
    mmc.rescan();
    assert!(mmc.card().is_some(), "the card is initialised");
    mmc
}

/// Prints the median rate of five runs in requests per CPU second.
fn measure(what: &str, requests: u64, mut read: impl FnMut(u32)) {
    let mut rates: Vec<f64> = (0..5)
        .map(|seed| {
            let mut rng = Rng::new(seed);
            let start = ProcessTime::now();
            for _ in 0..requests {
                read(8 * rng.below(CAPACITY / (4 * KIB)) as u32);
            }
            requests as f64 / start.elapsed().as_secs_f64()
        })
        .collect();
    rates.sort_by(f64::total_cmp);
    println!("{what}: {:.3} million per CPU second", rates[2] / 1e6);
}

fn main() {
    println!("4 KiB reads by commands: CMD18, eight blocks, CMD12");
    let mut fresh = host(card(None), 4);
    measure("without bytes, fresh card", 1_000_000, |at| read(&mut fresh, at, &mut []));
    let mut fresh = linux(card(None));
    measure("the same through the host stack", 1_000_000, |at| {
        fresh.read(at.into(), 8, &mut []).expect("a read")
    });
    let mut written = host(card(None), 4);
    for at in (0..CAPACITY / 512).step_by(65_528) {
        written
            .command(Command::new(opcode::WRITE_MULTIPLE_BLOCK, at as u32), ResponseType::R1)
            .expect("a write");
        for _ in 0..65_528.min(CAPACITY / 512 - at) {
            written.write_block(&[], 512, LONG).expect("a block");
        }
        written.command(Command::new(opcode::STOP_TRANSMISSION, 0), ResponseType::R1b).expect("a stop");
        written.wait_ready(LONG).expect("the card becomes ready");
    }
    let what = "without bytes, card written once in sequence";
    measure(what, 1_000_000, |at| read(&mut written, at, &mut []));
    let mut written = linux(written.remove().expect("the card is in the slot"));
    measure("the same through the host stack", 1_000_000, |at| {
        written.read(at.into(), 8, &mut []).expect("a read")
    });
    let mut buffer = vec![0; 4096];
    for width in [4, 1] {
        let what = format!("with bytes, CRC7 and CRC16 at both ends, {width} bit");
        let mut host = host(card(Some(Box::new(Constant))), width);
        measure(&what, 100_000, |at| read(&mut host, at, &mut buffer));
    }
    let mut mmc = linux(card(Some(Box::new(Constant))));
    let what = "with bytes, through the host stack, 4 bit";
    measure(what, 100_000, |at| mmc.read(at.into(), 8, &mut buffer).expect("a read"));
    let block = [0x5a; 512];
    let sums = |what: &str, sum: &dyn Fn(&[u8]) -> u64| {
        let start = ProcessTime::now();
        let count = 1_000_000;
        (0..count).for_each(|_| {
            black_box(sum(black_box(&block)));
        });
        println!("{what} of a block: {:.0} ns", start.elapsed().as_secs_f64() * 1e9 / f64::from(count));
    };
    sums("CRC16 on one line", &|bytes| u64::from(crc16(bytes)));
    sums("CRC16 on four lines", &|bytes| crc16_lines(bytes));
}
