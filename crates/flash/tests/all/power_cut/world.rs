//! Random world of the power-cut tests: a page map on a strict array, and a host that issues random requests.
//! Operations end in any order that is possible within each die.

use super::reference::{Content, Reference};
use flashlab_flash::ftl::page_map::{
    Accepted, Content as Unit, Found, Outcome, PageMap, PageMapParameters, Ticket,
};
use flashlab_flash::nand::strict::{End, Spare, StrictNand};
use flashlab_flash::nand::{EraseBlock, Kind, Operation};
use flashlab_sim::{Rng, mix};

/// Failure rates of operations, in parts per million.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failures {
    pub(crate) program_ppm: u64,
    pub(crate) erase_ppm: u64,
    pub(crate) read_ppm: u64,
}

impl Failures {
    pub(crate) const NONE: Failures = Failures { program_ppm: 0, erase_ppm: 0, read_ppm: 0 };
}

pub(crate) struct World {
    map: PageMap,
    nand: StrictNand,
    reference: Reference,
    /// Units that were written with FUA and are not yet durable.
    forced: Vec<(u32, Ticket)>,
    failures: Failures,
    rng: Rng,
    hash: u64,
    seed: u64,
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the world of seed {}: {:?}, {:?}", self.seed, self.map.parameters(), self.failures);
        }
    }
}

