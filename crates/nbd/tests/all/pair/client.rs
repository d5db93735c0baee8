//! The client's side: sends the requests of a script, and compares every reply with the reference model.

use super::disk::Disk;
use flashlab_nbd::client::{Client, ClientConfig, ClientError, Event, Request, RequestError, Slot};
use flashlab_nbd::wire::{CommandFlags, CommandType, ErrorNumber, TransmissionFlags};
use std::collections::BTreeMap;

/// One request of a script.
#[derive(Clone, Debug)]
pub(crate) struct Op {
    pub(crate) request: Request,
    /// Byte with which a write is filled.
    pub(crate) fill: u8,
    /// Contexts of a block status, by their positions; empty for all.
    pub(crate) contexts: Vec<usize>,
}

/// A request in flight, with its expected result.
struct InFlight {
    op: Op,
    expected: Result<(), ErrorNumber>,
    /// Expected data of a read, and the positions that have arrived.
    bytes: Vec<u8>,
    arrived: Vec<bool>,
    /// Expected status of each byte in each context, and the number of bytes that have arrived.
    statuses: BTreeMap<usize, (Vec<u64>, u64)>,
}

pub(crate) struct TestClient {
    pub(crate) client: Client,
    pub(crate) closed: Option<ClientError>,
    pub(crate) disk: Disk,
    pub(crate) outcomes: Vec<Result<(), ErrorNumber>>,
    config: ClientConfig,
    buffer: Vec<u8>,
    sent: Vec<u8>,
    ready: bool,
    ops: std::vec::IntoIter<Op>,
    depth: usize,
    in_flight: BTreeMap<Slot, InFlight>,
    disconnected: bool,
}

impl TestClient {
    pub(crate) fn new(config: ClientConfig, disk: Disk, ops: Vec<Op>, depth: usize) -> TestClient {
        TestClient {
            client: Client::new(config.clone()),
            closed: None,
            disk,
            outcomes: Vec::new(),
            config,
            buffer: Vec::new(),
            sent: Vec::new(),
            ready: false,
            ops: ops.into_iter(),
            depth,
            in_flight: BTreeMap::new(),
            disconnected: false,
        }
    }

