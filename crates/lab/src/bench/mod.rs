//! A test bench: one device, with or without a filesystem, on which fio jobs run in simulated time.
//!
//! The device keeps its state from one run to the next, and simulated time continues. As in fio, files are laid out
//! before a wave of jobs begins: outside the timed window, but simulated like everything else.

mod alignment;
mod buffered;
mod error;
mod hints;
mod runner;
mod steps;
mod stoppable;
mod trace;
mod work;

pub use buffered::Unmodelled;
pub use error::{BenchError, RecordingError, refusal};
pub(crate) use hints::reads_unwritten;
pub use hints::{Hint, hints};
pub use steps::{InFlight, Steps};
pub use trace::Trace;
pub use work::work;

use crate::files::{self, Files};
use crate::progress::Progress;
use crate::statistics::{Counters, Wear};
use crate::verify_phase::{self, WriteRecorder, WrittenRanges};
use crate::watched::Probe;
use crate::write_first::{self, Prepared, WriteFirst};
use flashlab_block::Ranges;
use flashlab_catalogue::device::Device;
use flashlab_fio::iolog::{Action, Entry, Iolog, IologRecorder, Version};
use flashlab_fio::job::{BlockSize, Engine, Extent, Fallocate, Job, Mix, Pattern};
use flashlab_fio::stats::{Settings, Statistics};
use flashlab_fio::workload::{File, Jobs, Record, Task, file_bytes};
use flashlab_host::fs::Allocate;
use flashlab_host::{Filesystem, FilesystemParameters, PageCache, PageCacheParameters};
use flashlab_recording::{Replay, ReplayJob, Source};
use flashlab_sim::{Duration, FileId, Instant, Model};
use runner::{Plain, Runner, Watching, run_wave};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use stoppable::{Wave, WaveProgress};
use work::work_of;

/// A device on the bench.
#[derive(Clone)]
pub struct Bench {
    stack: Stack,
    /// Time for which the device was used before simulated time began.
    used_before: Duration,
    now: Instant,
    /// Names of the files on the filesystem, or on the bare device. A file's number is its index in this list.
    files: Vec<String>,
    /// The traces that `read_iolog=` refers to, by name.
    traces: BTreeMap<String, Trace>,
    /// True if the device stores bytes and verifies each read.
    has_bytes: bool,
    /// Ranges of the bare device that [`Bench::write_before_read`] skips, because an earlier call or the jobs
    /// prepared by that call wrote them.
    written: Ranges,
    progress: Progress,
    /// Parameters of the host's page cache, from the host's profile.
    page_cache: PageCacheParameters,
    /// The page cache of buffered jobs. Between two waves it holds no pages.
    cache: Option<Box<PageCache>>,
}

#[derive(Clone)]
enum Stack {
    Device(Box<dyn Model>),
    Files(Box<Files>),
    Filesystem(Box<dyn Filesystem>),
}

impl Bench {
    /// Returns a bench with `device` in its present state, at the beginning of simulated time.
    pub fn new(device: Box<dyn Model>) -> Self {
        Bench {
            stack: Stack::Device(device),
            used_before: Duration::ZERO,
            now: Instant::ZERO,
            files: Vec::new(),
            traces: BTreeMap::new(),
            has_bytes: false,
            written: Ranges::default(),
            progress: Progress::default(),
            page_cache: PageCacheParameters::default(),
            cache: None,
        }
    }

    /// Returns a bench with `device`, which stores bytes and verifies each read. Its jobs may use `verify=`.
    pub fn of_bytes(device: Box<dyn Model>) -> Self {
        Bench { has_bytes: true, ..Bench::new(device) }
    }

    /// Returns a bench with a new `device` whose medium `seed` draws, or with `device` in the state that its argument
    /// names.
    pub fn with(device: &Device, seed: u64) -> Self {
        Bench { used_before: device.used_time(), ..Bench::new(device.build(seed)) }
            .with_page_cache(*device.page_cache())
    }

    /// Replaces the device of this bench with `device`, whose state equals that of the device of `earlier`.
    pub(crate) fn continue_with(&mut self, device: Box<dyn Model>, earlier: &Bench) {
        let (written, page_cache) = (earlier.written.clone(), self.page_cache);
        *self = Bench { written, page_cache, ..Bench::new(device) };
    }

