//! Blocks that can be verified by their own content: fio's `verify=`.
//!
//! A block is one `verify_interval=`, or a request. It begins with fio's header (40 bytes: magic number, method, block
//! length, seed, offset, time and thread of the write, and a crc32c of the header itself) and the checksum of the rest.
//! The rest is noise drawn from the seed, or the pattern; a pattern without a checksum method needs no checksum. With
//! `verify=pattern` the whole block is the pattern. The layout is that of fio 3.33, so fio and this module can verify
//! each other's blocks, except with sha1, sha256 and sha512 ([`sum`]).

mod sum;

use flashlab_fio::job::{Job, Mix};
use flashlab_fio::verify::{Method, PatternPart, Verify};
use flashlab_sim::mix;
use std::fmt;

/// fio's FIO_HDR_MAGIC.
const MAGIC: u16 = 0xacca;
/// Size in bytes of a header without the checksum of the data.
const HEADER: usize = 40;

/// A method of writing and verifying blocks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verified {
    method: Method,
    pattern: Vec<PatternPart>,
    interval: Option<u64>,
    /// True if blocks that this run did not write are verified by their own content.
    pub(super) judges_all: bool,
}

/// The error in a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wrong {
    /// The content differs from the last write of this run.
    NotAsWritten,
    /// The block does not begin with a header.
    NoHeader,
    /// The header is corrupt.
    Header,
    /// The header names another method or another block length.
    Other {
        /// Number of the method in the header.
        method: u16,
        /// Block length in the header, in bytes.
        length: u32,
    },
    /// The header names another offset.
    Elsewhere {
        /// Offset in the header.
        offset: u64,
    },
    /// The checksum of the data differs from the one in the header.
    Sum,
    /// The data differs from the pattern.
    Pattern {
        /// First byte of the block that differs.
        byte: u64,
    },
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wrong::NotAsWritten => f.write_str("it differs from the last write"),
            Wrong::NoHeader => f.write_str("it has no header"),
            Wrong::Header => f.write_str("its header is corrupt"),
            Wrong::Other { method, length } => {
                write!(
                    f,
                    "its header names method {method} and a block of {length} bytes; see verify= and bs="
                )
            }
            Wrong::Elsewhere { offset } => write!(f, "its header names byte {offset}"),
            Wrong::Sum => f.write_str("its checksum differs from the one in its header"),
            Wrong::Pattern { byte } => write!(f, "it differs from the pattern at its byte {byte}"),
        }
    }
}

/// The reason why jobs cannot be verified together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum VerifyError {
    /// Two jobs have different methods, patterns or intervals.
    Differ {
        /// One job.
        one: String,
        /// The other job.
        other: String,
    },
    /// A block is too small for the header and the checksum.
    NoRoom {
        /// The job.
        job: String,
        /// Size of its smallest block in bytes.
        bytes: u64,
        /// Size of header and checksum in bytes.
        header: u64,
    },
    /// The interval does not divide the request.
    Interval {
        /// The job.
        job: String,
        /// Size of the interval in bytes.
        interval: u64,
        /// Size of a request in bytes.
        block: u64,
    },
    /// A job has `verify=pattern` without `verify_pattern=`.
    NoPattern {
        /// The job.
        job: String,
    },
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VerifyError::Differ { one, other } => write!(
                f,
                "jobs `{one}` and `{other}` differ in verify=, verify_pattern= or verify_interval=: a device is verified with \
                 one setting at a time; run the jobs one after the other"
            ),
            VerifyError::NoRoom { job, bytes, header } => write!(
                f,
                "job `{job}`: a block of {bytes} bytes has no room for the {header} bytes of its header: raise bs= or \
                 verify_interval="
            ),
            VerifyError::Interval { job, interval, block } => {
                write!(
                    f,
                    "job `{job}`: verify_interval={interval} does not divide a request of {block} bytes"
                )
            }
            VerifyError::NoPattern { job } => {
                write!(f, "job `{job}`: verify=pattern needs verify_pattern=, such as 0xdeadbeef")
            }
        }
    }
}

impl std::error::Error for VerifyError {}

