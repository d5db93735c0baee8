//! The card behind the command line: SD Physical Layer Specification, section 4.
//!
//! Time comes in with every call. A front (the native bus, SPI) owns the wires and says when the last bit of something has
//! arrived; the card says what it answers, when data is ready, and until when it is busy. Every access goes through the
//! translation layer and the array that [`crate::CardModel`] uses, so a read or a write takes as long as there, wears the
//! same blocks, and is torn by a power cut in the same way.
//!
//! # Guarantees
//! - No command, data or time makes it panic, as long as time does not go backwards.
//! - An error bit is told by the next response that can carry it, and cleared by that (clear condition C of section 4.10.1);
//!   an illegal command and a wrong CRC7 are told by the response to the next legal command, or never (condition B).
//! - What a write command has written is durable when the card is no longer busy; with a volatile cache that the host has
//!   turned on, when the cache is flushed. A cut before that leaves of each page what [`Card::power_off`] returns, and the
//!   store agrees with it.
//!
//! # One timing
//! A read or write takes as long as [`crate::CardModel`] says where the front takes the same times on the wires. It differs
//! where the card cannot know what the model knows: a write without CMD23 is told to the translation layer page by page, so
//! that rewriting what it overwrites in part copies more, and opens superblocks that the model sees written whole; a read
//! without CMD23 that ends inside a granule streams all of it.
//!
//! # Left out
//! The security commands; ownership protection of locks (CMD42 with COP); extension registers of several blocks (CMD58,
//! CMD59); command queueing; UHS-II. Blocks are written in
//! 512 bytes, whatever the CSD says of smaller ones.

mod application;
mod cache;
mod data;
mod execute;
mod faulty;
mod lock;
mod protect;
mod state;
mod transfer;
mod volatile;
mod write;

pub use state::State;

use crate::command::{Command, Response, Status};
use crate::model::array::{self, Array};
use crate::quirk::Quirks;
use crate::register::{Csd, Health, Identity, Voltage};
use crate::{CardParameters, Signal};
use alloc::boxed::Box;
use alloc::vec::Vec;
use cache::Cache;
use core::ops::Range;
use flashlab_flash::ftl::Blocks;
use flashlab_sim::{Duration, Fate, Instant, Observer, PowerCut, RestoreError, Spent, Store, fault, mix};
use lock::Lock;
use protect::Protection;
use volatile::{Lines, Volatile};
use write::Write;

/// What the data lines are to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transfer {
    /// Nothing.
    None,
    /// The card sends blocks.
    Sending {
        /// Bytes of each.
        block: u32,
    },
    /// The card takes blocks.
    Receiving {
        /// Bytes of each.
        block: u32,
    },
}

/// What the card says to a block that it was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CrcStatus {
    /// It is accepted.
    Accepted,
    /// Its CRC16 was wrong; it is ignored, and so is what follows.
    CrcError,
    /// It cannot be written; it is ignored, and so is what follows.
    WriteError,
}

/// A card.
pub struct Card {
    identity: Identity,
    array: Array,
    store: Option<Box<dyn Store>>,
    quirks: Quirks,
    seed: u64,
    /// Bytes that can be addressed.
    capacity: u64,
    /// What may be programmed of the CSD, and what follows from access modes.
    csd: Csd,
    lock: Lock,
    protection: Protection,
    /// What a power cut has torn: it cannot be read until it is written again.
    unreadable: Vec<Range<u64>>,
    /// The supply; `None` while there is no power.
    power: Option<Voltage>,
    /// What a command takes on the wires.
    command_time: Duration,
    volatile: Volatile,
    write: Write,
    writing: bool,
    cache: Cache,
    spent: Spent,
}

impl core::fmt::Debug for Card {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Card")
            .field("identity", &self.identity)
            .field("state", &self.state())
            .field("power", &self.power)
            .finish_non_exhaustive()
    }
}

impl Card {
    /// A fresh card without power: of these parameters (which have been checked), with these registers. `store` keeps the
    /// bytes, as many as the parameters' capacity; without one, blocks carry none.
    pub fn new(
        parameters: CardParameters,
        identity: Identity,
        store: Option<Box<dyn Store>>,
        seed: u64,
    ) -> Card {
        // What its CSD claims beyond what it is made of is not there.
        let capacity = identity.csd.capacity().unwrap_or(0).min(parameters.capacity) / 512 * 512;
        let array = Array::new(parameters, seed);
        Card {
            csd: identity.csd,
            protection: Protection::new(&identity.csd, capacity),
            identity,
            array,
            store,
            quirks: Quirks::default(),
            seed,
            capacity,
            lock: Lock::default(),
            unreadable: Vec::new(),
            power: None,
            command_time: Duration::ZERO,
            volatile: Volatile::new(),
            write: Write::default(),
            writing: false,
            cache: Cache::default(),
            spent: Spent::default(),
        }
    }

