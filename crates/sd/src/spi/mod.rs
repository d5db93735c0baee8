//! SPI mode: bytes in, bytes out. SD Physical Layer Specification, chapter 7.
//!
//! [`Spi`] is the host's end of the four wires with a card at the other end, and the time: each byte takes eight clocks,
//! [`Spi::wait`] lets more pass. With the feature `embedded-hal`, `hal` lets drivers that are written
//! against embedded-hal 1.0 use it.
//!
//! # What holds
//! - The card leaves native mode with the first CMD0 whose CRC7 is right, while chip select is low, after 74 clocks of power
//!   (section 6.4.1). Before that its line is high.
//! - CMD0 and CMD8 are checked for CRC7 always, other commands and data after CMD59 has said so. Data to the host always
//!   carries its CRC16.
//! - A response comes one byte behind its command, behind CMD12 after a stuff byte more; data as soon as the array has it, at
//!   least a byte behind the response.
//! - While the card is busy and selected it holds its line low.
//! - Where the data of a read cannot be had, an error token says why (section 7.3.3.3).
//!
//! What the end of chip select does to a transfer of several blocks is a choice ([`ChipSelect`]): real cards differ, and
//! drivers that make each byte a transaction of its own work with some only.
//!
//! Left out: the bytes of a block are those that lie in the array when the block begins; a command that arrives during a
//! block ends the block at once.

mod front;
#[cfg(feature = "embedded-hal")]
pub mod hal;

pub use front::{ChipSelect, Spi};
