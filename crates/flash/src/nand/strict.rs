//! A test array that is stricter than a real one: it stores the address and version of every unit and panics on misuse.
//!
//! The array stores the content of spare areas, but no data. A test submits each operation when the layer
//! under test issues it, and later ends it. The operations of a die end in the order of submission. The array
//! panics in the following cases, and names the operation and its location:
//!
//! - A page is programmed out of order, twice without an erase, or in a block whose last erase was torn.
//! - A page is read that was never programmed, or whose program was torn or failed.
//! - A bad block, or a block that is being erased, is used.
//! - A block is erased while programs in it are in progress.
//! - Operations of a die end out of order.
//!
//! The array counts every operation. After a power cut, [`StrictNand::scan`] finds the newest readable version of every
//! address, as a controller's recovery would.

use super::{Cut, EraseBlock, Geometry, Kind, Operation};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;

/// Record of one unit in the spare area of a page.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Spare {
    /// Logical address of the unit.
    pub address: u32,
    /// Version; a larger version is newer.
    pub version: u64,
}

/// Outcome of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The operation succeeded.
    Done,
    /// A program or an erase reported a failure.
    Failed,
    /// A page is uncorrectable from now on, but its spare area is readable.
    Uncorrectable,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Page {
    Erased,
    /// A program is in progress.
    Open,
    Written,
    Uncorrectable,
    /// The program was torn or failed.
    Broken,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Health {
    Good,
    /// An erase was torn, so the block must be erased again first.
    Torn,
    Bad,
}

#[derive(Clone, Debug)]
struct Cells {
    health: Health,
    /// Next page to be programmed.
    next: u32,
    /// Number of programs in progress.
    programs: u32,
    erasing: bool,
}

/// Numbers of submitted operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Reads.
    pub reads: u64,
    /// Programs.
    pub programs: u64,
    /// Erases.
    pub erases: u64,
}

/// A strict test array.
#[derive(Clone, Debug)]
pub struct StrictNand {
    geometry: Geometry,
    units: u32,
    blocks: Vec<Cells>,
    pages: Vec<Page>,
    spares: Vec<Option<Spare>>,
    /// Operations in flight on each die.
    queues: Vec<VecDeque<Operation>>,
    counts: Counts,
}

impl StrictNand {
    /// Returns an erased array with `units` units per program.
    pub fn new(geometry: &Geometry, units: u32) -> Self {
        let blocks = geometry.block_count() as usize;
        let pages = blocks * geometry.pages as usize;
        StrictNand {
            geometry: *geometry,
            units,
            blocks: vec![Cells { health: Health::Good, next: 0, programs: 0, erasing: false }; blocks],
            pages: vec![Page::Erased; pages],
            spares: vec![None; pages * units as usize],
            queues: vec![VecDeque::new(); geometry.die_count() as usize],
            counts: Counts::default(),
        }
    }

    /// Retires `block`. Any later use of the block panics.
    pub fn retire(&mut self, block: EraseBlock) {
        let cells = &mut self.blocks[block.index() as usize];
        assert!(cells.programs == 0 && !cells.erasing, "{block:?} is retired with operations under way");
        cells.health = Health::Bad;
    }

    /// Submits an operation. For a program, `spares` is the new content of the page's spare area, with `None` for
    /// padding.
    ///
    /// # Panics
    /// Panics on misuse.
    pub fn submit(&mut self, operation: &Operation, spares: &[Option<Spare>]) {
        let Operation { block, page, .. } = *operation;
        let cells = &mut self.blocks[block.index() as usize];
        assert!(cells.health != Health::Bad, "{operation:?}: the block is bad");
        assert!(!cells.erasing, "{operation:?}: the block is being erased");
        let index = block.index() as usize * self.geometry.pages as usize + page as usize;
        match operation.kind {
            Kind::Read { .. } => {
                let page = self.pages[index];
                assert!(
                    matches!(page, Page::Written | Page::Uncorrectable),
                    "{operation:?}: the page is {page:?}"
                );
                self.counts.reads += 1;
            }
            Kind::Program { .. } => {
                assert!(cells.health == Health::Good, "{operation:?}: the block's erase was torn");
                assert!(page < self.geometry.pages, "{operation:?}: the block has fewer pages");
                assert!(
                    self.pages[index] == Page::Erased,
                    "{operation:?}: the page is {:?}",
                    self.pages[index]
                );
                assert_eq!(page, cells.next, "{operation:?}: out of order");
                assert_eq!(
                    spares.len(),
                    self.units as usize,
                    "{operation:?}: the numbers of spares and units differ"
                );
                cells.next += 1;
                cells.programs += 1;
                self.pages[index] = Page::Open;
                let first = index * self.units as usize;
                self.spares[first..first + spares.len()].copy_from_slice(spares);
                self.counts.programs += 1;
            }
            Kind::Erase => {
                assert_eq!(cells.programs, 0, "{operation:?}: programs are under way");
                cells.erasing = true;
                self.counts.erases += 1;
            }
        }
        let die = self.geometry.die_of(block);
        self.queues[die.0 as usize].push_back(*operation);
    }

