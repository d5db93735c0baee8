//! A set of members.

use std::ops::{BitAnd, BitOr, BitOrAssign, Sub, SubAssign};

/// A set of members, by their numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct MemberSet(u32);

impl MemberSet {
    /// The set without members.
    pub(crate) const EMPTY: MemberSet = MemberSet(0);

    /// Returns the set with one member.
    pub(crate) fn of(member: impl Into<usize>) -> MemberSet {
        MemberSet(1 << member.into())
    }

    pub(crate) fn contains(self, member: impl Into<usize>) -> bool {
        self.0 >> member.into() & 1 == 1
    }

    pub(crate) fn insert(&mut self, member: impl Into<usize>) {
        *self |= MemberSet::of(member);
    }

    pub(crate) fn remove(&mut self, member: impl Into<usize>) {
        *self -= MemberSet::of(member);
    }

    pub(crate) fn is_empty(self) -> bool {
        self == MemberSet::EMPTY
    }

    pub(crate) fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// Returns true if this target prefers the member. An empty target prefers all members.
    pub(crate) fn prefers(self, member: impl Into<usize>) -> bool {
        self.is_empty() || self.contains(member)
    }

    /// Returns the numbers of the members in ascending order.
    pub(crate) fn iter(self) -> impl Iterator<Item = u8> {
        (0..32).filter(move |n| self.contains(*n))
    }

    /// Returns the set as bits, for an atomic variable.
    pub(crate) fn to_bits(self) -> u32 {
        self.0
    }

    /// Returns the set that [`to_bits`](MemberSet::to_bits) turned into bits.
    pub(crate) fn from_bits(bits: u32) -> MemberSet {
        MemberSet(bits)
    }
}

impl<N: Into<usize>> FromIterator<N> for MemberSet {
    fn from_iter<I: IntoIterator<Item = N>>(members: I) -> MemberSet {
        members.into_iter().fold(MemberSet::EMPTY, |set, member| set | MemberSet::of(member))
    }
}

impl BitAnd for MemberSet {
    type Output = MemberSet;
    fn bitand(self, other: MemberSet) -> MemberSet {
        MemberSet(self.0 & other.0)
    }
}

impl BitOr for MemberSet {
    type Output = MemberSet;
    fn bitor(self, other: MemberSet) -> MemberSet {
        MemberSet(self.0 | other.0)
    }
}

impl BitOrAssign for MemberSet {
    fn bitor_assign(&mut self, other: MemberSet) {
        *self = *self | other;
    }
}

impl Sub for MemberSet {
    type Output = MemberSet;
    fn sub(self, other: MemberSet) -> MemberSet {
        MemberSet(self.0 & !other.0)
    }
}

impl SubAssign for MemberSet {
    fn sub_assign(&mut self, other: MemberSet) {
        *self = *self - other;
    }
}

#[cfg(test)]
mod tests {
    use super::MemberSet;

    #[test]
    fn a_set_has_the_members_that_were_inserted_and_not_removed() {
        let mut set: MemberSet = [0u8, 3, 31].into_iter().collect();
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 3, 31]);
        set.remove(3u8);
        set.insert(4u8);
        assert!(set.contains(4u8) && !set.contains(3u8) && set.len() == 3);
        let other = MemberSet::of(4u8) | MemberSet::of(5u8);
        assert_eq!([set & other, other - set], [MemberSet::of(4u8), MemberSet::of(5u8)]);
        assert!(MemberSet::EMPTY.prefers(7u8) && !set.prefers(7u8) && set.prefers(0u8));
        assert_eq!(MemberSet::from_bits(set.to_bits()), set);
    }
}
