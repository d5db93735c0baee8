//! fio's JSON, with the keys, their order, the types and the layout of fio 3.33.
//!
//! `fio version` names the format. Data that fio does not have is under `flashlab` in each job, such as the
//! version of the program, the time per mechanism (integer nanoseconds that sum to the total clat) and the
//! tail of the write latencies.

use super::Run;
use crate::job::{Direction, Job};
use crate::stats::{
    BatchTable, DepthTable, DirectionStats, GroupLine, LatencyTable, LoggerBuffer, Report, groups, share,
    share_of_group,
};
use flashlab_sim::{Histogram, Mechanism, Moments};
use serde_json::{Map, Value, json};

/// Version of fio that defines the format.
pub const FORMAT: &str = "fio-3.33";

/// Choice between `json` and `json+`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bins {
    /// Percentiles only.
    Without,
    /// Percentiles, and the occupied buckets of each histogram.
    With,
}

/// Returns the text of `--output-format=json` or `json+`, which ends with a newline.
pub fn text(run: &Run<'_>, bins: Bins) -> String {
    layout(&document(run, bins))
}

/// Formats a document with the layout of fio's JSON. The text ends with a newline.
pub fn layout(document: &Value) -> String {
    let mut out = String::new();
    write_value(&mut out, document, 0);
    out.push('\n');
    out
}

/// Returns the JSON document as a value.
pub fn document(run: &Run<'_>, bins: Bins) -> Value {
    let mut document = json!({
        "fio version": FORMAT,
        "timestamp": 0,
        "timestamp_ms": 0,
        "time": "Thu Jan  1 00:00:00 1970",
    });
    if !run.global_options.is_empty() {
        document["global options"] = options(run.global_options);
    }
    let groups = groups(run.reports);
    document["jobs"] = run.reports.iter().map(|report| job(run, report, &groups, bins)).collect();
    document
}

/// Returns the options that have a value, as fio lists them.
fn options(options: &[(String, String)]) -> Value {
    let valued = options.iter().filter(|(_, value)| !value.is_empty());
    Value::Object(valued.map(|(name, value)| (name.clone(), value.as_str().into())).collect())
}

fn job(run: &Run<'_>, report: &Report, groups: &[(u32, Vec<GroupLine>)], bins: Bins) -> Value {
    let Report { job, stats, .. } = report;
    let mut out = json!({
        "jobname": job.name,
        "groupid": job.group,
        "error": stats.failure.map_or(0, |failure| failure.errno()),
        "eta": 0,
        "elapsed": run.elapsed_s(),
        "job options": options(&job.options),
    });
    for &(direction, name) in report.shown() {
        let per = share_of_group(groups, report, direction);
        out[name] = direction_value(stats.direction(direction), job, per, bins);
    }
    // fio 3.33 omits these members from a unified report.
    if !job.unified_rw_reporting {
        out["sync"] = json!({
            "total_ios": stats.sync.count(),
            "lat_ns": match job.percentiles_of.syncs() {
                true => histogram(&stats.sync, &job.percentiles, bins),
                false => moments(stats.sync.moments()),
            },
        });
    }
    let total = stats.total_ios();
    let rest = json!({
        "job_runtime": stats.job_runtime_ms,
        "usr_cpu": 0.0,
        "sys_cpu": stats.host_percent(),
        "ctx": 0,
        "majf": 0,
        "minf": 0,
        "iodepth_level": shares(&DepthTable::STEPS, stats.depths.counts(), total, 0.1),
        "iodepth_submit": shares(&BatchTable::STEPS, stats.submits.counts(), stats.submits.total(), 0.1),
        "iodepth_complete": shares(&BatchTable::STEPS, stats.completes.counts(), stats.completes.total(), 0.1),
        "latency_ns": shares(&LatencyTable::STEPS, stats.latency.ns(), total, 0.01),
        "latency_us": shares(&LatencyTable::STEPS, stats.latency.us(), total, 0.01),
        "latency_ms": shares(&LatencyTable::STEPS_MS, stats.latency.ms(), total, 0.01),
        "latency_depth": job.depth,
        "latency_target": 0,
        "latency_percentile": 100.0,
        "latency_window": 0,
    });
    let Value::Object(rest) = rest else { unreachable!("written as an object") };
    out.as_object_mut().expect("written as an object").extend(rest);
    if let Some(description) = &job.description {
        out["desc"] = description.as_str().into();
    }
    out["flashlab"] = flashlab_values(run, report);
    out
}

