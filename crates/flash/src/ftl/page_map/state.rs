//! What the layer knows of each erase block, each die and each program under way.

use super::place::NONE;
use crate::nand::{Cause, Operation};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// Data of one kind; each has an open block on each die.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub(super) enum Stream {
    /// What the host writes.
    Host,
    /// What survived a collection.
    Collection,
    /// What survived several, if that is kept apart.
    Cold,
    /// What wear levelling moved.
    Levelled,
    /// Map pages and records.
    Map,
}

/// How many streams there are.
pub(super) const STREAMS: usize = 5;
/// What becomes of a block, in this order and round again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum Phase {
    Free,
    /// Being written, or its last programs are under way.
    Open,
    /// Written, and a candidate for collection.
    Closed,
    /// A program in it failed: its data has to move, then it is retired.
    Failing,
    /// Its pages are being read.
    Victim,
    /// All that was valid has been read and is on its way elsewhere.
    Drained,
    /// Empty; it waits for the record of what was trimmed in it, or the erase is under way.
    Erasing,
    Bad,
}

/// An erase block.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct BlockState {
    /// Units that have been read to be moved and are not programmed yet.
    pub(super) moving: u32,
    /// The page that is programmed next.
    pub(super) next_page: u32,
    /// Programs under way.
    pub(super) programs: u16,
    pub(super) phase: Phase,
    pub(super) stream: Stream,
    /// Used with one bit a cell.
    pub(super) slc: bool,
    /// To be retired instead of erased.
    pub(super) failing: bool,
    /// Why its data moves.
    pub(super) cause: Cause,
}

impl BlockState {
    pub(super) const FREE: BlockState = BlockState {
        moving: 0,
        next_page: 0,
        programs: 0,
        phase: Phase::Free,
        stream: Stream::Host,
        slc: false,
        failing: false,
        cause: Cause::Collection,
    };
}

/// What is seldom asked of an erase block.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct BlockHistory {
    /// The number of the last trim of a unit in it.
    pub(super) trimmed: u64,
    /// How much the host had written when it was closed.
    pub(super) closed_at: u64,
}

/// A die.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct DieState {
    /// The block that each stream writes.
    pub(super) open: [u32; STREAMS],
    /// Free blocks.
    pub(super) free: u32,
    /// The block being read for its valid units, and the page from which on that is still to be done.
    pub(super) victim: u32,
    pub(super) victim_page: u32,
    /// The page up to which what belongs to it has been loaded into the processor's cache.
    pub(super) victim_loaded: u32,
    /// Reads of it under way.
    pub(super) reads: u32,
    /// Programs of accepted units and of moved ones under way.
    pub(super) programs: u32,
    pub(super) move_programs: u32,
    /// Units of space that collection owes to the host.
    pub(super) debt: i64,
    /// Millionths of units that folding owes to the host.
    pub(super) fold_debt: i64,
    /// Where the victim's valid units go.
    pub(super) to: Stream,
    /// One step may be done because the device is idle.
    pub(super) idle: bool,
    /// Blocks in which a program failed.
    pub(super) failing: VecDeque<u32>,
    /// The block whose data wear levelling wants moved.
    pub(super) levelled: u32,
    /// Blocks with one bit a cell: all, and those closed in the order of closing.
    pub(super) slc: u32,
    pub(super) slc_closed: VecDeque<u32>,
    /// For each stream the program that gathers what was read, or [`NONE`].
    pub(super) gathering: [u32; STREAMS],
    /// Programs that are full and wait for a page.
    pub(super) full: Row,
}

impl DieState {
    pub(super) fn new(free: u32) -> Self {
        DieState {
            open: [NONE; STREAMS],
            free,
            victim: NONE,
            victim_page: 0,
            victim_loaded: 0,
            reads: 0,
            programs: 0,
            move_programs: 0,
            debt: 0,
            fold_debt: 0,
            to: Stream::Collection,
            idle: false,
            failing: VecDeque::new(),
            levelled: NONE,
            slc: 0,
            slc_closed: VecDeque::new(),
            gathering: [NONE; STREAMS],
            full: Row::EMPTY,
        }
    }
}

/// Where a program's units come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum Source {
    Data,
    Map,
    Moved(Stream),
}

/// A unit of a program.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Part {
    /// Its slot in the write buffer, or the place that it is moved from.
    pub(super) from: u32,
    /// Its logical number.
    pub(super) unit: u32,
}

