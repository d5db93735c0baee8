//! Findings: a value with its confidence, its evidence and its cost.

use serde::{Deserialize, Serialize};

/// A property of a device that the probe looks for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Name {
    /// Capacity that really stores data.
    Capacity,
    /// Least queue depth at which random reads reach 90 % of their greatest rate.
    QueueDepth,
    /// Range of addresses whose map the controller's memory holds.
    MapCoverage,
    /// Page of the array, as reads across its boundaries show it.
    ReadPage,
    /// Amount of data after which a sequential write leaves no program incomplete.
    ProgramUnit,
    /// Time that a write adds by leaving a program unit incomplete.
    PartialUnitCost,
    /// Unit that a small random write replaces without reading old data: an entry of the map, or a page.
    RandomWriteUnit,
    /// Unit that the device rewrites as a whole when a part of it is overwritten.
    RewriteUnit,
    /// Number of sequential streams, or allocation units, that can be open at a time.
    OpenUnits,
    /// Allocation unit: the unit that is merged when it is closed, or within which flash is allocated.
    AllocationUnit,
    /// Buffer that completes writes before they are programmed.
    WriteBuffer,
    /// Area of faster cells that takes sequential writes before they are folded.
    SlcBuffer,
    /// Area of faster cells that takes data that is rewritten again and again in one place.
    RewriteArea,
    /// Ratio of write times in a filled range to those in a discarded range.
    Discard,
    /// Ratio of read times of written data to those of discarded data.
    DiscardReads,
    /// Ratio of write times under load to those after an idle period.
    Idle,
    /// Flash beyond the exported capacity, as a share of the exported capacity.
    OverProvisioning,
}

impl Name {
    /// All properties.
    pub const ALL: [Name; 17] = [
        Name::Capacity,
        Name::QueueDepth,
        Name::MapCoverage,
        Name::ReadPage,
        Name::ProgramUnit,
        Name::PartialUnitCost,
        Name::RandomWriteUnit,
        Name::RewriteUnit,
        Name::OpenUnits,
        Name::AllocationUnit,
        Name::WriteBuffer,
        Name::SlcBuffer,
        Name::RewriteArea,
        Name::Discard,
        Name::DiscardReads,
        Name::Idle,
        Name::OverProvisioning,
    ];

    /// Returns the name in plain words.
    pub const fn title(self) -> &'static str {
        match self {
            Name::Capacity => "capacity",
            Name::QueueDepth => "useful queue depth",
            Name::MapCoverage => "coverage of the map cache",
            Name::ReadPage => "read page",
            Name::ProgramUnit => "program unit",
            Name::PartialUnitCost => "cost of a partial unit",
            Name::RandomWriteUnit => "random-write unit",
            Name::RewriteUnit => "rewrite unit",
            Name::OpenUnits => "open units",
            Name::AllocationUnit => "allocation unit",
            Name::WriteBuffer => "write buffer",
            Name::SlcBuffer => "SLC buffer",
            Name::RewriteArea => "SLC area for rewrites",
            Name::Discard => "effect of discard on writes",
            Name::DiscardReads => "effect of discard on reads",
            Name::Idle => "effect of idle time",
            Name::OverProvisioning => "over-provisioning",
        }
    }
}

/// The value of a finding.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Value {
    /// A size in bytes.
    Bytes(u64),
    /// Sizes in bytes of the levels of a hierarchy, smallest first.
    Levels(Vec<u64>),
    /// A number of things.
    Count(u64),
    /// A time in nanoseconds.
    TimeNs(u64),
    /// A ratio of two times.
    Ratio(f64),
    /// A share of the capacity.
    Share(f64),
    /// The device shows no such property up to this size in bytes.
    NoneUpToBytes(u64),
    /// The device shows no such property up to this size in bytes, but another mechanism may hide it.
    HiddenOrNoneUpToBytes(u64),
    /// The device shows no such property up to this number.
    NoneUpToCount(u64),
    /// The device shows no effect.
    NoEffect,
    /// The pattern was not run, the device refused it, or it gave no stable result.
    NotMeasured,
}

/// Trust in a finding, by the rule of [`Contrast`](super::statistics::Contrast) unless the finding's reason names
/// another one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Confidence {
    /// No answer.
    None,
    /// An answer that a second measurement should confirm.
    Low,
    /// An answer that chance does not explain.
    High,
}

impl Confidence {
    /// Returns the name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Confidence::None => "none",
            Confidence::Low => "low",
            Confidence::High => "high",
        }
    }
}

/// The results of a probe.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Findings {
    /// The target, as it was named.
    pub target: String,
    /// Version of the program.
    pub version: String,
    /// Seed of the random offsets and of a virtual device's medium.
    pub seed: u64,
    /// Claimed capacity in bytes.
    pub capacity: u64,
    /// Logical block size in bytes.
    pub block: u64,
    /// Bytes that the probe wrote.
    pub written_bytes: u64,
    /// True if the probe was permitted to write.
    pub destroy: bool,
    /// The findings in the order in which they were made.
    pub findings: Vec<Finding>,
}

/// A finding with its evidence.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Finding {
    /// The property.
    pub name: Name,
    /// The value of the property.
    pub value: Value,
    /// Trust in the value.
    pub confidence: Confidence,
    /// The observation that led to the value, in a sentence.
    pub reason: String,
    /// The series for a figure.
    pub evidence: Evidence,
    /// Bytes that the pattern wrote for this finding.
    pub written_bytes: u64,
}

/// Series behind a finding.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Evidence {
    /// Label of the horizontal axis with its unit.
    pub x: String,
    /// Label of the vertical axis with its unit.
    pub y: String,
    /// The lines of the figure.
    pub lines: Vec<Line>,
}

/// A line of a figure.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Line {
    /// Name in the legend.
    pub name: String,
    /// Points (x, y) in ascending order of x.
    pub points: Vec<(f64, f64)>,
}
