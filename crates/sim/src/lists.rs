//! Doubly linked lists of indices.

use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Link {
    previous: u32,
    next: u32,
}

/// Circular doubly linked lists in one array, like `list_head` in Linux.
///
/// The elements are the indices below a fixed number, and each element is in one list at most. The array
/// contains the links of the elements, followed by one head per list. An element outside all lists is linked
/// to itself. Look-ups, appends and removals take constant time and allocate nothing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct IndexLists {
    links: Vec<Link>,
    elements: u32,
}

impl IndexLists {
    /// Creates `lists` empty lists for elements below `elements`.
    ///
    /// # Panics
    /// Panics if there are 2^32 links or more.
    pub fn new(elements: u32, lists: u32) -> Self {
        let count = elements.checked_add(lists).expect("fewer than 2^32 links");
        IndexLists { links: (0..count).map(|n| Link { previous: n, next: n }).collect(), elements }
    }

    #[inline]
    fn head(&self, list: u32) -> u32 {
        self.elements + list
    }

    fn element(&self, link: u32) -> Option<u32> {
        (link < self.elements).then_some(link)
    }

    /// Returns true if `element` is in a list.
    #[inline]
    pub fn contains(&self, element: u32) -> bool {
        self.links[element as usize].next != element
    }

    /// Returns the first element of a list.
    #[inline]
    pub fn front(&self, list: u32) -> Option<u32> {
        self.element(self.links[self.head(list) as usize].next)
    }

    /// Returns the last element of a list.
    #[inline]
    pub fn back(&self, list: u32) -> Option<u32> {
        self.element(self.links[self.head(list) as usize].previous)
    }

    /// Appends `element`, which is in no list.
    #[inline]
    pub fn push_back(&mut self, list: u32, element: u32) {
        debug_assert!(!self.contains(element), "element {element} is in a list already");
        let head = self.head(list);
        let previous = core::mem::replace(&mut self.links[head as usize].previous, element);
        self.links[previous as usize].next = element;
        self.links[element as usize] = Link { previous, next: head };
    }

    /// Removes `element` from its list, if it is in one.
    #[inline]
    pub fn remove(&mut self, element: u32) {
        let Link { previous, next } = self.links[element as usize];
        self.links[previous as usize].next = next;
        self.links[next as usize].previous = previous;
        self.links[element as usize] = Link { previous: element, next: element };
    }

    /// Iterates over the elements of a list in order.
    pub fn iter(&self, list: u32) -> impl Iterator<Item = u32> + '_ {
        let next = |element: &u32| self.element(self.links[*element as usize].next);
        core::iter::successors(self.front(list), next)
    }

    /// Returns true if there are `lists` lists for elements below `elements`, and all links agree in both
    /// directions. Deserialized lists must not be used if this function returns false.
    pub fn is_sound(&self, elements: u32, lists: u32) -> bool {
        let linked_both_ways = |(link, Link { previous, next }): (u32, &Link)| {
            let at = |index: u32| self.links.get(index as usize);
            at(*previous).is_some_and(|l| l.next == link) && at(*next).is_some_and(|l| l.previous == link)
        };
        let count = u64::from(elements) + u64::from(lists);
        if self.elements != elements || self.links.len() as u64 != count {
            return false;
        }
        // Links that agree in both directions form circles. Each element must be alone in its circle, or in a
        // circle with exactly one head.
        let mut reached = 0;
        for list in 0..lists {
            let mut link = self.links[self.head(list) as usize].next;
            while link < elements && reached < elements {
                reached += 1;
                link = self.links[link as usize].next;
            }
            if link != self.head(list) {
                return false;
            }
        }
        let linked = (0..elements).filter(|element| self.contains(*element)).count();
        linked == reached as usize && (0..).zip(&self.links).all(linked_both_ways)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::VecDeque;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn lists_hold_what_was_appended_and_not_removed(steps in prop::collection::vec((0u32..3, 0u32..9), 0..120)) {
            let mut lists = IndexLists::new(9, 2);
            let mut reference = [VecDeque::new(), VecDeque::new()];
            for (step, element) in steps {
                match step {
                    list @ 0..2 if !lists.contains(element) => {
                        lists.push_back(list, element);
                        reference[list as usize].push_back(element);
                    }
                    _ => {
                        lists.remove(element);
                        reference.iter_mut().for_each(|list| list.retain(|e| *e != element));
                    }
                }
                prop_assert!(lists.is_sound(9, 2) && !lists.is_sound(9, 1) && !lists.is_sound(8, 3));
                for (list, expected) in (0..).zip(&reference) {
                    prop_assert!(lists.iter(list).eq(expected.iter().copied()));
                    prop_assert_eq!(lists.front(list), expected.front().copied());
                    prop_assert_eq!(lists.back(list), expected.back().copied());
                }
                for element in 0..9 {
                    prop_assert_eq!(lists.contains(element), reference.iter().any(|list| list.contains(&element)));
                }
            }
        }

        #[test]
        fn damaged_links_are_detected_or_do_no_harm(links in prop::collection::vec((0u32..8, 0u32..8), 6)) {
            let links = links.into_iter().map(|(previous, next)| Link { previous, next }).collect();
            let mut lists = IndexLists { links, elements: 4 };
            if lists.is_sound(4, 2) {
                for element in 0..4 {
                    lists.remove(element);
                }
                prop_assert!(lists.front(0).is_none() && lists.front(1).is_none());
            }
        }
    }
}
