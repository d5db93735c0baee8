//! A job with every option resolved to a value.
//!
//! The option table converts the text of the options into a [`Job`]. Workloads, statistics and output read only the
//! [`Job`].

use crate::verify::Verify;
use flashlab_sim::Duration;
use std::sync::Arc;

/// The `rw=` pattern.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pattern {
    /// True for random offsets, false for sequential ones.
    pub random: bool,
    /// Operations that the job mixes.
    pub mix: Mix,
    /// `rw=randread:8`: number of consecutive requests at each random offset (1 by default). Sequential
    /// patterns use `sequence_skip` instead.
    pub sequence: u32,
    /// `rw=write:4k`: number of bytes skipped after each sequential request; may be negative.
    pub sequence_skip: i64,
}

/// The operations that a job mixes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mix {
    /// Only reads.
    Read,
    /// Only writes.
    Write,
    /// Only trims.
    Trim,
    /// Reads and writes; `rwmixread` is the percentage of reads.
    ReadWrite,
    /// Trims each range, then writes it.
    TrimWrite,
}

impl Mix {
    /// Returns the directions of the operations.
    pub const fn directions(self) -> &'static [Direction] {
        match self {
            Mix::Read => &[Direction::Read],
            Mix::Write => &[Direction::Write],
            Mix::Trim => &[Direction::Trim],
            Mix::ReadWrite => &[Direction::Read, Direction::Write],
            Mix::TrimWrite => &[Direction::Trim, Direction::Write],
        }
    }
}

/// A direction of fio's statistics. It is also an index into `[_; 3]`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(usize)]
pub enum Direction {
    /// Reads.
    Read = 0,
    /// Writes.
    Write = 1,
    /// Trims.
    Trim = 2,
}

impl Direction {
    /// All directions, in the order of fio's output.
    pub const ALL: [Direction; 3] = [Direction::Read, Direction::Write, Direction::Trim];
    /// Returns the name of the direction in fio's JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Direction::Read => "read",
            Direction::Write => "write",
            Direction::Trim => "trim",
        }
    }
}

/// One entry of `bssplit`: a block size and its share in percent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SizeShare {
    /// Size in bytes.
    pub bytes: u64,
    /// Share of the requests in percent.
    pub percent: u32,
}

/// Block sizes of one direction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BlockSize {
    /// `bs=4k`
    Fixed(u64),
    /// `bsrange=4k-16k`: uniform over the multiples of the minimum; a maximum that is no multiple is rarer.
    Range {
        /// Minimum in bytes.
        min: u64,
        /// Maximum in bytes.
        max: u64,
    },
    /// `bssplit=4k/60:64k/40`; the shares sum to 100.
    Split(Vec<SizeShare>),
}

impl BlockSize {
    /// Returns the minimum and maximum size of a request in bytes. As in fio, sizes of `bssplit` with a share of 0
    /// percent count.
    pub fn bounds(&self) -> (u64, u64) {
        match self {
            BlockSize::Fixed(bytes) => (*bytes, *bytes),
            BlockSize::Range { min, max } => (*min, *max),
            BlockSize::Split(shares) => {
                let sizes = || shares.iter().map(|share| share.bytes);
                (sizes().min().unwrap_or(0), sizes().max().unwrap_or(0))
            }
        }
    }
}

/// A size in bytes or relative to the whole: `size=10g`, `size=50%`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// Size in bytes.
    Bytes(u64),
    /// Percentage of the device or file.
    Percent(u32),
}

/// Order of submissions and completions. An ioengine determines only this order, since there is no operating system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Engine {
    /// `sync`, `psync`, `vsync`, `pvsync`, `pvsync2`, but not `mmap`: one request at a time, regardless of `iodepth`.
    Synchronous,
    /// `libaio`, `io_uring`, `posixaio`, `null`: up to `iodepth` requests at a time.
    Asynchronous,
}

