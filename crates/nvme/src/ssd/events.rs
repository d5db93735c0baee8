//! The event queue of the drive. Each stage finishes its requests in order, so its next event is at the front of a
//! queue.
//!
//! Every queue stays sorted. Fetches take a constant time. The firmware and both directions of the link serve
//! in order of arrival. Events are handled in order of time. A request is served early only if no other
//! request must be served before it. Loads of map pages can end out of order, so they have an agenda instead
//! of a queue. The array keeps its own events. At the same instant, the events of the array come first, then
//! those of the stages in their order.

use super::Ssd;
use alloc::collections::VecDeque;
use core::hint::select_unpredictable;
use flashlab_flash::nand::{Cause, Channels, Kind, Operation};
use flashlab_sim::{Agenda, Completion, Instant};

/// Stages of a request, except those in the array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Stage {
    /// Data and completion travel to the host.
    Sent,
    /// A completion without data travels to the host.
    Posted,
    /// The command travels to the drive.
    Fetched,
    /// The firmware processes the command.
    Firmware,
    /// The request waits for map pages.
    Loads,
    /// Data of a write travels to the drive. The queue of this stage is [`Ssd::incoming`]; [`Events`] keeps
    /// only the first instant of that queue.
    Received,
}

const STAGES: [Stage; 6] =
    [Stage::Sent, Stage::Posted, Stage::Fetched, Stage::Firmware, Stage::Loads, Stage::Received];

/// Requests by stage, each with the instant at which the stage ends.
#[derive(Clone, Debug)]
pub(super) struct Events {
    /// Instant of the first event of each stage.
    due: [Instant; STAGES.len()],
    /// Minimum of `due` and its stage.
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
    /// Schedules the end of `stage` for `slot`. Except for loads, `at` is not earlier than the events already in the
    /// queue.
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

    /// Removes the earliest event.
    #[inline]
    fn pop(&mut self) -> u32 {
        let (at, stage) = self.first;
        let (slot, next) = if stage == Stage::Loads {
            (self.loads.pop(at).map(|(_, slot)| slot), self.loads.next_due())
        } else {
            let queue = &mut self.queues[stage as usize];
            (queue.pop_front().map(|(_, slot)| slot), queue.front().map(|(at, _)| *at))
        };
        // If the next event of this stage is due at the same instant, the stage stays first.
        if next != Some(at) {
            self.due[stage as usize] = next.unwrap_or(Instant::MAX);
            self.find_first();
        }
        slot.expect("the first stage has an event")
    }

    /// Finds the stage with the earliest event. The search avoids branches, because the processor could not
    /// predict them.
    #[inline]
    fn find_first(&mut self) {
        let (mut at, mut first) = (self.due[0], 0);
        for stage in 1..STAGES.len() {
            let due = self.due[stage];
            first = select_unpredictable(due < at, stage, first);
            at = at.min(due);
        }
        self.first = (at, STAGES[first]);
    }

    /// Returns true if the firmware is processing a command.
    #[inline]
    pub(super) fn is_firmware_busy(&self) -> bool {
        self.due[Stage::Firmware as usize] < Instant::MAX
    }

    /// Returns true if no command is in the firmware or on its way there.
    #[inline]
    pub(super) fn no_command_is_pending(&self) -> bool {
        self.due[Stage::Fetched as usize] == Instant::MAX && !self.is_firmware_busy()
    }

    /// Sets the instant at which the data of the first write in [`Ssd::incoming`] arrives, or
    /// [`Instant::MAX`] if no arrival is due.
    #[inline]
    pub(super) fn expect_data(&mut self, at: Instant) {
        if self.due[Stage::Received as usize] != at {
            self.due[Stage::Received as usize] = at;
            self.find_first();
        }
    }

    /// Returns the instant of the next event, including those of the array.
    #[inline]
    pub(super) fn next_due(&self, array: &Channels) -> Option<Instant> {
        let at = array.next_due().map_or(self.first.0, |at| at.min(self.first.0));
        (at < Instant::MAX).then_some(at)
    }

    /// Returns true if an event is due at or before `limit`.
    #[inline]
    pub(super) fn is_due(&self, array: &Channels, limit: Instant) -> bool {
        self.next_due(array).is_some_and(|due| due <= limit)
    }

    /// Removes all events.
    pub(super) fn clear(&mut self) {
        *self = Events::default();
    }
}

/// Returns true if an operation reads for a host request, including read-modify-write. All other operations belong to
/// the translation layer.
#[inline]
fn is_host_read(operation: &Operation) -> bool {
    operation.cause == Cause::Host && matches!(operation.kind, Kind::Read { .. })
}

impl Ssd {
    /// Handles events up to `limit` until a request completes.
    #[inline]
    pub(super) fn advance(&mut self, limit: Instant) -> Option<Completion> {
        let (at, slot) = loop {
            let (first, stage) = self.events.first;
            // The array advances on its own until another event comes first.
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
                Stage::Fetched => self.command_fetched(first, slot),
                Stage::Firmware => {
                    self.finish_firmware(first, slot);
                    self.run_firmware(first);
                }
                Stage::Loads => self.execute(first, slot),
                Stage::Received => unreachable!("it has no queue here"),
            }
        };
        Some(self.finish(at, slot))
    }
}
