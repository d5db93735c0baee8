//! Power cuts at random instants. The tests check four properties. A cut never leaves data undecided that a
//! completed flush or a completed FUA write made durable. No earlier request is outstanding after a cut.
//! Reads of a lost unit still fail after a cut. The structures of the drive stay consistent.

mod contents;
mod versions;

use crate::common::{KIB, MIB, loading, small, unreliable_cells, us};
use flashlab_flash::ftl::MapPage;
use flashlab_flash::ftl::page_map::Found;
use flashlab_flash::nand::Endurance;
use flashlab_host::driver::hmb;
use flashlab_nvme::{Ssd, SsdParameters};
use flashlab_sim::{Completion, Duration, Fate, FileId, Instant, Model, Op, Request, RequestId, Rng, Status};
use std::collections::BTreeMap;
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

/// The units whose last change may not be durable, so that a cut may report them as undecided. A completed
/// flush makes durable all changes that were complete when the flush was submitted. A completed FUA write
/// makes durable its own data and the earlier changes of its units.
#[derive(Default)]
struct Open {
    /// Number of outstanding changes of each unit, and the instant at which its last completed change ended.
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

/// An outstanding request.
struct Outstanding {
    request: Request,
    submitted: Instant,
    /// The change that the request begins, if it is a write or a trim.
    begun: Option<Begun>,
    /// True if the request is a write that must preserve a part of a lost unit, and therefore fails.
    is_doomed: bool,
}

/// A drive under random requests and power cuts, with the records against which the drive is checked.
struct Survivor {
    ssd: Ssd,
    parameters: SsdParameters,
    seed: u64,
    versions: Versions,
    open: Open,
    outstanding: BTreeMap<u64, Outstanding>,
    rng: Rng,
    now: Instant,
    id: u64,
    /// Completions and recoveries, with their instants in nanoseconds.
    seen: Vec<(u64, Status)>,
    lost_units: u32,
}

impl Survivor {
    fn new(parameters: SsdParameters, seed: u64) -> Survivor {
        let mut ssd = Ssd::new(parameters.clone(), hmb::linux, seed);
        let versions = Versions::new(&mut ssd, UNIT);
        Survivor {
            ssd,
            parameters,
            seed,
            versions,
            open: Open::default(),
            outstanding: BTreeMap::new(),
            rng: Rng::new(seed),
            now: Instant::ZERO,
            id: 0,
            seen: Vec::new(),
            lost_units: 0,
        }
    }

    fn is_reliable(&self) -> bool {
        self.parameters.reliability.is_none()
    }

    /// Submits random requests and checks their completions, for up to 30 ms.
    fn work(&mut self, cut: u64) {
        let end = self.now + Duration::from_ns(1 + self.rng.below(30_000_000));
        while self.now < end {
            let limit = (self.now + Duration::from_ns(self.rng.below(400_000))).min(end);
            while let Some(done) = self.ssd.complete(limit) {
                self.completed(cut, &done);
            }
            self.now = limit;
            if self.now < end && self.outstanding.len() < 16 {
                self.submit();
            }
        }
    }

    fn completed(&mut self, cut: u64, done: &Completion) {
        self.now = done.at;
        let known = self.outstanding.remove(&done.id.0);
        let Outstanding { request, submitted, begun, is_doomed } = known.expect("the request was submitted");
        let reads = request.op == Op::Read || (request.op.is_write() && parts(&request).next().is_some());
        let failed = done.status == Status::Unreadable && reads && !self.is_reliable();
        let seed = self.seed;
        assert!(failed || done.status == Status::Ok, "seed {seed}, cut {cut}: {request:?}: {done:?}");
        assert!(failed || !is_doomed, "seed {seed}, cut {cut}: {request:?} preserved a lost unit");
        if let Some(begun) = begun {
            self.versions.end(&self.ssd, &request, begun, self.now, !failed);
        }
        match request.op {
            Op::Flush => {
                self.open.flushed(submitted);
                self.versions.flushed(submitted);
            }
            Op::Write | Op::WriteFua if failed => self.open.fail(&request),
            Op::WriteFua => self.open.forced(&request, submitted),
            Op::Write | Op::Trim => self.open.end(&request, self.now),
            _ => {}
        }
        self.seen.push((done.at.as_ns(), done.status));
    }

    fn submit(&mut self) {
        self.id += 1;
        let request = random(&mut self.rng, self.id, self.ssd.geometry().capacity);
        let preserves_lost_unit = |unit| {
            let changes = self.open.units.get(&unit).is_some_and(|(outstanding, _)| *outstanding > 0);
            self.ssd.layer().read(unit as u32) == Found::Unreadable && !changes
        };
        let is_doomed = request.op.is_write() && parts(&request).any(preserves_lost_unit);
        let changes = request.op.is_write() || request.op == Op::Trim;
        let begun = changes.then(|| self.versions.begin(&self.ssd, &request));
        self.ssd.submit(self.now, request);
        if changes {
            self.open.begin(&request);
        }
        self.outstanding.insert(self.id, Outstanding { request, submitted: self.now, begun, is_doomed });
    }

