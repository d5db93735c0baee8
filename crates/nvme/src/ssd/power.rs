//! Power cuts and what follows: nothing outstanding is ever done, what was only in the write buffer is as it was before,
//! and the drive reads its pages' spare areas to find its map again.

use super::Ssd;
use crate::hmb::Buffer;
use flashlab_flash::ftl::MapPage;
use flashlab_flash::nand::Channels;
use flashlab_sim::{Duration, Fate, Instant, Op, PowerCut};

impl Ssd {
    pub(super) fn cut(&mut self, now: Instant) -> PowerCut {
        // What was due has happened, though nobody may have asked for it.
        if self.slots.taken() == 0 {
            self.catch_up(now);
        }
        while self.advance(now).is_some() {}
        let torn = self.array.power_cut(now);
        let mut undecided = self.layer.power_cut(&torn);
        for unit in &undecided {
            self.map.found_again(MapPage((u64::from(*unit) / self.map.entries()) as u32));
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
        self.forget();
        self.host_memory = Buffer::new(self.parameters.hmb);
        let mut cut = PowerCut::default();
        let (unit, capacity) = (self.unit(), self.parameters.page_map.capacity);
        for number in undecided {
            let from = u64::from(number) * unit;
            cut.push(from..(from + unit).min(capacity), Fate::Old);
        }
        cut
    }

    /// Everything that is under way is not, any more.
    pub(super) fn forget(&mut self) {
        self.slots.clear();
        self.events.clear();
        self.in_drive = 0;
        self.waiting.clear();
        self.commands.clear();
        self.map_pages.clear();
        self.incoming.clear();
        self.is_here = false;
        self.refused = false;
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
        self.host_memory = self.parameters.lend();
        self.map.lend(self.host_memory.usable());
        self.idle_since = up;
        up
    }

    /// How old the drive is at `now`.
    #[inline]
    pub(super) fn since_new(&self, now: Instant) -> Duration {
        self.age + now.since(Instant::ZERO)
    }

    /// Without power for `time`: its data grows older. Nothing is outstanding.
    pub fn lie_idle(&mut self, time: Duration) {
        self.age += time;
    }

    /// Ends all background work and starts all clocks from zero, as a state that is kept. The age of the data is kept: it
    /// counts up to the end of that work, and from when the drive is used again, as if no time passed between
    /// ([`Ssd::lie_idle`] says otherwise).
    pub(super) fn come_to_rest(&mut self) {
        let mut rest = self.idle_since;
        // What the layer has to do since the power came up may not have been begun.
        self.drain(rest);
        while let Some(finished) = self.array.complete(Instant::MAX) {
            rest = rest.max(finished.at);
            self.layer_finished(&finished);
        }
        self.age = self.since_new(rest);
        self.start_clocks();
    }

    /// Nothing has happened yet, as far as the clocks say.
    pub(super) fn start_clocks(&mut self) {
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
