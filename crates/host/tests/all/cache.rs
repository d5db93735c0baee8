//! A card with a volatile cache: flushed data survives a power loss, and a host that does not flush loses writes.

use flashlab_block::conformance::{execute, read, wait_for};
use flashlab_block::{BlockDevice, Context, Io, Memory, Pages, Timed};
use flashlab_host::driver::mmc::{Controller, Kernel, Mmc, MmcModel};
use flashlab_sd::{Card, Identity, Link, Mode, Native};
use flashlab_sim::{Duration, Fate, FileId, Instant, Model, Op, Request, RequestId, Rng, Store, conformance};
use std::ops::Range;
use std::sync::Arc;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const CAPACITY: u64 = 4096 * MIB;

fn memory() -> Memory {
    Memory::new(CAPACITY, Pages::Small).expect("a size that is possible")
}

fn card(cache: bool, store: Option<Box<dyn Store>>) -> Card {
    let parameters = crate::common::parameters(CAPACITY);
    let mut identity = Identity::new(&parameters);
    identity.extensions.cache = cache;
    Card::new(parameters, identity, store, 1)
}

/// Returns a host with a card in its slot, and the card's bytes.
fn host(cache: bool) -> (Mmc, Arc<Memory>) {
    let bytes = Arc::new(memory());
    let card = card(cache, Some(Box::new(bytes.clone())));
    let mut mmc = Mmc::new(Native::new(Some(card)), Controller::SDHCI, Kernel::V6_1);
    mmc.start_host();
    assert_eq!(mmc.caches(), cache);
    (mmc, bytes)
}

/// Cuts the card's power. Returns the ranges whose contents are those of the last flush.
fn cut(mmc: &mut Mmc) -> Vec<Range<u64>> {
    let now = mmc.now();
    let cut = mmc.native_mut().card_mut().expect("a card").power_off(now);
    cut.undecided.into_iter().filter(|(_, fate)| *fate == Fate::Old).map(|(range, _)| range).collect()
}

fn bytes_at(bytes: &Arc<Memory>, offset: u64, length: u64) -> Vec<u8> {
    let mut found = vec![0; length as usize];
    Store::read(bytes, offset, &mut found).expect("memory does not fail");
    found
}

#[test]
fn a_driver_without_flushes_loses_only_its_last_writes() {
    for flushes in [true, false] {
        let (mut mmc, bytes) = host(true);
        let block = |byte| vec![byte; 64 * KIB as usize];
        mmc.write(0, 128, &block(1)).expect("a write");
        mmc.flush().expect("the card flushes its cache");
        mmc.write(0, 128, &block(2)).expect("a write");
        mmc.write(1024, 128, &block(3)).expect("a write");
        if flushes {
            mmc.flush().expect("the card flushes its cache");
        }
        let lost = cut(&mut mmc);
        assert_eq!(lost.is_empty(), flushes, "{lost:?}");
        for (offset, before, after) in [(0, 1, 2), (512 * KIB, 0, 3)] {
            for at in (offset..offset + 64 * KIB).step_by(512) {
                let is_lost = lost.iter().any(|range| range.contains(&at));
                let expected = if is_lost { before } else { after };
                assert_eq!(bytes_at(&bytes, at, 512), [expected; 512], "{at}, flushed: {flushes}");
            }
        }
        mmc.native().card().expect("a card").check();
    }
}

#[test]
fn a_write_to_a_card_without_a_cache_is_durable_without_a_flush() {
    let (mut mmc, bytes) = host(false);
    mmc.write(0, 128, &[2; 64 * KIB as usize]).expect("a write");
    assert_eq!(cut(&mut mmc), []);
    assert_eq!(bytes_at(&bytes, 0, 64 * KIB), [2; 64 * KIB as usize]);
}

#[test]
fn the_power_off_notification_flushes_the_cache() {
    let (mut mmc, bytes) = host(true);
    mmc.write(0, 128, &[2; 64 * KIB as usize]).expect("a write");
    mmc.suspend().expect("the card is suspended");
    assert_eq!(cut(&mut mmc), []);
    assert_eq!(bytes_at(&bytes, 0, 64 * KIB), [2; 64 * KIB as usize]);
}

/// An erase is durable immediately: the previous contents do not come back.
#[test]
fn blocks_erased_after_a_cached_write_stay_erased() {
    let (mut mmc, bytes) = host(true);
    mmc.write(0, 128, &[1; 64 * KIB as usize]).expect("a write");
    mmc.flush().expect("the card flushes its cache");
    mmc.write(0, 128, &[2; 64 * KIB as usize]).expect("a write");
    mmc.discard(0, 128).expect("the card discards the blocks");
    assert_eq!(cut(&mut mmc), []);
    assert_eq!(bytes_at(&bytes, 0, 64 * KIB), [0; 64 * KIB as usize]);
}

