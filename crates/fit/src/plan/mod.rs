//! Measurement plans: the jobs, their order, and the state of the device from which each job starts.
//!
//! A plan controls the state, as uFLIP recommends (Bouganim et al., CIDR 2009): each step finds its area in
//! the state that the step names. Random writes on discarded areas, or on untouched ones without discards,
//! come first. Sequential writes follow, then reads of data that was written in sequence, then random writes
//! over the same data, and finally writes to several open allocation units in turn. The device rests between
//! steps.
//!
//! The areas scale with the capacity up to a limit, so that a measurement of a large device costs little of
//! its life. A plan without permission to write only reads. Each step ends after a number of requests or
//! after a time, whichever comes first; the discard and the fill end with their areas.

mod description;
mod print;
mod result;

pub use description::Description;
pub(crate) use description::{is_mark, name_in};

use crate::observation;
use flashlab_sim::Duration;
use std::fmt;

/// Extent of a plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scale {
    /// Few block sizes, a few seconds per step: about four minutes at most.
    Quick,
    /// All block sizes: about twenty minutes at most.
    Standard,
}

/// A device on which a plan runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Area {
    /// Capacity in bytes; of a file, the size that it will have.
    pub capacity: u64,
    /// Logical block in bytes.
    pub block: u32,
    /// True if the plan may write to all addresses.
    pub is_writable: bool,
    /// True if the device accepts discards.
    pub discards: bool,
}

/// A sequence of steps.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Name: `quick`, `standard`, `quick-read`, `standard-read`.
    pub name: String,
    /// Steps in order.
    pub steps: Vec<PlannedStep>,
    /// Number of bytes from the beginning of the device that the steps access.
    pub extent: u64,
}

/// A step of a plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlannedStep {
    /// Name of the step and of its job, without spaces.
    pub name: String,
    /// Options of fio, one per element.
    pub job: Vec<String>,
    /// State of the accessed addresses before the step.
    pub before: observation::State,
    /// Rest before the step.
    pub rest: Duration,
    /// Largest number of bytes that the step writes.
    pub writes: u64,
    /// Largest number of bytes that the step reads.
    pub reads: u64,
    /// Largest time that the step takes, without its rest; an estimate for the discard and the fill, which have no
    /// limit.
    pub time: Duration,
    /// True if the step only prepares the device, and may fail on a device without the operation.
    pub only_prepares: bool,
}

/// Error of a plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlanError {
    /// The device is smaller than [`CAPACITY_MIN`].
    TooSmall {
        /// Capacity of the device.
        capacity: u64,
    },
    /// The logical block does not divide the smallest request of the plan, 4 KiB.
    Block {
        /// Logical block in bytes.
        block: u32,
    },
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanError::TooSmall { capacity } => {
                write!(f, "the target has {capacity} bytes, and a plan needs at least {CAPACITY_MIN}")
            }
            PlanError::Block { block } => {
                write!(f, "the target's logical block has {block} bytes, and a plan writes requests of 4096")
            }
        }
    }
}

impl std::error::Error for PlanError {}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Smallest capacity for a plan. At this capacity, each of the smallest areas, which are 1/64 of the
/// capacity, holds one request of the largest size.
pub const CAPACITY_MIN: u64 = 64 * MIB;

/// Erase cycles that [`Plan::life_share`] assumes: the typical figure for TLC, as in `profiles/sd/kthn-16gb.toml`.
pub const ASSUMED_CYCLES: u64 = 3000;

impl Scale {
    /// Returns the scale with this name.
    pub fn parse(name: &str) -> Option<Scale> {
        match name {
            "quick" => Some(Scale::Quick),
            "standard" => Some(Scale::Standard),
            _ => None,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Scale::Quick => "quick",
            Scale::Standard => "standard",
        }
    }

    const fn sizes(self) -> &'static [u64] {
        match self {
            Scale::Quick => &[4 * KIB, 64 * KIB, MIB],
            Scale::Standard => &[4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB],
        }
    }

    /// Sizes of sequential writes: those up to 16 KiB show the page, because a smaller write costs as much as a page.
    const fn sequential_write_sizes(self) -> &'static [u64] {
        match self {
            Scale::Quick => &[4 * KIB, 8 * KIB, 16 * KIB, 64 * KIB, MIB],
            Scale::Standard => &[4 * KIB, 8 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB],
        }
    }

    /// Sizes of random overwrites. Sizes between 4 and 64 KiB distinguish a busy time after each write from
    /// the copies of a rewrite unit, and show the limit of an area for small writes.
    const fn overwrite_sizes(self) -> &'static [u64] {
        match self {
            Scale::Quick => &[4 * KIB, 16 * KIB, 32 * KIB, 64 * KIB, MIB],
            Scale::Standard => &[4 * KIB, 16 * KIB, 32 * KIB, 64 * KIB, 256 * KIB, MIB],
        }
    }

    /// Returns the largest number of requests of one job, except for the discard and the fill.
    const fn requests(self) -> u64 {
        match self {
            Scale::Quick => 256,
            Scale::Standard => 2048,
        }
    }

    const fn runtime_s(self) -> u64 {
        match self {
            Scale::Quick => 5,
            Scale::Standard => 20,
        }
    }

    const fn rest(self) -> Duration {
        match self {
            Scale::Quick => Duration::from_secs(1),
            Scale::Standard => Duration::from_secs(5),
        }
    }

    const fn span_max(self) -> u64 {
        match self {
            Scale::Quick => 64 * MIB,
            Scale::Standard => 256 * MIB,
        }
    }
}

