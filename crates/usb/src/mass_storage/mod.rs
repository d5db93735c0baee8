//! A USB stick: SCSI commands over the bulk-only transport (USB Mass Storage Class, Bulk-Only Transport, revision 1.0),
//! as Linux's `usb-storage` and U-Boot use them.
//!
//! A command arrives as a wrapper on one bulk endpoint. Its data crosses the bus in one of the two
//! directions. A status wrapper ends the command. If a command transfers less data than the host expects, the
//! device halts the data endpoint, and the host clears the halt (section 6.7). After an invalid wrapper, both
//! endpoints are halted until a reset recovery (section 6.6.1).
//!
//! Timing: the disk decides how long its operations take. Wrappers and descriptive commands take no time.
//!
//! The stick can be pulled out of its port and plugged in again while a session lasts, and [`StickQuirk`]s make it
//! misbehave.
//!
//! The model omits several logical units, USB Attached SCSI, SuperSpeed and protection information. A VERIFY
//! checks only its range, not the medium.

mod answer;
mod bot;
mod cable;
mod command;
mod disk;
mod exchange;
mod opcode;
mod quirk;
mod sense;
mod transport;
mod unit;

pub use disk::{Disk, DiskError, Done, Operation};
pub use quirk::{PlannedStickQuirk, STICK_QUIRKS, StickQuirk, StickQuirkEntry, StickTrigger};

use crate::descriptor::{Descriptors, Endpoint};
use crate::device::{Completed, Device, Direction, Setup, Stalled, Transfer};
use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use bot::{INTERFACE, request};
use cable::{Cable, PowerChange};
use flashlab_sim::{Duration, Instant};
use quirk::StickQuirks;
use transport::{Progress, Transport};

/// Largest number of blocks in a descriptor of an UNMAP.
const UNMAP_BLOCKS_MAX: u32 = 1 << 22;
/// Largest number of descriptors in an UNMAP.
const UNMAP_DESCRIPTORS_MAX: u32 = 64;
/// Upper bound of a read or write of the disk in bytes. A longer command is executed in pieces.
const PIECE: u64 = 1 << 20;
const DATA_IN: u8 = 1;
const DATA_OUT: u8 = 2;
static ENDPOINTS: [Endpoint; 2] = [
    Endpoint { number: DATA_IN, direction: Direction::In },
    Endpoint { number: DATA_OUT, direction: Direction::Out },
];

/// The texts with which a stick identifies itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    /// Vendor, of which INQUIRY shows 8 characters.
    pub vendor: String,
    /// Product, of which INQUIRY shows 16 characters.
    pub product: String,
    /// Revision, of which INQUIRY shows 4 characters.
    pub revision: String,
    /// Serial number. Hosts distinguish several sticks by their serial numbers. The specification requires at
    /// least 12 hexadecimal digits (section 4.1.1).
    pub serial: String,
}

/// Counters of a stick.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StickCounters {
    /// Number of commands.
    pub commands: u64,
    /// Number of commands that failed.
    pub failed: u64,
    /// Number of bytes that the host has read from the disk.
    pub read_bytes: u64,
    /// Number of bytes that the host has written to the disk.
    pub written_bytes: u64,
}

/// A USB stick with a disk behind it.
#[derive(Debug)]
pub struct MassStorage<D> {
    transport: Transport<D>,
    descriptors: Descriptors,
    cable: Cable,
    quirks: StickQuirks,
    /// True if a reset of the port has woken a stick with the quirk [`StickQuirk::NeedsReset`].
    is_awake: bool,
    /// Instant of the last request since power-up that the stick ignored because of
    /// [`StickQuirk::NeedsReset`].
    ignored_at: Option<Instant>,
}

impl<D: Disk> MassStorage<D> {
    /// Creates a stick that is plugged into a port without power.
    pub fn new(disk: D, identity: Identity) -> MassStorage<D> {
        let [interface_class, interface_subclass, interface_protocol] = INTERFACE;
        let text = |text: &String| Cow::Owned(text.clone());
        let descriptors = Descriptors {
            // The identifiers are those that pid.codes reserves for tests.
            vendor: 0x1209,
            product: 0x0001,
            release: 0x0100,
            interface_class,
            interface_subclass,
            interface_protocol,
            strings: [text(&identity.vendor), text(&identity.product), text(&identity.serial)],
            endpoints: &ENDPOINTS,
        };
        MassStorage {
            transport: Transport::new(disk, identity),
            descriptors,
            cable: Cable::new(),
            quirks: StickQuirks::default(),
            is_awake: false,
            ignored_at: None,
        }
    }

    /// Returns the disk.
    pub fn disk(&self) -> &D {
        self.transport.disk()
    }
    /// Returns the disk, for events outside the connection.
    pub fn disk_mut(&mut self) -> &mut D {
        self.transport.disk_mut()
    }
    /// Returns the disk and drops the stick.
    pub fn into_disk(self) -> D {
        self.transport.into_disk()
    }
    /// Returns the counters.
    pub fn counters(&self) -> StickCounters {
        self.transport.counters()
    }

    /// Returns true if the stick is plugged into its port.
    pub fn is_plugged(&self) -> bool {
        self.cable.is_plugged()
    }
    /// Plugs the stick into its port, or pulls it out, even in the middle of a transfer.
    pub fn set_plugged(&mut self, now: Instant, plugged: bool) {
        let change = self.cable.set_plugged(plugged);
        self.power_changed(now, change);
    }
    /// Cuts the power of a connected stick, which drops off the bus and returns after `time`. Returns false without
    /// effect if the host does not see the stick.
    pub fn drop_off(&mut self, now: Instant, time: Duration) -> bool {
        let is_connected = self.cable.connection().is_some();
        if is_connected {
            self.power_changed(now, Some(PowerChange::Off));
            self.cable.drop_off(now, time);
        }
        is_connected
    }