    /// Gives power. The card takes commands when the array is ready; a supply that it does not work at leaves it dead.
    pub fn power_on(&mut self, now: Instant, volts: Voltage) {
        if self.power.is_some() || self.quirks.is_removed() {
            self.power = self.power.map(|_| volts);
            return;
        }
        self.quirks.power_on();
        self.power = Some(volts);
        self.csd.set_tran_speed(self.identity.csd.tran_speed());
        self.volatile = Volatile::new();
        self.volatile.locked = self.lock.is_set();
        self.volatile.busy = self.array.power_up(now);
    }

    /// Cuts the power at this instant; returns what of a write that was not durable is left, and how: the store agrees. It may
    /// lie before the end of the last write, though the card was told commands since.
    pub fn power_off(&mut self, now: Instant) -> PowerCut {
        self.settle(now);
        self.writing |= self.write.is_under_way(now);
        self.power = None;
        let mut cut = PowerCut::default();
        if core::mem::take(&mut self.writing) {
            cut = self.write.cut(now, &mut self.array, self.store.as_deref());
        } else {
            self.put_into_cache();
        }
        self.write.cached = false;
        let (seed, cut_at) = (self.seed, now.as_ns());
        let is_lost = |page| mix(mix(seed ^ cut_at) ^ page) & 1 == 0;
        cut = self.cache.cut(cut, is_lost, &mut self.array, self.store.as_deref());
        for (range, fate) in &cut.undecided {
            self.readable(range.clone());
            if *fate == Fate::Unreadable && !fault("torn-page-can-be-read") {
                self.unreadable.push(range.clone());
            }
        }
        self.volatile = Volatile::new();
        cut
    }

    /// The power fails for an instant, and the card is as after power-up; returns what that left, as [`Card::power_off`] does.
    pub fn fail_power(&mut self, now: Instant) -> PowerCut {
        let supply = self.power;
        let cut = self.power_off(now);
        if let Some(volts) = supply {
            self.power_on(now, volts);
        }
        cut
    }

    /// Whether a write has begun that is not durable yet.
    pub fn is_writing(&self) -> bool {
        self.writing
    }

    /// Returns true if a loss of power may lose what was written to `range`, though the card is not busy with it.
    pub fn is_cached(&self, range: &Range<u64>) -> bool {
        let last = self.write.start()..self.write.at;
        self.cache.holds(range) || self.write.cached && last.start < range.end && range.start < last.end
    }

    /// A write that is done goes into the cache, where the cache is on.
    fn put_into_cache(&mut self) {
        if self.write.cached {
            self.cache.take(&mut self.write);
        }
    }

    /// Everything that was written is in the array.
    fn empty_cache(&mut self) {
        self.cache.clear();
        self.write.cached = false;
    }

    /// Whether there is power.
    pub fn is_powered(&self) -> bool {
        self.power.is_some()
    }

    /// What a command with its response takes on the front's wires. The array does not hide it behind the programs of a
    /// write that it ends, as the timed model does not.
    pub fn set_command_time(&mut self, time: Duration) {
        self.command_time = time;
    }

    /// The voltage of the signals: a card that does not use the same understands nothing. After CMD11 it follows.
    pub fn set_signal(&mut self, signal: Signal) {
        let v = &mut self.volatile;
        if v.switching {
            v.switching = false;
            v.signal = signal;
        }
    }

    /// The voltage of its signals.
    pub fn signal(&self) -> Signal {
        self.volatile.signal
    }

    /// In SPI mode, which CMD0 with chip select low begins, and the loss of power ends.
    pub fn set_spi(&mut self) {
        self.volatile.spi = true;
    }
    /// Whether it is in SPI mode.
    pub fn is_spi(&self) -> bool {
        self.volatile.spi
    }

    /// The state, as of the last call that told the time.
    pub fn state(&self) -> State {
        self.volatile.state
    }
    /// Data lines in use: 1 or 4.
    pub fn width(&self) -> u32 {
        self.volatile.width
    }
    /// The function of the access mode group that is chosen: 0 default speed, 1 high speed, 2 SDR50, 3 SDR104, 4 DDR50.
    pub fn access_mode(&self) -> u8 {
        self.volatile.selection.0[0]
    }
    /// Its registers.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }
    /// The driver stage register.
    pub fn dsr(&self) -> u16 {
        self.volatile.dsr
    }
    /// Bytes that can be addressed.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }
    /// The seed of its medium.
    pub fn seed(&self) -> u64 {
        self.seed
    }
    /// Whether it keeps bytes.
    pub fn has_bytes(&self) -> bool {
        self.store.is_some()
    }
    /// Whether it has no faults, now or later.
    pub(crate) fn is_flawless(&self) -> bool {
        self.quirks.is_empty()
    }
    /// Its faults.
    pub fn quirks(&self) -> &Quirks {
        &self.quirks
    }
    /// Its faults, to change them.
    pub fn quirks_mut(&mut self) -> &mut Quirks {
        &mut self.quirks
    }
    /// The erase blocks and their wear.
    pub fn blocks(&self) -> &Blocks {
        self.array.flash.blocks()
    }
    /// Walks the whole translation layer.
    ///
    /// # Panics
    /// With what is wrong.
    pub fn check(&self) {
        self.array.flash.check();
    }

