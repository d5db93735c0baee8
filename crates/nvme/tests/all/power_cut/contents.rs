//! Power cuts while clients write bytes. The checks of `block::crash` judge the contents of the drive: each
//! block must hold its durable contents or those of a later write.

use super::UNIT;
use crate::common::{KIB, loading, small};
use flashlab_block::conformance::execute;
use flashlab_block::crash::{Contract, History};
use flashlab_block::{Answer, BlockDevice, Context, Executor, Io, Memory, Pages, Timed};
use flashlab_host::driver::hmb;
use flashlab_nvme::{Ssd, SsdParameters};
use flashlab_sim::Rng;
use std::sync::{Arc, Mutex};

/// Number of units that the clients write. It is small, so that the clients overwrite each other's data.
const UNITS: u64 = 96;

async fn write_and_flush(cx: Context, drive: Arc<Timed>, history: Arc<Mutex<History>>, mut rng: Rng) {
    let lock = || history.lock().expect("no task panics");
    loop {
        if rng.below(6) == 0 {
            let started = lock().flush();
            if drive.start(&cx, Io::Flush).outcome().await.is_err() {
                return;
            }
            lock().flushed(started);
            continue;
        }
        let start = rng.below(UNITS);
        let units = start..start + 1 + rng.below((UNITS - start).min(20));
        let durable = rng.below(5) == 0;
        let op = lock().write(units.clone(), durable);
        let data = lock().data(op).into();
        if drive.start(&cx, Io::Write { offset: units.start * UNIT, data, durable }).outcome().await.is_err()
        {
            return;
        }
        lock().answered(op);
    }
}

/// Cuts the power of a drive that three clients use, and checks the contents of the drive. Returns the number
/// of writes.
fn cut(parameters: SsdParameters, seed: u64) -> usize {
    let mut rng = Rng::new(seed);
    let capacity = parameters.page_map.capacity;
    let store = Memory::new(capacity, Pages::Small).expect("a size that is possible");
    let drive = Arc::new(Timed::new(Box::new(Ssd::new(parameters, hmb::linux, seed)), Box::new(store)));
    let history = Arc::new(Mutex::new(History::new(UNIT as usize, UNITS)));
    let mut executor = Executor::new(seed);
    executor.attach(drive.clone());
    for client in 0..3 {
        let rng = Rng::for_purpose(seed, client);
        executor.spawn(write_and_flush(executor.context(), drive.clone(), history.clone(), rng));
    }
    for _ in 0..20 + rng.below(600) {
        assert!(executor.step(), "the clients never end");
    }
    let now = executor.now();
    drive.power_cut(now).expect("memory does not fail");
    let history = history.lock().expect("no task panics");
    drive.power_up(now);
    let checked = history.check(Contract::Block, |unit| {
        let read = Io::Read { offset: unit * UNIT, buffer: vec![0; UNIT as usize] };
        match execute(&*drive, read) {
            Ok(Answer::Read(bytes)) => Some(bytes),
            _ => None,
        }
    });
    assert_eq!(checked, Ok(()), "seed {seed}");
    history.op_count()
}

#[test]
fn a_drive_keeps_the_contract_of_a_disk() {
    let writes: usize = (0..60)
        .map(|seed| cut(if seed % 2 == 0 { small() } else { loading(16 * KIB, 64 * KIB) }, seed))
        .sum();
    assert!(writes > 3_000, "only {writes} writes");
}
