//! Jobs on several devices, as a table, JSON and CSV.

use crate::csv::file;
use crate::number;
use crate::terminal::columns;
use flashlab_lab::compare::Compared;
use flashlab_lab::figures::{DeviceFigures, JobFigures, PERCENTILES, SYNC};
use flashlab_lab::run_inputs::RunInputs;
use flashlab_sim::Mechanism;

const HEAD: [&str; 8] = ["device", "job", "", "IOPS", "MiB/s", "mean", "p99", "max"];
/// Mark of a line most of whose reads addressed unwritten data. It replaces the mechanism that took most of the time.
pub(crate) const UNWRITTEN: &str = "mostly unwritten data";

/// Returns a table with one line for each device and direction, fastest first within a job, and with the mechanism that
/// took most of the time. If the lines do not fit in `width` characters, device and job have a separate line.
pub fn table(compared: &[Compared], width: usize) -> String {
    let mut rows: Vec<(f64, Vec<String>)> = Vec::new();
    let mut failures = String::new();
    for device in compared {
        match &device.jobs {
            Ok(jobs) => rows.extend(jobs.iter().map(|job| (job.iops, row(&device.device, job)))),
            Err(error) => {
                let line = format!("{}: {error}", device.device);
                failures.push_str(&crate::terminal::wrapped(&line, width));
            }
        }
    }
    // Jobs keep their order. The sort is stable, so devices of equal speed stay in the order of the arguments.
    let jobs: Vec<String> = rows.iter().map(|(_, cells)| cells[1].clone()).collect();
    let place = |cells: &[String]| jobs.iter().position(|job| *job == cells[1]);
    rows.sort_by(|(a, x), (b, y)| (place(x), &x[2]).cmp(&(place(y), &y[2])).then(b.total_cmp(a)));
    if rows.is_empty() {
        return number::plain(&failures);
    }
    let rows: Vec<Vec<String>> = rows.into_iter().map(|(_, cells)| cells).collect();
    let wide = wide(&rows);
    let text =
        if wide.lines().all(|line| line.chars().count() <= width) { wide } else { narrow(&rows, width) };
    let mut notes =
        vec!["Latencies are completion latencies; no parameter was fitted on these jobs.".to_owned()];
    let mut jobs = compared.iter().flat_map(|device| device.jobs.iter().flatten());
    notes.extend(unwritten_note(jobs.any(|job| job.unwritten)));
    notes.extend(written_first_note(compared.iter().map(|device| device.written_first_bytes)));
    for remark in compared.iter().flat_map(|device| &device.remarks) {
        if !notes.contains(remark) {
            notes.push(remark.clone());
        }
    }
    let notes: String = notes.iter().map(|note| crate::terminal::wrapped(note, width)).collect();
    number::plain(&format!("{text}{failures}{notes}"))
}

/// Returns the cells of one direction of a job on a device.
fn row(device: &str, job: &JobFigures) -> Vec<String> {
    let rate = match job.direction {
        // Sync calls move no bytes.
        SYNC => number::NONE.to_owned(),
        _ => number::significant(number::mib(job.bytes_per_second as f64), 3),
    };
    let p99 = job.latency.percentile_ns(99.0).expect("99 is one of the percentiles");
    vec![
        device.to_owned(),
        job.job.clone(),
        job.direction.to_owned(),
        number::fixed(job.iops, 0),
        rate,
        number::duration_ns(job.latency.mean_ns),
        number::duration_ns(p99 as f64),
        number::duration_ns(job.latency.max_ns as f64),
        main_mechanism(job),
    ]
}

/// Returns the mechanism that took most of the time, with its share, or the mark of reads of mostly unwritten
/// data.
pub(crate) fn main_mechanism(job: &JobFigures) -> String {
    match job.most() {
        _ if job.unwritten => UNWRITTEN.to_owned(),
        Some((mechanism, share)) => format!("{mechanism} {}", number::share(share)),
        None => number::NONE.to_owned(),
    }
}

/// Returns the notes on the data that the jobs read: unwritten data, whose reads did not access the flash, and data
/// that was written first.
pub(crate) fn notes(devices: &[DeviceFigures]) -> Vec<String> {
    let mut jobs = devices.iter().flat_map(|device| &device.jobs);
    let unwritten = unwritten_note(jobs.any(|job| job.unwritten));
    let first = written_first_note(devices.iter().map(|device| device.written_first_bytes));
    unwritten.into_iter().chain(first).collect()
}

fn unwritten_note(unwritten: bool) -> Option<String> {
    unwritten.then(|| {
        format!(
            "{UNWRITTEN}: most of these reads addressed data that was trimmed or never written, so they did not access \
             the flash."
        )
    })
}

