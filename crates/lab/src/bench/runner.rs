//! Ways to run a workload on a device: to its end, under a probe, or until the user stops it.

use super::BenchError;
use super::stoppable::{StoppableWave, Wave, WaveProgress};
use crate::watched::{Probe, Stoppable, Watched};
use flashlab_sim::{Instant, Model, Workload};
use std::sync::atomic::AtomicBool;

/// Runs a workload with `run` from `begin` on, until its end or until the user stops it. Returns the workload
/// and the instant of the last event.
pub(super) fn run_wave<W: Wave>(
    begin: Instant,
    workload: W,
    progress: WaveProgress,
    run: impl FnOnce(&mut StoppableWave<W>, Instant) -> Instant,
) -> Result<(W, Instant), BenchError> {
    let mut workload = StoppableWave::new(workload, progress);
    let last = run(&mut workload, begin);
    let workload = workload.finish(last).ok_or(BenchError::TooLong)?;
    Ok((workload, last))
}

/// A way to run a workload on a device from the instant `begin` on. Running returns the instant of the last event.
pub(super) trait Runner {
    fn run(self, model: &mut dyn Model, workload: &mut impl Workload, begin: Instant) -> Instant;
}

/// Runs a workload to its end.
pub(super) struct Plain;

impl Runner for Plain {
    fn run(self, model: &mut dyn Model, workload: &mut impl Workload, begin: Instant) -> Instant {
        flashlab_sim::run(model, workload, begin)
    }
}

/// Runs a workload under a probe, which may end it.
pub(super) struct Watching<'a, 'b> {
    pub(super) probe: &'a mut Probe<'b>,
    pub(super) interval: u64,
    pub(super) stop: &'a AtomicBool,
}

impl Runner for Watching<'_, '_> {
    fn run(self, model: &mut dyn Model, workload: &mut impl Workload, begin: Instant) -> Instant {
        let Watching { probe, interval, stop } = self;
        let mut watched = Watched { model, probe, interval, left: interval, stop };
        flashlab_sim::run(&mut watched, &mut Stoppable { workload, stop }, begin)
    }
}
