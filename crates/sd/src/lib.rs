//! SD cards: the bus between host and card, the timing of the card, and the card's command set.
//!
//! - [`CardModel`] is the card as a timed block device. [`Card`] is the same card with its command line, states,
//!   registers and data blocks. The two types use the same model of the array.
//! - [`Native`] is the host's end of the wires in SD bus mode. [`spi::Spi`] is the host's end in SPI mode.
//! - [`quirk`] lists the ways in which a card may deviate from the specification.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod bus;
mod card;
mod command;
mod crc;
mod model;
mod native;
pub mod opcode;
pub mod quirk;
pub mod register;
mod signal;
pub mod spi;

pub use bus::{BLOCK, Bus, Link, Mode, Wires};
pub use card::{Card, CrcStatus, State, Transfer};
pub use command::{Command, Frame, Response, Status};
pub use crc::{crc7, crc16, crc16_lines};
pub use model::{CardModel, CardParameters, Refinements};
pub use native::{Fault, Ios, Native, Power, ResponseType, Signal, Timing};
pub use quirk::Quirks;
pub use register::{Identity, Voltage};
pub use signal::{Board, PHASES};
