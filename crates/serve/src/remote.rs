//! A client for an export of any NBD server, with blocking calls that many threads can make at the same time.
//!
//! All threads share one connection, because many servers accept only one client. One of the threads that
//! wait for a reply receives the replies for all threads. If only one request is in flight, its own thread
//! receives the reply, so no thread switch adds to the latency.

use crate::link::wait_for;
use crate::load::LoadError;
use crate::session::{ReplyHandler, Session};
use flashlab_nbd::client::{ExportInfo, Request, RequestError, Slot};
use flashlab_nbd::uri::Uri;
use flashlab_nbd::wire::{ErrorNumber, TransmissionFlags};
use flashlab_sim::Duration;
use rustix::event::{PollFd, PollFlags};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Time after which a server counts as gone if it sends no reply, or if it neither accepts nor sends a byte.
const REPLY_TIMEOUT: Duration = Duration::from_secs(60);

/// An open export. Dropping it ends the connection.
pub struct Remote {
    export: ExportInfo,
    /// The socket, to wait for bytes while other threads send.
    input: Arc<File>,
    shared: Mutex<Shared>,
    /// Signals that replies have arrived, or that no thread receives any more.
    changed: Condvar,
}

/// The connection and its requests.
struct Shared {
    session: Option<Session>,
    requests: Requests,
    /// True while a thread waits for bytes.
    is_receiving: bool,
    /// Reason why the connection has ended.
    failure: Option<String>,
}

#[derive(Default)]
struct Requests {
    /// Requests in flight, by their slot.
    pending: Vec<Option<PendingRequest>>,
    /// Completed requests that their threads have not taken yet, by ticket.
    finished: BTreeMap<u64, (Result<(), ErrorNumber>, Vec<u8>)>,
    next_ticket: u64,
}

struct PendingRequest {
    ticket: u64,
    offset: u64,
    /// The payload of a write, or the data of a read.
    buffer: Vec<u8>,
}

impl ReplyHandler for Requests {
    fn data(&mut self, slot: Slot, offset: u64, bytes: &[u8]) {
        // The session has checked that the range lies in the request.
        if let Some(Some(request)) = self.pending.get_mut(slot.index()) {
            let start = (offset - request.offset) as usize;
            request.buffer[start..start + bytes.len()].copy_from_slice(bytes);
        }
    }
    fn hole(&mut self, slot: Slot, offset: u64, length: u64) {
        if let Some(Some(request)) = self.pending.get_mut(slot.index()) {
            let start = (offset - request.offset) as usize;
            request.buffer[start..start + length as usize].fill(0);
        }
    }
    fn done(&mut self, slot: Slot, result: Result<(), ErrorNumber>) -> Result<(), LoadError> {
        if let Some(request) = self.pending.get_mut(slot.index()).and_then(Option::take) {
            self.finished.insert(request.ticket, (result, request.buffer));
        }
        Ok(())
    }
    fn payload(&self, slot: Slot) -> &[u8] {
        self.pending[slot.index()].as_ref().map_or(&[], |request| &request.buffer)
    }
    fn arrived(&mut self) {}
}

impl Requests {
    fn add(&mut self, slot: Slot, offset: u64, buffer: Vec<u8>) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        if self.pending.len() <= slot.index() {
            self.pending.resize_with(slot.index() + 1, || None);
        }
        self.pending[slot.index()] = Some(PendingRequest { ticket, offset, buffer });
        ticket
    }
}

impl Shared {
    fn check(&self) -> io::Result<()> {
        match &self.failure {
            Some(why) => Err(io::Error::new(io::ErrorKind::ConnectionAborted, why.clone())),
            None => Ok(()),
        }
    }

    /// Sends a request, and returns its ticket.
    fn send(&mut self, request: Request, buffer: Vec<u8>, has_payload: bool) -> io::Result<u64> {
        self.check()?;
        let Shared { session: Some(session), requests, .. } = self else {
            unreachable!("the session is open")
        };
        let slot = session.request(request, has_payload).map_err(refused)?;
        let ticket = requests.add(slot, request.offset, buffer);
        let sent = session.send(requests, Some(REPLY_TIMEOUT));
        self.keep_failure(sent)?;
        Ok(ticket)
    }

    /// Receives the replies that have arrived.
    fn receive(&mut self) -> io::Result<()> {
        let Shared { session: Some(session), requests, .. } = self else {
            unreachable!("the session is open")
        };
        let received = session.receive(requests);
        self.keep_failure(received)
    }

    /// Returns true if [`Shared::receive`] would not wait.
    fn has_input(&mut self) -> io::Result<bool> {
        let Some(session) = &mut self.session else { unreachable!("the session is open") };
        let waited = session.link.wait(None, Some(Duration::ZERO)).map_err(LoadError::from);
        let has_input = waited.as_ref().is_ok_and(|waited| waited.input);
        self.keep_failure(waited.map(|_| ()))?;
        Ok(has_input)
    }

