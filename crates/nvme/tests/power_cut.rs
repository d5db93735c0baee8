//! Power cuts at any instant, through the model: what a completed flush covered is never undecided, nothing of before is
//! outstanding afterwards, and the whole structure holds.

mod common;

use common::{KIB, MIB, loading, small, us};
use flashlab_flash::ftl::MapPage;
use flashlab_flash::ftl::page_map::Found;
use flashlab_nvme::{Ssd, SsdParameters};
use flashlab_sim::{Duration, Fate, FileId, Instant, Model, Op, Request, RequestId, Rng, Status};
use std::collections::BTreeMap;

const UNIT: u64 = 4 * KIB;
const CUTS: u64 = 60;

fn units(request: &Request) -> impl Iterator<Item = u64> {
    request.offset / UNIT..request.end().div_ceil(UNIT)
}

/// Units that a cut may name: those whose last change no completed flush covers. A flush covers what had been done when it
/// was submitted.
#[derive(Default)]
struct Open {
    /// How many changes of the unit are outstanding, and when the last one that is not was done.
    units: BTreeMap<u64, (u32, Instant)>,
}

impl Open {
    fn begin(&mut self, request: &Request) {
        for unit in units(request) {
            self.units.entry(unit).or_default().0 += 1;
        }
    }
    fn end(&mut self, request: &Request, at: Instant) {
        for unit in units(request) {
            let (outstanding, done) = self.units.get_mut(&unit).expect("it was begun");
            *outstanding -= 1;
            *done = at;
        }
    }
    fn flushed(&mut self, submitted: Instant) {
        self.units.retain(|_, (outstanding, done)| *outstanding > 0 || *done > submitted);
    }
}

fn random(rng: &mut Rng, id: u64, capacity: u64) -> Request {
    let op = [Op::Write, Op::Write, Op::Write, Op::Trim, Op::Read, Op::Flush][rng.below(6) as usize];
    let length = [512, UNIT, UNIT, 64 * KIB, 300 * KIB][rng.below(5) as usize];
    let step = if rng.below(4) == 0 { 512 } else { UNIT };
    let span = if rng.below(2) == 0 { capacity } else { 4 * MIB };
    let offset = rng.below((span - length) / step) * step;
    Request { id: RequestId(id), op, file: FileId::DEVICE, offset, length }
}

fn survive(parameters: SsdParameters, seed: u64) -> Vec<(u64, Status)> {
    let mut ssd = Ssd::new(parameters, seed);
    let capacity = ssd.geometry().capacity;
    let mut rng = Rng::new(seed);
    let mut now = Instant::ZERO;
    let mut open = Open::default();
    let mut seen = Vec::new();
    let mut id = 0;
    for cut in 0..CUTS {
        let mut outstanding: BTreeMap<u64, (Request, Instant)> = BTreeMap::new();
        let end = now + Duration::from_ns(1 + rng.below(30_000_000));
        while now < end {
            let limit = (now + Duration::from_ns(rng.below(400_000))).min(end);
            while let Some(done) = ssd.complete(limit) {
                now = done.at;
                let (request, submitted) = outstanding.remove(&done.id.0).expect("it was submitted");
                assert_eq!(done.status, Status::Ok, "seed {seed}, cut {cut}: {request:?}");
                match request.op {
                    Op::Flush => open.flushed(submitted),
                    Op::Write | Op::Trim => open.end(&request, now),
                    _ => {}
                }
                seen.push((done.at.as_ns(), done.status));
            }
            now = limit;
            if now < end && outstanding.len() < 16 {
                id += 1;
                let request = random(&mut rng, id, capacity);
                ssd.submit(now, request);
                if matches!(request.op, Op::Write | Op::Trim) {
                    open.begin(&request);
                }
                outstanding.insert(id, (request, now));
            }
        }
        let lost = ssd.power_cut(now);
        for (range, fate) in &lost.undecided {
            assert_eq!(*fate, Fate::Old);
            for unit in range.start / UNIT..range.end / UNIT {
                assert!(
                    open.units.contains_key(&unit),
                    "seed {seed}, cut {cut}: unit {unit} was flushed, and is undecided"
                );
            }
        }
        now = ssd.power_up(now);
        // What is there now is durable.
        open.units.clear();
        ssd.layer().check();
        ssd.map().check();
        let entries = ssd.map().entries();
        for unit in 0..ssd.layer().units() {
            let page = MapPage((u64::from(unit) / entries) as u32);
            let mapped = ssd.layer().read(unit) != Found::Unmapped;
            assert!(!mapped || ssd.map().exists(page), "seed {seed}, cut {cut}: unit {unit} has no map page");
        }
        seen.push((now.as_ns(), Status::Ok));
    }
    seen
}

#[test]
fn what_was_flushed_survives_cuts_at_any_instant() {
    for seed in 0..6 {
        for parameters in [small(), loading(16 * KIB, 64 * KIB), loading(16 * KIB, MIB)] {
            survive(parameters, seed);
        }
    }
}

#[test]
fn a_run_with_cuts_replays_to_the_bit() {
    let mut parameters = loading(16 * KIB, 64 * KIB);
    parameters.timing.t_read_spread_ppm = 250_000;
    assert_eq!(survive(parameters.clone(), 3), survive(parameters, 3));
}

#[test]
fn recovery_takes_time_by_what_was_written() {
    let mut ssd = Ssd::new(small(), 1);
    let at = Instant::ZERO + us(10);
    ssd.power_cut(at);
    let fresh = ssd.power_up(at).since(at);
    let mut now = at + fresh;
    for id in 0..30 {
        let offset = id * MIB;
        ssd.submit(
            now,
            Request { id: RequestId(id), op: Op::Write, file: FileId::DEVICE, offset, length: MIB },
        );
        now = ssd.complete(Instant::MAX).expect("it is outstanding").at;
    }
    ssd.power_cut(now);
    let used = ssd.power_up(now).since(now);
    assert!(used > fresh && used < us(1_000_000), "{fresh} and {used}");
}
