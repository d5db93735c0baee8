//! Power cuts at any instant, through the model. Data that a completed flush covered, or that a completed write with
//! FUA wrote, is never undecided. No earlier request is outstanding after a cut. A lost unit still fails its reads. The
//! structures stay consistent.

mod versions;

use crate::common::{KIB, MIB, loading, small, unreliable_cells, us};
use flashlab_flash::ftl::MapPage;
use flashlab_flash::ftl::page_map::Found;
use flashlab_flash::nand::Endurance;
use flashlab_host::driver::hmb;
use flashlab_nvme::{Ssd, SsdParameters};
use flashlab_sim::{Duration, Fate, FileId, Instant, Model, Op, Request, RequestId, Rng, Status};
use std::collections::{BTreeMap, BTreeSet};
use versions::{Begun, Versions};

const UNIT: u64 = 4 * KIB;
const CUTS: u64 = 60;

fn units(request: &Request) -> impl Iterator<Item = u64> {
    request.offset / UNIT..request.end().div_ceil(UNIT)
}

/// Returns the units that a request covers only in part.
fn parts(request: &Request) -> impl Iterator<Item = u64> {
    let whole = request.offset.div_ceil(UNIT)..request.end() / UNIT;
    units(request).filter(move |unit| !whole.contains(unit))
}

/// The units that a cut may name: those whose last change no completed flush covers. A flush covers the changes that
/// were complete when it was submitted. A write with FUA covers itself and the earlier changes of its units.
#[derive(Default)]
struct Open {
    /// Number of outstanding changes of each unit, and the instant at which its last completed change was complete.
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
            let (outstanding, done) = self.units.get_mut(&unit).expect("the write of the unit was begun");
            *outstanding -= 1;
            *done = at;
        }
    }
    fn fail(&mut self, request: &Request) {
        for unit in units(request) {
            self.units.get_mut(&unit).expect("the write of the unit was begun").0 -= 1;
        }
        self.units.retain(|_, (outstanding, done)| *outstanding > 0 || *done > Instant::ZERO);
    }
    fn forced(&mut self, request: &Request, submitted: Instant) {
        for unit in units(request) {
            let (outstanding, done) = self.units.get_mut(&unit).expect("the write of the unit was begun");
            *outstanding -= 1;
            if *outstanding == 0 && *done <= submitted {
                self.units.remove(&unit);
            }
        }
    }
    fn flushed(&mut self, submitted: Instant) {
        self.units.retain(|_, (outstanding, done)| *outstanding > 0 || *done > submitted);
    }
}

fn random(rng: &mut Rng, id: u64, capacity: u64) -> Request {
    let op =
        [Op::Write, Op::Write, Op::Write, Op::WriteFua, Op::Trim, Op::Read, Op::Flush][rng.below(7) as usize];
    let length = [512, UNIT, UNIT, 64 * KIB, 300 * KIB][rng.below(5) as usize];
    let step = if rng.below(4) == 0 { 512 } else { UNIT };
    let span = if rng.below(2) == 0 { capacity } else { 4 * MIB };
    let offset = rng.below((span - length) / step) * step;
    Request { id: RequestId(id), op, file: FileId::DEVICE, offset, length }
}

