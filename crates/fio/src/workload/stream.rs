//! The requests of a job in order, without time: directions, offsets, lengths, flushes, loops and limits.
//!
//! The rules are those of fio 3.33. A loop ends when the next offset would lie outside the region, or when
//! all blocks of the random map have been accessed. It also ends when the job reaches `number_ios` or its
//! limit in bytes, which is `io_size` (or else `size`) times `loops`. The number of loops is `loops`; with
//! `io_size`, further loops follow until that size is reached. A time-based job loops forever. A buffered job
//! drops the cached pages of its files before each loop except the first, because fio closes the files
//! between loops. A time-based job, which begins a file again without another loop, drops them only with
//! `invalidate=1`.

use crate::job::{Direction, Job, Mix, Pattern};
use crate::random::{Purpose, Seed};
use crate::workload::WorkloadError;
use crate::workload::direction_mix::DirectionMix;
use crate::workload::flushes::{Flush, Flushes};
use crate::workload::length::Lengths;
use crate::workload::offsets::FileOffsets;
use crate::workload::quota::Quota;
use crate::workload::region::{File, Regions};
use crate::workload::series::Series;
use flashlab_sim::{FileId, Rng};

/// A request without its time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct UntimedRequest {
    pub(crate) direction: Direction,
    pub(crate) file: FileId,
    pub(crate) offset: u64,
    pub(crate) length: u64,
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

    flushes: Flushes,
    quota: Quota,
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
    /// Returns the stream of a job. `has_no_checks` is true if the job has no rate and submits no batches.
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
        let used = job.pattern.mix.directions();
        let flushes = Flushes::new(job);
        let choice = Choice::new(job, seed);
        let series = match (used, &regions[..]) {
            (&[only], [region])
                if has_no_checks && !flushes.any() && !job.buffered && choice.all_random == Some(true) =>
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
            quota: Quota::new(job, size, io_size),
            buffered: job.buffered,
            invalidates: job.buffered && job.invalidate,
            to_invalidate: Vec::new(),
        })
    }

    /// Returns true if the job has made all its requests.
    #[inline]
    pub(crate) fn has_reached_limits(&self) -> bool {
        self.quota.is_used_up()
    }

    /// Returns the fraction of its bytes or requests that the job has made; 0 if only time ends the job.
    pub(crate) fn share_requested(&self) -> f64 {
        self.quota.share_used()
    }

    /// Returns the flush that is due before the next request. fio counts writes, and checks after every request.
    #[inline]
    pub(crate) fn flush_due(&mut self) -> Option<Flush> {
        self.flushes.due()
    }

    /// Returns the flushes at the end of a loop, one per file.
    pub(crate) fn flushes_at_end(&mut self) -> Vec<Flush> {
        let writes = self.choice.pattern.mix.directions().contains(&Direction::Write);
        if !writes {
            return Vec::new();
        }
        self.flushes.at_end(self.file_offsets.iter().map(|file| file.region.file))
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
        if !self.quota.admits(Series::REQUESTS, bytes) {
            return None;
        }
        let DirectionChoice::Only(direction) = self.direction_choice else { return None };
        series.begin(self.file_offsets[0].take_group(direction, &mut self.choice.offsets)?);
        self.quota.take(Series::REQUESTS, bytes);
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
        if let DirectionChoice::Mixed(mix) = &mut self.direction_choice {
            mix.count(request.direction);
        }
        self.quota.take_request(request);
        self.flushes.count(request);
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
        if !self.quota.take_loop() {
            return false;
        }
        self.flushes.begin_another_loop();
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

    /// Ends the ramp, with `unreaped` requests in flight.
    pub(crate) fn ramp_over(&mut self, unreaped: u64) {
        self.flushes.ramp_over();
        if let DirectionChoice::Mixed(mix) = &mut self.direction_choice {
            mix.ramp_over();
        }
        let mut unused = 0;
        if let Some(series) = &mut self.series {
            let (left, bytes) = series.end();
            self.file_offsets[0].put_back(left);
            unused = bytes;
        }
        self.quota.ramp_over(unreaped, unused);
    }
}
