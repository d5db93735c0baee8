//! Random offsets, drawn before they are asked for.
//!
//! A group at a time, so that their computations overlap; and a group ahead, so that a device can be told what comes soon.

/// Offsets of a group.
pub(crate) const GROUP: usize = 16;

/// A group of offsets that is being taken, and the one after it.
#[derive(Clone, Debug)]
pub(crate) struct Ahead {
    group: [u64; GROUP],
    taken: usize,
    next: [u64; GROUP],
    /// Whether `next` is drawn, and told.
    is_drawn: bool,
    is_told: bool,
}

impl Ahead {
    pub(crate) const NOTHING: Ahead =
        Ahead { group: [0; GROUP], taken: GROUP, next: [0; GROUP], is_drawn: false, is_told: true };

    /// The next offset; `draw` fills a group.
    #[inline]
    pub(crate) fn take(&mut self, draw: impl FnMut(&mut [u64; GROUP])) -> u64 {
        if self.taken == GROUP {
            self.turn(draw);
        }
        self.taken += 1;
        self.group[self.taken - 1]
    }

    /// A whole group, where none was begun; `draw` fills one.
    pub(crate) fn take_group(&mut self, draw: impl FnMut(&mut [u64; GROUP])) -> Option<&[u64; GROUP]> {
        if self.taken != GROUP {
            return None;
        }
        self.turn(draw);
        self.taken = GROUP;
        Some(&self.group)
    }

    /// The last `count` of a group are to be taken again.
    pub(crate) fn put_back(&mut self, count: usize) {
        self.taken -= count;
    }

    /// Turns to the next group, and draws the one after it.
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

    /// The group that comes after the one that is being taken, once.
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
            // All but the first group, and none that is being taken.
            let group = n / GROUP as u64;
            assert!(told.iter().copied().eq(GROUP as u64..(group + 2) * GROUP as u64), "after {n}: {told:?}");
        }
    }
}
