//! Measures the number of requests that the workloads make per second of CPU time, on a model of negligible
//! cost. Each workload runs without a recorder, and with the complete statistics of fio.
//!
//! `cargo bench -p flashlab-fio --bench generator`. The benchmark prints its results and tests nothing.

use cpu_time::ProcessTime;
use flashlab_fio::job::{BlockSize, Distribution, Engine, Job, Mix, Pattern};
use flashlab_fio::stats::{Settings, Statistics};
use flashlab_fio::workload::{Jobs, Record, Task};
use flashlab_sim::{
    Completion, Duration, Geometry, Instant, Mechanism, Model, PowerCut, Request, RequestId, Spent, Status,
    run,
};
use std::collections::VecDeque;

const CAPACITY: u64 = 16 << 30;
const REQUESTS: u64 = 1_000_000;
const REPEATS: usize = 7;

/// A device on which every request takes the same time.
#[derive(Clone)]
struct Fixed {
    in_flight: VecDeque<(Instant, RequestId)>,
}

const LATENCY: Duration = Duration::from_us(250);

impl Model for Fixed {
    fn geometry(&self) -> Geometry {
        Geometry { capacity: CAPACITY, block: 512, request_max: 1 << 20 }
    }
    fn submit(&mut self, now: Instant, request: Request) {
        self.in_flight.push_back((now + LATENCY, request.id));
    }
    fn next_due(&self) -> Option<Instant> {
        self.in_flight.front().map(|(due, _)| *due)
    }
    fn complete(&mut self, limit: Instant) -> Option<Completion> {
        let &(at, id) = self.in_flight.front().filter(|(due, _)| *due <= limit)?;
        self.in_flight.pop_front();
        let mut spent = Spent::default();
        spent[Mechanism::Read] = LATENCY;
        Some(Completion { id, at, status: Status::Ok, spent })
    }
    fn power_cut(&mut self, _: Instant) -> PowerCut {
        self.in_flight.clear();
        PowerCut::default()
    }
    fn power_up(&mut self, now: Instant) -> Instant {
        now
    }
}

fn simulate(jobs: &[Job], record: impl Record) {
    let tasks = jobs.iter().zip(0..).map(|(job, number)| Task::on_device(job, number, CAPACITY)).collect();
    let mut wave = Jobs::new(Instant::ZERO, tasks, record).expect("the jobs fit the device");
    run(&mut Fixed { in_flight: VecDeque::with_capacity(64) }, &mut wave, Instant::ZERO);
}

fn job(random: bool) -> Job {
    let pattern = Pattern { random, mix: Mix::Read, sequence: 1, sequence_skip: 0 };
    Job { pattern, number_ios: Some(REQUESTS), ..Job::default() }
}

fn main() {
    let split = BlockSize::Range { min: 4096, max: 16384 };
    let deep = Job { engine: Engine::Asynchronous, depth: 32, depth_low: 32, ..job(true) };
    let clone = |clone| Job { clone, number_ios: Some(REQUESTS / 4), ..job(true) };
    let kinds: [(&str, Vec<Job>); 7] = [
        ("randread with the random map", vec![job(true)]),
        ("randread, norandommap", vec![Job { no_random_map: true, ..job(true) }]),
        ("sequential", vec![job(false)]),
        ("zipf 1.1", vec![Job { distribution: Distribution::Zipf(1.1), ..job(true) }]),
        (
            "randread, bsrange with the map",
            vec![Job { block_size: [split.clone(), split.clone(), split], ..job(true) }],
        ),
        ("randread, depth 32", vec![deep]),
        ("randread, four clones", (0..4).map(clone).collect()),
    ];
    println!("{:32} {:>10} {:>16}", "million requests per CPU second", "uncounted", "full statistics");
    for (name, jobs) in &kinds {
        let uncounted = rate(|| simulate(jobs, ()));
        let counted = rate(|| {
            let mut statistics = Statistics::new(jobs, &Settings::default());
            simulate(jobs, statistics.wave(0..jobs.len()));
            std::hint::black_box(&statistics);
        });
        println!("{name:32} {uncounted:>10.1} {counted:>16.1}");
    }
}

/// Returns the best rate of several runs, in millions of requests per CPU second. Other programs on the
/// machine only lower the rate of a run.
fn rate(simulate: impl Fn()) -> f64 {
    let seconds = (0..REPEATS).map(|_| {
        let start = ProcessTime::now();
        simulate();
        start.elapsed().as_secs_f64()
    });
    REQUESTS as f64 / 1e6 / seconds.fold(f64::INFINITY, f64::min)
}
