//! The claim on a member: the mark of the program that has opened the member for writing.
//!
//! A claim has a place on each member whose buckets are larger than [`CLAIM_OFFSET`]; bucket 0 begins behind it. The engine
//! does not use claims. A program that opens devices that nothing locks writes them, and renews them while it runs.

use super::wire::{self, Put};
use super::{Fault, SUPERBLOCK_SIZE};

const MAGIC: &[u8; 8] = b"FLVclaim";

/// Offset of the claim on its member, in bytes.
pub const CLAIM_OFFSET: u64 = 2 * SUPERBLOCK_SIZE as u64;
/// Length of the claim in bytes.
pub const CLAIM_SIZE: usize = 4096;

/// A claim on a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claim {
    /// Random identifier of the program that has opened the member.
    pub owner: [u8; 16],
    /// Number of the renewal, from 1 on; zero after the program has closed the member.
    pub renewal: u64,
}

impl Claim {
    /// Returns true if a member with buckets of this many bytes has a place for a claim.
    pub fn has_place(bucket: u32) -> bool {
        u64::from(bucket) > CLAIM_OFFSET
    }

    /// Returns true until the owner has closed the member.
    pub fn is_held(&self) -> bool {
        self.renewal > 0
    }

    /// Encodes the claim.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = wire::begin(MAGIC);
        bytes.extend_from_slice(&self.owner);
        bytes.u64(self.renewal);
        bytes.resize(CLAIM_SIZE, 0);
        wire::seal(&mut bytes);
        bytes
    }

    /// Decodes a claim.
    ///
    /// # Errors
    /// Returns the fault if the bytes are not a claim.
    pub fn decode(bytes: &[u8]) -> Result<Claim, Fault> {
        let bytes = bytes.get(..CLAIM_SIZE).ok_or(Fault::Short)?;
        let mut get = wire::open(bytes, MAGIC)?;
        get.u32()?;
        wire::verify(bytes)?;
        Ok(Claim { owner: get.array()?, renewal: get.u64()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_survives_a_round_trip_and_no_changed_byte_does() {
        let claim = Claim { owner: *b"0123456789abcdef", renewal: 7 };
        let bytes = claim.encode();
        assert_eq!(bytes.len(), CLAIM_SIZE);
        assert_eq!(Claim::decode(&bytes), Ok(claim));
        for at in 0..CLAIM_SIZE {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert!(Claim::decode(&changed).is_err(), "byte {at}");
        }
        assert_eq!(Claim::decode(&bytes[..100]), Err(Fault::Short));
    }

    #[test]
    fn only_buckets_that_begin_behind_the_claim_leave_it_a_place() {
        assert_eq!([16 << 10, 32 << 10, 1 << 20].map(Claim::has_place), [false, true, true]);
        let end = CLAIM_OFFSET + CLAIM_SIZE as u64;
        assert!(CLAIM_OFFSET.next_multiple_of(32 << 10) >= end);
    }
}
