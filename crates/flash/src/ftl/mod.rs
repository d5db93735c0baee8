//! Flash translation layers: the layer of a card ([`card`]), the page-mapped layer of an SSD ([`page_map`]),
//! and their common code.

pub mod card;
pub mod gc;
pub mod page_map;
pub mod wear_leveling;

mod blocks;
mod count;
mod divisor;
mod inconsistent;
mod map_page;
mod wear;

pub use blocks::{Blocks, Erased, WearSummary};
pub use count::{Ftl, ReadOnly};
pub use inconsistent::Inconsistent;
pub use map_page::MapPage;
pub use wear::Wear;
pub use wear_leveling::LevelingKind;
