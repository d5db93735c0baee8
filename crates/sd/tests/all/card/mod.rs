//! Tests of the card with its command line, over the native bus.

mod bring_up;
mod commands;
mod edges;
mod one_timing;
mod power;
mod states;
mod wires;

use flashlab_flash::ftl::Wear;
use flashlab_flash::ftl::card::{Mapping, Overwrite};
use flashlab_flash::nand::Nand;
use flashlab_sd::opcode;
use flashlab_sd::{
    Card, CardParameters, Command, Fault, Identity, Ios, Mode, Native, Power, Response, ResponseType, Signal,
    Status, Timing,
};
use flashlab_sim::{Duration, Store, StoreError};
use std::ops::Range;
use std::sync::{Arc, Mutex};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// A time-out that exceeds the duration of every operation of a card.
const LONG: Duration = Duration::from_secs(10);

/// Bytes in memory that a test can inspect while the card uses them.
#[derive(Clone)]
struct Bytes(Arc<Mutex<Vec<u8>>>);

impl Bytes {
    fn new(capacity: u64) -> Self {
        Bytes(Arc::new(Mutex::new(vec![0; capacity as usize])))
    }
    fn at(&self, range: Range<u64>) -> Vec<u8> {
        self.0.lock().unwrap()[range.start as usize..range.end as usize].to_vec()
    }
}