    /// Returns this bench with the page cache of a host, for buffered jobs.
    pub fn with_page_cache(self, page_cache: PageCacheParameters) -> Self {
        Bench { page_cache, ..self }
    }

    /// Returns true if a job replays a recording, whose requests are those below the page cache.
    fn replays_recording(&self, job: &Job) -> bool {
        let trace = job.read_iolog.as_ref().and_then(|name| self.traces.get(name));
        trace.is_some_and(|trace| trace.recording().is_some())
    }

    /// Adds an iolog that jobs refer to as `read_iolog=name`.
    pub fn load_iolog(&mut self, name: &str, iolog: Iolog) {
        self.load_trace(name, Trace::Iolog(iolog));
    }

    /// Adds a trace that jobs refer to as `read_iolog=name`.
    pub fn load_trace(&mut self, name: &str, trace: Trace) {
        self.traces.insert(name.to_owned(), trace);
    }

    /// Reports all later runs to `progress`. The stop flag of `progress` ends the jobs: the statistics
    /// include their requests up to that point, and later waves do not begin.
    pub fn report_to(&mut self, progress: &Progress) {
        self.progress = progress.clone();
    }

    /// Returns true if the user has stopped the run, so that its figures are incomplete.
    pub fn is_stopped(&self) -> bool {
        self.progress.is_stopped()
    }

    /// Returns true if the device has been formatted.
    pub(crate) fn has_filesystem(&self) -> bool {
        matches!(self.stack, Stack::Filesystem(_))
    }

    /// Writes the ranges of the bare device that `jobs` read before they write them, once and in ascending
    /// order. Skips ranges that were written for earlier jobs or by earlier jobs. If anything was written,
    /// the device then idles for ten seconds. Returns the number of bytes written.
    pub fn write_before_read(&mut self, jobs: &[Job]) -> Result<u64, BenchError> {
        self.prepare(jobs, WriteFirst::Read).map(|prepared| prepared.bytes)
    }

    /// Writes the ranges of the bare device that `write_first` chooses for `jobs`, as [`Bench::write_before_read`] does.
    /// If all jobs replay recordings, there is no idle time, as in `recording replay`.
    pub fn prepare(&mut self, jobs: &[Job], write_first: WriteFirst) -> Result<Prepared, BenchError> {
        let nothing = Prepared { write_first, ..Prepared::default() };
        let Stack::Device(device) = &self.stack else { return Ok(nothing) };
        let geometry = device.geometry();
        let mut written = self.written.clone();
        let ranges = match write_first {
            WriteFirst::Nothing => return Ok(nothing),
            WriteFirst::Read => write_first::read_ranges(jobs, &self.traces, &geometry, &mut written),
            WriteFirst::Used => write_first::used_ranges(jobs, &self.traces, &geometry, &mut written),
        };
        let mut before_jobs = self.written.clone();
        ranges.iter().for_each(|range| before_jobs.add(range.clone()));
        let random_writer = write_first::random_writer(jobs, &geometry, &before_jobs);
        let bytes = self.write_ranges(ranges, written)?;
        if bytes > 0 && !jobs.iter().all(|job| self.is_recording(job)) {
            self.pause(IDLE_TIME);
        }
        Ok(Prepared { write_first, bytes, random_writer })
    }

    fn is_recording(&self, job: &Job) -> bool {
        let trace = job.read_iolog.as_ref().and_then(|name| self.traces.get(name));
        trace.is_some_and(|trace| trace.recording().is_some())
    }

