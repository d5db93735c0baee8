//! Random offsets that are drawn in advance.
//!
//! Offsets are drawn in groups, so that their computations overlap. They are drawn one group ahead, so that a device
//! can be told about upcoming requests.

/// Number of offsets in a group.
pub(crate) const GROUP: usize = 16;

/// The current group of offsets, and the next one.
#[derive(Clone, Debug)]
pub(crate) struct Ahead {
    group: [u64; GROUP],
    taken: usize,
    next: [u64; GROUP],
    /// True if `next` is drawn. `is_told` is true if `next` was reported as upcoming.
    is_drawn: bool,
    is_told: bool,
}

impl Ahead {
    pub(crate) const NOTHING: Ahead =
        Ahead { group: [0; GROUP], taken: GROUP, next: [0; GROUP], is_drawn: false, is_told: true };

    /// Returns the next offset. `draw` fills a group.
    #[inline]
    pub(crate) fn take(&mut self, draw: impl FnMut(&mut [u64; GROUP])) -> u64 {
        if self.taken == GROUP {
            self.turn(draw);
        }
        self.taken += 1;
        self.group[self.taken - 1]
    }

    /// Returns a whole group, or `None` if the current group is partly used. `draw` fills a group.
    pub(crate) fn take_group(&mut self, draw: impl FnMut(&mut [u64; GROUP])) -> Option<&[u64; GROUP]> {
        if self.taken != GROUP {
            return None;
        }
        self.turn(draw);
        self.taken = GROUP;
        Some(&self.group)
    }

    /// Returns the last `count` offsets of the group, so that they are used again.
    pub(crate) fn put_back(&mut self, count: usize) {
        self.taken -= count;
    }

    /// Turns to the next group, and draws the group after it.
    #[inline(never)]
    fn turn(&mut self, mut draw: impl FnMut(&mut [u64; GROUP])) {
        if !self.is_drawn {
            draw(&mut self.next);
            self.is_drawn = true;
        }
        self.group = self.next;
        self.taken = 0;
        draw(&mut self.next);
        self.is_told = false;
    }

    /// Returns the group after the current one, but only once.
    #[inline]
    pub(crate) fn tell(&mut self) -> &[u64] {
        if core::mem::replace(&mut self.is_told, true) { &[] } else { &self.next }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_come_in_the_order_of_drawing_and_are_told_a_group_before() {
        let (mut ahead, mut drawn, mut told) = (Ahead::NOTHING, 0, Vec::new());
        for n in 0..100u64 {
            let taken = ahead.take(|group| {
                group.fill_with(|| {
                    drawn += 1;
                    drawn - 1
                });
            });
            assert_eq!(taken, n);
            told.extend_from_slice(ahead.tell());
            assert!(ahead.tell().is_empty(), "told twice");
            // All groups but the first were told, and none of the current group.
            let group = n / GROUP as u64;
            assert!(told.iter().copied().eq(GROUP as u64..(group + 2) * GROUP as u64), "after {n}: {told:?}");
        }
    }
}
