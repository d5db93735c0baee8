//! Steps that wait for events of other steps, as linked lists in one block of memory.
//!
//! Most steps have one waiter, so a vector in each step would cost an allocation per step.

use flashlab_sim::Duration;
use std::num::NonZeroU32;

/// A step that waits for an event of another step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Waiter {
    /// Low bits of the number of the step. They identify the step within a window of fewer than 2^32 steps.
    pub(crate) step: u32,
    /// Time from the event to the start of the step.
    pub(crate) think: Duration,
}

/// Place of a waiter in [`Waiters`], from 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Place(NonZeroU32);

impl Place {
    fn new(index: usize) -> Place {
        let number = u32::try_from(index + 1).ok().and_then(NonZeroU32::new);
        Place(number.expect("the graph limits the number of waiters"))
    }

    fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// A list of waiters. Its memory is in [`Waiters`].
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct List {
    /// Waiter that was added last.
    last: Option<Place>,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    /// The fields of a [`Waiter`], without the padding that a nested struct would have.
    step: u32,
    next: Option<Place>,
    think: Duration,
}

const _: () = assert!(size_of::<Node>() == 16);

/// The waiters of all lists.
#[derive(Default, Debug)]
pub(crate) struct Waiters {
    nodes: Vec<Node>,
    /// Unused nodes.
    free: Option<Place>,
    /// Waiters in lists.
    count: usize,
}

impl Waiters {
    /// Returns the number of waiters in all lists.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Adds a waiter at the end of a list.
    #[inline]
    pub(crate) fn push(&mut self, list: &mut List, waiter: Waiter) {
        self.count += 1;
        let node = Node { step: waiter.step, next: list.last, think: waiter.think };
        match self.free {
            Some(place) => {
                self.free = self.nodes[place.index()].next;
                self.nodes[place.index()] = node;
                list.last = Some(place);
            }
            None => {
                list.last = Some(Place::new(self.nodes.len()));
                self.nodes.push(node);
            }
        }
    }

    /// Removes the first waiter of a list that [`Waiters::reversed`] returned.
    #[inline]
    pub(crate) fn pop(&mut self, list: &mut Reversed) -> Option<Waiter> {
        let place = list.first?;
        let node = &mut self.nodes[place.index()];
        list.first = node.next;
        node.next = self.free;
        self.free = Some(place);
        self.count -= 1;
        Some(Waiter { step: node.step, think: node.think })
    }

    /// Reverses a list, so that it starts with the waiter that was added first.
    #[inline]
    pub(crate) fn reversed(&mut self, list: List) -> Reversed {
        let (mut first, mut rest) = (None, list.last);
        while let Some(place) = rest {
            let node = &mut self.nodes[place.index()];
            rest = node.next;
            node.next = first;
            first = Some(place);
        }
        Reversed { first }
    }

    /// Returns the bytes that the waiters take.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<Node>()
    }
}

/// A list in the order in which its waiters were added.
#[derive(Debug)]
pub(crate) struct Reversed {
    first: Option<Place>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_keep_their_order_and_reuse_the_memory_of_others() {
        let mut waiters = Waiters::default();
        let waiter = |step| Waiter { step, think: Duration::from_ns(step.into()) };
        for round in 0..10 {
            let mut lists = [List::default(); 3];
            for step in 0..99 {
                waiters.push(&mut lists[step as usize % 3], waiter(step));
            }
            assert_eq!(waiters.count(), 99);
            for (number, list) in lists.into_iter().enumerate() {
                let mut list = waiters.reversed(list);
                let popped: Vec<_> = std::iter::from_fn(|| waiters.pop(&mut list)).collect();
                let expected: Vec<_> = (number as u32..99).step_by(3).map(waiter).collect();
                assert_eq!(popped, expected, "round {round}");
            }
            assert_eq!((waiters.count(), waiters.nodes.len()), (0, 99));
        }
    }
}
