//! The changes that a user makes to a device while its job runs.

use super::super::workload::Extra;
use super::super::{SessionError, text};
use super::{Running, Station, begin};
use crate::bench::waves;
use flashlab_fio::job::Job;
use flashlab_sim::{Event, Fate, FileId, Instant, Op, Request, RequestId};

impl Station {
    pub(in crate::session) fn argument(&self) -> &str {
        &self.device.argument
    }

    /// Returns the current instant on the device's clock, which is not earlier than its last event.
    fn device_now(&self) -> Instant {
        let reached = self.now + self.ahead;
        self.running.as_ref().map_or(reached, |running| reached.max(running.events.now()))
    }

    /// Checks that the power is on.
    pub(in crate::session) fn check_powered(&self) -> Result<(), SessionError> {
        if self.is_powered { Ok(()) } else { Err(SessionError::PowerIsOff) }
    }

    /// Checks that the power is off.
    pub(in crate::session) fn check_unpowered(&self) -> Result<(), SessionError> {
        if self.is_powered { Err(SessionError::PowerIsOn) } else { Ok(()) }
    }

    /// Returns the wave that runs, or that ran last.
    ///
    /// # Errors
    /// Returns an error if there is no such wave: the power is off, the device is not yet prepared, or no wave could
    /// begin.
    fn check_running(&self) -> Result<&Running, SessionError> {
        self.check_powered()?;
        let reason = if self.is_prepared { SessionError::NoJob } else { SessionError::NotPrepared };
        self.running.as_ref().ok_or(reason)
    }

    /// Cuts the power, which must be on. Requests in flight are lost.
    pub(in crate::session) fn unplug(&mut self) {
        if !self.is_prepared {
            self.prepare();
        }
        let now = self.device_now();
        let lost = self.running.as_ref().map_or(0, |running| running.events.in_flight());
        let cut = self.bench.model().power_cut(now);
        if let Some(running) = self.running.take() {
            self.rest = running.workload.jobs.into_record();
        }
        self.is_powered = false;
        let bytes = |fate| {
            let ranges = cut.undecided.iter().filter(move |(_, found)| *found == fate);
            ranges.map(|(range, _)| range.end - range.start).sum::<u64>()
        };
        self.say(&format!(
            "power cut: {} lost; of the data that was not durable, {} bytes are old, {} new, {} unreadable",
            text::requests(lost),
            bytes(Fate::Old),
            bytes(Fate::New),
            bytes(Fate::Unreadable)
        ));
    }

    /// Restores the power, which must be off. The jobs begin again when the device has recovered.
    pub(in crate::session) fn plug(&mut self) {
        self.is_powered = true;
        let now = self.device_now();
        let ready = self.bench.model().power_up(now).max(now);
        self.say(&format!("power on; the device is ready after {}", text::duration(ready.since(now))));
        self.waves = waves(&self.jobs).into();
        self.begin_next_wave(ready);
    }

    /// Checks that a job runs whose requests can fail.
    pub(in crate::session) fn check_fail(&self) -> Result<(), SessionError> {
        if self.check_running()?.is_done { Err(SessionError::NoJob) } else { Ok(()) }
    }

    /// Makes the next requests of the running jobs fail.
    pub(in crate::session) fn fail(&mut self, requests: u32) {
        let running = self.running.as_mut().expect("`check_fail` found it");
        running.workload.failing = requests;
        self.say(&match requests {
            1 => "the next request of the job will fail".to_owned(),
            _ => format!("the next {requests} requests of the job will fail"),
        });
    }

    /// Checks that the device contains the range to discard, and that a wave exists with which the discard is
    /// submitted.
    pub(in crate::session) fn check_discard(&self, offset: u64, length: u64) -> Result<(), SessionError> {
        let geometry = self.bench.device().geometry();
        let request = Request { id: RequestId(0), op: Op::Trim, file: FileId::DEVICE, offset, length };
        if !geometry.admits(&request) {
            return Err(SessionError::Range { capacity: geometry.capacity, block: geometry.block });
        }
        self.check_running().map(drop)
    }

    /// Submits a discard at the current instant.
    pub(in crate::session) fn discard(&mut self, offset: u64, length: u64) {
        let at = self.device_now();
        let running = self.running.as_mut().expect("`check_discard` found it");
        running.workload.extras.push_back(Extra { at, op: Op::Trim, offset, length });
    }

    /// Checks that `jobs` can run on this device.
    pub(in crate::session) fn check(&mut self, jobs: &[Job]) -> Result<(), SessionError> {
        self.check_powered()?;
        for wave in waves(jobs) {
            begin(&mut self.bench, jobs, wave, Instant::ZERO)?;
        }
        Ok(())
    }

    /// Replaces the jobs. The present jobs end first, and their requests in flight complete.
    pub(in crate::session) fn replace_jobs(&mut self, jobs: Vec<Job>) {
        self.finish();
        self.waves = waves(&jobs).into();
        self.jobs = jobs;
        self.is_prepared = false;
        self.say("the job was replaced");
    }

    /// Ends the jobs. Requests in flight complete, so the device's clock may move ahead.
    fn finish(&mut self) {
        let now = self.device_now();
        self.waves.clear();
        let Some(mut running) = self.running.take() else { return };
        running.workload.jobs.stop(now);
        while running.events.step(self.bench.model(), &mut running.workload, Instant::MAX) != Event::Done {}
        self.ahead = self.ahead.max(running.events.now().saturating_since(self.now));
        self.rest = running.workload.jobs.into_record();
        self.rest.failures.clear();
    }

    /// Returns the argument of the device with one more setting, which replaces an earlier value of the same number.
    pub(in crate::session) fn argument_with(&self, key: &str, value: &str) -> String {
        let name = &self.device.name;
        let settings = self.argument().strip_prefix(name.as_str()).unwrap_or("").trim_start_matches(':');
        let is_other = |setting: &&str| {
            let known = setting.split('=').next().unwrap_or("");
            let same =
                known == key || known.ends_with(&format!(".{key}")) || key.ends_with(&format!(".{known}"));
            !setting.is_empty() && !same
        };
        let mut settings: Vec<String> = settings.split(',').filter(is_other).map(str::to_owned).collect();
        settings.push(format!("{key}={value}"));
        format!("{name}:{}", settings.join(","))
    }

    /// Takes over the history of `old`, so that a chart shows the effect of a changed number. This device
    /// replaces `old` and differs from it in this number.
    pub(in crate::session) fn continue_history(&mut self, old: &mut Station) {
        self.rest = std::mem::take(old.recorder());
        self.rest.failures.clear();
        self.rest.interval.is_changed = true;
        self.history = std::mem::take(&mut old.history);
    }

    /// Ends the job of `old` and takes over the state of its device, if `key` is the host or one of the host's numbers.
    /// Returns false if this device starts as new instead.
    pub(in crate::session) fn continue_from(&mut self, old: &mut Station, key: &str) -> bool {
        let is_of_host =
            |path: &str| path.starts_with("host.") && (path == key || path.ends_with(&format!(".{key}")));
        let keeps = key == "host" || self.device.overrides().iter().any(|(path, _)| is_of_host(path));
        if !keeps || !old.is_powered {
            return false;
        }
        old.finish();
        let mut model = self.device.build(old.seed);
        let is_restored = old.bench.device().save().is_some_and(|state| model.restore(&state).is_ok());
        if is_restored {
            self.bench.continue_with(model, &old.bench);
        }
        is_restored
    }
}
