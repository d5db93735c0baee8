//! A test bench: one device, with or without a filesystem, on which fio jobs run in simulated time.
//!
//! The device keeps its state from run to run, and time goes on. Files are laid out before a wave of jobs begins, as fio
//! does it: outside the timed window, but simulated like everything else.

use crate::device::Device;
use crate::files::{self, Files};
use crate::progress::Progress;
use crate::read_back::{self, Noting, Written};
use crate::read_first;
use crate::statistics::{Counters, Wear};
use crate::watched::{Look, Stoppable, Watched};
use flashlab_fio::iolog::{Action, Entry, Iolog, Recording, Version};
use flashlab_fio::job::{BlockSize, Direction, Engine, Extent, Fallocate, Job, Mix, Pattern};
use flashlab_fio::stats::{JobStats, Report, Settings, Statistics};
use flashlab_fio::workload::{Cause, File, Jobs, Record, Task, WorkloadError, file_bytes};
use flashlab_host::VfatParameters;
use flashlab_host::vfat::{Allocate, NoRoom, Vfat};
use flashlab_sim::{
    Arrival, Completion, Duration, FileId, Instant, Mechanism, Model, Request, Status, Workload,
};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// A device on the bench.
#[derive(Clone)]
pub struct Bench {
    stack: Stack,
    /// How long the device was used before the beginning of time.
    used_before: Duration,
    now: Instant,
    /// Names of the files on the filesystem, or on the device; a file's number is its place here.
    files: Vec<String>,
    /// The traces that `read_iolog=` names.
    iologs: BTreeMap<String, Iolog>,
    /// Whether what lies below has bytes, and judges them.
    has_bytes: bool,
    progress: Progress,
}

#[derive(Clone)]
enum Stack {
    Device(Box<dyn Model>),
    Files(Box<Files>),
    Vfat(Box<Vfat>),
}

impl Bench {
    /// `device`, as it is, at the beginning of time.
    pub fn new(device: Box<dyn Model>) -> Self {
        Bench {
            stack: Stack::Device(device),
            used_before: Duration::ZERO,
            now: Instant::ZERO,
            files: Vec::new(),
            iologs: BTreeMap::new(),
            has_bytes: false,
            progress: Progress::default(),
        }
    }

    /// `device`, which has bytes and judges what is read of them: jobs may have `verify=`.
    pub fn of_bytes(device: Box<dyn Model>) -> Self {
        Bench { has_bytes: true, ..Bench::new(device) }
    }

    /// `device` with the medium of `seed`, or in the state that it was asked for with.
    pub fn with(device: &Device, seed: u64) -> Self {
        Bench { used_before: device.used(), ..Bench::new(device.build(seed)) }
    }

    /// The trace that jobs name as `read_iolog=name`.
    pub fn load_iolog(&mut self, name: &str, iolog: Iolog) {
        self.iologs.insert(name.to_owned(), iolog);
    }

    /// Reports all that runs from here on to `progress`, whose stop ends the jobs: what they did until then is counted,
    /// and jobs of later waves do not begin.
    pub fn report_to(&mut self, progress: &Progress) {
        self.progress = progress.clone();
    }

    /// Returns true once the run was asked to stop, so that its figures are incomplete.
    pub fn is_stopped(&self) -> bool {
        self.progress.is_stopped()
    }