/// A program that gathers units, or that is under way.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Program {
    /// The first place that it writes, and the block; no place as long as it gathers.
    pub(super) place: u32,
    pub(super) block: u32,
    /// Units in it.
    pub(super) count: u32,
    /// The die whose valid units it moves, or that the page is on.
    pub(super) die: u32,
    /// The next in its row.
    next: u32,
    pub(super) source: Source,
    /// It ends when it is reported finished.
    pub(super) is_issued: bool,
    /// Its page is on another die than `die`.
    pub(super) is_elsewhere: bool,
}

impl Program {
    const NEW: Program = Program {
        place: NONE,
        block: NONE,
        count: 0,
        die: 0,
        next: NONE,
        source: Source::Data,
        is_issued: false,
        is_elsewhere: false,
    };
}

/// Programs in a row, each in no other.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Row {
    first: u32,
    last: u32,
    count: u32,
}

impl Row {
    pub(super) const EMPTY: Row = Row { first: NONE, last: NONE, count: 0 };

    #[inline]
    pub(super) fn len(&self) -> u32 {
        self.count
    }
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }
    #[inline]
    pub(super) fn front(&self) -> Option<u32> {
        (self.count > 0).then_some(self.first)
    }
}

/// Programs that gather units or are under way; the tag of an operation is its number here.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Programs {
    programs: Vec<Program>,
    /// Those of each program, and behind them room for as many: what is gathered beyond a page.
    parts: Vec<Part>,
    per_page: usize,
    vacant: Vec<u32>,
}

