//! Options for engines, queue depth and durability.

use super::{Entry, Kind, form, irrelevant, modelled, nearest, refused};
use crate::job::{Engine, SyncWrites};
use crate::number::{Fault, ValueError};

const U32: u64 = u32::MAX as u64;
/// Maximum queue depth, which is also the maximum number of entries of an NVMe queue.
const DEPTH_MAX: u64 = 65_536;

const SYNCHRONOUS: &[&str] = &["sync", "psync", "vsync", "pvsync", "pvsync2"];
const ASYNCHRONOUS: &[&str] = &["libaio", "io_uring", "posixaio", "null"];
const OTHER: &[&str] = &[
    "rbd",
    "rados",
    "mmap",
    "splice",
    "netsplice",
    "sg",
    "net",
    "cpuio",
    "rdma",
    "e4defrag",
    "falloc",
    "gfapi",
    "gfapi_async",
    "pmemblk",
    "dev-dax",
    "filecreate",
    "filestat",
    "filedelete",
    "ftruncate",
    "external",
    "exec",
    "libpmem",
    "nbd",
    "mtd",
    "io_uring_cmd",
    "libblkio",
    "libcufile",
    "libhdfs",
    "http",
    "guasi",
    "dfs",
    "nfs",
    "xnvme",
    "libzbc",
    "binject",
];

/// Asynchronous engines of other operating systems.
const OTHER_SYSTEMS: &[&str] = &["solarisaio", "windowsaio"];

fn engine(text: &str) -> Result<Engine, ValueError> {
    let name = text.trim_end();
    if SYNCHRONOUS.contains(&name) {
        Ok(Engine::Synchronous)
    } else if ASYNCHRONOUS.contains(&name) {
        Ok(Engine::Asynchronous)
    } else if OTHER_SYSTEMS.contains(&name) {
        Err(Fault::NotModelled("it exists on another operating system only; libaio queues requests, too")
            .at(0))
    } else if OTHER.contains(&name.split(':').next().unwrap_or(name)) {
        Err(Fault::NotModelled(
            "this engine does more than queue requests, and is not modelled; \
             use psync for one request at a time, libaio or io_uring for a queue",
        )
        .at(0))
    } else {
        let words: Vec<&'static str> = SYNCHRONOUS.iter().chain(ASYNCHRONOUS).copied().collect();
        let did_you_mean = nearest(name, words.iter().copied());
        Err(Fault::NotOneOf { words, did_you_mean }.at(0))
    }
}

pub(super) const ENGINE: &[Entry] = &[
    modelled(
        "ioengine",
        &[],
        "psync",
        Kind::Form {
            form: "sync, psync, vsync, pvsync, pvsync2, libaio, io_uring, posixaio or null",
            read: |s, text| {
                s.job.engine = engine(text)?;
                s.job.engine_name = text.trim_end().to_string();
                Ok(())
            },
        },
        "Interface through which requests are submitted. Here it only determines their order: the synchronous engines \
         have one request in flight; libaio, io_uring and posixaio have up to iodepth. null has a queue, too, and \
         needs no direct=1. The cost of a call is in the host's profile, and is the same for all engines.",
    ),
    modelled(
        "iodepth",
        &[],
        "1",
        Kind::Count { least: 1, most: DEPTH_MAX, set: |s, n| s.job.depth = n as u32 },
        "How many requests an asynchronous engine keeps in flight. A synchronous engine always has one in flight.",
    ),
    modelled(
        "iodepth_batch",
        &["iodepth_batch_submit"],
        "1",
        Kind::Count { least: 0, most: U32, set: |s, n| s.job.batch_submit = n as u32 },
        "How many requests are collected and then submitted together; 0, and any value above iodepth, means iodepth.",
    ),
    modelled(
        "iodepth_batch_complete_min",
        &["iodepth_batch_complete"],
        "1",
        Kind::Count { least: 0, most: U32, set: |s, n| s.job.batch_complete_min = n as u32 },
        "How many completions the job waits for at a time. With 0 the job polls for completions before each request, \
         and never waits for them while its queue has room.",
    ),
    modelled(
        "iodepth_batch_complete_max",
        &[],
        "",
        Kind::Count { least: 0, most: U32, set: |s, n| s.batch_complete_max = Some(n as u32) },
        "Maximum number of completions that are reaped at a time. If it is not set, or is below \
         iodepth_batch_complete_min, the latter applies.",
    ),
    modelled(
        "iodepth_low",
        &[],
        "",
        Kind::Count { least: 0, most: U32, set: |s, n| s.depth_low = n as u32 },
        "After the queue has been full, new requests wait until at most this many are in flight. If the \
         value is 0, above iodepth or not set, iodepth applies.",
    ),
    refused("serialize_overlap", &["0"], "overlapping requests are not serialized"),
    refused("io_submit_mode", &["inline"], "requests are submitted by the job itself, not by other threads"),
];

