//! The NBD protocol without I/O: its messages ([`wire`]), session machines for [`server`] and [`client`], and the
//! URIs of servers ([`uri`]).
//!
//! The specification is `doc/proto.md` of <https://github.com/NetworkBlockDevice/nbd>; its branch
//! `extension-ext-header` specifies extended headers. The code cites the headings of the sections that it implements.
//! The crate does not implement oldstyle negotiation or `RESIZE`, and leaves the encryption of TLS to the owner of the
//! socket.
//!
//! A machine takes bytes as slices and appends its output to a `Vec`; the owner of the socket moves the bytes.
//! Received bytes never cause a panic, and the number of bytes that a machine buffers is bounded.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod client;
pub mod server;
pub mod uri;
pub mod wire;
