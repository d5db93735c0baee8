//! A timed device compared with an array, its timing, and power cuts.

pub(crate) mod models;
mod power;

use flashlab_block::conformance::{
    agrees_with_an_array, execute, read, rejects_requests_beyond_the_end, wait_for,
};
use flashlab_block::layer::Kind;
use flashlab_block::{
    Answer, BlockDevice, Completed, Context, Io, IoError, Memory, Monitor, Pages, Started, Timed,
};
use flashlab_sim::{Duration, Instant, Model, Status};
use models::{BLOCK, BLOCKS, Failing, LATENCY, VolatileModel};
use std::sync::{Arc, Mutex};

fn timed(model: impl Model + 'static) -> Timed {
    let capacity = model.geometry().capacity;
    Timed::new(
        Box::new(model),
        Box::new(Memory::new(capacity, Pages::Small).expect("a size that is possible")),
    )
}

fn write(offset: u64, byte: u8, blocks: u64) -> Io {
    Io::Write { offset: offset * BLOCK, data: vec![byte; (blocks * BLOCK) as usize].into(), durable: false }
}

fn at(us: u64) -> Context {
    Context::new(Instant::ZERO + Duration::from_us(us))
}

#[test]
fn a_timed_device_reads_like_a_plain_array() {
    for seed in 0..20 {
        agrees_with_an_array(&timed(VolatileModel::new(seed)), seed, 300);
    }
    rejects_requests_beyond_the_end(&timed(VolatileModel::new(0)));
}

#[test]
fn requests_complete_when_the_model_completes_them() {
    let device = timed(VolatileModel::new(1));
    let first = device.start(&at(5), write(0, 7, 1));
    let second = device.start(&at(6), Io::Read { offset: 0, buffer: vec![0; BLOCK as usize] });
    assert_eq!(device.next_due(), Some(at(15).now()));
    device.advance(at(14).now());
    assert_eq!(device.next_due(), Some(at(15).now()));
    device.advance(at(20).now());
    // A completed request is no longer due.
    assert_eq!(device.next_due(), Some(at(25).now()));
    assert!(matches!(wait_for(&device, first), Ok(Answer::Done)));
    assert!(matches!(wait_for(&device, second), Ok(Answer::Read(bytes)) if bytes == [7; BLOCK as usize]));
    assert_eq!(device.next_due(), None);
}

#[test]
fn an_outstanding_write_has_no_visible_effect() {
    let device = timed(VolatileModel::new(1));
    let Started::Pending(answer) = device.start(&at(0), write(0, 7, 1)) else { panic!("it takes time") };
    drop(answer);
    let Ok(Answer::Extents(extents)) = execute(&device, Io::Extents { offset: 0, length: BLOCK }) else {
        panic!("it knows its holes")
    };
    assert!(extents[0].hole);
    // The request whose answer was dropped completes nevertheless.
    assert_eq!(read(&device, 0, BLOCK as usize), [7; BLOCK as usize]);
}

#[test]
fn a_long_request_is_split_at_the_limit_of_the_model() {
    let device = timed(VolatileModel::new(1));
    let long = device.start(&at(0), write(0, 9, 8));
    device.advance((at(0).now() + LATENCY) + LATENCY);
    assert_eq!(device.next_due(), Some(at(0).now() + LATENCY * 3));
    assert!(wait_for(&device, long).is_ok());
    assert!(read(&device, 0, 8 * BLOCK as usize).iter().all(|byte| *byte == 9));
}

#[test]
fn a_request_that_the_model_rejects_changes_nothing_and_returns_its_error() {
    for (status, error) in [
        (Status::ReadOnly, IoError::ReadOnly),
        (Status::Unreadable, IoError::Medium),
        (Status::Unsupported, IoError::Unsupported),
        (Status::OutOfRange, IoError::Invalid),
    ] {
        let device = timed(Failing(status, None));
        assert_eq!(execute(&device, write(0, 7, 1)).err(), Some(error));
        let Ok(Answer::Extents(extents)) =
            execute(&device, Io::Extents { offset: 0, length: BLOCKS * BLOCK })
        else {
            panic!("it knows its holes")
        };
        assert_eq!((extents.len(), extents[0].hole), (1, true));
    }
}

/// Collects the kinds and bytes of completed requests.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<(Kind, u64)>>>);

impl Monitor for Seen {
    fn completed(&mut self, request: &Completed) {
        assert!(request.is_ok && request.at >= Instant::ZERO + request.spent.total());
        self.0.lock().expect("no thread panicked").push((request.kind, request.bytes));
    }
}

#[test]
fn a_monitor_sees_each_request_of_a_client_once() {
    let device = timed(VolatileModel::new(1));
    let seen = Seen::default();
    device.set_monitor(Box::new(seen.clone()));
    let discard = Io::Discard { offset: 0, length: 4 * BLOCK, durable: true };
    for io in [write(0, 7, 8), discard, Io::Flush] {
        assert!(execute(&device, io).is_ok());
    }
    let expected = [(Kind::Write, 8 * BLOCK), (Kind::Discard, 4 * BLOCK), (Kind::Flush, 0)];
    assert_eq!(*seen.0.lock().expect("no thread panicked"), expected);
}

#[test]
fn fast_zeroes_are_rejected_unless_they_may_leave_a_hole() {
    let device = timed(VolatileModel::new(1));
    let zeroes = |allocate| Io::WriteZeroes { offset: 0, length: BLOCK, durable: true, allocate, fast: true };
    assert_eq!(execute(&device, zeroes(true)).err(), Some(IoError::Unsupported));
    assert!(execute(&device, zeroes(false)).is_ok());
}
