//! Tests of the probe on devices in memory. No test depends on timing.

use flashlab_fit::probe::{
    Action, Direction, Finding, Name, Options, Outcome, Probe, Series, Target as _, Value, drive,
};
use flashlab_measure::{Channel, ProbeError, ProbedTarget, Target, find_capacity};
use std::cell::Cell;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

const MIB: u64 = 1 << 20;

/// Returns the place where a device stores the byte with an offset, or `None` if the device loses the byte.
/// On a counterfeit device, the place may differ from the offset.
type Place = fn(u64) -> Option<u64>;

/// A request that reached the device: name, first byte, length.
type Recorded = (&'static str, u64, u64);

/// A device in memory that claims a capacity.
struct MemoryDevice {
    claims: u64,
    place: Place,
    state: Arc<Mutex<(Vec<u8>, Vec<Recorded>)>>,
}

impl MemoryDevice {
    fn new(claims: u64, place: Place) -> Self {
        MemoryDevice { claims, place, state: Arc::new(Mutex::new((vec![0; claims as usize], Vec::new()))) }
    }

    fn recorded(&self) -> Vec<Recorded> {
        self.state.lock().expect("no panic").1.clone()
    }
}

struct MemoryChannel {
    place: Place,
    state: Arc<Mutex<(Vec<u8>, Vec<Recorded>)>>,
}

impl Channel for MemoryChannel {
    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let mut state = self.state.lock().expect("no panic");
        state.1.push(("read", offset, buffer.len() as u64));
        match (self.place)(offset) {
            Some(at) => buffer.copy_from_slice(&state.0[at as usize..at as usize + buffer.len()]),
            None => buffer.fill(0),
        }
        Ok(())
    }
    fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.state.lock().expect("no panic");
        state.1.push(("write", offset, data.len() as u64));
        if let Some(at) = (self.place)(offset) {
            state.0[at as usize..at as usize + data.len()].copy_from_slice(data);
        }
        Ok(())
    }
    fn discard(&mut self, offset: u64, length: u64) -> io::Result<()> {
        self.state.lock().expect("no panic").1.push(("discard", offset, length));
        Err(io::ErrorKind::Unsupported.into())
    }
    fn flush(&mut self, _: bool) -> io::Result<()> {
        Ok(())
    }
}

impl Target for MemoryDevice {
    fn capacity(&self) -> u64 {
        self.claims
    }
    fn block(&self) -> u32 {
        512
    }
    fn discards(&self) -> bool {
        true
    }
    fn channel(&self) -> io::Result<Box<dyn Channel>> {
        Ok(Box::new(MemoryChannel { place: self.place, state: self.state.clone() }))
    }
}

fn capacity_of(device: &MemoryDevice) -> Finding {
    let finding = find_capacity(device, &|| false).expect("memory does not fail");
    assert_eq!(finding.name, Name::Capacity);
    finding
}

#[test]
fn the_capacity_check_finds_the_real_capacity_of_a_counterfeit_device() {
    let honest = MemoryDevice::new(64 * MIB, Some);
    assert_eq!(capacity_of(&honest).value, Value::Bytes(64 * MIB));
    let wraps = MemoryDevice::new(64 * MIB, |offset| Some(offset % (16 * MIB)));
    assert_eq!(capacity_of(&wraps).value, Value::Bytes(16 * MIB));
    let drops = MemoryDevice::new(64 * MIB, |offset| (offset < 24 * MIB).then_some(offset));
    assert_eq!(capacity_of(&drops).value, Value::Bytes(24 * MIB));
}

#[test]
fn the_capacity_check_writes_only_a_few_marks() {
    let device = MemoryDevice::new(64 * MIB, Some);
    capacity_of(&device);
    let recorded = device.recorded();
    let written: u64 = recorded.iter().filter(|request| request.0 == "write").map(|request| request.2).sum();
    assert_eq!(written, capacity_of(&device).written_bytes);
    assert!((4096..=68 << 10).contains(&written), "{written}");
    assert!(recorded.iter().all(|request| request.0 != "discard"));
}