impl Plan {
    /// Returns the plan for a device. Without permission to write, the plan only reads.
    ///
    /// # Errors
    /// Returns an error if the device is too small or its logical block does not divide 4 KiB.
    pub fn new(scale: Scale, area: &Area) -> Result<Plan, PlanError> {
        if area.capacity < CAPACITY_MIN {
            return Err(PlanError::TooSmall { capacity: area.capacity });
        }
        if area.block == 0 || !(4 * KIB).is_multiple_of(u64::from(area.block)) {
            return Err(PlanError::Block { block: area.block });
        }
        let span = (area.capacity / 8 / (4 * MIB) * (4 * MIB)).min(scale.span_max());
        let mut builder = Builder { scale, span, steps: Vec::new() };
        let (name, extent) = if area.is_writable {
            builder.write_steps(area.discards);
            (scale.name().to_owned(), 7 * span)
        } else {
            builder.read_only_steps(area.capacity);
            (format!("{}-read", scale.name()), area.capacity)
        };
        Ok(Plan { name, steps: builder.steps, extent })
    }

    /// Returns the largest number of bytes that the plan writes.
    pub fn written_bytes(&self) -> u64 {
        self.steps.iter().map(|step| step.writes).sum()
    }

    /// Returns the largest number of bytes that the plan reads.
    pub fn read_bytes(&self) -> u64 {
        self.steps.iter().map(|step| step.reads).sum()
    }

    /// Returns the largest time that the plan takes, including the rests and the estimates for the discard
    /// and the fill.
    pub fn time_max(&self) -> Duration {
        self.steps.iter().map(|step| step.time + step.rest).sum()
    }

    /// Returns the share of the life of a device of `capacity` bytes that the plan costs. It assumes [`ASSUMED_CYCLES`]
    /// erase cycles, and that each written byte programs one byte.
    pub fn life_share(&self, capacity: u64) -> f64 {
        self.written_bytes() as f64 / (capacity as f64 * ASSUMED_CYCLES as f64)
    }
}

struct Builder {
    scale: Scale,
    /// Size of the unit in which the plan places its areas. The plan uses seven such units.
    span: u64,
    steps: Vec<PlannedStep>,
}

/// The requests of a step.
struct Access {
    rw: &'static str,
    block: u64,
    offset: u64,
    /// Size of the area.
    size: u64,
    depth: u32,
    fsync: bool,
}

impl Access {
    fn new(rw: &'static str, block: u64, offset: u64, size: u64) -> Self {
        Access { rw, block, offset, size, depth: 1, fsync: false }
    }
}

use observation::State::{AsLeft, Discarded, Unknown, WrittenAtRandom, WrittenInSequence};

impl Builder {
    fn write_steps(&mut self, discards: bool) {
        let (span, sizes) = (self.span, self.scale.sizes());
        let untouched = if discards { Discarded } else { AsLeft };
        if discards {
            self.discard(7 * span);
        }
        // Random writes on untouched areas: an eighth of the first span for each size.
        let part = span / 8;
        for (n, block) in sizes.iter().enumerate() {
            let access = Access::new("randwrite", *block, n as u64 * part, part);
            self.step(format!("write-random-{}-untouched", short(*block)), access, untouched);
        }
        let access = Access { fsync: true, ..Access::new("write", 4 * KIB, 6 * part, part) };
        self.step("write-sequential-4k-fsync".into(), access, untouched);
        // Later steps read and overwrite this area.
        let (base, size) = (span, 2 * span);
        self.fill(base, size, untouched);
        for (n, block) in self.scale.sequential_write_sizes().iter().enumerate() {
            let access = Access::new("write", *block, 3 * span + n as u64 * span / 2, span / 2);
            self.step(format!("write-sequential-{}", short(*block)), access, untouched);
        }
        self.reads(base, size, WrittenInSequence);
        let part = size / 8;
        for (n, block) in self.scale.overwrite_sizes().iter().enumerate() {
            let access = Access::new("randwrite", *block, base + n as u64 * part, part);
            self.step(format!("overwrite-random-{}", short(*block)), access, WrittenInSequence);
        }
        let access = Access::new("randread", 4 * KIB, base, part);
        self.step("read-random-4k-overwritten".into(), access, WrittenAtRandom);
        let access = Access::new("write", MIB, base + 6 * part, part);
        self.step("overwrite-sequential-1m".into(), access, WrittenInSequence);
        for count in [1, 2, 4, 8, 16] {
            self.open_units(count);
        }
    }

