//! Offsets of the requests in one file: sequential positions with their skips and wraps, random passes, and
//! distributions.

use crate::job::{Direction, Distribution, Job, Pattern};
use crate::random::{BlockMap, Permutation, Purpose, Sampler, Seed};
use crate::workload::length::Lengths;
use crate::workload::prefetch::{GROUP, OffsetPrefetch};
use crate::workload::region::{Region, block_max, block_min};
use flashlab_sim::Rng;

/// One file of a job, and the progress of the job in it.
#[derive(Clone, Debug)]
pub(crate) struct FileOffsets {
    pub(crate) region: Region,
    index: usize,
    /// Byte after the last request, per direction.
    position: [u64; 3],
    /// Byte after the region.
    end: u64,
    order: Order,
    /// Random offsets that are drawn in advance. This is possible if each slot occurs once, or if one file and one
    /// direction have the generator of offsets to themselves.
    prefetch: OffsetPrefetch,
    /// Number of offsets that may be taken from `prefetch` in this pass.
    prefetch_left: u64,
    /// Number of complete passes, from which the order of the next pass is derived.
    pass: u64,
    seed: Seed,
    /// True if nothing remains in this pass.
    pub(crate) done: bool,
    /// True if a time-based job began the region again since the last call of [`FileOffsets::take_wrapped`].
    wrapped: bool,
    /// Offset and length of the last trim of `trimwrite`, until the range is written.
    pub(crate) trimmed: Option<(u64, u64)>,
}

/// The way in which random requests choose their slot.
#[derive(Clone, Debug)]
enum Order {
    /// All requests are sequential.
    None,
    /// Each slot of `slot` bytes once per pass, for requests that cannot overlap.
    Once { order: Permutation, drawn: u64, slot: u64 },
    /// Each block of `unit` bytes once per pass, for requests of several sizes.
    Map { map: BlockMap, unit: u64, slots: [u64; 3], align: [u64; 3] },
    /// Any slot at any time, with a sampler per direction.
    Any { samplers: Box<[Option<Sampler>; 3]>, align: [u64; 3] },
}

impl FileOffsets {
    /// Returns the offsets in file number `index` of the job. `is_only_file` is true if the job has no other file.
    pub(crate) fn new(
        job: &Job,
        region: Region,
        index: usize,
        seed: Seed,
        is_only_file: bool,
    ) -> FileOffsets {
        let order = Order::new(job, &region, index, seed);
        let used = job.pattern.mix.directions();
        let prefetch_left = match &order {
            Order::Once { order, .. } => order.len(),
            Order::Any { samplers, .. }
                if is_only_file && used.len() == 1 && samplers[used[0] as usize].is_some() =>
            {
                u64::MAX
            }
            Order::None | Order::Map { .. } | Order::Any { .. } => 0,
        };
        FileOffsets {
            region,
            index,
            position: [region.start; 3],
            end: region.start.saturating_add(region.length).min(region.file_size),
            order,
            prefetch: OffsetPrefetch::EMPTY,
            prefetch_left,
            pass: 0,
            seed,
            done: false,
            wrapped: false,
            trimmed: None,
        }
    }

    /// Returns true if a time-based job began another pass since the last call.
    pub(crate) fn take_wrapped(&mut self) -> bool {
        std::mem::take(&mut self.wrapped)
    }

    /// Begins the next loop. Positions and the map are reset; with `repeat`, the random order is repeated.
    pub(crate) fn restart(&mut self, repeat: bool) {
        self.position = [self.region.start; 3];
        self.done = false;
        self.trimmed = None;
        self.pass = if repeat { 0 } else { self.pass + 1 };
        if repeat {
            self.prefetch = OffsetPrefetch::EMPTY;
        }
        self.reset_order();
    }

    fn reset_order(&mut self) {
        match &mut self.order {
            Order::Once { order, drawn, .. } => {
                *order = Permutation::new(order.len(), self.seed.key(Purpose::Offset, self.index, self.pass));
                *drawn = 0;
                self.prefetch = OffsetPrefetch::EMPTY;
                self.prefetch_left = order.len();
            }
            Order::Map { map, .. } => map.clear(),
            Order::None | Order::Any { .. } => {}
        }
    }

