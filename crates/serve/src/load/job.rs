//! Parameters of a load: a few of fio's options, with fio's meanings.

use flashlab_nbd::client::ExportInfo;
use flashlab_nbd::wire::TransmissionFlags;
use flashlab_sim::Duration;
use std::fmt;

/// Types and order of the requests: fio's `rw`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mix {
    /// True for random offsets, false for sequential ones.
    pub random: bool,
    /// Percentage of reads.
    pub reads_percent: u8,
}

impl Mix {
    /// Parses `randread`, `read`, `randwrite`, `write`, `randrw` and `rw` (or `readwrite`). The last two use
    /// `reads_percent`.
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
    /// Returns true if all requests are reads.
    pub fn reads_only(&self) -> bool {
        self.reads_percent >= 100
    }
}

/// Parameters of a load.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Job {
    /// Types and order of the requests.
    pub mix: Mix,
    /// Block size: bytes per request.
    pub block: u32,
    /// Queue depth of each connection.
    pub depth: u32,
    /// Number of connections, each with its own thread.
    pub connections: u32,
    /// Run time. If `None`, the load ends once it has transferred as many bytes as the area contains.
    pub runtime: Option<Duration>,
    /// Offset of the area in the export, in bytes.
    pub offset: u64,
    /// Length of the area in bytes; `None` extends it to the end of the export.
    pub size: Option<u64>,
    /// Maximum number of requests per second on each connection.
    pub rate_iops: Option<u64>,
    /// Writes blocks with verifiable contents, and verifies each read of a block that this load has written.
    /// At the end, verifies every written block. A load that only reads verifies each read.
    pub verify: bool,
    /// Requests simple replies, as Linux's own client does.
    pub simple_replies: bool,
    /// Seed of the random offsets and contents.
    pub seed: u64,
    /// Percentage of zeroes in the data of writes that are not verified.
    pub buffer_compress_percentage: u8,
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
            buffer_compress_percentage: 0,
        }
    }
}

/// Reason why a job does not fit an export.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum JobError {
    /// An option is zero, so no request would be sent.
    Zero(&'static str),
    /// The area extends beyond the end of the export.
    Beyond {
        /// Offset of the first byte after the area.
        end: u64,
        /// Size of the export in bytes.
        capacity: u64,
    },
    /// A connection's share of the area is smaller than a block.
    TooSmall {
        /// Size of a connection's share in bytes.
        share: u64,
        /// Block size in bytes.
        block: u32,
    },
    /// The block size is not a multiple of the export's minimum block size, or exceeds its maximum payload size.
    Block {
        /// The requested block size in bytes.
        block: u32,
        /// The export's minimum block size in bytes.
        least: u64,
        /// The export's maximum payload size in bytes.
        most: u64,
    },
    /// The offset of the area is not a multiple of the export's minimum block size.
    Offset {
        /// Offset of the area in bytes.
        offset: u64,
        /// The export's minimum block size in bytes.
        block: u64,
    },
    /// The block size is too small for the header of verifiable blocks, or not a multiple of 8 bytes.
    TooSmallToVerify,
    /// The export is read-only, and the job writes.
    ReadOnly,
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JobError::Zero(option) => write!(f, "--{option}=0 does nothing; give at least 1"),
            JobError::Beyond { end, capacity } => {
                write!(
                    f,
                    "the area ends at byte {end}, the export at byte {capacity}; reduce --size or --offset"
                )
            }
            JobError::TooSmall { share, block } => {
                write!(f, "each connection has {share} bytes, less than a block of {block}; increase --size")
            }
            JobError::Block { block, least, most } => {
                write!(f, "--bs={block}: the export accepts multiples of {least} bytes, at most {most}")
            }
            JobError::Offset { offset, block } => {
                write!(f, "--offset={offset}: the export accepts multiples of {block} bytes")
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
    /// Returns the length of the area on this export in bytes, or the reason why the job cannot run.
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
        if !self.mix.reads_only() && export.flags.contains(TransmissionFlags::READ_ONLY) {
            return Err(JobError::ReadOnly);
        }
        Ok(size)
    }
}