    /// Writes `ranges` in ascending order. Returns the number of bytes. `written` are the ranges that need not be written for
    /// later jobs.
    fn write_ranges(&mut self, ranges: Vec<Range<u64>>, mut written: Ranges) -> Result<u64, BenchError> {
        ranges.iter().for_each(|range| written.add(range.clone()));
        let bytes = ranges.iter().map(|range| range.end - range.start).sum();
        if bytes == 0 {
            self.written = written;
            return Ok(0);
        }
        self.progress.enter(PRECONDITION_PHASE);
        let entry = |at: u64, end: u64| Entry {
            at: Duration::ZERO,
            action: Action::Write,
            file: 0,
            offset: at,
            length: PRECONDITION_REQUEST_BYTES.min(end - at),
        };
        let pieces = |range: Range<u64>| {
            let end = range.end;
            range.step_by(PRECONDITION_REQUEST_BYTES as usize).map(move |at| entry(at, end))
        };
        let iolog = Iolog {
            version: Version::Three,
            files: vec!["device".into()],
            entries: ranges.into_iter().flat_map(pieces).collect(),
        };
        let job = Job {
            name: PRECONDITION_PHASE.into(),
            pattern: Pattern { mix: Mix::Write, ..Job::default().pattern },
            block_size: [(); 3].map(|()| BlockSize::Fixed(PRECONDITION_REQUEST_BYTES)),
            size: Some(Extent::Bytes(bytes)),
            engine: Engine::Asynchronous,
            depth: 16,
            read_iolog: Some(PRECONDITION_PHASE.into()),
            replay_no_stall: true,
            ..Job::default()
        };
        let device = File { id: FileId::DEVICE, size: self.device().geometry().capacity };
        let task = Task { job: &job, files: vec![device], number: 0, entropy: 0, iolog: Some(iolog) };
        self.progress.plan(work_of(&job, device.size));
        let jobs = std::slice::from_ref(&job);
        let mut statistics = Statistics::new(jobs, &Settings::default());
        self.run_wave(vec![task], statistics.wave(0..1))?;
        if let Some(refused) = refusal(&statistics.reports(jobs)) {
            return Err(refused);
        }
        self.progress.enter("");
        self.written = written;
        Ok(bytes)
    }

    /// Formats the device unless it already has a filesystem.
    pub fn format_once(&mut self, parameters: &FilesystemParameters) -> Result<(), BenchError> {
        if let Stack::Device(device) = &self.stack {
            let formatted = parameters.format(device.clone(), self.now);
            let (filesystem, now) = formatted.ok_or(BenchError::TooSmall)?;
            self.stack = Stack::Filesystem(filesystem);
            self.now = now;
        }
        Ok(())
    }

    /// Removes all files if the device has a filesystem.
    pub(crate) fn remove_files(&mut self) {
        if let Stack::Filesystem(filesystem) = &mut self.stack {
            for file in 0..self.files.len() {
                self.now = filesystem.remove(self.now, FileId(file as u32));
            }
        }
    }

    /// Removes the files of the jobs that set `unlink`, if the device has a filesystem.
    fn unlink(&mut self, wave: &[Job]) {
        let Stack::Filesystem(filesystem) = &mut self.stack else { return };
        for name in wave.iter().filter(|job| job.unlink).flat_map(|job| &job.files) {
            if let Some(number) = self.files.iter().position(|known| known == name) {
                self.now = filesystem.remove(self.now, FileId(number as u32));
            }
        }
    }

    /// Runs `jobs`, one wave after the other, and returns their statistics.
    pub fn run(&mut self, jobs: &[Job], settings: &Settings) -> Result<Statistics, BenchError> {
        self.run_recorded(jobs, settings).map(|(statistics, _)| statistics)
    }

    /// Runs `jobs` and calls `probe` with the instant and the device after every `interval` requests. If `probe`
    /// returns false, the jobs end early. This function neither verifies writes nor records iologs.
    pub(crate) fn run_watched(
        &mut self,
        jobs: &[Job],
        interval: u64,
        probe: &mut Probe<'_>,
    ) -> Result<Statistics, BenchError> {
        let mut statistics = Statistics::new(jobs, &Settings::default());
        let stop = AtomicBool::new(false);
        for wave in waves(jobs) {
            if self.is_stopped() {
                break;
            }
            let watching = Watching { probe: &mut *probe, interval, stop: &stop };
            match self.recording_of(&jobs[wave.clone()])? {
                Some(source) => {
                    self.replay(&jobs[wave.start], &source, statistics.wave(wave), watching)?;
                }
                None => {
                    let tasks = self.tasks(jobs, wave.clone())?;
                    self.run_wave_by(tasks, statistics.wave(wave), watching)?;
                }
            }
            if stop.load(Ordering::Relaxed) {
                break;
            }
        }
        Ok(statistics)
    }