impl Store for Bytes {
    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), StoreError> {
        buffer.copy_from_slice(&self.at(offset..offset + buffer.len() as u64));
        Ok(())
    }
    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), StoreError> {
        self.0.lock().unwrap()[offset as usize..][..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }
    fn discard(&self, offset: u64, length: u64) -> Result<(), StoreError> {
        self.0.lock().unwrap()[offset as usize..][..length as usize].fill(0);
        Ok(())
    }
    fn data_in(&self, range: Range<u64>) -> Result<Option<Range<u64>>, StoreError> {
        let any = self.at(range.clone()).iter().any(|byte| *byte != 0);
        Ok(any.then_some(range))
    }
    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

pub(crate) fn parameters(overwrite: Overwrite) -> CardParameters {
    let erase_block = 64 * KIB;
    let parameters = CardParameters {
        capacity: 4 * MIB,
        modes: Mode::ALL.to_vec(),
        nand: Nand {
            page: 8 * KIB,
            t_read: Duration::from_us(100),
            read_rate: 64 * MIB,
            t_prog: Duration::from_us(600),
            t_prog_slc: None,
            bits: None,
            erase_block,
            t_bers: Duration::from_us(900),
            spread_ppm: 30_000,
        },
        mapping: Mapping {
            program_unit: 8 * KIB,
            t_commit: Duration::from_us(250),
            map_unit: erase_block,
            rewrite_unit: erase_block,
            overwrite,
            open_units: 3,
            map_cache: None,
            map_page: 4 * KIB,
        },
        wear: Wear::default(),
        refinements: Default::default(),
    };
    parameters.check().expect("a possible card");
    parameters
}

/// Returns the identity of a block-addressed card, regardless of its capacity.
fn high_capacity(parameters: &CardParameters) -> Identity {
    use flashlab_sd::register::{Csd, Ocr};
    let mut identity = Identity::new(parameters);
    // The bytes of a logged SDHC card, with this capacity in units of 512 KiB.
    let csd = 0x400e_0032_5b59_0000_0000_7f80_0a40_0000_u128;
    identity.csd = Csd((csd | u128::from(parameters.capacity / (512 * KIB) - 1) << 48).to_be_bytes());
    identity.ocr = Ocr(identity.ocr.0 | Ocr::HIGH_CAPACITY);
    identity.scr.set_commands(0b0111);
    identity
}

const IOS: Ios =
    Ios { clock_hz: 400_000, timing: Timing::Legacy, signal: Signal::V3_3, power: Power::On, ..Ios::OFF };

/// A host that panics on any unexpected response.
struct Host {
    native: Native,
    address: u32,
}

impl Host {
    fn new(card: Card) -> Self {
        let mut host = Host { native: Native::new(Some(card)), address: 0 };
        host.native.set_ios(&IOS);
        host.native.advance(Duration::from_ms(10));
        host
    }

    fn card(&mut self) -> &mut Card {
        self.native.card_mut().expect("the card is in the slot")
    }

    fn send(&mut self, index: u8, argument: u32, expects: ResponseType) -> Result<Response, Fault> {
        self.native.command(Command::new(index, argument), expects)
    }

    #[track_caller]
    fn r1(&mut self, index: u8, argument: u32) -> Status {
        match self.send(index, argument, ResponseType::R1) {
            Ok(Response::R1(status)) => status,
            other => panic!("CMD{index} {argument:08x}: {other:?}"),
        }
    }

    #[track_caller]
    fn application(&mut self, index: u8, argument: u32) -> Status {
        assert!(self.r1(opcode::APP_CMD, self.address).has(Status::APP_CMD));
        self.r1(index, argument)
    }

    /// Brings the card up, from power to the transfer state.
    #[track_caller]
    fn bring_up(&mut self) {
        self.send(opcode::GO_IDLE_STATE, 0, ResponseType::None).expect("it is not answered");
        self.send(opcode::SEND_IF_COND, 0x1aa, ResponseType::R7).expect("a card of version 2");
        self.address = 0;
        for _ in 0.. {
            self.r1(opcode::APP_CMD, 0);
            let ocr = self
                .send(opcode::app::SD_SEND_OP_COND, 0x40ff_8000, ResponseType::R3)
                .expect("a card")
                .word();
            if ocr >> 31 == 1 {
                break;
            }
            self.native.advance(Duration::from_ms(10));
        }
        self.send(opcode::ALL_SEND_CID, 0, ResponseType::R2).expect("its CID");
        self.address =
            self.send(opcode::SEND_RELATIVE_ADDR, 0, ResponseType::R6).expect("its address").word()
                & 0xffff_0000;
        assert!(!self.r1(opcode::SELECT_CARD, self.address).has_any(Status::ERRORS));
    }

    /// Switches to four lines at a mode's highest clock.
    #[track_caller]
    fn widen(&mut self, mode: Mode) {
        self.application(opcode::app::SET_BUS_WIDTH, 2);
        let (timing, function) = match mode {
            Mode::DefaultSpeed => (Timing::Legacy, 0),
            Mode::HighSpeed => (Timing::HighSpeed, 1),
            mode => panic!("{mode:?} needs 1.8 V"),
        };
        self.native.set_ios(&Ios { width: 4, ..IOS });
        self.r1(opcode::SWITCH_FUNC, 0x80ff_fff0 | function);
        let mut status = [0; 64];
        self.native.read_block(&mut status, 64, LONG).expect("the functions");
        self.native.set_ios(&Ios { width: 4, timing, clock_hz: mode.bus().clock_hz as u32, ..IOS });
    }

    /// Reads blocks of 512 bytes from a block address on, with CMD17, or CMD18 and CMD12.
    #[track_caller]
    fn read(&mut self, block: u32, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; 512 * count];
        self.r1(if count == 1 { 17 } else { 18 }, block);
        for part in bytes.chunks_mut(512) {
            self.native.read_block(part, 512, LONG).expect("a block");
        }
        if count > 1 {
            self.r1(opcode::STOP_TRANSMISSION, 0);
        }
        bytes
    }

    /// Writes blocks of 512 bytes with CMD24, or CMD25 and CMD12, and waits for the end of programming.
    #[track_caller]
    fn write(&mut self, block: u32, bytes: &[u8]) {
        let count = bytes.len() / 512;
        self.r1(if count == 1 { 24 } else { 25 }, block);
        for part in bytes.chunks(512) {
            self.native.write_block(part, 512, LONG).expect("a block");
        }
        if count > 1 {
            self.send(opcode::STOP_TRANSMISSION, 0, ResponseType::R1b).expect("a stop");
        }
        self.native.wait_ready(LONG).expect("the card becomes ready");
    }
}

/// Returns bytes that differ in every block.
fn pattern(seed: u64, blocks: usize) -> Vec<u8> {
    let mut rng = flashlab_sim::Rng::new(seed);
    (0..blocks * 64).flat_map(|_| (rng.next_u64() | 1).to_le_bytes()).collect()
}
