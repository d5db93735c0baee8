//! Requests that a device completes later, and a minimal executor that waits for them together with a socket.
//!
//! Each connection has its own executor. A waker queues the number of its request. If the waker runs on
//! another thread, it also makes an event descriptor readable. The connection's thread waits for this
//! descriptor together with its socket. The executor creates the descriptor with its first request. Before
//! the thread waits, it polls the requests that it has woken itself.

use flashlab_block::Outcome;
use rustix::event::{EventfdFlags, eventfd};
use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, ThreadId};

/// The future that a device returned.
pub(crate) type AnswerFuture = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// Requests that were started, each with the fields that its reply needs.
pub(crate) struct Pending<T> {
    requests: BTreeMap<u64, (T, AnswerFuture)>,
    next: u64,
    /// Completed requests that nobody has taken yet.
    ready: Vec<(T, Outcome)>,
    wake_queue: Option<Arc<WakeQueue>>,
}

struct WakeQueue {
    numbers: Mutex<Vec<u64>>,
    event: OwnedFd,
    owner: ThreadId,
}

struct RequestWaker {
    number: u64,
    wake_queue: Arc<WakeQueue>,
}

impl Wake for RequestWaker {
    fn wake(self: Arc<Self>) {
        self.wake_queue.numbers.lock().unwrap_or_else(PoisonError::into_inner).push(self.number);
        if thread::current().id() == self.wake_queue.owner {
            return;
        }
        // The write fails only if the counter is full, and then the descriptor is readable already.
        let _ = rustix::io::write(&self.wake_queue.event, &1u64.to_ne_bytes());
    }
}

impl<T> Pending<T> {
    /// Creates an executor without requests.
    pub(crate) fn new() -> Pending<T> {
        Pending { requests: BTreeMap::new(), next: 0, ready: Vec::new(), wake_queue: None }
    }

    /// Returns the number of requests in flight plus the number of completed requests that nobody has taken
    /// yet.
    pub(crate) fn len(&self) -> usize {
        self.requests.len() + self.ready.len()
    }

