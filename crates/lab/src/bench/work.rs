//! Estimates of the work of jobs, for progress.

use crate::verify_phase;
use flashlab_fio::job::{BlockSize, Extent, Job, Mix};

/// Returns the units of work, as [`Progress`](crate::progress::Progress) counts them, of one run of `jobs` on a device
/// of `capacity` bytes.
pub fn work(jobs: &[Job], capacity: u64) -> u64 {
    let runs = |job: &Job| 1 + u64::from(verify_phase::has_verify_phase(job));
    jobs.iter().map(|job| runs(job) * work_of(job, capacity)).sum()
}

/// Estimates the work of one run of a job from the number of its requests and bytes, or from its runtime.
pub(super) fn work_of(job: &Job, capacity: u64) -> u64 {
    /// Assumed request rate of the device, in requests per second.
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
    let moved = requests.saturating_add(bytes.min(requests.saturating_mul(block)) / BYTES_PER_UNIT);
    let in_time = job.runtime.map_or(u64::MAX, |runtime| {
        let rate = job.rate_iops.iter().flatten().sum::<u64>();
        let rate = if rate > 0 { rate } else { REQUESTS_PER_SECOND };
        ((runtime + job.ramp_time).as_secs_f64() * rate as f64) as u64
    });
    let work = if job.time_based { in_time } else { moved.min(in_time) };
    work.clamp(1, 1 << 40)
}
