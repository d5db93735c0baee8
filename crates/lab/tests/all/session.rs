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
fn options_are_quoted_as_in_a_shell() {
    for job in
        ["--name='two words' --rw=read --size=1m --direct=1", "'--name=two words' --size=1m --direct=1"]
    {
        let session = open("sd/kingston", job);
        let snapshot = serde_json::to_string(&session.snapshot(true)).expect("a snapshot serialises");
        assert!(snapshot.contains("two words"), "{job}: {snapshot}");
    }
    for program in ["fio", "  sudo fio", "/usr/bin/fio", "fio \\\n"] {
        let job = format!("{program} --name='two words' --rw=read --size=1m --direct=1");
        let session = open("sd/kingston", &job);
        assert_eq!(session.snapshot(true).job, job);
    }
    let refused = Session::new(&library(), &["sd/kingston".to_owned()], "--name='two words", 1);
    assert!(matches!(refused, Err(SessionError::OpenQuote)));
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
    session.execute(&Command::Pause {}).expect("always possible");
    pass(&mut session, Duration::from_secs(5));
    session.close_interval();
    let snapshot = session.snapshot(false);
    assert_eq!((snapshot.now_ns, snapshot.paused, snapshot.tick), (now, true, 1), "no interval is added");
    session.execute(&Command::Resume {}).expect("always possible");
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
fn a_request_that_completes_while_time_stands_still_counts_in_the_next_interval() {
    let mut session = open("sd/kingston", ENDLESS);
    pass(&mut session, Duration::from_ms(1));
    pass(&mut session, Duration::from_ms(1));
    session.close_interval();
    // The request in flight completes before the new job begins.
    session.execute(&Command::Job { text: ENDLESS.to_owned() }).expect("a valid job");
    session.close_interval();
    assert_eq!(session.snapshot(false).tick, 1, "no interval of zero length");
    session.execute(&command("{\"do\":\"step\"}")).expect("always possible");
    session.close_interval();
    let snapshot = session.snapshot(true);
    let intervals = &snapshot.devices[0].intervals;
    assert!(intervals.iter().all(|interval| interval.to_ns > interval.from_ns), "{intervals:?}");
    assert_eq!(intervals.last().map(|last| last.requests[1]), Some(2));
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
    assert!(interval.requests[1] > 100_000, "it simulated as fast as it could: {}", interval.requests[1]);
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
        ("sd/kingston", "[a]\ninclude /etc/passwd", "a job on the live page cannot read other files"),
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
    for command in ["pause", "resume", "step", "cut", "unplug", "plug", "alone", "restart"] {
        let json = format!("{{\"do\":\"{command}\",\"x\":1}}");
        assert!(serde_json::from_str::<Command>(&json).is_err(), "{json}");
    }
    for json in ["{\"do\":\"step\",\"requests\":0}", "{\"do\":\"fault\",\"requests\":0}"] {
        assert!(matches!(session.execute(&command(json)), Err(SessionError::NoRequests)), "{json}");
    }
    assert!(matches!(session.execute(&Command::Alone {}), Err(SessionError::OneDevice)));
    let mut message = |json: &str| session.execute(&command(json)).expect_err(json).to_string();
    let beside = message("{\"do\":\"beside\",\"device\":\"./x.toml\"}");
    assert!(beside.starts_with("./x.toml cannot be shown here: expected the name of a device"), "{beside}");
    let job = message("{\"do\":\"job\",\"text\":\"[a]\\nrw=sideways\"}");
    assert!(job.starts_with("the text of the job"), "{job}");
}

/// Executes a command, lets some time pass, and returns the phase, the counter `name` and the last event.
fn after(session: &mut Session, json: &str, name: &str) -> (&'static str, u64, String) {
    session.execute(&command(json)).unwrap_or_else(|error| panic!("{json}: {error}"));
    pass(session, Duration::from_ms(1));
    pass(session, Duration::from_ms(200));
    session.close_interval();
    let snapshot = session.snapshot(false);
    let device = &snapshot.devices[0];
    let counter = device.counters.iter().find(|(known, _)| *known == name).map_or(0, |(_, value)| *value);
    (device.phase, counter, snapshot.events.last().map(|event| event.text.clone()).unwrap_or_default())
}

#[test]
fn a_cut_loses_requests_in_flight_and_the_job_starts_again() {
    for device in ["sd/kingston", "nvme/p32a80", "emmc/typical-16gb"] {
        let mut session = open(device, ENDLESS);
        let (phase, before, _) = after(&mut session, "{\"do\":\"resume\"}", "host_written_bytes");
        assert_eq!(phase, "running", "{device}");
        let (phase, cut, event) = after(&mut session, "{\"do\":\"cut\"}", "host_written_bytes");
        assert!(phase == "running" && cut > before && event.starts_with("power on"), "{device}: {event}");
        let (phase, off, event) =
            after(&mut session, "{\"do\":\"unplug\",\"device\":0}", "host_written_bytes");
        assert!(phase == "unplugged" && event.starts_with("power cut: "), "{device}: {event}");
        let (phase, later, _) = after(&mut session, "{\"do\":\"resume\"}", "host_written_bytes");
        assert_eq!((phase, later), ("unplugged", off), "{device}: nothing is written without power");
        for json in ["{\"do\":\"unplug\"}", "{\"do\":\"cut\"}", "{\"do\":\"fault\",\"requests\":1}"] {
            let refused = session.execute(&command(json));
            assert!(matches!(refused, Err(SessionError::PowerIsOff)), "{device}: {json}");
        }
        let (phase, on, _) = after(&mut session, "{\"do\":\"plug\"}", "host_written_bytes");
        assert!(phase == "running" && on > off, "{device}");
        assert!(matches!(session.execute(&command("{\"do\":\"plug\"}")), Err(SessionError::PowerIsOn)));
    }
}

/// The power is on in all these states, so that "plug it in first" would not help.
#[test]
fn a_command_that_needs_a_running_job_says_what_is_missing() {
    let commands =
        ["{\"do\":\"fault\",\"requests\":1}", "{\"do\":\"discard\",\"offset\":0,\"bytes\":8388608}"];
    let mut session = open("sd/kingston", ENDLESS);
    for json in commands {
        let refused = session.execute(&command(json));
        assert!(matches!(refused, Err(SessionError::NotPrepared)), "{json}: {refused:?}");
    }
    pass(&mut session, Duration::from_ms(1));
    for json in commands {
        let accepted = session.execute(&command(json));
        assert!(accepted.is_ok(), "{json}: {accepted:?}");
    }
}

#[test]
fn a_fault_ends_the_job_and_a_new_job_continues_on_the_same_device() {
    let mut session = open("sd/kingston", ENDLESS);
    let (_, before, _) = after(&mut session, "{\"do\":\"resume\"}", "host_written_bytes");
    let (phase, failed, event) =
        after(&mut session, "{\"do\":\"fault\",\"requests\":1}", "host_written_bytes");
    assert_eq!((phase, event.as_str()), ("finished", "the job has finished"));
    let late = session.execute(&command("{\"do\":\"fault\",\"requests\":1}"));
    assert!(matches!(late, Err(SessionError::NoJob)), "the job has finished: {late:?}");
    assert!(failed >= before);
    let happened: Vec<String> =
        session.snapshot(false).events.iter().map(|event| event.text.clone()).collect();
    assert!(
        happened.iter().any(|text| text == "a request failed (I/O error), so its job ended"),
        "{happened:?}"
    );
    assert!(happened.iter().any(|text| text == "the next request of the job will fail"), "{happened:?}");
    let job = "{\"do\":\"job\",\"text\":\"[w]\\nrw=write\\nbs=64k\\nsize=64m\\ndirect=1\\ntime_based\\nruntime=1d\"}";
    let (phase, written, _) = after(&mut session, job, "host_written_bytes");
    assert!(phase == "running" && written > failed, "the device keeps its counters: {written}");
    assert!(session.snapshot(false).job.starts_with("[w]"));
    let refused = session.execute(&command("{\"do\":\"job\",\"text\":\"--name=a --rw=sideways\"}"));
    assert!(matches!(refused, Err(SessionError::Job(_))));
    assert!(session.snapshot(false).job.starts_with("[w]"), "a refused job changes nothing");
}

#[test]
fn a_discard_unmaps_its_range_and_a_range_beyond_the_end_is_refused() {
    let mut session = open("sd/kingston", "--name=a --rw=write --bs=1m --size=16m --direct=1");
    session.execute(&Command::Speed { factor: 1e3 }).expect("a valid speed");
    let (phase, mapped, _) = after(&mut session, "{\"do\":\"resume\"}", "mapped_bytes");
    assert_eq!((phase, mapped), ("finished", 16 << 20));
    let discard = "{\"do\":\"discard\",\"offset\":0,\"bytes\":8388608}";
    let (_, mapped, event) = after(&mut session, discard, "mapped_bytes");
    assert_eq!((mapped, event.as_str()), (8 << 20, "the discard completed"));
    for json in [
        "{\"do\":\"discard\",\"offset\":1,\"bytes\":512}",
        "{\"do\":\"discard\",\"offset\":0,\"bytes\":0}",
        "{\"do\":\"discard\",\"offset\":18446744073709551104,\"bytes\":1024}",
    ] {
        assert!(matches!(session.execute(&command(json)), Err(SessionError::Range { .. })), "{json}");
    }
}

#[test]
fn a_changed_number_takes_effect_and_only_a_number_of_the_host_keeps_the_state() {
    let mut session = open("sd/kingston:flash.t_bers=4ms", ENDLESS);
    let rate = |session: &mut Session| {
        let begin = session.snapshot(false).now_ns;
        session.close_interval();
        pass(session, Duration::from_secs(1));
        session.close_interval();
        let snapshot = session.snapshot(false);
        assert!(snapshot.now_ns > begin);
        snapshot.devices[0].intervals[0].requests[1]
    };
    while session.work() {}
    let fast = rate(&mut session);
    let slow = "{\"do\":\"set\",\"key\":\"t_prog\",\"value\":\"5ms\"}";
    let (_, _, event) = after(&mut session, slow, "");
    assert_eq!(event, "t_prog=5ms: the device starts as new");
    let slowed = rate(&mut session);
    assert!(slowed * 2 < fast, "{slowed} of {fast} requests a second");
    assert_eq!(session.snapshot(false).devices[0].device, "sd/kingston:flash.t_bers=4ms,t_prog=5ms");
    let again = "{\"do\":\"set\",\"key\":\"flash.t_prog\",\"value\":\"250us\"}";
    after(&mut session, again, "");
    assert_eq!(session.snapshot(false).devices[0].device, "sd/kingston:flash.t_bers=4ms,flash.t_prog=250us");
    let written = after(&mut session, "{\"do\":\"resume\"}", "host_written_bytes").1;
    let host = "{\"do\":\"set\",\"key\":\"host\",\"value\":\"raspberry-pi-4\"}";
    let (_, kept, event) = after(&mut session, host, "host_written_bytes");
    assert!(kept >= written, "{kept} after {written}: {event}");
    assert_eq!(event, "host=raspberry-pi-4: the device keeps its state");
    for (key, value) in
        [("state", "x"), ("host", "./x.toml"), ("", "1"), ("t_prog", "1us,t_bers=1us"), ("t_prog", "")]
    {
        let set = Command::Set { device: None, key: key.into(), value: value.into() };
        assert!(matches!(session.execute(&set), Err(SessionError::Setting { .. })), "{key}={value}");
    }
    let unknown = Command::Set { device: None, key: "t_porg".into(), value: "1us".into() };
    assert!(matches!(session.execute(&unknown), Err(SessionError::Device(_))));
}

/// A request takes 85 ms, so an interval contains the end of one request or of two.
#[test]
fn rates_over_the_time_of_the_requests_do_not_depend_on_the_ends_of_the_intervals() {
    let job = "--name=a --rw=write --bs=1m --size=64m --direct=1 --time_based --runtime=1d";
    let mut session = open("usb/usb3-1", job);
    while session.work() {}
    for _ in 0..100 {
        pass(&mut session, Duration::from_ms(100));
        session.close_interval();
    }
    let snapshot = session.snapshot(true);
    let intervals = &snapshot.devices[0].intervals;
    let counts: Vec<u64> = intervals.iter().map(|interval| interval.requests[1]).collect();
    assert!(
        counts[1..].contains(&1) && counts[1..].contains(&2),
        "the numbers of requests differ: {counts:?}"
    );
    for pair in intervals.windows(2) {
        assert_eq!(pair[1].busy_from_ns, pair[0].busy_to_ns, "the requests follow each other");
        let rate = pair[1].bytes[1] as f64 / (pair[1].busy_to_ns - pair[0].busy_to_ns) as f64 * 1e9;
        assert!((rate / 12.35e6 - 1.0).abs() < 0.1, "{rate}");
    }
}

#[test]
fn new_devices_begin_a_new_history_and_a_changed_number_keeps_it() {
    let mut session = open("sd/kingston", ENDLESS);
    let lengths = |session: &Session| -> Vec<usize> {
        let snapshot = session.snapshot(true);
        assert!(snapshot.devices.iter().all(|device| device.history == device.intervals.len()));
        snapshot.devices.iter().map(|device| device.history).collect()
    };
    after(&mut session, "{\"do\":\"resume\"}", "");
    after(&mut session, "{\"do\":\"resume\"}", "");
    assert_eq!(lengths(&session), [2]);
    for beside in ["nvme/p32a80", "sd/sandisk"] {
        let json = format!("{{\"do\":\"beside\",\"device\":\"{beside}\"}}");
        session.execute(&command(&json)).expect("the device exists");
        assert_eq!(lengths(&session), [0, 0], "{beside}");
        after(&mut session, "{\"do\":\"resume\"}", "");
        assert_eq!(lengths(&session), [1, 1], "{beside}");
    }
    // A changed number keeps the history, and the interval of the change is marked.
    after(&mut session, "{\"do\":\"set\",\"device\":1,\"key\":\"flash.t_prog\",\"value\":\"5ms\"}", "");
    assert_eq!(lengths(&session), [2, 2]);
    let snapshot = session.snapshot(true);
    let marks = |device: usize| -> Vec<bool> {
        snapshot.devices[device].intervals.iter().map(|interval| interval.is_changed).collect()
    };
    assert_eq!((marks(0), marks(1)), (vec![false, false], vec![false, true]));
}

#[test]
fn two_devices_run_the_same_job_up_to_the_same_instant() {
    let mut session = open("sd/kingston", ENDLESS);
    after(&mut session, "{\"do\":\"beside\",\"device\":\"sd/kingston\"}", "");
    {
        let snapshot = session.snapshot(true);
        assert_eq!(snapshot.devices.len(), 2);
        assert_eq!(
            snapshot.devices[0].counters, snapshot.devices[1].counters,
            "equal devices, equal counters"
        );
        assert!(
            snapshot.devices[1].counters.iter().any(|(name, value)| *name == "erase_count" && *value > 0)
        );
    }
    after(&mut session, "{\"do\":\"unplug\",\"device\":1}", "");
    let phases: Vec<&str> = session.snapshot(false).devices.iter().map(|device| device.phase).collect();
    assert_eq!(phases, ["running", "unplugged"]);
    let none = Command::Beside { device: "sd/none".into() };
    assert!(matches!(session.execute(&none), Err(SessionError::Device(_))));
    assert_eq!(session.snapshot(false).devices.len(), 2);
    after(&mut session, "{\"do\":\"alone\"}", "");
    assert_eq!(session.snapshot(false).devices.len(), 1);
    let third = Command::Cut(flashlab_lab::session::Target { device: Some(1) });
    assert!(matches!(session.execute(&third), Err(SessionError::NoDevice { device: 1 })));
}

#[test]
fn a_command_for_all_devices_changes_none_if_one_refuses_it() {
    let devices = ["sd/kingston".to_owned(), "sd/sandisk".to_owned()];
    let mut session = Session::new(&library(), &devices, ENDLESS, 1).expect("devices and job are valid");
    after(&mut session, "{\"do\":\"resume\"}", "");
    after(&mut session, "{\"do\":\"unplug\",\"device\":1}", "");
    for json in ["{\"do\":\"fault\",\"requests\":1}", "{\"do\":\"discard\",\"offset\":0,\"bytes\":8388608}"] {
        let refused = session.execute(&command(json));
        assert!(matches!(refused, Err(SessionError::PowerIsOff)), "{json}: {refused:?}");
        after(&mut session, "{\"do\":\"resume\"}", "");
        let events = session.snapshot(false).events.last().map(|event| event.text.clone());
        assert!(events.is_some_and(|text| text.starts_with("power cut")), "{json}");
        assert_eq!(session.snapshot(false).devices[0].phase, "running", "{json}");
    }
    // A power command applies to the devices that accept it.
    let phases = |session: &Session| {
        session.snapshot(false).devices.iter().map(|device| device.phase).collect::<Vec<_>>()
    };
    after(&mut session, "{\"do\":\"unplug\"}", "");
    assert_eq!(phases(&session), ["unplugged", "unplugged"]);
    assert!(matches!(session.execute(&command("{\"do\":\"unplug\"}")), Err(SessionError::PowerIsOff)));
    after(&mut session, "{\"do\":\"plug\",\"device\":0}", "");
    after(&mut session, "{\"do\":\"plug\"}", "");
    assert_eq!(phases(&session), ["running", "running"]);
    assert!(matches!(session.execute(&command("{\"do\":\"plug\"}")), Err(SessionError::PowerIsOn)));
}

/// The drive needs many more events per simulated second than the card, so the processor limits the drive only.
#[test]
fn each_interval_of_two_devices_holds_the_requests_of_its_own_time() {
    let devices = ["sd/kingston".to_owned(), "nvme/p32a80".to_owned()];
    let mut session = Session::new(&library(), &devices, ENDLESS, 1).expect("devices and job are valid");
    let mut alone = open("sd/kingston", ENDLESS);
    pass(&mut alone, Duration::from_ms(1));
    session.execute(&Command::Speed { factor: 600.0 }).expect("a valid speed");
    while session.work() {}
    let mut intervals = 0;
    for _ in 0..60 {
        session.pass(Duration::from_ms(100));
        for _ in 0..7 {
            session.work();
        }
        session.close_interval();
        let snapshot = session.snapshot(false);
        let Some(interval) = snapshot.devices[0].intervals.first().filter(|_| snapshot.tick > intervals)
        else {
            continue;
        };
        intervals = snapshot.tick;
        pass(&mut alone, Duration::from_ns(interval.to_ns - interval.from_ns));
        alone.close_interval();
        let expected = alone.snapshot(false).devices[0].intervals[0].requests[1];
        // A device may be ahead by one event.
        assert!(interval.requests[1].abs_diff(expected) <= 1, "{expected} in {interval:?}");
    }
    assert!(intervals > 50, "{intervals} intervals");
    let now = session.snapshot(false).now_ns;
    assert!(now < 60 * 60 * 1_000_000_000, "the session reached its speed, so the test shows nothing: {now}");
}

#[test]
fn the_picture_of_the_blocks_shows_open_blocks_and_valid_data() {
    for (device, open) in [("sd/kingston", 'H'), ("nvme/p32a80", 'H'), ("sd/sandisk-2gb", 'L')] {
        let mut session = open_picture(device);
        let (phase, ..) = after(&mut session, "{\"do\":\"resume\"}", "");
        let snapshot = session.snapshot(false);
        let picture = snapshot.devices[0].blocks.as_ref().unwrap_or_else(|| panic!("{device} has blocks"));
        assert_eq!(picture.uses.len(), picture.erases.len(), "{device}, {phase}");
        assert_eq!(picture.valid.len(), picture.erases.len(), "{device}");
        assert!(picture.uses.contains(open), "{device}: {:.200}", picture.uses);
        assert!(picture.valid.contains(|c| c > 'a'), "{device}");
    }
}

fn open_picture(device: &str) -> Session {
    let mut session =
        open(device, "--name=a --rw=randwrite --bs=64k --size=256m --direct=1 --time_based --runtime=1d");
    session.execute(&Command::Speed { factor: 100.0 }).expect("a valid speed");
    session
}

/// Adds the keys of all objects in `value`.
fn keys(value: &serde_json::Value, all: &mut std::collections::BTreeSet<String>) {
    match value {
        serde_json::Value::Object(members) => members.iter().for_each(|(key, member)| {
            all.insert(key.clone());
            keys(member, all);
        }),
        serde_json::Value::Array(members) => members.iter().for_each(|member| keys(member, all)),
        _ => {}
    }
}

#[test]
fn the_documentation_of_the_live_page_has_each_key_of_the_state() {
    let mut session = open("sd/kingston", ENDLESS);
    after(&mut session, "{\"do\":\"cut\"}", "");
    let state = serde_json::to_value(session.snapshot(true)).expect("a snapshot serialises");
    let mut found = std::collections::BTreeSet::new();
    keys(&state, &mut found);
    assert!(found.contains("rated_cycles") && found.contains("busy_to_ns") && found.contains("at_ns"));
    let text = include_str!("../../../../docs/live-page.md");
    let rows: Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix("| `")?.split(" |").next()).collect();
    let missing: Vec<&String> =
        found.iter().filter(|key| !rows.iter().any(|row| row.split('`').any(|word| word == *key))).collect();
    assert!(missing.is_empty(), "docs/live-page.md lacks {missing:?}");
    let mechanisms = flashlab_sim::Mechanism::ALL.map(|mechanism| format!("`{}`", mechanism.name()));
    assert!(text.contains(&mechanisms.join(", ")), "the order of the mechanisms");
}
