//! Tests of SPI mode, byte by byte.

use super::bench::{GIB, MIB, card};
use flashlab_sd::opcode;
use flashlab_sd::quirk::Quirk;
use flashlab_sd::spi::{ChipSelect, Spi};
use flashlab_sd::{Command, crc16};
use flashlab_sim::{Duration, Instant, Store};
use proptest::prelude::*;

fn spi(capacity: u64, quirks: &[&str]) -> Spi {
    let mut spi = Spi::new(Some(card(capacity, quirks).0), 25_000_000);
    send(&mut spi, &[0xff; 10]);
    spi.select(true);
    spi
}

fn send(spi: &mut Spi, bytes: &[u8]) {
    for byte in bytes {
        spi.exchange(*byte);
    }
}

/// Sends a command. Returns its R1 and the number of bytes until it arrived.
fn command(spi: &mut Spi, index: u8, argument: u32) -> (u8, usize) {
    send(spi, &Command::new(index, argument).to_bytes());
    let came = (1..20).find_map(|n| Some((spi.exchange(0xff), n)).filter(|(byte, _)| byte & 0x80 == 0));
    came.unwrap_or((0xff, 0))
}

fn bytes<const N: usize>(spi: &mut Spi) -> [u8; N] {
    core::array::from_fn(|_| spi.exchange(0xff))
}

fn ready(spi: &mut Spi) {
    assert_eq!(command(spi, 0, 0).0, 1);
    assert_eq!(command(spi, 8, 0x1aa).0, 1);
    assert_eq!(bytes(spi), [0, 0, 1, 0xaa]);
    loop {
        assert_eq!(command(spi, 55, 0).0 & !1, 0);
        if command(spi, 41, 0x4000_0000).0 == 0 {
            return;
        }
        spi.wait(Duration::from_ms(10));
    }
}

/// Returns the next token from the card, or `None` if none arrives within a millisecond.
fn token(spi: &mut Spi) -> Option<u8> {
    let until = spi.now() + Duration::from_ms(1);
    while spi.now() < until {
        let byte = spi.exchange(0xff);
        if byte != 0xff {
            return Some(byte);
        }
    }
    None
}

#[test]
fn a_byte_takes_eight_clocks_and_an_unselected_card_is_silent() {
    let mut spi = Spi::new(Some(card(64 * MIB, &[]).0), 20_000_000);
    assert_eq!(spi.exchange(0x40), 0xff);
    assert_eq!(spi.now(), Instant::from_ns(400));
    spi.wait(Duration::from_ms(3));
    spi.set_clock(400_000);
    spi.exchange(0xff);
    assert_eq!(spi.now(), Instant::from_ns(3_020_400));
}

#[test]
fn spi_mode_begins_with_a_selected_cmd0_with_a_correct_checksum_after_74_clocks() {
    let mut early = Spi::new(Some(card(64 * MIB, &[]).0), 400_000);
    early.select(true);
    assert_eq!(command(&mut early, 0, 0).0, 0xff, "48 clocks are too few");
    assert_eq!(command(&mut early, 0, 0).0, 1);

    let mut spi = spi(64 * MIB, &[]);
    assert_eq!(command(&mut spi, 8, 0x1aa).0, 0xff, "the card is in native mode");
    let mut wrong = Command::new(opcode::GO_IDLE_STATE, 0).to_bytes();
    wrong[5] ^= 2;
    send(&mut spi, &wrong);
    assert_eq!(token(&mut spi), None);
    let (r1, later) = command(&mut spi, 0, 0);
    assert_eq!((r1, later), (1, 2), "a byte is between command and response");
}

#[test]
fn commands_are_answered_as_the_state_allows() {
    let mut spi = spi(4 * GIB, &[]);
    assert_eq!(command(&mut spi, 0, 0).0, 1);
    assert_eq!(command(&mut spi, 17, 0).0, 0b101, "illegal while idle");
    assert_eq!(command(&mut spi, 58, 0).0, 1);
    assert_eq!(bytes(&mut spi), [0x00, 0xff, 0x80, 0x00]);
    ready(&mut spi);
    assert_eq!(command(&mut spi, 58, 0).0, 0);
    assert_eq!(bytes::<4>(&mut spi)[0], 0xc0);
    assert_eq!(command(&mut spi, 2, 0).0, 0b100, "there is no CMD2 in SPI mode");
    assert_eq!(command(&mut spi, 13, 0).0, 0);
    assert_eq!(bytes(&mut spi), [0], "R2 does not report the error again");
    assert_eq!(command(&mut spi, 17, u32::MAX).0 & 0x40, 0x40, "a parameter out of range");
}

