//! What a card loses with its power: state, address, modes, what the data lines do.

use super::State;
use crate::Signal;
use crate::command::Status;
use crate::model::array::Stream;
use crate::register::{Selection, Settings};
use alloc::boxed::Box;
use flashlab_sim::Instant;

/// What the data lines are used for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Lines {
    Idle,
    /// Blocks of the array.
    Read(Read),
    /// A register of so many bytes.
    Register(u32),
    /// Blocks for the array.
    Write,
    /// A block of so many bytes that is no data.
    Take(u32, Taken),
}

/// What a block is for that is no data.
#[derive(Clone, Copy, Debug)]
pub(super) enum Taken {
    Csd,
    Lock,
    Extension { function: u8, offset: usize, length: usize },
    Vendor,
}

/// Blocks on their way out of the array.
#[derive(Clone, Copy, Debug)]
pub(super) struct Read {
    pub(super) stream: Stream,
    /// When the card had the command.
    pub(super) accepted: Instant,
    pub(super) at: u64,
    /// Where it ends, if that was said.
    pub(super) end: Option<u64>,
    pub(super) block: u32,
    /// What is ready reaches to here.
    pub(super) ready_to: u64,
}

/// The addresses that CMD32 and CMD33 gave.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Erase {
    pub(super) first: Option<u64>,
    pub(super) last: Option<u64>,
}

/// What a power cut loses.
#[derive(Clone)]
pub(super) struct Volatile {
    pub(super) state: State,
    pub(super) spi: bool,
    /// The next command is an application command.
    pub(super) application: bool,
    /// Error bits that wait for a response.
    pub(super) errors: Status,
    pub(super) address: u16,
    pub(super) addresses_published: u16,
    /// When the card is initialised.
    pub(super) initialised: Option<Instant>,
    /// CMD8 was answered.
    pub(super) conditions_sent: bool,
    pub(super) signal: Signal,
    /// ACMD41 agreed on 1.8 V.
    pub(super) may_switch: bool,
    /// CMD11 was taken: the wires wait for 1.8 V.
    pub(super) switching: bool,
    pub(super) width: u32,
    pub(super) selection: Selection,
    /// What CMD6 has chosen, as of the end of its answer.
    pub(super) chosen: Option<Selection>,
    pub(super) block_length: u32,
    /// CMD23.
    pub(super) block_count: Option<u32>,
    /// CMD22: bits 37 to 32 of the address of the next command.
    pub(super) address_extension: u64,
    pub(super) erase: Erase,
    pub(super) locked: bool,
    pub(super) dsr: u16,
    pub(super) lines: Lines,
    /// The block of a register, or one that is no data.
    pub(super) register: Box<[u8; 512]>,
    /// Programming or erasing goes on until then.
    pub(super) busy: Instant,
    pub(super) settings: Settings,
    /// Blocks that the last write wrote without an error.
    pub(super) written_blocks: u32,
    /// The buffer is full, as of the last command.
    pub(super) full: bool,
    /// What follows is ignored until CMD12.
    pub(super) refusing: bool,
}

impl Volatile {
    pub(super) fn new() -> Self {
        Volatile {
            state: State::Idle,
            spi: false,
            application: false,
            errors: Status::default(),
            address: 0,
            addresses_published: 0,
            initialised: None,
            conditions_sent: false,
            signal: Signal::V3_3,
            may_switch: false,
            switching: false,
            width: 1,
            selection: Selection::default(),
            chosen: None,
            block_length: 512,
            block_count: None,
            address_extension: 0,
            erase: Erase::default(),
            locked: false,
            dsr: 0x0404,
            lines: Lines::Idle,
            register: Box::new([0; 512]),
            busy: Instant::ZERO,
            settings: Settings::default(),
            written_blocks: 0,
            full: false,
            refusing: false,
        }
    }
}
