//! A device under its page cache, as a model on which jobs run.

use super::PageCache;
use alloc::boxed::Box;
use core::ops::Range;
use flashlab_sim::{CloneModel, Completion, FileId, Geometry, Instant, Model, Observer, PowerCut, Request};

/// A device under its page cache. Requests are calls of programs: `read`, `write`, `fsync` and `fdatasync`, with any
/// offset and length. [`Request::drop_pages`] drops the pages of a file; trims are unsupported.
pub struct Cached<'a> {
    cache: &'a mut PageCache,
    device: &'a mut dyn Model,
}

impl<'a> Cached<'a> {
    pub(super) fn new(cache: &'a mut PageCache, device: &'a mut dyn Model) -> Cached<'a> {
        Cached { cache, device }
    }
}

impl CloneModel for Cached<'_> {
    /// Returns a copy of the device alone.
    fn clone_box(&self) -> Box<dyn Model> {
        self.device.clone_box()
    }
}

impl Model for Cached<'_> {
    fn geometry(&self) -> Geometry {
        Geometry { block: 1, request_max: u64::MAX, ..self.device.geometry() }
    }
    fn hint(&self, file: FileId, offsets: &[u64]) {
        self.device.hint(file, offsets);
    }
    fn submit(&mut self, now: Instant, request: Request) {
        self.cache.catch_up(self.device, now);
        self.cache.begin_call(now, request);
    }
    fn next_due(&self) -> Option<Instant> {
        self.cache.next_due(self.device)
    }
    fn complete(&mut self, limit: Instant) -> Option<Completion> {
        loop {
            if let Some(done) = self.cache.calls.take_completed() {
                return Some(done);
            }
            self.cache.next_event(self.device, limit)?;
        }
    }
    /// Cuts the power of the device and forgets all pages.
    fn power_cut(&mut self, now: Instant) -> PowerCut {
        *self.cache = PageCache::new(*self.cache.settings());
        self.device.power_cut(now)
    }
    fn power_up(&mut self, now: Instant) -> Instant {
        self.device.power_up(now)
    }
    fn is_durable(&self, range: &Range<u64>) -> bool {
        self.device.is_durable(range)
    }
    fn observe(&self, to: &mut dyn Observer) {
        self.device.observe(to);
    }
}