impl Verified {
    /// Returns the method of the jobs that have `verify=`, or `None` if no job has it.
    pub fn of(jobs: &[Job]) -> Result<Option<Verified>, VerifyError> {
        let mut found: Option<(&Job, Verified)> = None;
        for job in jobs {
            let Some(method) = job.verify.method() else { continue };
            let Verify { pattern, interval, .. } = &job.verify;
            let judges_all = job.pattern.mix == Mix::Read;
            let this = Verified { method, pattern: pattern.clone(), interval: *interval, judges_all };
            this.check(job)?;
            match &mut found {
                None => found = Some((job, this)),
                Some((_, known)) if Verified { judges_all: known.judges_all, ..this.clone() } == *known => {
                    known.judges_all |= judges_all;
                }
                Some((one, _)) => {
                    return Err(VerifyError::Differ { one: one.name.clone(), other: job.name.clone() });
                }
            }
        }
        Ok(found.map(|(_, verified)| verified))
    }

    fn check(&self, job: &Job) -> Result<(), VerifyError> {
        let name = || job.name.clone();
        if self.method == Method::Pattern && self.pattern.is_empty() {
            return Err(VerifyError::NoPattern { job: name() });
        }
        let least = |size: &flashlab_fio::job::BlockSize| match size {
            flashlab_fio::job::BlockSize::Fixed(bytes) => *bytes,
            flashlab_fio::job::BlockSize::Range { min, .. } => *min,
            flashlab_fio::job::BlockSize::Split(shares) => {
                shares.iter().map(|share| share.bytes).min().unwrap_or(u64::MAX)
            }
        };
        let block = job.block_size[..2].iter().map(least).min().unwrap_or(0);
        if let Some(interval) = self.interval.filter(|interval| !block.is_multiple_of(*interval)) {
            return Err(VerifyError::Interval { job: name(), interval, block });
        }
        let (bytes, header) = (self.interval.unwrap_or(block), self.header() as u64);
        if bytes < header { Err(VerifyError::NoRoom { job: name(), bytes, header }) } else { Ok(()) }
    }