/// Returns the note on the bytes written to each device before the jobs began, if there are any.
pub(crate) fn written_first_note(bytes: impl Iterator<Item = u64> + Clone) -> Option<String> {
    let devices = bytes.clone().count();
    let (least, most) = (bytes.clone().filter(|bytes| *bytes > 0).min()?, bytes.max()?);
    let bytes = match least == most {
        true => number::bytes(most),
        false => format!("{} to {}", number::bytes(least), number::bytes(most)),
    };
    let to = if devices > 1 { " to each new device" } else { "" };
    Some(format!(
        "Before the jobs began, the data that they read ({bytes}) was written{to}; --unwritten skips this."
    ))
}

fn wide(rows: &[Vec<String>]) -> String {
    let head: Vec<&str> = HEAD.into_iter().chain(["mechanism"]).collect();
    let right: Vec<bool> = (0..head.len()).map(|column| (3..8).contains(&column)).collect();
    let rows = rows.iter().map(|row| row.iter().map(String::as_str).collect());
    let rows: Vec<Vec<&str>> = std::iter::once(head).chain(rows).collect();
    columns(&rows, &right, usize::MAX)
}

/// Returns a table with the figures in columns below a line that names the device, the job and the direction.
fn narrow(rows: &[Vec<String>], width: usize) -> String {
    let mut head: Vec<&str> = HEAD[3..].to_vec();
    head.push("mechanism");
    let figures = rows.iter().map(|row| &row[3..]);
    let widths: Vec<usize> = (0..head.len())
        .map(|i| {
            figures
                .clone()
                .map(|row| row[i].chars().count())
                .chain([head[i].chars().count()])
                .max()
                .unwrap_or(0)
        })
        .collect();
    let line = |cells: Vec<&str>| {
        let mut text = String::from(" ");
        for (i, (cell, width)) in cells.iter().zip(&widths).enumerate() {
            // Names of mechanisms are aligned left.
            text += &if i + 1 == widths.len() { format!(" {cell}") } else { format!(" {cell:>width$}") };
        }
        text
    };
    let fits = |cells: Vec<&str>| line(cells).chars().count() <= width;
    let last = head.len() - 1;
    let is_short = rows.iter().all(|row| fits(row[3..].iter().map(String::as_str).collect()));
    let shown = if is_short { head.len() } else { last };
    let mut text = line(head[..shown].to_vec()) + "\n";
    for row in rows {
        let mut name = format!("{} {} {}", row[0], row[1], row[2]);
        if !is_short {
            name += &format!(": {}", row[3 + last]);
        }
        text += &crate::terminal::wrapped(&name, width);
        text += &format!("{}\n", line(row[3..3 + shown].iter().map(String::as_str).collect()).trim_end());
    }
    text
}

/// Returns the inputs and the figures of jobs on devices as JSON, ending in a line feed.
pub fn json(run: &RunInputs, devices: &[DeviceFigures]) -> String {
    let document = serde_json::json!({ "run": run, "devices": devices });
    crate::json::document_text(serde_json::to_string_pretty(&document))
}

/// Returns CSV (RFC 4180) with a header and one record of plain numbers for each direction of each job on each device.
/// A device without figures has one record with its error.
pub fn csv(devices: &[DeviceFigures]) -> String {
    let mechanisms = Mechanism::ALL.map(Mechanism::name);
    let mut header: Vec<String> = [
        "device",
        "job",
        "direction",
        "requests",
        "bytes",
        "runtime_ms",
        "iops",
        "bytes_per_second",
        "min_ns",
        "mean_ns",
    ]
    .map(String::from)
    .to_vec();
    header.extend(PERCENTILES.map(|percent| format!("p{percent}_ns")));
    header.push("max_ns".into());
    header.extend(mechanisms.map(|name| format!("{name}_ns")));
    header.extend(["unwritten", "written_first_bytes", "notes", "error"].map(String::from));
    let records = devices.iter().flat_map(|device| {
        let end = [
            device.written_first_bytes.to_string(),
            device.notes.join("; "),
            device.error.clone().unwrap_or_default(),
        ];
        let of = |job: &JobFigures| {
            let mut record = vec![device.device.clone(), job.job.clone(), job.direction.into()];
            record.extend([job.requests, job.bytes, job.runtime_ms].map(|n| n.to_string()));
            record.extend([job.iops.to_string(), job.bytes_per_second.to_string()]);
            record.extend([job.latency.min_ns.to_string(), job.latency.mean_ns.to_string()]);
            record.extend(job.latency.percentiles_ns.iter().map(|(_, ns)| ns.to_string()));
            record.push(job.latency.max_ns.to_string());
            record.extend(mechanisms.map(|name| {
                let of = job.mechanisms_ns.0.iter().find(|(other, _)| *other == name);
                of.map_or(0.0, |(_, ns)| *ns).to_string()
            }));
            record.push(job.unwritten.to_string());
            record.extend(end.clone());
            record
        };
        let mut records: Vec<Vec<String>> = device.jobs.iter().map(of).collect();
        if records.is_empty() {
            let mut record = vec![String::new(); header.len() - end.len()];
            record[0].clone_from(&device.device);
            record.extend(end.clone());
            records.push(record);
        }
        records
    });
    let records: Vec<Vec<String>> = records.collect();
    file(&header, records)
}
