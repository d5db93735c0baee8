//! SPI mode of a card, byte by byte (SD Physical Layer Specification, chapter 7).
//!
//! [`Spi`] is the host's end of the four wires with a card at the other end. It also holds the simulated time: each
//! byte takes eight clocks, and [`Spi::wait`] advances the time further. With the feature `embedded-hal`, the module
//! `hal` lets drivers for embedded-hal 1.0 use [`Spi`].
//!
//! # Guarantees
//! - The card enters SPI mode with the first CMD0 that arrives with a correct CRC7 while chip select is low,
//!   after at least 74 clocks with power (section 6.4.1). Before that, its line is high.
//! - The CRC7 of CMD0 and CMD8 is always checked. Other commands and data are checked only after CMD59 has enabled the
//!   checks. Data to the host always has a CRC16.
//! - A response follows one byte after its command. After CMD12, a stuff byte precedes the response. Data
//!   follows as soon as the array has it, at least one byte after the response.
//! - While the card is busy and selected, it holds its line low.
//! - If the data of a read is not available and the card reports the reason, an error token gives this reason
//!   (section 7.3.3.3).
//!
//! [`ChipSelect`] determines the effect of a rising chip select on a transfer. Real cards differ in this
//! effect, and drivers that use a transaction for each byte work only with some cards.
//!
//! # Simplifications
//! - The bytes of a block are those in the array when the block begins.
//! - A command that arrives during a block ends the block at once.

#[cfg(feature = "embedded-hal")]
pub mod hal;
mod wires;

pub use wires::{ChipSelect, Spi};
