//! Flash memory: the NAND array ([`nand`]) and the flash translation layers of cards and SSDs ([`ftl`]).
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod impossible;
mod index;
mod stride;

pub mod ftl;
pub mod nand;

pub use impossible::Impossible;