fn direction_value(stats: &DirectionStats, job: &Job, per: f64, bins: Bins) -> Value {
    let rate = stats.bytes_per_second();
    let selected = job.percentiles_of;
    let with_percentiles = |latencies: &Histogram| histogram(latencies, &job.percentiles, bins);
    let slat = if selected.slat { with_percentiles(&stats.slat_histogram()) } else { moments(&stats.slat()) };
    let clat = if selected.clat { with_percentiles(&stats.clat) } else { moments(stats.clat.moments()) };
    let lat = if selected.lat { with_percentiles(&stats.lat_histogram()) } else { moments(&stats.lat()) };
    let (bandwidth, iops) = (&stats.bandwidth, &stats.iops);
    json!({
        "io_bytes": stats.io_bytes,
        "io_kbytes": stats.io_bytes / 1_024,
        "bw_bytes": rate,
        "bw": rate / 1_024,
        "iops": stats.requests_per_second(),
        "runtime": stats.runtime_ms,
        "total_ios": stats.total_ios(),
        "short_ios": 0,
        "drop_ios": 0,
        "slat_ns": slat,
        "clat_ns": clat,
        "lat_ns": lat,
        "bw_min": bandwidth.min(),
        "bw_max": bandwidth.max(),
        "bw_agg": per,
        "bw_mean": bandwidth.mean(),
        "bw_dev": bandwidth.stddev(),
        "bw_samples": bandwidth.count(),
        "iops_min": iops.min(),
        "iops_max": iops.max(),
        "iops_mean": iops.mean(),
        "iops_stddev": iops.stddev(),
        "iops_samples": iops.count(),
    })
}

fn moments(moments: &Moments) -> Value {
    json!({
        "min": moments.min_ns(),
        "max": moments.max_ns(),
        "mean": moments.mean_ns(),
        "stddev": moments.stddev_ns(),
        "N": moments.count(),
    })
}

fn histogram(latencies: &Histogram, percentiles: &[f64], bins: Bins) -> Value {
    let mut out = moments(latencies.moments());
    if latencies.count() == 0 {
        return out;
    }
    if !percentiles.is_empty() {
        let mut list = percentiles.to_vec();
        list.sort_by(f64::total_cmp);
        let pairs = list.iter().map(|&p| (format!("{p:.6}"), latencies.percentile(p).as_ns().into()));
        out["percentile"] = Value::Object(pairs.collect());
    }
    if bins == Bins::With {
        out["bins"] = Value::Object(latencies.occupied().map(|(ns, n)| (ns.to_string(), n.into())).collect());
    }
    out
}

fn shares(steps: &[&str], counts: &[u64], total: u64, least: f64) -> Value {
    let pairs = steps.iter().zip(counts).map(|(step, &n)| (step.to_string(), share(n, total, least).into()));
    Value::Object(pairs.collect())
}

fn times(mechanisms_ns: impl Iterator<Item = (Mechanism, u64)>) -> Value {
    Value::Object(mechanisms_ns.map(|(mechanism, ns)| (mechanism.name().to_owned(), ns.into())).collect())
}

fn flashlab_values(run: &Run<'_>, report: &Report) -> Value {
    let stats = &report.stats;
    let mut mechanisms: Map<String, Value> = report
        .shown()
        .iter()
        .map(|&(direction, name)| (name.to_owned(), times(stats.direction(direction).mechanisms_ns())))
        .collect();
    if stats.sync.sum_ns() > 0 {
        mechanisms.insert("sync".to_owned(), times(stats.sync_mechanisms_ns()));
    }
    let mut out = json!({
        "version": run.version,
        "jobs": report.jobs,
        "without_effect": run.accepted,
        "mechanisms_ns": mechanisms,
    });
    if stats.direction(Direction::Write).runtime_ms > 0
        && let Some(tail) = stats.write_tail()
    {
        let loggers = stats.loggers.iter().map(|logger| {
            json!({
                "bytes_per_second": logger.rate(),
                "buffer_bytes": logger.bytes(),
                "keeps_up": logger.is_fast_enough(),
                "is_lower_bound": true,
                "leaves_out": LoggerBuffer::LIMITATION,
            })
        });
        out["write_tail"] = json!({
            "fitted": false,
            "p99_ns": tail.p99.as_ns(),
            "p99_9_ns": tail.p99_9.as_ns(),
            "max_ns": tail.max.as_ns(),
            "loggers": loggers.collect::<Vec<Value>>(),
        });
    }
    if let Some(failure) = &stats.failure {
        out["failure"] = json!({
            "at_ns": failure.at.as_ns(),
            "direction": failure.operation(),
            "offset": failure.io.offset,
            "length": failure.io.length,
        });
    }
    out
}

/// Writes a value with fio's layout: two spaces per level, a space before the colon, six decimals.
fn write_value(out: &mut String, value: &Value, level: usize) {
    let line = |out: &mut String, level: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", level));
    };
    match value {
        Value::Object(members) => {
            out.push('{');
            for (i, (name, member)) in members.iter().enumerate() {
                out.push_str(if i == 0 { "" } else { "," });
                line(out, level + 1);
                out.push_str(&Value::from(name.as_str()).to_string());
                out.push_str(" : ");
                write_value(out, member, level + 1);
            }
            line(out, level);
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                out.push_str(if i == 0 { "" } else { "," });
                line(out, level + 1);
                write_value(out, item, level + 1);
            }
            line(out, level);
            out.push(']');
        }
        Value::Number(number) if number.is_f64() => {
            out.push_str(&format!("{:.6}", number.as_f64().expect("the number is a float")));
        }
        other => out.push_str(&other.to_string()),
    }
}
