//! Blocks that can be verified by their own content: fio's `verify=`.
//!
//! A block is as long as `verify_interval=`, or as the request. It begins with fio's header and the checksum
//! of the rest. The header has 40 bytes: magic number, method, block length, seed, offset, time and thread of
//! the write, and a crc32c of the header itself. The rest is the pattern, or noise drawn from the seed. A
//! pattern without a checksum method needs no checksum. With `verify=pattern` the whole block is the pattern.
//! The layout is that of fio 3.33, so fio and this module can verify each other's blocks, except with sha1,
//! sha256 and sha512 ([`checksum`]).

mod checksum;

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
pub struct VerifyFormat {
    method: Method,
    pattern: Vec<PatternPart>,
    interval: Option<u64>,
    /// True if blocks that this run did not write are verified by their own content.
    pub(super) verifies_unwritten: bool,
}

/// The error in a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VerifyFailure {
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
    /// The checksum of the data differs from the checksum in the header.
    Sum,
    /// The data differs from the pattern.
    Pattern {
        /// Position in the block of the first byte that differs.
        byte: u64,
    },
}

impl fmt::Display for VerifyFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VerifyFailure::NotAsWritten => f.write_str("it differs from the last write"),
            VerifyFailure::NoHeader => f.write_str("it has no header"),
            VerifyFailure::Header => f.write_str("its header is corrupt"),
            VerifyFailure::Other { method, length } => {
                write!(
                    f,
                    "its header names method {method} and a block of {length} bytes; see verify= and bs="
                )
            }
            VerifyFailure::Elsewhere { offset } => write!(f, "its header names offset {offset}"),
            VerifyFailure::Sum => f.write_str("its checksum differs from the one in its header"),
            VerifyFailure::Pattern { byte } => write!(f, "it differs from the pattern at its byte {byte}"),
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

impl VerifyFormat {
    /// Returns the method of the jobs that have `verify=`, or `None` if no job has it.
    pub fn of(jobs: &[Job]) -> Result<Option<VerifyFormat>, VerifyError> {
        let mut found: Option<(&Job, VerifyFormat)> = None;
        for job in jobs {
            let Some(method) = job.verify.method() else { continue };
            let Verify { pattern, interval, .. } = &job.verify;
            let verifies_unwritten = job.pattern.mix == Mix::Read;
            let this =
                VerifyFormat { method, pattern: pattern.clone(), interval: *interval, verifies_unwritten };
            this.check(job)?;
            match &mut found {
                None => found = Some((job, this)),
                Some((_, known))
                    if VerifyFormat { verifies_unwritten: known.verifies_unwritten, ..this.clone() }
                        == *known =>
                {
                    known.verifies_unwritten |= verifies_unwritten;
                }
                Some((one, _)) => {
                    return Err(VerifyError::Differ { one: one.name.clone(), other: job.name.clone() });
                }
            }
        }
        Ok(found.map(|(_, format)| format))
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
            method => HEADER + checksum::length(method),
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
        let sum = checksum::of(self.method, &block[header..]);
        let length = u32::try_from(block.len()).unwrap_or(u32::MAX);
        let mut head = Vec::with_capacity(header);
        head.extend_from_slice(&MAGIC.to_le_bytes());
        head.extend_from_slice(&checksum::number(self.method).to_le_bytes());
        head.extend_from_slice(&length.to_le_bytes());
        head.extend_from_slice(&seed.to_le_bytes());
        head.extend_from_slice(&offset.to_le_bytes());
        // Time of the write: 0, because simulated time is not wall-clock time. Thread: the first.
        head.extend_from_slice(&[0; 8]);
        head.extend_from_slice(&1u16.to_le_bytes());
        head.extend_from_slice(&(write as u16).to_le_bytes());
        head.extend_from_slice(&checksum::of_header(&head).to_le_bytes());
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
    pub(super) fn verify(&self, offset: u64, block: &[u8]) -> Result<(), VerifyFailure> {
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
            return Err(VerifyFailure::NoHeader);
        }
        if number(36, 4) != u64::from(checksum::of_header(&block[..36])) {
            return Err(VerifyFailure::Header);
        }
        let (method, length) = (number(2, 2) as u16, number(4, 4) as u32);
        if method != checksum::number(self.method) || u64::from(length) != block.len() as u64 {
            return Err(VerifyFailure::Other { method, length });
        }
        if number(16, 8) != offset {
            return Err(VerifyFailure::Elsewhere { offset: number(16, 8) });
        }
        if self.method == Method::PatternHeader {
            return self.judge_pattern(offset, block, header);
        }
        let sum = checksum::of(self.method, &block[header..]);
        if sum == block[HEADER..header] { Ok(()) } else { Err(VerifyFailure::Sum) }
    }

    /// Verifies the bytes after the header. The pattern starts at the beginning of the block, and the header overwrites
    /// part of it.
    fn judge_pattern(&self, offset: u64, block: &[u8], header: usize) -> Result<(), VerifyFailure> {
        let pattern = self.pattern(offset);
        let mut pairs = block.iter().zip(pattern.iter().cycle()).skip(header);
        let byte = pairs.position(|(found, wanted)| found != wanted);
        byte.map_or(Ok(()), |byte| Err(VerifyFailure::Pattern { byte: (header + byte) as u64 }))
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

    fn by(method: Method) -> VerifyFormat {
        VerifyFormat { method, pattern: Vec::new(), interval: Some(512), verifies_unwritten: true }
    }

    #[test]
    fn every_method_finds_each_kind_of_damage() {
        for method in METHODS {
            let format = by(method);
            let mut bytes = vec![0; 2048];
            format.fill(4096, 7, &mut bytes);
            for (n, block) in bytes.chunks(512).enumerate() {
                assert_eq!(format.verify(4096 + 512 * n as u64, block), Ok(()), "{method:?}");
            }
            let damaged = |byte: usize| {
                let mut block = bytes[512..1024].to_vec();
                block[byte] ^= 0x10;
                format.verify(4608, &block)
            };
            let sum = if format.header() > HEADER { HEADER } else { 0 };
            assert_eq!(damaged(0), Err(VerifyFailure::NoHeader), "{method:?}");
            assert_eq!(damaged(9), Err(VerifyFailure::Header), "{method:?}");
            assert_eq!([damaged(sum), damaged(511)], [Err(VerifyFailure::Sum); 2], "{method:?}");
            let elsewhere = format.verify(0, &bytes[512..1024]);
            assert_eq!(elsewhere, Err(VerifyFailure::Elsewhere { offset: 4608 }), "{method:?}");
            let longer = format.verify(4096, &bytes[..1024]);
            assert!(matches!(longer, Err(VerifyFailure::Other { length: 512, .. })), "{method:?}");
        }
    }

    #[test]
    fn a_pattern_fills_the_block_and_begins_anew_in_the_next() {
        let pattern = vec![PatternPart::Bytes(b"ab\x01".to_vec()), PatternPart::Offset];
        let format =
            VerifyFormat { method: Method::Pattern, pattern, interval: Some(16), verifies_unwritten: false };
        let mut bytes = [0; 32];
        format.fill(4096, 1, &mut bytes);
        assert_eq!(&bytes[..16], b"ab\x01\0\x10\0\0\0\0\0\0ab\x01\0\x10");
        assert_eq!(&bytes[16..21], b"ab\x01\x10\x10");
        assert_eq!(format.verify(4112, &bytes[16..]), Ok(()));
        bytes[18] = 0;
        assert_eq!(format.verify(4112, &bytes[16..]), Err(VerifyFailure::Pattern { byte: 2 }));
    }
}
