//! What a job asks, request after request, without time: directions, offsets, lengths, flushes, loops and limits.
//!
//! The rules are those of fio 3.33: a loop ends where the next offset would lie outside of the region (or all blocks of
//! the random map are done), or at its limit of `io_size` (else `size`) times `loops`, whichever is first; then come
//! as many loops as `loops` says, and under `io_size` as many as it takes. A time-based job begins again for ever.

use crate::job::{Direction, Job, Mix, Pattern};
use crate::random::{Purpose, Seed};
use crate::workload::WorkloadError;
use crate::workload::length::Lengths;
use crate::workload::mixture::Mixture;
use crate::workload::place::Place;
use crate::workload::region::{File, Regions, block_max, directions};
use crate::workload::series::Series;
use flashlab_sim::{FileId, Rng};

/// A request without its time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ask {
    pub(crate) direction: Direction,
    pub(crate) file: FileId,
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

/// A flush that a job owes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Flush {
    pub(crate) file: FileId,
    /// Where the request before it was (fio logs it).
    pub(crate) offset: u64,
    /// `fdatasync` rather than `fsync`.
    pub(crate) data_only: bool,
}

/// How the next request of a file is chosen.
#[derive(Clone, Debug)]
struct Choice {
    pattern: Pattern,
    /// Whether all requests are random, or none is; `None` where each is asked.
    all_random: Option<bool>,
    percentage_random: [u64; 3],
    /// A random offset is drawn every so many requests, and next after so many.
    drawn_every: u32,
    until_drawn: u32,
    time_based: bool,
    lengths: [Lengths; 3],
    offsets: Rng,
    sizes: Rng,
    sequence: Rng,
}

/// Which direction comes next.
#[derive(Clone, Debug)]
enum Turns {
    Only(Direction),
    Mixed(Mixture),
    /// Each range is trimmed, and then written.
    TrimWrite,
}

/// The requests of one job.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    turns: Turns,
    places: Vec<Place>,
    /// Whose turn it is among several files.
    turn: usize,
    choice: Choice,
    /// Where requests may come in series: the one that is being asked.
    series: Option<Series>,
    repeat: bool,
    seed: Seed,

    /// Whether the job flushes at all, so that what it did last matters.
    flushes: bool,
    fsync: u64,
    fdatasync: u64,
    flushed_last: bool,
    writes: u64,
    /// The last request.
    last: (FileId, u64),

    /// Bytes and requests after which no loop goes on. Trims that are followed by writes do not count.
    bytes_left: u64,
    requests_left: u64,
    /// What there was of them at first, and when the loop began.
    bytes_max: u64,
    requests_left_before: u64,
    requests_max: u64,
    /// Bytes after which no further loop begins.
    bytes_enough: u64,
    io_size_given: bool,
    block_max: u64,
    loops_left: u64,
    /// Bytes of the trims that are followed by writes.
    trimmed: u64,
}

impl Choice {
    fn new(job: &Job, seed: Seed) -> Choice {
        let pattern = job.pattern;
        let percentage_random = job.percentage_random.map(u64::from);
        let drawn_every = pattern.sequence.max(1);
        let always = || directions(pattern.mix).iter().all(|&d| percentage_random[d as usize] >= 100);
        Choice {
            pattern,
            all_random: match pattern.random {
                false => Some(false),
                true => (drawn_every == 1 && always()).then_some(true),
            },
            percentage_random,
            drawn_every,
            until_drawn: 1,
            time_based: job.time_based,
            lengths: Direction::ALL.map(|d| Lengths::of(&job.block_size[d as usize])),
            offsets: seed.rng(Purpose::Offset, 0),
            sizes: seed.rng(Purpose::Length, 0),
            sequence: seed.rng(Purpose::Sequence, 0),
        }
    }

    /// Begins again with the same numbers.
    fn repeat(&mut self, seed: Seed) {
        self.offsets = seed.rng(Purpose::Offset, 0);
        self.sizes = seed.rng(Purpose::Length, 0);
        self.sequence = seed.rng(Purpose::Sequence, 0);
    }

    /// The next request of a file; `None` where nothing is left of it.
    #[inline]
    fn next(&mut self, place: &mut Place, direction: Direction) -> Option<(u64, u64)> {
        let is_random = match self.all_random {
            Some(all) => all,
            None => self.is_drawn(direction),
        };
        let (lengths, wrapping) = (&self.lengths[direction as usize], self.time_based);
        if !is_random {
            let found = place.sequential(&self.pattern, direction, lengths, wrapping, &mut self.sizes);
            if found.is_some() || !self.pattern.random {
                return found;
            }
        }
        place.random(direction, lengths, wrapping, &mut self.offsets, &mut self.sizes)
    }

    /// `trimwrite`: what was trimmed is written.
    #[cold]
    fn trim_or_write(&mut self, place: &mut Place, direction: Direction) -> Option<(u64, u64)> {
        if direction == Direction::Write {
            return place.trimmed.take();
        }
        place.trimmed = self.next(place, direction);
        place.trimmed
    }

