//! What is due when: each stage of the drive ends its requests in order, so that its next event is at the front of a
//! queue.
//!
//! Fetches take one and the same time, each direction of the link and the firmware serve in order of arrival, and events
//! are handled in order of time, so that every queue stays sorted; what is served ahead of time has nobody before it. Only
//! loads of map pages end out of order. The array keeps its own events; of those of one instant, its are first, and then
//! those of the stages in their order.

use super::Ssd;
use alloc::collections::VecDeque;
use core::hint::select_unpredictable;
use flashlab_flash::nand::{Cause, Channels, Kind, Operation};
use flashlab_sim::{Agenda, Completion, Instant};

/// The stages of a request, but for the array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Stage {
    /// Data and completion are on their way to the host.
    Sent,
    /// A completion without data is.
    Posted,
    /// The command is on its way to the drive.
    Fetched,
    /// The firmware works on it.
    Firmware,
    /// It waits for map pages.
    Loads,
    /// Data of writes is on the way to the drive. They wait in [`Ssd::incoming`]; here is only when the first is to be asked for.
    Received,
}

const STAGES: [Stage; 6] =
    [Stage::Sent, Stage::Posted, Stage::Fetched, Stage::Firmware, Stage::Loads, Stage::Received];

/// Requests by the stage that they are in, with its end.
#[derive(Clone, Debug)]
pub(super) struct Events {
    /// When each stage's first event is.
    due: [Instant; STAGES.len()],
    /// The least of `due`, and whose it is.
    first: (Instant, Stage),
    queues: [VecDeque<(Instant, u32)>; STAGES.len()],
    loads: Agenda<u32>,
}

impl Default for Events {
    fn default() -> Self {
        Events {
            due: [Instant::MAX; STAGES.len()],
            first: (Instant::MAX, Stage::Sent),
            queues: Default::default(),
            loads: Agenda::new(),
        }
    }
}

impl Events {
    /// `slot` ends `stage` at `at`; not before those that are there, but for loads.
    #[inline]
    pub(super) fn push(&mut self, stage: Stage, at: Instant, slot: u32) {
        if stage == Stage::Loads {
            self.loads.insert(at, slot);
        } else {
            self.queues[stage as usize].push_back((at, slot));
        }
        if at < self.due[stage as usize] {
            self.due[stage as usize] = at;
            if (at, stage as u8) < (self.first.0, self.first.1 as u8) {
                self.first = (at, stage);
            }
        }
    }

    /// Takes the first event of the stage that is first.
    #[inline]
    fn pop(&mut self) -> u32 {
        let (at, stage) = self.first;
        let (slot, next) = if stage == Stage::Loads {
            (self.loads.pop(at).map(|(_, slot)| slot), self.loads.next_due())
        } else {
            let queue = &mut self.queues[stage as usize];
            (queue.pop_front().map(|(_, slot)| slot), queue.front().map(|(at, _)| *at))
        };
        // What comes next at the same instant is first again.
        if next != Some(at) {
            self.due[stage as usize] = next.unwrap_or(Instant::MAX);
            self.elect();
        }
        slot.expect("what is first is there")
    }

    /// Finds the stage whose event is first. No branches: which it is cannot be predicted.
    #[inline]
    fn elect(&mut self) {
        let (mut at, mut first) = (self.due[0], 0);
        for stage in 1..STAGES.len() {
            let due = self.due[stage];
            first = select_unpredictable(due < at, stage, first);
            at = at.min(due);
        }
        self.first = (at, STAGES[first]);
    }

    /// Whether the firmware works on a command.
    #[inline]
    pub(super) fn firmware_works(&self) -> bool {
        self.due[Stage::Firmware as usize] < Instant::MAX
    }

    /// Whether no command is on its way to the firmware, or there.
    #[inline]
    pub(super) fn none_comes(&self) -> bool {
        self.due[Stage::Fetched as usize] == Instant::MAX && !self.firmware_works()
    }

    /// The data of the first write in [`Ssd::incoming`] is here at `at`; never, as far as anybody is to be told.
    #[inline]
    pub(super) fn expect_data(&mut self, at: Instant) {
        if self.due[Stage::Received as usize] != at {
            self.due[Stage::Received as usize] = at;
            self.elect();
        }
    }

    /// When the next one is, of the array's too; nothing happens before.
    #[inline]
    pub(super) fn next_due(&self, array: &Channels) -> Option<Instant> {
        let at = array.next_due().map_or(self.first.0, |at| at.min(self.first.0));
        (at < Instant::MAX).then_some(at)
    }

    /// Whether something happens up to `limit`.
    #[inline]
    pub(super) fn is_due(&self, array: &Channels, limit: Instant) -> bool {
        self.next_due(array).is_some_and(|due| due <= limit)
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        *self = Events::default();
    }
}

/// Whether an operation reads what the host asked for, or what it overwrites in part; all others are the translation
/// layer's.
#[inline]
fn is_host_read(operation: &Operation) -> bool {
    operation.cause == Cause::Host && matches!(operation.kind, Kind::Read { .. })
}

impl Ssd {
    /// Handles what is due up to `limit`, until a request is done.
    #[inline]
    pub(super) fn advance(&mut self, limit: Instant) -> Option<Completion> {
        let (at, slot) = loop {
            let (first, stage) = self.events.first;
            // The array goes on by itself until something else is first.
            if let Some(finished) = self.array.complete(first.min(limit)) {
                if !is_host_read(&finished.operation) {
                    self.layer_finished(&finished);
                } else if let Some(sent) = self.read_finished(&finished) {
                    let slot = finished.operation.tag;
                    if sent <= limit && !self.events.is_due(&self.array, sent) {
                        break (sent, slot);
                    }
                    self.events.push(Stage::Sent, sent, slot);
                }
                continue;
            }
            if first > limit || first == Instant::MAX {
                return None;
            }
            if stage == Stage::Received {
                self.received(first);
                continue;
            }
            let slot = self.events.pop();
            match stage {
                Stage::Sent | Stage::Posted => break (first, slot),
                Stage::Fetched => self.fetched(first, slot),
                Stage::Firmware => {
                    self.leave_firmware(first, slot);
                    self.run_firmware(first);
                }
                Stage::Loads => self.go_on(first, slot),
                Stage::Received => unreachable!("it has no queue here"),
            }
        };
        Some(self.finish(at, slot))
    }
}
