//! SD cards: the bus between host and card, the card's timing, and the card command by command.
//!
//! - [`CardModel`]: the card as a timed block device. [`Card`]: the same card behind its command line, with states,
//!   registers and data blocks. Both work on one array.
//! - [`Native`]: the host's end of the wires in SD bus mode. [`spi::Spi`]: the same in SPI mode.
//! - [`quirk`]: what a card may do wrong.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod bus;
mod card;
mod command;
mod crc;
pub mod mmc;
mod model;
mod native;
pub mod quirk;
pub mod register;
mod signal;
pub mod spi;

pub use bus::{Bus, Link, Mode};
pub use card::{Card, CrcStatus, State, Transfer};
pub use command::{Command, Frame, Response, Status};
pub use crc::{crc7, crc16, crc16_lines};
pub use model::{CardModel, CardParameters};
pub use native::{Expects, Fault, Ios, Native, Power, Signal, Timing};
pub use quirk::Quirks;
pub use register::{Identity, Voltage};
pub use signal::{Board, PHASES};
