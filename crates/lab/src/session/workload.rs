//! A wave of jobs with requests of the user in between.

use super::interval::Recorder;
use flashlab_fio::workload::Jobs;
use flashlab_sim::{Arrival, Completion, FileId, Instant, Op, Request, RequestId, Status, Workload};
use std::collections::VecDeque;

/// First identifier of the user's requests. The requests of jobs are numbered from 0.
const FIRST_ID: u64 = 1 << 63;

/// A request of the user, which waits for its instant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extra {
    pub(super) at: Instant,
    pub(super) op: Op,
    pub(super) offset: u64,
    pub(super) length: u64,
}

/// The jobs, and the user's requests.
pub(super) struct SessionWorkload {
    pub(super) jobs: Jobs<Recorder>,
    pub(super) extras: VecDeque<Extra>,
    submitted: u64,
    /// Number of the jobs' next requests that will fail.
    pub(super) failing: u32,
    /// Results of the user's requests.
    pub(super) answers: Vec<(Instant, Status)>,
}

impl SessionWorkload {
    pub(super) fn new(jobs: Jobs<Recorder>) -> Self {
        SessionWorkload { jobs, extras: VecDeque::new(), submitted: 0, failing: 0, answers: Vec::new() }
    }
}

impl Workload for SessionWorkload {
    fn next(&mut self, now: Instant) -> Arrival {
        let arrival = self.jobs.next(now);
        let Some(extra) = self.extras.front() else { return arrival };
        let at = extra.at.max(now);
        match arrival {
            Arrival::At(job) if job < at => arrival,
            _ => Arrival::At(at),
        }
    }

    fn submit(&mut self, at: Instant) -> Request {
        match self.extras.pop_front_if(|extra| extra.at <= at) {
            Some(Extra { op, offset, length, .. }) => {
                self.submitted += 1;
                let id = RequestId(FIRST_ID + self.submitted);
                Request { id, op, file: FileId::DEVICE, offset, length }
            }
            None => self.jobs.submit(at),
        }
    }

    fn upcoming(&mut self) -> (FileId, &[u64]) {
        self.jobs.upcoming()
    }

    fn completed(&mut self, completion: &Completion) {
        if completion.id.0 >= FIRST_ID {
            self.answers.push((completion.at, completion.status));
        } else if self.failing > 0 {
            self.failing -= 1;
            self.jobs.completed(&Completion { status: Status::Unreadable, ..*completion });
        } else {
            self.jobs.completed(completion);
        }
    }
}