impl Programs {
    pub(super) fn new(units_per_page: u32) -> Self {
        Programs { per_page: units_per_page as usize, ..Programs::default() }
    }
    /// A program without units and place.
    #[inline]
    pub(super) fn begin(&mut self, die: u32, source: Source) -> u32 {
        let id = self.vacant.pop().unwrap_or_else(|| self.grow());
        self.programs[id as usize] = Program { die, source, ..Program::NEW };
        id
    }
    #[cold]
    fn grow(&mut self) -> u32 {
        self.programs.push(Program::NEW);
        self.parts.resize(self.programs.len() * 2 * self.per_page, Part { from: NONE, unit: NONE });
        self.programs.len() as u32 - 1
    }
    /// A unit of a program.
    #[inline]
    pub(super) fn part(&self, id: u32, n: u32) -> Part {
        self.parts[id as usize * 2 * self.per_page + n as usize]
    }
    #[inline]
    pub(super) fn get(&self, id: u32) -> &Program {
        &self.programs[id as usize]
    }
    #[inline]
    pub(super) fn get_mut(&mut self, id: u32) -> &mut Program {
        &mut self.programs[id as usize]
    }
    /// The units of a page, of which the first `count` are in the program.
    #[inline]
    pub(super) fn parts(&self, id: u32) -> &[Part] {
        let first = id as usize * 2 * self.per_page;
        &self.parts[first..first + self.per_page]
    }
    #[inline]
    pub(super) fn parts_mut(&mut self, id: u32) -> &mut [Part] {
        let first = id as usize * 2 * self.per_page;
        &mut self.parts[first..first + self.per_page]
    }
    /// Appends to a program that gathers, which is not full, the units at places from `base` on that `mask` has a bit for;
    /// how many it has then. Those beyond a page wait for [`Programs::split`].
    #[inline]
    pub(super) fn append(&mut self, id: u32, base: u32, units: &[u32], mask: u64) -> u32 {
        let first = id as usize * 2 * self.per_page;
        let parts = &mut self.parts[first..first + 2 * self.per_page];
        let program = &mut self.programs[id as usize];
        let mut count = program.count;
        // No branches: which of them are valid cannot be predicted.
        for (n, unit) in (0..).zip(units) {
            parts[count as usize] = Part { from: base + n, unit: *unit };
            count += (mask >> n & 1) as u32;
        }
        program.count = count;
        count
    }
    /// Leaves a page in a program that gathered that or more; the rest is in another one, if there is a rest.
    #[inline]
    pub(super) fn split(&mut self, id: u32) -> Option<u32> {
        let program = &mut self.programs[id as usize];
        let rest = program.count as usize - self.per_page;
        program.count = self.per_page as u32;
        if rest == 0 {
            return None;
        }
        let Program { die, source, .. } = *program;
        let next = self.begin(die, source);
        self.programs[next as usize].count = rest as u32;
        let beyond = (id as usize * 2 + 1) * self.per_page;
        self.parts.copy_within(beyond..beyond + rest, next as usize * 2 * self.per_page);
        Some(next)
    }
    /// Appends a program to a row.
    #[inline]
    pub(super) fn push_back(&mut self, row: &mut Row, id: u32) {
        if row.is_empty() {
            row.first = id;
        } else {
            self.programs[row.last as usize].next = id;
        }
        row.last = id;
        row.count += 1;
    }
    /// Puts a program before all of a row.
    pub(super) fn push_front(&mut self, row: &mut Row, id: u32) {
        if row.is_empty() {
            row.last = id;
        }
        self.programs[id as usize].next = row.first;
        row.first = id;
        row.count += 1;
    }
    /// Takes the first out of a row that is not empty.
    #[inline]
    pub(super) fn pop_front(&self, row: &mut Row) {
        row.first = self.programs[row.first as usize].next;
        row.count -= 1;
    }
    /// Whether a row ends where it says.
    pub(super) fn is_row(&self, row: &Row) -> bool {
        row.count as usize <= self.programs.len()
            && self.row(row).count() == row.count as usize
            && self.row(row).last().is_none_or(|last| last == row.last)
    }
    /// The programs of a row, in order.
    pub(super) fn row(&self, row: &Row) -> impl Iterator<Item = u32> + Clone + '_ {
        let next = |id: &u32| self.programs.get(*id as usize).map(|program| program.next);
        core::iter::successors(row.front(), next).take(row.count as usize)
    }
    #[inline]
    pub(super) fn end(&mut self, id: u32) {
        self.programs[id as usize].is_issued = false;
        self.vacant.push(id);
    }
    /// How many there were at a time.
    pub(super) fn len(&self) -> usize {
        self.programs.len()
    }
    /// Whether a program gathers units or is under way.
    pub(super) fn is_live(&self, id: u32) -> bool {
        (id as usize) < self.programs.len() && !self.vacant.contains(&id)
    }
    /// Those that gather units or are under way.
    pub(super) fn live(&self) -> impl Iterator<Item = u32> + '_ {
        let mut live = alloc::vec![true; self.programs.len()];
        self.vacant.iter().for_each(|id| live[*id as usize] = false);
        (0..).zip(live).filter(|(_, live)| *live).map(|(id, _)| id)
    }
    /// Whether all is there for programs of so many units, and what is vacant is so once and not under way.
    pub(super) fn are_sound(&self, units_per_page: u32) -> bool {
        let mut seen = alloc::vec![false; self.programs.len()];
        let once = |id: &u32| seen.get_mut(*id as usize).is_some_and(|seen| !core::mem::replace(seen, true));
        self.per_page == units_per_page as usize
            && self.parts.len() == self.programs.len() * 2 * self.per_page
            && self.programs.iter().all(|program| program.count <= units_per_page)
            && self.vacant.iter().all(once)
            && self.vacant.iter().all(|id| !self.programs[*id as usize].is_issued)
    }
    /// Those under way.
    pub(super) fn issued(&self) -> impl Iterator<Item = u32> + '_ {
        (0..).zip(&self.programs).filter(|(_, program)| program.is_issued).map(|(id, _)| id)
    }
    /// Forgets all.
    pub(super) fn clear(&mut self) {
        *self = Programs::new(self.per_page as u32);
    }
}

/// Operations that were issued one by one, after which their room is given back.
const DONE_MAX: usize = 1 << 10;

/// Operations that can be issued, in order. Mostly all are issued together, so they need no ring, whose ends would be
/// reckoned at each.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Ready {
    operations: Vec<Operation>,
    /// The first that has not been issued.
    #[serde(skip)]
    next: usize,
}

impl Ready {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }
    #[inline]
    pub(super) fn operations(&self) -> &[Operation] {
        &self.operations[self.next..]
    }
    #[inline]
    pub(super) fn push(&mut self, operation: Operation) {
        self.operations.push(operation);
    }
    #[inline]
    pub(super) fn pop(&mut self) -> Option<Operation> {
        let operation = *self.operations.get(self.next)?;
        self.next += 1;
        if self.next == self.operations.len() {
            self.clear();
        } else if self.next == DONE_MAX {
            self.operations.drain(..self.next);
            self.next = 0;
        }
        Some(operation)
    }
    pub(super) fn clear(&mut self) {
        self.operations.clear();
        self.next = 0;
    }
}