    /// Returns the lost units whose content no change in flight or in the buffer can restore.
    fn lost_for_good(&self) -> Vec<u32> {
        (0..self.ssd.layer().units())
            .filter(|unit| self.ssd.layer().read(*unit) == Found::Unreadable)
            .filter(|unit| !self.open.units.contains_key(&u64::from(*unit)))
            .collect()
    }

    /// Cuts the power, restores it, and checks the contents.
    fn cut_power(&mut self, cut: u64) {
        let unreadable = self.lost_for_good();
        let before = Versions::now(&self.ssd);
        let lost = self.ssd.power_cut(self.now);
        self.outstanding.clear();
        let seed = self.seed;
        for (range, fate) in &lost.undecided {
            assert_eq!(*fate, Fate::Old);
            for unit in range.start / UNIT..range.end / UNIT {
                assert!(
                    self.open.units.contains_key(&unit),
                    "seed {seed}, cut {cut}: unit {unit} was flushed or written with FUA, and is undecided"
                );
            }
        }
        self.now = self.ssd.power_up(self.now);
        // The contents after the cut are durable.
        self.open.units.clear();
        self.versions.assert_kept(&self.ssd, &before, &lost, &format!("seed {seed}, cut {cut}"));
        for unit in unreadable {
            let found = self.ssd.layer().read(unit);
            assert_eq!(found, Found::Unreadable, "seed {seed}, cut {cut}: unit {unit} was lost");
            self.lost_units += 1;
        }
        self.assert_consistent(cut);
        self.seen.push((self.now.as_ns(), Status::Ok));
    }

    /// Checks the structures, that every mapped unit has its map page, and that the drive can be saved and restored.
    fn assert_consistent(&self, cut: u64) {
        let (ssd, seed) = (&self.ssd, self.seed);
        ssd.layer().check();
        ssd.map().check();
        let entries = ssd.map().entries();
        for unit in 0..ssd.layer().units() {
            let page = MapPage((u64::from(unit) / entries) as u32);
            let mapped = ssd.layer().read(unit) != Found::Unmapped;
            assert!(!mapped || ssd.map().exists(page), "seed {seed}, cut {cut}: unit {unit} has no map page");
        }
        let kept = ssd.save().expect("a drive at rest has a snapshot");
        let restored = Ssd::new(self.parameters.clone(), hmb::linux, seed).restore(&kept);
        assert_eq!(restored, Ok(()), "seed {seed}, cut {cut}: the drive rejects its own snapshot");
    }
}

/// Cuts the power [`CUTS`] times. Returns the completions and recoveries, with their instants.
fn survive(parameters: SsdParameters, seed: u64) -> Vec<(u64, Status)> {
    let mut survivor = Survivor::new(parameters, seed);
    for cut in 0..CUTS {
        survivor.work(cut);
        survivor.cut_power(cut);
    }
    let is_lossless = survivor.lost_units == 0;
    assert_eq!(
        is_lossless,
        survivor.is_reliable(),
        "seed {seed}: units must be lost if and only if reads can fail"
    );
    survivor.seen
}

/// A drive on which some programs and a tenth of all reads fail.
fn unreliable() -> SsdParameters {
    let mut parameters = loading(16 * KIB, 64 * KIB);
    parameters.page_map.endurance =
        Some(Endurance { program_fail_ppb: 1_000_000, ..Endurance::exactly(10_000) });
    parameters.reliability = Some(unreliable_cells(1e-4));
    parameters
}

#[test]
fn flushed_data_survives_a_power_cut_at_any_instant() {
    for seed in 0..6 {
        for parameters in [small(), loading(16 * KIB, 64 * KIB), loading(16 * KIB, MIB), unreliable()] {
            survive(parameters, seed);
        }
    }
}

/// The write is larger than the write buffer. The trim of the same range takes effect before the data of the
/// write arrives.
#[test]
fn units_programmed_by_a_write_that_a_trim_overtook_have_map_pages_after_a_power_cut() {
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
    assert!(mapped.peek().is_some(), "some units are programmed");
    assert!(mapped.all(|unit| ssd.map().exists(MapPage(unit / entries))));
}

#[test]
fn a_run_with_power_cuts_is_deterministic() {
    let mut parameters = loading(16 * KIB, 64 * KIB);
    parameters.timing.t_read_spread_ppm = 250_000;
    assert_eq!(survive(parameters.clone(), 3), survive(parameters, 3));
}

#[test]
fn recovery_takes_longer_after_more_writes() {
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
