//! The on-disk format: bytes only, no input or output. docs/volume-format.md describes it byte by byte.
//!
//! All numbers are little-endian. Every structure has a magic number, the identifier of its volume and a CRC-32C. A
//! decoder accepts any bytes: it returns the structure or a [`Fault`], and never panics.

mod checkpoint;
mod claim;
mod journal;
mod member_entry;
mod record;
mod sealed;
mod superblock;
mod wire;

pub use checkpoint::{Place, RUN_HEADER, Run};
pub use claim::{CLAIM_OFFSET, CLAIM_SIZE, Claim};
pub(crate) use journal::Entries;
pub use journal::{ENTRY_HEADER, Entry};
pub use member_entry::{ErrorCounts, MemberEntry, MemberState, Seen};
pub use record::Record;
pub(crate) use record::{EPOCH_LEN, OPEN_LEN, TAG_WRITER_LEN};
pub use sealed::SealWith;
pub use superblock::{MEMBERS_MAX, Root, SUPERBLOCK_SIZE, Superblock, VERSION, copy_offsets};
pub use wire::Fault;
