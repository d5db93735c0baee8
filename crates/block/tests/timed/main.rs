//! A timed device compared with an array, its timing, and power cuts.

mod models;
mod power;

use flashlab_block::conformance::{agrees_with_an_array, answer, ask, read, refuses_what_is_beyond_its_end};
use flashlab_block::{Answer, BlockDevice, Context, Io, IoError, Memory, Pages, Started, Timed};
use flashlab_sim::{Duration, Instant, Model, Status};
use models::{BLOCK, BLOCKS, Failing, Forgetful, LATENCY};

fn joined(model: impl Model + 'static) -> Timed {
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
fn it_reads_like_a_plain_array() {
    for seed in 0..20 {
        agrees_with_an_array(&joined(Forgetful::new(seed)), seed, 300);
    }
    refuses_what_is_beyond_its_end(&joined(Forgetful::new(0)));
}

#[test]
fn it_answers_when_its_model_says_and_not_before() {
    let device = joined(Forgetful::new(1));
    let first = device.start(&at(5), write(0, 7, 1));
    let second = device.start(&at(6), Io::Read { offset: 0, buffer: vec![0; BLOCK as usize] });
    assert_eq!(device.next_due(), Some(at(15).now()));
    device.advance(at(14).now());
    assert_eq!(device.next_due(), Some(at(15).now()));
    device.advance(at(20).now());
    // A completed request is no longer due.
    assert_eq!(device.next_due(), Some(at(25).now()));
    assert!(matches!(answer(&device, first), Ok(Answer::Done)));
    assert!(matches!(answer(&device, second), Ok(Answer::Read(bytes)) if bytes == [7; BLOCK as usize]));
    assert_eq!(device.next_due(), None);
}

#[test]
fn of_what_is_not_done_nothing_can_be_seen() {
    let device = joined(Forgetful::new(1));
    let Started::Later(_dropped) = device.start(&at(0), write(0, 7, 1)) else { panic!("it takes time") };
    let Ok(Answer::Extents(extents)) = ask(&device, Io::Extents { offset: 0, length: BLOCK }) else {
        panic!("it knows its holes")
    };
    assert!(extents[0].hole);
    // The request whose answer was dropped completes nevertheless.
    assert_eq!(read(&device, 0, BLOCK as usize), [7; BLOCK as usize]);
}

#[test]
fn a_long_request_is_several_of_the_models_largest() {
    let device = joined(Forgetful::new(1));
    let long = device.start(&at(0), write(0, 9, 8));
    device.advance((at(0).now() + LATENCY) + LATENCY);
    assert_eq!(device.next_due(), Some(at(0).now() + LATENCY * 3));
    assert!(answer(&device, long).is_ok());
    assert!(read(&device, 0, 8 * BLOCK as usize).iter().all(|byte| *byte == 9));
}

#[test]
fn what_the_model_refuses_changes_nothing_and_says_why() {
    for (status, error) in [
        (Status::ReadOnly, IoError::ReadOnly),
        (Status::Unreadable, IoError::Medium),
        (Status::Unsupported, IoError::Unsupported),
        (Status::OutOfRange, IoError::Invalid),
    ] {
        let device = joined(Failing(status, None));
        assert_eq!(ask(&device, write(0, 7, 1)).err(), Some(error));
        let Ok(Answer::Extents(extents)) = ask(&device, Io::Extents { offset: 0, length: BLOCKS * BLOCK })
        else {
            panic!("it knows its holes")
        };
        assert_eq!((extents.len(), extents[0].hole), (1, true));
    }
}

#[test]
fn fast_zeroes_are_those_that_leave_a_hole() {
    let device = joined(Forgetful::new(1));
    let zeroes = |allocate| Io::WriteZeroes { offset: 0, length: BLOCK, durable: true, allocate, fast: true };
    assert_eq!(ask(&device, zeroes(true)).err(), Some(IoError::Unsupported));
    assert!(ask(&device, zeroes(false)).is_ok());
}