    pub(crate) fn take_sent(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.sent)
    }
    pub(crate) fn is_over(&self) -> bool {
        self.closed.is_some() || self.disconnected && self.in_flight.is_empty()
    }

    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
        let mut at = 0;
        while self.closed.is_none() {
            let rest = self.buffer.len() - at;
            let received = self.client.receive(&self.buffer[at..], &mut self.sent);
            assert!(received.consumed <= rest);
            let start = at;
            at += received.consumed;
            match received.event {
                Event::Need(need) => {
                    let rest = self.buffer.len() - at;
                    assert!(need > rest && need <= Client::NEED_MAX, "{need} of {rest}");
                    break;
                }
                Event::Send => {}
                Event::StartTls => {
                    at = self.buffer.len();
                    self.client.tls_started(&mut self.sent);
                }
                Event::Ready => {
                    self.ready = true;
                    self.fill_queue();
                }
                Event::Closed(why) => self.closed = Some(why),
                event => self.event(event, start),
            }
        }
        self.buffer.drain(..at);
        if self.ready {
            self.fill_queue();
        }
    }

    fn event(&mut self, event: Event, start: usize) {
        match event {
            Event::Data { slot, offset, range } => {
                let bytes = &self.buffer[start + range.start..start + range.end];
                let in_flight = self.in_flight.get_mut(&slot).unwrap();
                let position = (offset - in_flight.op.request.offset) as usize;
                let known = in_flight.expected.is_ok();
                assert!(!known || bytes == &in_flight.bytes[position..position + bytes.len()]);
                for arrived in &mut in_flight.arrived[position..position + bytes.len()] {
                    assert!(!std::mem::replace(arrived, true));
                }
            }
            Event::Hole { slot, offset, length } => {
                let in_flight = self.in_flight.get_mut(&slot).unwrap();
                let position = (offset - in_flight.op.request.offset) as usize;
                let range = position..position + length as usize;
                assert!(in_flight.bytes[range.clone()].iter().all(|byte| *byte == 0));
                for arrived in &mut in_flight.arrived[range] {
                    assert!(!std::mem::replace(arrived, true));
                }
            }
            Event::Extent(extent) => {
                let in_flight = self.in_flight.get_mut(&extent.slot).unwrap();
                let (statuses, reported) = in_flight.statuses.get_mut(&extent.context).unwrap();
                assert_eq!(extent.offset, in_flight.op.request.offset + *reported);
                let range = *reported as usize..(*reported + extent.length) as usize;
                assert!(statuses[range].iter().all(|status| *status == extent.status), "{extent:?}");
                *reported += extent.length;
            }
            Event::Error { slot, error, offset, message } => {
                let in_flight = &self.in_flight[&slot];
                let message = &self.buffer[start + message.start..start + message.end];
                assert!(!message.is_empty() && std::str::from_utf8(message).is_ok());
                assert_eq!((in_flight.expected, offset), (Err(error), None));
            }
            Event::Done { slot, result } => {
                let in_flight = self.in_flight.remove(&slot).unwrap();
                assert_eq!(result, in_flight.expected, "{:?}", in_flight.op);
                if result.is_ok() {
                    assert!(in_flight.arrived.iter().all(|arrived| *arrived));
                    let one = in_flight.op.request.flags.contains(CommandFlags::REQ_ONE);
                    for (statuses, reported) in in_flight.statuses.values() {
                        // The reply covers the whole range, unless the request asked for one extent.
                        assert!(*reported as usize == statuses.len() || one && *reported > 0);
                    }
                }
                self.outcomes.push(result);
            }
            event => panic!("{event:?}"),
        }
    }

    /// Keeps the queue full, and disconnects at the end.
    fn fill_queue(&mut self) {
        while self.in_flight.len() < self.depth && !self.disconnected {
            let Some(op) = self.ops.next() else {
                // The server still replies to requests in flight.
                self.client.disconnect(&mut self.sent);
                self.disconnected = true;
                break;
            };
            self.send(op);
        }
        assert_eq!(self.client.in_flight(), self.in_flight.len());
    }

    fn send(&mut self, op: Op) {
        let request = op.request;
        let selects_contexts = !op.contexts.is_empty() && request.command == CommandType::BlockStatus;
        let sent = if selects_contexts {
            self.client.block_status_of(request, &op.contexts, &mut self.sent)
        } else {
            self.client.request(request, &mut self.sent)
        };
        let slot = match sent {
            Ok(slot) => slot,
            Err(RequestError::NotOffered(_)) if selects_contexts => return,
            Err(error) if self.config.validate_requests => {
                assert!(self.expected(&op).is_err() || error == RequestError::Empty, "{op:?}: {error}");
                return;
            }
            Err(error) => panic!("{op:?}: {error}"),
        };
        if request.command == CommandType::Write {
            self.sent.extend(std::iter::repeat_n(op.fill, request.length as usize));
        }
        let expected = self.expected(&op);
        let mut in_flight =
            InFlight { op, expected, bytes: Vec::new(), arrived: Vec::new(), statuses: BTreeMap::new() };
        if expected.is_ok() {
            self.apply(&mut in_flight);
        }
        assert!(self.in_flight.insert(slot, in_flight).is_none(), "a slot was given twice");
    }

    /// Returns the result that the specification requires ("Error values" and "Request types").
    fn expected(&self, op: &Op) -> Result<(), ErrorNumber> {
        use ErrorNumber as E;
        let Request { command, flags, offset, length } = op.request;
        let export = self.client.export().unwrap();
        let chunks = self.client.layouts().unwrap().1.is_some();
        let beyond = offset.checked_add(length).is_none_or(|end| end > self.disk.export.size);
        let blocks = u64::from(self.disk.export.block_minimum);
        let writes = command.is_write();
        if writes && export.flags.contains(TransmissionFlags::READ_ONLY) {
            return Err(E::Permission);
        }
        let may = match command {
            CommandType::Read if chunks => CommandFlags::DF,
            CommandType::WriteZeroes => CommandFlags::NO_HOLE | CommandFlags::FAST_ZERO,
            CommandType::BlockStatus => CommandFlags::REQ_ONE,
            CommandType::Resize | CommandType::Other(_) => return Err(E::Invalid),
            _ => CommandFlags::NONE,
        };
        if !flags.without(may | CommandFlags::FUA).is_empty() {
            return Err(E::Invalid);
        }
        match command {
            CommandType::Flush if offset == 0 && length == 0 => return Ok(()),
            CommandType::Flush => return Err(E::Invalid),
            CommandType::BlockStatus if self.client.contexts().is_empty() || length == 0 => {
                return Err(E::Invalid);
            }
            CommandType::Write | CommandType::WriteZeroes if beyond => return Err(E::NoSpace),
            _ if beyond => return Err(E::Invalid),
            _ => {}
        }
        if !offset.is_multiple_of(blocks) || !length.is_multiple_of(blocks) {
            return Err(E::Invalid);
        }
        let slow = flags.contains(CommandFlags::FAST_ZERO | CommandFlags::NO_HOLE) && length > 0;
        if command == CommandType::WriteZeroes && slow { Err(E::NotSupported) } else { Ok(()) }
    }

    /// Applies a request to the model, and stores the expected data.
    fn apply(&mut self, in_flight: &mut InFlight) {
        let Request { command, flags, offset, length } = in_flight.op.request;
        match command {
            CommandType::Read => {
                in_flight.bytes = self.disk.bytes[offset as usize..(offset + length) as usize].to_vec();
                in_flight.arrived = vec![false; length as usize];
            }
            CommandType::Write if length > 0 => {
                self.disk.write(offset, &vec![in_flight.op.fill; length as usize])
            }
            CommandType::Trim if length > 0 => self.disk.zero(offset, length, true),
            CommandType::WriteZeroes if length > 0 => {
                self.disk.zero(offset, length, !flags.contains(CommandFlags::NO_HOLE));
            }
            CommandType::BlockStatus => {
                let names: Vec<String> = self.client.contexts().iter().map(|name| name.to_string()).collect();
                let all: Vec<usize> = (0..names.len()).collect();
                let selected = if in_flight.op.contexts.is_empty() { &all } else { &in_flight.op.contexts };
                for position in selected {
                    let context =
                        super::disk::CONTEXTS.iter().position(|name| *name == names[*position]).unwrap();
                    let status = |at| self.disk.status(context, at as usize);
                    let statuses = (offset..offset + length).map(status).collect();
                    in_flight.statuses.insert(*position, (statuses, 0));
                }
            }
            _ => {}
        }
    }
}
