//! A device that sends received bytes back after a millisecond.

pub(crate) mod stick;

use flashlab_sim::{Duration, Instant};
use flashlab_usb::{
    Completed, Descriptors, Device, Direction, Endpoint, Outcome, Payload, Setup, Stalled, Transfer,
};
use std::borrow::Cow;

pub(crate) const MS: Duration = Duration::from_ms(1);

static DESCRIPTORS: Descriptors = Descriptors {
    vendor: 0x1234,
    product: 0x5678,
    release: 0x0200,
    interface_class: 0xff,
    interface_subclass: 0,
    interface_protocol: 0,
    strings: [Cow::Borrowed("test"), Cow::Borrowed("echo"), Cow::Borrowed("0")],
    endpoints: &[
        Endpoint { number: 1, direction: Direction::Out },
        Endpoint { number: 1, direction: Direction::In },
    ],
};

/// A device with one outgoing and one incoming endpoint.
#[derive(Clone, Debug, Default)]
pub(crate) struct Echo {
    received: Vec<u8>,
    waiting: Vec<(Instant, u64, u32)>,
    done: Vec<Completed>,
}

impl Device for Echo {
    fn descriptors(&self) -> &Descriptors {
        &DESCRIPTORS
    }
    fn reset(&mut self, _: Instant) {
        *self = Echo::default();
    }
    fn attach(&mut self, now: Instant, _: bool) {
        self.reset(now);
    }
    fn control(&mut self, _: Instant, setup: Setup, data: &[u8]) -> Result<Vec<u8>, Stalled> {
        if setup.is_vendor() && setup.direction() == Direction::Out {
            Ok(data.to_vec())
        } else {
            Err(Stalled)
        }
    }
    fn submit(&mut self, now: Instant, transfer: Transfer) {
        let Transfer { id, endpoint, payload } = transfer;
        match payload {
            _ if endpoint != 1 => self.done.push(Completed { id, at: now, outcome: Outcome::Stalled }),
            Payload::Out(bytes) => {
                let outcome = Outcome::Out(bytes.len() as u32);
                self.received.extend(bytes);
                self.done.push(Completed { id, at: now + MS, outcome });
            }
            Payload::In(length) => self.waiting.push((now, id, length)),
        }
        while !self.received.is_empty() && !self.waiting.is_empty() {
            let (since, id, length) = self.waiting.remove(0);
            let rest = self.received.split_off(self.received.len().min(length as usize));
            let bytes = std::mem::replace(&mut self.received, rest);
            self.done.push(Completed { id, at: since.max(now) + MS, outcome: Outcome::In(bytes) });
        }
    }
    fn cancel(&mut self, id: u64) -> bool {
        let before = self.waiting.len() + self.done.len();
        self.waiting.retain(|(_, waiting, _)| *waiting != id);
        self.done.retain(|done| done.id != id);
        self.waiting.len() + self.done.len() < before
    }
    fn next_due(&self) -> Option<Instant> {
        self.done.iter().map(|done| done.at).min()
    }
    fn complete(&mut self, limit: Instant) -> Option<Completed> {
        let due = self.done.iter().position(|done| done.at <= limit)?;
        Some(self.done.remove(due))
    }
}