#[test]
fn checksums_are_checked_once_cmd59_has_enabled_the_checks() {
    let mut spi = spi(64 * MIB, &[]);
    ready(&mut spi);
    let wrong = |spi: &mut Spi| {
        let mut frame = Command::new(opcode::SET_BLOCKLEN, 512).to_bytes();
        frame[5] ^= 4;
        send(spi, &frame);
        token(spi)
    };
    assert_eq!(wrong(&mut spi), Some(0));
    assert_eq!(command(&mut spi, 59, 1).0, 0);
    assert_eq!(wrong(&mut spi), Some(0b1000));
    assert_eq!(command(&mut spi, 24, 0).0, 0);
    spi.exchange(0xfe);
    send(&mut spi, &[0x11; 514]);
    assert_eq!(spi.exchange(0xff) & 0x1f, 0b01011);
    let mut stuck = self::spi(64 * MIB, &["no-crc-mode"]);
    ready(&mut stuck);
    assert_eq!(command(&mut stuck, 59, 1).0 & 4, 4);
}

#[test]
fn a_reset_switches_checksums_off() {
    let mut spi = spi(64 * MIB, &[]);
    ready(&mut spi);
    assert_eq!(command(&mut spi, 59, 1).0, 0);
    assert_eq!(command(&mut spi, 0, 0).0, 1);
    let mut frame = Command::new(opcode::READ_OCR, 0).to_bytes();
    frame[5] = 0xff;
    send(&mut spi, &frame);
    assert_eq!(token(&mut spi), Some(1), "the checksum is no longer checked");
}

#[test]
fn a_cmd8_with_an_unsupported_voltage_is_answered_without_a_voltage() {
    let mut spi = spi(64 * MIB, &[]);
    assert_eq!(command(&mut spi, 0, 0).0, 1);
    assert_eq!(command(&mut spi, 8, 0x2aa).0, 1);
    assert_eq!(bytes(&mut spi), [0, 0, 0, 0xaa]);
}

#[test]
fn a_write_of_several_blocks_continues_after_a_status_command() {
    let (card, store) = card(64 * MIB, &[]);
    let mut spi = Spi::new(Some(card), 25_000_000);
    send(&mut spi, &[0xff; 10]);
    spi.select(true);
    ready(&mut spi);
    assert_eq!(command(&mut spi, 25, 0).0, 0);
    for n in [1, 2] {
        assert_eq!(command(&mut spi, 13, 0).0, 0);
        assert_eq!(bytes(&mut spi), [0]);
        spi.exchange(0xfc);
        send(&mut spi, &[n; 514]);
        assert_eq!(spi.exchange(0xff) & 0x1f, 0b00101, "block {n} is accepted");
        while spi.exchange(0xff) == 0 {}
    }
    assert_eq!(command(&mut spi, 13, 0).0, 0);
    bytes::<2>(&mut spi);
    spi.exchange(0xfd);
    while spi.exchange(0xff) == 0 {}
    assert_eq!(command(&mut spi, 17, 512).0, 0);
    assert_eq!(token(&mut spi), Some(0xfe));
    assert_eq!(bytes(&mut spi), [2; 512]);
    let mut kept = [0; 1024];
    store.read(0, &mut kept).expect("the range is within the card");
    assert_eq!((kept[0], kept[1023]), (1, 2));
}

#[test]
fn a_rejected_single_block_leaves_the_card_ready() {
    let mut spi = spi(64 * MIB, &["read-only"]);
    ready(&mut spi);
    assert_eq!(command(&mut spi, 24, 31 * 512).0, 0);
    spi.exchange(0xfe);
    send(&mut spi, &[0x11; 514]);
    assert_eq!(spi.exchange(0xff) & 0x1f, 0b01101);
    while spi.exchange(0xff) == 0 {}
    assert_eq!(command(&mut spi, 13, 0).0, 0);
    assert_eq!(bytes(&mut spi), [0b100], "an error");
    assert_eq!(command(&mut spi, 17, 0).0, 0);
    assert_eq!(token(&mut spi), Some(0xfe));
}

#[test]
fn registers_and_blocks_come_with_token_and_checksum() {
    let mut spi = spi(64 * MIB, &[]);
    ready(&mut spi);
    assert_eq!(command(&mut spi, 9, 0).0, 0);
    assert_eq!(token(&mut spi), Some(0xfe));
    let csd: [u8; 16] = bytes(&mut spi);
    assert_eq!(u16::from_be_bytes(bytes(&mut spi)), crc16(&csd));
    assert_eq!(csd, spi.card().expect("it is there").identity().csd.with_crc());
    assert_eq!(command(&mut spi, 55, 0).0, 0);
    assert_eq!(command(&mut spi, 13, 0).0, 0);
    assert_eq!(bytes(&mut spi), [0], "the status of ACMD13 has two bytes");
}

