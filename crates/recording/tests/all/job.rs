//! Replays that report to a recorder of fio, from stored recordings.

use crate::device::Constant;
use flashlab_fio::workload::{Cause as FailureCause, Io, Record};
use flashlab_recording::{
    Action, Cause, Event, Flags, Header, Mode, ReadError, Replay, ReplayJob, Source, Step, TaskId, Writer,
};
use flashlab_sim::{Duration, FileId, Instant, Op, Spent, run};

/// The calls of a replay, as text.
#[derive(Default)]
struct Calls(Vec<String>);

impl Record for Calls {
    fn started(&mut self, job: usize, at: Instant) {
        self.0.push(format!("{job} started {}", us(at)));
    }
    fn submitted(&mut self, _: usize, io: &Io, depth: u32) {
        self.0.push(format!(
            "{} {} submitted {} depth {depth}",
            io.direction.name(),
            io.offset,
            us(io.issued)
        ));
    }
    fn completed(&mut self, _: usize, io: &Io, done: Instant, _: &Spent) {
        self.0.push(format!("{} {} completed {}", io.direction.name(), io.offset, us(done)));
    }
    fn flushing(&mut self, _: usize, _: FileId, offset: u64, data_only: bool, at: Instant) {
        self.0.push(format!("flush after {offset} data {data_only} {}", us(at)));
    }
    fn synced(&mut self, _: usize, issued: Instant, done: Instant, _: &Spent, depth: u32) {
        self.0.push(format!("synced {} to {} depth {depth}", us(issued), us(done)));
    }
    fn ramp_over(&mut self, _: usize, _: Instant) {
        panic!("a replay has no ramp")
    }
    fn failed(&mut self, _: usize, _: &Io, _: Instant, cause: FailureCause) {
        self.0.push(format!("failed {cause:?}"));
    }
    fn finished(&mut self, job: usize, at: Instant) {
        self.0.push(format!("{job} finished {}", us(at)));
    }
}

fn us(at: Instant) -> u64 {
    at.since(Instant::ZERO).as_ns() / 1000
}

/// A write, a flush 5 us after it, and a read 5 us after the flush.
fn steps() -> Vec<Step> {
    let follows = || vec![Cause::Step { back: 1, event: Event::Completed, think: Duration::from_us(5) }];
    let step = |op, offset, length, causes| Step {
        task: TaskId(0),
        at: Duration::ZERO,
        action: Action::Request { op, offset, length, flags: Flags::default() },
        causes,
    };
    vec![
        step(Op::WriteFua, 8192, 4096, vec![]),
        step(Op::FlushData, 0, 0, follows()),
        step(Op::Read, 0, 512, follows()),
    ]
}

fn stored(steps: &[Step]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), &Header::default(), &["a".into()]).unwrap();
    steps.iter().for_each(|step| writer.push(step).unwrap());
    writer.finish().unwrap().0
}

fn calls(source: &Source, until: Option<Instant>) -> Vec<String> {
    let replay = Replay::new(source.steps().unwrap(), Mode::Dependencies, Instant::ZERO);
    let job = ReplayJob::new(replay, source.summary().requests(), Instant::ZERO, Calls::default());
    let mut job = job.until(until);
    run(&mut Constant::parallel(Duration::from_us(10)), &mut job, Instant::ZERO);
    let (steps, calls) = job.finish().unwrap();
    assert!(steps.error().is_none());
    calls.0
}

#[test]
fn a_stored_recording_reports_every_request_each_time() {
    let source = Source::from_bytes(stored(&steps())).unwrap();
    let expected = [
        "0 started 0",
        "write 8192 submitted 0 depth 1",
        "write 8192 completed 10",
        "flush after 8192 data true 15",
        "synced 15 to 25 depth 1",
        "read 0 submitted 30 depth 1",
        "read 0 completed 40",
        "0 finished 40",
    ];
    assert_eq!(calls(&source, None), expected);
    assert_eq!(calls(&source, None), expected, "the second replay begins anew");
    assert_eq!(source.summary().requests(), 3);
}

#[test]
fn a_limit_ends_the_replay_before_the_next_request() {
    let source = Source::from_bytes(stored(&steps())).unwrap();
    let ended = calls(&source, Some(Instant::ZERO + Duration::from_us(30)));
    assert_eq!(ended.last().map(String::as_str), Some("0 finished 25"));
}

#[test]
fn a_damaged_source_is_refused_and_a_change_during_a_replay_ends_the_steps() {
    let bytes = stored(&steps());
    let error: ReadError = Source::from_bytes(bytes[..bytes.len() - 1].to_vec()).unwrap_err();
    assert_eq!(error.problem, "the recording is truncated");
    // The file is shorter when it is opened a second time.
    let opened = std::sync::atomic::AtomicUsize::new(0);
    let source = Source::new(move || {
        let again = opened.fetch_add(1, std::sync::atomic::Ordering::Relaxed) > 0;
        let length = if again { bytes.len() - 60 } else { bytes.len() };
        Ok(Box::new(std::io::Cursor::new(bytes[..length].to_vec())))
    });
    let mut steps = source.unwrap().steps().unwrap();
    assert_eq!(steps.by_ref().count(), 0);
    assert_eq!(steps.error().unwrap().problem, "the recording is truncated");
}
