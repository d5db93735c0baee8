//! SD cards: the bus between host and card, and the card's timing.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod bus;
mod command;
mod model;

pub use bus::{Bus, Link, Mode};
pub use command::{Command, Response, Status};
pub use model::{CardModel, CardParameters};