    /// Writes the ranges of the bare device that `jobs` read before they write them, in order and once, and lets the device
    /// come to rest; returns the number of bytes.
    pub fn write_what_is_read(&mut self, jobs: &[Job]) -> Result<u64, BenchError> {
        let Stack::Device(device) = &self.stack else { return Ok(0) };
        let ranges = read_first::ranges(jobs, &self.iologs, &device.geometry());
        let bytes = ranges.iter().map(|range| range.end - range.start).sum();
        if bytes == 0 {
            return Ok(0);
        }
        self.progress.enter(WRITING_FIRST);
        let entry = |at: u64, end: u64| Entry {
            at: Duration::ZERO,
            action: Action::Write,
            file: 0,
            offset: at,
            length: WRITTEN_AT_ONCE.min(end - at),
        };
        let pieces = |range: Range<u64>| {
            let end = range.end;
            range.step_by(WRITTEN_AT_ONCE as usize).map(move |at| entry(at, end))
        };
        let iolog = Iolog {
            version: Version::Three,
            files: vec!["device".into()],
            entries: ranges.into_iter().flat_map(pieces).collect(),
        };
        let job = Job {
            name: WRITING_FIRST.into(),
            pattern: Pattern { mix: Mix::Write, ..Job::default().pattern },
            block_size: [(); 3].map(|()| BlockSize::Fixed(WRITTEN_AT_ONCE)),
            size: Some(Extent::Bytes(bytes)),
            engine: Engine::Asynchronous,
            depth: 16,
            read_iolog: Some(WRITING_FIRST.into()),
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
        self.pause(REST);
        self.progress.enter("");
        Ok(bytes)
    }

    /// Puts a vfat filesystem on the device, unless it has one.
    pub fn format_once(&mut self, parameters: &VfatParameters) -> Result<(), BenchError> {
        if let Stack::Device(device) = &self.stack {
            let formatted = Vfat::format(parameters.clone(), device.clone(), self.now);
            let (vfat, now) = formatted.ok_or(BenchError::TooSmall)?;
            self.stack = Stack::Vfat(Box::new(vfat));
            self.now = now;
        }
        Ok(())
    }

    /// Removes all files, where there is a filesystem.
    pub fn remove_files(&mut self) {
        if let Stack::Vfat(vfat) = &mut self.stack {
            for file in 0..self.files.len() {
                self.now = vfat.remove(self.now, FileId(file as u32));
            }
        }
    }

    /// Removes the files of the jobs that ask for it, where there is a filesystem.
    fn unlink(&mut self, wave: &[Job]) {
        let Stack::Vfat(vfat) = &mut self.stack else { return };
        for name in wave.iter().filter(|job| job.unlink).flat_map(|job| &job.files) {
            if let Some(number) = self.files.iter().position(|known| known == name) {
                self.now = vfat.remove(self.now, FileId(number as u32));
            }
        }
    }

    /// Runs `jobs`, one wave after the other; returns what was counted.
    pub fn run(&mut self, jobs: &[Job], settings: &Settings) -> Result<Statistics, BenchError> {
        self.run_recorded(jobs, settings).map(|(statistics, _)| statistics)
    }

    /// Runs `jobs`, which neither read back nor record what they did, and calls `look` with the instant and the device after
    /// every `interval` requests. A `look` that returns false ends the jobs early.
    pub(crate) fn run_watched(
        &mut self,
        jobs: &[Job],
        interval: u64,
        look: &mut Look<'_>,
    ) -> Result<Statistics, BenchError> {
        let mut statistics = Statistics::new(jobs, &Settings::default());
        let stop = AtomicBool::new(false);
        for wave in waves(jobs) {
            let tasks = self.tasks(jobs, wave.clone())?;
            self.run_wave_by(tasks, statistics.wave(wave), |model, workload, begin| {
                let mut watched = Watched { model, look: &mut *look, interval, left: interval, stop: &stop };
                flashlab_sim::run(&mut watched, &mut Stoppable { workload, stop: &stop }, begin)
            })?;
            if stop.load(Ordering::Relaxed) {
                break;
            }
        }
        Ok(statistics)
    }

    /// The tasks of a wave of jobs, with their files laid out.
    fn tasks<'a>(&mut self, jobs: &'a [Job], wave: Range<usize>) -> Result<Vec<Task<'a>>, BenchError> {
        let mut tasks = Vec::new();
        for (number, job) in wave.clone().zip(&jobs[wave]) {
            if job.verify.method().is_some() && !self.has_bytes {
                return Err(BenchError::NoBytes { job: job.name.clone() });
            }
            self.check_blocks(job)?;
            let files = self.files_of(job)?;
            let iolog = job.read_iolog.as_ref().and_then(|name| self.iologs.get(name)).cloned();
            tasks.push(Task { job, files, number: number as u32, entropy: self.used().as_ns(), iolog });
        }
        Ok(tasks)
    }

    /// Runs `jobs` like [`Bench::run`], with the iologs that jobs ask for by `write_iolog=`: their text by the number of the job.
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
            let tasks = self.tasks(jobs, wave.clone())?;
            if jobs[wave.clone()].iter().any(read_back::is_due) {
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
            let recording = self.run_wave(tasks, Recording::new(Version::Three, names, record))?;
            let (_, texts) = recording.finish();
            self.unlink(&jobs[wave.clone()]);
            iologs.extend(wave.zip(texts).filter(|(n, _)| jobs[*n].write_iolog.is_some()));
        }
        Ok((statistics, iologs))
    }

    /// Runs a wave, and then has its jobs with `verify=` read back what they wrote, all at once.
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
        let noting = Noting::new(tasks.len(), statistics.wave(wave.clone()));
        let (_, written) = self.run_wave(tasks, noting)?.finish();
        if self.is_stopped() {
            return Ok(());
        }
        let ran = self.now.since(begin);
        let due: Vec<usize> = wave.clone().filter(|n| read_back::is_due(&jobs[*n])).collect();
        let readers: Vec<Job> = due.iter().map(|n| read_back::job(&jobs[*n], ran)).collect();
        let tasks = due.iter().zip(&readers).map(|(number, job)| {
            let (files, written): (&Vec<File>, &Written) =
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

    fn run_wave<R: Record>(&mut self, tasks: Vec<Task<'_>>, record: R) -> Result<R, BenchError> {
        self.run_wave_by(tasks, record, |model, workload, begin| flashlab_sim::run(model, workload, begin))
    }

    /// Runs a wave by `run`, which drives the device with the workload from an instant on and returns the last one.
    fn run_wave_by<R: Record>(
        &mut self,
        tasks: Vec<Task<'_>>,
        record: R,
        run: impl FnOnce(&mut dyn Model, &mut Ending<R>, Instant) -> Instant,
    ) -> Result<R, BenchError> {
        let begin = self.now;
        let latest = |task: &Task<'_>| Some(task.iolog.as_ref()?.entries.last()?.at);
        if begin > END || tasks.iter().filter_map(latest).any(|at| at > END.since(Instant::ZERO)) {
            return Err(BenchError::TooLong);
        }
        let capacity = self.device().geometry().capacity;
        let work = tasks.iter().map(|task| work_of(task.job, capacity)).sum();
        let jobs = Jobs::new(begin, tasks, record).map_err(BenchError::Workload)?;
        let told = Told { progress: self.progress.clone(), work, done: 0, at: begin };
        let mut workload = Ending { jobs, ended: false, stopped: false, events: 0, told };
        let last = run(self.model(), &mut workload, begin);
        workload.told.wave_is_over(last);
        if workload.ended {
            return Err(BenchError::TooLong);
        }
        self.now = workload.jobs.end().unwrap_or(last).max(last);
        Ok(workload.jobs.into_record())
    }

    /// What the device and all above it have counted.
    pub fn counters(&self) -> Counters {
        Counters::of(match &self.stack {
            Stack::Device(device) => device,
            Stack::Files(files) => &**files,
            Stack::Vfat(vfat) => &**vfat,
        })
    }

    /// The device's erase blocks, if it knows any.
    pub fn wear(&self) -> Option<Wear> {
        Wear::of(self.device())
    }

    /// The device, below the filesystem.
    pub fn device(&self) -> &dyn Model {
        match &self.stack {
            Stack::Device(device) => &**device,
            Stack::Files(files) => files.device(),
            Stack::Vfat(vfat) => vfat.device(),
        }
    }

    /// The instant that has come. Nothing is outstanding.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// How long the device was used, with what it was used before.
    pub fn used(&self) -> Duration {
        self.used_before + self.now.since(Instant::ZERO)
    }

    /// Lets time pass in which nothing is asked.
    pub fn pause(&mut self, time: Duration) {
        self.now += time;
    }

    /// Refuses a job of which the device would refuse the first request, as direct I/O does: one that is not made of
    /// whole blocks.
    fn check_blocks(&mut self, job: &Job) -> Result<(), BenchError> {
        let block = self.model().geometry().block;
        if job.read_iolog.is_some() {
            return Ok(());
        }
        let used: &[Direction] = match job.pattern.mix {
            Mix::Read => &[Direction::Read],
            Mix::Write => &[Direction::Write],
            Mix::Trim => &[Direction::Trim],
            Mix::ReadWrite => &[Direction::Read, Direction::Write],
            Mix::TrimWrite => &[Direction::Trim, Direction::Write],
        };
        let sizes = used.iter().flat_map(|direction| match &job.block_size[*direction as usize] {
            BlockSize::Fixed(bytes) | BlockSize::Range { min: bytes, .. } => vec![*bytes],
            BlockSize::Split(shares) => shares.iter().map(|share| share.bytes).collect(),
        });
        let extent = |extent| match extent {
            Extent::Bytes(bytes) => bytes,
            Extent::Percent(_) => 0,
        };
        let offsets =
            [("offset", extent(job.offset)), ("offset_increment", extent(job.offset_increment))].into_iter();
        let ill = sizes.map(|bytes| ("bs", bytes)).chain(offsets).find(|(_, bytes)| bytes % block != 0);
        ill.map_or(Ok(()), |(option, bytes)| {
            Err(BenchError::NotWholeBlocks { job: job.name.clone(), option, bytes, block })
        })
    }

    fn model(&mut self) -> &mut dyn Model {
        match &mut self.stack {
            Stack::Device(device) => &mut **device,
            Stack::Files(files) => &mut **files,
            Stack::Vfat(vfat) => &mut **vfat,
        }
    }

    /// The files of a job, laid out where they are missing or too short.
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
            (Stack::Vfat(_), None) => Err(BenchError::NoDirectory { job: name() }),
            (Stack::Vfat(_), Some(_)) if matches!(job.pattern.mix, Mix::Trim | Mix::TrimWrite) => {
                Err(BenchError::NoTrim { job: name() })
            }
            (Stack::Vfat(vfat), Some(_)) => {
                let mut files = Vec::new();
                for (n, file) in job.files.iter().enumerate() {
                    let id = FileId(number_of(&mut self.files, file) as u32);
                    let there = vfat.size(id).unwrap_or(0);
                    let bytes = file_bytes(job, n, job.files.len());
                    let size = bytes
                        .or((there > 0).then_some(there))
                        .ok_or_else(|| BenchError::NoSize { job: name() })?;
                    if there < size {
                        let created = vfat.create(self.now, id, size, allocate(job));
                        self.now =
                            created.map_err(|error| BenchError::NoRoom { file: file.clone(), error })?;
                    }
                    files.push(File { id, size });
                }
                Ok(files)
            }
        }
    }

    /// The files of a job on the bare device. As fio lays files out, those that the job will read are written before.
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
            found.push(File { id, size: size.max(there) });
        }
        Ok(found)
    }

    /// Writes a file on the bare device once, in requests of [`files::ALIGNMENT`]: what they cover behind its end belongs
    /// to no other file.
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

