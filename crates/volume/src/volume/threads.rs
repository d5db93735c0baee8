//! Long computations of requests on other threads.
//!
//! A server polls all requests of a connection in one thread. A codec that ran there would delay the other
//! requests. After [`Volume::compute_on`], compression, encryption and their inverses therefore run on other
//! threads, and the request waits for them as it waits for a member. Without threads, a request computes
//! where it is polled, so simulations and crash tests stay on one thread. A computation reads only its own
//! bytes and the keys, so the thread and the time have no effect on the result.
//!
//! Short computations stay in the thread of the request, because handing them over would take longer. The times are
//! estimated from the number of bytes.

use super::{Inner, Volume};
use crate::encode::{Compression, Compressor, Encoding};
use flashlab_block::{Job, Promise, ThreadPool};
use futures_util::future::join_all;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::thread;

/// Shortest computation that is handed over. Handing it over and back takes several microseconds of processor time (a queue,
/// a condition variable, the event of the connection), and the bytes move to another processor's cache. A
/// short read of an extent of 64 KiB with LZ4 stays in the thread of the request. On other threads, such
/// reads took a quarter more processor time.
const WORTHWHILE_NS: u64 = 30_000;
/// Longest computation of several items in one job, so that all threads take part in a large request.
const JOB_NS: u64 = 100_000;

/// Times of codecs in picoseconds for each byte, measured on an AMD EPYC with `cargo bench --bench volume`: LZ4 of data
/// that shrinks little, Zstandard at level 3 (each level costs a third of that), ChaCha20-Poly1305, the slower cipher.
const LZ4_PS: u64 = 2_200;
const ZSTD_LEVEL_PS: u64 = 1_700;
const UNLZ4_PS: u64 = 400;
const UNZSTD_PS: u64 = 1_250;
const CIPHER_PS: u64 = 600;
/// Time of the checksum and the copy of a byte, in picoseconds.
const COPY_PS: u64 = 150;

/// Threads that compute beside the threads that poll requests.
pub trait Threads: Send + Sync {
    /// Runs a job once, in any thread and at any time.
    fn run(&self, job: Job);

    /// Returns the shortest computation that is worth a job, in nanoseconds.
    fn worthwhile_ns(&self) -> u64 {
        WORTHWHILE_NS
    }
}

impl Threads for ThreadPool {
    fn run(&self, job: Job) {
        ThreadPool::run(self, job);
    }
}

impl Volume {
    /// Lets `threads` do the long computations of all further requests. The threads of the first call stay: later calls
    /// have no effect.
    pub fn compute_on(&self, threads: Arc<dyn Threads>) {
        // A volume has one set of threads for its life.
        let _ = self.gate.current().threads.set(threads);
    }
}

impl Inner {
    /// Computes something that takes about `ns` nanoseconds.
    pub(super) async fn compute<T: Send + 'static>(
        &self,
        ns: u64,
        job: impl FnOnce(&Encoding) -> T + Send + 'static,
    ) -> T {
        match self.threads_for(ns) {
            None => job(&self.encoding),
            Some(threads) => received(hand_over(threads, self.encoding.clone(), job).await),
        }
    }

    /// Applies a computation to each item. `ns` estimates the time of a computation. Jobs of several items
    /// run concurrently.
    pub(super) async fn compute_all<I: Send + 'static, O: Send + 'static>(
        &self,
        items: Vec<I>,
        ns: impl Fn(&I) -> u64,
        compute: impl Fn(I, &Encoding) -> O + Clone + Send + 'static,
    ) -> Vec<O> {
        let all = items.iter().map(&ns).sum();
        let Some(threads) = self.threads_for(all) else {
            return items.into_iter().map(|item| compute(item, &self.encoding)).collect();
        };
        let jobs = divide(items, ns).into_iter().map(|items| {
            let compute = compute.clone();
            hand_over(threads, self.encoding.clone(), move |how| {
                items.into_iter().map(|item| compute(item, how)).collect::<Vec<O>>()
            })
        });
        join_all(jobs).await.into_iter().flat_map(received).collect()
    }

    fn threads_for(&self, ns: u64) -> Option<&dyn Threads> {
        self.threads.get().map(|threads| &**threads).filter(|threads| ns > 0 && ns >= threads.worthwhile_ns())
    }

    /// Estimates the time of encryption or decryption; zero without encryption.
    pub(super) fn cipher_ns(&self, stored: usize) -> u64 {
        if self.layout.is_encrypted { stored as u64 * CIPHER_PS / 1000 } else { 0 }
    }

    /// Estimates the time in which a structure of this length is encoded.
    pub(super) fn structure_ns(&self, length: usize) -> u64 {
        self.cipher_ns(length) + length as u64 * COPY_PS / 1000
    }
}

/// Estimates the time of a compression.
pub(super) fn compress_ns(compressor: Compressor, length: u64) -> u64 {
    let ps = match compressor {
        Compressor::None => 0,
        Compressor::Lz4 => LZ4_PS,
        Compressor::Zstd(level) => ZSTD_LEVEL_PS * u64::from(level),
    };
    length * ps / 1000
}

/// Estimates the time of a decompression to `length` bytes.
pub(super) fn decompress_ns(compression: Compression, length: u64) -> u64 {
    let ps = match compression {
        Compression::None => 0,
        Compression::Lz4 => UNLZ4_PS,
        Compression::Zstd => UNZSTD_PS,
    };
    length * ps / 1000
}

/// Starts a computation on another thread at once, and returns the future of its result.
fn hand_over<T: Send + 'static>(
    threads: &dyn Threads,
    encoding: Arc<Encoding>,
    job: impl FnOnce(&Encoding) -> T + Send + 'static,
) -> Promise<thread::Result<T>> {
    let result = Promise::default();
    let promise = result.clone();
    threads.run(Box::new(move || {
        let computed = catch_unwind(AssertUnwindSafe(|| job(&encoding)));
        promise.resolve(computed);
    }));
    result
}

/// Returns the result of a computation. A panic of the computation continues in the request.
fn received<T>(result: thread::Result<T>) -> T {
    result.unwrap_or_else(|panic| resume_unwind(panic))
}

/// Divides items into jobs.
fn divide<I>(items: Vec<I>, ns: impl Fn(&I) -> u64) -> Vec<Vec<I>> {
    let (mut jobs, mut left): (Vec<Vec<I>>, u64) = (Vec::new(), 0);
    for item in items {
        let takes = ns(&item);
        match jobs.last_mut() {
            Some(job) if takes <= left => job.push(item),
            _ => {
                jobs.push(vec![item]);
                left = JOB_NS;
            }
        }
        left = left.saturating_sub(takes);
    }
    jobs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_keep_the_order_of_the_items_and_are_short() {
        let jobs = divide(vec![40_000, 50_000, 20_000, 300_000, 1, 2], |ns| *ns);
        assert_eq!(jobs, [vec![40_000, 50_000], vec![20_000], vec![300_000], vec![1, 2]]);
    }
}