    /// Whether the next request of a random pattern is random: every so many are, or so many in a hundred.
    fn is_drawn(&mut self, direction: Direction) -> bool {
        self.until_drawn -= 1;
        if self.until_drawn > 0 {
            return false;
        }
        self.until_drawn = self.drawn_every;
        let percent = self.percentage_random[direction as usize];
        percent >= 100 || self.sequence.below(100) < percent
    }
}

impl Stream {
    /// The job looks at nothing between two requests if it is `unhindered`.
    pub(crate) fn new(
        job: &Job,
        files: &[File],
        (number, entropy): (u32, u64),
        unhindered: bool,
    ) -> Result<Stream, WorkloadError> {
        let Regions { regions, size, io_size } = Regions::of(job, files)?;
        let seed = Seed::of(job, number, entropy);
        let alone = regions.len() == 1;
        let places = regions
            .iter()
            .enumerate()
            .map(|(index, &region)| Place::new(job, region, index, seed, alone))
            .collect();
        let loops = job.loops.max(1);
        let enough = io_size.unwrap_or(size);
        let bytes_max = enough.saturating_mul(loops);
        let number = job.number_ios.filter(|&n| n > 0 && !job.time_based);
        let requests_max = number.map_or(u64::MAX, |n| n.saturating_mul(loops));
        let used = directions(job.pattern.mix);
        let flushes = job.fsync > 0 || job.fdatasync > 0 || job.fsync_on_close || job.end_fsync;
        let choice = Choice::new(job, seed);
        let series = match (used, &regions[..]) {
            (&[only], [region]) if unhindered && !flushes && choice.all_random == Some(true) => {
                Series::of(only, region.file, &job.block_size[only as usize])
            }
            _ => None,
        };
        Ok(Stream {
            turns: match job.pattern.mix {
                Mix::Read => Turns::Only(Direction::Read),
                Mix::Write => Turns::Only(Direction::Write),
                Mix::Trim => Turns::Only(Direction::Trim),
                Mix::ReadWrite => Turns::Mixed(Mixture::new(job.rw_mix_read, seed)),
                Mix::TrimWrite => Turns::TrimWrite,
            },
            places,
            turn: 0,
            choice,
            series,
            repeat: job.rand_repeat,
            seed,
            flushes,
            fsync: u64::from(job.fsync),
            fdatasync: u64::from(job.fdatasync),
            flushed_last: false,
            writes: 0,
            last: (FileId::DEVICE, 0),
            bytes_left: bytes_max,
            requests_left: requests_max,
            bytes_max,
            requests_left_before: requests_max,
            requests_max,
            bytes_enough: enough,
            io_size_given: io_size.is_some(),
            block_max: block_max(job),
            loops_left: loops - 1,
            trimmed: 0,
        })
    }

    /// Whether the job has asked for all that it may.
    #[inline]
    pub(crate) fn is_satisfied(&self) -> bool {
        (self.bytes_left == 0 || self.requests_left == 0) && !self.choice.time_based
    }

    /// Returns the share of its bytes or requests that the job has asked for; 0 if only time ends the job.
    pub(crate) fn share_asked(&self) -> f64 {
        if self.choice.time_based {
            return 0.0;
        }
        let share = |left: u64, most: u64| 1.0 - left as f64 / most.max(1) as f64;
        share(self.bytes_left, self.bytes_max).max(share(self.requests_left, self.requests_max))
    }

    /// The flush that is due before the next request. fio counts writes, and looks after every request.
    #[inline]
    pub(crate) fn flush_due(&mut self) -> Option<Flush> {
        if self.flushes { self.flush_after_writes() } else { None }
    }

    fn flush_after_writes(&mut self) -> Option<Flush> {
        if self.flushed_last || self.writes == 0 || self.trims_first() {
            return None;
        }
        let due = |every: u64| every > 0 && self.writes.is_multiple_of(every);
        let data_only = match (due(self.fsync), due(self.fdatasync)) {
            (true, _) => false,
            (false, true) => true,
            (false, false) => return None,
        };
        self.flushed_last = true;
        let (file, offset) = self.last;
        Some(Flush { file, offset, data_only })
    }

    /// The flushes at the end of a loop, one a file.
    pub(crate) fn flushes_at_end(&mut self) -> Vec<Flush> {
        let writes = directions(self.choice.pattern.mix).contains(&Direction::Write);
        if self.flushed_last || !writes {
            return Vec::new();
        }
        self.flushed_last = true;
        let (_, offset) = self.last;
        self.places.iter().map(|place| Flush { file: place.region.file, offset, data_only: false }).collect()
    }

    /// The direction of the next request.
    #[inline]
    pub(crate) fn direction(&mut self) -> Direction {
        match &mut self.turns {
            Turns::Only(direction) => *direction,
            Turns::Mixed(mixture) => mixture.next(),
            Turns::TrimWrite => self.direction_of_range(),
        }
    }