    fn keep_failure(&mut self, result: Result<(), LoadError>) -> io::Result<()> {
        if let Err(error) = result {
            self.failure.get_or_insert(error.to_string());
        }
        self.check()
    }
}

impl Remote {
    /// Connects to an export.
    ///
    /// # Errors
    /// Returns the reason why the server or the export cannot be used.
    pub fn open(uri: &Uri) -> Result<Remote, LoadError> {
        let session = Session::open(uri, false)?;
        Ok(Remote {
            export: session.export().clone(),
            input: session.link.input(),
            shared: Mutex::new(Shared {
                session: Some(session),
                requests: Requests::default(),
                is_receiving: false,
                failure: None,
            }),
            changed: Condvar::new(),
        })
    }

    /// Returns the server's description of the export.
    pub fn export(&self) -> &ExportInfo {
        &self.export
    }

    /// Returns true if the server accepts no writes.
    pub fn is_read_only(&self) -> bool {
        self.export.flags.contains(TransmissionFlags::READ_ONLY)
    }

    /// Returns true if the server accepts discards.
    pub fn discards(&self) -> bool {
        self.export.flags.contains(TransmissionFlags::SEND_TRIM) && !self.is_read_only()
    }

    /// Reads `buffer.len()` bytes at `offset`.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let request = Request::read(offset, buffer.len() as u64);
        buffer.copy_from_slice(&self.execute(request, vec![0; buffer.len()], false)?);
        Ok(())
    }

    /// Writes `data` at `offset`.
    pub fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.execute(Request::write(offset, data.len() as u64), data.to_vec(), true).map(|_| ())
    }

    /// Discards a range: its contents are no longer needed.
    pub fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        self.command(Request::trim(offset, length))
    }

    /// Executes a request without data.
    pub(crate) fn command(&self, request: Request) -> io::Result<()> {
        self.execute(request, Vec::new(), false).map(drop)
    }

    /// Makes all completed writes durable. A server that offers no flush has no volatile cache, so nothing is sent.
    pub fn flush(&self) -> io::Result<()> {
        if !self.export.flags.contains(TransmissionFlags::SEND_FLUSH) {
            return Ok(());
        }
        self.command(Request::flush())
    }

    /// Executes a request, and returns its buffer.
    pub(crate) fn execute(
        &self,
        request: Request,
        buffer: Vec<u8>,
        has_payload: bool,
    ) -> io::Result<Vec<u8>> {
        let mut shared = self.lock();
        let ticket = shared.send(request, buffer, has_payload);
        // While this thread was sending, replies to other threads may have arrived.
        self.changed.notify_all();
        let ticket = ticket?;
        loop {
            if let Some((result, buffer)) = shared.requests.finished.remove(&ticket) {
                return result.map(|()| buffer).map_err(of_number);
            }
            shared.check()?;
            shared = match shared.is_receiving {
                true => self.changed.wait(shared).unwrap_or_else(PoisonError::into_inner),
                false => self.receive(shared)?,
            };
        }
    }

    /// Receives replies for all threads, after waiting for the first one.
    fn receive<'a>(&'a self, mut shared: MutexGuard<'a, Shared>) -> io::Result<MutexGuard<'a, Shared>> {
        if !shared.has_input()? {
            shared.is_receiving = true;
            drop(shared);
            let waited = wait_for(&mut [PollFd::new(&*self.input, PollFlags::IN)], Some(REPLY_TIMEOUT));
            shared = self.lock();
            shared.is_receiving = false;
            let waited = waited.map_err(LoadError::from).and_then(|n| match n {
                0 => Err(LoadError::Silent(REPLY_TIMEOUT)),
                _ => Ok(()),
            });
            if let Err(error) = shared.keep_failure(waited) {
                self.changed.notify_all();
                return Err(error);
            }
            // Another thread may have received the bytes, and a part of an encrypted record is no reply yet.
            let has_input = shared.has_input();
            if !matches!(has_input, Ok(true)) {
                self.changed.notify_all();
                return has_input.map(|_| shared);
            }
        }
        let received = shared.receive();
        self.changed.notify_all();
        received.map(|()| shared)
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        if let Some(session) = self.lock().session.take() {
            session.close();
        }
    }
}

/// Returns the error for a request that the session does not send.
fn refused(error: LoadError) -> io::Error {
    let kind = match &error {
        LoadError::Refused(RequestError::NotOffered(_) | RequestError::Flags(_)) => {
            io::ErrorKind::Unsupported
        }
        LoadError::Refused(RequestError::Range) => io::ErrorKind::UnexpectedEof,
        _ => io::ErrorKind::InvalidInput,
    };
    io::Error::new(kind, error.to_string())
}

/// Returns the error for a server's error number. The numbers of NBD are those of Linux.
fn of_number(number: ErrorNumber) -> io::Error {
    io::Error::from_raw_os_error(number.to_wire() as i32)
}
