//! The session machine of a server.

use super::handshake::Handshake;
use super::transmission::Transmission;
use super::{ContextSet, Export, Exports, OPTION_DATA_MAX, Policy, Replies, Request};
use crate::wire::{BadMagic, ClientFlags, Greeting, HandshakeFlags, OptionHeader, OptionType};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

/// One connection, seen from the server.
///
/// The owner of the socket receives into a large buffer and passes its contents to [`Session::receive`] until
/// the call returns [`Event::Need`]. Each call begins where the last call stopped. At [`Event::Need`], the
/// session has returned all complete valid requests in the buffer. The session appends its own messages to
/// `replies`, and the owner appends the replies to requests ([`Replies`]) to the same buffer, so that one
/// vectored send transmits them all. The session buffers no bytes: unconsumed bytes have to be passed again
/// at the next call. The session stores no requests either: after [`Event::Closed`] with
/// [`Closed::Disconnect`] the owner replies to the requests in flight, and closes the connection.
pub struct Session {
    phase: Phase,
    shutting_down: bool,
}

enum Phase {
    Handshake(Box<Handshake>),
    Transmission(Box<Transmission>),
    /// The reason, and the number of rejected requests that [`Session::take_rejected_count`] has not returned yet.
    Closed(Closed, u64),
}

/// Result of a call of [`Session::receive`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Received {
    /// Number of bytes consumed. The next call begins with the byte after them.
    pub consumed: usize,
    /// The event.
    pub event: Event,
}

/// An action that the owner of a session has to take.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// Receive more bytes, and call again once this many unconsumed bytes are available. The number is
    /// greater than the number of unconsumed bytes now, and at most [`Session::need_max`].
    Need(usize),
    /// Send the replies before the next call. The client waits for one of them, the reply to an option.
    Send,
    /// Send the replies, discard all bytes received in the clear that were not passed to the session, perform the TLS
    /// handshake, and call [`Session::tls_started`].
    StartTls,
    /// Send the replies. The handshake is complete and requests follow. [`Session::export`] returns the export.
    Opened,
    /// Execute the request and reply to it.
    Request(Request),
    /// Send the replies, finish the requests in flight, and close the connection.
    Closed(Closed),
}

/// Reason why a session ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Closed {
    /// The client aborted the handshake (`NBD_OPT_ABORT`).
    Abort,
    /// The client disconnected (`NBD_CMD_DISC`).
    Disconnect,
    /// The bytes do not belong to the NBD protocol.
    Magic(BadMagic),
    /// The client set a flag that the server does not offer ("Client flags").
    ClientFlags(ClientFlags),
    /// A client without fixed newstyle sent an option other than `NBD_OPT_EXPORT_NAME`.
    NotFixedNewstyle(OptionType),
    /// The client requested an unavailable export with `NBD_OPT_EXPORT_NAME`, which has no error reply.
    Export {
        /// The requested name, in which bytes that are not UTF-8 are replaced; empty if the name is too long.
        name: String,
        /// Reason why the export is unavailable.
        why: &'static str,
    },
    /// The client sent more options than [`Policy::options_max`].
    TooManyOptions,
    /// The client sent a payload of this many bytes, which is above the limit.
    Payload(u64),
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Closed::Abort => f.write_str("the client ended the handshake"),
            Closed::Disconnect => f.write_str("the client disconnected"),
            Closed::Magic(magic) => write!(f, "not the NBD protocol: {magic}"),
            Closed::ClientFlags(flags) => write!(f, "client flags {:#x}, which were not offered", flags.0),
            Closed::NotFixedNewstyle(option) => write!(f, "the client sent {option} without fixed newstyle"),
            Closed::Export { name, why } => write!(f, "NBD_OPT_EXPORT_NAME for {name:?}: {why}"),
            Closed::TooManyOptions => f.write_str("the client sent too many options"),
            Closed::Payload(length) => write!(f, "a payload of {length} bytes, which is above the limit"),
        }
    }
}

impl core::error::Error for Closed {}

