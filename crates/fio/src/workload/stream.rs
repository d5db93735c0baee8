//! The requests of a job in order, without time: directions, offsets, lengths, flushes, loops and limits.
//!
//! The rules are those of fio 3.33. A loop ends when the next offset would lie outside the region (or all blocks of the
//! random map were accessed), or at the limit of `io_size` (without it: `size`) times `loops`, whichever is first. The
//! number of loops is `loops`; with `io_size`, further loops follow until it is reached. A time-based job loops
//! forever. A buffered job drops the cached pages of its files before each loop but the first, because fio closes the
//! files between loops. A time-based job, which begins a file again without another loop, drops them only with
//! `invalidate=1`.

use crate::job::{Direction, Job, Mix, Pattern};
use crate::random::{Purpose, Seed};
use crate::workload::direction_mix::DirectionMix;
use crate::workload::length::Lengths;
use crate::workload::offsets::FileOffsets;
use crate::workload::region::{File, Regions, block_max};
use crate::workload::series::Series;
use crate::workload::{Io, WorkloadError};
use flashlab_sim::{FileId, Instant, Rng};

/// A request without its time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct UntimedRequest {
    pub(crate) direction: Direction,
    pub(crate) file: FileId,
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

/// A flush that a job has to submit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Flush {
    pub(crate) file: FileId,
    /// Offset of the previous request, which fio logs.
    pub(crate) offset: u64,
    /// True for `fdatasync`, false for `fsync`.
    pub(crate) data_only: bool,
}

impl Flush {
    /// Returns the flush as a write of zero bytes that was submitted at `at`.
    pub(crate) fn io(&self, at: Instant) -> Io {
        let Flush { file, offset, .. } = *self;
        Io { direction: Direction::Write, file, offset, length: 0, ready: at, issued: at }
    }
}

/// State and rules for the choice of the next request in a file.
#[derive(Clone, Debug)]
struct Choice {
    pattern: Pattern,
    /// True if all requests are random, false if none is. `None` if this is decided per request.
    all_random: Option<bool>,
    percentage_random: [u64; 3],
    /// A random offset is drawn every `draw_interval` requests. `until_draw` counts down to the next draw.
    draw_interval: u32,
    until_draw: u32,
    time_based: bool,
    lengths: [Lengths; 3],
    offsets: Rng,
    sizes: Rng,
    sequence: Rng,
}

/// The choice of the next direction.
#[derive(Clone, Debug)]
enum DirectionChoice {
    Only(Direction),
    Mixed(DirectionMix),
    /// Each range is trimmed, then written.
    TrimWrite,
}

/// The requests of one job.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    direction_choice: DirectionChoice,
    file_offsets: Vec<FileOffsets>,
    /// Index of the next file, if there are several.
    next_file: usize,
    choice: Choice,
    /// The current series, if requests can come in series.
    series: Option<Series>,
    repeat: bool,
    seed: Seed,

    /// True if the job flushes at all. Only then is its last request tracked.
    flushes: bool,
    fsync: u64,
    fdatasync: u64,
    flushed_last: bool,
    writes: u64,
    /// File and offset of the last request.
    last: (FileId, u64),

    /// Remaining bytes and requests. When either is used up, the job ends. The bytes of trims that are followed by
    /// writes do not count.
    bytes_left: u64,
    requests_left: u64,
    /// Initial limits; `requests_left_before` is the value of `requests_left` at the start of the loop.
    bytes_max: u64,
    requests_left_before: u64,
    requests_max: u64,
    /// Number of bytes after which no further loop begins.
    bytes_target: u64,
    io_size_given: bool,
    block_max: u64,
    loops_left: u64,
    /// Bytes of the trims that are followed by writes.
    trimmed: u64,
    /// True if the requests go through a page cache. The pages of a file are dropped there between two loops.
    buffered: bool,
    /// True if a time-based job drops cached pages when it begins a file again.
    invalidates: bool,
    /// Files whose cached pages are dropped before the next request.
    to_invalidate: Vec<FileId>,
}

