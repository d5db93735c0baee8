//! Where the next request of one file goes: sequential positions with their skips and wraps, random passes, and
//! distributions.

use crate::job::{Direction, Distribution, Job, Pattern};
use crate::random::{BlockMap, Permutation, Purpose, Sampler, Seed};
use crate::workload::ahead::{Ahead, GROUP};
use crate::workload::length::Lengths;
use crate::workload::region::{Region, block_bounds, block_max, block_min, directions};
use flashlab_sim::Rng;

/// One file of a job and how far the job has come in it.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) region: Region,
    index: usize,
    /// The byte after the last request, by direction.
    position: [u64; 3],
    order: Order,
    /// Complete passes, which make the next one's order.
    pass: u64,
    seed: Seed,
    /// Nothing is left in this pass.
    pub(crate) done: bool,
    /// The last trim of `trimwrite`, until it is written.
    pub(crate) trimmed: Option<(u64, u64)>,
}

/// How random requests choose their slot.
#[derive(Clone, Debug)]
enum Order {
    /// Only sequential requests.
    None,
    /// Each slot of `slot` bytes once a pass: requests that cannot overlap.
    Once { order: Permutation, next: u64, slot: u64, ahead: Ahead },
    /// Each block of `unit` bytes once a pass, by requests of several sizes.
    Map { map: BlockMap, unit: u64, slots: [u64; 3], align: [u64; 3] },
    /// Any slot at any time, by direction. Where one file and one direction have the generator for themselves, it is
    /// drawn ahead.
    Any { samplers: Box<[Option<Sampler>; 3]>, align: [u64; 3], ahead: Option<Ahead> },
}

impl Place {
    /// The job's file `index`, and whether it is `alone`.
    pub(crate) fn new(job: &Job, region: Region, index: usize, seed: Seed, alone: bool) -> Place {
        let order = Order::of(job, &region, index, seed, alone);
        Place { region, index, position: [region.start; 3], order, pass: 0, seed, done: false, trimmed: None }
    }

    /// Begins the next loop: positions and the map are as at first, and so is the random order under `repeat`.
    pub(crate) fn restart(&mut self, repeat: bool) {
        self.position = [self.region.start; 3];
        self.done = false;
        self.trimmed = None;
        self.pass = if repeat { 0 } else { self.pass + 1 };
        if let Order::Any { ahead: Some(ahead), .. } = &mut self.order
            && repeat
        {
            *ahead = Ahead::NOTHING;
        }
        self.renew();
    }

    fn renew(&mut self) {
        match &mut self.order {
            Order::Once { order, next, ahead, .. } => {
                *order = Permutation::new(order.len(), self.seed.key(Purpose::Offset, self.index, self.pass));
                (*next, *ahead) = (0, Ahead::NOTHING);
            }
            Order::Map { map, .. } => map.clear(),
            Order::None | Order::Any { .. } => {}
        }
    }

    /// The byte after the region.
    fn end(&self) -> u64 {
        self.region.start.saturating_add(self.region.length).min(self.region.file_size)
    }

