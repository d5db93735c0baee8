//! The card with its command line: SD Physical Layer Specification, section 4.
//!
//! Every call receives the time as an argument. A bus interface (native bus or SPI) owns the wires and
//! reports when the last bit of a command or block has arrived. The card returns its response, the time when
//! data is ready, and the end of its busy time. Every access uses the translation layer and the array of
//! [`crate::CardModel`]. In both types, a read or a write therefore takes the same time, wears the same erase
//! blocks, and is torn by a power cut in the same way, except in the cases under Timing.
//!
//! # Guarantees
//! - No command, data or time causes a panic, as long as time does not go backwards.
//! - The next response that contains an error bit reports and clears it (clear condition C of section
//!   4.10.1). The response to the next legal command reports an illegal command or a wrong CRC7 (condition
//!   B). If the format of that response has no such bit, the error is lost.
//! - Written data is durable when the card is no longer busy. If the host has enabled a volatile cache,
//!   written data is durable after the next flush. If the power is cut earlier, [`Card::power_off`] returns
//!   the fate of each page, and the contents of the store agree with these fates.
//!
//! # Timing
//! A read or write takes the same time as in [`crate::CardModel`] if the bus interface has the same times on
//! the wires. The times differ where the card lacks information that the model has:
//! - The translation layer receives a write without CMD23 page by page. For a partial overwrite, the layer
//!   therefore copies more data, and opens rewrite units that the model writes as a whole.
//! - A read without CMD23 that ends inside a granule streams the whole granule.
//!
//! # Not modelled
//! The security commands; ownership protection of locks (CMD42 with COP); extension registers of several blocks (CMD58,
//! CMD59); command queueing; UHS-II. The card writes blocks of 512 bytes only, even if the CSD allows partial blocks.

mod application;
mod cache;
mod data;
mod execute;
mod faulty;
mod lock;
mod previous;
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

/// Direction of the data lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transfer {
    /// No transfer.
    None,
    /// The card sends blocks.
    Sending {
        /// Block length in bytes.
        block: u32,
    },
    /// The card receives blocks.
    Receiving {
        /// Block length in bytes.
        block: u32,
    },
}

/// CRC status token: the card's response to a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CrcStatus {
    /// The block is accepted.
    Accepted,
    /// The CRC16 was wrong. The card ignores the block and all that follow.
    CrcError,
    /// The write failed. The card ignores the block and all that follow.
    WriteError,
}

