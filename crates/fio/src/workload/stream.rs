//! What a job asks, request after request, without time: directions, offsets, lengths, flushes, loops and limits.
//!
//! The rules are those of fio 3.33: a loop ends where the next offset would lie outside of the region (or all blocks of
//! the random map are done), or at its limit of `io_size` (else `size`) times `loops`, whichever is first; then come
//! as many loops as `loops` says, and under `io_size` as many as it takes. A time-based job begins again for ever.

use crate::job::{Direction, Job, Mix, Pattern};
use crate::random::{Purpose, Seed};
use crate::workload::WorkloadError;
use crate::workload::length::Lengths;
use crate::workload::place::Place;
use crate::workload::region::{File, Regions, block_max, directions};
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

/// The requests of one job.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    pattern: Pattern,
    places: Vec<Place>,
    /// Whose turn it is among several files.
    turn: usize,
    lengths: [Lengths; 3],
    rw_mix_read: u64,
    percentage_random: [u64; 3],
    /// Requests until a random offset is drawn again.
    until_drawn: u32,
    time_based: bool,
    repeat: bool,
    seed: Seed,
    offsets: Rng,
    directions: Rng,
    sizes: Rng,
    sequence: Rng,

    fsync: u64,
    fdatasync: u64,
    flushed_last: bool,
    writes: u64,
    last: Option<Ask>,

    /// Bytes and requests after which no loop goes on.
    bytes_max: u64,
    requests_max: u64,
    /// Bytes after which no further loop begins.
    bytes_enough: u64,
    io_size_given: bool,
    block_max: u64,
    loops_left: u64,
    moved: [u64; 3],
    requests: u64,
    requests_in_loop: u64,
}

impl Stream {
    pub(crate) fn new(job: &Job, files: &[File], number: u32, entropy: u64) -> Result<Stream, WorkloadError> {
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
        Ok(Stream {
            pattern: job.pattern,
            places,
            turn: 0,
            lengths: Direction::ALL.map(|d| Lengths::of(&job.block_size[d as usize])),
            rw_mix_read: u64::from(job.rw_mix_read),
            percentage_random: job.percentage_random.map(u64::from),
            until_drawn: 1,
            time_based: job.time_based,
            repeat: job.rand_repeat,
            seed,
            offsets: seed.rng(Purpose::Offset, 0),
            directions: seed.rng(Purpose::Direction, 0),
            sizes: seed.rng(Purpose::Length, 0),
            sequence: seed.rng(Purpose::Sequence, 0),
            fsync: u64::from(job.fsync),
            fdatasync: u64::from(job.fdatasync),
            flushed_last: false,
            writes: 0,
            last: None,
            bytes_max: enough.saturating_mul(loops),
            requests_max: job.number_ios.filter(|&n| n > 0).map_or(u64::MAX, |n| n.saturating_mul(loops)),
            bytes_enough: enough,
            io_size_given: io_size.is_some(),
            block_max: block_max(job),
            loops_left: loops - 1,
            moved: [0; 3],
            requests: 0,
            requests_in_loop: 0,
        })
    }

    /// Whether the job has asked for all that it may.
    #[inline]
    pub(crate) fn is_satisfied(&self) -> bool {
        if self.time_based {
            return false;
        }
        let [read, write, trim] = self.moved;
        let counted = match self.pattern.mix {
            Mix::Read => read,
            Mix::Write | Mix::TrimWrite => write,
            Mix::Trim => trim,
            Mix::ReadWrite => read.saturating_add(write),
        };
        counted >= self.bytes_max || self.requests >= self.requests_max
    }

    /// The flush that is due before the next request. fio counts writes, and looks after every request.
    #[inline]
    pub(crate) fn flush_due(&mut self) -> Option<Flush> {
        if self.fsync | self.fdatasync == 0 || self.flushed_last || self.writes == 0 {
            return None;
        }
        if !matches!(self.pattern.mix, Mix::Write | Mix::ReadWrite) {
            return None;
        }
        let due = |every: u64| every > 0 && self.writes.is_multiple_of(every);
        let data_only = match (due(self.fsync), due(self.fdatasync)) {
            (true, _) => false,
            (false, true) => true,
            (false, false) => return None,
        };
        self.flushed_last = true;
        self.last.map(|last| Flush { file: last.file, offset: last.offset, data_only })
    }

    /// The flushes at the end of a loop, one a file.
    pub(crate) fn flushes_at_end(&mut self) -> Vec<Flush> {
        let writes = directions(self.pattern.mix).contains(&Direction::Write);
        if self.flushed_last || !writes {
            return Vec::new();
        }
        self.flushed_last = true;
        let offset = self.last.map_or(0, |last| last.offset);
        self.places.iter().map(|place| Flush { file: place.region.file, offset, data_only: false }).collect()
    }

