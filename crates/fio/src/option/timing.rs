//! Options for the start, the end and the speed of jobs.

use super::{Entry, Kind, irrelevant, modelled, refused};
use crate::number::{self, Fault, LARGEST, TimeUnit, each_direction, merge};

pub(super) const TIME: &[Entry] = &[
    modelled(
        "runtime",
        &["timeout"],
        "",
        Kind::Time {
            unit: TimeUnit::Seconds,
            set: |s, time| s.job.runtime = (time.as_ns() > 0).then_some(time),
        },
        "Ends the job after this time, if it has not ended before; 0 for no limit. A ramp_time precedes it.",
    ),
    modelled(
        "time_based",
        &[],
        "0",
        Kind::Switch(|s, on| s.job.time_based = on),
        "The job starts over when it has covered its size, until runtime is over.",
    ),
    modelled(
        "ramp_time",
        &[],
        "0",
        Kind::Time { unit: TimeUnit::Seconds, set: |s, time| s.job.ramp_time = time },
        "The job runs for this time before anything is counted.",
    ),
    modelled(
        "startdelay",
        &[],
        "0",
        Kind::Form {
            form: "a time; without a suffix, in seconds",
            read: |s, text| {
                s.job.start_delay = super::time(text, TimeUnit::Seconds).map_err(|error| {
                    let fault = match error.fault {
                        Fault::OneValue { .. } => Fault::NotModelled(
                            "a delay drawn from a range is not modelled; write a single time, such as 5",
                        ),
                        fault => fault,
                    };
                    fault.at(error.at)
                })?;
                Ok(())
            },
        },
        "The job starts this long after its wave.",
    ),
    modelled(
        "numjobs",
        &[],
        "1",
        Kind::Count { least: 1, most: 4096, set: |s, n| s.numjobs = n as u32 },
        "Makes this many clones of the job, which run together.",
    ),
    modelled(
        "stonewall",
        &["wait_for_previous"],
        "0",
        Kind::Switch(|s, on| s.stonewall = on),
        "The job starts when all jobs before it have ended; it begins a new wave and a new reporting group.",
    ),
    modelled(
        "new_group",
        &[],
        "0",
        Kind::Switch(|s, on| s.new_group = on),
        "Begins a new reporting group with this job.",
    ),
    refused("wait_for", &[], "jobs wait for all before them (stonewall), not for one by name"),
    refused("exitall", &["0"], "the end of a job does not end the others").switch(),
    irrelevant("exit_what", "it has an effect only with exitall, which is refused"),
    refused("exitall_on_error", &["0"], "a request that fails ends its own job, not the others").switch(),
    refused("flow", &["0"], "jobs do not throttle each other"),
    irrelevant("flow_id", "it has an effect only with flow, which is refused"),
    irrelevant("flow_sleep", "it has an effect only with flow, which is refused"),
    irrelevant("clocksource", "time is simulated, and no clock is read"),
    refused("profile", &[], "fio's built-in profiles make jobs of their own"),
    refused("exec_prerun", &[], "no program is run before a job"),
    refused("exec_postrun", &[], "no program is run after a job"),
];

pub(super) const RATE: &[Entry] = &[
    modelled(
        "thinktime",
        &[],
        "0",
        Kind::Time { unit: TimeUnit::Microseconds, set: |s, time| s.job.think_time = time },
        "The job pauses for this time after thinktime_blocks requests, but not beyond runtime, as in newer versions of \
         fio; fio 3.33 completes the pause.",
    ),
    irrelevant("thinktime_spin", "whether a pause is spent busy or asleep costs the device nothing"),
    modelled(
        "thinktime_blocks",
        &[],
        "1",
        Kind::Count { least: 1, most: LARGEST, set: |s, n| s.job.think_time_blocks = n },
        "How many requests come between pauses of thinktime.",
    ),
    refused("thinktime_blocks_type", &["complete"], "requests are counted when they complete"),
    refused("thinktime_iotime", &["0"], "pauses come after a number of requests, not after a time"),
    modelled(
        "rate",
        &[],
        "",
        Kind::Form {
            form: "one to three rates in bytes a second: for reads, writes and trims",
            read: |s, text| {
                merge(&mut s.job.rate, rates(text, s.kb_base)?);
                Ok(())
            },
        },
        "Maximum bytes a second; requests wait until they are due. 0 sets no limit. An empty value leaves the earlier \
         limit: rate=,500k limits writes and trims.",
    ),
    modelled(
        "rate_iops",
        &[],
        "",
        Kind::Form {
            form: "one to three rates in requests a second: for reads, writes and trims",
            read: |s, text| {
                merge(&mut s.job.rate_iops, rates(text, s.kb_base)?);
                Ok(())
            },
        },
        "Maximum requests a second, like rate for bytes.",
    ),
    refused("rate_min", &["0"], "a slow job is not ended").with_aliases(&["ratemin"]),
    refused("rate_iops_min", &["0"], "a slow job is not ended"),
    refused("rate_process", &["linear"], "requests are due at even intervals"),
    irrelevant("rate_cycle", "it has an effect only with rate_min, which is refused")
        .with_aliases(&["ratecycle"]),
    refused("rate_ignore_thinktime", &["0"], "pauses count as time of the job"),
];

pub(super) const TARGETS: &[Entry] = &[
    refused("latency_target", &["0"], "the depth of the queue is not adjusted to a latency"),
    irrelevant("latency_window", "it has an effect only with latency_target, which is refused"),
    irrelevant("latency_percentile", "it has an effect only with latency_target, which is refused"),
    irrelevant("latency_run", "it has an effect only with latency_target, which is refused"),
    modelled(
        "max_latency",
        &[],
        "0",
        Kind::Form {
            form: "one to three times, for reads, writes and trims; without a suffix, in microseconds",
            read: |s, text| {
                let time = |part: &str| super::time(part, TimeUnit::Microseconds);
                let limits = each_direction(text, &[','], time)?;
                let limits =
                    limits.map(|limit| limit.map(|limit| Some(limit).filter(|limit| limit.as_ns() > 0)));
                merge(&mut s.job.max_latency, limits);
                Ok(())
            },
        },
        "A request that takes longer ends the job with the error ETIMEDOUT, and flashlab with exit code 1; 0 for no \
         limit.",
    ),
    refused("steadystate", &[], "a job ends by its size or runtime, not when its speed has settled")
        .with_aliases(&["ss"]),
    irrelevant("steadystate_duration", "it has an effect only with steadystate, which is refused")
        .with_aliases(&["ss_dur"]),
    irrelevant("steadystate_ramp_time", "it has an effect only with steadystate, which is refused")
        .with_aliases(&["ss_ramp"]),
];

/// Parses rates. A rate of 0 becomes `Some(None)`, no limit.
fn rates(text: &str, base: number::KbBase) -> Result<[Option<Option<u64>>; 3], number::ValueError> {
    let rates = each_direction(text, &[','], |part| number::bytes(part, base))?;
    Ok(rates.map(|rate| rate.map(|rate| Some(rate).filter(|rate| *rate > 0))))
}
