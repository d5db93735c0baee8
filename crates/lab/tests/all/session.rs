//! Sessions: devices under a job whose time passes in pieces, with commands in between.

use flashlab_catalogue::device::Device;
use flashlab_catalogue::library::Library;
use flashlab_fio::cmdline::Invocation;
use flashlab_fio::loader::NoFiles;
use flashlab_fio::stats::Settings;
use flashlab_lab::bench::Bench;
use flashlab_lab::session::{Command, Session, SessionError};
use flashlab_sim::Duration;

const ENDLESS: &str = "--name=a --rw=randwrite --bs=16k --size=64m --direct=1 --time_based --runtime=100d";

fn library() -> Library {
    Library::built_in().expect("the repository's own library")
}

fn open(device: &str, job: &str) -> Session {
    Session::new(&library(), &[device.to_owned()], job, 1).expect("device and job are valid")
}

fn command(json: &str) -> Command {
    serde_json::from_str(json).expect("a command")
}

/// Lets `wall` pass and simulates until the target is reached.
fn pass(session: &mut Session, wall: Duration) {
    session.pass(wall);
    while session.work() {}
}

/// Returns the phase, the counters and the number of requests of the only device.
fn outcome(session: &mut Session) -> (&'static str, Vec<(&'static str, u64)>, u64) {
    session.close_interval();
    let snapshot = session.snapshot(true);
    let device = &snapshot.devices[0];
    let requests = device.intervals.iter().map(|interval| interval.requests.iter().sum::<u64>()).sum();
    (device.phase, device.counters.clone(), requests)
}

#[test]
fn a_session_in_pieces_gives_the_counters_of_a_bench() {
    for (argument, job) in [
        ("sd/kingston", "--name=a --rw=randrw --bs=4k --size=16m --number_ios=3000 --direct=1"),
        (
            "nvme/p32a80",
            "--name=a --rw=randwrite --bs=4k --size=64m --iodepth=16 --ioengine=libaio --number_ios=5000 --direct=1 --name=b --stonewall --rw=read --bs=64k --size=8m --direct=1",
        ),
    ] {
        let words: Vec<&str> = job.split(' ').collect();
        let jobs = Invocation::parse(&words, &NoFiles).expect("the job is valid").jobs;
        let device = Device::open(argument, &library()).expect("it exists");
        let mut bench = Bench::with(&device, 1);
        bench.write_before_read(&jobs).expect("it fits");
        let statistics = bench.run(&jobs, &Settings::default()).expect("the jobs run");
        let requests: u64 = (0..jobs.len())
            .flat_map(|job| {
                flashlab_fio::job::Direction::ALL.map(|d| statistics.job(job).direction(d).total_ios())
            })
            .sum();
        let expected: Vec<_> = bench.counters().iter().collect();
        for wall in [1, 7, 1_000] {
            let mut session = open(argument, job);
            let (mut seen, mut tick) = (0, 0);
            let counters = loop {
                pass(&mut session, Duration::from_ms(wall));
                session.close_interval();
                let snapshot = session.snapshot(false);
                if snapshot.tick > tick {
                    tick = snapshot.tick;
                    seen += snapshot.devices[0].intervals[0].requests.iter().sum::<u64>();
                }
                if snapshot.devices[0].phase == "finished" {
                    break snapshot.devices[0].counters.clone();
                }
            };
            assert_eq!(counters, expected, "{argument} in pieces of {wall} ms");
            assert_eq!(seen, requests, "{argument} in pieces of {wall} ms");
            let snapshot = session.snapshot(true);
            assert_eq!(snapshot.events.last().map(|event| &*event.text), Some("the job has finished"));
        }
    }
}