    /// The direction of the next request.
    #[inline]
    pub(crate) fn direction(&mut self) -> Direction {
        match self.pattern.mix {
            Mix::Read => Direction::Read,
            Mix::Write => Direction::Write,
            Mix::Trim => Direction::Trim,
            Mix::ReadWrite if self.directions.below(100) < self.rw_mix_read => Direction::Read,
            Mix::ReadWrite => Direction::Write,
            Mix::TrimWrite => match self.file_in_turn() {
                Some(file) if self.places[file].trimmed.is_some() => Direction::Write,
                _ => Direction::Trim,
            },
        }
    }

    /// The file that is asked next: they take turns, those that are done are passed over.
    #[inline]
    fn file_in_turn(&self) -> Option<usize> {
        if !self.places[self.turn].done {
            return Some(self.turn);
        }
        let files = self.places.len();
        (1..files).map(|step| (self.turn + step) % files).find(|&file| !self.places[file].done)
    }

    /// The next request in `direction`; `None` at the end of a loop.
    #[inline]
    pub(crate) fn ask(&mut self, direction: Direction) -> Option<Ask> {
        while let Some(file) = self.file_in_turn() {
            let Some((offset, length)) = self.ask_file(file, direction) else {
                self.places[file].done = true;
                continue;
            };
            self.turn = if file + 1 == self.places.len() { 0 } else { file + 1 };
            let ask = Ask { direction, file: self.places[file].region.file, offset, length };
            self.moved[direction as usize] = self.moved[direction as usize].saturating_add(length);
            self.writes += u64::from(direction == Direction::Write);
            self.requests += 1;
            self.requests_in_loop += 1;
            self.flushed_last = false;
            self.last = Some(ask);
            return Some(ask);
        }
        None
    }

    /// Where the requests that come soon begin, as far as that is known; each is told once.
    #[inline]
    pub(crate) fn upcoming(&mut self) -> (FileId, &[u64]) {
        match &mut self.places[..] {
            [place] => (place.region.file, place.upcoming()),
            _ => (FileId::DEVICE, &[]),
        }
    }

    #[inline]
    fn ask_file(&mut self, file: usize, direction: Direction) -> Option<(u64, u64)> {
        let place = &mut self.places[file];
        if self.pattern.mix == Mix::TrimWrite && direction == Direction::Write {
            return place.trimmed.take();
        }
        let lengths = &self.lengths[direction as usize];
        let found = if !self.pattern.random {
            place.sequential(&self.pattern, direction, lengths, self.time_based, &mut self.sizes)
        } else {
            self.until_drawn = self.until_drawn.saturating_sub(1);
            let drawn = self.until_drawn == 0;
            if drawn {
                self.until_drawn = self.pattern.sequence.max(1);
            }
            let percent = self.percentage_random[direction as usize];
            let random = drawn && (percent >= 100 || self.sequence.below(100) < percent);
            let sequential = if random {
                None
            } else {
                place.sequential(&self.pattern, direction, lengths, self.time_based, &mut self.sizes)
            };
            sequential.or_else(|| {
                place.random(direction, lengths, self.time_based, &mut self.offsets, &mut self.sizes)
            })
        };
        if self.pattern.mix == Mix::TrimWrite {
            place.trimmed = found;
        }
        found
    }

    /// Begins the next loop, where there is one.
    pub(crate) fn begin_another_loop(&mut self) -> bool {
        if self.requests_in_loop == 0 || !self.goes_on() {
            return false;
        }
        self.requests_in_loop = 0;
        for place in &mut self.places {
            place.restart(self.repeat);
        }
        self.turn = 0;
        if self.repeat {
            self.offsets = self.seed.rng(Purpose::Offset, 0);
            self.directions = self.seed.rng(Purpose::Direction, 0);
            self.sizes = self.seed.rng(Purpose::Length, 0);
            self.sequence = self.seed.rng(Purpose::Sequence, 0);
        }
        true
    }

    fn goes_on(&mut self) -> bool {
        if self.time_based {
            return true;
        }
        if self.is_satisfied() {
            return false;
        }
        if self.loops_left > 0 {
            self.loops_left -= 1;
            return true;
        }
        let moved = self.moved.iter().fold(0u64, |sum, &bytes| sum.saturating_add(bytes));
        let left = self.bytes_enough.saturating_sub(moved);
        self.io_size_given && left > 0 && left >= self.block_max
    }

    /// The ramp is over: fio counts writes for `fsync` from here.
    pub(crate) fn ramp_over(&mut self) {
        self.writes = 0;
    }
}
