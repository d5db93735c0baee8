//! Fuzzes a card on its native bus with arbitrary commands, data, clocks, power cuts and waits. The card must not
//! panic, its translation layer must stay consistent, and a read must return the store's bytes.
#![no_main]

#[path = "../bytes.rs"]
mod bytes;

use bytes::Bytes;
use flashlab_flash::ftl::Wear;
use flashlab_flash::ftl::card::{Mapping, Overwrite};
use flashlab_flash::nand::Nand;
use flashlab_sd::register::{Csd, Extensions, Ocr};
use flashlab_sd::{
    Card, CardParameters, Command, Fault, Identity, Ios, Mode, Native, Power, ResponseType, Signal, Timing,
    Transfer,
};
use flashlab_sim::{Duration, Store};
use libfuzzer_sys::fuzz_target;

const KIB: u64 = 1 << 10;
const CAPACITY: u64 = 1 << 20;
const LIMIT: Duration = Duration::from_ms(500);

fn parameters(choice: u8) -> CardParameters {
    let log = choice & 1 == 1;
    let parameters = CardParameters {
        capacity: CAPACITY,
        modes: Mode::ALL.to_vec(),
        nand: Nand {
            page: 4 * KIB,
            t_read: Duration::from_us(100),
            read_rate: 64 << 20,
            t_prog: Duration::from_us(600),
            t_prog_slc: (choice & 2 == 2 && log).then(|| Duration::from_us(200)),
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
            map_cache: (choice & 4 == 4).then_some(512),
            map_page: 512,
        },
        wear: if choice & 8 == 8 {
            Wear { cycles: Some(30), beyond: Some(0), ..Wear::default() }
        } else {
            Wear::default()
        },
        refinements: Default::default(),
    };
    parameters.check().expect("a possible card");
    parameters
}

fn identity(parameters: &CardParameters, choice: u8) -> Identity {
    let mut identity = Identity::new(parameters);
    identity.t_init = Duration::ZERO;
    identity.extensions = Extensions { power_off_notification: true, cache: true };
    if choice & 16 == 16 {
        let csd = 0x400e_0032_5b59_0000_0000_7f80_0a40_0000_u128;
        identity.csd = Csd((csd | u128::from(CAPACITY / (512 * KIB) - 1) << 48).to_be_bytes());
        identity.ocr = Ocr(identity.ocr.0 | Ocr::HIGH_CAPACITY);
        identity.scr.set_commands(0b0111);
    } else {
        // Write-protect groups of 64 KiB.
        identity.csd.0[11] &= 0x80;
    }
    identity
}

const IOS: Ios =
    Ios { clock_hz: 25_000_000, timing: Timing::Legacy, signal: Signal::V3_3, power: Power::On, ..Ios::OFF };

/// Returns the response type that a host expects for a command; R1b for all commands that are not listed.
fn expects(index: u8) -> ResponseType {
    match index {
        0 | 4 | 15 => ResponseType::None,
        2 | 9 | 10 => ResponseType::R2,
        3 => ResponseType::R6,
        8 => ResponseType::R7,
        41 => ResponseType::R3,
        _ => ResponseType::R1b,
    }
}

fn bring_up(native: &mut Native, commands: usize) {
    let mut address = 0;
    let all = [(0, 0), (8, 0x1aa), (55, 0), (41, 0x40ff_8000), (2, 0), (3, 0), (7, 1), (55, 1), (6, 2)];
    for (index, argument) in all.into_iter().take(commands) {
        let argument = if matches!(index, 7) || index == 55 && argument == 1 { address } else { argument };
        if let Ok(response) = native.command(Command::new(index, argument), expects(index))
            && index == 3
        {
            address = response.word() & 0xffff_0000;
        }
    }
}

