//! The server's side of a session.
//!
//! [`Session`] takes the bytes of one connection and returns events. [`Replies`] appends the replies to requests to a
//! buffer. [`Export`] and [`Exports`] describe the exports, and [`Policy`] lists the offered features.
//!
//! ```
//! use flashlab_nbd::server::{Event, Export, Policy, Session};
//! use flashlab_nbd::wire::{OptionHeader, OptionType};
//! use std::sync::Arc;
//!
//! let exports = Arc::new(vec![Export::new("card", 1 << 20)]);
//! let mut replies = Vec::new();
//! let mut session = Session::new(Policy::default(), exports, &mut replies);
//! // `replies` contains the greeting, which the owner sends. The client then sends:
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

pub use export::{ContextSet, Export, ExportListing, Exports, MetaContext};
pub use policy::{Policy, Tls};
pub use reply::{Replies, Style};
pub use request::{Command, Request, Token};
pub use session::{Closed, Event, Received, Session};

/// Maximum length of the data of an option, in bytes. The session skips longer data, but closes at a longer
/// name in `NBD_OPT_EXPORT_NAME`.
pub const OPTION_DATA_MAX: usize = 32 << 10;

/// A session accepts payloads up to this length in bytes, or up to the advertised maximum if that is higher.
pub const PAYLOAD_MAX: u64 = 64 << 20;
