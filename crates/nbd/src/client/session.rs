//! The session machine of a client.

use super::handshake::Handshake;
use super::transmission::Transmission;
use super::{ClientConfig, ClientError, ExportInfo, Request, RequestError, Slot};
use crate::wire::{ChunkLayout, ErrorNumber, RequestLayout};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

/// One connection, seen from the client.
///
/// The owner of the socket passes the received bytes to [`Client::receive`] until the call returns
/// [`Event::Need`]. Each call begins where the last call stopped. The handshake appends its messages to
/// `to_send`. After [`Event::Ready`], [`Client::request`] appends requests. The session buffers no bytes:
/// unconsumed bytes have to be passed again at the next call.
pub struct Client {
    phase: Phase,
}

enum Phase {
    Handshake(Box<Handshake>),
    Transmission(Box<Transmission>),
    Closed(ClientError, Option<Box<Handshake>>),
}

/// Result of a call of [`Client::receive`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Received {
    /// Number of bytes consumed. The next call begins with the byte after them.
    pub consumed: usize,
    /// The event.
    pub event: Event,
}

/// An event of the session: information for the owner, or an action that the owner has to take. A range
/// contains positions in the bytes passed to the call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// Receive more bytes, and call again once this many unconsumed bytes are available. The number is
    /// greater than the number of unconsumed bytes now, and at most [`Client::NEED_MAX`].
    Need(usize),
    /// Send the appended bytes.
    Send,
    /// Discard all bytes received in the clear, perform the TLS handshake, and call [`Client::tls_started`].
    StartTls,
    /// The handshake is complete and requests can be sent. [`Client::export`] describes the export.
    Ready,
    /// The server has sent the requested information: [`Client::export`], [`Client::exports`], [`Client::contexts`].
    /// Send the appended bytes.
    InfoReceived,
    /// Data of a read. More data may follow, in any order.
    Data {
        /// Slot of the request.
        slot: Slot,
        /// Position of the first byte in the export.
        offset: u64,
        /// Position of the data in the received bytes.
        range: Range<usize>,
    },
    /// A part of a read that contains only zeroes.
    Hole {
        /// Slot of the request.
        slot: Slot,
        /// Offset of the first byte in the export.
        offset: u64,
        /// Length in bytes.
        length: u32,
    },
    /// An extent of a block status.
    Extent(Extent),
    /// The server reported an error for a request in a chunk. More chunks of the reply may follow. An error
    /// in a simple reply is only in [`Event::Done`].
    Error {
        /// Slot of the request.
        slot: Slot,
        /// The error number.
        error: ErrorNumber,
        /// Position in the export of the first failed byte, if the server reported it.
        offset: Option<u64>,
        /// Position of the server's message in the received bytes; may be empty.
        message: Range<usize>,
    },
    /// A request is complete, and its slot is free.
    Done {
        /// Slot of the request.
        slot: Slot,
        /// Result of the request.
        result: Result<(), ErrorNumber>,
    },
    /// The session has ended. Send the appended bytes, and close the connection.
    Closed(ClientError),
}

/// An extent of a block status.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// Slot of the request.
    pub slot: Slot,
    /// Position of the metadata context in [`Client::contexts`].
    pub context: usize,
    /// Offset of the first byte in the export.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
    /// Status of the extent, as the metadata context defines it.
    pub status: u64,
}

impl Client {
    /// Maximum number of bytes that [`Event::Need`] requests, which is the minimum size of the owner's buffer.
    pub const NEED_MAX: usize = 20 + super::OPTION_REPLY_DATA_MAX;

    /// Starts a session. The server sends the first message.
    pub fn new(config: ClientConfig) -> Client {
        Client { phase: Phase::Handshake(Box::new(Handshake::new(config))) }
    }

    /// Parses received bytes, from where the last call stopped, up to the next event.
    #[inline]
    pub fn receive(&mut self, bytes: &[u8], to_send: &mut Vec<u8>) -> Received {
        if let Phase::Transmission(transmission) = &mut self.phase {
            return match transmission.receive(bytes) {
                Ok(received) => received,
                Err(error) => {
                    self.phase = Phase::Closed(error.clone(), None);
                    Received { consumed: 0, event: Event::Closed(error) }
                }
            };
        }
        self.receive_handshake(bytes, to_send)
    }

