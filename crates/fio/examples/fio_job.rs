//! Runs the fio jobs given on the command line, or random reads without arguments, on a device that takes 250
//! us for each request. Prints the IOPS and the bandwidth.
//!
//! `cargo run -p flashlab-fio --example fio_job -- --rw=randread --bs=4k --size=1g --iodepth=8 --runtime=10`

use flashlab_fio::cmdline::Invocation;
use flashlab_fio::loader::NoFiles;
use flashlab_fio::workload::{Cause, Io, Jobs, Record, Task};
use flashlab_sim::{
    Completion, Duration, Geometry, Instant, Mechanism, Model, PowerCut, Request, RequestId, Spent, Status,
    run,
};
use std::collections::VecDeque;
use std::process::ExitCode;

const LATENCY: Duration = Duration::from_us(250);
const CAPACITY: u64 = 16 << 30;

/// A device on which every request takes the same time, regardless of the number in flight.
#[derive(Clone)]
struct FixedLatency {
    in_flight: VecDeque<(Instant, RequestId)>,
}

impl Model for FixedLatency {
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

/// A recorder that counts the requests and bytes of each job since its start, or since the end of its ramp.
struct Count(Vec<(u64, u64, Instant)>);

impl Record for Count {
    fn started(&mut self, _: usize, _: Instant) {}
    fn submitted(&mut self, _: usize, _: &Io, _: u32) {}
    fn completed(&mut self, job: usize, io: &Io, _: Instant, _: &Spent) {
        self.0[job].0 += 1;
        self.0[job].1 += io.length;
    }
    fn synced(&mut self, _: usize, _: Instant, _: Instant, _: &Spent, _: u32) {}
    fn ramp_over(&mut self, job: usize, at: Instant) {
        self.0[job] = (0, 0, at);
    }
    fn failed(&mut self, job: usize, io: &Io, _: Instant, cause: Cause) {
        eprintln!("job {job}: {cause:?} at byte {}", io.offset);
    }
    fn finished(&mut self, job: usize, at: Instant) {
        let (requests, bytes, since) = self.0[job];
        let seconds = at.since(since).as_secs_f64();
        let (iops, mib) = (requests as f64 / seconds, bytes as f64 / seconds / (1 << 20) as f64);
        println!("job {job}: {requests} requests in {seconds:.3} s: {iops:.0} IOPS, {mib:.1} MiB/s");
    }
}

fn main() -> ExitCode {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    if args.is_empty() {
        args =
            ["--rw=randread", "--bs=4k", "--size=1g", "--iodepth=8", "--runtime=10"].map(String::from).into();
    }
    args.insert(0, "--name=job".to_string());
    args.insert(1, "--ioengine=null".to_string());
    let invocation = match Invocation::parse(&args, &NoFiles) {
        Ok(invocation) => invocation,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    let jobs = &invocation.jobs;
    let tasks = jobs.iter().zip(0..).map(|(job, number)| Task::on_device(job, number, CAPACITY)).collect();
    let count = Count(vec![(0, 0, Instant::ZERO); jobs.len()]);
    match Jobs::new(Instant::ZERO, tasks, count) {
        Ok(mut wave) => {
            run(&mut FixedLatency { in_flight: VecDeque::new() }, &mut wave, Instant::ZERO);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}
