//! Power cuts at any instant. The data afterwards must be a version that the contract permits.

use flashlab_device::{
    Device, Duration, Error, Fate, Instant, Io, IoError, Options, Store, StoreError, device,
};
use proptest::prelude::*;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const BLOCK: usize = 4096;

fn contents(n: u8) -> Vec<u8> {
    vec![n; BLOCK]
}

fn read(device: &mut Device, block: u64) -> Result<Vec<u8>, IoError> {
    let mut buffer = contents(0);
    device.read(block * BLOCK as u64, &mut buffer).map(|()| buffer)
}

#[test]
fn requests_fail_without_power_and_flushed_data_survives() {
    let mut card = device("sd/kingston").unwrap();
    card.write(0, &contents(1)).unwrap();
    card.flush().unwrap();
    card.cut_power().unwrap();
    assert!(!card.is_powered());
    assert_eq!(card.write(0, &contents(2)), Err(IoError::ShuttingDown));
    assert_eq!(card.flush(), Err(IoError::ShuttingDown));
    let off = card.now();
    card.restore_power();
    assert!(card.is_powered());
    assert!(card.now() >= off);
    assert_eq!(read(&mut card, 0), Ok(contents(1)));
}

#[test]
fn a_cut_planned_for_an_instant_interrupts_the_request_in_flight() {
    let mut card = device("sd/kingston").unwrap();
    card.write(0, &contents(1)).unwrap();
    card.flush().unwrap();
    let took = |card: &mut Device| {
        let start = card.now();
        card.write(0, &contents(2)).map(|()| card.now().since(start))
    };
    let whole = took(&mut device("sd/kingston").unwrap()).unwrap();
    let at = card.now().saturating_add(Duration::from_ns(whole.as_ns() / 2));
    card.cut_power_at(at).unwrap();
    assert_eq!(took(&mut card), Err(IoError::ShuttingDown));
    assert_eq!(card.now(), at);
    assert!(card.take_planned_cut().unwrap().is_some());
    assert!(card.take_planned_cut().unwrap().is_none());
}

#[test]
fn a_planned_cut_happens_while_the_device_is_idle() {
    let mut card = device("sd/kingston").unwrap();
    card.cut_power_at(card.now().saturating_add(Duration::from_ms(5))).unwrap();
    card.wait(Duration::from_secs(1));
    assert!(!card.is_powered());
    assert_eq!(card.now(), Instant::ZERO.saturating_add(Duration::from_secs(1)));
}

/// A store that keeps no bytes, and whose changes fail once the flag is set.
#[derive(Default)]
struct FailingStore(AtomicBool);

impl FailingStore {
    fn change(&self) -> Result<(), StoreError> {
        if self.0.load(Ordering::Relaxed) { Err(StoreError::Failed) } else { Ok(()) }
    }
}

impl Store for FailingStore {
    fn read(&self, _: u64, _: &mut [u8]) -> Result<(), StoreError> {
        Ok(())
    }
    fn write(&self, _: u64, _: &[u8]) -> Result<(), StoreError> {
        self.change()
    }
    fn discard(&self, _: u64, _: u64) -> Result<(), StoreError> {
        self.change()
    }
    fn data_in(&self, _: Range<u64>) -> Result<Option<Range<u64>>, StoreError> {
        Ok(None)
    }
    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

#[test]
fn a_store_that_fails_during_a_cut_is_reported_and_requests_in_flight_still_end() {
    for planned in [false, true] {
        let store = Arc::new(FailingStore::default());
        let mut drive = Options::new().store(Box::new(store.clone())).device("nvme/p32a80").unwrap();
        for block in 0..64 {
            drive.write(block * BLOCK as u64, &contents(1)).unwrap();
        }
        store.0.store(true, Ordering::Relaxed);
        let ticket = drive.submit(Io::Read { offset: 0, buffer: contents(0) });
        let cut = if planned {
            drive.cut_power_at(drive.now()).unwrap();
            drive.wait(Duration::ZERO);
            drive.take_planned_cut().map(drop)
        } else {
            drive.cut_power().map(drop)
        };
        assert!(matches!(cut, Err(Error::Store(StoreError::Failed))), "planned: {planned}, {cut:?}");
        let completion = drive.next_completion().expect("the read ends");
        assert_eq!((completion.ticket, completion.result), (ticket, Err(IoError::ShuttingDown)));
    }
}

#[test]
fn a_device_without_timing_has_no_power_to_cut() {
    let mut memory = device("memory:size=1MiB").unwrap();
    assert!(matches!(memory.cut_power(), Err(Error::NoPower)));
    assert!(matches!(memory.cut_power_during_write(1), Err(Error::NoPower)));
}

#[test]
fn cuts_during_a_write_have_different_effects_for_different_seeds() {
    let mut fates = Vec::new();
    for seed in 0..40 {
        let mut card = Options::new().seed(seed).device("sd/kingston").unwrap();
        card.write(0, &contents(1)).unwrap();
        card.flush().unwrap();
        card.cut_power_during_write(2).unwrap();
        card.write(1 << 30, &contents(1)).unwrap();
        assert_eq!(card.write(0, &contents(2)), Err(IoError::ShuttingDown), "seed {seed}");
        let cut = card.take_planned_cut().unwrap().unwrap();
        fates.extend(cut.undecided.into_iter().filter(|(range, _)| range.start < 4096).map(|(_, fate)| fate));
    }
    assert!(fates.contains(&Fate::Old), "{fates:?}");
    assert!(fates.iter().any(|fate| *fate != Fate::Old), "{fates:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// After a power cut during any write, each block holds the version that the last flush or durable write
    /// made durable, or a later one. A block is unreadable only if it was written after that flush or durable
    /// write.
    #[test]
    fn no_cut_loses_flushed_data(
        seed in any::<u64>(),
        name in prop::sample::select(vec!["sd/kingston", "nvme/p32a80"]),
        operations in prop::collection::vec((0_u8..8, 0_u64..6), 1..40),
        nth in 1_u64..24,
    ) {
        let mut device = Options::new().seed(seed).device(name).unwrap();
        let mut versions = vec![vec![0_u8]; 6];
        device.cut_power_during_write(nth).unwrap();
        for (n, (kind, block)) in operations.iter().enumerate() {
            let number = n as u8 + 1;
            if *kind == 0 {
                if device.flush().is_ok() {
                    versions.iter_mut().for_each(|versions| { versions.drain(..versions.len() - 1); });
                }
                continue;
            }
            let durable = *kind == 1;
            let io = Io::Write { offset: block * BLOCK as u64, data: contents(number).into(), durable };
            device.submit(io);
            let written = device.next_completion().unwrap().result.is_ok();
            let versions = &mut versions[*block as usize];
            versions.push(number);
            if durable && written {
                versions.drain(..versions.len() - 1);
            }
            if !device.is_powered() {
                break;
            }
        }
        device.restore_power();
        for (block, versions) in versions.iter().enumerate() {
            match read(&mut device, block as u64) {
                Ok(bytes) => {
                    prop_assert!(versions.contains(&bytes[0]), "block {block}: {} of {versions:?}", bytes[0]);
                    prop_assert_eq!(&bytes, &contents(bytes[0]));
                }
                Err(error) => prop_assert!(versions.len() > 1, "flushed block {block}: {error}"),
            }
        }
    }
}
