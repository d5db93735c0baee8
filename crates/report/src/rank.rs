//! The order of the figures of jobs on several devices: one group for each job and direction, the fastest device first.
//!
//! The calls of `fsync` and `fdatasync` follow the writes of the same job on the same device, because a card with a
//! volatile cache stores the data in these calls. Devices that complete the same requests per second are paced by the
//! job, so that their latencies rank them.

use flashlab_lab::figures::{JobFigures, SYNC};

/// Largest relative difference at which a device counts as paced by the job: the difference of its requests
/// per second from the most in its group.
const EQUAL: f64 = 0.01;

/// The figures of one job and direction on all devices, in order.
pub(crate) struct Group<'a> {
    pub(crate) job: &'a str,
    pub(crate) direction: &'static str,
    /// True if the job paces most of the devices, so that latencies compare them and requests per second do not.
    pub(crate) is_paced: bool,
    pub(crate) lines: Vec<Line<'a>>,
}

/// The figures of one device in a group.
pub(crate) struct Line<'a> {
    /// Index of the device.
    pub(crate) device: usize,
    pub(crate) figures: &'a JobFigures,
    /// The calls of `fsync` and `fdatasync` that belong to these requests.
    pub(crate) sync: Option<&'a JobFigures>,
}

impl<'a> Line<'a> {
    /// Returns the figures of the requests, then those of the sync calls.
    pub(crate) fn all(&self) -> impl Iterator<Item = &'a JobFigures> {
        [Some(self.figures), self.sync].into_iter().flatten()
    }

    /// Returns the mean latency of a request and of the sync calls that it causes.
    fn mean_ns(&self) -> f64 {
        let total = |figures: &JobFigures| figures.latency.mean_ns * figures.requests as f64;
        self.all().map(total).sum::<f64>() / self.figures.requests.max(1) as f64
    }
}

/// Returns the groups of the jobs of `devices`, in order of first appearance. Devices of equal speed stay in order.
pub(crate) fn groups<'a>(devices: impl IntoIterator<Item = &'a [JobFigures]>) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    for (device, jobs) in devices.into_iter().enumerate() {
        for line in lines(device, jobs) {
            let (job, direction) = (line.figures.job.as_str(), line.figures.direction);
            let at = groups.iter().position(|group| (group.job, group.direction) == (job, direction));
            let at = at.unwrap_or_else(|| {
                groups.push(Group { job, direction, is_paced: false, lines: Vec::new() });
                groups.len() - 1
            });
            groups[at].lines.push(line);
        }
    }
    groups.iter_mut().for_each(Group::sort);
    groups
}

/// Returns the lines of one device. Sync calls belong to the last requests of the same job, which are its writes.
fn lines<'a>(device: usize, jobs: &'a [JobFigures]) -> Vec<Line<'a>> {
    let mut lines: Vec<Line<'a>> = Vec::new();
    for figures in jobs {
        match lines.last_mut() {
            Some(last)
                if figures.direction == SYNC && last.figures.job == figures.job && last.sync.is_none() =>
            {
                last.sync = Some(figures);
            }
            _ => lines.push(Line { device, figures, sync: None }),
        }
    }
    lines
}

impl Group<'_> {
    fn sort(&mut self) {
        let most = self.lines.iter().map(|line| line.figures.iops).fold(0.0, f64::max);
        let is_paced = |line: &Line<'_>| line.figures.iops >= most * (1.0 - EQUAL);
        let paced = self.lines.iter().filter(|line| is_paced(line)).count();
        self.is_paced = paced > 1 && 2 * paced > self.lines.len();
        self.lines.sort_by(|a, b| match (is_paced(a), is_paced(b)) {
            (true, true) => a.mean_ns().total_cmp(&b.mean_ns()),
            _ => b.figures.iops.total_cmp(&a.figures.iops),
        });
    }
}