    /// Lays out the files of a wave of jobs and returns its tasks.
    pub(crate) fn tasks<'a>(
        &mut self,
        jobs: &'a [Job],
        wave: Range<usize>,
    ) -> Result<Vec<Task<'a>>, BenchError> {
        let mut tasks = Vec::new();
        self.prepare_cache(&jobs[wave.clone()])?;
        for (number, job) in wave.clone().zip(&jobs[wave]) {
            if job.verify.method().is_some() && !self.has_bytes {
                return Err(BenchError::NoBytes { job: job.name.clone() });
            }
            if !job.buffered {
                alignment::check(job, self.model().geometry().block)?;
            }
            let files = self.files_of(job)?;
            let iolog = job.read_iolog.as_ref().and_then(|name| self.traces.get(name)?.iolog()).cloned();
            tasks.push(Task { job, files, number: number as u32, entropy: self.used().as_ns(), iolog });
        }
        Ok(tasks)
    }

    /// Runs `jobs` like [`Bench::run`]. Also returns the text of each iolog that a job requests with `write_iolog=`, by
    /// job number.
    pub fn run_recorded(
        &mut self,
        jobs: &[Job],
        settings: &Settings,
    ) -> Result<(Statistics, BTreeMap<usize, String>), BenchError> {
        let mut statistics = Statistics::new(jobs, settings);
        let mut iologs = BTreeMap::new();
        for wave in waves(jobs) {
            if self.is_stopped() {
                break;
            }
            if let Some(source) = self.recording_of(&jobs[wave.clone()])? {
                let text = self.replay_recorded(&jobs[wave.start], &source, statistics.wave(wave.clone()))?;
                iologs.extend(text.map(|text| (wave.start, text)));
                continue;
            }
            let tasks = self.tasks(jobs, wave.clone())?;
            if jobs[wave.clone()].iter().any(verify_phase::has_verify_phase) {
                self.run_verified(jobs, wave.clone(), tasks, &mut statistics)?;
                self.unlink(&jobs[wave]);
                continue;
            }
            let record = statistics.wave(wave.clone());
            if jobs[wave.clone()].iter().all(|job| job.write_iolog.is_none()) {
                self.run_wave(tasks, record)?;
                self.unlink(&jobs[wave]);
                continue;
            }
            let named = |(task, job): (&Task<'_>, &Job)| {
                let names = job.files.iter().cloned().chain(std::iter::repeat(job.name.clone()));
                task.files.iter().map(|file| file.id).zip(names).collect()
            };
            let names = tasks.iter().zip(&jobs[wave.clone()]).map(named).collect();
            let recorder = self.run_wave(tasks, IologRecorder::new(Version::Three, names, record))?;
            let (_, texts) = recorder.finish();
            self.unlink(&jobs[wave.clone()]);
            iologs.extend(wave.zip(texts).filter(|(n, _)| jobs[*n].write_iolog.is_some()));
        }
        Ok((statistics, iologs))
    }

    /// Runs a wave. Afterwards, its jobs that have a verify phase read back their writes concurrently.
    fn run_verified(
        &mut self,
        jobs: &[Job],
        wave: Range<usize>,
        tasks: Vec<Task<'_>>,
        statistics: &mut Statistics,
    ) -> Result<(), BenchError> {
        if let Some(job) = jobs[wave.clone()].iter().find(|job| job.write_iolog.is_some()) {
            return Err(BenchError::IologOfVerify { job: job.name.clone() });
        }
        let begin = self.now;
        let files: Vec<Vec<File>> = tasks.iter().map(|task| task.files.clone()).collect();
        let recorder = WriteRecorder::new(tasks.len(), statistics.wave(wave.clone()));
        let (_, written) = self.run_wave(tasks, recorder)?.finish();
        if self.is_stopped() {
            return Ok(());
        }
        let ran = self.now.since(begin);
        let due: Vec<usize> = wave.clone().filter(|n| verify_phase::has_verify_phase(&jobs[*n])).collect();
        let readers: Vec<Job> = due.iter().map(|n| verify_phase::job(&jobs[*n], ran)).collect();
        let tasks = due.iter().zip(&readers).map(|(number, job)| {
            let (files, written): (&Vec<File>, &WrittenRanges) =
                (&files[number - wave.start], &written[number - wave.start]);
            let ids: Vec<FileId> = files.iter().map(|file| file.id).collect();
            let iolog = Some(written.to_read(&ids));
            Task { job, files: files.clone(), number: *number as u32, entropy: 0, iolog }
        });
        let tasks = tasks.collect();
        let mut later = Statistics::new(&readers, &Settings::default());
        self.run_wave(tasks, later.wave(0..readers.len()))?;
        for (n, job) in due.into_iter().enumerate() {
            statistics.append(job, &later, n);
        }
        Ok(())
    }

    /// Returns the recording that the jobs of a wave replay, if any. A recording runs alone, on the bare
    /// device.
    fn recording_of(&self, wave: &[Job]) -> Result<Option<Source>, BenchError> {
        let source = |job: &Job| self.traces.get(job.read_iolog.as_ref()?)?.recording();
        let Some((job, source)) = wave.iter().find_map(|job| Some((job, source(job)?))) else {
            return Ok(None);
        };
        trace::check(job, source, self.device().geometry().capacity)?;
        let fault = |error| BenchError::Recording { job: job.name.clone(), error };
        if wave.len() > 1 {
            let clones = wave.iter().all(|other| other.name == job.name);
            return Err(fault(RecordingError::NotAlone { clones }));
        }
        match self.stack {
            Stack::Device(_) => Ok(Some(source.clone())),
            Stack::Files(_) | Stack::Filesystem(_) => Err(fault(RecordingError::OnFiles)),
        }
    }

    /// Replays `source`. Returns the text of the iolog if the job requests one with `write_iolog=`.
    fn replay_recorded<R: Record>(
        &mut self,
        job: &Job,
        source: &Source,
        record: R,
    ) -> Result<Option<String>, BenchError> {
        if job.write_iolog.is_none() {
            self.replay(job, source, record, Plain)?;
            return Ok(None);
        }
        let name = job.files.first().unwrap_or(&job.name).clone();
        let names = vec![[(FileId::DEVICE, name)].into()];
        let recorder = IologRecorder::new(Version::Three, names, record);
        let (_, mut texts) = self.replay(job, source, recorder, Plain)?.finish();
        Ok(texts.pop())
    }

    fn replay<R: Record>(
        &mut self,
        job: &Job,
        source: &Source,
        record: R,
        runner: impl Runner,
    ) -> Result<R, BenchError> {
        let begin = self.now;
        if begin > END {
            return Err(BenchError::TooLong);
        }
        let fault = |problem: String| BenchError::Recording {
            job: job.name.clone(),
            error: RecordingError::Faulty(problem),
        };
        let steps = source.steps().map_err(|error| fault(error.to_string()))?;
        let replay = Replay::new(steps, trace::mode(job, source), begin);
        let until = job.runtime.map(|runtime| begin.saturating_add(runtime));
        let replay = ReplayJob::new(replay, source.summary().requests(), begin, record).until(until);
        let work = work_of(job, self.device().geometry().capacity);
        let progress = WaveProgress::new(self.progress.clone(), work, begin);
        let (replay, last) = self.run_workload(replay, progress, runner)?;
        let (steps, record) = replay.finish().map_err(|error| fault(error.to_string()))?;
        if let Some(error) = steps.error() {
            return Err(fault(error.to_string()));
        }
        self.now = last;
        Ok(record)
    }

    fn run_wave<R: Record>(&mut self, tasks: Vec<Task<'_>>, record: R) -> Result<R, BenchError> {
        self.run_wave_by(tasks, record, Plain)
    }

    fn run_wave_by<R: Record>(
        &mut self,
        tasks: Vec<Task<'_>>,
        record: R,
        runner: impl Runner,
    ) -> Result<R, BenchError> {
        let begin = self.now;
        let latest = |task: &Task<'_>| Some(task.iolog.as_ref()?.entries.last()?.at);
        if begin > END || tasks.iter().filter_map(latest).any(|at| at > END.since(Instant::ZERO)) {
            return Err(BenchError::TooLong);
        }
        let capacity = self.device().geometry().capacity;
        let is_buffered = tasks.iter().any(|task| task.job.buffered);
        let work = tasks.iter().map(|task| work_of(task.job, capacity)).sum();
        let jobs = Jobs::new(begin, tasks, record).map_err(BenchError::Workload)?;
        let progress = WaveProgress::new(self.progress.clone(), work, begin);
        let (jobs, last) = if is_buffered {
            self.run_buffered(jobs, progress, runner)?
        } else {
            self.run_workload(jobs, progress, runner)?
        };
        self.now = jobs.end().unwrap_or(last).max(last);
        if is_buffered {
            self.close_cache();
        }
        Ok(jobs.into_record())
    }

    /// Runs a workload from now on. Returns the workload and the instant of the last event.
    fn run_workload<W: Wave>(
        &mut self,
        workload: W,
        progress: WaveProgress,
        runner: impl Runner,
    ) -> Result<(W, Instant), BenchError> {
        run_wave(self.now, workload, progress, |workload, begin| runner.run(self.model(), workload, begin))
    }

    /// Returns the counters of the device and of the layers above it.
    pub fn counters(&self) -> Counters {
        Counters::of(match &self.stack {
            Stack::Device(device) => device,
            Stack::Files(files) => &**files,
            Stack::Filesystem(filesystem) => &**filesystem,
        })
    }

    /// Returns the wear of the device's erase blocks, or `None` if its model reports no erase blocks.
    pub fn wear(&self) -> Option<Wear> {
        Wear::of(self.device())
    }

    /// Returns the device below the filesystem.
    pub fn device(&self) -> &dyn Model {
        match &self.stack {
            Stack::Device(device) => &**device,
            Stack::Files(files) => files.device(),
            Stack::Filesystem(filesystem) => filesystem.device(),
        }
    }

    /// Returns the current simulated instant.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Returns the time for which the device has been used, including its use before this bench.
    pub fn used(&self) -> Duration {
        self.used_before + self.now.since(Instant::ZERO)
    }

    /// Advances simulated time without submitting requests.
    pub fn pause(&mut self, time: Duration) {
        self.now = self.now.saturating_add(time);
    }

    /// Returns the device with the layers above it.
    pub(crate) fn model(&mut self) -> &mut dyn Model {
        match &mut self.stack {
            Stack::Device(device) => &mut **device,
            Stack::Files(files) => &mut **files,
            Stack::Filesystem(filesystem) => &mut **filesystem,
        }
    }

    /// Returns the files of a job. Lays out files that are missing or too short.
    fn files_of(&mut self, job: &Job) -> Result<Vec<File>, BenchError> {
        let name = || job.name.clone();
        if let (Stack::Device(device), Some(_)) = (&self.stack, &job.directory) {
            self.stack = Stack::Files(Box::new(Files::on(device.clone())));
        }
        match (&mut self.stack, &job.directory) {
            (Stack::Device(_) | Stack::Files(_), None) => {
                Ok(vec![File { id: FileId::DEVICE, size: self.model().geometry().capacity }])
            }
            (Stack::Device(_) | Stack::Files(_), Some(_)) => self.files_on_device(job),
            (Stack::Filesystem(_), None) => Err(BenchError::NoDirectory { job: name() }),
            (Stack::Filesystem(filesystem), Some(_))
                if matches!(job.pattern.mix, Mix::Trim | Mix::TrimWrite) && !filesystem.supports_trim() =>
            {
                Err(BenchError::NoTrim { job: name(), filesystem: filesystem.name() })
            }
            (Stack::Filesystem(filesystem), Some(_)) => {
                let mut files = Vec::new();
                for (n, file) in job.files.iter().enumerate() {
                    let id = FileId(number_of(&mut self.files, file) as u32);
                    let there = filesystem.size(id).unwrap_or(0);
                    let bytes = file_bytes(job, n, job.files.len());
                    let size = bytes
                        .or((there > 0).then_some(there))
                        .ok_or_else(|| BenchError::NoSize { job: name() })?;
                    if there < size {
                        let created = filesystem.create(self.now, id, size, allocate(job));
                        self.now =
                            created.map_err(|error| BenchError::NoRoom { file: file.clone(), error })?;
                    }
                    files.push(File { id, size });
                }
                Ok(files)
            }
        }
    }

    /// Returns the files of a job on the bare device. As in fio, new or extended files that the job reads or
    /// overwrites are written first.
    fn files_on_device(&mut self, job: &Job) -> Result<Vec<File>, BenchError> {
        let mut found = Vec::new();
        for (n, file) in job.files.iter().enumerate() {
            let number = number_of(&mut self.files, file);
            let Stack::Files(files) = &mut self.stack else { unreachable!("the caller put it there") };
            let there = files.size(number);
            let bytes = file_bytes(job, n, job.files.len()).or((there > 0).then_some(there));
            let size = bytes.ok_or_else(|| BenchError::NoSize { job: job.name.clone() })?;
            let id = Files::id(number);
            if there < size {
                files.create(number, size).map_err(|left| BenchError::NoSpace {
                    file: file.clone(),
                    size,
                    left,
                })?;
                if is_read_or_overwritten(job) {
                    self.fill(File { id, size })?;
                }
            }
            self.describe_file(job, id, size.max(there), there >= size);
            found.push(File { id, size: size.max(there) });
        }
        Ok(found)
    }

    /// Writes a file on the bare device once, in requests of [`files::ALIGNMENT`]. The part of the last request that
    /// lies beyond the end of the file belongs to no other file.
    fn fill(&mut self, file: File) -> Result<(), BenchError> {
        let bytes = files::ALIGNMENT;
        let file = File { size: file.size.next_multiple_of(bytes), ..file };
        let job = Job {
            pattern: Pattern { mix: Mix::Write, ..Job::default().pattern },
            block_size: [(); 3].map(|()| BlockSize::Fixed(bytes)),
            block_align: [bytes; 3],
            end_fsync: true,
            ..Job::default()
        };
        let task = Task { job: &job, files: vec![file], number: 0, entropy: 0, iolog: None };
        self.run_wave(vec![task], ())
    }
}

