//! A pool of threads that runs jobs in the order of their arrival.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::{fmt, io};

/// Stack size of a thread in bytes. The stack is small so that many threads cost little address space.
const STACK: usize = 512 << 10;

/// A piece of work for another thread.
pub type Job = Box<dyn FnOnce() + Send>;

/// A fixed number of threads with one queue of jobs.
pub struct ThreadPool {
    queue: Arc<Queue>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    arrived: Condvar,
}

#[derive(Default)]
struct Waiting {
    jobs: VecDeque<Job>,
    closed: bool,
}

impl ThreadPool {
    /// Starts `threads` threads, whose names begin with `name`.
    ///
    /// # Errors
    /// Returns the error of the system if it cannot start a thread.
    pub fn new(name: &str, threads: usize) -> io::Result<ThreadPool> {
        let mut pool = ThreadPool { queue: Arc::default(), threads: Vec::new() };
        for n in 0..threads {
            let queue = pool.queue.clone();
            let thread = thread::Builder::new().name(format!("{name} {n}")).stack_size(STACK);
            pool.threads.push(thread.spawn(move || queue.work())?);
        }
        Ok(pool)
    }

    /// Queues a job. A job that panics ends alone: the thread that ran it takes the next one.
    pub fn run(&self, job: Job) {
        self.queue.lock().jobs.push_back(job);
        self.queue.arrived.notify_one();
    }
}

impl Queue {
    fn work(&self) {
        loop {
            let nothing = |waiting: &mut Waiting| waiting.jobs.is_empty() && !waiting.closed;
            let waiting = self.arrived.wait_while(self.lock(), nothing);
            let job = waiting.unwrap_or_else(PoisonError::into_inner).jobs.pop_front();
            let Some(job) = job else { return };
            // The panic hook has reported the panic already.
            let _ = catch_unwind(AssertUnwindSafe(job));
        }
    }

    /// Locks the queue. No code panics while it holds the lock.
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ThreadPool {
    /// Completes the queued jobs, and then ends the threads.
    fn drop(&mut self) {
        self.queue.lock().closed = true;
        self.queue.arrived.notify_all();
        for thread in self.threads.drain(..) {
            // The threads catch the panics of their jobs.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for ThreadPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadPool").field("threads", &self.threads.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn threads_survive_the_panic_of_a_job_and_queued_jobs_run_before_the_end() {
        let pool = ThreadPool::new("test", 1).expect("the system starts a thread");
        let (sender, receiver) = mpsc::channel();
        std::panic::set_hook(Box::new(|_| {}));
        pool.run(Box::new(|| panic!("a panic on purpose")));
        (0..3).for_each(|n| {
            let sender = sender.clone();
            pool.run(Box::new(move || sender.send(n).expect("the test receives")));
        });
        drop((pool, sender));
        let _ = std::panic::take_hook();
        assert_eq!(receiver.iter().collect::<Vec<_>>(), [0, 1, 2]);
    }
}