/// Returns the number of a file, which it gets where it has none.
fn number_of(files: &mut Vec<String>, file: &str) -> usize {
    files.iter().position(|known| known == file).unwrap_or_else(|| {
        files.push(file.to_owned());
        files.len() - 1
    })
}

/// Name of the phase that writes what jobs read later.
const WRITING_FIRST: &str = "writing what is read later";
/// Bytes of a request of that phase.
const WRITTEN_AT_ONCE: u64 = 1 << 20;
/// Idle time behind that phase.
const REST: Duration = Duration::from_secs(10);

/// No job runs beyond this instant. What a job may add to where it is (delay, ramp, runtime, a pause: a hundred years
/// each) still is an instant.
const END: Instant = Instant::from_ns(YEARS * 365 * 86_400 * 1_000_000_000);
const YEARS: u64 = 150;

/// Units of work, as [`Progress`] counts it, of one run of `jobs` on a device of `capacity` bytes.
pub fn work(jobs: &[Job], capacity: u64) -> u64 {
    let runs = |job: &Job| 1 + u64::from(read_back::is_due(job));
    jobs.iter().map(|job| runs(job) * work_of(job, capacity)).sum()
}

/// An estimate: requests and the bytes that they move, or the time that they may take.
fn work_of(job: &Job, capacity: u64) -> u64 {
    /// Requests a second of a device of which nothing is known.
    const REQUESTS_PER_SECOND: u64 = 5_000;
    /// Bytes whose simulation takes about as long as a request.
    const BYTES_PER_UNIT: u64 = 64 << 10;
    let bytes_of = |extent: Option<Extent>| match extent {
        Some(Extent::Bytes(bytes)) => bytes.min(capacity),
        Some(Extent::Percent(percent)) => capacity / 100 * u64::from(percent),
        None => capacity,
    };
    let bytes = bytes_of(job.io_size.or(job.size)).saturating_mul(job.loops.max(1));
    let block = match &job.block_size[usize::from(job.pattern.mix != Mix::Read)] {
        BlockSize::Fixed(bytes) => *bytes,
        BlockSize::Range { min, max } => min / 2 + max / 2,
        BlockSize::Split(shares) => shares.iter().map(|share| share.bytes).max().unwrap_or(1),
    };
    let requests = (bytes / block.max(1)).min(job.number_ios.unwrap_or(u64::MAX));
    let moved = requests.saturating_add(bytes / BYTES_PER_UNIT);
    let in_time = job.runtime.map_or(u64::MAX, |runtime| {
        let rate = job.rate_iops.iter().flatten().sum::<u64>();
        let rate = if rate > 0 { rate } else { REQUESTS_PER_SECOND };
        ((runtime + job.ramp_time).as_secs_f64() * rate as f64) as u64
    });
    let work = if job.time_based { in_time } else { moved.min(in_time) };
    work.clamp(1, 1 << 40)
}

