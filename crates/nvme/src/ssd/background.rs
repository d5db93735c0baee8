//! Handling of finished operations of the translation layer, and the background work of an idle drive.

use super::{Duration, Ssd};
use flashlab_flash::ftl::page_map::Outcome;
use flashlab_flash::nand::{Finished, Kind, Operation};
use flashlab_sim::Instant;

impl Ssd {
    /// Handles the end of an operation of the translation layer.
    #[inline]
    pub(super) fn layer_finished(&mut self, finished: &Finished) {
        let Finished { operation, at, .. } = finished;
        let outcome = self.outcome(operation, *at);
        self.layer.finished(operation, outcome);
        self.drain(*at);
        // The firmware may have waited for space in the queue of map pages.
        self.run_firmware(*at);
    }

    /// Returns the outcome of an operation of the translation layer.
    #[inline]
    fn outcome(&mut self, operation: &Operation, at: Instant) -> Outcome {
        let Operation { block, page, .. } = *operation;
        match operation.kind {
            Kind::Read { .. } => match self.decode(block, at) {
                Some(read) if read.uncorrectable => Outcome::Uncorrectable,
                _ => Outcome::Ok,
            },
            Kind::Program { .. } => {
                self.ages.program(block, at);
                let blocks = self.layer.blocks();
                let failed = blocks.endurance().is_some_and(|endurance| {
                    endurance.program_fails(blocks.seed(), block, blocks.erase_count(block), page)
                });
                if failed { Outcome::Failed } else { Outcome::Ok }
            }
            // The translation layer decides whether an erase succeeds.
            Kind::Erase => Outcome::Ok,
        }
    }

    /// Carries out the work of the idle drive between `idle_since` and `now`.
    #[inline]
    pub(super) fn work_while_idle(&mut self, now: Instant) {
        let idle = self.idle_since.saturating_add(self.parameters.controller.t_idle);
        self.run_array(now.min(idle));
        if idle >= now {
            return;
        }
        let mapped = self.write_map_back(idle, now);
        self.preload_map(mapped, now);
        self.collect(mapped, now);
    }

    /// Advances the array to `limit`.
    pub(super) fn run_array(&mut self, limit: Instant) {
        while let Some(finished) = self.array.complete(limit) {
            self.layer_finished(&finished);
        }
    }

    /// Runs background garbage collection between `from` and `limit`.
    fn collect(&mut self, from: Instant, limit: Instant) {
        let mut at = from;
        while at < limit {
            if self.layer.idle() {
                self.drain(at);
            }
            match self.array.next_due() {
                Some(due) if due <= limit => {
                    if let Some(finished) = self.array.complete(due) {
                        at = finished.at;
                        self.layer_finished(&finished);
                    }
                }
                _ => return,
            }
        }
    }

    /// Writes back changed map pages one after the other. Returns the instant at which this ends.
    fn write_map_back(&mut self, from: Instant, limit: Instant) -> Instant {
        let mut at = from;
        let step = self.parameters.map.t_write_back.max(Duration::from_ns(1));
        let mut wrote = false;
        while at < limit {
            self.run_array(at);
            if self.map_pages.len() >= super::MAP_QUEUE_MAX {
                // Waits until the array has programmed some pages.
                let Some(due) = self.array.next_due() else { break };
                at = due.max(at);
                continue;
            }
            let Some(page) = self.map.write_back() else { break };
            wrote = true;
            self.program_map_page(at, page);
            at += step;
        }
        if wrote && at <= limit {
            self.run_array(at);
            self.layer.flush_map();
            self.drain(at);
        }
        at
    }

    /// Loads the rest of the map into host memory, provided that the whole map fits.
    fn preload_map(&mut self, from: Instant, limit: Instant) {
        let mut at = from;
        let t_load = self.parameters.map.t_load;
        while at.saturating_add(t_load) <= limit && self.map.load_ahead() {
            at += t_load;
        }
    }
}