/// `random_distribution=`
#[derive(Clone, PartialEq, Debug)]
pub enum Distribution {
    /// Every block has the same probability.
    Uniform,
    /// Zipf with exponent theta.
    Zipf(f64),
    /// Pareto with shape h.
    Pareto(f64),
    /// Normal around the middle of the range, with the deviation in percent of the range.
    Normal(f64),
    /// `zoned=60/10:30/20:...`: percentage of the accesses and percentage of the range, per zone.
    Zoned(Vec<(u32, u32)>),
    /// `zoned_abs=60/20G:...`: percentage of the accesses and size in bytes, per zone.
    ZonedAbsolute(Vec<(u32, u64)>),
}

/// The data and metadata that a synchronous write waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SyncWrites {
    /// `O_SYNC`: the data and all metadata.
    All,
    /// `O_DSYNC`: the data, and the metadata needed to find it.
    Data,
}

/// The advice on the access pattern that a job gives the page cache for its files: `fadvise_hint=`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FadviseHint {
    /// No advice.
    None,
    /// Sequential or random, according to the job's pattern (fio's default).
    Pattern,
    /// Sequential access.
    Sequential,
    /// Random access.
    Random,
}

/// The effect of `fallocate=` when a file is laid out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fallocate {
    /// Nothing is allocated; the file grows as it is written.
    None,
    /// `posix_fallocate`, and `native` (fio's default): the whole file is allocated before the timed window.
    Native,
    /// `fallocate` with `KEEP_SIZE`.
    Keep,
    /// The size of the file is set, but nothing is allocated.
    Truncate,
}

/// Latencies whose percentiles are reported: `slat_percentiles=`, `clat_percentiles=` and `lat_percentiles=`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PercentilesOf {
    /// Submission latency.
    pub slat: bool,
    /// Completion latency.
    pub clat: bool,
    /// Total latency.
    pub lat: bool,
}

impl Default for PercentilesOf {
    fn default() -> Self {
        PercentilesOf { slat: false, clat: true, lat: false }
    }
}

impl PercentilesOf {
    /// Returns true if percentiles of flush latencies are reported. They accompany those of completion or total
    /// latency.
    pub const fn syncs(self) -> bool {
        self.clat || self.lat
    }
}

/// A job with the values of all its options.
#[derive(Clone, PartialEq, Debug)]
pub struct Job {
    /// Name of the section.
    pub name: String,
    /// Number of this clone among the `numjobs` clones, from 0.
    pub clone: u32,
    /// Number of the job's wave. The jobs of a wave run together; `stonewall` starts the next wave.
    pub wave: u32,
    /// Number of the job's reporting group. With `group_reporting` the jobs of a group share one line; `stonewall` and
    /// `new_group` start the next group.
    pub group: u32,
    /// True if the group is reported as one job.
    pub group_reporting: bool,
    /// `description=`
    pub description: Option<String>,
    /// Options as written: (name, value) pairs in order, for the JSON object `job options`.
    pub options: Vec<(String, String)>,
    /// Options of the `[global]` sections that apply to the job, as written: those above it.
    pub inherited: Arc<Vec<(String, String)>>,

    /// `rw=`
    pub pattern: Pattern,
    /// `rwmixread=` in percent.
    pub rw_mix_read: u32,
    /// `bs=`, `bssplit=`, `bsrange=`, per direction.
    pub block_size: [BlockSize; 3],
    /// `blockalign=` per direction, in bytes. The offsets of random requests from the start of the region are
    /// multiples of this value.
    pub block_align: [u64; 3],
    /// `size=`: number of bytes that one pass covers. `None` means the size of the file or device.
    pub size: Option<Extent>,
    /// `filesize=`
    pub file_size: Option<u64>,
    /// `io_size=`: number of bytes after which a job with one loop ends. `None` means `size`.
    pub io_size: Option<Extent>,
    /// `offset=`
    pub offset: Extent,
    /// `offset_increment=`: bytes (or percent) per clone. The clone's number times this value is added to the offset.
    pub offset_increment: Extent,
    /// `number_ios=`
    pub number_ios: Option<u64>,
    /// `loops=`
    pub loops: u64,

