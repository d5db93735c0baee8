//! The card as a timed device.

use alloc::vec::Vec;
use flashlab_flash::{ftl::Mapping, nand::Nand};

use crate::Mode;

/// What a card is made of.
#[derive(Clone, PartialEq, Debug)]
pub struct CardParameters {
    /// Bytes that can be addressed.
    pub capacity: u64,
    /// Bus modes the card offers.
    pub modes: Vec<Mode>,
    /// The array.
    pub nand: Nand,
    /// The translation layer.
    pub mapping: Mapping,
}

/// The card.
#[derive(Clone, Debug)]
pub struct Card {}