/// How often jobs look up from their work: after so many events.
const EVENTS_BETWEEN_LOOKS: u32 = 1_024;

/// Jobs that stop asking at the end of time, or when somebody asks them to.
struct Ending<R> {
    jobs: Jobs<R>,
    ended: bool,
    stopped: bool,
    /// Events since the last look.
    events: u32,
    told: Told,
}

impl<R: Record> Ending<R> {
    #[cold]
    fn look_up(&mut self, now: Instant) {
        self.events = 0;
        self.told.wave_is_at(self.jobs.share_done(now), now);
        if !self.stopped && self.told.progress.is_stopped() {
            self.stopped = true;
            self.jobs.stop(now);
        }
    }
}

/// What was reported of a wave.
struct Told {
    progress: Progress,
    /// Units of the whole wave.
    work: u64,
    /// Units that are reported as done.
    done: u64,
    /// The simulated instant up to which time is reported.
    at: Instant,
}

impl Told {
    fn wave_is_at(&mut self, share: f64, now: Instant) {
        let done = ((self.work as f64 * share) as u64).clamp(self.done, self.work);
        self.progress.advance(done - self.done);
        self.done = done;
        self.progress.add_simulated(now.saturating_since(self.at));
        self.at = now.max(self.at);
    }

    fn wave_is_over(&mut self, at: Instant) {
        self.wave_is_at(1.0, at);
    }
}