#[test]
fn without_permission_the_device_is_only_read() {
    let device = MemoryDevice::new(64 * MIB, Some);
    let mut target = ProbedTarget::new(&device, &|| false);
    let mut probe = Probe::new(target.geometry(), Options::default(), 1);
    let findings = drive(&mut probe, &mut target, |_, _| true).expect("memory does not fail");
    assert_eq!(findings.len(), Name::ALL.len());
    let recorded = device.recorded();
    assert!(!recorded.is_empty() && recorded.iter().all(|request| request.0 == "read"));
    assert_eq!(probe.written_bytes(), 0);
}

fn series(direction: Direction, count: u64, depth: u32) -> Series {
    Series { direction, requests: (0..count).map(|n| ((n * 7 % count) * 4096, 4096)).collect(), depth }
}

#[test]
fn a_series_executes_each_request_once_and_at_depth_1_in_order() {
    for depth in [1, 4, 64] {
        let device = MemoryDevice::new(4 * MIB, Some);
        let series = series(Direction::Write, 500, depth);
        let outcome = ProbedTarget::new(&device, &|| false).carry_out(&Action::Run(series.clone()));
        let Ok(Outcome::Run(run)) = outcome else { panic!("no run: {outcome:?}") };
        assert_eq!((run.latencies_ns.len(), run.completed_ns.len()), (500, 500));
        let expected: Vec<Recorded> =
            series.requests.iter().map(|(at, length)| ("write", *at, *length)).collect();
        let mut recorded = device.recorded();
        if depth == 1 {
            assert!(run.completed_ns.is_sorted(), "completions are not in order");
            assert_eq!(recorded, expected);
        }
        let mut expected = expected;
        recorded.sort_unstable();
        expected.sort_unstable();
        assert_eq!(recorded, expected, "depth {depth}");
    }
}

#[test]
fn a_device_that_refuses_discards_is_no_error() {
    let device = MemoryDevice::new(4 * MIB, Some);
    let outcome = ProbedTarget::new(&device, &|| false).carry_out(&Action::Discard(0..MIB));
    assert_eq!(outcome.expect("it is refused, not failed"), Outcome::Refused);
}

#[test]
fn an_error_ends_the_series_and_names_the_failed_request() {
    struct Failing;
    impl Channel for Failing {
        fn read(&mut self, offset: u64, _: &mut [u8]) -> io::Result<()> {
            if offset == 40_960 { Err(io::Error::from_raw_os_error(5)) } else { Ok(()) }
        }
        fn write(&mut self, _: u64, _: &[u8]) -> io::Result<()> {
            Ok(())
        }
        fn discard(&mut self, _: u64, _: u64) -> io::Result<()> {
            Ok(())
        }
        fn flush(&mut self, _: bool) -> io::Result<()> {
            Ok(())
        }
    }
    impl Target for Failing {
        fn capacity(&self) -> u64 {
            4 * MIB
        }
        fn block(&self) -> u32 {
            512
        }
        fn discards(&self) -> bool {
            true
        }
        fn channel(&self) -> io::Result<Box<dyn Channel>> {
            Ok(Box::new(Failing))
        }
    }
    for depth in [1, 8] {
        let action = Action::Run(series(Direction::Read, 100, depth));
        let error = ProbedTarget::new(&Failing, &|| false).carry_out(&action).expect_err("it fails");
        assert!(matches!(error, ProbeError::Request { op: "read", offset: 40_960, .. }), "{error}");
    }
}

#[test]
fn a_stopped_probe_sends_no_more_requests() {
    let device = MemoryDevice::new(64 * MIB, Some);
    let stopped = AtomicBool::new(false);
    let is_stopped = || stopped.load(Ordering::Relaxed);
    let mut target = ProbedTarget::new(&device, &is_stopped);
    let mut probe = Probe::new(target.geometry(), Options::default(), 1);
    let actions = Cell::new(0);
    let error = drive(&mut probe, &mut target, |_, _| {
        actions.set(actions.get() + 1);
        stopped.store(actions.get() > 2, Ordering::Relaxed);
        true
    });
    assert!(matches!(error, Err(ProbeError::Stopped)), "{error:?}");
    assert_eq!(actions.get(), 3);
}
