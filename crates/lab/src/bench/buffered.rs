//! Buffered jobs: the page cache above the device, and the checks for jobs that the model does not cover.

use super::runner::{Runner, run_wave};
use super::stoppable::{Wave, WaveProgress};
use super::{Bench, BenchError, Stack, is_read_or_overwritten};
use flashlab_fio::job::{Engine, FadviseHint, Job, Mix};
use flashlab_host::page_cache::{Advice, Counters, PAGE, PageCache};
use flashlab_sim::{FileId, Instant};
use std::fmt;

/// The reason why the model does not cover a buffered job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unmodelled {
    /// The job runs on a filesystem, whose metadata is written back too.
    Filesystem,
    /// The profile of the device's host describes no page cache.
    Host,
    /// The device moves bytes, so it has no host with a page cache.
    Bytes,
    /// The device's blocks are larger than pages.
    Blocks,
    /// The job uses io_uring with several requests in flight.
    IoUring,
    /// The job trims.
    Trim,
    /// The job sets `verify=`.
    Verify,
    /// The job sets `sync_file_range=`.
    SyncFileRange,
    /// The job sets `invalidate=0` and has files, whose pages remain in the cache after the layout.
    Invalidate,
    /// Another job that runs at the same time has `direct=1`.
    Direct,
    /// Another job that runs at the same time gives the kernel different advice about its pattern.
    Advice,
}

impl Unmodelled {
    /// Returns true if a recording of the job under a real kernel can take the place of the simulation.
    fn can_be_recorded(self) -> bool {
        !matches!(self, Unmodelled::Host | Unmodelled::Bytes | Unmodelled::Blocks | Unmodelled::Verify)
    }
}

impl fmt::Display for Unmodelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unmodelled::Filesystem => {
                "the write-back of a filesystem's metadata is not modelled: leave --fs out, or add direct=1"
            }
            Unmodelled::Host => {
                "the host's profile states no memory for its page cache: append cache.memory=1GiB to the device, or add \
                 direct=1"
            }
            Unmodelled::Bytes => {
                "devices that move bytes have no host with a page cache: add direct=1, or choose a device without layers"
            }
            Unmodelled::Blocks => "the device's blocks are larger than a page of 4 KiB: add direct=1",
            Unmodelled::IoUring => {
                "the workers of io_uring are not modelled: write iodepth=1, another ioengine, or direct=1"
            }
            Unmodelled::Trim => "trims under a page cache are not modelled: add direct=1",
            Unmodelled::Verify => "verify= would read the page cache: add direct=1",
            Unmodelled::SyncFileRange => "sync_file_range= is not modelled: remove it",
            Unmodelled::Invalidate => {
                "with invalidate=0, the files would still be in the page cache after their layout, which is not \
                 modelled: remove it"
            }
            Unmodelled::Direct => {
                "another job with direct=1 runs at the same time, and its effect on the page cache is not modelled: add \
                 stonewall between the two"
            }
            Unmodelled::Advice => {
                "jobs with random and with sequential patterns run at the same time, and read-ahead is modelled for one kind \
                 at a time: add stonewall between them"
            }
        })
    }
}

/// Returns the error of a buffered job that the model does not cover. If the job can be recorded under a real
/// kernel, the error contains the command.
pub(super) fn refused(job: &Job, filesystem: Option<&str>, why: Unmodelled) -> BenchError {
    let filesystem = filesystem.unwrap_or(if job.directory.is_some() { "ext4" } else { "none" });
    let record = why
        .can_be_recorded()
        .then(|| format!("flashlab record --fs {filesystem} --fio job.fio --to run.rec"));
    BenchError::Unmodelled { job: job.name.clone(), why, record }
}

/// Returns the advice that fio gives the kernel for a job.
fn advice(job: &Job) -> Advice {
    match job.fadvise_hint {
        FadviseHint::None => Advice::Normal,
        FadviseHint::Sequential => Advice::Sequential,
        FadviseHint::Random => Advice::Random,
        FadviseHint::Pattern if job.pattern.random => Advice::Random,
        FadviseHint::Pattern => Advice::Sequential,
    }
}