    /// Iterates over the operations that end next on each busy die.
    pub fn next(&self) -> impl Iterator<Item = Operation> + '_ {
        self.queues.iter().filter_map(|queue| queue.front().copied())
    }

    /// Ends an operation.
    ///
    /// # Panics
    /// Panics on misuse.
    pub fn end(&mut self, operation: &Operation, end: End) {
        let die = self.geometry.die_of(operation.block);
        let eldest = self.queues[die.0 as usize].pop_front();
        assert_eq!(eldest.as_ref(), Some(operation), "the operations of a die end out of order");
        let cells = &mut self.blocks[operation.block.index() as usize];
        let first = operation.block.index() as usize * self.geometry.pages as usize;
        let index = first + operation.page as usize;
        match (operation.kind, end) {
            (Kind::Read { .. }, End::Uncorrectable) => self.pages[index] = Page::Uncorrectable,
            (Kind::Read { .. }, _) => {}
            (Kind::Program { .. }, End::Done) => {
                cells.programs -= 1;
                self.pages[index] = Page::Written;
            }
            (Kind::Program { .. }, _) => {
                cells.programs -= 1;
                self.pages[index] = Page::Broken;
            }
            (Kind::Erase, End::Done) => {
                *cells = Cells { health: Health::Good, next: 0, programs: 0, erasing: false };
                self.pages[first..first + self.geometry.pages as usize].fill(Page::Erased);
            }
            (Kind::Erase, _) => {
                cells.erasing = false;
                self.retire(operation.block);
            }
        }
    }

    /// Cuts the power and returns all operations in flight with their outcomes. `torn` decides for the oldest operation
    /// of each die whether the array had started it.
    pub fn power_cut(&mut self, mut torn: impl FnMut(&Operation) -> bool) -> Vec<(Operation, Cut)> {
        let mut cut = Vec::new();
        for die in 0..self.queues.len() {
            let mut begun = true;
            for operation in core::mem::take(&mut self.queues[die]) {
                let what = if begun && torn(&operation) { Cut::Torn } else { Cut::Void };
                begun = false;
                self.cut_one(&operation, what);
                cut.push((operation, what));
            }
        }
        cut
    }

    fn cut_one(&mut self, operation: &Operation, what: Cut) {
        let cells = &mut self.blocks[operation.block.index() as usize];
        let first = operation.block.index() as usize * self.geometry.pages as usize;
        let index = first + operation.page as usize;
        match (operation.kind, what) {
            (Kind::Read { .. }, _) => {}
            (Kind::Program { .. }, Cut::Torn) => {
                cells.programs -= 1;
                self.pages[index] = Page::Broken;
            }
            (Kind::Program { .. }, Cut::Void) => {
                cells.programs -= 1;
                cells.next = cells.next.min(operation.page);
                self.pages[index] = Page::Erased;
            }
            (Kind::Erase, Cut::Torn) => {
                cells.erasing = false;
                cells.health = Health::Torn;
                self.pages[first..first + self.geometry.pages as usize].fill(Page::Broken);
            }
            (Kind::Erase, Cut::Void) => cells.erasing = false,
        }
    }

    /// Returns the record of unit `index` in the spare area of a page.
    ///
    /// # Panics
    /// Panics if the page was not programmed, or if its program was torn or failed.
    pub fn spare(&self, block: EraseBlock, page: u32, index: u32) -> Option<Spare> {
        let place = block.index() as usize * self.geometry.pages as usize + page as usize;
        let state = self.pages[place];
        assert!(
            matches!(state, Page::Written | Page::Uncorrectable),
            "{block:?} page {page} is read, but it is {state:?}"
        );
        self.spares[place * self.units as usize + index as usize]
    }

    /// Returns the newest version of each address in the readable spare areas of good blocks.
    pub fn scan(&self) -> BTreeMap<u32, u64> {
        let mut newest = BTreeMap::new();
        for (place, page) in self.pages.iter().enumerate() {
            let cells = &self.blocks[place / self.geometry.pages as usize];
            if cells.health == Health::Bad || !matches!(page, Page::Written | Page::Uncorrectable) {
                continue;
            }
            let first = place * self.units as usize;
            for spare in self.spares[first..first + self.units as usize].iter().flatten() {
                let version = newest.entry(spare.address).or_insert(spare.version);
                *version = spare.version.max(*version);
            }
        }
        newest
    }

    /// Returns the numbers of operations submitted so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nand::Cause;

    const TINY: Geometry = Geometry { channels: 1, dies: 1, planes: 1, blocks: 2, pages: 3, page: 4_096 };

    fn operation(kind: Kind, page: u32) -> Operation {
        Operation { kind, block: EraseBlock::new(1), page, slc: false, cause: Cause::Host, tag: 0 }
    }
    fn program(page: u32) -> Operation {
        operation(Kind::Program { bytes: 4_096 }, page)
    }
    fn spare(version: u64) -> [Option<Spare>; 1] {
        [Some(Spare { address: 7, version })]
    }
    fn written(pages: u32) -> StrictNand {
        let mut nand = StrictNand::new(&TINY, 1);
        for page in 0..pages {
            nand.submit(&program(page), &spare(u64::from(page)));
            nand.end(&program(page), End::Done);
        }
        nand
    }

    #[test]
    #[should_panic(expected = "out of order")]
    fn programming_out_of_order_panics() {
        written(1).submit(&program(2), &spare(1));
    }
    #[test]
    #[should_panic(expected = "the page is Written")]
    fn programming_twice_panics() {
        written(1).submit(&program(0), &spare(1));
    }
    #[test]
    #[should_panic(expected = "the page is Erased")]
    fn reading_an_unprogrammed_page_panics() {
        written(1).submit(&operation(Kind::Read { bytes: 4_096 }, 1), &[]);
    }
    #[test]
    #[should_panic(expected = "the page is Broken")]
    fn reading_a_torn_page_panics() {
        let mut nand = written(1);
        nand.submit(&program(1), &spare(9));
        nand.power_cut(|_| true);
        nand.submit(&operation(Kind::Read { bytes: 4_096 }, 1), &[]);
    }
    #[test]
    #[should_panic(expected = "the block is bad")]
    fn using_a_bad_block_panics() {
        let mut nand = written(1);
        nand.retire(EraseBlock::new(1));
        nand.submit(&program(1), &spare(1));
    }
    #[test]
    #[should_panic(expected = "programs are under way")]
    fn erasing_a_block_during_a_program_panics() {
        let mut nand = written(1);
        nand.submit(&program(1), &spare(1));
        nand.submit(&operation(Kind::Erase, 0), &[]);
    }
    #[test]
    #[should_panic(expected = "erase was torn")]
    fn programming_after_a_torn_erase_panics() {
        let mut nand = written(1);
        nand.submit(&operation(Kind::Erase, 0), &[]);
        nand.power_cut(|_| true);
        nand.submit(&program(0), &spare(1));
    }

    #[test]
    fn a_scan_finds_the_newest_version_that_is_not_torn_and_every_operation_is_counted() {
        let mut nand = written(2);
        assert_eq!(nand.scan(), BTreeMap::from([(7, 1)]));
        nand.submit(&program(2), &spare(5));
        let cut = nand.power_cut(|_| true);
        assert_eq!(cut, [(program(2), Cut::Torn)]);
        assert_eq!(nand.scan(), BTreeMap::from([(7, 1)]));
        nand.submit(&operation(Kind::Erase, 0), &[]);
        nand.end(&operation(Kind::Erase, 0), End::Done);
        assert_eq!(nand.scan(), BTreeMap::new());
        assert_eq!(nand.counts(), Counts { reads: 0, programs: 3, erases: 1 });
    }
}
