//! Cell types: bits per cell, and the page types of an erase block that follow from them.

use serde::{Deserialize, Serialize};

/// Cell type.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Cell {
    /// One bit per cell.
    Slc,
    /// Two bits per cell: lower and upper pages.
    Mlc,
    /// Three bits per cell: lower, middle and upper pages.
    Tlc,
    /// Four bits per cell: lower, middle, upper and top pages.
    Qlc,
}

impl Cell {
    /// Returns the bits per cell, which is also the number of page types.
    #[inline]
    pub const fn bits(self) -> u32 {
        match self {
            Cell::Slc => 1,
            Cell::Mlc => 2,
            Cell::Tlc => 3,
            Cell::Qlc => 4,
        }
    }

    /// Returns the type of page `page` of an erase block, from 0 (lower) to `bits() - 1`.
    ///
    /// The types alternate: lower, middle, upper, lower, and so on. Real parts stagger the types by a few
    /// word lines to reduce interference between cells. The staggering changes the order of slow pages but
    /// not their number.
    #[inline]
    pub const fn page_type(self, page: u32) -> usize {
        (match self {
            Cell::Slc => 0,
            Cell::Mlc => page % 2,
            Cell::Tlc => page % 3,
            Cell::Qlc => page % 4,
        }) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_types_of_a_tlc_block_take_turns() {
        let types: [usize; 7] = core::array::from_fn(|page| Cell::Tlc.page_type(page as u32));
        assert_eq!(types, [0, 1, 2, 0, 1, 2, 0]);
    }

    #[test]
    fn there_are_as_many_page_types_as_bits() {
        for cell in [Cell::Slc, Cell::Mlc, Cell::Tlc, Cell::Qlc] {
            let greatest = (0..24).map(|page| cell.page_type(page)).max();
            assert_eq!(greatest, Some(cell.bits() as usize - 1));
        }
    }
}
