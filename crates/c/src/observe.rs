//! Counters and wear in structures of C.

use crate::export::layout;
use flashlab_device::{EraseBlocks, Observer};
use std::ffi::c_char;

/// Size of the name of a counter, with the final null byte.
const NAME_SIZE: usize = 56;

/// A counter: `flashlab_counter`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Counter {
    name: [c_char; NAME_SIZE],
    value: u64,
}

layout! { Counter as flashlab_counter { name: [c_char; NAME_SIZE], value: u64 } }

impl Counter {
    fn new(name: &str, value: u64) -> Counter {
        let mut counter = Counter { name: [0; NAME_SIZE], value };
        for (to, byte) in counter.name[..NAME_SIZE - 1].iter_mut().zip(name.bytes()) {
            *to = byte as c_char;
        }
        counter
    }
}

/// Counters and erase counts, collected from a device or a card.
#[derive(Default)]
pub(crate) struct Observed {
    pub(crate) counters: Vec<Counter>,
    pub(crate) erase_counts: Vec<u32>,
}

impl Observed {
    pub(crate) fn of(observe: impl FnOnce(&mut dyn Observer)) -> Observed {
        let mut observed = Observed::default();
        observe(&mut observed);
        observed
    }
}

impl Observer for Observed {
    fn count(&mut self, name: &'static str, value: u64) {
        self.counters.push(Counter::new(name, value));
    }
    fn erase_blocks(&mut self, blocks: &EraseBlocks<'_>) {
        self.erase_counts = blocks.erase_counts.to_vec();
    }
}
