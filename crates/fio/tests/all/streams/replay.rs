//! Tests of the replay of recorded iologs.

use super::fake::{Event, EventLog, FixedLatency, jobs};
use flashlab_fio::iolog::{Action, Iolog};
use flashlab_fio::job::Job;
use flashlab_fio::workload::{File, Jobs, Task, WorkloadError};
use flashlab_sim::{Duration, FileId, Instant, run};

fn replay(log: &str, options: &str, files: usize) -> Result<EventLog, WorkloadError> {
    let iolog = Iolog::read(log.as_bytes()).unwrap_or_else(|error| panic!("{error}"));
    let job = Job { read_iolog: Some("log".to_string()), ..jobs(options).remove(0) };
    let files = (0..files as u32).map(|id| File { id: FileId(id), size: 1 << 30 }).collect();
    let task = Task { job: &job, files, number: 0, entropy: 0, iolog: Some(iolog) };
    let mut wave = Jobs::new(Instant::ZERO, vec![task], EventLog::default())?;
    run(&mut FixedLatency::new(Duration::from_us(100)), &mut wave, Instant::ZERO);
    Ok(wave.into_record())
}

fn times_us(events: &EventLog) -> Vec<u64> {
    events.requests(0).iter().map(|io| io.issued.as_ns() / 1_000).collect()
}

const LOG: &str = "fio version 3 iolog\n50 a add\n50 a open\n150 a write 0 4096\n160 a write 4096 4096\n\
                   1050 a sync 4096 0\n1060 a read 8192 512\n5050 a trim 0 8192\n5060 a close\n";

#[test]
fn requests_are_submitted_at_their_recorded_times_or_once_the_depth_allows() {
    let events = replay(LOG, "--rw=read", 1).expect("it replays");
    // The second request waits for the first, and the read waits for the flush.
    assert_eq!(times_us(&events), [100, 200, 1_190, 5_180]);
    assert!(events.of_job(0).any(|event| matches!(
        event,
        Event::Synced(from, to) if (from.as_ns(), to.as_ns()) == (1_090_000, 1_190_000)
    )));
    let deep = replay(LOG, "--rw=read --iodepth=4 --ioengine=libaio --direct=1", 1).expect("it replays");
    assert_eq!(times_us(&deep), [100, 110, 1_100, 5_090]);
    assert!(deep.completions(0).iter().all(|(io, done)| done.since(io.issued) == Duration::from_us(100)));
}

#[test]
fn a_late_replay_preserves_the_intervals() {
    let log = "fio version 3 iolog\n100 f add\n110 f write 0 4096\n200110 f read 0 4096\n200120 f sync 0 0\n\
               400120 f write 8192 4096\n";
    let events = replay(log, "--rw=read --ioengine=null --thinktime=300ms", 1).expect("it replays");
    // fio 3.33 with this log and these options: requests at 0, 300 and 800 ms, and 1102 ms in total.
    let ms: Vec<u64> = times_us(&events).iter().map(|us| us / 1_000).collect();
    assert_eq!(ms, [0, 300, 800]);
    assert_eq!(events.finished(0).as_ns() / 1_000_000, 1_100);
}

#[test]
fn replay_no_stall_submits_without_pauses() {
    let log = LOG.replace("1050 a sync 4096 0\n", "");
    let mut job = jobs("--rw=read").remove(0);
    job.replay_no_stall = true;
    job.read_iolog = Some("log".to_string());
    let iolog = Iolog::read(log.as_bytes()).expect("an iolog");
    let task = Task { iolog: Some(iolog), ..Task::on_device(&job, 0, 1 << 30) };
    let mut wave = Jobs::new(Instant::ZERO, vec![task], EventLog::default()).expect("it replays");
    run(&mut FixedLatency::new(Duration::from_us(100)), &mut wave, Instant::ZERO);
    assert_eq!(times_us(wave.record()), [0, 100, 200, 300]);
}

#[test]
fn waits_of_version_2_delay_requests() {
    let log = "fio version 2 iolog\na add\na open\na write 0 4096\na wait 30 0\na write 4096 4096\na close\n";
    assert_eq!(times_us(&replay(log, "--rw=read", 1).expect("it replays")), [0, 30_000]);
}

#[test]
fn a_replay_makes_the_recorded_requests() {
    let log = Iolog::read(LOG.as_bytes()).expect("an iolog");
    let requests = replay(LOG, "--rw=read", 1).expect("it replays").requests(0);
    let expected: Vec<_> =
        log.entries.iter().filter(|e| e.action != Action::Sync).map(|e| (e.offset, e.length)).collect();
    assert_eq!(requests.iter().map(|io| (io.offset, io.length)).collect::<Vec<_>>(), expected);
}

#[test]
fn files_of_a_log_map_to_those_of_the_job_or_to_its_only_file() {
    let log = "fio version 2 iolog\na add\nb add\na open\nb open\na read 0 512\nb read 0 512\n";
    let files = |events: EventLog| events.requests(0).iter().map(|io| io.file.0).collect::<Vec<_>>();
    assert_eq!(files(replay(log, "--rw=read", 2).expect("it replays")), [0, 1]);
    assert_eq!(files(replay(log, "--rw=read", 1).expect("it replays")), [0, 0]);
    let three = log.replace("b add\n", "b add\nc add\n");
    assert!(matches!(
        replay(&three, "--rw=read", 2),
        Err(WorkloadError::TooFewFiles { named: 3, files: 2, .. })
    ));
}

#[test]
fn a_runtime_ends_a_replay() {
    let events = replay(LOG, "--rw=read --runtime=2ms", 1).expect("it replays");
    assert_eq!(times_us(&events), [100, 200, 1_190]);
    assert_eq!(events.finished(0), Instant::from_ns(2_000_000));
}

#[test]
fn a_log_that_was_not_loaded_is_an_error() {
    let job = Job { read_iolog: Some("log".to_string()), ..Job::default() };
    let wave = Jobs::new(Instant::ZERO, vec![Task::on_device(&job, 0, 1 << 30)], ());
    assert!(matches!(wave, Err(WorkloadError::NoIolog { .. })));
}
