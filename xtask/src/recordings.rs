//! Regenerates the recordings of `run filesystems` and of buffered jobs with `flashlab record`, and validates
//! predictions for slower devices against recordings made on them.

use crate::{Outcome, cargo_command, run};
use std::process::Command;

/// Folder of the recordings.
const FOLDER: &str = "experiments/filesystems/recordings";

/// Filesystems: first part of the names of the files, `--fs`, and options for mkfs.
const FILESYSTEMS: [(&str, &str, &str); 6] = [
    ("vfat", "vfat", ""),
    ("exfat", "exfat", ""),
    ("ext4", "ext4", ""),
    ("ext4-without-journal", "ext4", "-O ^has_journal"),
    ("f2fs", "f2fs", ""),
    ("btrfs", "btrfs", ""),
];

/// Shipped workloads, which are the second part of the names.
const WORKLOADS: [&str; 6] = ["sqlite", "sqlite-wal", "logger", "unpack", "fio-random", "fio-sequential"];

/// Folder of the buffered jobs on the raw device, with which the page cache's model is compared.
const BUFFERED: &str = "crates/lab/tests/all/buffered";

/// Recordings of buffered jobs: the job and the latency of the device.
const BUFFERED_JOBS: [(&str, &str); 13] = [
    ("end-fsync", "100us"),
    ("end-fsync", "4ms"),
    ("fdatasync-log", "4ms"),
    ("fsync-stride", "100us"),
    ("fsync-stride", "4ms"),
    ("loops-write", "4ms"),
    ("mixed", "4ms"),
    ("o-sync", "4ms"),
    ("read-large", "4ms"),
    ("read-stream", "4ms"),
    ("read-stride", "100us"),
    ("time-based-read", "4ms"),
    ("timers-stride", "4ms"),
];

/// Devices of the validation: name, latency in us, and bandwidth in MiB/s. The devices serve one request at a
/// time. `null_blk` limits the bandwidth to whole numbers of MiB/s, so the slowest device has a twentieth of
/// the reference's bandwidth instead of a sixteenth.
const DEVICES: [(&str, u32, u32); 3] =
    [("reference", 250, 40), ("4-times-slower", 1000, 10), ("16-times-slower", 4000, 2)];

/// Records each shipped workload on a filesystem, without a bandwidth limit and on each of [`DEVICES`], and compares
/// the recordings of the devices with predictions from the recording without a limit.
pub(crate) fn validate_predictions(filesystem: &str) -> Outcome {
    run(cargo_command().args(["build", "--release", "--locked", "--package", "flashlab"]))?;
    let folder = format!("target/closed-loop/{filesystem}");
    std::fs::create_dir_all(&folder).map_err(|error| format!("{folder}: {error}"))?;
    // The slowest device accepts 41942 bytes per tick of 20 ms. All recordings have the same limits.
    let limits = ["--request-max", "40KiB", "--no-discard"];
    for workload in WORKLOADS {
        let record = |to: &str, device: &[&str]| {
            let mut command = Command::new("target/release/flashlab");
            command.args(["record", "--fs", filesystem, "--workload", workload]).args(limits).args(device);
            run(command.args(["--to", to]))
        };
        let source = format!("{folder}/{workload}.rec");
        record(&source, &[])?;
        let mut compare = cargo_command();
        compare.args([
            "run",
            "--quiet",
            "--package",
            "flashlab-recording",
            "--example",
            "closed_loop",
            "--",
            &source,
        ]);
        for (name, latency_us, bandwidth) in DEVICES {
            let to = format!("{folder}/{workload}-{name}.rec");
            let (latency, limit) = (format!("{latency_us}us"), bandwidth.to_string());
            record(&to, &["--latency", &latency, "--queue-depth", "1", "--bandwidth", &limit])?;
            compare.args([to, format!("{latency_us},1,{bandwidth}")]);
        }
        run(&mut compare)?;
    }
    Ok(())
}

/// Records the buffered jobs into `folder`.
pub(crate) fn record_buffered(folder: Option<&str>) -> Outcome {
    run(cargo_command().args(["build", "--release", "--locked", "--package", "flashlab"]))?;
    let folder = folder.map_or_else(|| format!("{BUFFERED}/recordings"), str::to_owned);
    std::fs::create_dir_all(&folder).map_err(|error| format!("{folder}: {error}"))?;
    for (job, latency) in BUFFERED_JOBS {
        let (fio, to) = (format!("{BUFFERED}/jobs/{job}.fio"), format!("{folder}/{job}-{latency}.rec"));
        let mut command = Command::new("target/release/flashlab");
        run(command.args(["record", "--fs", "none", "--fio", &fio, "--latency", latency, "--to", &to]))?;
    }
    Ok(())
}

/// Records each combination of filesystem and workload whose name contains `part` into `folder`.
pub(crate) fn record(part: &str, folder: Option<&str>) -> Outcome {
    run(cargo_command().args(["build", "--release", "--locked", "--package", "flashlab"]))?;
    let folder = folder.unwrap_or(FOLDER);
    std::fs::create_dir_all(folder).map_err(|error| format!("{folder}: {error}"))?;
    for (name, filesystem, options) in FILESYSTEMS {
        for workload in WORKLOADS {
            let recording = format!("{name}-{workload}");
            if !recording.contains(part) {
                continue;
            }
            let to = format!("{folder}/{recording}.rec");
            let mut command = Command::new("target/release/flashlab");
            command.args(["record", "--fs", filesystem, "--options", options]);
            run(command.args(["--workload", workload, "--to", &to]))?;
        }
    }
    Ok(())
}
