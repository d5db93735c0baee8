//! What a load asks for: a few of fio's options, with fio's meanings.

use flashlab_nbd::client::ExportInfo;
use flashlab_nbd::wire::TransmissionFlags;
use flashlab_sim::Duration;
use std::fmt;

/// Which requests, in which order: fio's `rw`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mix {
    /// At random places; else one after the other.
    pub random: bool,
    /// Of 100 requests, how many read.
    pub reads_percent: u8,
}

impl Mix {
    /// `randread`, `read`, `randwrite`, `write`, `randrw` and `rw` (or `readwrite`), the last two with this share of reads.
    pub fn parse(word: &str, reads_percent: u8) -> Option<Mix> {
        let (random, reads_percent) = match word {
            "read" => (false, 100),
            "write" => (false, 0),
            "rw" | "readwrite" => (false, reads_percent),
            "randread" => (true, 100),
            "randwrite" => (true, 0),
            "randrw" => (true, reads_percent),
            _ => return None,
        };
        Some(Mix { random, reads_percent })
    }
    /// Whether it only reads.
    pub fn reads_only(&self) -> bool {
        self.reads_percent >= 100
    }
}

/// A load.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Job {
    /// Which requests.
    pub mix: Mix,
    /// Bytes of a request.
    pub block: u32,
    /// Requests outstanding on a connection.
    pub depth: u32,
    /// Connections, each with a thread of its own.
    pub connections: u32,
    /// How long; without it, until as many bytes as the area has were moved.
    pub runtime: Option<Duration>,
    /// First byte of the area.
    pub offset: u64,
    /// Bytes of the area; to the end of the export where not given.
    pub size: Option<u64>,
    /// Requests a second at most, on each connection.
    pub rate_iops: Option<u64>,
    /// Blocks are written so that they can be recognised, and checked: those that are read, and in the end all that were
    /// written.
    pub verify: bool,
    /// Simple replies are asked for, as Linux' own client does.
    pub simple_replies: bool,
    /// Draws places and contents.
    pub seed: u64,
}

impl Default for Job {
    fn default() -> Self {
        Job {
            mix: Mix { random: false, reads_percent: 100 },
            block: 4096,
            depth: 1,
            connections: 1,
            runtime: None,
            offset: 0,
            size: None,
            rate_iops: None,
            verify: false,
            simple_replies: false,
            seed: 1,
        }
    }
}

/// What cannot be asked of an export.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum JobError {
    /// Nothing would happen.
    Zero(&'static str),
    /// The area is larger than the export, or begins behind its end.
    Beyond {
        /// The byte behind the area.
        end: u64,
        /// Bytes of the export.
        capacity: u64,
    },
    /// Not a block for each connection.
    TooSmall {
        /// Bytes of a connection's share.
        share: u64,
        /// Bytes of a block.
        block: u32,
    },
    /// The export's blocks are larger, or its requests smaller.
    Block {
        /// Bytes that were asked for.
        block: u32,
        /// The least and the most that the export takes.
        least: u64,
        /// The most.
        most: u64,
    },
    /// The area does not begin at a block.
    Offset {
        /// Where it begins.
        offset: u64,
        /// The export's block.
        block: u64,
    },
    /// Verified blocks hold a header.
    TooSmallToVerify,
    /// The export is not written to.
    ReadOnly,
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JobError::Zero(option) => write!(f, "--{option}=0 does nothing; give at least 1"),
            JobError::Beyond { end, capacity } => {
                write!(
                    f,
                    "the area ends at byte {end}, the export at byte {capacity}; give less --size or --offset"
                )
            }
            JobError::TooSmall { share, block } => {
                write!(f, "each connection has {share} bytes, less than a block of {block}; give more --size")
            }
            JobError::Block { block, least, most } => {
                write!(f, "--bs={block}: the export takes multiples of {least} bytes, at most {most}")
            }
            JobError::Offset { offset, block } => {
                write!(f, "--offset={offset}: the export takes multiples of {block} bytes")
            }
            JobError::TooSmallToVerify => {
                f.write_str("--verify needs blocks of 32 bytes or more, in multiples of 8")
            }
            JobError::ReadOnly => f.write_str("the export is read-only; give --rw=read or --rw=randread"),
        }
    }
}

impl std::error::Error for JobError {}

impl Job {
    /// Bytes of the area on this export, if the job can run there.
    pub(super) fn area(&self, export: &ExportInfo) -> Result<u64, JobError> {
        for (option, value) in
            [("bs", self.block), ("iodepth", self.depth), ("connections", self.connections)]
        {
            if value == 0 {
                return Err(JobError::Zero(option));
            }
        }
        let (capacity, block) = (export.size, u64::from(self.block));
        let end = self.size.map_or(Some(capacity.max(self.offset)), |size| self.offset.checked_add(size));
        let end = end
            .filter(|end| *end <= capacity)
            .ok_or(JobError::Beyond { end: end.unwrap_or(u64::MAX), capacity })?;
        let (least, most) = (u64::from(export.block_minimum()), u64::from(export.payload_max()));
        if !block.is_multiple_of(least) || block > most {
            return Err(JobError::Block { block: self.block, least, most });
        }
        if !self.offset.is_multiple_of(least) {
            return Err(JobError::Offset { offset: self.offset, block: least });
        }
        let size = end - self.offset;
        let share = size / u64::from(self.connections);
        if share < block {
            return Err(JobError::TooSmall { share, block: self.block });
        }
        if self.verify && (self.block < 32 || !self.block.is_multiple_of(8)) {
            return Err(JobError::TooSmallToVerify);
        }
        if !self.mix.reads_only() && export.flags.has(TransmissionFlags::READ_ONLY) {
            return Err(JobError::ReadOnly);
        }
        Ok(size)
    }
}