#[test]
fn simulated_time_follows_the_speed_and_stands_still_during_a_pause() {
    let mut session = open("sd/kingston", ENDLESS);
    pass(&mut session, Duration::from_ms(1));
    session.execute(&command("{\"do\":\"speed\",\"factor\":100}")).expect("a valid speed");
    for _ in 0..10 {
        pass(&mut session, Duration::from_ms(100));
    }
    session.close_interval();
    let now = session.snapshot(false).now_ns;
    assert_eq!(
        now, 100_000_000_000,
        "100 seconds; the first millisecond passes before the device is prepared"
    );
    session.execute(&Command::Pause).expect("always possible");
    pass(&mut session, Duration::from_secs(5));
    session.close_interval();
    let snapshot = session.snapshot(false);
    assert_eq!((snapshot.now_ns, snapshot.paused, snapshot.tick), (now, true, 1), "no interval is added");
    session.execute(&Command::Resume).expect("always possible");
    pass(&mut session, Duration::from_ms(1));
    session.close_interval();
    assert!(session.snapshot(false).now_ns > now);
}

#[test]
fn a_step_completes_as_many_requests_as_asked_and_pauses() {
    let mut session = open("sd/kingston", ENDLESS);
    session.execute(&command("{\"do\":\"step\"}")).expect("always possible");
    assert_eq!(outcome(&mut session).2, 1);
    session.execute(&command("{\"do\":\"step\",\"requests\":41}")).expect("always possible");
    assert_eq!(outcome(&mut session).2, 42);
    assert!(session.snapshot(false).paused);
}

#[test]
fn a_session_that_is_slower_than_its_speed_drops_time_instead_of_falling_behind() {
    let mut session = open("sd/kingston", ENDLESS);
    while session.work() {}
    session.execute(&Command::Speed { factor: 1e6 }).expect("a valid speed");
    for _ in 0..100 {
        session.pass(Duration::from_ms(100));
        session.work();
    }
    session.close_interval();
    let snapshot = session.snapshot(false);
    let interval = snapshot.devices[0].intervals[0];
    assert_eq!(interval.wall_ns, 10_000_000_000);
    assert!(snapshot.now_ns < 3_600_000_000_000, "the session did not pretend: {}", snapshot.now_ns);
    assert!(interval.requests[1] > 100_000, "it simulated what it could: {}", interval.requests[1]);
}

#[test]
fn an_impossible_device_job_or_command_is_refused_with_the_reason() {
    let refused = |device: &str, job: &str| {
        let session = Session::new(&library(), &[device.to_owned()], job, 1);
        session.err().unwrap_or_else(|| panic!("{device} ran {job}")).to_string()
    };
    for (device, job, why) in [
        ("sd/kingstn", ENDLESS, "sd/kingston"),
        ("sd/kingston", "--name=a --rw=sideways --direct=1", "sideways"),
        ("sd/kingston", "--name=a --rw=write --bs=1000 --direct=1", "multiple"),
        ("sd/kingston", "--name=a --rw=write --bs=4k --direct=1 --verify=crc32c", "verify"),
        ("sd/kingston", "--name=a --rw=write --bs=4k --direct=1 --directory=/mnt --size=1m", "directory="),
        ("sd/kingston", "--name=a --rw=read --direct=1 --read_iolog=/etc/passwd", "read_iolog="),
        ("sd/kingston", "--name=a --rw=write --bs=4k --direct=1 --numjobs=65", "65 jobs"),
        ("sd/kingston", "[a]\ninclude /etc/passwd", "live job reads no other files"),
        ("sd/kingston", "", "job"),
    ] {
        let message = refused(device, job);
        assert!(message.contains(why), "{device} {job}: {message}");
    }
    let mut session = open("sd/kingston", ENDLESS);
    for factor in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e10] {
        let error = session.execute(&Command::Speed { factor });
        assert!(matches!(error, Err(SessionError::Speed { .. })), "{factor}");
    }
    for json in
        ["{}", "[]", "{\"do\":\"explode\"}", "{\"do\":\"speed\"}", "{\"do\":\"step\",\"requests\":-1}"]
    {
        assert!(serde_json::from_str::<Command>(json).is_err(), "{json}");
    }
}
