//! Flash memory: the array's timing ([`nand`]) and what a card's firmware does with it ([`ftl`]).
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod impossible;
mod stride;

pub mod ftl;
pub mod nand;

pub use impossible::Impossible;
