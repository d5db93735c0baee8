//! The client's side of a session.
//!
//! [`Client`] takes the bytes of one connection and returns events. It appends requests to a buffer. [`ClientConfig`]
//! lists the features to negotiate. Requests are pipelined: any number may be in flight, and replies arrive in any
//! order and in pieces.
//!
//! ```
//! use flashlab_nbd::client::{Client, ClientConfig, Event, Request};
//! use flashlab_nbd::server::{self, Export, Policy, Session};
//! use std::sync::Arc;
//!
//! // Two machines, joined without a socket.
//! let (mut to_client, mut to_server) = (Vec::new(), Vec::new());
//! let mut server = Session::new(Policy::default(), Arc::new(vec![Export::new("card", 1 << 20)]), &mut to_client);
//! let mut client = Client::new(ClientConfig::export("card"));
//! loop {
//!     let received = client.receive(&to_client, &mut to_server);
//!     to_client.drain(..received.consumed);
//!     if received.event == Event::Ready {
//!         break;
//!     }
//!     let received = server.receive(&to_server, &mut to_client);
//!     to_server.drain(..received.consumed);
//! }
//! assert_eq!(client.export().unwrap().size, 1 << 20);
//! let slot = client.request(Request::read(4096, 512), &mut to_server).unwrap();
//! let received = server.receive(&to_server, &mut to_client);
//! let server::Event::Request(request) = received.event else { panic!("{received:?}") };
//! assert_eq!((request.offset, request.length), (4096, 512));
//! # let _ = slot;
//! ```

mod config;
mod error;
mod handshake;
mod pending;
mod request;
mod session;
mod transmission;

pub use config::{ClientConfig, ExportInfo, Goal, Tls};
pub use error::{ClientError, RequestError};
pub use pending::Slot;
pub use request::Request;
pub use session::{Client, Event, Extent, Received};

/// Maximum length of the data of an option reply, in bytes.
pub const OPTION_REPLY_DATA_MAX: usize = 32 << 10;

/// Maximum total length of the option replies in one handshake, in bytes.
pub const OPTION_REPLIES_MAX: usize = 4 << 20;