pub(super) const DURABILITY: &[Entry] = &[
    modelled(
        "direct",
        &[],
        "0",
        Kind::Boolean(|s, on| s.direct = on),
        "I/O that bypasses the page cache. With 0, fio's default, a model of Linux's page cache lies between the job \
         and the device (docs/buffered.md); ioengine=null always bypasses it.",
    ),
    modelled(
        "buffered",
        &[],
        "1",
        Kind::Boolean(|s, on| s.direct = !on),
        "The opposite of direct; the last of the two applies.",
    ),
    refused("atomic", &["0"], "no device here offers atomic writes"),
    modelled(
        "fsync",
        &[],
        "0",
        Kind::Count { least: 0, most: U32, set: |s, n| s.job.fsync = n as u32 },
        "A flush after every so many writes; on a filesystem it includes the metadata. 0 for none.",
    ),
    modelled(
        "fdatasync",
        &[],
        "0",
        Kind::Count { least: 0, most: U32, set: |s, n| s.job.fdatasync = n as u32 },
        "Like fsync, but without metadata that is not needed to read the data back.",
    ),
    modelled(
        "fsync_on_close",
        &[],
        "0",
        Kind::Boolean(|s, on| s.job.fsync_on_close = on),
        "A flush whenever a file that was written is closed.",
    ),
    modelled(
        "end_fsync",
        &[],
        "0",
        Kind::Boolean(|s, on| s.job.end_fsync = on),
        "A flush of every file at the end of the job, as part of it.",
    ),
    modelled(
        "sync",
        &[],
        "none",
        Kind::Word {
            words: &["none", "0", "sync", "1", "dsync"],
            set: |s, word| {
                s.job.sync = match word {
                    0 | 1 => None,
                    2 | 3 => Some(SyncWrites::All),
                    _ => Some(SyncWrites::Data),
                }
            },
        },
        "With sync or dsync every write is durable before it completes: its flush is part of its latency.",
    ),
    refused("write_barrier", &["0"], "there are no barrier writes; fsync and sync order writes"),
    modelled(
        "sync_file_range",
        &[],
        "",
        Kind::Form {
            form: "wait_before, write or wait_after, or several separated by commas, with a number of blocks: write:8",
            read: |s, text| {
                form::sync_file_range(text, s.kb_base)?;
                s.job.sync_file_range = true;
                Ok(())
            },
        },
        "Writes back pages of the page cache. Direct I/O leaves none there; a job with direct=0 is refused with this option.",
    ),
    irrelevant(
        "write_hint",
        "no device here takes hints about the lifetime of data, and Linux then drops them",
    ),
];

pub(super) const ENGINE_DETAILS: &[Entry] = &[
    irrelevant("userspace_reap", "both ways to collect completions of libaio cost the same here"),
    irrelevant(
        "fixedbufs",
        "the host's profile sets the cost of a call, regardless of how io_uring receives buffers",
    )
    .switch(),
    irrelevant(
        "registerfiles",
        "the host's profile sets the cost of a call, regardless of how io_uring receives files",
    )
    .switch(),
    irrelevant("nonvectored", "a request has one buffer with both calls"),
    irrelevant("force_async", "io_uring's own threads cost nothing here"),
    irrelevant("cmd_type", "it chooses among commands of io_uring_cmd, which is not modelled"),
    irrelevant("sqthread_poll_cpu", "it has an effect only with sqthread_poll, which is refused"),
    refused("hipri", &["0"], "completions arrive by interrupt; polling has other costs").switch(),
    refused("hipri_percentage", &["0"], "completions arrive by interrupt; polling has other costs"),
    refused(
        "sqthread_poll",
        &["0"],
        "requests are submitted by system calls; a polling thread has other costs",
    )
    .switch(),
    refused("uncached", &["0"], "the page cache here keeps every page that was read or written"),
    refused("nowait", &["0"], "requests are not rejected when the device is busy"),
    refused("cmdprio_percentage", &["0"], "the queue has no priorities"),
    refused("cmdprio_class", &[], "the queue has no priorities"),
    refused("cmdprio", &["0"], "the queue has no priorities"),
    refused("cmdprio_bssplit", &[], "the queue has no priorities"),
];

const fn other(name: &'static str) -> Entry {
    refused(name, &[], "it belongs to an engine that is not modelled")
}

pub(super) const OTHER_ENGINES: &[Entry] = &[
    other("thp"),
    other("skip_bad"),
    other("hostname"),
    other("bindname"),
    other("port"),
    other("verb"),
    other("protocol").with_aliases(&["proto"]),
    other("nodelay"),
    other("listen"),
    other("pingpong"),
    other("interface"),
    other("ttl"),
    other("window_size"),
    other("mss"),
    other("volume"),
    other("brick"),
    other("single-instance"),
    other("program"),
    other("arguments"),
    other("grace_time"),
    other("std_redirect"),
    other("cpuload"),
    other("cpuchunks"),
    other("cpumode"),
    other("exit_on_io_done"),
    other("clustername"),
    other("rbdname"),
    other("pool"),
    other("clientname"),
    other("busy_poll"),
    other("conf"),
    other("touch_objects"),
    other("donorname"),
    other("inplace"),
    other("uri"),
    other("stat_type"),
    other("readfua"),
    other("writefua"),
    other("sg_write_mode"),
    other("stream_id"),
];
