//! Tests of the executor: order by seed, simulated time, timed devices, deadlocks.

use flashlab_block::{BlockDevice, Executor, Io, Memory, Pages, Started, Timed};
use flashlab_sim::{Duration, Instant};
use std::sync::{Arc, Mutex};

use crate::timed::models::{BLOCK, LATENCY, VolatileModel};

/// Returns the order in which eight tasks ran.
fn order(seed: u64) -> Vec<u32> {
    let mut executor = Executor::new(seed);
    let order = Arc::new(Mutex::new(Vec::new()));
    for n in 0..8 {
        let order = order.clone();
        executor.spawn(async move { order.lock().expect("no task panics").push(n) });
    }
    executor.run_until_idle();
    let order = order.lock().expect("no task panics");
    order.clone()
}

#[test]
fn a_seed_determines_the_order_of_ready_tasks() {
    for seed in 0..20 {
        assert_eq!(order(seed), order(seed));
        let mut sorted = order(seed);
        sorted.sort_unstable();
        assert_eq!(sorted, (0..8).collect::<Vec<_>>(), "not every task ran once");
    }
    let distinct: std::collections::BTreeSet<_> = (0..20).map(order).collect();
    assert!(distinct.len() > 15, "{} orders of 20 seeds", distinct.len());
}

#[test]
fn time_passes_only_when_every_task_waits() {
    let mut executor = Executor::new(1);
    let cx = executor.context();
    let log = executor.block_on({
        let cx = cx.clone();
        async move {
            let log = Arc::new(Mutex::new(Vec::new()));
            for ms in [30, 10, 20] {
                let (inner, log) = (cx.clone(), log.clone());
                cx.spawn(async move {
                    inner.sleep_until(Instant::ZERO + Duration::from_ms(ms)).await;
                    log.lock().expect("no task panics").push((ms, inner.now()));
                });
            }
            cx.sleep_until(Instant::ZERO + Duration::from_ms(25)).await;
            log
        }
    });
    let at = |ms| (ms, Instant::ZERO + Duration::from_ms(ms));
    assert_eq!(*log.lock().expect("no task panics"), [at(10), at(20)]);
    executor.run_until_idle();
    assert_eq!(*log.lock().expect("no task panics"), [at(10), at(20), at(30)]);
    assert_eq!(executor.now(), at(30).1);
}

#[test]
fn the_executor_waits_for_a_timed_device() {
    let store = Memory::new(64 * BLOCK, Pages::Small).expect("a size that is possible");
    let device: Arc<dyn BlockDevice> = Arc::new(Timed::new(Box::new(VolatileModel::new(1)), Box::new(store)));
    let mut executor = Executor::new(1);
    executor.attach(device.clone());
    let cx = executor.context();
    let ended = executor.block_on(async move {
        for block in 0..3 {
            let data = vec![1; BLOCK as usize].into();
            let write = Io::Write { offset: block * BLOCK, data, durable: false };
            let Started::Pending(answer) = device.start(&cx, write) else { panic!("it takes time") };
            answer.await.expect("the model serves every request");
        }
        cx.now()
    });
    assert_eq!(ended, Instant::ZERO + LATENCY * 3);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_task_that_nothing_wakes_is_a_deadlock() {
    Executor::new(1).block_on(std::future::pending::<()>());
}
