//! Compares the responses of the card with those of two cards in logs of Linux 6.1. The logs are published
//! with this project's sources of figures. The two cards are QEMU's own card, and a rough emulation of an
//! SDHC card behind a USB adapter, called the sketch.
//!
//! Where our responses differ from the logs, they follow the specification. QEMU's controller drops the end
//! bit in the last byte of a long response, where we send 1. The sketch sends no CRC7 after its CSD, where we
//! send 0x51 including the end bit. The sketch also forgets illegal commands, so its status after CMD5 has no
//! error.

use super::*;
use flashlab_sd::register::{Cid, Csd, Extensions, Functions, Ocr, Scr, Ssr};

/// QEMU's SDSC card of 64 MiB.
fn qemu() -> Identity {
    Identity {
        ocr: Ocr(0x00ff_ff00),
        cid: Cid(0xaa58_5951_454d_5521_01de_adbe_ef00_6200_u128.to_be_bytes()),
        csd: Csd(0x0026_0032_5f59_e03f_ffff_dfff_9260_0000_u128.to_be_bytes()),
        scr: Scr(0x0225_0000_0000_0000_u64.to_be_bytes()),
        ssr: Ssr::EMPTY,
        relative_address: 0x4567,
        functions: Functions::new(&[Mode::DefaultSpeed]),
        extensions: Extensions::default(),
        t_init: Duration::ZERO,
        t_output_ps: 10_000,
    }
}

/// The sketch's SDHC card.
fn sketch() -> Identity {
    let mut ssr = Ssr::EMPTY;
    ssr.0[8..14].copy_from_slice(&[4, 0, 0x90, 0, 8, 5]);
    Identity {
        ocr: Ocr(0x40ff_8000),
        cid: Cid(0x1b53_4d56_4c41_4230_10de_adbe_ef01_8b00_u128.to_be_bytes()),
        csd: Csd(0x400e_0032_5b59_0000_007f_7f80_0a40_0000_u128.to_be_bytes()),
        scr: Scr(0x0235_8000_0000_0000_u64.to_be_bytes()),
        ssr,
        relative_address: 0xb368,
        functions: Functions::new(&[Mode::DefaultSpeed, Mode::HighSpeed]),
        ..qemu()
    }
}

fn host(identity: Identity) -> Host {
    let parameters = CardParameters { capacity: 64 * MIB, ..parameters(Overwrite::Convert) };
    Host::new(Card::new(parameters, identity, None, 1))
}

/// Command, argument, expected response type, and response; `None` if the card does not respond.
type Line = (u8, u32, ResponseType, Option<u128>);

#[track_caller]
fn replay(host: &mut Host, lines: &[Line]) {
    for (index, argument, expects, answer) in lines {
        let heard = match host.send(*index, *argument, *expects) {
            Ok(Response::R2(bytes)) => Some(u128::from_be_bytes(bytes)),
            Ok(_) if *expects == ResponseType::None => None,
            Ok(response) => Some(u128::from(response.word())),
            Err(Fault::Timeout) => None,
            Err(fault) => panic!("CMD{index}: {fault}"),
        };
        assert_eq!(heard, *answer, "CMD{index} {argument:08x}: {heard:08x?}, logged {answer:08x?}");
        if let flashlab_sd::Transfer::Sending { block } = host.card().transfer() {
            host.native.read_block(&mut [], block, LONG).expect("its data");
        }
    }
}

use ResponseType::{None as Nothing, R1, R2, R3, R6, R7};

#[test]
fn the_card_of_qemu_answers_as_in_the_log() {
    replay(
        &mut host(qemu()),
        &[
            (52, 0xc00, R1, None),
            (52, 0x8000_0c08, R1, None),
            (0, 0, Nothing, None),
            (8, 0x1aa, R7, Some(0x1aa)),
            (5, 0, R3, None),
            (55, 0, R1, Some(0x0040_0120)),
            (41, 0, R3, Some(0x00ff_ff00)),
            (0, 0, Nothing, None),
            (8, 0x1aa, R7, Some(0x1aa)),
            (55, 0, R1, Some(0x120)),
            (41, 0x4030_0000, R3, Some(0x80ff_ff00)),
            (2, 0, R2, Some(0xaa58_5951_454d_5521_01de_adbe_ef00_6219)),
            (3, 0, R6, Some(0x4567_0500)),
            (9, 0x4567_0000, R2, Some(0x0026_0032_5f59_e03f_ffff_dfff_9260_00d5)),
            (7, 0x4567_0000, R1, Some(0x700)),
            (55, 0x4567_0000, R1, Some(0x920)),
            (51, 0, R1, Some(0x920)),
            (55, 0x4567_0000, R1, Some(0x920)),
            (13, 0, R1, Some(0x920)),
            (6, 0x00ff_fff0, R1, Some(0x900)),
        ],
    );
}

#[test]
fn the_card_of_the_sketch_answers_as_in_the_log() {
    let mut host = host(sketch());
    replay(
        &mut host,
        &[
            (0, 0, Nothing, None),
            (8, 0x1aa, R7, Some(0x1aa)),
            (55, 0, R1, Some(0x120)),
            (41, 0, R3, Some(0x00ff_8000)),
            (0, 0, Nothing, None),
            (8, 0x1aa, R7, Some(0x1aa)),
            (55, 0, R1, Some(0x120)),
            (41, 0x40c0_0000, R3, Some(0xc0ff_8000)),
            (2, 0, R2, Some(0x1b53_4d56_4c41_4230_10de_adbe_ef01_8b39)),
            (3, 0, R6, Some(0xb368_0500)),
            (9, 0xb368_0000, R2, Some(0x400e_0032_5b59_0000_007f_7f80_0a40_0051)),
            (7, 0xb368_0000, R1, Some(0x700)),
            (55, 0xb368_0000, R1, Some(0x920)),
            (51, 0, R1, Some(0x920)),
            (55, 0xb368_0000, R1, Some(0x920)),
            (13, 0, R1, Some(0x920)),
            (6, 0x00ff_fff0, R1, Some(0x900)),
            (6, 0x80ff_fff1, R1, Some(0x900)),
            (55, 0xb368_0000, R1, Some(0x920)),
            (6, 2, R1, Some(0x920)),
        ],
    );
    assert_eq!((host.card().access_mode(), host.card().width()), (1, 4));
}

#[test]
fn written_data_is_read_back_with_both_checksums() {
    let parameters = parameters(Overwrite::Convert);
    let bytes = Bytes::new(parameters.capacity);
    let identity = high_capacity(&parameters);
    let mut host = Host::new(Card::new(parameters, identity, Some(Box::new(bytes.clone())), 1));
    host.bring_up();
    host.widen(Mode::HighSpeed);
    let written = pattern(1, 40);
    host.write(100, &written);
    host.write(99, &written[..512]);
    assert_eq!(host.read(99, 1), written[..512]);
    assert_eq!(host.read(100, 40), written);
    assert_eq!(bytes.at(100 * 512..140 * 512), written);
    assert!(
        host.read(1000, 8).iter().all(|byte| *byte == 0),
        "blocks that were never written read as zeroes"
    );
    host.card().check();
}