fn survive(parameters: SsdParameters, seed: u64) -> Vec<(u64, Status)> {
    let reliable = parameters.reliability.is_none();
    let mut ssd = Ssd::new(parameters.clone(), hmb::linux, seed);
    let mut versions = Versions::new(&mut ssd, UNIT);
    let capacity = ssd.geometry().capacity;
    let mut rng = Rng::new(seed);
    let mut now = Instant::ZERO;
    let mut open = Open::default();
    let mut seen = Vec::new();
    let mut id = 0;
    let mut lost_units = 0;
    for cut in 0..CUTS {
        let mut outstanding: BTreeMap<u64, (Request, Instant, Option<Begun>)> = BTreeMap::new();
        // Writes that must preserve a part of a lost unit, and therefore fail.
        let mut doomed = BTreeSet::new();
        let end = now + Duration::from_ns(1 + rng.below(30_000_000));
        while now < end {
            let limit = (now + Duration::from_ns(rng.below(400_000))).min(end);
            while let Some(done) = ssd.complete(limit) {
                now = done.at;
                let (request, submitted, begun) =
                    outstanding.remove(&done.id.0).expect("the request was submitted");
                let reads =
                    request.op == Op::Read || (request.op.is_write() && parts(&request).next().is_some());
                let failed = done.status == Status::Unreadable && reads && !reliable;
                assert!(failed || done.status == Status::Ok, "seed {seed}, cut {cut}: {request:?}: {done:?}");
                assert!(
                    failed || !doomed.remove(&done.id.0),
                    "seed {seed}, cut {cut}: {request:?} preserved a lost unit"
                );
                if let Some(begun) = begun {
                    versions.end(&ssd, &request, begun, now, !failed);
                }
                match request.op {
                    Op::Flush => {
                        open.flushed(submitted);
                        versions.flushed(submitted);
                    }
                    Op::Write | Op::WriteFua if failed => open.fail(&request),
                    Op::WriteFua => open.forced(&request, submitted),
                    Op::Write | Op::Trim => open.end(&request, now),
                    _ => {}
                }
                seen.push((done.at.as_ns(), done.status));
            }
            now = limit;
            if now < end && outstanding.len() < 16 {
                id += 1;
                let request = random(&mut rng, id, capacity);
                let keeps = |unit| {
                    let changes = open.units.get(&unit).is_some_and(|(outstanding, _)| *outstanding > 0);
                    ssd.layer().read(unit as u32) == Found::Unreadable && !changes
                };
                if request.op.is_write() && parts(&request).any(keeps) {
                    doomed.insert(id);
                }
                let changes = request.op.is_write() || request.op == Op::Trim;
                let begun = changes.then(|| versions.begin(&ssd, &request));
                ssd.submit(now, request);
                if changes {
                    open.begin(&request);
                }
                outstanding.insert(id, (request, now, begun));
            }
        }
        let unreadable: Vec<u32> = (0..ssd.layer().units())
            .filter(|unit| ssd.layer().read(*unit) == Found::Unreadable)
            .filter(|unit| !open.units.contains_key(&u64::from(*unit)))
            .collect();
        let before = Versions::now(&ssd);
        let lost = ssd.power_cut(now);
        for (range, fate) in &lost.undecided {
            assert_eq!(*fate, Fate::Old);
            for unit in range.start / UNIT..range.end / UNIT {
                assert!(
                    open.units.contains_key(&unit),
                    "seed {seed}, cut {cut}: unit {unit} was flushed or written with FUA, and is undecided"
                );
            }
        }
        now = ssd.power_up(now);
        // The contents after the cut are durable.
        open.units.clear();
        versions.assert_kept(&ssd, &before, &lost, &format!("seed {seed}, cut {cut}"));
        ssd.layer().check();
        ssd.map().check();
        for unit in unreadable {
            let found = ssd.layer().read(unit);
            assert_eq!(found, Found::Unreadable, "seed {seed}, cut {cut}: unit {unit} was lost");
            lost_units += 1;
        }
        let entries = ssd.map().entries();
        for unit in 0..ssd.layer().units() {
            let page = MapPage((u64::from(unit) / entries) as u32);
            let mapped = ssd.layer().read(unit) != Found::Unmapped;
            assert!(!mapped || ssd.map().exists(page), "seed {seed}, cut {cut}: unit {unit} has no map page");
        }
        let kept = ssd.save().expect("it can be kept");
        let restored = Ssd::new(parameters.clone(), hmb::linux, seed).restore(&kept);
        assert_eq!(restored, Ok(()), "seed {seed}, cut {cut}: kept as it came up");
        seen.push((now.as_ns(), Status::Ok));
    }
    assert_eq!(lost_units == 0, reliable, "seed {seed}: units are lost where pages cannot be read");
    seen
}

/// A drive on which programs fail sometimes, and a tenth of all reads.
fn unreliable() -> SsdParameters {
    let mut parameters = loading(16 * KIB, 64 * KIB);
    parameters.page_map.endurance =
        Some(Endurance { program_fail_ppb: 1_000_000, ..Endurance::exactly(10_000) });
    parameters.reliability = Some(unreliable_cells(1e-4));
    parameters
}

#[test]
fn what_was_flushed_survives_cuts_at_any_instant() {
    for seed in 0..6 {
        for parameters in [small(), loading(16 * KIB, 64 * KIB), loading(16 * KIB, MIB), unreliable()] {
            survive(parameters, seed);
        }
    }
}

/// A write larger than the write buffer, and a trim of the same range that takes effect before the write's data
/// arrives.
#[test]
fn what_is_programmed_of_a_write_that_a_trim_overtook_has_its_map_pages_after_a_cut() {
    let mut parameters = loading(16 * KIB, 0);
    parameters.page_map.write_buffer = 64 * KIB;
    let mut ssd = Ssd::new(parameters, hmb::linux, 1);
    let request = |id, op| Request { id: RequestId(id), op, file: FileId::DEVICE, offset: 0, length: MIB };
    ssd.submit(Instant::ZERO, request(1, Op::Write));
    ssd.submit(Instant::ZERO, request(2, Op::Trim));
    let cut = Instant::ZERO + us(6_000);
    let done = ssd.complete(cut).expect("the trim is done");
    assert_eq!((done.id, ssd.complete(cut)), (RequestId(2), None), "the write waits for the write buffer");
    ssd.power_cut(cut);
    ssd.power_up(cut);
    let (units, entries) = (0..(MIB / UNIT) as u32, ssd.map().entries() as u32);
    let mut mapped = units.filter(|unit| ssd.layer().read(*unit) != Found::Unmapped).peekable();
    assert!(mapped.peek().is_some(), "some of it is programmed");
    assert!(mapped.all(|unit| ssd.map().exists(MapPage(unit / entries))));
}

#[test]
fn a_run_with_cuts_replays_to_the_bit() {
    let mut parameters = loading(16 * KIB, 64 * KIB);
    parameters.timing.t_read_spread_ppm = 250_000;
    assert_eq!(survive(parameters.clone(), 3), survive(parameters, 3));
}

#[test]
fn recovery_takes_time_by_what_was_written() {
    let mut ssd = Ssd::new(small(), hmb::linux, 1);
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
        now = ssd.complete(Instant::MAX).expect("a request is outstanding").at;
    }
    ssd.power_cut(now);
    let used = ssd.power_up(now).since(now);
    assert!(used > fresh && used < us(1_000_000), "{fresh} and {used}");
}