impl Choice {
    fn new(job: &Job, seed: Seed) -> Choice {
        let pattern = job.pattern;
        let percentage_random = job.percentage_random.map(u64::from);
        let draw_interval = pattern.sequence.max(1);
        let always = || pattern.mix.directions().iter().all(|&d| percentage_random[d as usize] >= 100);
        Choice {
            pattern,
            all_random: match pattern.random {
                false => Some(false),
                true => (draw_interval == 1 && always()).then_some(true),
            },
            percentage_random,
            draw_interval,
            until_draw: 1,
            time_based: job.time_based,
            lengths: Direction::ALL.map(|d| Lengths::from_block_size(&job.block_size[d as usize])),
            offsets: seed.rng(Purpose::Offset, 0),
            sizes: seed.rng(Purpose::Length, 0),
            sequence: seed.rng(Purpose::Sequence, 0),
        }
    }

    /// Restarts the generators, so that the numbers repeat.
    fn repeat(&mut self, seed: Seed) {
        self.offsets = seed.rng(Purpose::Offset, 0);
        self.sizes = seed.rng(Purpose::Length, 0);
        self.sequence = seed.rng(Purpose::Sequence, 0);
    }

    /// Returns the next request in a file, or `None` if nothing is left in it.
    #[inline]
    fn next(&mut self, file: &mut FileOffsets, direction: Direction) -> Option<(u64, u64)> {
        let is_random = match self.all_random {
            Some(all) => all,
            None => self.is_next_random(direction),
        };
        let (lengths, wrapping) = (&self.lengths[direction as usize], self.time_based);
        if !is_random {
            let found = file.sequential(&self.pattern, direction, lengths, wrapping, &mut self.sizes);
            if found.is_some() || !self.pattern.random {
                return found;
            }
        }
        file.random(direction, lengths, wrapping, &mut self.offsets, &mut self.sizes)
    }

    /// Returns the next request of `trimwrite`: a trim, or the write of the trimmed range.
    #[cold]
    fn trim_or_write(&mut self, file: &mut FileOffsets, direction: Direction) -> Option<(u64, u64)> {
        if direction == Direction::Write {
            return file.trimmed.take();
        }
        file.trimmed = self.next(file, direction);
        file.trimmed
    }

    /// Returns true if the next request of a random pattern is random. `draw_interval` and `percentage_random` decide
    /// this.
    fn is_next_random(&mut self, direction: Direction) -> bool {
        self.until_draw -= 1;
        if self.until_draw > 0 {
            return false;
        }
        self.until_draw = self.draw_interval;
        let percent = self.percentage_random[direction as usize];
        percent >= 100 || self.sequence.below(100) < percent
    }
}

impl Stream {
    /// Returns the stream of a job. With `has_no_checks`, the job has nothing to check between two requests.
    pub(crate) fn new(
        job: &Job,
        files: &[File],
        (number, entropy): (u32, u64),
        has_no_checks: bool,
    ) -> Result<Stream, WorkloadError> {
        let Regions { regions, size, io_size } = Regions::new(job, files)?;
        let seed = Seed::for_job(job, number, entropy);
        let is_only_file = regions.len() == 1;
        let file_offsets = regions
            .iter()
            .enumerate()
            .map(|(index, &region)| FileOffsets::new(job, region, index, seed, is_only_file))
            .collect();
        let loops = job.loops.max(1);
        let bytes_target = io_size.unwrap_or(size);
        let bytes_max = bytes_target.saturating_mul(loops);
        let number = job.number_ios.filter(|&n| n > 0 && !job.time_based);
        // As in fio, the number counts pairs of a trim and a write.
        let requests_per_io = if job.pattern.mix == Mix::TrimWrite { 2 } else { 1 };
        let requests_max =
            number.map_or(u64::MAX, |n| n.saturating_mul(loops).saturating_mul(requests_per_io));
        let used = job.pattern.mix.directions();
        let flushes = job.fsync > 0 || job.fdatasync > 0 || job.fsync_on_close || job.end_fsync;
        let choice = Choice::new(job, seed);
        let series = match (used, &regions[..]) {
            (&[only], [region])
                if has_no_checks && !flushes && !job.buffered && choice.all_random == Some(true) =>
            {
                Series::new(only, region.file, &job.block_size[only as usize])
            }
            _ => None,
        };
        Ok(Stream {
            direction_choice: match job.pattern.mix {
                Mix::Read => DirectionChoice::Only(Direction::Read),
                Mix::Write => DirectionChoice::Only(Direction::Write),
                Mix::Trim => DirectionChoice::Only(Direction::Trim),
                Mix::ReadWrite => DirectionChoice::Mixed(DirectionMix::new(job.rw_mix_read, seed)),
                Mix::TrimWrite => DirectionChoice::TrimWrite,
            },
            file_offsets,
            next_file: 0,
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
            bytes_target,
            io_size_given: io_size.is_some(),
            block_max: block_max(job),
            loops_left: loops - 1,
            trimmed: 0,
            buffered: job.buffered,
            invalidates: job.buffered && job.invalidate,
            to_invalidate: Vec::new(),
        })
    }