    /// Returns the next sequential request, or `None` at the end of the region. A `wrapping` (time-based) job starts
    /// again.
    #[inline]
    pub(crate) fn sequential(
        &mut self,
        pattern: &Pattern,
        direction: Direction,
        lengths: &Lengths,
        wrapping: bool,
        rng: &mut Rng,
    ) -> Option<(u64, u64)> {
        let skip = if pattern.random { 0 } else { pattern.sequence_skip };
        let offset = self.sequential_offset(direction, skip, wrapping)?;
        // As in fio, the last block of a region is sent whole if all blocks have one size and the file continues.
        let end = if matches!(lengths, Lengths::Fixed(_)) { self.region.file_size } else { self.end };
        let length = lengths.draw(end - offset, rng)?;
        self.position[direction as usize] = offset + length;
        Some((offset, length))
    }

    /// Returns the next offset by fio's rules, which were derived from recorded iologs. Relative positions
    /// wrap in 64 bits. A skip beyond the end of the *file* wraps; a skip beyond the end of the region alone
    /// ends the pass.
    #[inline]
    fn sequential_offset(&mut self, direction: Direction, skip: i64, wrapping: bool) -> Option<u64> {
        let Region { start, length, file_size, .. } = self.region;
        let position = &mut self.position[direction as usize];
        if wrapping && *position >= start.saturating_add(length) {
            *position = start;
            self.wrapped = true;
        }
        if skip == 0 {
            return (*position < self.end).then_some(*position);
        }
        if *position >= file_size {
            return None;
        }
        let backwards_from = length.min(file_size);
        let mut at = *position;
        if at == start && start != 0 && skip < 0 {
            at = backwards_from;
        }
        let mut relative = at.wrapping_sub(start);
        if relative != 0 {
            relative = relative.wrapping_add_signed(skip);
            if relative >= file_size {
                relative = if skip > 0 { start } else { backwards_from.wrapping_add_signed(skip) };
            }
        }
        let offset = start.checked_add(relative)?;
        (relative < length && offset < file_size).then_some(offset)
    }

    /// Returns the offsets of upcoming random requests, as far as they are known. Each offset is returned once.
    #[inline]
    pub(crate) fn upcoming(&mut self) -> &[u64] {
        self.prefetch.report_upcoming()
    }

    /// Returns the next random request, or `None` at the end of the pass. A `wrapping` (time-based) job begins another
    /// pass in a new order.
    #[inline]
    pub(crate) fn random(
        &mut self,
        direction: Direction,
        lengths: &Lengths,
        wrapping: bool,
        offsets: &mut Rng,
        sizes: &mut Rng,
    ) -> Option<(u64, u64)> {
        let (offset, length) = match self.draw(direction, lengths, offsets, sizes) {
            Some(found) => found,
            None if wrapping => self.draw_in_next_pass(direction, lengths, offsets, sizes)?,
            None => return None,
        };
        self.position[direction as usize] = offset + length;
        Some((offset, length))
    }

    #[cold]
    fn draw_in_next_pass(
        &mut self,
        direction: Direction,
        lengths: &Lengths,
        offsets: &mut Rng,
        sizes: &mut Rng,
    ) -> Option<(u64, u64)> {
        if matches!(self.order, Order::None | Order::Any { .. }) {
            return None;
        }
        self.pass += 1;
        self.wrapped = true;
        self.reset_order();
        self.draw(direction, lengths, offsets, sizes)
    }

    #[inline]
    fn draw(
        &mut self,
        direction: Direction,
        lengths: &Lengths,
        offsets: &mut Rng,
        sizes: &mut Rng,
    ) -> Option<(u64, u64)> {
        if self.prefetch_left == 0 {
            return self.draw_now(direction, lengths, offsets, sizes);
        }
        self.prefetch_left -= 1;
        let (start, order) = (self.region.start, &mut self.order);
        let offset = self.prefetch.take(|group| order.fill(group, start, direction, offsets));
        Some((offset, lengths.draw(self.end - offset, sizes)?))
    }

    /// Returns a whole group of random offsets, if none of the group was taken and all of them belong to this pass.
    pub(crate) fn take_group(&mut self, direction: Direction, offsets: &mut Rng) -> Option<&[u64; GROUP]> {
        if self.done || self.prefetch_left < GROUP as u64 {
            return None;
        }
        let (start, order) = (self.region.start, &mut self.order);
        let group = self.prefetch.take_group(|group| order.fill(group, start, direction, offsets))?;
        self.prefetch_left -= GROUP as u64;
        Some(group)
    }

