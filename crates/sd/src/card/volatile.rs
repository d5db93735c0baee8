//! Volatile state of a card, which a power cut clears: card state, address, modes, and the use of the data lines.

use super::State;
use crate::Signal;
use crate::command::Status;
use crate::model::array::Stream;
use crate::opcode;
use crate::register::{Selection, Settings};
use alloc::boxed::Box;
use flashlab_sim::{Instant, mix};

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
    /// Time when the card received the command, or when its busy time ended, if that was later.
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

/// Identification of the card, which CMD0 restarts.
#[derive(Clone, Debug, Default)]
pub(super) struct Identification {
    /// Time when the initialisation ends, once the host has begun it.
    ready_at: Option<Instant>,
    /// True if the last CMD8 named a voltage range that the card supports.
    conditions_sent: bool,
    /// True if ACMD41 has agreed on 1.8 V signals.
    pub(super) may_switch: bool,
    /// Relative address; 0 before the first CMD3.
    pub(super) address: u16,
    addresses_published: u16,
}

impl Identification {
    /// Returns true if the card supports the voltage range of a CMD8: 2.7 to 3.6 V. The low voltage range is
    /// reserved. Records the result.
    pub(super) fn check_voltage(&mut self, argument: u32) -> bool {
        self.conditions_sent = argument >> 8 & 0xf == 1;
        self.conditions_sent
    }

    /// Returns true if the host supports a card of this capacity class. For a high-capacity card, the host
    /// must have announced this support and must have sent CMD8.
    pub(super) fn is_understood(&self, is_high_capacity: bool, host_has_high_capacity: bool) -> bool {
        !is_high_capacity || host_has_high_capacity && self.conditions_sent
    }

    /// Begins an initialisation that ends at `end`, unless an initialisation has begun already. Returns true
    /// if the initialisation has ended.
    pub(super) fn initialise(&mut self, now: Instant, end: Instant) -> bool {
        *self.ready_at.get_or_insert(end) <= now
    }

    /// Publishes another address, as each CMD3 does. The first address is `first`, that of the identity.
    pub(super) fn publish_address(&mut self, first: u16, seed: u64) -> u16 {
        self.address = match self.addresses_published {
            0 => first,
            n => (mix(seed ^ u64::from(n)) as u16).max(1),
        };
        self.addresses_published = self.addresses_published.wrapping_add(1);
        self.address
    }

    /// Returns true if an argument contains the address of this card.
    pub(super) fn is_addressed(&self, argument: u32) -> bool {
        (argument >> 16) as u16 == self.address
    }
}

/// Settings that a command makes for a later command.
#[derive(Clone, Debug, Default)]
pub(super) struct Prefix {
    /// True if the next command is an application command, from CMD55.
    pub(super) application: bool,
    /// Block count of the next CMD18 or CMD25, from CMD23.
    pub(super) block_count: Option<u32>,
    /// Bits 37 to 32 of the address in the next command that has one, from CMD22.
    pub(super) address_extension: u64,
}

impl Prefix {
    /// Drops the block count of a CMD23, unless this command is the transfer or may come between CMD23 and
    /// the transfer.
    pub(super) fn drop_block_count_before(&mut self, index: u8) {
        let keeps = matches!(
            index,
            opcode::SEND_STATUS
                | opcode::READ_MULTIPLE_BLOCK
                | opcode::ADDRESS_EXTENSION
                | opcode::WRITE_MULTIPLE_BLOCK
        );
        if !keeps {
            self.block_count = None;
        }
    }
}

/// Mode of the bus.
#[derive(Clone, Debug)]
pub(super) struct BusMode {
    pub(super) signal: Signal,
    /// True after CMD11, until the host switches the signals.
    pub(super) switching: bool,
    /// Number of data lines: 1 or 4.
    pub(super) width: u32,
    pub(super) selection: Selection,
    /// Functions that CMD6 has selected, which take effect once its data block has been sent.
    pub(super) chosen: Option<Selection>,
}

impl BusMode {
    /// Returns the mode after CMD0, which keeps the signal voltage.
    pub(super) fn of_signal(signal: Signal) -> BusMode {
        BusMode { signal, switching: false, width: 1, selection: Selection::default(), chosen: None }
    }
}

/// The state that a power cut clears.
#[derive(Clone)]
pub(super) struct Volatile {
    pub(super) state: State,
    pub(super) spi: bool,
    pub(super) identification: Identification,
    pub(super) prefix: Prefix,
    pub(super) bus: BusMode,
    /// Error bits that the next response reports.
    pub(super) errors: Status,
    pub(super) block_length: u32,
    pub(super) erase: Erase,
    pub(super) locked: bool,
    pub(super) dsr: u16,
    pub(super) lines: Lines,
    /// Content of a register block.
    pub(super) register: Box<[u8; 512]>,
    /// End of the busy time that power-up or the last program or erase operation caused.
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
            identification: Identification::default(),
            prefix: Prefix::default(),
            bus: BusMode::of_signal(Signal::V3_3),
            errors: Status::default(),
            block_length: 512,
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
