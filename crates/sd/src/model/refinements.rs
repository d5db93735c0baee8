//! Mechanisms of a card that only some profiles have. A mechanism is inactive if its parameter is absent.

use crate::Mode;
use alloc::format;
use flashlab_flash::Impossible;
use flashlab_flash::ftl::card::{LayerRefinements, Mapping};
use flashlab_flash::nand::Nand;
use flashlab_sim::Duration;

/// Parameters of the mechanisms.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Refinements {
    /// Mechanisms of the translation layer.
    pub layer: LayerRefinements,
    /// Bytes that the card collects before it programs them. The next bytes arrive during the program. A
    /// write that ends earlier is programmed at its end. `None` means that each page is programmed on
    /// arrival.
    pub write_buffer: Option<u64>,
    /// Bytes after the end of a read that the card reads ahead into its buffer.
    pub read_ahead: Option<u64>,
    /// Time of the card's processor for each read command, before the array begins. Reading ahead does not
    /// hide this time.
    pub t_command: Option<Duration>,
    /// Time of the card's processor for each write command, after its data is in the volatile cache.
    pub t_command_write: Option<Duration>,
    /// Time that each mode, by [`Mode::index`], adds to the access time of a read.
    pub access: [Option<Duration>; Mode::COUNT],
    /// Size of the volatile write cache in bytes. `None` means that a completed write is durable.
    pub cache: Option<u64>,
    /// Largest number of bytes that a drain takes from cached ranges that lie apart, for the layer to pack.
    /// `None` means that a drain takes the oldest range and the contiguous data that follows it.
    pub drain: Option<u64>,
    /// Greatest number of tasks in the command queue. `None` means that the card has no queue.
    pub queue: Option<u32>,
    /// Greatest number of tasks whose data the card holds at a time. If the number is 1, the card reads no
    /// data for a task while it transfers data of another task. `None` means that memory does not limit the
    /// number.
    pub queue_buffers: Option<u32>,
    /// Number of dies that read at the same time for different tasks; `None` means one.
    pub dies: Option<u32>,
}

/// Greatest number of tasks in a queue: JESD84-B51, CMDQ_DEPTH; SD Physical Layer Specification 6.00, section 4.19.
const TASKS_MAX: u32 = 32;
/// Greatest number of dies.
const DIES_MAX: u32 = 256;
/// Greatest size of a cache in bytes.
const CACHE_MAX: u64 = 1 << 30;

impl Refinements {
    /// Returns the number of pages that are programmed in parallel.
    pub(crate) fn ways(&self, nand: &Nand) -> usize {
        self.layer.stripe.map_or(1, |stripe| (stripe / nand.page) as usize)
    }

    /// Returns the parameter of an active mechanism that only the timed model has, if there is one.
    pub fn only_timed(&self) -> Option<&'static str> {
        let small = self.layer.small.max.map(|_| "ftl.small_max");
        let write_buffer = self.write_buffer.map(|_| "card.write_buffer");
        let read_ahead = self.read_ahead.map(|_| "card.read_ahead");
        let t_command = self.t_command.map(|_| "card.t_command");
        let access = self.access.iter().any(Option::is_some).then_some("card.t_access_*");
        let cache = self.cache.map(|_| "card.cache");
        let queue = self.queue.map(|_| "card.queue");
        small.or(write_buffer).or(read_ahead).or(t_command).or(access).or(cache).or(queue)
    }

    /// Checks that the parameters are possible for this array.
    ///
    /// # Errors
    /// Returns the first parameter that no card can have.
    pub fn check(&self, nand: &Nand, mapping: &Mapping) -> Result<(), Impossible> {
        if let Some(buffer) = self.write_buffer {
            if buffer == 0 || !buffer.is_multiple_of(nand.page) {
                let why = format!("is not a whole number of pages of {} B", nand.page);
                return Err(Impossible::new("card.write_buffer", why));
            }
            if self.layer.stripe.is_some() {
                let why = "excludes flash.stripe, whose pages are programmed on arrival";
                return Err(Impossible::new("card.write_buffer", why));
            }
        }
        if let Some(cache) = self.cache
            && (cache < 2 * nand.page || cache > CACHE_MAX)
        {
            let why = format!("is not between {} B, two pages, and {CACHE_MAX} B", 2 * nand.page);
            return Err(Impossible::new("card.cache", why));
        }
        if self.t_command_write.is_some() && self.cache.is_none() {
            let why = "needs card.cache: without a cache, the time of a write command is in ftl.t_write";
            return Err(Impossible::new("card.t_command_write", why));
        }
        self.check_drain(nand, mapping)?;
        if self.queue.is_some_and(|tasks| tasks == 0 || tasks > TASKS_MAX) {
            return Err(Impossible::new("card.queue", format!("is not between 1 and {TASKS_MAX} tasks")));
        }
        if self.queue_buffers.is_some_and(|buffers| buffers == 0 || buffers > TASKS_MAX) {
            let why = format!("is not between 1 and {TASKS_MAX} tasks");
            return Err(Impossible::new("card.queue_buffers", why));
        }
        if self.queue_buffers.is_some() && self.queue.is_none() {
            let why = "needs card.queue: without a queue, the card serves one command at a time";
            return Err(Impossible::new("card.queue_buffers", why));
        }
        if self.dies.is_some_and(|dies| dies == 0 || dies > DIES_MAX) {
            return Err(Impossible::new("flash.dies", format!("is not between 1 and {DIES_MAX}")));
        }
        if self.dies.is_some() && self.queue.is_none() {
            let why = "needs card.queue: without a queue, the card serves one command at a time, so only one die works";
            return Err(Impossible::new("flash.dies", why));
        }
        self.layer.check(nand, mapping)
    }

    fn check_drain(&self, nand: &Nand, mapping: &Mapping) -> Result<(), Impossible> {
        let impossible = |why: alloc::string::String| Err(Impossible::new("card.drain", why));
        let Some(drain) = self.drain else { return Ok(()) };
        let Some(cache) = self.cache else {
            return impossible("needs card.cache: without a cache, there is nothing to drain".into());
        };
        if drain < nand.page || drain > cache / 2 {
            let why =
                format!("is not between {} B, one page, and {} B, half of the cache", nand.page, cache / 2);
            return impossible(why);
        }
        let small = &self.layer.small;
        if small.max.is_none() && mapping.is_block_mapped(nand) {
            let why = "needs pages that hold data of any addresses; with ftl.overwrite = \"log\" and ftl.rewrite_unit as \
                       large as flash.erase_block, only an area for small writes has them";
            return impossible(why.into());
        }
        let page = small.page.unwrap_or(nand.page);
        if let Some(size) = small.size.filter(|_| small.max.is_some())
            && drain.next_multiple_of(page.max(1)) + page > size
        {
            return impossible(format!("does not fit into the {size} B of ftl.small_size"));
        }
        Ok(())
    }
}