fuzz_target!(|input: &[u8]| {
    let mut input = input.iter().copied();
    let choice = input.next().unwrap_or(0);
    let parameters = parameters(choice);
    let identity = identity(&parameters, choice);
    let bytes = Bytes::new(CAPACITY);
    let has_bytes = choice & 32 == 32;
    let store: Option<Box<dyn Store>> = if has_bytes { Some(Box::new(bytes.clone())) } else { None };
    let fresh = || Card::new(parameters.clone(), identity.clone(), None, 1);
    let mut native = Native::new(Some(Card::new(parameters.clone(), identity.clone(), store, 1)));
    native.set_ios(&IOS);
    native.advance(Duration::from_ms(10));
    bring_up(&mut native, 7);
    let mut filler = 1u8;
    let mut address = None;
    while let Some(step) = input.next() {
        let mut next = || input.next().unwrap_or(0);
        match step % 16 {
            0..=5 => {
                // Addresses that are likely to be on the card.
                let index = if step < 128 {
                    [17, 18, 24, 25, 12, 23, 32, 33, 38, 13, 55, 6, 7, 42, 48, 49][usize::from(step >> 4)]
                } else {
                    next()
                };
                let argument = match step % 16 {
                    0 | 1 => u32::from_be_bytes([0, 0, next(), next()]),
                    2 => u32::from_be_bytes([0, next(), next(), next()]) << 9,
                    3 => u32::from(identity.relative_address) << 16,
                    4 => 0,
                    _ => u32::from_be_bytes([next(), next(), next(), next()]),
                };
                let index = index & 63;
                let was_reading = matches!(index, 17 | 18).then_some(argument);
                let answered = native.command(Command::new(index, argument), expects(index)).is_ok();
                address = was_reading.filter(|_| answered).map(u64::from);
            }
            6..=8 => {
                for _ in 0..=next() % 40 {
                    let Some(Transfer::Sending { block }) = native.card().map(Card::transfer) else { break };
                    let mut buffer = vec![0xee; block as usize];
                    let read = native.read_block(&mut buffer, block, LIMIT);
                    let unit = if identity.is_block_addressed() { 512 } else { 1 };
                    if let (Some(at), true, 512) = (&mut address, has_bytes, block) {
                        let offset = *at * unit;
                        if read.is_ok() {
                            bytes.range(offset, 512, |held| assert_eq!(held, buffer, "at {offset}"));
                        }
                        // After a block that arrives damaged, the card continues with the next one.
                        if read.is_ok() || read == Err(Fault::Crc) {
                            *at += 512 / unit;
                        }
                    }
                    if read.is_err() {
                        break;
                    }
                }
            }
            9..=11 => {
                for _ in 0..=next() % 80 {
                    let Some(Transfer::Receiving { block }) = native.card().map(Card::transfer) else {
                        break;
                    };
                    let mut block = vec![filler; block as usize];
                    if step & 128 == 128 {
                        block.iter_mut().take(8).for_each(|byte| *byte = next());
                    }
                    filler = filler.wrapping_add(1).max(1);
                    if native.write_block(&block, block.len() as u32, LIMIT).is_err() {
                        break;
                    }
                }
            }
            12 => native.advance(Duration::from_ns(1 << (next() % 34))),
            13 => {
                let _ = native.wait_ready(LIMIT);
            }
            14 => {
                // Other bus settings, or a power cut and a new bring-up.
                let what = next();
                let power = if what & 1 == 1 { Power::Off } else { Power::On };
                let timings =
                    [Timing::Legacy, Timing::HighSpeed, Timing::Sdr50, Timing::Sdr104, Timing::Ddr50];
                native.set_ios(&Ios {
                    power,
                    clock_hz: [400_000, 25_000_000, 30_000_000, 50_000_000][usize::from(what >> 1 & 3)],
                    width: if what & 8 == 8 { 4 } else { 1 },
                    timing: timings[usize::from(what >> 4) % 5],
                    signal: if what & 128 == 128 { Signal::V1_8 } else { Signal::V3_3 },
                    ..IOS
                });
                if power == Power::Off {
                    native.card().expect("it is in the slot").check();
                    native.set_ios(&IOS);
                    native.advance(Duration::from_ms(10));
                    bring_up(&mut native, usize::from(next() % 10));
                }
            }
            _ => {
                let now = native.now();
                let card = native.card_mut().expect("it is in the slot");
                card.crc_error(now);
                if card.busy_until(now).is_none()
                    && let Some(state) = card.save()
                {
                    fresh().restore(&state).expect("its own state");
                }
            }
        }
    }
    let mut card = native.remove().expect("it was never taken out");
    card.check();
    card.power_off(native.now());
});