    /// Adds a request. [`Pending::poll_completed`] polls it for the first time. All calls must come from the same
    /// thread. If the system has no descriptor for the event, the error contains the request and its future.
    pub(crate) fn add(
        &mut self,
        request: T,
        future: AnswerFuture,
    ) -> Result<(), (T, AnswerFuture, io::Error)> {
        let wake_queue = match &self.wake_queue {
            Some(wake_queue) => wake_queue,
            None => match eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK) {
                Ok(event) => {
                    let owner = thread::current().id();
                    self.wake_queue.insert(Arc::new(WakeQueue { numbers: Mutex::default(), event, owner }))
                }
                Err(error) => return Err((request, future, error.into())),
            },
        };
        let number = self.next;
        self.next += 1;
        self.requests.insert(number, (request, future));
        Arc::new(RequestWaker { number, wake_queue: wake_queue.clone() }).wake();
        Ok(())
    }

    /// Returns the descriptor that becomes readable once another thread has woken a request. The request may
    /// have been polled since then. Returns `None` if no request is in flight.
    pub(crate) fn event(&self) -> Option<BorrowedFd<'_>> {
        let wake_queue = self.wake_queue.as_ref().filter(|_| !self.requests.is_empty());
        wake_queue.map(|wake_queue| wake_queue.event.as_fd())
    }

    /// Returns true if [`Pending::poll_completed`] has requests to poll or to return.
    pub(crate) fn is_woken(&self) -> bool {
        !self.ready.is_empty() || self.has_queued()
    }

    /// Returns true if [`Pending::poll_woken`] has requests to poll.
    pub(crate) fn has_queued(&self) -> bool {
        let numbers = |wake_queue: &Arc<WakeQueue>| {
            !wake_queue.numbers.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
        };
        !self.requests.is_empty() && self.wake_queue.as_ref().is_some_and(numbers)
    }

    /// Makes the descriptor unreadable. The thread calls this after it has found the descriptor readable, and
    /// before [`Pending::poll_completed`]. A waker that runs in between makes the descriptor readable again.
    pub(crate) fn clear_event(&self) {
        if let Some(event) = self.event() {
            let _ = rustix::io::read(event, &mut [0; 8]);
        }
    }

    /// Polls the woken requests, and returns the completed requests in the order in which they were woken.
    pub(crate) fn poll_completed(&mut self) -> Vec<(T, Outcome)> {
        self.poll_woken();
        std::mem::take(&mut self.ready)
    }

    /// Polls the woken requests, and keeps the completed requests for [`Pending::poll_completed`].
    pub(crate) fn poll_woken(&mut self) {
        let Some(wake_queue) = self.wake_queue.clone().filter(|_| !self.requests.is_empty()) else { return };
        let numbers = std::mem::take(&mut *wake_queue.numbers.lock().unwrap_or_else(PoisonError::into_inner));
        for number in numbers {
            // A device may keep a waker longer than its request.
            let Some((_, future)) = self.requests.get_mut(&number) else { continue };
            let waker = Waker::from(Arc::new(RequestWaker { number, wake_queue: wake_queue.clone() }));
            if let Poll::Ready(outcome) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                let (request, _) = self.requests.remove(&number).expect("the polled request is in the map");
                self.ready.push((request, outcome));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flashlab_block::Answer;
    use rustix::event::{PollFd, PollFlags};

    /// A request that completes once the flag is set; setting the flag wakes it.
    #[derive(Default)]
    struct Flag(Mutex<(bool, Option<Waker>)>);

    impl Flag {
        fn set(&self) {
            let mut flag = self.0.lock().expect("no thread panics");
            flag.0 = true;
            flag.1.take().into_iter().for_each(Waker::wake);
        }
    }

    fn until(flag: Arc<Flag>) -> AnswerFuture {
        Box::pin(std::future::poll_fn(move |cx| {
            let mut flag = flag.0.lock().expect("no thread panics");
            flag.1 = Some(cx.waker().clone());
            if flag.0 { Poll::Ready(Ok(Answer::Done)) } else { Poll::Pending }
        }))
    }

    fn names(pending: &mut Pending<&'static str>) -> Vec<&'static str> {
        pending.poll_completed().into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn requests_complete_in_the_order_of_their_wakes() {
        let flags = [Arc::<Flag>::default(), Arc::default(), Arc::default()];
        let mut pending = Pending::new();
        for (name, flag) in ["a", "b", "c"].into_iter().zip(&flags) {
            assert!(pending.add(name, until(flag.clone())).is_ok());
        }
        assert_eq!(names(&mut pending), [""; 0]);
        flags[2].set();
        flags[0].set();
        assert_eq!(names(&mut pending), ["c", "a"]);
        assert_eq!((pending.len(), names(&mut pending)), (1, vec![]));
        std::thread::scope(|scope| {
            scope.spawn(|| flags[1].set());
            let mut fds =
                [PollFd::from_borrowed_fd(pending.event().expect("a request is pending"), PollFlags::IN)];
            crate::link::wait_for(&mut fds, None).expect("polling works");
        });
        pending.clear_event();
        assert_eq!(names(&mut pending), ["b"]);
        assert!(pending.event().is_none());
    }
    #[test]
    fn a_wake_polled_before_its_event_is_cleared_leaves_no_readable_event() {
        let flags = [Arc::<Flag>::default(), Arc::default()];
        let mut pending = Pending::new();
        for (name, flag) in ["a", "b"].into_iter().zip(&flags) {
            assert!(pending.add(name, until(flag.clone())).is_ok());
        }
        assert_eq!(names(&mut pending), [""; 0]);
        std::thread::scope(|scope| {
            scope.spawn(|| flags[0].set());
        });
        assert_eq!(names(&mut pending), ["a"]);
        let readable = |pending: &Pending<_>| {
            let mut fds =
                [PollFd::from_borrowed_fd(pending.event().expect("a request is pending"), PollFlags::IN)];
            crate::link::wait_for(&mut fds, Some(flashlab_sim::Duration::ZERO)).expect("polling works") == 1
        };
        assert!(readable(&pending));
        pending.clear_event();
        assert!(!readable(&pending), "no request is woken, so a waiting thread must be able to sleep");
    }
}
