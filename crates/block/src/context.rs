//! The context of a request: the time, and the executor whose tasks the device may use.

use flashlab_sim::{Instant, Mechanism, mix};
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Poll, Waker};

/// A task without a result.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A source of the current time, for requests that do not run on an executor.
pub trait Clock: Send + Sync {
    /// Returns the current time.
    fn now(&self) -> Instant;
}

/// The services of an executor. [`Executor`](crate::Executor) provides them in simulated time.
pub trait Runtime: Send + Sync {
    /// Returns the current time.
    fn now(&self) -> Instant;
    /// Wakes a task when the time has reached `at`.
    fn wake_at(&self, at: Instant, waker: Waker);
    /// Starts a task.
    fn spawn(&self, task: Task);
    /// Returns 64 random bits.
    fn random(&self) -> u64;
    /// Takes note that the request of the context waits for `mechanism` between two instants. Does nothing by default.
    fn charge(&self, _mechanism: Mechanism, _from: Instant, _to: Instant) {}
}

/// The context of a request.
///
/// A context without an executor has the arrival time of the request, and may have a clock. A device that depends on
/// timers or on background tasks calls [`Context::has_executor`] first.
#[derive(Clone)]
pub struct Context {
    arrived: Instant,
    services: Services,
}

#[derive(Clone)]
enum Services {
    None,
    Clock(Arc<dyn Clock>),
    Executor(Arc<dyn Runtime>),
}

impl Context {
    /// Creates the context of a request that arrives at `now`, without an executor.
    pub fn new(now: Instant) -> Context {
        Context { arrived: now, services: Services::None }
    }

    /// Creates the context of a request that arrives at the current time of `clock`, without an executor.
    pub fn with_clock(clock: Arc<dyn Clock>) -> Context {
        Context { arrived: clock.now(), services: Services::Clock(clock) }
    }

    /// Creates the context of a request that runs on an executor.
    pub fn with_runtime(runtime: Arc<dyn Runtime>) -> Context {
        Context { arrived: runtime.now(), services: Services::Executor(runtime) }
    }

    /// Sets the arrival time of the next request.
    pub fn set_arrival(&mut self, now: Instant) {
        self.arrived = now;
    }

    /// Returns the current time. If there is neither an executor nor a clock, this is the arrival time of the request.
    pub fn now(&self) -> Instant {
        match &self.services {
            Services::None => self.arrived,
            Services::Clock(clock) => clock.now(),
            Services::Executor(runtime) => runtime.now(),
        }
    }

    /// Returns the arrival time of a request at a device. On an executor, this is the current time.
    pub fn arrival(&self) -> Instant {
        match &self.services {
            Services::None | Services::Clock(_) => self.arrived,
            Services::Executor(runtime) => runtime.now(),
        }
    }

    fn runtime(&self) -> Option<&Arc<dyn Runtime>> {
        match &self.services {
            Services::Executor(runtime) => Some(runtime),
            Services::None | Services::Clock(_) => None,
        }
    }

    /// Returns true if the context has an executor.
    pub fn has_executor(&self) -> bool {
        self.runtime().is_some()
    }

    /// Waits until the time has reached `at`.
    ///
    /// # Panics
    /// The future panics if the context has no executor.
    pub fn sleep_until(&self, at: Instant) -> impl Future<Output = ()> + Send + 'static {
        let runtime = self.runtime().cloned();
        poll_fn(move |task| {
            let runtime = runtime.as_ref().expect("a context with an executor can wait");
            if runtime.now() >= at {
                return Poll::Ready(());
            }
            runtime.wake_at(at, task.waker().clone());
            Poll::Pending
        })
    }

    /// Starts a task that runs beside the request and may outlive it.
    ///
    /// # Panics
    /// Panics if the context has no executor.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.runtime().expect("a context with an executor runs tasks").spawn(Box::pin(task));
    }

    /// Tells the runtime that the request waits for `mechanism` between two instants, so that it can break down the
    /// latency. The spans of parts that run at the same time may overlap. Has no effect without an executor.
    pub fn charge(&self, mechanism: Mechanism, from: Instant, to: Instant) {
        if let Some(runtime) = self.runtime().filter(|_| from < to) {
            runtime.charge(mechanism, from, to);
        }
    }

    /// Returns 64 random bits from the seed of the executor. Without an executor, the bits depend on the
    /// arrival time only.
    pub fn random(&self) -> u64 {
        self.runtime().map_or(mix(self.arrived.as_ns()), |runtime| runtime.random())
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (arrived, executor) = (self.arrived, self.has_executor());
        f.debug_struct("Context")
            .field("arrived", &arrived)
            .field("executor", &executor)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// A clock that a test sets.
    struct Set(AtomicU64);

    impl Clock for Set {
        fn now(&self) -> Instant {
            Instant::from_ns(self.0.load(Ordering::Relaxed))
        }
    }

    #[test]
    fn a_clock_advances_during_a_request_and_the_arrival_does_not() {
        let clock = Arc::new(Set(AtomicU64::new(5)));
        let mut cx = Context::with_clock(clock.clone());
        clock.0.store(9, Ordering::Relaxed);
        let at = |cx: &Context| (cx.arrival().as_ns(), cx.now().as_ns(), cx.has_executor());
        assert_eq!(at(&cx), (5, 9, false));
        cx.set_arrival(Instant::from_ns(7));
        assert_eq!(at(&cx), (7, 9, false));
        assert_eq!(at(&Context::new(Instant::from_ns(3))), (3, 3, false));
    }
}
