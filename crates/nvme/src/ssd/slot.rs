//! Slots for the requests that were submitted and have not completed, kept in a slab so that a request needs
//! no allocation once the slab has grown.

use flashlab_sim::{Completion, Duration, Instant, Mechanism, Request, Spent, Status};

/// State of one request, in the drive or waiting for it. A slot occupies two cache lines.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct Slot {
    pub(super) request: Request,
    pub(super) arrived: Instant,
    pub(super) status: Status,
    /// Number of array operations that the request waits for.
    pub(super) pending: u32,
    /// For a write: the next unit to enter the write buffer.
    pub(super) next_unit: u32,
    /// For an FUA write: the first unit that is not known to be durable.
    pub(super) durable_to: u32,
    /// Instant at which all map pages of the request are loaded.
    pub(super) ready: Instant,
    /// Start of the wait for the write buffer or for durability.
    pub(super) since: Instant,
    pub(super) bus: Duration,
    pub(super) firmware: Duration,
    pub(super) map: Duration,
    pub(super) read: Duration,
    pub(super) read_modify_write: Duration,
    pub(super) program: Duration,
}

impl Slot {
    fn new(arrived: Instant, request: Request) -> Self {
        Slot {
            request,
            arrived,
            status: Status::Ok,
            pending: 0,
            next_unit: 0,
            durable_to: 0,
            ready: Instant::ZERO,
            since: Instant::ZERO,
            bus: Duration::ZERO,
            firmware: Duration::ZERO,
            map: Duration::ZERO,
            read: Duration::ZERO,
            read_modify_write: Duration::ZERO,
            program: Duration::ZERO,
        }
    }

    /// Returns the completion at `at`. Time without another cause counts as waiting in a queue.
    #[inline]
    fn completion(&self, at: Instant) -> Completion {
        let mut spent = Spent::default();
        spent[Mechanism::Bus] = self.bus;
        spent[Mechanism::Firmware] = self.firmware;
        spent[Mechanism::Map] = self.map;
        spent[Mechanism::Read] = self.read;
        spent[Mechanism::ReadModifyWrite] = self.read_modify_write;
        spent[Mechanism::Program] = self.program;
        spent[Mechanism::Queue] = at.since(self.arrived) - spent.total();
        Completion { id: self.request.id, at, status: self.status, spent }
    }
}

/// Slab of slots.
#[derive(Clone, Debug, Default)]
pub(super) struct Slots {
    slots: alloc::vec::Vec<Slot>,
    free: alloc::vec::Vec<u32>,
}

impl Slots {
    /// Allocates a slot for `request` and returns its index.
    #[inline]
    pub(super) fn allocate(&mut self, arrived: Instant, request: &Request) -> u32 {
        let slot = Slot::new(arrived, *request);
        match self.free.pop() {
            Some(index) => {
                self.slots[index as usize] = slot;
                index
            }
            None => {
                self.slots.push(slot);
                self.slots.len() as u32 - 1
            }
        }
    }

    /// Frees slot `index` and returns the completion of its request at `at`.
    #[inline]
    pub(super) fn finish(&mut self, index: u32, at: Instant) -> Completion {
        self.free.push(index);
        self.slots[index as usize].completion(at)
    }

    #[inline]
    pub(super) fn get(&self, index: u32) -> &Slot {
        &self.slots[index as usize]
    }
    #[inline]
    pub(super) fn get_mut(&mut self, index: u32) -> &mut Slot {
        &mut self.slots[index as usize]
    }

    /// Returns the number of slots in use.
    #[inline]
    pub(super) fn used_count(&self) -> u32 {
        (self.slots.len() - self.free.len()) as u32
    }

    /// Iterates over the slots in use.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Slot> {
        let is_used = |index: &usize| !self.free.contains(&(*index as u32));
        (0..self.slots.len()).filter(is_used).map(|index| &self.slots[index])
    }

    /// Frees all slots.
    pub(super) fn clear(&mut self) {
        self.slots.clear();
        self.free.clear();
    }
}