/// A virtual SD card.
pub struct Card {
    identity: Identity,
    array: Array,
    store: Option<Box<dyn Store>>,
    quirks: Quirks,
    seed: u64,
    /// Capacity in bytes.
    capacity: u64,
    /// The CSD as changed by CMD27 and by the access mode.
    csd: Csd,
    lock: Lock,
    protection: Protection,
    /// Ranges that a power cut has made unreadable, until they are written or erased.
    unreadable: Vec<Range<u64>>,
    /// Supply voltage; `None` without power.
    power: Option<Voltage>,
    /// Number of times that the card got power.
    power_ups: u64,
    /// Time of a command with its response on the wires.
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
    /// Creates a fresh card without power. The caller has checked `parameters`. `store` holds the bytes and has the
    /// capacity of the parameters. Without a store, blocks have no bytes.
    pub fn new(
        parameters: CardParameters,
        identity: Identity,
        store: Option<Box<dyn Store>>,
        seed: u64,
    ) -> Card {
        // Capacity that the CSD claims beyond the parameters does not exist.
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
            power_ups: 0,
            command_time: Duration::ZERO,
            volatile: Volatile::new(),
            write: Write::default(),
            writing: false,
            cache: Cache::default(),
            spent: Spent::default(),
        }
    }

    /// Turns the power on, or changes the supply voltage of a card that has power. The initialisation by
    /// the host begins when the array is ready. The card does not respond at a supply voltage that it does
    /// not support.
    pub fn power_on(&mut self, now: Instant, volts: Voltage) {
        if self.power.is_some() || self.quirks.is_removed() {
            self.power = self.power.map(|_| volts);
            return;
        }
        self.quirks.power_on();
        self.power = Some(volts);
        self.power_ups += 1;
        self.csd.set_tran_speed(self.identity.csd.tran_speed());
        self.volatile = Volatile::new();
        self.volatile.locked = self.lock.is_set();
        self.volatile.busy = self.array.power_up(now);
    }

    /// Returns the number of times that the card got power, by which its bus notices a power cut.
    pub(crate) fn power_ups(&self) -> u64 {
        self.power_ups
    }

    /// Cuts the power at `now`. Returns the fates of the data that was not durable. The contents of the store
    /// agree with these fates. `now` may lie before the end of the last write, even if the card has received
    /// commands since.
    pub fn power_off(&mut self, now: Instant) -> PowerCut {
        self.advance_to(now);
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
            self.mark_readable(range.clone());
            if *fate == Fate::Unreadable && !fault("torn-page-can-be-read") {
                self.unreadable.push(range.clone());
            }
        }
        self.volatile = Volatile::new();
        cut
    }

    /// Cuts the power for an instant. The card is then in its state after power-up. Returns the same as
    /// [`Card::power_off`].
    pub fn fail_power(&mut self, now: Instant) -> PowerCut {
        let supply = self.power;
        let cut = self.power_off(now);
        if let Some(volts) = supply {
            self.power_on(now, volts);
        }
        cut
    }

    /// Returns true if a write has begun and its busy time has not ended. Data in the volatile cache does
    /// not count.
    pub fn is_writing(&self) -> bool {
        self.writing
    }

    /// Returns true if the volatile cache holds data in `range`, which a power cut could lose.
    pub fn is_cached(&self, range: &Range<u64>) -> bool {
        let last = self.write.start()..self.write.at;
        self.cache.holds(range) || self.write.cached && last.start < range.end && range.start < last.end
    }

    /// Moves the last write into the cache, unless the data of the write is already durable or in the cache.
    fn put_into_cache(&mut self) {
        if self.write.cached {
            self.cache.take(&mut self.write);
        }
    }

    /// Empties the cache: all written data is in the array.
    fn commit_cache(&mut self) {
        self.cache.clear();
        self.write.cached = false;
    }

    /// Returns true if the card has power.
    pub fn is_powered(&self) -> bool {
        self.power.is_some()
    }

    /// Sets the time of a command with its response on the wires. This time does not overlap with the programs of a
    /// write that the command ends, as in the timed model.
    pub fn set_command_time(&mut self, time: Duration) {
        self.command_time = time;
    }

    /// Changes the signal voltage of the host. The card follows after CMD11. A card whose signal voltage differs from
    /// that of the host receives no commands.
    pub fn set_signal(&mut self, signal: Signal) {
        let bus = &mut self.volatile.bus;
        if bus.switching {
            (bus.switching, bus.signal) = (false, signal);
        }
    }

    /// Returns the signal voltage of the card.
    pub fn signal(&self) -> Signal {
        self.volatile.bus.signal
    }

    /// Switches to SPI mode, as CMD0 with chip select low does. SPI mode ends with the loss of power.
    pub fn set_spi(&mut self) {
        self.volatile.spi = true;
    }
    /// Returns true if the card is in SPI mode.
    pub fn is_spi(&self) -> bool {
        self.volatile.spi
    }

    /// Returns the state at the time of the last call that advanced the time.
    pub fn state(&self) -> State {
        self.volatile.state
    }
    /// Returns the number of data lines in use: 1 or 4.
    pub fn width(&self) -> u32 {
        self.volatile.bus.width
    }
    /// Returns the selected function of the access mode group: 0 default speed, 1 high speed, 2 SDR50, 3 SDR104, 4
    /// DDR50.
    pub fn access_mode(&self) -> u8 {
        self.volatile.bus.selection.0[0]
    }
    /// Returns the registers of the card.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }
    /// Returns the driver stage register.
    pub fn dsr(&self) -> u16 {
        self.volatile.dsr
    }
    /// Returns the capacity in bytes.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }
    /// Returns the seed of the medium.
    pub fn seed(&self) -> u64 {
        self.seed
    }
    /// Returns true if the card stores bytes.
    pub fn has_bytes(&self) -> bool {
        self.store.is_some()
    }
    /// Returns true if the card has no active or planned quirks.
    pub(crate) fn has_no_quirks(&self) -> bool {
        self.quirks.is_empty()
    }
    /// Returns the quirks of the card.
    pub fn quirks(&self) -> &Quirks {
        &self.quirks
    }
    /// Returns the quirks of the card for modification.
    pub fn quirks_mut(&mut self) -> &mut Quirks {
        &mut self.quirks
    }
    /// Returns the erase blocks and their wear.
    pub fn blocks(&self) -> &Blocks {
        self.array.flash.blocks()
    }
    /// Checks the consistency of the whole translation layer.
    ///
    /// # Panics
    /// Panics with a description of the inconsistency.
    pub fn check(&self) {
        self.array.flash.check();
    }

    /// Returns the wear that the card reports in CMD56 and in the extension registers.
    pub fn health(&self) -> Health {
        let blocks = self.array.flash.blocks();
        let summary = blocks.summary();
        let (host_written_bytes, programmed_bytes) = self.array.flash.written_and_programmed();
        Health {
            erase_count_mean: summary.mean as u32,
            erase_count_max: summary.max,
            rated_cycles: blocks.endurance().and_then(|endurance| endurance.rated_cycles()).unwrap_or(0),
            blocks: blocks.count(),
            bad_blocks: blocks.bad_count(),
            factory_bad_blocks: blocks.factory_bad_count(),
            host_written_bytes,
            programmed_bytes,
            read_only: self.array.flash.is_read_only(),
        }
    }

    /// Returns the time for which the array has worked since the last call, by mechanism, and resets it.
    pub fn take_spent(&mut self) -> Spent {
        core::mem::take(&mut self.spent)
    }

    /// Reports the counters of the card.
    pub fn observe(&self, to: &mut dyn Observer) {
        self.array.flash.observe(to);
    }

    /// Saves the state that survives without power, for [`Card::restore`] or [`crate::CardModel`]. No write may be in
    /// progress.
    pub fn save(&self) -> Option<Vec<u8>> {
        let kept = (&self.lock, &self.protection, self.csd.0, &self.unreadable);
        array::to_bytes(&(self.array.state(), kept))
    }

    /// Restores a state saved by [`Card::save`], or by a [`crate::CardModel`] with the same parameters. After an error
    /// the card is unchanged.
    pub fn restore(&mut self, state: &[u8]) -> Result<(), RestoreError> {
        let (flash, rest) = self.array.parse(state)?;
        let kept = if rest.is_empty() {
            None
        } else {
            let kept: (Lock, Protection, [u8; 16], Vec<Range<u64>>) =
                postcard::from_bytes(rest).map_err(array::invalid_state)?;
            if !kept.1.is_like(&self.protection) {
                return Err(RestoreError::new("the write protection groups are those of another card"));
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

    /// Returns a copy of the card in the same state, without the stored bytes.
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

    /// Handles a command with a correct CRC7 whose last bit arrived at `now`. With the native bus, `now` is the end of
    /// the response. Returns `None` if the card does not respond.
    pub fn command(&mut self, now: Instant, command: Command) -> Option<Response> {
        self.advance_to(now);
        let voltage = self.power?;
        if !self.identity.ocr.works_at(voltage) {
            return None;
        }
        if !self.quirks.is_empty() {
            return self.faulty_command(now, command);
        }
        self.execute(now, command)
    }

    /// Handles a command with a wrong CRC7. The card neither executes the command nor responds to it. The
    /// next response reports the error.
    pub fn crc_error(&mut self, now: Instant) {
        self.advance_to(now);
        self.volatile.errors = self.volatile.errors.with(Status::COM_CRC_ERROR);
    }

    /// Applies the state changes that depend only on time.
    #[inline]
    fn advance_to(&mut self, now: Instant) {
        let v = &mut self.volatile;
        let rests = match v.state {
            State::Programming => State::Transfer,
            State::Disconnect => State::StandBy,
            // Other states remain, since CMD0 may have changed the state during the busy time.
            state => state,
        };
        if v.busy <= now && (self.writing && !matches!(v.lines, Lines::Write) || rests != v.state) {
            v.state = rests;
            self.writing = false;
            self.array.idle_since = v.busy;
        }
    }

    /// Removes `range` from the unreadable ranges.
    fn mark_readable(&mut self, range: Range<u64>) {
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
