//! Tasks for the thread that owns a device. The thread executes them between two of its own steps.

use flashlab_sim::Instant;
use rustix::event::{EventfdFlags, eventfd};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};

type Task<D> = Box<dyn FnOnce(&mut D, Instant) + Send>;

/// A queue of tasks for the owner of a `D`. Clones share the queue.
pub struct TaskQueue<D>(Arc<Inner<D>>);

struct Inner<D> {
    /// The queued tasks; `None` once the owner has ended.
    waiting: Mutex<Option<Vec<Task<D>>>>,
    /// Readable while tasks are queued.
    event: OwnedFd,
}

impl<D> TaskQueue<D> {
    /// Creates an empty queue.
    pub fn new() -> io::Result<TaskQueue<D>> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(TaskQueue(Arc::new(Inner { waiting: Mutex::new(Some(Vec::new())), event })))
    }

    /// Queues `task`, which receives the device's current time. Waits for the task, and returns its result;
    /// `None` if the owner has ended.
    pub fn send<R: Send + 'static>(
        &self,
        task: impl FnOnce(&mut D, Instant) -> R + Send + 'static,
    ) -> Option<R> {
        let (done, answer) = mpsc::channel();
        self.lock().as_mut()?.push(Box::new(move |device, now| {
            // The receiver waits for this message.
            let _ = done.send(task(device, now));
        }));
        // The write fails only if the counter is full, and then the descriptor is readable already.
        let _ = rustix::io::write(&self.0.event, &1u64.to_ne_bytes());
        answer.recv().ok()
    }

    /// Executes all queued tasks.
    pub(crate) fn run(&self, device: &mut D, now: Instant) {
        // An empty counter means that no task is queued, or that one has been queued just now.
        let _ = rustix::io::read(&self.0.event, &mut [0; 8]);
        let waiting = self.lock().as_mut().map(std::mem::take).unwrap_or_default();
        waiting.into_iter().for_each(|task| task(device, now));
    }

    /// Closes the queue: the owner has ended.
    pub(crate) fn close(&self) {
        *self.lock() = None;
    }

    /// Locks the queue. A task runs without the lock, so a task that panics does not poison the lock.
    fn lock(&self) -> MutexGuard<'_, Option<Vec<Task<D>>>> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D> Clone for TaskQueue<D> {
    fn clone(&self) -> Self {
        TaskQueue(self.0.clone())
    }
}

impl<D> AsFd for TaskQueue<D> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.event.as_fd()
    }
}

impl<D> fmt::Debug for TaskQueue<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskQueue").finish_non_exhaustive()
    }
}
