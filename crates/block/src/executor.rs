//! A deterministic executor: one thread, a seeded choice among the ready tasks, simulated time.
//!
//! - A step polls one ready task. The choice among several ready tasks is random, so that different seeds exercise
//!   different interleavings; the same seed repeats a run exactly.
//! - If no task is ready, the time advances to the next timer or to the next event of an attached device
//!   ([`BlockDevice::next_due`]).
//! - A task that waits for something that no timer, no device and no other task provides is a deadlock.
//!   [`Executor::block_on`] panics instead of hanging.
//!
//! The executor is for simulations and tests. Tasks must not block, and the executor does not wait for wake-ups from
//! other threads.

use crate::context::{Runtime, Task};
use crate::{BlockDevice, Context};
use flashlab_sim::{Instant, Rng};
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Poll, Wake, Waker};

/// A deterministic executor.
pub struct Executor {
    core: Arc<Core>,
    devices: Vec<Arc<dyn BlockDevice>>,
}

struct Core(Mutex<State>);

struct State {
    now: Instant,
    rng: Rng,
    tasks: BTreeMap<u64, Entry>,
    next_task: u64,
    /// Numbers of the tasks that were woken, without duplicates.
    ready: Vec<u64>,
    timers: BTreeMap<(Instant, u64), Waker>,
    next_timer: u64,
}

struct Entry {
    /// `None` while the task is polled.
    task: Option<Task>,
    ready: bool,
}

impl Executor {
    /// Creates an executor at the start of simulated time. `seed` determines the order of tasks and the numbers of
    /// [`Context::random`].
    pub fn new(seed: u64) -> Executor {
        let state = State {
            now: Instant::ZERO,
            rng: Rng::new(seed),
            tasks: BTreeMap::new(),
            next_task: 0,
            ready: Vec::new(),
            timers: BTreeMap::new(),
            next_timer: 0,
        };
        Executor { core: Arc::new(Core(Mutex::new(state))), devices: Vec::new() }
    }

    /// Returns a context for requests from outside the executor's tasks.
    pub fn context(&self) -> Context {
        Context::with_runtime(self.core.clone())
    }

    /// Returns the current time.
    pub fn now(&self) -> Instant {
        self.core.lock().now
    }

    /// Attaches a timed device. The executor waits for the events of the device and executes them.
    pub fn attach(&mut self, device: Arc<dyn BlockDevice>) {
        self.devices.push(device);
    }

    /// Starts a task.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.core.spawn(Box::pin(task));
    }

    /// Polls one ready task, or advances the time if none is ready. Returns false if there is neither a ready task nor
    /// anything to wait for.
    pub fn step(&mut self) -> bool {
        let chosen = self.core.lock().choose();
        let Some((number, mut task)) = chosen else { return self.advance() };
        let waker = Waker::from(Arc::new(TaskWaker { core: Arc::downgrade(&self.core), number }));
        let polled = task.as_mut().poll(&mut std::task::Context::from_waker(&waker));
        let mut state = self.core.lock();
        match polled {
            Poll::Ready(()) => {
                state.tasks.remove(&number);
                state.ready.retain(|ready| *ready != number);
            }
            Poll::Pending => {
                state.tasks.get_mut(&number).expect("a task is removed only when it ends").task = Some(task)
            }
        }
        true
    }

    /// Advances the time to the next timer or event. Returns false if there is none.
    fn advance(&mut self) -> bool {
        let mut state = self.core.lock();
        let timer = state.timers.keys().next().map(|(at, _)| *at);
        let Some(at) = self.devices.iter().filter_map(|device| device.next_due()).chain(timer).min() else {
            return false;
        };
        state.now = state.now.max(at);
        let now = state.now;
        let later = state.timers.split_off(&(now, u64::MAX));
        let due = std::mem::replace(&mut state.timers, later);
        // Wakers and devices call back into the executor, which locks the state.
        drop(state);
        due.into_values().for_each(Waker::wake);
        self.devices.iter().for_each(|device| device.advance(now));
        true
    }

    /// Runs until every task has ended or waits for something that only a caller can provide.
    pub fn run_until_idle(&mut self) {
        while self.step() {}
    }

    /// Runs until `future` is complete, and returns its output. Other tasks run in the meantime.
    ///
    /// # Panics
    /// Panics if the future waits and nothing is left that could wake it.
    pub fn block_on<T: Send + 'static>(&mut self, future: impl Future<Output = T> + Send + 'static) -> T {
        let output = Arc::new(Mutex::new(None));
        let slot = output.clone();
        self.spawn(async move {
            let result = future.await;
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        });
        loop {
            if let Some(result) = output.lock().unwrap_or_else(PoisonError::into_inner).take() {
                return result;
            }
            assert!(self.step(), "deadlock: every task waits, and no timer and no device event is left");
        }
    }
}

impl Core {
    /// Locks the state. No code panics while it holds the lock.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Removes a random task from the ready list and returns it; `None` if no task is ready.
    fn choose(&mut self) -> Option<(u64, Task)> {
        while !self.ready.is_empty() {
            let n = self.rng.below(self.ready.len() as u64) as usize;
            let number = self.ready.swap_remove(n);
            let Some(entry) = self.tasks.get_mut(&number) else { continue };
            entry.ready = false;
            if let Some(task) = entry.task.take() {
                return Some((number, task));
            }
        }
        None
    }

    fn wake(&mut self, number: u64) {
        if let Some(entry) = self.tasks.get_mut(&number)
            && !std::mem::replace(&mut entry.ready, true)
        {
            self.ready.push(number);
        }
    }
}

impl Runtime for Core {
    fn now(&self) -> Instant {
        self.lock().now
    }
    fn wake_at(&self, at: Instant, waker: Waker) {
        let mut state = self.lock();
        let key = (at, state.next_timer);
        state.next_timer += 1;
        state.timers.insert(key, waker);
    }
    fn spawn(&self, task: Task) {
        let mut state = self.lock();
        let number = state.next_task;
        state.next_task += 1;
        state.tasks.insert(number, Entry { task: Some(task), ready: true });
        state.ready.push(number);
    }
    fn random(&self) -> u64 {
        self.lock().rng.next_u64()
    }
}

struct TaskWaker {
    core: Weak<Core>,
    number: u64,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        if let Some(core) = self.core.upgrade() {
            core.lock().wake(self.number);
        }
    }
}

impl Drop for Executor {
    /// Drops the tasks to break a reference cycle: tasks hold contexts, which refer to the executor's state.
    fn drop(&mut self) {
        let mut state = self.core.lock();
        let tasks = std::mem::take(&mut state.tasks);
        let timers = std::mem::take(&mut state.timers);
        drop(state);
        drop((tasks, timers));
    }
}

impl fmt::Debug for Executor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.core.lock();
        f.debug_struct("Executor")
            .field("now", &state.now)
            .field("tasks", &state.tasks.len())
            .finish_non_exhaustive()
    }
}
