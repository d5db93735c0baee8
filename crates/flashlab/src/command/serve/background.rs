//! Background work of served volumes, on an executor that follows the time of the server's devices.
//!
//! One thread drives the work of one volume. While the work waits for members of the volume, this thread
//! advances them, because no other thread does so without clients. After the signal to stop, the work
//! finishes its current extent and commit before the thread ends.

use flashlab_block::{BlockDevice, Context, Runtime, Task};
use flashlab_serve::{DeviceTime, Stop};
use flashlab_served::Closing;
use flashlab_sim::{Duration as Simulated, Instant, mix};
use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant as Wall};

/// Longest sleep between two polls of the work.
const SLEEP_MAX: Duration = Duration::from_millis(200);

/// An executor in the time of the server's devices. Only the thread that drives the work waits for the timers.
struct LiveExecutor {
    time: DeviceTime,
    /// Wall-clock time at which the timers were last checked.
    looked: Mutex<Wall>,
    timers: Mutex<BTreeMap<(Instant, u64), Waker>>,
    tasks: Mutex<Vec<Task>>,
    next: AtomicU64,
}

impl LiveExecutor {
    fn timers(&self) -> MutexGuard<'_, BTreeMap<(Instant, u64), Waker>> {
        self.timers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the tasks whose time has come. Returns the time until the next timer.
    fn wake_due(&self) -> Duration {
        let wall = now();
        let looked =
            std::mem::replace(&mut *self.looked.lock().unwrap_or_else(PoisonError::into_inner), wall);
        if !self.timers().is_empty() {
            self.time.pass(Simulated::from_ns(wall.duration_since(looked).as_nanos() as u64));
        }
        let now = self.now();
        let due = {
            let mut timers = self.timers();
            let later = timers.split_off(&(now, u64::MAX));
            std::mem::replace(&mut *timers, later)
        };
        due.into_values().for_each(Waker::wake);
        let next = self.timers().keys().next().map(|(at, _)| self.time.left(*at).as_ns());
        next.map_or(SLEEP_MAX, Duration::from_nanos)
    }

    /// Polls the tasks that the work started.
    fn poll_tasks(&self, waker: &Waker) {
        let mut tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        tasks.retain_mut(|task| task.as_mut().poll(&mut std::task::Context::from_waker(waker)).is_pending());
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).extend(tasks);
    }
}

impl Runtime for LiveExecutor {
    fn now(&self) -> Instant {
        self.time.now()
    }
    fn wake_at(&self, at: Instant, waker: Waker) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.timers().insert((at, number), waker);
    }
    fn spawn(&self, task: Task) {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).push(task);
    }
    fn random(&self) -> u64 {
        mix(self.next.fetch_add(1, Ordering::Relaxed) ^ self.now().as_ns())
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[allow(clippy::disallowed_methods, reason = "a served volume works in wall-clock time")]
fn now() -> Wall {
    Wall::now()
}

/// Does the background work of a device until `stop` is thrown, or until the work ends by itself. The work
/// waits for `device`, whose time is `time`.
pub(in crate::command) fn run(
    closing: &dyn Closing,
    device: &dyn BlockDevice,
    rate: u64,
    time: DeviceTime,
    stop: &Stop,
) {
    let runtime = Arc::new(LiveExecutor {
        time: time.clone(),
        looked: Mutex::new(now()),
        timers: Mutex::default(),
        tasks: Mutex::default(),
        next: AtomicU64::new(0),
    });
    let cx = Context::with_runtime(runtime.clone());
    let is_stopped = || stop.is_thrown();
    let Some(work) = closing.background(&cx, rate, &is_stopped) else { return };
    let mut work = pin!(work);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        if let Poll::Ready(()) = work.as_mut().poll(&mut std::task::Context::from_waker(&waker)) {
            return;
        }
        runtime.poll_tasks(&waker);
        // A completed request wakes the work and unparks this thread. An unpark before the sleep is not lost.
        let event = time.advance(device).map_or(SLEEP_MAX, |left| Duration::from_nanos(left.as_ns()));
        thread::park_timeout(runtime.wake_due().min(event).min(SLEEP_MAX));
    }
}
