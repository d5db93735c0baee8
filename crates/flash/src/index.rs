//! Indices whose `Option` takes as much space as the index.

/// Declares an index below 2^32 - 1. It is stored plus one, so that zero stands for `None`.
macro_rules! index {
    ($(#[$meta:meta])* $visibility:vis struct $name:ident;) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        $visibility struct $name(core::num::NonZeroU32);

        impl $name {
            /// Creates the index from a number.
            ///
            /// # Panics
            /// Panics if the number is `u32::MAX`.
            #[inline]
            $visibility const fn new(number: u32) -> Self {
                match core::num::NonZeroU32::new(number.wrapping_add(1)) {
                    Some(successor) => $name(successor),
                    None => panic!("an index is below u32::MAX"),
                }
            }
            /// Returns the number.
            #[inline]
            $visibility const fn index(self) -> u32 {
                self.0.get() - 1
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

#[cfg(test)]
mod tests {
    index! {
        struct Place;
    }

    #[test]
    fn an_optional_index_takes_no_more_space_than_the_index() {
        assert_eq!(size_of::<Option<Place>>(), size_of::<u32>());
        assert!([0, 1, u32::MAX - 1].iter().all(|number| Place::new(*number).index() == *number));
        assert_eq!(alloc::format!("{:?}", Place::new(7)), "Place(7)");
    }
}
