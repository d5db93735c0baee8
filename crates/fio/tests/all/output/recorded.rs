//! Comparison with runs of Debian's fio 3.33 with `write_lat_log`: our statistics of the recorded latencies must equal
//! the output of fio for the same latencies.
//!
//! The log contains neither the windows of bw and iops nor the latencies of fsync. Other tests compare these
//! figures with closed forms.

use super::fake;
use flashlab_fio::cmdline::TerseVersion;
use flashlab_fio::job::{BlockSize, Direction, Engine, Job, Mix};
use flashlab_fio::output::normal::Normal;
use flashlab_fio::output::{Run, json, terse};
use flashlab_fio::stats::Report;
use flashlab_fio::workload::{Io, Record};
use flashlab_sim::{Duration, FileId, Instant, Mechanism};
use serde_json::Value;
use std::path::PathBuf;

/// Names of the recorded runs of one job. The latencies of `usec` and `msec` are long enough to be printed in these
/// units. A signal ended the run `msec`.
pub(crate) const NAMES: [&str; 6] = ["depth", "fsync", "usec", "msec", "trim", "unified"];

fn read(file: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/all/output/data").join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns fio's JSON of a run.
pub(crate) fn json(name: &str) -> String {
    read(&format!("{name}.json"))
}

fn job(name: &str) -> Job {
    let (mix, random, bytes) = match name {
        "depth" => (Mix::ReadWrite, true, 4_096),
        "fsync" => (Mix::Write, true, 4_096),
        "usec" => (Mix::ReadWrite, false, 0),
        "msec" => (Mix::Write, false, 0),
        "trim" => (Mix::Trim, false, 65_536),
        _ => (Mix::ReadWrite, true, 4_096),
    };
    let mut job = fake::job(name, mix, random, bytes);
    job.write_lat_log = Some(name.to_owned());
    match name {
        "depth" => {
            job.engine = Engine::Asynchronous;
            job.depth = 8;
        }
        "terse" => {
            job.description = Some("both ways".to_owned());
            job.engine = Engine::Asynchronous;
            job.percentiles_of.lat = true;
        }
        "fsync" => job.percentiles = vec![50.0, 99.5, 99.9999],
        "usec" => job.block_size = [0, 1, 2].map(|_| BlockSize::Range { min: 512 << 10, max: 4 << 20 }),
        "msec" => job.block_size = [0, 1, 2].map(|_| BlockSize::Range { min: 24 << 20, max: 48 << 20 }),
        "unified" => {
            job.description = Some("read and write as one".to_owned());
            job.unified_rw_reporting = true;
            job.block_size[1] = BlockSize::Fixed(8_192);
            job.block_size[2] = BlockSize::Fixed(8_192);
        }
        _ => {}
    }
    if matches!(name, "depth" | "trim" | "unified") {
        job.engine_name = "null".to_owned();
    }
    job
}

/// Returns the text of a latency log of a run.
pub(crate) fn log_text(name: &str, kind: &str) -> String {
    read(&format!("{name}_{kind}.log"))
}

/// Returns the columns of a log.
fn log(name: &str, kind: &str) -> Vec<[u64; 5]> {
    let text = log_text(name, kind);
    let row = |line: &str| {
        let columns: Vec<u64> = line.split(", ").map(|n| n.parse().expect("a number")).collect();
        columns.try_into().expect("five columns")
    };
    text.lines().map(row).collect()
}

/// Records the logged latencies in our statistics.
pub(crate) fn replay(name: &str) -> (Vec<Job>, Vec<Report>) {
    let real: Value = serde_json::from_str(&json(name)).expect("JSON");
    let real = &real["jobs"][0];
    let runtime = ["read", "write", "trim", "mixed"]
        .iter()
        .filter_map(|d| real[d]["runtime"].as_u64())
        .max()
        .expect("one");
    let jobs = vec![job(name)];
    let reports = fake::run(&jobs, |to| {
        // The start is arbitrary, but must precede the requests that were ready before the first millisecond.
        let began = fake::ms(1_000);
        to.started(0, began);
        for (clat, lat) in log(name, "clat").into_iter().zip(log(name, "lat")) {
            let [time, clat, direction, length, _] = clat;
            let done = began + Duration::from_ms(time);
            let io = Io {
                direction: Direction::ALL[direction as usize],
                file: FileId::DEVICE,
                offset: 0,
                length,
                ready: Instant::from_ns(done.as_ns() - lat[1]),
                issued: Instant::from_ns(done.as_ns() - clat),
            };
            to.submitted(0, &io, 1);
            to.completed(0, &io, done, &fake::spent(Mechanism::Read, &io, done));
        }
        let bins = real["sync"]["lat_ns"]["bins"].as_object();
        for (ns, count) in bins.into_iter().flatten() {
            let latency = Duration::from_ns(ns.parse().expect("nanoseconds"));
            for _ in 0..count.as_u64().expect("a count") {
                to.synced(0, began, began + latency, &fake::spent_in(Mechanism::Program, latency), 1);
            }
        }
        to.finished(0, began + Duration::from_ms(runtime));
    });
    (jobs, reports)
}

/// Compares numbers to the sixth digit and everything else exactly.
fn assert_same(path: &str, real: &Value, ours: &Value) {
    match (real, ours) {
        (Value::Object(real), Value::Object(_)) => {
            for (name, real) in real {
                assert_same(&format!("{path}/{name}"), real, &ours[name]);
            }
        }
        (Value::Number(a), Value::Number(b)) if a.is_f64() && b.is_f64() => {
            let (a, b) = (a.as_f64().expect("a number"), b.as_f64().expect("a number"));
            assert!((a - b).abs() <= 1e-6 * a.abs().max(1.0), "{path}: {a} and {b}");
        }
        _ => assert_eq!(real, ours, "{path}"),
    }
}

#[test]
fn the_same_latencies_give_the_same_json_figures_as_fio() {
    for name in NAMES {
        let (_, reports) = replay(name);
        let run = Run { version: "flashlab-0", reports: &reports, global_options: &[], accepted: &[] };
        let ours = json::document(&run, json::Bins::With);
        let ours = &ours["jobs"][0];
        let real: Value = serde_json::from_str(&json(name)).expect("JSON");
        let real = real["jobs"][0].as_object().expect("a job");
        for (key, real) in real {
            match key.as_str() {
                "read" | "write" | "trim" | "mixed" => {
                    let mut real = real.clone();
                    // The log does not contain the windows.
                    real.as_object_mut().expect("a direction").retain(|key, _| {
                        key == "bw" || key == "bw_bytes" || key == "iops" || !is_window(key)
                    });
                    assert_same(&format!("{name}/{key}"), &real, &ours[key]);
                }
                "sync" => {
                    assert_same(name, &real["total_ios"], &ours[key]["total_ios"]);
                    let percentiles = |sync: &Value| sync["lat_ns"]["percentile"].clone();
                    assert_same(name, &percentiles(real), &percentiles(&ours[key]));
                }
                // The null engine completes requests within the submission, and fio then counts no batches.
                "iodepth_submit" | "iodepth_complete" if name != "fsync" => {}
                _ if key.starts_with("latency_") || key.starts_with("iodepth_") => {
                    assert_same(&format!("{name}/{key}"), real, &ours[key]);
                }
                _ => {}
            }
        }
    }
}

fn is_window(key: &str) -> bool {
    key.starts_with("bw_") || key.starts_with("iops_")
}

/// Returns the lines that are derived from the latencies.
fn comparable(text: &str, name: &str) -> Vec<String> {
    let skipped = |line: &str| {
        let line = line.trim_start();
        ["fio-", "flashlab-", "Starting", "bw (", "iops  ", "cpu ", "sync ("]
            .iter()
            .any(|s| line.starts_with(s))
            || [" Laying out ", " time, mean ", "write tail "].iter().any(|s| line.contains(s))
            || (matches!(name, "trim" | "unified")
                && ["submit ", "complete "].iter().any(|s| line.starts_with(s)))
    };
    let without_date = |line: &str| line.split(" pid=").next().expect("always one").to_owned();
    text.lines().filter(|line| !skipped(line)).map(without_date).collect()
}

/// Returns true if the lines are equal, apart from the last digit of means and deviations, since fio's sums are
/// rounded.
fn same_line(real: &str, ours: &str) -> bool {
    let number = |word: &str| {
        let (name, value) = word.split_once('=')?;
        matches!(name, "avg" | "stdev").then(|| value.trim_end_matches(',').parse::<f64>().ok())?
    };
    let mut words = real.split(' ').zip(ours.split(' '));
    real.len() == ours.len()
        && words.all(|(real, ours)| match (number(real), number(ours)) {
            (Some(real), Some(ours)) => (real - ours).abs() < 0.0101,
            _ => real == ours,
        })
}

#[test]
fn the_same_latencies_give_the_same_text_as_fio() {
    for name in NAMES {
        let (jobs, reports) = replay(name);
        let run = Run { version: "flashlab-0", reports: &reports, global_options: &[], accepted: &[] };
        let ours = Normal { jobs: &jobs, run }.to_string();
        let real = read(&format!("{name}.txt"));
        let (real, ours) = (comparable(&real, name), comparable(&ours, name));
        for (real, ours) in real.iter().zip(&ours) {
            assert!(same_line(real, ours), "{name}:\nfio {real}\nwe  {ours}");
        }
        assert_eq!(real.len(), ours.len(), "{name}");
    }
}

#[test]
fn the_same_latencies_give_the_same_terse_line_as_fio() {
    let (_, reports) = replay("terse");
    let (real, ours) = (read("terse.txt"), terse::text(&reports, TerseVersion::Five));
    let fields = |line: &'_ str| line.trim_end().split(';').map(str::to_owned).collect::<Vec<_>>();
    let (real, ours) = (fields(&real), fields(&ours));
    assert_eq!(real.len(), ours.len());
    // Each direction has 48 fields. The last 11 of them describe windows, which the log does not contain. The CPU usage
    // follows the directions.
    let skipped = |field: usize| match field.wrapping_sub(5) {
        n @ 0..144 => n % 48 >= 37,
        n => (144..149).contains(&n),
    };
    for (n, (real, ours)) in real.iter().zip(&ours).enumerate().filter(|(n, _)| !skipped(*n)) {
        let same = match (real.parse::<f64>(), ours.parse::<f64>()) {
            (Ok(real), Ok(ours)) if real.fract() != 0.0 => (real - ours).abs() <= 1e-5 * real.abs(),
            _ => real == ours,
        };
        assert!(same, "field {}: fio {real}, we {ours}", n + 1);
    }
}

#[test]
fn the_percentiles_of_all_three_latencies_are_those_of_fio() {
    let real: Value = serde_json::from_str(&json("terse")).expect("JSON");
    let (_, reports) = replay("terse");
    let run = Run { version: "flashlab-0", reports: &reports, global_options: &[], accepted: &[] };
    let ours = json::document(&run, json::Bins::With);
    for direction in ["read", "write"] {
        for latency in ["slat_ns", "clat_ns", "lat_ns"] {
            let (real, ours) = (&real["jobs"][0][direction][latency], &ours["jobs"][0][direction][latency]);
            assert_same(&format!("{direction}/{latency}"), real, ours);
            assert_eq!(ours["percentile"].is_object(), latency != "slat_ns");
        }
    }
}