impl<R: Record> Workload for Ending<R> {
    #[inline]
    fn next(&mut self, now: Instant) -> Arrival {
        if now > END {
            self.ended = true;
            return Arrival::Done;
        }
        self.events += 1;
        if self.events >= EVENTS_BETWEEN_LOOKS {
            self.look_up(now);
        }
        self.jobs.next(now)
    }
    #[inline]
    fn submit(&mut self, at: Instant) -> Request {
        self.jobs.submit(at)
    }
    #[inline]
    fn upcoming(&mut self) -> (FileId, &[u64]) {
        self.jobs.upcoming()
    }
    #[inline]
    fn completed(&mut self, completion: &Completion) {
        self.jobs.completed(completion);
    }
}

/// What fio does with a new file before the job: one that will be read, or overwritten, is written whole; for one that
/// will be written, `fallocate=` says.
fn allocate(job: &Job) -> Allocate {
    match job.fallocate {
        _ if is_read_or_overwritten(job) => Allocate::Zeroed,
        // Setting the size makes vfat fill the file just as allocating it does.
        Fallocate::Native | Fallocate::Truncate => Allocate::Zeroed,
        Fallocate::Keep => Allocate::KeepSize,
        Fallocate::None => Allocate::Nothing,
    }
}

/// Returns true if fio writes a new file of the job whole before the job runs.
fn is_read_or_overwritten(job: &Job) -> bool {
    matches!(job.pattern.mix, Mix::Read | Mix::ReadWrite) || job.overwrite || job.read_iolog.is_some()
}