    fn receive_handshake(&mut self, bytes: &[u8], to_send: &mut Vec<u8>) -> Received {
        let Phase::Handshake(handshake) = &mut self.phase else {
            let error = match &self.phase {
                Phase::Closed(error, _) => error.clone(),
                _ => ClientError::Closed,
            };
            return Received { consumed: 0, event: Event::Closed(error) };
        };
        let received = match handshake.receive(bytes, to_send) {
            Ok(received) => received,
            Err(error) => Received { consumed: 0, event: Event::Closed(error) },
        };
        match &received.event {
            Event::Ready => {
                let transmission = handshake.ready();
                self.phase = Phase::Transmission(Box::new(transmission));
            }
            Event::Closed(error) => {
                let error = error.clone();
                let phase = core::mem::replace(&mut self.phase, Phase::Closed(error.clone(), None));
                if let Phase::Handshake(handshake) = phase {
                    self.phase = Phase::Closed(error, Some(handshake));
                }
            }
            _ => {}
        }
        received
    }

    /// Continues the handshake after the TLS handshake. All bytes passed from now on were encrypted.
    pub fn tls_started(&mut self, to_send: &mut Vec<u8>) {
        if let Phase::Handshake(handshake) = &mut self.phase {
            handshake.tls_started(to_send);
        }
    }

    /// Appends a request. The data of a write has to be sent directly after the request.
    #[inline]
    pub fn request(&mut self, request: Request, to_send: &mut Vec<u8>) -> Result<Slot, RequestError> {
        match &mut self.phase {
            Phase::Transmission(transmission) => transmission.request(request, to_send),
            _ => Err(RequestError::NotReady),
        }
    }

    /// Appends a [`Request::block_status`] for a subset of the metadata contexts, given by their positions in
    /// [`Client::contexts`].
    pub fn block_status_of(
        &mut self,
        request: Request,
        contexts: &[usize],
        to_send: &mut Vec<u8>,
    ) -> Result<Slot, RequestError> {
        match &mut self.phase {
            Phase::Transmission(transmission) => transmission.block_status_of(request, contexts, to_send),
            _ => Err(RequestError::NotReady),
        }
    }

    /// Appends `NBD_CMD_DISC`, or `NBD_OPT_ABORT` during the handshake. The server still replies to the requests in
    /// flight.
    pub fn disconnect(&mut self, to_send: &mut Vec<u8>) {
        match &mut self.phase {
            Phase::Transmission(transmission) => transmission.disconnect(to_send),
            Phase::Handshake(handshake) => handshake.abort(to_send),
            Phase::Closed(..) => {}
        }
    }

    /// Returns the number of requests in flight.
    pub fn in_flight(&self) -> usize {
        match &self.phase {
            Phase::Transmission(transmission) => transmission.in_flight(),
            _ => 0,
        }
    }

    /// Returns the server's description of the export; `None` before it arrives, and after an error in the
    /// transmission phase.
    pub fn export(&self) -> Option<&ExportInfo> {
        match &self.phase {
            Phase::Transmission(transmission) => Some(transmission.export()),
            Phase::Handshake(handshake) | Phase::Closed(_, Some(handshake)) => handshake.export(),
            Phase::Closed(_, None) => None,
        }
    }

    /// Returns the names and descriptions of the exports, after [`Goal::List`](super::Goal::List).
    pub fn exports(&self) -> &[(String, String)] {
        match &self.phase {
            Phase::Handshake(handshake) | Phase::Closed(_, Some(handshake)) => handshake.exports(),
            _ => &[],
        }
    }

    /// Returns the names of the metadata contexts that were negotiated, or listed for
    /// [`Goal::Info`](super::Goal::Info).
    pub fn contexts(&self) -> Vec<&str> {
        match &self.phase {
            Phase::Transmission(transmission) => transmission.contexts().collect(),
            Phase::Handshake(handshake) | Phase::Closed(_, Some(handshake)) => handshake.contexts().collect(),
            Phase::Closed(_, None) => Vec::new(),
        }
    }

    /// Returns the layout of requests and the layout of chunks (`None` for simple replies), once the session is
    /// ready.
    pub fn layouts(&self) -> Option<(RequestLayout, Option<ChunkLayout>)> {
        match &self.phase {
            Phase::Transmission(transmission) => Some((transmission.layout(), transmission.chunks())),
            _ => None,
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let phase = match &self.phase {
            Phase::Handshake(_) => "handshake",
            Phase::Transmission(_) => "transmission",
            Phase::Closed(..) => "closed",
        };
        f.debug_struct("Client").field("phase", &phase).finish_non_exhaustive()
    }
}