impl World {
    pub(crate) fn new(parameters: &PageMapParameters, failures: Failures, seed: u64) -> Self {
        let map = PageMap::new(parameters, seed);
        World {
            nand: StrictNand::new(&parameters.geometry, map.units_per_page()),
            reference: Reference::new(map.units()),
            map,
            forced: Vec::new(),
            failures,
            rng: Rng::new(seed),
            hash: seed,
            seed,
        }
    }
    /// Returns a hash of all events.
    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }
    pub(crate) fn is_read_only(&self) -> bool {
        self.map.is_read_only()
    }
    pub(crate) fn check(&self) {
        self.map.check();
    }

    fn note(&mut self, what: u64) {
        self.hash = mix(self.hash ^ what);
    }
    fn chance(&mut self, ppm: u64) -> bool {
        ppm > 0 && self.rng.below(1_000_000) < ppm
    }

    /// Does `steps` random actions of the host or the array.
    pub(crate) fn live(&mut self, steps: u32) {
        for _ in 0..steps {
            match self.rng.below(100) {
                0..42 => {
                    self.write();
                }
                42..45 => self.write_forced(),
                45..50 => self.trim(),
                50..52 => {
                    self.map.flush();
                }
                52..56 => self.write_map_page(),
                56..58 => {
                    self.map.idle();
                }
                58..64 => {
                    let unit = self.unit();
                    self.reference.assert_newest(unit, self.read(unit));
                }
                _ => {
                    self.issue();
                    self.end_one();
                }
            }
            let watermark = self.map.watermark();
            assert!(self.map.durable(watermark));
            self.reference.promise(watermark.0);
            self.promise_forced();
        }
    }

    fn promise_forced(&mut self) {
        let World { map, reference, forced, .. } = self;
        forced.retain(|(unit, ticket)| {
            let is_durable = map.is_unit_durable(*unit, *ticket);
            if is_durable {
                reference.promise_unit(*unit, ticket.0);
            }
            !is_durable
        });
    }

    /// Draws a unit. Half of all accesses go to an eighth of the units, the others to any unit.
    fn unit(&mut self) -> u32 {
        let units = u64::from(self.map.units());
        let of = if self.rng.below(2) == 0 { units.div_ceil(8) } else { units };
        self.rng.below(of) as u32
    }

    fn write(&mut self) -> Option<u32> {
        let unit = self.unit();
        if let Accepted::Buffered(ticket) = self.map.write(unit) {
            self.reference.write(unit, ticket.0);
            return Some(unit);
        }
        self.issue();
        self.end_one();
        None
    }

    fn write_forced(&mut self) {
        if let Some(unit) = self.write() {
            self.forced.push((unit, self.map.force()));
        }
    }

    fn write_map_page(&mut self) {
        let pages = self.map.parameters().map_pages;
        if pages > 0 {
            let page = self.rng.below(u64::from(pages)) as u32;
            self.map.write_map_page(page);
            if self.rng.below(4) == 0 {
                self.map.flush_map();
            }
        }
    }

    fn trim(&mut self) {
        let first = self.unit();
        let most = u64::from(self.map.units() - first).min(8);
        let count = 1 + self.rng.below(most) as u32;
        let before = self.map.accepted();
        self.map.trim(first, count);
        let after = self.map.accepted();
        if after != before {
            for unit in first..first + count {
                self.reference.trim(unit, after.0);
            }
        }
    }

    /// Submits up to five operations that the map has ready.
    fn issue(&mut self) {
        for _ in 0..self.rng.below(6) {
            let Some(operation) = self.map.poll() else { return };
            let spares = self.spares(&operation);
            self.note(
                u64::from(operation.block.index()) << 32
                    | u64::from(operation.page) << 8
                    | operation.cause as u64,
            );
            self.nand.submit(&operation, &spares);
        }
    }

    /// Returns the spare areas that a program writes. A copy has the same spare area as its original.
    fn spares(&self, operation: &Operation) -> Vec<Option<Spare>> {
        if !matches!(operation.kind, Kind::Program { .. }) {
            return Vec::new();
        }
        let spare = |index| match self.map.content(operation, index) {
            Unit::Padding => None,
            Unit::New { unit, version } => Some(Spare { address: unit, version }),
            Unit::Copy { unit, block, page, index } => {
                let original = self.nand.spare(block, page, index).expect("a unit, not padding");
                assert_eq!(original.address, unit, "the copied unit has another address");
                Some(original)
            }
        };
        (0..self.map.units_per_page()).map(spare).collect()
    }

    /// Ends one random operation among those that can end next on their die.
    fn end_one(&mut self) {
        let next: Vec<Operation> = self.nand.next().collect();
        if next.is_empty() {
            return;
        }
        let operation = next[self.rng.below(next.len() as u64) as usize];
        let (end, outcome) = match operation.kind {
            Kind::Program { .. } if self.chance(self.failures.program_ppm) => (End::Failed, Outcome::Failed),
            Kind::Erase if self.chance(self.failures.erase_ppm) => (End::Failed, Outcome::Failed),
            Kind::Read { .. } if self.chance(self.failures.read_ppm) => {
                self.lose_page(&operation);
                (End::Uncorrectable, Outcome::Uncorrectable)
            }
            _ => (End::Done, Outcome::Ok),
        };
        self.note(operation.tag.into());
        if let (Kind::Program { .. }, End::Done) = (operation.kind, end) {
            self.note_record(&operation);
        }
        self.nand.end(&operation, end);
        let bad = self.map.blocks().bad_count();
        self.map.finished(&operation, outcome);
        if self.map.blocks().bad_count() != bad {
            self.retire();
        }
    }

    /// Retires the bad blocks of the map in the array, which rejects further operations on these blocks.
    fn retire(&mut self) {
        for block in (0..self.map.blocks().count()).map(EraseBlock::new) {
            if self.map.blocks().is_bad(block) {
                self.nand.retire(block);
            }
        }
    }

    /// Records that a page of trim records makes all trims durable that were accepted before the page.
    fn note_record(&mut self, operation: &Operation) {
        let record = self.map.units() + self.map.parameters().map_pages;
        for index in 0..self.map.units_per_page() {
            match self.map.content(operation, index) {
                Unit::New { unit, version } if unit == record => self.reference.record(version),
                _ => {}
            }
        }
    }

    fn lose_page(&mut self, operation: &Operation) {
        for index in 0..self.map.units_per_page() {
            match self.nand.spare(operation.block, operation.page, index) {
                Some(spare) if spare.address < self.map.units() => {
                    self.reference.lose(spare.address, spare.version);
                }
                _ => {}
            }
        }
    }

    /// Flushes the map and lets all outstanding operations end.
    pub(crate) fn finish(&mut self) {
        let flushed = self.map.flush();
        let mut idle = 0;
        while idle < 50 {
            let before = self.nand.counts();
            self.issue();
            self.end_one();
            idle =
                if self.nand.counts() == before && self.nand.next().next().is_none() { idle + 1 } else { 0 };
        }
        if !self.map.is_read_only() {
            // The record of data that is lost during the flush follows later.
            assert!(self.map.durable(flushed), "the flush did not end");
            self.promise_forced();
            assert_eq!(self.forced, [], "a unit that the flush covers is not durable");
        }
        self.reference.promise(self.map.watermark().0);
        let whole = self.map.validate_restored(self.map.parameters(), self.seed);
        assert_eq!(
            whole.map_err(|inconsistent| inconsistent.to_string()),
            Ok(()),
            "the map at rest is not valid"
        );
    }

    /// Cuts the power and recovers the map. Compares every unit with the reference and with a scan of the array.
    pub(crate) fn power_cut(&mut self) {
        let rng = &mut self.rng;
        let cut = self.nand.power_cut(|_| rng.below(2) == 0);
        let lost = self.map.power_cut(&cut);
        self.forced.clear();
        assert!(lost.is_sorted());
        let recovery = self.map.recover();
        assert!(recovery.pages >= recovery.die_pages);
        self.note(recovery.pages);
        self.note(lost.len() as u64);
        self.map.check();
        let scanned = self.nand.scan();
        for unit in 0..self.map.units() {
            let content = self.read(unit);
            self.reference.assert_possible(unit, content, scanned.get(&unit).copied());
            if let Content::Version(version) = content {
                self.note(version);
            }
        }
    }

    /// Reads every unit of a running device.
    pub(crate) fn read_everything(&self) {
        for unit in 0..self.map.units() {
            self.reference.assert_newest(unit, self.read(unit));
        }
    }

    /// Returns the content of a unit. Data in the write buffer is the newest by construction and is identified by its
    /// number.
    fn read(&self, unit: u32) -> Content {
        match self.map.read(unit) {
            Found::Unmapped => Content::Nothing,
            Found::Unreadable => Content::Unreadable,
            Found::Buffered => {
                Content::Version(self.map.buffered_version(unit).expect("the unit is buffered").0)
            }
            Found::At { block, page, unit: index, .. } => {
                let spare = self.nand.spare(block, page, index).expect("a unit, not padding");
                assert_eq!(spare.address, unit, "the place of unit {unit} holds another unit");
                Content::Version(spare.version)
            }
        }
    }
}
