//! Fuzzes a card in SPI mode with arbitrary bytes, commands, blocks, chip select and quirks. The card must not panic,
//! time must advance, the data line must stay high while the card is not selected, and the translation layer must stay
//! consistent.
#![no_main]

#[path = "../small_card.rs"]
mod small_card;

use flashlab_sd::quirk::{Planned, Quirk, TABLE, Trigger};
use flashlab_sd::spi::{ChipSelect, Spi};
use flashlab_sd::{Command, crc16};
use flashlab_sim::{Duration, Instant};
use libfuzzer_sys::fuzz_target;
use small_card::{CAPACITY, card};

/// Exchanges a byte, and checks the time and the idle line.
fn exchange(spi: &mut Spi, byte: u8) -> u8 {
    let (before, selected) = (spi.now(), spi.is_selected());
    let answer = spi.exchange(byte);
    assert!(spi.now() > before);
    assert!(selected || answer == 0xff);
    answer
}

fn command(spi: &mut Spi, index: u8, argument: u32) -> Option<u8> {
    for byte in Command::new(index, argument).to_bytes() {
        exchange(spi, byte);
    }
    (0..12).map(|_| exchange(spi, 0xff)).find(|byte| byte & 0x80 == 0)
}

fn bring_up(spi: &mut Spi) {
    spi.select(false);
    (0..10).for_each(|_| assert_eq!(exchange(spi, 0xff), 0xff));
    spi.select(true);
    for (index, argument) in [(0, 0), (8, 0x1aa), (55, 0), (41, 0x4000_0000), (55, 0), (41, 0x4000_0000)] {
        command(spi, index, argument);
    }
}

fn quirk(number: u8, value: u8, byte: u8) -> Planned {
    let entry = &TABLE[usize::from(number) % TABLE.len()];
    // The quirk is parsed from text, so that the table's parsers are fuzzed as well.
    let operand = match entry.operand {
        flashlab_sd::quirk::Operand::None => String::new(),
        flashlab_sd::quirk::Operand::Count => format!("={}", value.max(1)),
        flashlab_sd::quirk::Operand::Time => format!("={value}ms"),
        flashlab_sd::quirk::Operand::Size => format!("={}KiB", u32::from(value) + 1),
    };
    let text = format!("{}{operand}", entry.name);
    let Planned { quirk, .. } = text.parse().expect("it is in the table");
    let trigger = match byte % 4 {
        0 => Trigger::Always,
        1 => Trigger::At(Instant::from_ns(u64::from(byte) << 16)),
        2 => Trigger::Command { index: byte >> 2, nth: u32::from(value % 4 + 1) },
        _ => Trigger::Block(u64::from(byte >> 2)),
    };
    Planned { quirk, trigger }
}

fuzz_target!(|input: &[u8]| {
    let mut input = input.iter().copied();
    let choice = input.next().unwrap_or(0);
    let mut card = card(choice);
    for _ in 0..choice >> 6 {
        let mut next = || input.next().unwrap_or(0);
        let planned = quirk(next(), next(), next());
        // These quirks would leave the card unusable from the start.
        if !matches!(planned.quirk, Quirk::Silent | Quirk::Remove) || planned.trigger != Trigger::Always {
            card.quirks_mut().add(planned);
        }
    }
    let policy = if choice & 8 == 8 { ChipSelect::Pauses } else { ChipSelect::EndsTransfers };
    let mut spi = Spi::new(Some(card), 25_000_000).with_chip_select(policy);
    if choice & 16 == 0 {
        bring_up(&mut spi);
    }
    while let Some(step) = input.next() {
        let mut next = || input.next().unwrap_or(0);
        match step % 8 {
            0 => spi.select(step & 8 == 8),
            1 => spi.wait(Duration::from_ns(1 << (next() % 34))),
            2 | 3 => {
                const LIKELY: [u8; 16] = [17, 18, 24, 25, 12, 9, 32, 33, 38, 13, 55, 6, 58, 59, 48, 49];
                let index = if step & 8 == 8 { LIKELY[usize::from(step >> 4)] } else { next() };
                let argument = match step % 8 {
                    2 => u32::from(u16::from_be_bytes([next(), next()])) * 512 % (CAPACITY as u32 + 1024),
                    _ => u32::from_be_bytes([next(), next(), next(), next()]),
                };
                command(&mut spi, index, argument);
            }
            4 => {
                // A block with its token and a correct or wrong checksum.
                exchange(&mut spi, if step & 8 == 8 { 0xfc } else { 0xfe });
                let block = [next(); 512];
                for byte in block {
                    exchange(&mut spi, byte);
                }
                let crc = crc16(&block) ^ u16::from(step & 16 == 16);
                for byte in crc.to_be_bytes() {
                    exchange(&mut spi, byte);
                }
            }
            5 => {
                for _ in 0..next() {
                    exchange(&mut spi, 0xff);
                }
            }
            6 => {
                exchange(&mut spi, next());
            }
            _ if step & 0xf8 == 0xf8 => {
                spi.power_cycle();
                bring_up(&mut spi);
            }
            _ => {
                exchange(&mut spi, 0xfd);
            }
        }
    }
    spi.card().expect("nobody took it out").check();
});
