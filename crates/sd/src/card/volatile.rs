//! Volatile state of a card, which a power cut clears: card state, address, modes, and the use of the data lines.

use super::State;
use crate::Signal;
use crate::command::Status;
use crate::model::array::Stream;
use crate::register::{Selection, Settings};
use alloc::boxed::Box;
use flashlab_sim::Instant;

/// Use of the data lines.
#[derive(Clone, Copy, Debug)]
pub(super) enum Lines {
    Idle,
    /// The card sends blocks from the array.
    Read(Read),
    /// The card sends a register of this many bytes.
    Register(u32),
    /// The card receives blocks for the array.
    Write,
    /// The card receives a block of this many bytes that is not user data.
    ReceiveOther(u32, BlockPurpose),
}

/// Purpose of a received block that is not user data.
#[derive(Clone, Copy, Debug)]
pub(super) enum BlockPurpose {
    Csd,
    Lock,
    Extension { function: u8, offset: usize, length: usize },
    Vendor,
}

/// A read of blocks from the array.
#[derive(Clone, Copy, Debug)]
pub(super) struct Read {
    pub(super) stream: Stream,
    /// Time when the card received the command.
    pub(super) accepted: Instant,
    pub(super) at: u64,
    /// End of the read, if the host has specified a block count.
    pub(super) end: Option<u64>,
    pub(super) block: u32,
    /// End of the data that the array has made ready.
    pub(super) ready_to: u64,
}

/// Addresses from CMD32 and CMD33.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Erase {
    pub(super) first: Option<u64>,
    pub(super) last: Option<u64>,
}

/// The state that a power cut clears.
#[derive(Clone)]
pub(super) struct Volatile {
    pub(super) state: State,
    pub(super) spi: bool,
    /// True if the next command is an application command.
    pub(super) application: bool,
    /// Error bits that the next response reports.
    pub(super) errors: Status,
    pub(super) address: u16,
    pub(super) addresses_published: u16,
    /// Time when the initialization ends.
    pub(super) initialised: Option<Instant>,
    /// True if the card has responded to CMD8.
    pub(super) conditions_sent: bool,
    pub(super) signal: Signal,
    /// True if ACMD41 has agreed on 1.8 V signals.
    pub(super) may_switch: bool,
    /// True after CMD11, until the host switches the signals.
    pub(super) switching: bool,
    pub(super) width: u32,
    pub(super) selection: Selection,
    /// Functions that CMD6 has selected, which take effect once its data block has been sent.
    pub(super) chosen: Option<Selection>,
    pub(super) block_length: u32,
    /// Block count from CMD23.
    pub(super) block_count: Option<u32>,
    /// Bits 37 to 32 of the next command's address, from CMD22.
    pub(super) address_extension: u64,
    pub(super) erase: Erase,
    pub(super) locked: bool,
    pub(super) dsr: u16,
    pub(super) lines: Lines,
    /// Content of a register block.
    pub(super) register: Box<[u8; 512]>,
    /// End of the current program or erase operation.
    pub(super) busy: Instant,
    pub(super) settings: Settings,
    /// Number of blocks that the last write wrote without an error.
    pub(super) written_blocks: u32,
    /// True if the buffer was full when the last command arrived.
    pub(super) full: bool,
    /// True if the card ignores all blocks until CMD12.
    pub(super) ignores_blocks: bool,
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
            ignores_blocks: false,
        }
    }
}