    /// Puts the last `count` offsets of a group back, so that they are used again.
    pub(crate) fn put_back(&mut self, count: usize) {
        self.prefetch.put_back(count);
        self.prefetch_left += count as u64;
    }

    fn draw_now(
        &mut self,
        direction: Direction,
        lengths: &Lengths,
        offsets: &mut Rng,
        sizes: &mut Rng,
    ) -> Option<(u64, u64)> {
        let (start, end) = (self.region.start, self.end);
        let d = direction as usize;
        match &mut self.order {
            Order::None | Order::Once { .. } => None,
            Order::Any { samplers, align } => {
                let offset = start + samplers[d].as_ref()?.draw(offsets) * align[d];
                Some((offset, lengths.draw(end - offset, sizes)?))
            }
            Order::Map { map, unit, slots, align } => {
                if slots[d] == 0 {
                    return None;
                }
                let (unit, align) = (*unit, align[d]);
                loop {
                    let drawn = offsets.below(slots[d]) * align / unit;
                    let block = map.next_free(drawn)?;
                    // If the directions differ in their alignment, a free block may lie inside a slot that was partly
                    // accessed. The whole slot is then requested again.
                    let relative = block * unit - block * unit % align;
                    map.insert(block);
                    let room = end.saturating_sub(start + relative);
                    let Some(mut length) = lengths.draw(room, sizes) else {
                        continue;
                    };
                    let first = relative / unit;
                    if first == block {
                        // As in fio, a request is truncated before a block that was already accessed in this pass.
                        let wanted = length.div_ceil(unit);
                        let free = (1..wanted).find(|&i| map.contains(block + i)).unwrap_or(wanted);
                        length = length.min(free * unit);
                    }
                    for covered in first..first + length.div_ceil(unit) {
                        if covered < map.len() {
                            map.insert(covered);
                        }
                    }
                    return Some((start + relative, length));
                }
            }
        }
    }
}

impl Order {
    /// Draws a group of offsets in advance. `start` is the offset of the first slot. Offsets after the last one of a
    /// pass are not used.
    fn fill(&mut self, group: &mut [u64; GROUP], start: u64, direction: Direction, offsets: &mut Rng) {
        let d = direction as usize;
        match self {
            Order::Once { order, drawn, slot } => {
                let (first, last) = (*drawn, order.len() - 1);
                *group = std::array::from_fn(|n| start + order.at((first + n as u64).min(last)) * *slot);
                *drawn += GROUP as u64;
            }
            Order::Any { samplers, align } => {
                if let Some(sampler) = &samplers[d] {
                    group.fill_with(|| start + sampler.draw(offsets) * align[d]);
                }
            }
            Order::None | Order::Map { .. } => {}
        }
    }

    fn new(job: &Job, region: &Region, index: usize, seed: Seed) -> Order {
        if !job.pattern.random {
            return Order::None;
        }
        let used = job.pattern.mix.directions();
        let least = |d: Direction| job.block_size[d as usize].bounds().0;
        let slots_of = |d: Direction| {
            let length = region.length.min(region.file_size - region.start);
            length.checked_sub(least(d)).map_or(0, |rest| rest / job.block_align[d as usize] + 1)
        };
        let slots: [u64; 3] = Direction::ALL.map(|d| if used.contains(&d) { slots_of(d) } else { 0 });
        let align = job.block_align;
        if job.no_random_map || job.distribution != Distribution::Uniform {
            let samplers = Direction::ALL.map(|d| {
                (slots[d as usize] > 0).then(|| {
                    let mut rng = seed.rng(Purpose::Rotation, index);
                    Sampler::new(&job.distribution, slots[d as usize], align[d as usize], &mut rng)
                })
            });
            return Order::Any { samplers: Box::new(samplers), align };
        }
        let first = used[0] as usize;
        let same_sizes = used.iter().all(|&d| {
            job.block_size[d as usize] == job.block_size[first] && align[d as usize] == align[first]
        });
        let has_one_size = block_min(job) == block_max(job) || align[first] >= block_max(job);
        if same_sizes && has_one_size && slots[first] > 0 {
            let order = Permutation::new(slots[first], seed.key(Purpose::Offset, index, 0));
            return Order::Once { order, drawn: 0, slot: align[first] };
        }
        let unit = block_min(job);
        let blocks = region.length.min(region.file_size - region.start) / unit;
        Order::Map { map: BlockMap::new(blocks), unit, slots, align }
    }
}