    /// The next sequential request; `None` at the end of the region, unless the job is `wrapping` (time-based).
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
        let length = lengths.draw(self.end() - offset, rng)?;
        self.position[direction as usize] = offset + length;
        Some((offset, length))
    }

    /// fio's rules, as recorded iologs show them: relative positions wrap in 64 bits, a skip that passes the *file's*
    /// end wraps, one that passes only the region's end finishes the pass.
    #[inline]
    fn sequential_offset(&mut self, direction: Direction, skip: i64, wrapping: bool) -> Option<u64> {
        let Region { start, length, file_size, .. } = self.region;
        let end = self.end();
        let position = &mut self.position[direction as usize];
        if wrapping && *position >= start.saturating_add(length) {
            *position = start;
        }
        if skip == 0 {
            return (*position < end).then_some(*position);
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

    /// Where the random requests that come soon begin, as far as that is known; each is told once.
    #[inline]
    pub(crate) fn upcoming(&mut self) -> &[u64] {
        match &mut self.order {
            Order::Once { ahead, .. } | Order::Any { ahead: Some(ahead), .. } => ahead.tell(),
            Order::None | Order::Map { .. } | Order::Any { ahead: None, .. } => &[],
        }
    }

    /// The next random request; `None` when the pass is complete, unless the job is `wrapping` (time-based) and begins
    /// another in a new order.
    #[inline]
    pub(crate) fn random(
        &mut self,
        direction: Direction,
        lengths: &Lengths,
        wrapping: bool,
        offsets: &mut Rng,
        sizes: &mut Rng,
    ) -> Option<(u64, u64)> {
        let found = self.draw(direction, lengths, offsets, sizes).or_else(|| {
            if !wrapping || matches!(self.order, Order::None | Order::Any { .. }) {
                return None;
            }
            self.pass += 1;
            self.renew();
            self.draw(direction, lengths, offsets, sizes)
        })?;
        self.position[direction as usize] = found.0 + found.1;
        Some(found)
    }

    #[inline]
    fn draw(
        &mut self,
        direction: Direction,
        lengths: &Lengths,
        offsets: &mut Rng,
        sizes: &mut Rng,
    ) -> Option<(u64, u64)> {
        let (start, end) = (self.region.start, self.end());
        let d = direction as usize;
        match &mut self.order {
            Order::None => None,
            Order::Once { order, next, slot, ahead } => {
                if *next >= order.len() {
                    return None;
                }
                let mut drawn = if *next == 0 { 0 } else { *next + GROUP as u64 };
                let offset = ahead.take(|group| {
                    let at = |n: u64| order.at(n.min(order.len() - 1));
                    *group = std::array::from_fn(|n| start + at(drawn + n as u64) * *slot);
                    drawn += GROUP as u64;
                });
                *next += 1;
                Some((offset, lengths.draw(end - offset, sizes)?))
            }
            Order::Any { samplers, align, ahead } => {
                let sampler = samplers[d].as_ref()?;
                let mut draw = || start + sampler.draw(offsets) * align[d];
                let offset = match ahead {
                    Some(ahead) => ahead.take(|group| group.fill_with(&mut draw)),
                    None => draw(),
                };
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
                    // Where directions differ in their alignment, a free block may lie inside of a slot that is partly
                    // done: the whole slot is asked again.
                    let relative = block * unit - block * unit % align;
                    map.insert(block);
                    let room = end.saturating_sub(start + relative);
                    let Some(mut length) = lengths.draw(room, sizes) else {
                        continue;
                    };
                    let first = relative / unit;
                    if first == block {
                        // fio cuts a request short where it meets a block that is done.
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
    fn of(job: &Job, region: &Region, index: usize, seed: Seed, alone: bool) -> Order {
        if !job.pattern.random {
            return Order::None;
        }
        let used = directions(job.pattern.mix);
        let least = |d: Direction| block_bounds(&job.block_size[d as usize]).0;
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
            let ahead = (alone && used.len() == 1).then_some(Ahead::NOTHING);
            return Order::Any { samplers: Box::new(samplers), align, ahead };
        }
        let first = used[0] as usize;
        let alike = used.iter().all(|&d| {
            job.block_size[d as usize] == job.block_size[first] && align[d as usize] == align[first]
        });
        let of_one_size = block_min(job) == block_max(job) || align[first] >= block_max(job);
        if alike && of_one_size && slots[first] > 0 {
            let order = Permutation::new(slots[first], seed.key(Purpose::Offset, index, 0));
            return Order::Once { order, next: 0, slot: align[first], ahead: Ahead::NOTHING };
        }
        let unit = block_min(job);
        let blocks = region.length.min(region.file_size - region.start) / unit;
        Order::Map { map: BlockMap::new(blocks), unit, slots, align }
    }
}
