//! The NBD protocol without I/O: its messages ([`wire`]), session machines for [`server`] and [`client`], and the
//! URIs of servers ([`uri`]).
//!
//! The specification is `doc/proto.md` of <https://github.com/NetworkBlockDevice/nbd>; its branch
//! `extension-ext-header` contains extended headers. The code cites the headings of the sections that it implements.
//! The crate does not implement oldstyle negotiation, `RESIZE` and TLS itself.
//!
//! A machine takes bytes as slices and appends its output to a `Vec`; the owner of the socket moves the bytes.
//! Received bytes never cause a panic, and a machine buffers a bounded number of bytes at most.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod client;
pub mod server;
pub mod uri;
pub mod wire;