/// Returns the first reason why the model does not cover a job, regardless of the other jobs.
fn unmodelled(job: &Job) -> Option<Unmodelled> {
    let is_io_uring = job.engine == Engine::Asynchronous && !job.has_one_request_at_a_time();
    [
        (is_io_uring && job.depth > 1, Unmodelled::IoUring),
        (matches!(job.pattern.mix, Mix::Trim | Mix::TrimWrite), Unmodelled::Trim),
        (job.verify.method().is_some(), Unmodelled::Verify),
        (job.sync_file_range, Unmodelled::SyncFileRange),
        (!job.invalidate && job.directory.is_some(), Unmodelled::Invalidate),
    ]
    .into_iter()
    .find_map(|(applies, why)| applies.then_some(why))
}

impl Bench {
    /// Checks the buffered jobs of a wave, and creates the page cache that they use.
    pub(super) fn prepare_cache(&mut self, wave: &[Job]) -> Result<(), BenchError> {
        let is_buffered = |job: &&Job| job.buffered && !self.replays_recording(job);
        let Some(first) = wave.iter().find(is_buffered) else { return Ok(()) };
        let filesystem = match &self.stack {
            Stack::Filesystem(filesystem) => Some(filesystem.name()),
            Stack::Device(_) | Stack::Files(_) => None,
        };
        let refuse = |job: &Job, why| Err(refused(job, filesystem, why));
        if wave.iter().any(|job| !job.buffered) {
            return refuse(first, Unmodelled::Direct);
        }
        if let Some((job, why)) = wave.iter().find_map(|job| Some((job, unmodelled(job)?))) {
            return refuse(job, why);
        }
        let reads = |job: &&Job| job.pattern.mix != Mix::Write;
        let advices = || wave.iter().filter(reads).map(advice);
        if advices().any(|advice| Some(advice) != advices().next()) {
            return refuse(first, Unmodelled::Advice);
        }
        if filesystem.is_some() {
            return refuse(first, Unmodelled::Filesystem);
        }
        if self.has_bytes {
            return refuse(first, Unmodelled::Bytes);
        }
        let Some(settings) = self.page_cache.settings() else { return refuse(first, Unmodelled::Host) };
        if self.device().geometry().block > PAGE {
            return refuse(first, Unmodelled::Blocks);
        }
        let cache = self.cache.get_or_insert_with(|| Box::new(PageCache::new(settings)));
        cache.set_advice(advices().next().unwrap_or_default());
        Ok(())
    }

    /// Runs a workload like [`Bench::run_workload`], through the page cache.
    pub(super) fn run_buffered<W: Wave>(
        &mut self,
        workload: W,
        progress: WaveProgress,
        runner: impl Runner,
    ) -> Result<(W, Instant), BenchError> {
        let mut cache = self.cache.take().expect("the tasks of buffered jobs have a cache");
        let ran = run_wave(self.now, workload, progress, |workload, begin| {
            runner.run(&mut cache.over(self.model()), workload, begin)
        });
        self.cache = Some(cache);
        ran
    }

    /// Writes back the dirty pages that buffered jobs left, as closing their files does on a raw device.
    pub(super) fn close_cache(&mut self) {
        if let Some(mut cache) = self.cache.take() {
            let now = self.now;
            self.now = cache.close(self.model(), now);
            self.cache = Some(cache);
        }
    }

    /// Returns a note on the page cache and its counters since the last note, if one of `jobs` used it.
    pub(crate) fn page_cache_note(&mut self, jobs: &[Job]) -> Option<String> {
        let job = jobs.iter().find(|job| job.buffered && !self.replays_recording(job))?;
        let memory = self.page_cache.memory? >> 20;
        let Counters { read, from_device, written, written_back, pauses } =
            self.cache.as_mut()?.take_counters();
        let mut note = format!(
            "{}: buffered (no direct=1), through a model of the Linux page cache with {memory} MiB. Pages of 4 KiB: \
             {read} read, {from_device} from the device; {written} written, {written_back} written back; {pauses} \
             pauses of writers at the dirty limits.",
            job.name
        );
        if job.directory.is_some() {
            note.push_str(
                " The metadata of a filesystem is not modelled; flashlab record --fs ext4 records it.",
            );
        }
        Some(note)
    }

    /// Describes a job's file to the page cache. `existed` is true if the file was not laid out for this job.
    pub(super) fn describe_file(&mut self, job: &Job, file: FileId, size: u64, existed: bool) {
        if let Some(cache) = self.cache.as_mut().filter(|_| job.buffered && job.directory.is_some()) {
            cache.set_file(file, size, existed || is_read_or_overwritten(job));
        }
    }
}
