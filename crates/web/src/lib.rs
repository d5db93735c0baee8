//! The HTTP server of the live page and of metrics.
//!
//! - [`Server`] binds a TCP socket and serves a [`Subject`] until a [`Stop`] is thrown.
//! - A [`Subject`] is the thing that the page shows and changes. One thread owns it, so it needs no locks: the HTTP
//!   side sends commands to that thread and receives states from it.
//! - The page itself is a set of plain ES modules without a build step ([`page`](../page)).
//!
//! # Security
//! - A command needs the server's token, in the header `Authorization: Bearer`. The printed URL contains the token
//!   after `#`, which browsers send neither to a server nor to other sites.
//! - The header `Host` must be an IP address or `localhost`. A page of another site therefore cannot reach the server
//!   through a host name of its own (DNS rebinding).
//! - A request with a header `Origin` other than the server's own is refused, and no response permits another origin.
//!
//! A server without a page serves only metrics, which need no protection, and skips these checks.
//!
//! # Limits
//! [`Limits`] bounds connections, event streams, sizes and times. A client that reads nothing misses states, and its
//! connection ends when it has accepted no byte for [`Limits::stall`].
#![forbid(unsafe_code)]

mod access;
mod body;
mod clock;
mod limits;
mod owner;
mod page;
mod routes;
mod server;
mod stalling;
mod stop;
mod subject;

pub use access::Token;
pub use limits::Limits;
pub use server::Server;
pub use stop::Stop;
pub use subject::{Refused, Subject};
