//! Runs independent work items in parallel, on at most as many threads as the machine has processors.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Applies `work` to each of `items` and returns the results in the order of the items. The number of threads affects
/// nothing but the duration.
pub(crate) fn map_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    map_parallel_limited(usize::MAX, items, work)
}

/// Applies `work` as [`map_parallel`] does, with at most `at_a_time` items in parallel.
pub(crate) fn map_parallel_limited<T: Sync, R: Send>(
    at_a_time: usize,
    items: &[T],
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = threads.min(at_a_time).min(items.len());
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<R>>> = items.iter().map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(at) else { break };
                    let result = work(item);
                    *results[at].lock().expect("no thread panicked with it") = Some(result);
                }
            });
        }
    });
    let taken = results.into_iter().map(|result| result.into_inner().expect("no thread panicked"));
    taken.map(|result| result.expect("every item was worked on")).collect()
}

#[cfg(test)]
mod tests {
    use super::map_parallel;

    #[test]
    fn results_are_in_the_order_of_the_items() {
        let items: Vec<u64> = (0..1_000).collect();
        let doubled = map_parallel(&items, |item| 2 * item);
        assert_eq!(doubled, items.iter().map(|item| 2 * item).collect::<Vec<_>>());
        assert!(map_parallel(&[], |item: &u64| *item).is_empty());
    }
}
