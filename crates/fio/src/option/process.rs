//! Options for units, names, buffers, processes and the machine that fio runs on.

use super::{Entry, Kind, irrelevant, modelled, refused};
use crate::number::KbBase;

pub(super) const UNITS: &[Entry] = &[
    modelled(
        "name",
        &[],
        "",
        Kind::Text(|s, text| s.name = Some(text.to_string())),
        "The name of the job. On a command line it begins a job; options before the first one hold for all.",
    ),
    modelled(
        "description",
        &[],
        "",
        Kind::Text(|s, text| s.job.description = Some(text.to_string())),
        "A text about the job, repeated in the output.",
    ),
    modelled(
        "kb_base",
        &[],
        "1024",
        Kind::Word {
            words: &["1024", "1000"],
            set: |s, word| {
                s.kb_base = [KbBase::Binary, KbBase::Decimal][word];
                s.job.kb_base = [1024, 1000][word];
            },
        },
        "What k, m, g, t and p mean. With 1024, fio's default, 4k and 4kb are 4096 and 4kib is 4000; with 1000 the other \
         way round. In a section of a job file it holds for all options, on a command line for those after it. It also \
         decides whether the output puts MiB or MB first.",
    ),
    irrelevant("unit_base", "rates are reported in bytes"),
];

const NO_BYTES: &str = "the device determines timing without contents, or flashlab fills the buffers itself";

const COMPRESS: &str =
    "--compressibility sets how well the written data compresses, on devices that move bytes";
const DEDUPE: &str = "no device here looks for duplicates in the data that it stores";

pub(super) const BUFFERS: &[Entry] = &[
    irrelevant("zero_buffers", NO_BYTES).switch(),
    irrelevant("refill_buffers", NO_BYTES).switch(),
    irrelevant("scramble_buffers", NO_BYTES),
    irrelevant("buffer_pattern", NO_BYTES),
    irrelevant("buffer_compress_percentage", COMPRESS),
    irrelevant("buffer_compress_chunk", COMPRESS),
    irrelevant("dedupe_percentage", DEDUPE),
    irrelevant("dedupe_mode", DEDUPE),
    irrelevant("dedupe_working_set_percentage", DEDUPE),
    irrelevant("dedupe_global", DEDUPE),
    irrelevant("mem", "a simulation moves no bytes and has no buffers").with_aliases(&["iomem"]),
    irrelevant("iomem_align", "a simulation moves no bytes and has no buffers").with_aliases(&["mem_align"]),
    irrelevant("hugepage-size", "a simulation moves no bytes and has no buffers"),
    irrelevant("lockmem", "nothing else competes for memory"),
];

pub(super) const PROCESSES: &[Entry] = &[
    irrelevant("thread", "whether jobs are threads or processes makes no difference to a device").switch(),
    irrelevant("threads", "fio accepts it, but does not use it; numjobs= starts clones of a job"),
    irrelevant("nice", "nothing else competes for the processor"),
    irrelevant("cpumask", "the host's costs do not depend on which processor a job runs on"),
    irrelevant("cpus_allowed", "the host's costs do not depend on which processor a job runs on"),
    irrelevant("cpus_allowed_policy", "the host's costs do not depend on which processor a job runs on"),
    irrelevant("numa_cpu_nodes", "the host's memory has the same cost everywhere"),
    irrelevant("numa_mem_policy", "the host's memory has the same cost everywhere"),
    irrelevant("uid", "a simulated device has no owner"),
    irrelevant("gid", "a simulated device has no owner"),
    irrelevant("cgroup", "there are no control groups; cgroup_weight is refused"),
    irrelevant("cgroup_nodelete", "there are no control groups; cgroup_weight is refused"),
    refused("cgroup_weight", &[], "jobs have equal weight"),
    refused("prio", &["0"], "the queue has no priorities"),
    refused("prioclass", &["0", "2"], "the queue has no priorities"),
    refused(
        "ioscheduler",
        &["none", "noop"],
        "requests reach the device in the order in which they were made",
    ),
];
