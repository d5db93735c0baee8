//! Encodings of types from other crates.

use flashlab_sim::Duration;

/// Encodes a duration as nanoseconds.
pub(super) mod nanoseconds {
    use flashlab_sim::Duration;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(duration.as_ns())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_ns)
    }
}

/// Encodes a direction as fio's JSON names it.
pub(super) mod direction {
    use flashlab_fio::job::Direction;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(direction: &Direction, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(direction.name())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Direction, D::Error> {
        let word = String::deserialize(from)?;
        let known = Direction::ALL.into_iter().find(|direction| direction.name() == word);
        known.ok_or_else(|| {
            D::Error::custom(format_args!("unknown direction `{word}`: expected read, write or trim"))
        })
    }
}

pub(super) fn is_zero(duration: &Duration) -> bool {
    *duration == Duration::ZERO
}

pub(super) fn one() -> u32 {
    1
}
