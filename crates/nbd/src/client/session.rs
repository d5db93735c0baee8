//! The session machine of a client.

use super::handshake::Handshake;
use super::transmission::Transmission;
use super::{ClientError, ExportInfo, Request, RequestError, Slot, Wish};
use crate::wire::{ChunkLayout, ErrorNumber, RequestLayout};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

/// One connection, seen from the client.
///
/// The owner of the socket calls [`Client::receive`] with what was received, again and again, each time from where the
/// last call ended, until it says [`Event::Need`]. What the handshake has to say is appended to `to_send`; after
/// [`Event::Ready`], [`Client::request`] appends requests. The session keeps no bytes: what it did not consume has to be
/// there again at the next call.
pub struct Client {
    phase: Phase,
}

enum Phase {
    Handshake(Box<Handshake>),
    Transmission(Box<Transmission>),
    Closed(ClientError, Option<Box<Handshake>>),
}

/// What came of a call of [`Client::receive`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Received {
    /// So many of the bytes are dealt with. What follows them is for the next call.
    pub consumed: usize,
    /// What it means.
    pub event: Event,
}

/// What the owner of a session learns, or has to do. Ranges are places among the bytes that the call was given.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// Receive: call again when there are so many bytes from where this call ended: more than there are now, and never
    /// more than [`Client::NEED_MAX`].
    Need(usize),
    /// Send what was appended.
    Send,
    /// Throw away every byte that was received in the clear, do TLS' own handshake, and call [`Client::tls_started`].
    StartTls,
    /// Requests can be sent. What they are for is [`Client::export`].
    Ready,
    /// What was wanted is known: [`Client::export`], [`Client::exports`], [`Client::contexts`]. Send what was appended.
    Told,
    /// Bytes of a read. More may follow, in any order.
    Data {
        /// Of which request.
        slot: Slot,
        /// Of the first byte, in the export.
        offset: u64,
        /// Where they are.
        here: Range<usize>,
    },
    /// A part of a read that is zeroes.
    Hole {
        /// Of which request.
        slot: Slot,
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u32,
    },
    /// An extent of a block status.
    Extent(Extent),
    /// A request fails; the server says why. The answer may go on.
    Error {
        /// Which.
        slot: Slot,
        /// Why.
        error: ErrorNumber,
        /// From which byte on, if that was told.
        offset: Option<u64>,
        /// Where the server's words are; they may be empty.
        message: Range<usize>,
    },
    /// A request is done, and its slot is free.
    Done {
        /// Which.
        slot: Slot,
        /// How it went.
        result: Result<(), ErrorNumber>,
    },
    /// Send what was appended, and close the connection.
    Closed(ClientError),
}

/// An extent of a block status.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// Of which request.
    pub slot: Slot,
    /// Its place in [`Client::contexts`].
    pub context: usize,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// What the context says.
    pub status: u64,
}

impl Client {
    /// The most bytes that [`Event::Need`] asks for: the least size of the owner's buffer.
    pub const NEED_MAX: usize = 20 + super::OPTION_REPLY_DATA_MAX;

    /// A new connection. The server speaks first.
    pub fn new(wish: Wish) -> Client {
        Client { phase: Phase::Handshake(Box::new(Handshake::new(wish))) }
    }

    /// Takes what was received, from where the last call ended.
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
        self.shake_hands(bytes, to_send)
    }

    fn shake_hands(&mut self, bytes: &[u8], to_send: &mut Vec<u8>) -> Received {
        let Phase::Handshake(handshake) = &mut self.phase else {
            let error = match &self.phase {
                Phase::Closed(error, _) => error.clone(),
                _ => ClientError::Ended,
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

    /// TLS' own handshake is done: what comes from now on was encrypted.
    pub fn tls_started(&mut self, to_send: &mut Vec<u8>) {
        if let Phase::Handshake(handshake) = &mut self.phase {
            handshake.tls_started(to_send);
        }
    }

    /// Appends a request. The payload of a write has to be sent right behind it.
    #[inline]
    pub fn request(&mut self, request: Request, to_send: &mut Vec<u8>) -> Result<Slot, RequestError> {
        match &mut self.phase {
            Phase::Transmission(transmission) => transmission.request(request, to_send),
            _ => Err(RequestError::NotReady),
        }
    }

    /// Appends a [`Request::block_status`] that is about some of the contexts only, by their places in
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

    /// Says goodbye: appends `NBD_CMD_DISC`, or `NBD_OPT_ABORT` during the handshake. Requests in flight are still
    /// answered.
    pub fn disconnect(&mut self, to_send: &mut Vec<u8>) {
        match &mut self.phase {
            Phase::Transmission(transmission) => transmission.disconnect(to_send),
            Phase::Handshake(handshake) => handshake.abort(to_send),
            Phase::Closed(..) => {}
        }
    }

    /// How many requests are not done.
    pub fn in_flight(&self) -> usize {
        match &self.phase {
            Phase::Transmission(transmission) => transmission.in_flight(),
            _ => 0,
        }
    }

    /// What the server told of the export.
    pub fn export(&self) -> Option<&ExportInfo> {
        match &self.phase {
            Phase::Transmission(transmission) => Some(transmission.export()),
            Phase::Handshake(handshake) | Phase::Closed(_, Some(handshake)) => handshake.export(),
            Phase::Closed(_, None) => None,
        }
    }

    /// The names and descriptions of the exports, after [`Goal::List`](super::Goal::List).
    pub fn exports(&self) -> &[(String, String)] {
        match &self.phase {
            Phase::Handshake(handshake) | Phase::Closed(_, Some(handshake)) => handshake.exports(),
            _ => &[],
        }
    }

    /// The names of the metadata contexts that were agreed on, or were told of.
    pub fn contexts(&self) -> Vec<&str> {
        match &self.phase {
            Phase::Transmission(transmission) => transmission.contexts().collect(),
            Phase::Handshake(handshake) | Phase::Closed(_, Some(handshake)) => handshake.contexts().collect(),
            Phase::Closed(_, None) => Vec::new(),
        }
    }

    /// The layout of requests and that of chunks (`None` for simple replies), once ready.
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