#[test]
fn a_write_is_acknowledged_then_busy_then_durable() {
    let (card, store) = card(64 * MIB, &[]);
    let mut spi = Spi::new(Some(card), 25_000_000);
    send(&mut spi, &[0xff; 10]);
    spi.select(true);
    ready(&mut spi);
    assert_eq!(command(&mut spi, 25, 512).0, 0);
    for n in [1, 2, 3] {
        spi.exchange(0xff);
        spi.exchange(0xfc);
        send(&mut spi, &[n; 514]);
        assert_eq!(spi.exchange(0xff) & 0x1f, 0b00101);
        while spi.exchange(0xff) == 0 {}
    }
    spi.exchange(0xfd);
    assert_eq!(spi.exchange(0xff), 0, "it is busy");
    spi.select(false);
    assert_eq!(spi.exchange(0xff), 0xff, "a deselected card does not show that it is busy");
    spi.select(true);
    let began = spi.now();
    while spi.exchange(0xff) == 0 {}
    assert!(spi.now().since(began) > Duration::from_us(300), "a page is programmed");
    let mut kept = [0; 2048];
    store.read(0, &mut kept).expect("the range is within the card");
    assert!([0, 1, 2, 3].iter().all(|n| kept[*n * 512..][..512].iter().all(|byte| usize::from(*byte) == *n)));
}

#[test]
fn a_rising_chip_select_ends_a_read_or_pauses_it() {
    for (policy, goes_on) in [(ChipSelect::EndsTransfers, false), (ChipSelect::Pauses, true)] {
        let mut spi = spi(64 * MIB, &[]).with_chip_select(policy);
        ready(&mut spi);
        assert_eq!(command(&mut spi, 18, 0).0, 0);
        assert_eq!(token(&mut spi), Some(0xfe));
        spi.select(false);
        spi.exchange(0xff);
        spi.select(true);
        assert_eq!(spi.exchange(0xff) == 0, goes_on);
        if !goes_on {
            assert_eq!(token(&mut spi), None);
        }
        assert_eq!(command(&mut spi, 12, 0).0, 0);
        assert_eq!(command(&mut spi, 13, 0).0, 0);
    }
}

#[test]
fn quirks_are_visible_on_the_wires() {
    let mut low = spi(64 * MIB, &["low-before-reset", "reset-retries=2"]);
    assert_eq!(low.exchange(0xff), 0);
    for _ in 0..2 {
        send(&mut low, &Command::new(opcode::GO_IDLE_STATE, 0).to_bytes());
        assert_eq!(low.exchange(0xff), 0);
    }
    assert_eq!(command(&mut low, 0, 0).0, 1);

    let mut garbage = spi(64 * MIB, &["garbage-before-response"]);
    send(&mut garbage, &Command::new(opcode::GO_IDLE_STATE, 0).to_bytes());
    assert_eq!(bytes(&mut garbage), [0xff, 0xc1, 1]);

    let mut late = spi(64 * MIB, &["late-illegal"]);
    ready(&mut late);
    assert_eq!([2, 16, 16].map(|index| command(&mut late, index, 512).0), [4, 4, 0]);

    let mut busy = spi(64 * MIB, &["busy-after-app=1ms"]);
    assert_eq!(command(&mut busy, 0, 0).0, 1);
    assert_eq!(command(&mut busy, 55, 0).0, 1);
    assert_eq!(command(&mut busy, 41, 0x4000_0000).0, 0, "this is no R1: the line is low");
    busy.wait(Duration::from_ms(1));
    assert_eq!(busy.exchange(0xff), 0xff);

    let mut again = spi(64 * MIB, &["reset-before-if-cond"]);
    assert_eq!([0, 8, 8, 0, 8].map(|index| command(&mut again, index, 0x1aa).0), [1, 1, 0xff, 1, 1]);

    let mut once = spi(64 * MIB, &["one-op-cond"]);
    assert_eq!([0, 1, 1].map(|index| command(&mut once, index, 0).0), [1, 1, 0xff]);
}

#[test]
fn data_that_never_arrives_does_not_affect_later_commands() {
    let mut spi = spi(4 * GIB, &["no-extension-data"]);
    ready(&mut spi);
    assert_eq!(command(&mut spi, 48, 0x1ff).0, 0);
    assert_eq!([token(&mut spi), token(&mut spi)], [None; 2]);
    assert_eq!(command(&mut spi, 12, 0).0, 0);
    assert_eq!(command(&mut spi, 9, 0).0, 0);
    assert_eq!(token(&mut spi), Some(0xfe));
}