/// Promised contents of 4 KiB of the device: the byte that was made durable last, and the bytes of the writes
/// that have completed since then.
#[derive(Clone, Default)]
struct Promised {
    byte: u8,
    since: Vec<u8>,
}

impl Promised {
    /// Asserts that each byte `found` after a cut is the durable one, that of a later write, or that of the
    /// request in flight (`in_flight`). Also asserts that the cut names the unit only if its contents were
    /// not durable.
    fn assert_kept(&self, found: &[u8], in_flight: Option<u8>, is_named: bool, context: &str) {
        let may_be =
            |found: u8| found == self.byte || self.since.contains(&found) || in_flight == Some(found);
        assert!(
            found.iter().all(|byte| may_be(*byte)),
            "{context} reads {:?}, promised {}, since {:?}",
            found.chunk_by(|a, b| a == b).map(|run| (run[0], run.len())).collect::<Vec<_>>(),
            self.byte,
            self.since
        );
        let changed = !self.since.is_empty() || in_flight.is_some();
        assert!(!is_named || changed, "{context} was durable, but the cut names it");
    }
}

#[test]
fn flushed_data_on_a_card_with_a_cache_survives_every_cut() {
    let link = Link { bus: Mode::DefaultSpeed.bus(), t_block_host: Duration::ZERO };
    let model = || MmcModel::new(&card(true, None), link, &[Mode::DefaultSpeed], 16 * KIB);
    let lost = loses_only_what_was_not_promised(&|| Box::new(model()), Torn::InFlight);
    assert!(lost > 100, "cuts lost only {lost} unflushed writes");
}

/// The timed card and timed eMMC, each with one command at a time and with a command queue.
#[test]
fn flushed_data_in_the_cache_of_a_timed_card_survives_every_cut() {
    for modes in [vec![Mode::HighSpeed, Mode::DefaultSpeed], vec![Mode::Hs52, Mode::DefaultSpeed]] {
        for queue in [None, Some(8)] {
            let mut card = crate::common::parameters(CAPACITY);
            card.modes = modes.clone();
            card.refinements.cache = Some(64 * KIB);
            (card.refinements.queue, card.refinements.dies) = (queue, queue.map(|_| 2));
            card.check().expect("a possible card");
            let machine = crate::common::machine(&modes, queue);
            let identity = Identity::new(&card);
            let model = || machine.with_card(&card, &identity, 1);
            let lost = loses_only_what_was_not_promised(&model, Torn::InTheCache);
            assert!(lost > 20, "{modes:?}, queue {queue:?}: cuts lost only {lost} unflushed writes");
        }
    }
}

/// The units that a power cut may tear.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Torn {
    /// The units of the write in flight.
    InFlight,
    /// The units of every write since the last flush, because the cache drains them later.
    InTheCache,
}

/// Sends random writes, discards, flushes and power cuts to a timed device. Compares the contents after each
/// cut with a record of the durable data. Returns the number of units that lost their last write.
fn loses_only_what_was_not_promised(make: &dyn Fn() -> Box<dyn Model>, torn: Torn) -> u32 {
    const UNIT: u64 = 4 * KIB;
    let mut lost = 0;
    for seed in 0..12 {
        let device = Timed::new(make(), Box::new(memory()));
        let mut rng = Rng::new(seed);
        let mut units = vec![Promised::default(); 64];
        let mut now = Instant::ZERO;
        for step in 0..400u64 {
            let first = rng.below(60);
            let range = first as usize..(first + 1 + rng.below(4)) as usize;
            let (offset, length) = (first * UNIT, range.len() as u64 * UNIT);
            let byte = 1 + (step % 250) as u8;
            let what = rng.below(12);
            let durable = what == 8;
            let io = match what {
                0..9 => Io::Write { offset, data: vec![byte; length as usize].into(), durable },
                9 => Io::Discard { offset, length, durable: false },
                _ => Io::Flush,
            };
            let started = device.start(&Context::new(now), io);
            if rng.below(10) == 0 {
                // The cut may fall into the middle of the request.
                let due = device.next_due().unwrap_or(now).as_ns();
                now = now.max(Instant::from_ns(due - rng.below(2_000_000).min(due)));
                let cut = device.power_cut(now).expect("memory does not fail");
                now = device.power_up(now);
                let named = |at: u64| cut.undecided.iter().find(|(range, _)| range.contains(&at));
                for (n, unit) in (0..).zip(&mut units) {
                    let mut found = vec![0; UNIT as usize];
                    match execute(&device, Io::Read { offset: n * UNIT, buffer: found.clone() }) {
                        Ok(_) => found = read(&device, n * UNIT, UNIT as usize),
                        // A torn unit is rewritten.
                        Err(_) => {
                            let in_flight = what < 9 && range.contains(&(n as usize));
                            let cached = torn == Torn::InTheCache && !unit.since.is_empty();
                            assert!(in_flight || cached, "seed {seed}: unit {n}");
                            let data = vec![byte; UNIT as usize].into();
                            let again = Io::Write { offset: n * UNIT, data, durable: true };
                            assert!(execute(&device, again).is_ok());
                            *unit = Promised { byte, since: Vec::new() };
                            continue;
                        }
                    }
                    let in_flight = match what {
                        0..9 => Some(byte),
                        9 => Some(0),
                        _ => None,
                    };
                    let in_flight = in_flight.filter(|_| range.contains(&(n as usize)));
                    let context = format!("seed {seed}, step {step}: unit {n}");
                    unit.assert_kept(&found, in_flight, named(n * UNIT).is_some(), &context);
                    lost += u32::from(unit.since.last().is_some_and(|last| *last != found[0]));
                    *unit = Promised { byte: found[0], since: Vec::new() };
                }
                continue;
            }
            assert!(wait_for(&device, started).is_ok());
            match what {
                0..8 => units[range].iter_mut().for_each(|unit| unit.since.push(byte)),
                8 => units[range].fill(Promised { byte, since: Vec::new() }),
                9 => units[range].iter_mut().for_each(|unit| unit.since.push(0)),
                _ => units.iter_mut().for_each(|unit| {
                    unit.byte = unit.since.pop().unwrap_or(unit.byte);
                    unit.since.clear();
                }),
            }
        }
    }
    lost
}