impl Session {
    /// Starts a session. Appends the greeting, which the owner sends at once.
    pub fn new(policy: Policy, exports: Arc<dyn Exports>, replies: &mut Vec<u8>) -> Session {
        Greeting { flags: HandshakeFlags::ALL }.emit(replies);
        Session { phase: Phase::Handshake(Box::new(Handshake::new(policy, exports))), shutting_down: false }
    }

    /// Parses received bytes, from where the last call stopped, up to the next event.
    #[inline]
    pub fn receive(&mut self, bytes: &[u8], replies: &mut Vec<u8>) -> Received {
        if let Phase::Transmission(transmission) = &mut self.phase {
            let received = transmission.receive(bytes, self.shutting_down, replies);
            if let Event::Closed(why) = &received.event {
                self.phase = Phase::Closed(why.clone(), transmission.take_rejected_count());
            }
            return received;
        }
        self.receive_handshake(bytes, replies)
    }

    fn receive_handshake(&mut self, bytes: &[u8], replies: &mut Vec<u8>) -> Received {
        match &mut self.phase {
            Phase::Handshake(handshake) => {
                let received = handshake.receive(bytes, self.shutting_down, replies);
                match &received.event {
                    Event::Opened => {
                        let opened = handshake.opened().expect("`Opened` announces a transmission phase");
                        self.phase = Phase::Transmission(Box::new(opened));
                    }
                    Event::Closed(why) => self.phase = Phase::Closed(why.clone(), 0),
                    _ => {}
                }
                received
            }
            Phase::Transmission(_) => unreachable!("`receive` handles this phase"),
            Phase::Closed(why, _) => Received { consumed: 0, event: Event::Closed(why.clone()) },
        }
    }

    /// Continues the handshake after the TLS handshake. All bytes passed from now on were encrypted. Resets the
    /// negotiation state ("`NBD_OPT_STARTTLS`").
    pub fn tls_started(&mut self) {
        if let Phase::Handshake(handshake) = &mut self.phase {
            handshake.tls_started();
        }
    }

    /// Makes the session reject further options and requests. The error reply, if there is one, announces the
    /// shutdown ("Terminating the transmission phase", "Termination of the session during option haggling").
    pub fn shut_down(&mut self) {
        self.shutting_down = true;
    }

    /// Returns the export; `None` outside of the transmission phase.
    pub fn export(&self) -> Option<&Export> {
        match &self.phase {
            Phase::Transmission(transmission) => Some(transmission.export()),
            _ => None,
        }
    }

    /// Returns the negotiated metadata contexts; none outside of the transmission phase.
    pub fn contexts(&self) -> ContextSet {
        match &self.phase {
            Phase::Transmission(transmission) => transmission.contexts(),
            _ => ContextSet::NONE,
        }
    }

    /// Returns the [`Replies`] of the negotiated style; `None` outside of the transmission phase.
    pub fn replies(&self) -> Option<Replies> {
        match &self.phase {
            Phase::Transmission(transmission) => Some(transmission.replies()),
            _ => None,
        }
    }

    /// Returns the number of requests that the session itself has answered with an error since the last call.
    pub fn take_rejected_count(&mut self) -> u64 {
        match &mut self.phase {
            Phase::Handshake(_) => 0,
            Phase::Transmission(transmission) => transmission.take_rejected_count(),
            Phase::Closed(_, rejected) => core::mem::take(rejected),
        }
    }

    /// Returns true while the payload of a rejected request is still arriving. The session consumes the payload as it
    /// arrives.
    pub fn is_draining(&self) -> bool {
        matches!(&self.phase, Phase::Transmission(transmission) if transmission.is_draining())
    }

    /// Returns an upper bound of the bytes that [`Event::Need`] requests. The owner's buffer has at least
    /// this size.
    pub fn need_max(policy: &Policy) -> usize {
        (OptionHeader::LEN + OPTION_DATA_MAX).max(32 + policy.direct_payload_min_bytes)
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let phase = match &self.phase {
            Phase::Handshake(_) => "handshake",
            Phase::Transmission(_) => "transmission",
            Phase::Closed(..) => "closed",
        };
        f.debug_struct("Session").field("phase", &phase).finish_non_exhaustive()
    }
}