/// One bit a die.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct DieSet {
    words: Vec<u64>,
}

impl DieSet {
    pub(super) fn new(dies: u32) -> Self {
        DieSet { words: alloc::vec![0; dies.div_ceil(64) as usize] }
    }
    #[inline]
    pub(super) fn set(&mut self, die: u32, member: bool) {
        let word = &mut self.words[(die / 64) as usize];
        *word = *word & !(1 << (die % 64)) | u64::from(member) << (die % 64);
    }
    /// Whether it is a set of so many dies.
    pub(super) fn holds(&self, dies: u32) -> bool {
        let DieSet { words } = DieSet::new(dies);
        self.words.len() == words.len() && (dies..words.len() as u32 * 64).all(|die| !self.contains(die))
    }
    pub(super) fn contains(&self, die: u32) -> bool {
        self.words[(die / 64) as usize] >> (die % 64) & 1 == 1
    }
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }
    /// The first member from `die` on, and round.
    #[inline]
    pub(super) fn next(&self, die: u32) -> Option<u32> {
        let mut word = (die / 64) as usize;
        let mut members = self.words[word] & u64::MAX << (die % 64);
        for _ in 0..self.words.len() {
            if members != 0 {
                break;
            }
            word = if word + 1 == self.words.len() { 0 } else { word + 1 };
            members = self.words[word];
        }
        (members != 0).then(|| word as u32 * 64 + members.trailing_zeros())
    }
}

/// The bits of a mask that are set. Mostly it is that of a page of at most four units, which needs no instruction that only
/// newer processors have.
#[inline]
pub(super) fn ones(mask: u64) -> u32 {
    const OF_FOUR: u64 = 0x4332_3221_3221_2110;
    if mask < 16 { (OF_FOUR >> (4 * mask)) as u32 & 7 } else { mask.count_ones() }
}

/// One bit a place: whether it holds the committed copy of a unit.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Validity {
    words: Vec<u64>,
}