#[test]
fn a_card_with_a_cache_is_a_model() {
    let link = Link { bus: Mode::DefaultSpeed.bus(), t_block_host: Duration::ZERO };
    let model = || MmcModel::new(&card(true, None), link, &[Mode::DefaultSpeed], 64 * KIB);
    for seed in 0..4 {
        conformance::check(&|| Box::new(model()), seed);
    }
}

/// A flush takes the time of its commands on a card with a cache, and no time on a card without one.
#[test]
fn a_flush_is_sent_only_to_a_card_with_a_cache() {
    let link = Link { bus: Mode::DefaultSpeed.bus(), t_block_host: Duration::ZERO };
    let flush = |cache| {
        let mut model = MmcModel::new(&card(cache, None), link, &[Mode::DefaultSpeed], 64 * KIB);
        let request = Request { id: RequestId(1), op: Op::Flush, file: FileId::DEVICE, offset: 0, length: 0 };
        model.submit(Instant::ZERO, request);
        model.complete(Instant::MAX).expect("it completes").spent.total()
    };
    assert_eq!(flush(false), Duration::ZERO);
    assert!(flush(true) > Duration::ZERO);
}

/// The times of the requests show whether the host sends a flush to the timed card.
#[test]
fn a_host_flushes_a_timed_card_with_a_cache_alone() {
    let sd = [Mode::HighSpeed, Mode::DefaultSpeed];
    let emmc = [Mode::Hs52, Mode::DefaultSpeed];
    let times = |modes: &[Mode], cache: bool, queue: Option<u32>| {
        let mut card = crate::common::parameters(CAPACITY);
        (card.modes, card.nand.spread_ppm) = (modes.to_vec(), 0);
        card.refinements.cache = cache.then_some(64 * KIB);
        (card.refinements.queue, card.refinements.dies) = (queue, None);
        let mut model = crate::common::machine(modes, queue).with_card(&card, &Identity::new(&card), 1);
        let mut now = Instant::ZERO;
        let mut time = |op, offset| {
            let request = Request { id: RequestId(1), op, file: FileId::DEVICE, offset, length: 4 * KIB };
            model.submit(now, request);
            let done = model.complete(Instant::MAX).expect("it completes");
            now = done.at + Duration::from_ms(10);
            done.spent.total()
        };
        [time(Op::Flush, 0), time(Op::Write, MIB), time(Op::WriteFua, 2 * MIB)]
    };
    for queue in [None, Some(8)] {
        let [flush, write, forced] = times(&sd, false, queue);
        assert_eq!((flush, write), (Duration::ZERO, forced), "without a cache");
        let [flush, write, forced] = times(&sd, true, queue);
        assert!(flush > crate::common::T_COMMAND, "the flush is a command");
        // The write enters the cache and then drains. The flush waits for the drain.
        assert!(forced > write + flush, "{forced:?}, {write:?}, {flush:?}");
        let [flush, write, forced] = times(&emmc, true, queue);
        assert!(flush > crate::common::T_COMMAND);
        let [_, _, direct] = times(&emmc, false, queue);
        assert_eq!(forced, direct, "a reliable write bypasses the cache");
        assert!(write < direct);
    }
}
