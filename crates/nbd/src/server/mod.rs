//! The server's side of a session.
//!
//! [`Session`] takes the bytes of one connection and gives events; [`Replies`] appends the answers of requests to a
//! buffer; [`Export`] and [`Exports`] say what there is to serve; [`Policy`] says what is offered.
//!
//! ```
//! use flashlab_nbd::server::{Event, Export, Policy, Session};
//! use flashlab_nbd::wire::{OptionHeader, OptionType};
//! use std::sync::Arc;
//!
//! let exports = Arc::new(vec![Export::new("card", 1 << 20)]);
//! let mut replies = Vec::new();
//! let mut session = Session::new(Policy::default(), exports, &mut replies);
//! // `replies` has the greeting: send it. Then what the client sends:
//! let mut bytes = vec![0, 0, 0, 3];
//! OptionHeader::emit_with(OptionType::ExportName, b"card", &mut bytes);
//! replies.clear();
//! let received = session.receive(&bytes, &mut replies);
//! assert_eq!((received.consumed, received.event), (bytes.len(), Event::Opened));
//! assert_eq!(session.export().unwrap().size, 1 << 20);
//! ```

mod export;
mod handshake;
mod policy;
mod reply;
mod request;
mod session;
mod transmission;

pub use export::{ContextSet, Export, Exports, Listed, MetaContext};
pub use policy::{Policy, Tls};
pub use reply::{Replies, Style};
pub use request::{Command, Request, Token};
pub use session::{Closed, Event, Received, Session};

/// The data of an option is at most this long; longer ones are skipped.
pub const OPTION_DATA_MAX: usize = 32 << 10;

/// Payloads up to this length are taken, whatever was advertised.
pub const PAYLOAD_MAX: u64 = 64 << 20;
