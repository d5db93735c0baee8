//! The form of an optional number in a state file: the number itself, or `u64::MAX` for `None`.

use serde::{Deserialize, Deserializer, Serializer};

/// Returns the form of `number` in a state file.
pub(super) fn to_saved(number: Option<u64>) -> u64 {
    number.unwrap_or(u64::MAX)
}

/// Returns the number that `saved` stands for.
pub(super) fn from_saved(saved: u64) -> Option<u64> {
    (saved != u64::MAX).then_some(saved)
}

pub(super) fn serialize<S: Serializer>(number: &Option<u64>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(to_saved(*number))
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    u64::deserialize(from).map(from_saved)
}
