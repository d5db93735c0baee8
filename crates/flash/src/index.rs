//! Indices whose `Option` takes as much space as the index.

use core::fmt;
use core::num::NonZeroU32;

/// The bit that is set in the stored form of every index that `index!` declares.
pub(crate) const HIGHEST_BIT: NonZeroU32 = NonZeroU32::new(1 << 31).expect("bit 31 is set");

/// A number in a state file that is too large for an index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooLarge(pub(crate) u32);

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "index {} is not below 2^31", self.0)
    }
}

impl core::error::Error for TooLarge {}

/// Declares an index below 2^31. The index is stored with the highest bit set, so that zero stands for `None` and
/// neither conversion needs a branch.
macro_rules! index {
    ($(#[$meta:meta])* $visibility:vis struct $name:ident;) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(try_from = "u32", into = "u32")]
        $visibility struct $name(core::num::NonZeroU32);

        impl TryFrom<u32> for $name {
            type Error = $crate::index::TooLarge;

            fn try_from(number: u32) -> Result<Self, Self::Error> {
                if number < $crate::index::HIGHEST_BIT.get() {
                    Ok($name::new(number))
                } else {
                    Err($crate::index::TooLarge(number))
                }
            }
        }

        impl From<$name> for u32 {
            fn from(index: $name) -> u32 {
                index.index()
            }
        }

        impl $name {
            /// Creates the index from a number below 2^31.
            #[inline]
            $visibility fn new(number: u32) -> Self {
                debug_assert!(number < $crate::index::HIGHEST_BIT.get(), "the index is not below 2^31");
                $name($crate::index::HIGHEST_BIT | number)
            }
            /// Returns the number.
            #[inline]
            $visibility fn index(self) -> u32 {
                self.0.get() & !$crate::index::HIGHEST_BIT.get()
            }
        }

        impl core::fmt::Debug for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.index())
            }
        }
    };
}

pub(crate) use index;

/// Declares an index below 2^32 - 1. The complement of the index is stored, so that zero stands for `None` and neither
/// conversion needs a branch. The range is twice that of [`index`]; `new` returns an `Option`.
macro_rules! wide_index {
    ($(#[$meta:meta])* $visibility:vis struct $name:ident;) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
        $visibility struct $name(core::num::NonZeroU32);

        impl $name {
            /// Creates the index from a number; `None` for 2^32 - 1.
            #[inline]
            $visibility fn new(number: u32) -> Option<Self> {
                core::num::NonZeroU32::new(!number).map($name)
            }
            /// Returns the number.
            #[inline]
            $visibility fn index(self) -> u32 {
                !self.0.get()
            }
        }
    };
}

pub(crate) use wide_index;

#[cfg(test)]
mod tests {
    index! {
        struct Place;
    }

    wide_index! {
        struct Granule;
    }

    #[test]
    fn a_wide_index_holds_every_32_bit_number_but_the_last() {
        assert_eq!(size_of::<Option<Granule>>(), size_of::<u32>());
        let is_kept = |number: u32| Granule::new(number).map(Granule::index) == Some(number);
        assert!([0, 1, 1 << 31, u32::MAX - 1].into_iter().all(is_kept));
        assert_eq!(Granule::new(u32::MAX), None);
    }

    #[test]
    fn an_optional_index_takes_no_more_space_than_the_index() {
        assert_eq!(size_of::<Option<Place>>(), size_of::<u32>());
        assert!([0, 1, (1 << 31) - 1].iter().all(|number| Place::new(*number).index() == *number));
        assert_eq!(alloc::format!("{:?}", Place::new(7)), "Place(7)");
    }

    #[test]
    fn an_index_is_saved_as_its_number_and_too_large_numbers_are_refused() {
        let kept = |number: u32| postcard::to_allocvec(&number).expect("a number");
        assert_eq!(postcard::to_allocvec(&Place::new(7)).ok(), Some(kept(7)));
        assert_eq!(postcard::from_bytes::<Place>(&kept((1 << 31) - 1)).ok(), Some(Place::new((1 << 31) - 1)));
        assert!(postcard::from_bytes::<Place>(&kept(1 << 31)).is_err());
    }
}
