//! Waiting for devices that answer later, on the thread of the caller.

use flashlab_block::{BlockDevice, Context, Io, Outcome, Started};
use flashlab_sim::Instant;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, Wake, Waker};
use std::thread::{self, Thread};

/// Waits for a future that depends on devices, which answer from other threads or at the times of a model. A device
/// with a model advances immediately to each of its events.
pub fn wait<T>(future: impl Future<Output = T>, devices: &[Arc<dyn BlockDevice>]) -> T {
    let next_due = || devices.iter().filter_map(|device| device.next_due()).min();
    wait_for(future, next_due, |due| devices.iter().for_each(|device| device.advance(due)))
}

/// Waits for a future that depends on one device, which answers from another thread or at the times of its model.
pub fn wait_on<T>(future: impl Future<Output = T>, device: &dyn BlockDevice) -> T {
    wait_for(future, || device.next_due(), |due| device.advance(due))
}

/// Executes a request on a device, and waits for its outcome.
pub fn execute(device: &dyn BlockDevice, io: Io) -> Outcome {
    match device.start(&Context::new(Instant::ZERO), io) {
        Started::Done(outcome) => outcome,
        Started::Pending(future) => wait_on(future, device),
    }
}

/// Waits for a future that other threads wake. Returns `None` once the future waits and `is_due` returns true.
pub(crate) fn wait_unless<T>(
    future: &mut (impl Future<Output = T> + Unpin),
    is_due: impl Fn() -> bool,
) -> Option<T> {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = std::pin::Pin::new(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut std::task::Context::from_waker(&waker)) {
            return Some(value);
        }
        if is_due() {
            return None;
        }
        // An unpark before this call is not lost.
        thread::park();
    }
}

fn wait_for<T>(
    future: impl Future<Output = T>,
    next_due: impl Fn() -> Option<Instant>,
    advance: impl Fn(Instant),
) -> T {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut std::task::Context::from_waker(&waker)) {
            return value;
        }
        match next_due() {
            Some(due) => advance(due),
            // An unpark before this call is not lost.
            None => thread::park(),
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