    /// Returns the name of the method.
    pub fn name(&self) -> &'static str {
        self.method.name()
    }

    /// Returns the size of header and checksum in bytes.
    fn header(&self) -> usize {
        match self.method {
            Method::Pattern | Method::Null => 0,
            method => HEADER + sum::length(method),
        }
    }

    /// Returns the block size for a request of `request` bytes.
    pub(super) fn block(&self, request: u64) -> u64 {
        self.interval.unwrap_or(request).min(request)
    }

    /// Fills the data of a request. `write` is the number of the write, from which the noise is drawn.
    pub(super) fn fill(&self, offset: u64, write: u64, bytes: &mut [u8]) {
        let block = self.block(bytes.len() as u64) as usize;
        for (place, block) in (offset..).step_by(block.max(1)).zip(bytes.chunks_mut(block.max(1))) {
            self.fill_block(place, write, block);
        }
    }

    fn fill_block(&self, offset: u64, write: u64, block: &mut [u8]) {
        let seed = mix(mix(write) ^ offset);
        if self.pattern.is_empty() {
            for (n, word) in block.chunks_mut(8).enumerate() {
                word.copy_from_slice(&mix(seed.wrapping_add(n as u64)).to_le_bytes()[..word.len()]);
            }
        } else {
            let pattern = self.pattern(offset);
            block.iter_mut().zip(pattern.iter().cycle()).for_each(|(byte, of_pattern)| *byte = *of_pattern);
        }
        let header = self.header();
        if header == 0 || block.len() < header {
            return;
        }
        let sum = sum::of(self.method, &block[header..]);
        let length = u32::try_from(block.len()).unwrap_or(u32::MAX);
        let mut head = Vec::with_capacity(header);
        head.extend_from_slice(&MAGIC.to_le_bytes());
        head.extend_from_slice(&sum::number(self.method).to_le_bytes());
        head.extend_from_slice(&length.to_le_bytes());
        head.extend_from_slice(&seed.to_le_bytes());
        head.extend_from_slice(&offset.to_le_bytes());
        // Time of the write: 0, because simulated time is not wall-clock time. Thread: the first.
        head.extend_from_slice(&[0; 8]);
        head.extend_from_slice(&1u16.to_le_bytes());
        head.extend_from_slice(&(write as u16).to_le_bytes());
        head.extend_from_slice(&sum::of_header(&head).to_le_bytes());
        head.extend_from_slice(&sum);
        block[..header].copy_from_slice(&head);
    }

    fn pattern(&self, offset: u64) -> Vec<u8> {
        let part = |part: &PatternPart| match part {
            PatternPart::Bytes(bytes) => bytes.clone(),
            PatternPart::Offset => offset.to_le_bytes().to_vec(),
        };
        self.pattern.iter().flat_map(part).collect()
    }

    /// Verifies a block by its content.
    pub(super) fn judge(&self, offset: u64, block: &[u8]) -> Result<(), Wrong> {
        match self.method {
            Method::Null => return Ok(()),
            Method::Pattern => return self.judge_pattern(offset, block, 0),
            _ => {}
        }
        let header = self.header();
        let number = |at: usize, bytes: usize| {
            let mut word = [0; 8];
            word[..bytes].copy_from_slice(&block[at..at + bytes]);
            u64::from_le_bytes(word)
        };
        if block.len() < header || number(0, 2) != u64::from(MAGIC) {
            return Err(Wrong::NoHeader);
        }
        if number(36, 4) != u64::from(sum::of_header(&block[..36])) {
            return Err(Wrong::Header);
        }
        let (method, length) = (number(2, 2) as u16, number(4, 4) as u32);
        if method != sum::number(self.method) || u64::from(length) != block.len() as u64 {
            return Err(Wrong::Other { method, length });
        }
        if number(16, 8) != offset {
            return Err(Wrong::Elsewhere { offset: number(16, 8) });
        }
        if self.method == Method::PatternHeader {
            return self.judge_pattern(offset, block, header);
        }
        let sum = sum::of(self.method, &block[header..]);
        if sum == block[HEADER..header] { Ok(()) } else { Err(Wrong::Sum) }
    }

    /// Verifies the bytes after the header. The pattern starts at the beginning of the block, and the header overwrites
    /// part of it.
    fn judge_pattern(&self, offset: u64, block: &[u8], header: usize) -> Result<(), Wrong> {
        let pattern = self.pattern(offset);
        let mut pairs = block.iter().zip(pattern.iter().cycle()).skip(header);
        let byte = pairs.position(|(found, wanted)| found != wanted);
        byte.map_or(Ok(()), |byte| Err(Wrong::Pattern { byte: (header + byte) as u64 }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const METHODS: [Method; 14] = {
        use Method as M;
        [
            M::Md5,
            M::Crc64,
            M::Crc32,
            M::Crc32c,
            M::Crc16,
            M::Crc7,
            M::Sha256,
            M::Sha512,
            M::Sha3_224,
            M::Sha3_256,
            M::Sha3_384,
            M::Sha3_512,
            M::Xxhash,
            M::Sha1,
        ]
    };

    fn by(method: Method) -> Verified {
        Verified { method, pattern: Vec::new(), interval: Some(512), judges_all: true }
    }

    #[test]
    fn every_method_finds_each_kind_of_damage() {
        for method in METHODS {
            let verified = by(method);
            let mut bytes = vec![0; 2048];
            verified.fill(4096, 7, &mut bytes);
            for (n, block) in bytes.chunks(512).enumerate() {
                assert_eq!(verified.judge(4096 + 512 * n as u64, block), Ok(()), "{method:?}");
            }
            let damaged = |byte: usize| {
                let mut block = bytes[512..1024].to_vec();
                block[byte] ^= 0x10;
                verified.judge(4608, &block)
            };
            let sum = if verified.header() > HEADER { HEADER } else { 0 };
            assert_eq!(damaged(0), Err(Wrong::NoHeader), "{method:?}");
            assert_eq!(damaged(9), Err(Wrong::Header), "{method:?}");
            assert_eq!([damaged(sum), damaged(511)], [Err(Wrong::Sum); 2], "{method:?}");
            let elsewhere = verified.judge(0, &bytes[512..1024]);
            assert_eq!(elsewhere, Err(Wrong::Elsewhere { offset: 4608 }), "{method:?}");
            let longer = verified.judge(4096, &bytes[..1024]);
            assert!(matches!(longer, Err(Wrong::Other { length: 512, .. })), "{method:?}");
        }
    }

    #[test]
    fn a_pattern_fills_the_block_and_begins_anew_in_the_next() {
        let pattern = vec![PatternPart::Bytes(b"ab\x01".to_vec()), PatternPart::Offset];
        let verified = Verified { method: Method::Pattern, pattern, interval: Some(16), judges_all: false };
        let mut bytes = [0; 32];
        verified.fill(4096, 1, &mut bytes);
        assert_eq!(&bytes[..16], b"ab\x01\0\x10\0\0\0\0\0\0ab\x01\0\x10");
        assert_eq!(&bytes[16..21], b"ab\x01\x10\x10");
        assert_eq!(verified.judge(4112, &bytes[16..]), Ok(()));
        bytes[18] = 0;
        assert_eq!(verified.judge(4112, &bytes[16..]), Err(Wrong::Pattern { byte: 2 }));
    }
}
