//! Compares the speed of a replay with that of the fio job that made the same requests, on the same card.
//!
//! Run `cargo bench -p flashlab-lab --bench replay`. The job's iolog becomes a recording in which each
//! request waits for the request `depth` places before it, as in the job. The job and the replay run
//! alternately through the same bench with full statistics. The program prints the ratio of their best runs
//! and asserts no figure. CPU seconds are those of the process. The time of a replay includes reading,
//! decompressing and checking the recording.

use cpu_time::ProcessTime;
use flashlab_catalogue::device::Device;
use flashlab_catalogue::library::Library;
use flashlab_fio::cmdline::Invocation;
use flashlab_fio::iolog::{Action as Logged, Iolog};
use flashlab_fio::job::Job;
use flashlab_fio::loader::NoFiles;
use flashlab_fio::stats::Settings;
use flashlab_lab::bench::{Bench, Trace};
use flashlab_recording::{Action, Cause, Event, Flags, Header, Source, Step, TaskId, Writer};
use flashlab_sim::{Duration, Op};

/// The same allocator as in the `flashlab` program.
#[global_allocator]
static ALLOCATOR: flashlab_block::HugePages = flashlab_block::HugePages;

const REPEATS: usize = 7;
const REQUESTS: u32 = 300_000;

fn main() {
    let library = Library::built_in().expect("the repository's own library");
    println!("{:<40} {:>10} {:>10} {:>8}", "M requests per CPU second", "fio job", "replay", "ratio");
    for device in ["sd/kingston", "nvme/reference"] {
        for (pattern, depth) in [("randread", 1), ("randread", 32), ("randrw", 32), ("write", 1)] {
            measure(&Device::open(device, &library).expect("a device"), pattern, depth);
        }
    }
}

fn measure(device: &Device, pattern: &str, depth: u32) {
    let line = format!(
        "--name=a --direct=1 --rw={pattern} --bs=4k --size=256m --number_ios={REQUESTS} --loops=100 --ioengine=libaio \
         --iodepth={depth} --norandommap"
    );
    let fio = jobs(&line);
    let logged = Job { write_iolog: Some("log".into()), ..fio[0].clone() };
    let (_, texts) = Bench::with(device, 1).run_recorded(&[logged], &Settings::default()).expect("it runs");
    let iolog = Iolog::read(texts[&0].as_bytes()).expect("an iolog");
    let source = recording(&iolog, depth);
    let replay = jobs("--name=a --direct=1 --read_iolog=run.rec");
    let (mut best_job, mut best_replay) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..REPEATS {
        best_job = best_job.min(seconds(Bench::with(device, 1), &fio));
        let mut bench = Bench::with(device, 1);
        bench.load_trace("run.rec", Trace::Recording(Box::new(source.clone())));
        best_replay = best_replay.min(seconds(bench, &replay));
    }
    let rate = |seconds: f64| iolog.entries.len() as f64 / seconds / 1e6;
    println!(
        "{:<40} {:>10.2} {:>10.2} {:>8.2}",
        format!("{} {pattern} at depth {depth}", device.name),
        rate(best_job),
        rate(best_replay),
        best_job / best_replay
    );
}

fn jobs(line: &str) -> Vec<Job> {
    let words: Vec<&str> = line.split_whitespace().collect();
    Invocation::parse(&words, &NoFiles).unwrap_or_else(|error| panic!("{error}")).jobs
}

/// Returns the CPU seconds of a run.
fn seconds(mut bench: Bench, jobs: &[Job]) -> f64 {
    let begin = ProcessTime::now();
    bench.run(jobs, &Settings::default()).expect("it runs");
    begin.elapsed().as_secs_f64()
}

fn recording(iolog: &Iolog, depth: u32) -> Source {
    let header = Header { block: 512, has_dependencies: true, ..Header::default() };
    let mut writer = Writer::new(Vec::new(), &header, &["a".into()]).expect("memory");
    for (number, entry) in iolog.entries.iter().enumerate() {
        let op = match entry.action {
            Logged::Read => Op::Read,
            Logged::Write => Op::Write,
            other => panic!("the job has no {}", other.name()),
        };
        let (offset, length) = (entry.offset, entry.length);
        let cause = Cause::Step { back: depth, event: Event::Completed, think: Duration::ZERO };
        let step = Step {
            task: TaskId(0),
            at: entry.at,
            action: Action::Request { op, offset, length, flags: Flags::default() },
            causes: if number < depth as usize { Vec::new() } else { vec![cause] },
        };
        writer.push(&step).expect("valid");
    }
    Source::from_bytes(writer.finish().expect("memory").0).expect("just written")
}
