//! Power cuts and recovery.
//!
//! Requests in flight never complete, and data that was only in the write buffer is lost. To rebuild its map, the drive
//! reads the spare areas of pages, and as many map pages as had changed in memory.

use super::Ssd;
use super::incoming::Incoming;
use crate::hmb::Buffer;
use flashlab_flash::ftl::MapPage;
use flashlab_flash::nand::Channels;
use flashlab_sim::{Duration, Fate, Instant, Op, PowerCut, fault};

impl Ssd {
    pub(super) fn lose_power(&mut self, now: Instant) -> PowerCut {
        // Events up to `now` have happened, even if no caller has collected them.
        if self.slots.used_count() == 0 {
            self.work_while_idle(now);
        }
        while self.advance(now).is_some() {}
        let torn = self.array.power_cut(now);
        let mut undecided = self.layer.power_cut(&torn);
        for unit in undecided.iter().filter(|_| !fault("undone-trim-has-no-map-page")) {
            self.map.restore(MapPage((u64::from(*unit) / self.map.entries()) as u32));
        }
        for slot in self.slots.iter() {
            let request = &slot.request;
            if (request.op.is_write() || request.op == Op::Trim) && self.admits(request) {
                let units = self.units_touched(request);
                undecided.extend(units.start.max(slot.next_unit)..units.end);
            }
        }
        undecided.sort_unstable();
        undecided.dedup();
        if fault("cut-forgets-a-unit") {
            undecided.pop();
        }
        self.drop_in_flight();
        self.host_memory = Buffer::new(self.parameters.hmb);
        let mut cut = PowerCut::default();
        let (unit, capacity) = (self.unit(), self.parameters.page_map.capacity);
        for number in undecided {
            let from = u64::from(number) * unit;
            cut.push(from..(from + unit).min(capacity), Fate::Old);
        }
        cut
    }

    /// Drops all requests and events in flight.
    pub(super) fn drop_in_flight(&mut self) {
        self.slots.clear();
        self.events.clear();
        self.admission.clear();
        self.commands.clear();
        self.map_pages.clear();
        self.incoming = Incoming::default();
        self.partial_writes = 0;
        self.flushes.clear();
        self.forced.clear();
        self.link.reset();
        self.loaders.reset();
    }

    pub(super) fn recover(&mut self, now: Instant) -> Instant {
        let recovery = self.layer.recover();
        let timing = &self.parameters.timing;
        let spare_area = timing.t_read + timing.t_command;
        let changed = self.map.power_cut();
        let pages: u64 = changed.into();
        let up = now + spare_area * recovery.die_pages + self.parameters.map.t_load * pages;
        self.host_memory = self.parameters.lend(self.driver);
        self.map.use_host_memory(self.host_memory.usable());
        self.idle_since = up;
        up
    }

    /// Ages the data by `time` without power. Must be called while no request is in flight.
    pub fn age_without_power(&mut self, time: Duration) {
        self.ages.rest(time);
    }

    /// Finishes all operations of the array and resets all clocks to zero, as a snapshot requires.
    ///
    /// The age of the data continues from the end of these operations, as if no time passed until the drive
    /// is used again. [`Ssd::age_without_power`] adds time in between.
    pub(super) fn quiesce(&mut self) {
        let mut rest = self.idle_since;
        // The layer may have pending work from recovery.
        self.drain(rest);
        while let Some(finished) = self.array.complete(Instant::MAX) {
            rest = rest.max(finished.at);
            self.layer_finished(&finished);
        }
        self.ages.reset_clock(rest);
        self.reset_clocks();
    }

    /// Resets all clocks to zero.
    pub(super) fn reset_clocks(&mut self) {
        let parameters = &self.parameters;
        self.array = Channels::new(
            &parameters.page_map.geometry,
            &parameters.timing,
            &parameters.scheduling,
            self.seed,
        );
        self.link.reset();
        self.loaders.reset();
        self.idle_since = Instant::ZERO;
    }
}