    /// `runtime=`; `None` for no limit.
    pub runtime: Option<Duration>,
    /// `time_based`
    pub time_based: bool,
    /// `ramp_time=`
    pub ramp_time: Duration,
    /// `startdelay=`
    pub start_delay: Duration,
    /// `thinktime=`
    pub think_time: Duration,
    /// `thinktime_blocks=`
    pub think_time_blocks: u64,
    /// `rate=` in bytes a second, per direction.
    pub rate: [Option<u64>; 3],
    /// `rate_iops=` per direction.
    pub rate_iops: [Option<u64>; 3],
    /// `max_latency=` per direction: a request that takes longer ends the job.
    pub max_latency: [Option<Duration>; 3],

    /// `ioengine=`.
    pub engine: Engine,
    /// Name of the engine as written, for the output.
    pub engine_name: String,
    /// `iodepth=`
    pub depth: u32,
    /// `iodepth_batch=`
    pub batch_submit: u32,
    /// `iodepth_batch_complete_min=`
    pub batch_complete_min: u32,
    /// `iodepth_batch_complete_max=`
    pub batch_complete_max: u32,
    /// `iodepth_low=`
    pub depth_low: u32,

    /// `fsync=`: number of writes after which a flush follows; 0 for none.
    pub fsync: u32,
    /// `fdatasync=`
    pub fdatasync: u32,
    /// `fsync_on_close`
    pub fsync_on_close: bool,
    /// `end_fsync`
    pub end_fsync: bool,
    /// `sync=sync` or `sync=dsync`: every write is durable before it completes.
    pub sync: Option<SyncWrites>,
    /// True if the I/O passes through the page cache: `direct=0`, fio's default. False for `ioengine=null`.
    pub buffered: bool,
    /// `fadvise_hint=`
    pub fadvise_hint: FadviseHint,
    /// `invalidate=` (true by default): cached pages of the files are dropped before the job.
    pub invalidate: bool,
    /// `sync_file_range=`
    pub sync_file_range: bool,

    /// `random_distribution=`
    pub distribution: Distribution,
    /// `norandommap`
    pub no_random_map: bool,
    /// `randrepeat` (true by default): every run uses the same offsets.
    pub rand_repeat: bool,
    /// `randseed=`
    pub rand_seed: Option<u64>,
    /// `allrandrepeat`
    pub all_rand_repeat: bool,
    /// `percentage_random=` per direction.
    pub percentage_random: [u32; 3],

    /// `filename=` (split at `:`), or the names that fio generates: `name.clone.file`.
    pub files: Vec<String>,
    /// `directory=`: the files lie on a filesystem, in this directory.
    pub directory: Option<String>,
    /// `nrfiles=`
    pub nr_files: u32,
    /// `fallocate=`
    pub fallocate: Fallocate,
    /// `overwrite=`: the file is written once before the timed window.
    pub overwrite: bool,
    /// `unlink=`: the job's files are removed after its wave has ended.
    pub unlink: bool,
    /// `read_iolog=`: the requests come from this file.
    pub read_iolog: Option<String>,
    /// `replay_no_stall`: requests are replayed as fast as possible.
    pub replay_no_stall: bool,

    /// `verify=` and its related options.
    pub verify: Verify,

