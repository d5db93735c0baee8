//! Programs that gather units, wait for a page or are in flight.

use super::block_states::Stream;
use super::write_buffer::WriteBuffer;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

crate::index::index! {
    /// Link to a program. Outside of links, a program has a plain number, which is the tag of its operation.
    pub(super) struct ProgramLink;
}

/// Source of the units of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum Source {
    Data,
    Map,
    Moved(Stream),
}

/// A unit of a program.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Part {
    /// Slot in the write buffer, or place that the unit is moved from.
    pub(super) from: u32,
    /// Logical number of the unit.
    pub(super) unit: u32,
}

/// A program that gathers units or is in flight.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Program {
    /// First place that the program writes, once a page is assigned.
    pub(super) place: u32,
    /// Block of that place, once a page is assigned.
    pub(super) block: u32,
    /// Number of units.
    pub(super) count: u32,
    /// Die whose valid units the program moves, or die of its page.
    pub(super) die: u32,
    /// Next program in the queue.
    next: Option<ProgramLink>,
    pub(super) source: Source,
    /// True from the assignment of a page until the end of the program is reported.
    pub(super) is_issued: bool,
}

impl Program {
    const NEW: Program =
        Program { place: 0, block: 0, count: 0, die: 0, next: None, source: Source::Data, is_issued: false };
}

/// Queue of programs. Each program is in at most one queue.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct ProgramQueue {
    first: Option<ProgramLink>,
    last: Option<ProgramLink>,
    count: u32,
}

impl ProgramQueue {
    pub(super) const EMPTY: ProgramQueue = ProgramQueue { first: None, last: None, count: 0 };

    #[inline]
    pub(super) fn len(&self) -> u32 {
        self.count
    }
    #[inline]
    pub(super) fn front(&self) -> Option<u32> {
        self.first.map(ProgramLink::index)
    }
}

/// Programs that gather units or are in flight. The tag of an operation is the index of its program here.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Programs {
    programs: Vec<Program>,
    /// Units of each program. Each program has room for two pages: the second page holds units gathered beyond the
    /// first.
    parts: Vec<Part>,
    per_page: usize,
    vacant: Vec<u32>,
}

