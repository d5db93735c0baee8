//! A disk in memory, and a host that speaks the bulk-only transport as Linux's `usb-storage` does.

use flashlab_sim::{Duration, Geometry, Instant};
use flashlab_usb::{
    Device, Disk, DiskError, Done, Identity, MassStorage, Operation, Outcome, Payload, Setup, Transfer,
};

pub(crate) const BLOCK: usize = 512;
/// Time of each operation of [`Ram`].
pub(crate) const OPERATION: Duration = Duration::from_us(100);

/// A disk in memory. It panics on an operation that the interface does not permit.
#[derive(Debug)]
pub(crate) struct Ram {
    pub(crate) bytes: Vec<u8>,
    pub(crate) read_only: bool,
    /// Error of the next operation.
    pub(crate) fails: Option<DiskError>,
    pub(crate) request_max: u64,
    pub(crate) flushes: u32,
    pub(crate) powered: bool,
    pub(crate) running: Option<(Instant, Operation)>,
}

impl Ram {
    pub(crate) fn new(blocks: usize) -> Ram {
        let bytes = vec![0; blocks * BLOCK];
        Ram {
            bytes,
            read_only: false,
            fails: None,
            request_max: 1 << 30,
            flushes: 0,
            powered: false,
            running: None,
        }
    }
}

impl Disk for Ram {
    fn geometry(&self) -> Geometry {
        let capacity = self.bytes.len() as u64;
        Geometry { capacity, block: BLOCK as u64, request_max: self.request_max }
    }
    fn is_read_only(&self) -> bool {
        self.read_only
    }
    fn start(&mut self, now: Instant, operation: Operation) {
        assert!(self.powered && self.running.is_none());
        let (offset, length) = match &operation {
            Operation::Read { offset, length } => (*offset, u64::from(*length)),
            Operation::Write { offset, bytes, .. } => (*offset, bytes.len() as u64),
            Operation::Discard { offset, length } => (*offset, *length),
            Operation::Flush => (0, BLOCK as u64),
        };
        assert!(length > 0 && offset % BLOCK as u64 == 0 && length % BLOCK as u64 == 0);
        assert!(offset + length <= self.bytes.len() as u64);
        assert!(length <= self.request_max || matches!(operation, Operation::Discard { .. }));
        self.running = Some((now + OPERATION, operation));
    }
    fn next_due(&self) -> Option<Instant> {
        self.running.as_ref().map(|(due, _)| *due)
    }
    fn complete(&mut self, limit: Instant) -> Option<(Instant, Done)> {
        let (due, operation) = self.running.take_if(|(due, _)| *due <= limit)?;
        if let Some(error) = self.fails.take() {
            return Some((due, Err(error)));
        }
        let mut read = Vec::new();
        match operation {
            Operation::Read { offset, length } => {
                read.extend_from_slice(&self.bytes[offset as usize..][..length as usize]);
            }
            Operation::Write { offset, bytes, .. } => {
                self.bytes[offset as usize..][..bytes.len()].copy_from_slice(&bytes);
            }
            Operation::Discard { offset, length } => {
                self.bytes[offset as usize..][..length as usize].fill(0);
            }
            Operation::Flush => self.flushes += 1,
        }
        Some((due, Ok(read)))
    }
    fn set_power(&mut self, _: Instant, on: bool) {
        self.powered = on;
        self.running = None;
    }
}

pub(crate) fn identity() -> Identity {
    let text = |text: &str| text.to_owned();
    Identity {
        vendor: text("Test"),
        product: text("Stick"),
        revision: text("1"),
        serial: text("0123456789AB"),
    }
}

/// Data that a command transfers.
#[derive(Clone, Debug)]
pub(crate) enum Data<'a> {
    None,
    In(u32),
    Out(&'a [u8]),
}

/// Result of a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Finished {
    pub(crate) status: u8,
    pub(crate) residue: u32,
    pub(crate) bytes: Vec<u8>,
    /// True if a transfer of the data or of the status stalled.
    pub(crate) stalled: bool,
}

/// A host with a stick.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) stick: MassStorage<Ram>,
    pub(crate) now: Instant,
    /// Length in bytes of the largest transfer that the host uses for data.
    pub(crate) transfer_max: usize,
    next_id: u64,
}

impl Host {
    /// Attaches a stick, and clears its unit attention.
    pub(crate) fn new(ram: Ram) -> Host {
        let mut stick = MassStorage::new(ram, identity());
        stick.attach(Instant::ZERO, true);
        let mut host = Host::with(stick, Instant::ZERO);
        assert_eq!(host.sense(&[0; 6]), [6, 0x29, 0]);
        host
    }

    /// Creates a host with an attached stick.
    pub(crate) fn with(stick: MassStorage<Ram>, now: Instant) -> Host {
        Host { stick, now, transfer_max: usize::MAX, next_id: 0 }
    }