/// The ranges of jobs that run together.
fn waves(jobs: &[Job]) -> Vec<Range<usize>> {
    let mut waves: Vec<Range<usize>> = Vec::new();
    for (n, job) in jobs.iter().enumerate() {
        match waves.last_mut() {
            Some(wave) if jobs[wave.start].wave == job.wave => wave.end = n + 1,
            _ => waves.push(n..n + 1),
        }
    }
    waves
}

/// What a reader of results should know, since it does not show in them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Hint {
    /// A job whose reads mostly met what nothing had written.
    ReadsUnwritten {
        /// The job.
        job: String,
    },
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Hint::ReadsUnwritten { job } => write!(
                f,
                "job `{job}` mostly reads what nothing has written, which a device answers without its flash: a used one \
                 is slower. To read written data, leave --unwritten out, or put a job that writes it before, and \
                 `stonewall` into this one"
            ),
        }
    }
}

/// Returns true if less than half of the reads met the array, an access to which takes `t_read`.
pub fn reads_unwritten(stats: &JobStats, t_read: Duration) -> bool {
    let reads = stats.direction(Direction::Read);
    // An access takes t_read or more, but for a few percent of spread.
    let accesses_at_most = reads.mechanism_ns(Mechanism::Read) / (t_read.as_ns() * 3 / 4).max(1);
    accesses_at_most < reads.total_ios().div_ceil(2)
}

/// The hints on what ran on a card with this time for an access to its array (`flash.t_read`).
pub fn hints(reports: &[Report], t_read: Duration) -> Vec<Hint> {
    let mut hints: Vec<Hint> = Vec::new();
    for report in reports.iter().filter(|report| reads_unwritten(&report.stats, t_read)) {
        let hint = Hint::ReadsUnwritten { job: report.job.name.clone() };
        if !hints.contains(&hint) {
            hints.push(hint);
        }
    }
    hints
}

/// Returns the first request that failed or took too long as an error; the job that made it ended there.
pub fn refusal(reports: &[Report]) -> Option<BenchError> {
    let failed = reports.iter().find_map(|report| Some((report, report.stats.failure?)));
    failed.map(|(report, failure)| match failure.cause {
        Cause::MaxLatency { took, limit } => BenchError::MaxLatency {
            job: report.job.name.clone(),
            direction: failure.io.direction,
            offset: failure.io.offset,
            took,
            limit,
        },
        Cause::Device(Status::ReadOnly) => BenchError::ReadOnly {
            job: report.job.name.clone(),
            written: reports.iter().map(|report| report.stats.direction(Direction::Write).io_bytes).sum(),
            after: failure.at.since(Instant::ZERO),
        },
        Cause::Device(status) => BenchError::Refused {
            job: report.job.name.clone(),
            direction: failure.io.direction,
            offset: failure.io.offset,
            length: failure.io.length,
            status,
        },
    })
}

