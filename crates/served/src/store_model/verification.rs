//! The results of verifying reads.

use crate::verify_format::VerifyFailure;
use std::fmt;

/// The results of verifying reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Verification {
    /// The method of verification; `None` without `verify=`.
    pub method: Option<&'static str>,
    /// Number of blocks that were read and verified.
    pub blocks: u64,
    /// Number of verified blocks that were wrong.
    pub wrong: u64,
    /// The first wrong block.
    pub first_wrong: Option<WrongBlock>,
    /// Number of requests that the device rejected or that failed.
    pub failed: u64,
}

/// A block with the wrong content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WrongBlock {
    /// Offset of the block in bytes.
    pub offset: u64,
    /// Length of the block in bytes.
    pub length: u64,
    /// The kind of error.
    pub why: VerifyFailure,
}

impl Verification {
    pub(super) fn add(&mut self, offset: u64, length: u64, judgement: Result<(), VerifyFailure>) {
        self.blocks += 1;
        if let Err(why) = judgement {
            self.wrong += 1;
            self.first_wrong.get_or_insert(WrongBlock { offset, length, why });
        }
    }
}

impl fmt::Display for Verification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Verification { blocks, wrong, failed, .. } = self;
        let method = self.method.unwrap_or("verify");
        match (self.first_wrong, self.method) {
            (None, None) => write!(f, "{blocks} blocks of 4 KiB were read back as written")?,
            (None, Some(_)) => write!(f, "{method}: {blocks} blocks verified")?,
            (Some(WrongBlock { offset, length, why }), _) => write!(
                f,
                "{method}: verify failed at offset {offset}, length {length}: {why}; {wrong} of {blocks} blocks are wrong"
            )?,
        }
        if *failed > 0 {
            write!(f, "; {failed} requests failed")?;
        }
        Ok(())
    }
}
