//! SD cards: the bus between host and card, and the card's timing.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod buffer;
mod bus;
mod card;

pub use bus::{Bus, Link, Mode};
pub use card::{Card, CardParameters};