    /// Returns true if the job has made all its requests.
    #[inline]
    pub(crate) fn has_reached_limits(&self) -> bool {
        (self.bytes_left == 0 || self.requests_left == 0) && !self.choice.time_based
    }

    /// Returns the fraction of its bytes or requests that the job has made; 0 if only time ends the job.
    pub(crate) fn share_requested(&self) -> f64 {
        if self.choice.time_based {
            return 0.0;
        }
        let share = |left: u64, most: u64| 1.0 - left as f64 / most.max(1) as f64;
        share(self.bytes_left, self.bytes_max).max(share(self.requests_left, self.requests_max))
    }

    /// Returns the flush that is due before the next request. fio counts writes, and checks after every request.
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

    /// Returns the flushes at the end of a loop, one per file.
    pub(crate) fn flushes_at_end(&mut self) -> Vec<Flush> {
        let writes = self.choice.pattern.mix.directions().contains(&Direction::Write);
        if self.flushed_last || !writes {
            return Vec::new();
        }
        self.flushed_last = true;
        let (_, offset) = self.last;
        self.file_offsets
            .iter()
            .map(|file| Flush { file: file.region.file, offset, data_only: false })
            .collect()
    }

    /// Returns the direction of the next request.
    #[inline]
    pub(crate) fn direction(&mut self) -> Direction {
        match &mut self.direction_choice {
            DirectionChoice::Only(direction) => *direction,
            DirectionChoice::Mixed(mix) => mix.next(),
            DirectionChoice::TrimWrite => self.direction_of_range(),
        }
    }

    /// Returns a write if the range of the next file is trimmed, and otherwise a trim.
    fn direction_of_range(&self) -> Direction {
        let (before, from_next) = self.file_offsets.split_at(self.next_file);
        let next = from_next.iter().chain(before).find(|file| !file.done);
        let is_trimmed = next.is_some_and(|file| file.trimmed.is_some());
        if is_trimmed { Direction::Write } else { Direction::Trim }
    }

    /// Returns true if each range is trimmed before it is written.
    #[inline]
    fn trims_first(&self) -> bool {
        matches!(self.direction_choice, DirectionChoice::TrimWrite)
    }

    /// Returns true if requests can come in series.
    pub(crate) fn has_series(&self) -> bool {
        self.series.is_some()
    }

    /// Returns the next request of the series, or `None` if limits and the kind of request must be checked again.
    #[inline]
    pub(crate) fn next_in_series(&mut self) -> Option<UntimedRequest> {
        self.series.as_mut()?.next()
    }

    /// Begins a series if the limits leave room for all of it, and returns its first request.
    fn begin_series(&mut self) -> Option<UntimedRequest> {
        let series = self.series.as_mut()?;
        let bytes = series.bytes();
        let is_allowed =
            self.requests_left >= Series::REQUESTS && (self.bytes_left >= bytes || self.choice.time_based);
        if !is_allowed {
            return None;
        }
        let DirectionChoice::Only(direction) = self.direction_choice else { return None };
        series.begin(self.file_offsets[0].take_group(direction, &mut self.choice.offsets)?);
        self.requests_left -= Series::REQUESTS;
        self.bytes_left = self.bytes_left.saturating_sub(bytes);
        series.next()
    }

