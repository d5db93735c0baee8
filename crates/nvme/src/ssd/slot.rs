//! Requests that are in the drive: one slot each, taken from a slab, so that a request costs no allocation.

use flashlab_sim::{Completion, Duration, Instant, Mechanism, Request, Spent, Status};

/// A request in the drive: two cache lines.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct Slot {
    pub(super) request: Request,
    pub(super) arrived: Instant,
    pub(super) status: Status,
    /// Operations of the array that it waits for.
    pub(super) pending: u32,
    /// The next unit to be accepted, of a write.
    pub(super) next_unit: u32,
    /// The first unit that is not known to be durable, of a write with FUA.
    pub(super) durable_to: u32,
    /// When its map pages are there.
    pub(super) ready: Instant,
    /// Since when it waits for the write buffer, or for what is to be durable.
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

    /// Done at `at`; what is not accounted for was spent waiting behind others.
    #[inline]
    fn done(&self, at: Instant) -> Completion {
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

/// All slots.
#[derive(Clone, Debug, Default)]
pub(super) struct Slots {
    slots: alloc::vec::Vec<Slot>,
    vacant: alloc::vec::Vec<u32>,
}

impl Slots {
    /// A slot for `request`.
    #[inline]
    pub(super) fn take(&mut self, arrived: Instant, request: &Request) -> u32 {
        let slot = Slot::new(arrived, *request);
        match self.vacant.pop() {
            Some(place) => {
                self.slots[place as usize] = slot;
                place
            }
            None => {
                self.slots.push(slot);
                self.slots.len() as u32 - 1
            }
        }
    }

    /// The request of `place` is done at `at`; the slot is free again.
    #[inline]
    pub(super) fn finish(&mut self, place: u32, at: Instant) -> Completion {
        self.vacant.push(place);
        self.slots[place as usize].done(at)
    }

    #[inline]
    pub(super) fn get(&self, place: u32) -> &Slot {
        &self.slots[place as usize]
    }
    #[inline]
    pub(super) fn get_mut(&mut self, place: u32) -> &mut Slot {
        &mut self.slots[place as usize]
    }

    /// How many are taken.
    #[inline]
    pub(super) fn taken(&self) -> u32 {
        (self.slots.len() - self.vacant.len()) as u32
    }

    /// Those that are taken.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Slot> {
        let taken = |place: &usize| !self.vacant.contains(&(*place as u32));
        (0..self.slots.len()).filter(taken).map(|place| &self.slots[place])
    }

    /// Forgets all of them.
    pub(super) fn clear(&mut self) {
        self.slots.clear();
        self.vacant.clear();
    }
}