/// Returns the number of a file. Assigns the next number to a new file.
fn number_of(files: &mut Vec<String>, file: &str) -> usize {
    files.iter().position(|known| known == file).unwrap_or_else(|| {
        files.push(file.to_owned());
        files.len() - 1
    })
}

/// Name of the phase that writes the ranges that jobs read later.
const PRECONDITION_PHASE: &str = "writing data that is read later";
/// Length in bytes of the requests of the precondition phase.
const PRECONDITION_REQUEST_BYTES: u64 = 1 << 20;
/// Idle time after the precondition phase.
const IDLE_TIME: Duration = Duration::from_secs(10);

/// No job runs beyond this instant. An [`Instant`] has room beyond it for the delay, ramp, runtime and pause of a job
/// (at most a hundred years each).
const END: Instant = Instant::from_ns(YEARS * 365 * 86_400 * 1_000_000_000);
const YEARS: u64 = 150;

/// Returns how fio lays out a new file before the job runs. A file that the job reads or overwrites is written
/// completely. Otherwise `fallocate=` decides.
fn allocate(job: &Job) -> Allocate {
    match job.fallocate {
        _ if is_read_or_overwritten(job) => Allocate::Zeroed,
        // Setting the size makes vfat fill the file just as allocating it does.
        Fallocate::Native | Fallocate::Truncate => Allocate::Zeroed,
        Fallocate::Keep => Allocate::KeepSize,
        Fallocate::None => Allocate::Nothing,
    }
}