    /// `write_bw_log=`: prefix of the `_bw` logs.
    pub write_bw_log: Option<String>,
    /// `write_lat_log=`: prefix of the `_lat`, `_clat` and `_slat` logs.
    pub write_lat_log: Option<String>,
    /// `write_iops_log=`: prefix of the `_iops` logs.
    pub write_iops_log: Option<String>,
    /// `write_iolog=`: file for the issued requests, in fio's iolog format.
    pub write_iolog: Option<String>,
    /// `log_avg_msec=`: averaging window of the logs in milliseconds; with 0, every request is logged.
    pub log_avg_msec: u64,
    /// `percentile_list=`, or fio's default list.
    pub percentiles: Vec<f64>,
    /// Latencies whose percentiles are reported.
    pub percentiles_of: PercentilesOf,
    /// `unified_rw_reporting`
    pub unified_rw_reporting: bool,
    /// `kb_base=`: 1024 (fio's default) or 1000. It decides whether the normal output puts MiB or MB first.
    pub kb_base: u32,
}

impl Job {
    /// Returns true if the job has one request in flight, whatever `iodepth` says: under a synchronous engine, and
    /// under libaio and posixaio with buffered I/O. For a buffered request, `io_submit` returns only after the request
    /// has completed, and glibc's implementation of POSIX AIO has one thread per file.
    pub fn has_one_request_at_a_time(&self) -> bool {
        self.engine == Engine::Synchronous
            || (self.buffered && matches!(self.engine_name.as_str(), "libaio" | "posixaio"))
    }

    /// Returns the largest number of requests that the job has in flight.
    pub fn effective_depth(&self) -> u32 {
        if self.has_one_request_at_a_time() { 1 } else { self.depth }
    }
}

impl Default for Job {
    /// Returns the defaults of fio 3.33, but with `direct=1`: sequential 4 KiB reads, one at a time, with the engine
    /// `psync`.
    fn default() -> Self {
        Job {
            name: "job".to_string(),
            clone: 0,
            wave: 0,
            group: 0,
            group_reporting: false,
            description: None,
            options: Vec::new(),
            inherited: Arc::default(),
            pattern: Pattern { random: false, mix: Mix::Read, sequence: 1, sequence_skip: 0 },
            rw_mix_read: 50,
            block_size: [BlockSize::Fixed(4096), BlockSize::Fixed(4096), BlockSize::Fixed(4096)],
            block_align: [4096; 3],
            size: None,
            file_size: None,
            io_size: None,
            offset: Extent::Bytes(0),
            offset_increment: Extent::Bytes(0),
            number_ios: None,
            loops: 1,
            runtime: None,
            time_based: false,
            ramp_time: Duration::ZERO,
            start_delay: Duration::ZERO,
            think_time: Duration::ZERO,
            think_time_blocks: 1,
            rate: [None; 3],
            rate_iops: [None; 3],
            max_latency: [None; 3],
            engine: Engine::Synchronous,
            engine_name: "psync".to_string(),
            depth: 1,
            batch_submit: 1,
            batch_complete_min: 1,
            batch_complete_max: 1,
            depth_low: 1,
            fsync: 0,
            fdatasync: 0,
            fsync_on_close: false,
            end_fsync: false,
            sync: None,
            buffered: false,
            fadvise_hint: FadviseHint::Pattern,
            invalidate: true,
            sync_file_range: false,
            distribution: Distribution::Uniform,
            no_random_map: false,
            rand_repeat: true,
            rand_seed: None,
            all_rand_repeat: false,
            percentage_random: [100; 3],
            files: vec!["job.0.0".to_string()],
            directory: None,
            nr_files: 1,
            fallocate: Fallocate::Native,
            overwrite: false,
            unlink: false,
            read_iolog: None,
            replay_no_stall: false,
            verify: Verify::default(),
            write_bw_log: None,
            write_lat_log: None,
            write_iops_log: None,
            write_iolog: None,
            log_avg_msec: 0,
            percentiles: PERCENTILES.to_vec(),
            percentiles_of: PercentilesOf::default(),
            unified_rw_reporting: false,
            kb_base: 1024,
        }
    }
}

/// Percentiles of completion latency that fio prints by default; `percentile_list` replaces them.
pub const PERCENTILES: [f64; 17] =
    [1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99];