    /// Returns the next request in `direction`, or `None` at the end of a loop. Files take turns; files without
    /// remaining requests are skipped.
    #[inline]
    pub(crate) fn next_request(&mut self, direction: Direction) -> Option<UntimedRequest> {
        if let Some(request) = self.begin_series() {
            return Some(request);
        }
        let files = self.file_offsets.len();
        let trims_first = self.trims_first();
        for _ in 0..files {
            let file = &mut self.file_offsets[self.next_file];
            self.next_file += 1;
            if self.next_file == files {
                self.next_file = 0;
            }
            if file.done {
                continue;
            }
            let found = if trims_first {
                self.choice.trim_or_write(file, direction)
            } else {
                self.choice.next(file, direction)
            };
            let Some((offset, length)) = found else {
                file.done = true;
                continue;
            };
            let request = UntimedRequest { direction, file: file.region.file, offset, length };
            if self.invalidates && file.take_wrapped() {
                self.to_invalidate.push(request.file);
            }
            self.count(&request);
            return Some(request);
        }
        None
    }

    #[inline]
    fn count(&mut self, request: &UntimedRequest) {
        self.requests_left -= 1;
        if let DirectionChoice::Mixed(mix) = &mut self.direction_choice {
            mix.count(request.direction);
        }
        if self.trims_first() && request.direction == Direction::Trim {
            self.trimmed = self.trimmed.saturating_add(request.length);
        } else {
            self.bytes_left = self.bytes_left.saturating_sub(request.length);
        }
        if self.flushes {
            self.writes += u64::from(request.direction == Direction::Write);
            self.flushed_last = false;
            self.last = (request.file, request.offset);
        }
    }

    /// Returns the offsets of upcoming requests, as far as they are known. Each offset is returned once.
    #[inline]
    pub(crate) fn upcoming(&mut self) -> (FileId, &[u64]) {
        match &mut self.file_offsets[..] {
            [file] => (file.region.file, file.upcoming()),
            _ => (FileId::DEVICE, &[]),
        }
    }

    /// Returns a file whose cached pages the job has to drop before it submits its next request.
    #[inline]
    pub(crate) fn next_to_invalidate(&mut self) -> Option<FileId> {
        self.to_invalidate.pop()
    }

    /// Begins the next loop, if there is one.
    pub(crate) fn begin_another_loop(&mut self) -> bool {
        if self.requests_left == self.requests_left_before || !self.take_another_loop() {
            return false;
        }
        self.requests_left_before = self.requests_left;
        // As in fio, a flush that was due at the end of the previous loop is due again.
        self.flushed_last = false;
        for file in &mut self.file_offsets {
            file.restart(self.repeat);
            if self.buffered {
                self.to_invalidate.push(file.region.file);
            }
        }
        self.next_file = 0;
        let seed = self.repeat.then_some(self.seed);
        if let DirectionChoice::Mixed(mix) = &mut self.direction_choice {
            mix.begin_another_loop(seed);
        }
        if let Some(seed) = seed {
            self.choice.repeat(seed);
        }
        true
    }

    fn take_another_loop(&mut self) -> bool {
        if self.choice.time_based {
            return true;
        }
        if self.has_reached_limits() {
            return false;
        }
        if self.loops_left > 0 {
            self.loops_left -= 1;
            return true;
        }
        let transferred = (self.bytes_max - self.bytes_left).saturating_add(self.trimmed);
        let left = self.bytes_target.saturating_sub(transferred);
        self.io_size_given && left > 0 && left >= self.block_max
    }

    /// Ends the ramp. From here on, fio counts the writes for `fsync` and the requests for `number_ios`. The latter
    /// include the `unreaped` requests in flight.
    pub(crate) fn ramp_over(&mut self, unreaped: u64) {
        self.writes = 0;
        if let DirectionChoice::Mixed(mix) = &mut self.direction_choice {
            mix.ramp_over();
        }
        if let Some(series) = &mut self.series {
            let (left, bytes) = series.end();
            self.file_offsets[0].put_back(left);
            self.bytes_left = self.bytes_left.saturating_add(bytes);
        }
        self.requests_left = self.requests_max.saturating_sub(unreaped);
        // The current loop has already made requests.
        self.requests_left_before = 0;
    }
}
