//! Pairing of the jobs of two runs by name, or of their only jobs. One run may report a group of jobs as one
//! entry, and the other each job.

use super::{Figures, RealJob, RealRun};
use crate::stats::Report;

/// The jobs of a real and of a simulated run, paired.
#[derive(Default)]
pub(super) struct Pairs {
    /// Jobs of both runs, in the order of the simulated run.
    pub(super) both: Vec<(RealJob, Report)>,
    /// Names of the jobs without a counterpart.
    pub(super) only_simulated: Vec<String>,
    pub(super) only_real: Vec<String>,
}

impl Pairs {
    pub(super) fn of(real: &RealRun, simulated: &[Report]) -> Pairs {
        if let ([real], [simulated]) = (&real.jobs[..], simulated) {
            return Pairs { both: vec![(real.clone(), simulated.clone())], ..Pairs::default() };
        }
        let mut pairs = Pairs::default();
        let mut real_left: Vec<&RealJob> = real.jobs.iter().collect();
        let mut simulated_left: Vec<&Report> = simulated.iter().collect();
        while !simulated_left.is_empty() {
            let report = simulated_left.remove(0);
            let Some(first) = real_left.iter().position(|job| job.name == report.job.name) else {
                pairs.only_simulated.push(report.job.name.clone());
                continue;
            };
            let jobs = jobs_of_group(&real_left[first..], report.jobs);
            let job = sum(&real_left.drain(first..first + jobs).collect::<Vec<_>>());
            let mut report = report.clone();
            if is_group(&job, real) && report.jobs == 1 {
                let is_clone =
                    |other: &&Report| other.job.name == job.name && other.job.group == report.job.group;
                let (clones, others): (Vec<&Report>, _) = simulated_left.into_iter().partition(is_clone);
                simulated_left = others;
                clones.iter().for_each(|clone| report.stats.merge(&clone.stats));
            }
            pairs.both.push((job, report));
        }
        pairs.only_real = real_left.iter().map(|job| job.name.clone()).collect();
        pairs
    }
}

/// Returns the number of entries of the real run that correspond to a simulated group of `jobs` jobs. `real`
/// begins with the first job of the group. If the group of the real run has another number of entries, its
/// first entry stands for the whole group.
fn jobs_of_group(real: &[&RealJob], jobs: usize) -> usize {
    let together = real.iter().take_while(|job| job.group == real[0].group).count();
    if together == jobs { jobs } else { 1 }
}

/// Returns true if an entry of the real run combines several jobs. fio does not state this, but the run then
/// has fewer entries than the job has clones.
fn is_group(job: &RealJob, real: &RealRun) -> bool {
    real.jobs.iter().filter(|other| other.name == job.name).count() < job.clones
}

/// Returns the figures of jobs that ran together as those of one job.
fn sum(jobs: &[&RealJob]) -> RealJob {
    let mut sum = jobs[0].clone();
    for job in &jobs[1..] {
        if sum.error == 0 {
            sum.error = job.error;
        }
        for (name, figures) in &job.directions {
            match sum.directions.iter_mut().find(|(known, _)| known == name) {
                Some((_, known)) => *known = sum_of_figures(known, figures),
                None => sum.directions.push((name.clone(), *figures)),
            }
        }
    }
    sum
}

/// Returns the figures of two jobs that ran together. Percentiles of two jobs cannot be combined.
fn sum_of_figures(a: &Figures, b: &Figures) -> Figures {
    let add = |a: Option<f64>, b: Option<f64>| Some(a? + b?);
    let total_ns = add(a.mean_ns.map(|ns| ns * a.requests), b.mean_ns.map(|ns| ns * b.requests));
    let requests = a.requests + b.requests;
    Figures {
        requests,
        bytes_per_second: add(a.bytes_per_second, b.bytes_per_second),
        iops: add(a.iops, b.iops),
        mean_ns: total_ns.map(|ns| ns / requests).filter(|ns| ns.is_finite()),
        p50_ns: None,
        p99_ns: None,
        p99_9_ns: None,
    }
}
