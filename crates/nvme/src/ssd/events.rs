//! What is due when: each stage of the drive ends its requests in order, so that its next event is at the front of a
//! queue.
//!
//! Fetches take one and the same time, each direction of the link and the firmware serve in order of arrival, and events
//! are handled in order of time, so that every queue stays sorted. Only loads of map pages end out of order.

use super::Ssd;
use alloc::collections::VecDeque;
use flashlab_flash::nand::Channels;
use flashlab_sim::{Agenda, Completion, Instant};
use serde::{Deserialize, Serialize};

/// Requests by the stage that they are in, with its end.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Events {
    /// Commands on their way to the drive.
    pub(super) fetched: VecDeque<(Instant, u32)>,
    /// The command that the firmware works on.
    pub(super) firmware: Option<(Instant, u32)>,
    /// Requests that wait for map pages.
    pub(super) loads: Agenda<u32>,
    /// Data on its way to the drive.
    pub(super) received: VecDeque<(Instant, u32)>,
    /// Data and completions on their way to the host.
    pub(super) sent: VecDeque<(Instant, u32)>,
    /// Completions without data on their way to the host.
    pub(super) posted: VecDeque<(Instant, u32)>,
}

/// The stages, in the order in which their events of one instant are handled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Array,
    Sent,
    Posted,
    Fetched,
    Firmware,
    Loads,
    Received,
}

fn front(queue: &VecDeque<(Instant, u32)>) -> Instant {
    queue.front().map_or(Instant::MAX, |(at, _)| *at)
}

impl Events {
    /// The earliest event and whose it is.
    #[inline]
    fn next(&self, array: &Channels) -> (Instant, Stage) {
        let mut first = (array.next_due().unwrap_or(Instant::MAX), Stage::Array);
        let mut consider = |at: Instant, stage: Stage| {
            if at < first.0 {
                first = (at, stage);
            }
        };
        consider(front(&self.sent), Stage::Sent);
        consider(front(&self.posted), Stage::Posted);
        consider(front(&self.fetched), Stage::Fetched);
        consider(self.firmware.map_or(Instant::MAX, |(at, _)| at), Stage::Firmware);
        consider(self.loads.next_due().unwrap_or(Instant::MAX), Stage::Loads);
        consider(front(&self.received), Stage::Received);
        first
    }

    /// When the next one is; nothing happens before.
    #[inline]
    pub(super) fn next_due(&self, array: &Channels) -> Option<Instant> {
        let (at, _) = self.next(array);
        (at < Instant::MAX).then_some(at)
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        *self = Events::default();
    }
}

impl Ssd {
    /// Handles what is due up to `limit`, until a request is done.
    #[inline]
    pub(super) fn advance(&mut self, limit: Instant) -> Option<Completion> {
        loop {
            let (at, stage) = self.events.next(&self.array);
            if at > limit || at == Instant::MAX {
                return None;
            }
            match stage {
                Stage::Array => {
                    // What is due may be an inner event of the array, after which something else is first.
                    if let Some(finished) = self.array.complete(at) {
                        self.array_finished(&finished);
                    }
                }
                Stage::Sent => {
                    let (at, slot) = self.events.sent.pop_front().expect("it is due");
                    return Some(self.finish(at, slot));
                }
                Stage::Posted => {
                    let (at, slot) = self.events.posted.pop_front().expect("it is due");
                    return Some(self.finish(at, slot));
                }
                Stage::Fetched => {
                    let (at, slot) = self.events.fetched.pop_front().expect("it is due");
                    self.commands.push_back(slot);
                    self.run_firmware(at);
                }
                Stage::Firmware => {
                    let (at, slot) = self.events.firmware.take().expect("it is due");
                    self.leave_firmware(at, slot);
                    self.run_firmware(at);
                }
                Stage::Loads => {
                    let (at, slot) = self.events.loads.pop(limit).expect("it is due");
                    self.go_on(at, slot);
                }
                Stage::Received => {
                    let (at, slot) = self.events.received.pop_front().expect("it is due");
                    self.received(at, slot);
                }
            }
        }
    }
}
