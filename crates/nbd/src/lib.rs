//! The NBD protocol without I/O: its messages ([`wire`]), session machines for [`server`] and [`client`], and the
//! addresses of servers ([`uri`]).
//!
//! The specification is `doc/proto.md` of <https://github.com/NetworkBlockDevice/nbd>; extended headers are on its branch
//! `extension-ext-header`. Sections are cited by their headings where they are obeyed. Not spoken: oldstyle
//! negotiation, `RESIZE`, and what TLS itself does.
//!
//! Bytes come in as slices and go out as bytes appended to a `Vec`; whoever owns the socket moves them. What comes from
//! the other side never panics and never makes a machine keep more than a bounded number of bytes.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod client;
pub mod server;
pub mod uri;
pub mod wire;
