//! Conformance tests for every block device, as functions that a test calls. The panic of a function names
//! the step that failed.
//!
//! While a function waits for an answer, it advances the device to its due times. Otherwise, the device's time stands
//! still.

use crate::{Answer, BlockDevice, Context, Extent, Io, IoError, Outcome, Started};
use flashlab_sim::{Instant, Rng};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Poll, Wake, Waker};

/// Starts a request and waits for its answer, however long that takes in the device's time.
///
/// # Panics
/// Panics if the device has no due time and does not answer within ten seconds.
pub fn execute(device: &dyn BlockDevice, io: Io) -> Outcome {
    wait_for(device, device.start(&Context::new(Instant::ZERO), io))
}

/// Waits for the answer of a started request.
///
/// # Panics
/// Panics if the device has no due time and does not answer within ten seconds.
pub fn wait_for(device: &dyn BlockDevice, started: Started) -> Outcome {
    let mut future = match started {
        Started::Done(outcome) => return outcome,
        Started::Pending(future) => future,
    };
    let woken = Arc::<Woken>::default();
    let waker = Waker::from(woken.clone());
    loop {
        if let Poll::Ready(outcome) = future.as_mut().poll(&mut std::task::Context::from_waker(&waker)) {
            return outcome;
        }
        match device.next_due() {
            Some(due) => device.advance(due),
            None => assert!(woken.wait(), "a device without a due time must answer within ten seconds"),
        }
    }
}

/// Longest wait for the answer of a device that has no due time.
const ANSWER_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(10);

/// The wake-up flag of a single wait. A late wake-up for an earlier request does not set this flag, whereas
/// it would set the token of [`std::thread::park`].
#[derive(Default)]
struct Woken {
    woken: Mutex<bool>,
    changed: Condvar,
}

impl Woken {
    /// Waits for the next wake-up. Returns false if none comes in time.
    fn wait(&self) -> bool {
        let woken = self.woken.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(woken, ANSWER_TIMEOUT, |woken| !*woken);
        std::mem::take(&mut *waited.unwrap_or_else(PoisonError::into_inner).0)
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        *self.woken.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }
}

/// Reads a range.
///
/// # Panics
/// Panics if the read fails.
pub fn read(device: &dyn BlockDevice, offset: u64, length: usize) -> Vec<u8> {
    match execute(device, Io::Read { offset, buffer: vec![0xa5; length] }) {
        Ok(Answer::Read(buffer)) if buffer.len() == length => buffer,
        other => panic!("reading {length} bytes at {offset} gave {other:?}"),
    }
}

/// Runs `steps` random requests on a fresh `device` and on a plain array. Both must return the same bytes; a
/// discarded range must read as zeroes. The reported extents must cover the requested range, and no extent
/// may be marked as zeroes where the array holds data.
///
/// # Panics
/// Panics if the two differ; the message names the seed and the step.
pub fn agrees_with_an_array(device: &dyn BlockDevice, seed: u64, steps: u32) {
    let geometry = device.geometry();
    let mut array = vec![0; usize::try_from(geometry.capacity).expect("a device of a test is small")];
    let mut rng = Rng::new(seed);
    for step in 0..steps {
        let step_name = || format!("seed {seed}, step {step}");
        let (offset, length) = range(&mut rng, geometry.capacity, geometry.block);
        let part = offset as usize..(offset + length) as usize;
        let done = match rng.below(7) {
            0 | 1 => {
                let byte = rng.below(255) as u8 + 1;
                array[part].fill(byte);
                execute(
                    device,
                    Io::Write { offset, data: vec![byte; length as usize].into(), durable: step % 2 == 0 },
                )
            }
            2 => {
                array[part].fill(0);
                execute(device, Io::Discard { offset, length, durable: false })
            }
            3 => {
                array[part].fill(0);
                let allocate = step % 2 == 0;
                execute(device, Io::WriteZeroes { offset, length, durable: false, allocate, fast: false })
            }
            4 => execute(device, Io::Flush),
            5 => {
                let Ok(Answer::Extents(extents)) = execute(device, Io::Extents { offset, length }) else {
                    panic!("no extents: {}", step_name());
                };
                assert_extents(&extents, &array[part], &step_name());
                continue;
            }
            _ => {
                assert!(
                    read(device, offset, length as usize) == array[part],
                    "reads differ: {}",
                    step_name()
                );
                continue;
            }
        };
        assert!(done.is_ok(), "{done:?}: {}", step_name());
    }
    assert!(read(device, 0, array.len()) == array, "the final contents differ: seed {seed}");
}

fn assert_extents(extents: &[Extent], bytes: &[u8], step_name: &str) {
    let mut at = 0;
    for extent in extents {
        let end = bytes.len().min(at + extent.length as usize);
        let zeroes = bytes[at..end].iter().all(|byte| *byte == 0);
        assert!(zeroes || !extent.zero, "{extent:?} at {at} does not read as zeroes: {step_name}");
        at = end;
    }
    assert_eq!(at, bytes.len(), "the extents end early: {step_name}");
    let alike = |pair: &[Extent]| (pair[0].hole, pair[0].zero) == (pair[1].hole, pair[1].zero);
    assert!(!extents.windows(2).any(alike), "two adjacent extents are of the same kind: {step_name}");
}

fn range(rng: &mut Rng, capacity: u64, block: u64) -> (u64, u64) {
    let blocks = capacity / block;
    let longest = [8, 300, 5_000, blocks][rng.below(4) as usize].min(blocks);
    let length = rng.below(longest) + 1;
    (rng.below(blocks - length + 1) * block, length * block)
}

/// Sends requests that reach beyond the end of the device, and checks that each one is rejected and leaves
/// the last block unchanged, which must hold zeroes.
///
/// # Panics
/// Panics if the device accepts one of these requests or returns another error, or if its last block does not
/// hold zeroes.
pub fn rejects_requests_beyond_the_end(device: &dyn BlockDevice) {
    let geometry = device.geometry();
    let block = geometry.block;
    for (offset, length) in [
        (geometry.capacity, block),
        (geometry.capacity.saturating_sub(block), 2 * block),
        (u64::MAX - block + 1, block),
        (u64::MAX / block * block, block),
    ] {
        let data = vec![1; length as usize];
        let outcomes = [
            execute(device, Io::Read { offset, buffer: data.clone() }),
            execute(device, Io::Cache { offset, length }),
            execute(device, Io::Discard { offset, length, durable: false }),
            execute(device, Io::Extents { offset, length }),
        ];
        for outcome in outcomes {
            assert_eq!(outcome.err(), Some(IoError::Invalid), "{length} bytes at {offset}");
        }
        let zeroes = Io::WriteZeroes { offset, length, durable: false, allocate: true, fast: true };
        for io in [Io::Write { offset, data: data.into(), durable: true }, zeroes] {
            assert_eq!(execute(device, io).err(), Some(IoError::NoSpace), "{length} bytes at {offset}");
        }
    }
    let last = block.min(geometry.capacity);
    let last = read(device, geometry.capacity - last, last as usize);
    assert!(last.iter().all(|byte| *byte == 0), "the last block does not hold zeroes");
}