    /// Performs a transfer and returns its outcome, or `None` if the device does not answer.
    pub(crate) fn transfer(&mut self, endpoint: u8, payload: Payload) -> Option<Outcome> {
        self.next_id += 1;
        let connection = self.stick.connection();
        self.stick.submit(self.now, Transfer { id: self.next_id, endpoint, payload });
        while self.stick.connection() == connection {
            let due = self.stick.next_due()?;
            self.now = self.now.max(due);
            if let Some(completed) = self.stick.complete(due) {
                assert_eq!((completed.id, completed.at), (self.next_id, due));
                return Some(completed.outcome);
            }
        }
        None
    }

    pub(crate) fn clear_halt(&mut self, address: u8) {
        self.stick.set_halted(self.now, address, false);
    }

    pub(crate) fn class_request(&mut self, request_type: u8, request: u8, length: u16) -> Option<Vec<u8>> {
        let setup = Setup { request_type, request, value: 0, index: 0, length };
        self.stick.control(self.now, setup, &[]).ok()
    }

    /// Performs a reset recovery (section 5.3.4).
    pub(crate) fn reset_recovery(&mut self) {
        assert!(self.class_request(0x21, 0xff, 0).is_some());
        self.clear_halt(0x81);
        self.clear_halt(0x02);
    }

    /// Sends a command with its data, and reads the status. A stall ends the transfer of the data, but not
    /// the command.
    pub(crate) fn command(&mut self, cdb: &[u8], data: Data<'_>) -> Finished {
        let (length, flags) = match &data {
            Data::None => (0, 0),
            Data::In(length) => (*length, 0x80),
            Data::Out(bytes) => (bytes.len() as u32, 0),
        };
        let tag = self.next_id as u32 ^ 0x5a5a;
        let wrapper = wrapper(tag, length, flags, cdb);
        assert_eq!(self.transfer(2, Payload::Out(wrapper)), Some(Outcome::Out(31)));
        let (mut stalled, mut read) = (false, Vec::new());
        match data {
            Data::None => {}
            Data::In(mut left) => {
                while left > 0 && !stalled {
                    let part = left.min(self.transfer_max as u32);
                    match self.transfer(1, Payload::In(part)).expect("the device answers") {
                        Outcome::In(bytes) => {
                            left -= bytes.len() as u32;
                            let short = bytes.len() < part as usize;
                            read.extend(bytes);
                            if short {
                                break;
                            }
                        }
                        _ => stalled = true,
                    }
                }
                if stalled {
                    self.clear_halt(0x81);
                }
            }
            Data::Out(bytes) => {
                for part in bytes.chunks(self.transfer_max.min(bytes.len()).max(1)) {
                    match self.transfer(2, Payload::Out(part.to_vec())).expect("the device answers") {
                        Outcome::Out(count) => assert_eq!(count as usize, part.len()),
                        _ => {
                            stalled = true;
                            self.clear_halt(0x02);
                            break;
                        }
                    }
                }
            }
        }
        let mut status = self.transfer(1, Payload::In(13)).expect("the device answers");
        if status == Outcome::Stalled {
            stalled = true;
            self.clear_halt(0x81);
            status = self.transfer(1, Payload::In(13)).expect("the device answers");
        }
        let Outcome::In(status) = status else { panic!("{status:?} is no status") };
        let word = |at: usize| u32::from_le_bytes(status[at..at + 4].try_into().unwrap());
        assert_eq!((status.len(), word(0), word(4)), (13, 0x5342_5355, tag));
        Finished { status: status[12], residue: word(8), bytes: read, stalled }
    }

    /// Sends a command without data that must fail, and returns sense key, code and qualifier.
    pub(crate) fn sense(&mut self, cdb: &[u8]) -> [u8; 3] {
        assert_eq!(self.command(cdb, Data::None).status, 1);
        self.request_sense()
    }

    pub(crate) fn request_sense(&mut self) -> [u8; 3] {
        let sense = self.command(&[3, 0, 0, 0, 18, 0], Data::In(18)).bytes;
        [sense[2] & 15, sense[12], sense[13]]
    }

    /// Sends a command that must pass and return this many bytes.
    pub(crate) fn fetch(&mut self, cdb: &[u8], length: u32) -> Vec<u8> {
        let finished = self.command(cdb, Data::In(length));
        assert_eq!((finished.status, finished.residue), (0, 0), "{finished:?}");
        finished.bytes
    }
}

pub(crate) fn wrapper(tag: u32, length: u32, flags: u8, cdb: &[u8]) -> Vec<u8> {
    let mut bytes = b"USBC".to_vec();
    bytes.extend(tag.to_le_bytes());
    bytes.extend(length.to_le_bytes());
    bytes.extend([flags, 0, cdb.len() as u8]);
    bytes.extend(cdb);
    bytes.resize(31, 0);
    bytes
}

/// Returns the command descriptor block of a READ(10) or WRITE(10).
pub(crate) fn ten(opcode: u8, first: u32, count: u16) -> [u8; 10] {
    let ([a, b, c, d], [e, f]) = (first.to_be_bytes(), count.to_be_bytes());
    [opcode, 0, a, b, c, d, 0, e, f, 0]
}
