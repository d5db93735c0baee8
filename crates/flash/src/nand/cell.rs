//! How many bits a cell holds, and so how many types of page an erase block has.

use serde::{Deserialize, Serialize};

/// Bits in a cell.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Cell {
    /// One bit.
    Slc,
    /// Two bits: lower and upper pages.
    Mlc,
    /// Three bits: lower, middle and upper pages.
    Tlc,
    /// Four bits: lower, middle, upper and top pages.
    Qlc,
}

impl Cell {
    /// Bits in a cell; as many types of page.
    #[inline]
    pub const fn bits(self) -> u32 {
        match self {
            Cell::Slc => 1,
            Cell::Mlc => 2,
            Cell::Tlc => 3,
            Cell::Qlc => 4,
        }
    }

    /// The type of page `page` of an erase block, `0..bits()`, lower first.
    ///
    /// The types take turns: lower, middle, upper, lower, and so on. Real parts shift them by a few word lines against
    /// the interference of neighbours, which changes the order in which slow pages come but not how many there are.
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