    /// Adds a quirk, which is active from its trigger on. A quirk that concerns the start of the stick acts from the next
    /// power-up on.
    pub fn add_quirk(&mut self, now: Instant, quirk: impl Into<PlannedStickQuirk>) {
        self.quirks.add(quirk.into());
        self.reach(now);
    }
    /// Removes all quirks.
    pub fn clear_quirks(&mut self) {
        self.quirks.clear();
        self.apply_quirks();
    }
    /// Returns the active quirks.
    pub fn active_quirks(&self) -> &[StickQuirk] {
        self.quirks.active()
    }
    /// Returns the quirks whose trigger has not fired.
    pub fn planned_quirks(&self) -> &[PlannedStickQuirk] {
        self.quirks.planned()
    }

    /// Passes the quirks that affect commands to the logical unit.
    fn apply_quirks(&mut self) {
        let is_read_only = self.disk().is_read_only() || self.quirks.is_write_protected();
        self.transport.unit.reported_capacity = self.quirks.capacity();
        self.transport.unit.is_read_only = is_read_only;
    }

    fn power_changed(&mut self, now: Instant, change: Option<PowerChange>) {
        let Some(change) = change else { return };
        (self.is_awake, self.ignored_at) = (false, None);
        let ready_at = now.saturating_add(self.quirks.ready_after());
        self.transport.set_power(now, change == PowerChange::On, ready_at);
        if change == PowerChange::On {
            self.cable.start(now, self.quirks.appears_after());
            self.reach(now);
        }
    }

    /// Returns the instant of the next event other than a transfer: a quirk becomes active, the power of
    /// the stick returns, or the stick appears on the bus.
    fn next_event(&self) -> Option<Instant> {
        self.cable.next_due().into_iter().chain(self.quirks.next_due()).min()
    }

    /// Handles the events at or before `now`.
    fn handle_events(&mut self, now: Instant) {
        if self.cable.returns(now) {
            self.power_changed(now, Some(PowerChange::On));
        }
        self.cable.appear(now);
        self.reach(now);
    }

    /// Activates the quirks whose trigger has fired. A disconnection waits until the host sees the stick.
    fn reach(&mut self, now: Instant) {
        let counters = self.counters();
        self.quirks.reach(now, counters.read_bytes + counters.written_bytes);
        self.apply_quirks();
        if self.cable.connection().is_some()
            && let Some(time) = self.quirks.take_disconnection()
        {
            self.drop_off(now, time);
        }
    }
}

impl<D: Disk> Device for MassStorage<D> {
    fn descriptors(&self) -> &Descriptors {
        &self.descriptors
    }

    fn reset(&mut self, now: Instant) {
        if let Some(time) = self.quirks.needs_reset() {
            self.is_awake |= self.ignored_at.is_some_and(|ignored| now >= ignored.saturating_add(time));
        }
        self.transport.reset_port();
    }

    fn attach(&mut self, now: Instant, attached: bool) {
        let change = self.cable.set_port_power(attached);
        self.power_changed(now, change);
    }

    fn responds(&mut self, now: Instant) -> bool {
        if self.cable.connection().is_none() {
            return false;
        }
        let is_deaf = !self.is_awake && self.quirks.needs_reset().is_some();
        if is_deaf {
            self.ignored_at = Some(now);
        }
        !is_deaf
    }

    fn connection(&self) -> Option<u32> {
        self.cable.connection()
    }

    fn appears_at(&self) -> Option<Instant> {
        self.cable.next_due()
    }

    fn set_halted(&mut self, now: Instant, address: u8, halted: bool) {
        self.transport.set_halted(now, address, halted);
    }

    fn is_halted(&self, address: u8) -> bool {
        self.transport.is_halted(address)
    }

    fn control(&mut self, now: Instant, setup: Setup, _: &[u8]) -> Result<Vec<u8>, Stalled> {
        match (setup.request_type, setup.request) {
            (0xa1, request::GET_MAX_LUN) if setup.value == 0 && setup.index == 0 => {
                let mut answer = Vec::from([0]);
                answer.truncate(setup.length.into());
                Ok(answer)
            }
            (0x21, request::RESET) if setup.value == 0 && setup.index == 0 && setup.length == 0 => {
                self.transport.reset(now);
                Ok(Vec::new())
            }
            _ => Err(Stalled),
        }
    }

    fn submit(&mut self, now: Instant, transfer: Transfer) {
        if !self.responds(now) {
            return self.transport.refuse(now, transfer.id);
        }
        self.transport.submit(now, transfer);
        self.reach(now);
    }

    fn cancel(&mut self, id: u64) -> bool {
        self.transport.cancel(id)
    }

    fn next_due(&self) -> Option<Instant> {
        self.transport.next_due().into_iter().chain(self.next_event()).min()
    }

    fn complete(&mut self, limit: Instant) -> Option<Completed> {
        loop {
            let event = self.next_event().filter(|due| *due <= limit);
            match self.transport.complete(event.unwrap_or(limit)) {
                Progress::Completed(completed) => return Some(completed),
                Progress::Operation(at) => self.reach(at),
                Progress::None => self.handle_events(event?),
            }
        }
    }
}
