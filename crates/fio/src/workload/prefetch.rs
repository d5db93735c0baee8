//! Random offsets that are drawn in advance.
//!
//! Offsets are drawn in groups, so that their computations overlap. They are drawn one group ahead, so that a device
//! can be told about upcoming requests.

/// Number of offsets in a group.
pub(crate) const GROUP: usize = 16;

/// The current group of offsets, and the next one.
#[derive(Clone, Debug)]
pub(crate) struct OffsetPrefetch {
    group: [u64; GROUP],
    used_count: usize,
    next: [u64; GROUP],
    /// True if `next` has been drawn.
    is_drawn: bool,
    /// True if there is nothing to report: `next` was reported as upcoming, or has not been drawn.
    is_reported: bool,
}

impl OffsetPrefetch {
    pub(crate) const EMPTY: OffsetPrefetch = OffsetPrefetch {
        group: [0; GROUP],
        used_count: GROUP,
        next: [0; GROUP],
        is_drawn: false,
        is_reported: true,
    };

    /// Returns the next offset. `draw` fills a group.
    #[inline]
    pub(crate) fn take(&mut self, draw: impl FnMut(&mut [u64; GROUP])) -> u64 {
        if self.used_count == GROUP {
            self.advance(draw);
        }
        self.used_count += 1;
        self.group[self.used_count - 1]
    }

    /// Returns a whole group, or `None` if the current group is partly used. `draw` fills a group.
    pub(crate) fn take_group(&mut self, draw: impl FnMut(&mut [u64; GROUP])) -> Option<&[u64; GROUP]> {
        if self.used_count != GROUP {
            return None;
        }
        self.advance(draw);
        self.used_count = GROUP;
        Some(&self.group)
    }

    /// Puts the last `count` offsets of the group back, so that they are used again.
    pub(crate) fn put_back(&mut self, count: usize) {
        self.used_count -= count;
    }

    /// Advances to the next group, and draws the group after it.
    #[inline(never)]
    fn advance(&mut self, mut draw: impl FnMut(&mut [u64; GROUP])) {
        if !self.is_drawn {
            draw(&mut self.next);
            self.is_drawn = true;
        }
        self.group = self.next;
        self.used_count = 0;
        draw(&mut self.next);
        self.is_reported = false;
    }

    /// Returns the group after the current one, but only once.
    #[inline]
    pub(crate) fn report_upcoming(&mut self) -> &[u64] {
        if core::mem::replace(&mut self.is_reported, true) { &[] } else { &self.next }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_come_in_the_order_of_drawing_and_are_reported_a_group_before() {
        let (mut prefetch, mut drawn, mut reported) = (OffsetPrefetch::EMPTY, 0, Vec::new());
        for n in 0..100u64 {
            let offset = prefetch.take(|group| {
                group.fill_with(|| {
                    drawn += 1;
                    drawn - 1
                });
            });
            assert_eq!(offset, n);
            reported.extend_from_slice(prefetch.report_upcoming());
            assert!(prefetch.report_upcoming().is_empty(), "reported twice");
            // The reports so far cover every group from the second one to the one after the current group.
            let group = n / GROUP as u64;
            assert!(
                reported.iter().copied().eq(GROUP as u64..(group + 2) * GROUP as u64),
                "after {n}: {reported:?}"
            );
        }
    }
}