    fn read_only_steps(&mut self, capacity: u64) {
        let aligned = capacity / MIB * MIB;
        self.reads(0, (2 * self.span).min(aligned), Unknown);
        let access = Access::new("randread", 4 * KIB, 0, aligned);
        self.step("read-random-4k-whole".into(), access, Unknown);
    }

    fn reads(&mut self, base: u64, size: u64, before: observation::State) {
        for block in self.scale.sizes() {
            let access = Access::new("read", *block, base, size);
            self.step(format!("read-sequential-{}", short(*block)), access, before);
        }
        for block in self.scale.sizes() {
            let access = Access::new("randread", *block, base, size);
            self.step(format!("read-random-{}", short(*block)), access, before);
        }
        for depth in [4, 32] {
            let access = Access { depth, ..Access::new("randread", 4 * KIB, base, size) };
            self.step(format!("read-random-4k-depth-{depth}"), access, before);
        }
    }

    fn step(&mut self, name: String, access: Access, before: observation::State) {
        let Access { rw, block, offset, size, depth, fsync } = access;
        let seconds = self.scale.runtime_s();
        let requests = (size / block).clamp(1, self.scale.requests());
        // A sequential job ends at the end of its area, a random one after a number of requests.
        let is_random = rw.starts_with("rand");
        let size = if is_random { size } else { requests * block };
        let mut job = options(&name, rw, block, offset, size);
        if is_random {
            job.push(format!("--number_ios={requests}"));
        }
        if depth > 1 {
            job.extend(["--ioengine=libaio".to_owned(), format!("--iodepth={depth}")]);
        }
        if fsync {
            job.push("--fsync=1".to_owned());
        }
        job.push(format!("--runtime={seconds}"));
        let bytes = requests * block;
        let is_write = rw.ends_with("write");
        self.steps.push(PlannedStep {
            name,
            job,
            before,
            rest: self.scale.rest(),
            writes: if is_write { bytes } else { 0 },
            reads: if is_write { 0 } else { bytes },
            time: Duration::from_secs(seconds),
            only_prepares: false,
        });
    }

    /// Discards the areas of the plan.
    fn discard(&mut self, size: u64) {
        self.steps.push(PlannedStep {
            name: "discard".to_owned(),
            job: options("discard", "trim", 4 * MIB, 0, size),
            before: AsLeft,
            rest: Duration::ZERO,
            writes: 0,
            reads: 0,
            time: Duration::from_secs(10),
            only_prepares: true,
        });
    }

    /// Writes an area in sequence, completely, because later steps read it.
    fn fill(&mut self, base: u64, size: u64, before: observation::State) {
        let name = "write-sequential-1m-fill".to_owned();
        let mut job = options(&name, "write", MIB, base, size);
        job.push("--end_fsync=1".to_owned());
        self.steps.push(PlannedStep {
            name,
            job,
            before,
            rest: self.scale.rest(),
            writes: size,
            reads: 0,
            // Even a card of class 2 writes 2 MB/s (SD specification, speed classes).
            time: Duration::from_secs(size / 2_000_000),
            only_prepares: false,
        });
    }

    /// Writes `count` units in turn, each in sequence.
    fn open_units(&mut self, count: u64) {
        let (stride, size) = (self.span / 4, (self.span / 4).min(4 * MIB));
        let block = 64 * KIB;
        let bytes = (size / block).min(self.scale.requests()) * block;
        let name = format!("open-units-{count}");
        let mut job = options(&name, "write", block, 3 * self.span, bytes);
        job.extend([
            format!("--offset_increment={stride}"),
            format!("--numjobs={count}"),
            "--group_reporting".to_owned(),
            format!("--runtime={}", self.scale.runtime_s()),
        ]);
        self.steps.push(PlannedStep {
            name,
            job,
            before: AsLeft,
            rest: self.scale.rest(),
            writes: count * bytes,
            reads: 0,
            time: Duration::from_secs(self.scale.runtime_s()),
            only_prepares: false,
        });
    }
}

/// Returns the options that every job has.
fn options(name: &str, rw: &str, block: u64, offset: u64, size: u64) -> Vec<String> {
    vec![
        format!("--name={name}"),
        format!("--rw={rw}"),
        format!("--bs={}", short(block)),
        format!("--offset={offset}"),
        format!("--size={size}"),
        "--direct=1".to_owned(),
    ]
}

/// Returns a size as fio writes it: `4k`, `1m`.
fn short(bytes: u64) -> String {
    match bytes {
        bytes if bytes.is_multiple_of(MIB) => format!("{}m", bytes / MIB),
        bytes => format!("{}k", bytes / KIB),
    }
}
