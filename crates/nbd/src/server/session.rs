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
/// The owner of the socket receives into a large buffer and calls [`Session::receive`] with what is in it, again and
/// again, each time from where the last call ended, until it says [`Event::Need`]: then all complete requests of the
/// batch have come out. What the session itself has to say it appends to `replies`; the owner appends the answers of
/// requests ([`Replies`]) to the same buffer, so that one vectored send takes them all. The session keeps no bytes: what
/// it did not consume has to be there again at the next call. It keeps no requests either: after [`Event::Closed`] with
/// [`Closed::Disconnect`] the owner answers what is in flight, and closes the connection.
pub struct Session {
    phase: Phase,
    shutting_down: bool,
}

enum Phase {
    Handshake(Box<Handshake>),
    Transmission(Box<Transmission>),
    /// With the requests that were refused at last.
    Closed(Closed, u64),
}

/// What came of a call of [`Session::receive`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Received {
    /// So many of the bytes are dealt with. What follows them is for the next call.
    pub consumed: usize,
    /// What to do.
    pub event: Event,
}

/// What the owner of a session has to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// Receive: call again when there are so many bytes from where this call ended: more than there are now, and never
    /// more than [`Session::need_max`].
    Need(usize),
    /// Send the replies before going on: an option was answered, and its client waits.
    Send,
    /// Send the replies, throw away every byte that was received in the clear beyond what was sent to the session, do
    /// TLS' own handshake, and call [`Session::tls_started`].
    StartTls,
    /// Send the replies; requests come next. What they are for is [`Session::export`].
    Opened,
    /// Do this and answer it.
    Request(Request),
    /// Send the replies, finish what is in flight, and close the connection.
    Closed(Closed),
}

/// Why a session ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Closed {
    /// The client said so, during the handshake (`NBD_OPT_ABORT`).
    Abort,
    /// The client said so (`NBD_CMD_DISC`).
    Disconnect,
    /// The bytes are not of this protocol.
    Magic(BadMagic),
    /// A flag that was not offered ("Client flags").
    ClientFlags(ClientFlags),
    /// Another option than `NBD_OPT_EXPORT_NAME` without fixed newstyle.
    NotFixedNewstyle(OptionType),
    /// `NBD_OPT_EXPORT_NAME`, which cannot be answered with an error, for an export that is not to be had; and why.
    Export {
        /// What was asked for, as far as it is text.
        name: String,
        /// Why not.
        why: &'static str,
    },
    /// More options than [`Policy::options_max`].
    TooManyOptions,
    /// A payload that is longer than anything that is taken, in bytes.
    Payload(u64),
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Closed::Abort => f.write_str("the client ended the handshake"),
            Closed::Disconnect => f.write_str("the client disconnected"),
            Closed::Magic(magic) => write!(f, "not the NBD protocol: {magic}"),
            Closed::ClientFlags(flags) => write!(f, "client flags {:#x}, which were not offered", flags.0),
            Closed::NotFixedNewstyle(option) => write!(f, "{option} from a client without fixed newstyle"),
            Closed::Export { name, why } => write!(f, "NBD_OPT_EXPORT_NAME for {name:?}: {why}"),
            Closed::TooManyOptions => f.write_str("the client sent too many options"),
            Closed::Payload(length) => write!(f, "a payload of {length} bytes"),
        }
    }
}

impl core::error::Error for Closed {}

impl Session {
    /// A new connection. Appends the greeting, which is to be sent at once.
    pub fn new(policy: Policy, exports: Arc<dyn Exports>, replies: &mut Vec<u8>) -> Session {
        Greeting { flags: HandshakeFlags::ALL }.emit(replies);
        Session { phase: Phase::Handshake(Box::new(Handshake::new(policy, exports))), shutting_down: false }
    }

    /// Takes what was received, from where the last call ended.
    #[inline]
    pub fn receive(&mut self, bytes: &[u8], replies: &mut Vec<u8>) -> Received {
        if let Phase::Transmission(transmission) = &mut self.phase {
            let received = transmission.receive(bytes, self.shutting_down, replies);
            if let Event::Closed(why) = &received.event {
                self.phase = Phase::Closed(why.clone(), transmission.take_refused());
            }
            return received;
        }
        self.shake_hands(bytes, replies)
    }

    fn shake_hands(&mut self, bytes: &[u8], replies: &mut Vec<u8>) -> Received {
        match &mut self.phase {
            Phase::Handshake(handshake) => {
                let received = handshake.receive(bytes, self.shutting_down, replies);
                match &received.event {
                    Event::Opened => {
                        let opened = handshake.opened().expect("the event comes with it");
                        self.phase = Phase::Transmission(Box::new(opened));
                    }
                    Event::Closed(why) => self.phase = Phase::Closed(why.clone(), 0),
                    _ => {}
                }
                received
            }
            Phase::Transmission(_) => unreachable!("receive has dealt with it"),
            Phase::Closed(why, _) => Received { consumed: 0, event: Event::Closed(why.clone()) },
        }
    }

    /// TLS' own handshake is done: what comes from now on was encrypted. Nothing that was agreed on before holds
    /// ("`NBD_OPT_STARTTLS`").
    pub fn tls_started(&mut self) {
        if let Phase::Handshake(handshake) = &mut self.phase {
            handshake.tls_started();
        }
    }

    /// From now on, options and requests are answered with an error that says that the server is going away
    /// ("Terminating the transmission phase", "Termination of the session during option haggling").
    pub fn shut_down(&mut self) {
        self.shutting_down = true;
    }

    /// What the requests are for; `None` during the handshake.
    pub fn export(&self) -> Option<&Export> {
        match &self.phase {
            Phase::Transmission(transmission) => Some(transmission.export()),
            _ => None,
        }
    }

    /// The metadata contexts that were agreed on.
    pub fn contexts(&self) -> ContextSet {
        match &self.phase {
            Phase::Transmission(transmission) => transmission.contexts(),
            _ => ContextSet::NONE,
        }
    }

    /// How requests are answered; `None` during the handshake.
    pub fn replies(&self) -> Option<Replies> {
        match &self.phase {
            Phase::Transmission(transmission) => Some(transmission.replies()),
            _ => None,
        }
    }

    /// How many requests the session has answered with an error itself since this was last asked.
    pub fn take_refused(&mut self) -> u64 {
        match &mut self.phase {
            Phase::Handshake(_) => 0,
            Phase::Transmission(transmission) => transmission.take_refused(),
            Phase::Closed(_, refused) => core::mem::take(refused),
        }
    }

    /// Returns true while the payload of a refused request is still to come. It is consumed as it arrives.
    pub fn is_draining(&self) -> bool {
        matches!(&self.phase, Phase::Transmission(transmission) if transmission.is_draining())
    }

    /// The most bytes that [`Event::Need`] asks for: the least size of the owner's buffer.
    pub fn need_max(policy: &Policy) -> usize {
        (OptionHeader::LEN + OPTION_DATA_MAX).max(32 + policy.direct_min)
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