#[test]
fn a_card_that_loses_power_in_a_block_is_silent_until_it_is_reset() {
    let mut spi = spi(64 * MIB, &["power-cut@block2"]);
    ready(&mut spi);
    assert_eq!(command(&mut spi, 25, 0).0, 0);
    for _ in 0..2 {
        while spi.exchange(0xff) == 0 {}
        spi.exchange(0xfc);
        send(&mut spi, &[7; 514]);
        spi.exchange(0xff);
    }
    assert_eq!(token(&mut spi), None);
    assert_eq!(command(&mut spi, 13, 0).0, 0xff, "the card is in native mode");
    ready(&mut spi);
    assert_eq!(command(&mut spi, 17, 0).0, 0);
    assert_eq!(token(&mut spi), Some(0xfe));
}

/// Section 6.4.1 demands 74 clocks after each power-up.
#[test]
fn after_a_power_cut_the_card_needs_its_first_clocks_again() {
    let mut spi = spi(64 * MIB, &["power-cut@CMD13"]);
    ready(&mut spi);
    send(&mut spi, &Command::new(opcode::SEND_STATUS, 0).to_bytes());
    send(&mut spi, &Command::new(opcode::GO_IDLE_STATE, 0).to_bytes());
    assert_eq!(bytes(&mut spi), [0xff; 4], "48 clocks are too few");
    assert_eq!(command(&mut spi, 0, 0).0, 1);
}

#[test]
fn all_quirks_of_one_command_and_of_one_block_become_active() {
    let mut spi = spi(64 * MIB, &["power-cut@CMD13", "silent@CMD13"]);
    ready(&mut spi);
    assert_eq!(command(&mut spi, 13, 0).0, 0xff);
    assert_eq!(spi.card().expect("a card").quirks().active(), [Quirk::Silent]);
    assert_eq!(token(&mut spi), None);
    assert_eq!(command(&mut spi, 0, 0).0, 0xff, "the card stays silent");

    let mut removed = self::spi(64 * MIB, &["power-cut@block1", "remove@block1"]);
    ready(&mut removed);
    assert_eq!(command(&mut removed, 24, 0).0, 0);
    removed.exchange(0xfe);
    send(&mut removed, &[7; 514]);
    assert!(removed.card().expect("a card").quirks().is_removed());
}

#[test]
fn counterfeits_wrap_around_or_drop_high_addresses() {
    let write = |quirk: &str| {
        let (card, _) = card(64 * MIB, &[quirk]);
        let mut host =
            super::fatfs_native::Host::bring_up(card, 64 * MIB).expect("the driver initialises the card");
        let (low, high) = (MIB / 512, 17 * MIB / 512);
        host.write_blocks(low, &[1; 512]).expect("it can be written");
        host.write_blocks(high, &[2; 512]).expect("the card accepts the block");
        [low, high].map(|at| {
            let mut block = [9; 512];
            host.read_blocks(at, &mut block).expect("it can be read");
            block[0]
        })
    };
    assert_eq!(write("busy=1ms"), [1, 2]);
    assert_eq!(write("wraps=16MiB"), [2, 2]);
    assert_eq!(write("drops=16MiB"), [1, 0]);
    assert_eq!(write("keeps-other=2"), [1, 2 ^ 0x5a]);
}

#[test]
fn a_power_cut_in_a_write_leaves_each_sector_old_or_new() {
    for nth in 1..40 {
        let quirk = format!("power-cut@block{nth}");
        let (card, store) = card(64 * MIB, &[&quirk]);
        store.write(0, &[1; 64 * 512]).expect("there is room");
        let mut host =
            super::fatfs_native::Host::bring_up(card, 64 * MIB).expect("the driver initialises the card");
        assert!(host.write_blocks(0, &[2; 40 * 512]).is_err(), "the power cut interrupts the write");
        let mut kept = [0; 64 * 512];
        store.read(0, &mut kept).expect("the range is within the card");
        for (n, sector) in kept.chunks(512).enumerate() {
            let whole = sector.iter().all(|byte| *byte == sector[0]);
            assert!(whole && (sector[0] == 1 || sector[0] == 2 && n < nth), "{quirk}: sector {n}");
        }
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_cause_no_panic(
        steps in prop::collection::vec((0..5u8, any::<u8>(), any::<u32>(), prop::collection::vec(any::<u8>(), 0..40)), 0..60),
        policy in prop_oneof![Just(ChipSelect::EndsTransfers), Just(ChipSelect::Pauses)],
    ) {
        let mut spi = spi(64 * MIB, &[]).with_chip_select(policy);
        ready(&mut spi);
        for (what, index, argument, bytes) in steps {
            match what {
                0 => spi.select(index & 1 == 0),
                1 => spi.wait(Duration::from_ns(argument.into())),
                2 => assert!(command(&mut spi, index, argument % (200 * 512)).1 < 20),
                3 => send(&mut spi, &[0xfc | index & 3]),
                _ => send(&mut spi, &bytes),
            }
        }
    }
}
