//! Identifiers that are derived from a seed: UUIDs, serial numbers of volumes, signatures of disks.

use sha2::{Digest, Sha256};
use std::fmt;

/// A source of identifiers. The same seed and the same purpose give the same identifier.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    seed: String,
}

/// A UUID. An [`Identity`] gives UUIDs of version 8 (RFC 9562), which leaves the bits to the application. The
/// types of partitions in a GPT are constants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Uuid(pub [u8; 16]);

impl Identity {
    /// Creates a source of identifiers from a seed.
    pub fn new(seed: impl Into<String>) -> Identity {
        Identity { seed: seed.into() }
    }

    /// Returns the source for one part, such as a partition.
    pub fn of_part(&self, part: impl fmt::Display) -> Identity {
        Identity { seed: format!("{}\0{part}", self.seed) }
    }

    /// Returns the UUID for a purpose, of version 8.
    pub fn uuid(&self, purpose: &str) -> Uuid {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&self.digest(purpose)[..16]);
        bytes[6] = bytes[6] & 0x0f | 0x80;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        Uuid(bytes)
    }

    /// Returns a serial number of 32 bits for a purpose; it is never 0, which many programs read as "none".
    pub fn serial(&self, purpose: &str) -> u32 {
        let digest = self.digest(purpose);
        u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]]).max(1)
    }

    fn digest(&self, purpose: &str) -> [u8; 32] {
        Sha256::digest(format!("flashlab image\0{}\0{purpose}", self.seed)).into()
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, byte) in self.0.iter().enumerate() {
            let hyphen = if [4, 6, 8, 10].contains(&n) { "-" } else { "" };
            write!(f, "{hyphen}{byte:02x}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_has_version_8_and_the_variant_of_the_rfc() {
        for part in 0..100 {
            let text = Identity::new("seed").of_part(part).uuid("filesystem").to_string();
            assert_eq!(text.len(), 36);
            assert_eq!(&text[14..15], "8", "{text}");
            assert!(["8", "9", "a", "b"].contains(&&text[19..20]), "{text}");
        }
    }

    #[test]
    fn seeds_parts_and_purposes_give_different_identifiers() {
        let identity = Identity::new("seed");
        let all = [
            identity.uuid("disk"),
            identity.uuid("filesystem"),
            identity.of_part(1).uuid("disk"),
            identity.of_part(2).uuid("disk"),
            Identity::new("seed 2").uuid("disk"),
        ];
        for (n, uuid) in all.iter().enumerate() {
            assert!(!all[..n].contains(uuid), "{uuid}");
        }
        assert_eq!(identity.uuid("disk"), Identity::new("seed").uuid("disk"));
    }
}