impl Validity {
    pub(super) fn new(places: u32) -> Self {
        Validity { words: alloc::vec![0; (places as usize).div_ceil(64) + 1] }
    }
    #[inline]
    pub(super) fn get(&self, place: u32) -> bool {
        self.words[(place / 64) as usize] >> (place % 64) & 1 == 1
    }
    #[inline]
    pub(super) fn set(&mut self, place: u32) {
        self.words[(place / 64) as usize] |= 1 << (place % 64);
    }
    #[inline]
    pub(super) fn clear(&mut self, place: u32) {
        self.words[(place / 64) as usize] &= !(1 << (place % 64));
    }
    /// Clears a bit; whether it was set.
    #[inline]
    pub(super) fn take(&mut self, place: u32) -> bool {
        let (word, bit) = (&mut self.words[(place / 64) as usize], 1 << (place % 64));
        let was = *word & bit != 0;
        *word &= !bit;
        was
    }
    /// Sets the bits of `mask`, whose lowest is that of `first`.
    #[inline]
    pub(super) fn set_mask(&mut self, first: u32, mask: u64) {
        let (word, shift) = ((first / 64) as usize, first % 64);
        self.words[word] |= mask << shift;
        let beyond = mask >> 1 >> (63 - shift);
        if beyond != 0 {
            self.words[word + 1] |= beyond;
        }
    }
    /// The bits of `count` places from `first`, at most 64.
    #[inline]
    pub(super) fn mask(&self, first: u32, count: u32) -> u64 {
        let (word, shift) = ((first / 64) as usize, first % 64);
        let mut bits = self.words[word] >> shift;
        if shift + count > 64 {
            bits |= self.words[word + 1] << (64 - shift);
        }
        bits & (u64::MAX >> (64 - count))
    }
    /// How many of `count` places from `first` are set.
    pub(super) fn count(&self, first: u32, count: u32) -> u32 {
        let (whole, rest) = (count / 64, count % 64);
        let masks = (0..whole).map(|n| self.mask(first + 64 * n, 64));
        let rest = if rest == 0 { 0 } else { self.mask(first + 64 * whole, rest) };
        masks.chain([rest]).map(u64::count_ones).sum()
    }
    /// Whether it has a bit for so many places.
    pub(super) fn holds(&self, places: u32) -> bool {
        self.words.len() == (places as usize).div_ceil(64) + 1
    }
    pub(super) fn prefetch(&self, place: u32) {
        flashlab_sim::prefetch(&self.words, (place / 64) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_next_of_a_set_is_the_first_from_there_and_round(members in prop::collection::vec(any::<bool>(), 1..200), from: prop::sample::Index) {
            let dies = members.len() as u32;
            let mut set = DieSet::new(dies);
            (0..).zip(&members).for_each(|(die, member)| set.set(die, *member));
            let from = from.index(members.len()) as u32;
            let expected = (0..dies).map(|n| (from + n) % dies).find(|die| members[*die as usize]);
            prop_assert_eq!(set.next(from), expected);
        }

        #[test]
        fn what_is_gathered_becomes_full_pages_in_order(per_page in 1u32..=8, masks in prop::collection::vec(any::<u64>(), 1..50)) {
            let mut programs = Programs::new(per_page);
            let (mut gathering, mut full) = (NONE, Row::EMPTY);
            let mut expected = Vec::new();
            for (base, mask) in (0..).step_by(per_page as usize).zip(masks) {
                let units: Vec<u32> = (0..per_page).map(|n| 1_000 + base + n).collect();
                expected.extend((0..per_page).filter(|n| mask >> n & 1 == 1).map(|n| base + n));
                if gathering == NONE {
                    gathering = programs.begin(3, Source::Moved(Stream::Cold));
                }
                if programs.append(gathering, base, &units, mask) >= per_page {
                    programs.push_back(&mut full, gathering);
                    gathering = programs.split(gathering).unwrap_or(NONE);
                }
            }
            prop_assert!(programs.is_row(&full));
            let pages: Vec<u32> = programs.row(&full).collect();
            prop_assert_eq!(pages.len(), full.len() as usize);
            prop_assert!(pages.iter().all(|id| programs.get(*id).count == per_page && programs.get(*id).die == 3));
            let rest = (gathering != NONE).then_some(gathering);
            let parts = pages.into_iter().chain(rest);
            let parts = parts.flat_map(|id| programs.parts(id)[..programs.get(id).count as usize].to_vec());
            prop_assert!(parts.map(|part| (part.from, part.unit)).eq(expected.iter().map(|from| (*from, 1_000 + from))));
        }

        #[test]
        fn a_row_is_a_queue(steps in prop::collection::vec(0u8..4, 0..60)) {
            let mut programs = Programs::new(1);
            let (mut row, mut list) = (Row::EMPTY, VecDeque::new());
            for step in steps {
                match step {
                    0 if list.is_empty() => {}
                    0 => {
                        programs.pop_front(&mut row);
                        list.pop_front();
                    }
                    _ if list.len() == 9 => {}
                    1 => {
                        let id = programs.begin(0, Source::Data);
                        programs.push_front(&mut row, id);
                        list.push_front(id);
                    }
                    _ => {
                        let id = programs.begin(0, Source::Data);
                        programs.push_back(&mut row, id);
                        list.push_back(id);
                    }
                }
                prop_assert!(programs.is_row(&row) && programs.row(&row).eq(list.iter().copied()));
                prop_assert_eq!((row.front(), row.len()), (list.front().copied(), list.len() as u32));
            }
        }

        #[test]
        fn ones_are_counted(mask in prop_oneof![0u64..16, any::<u64>()]) {
            prop_assert_eq!(ones(mask), mask.count_ones());
        }

        #[test]
        fn a_mask_of_places_is_what_was_set(bits in prop::collection::vec(any::<bool>(), 300), first in 0u32..230, count in 1u32..=64) {
            let mut validity = Validity::new(300);
            (0..).zip(&bits).filter(|(_, bit)| **bit).for_each(|(place, _)| validity.set(place));
            let expected = (0..count).filter(|n| bits[(first + n) as usize]).fold(0, |mask, n| mask | 1u64 << n);
            prop_assert_eq!(validity.mask(first, count), expected);
            let mut other = Validity::new(300);
            other.set_mask(first, expected);
            for place in 0..300 {
                let within = (first..first + count).contains(&place);
                prop_assert_eq!(other.get(place), within && bits[place as usize]);
            }
            prop_assert_eq!(validity.count(first, 300 - first), bits[first as usize..].iter().filter(|bit| **bit).count() as u32);
            prop_assert_eq!(validity.count(0, 256), bits[..256].iter().filter(|bit| **bit).count() as u32);
            prop_assert_eq!(validity.take(first), bits[first as usize]);
            prop_assert!(!validity.get(first));
        }
    }
}