/// Why jobs could not run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BenchError {
    /// A job names no directory, but there is a filesystem, whose device it must not touch.
    NoDirectory {
        /// The job.
        job: String,
    },
    /// A job trims files.
    NoTrim {
        /// The job.
        job: String,
    },
    /// A job says neither how large its files are nor do they exist.
    NoSize {
        /// The job.
        job: String,
    },
    /// A file does not fit.
    NoRoom {
        /// The file.
        file: String,
        /// What would fit.
        error: NoRoom,
    },
    /// A file does not fit on the bare device.
    NoSpace {
        /// The file.
        file: String,
        /// Its bytes.
        size: u64,
        /// Bytes that are left behind the other files.
        left: u64,
    },
    /// The device is too small for the filesystem.
    TooSmall,
    /// A job's requests would not be made of whole blocks.
    NotWholeBlocks {
        /// The job.
        job: String,
        /// What is no multiple of a block: `bs`, `offset`, ...
        option: &'static str,
        /// Its bytes.
        bytes: u64,
        /// Bytes of a block.
        block: u64,
    },
    /// A job has `verify=`, and there are no bytes.
    NoBytes {
        /// The job.
        job: String,
    },
    /// A job of a wave with `verify=` wants its iolog written.
    IologOfVerify {
        /// The job.
        job: String,
    },
    /// The device refused a request.
    Refused {
        /// The job.
        job: String,
        /// What the request was.
        direction: Direction,
        /// Its first byte.
        offset: u64,
        /// Its bytes.
        length: u64,
        /// Why.
        status: Status,
    },
    /// A request took longer than `max_latency=` allows, and ended its job.
    MaxLatency {
        /// The job.
        job: String,
        /// Direction of the request.
        direction: Direction,
        /// First byte of the request.
        offset: u64,
        /// Time that it took.
        took: Duration,
        /// The limit.
        limit: Duration,
    },
    /// The device takes no more writes: too many of its erase blocks are bad.
    ReadOnly {
        /// The job whose write it refused.
        job: String,
        /// Bytes that all jobs had written before.
        written: u64,
        /// Simulated time since the device was put on the bench.
        after: Duration,
    },
    /// The jobs would take longer than can be simulated.
    TooLong,
    /// Somebody asked the run to stop, so that there is no whole figure.
    Stopped,
    /// A job cannot run on its files or its device.
    Workload(WorkloadError),
}

impl fmt::Display for BenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BenchError::NoDirectory { job } => write!(
                f,
                "job `{job}` would write to the device below a filesystem: add directory=/mnt, or leave --fs out"
            ),
            BenchError::NoTrim { job } => {
                write!(
                    f,
                    "job `{job}` trims files, which vfat cannot: leave --fs and directory= out to trim the device"
                )
            }
            BenchError::NoSize { job } => {
                write!(f, "job `{job}` says nothing of its files' size: add size= or filesize=")
            }
            BenchError::NoRoom { file, error } => write!(f, "{file}: {error}; lower size= or filesize="),
            BenchError::NoSpace { file, size, left } => write!(
                f,
                "{file}: a file of {size} B does not fit on the device, which has {left} B left; lower size= or filesize="
            ),
            BenchError::TooSmall => write!(f, "the device is too small for a FAT32 filesystem"),
            BenchError::NotWholeBlocks { job, option, bytes, block } => write!(
                f,
                "job `{job}`: {option}={bytes} is no multiple of the device's block of {block} bytes, which direct I/O needs"
            ),
            BenchError::NoBytes { job } => write!(
                f,
                "job `{job}` has verify=, and here are times without bytes: `bench --bytes` moves them, and so do memory:, file: \
                 and devices with layers"
            ),
            BenchError::IologOfVerify { job } => write!(
                f,
                "job `{job}` has write_iolog= beside verify=, whose reads would be missing in it: leave one of them out"
            ),
            BenchError::Refused { job, direction, offset, length, status } => {
                let why = match status {
                    Status::OutOfRange => "which is beyond its end or not made of whole blocks",
                    Status::Unreadable => "since what was there cannot be read any more",
                    Status::Ok | Status::Unsupported | Status::ReadOnly => "which it does not do",
                };
                let direction = direction.name();
                write!(
                    f,
                    "job `{job}` ended early: the device refused to {direction} {length} bytes at byte {offset}, {why}"
                )
            }
            BenchError::MaxLatency { job, direction, offset, took, limit } => write!(
                f,
                "job `{job}` ended early: a {} at byte {offset} took {:.3} ms, longer than max_latency={}us; the results end \
                 with it",
                direction.name(),
                took.as_ns() as f64 / 1e6,
                limit.as_ns() / 1_000
            ),
            BenchError::ReadOnly { job, written, after } => write!(
                f,
                "job `{job}` ended early: the device is read-only, its life is over: too many of its erase blocks are \
                 bad. Until then, {:.1} s after the beginning, the jobs had written {written} bytes",
                after.as_ns() as f64 / 1e9
            ),
            BenchError::TooLong => write!(
                f,
                "the jobs are not done after {YEARS} years of simulated time: lower runtime=, startdelay= or thinktime=, or \
                 shorten the iolog"
            ),
            BenchError::Stopped => f.write_str("stopped before the jobs were done"),
            BenchError::Workload(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for BenchError {}