/// Returns true if fio writes a new file of the job completely before the job runs.
fn is_read_or_overwritten(job: &Job) -> bool {
    matches!(job.pattern.mix, Mix::Read | Mix::ReadWrite) || job.overwrite || job.read_iolog.is_some()
}

/// Returns the index ranges of the jobs that run together.
pub(crate) fn waves(jobs: &[Job]) -> Vec<Range<usize>> {
    let mut waves: Vec<Range<usize>> = Vec::new();
    for (n, job) in jobs.iter().enumerate() {
        match waves.last_mut() {
            Some(wave) if jobs[wave.start].wave == job.wave => wave.end = n + 1,
            _ => waves.push(n..n + 1),
        }
    }
    waves
}

#[cfg(test)]
mod tests {
    use super::*;
    use flashlab_catalogue::library::Library;
    use flashlab_fio::cmdline::Invocation;
    use flashlab_fio::loader::NoFiles;

    /// The second wave would fail, because the device stores no bytes.
    #[test]
    fn a_watched_run_that_is_stopped_begins_no_further_wave() {
        let line =
            "--size=64k --direct=1 --name=a --rw=write --name=b --stonewall --rw=write --verify=crc32c";
        let words: Vec<&str> = line.split(' ').collect();
        let jobs = Invocation::parse(&words, &NoFiles).expect("valid jobs").jobs;
        let library = Library::built_in().expect("the repository's own library");
        let device = Device::open("sd/kingston", &library).expect("a device of the library");
        let run = |is_stopped: bool| {
            let (mut bench, progress) = (Bench::with(&device, 1), Progress::default());
            bench.report_to(&progress);
            if is_stopped {
                progress.stop();
            }
            bench.run_watched(&jobs, 1000, &mut |_, _| true).map(drop)
        };
        assert!(matches!(run(false), Err(BenchError::NoBytes { .. })));
        assert!(run(true).is_ok());
    }
}
