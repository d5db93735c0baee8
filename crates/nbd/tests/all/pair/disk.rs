//! The reference model: the bytes of an export, and its allocated blocks.

use flashlab_nbd::server::{Export, MetaContext};
use flashlab_nbd::wire::{BlockDescriptor, TransmissionFlags};

pub(crate) const BLOCK: usize = 512;

/// A small export in memory.
#[derive(Clone, Debug)]
pub(crate) struct Disk {
    pub(crate) export: Export,
    pub(crate) bytes: Vec<u8>,
    pub(crate) allocated: Vec<bool>,
}

pub(crate) const CONTEXTS: [&str; 3] = ["base:allocation", "x-flashlab:mapped", "x-flashlab:wear"];

impl Disk {
    pub(crate) fn new(blocks: usize) -> Disk {
        use TransmissionFlags as T;
        let mut export = Export::new("disk", (blocks * BLOCK) as u64);
        export.flags = T::SEND_FLUSH
            | T::SEND_FUA
            | T::SEND_TRIM
            | T::SEND_WRITE_ZEROES
            | T::SEND_FAST_ZERO
            | T::SEND_CACHE
            | T::CAN_MULTI_CONN;
        export.description = "a disk of a test".into();
        export.contexts = CONTEXTS.map(MetaContext::new).into();
        export.contexts[2].wide = true;
        Disk { export, bytes: vec![0; blocks * BLOCK], allocated: vec![false; blocks] }
    }

    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) {
        let start = offset as usize;
        self.bytes[start..start + data.len()].copy_from_slice(data);
        self.allocated[start / BLOCK..(start + data.len()).div_ceil(BLOCK)].fill(true);
    }

    /// Fills a range with zeroes. If `hole` is set, whole blocks become holes.
    pub(crate) fn zero(&mut self, offset: u64, length: u64, hole: bool) {
        let (start, end) = (offset as usize, (offset + length) as usize);
        self.bytes[start..end].fill(0);
        if hole {
            for block in start.div_ceil(BLOCK)..end / BLOCK {
                self.allocated[block] = false;
            }
        } else {
            self.allocated[start / BLOCK..end.div_ceil(BLOCK)].fill(true);
        }
    }

    /// Returns a byte's status in a context.
    pub(crate) fn status(&self, context: usize, at: usize) -> u64 {
        match (context, self.allocated[at / BLOCK]) {
            (0, true) => 0,
            (0, false) => 3,
            (1, allocated) => allocated.into(),
            (_, true) => 1 << 40 | (at / BLOCK % 3) as u64,
            (_, false) => 0,
        }
    }

    /// Returns one descriptor per block from `offset` to the end of the export, without merging.
    pub(crate) fn extents(&self, context: usize, offset: u64) -> impl Iterator<Item = BlockDescriptor> {
        let mut at = offset as usize;
        core::iter::from_fn(move || {
            if at >= self.bytes.len() {
                return None;
            }
            let (status, length) = (self.status(context, at), BLOCK - at % BLOCK);
            at += length;
            Some(BlockDescriptor { length: length as u64, status })
        })
    }
}