impl Programs {
    pub(super) fn new(units_per_page: u32) -> Self {
        Programs { per_page: units_per_page as usize, ..Programs::default() }
    }
    /// Adds a program that has no units and no place yet.
    #[inline]
    pub(super) fn begin(&mut self, die: u32, source: Source) -> u32 {
        let id = self.vacant.pop().unwrap_or_else(|| self.grow());
        self.programs[id as usize] = Program { die, source, ..Program::NEW };
        id
    }
    /// Adds a program with the oldest waiting units of `buffer`: as many as fill a page, or all of them if fewer wait.
    #[inline(always)]
    pub(super) fn gather_accepted(&mut self, die: u32, source: Source, buffer: &mut WriteBuffer) -> u32 {
        let count = buffer.waiting().min(self.per_page as u32);
        let id = self.begin(die, source);
        for part in &mut self.parts_mut(id)[..count as usize] {
            let (from, unit) = buffer.take().expect("as many as counted");
            *part = Part { from, unit };
        }
        self.get_mut(id).count = count;
        id
    }
    /// Gives a program its place, in `block`. Returns the number of its units.
    #[inline(always)]
    pub(super) fn issue(&mut self, id: u32, place: u32, block: u32) -> u32 {
        let program = self.get_mut(id);
        (program.place, program.block, program.is_issued) = (place, block, true);
        program.count
    }
    #[cold]
    fn grow(&mut self) -> u32 {
        self.programs.push(Program::NEW);
        self.parts.resize(self.programs.len() * 2 * self.per_page, Part { from: 0, unit: 0 });
        self.programs.len() as u32 - 1
    }
    /// Returns the index of the first unit of a program.
    #[inline]
    fn first_part(&self, id: u32) -> usize {
        id as usize * 2 * self.per_page
    }
    /// Returns a unit of a program.
    #[inline]
    pub(super) fn part(&self, id: u32, n: u32) -> Part {
        self.parts[self.first_part(id) + n as usize]
    }
    #[inline]
    pub(super) fn get(&self, id: u32) -> &Program {
        &self.programs[id as usize]
    }
    #[inline]
    pub(super) fn get_mut(&mut self, id: u32) -> &mut Program {
        &mut self.programs[id as usize]
    }
    /// Returns the entries for the units of a page. Only the first `count` of them belong to the program.
    #[inline]
    pub(super) fn parts(&self, id: u32) -> &[Part] {
        let first = self.first_part(id);
        &self.parts[first..first + self.per_page]
    }
    #[inline]
    pub(super) fn parts_mut(&mut self, id: u32) -> &mut [Part] {
        let first = self.first_part(id);
        &mut self.parts[first..first + self.per_page]
    }
    /// Appends units to a program that is being gathered and is not full: for each set bit of `mask`, the unit at the
    /// corresponding place from `base` on. Returns the new number of units. Units beyond one page wait for
    /// [`Programs::split`].
    #[inline]
    pub(super) fn append(&mut self, id: u32, base: u32, units: &[u32], mask: u64) -> u32 {
        let first = self.first_part(id);
        let parts = &mut self.parts[first..first + 2 * self.per_page];
        let program = &mut self.programs[id as usize];
        let mut count = program.count;
        // The loop has no branches, because the processor could not predict the validity of a unit.
        for (n, unit) in (0..).zip(units) {
            parts[count as usize] = Part { from: base + n, unit: *unit };
            count += (mask >> n & 1) as u32;
        }
        program.count = count;
        count
    }
    /// Reduces a program that has gathered at least a page to exactly one page. Returns a new program with the
    /// remaining units, if there are any.
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
        let (beyond, to) = (self.first_part(id) + self.per_page, self.first_part(next));
        self.parts.copy_within(beyond..beyond + rest, to);
        Some(next)
    }
    /// Appends a program to a queue.
    #[inline]
    pub(super) fn push_back(&mut self, queue: &mut ProgramQueue, id: u32) {
        let link = Some(ProgramLink::new(id));
        match queue.last {
            None => queue.first = link,
            Some(last) => self.get_mut(last.index()).next = link,
        }
        queue.last = link;
        queue.count += 1;
    }
    /// Puts a program at the front of a queue.
    pub(super) fn push_front(&mut self, queue: &mut ProgramQueue, id: u32) {
        let link = Some(ProgramLink::new(id));
        self.get_mut(id).next = queue.first;
        queue.first = link;
        queue.last = queue.last.or(link);
        queue.count += 1;
    }
    /// Removes the first program of a queue.
    #[inline]
    pub(super) fn pop_front(&mut self, queue: &mut ProgramQueue) -> Option<u32> {
        let first = queue.front()?;
        queue.first = self.get_mut(first).next.take();
        queue.count -= 1;
        if queue.first.is_none() {
            queue.last = None;
        }
        Some(first)
    }
    /// Returns true if the count and the end of a queue match its links.
    pub(super) fn queue_is_sound(&self, queue: &ProgramQueue) -> bool {
        let (mut count, mut last) = (0, None);
        for id in self.queue(queue).take(self.programs.len() + 1) {
            (count, last) = (count + 1, Some(ProgramLink::new(id)));
        }
        count as usize <= self.programs.len() && (count, last) == (queue.count, queue.last)
    }
    /// Returns the programs of a queue, in order.
    pub(super) fn queue(&self, queue: &ProgramQueue) -> impl Iterator<Item = u32> + '_ {
        let next = |id: &u32| self.programs.get(*id as usize)?.next.map(ProgramLink::index);
        core::iter::successors(queue.front(), next)
    }
    #[inline]
    pub(super) fn end(&mut self, id: u32) {
        self.programs[id as usize].is_issued = false;
        self.vacant.push(id);
    }
    /// Returns the highest number of programs that existed at the same time.
    pub(super) fn len(&self) -> usize {
        self.programs.len()
    }
    /// Returns true if a program gathers units, waits for a page or is in flight.
    pub(super) fn is_live(&self, id: u32) -> bool {
        (id as usize) < self.programs.len() && !self.vacant.contains(&id)
    }
    /// Returns the programs that gather units, wait for a page or are in flight.
    pub(super) fn live(&self) -> impl Iterator<Item = u32> + '_ {
        let mut live = alloc::vec![true; self.programs.len()];
        self.vacant.iter().for_each(|id| live[*id as usize] = false);
        (0..).zip(live).filter(|(_, live)| *live).map(|(id, _)| id)
    }
    /// Returns true if the lists have the right lengths for pages of `units_per_page` units, no program has more units
    /// than a page, and each vacant program is listed once and not in flight.
    pub(super) fn are_sound(&self, units_per_page: u32) -> bool {
        let mut seen = alloc::vec![false; self.programs.len()];
        let once = |id: &u32| seen.get_mut(*id as usize).is_some_and(|seen| !core::mem::replace(seen, true));
        self.per_page == units_per_page as usize
            && self.parts.len() == self.programs.len() * 2 * self.per_page
            && self.programs.iter().all(|program| program.count <= units_per_page)
            && self.vacant.iter().all(once)
            && self.vacant.iter().all(|id| !self.get(*id).is_issued)
    }
    /// Returns the programs that have a page and have not ended.
    pub(super) fn issued(&self) -> impl Iterator<Item = u32> + '_ {
        (0..).zip(&self.programs).filter(|(_, program)| program.is_issued).map(|(id, _)| id)
    }
    /// Removes all programs.
    pub(super) fn clear(&mut self) {
        *self = Programs::new(self.per_page as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::VecDeque;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn gathered_units_form_full_pages_in_order(per_page in 1u32..=8, masks in prop::collection::vec(any::<u64>(), 1..50)) {
            let mut programs = Programs::new(per_page);
            let (mut gathering, mut full) = (None, ProgramQueue::EMPTY);
            let mut expected = Vec::new();
            for (base, mask) in (0..).step_by(per_page as usize).zip(masks) {
                let units: Vec<u32> = (0..per_page).map(|n| 1_000 + base + n).collect();
                expected.extend((0..per_page).filter(|n| mask >> n & 1 == 1).map(|n| base + n));
                let id = gathering.unwrap_or_else(|| programs.begin(3, Source::Moved(Stream::Cold)));
                gathering = Some(id);
                if programs.append(id, base, &units, mask) >= per_page {
                    programs.push_back(&mut full, id);
                    gathering = programs.split(id);
                }
            }
            prop_assert!(programs.queue_is_sound(&full));
            let pages: Vec<u32> = programs.queue(&full).collect();
            prop_assert_eq!(pages.len(), full.len() as usize);
            prop_assert!(pages.iter().all(|id| programs.get(*id).count == per_page && programs.get(*id).die == 3));
            let parts = pages.into_iter().chain(gathering);
            let parts = parts.flat_map(|id| programs.parts(id)[..programs.get(id).count as usize].to_vec());
            prop_assert!(parts.map(|part| (part.from, part.unit)).eq(expected.iter().map(|from| (*from, 1_000 + from))));
        }

        #[test]
        fn a_program_queue_behaves_like_a_deque(steps in prop::collection::vec(0u8..4, 0..60)) {
            let mut programs = Programs::new(1);
            let (mut queue, mut list) = (ProgramQueue::EMPTY, VecDeque::new());
            for step in steps {
                match step {
                    0 if list.is_empty() => {}
                    0 => {
                        assert_eq!(programs.pop_front(&mut queue), list.pop_front());
                    }
                    _ if list.len() == 9 => {}
                    1 => {
                        let id = programs.begin(0, Source::Data);
                        programs.push_front(&mut queue, id);
                        list.push_front(id);
                    }
                    _ => {
                        let id = programs.begin(0, Source::Data);
                        programs.push_back(&mut queue, id);
                        list.push_back(id);
                    }
                }
                prop_assert!(programs.queue_is_sound(&queue) && programs.queue(&queue).eq(list.iter().copied()));
                prop_assert_eq!((queue.front(), queue.len()), (list.front().copied(), list.len() as u32));
            }
        }
    }
}