    /// What the card tells of its wear, in CMD56 and in the extension registers.
    pub fn health(&self) -> Health {
        let blocks = self.array.flash.blocks();
        let summary = blocks.summary();
        let (host_written_bytes, programmed_bytes) = self.array.flash.written_and_programmed();
        Health {
            erase_count_mean: summary.mean as u32,
            erase_count_max: summary.max,
            rated_cycles: blocks.endurance().map_or(0, |endurance| endurance.rated),
            blocks: blocks.count(),
            bad_blocks: blocks.bad_count(),
            factory_bad_blocks: blocks.factory_bad_count(),
            host_written_bytes,
            programmed_bytes,
            read_only: self.array.flash.is_read_only(),
        }
    }

    /// Time that the array worked since this was last asked, by mechanism.
    pub fn take_spent(&mut self) -> Spent {
        core::mem::take(&mut self.spent)
    }

    /// Reports counters.
    pub fn observe(&self, to: &mut dyn Observer) {
        self.array.flash.observe(to);
    }

    /// The state of what survives without power, for [`Card::restore`] or [`crate::CardModel`]; nothing is being written.
    pub fn save(&self) -> Option<Vec<u8>> {
        let kept = (&self.lock, &self.protection, self.csd.0, &self.unreadable);
        array::to_bytes(&(self.array.state(), kept))
    }

    /// Takes over a state that [`Card::save`] gave, or a [`crate::CardModel`] of the same parameters; on an error the card
    /// is as before.
    pub fn restore(&mut self, state: &[u8]) -> Result<(), RestoreError> {
        let (flash, rest) = array::parse(state)?;
        let kept = if rest.is_empty() {
            None
        } else {
            let kept: (Lock, Protection, [u8; 16], Vec<Range<u64>>) =
                postcard::from_bytes(rest).map_err(array::no_state)?;
            if !kept.1.is_like(&self.protection) {
                return Err(RestoreError::new("its groups of write protection are those of another card"));
            }
            Some(kept)
        };
        self.array.restore(flash)?;
        if let Some((lock, protection, csd, unreadable)) = kept {
            (self.lock, self.protection, self.csd, self.unreadable) =
                (lock, protection, Csd(csd), unreadable);
        }
        Ok(())
    }

    /// The same card in the same state, but for its bytes: the copy carries none.
    pub fn without_bytes(&self) -> Card {
        Card {
            identity: self.identity.clone(),
            array: self.array.clone(),
            store: None,
            quirks: self.quirks.clone(),
            lock: self.lock.clone(),
            protection: self.protection.clone(),
            unreadable: self.unreadable.clone(),
            volatile: self.volatile.clone(),
            write: self.write.clone(),
            cache: self.cache.without_bytes(),
            ..*self
        }
    }

    /// A command whose CRC was right, and whose last bit arrived at `now`; the native front counts its response in. `None`:
    /// the card does not answer.
    pub fn command(&mut self, now: Instant, command: Command) -> Option<Response> {
        self.settle(now);
        let voltage = self.power?;
        if !self.identity.ocr.works_at(voltage) {
            return None;
        }
        if !self.quirks.is_empty() {
            return self.faulty_command(now, command);
        }
        self.execute(now, command)
    }

    /// A command whose CRC was wrong: it is not executed nor answered, and the next response tells.
    pub fn crc_error(&mut self, now: Instant) {
        self.settle(now);
        self.volatile.errors = self.volatile.errors.with(Status::COM_CRC_ERROR);
    }

    /// What time alone has changed.
    #[inline]
    fn settle(&mut self, now: Instant) {
        let v = &mut self.volatile;
        let rests = match v.state {
            State::Programming => State::Transfer,
            State::Disconnect => State::StandBy,
            // After CMD0.
            state => state,
        };
        if v.busy <= now && (self.writing && !matches!(v.lines, Lines::Write) || rests != v.state) {
            v.state = rests;
            self.writing = false;
            self.array.idle_since = v.busy;
        }
    }

    /// Takes `range` out of what cannot be read.
    fn readable(&mut self, range: Range<u64>) {
        if self.unreadable.is_empty() {
            return;
        }
        let mut left = Vec::new();
        for torn in self.unreadable.drain(..) {
            for part in [torn.start..torn.end.min(range.start), torn.start.max(range.end)..torn.end] {
                if part.start < part.end {
                    left.push(part);
                }
            }
        }
        self.unreadable = left;
    }
}