    /// A write where the range whose turn it is was trimmed, else its trim.
    fn direction_of_range(&self) -> Direction {
        let (passed, turn) = self.places.split_at(self.turn);
        let next = turn.iter().chain(passed).find(|place| !place.done);
        let is_trimmed = next.is_some_and(|place| place.trimmed.is_some());
        if is_trimmed { Direction::Write } else { Direction::Trim }
    }

    /// Whether writes follow the trims of their ranges.
    #[inline]
    fn trims_first(&self) -> bool {
        matches!(self.turns, Turns::TrimWrite)
    }

    /// Whether requests come in series.
    pub(crate) fn has_series(&self) -> bool {
        self.series.is_some()
    }

    /// The next request of a series; `None` where all has to be looked at again.
    #[inline]
    pub(crate) fn next_of_series(&mut self) -> Option<Ask> {
        self.series.as_mut()?.next()
    }

    /// Begins a series, where the limits leave room for all of it, and gives its first request.
    fn begin_series(&mut self) -> Option<Ask> {
        let series = self.series.as_mut()?;
        let bytes = series.bytes();
        let is_allowed =
            self.requests_left >= Series::REQUESTS && (self.bytes_left >= bytes || self.choice.time_based);
        if !is_allowed {
            return None;
        }
        let Turns::Only(direction) = self.turns else { return None };
        series.begin(self.places[0].take_group(direction, &mut self.choice.offsets)?);
        self.requests_left -= Series::REQUESTS;
        self.bytes_left = self.bytes_left.saturating_sub(bytes);
        series.next()
    }

    /// The next request in `direction`; `None` at the end of a loop. Files take turns, those that are done are passed
    /// over.
    #[inline]
    pub(crate) fn ask(&mut self, direction: Direction) -> Option<Ask> {
        if let Some(ask) = self.begin_series() {
            return Some(ask);
        }
        let files = self.places.len();
        let trims_first = self.trims_first();
        for _ in 0..files {
            let place = &mut self.places[self.turn];
            self.turn += 1;
            if self.turn == files {
                self.turn = 0;
            }
            if place.done {
                continue;
            }
            let found = if trims_first {
                self.choice.trim_or_write(place, direction)
            } else {
                self.choice.next(place, direction)
            };
            let Some((offset, length)) = found else {
                place.done = true;
                continue;
            };
            let ask = Ask { direction, file: place.region.file, offset, length };
            self.count(&ask);
            return Some(ask);
        }
        None
    }

    #[inline]
    fn count(&mut self, ask: &Ask) {
        self.requests_left -= 1;
        if let Turns::Mixed(mixture) = &mut self.turns {
            mixture.asked(ask.direction);
        }
        if self.trims_first() && ask.direction == Direction::Trim {
            self.trimmed = self.trimmed.saturating_add(ask.length);
        } else {
            self.bytes_left = self.bytes_left.saturating_sub(ask.length);
        }
        if self.flushes {
            self.writes += u64::from(ask.direction == Direction::Write);
            self.flushed_last = false;
            self.last = (ask.file, ask.offset);
        }
    }

    /// Where the requests that come soon begin, as far as that is known; each is told once.
    #[inline]
    pub(crate) fn upcoming(&mut self) -> (FileId, &[u64]) {
        match &mut self.places[..] {
            [place] => (place.region.file, place.upcoming()),
            _ => (FileId::DEVICE, &[]),
        }
    }

    /// Begins the next loop, where there is one.
    pub(crate) fn begin_another_loop(&mut self) -> bool {
        if self.requests_left == self.requests_left_before || !self.goes_on() {
            return false;
        }
        self.requests_left_before = self.requests_left;
        // A flush that was due at the end of the loop before is due again, as in fio.
        self.flushed_last = false;
        for place in &mut self.places {
            place.restart(self.repeat);
        }
        self.turn = 0;
        let seed = self.repeat.then_some(self.seed);
        if let Turns::Mixed(mixture) = &mut self.turns {
            mixture.begin_another_loop(seed);
        }
        if let Some(seed) = seed {
            self.choice.repeat(seed);
        }
        true
    }

    fn goes_on(&mut self) -> bool {
        if self.choice.time_based {
            return true;
        }
        if self.is_satisfied() {
            return false;
        }
        if self.loops_left > 0 {
            self.loops_left -= 1;
            return true;
        }
        let moved = (self.bytes_max - self.bytes_left).saturating_add(self.trimmed);
        let left = self.bytes_enough.saturating_sub(moved);
        self.io_size_given && left > 0 && left >= self.block_max
    }

    /// The ramp is over: fio counts writes for `fsync` and requests for `number_ios` from here, those that are `out`
    /// included.
    pub(crate) fn ramp_over(&mut self, out: u64) {
        self.writes = 0;
        if let Turns::Mixed(mixture) = &mut self.turns {
            mixture.ramp_over();
        }
        if let Some(series) = &mut self.series {
            let (left, bytes) = series.end();
            self.places[0].put_back(left);
            self.bytes_left = self.bytes_left.saturating_add(bytes);
        }
        self.requests_left = self.requests_max.saturating_sub(out);
        // The loop that goes on has asked for something.
        self.requests_left_before = 0;
    }
}
