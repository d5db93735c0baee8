//! Map pages, which both translation layers load on demand.

use serde::{Deserialize, Serialize};

/// Number of a map page: a part of the map that is loaded and written as a whole.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct MapPage(pub u32);
