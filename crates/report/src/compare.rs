//! Jobs on several devices, as a table, JSON and CSV.

use crate::csv::file;
use crate::number;
use crate::rank::{self, Group};
use crate::terminal::columns;
use flashlab_lab::compare::Compared;
use flashlab_lab::figures::{DeviceFigures, JobFigures, PERCENTILES, SYNC};
use flashlab_lab::results::Mechanisms;
use flashlab_lab::run_inputs::RunInputs;
use flashlab_lab::write_first::WriteFirst;
use flashlab_sim::Mechanism;

/// Mark of a line in which most reads addressed unwritten data. The mark replaces the mechanism that took
/// most of the time.
pub(crate) const UNWRITTEN: &str = "mostly unwritten data";

/// Returns a table with one line for each device and direction, fastest first within a job, and with the
/// mechanism that took most of the time. If the lines do not fit in `width` characters, columns are left out,
/// job and direction become a heading, and finally the name of the device gets a line of its own. With
/// `is_replay`, the elapsed time has a column.
pub fn table(compared: &[Compared], is_replay: bool, width: usize) -> String {
    let devices = compared.iter().map(|device| device.jobs.as_deref().unwrap_or_default());
    let groups = rank::groups(devices);
    let (mut text, has_amplification) = match groups.is_empty() {
        true => (String::new(), false),
        false => figures_text(compared, &groups, is_replay, width),
    };
    for device in compared {
        if let Err(error) = &device.jobs {
            text += &crate::terminal::wrapped(&format!("{}: {error}", device.device), width);
        }
    }
    if groups.is_empty() {
        return number::plain(&text);
    }
    for note in table_notes(compared, &groups, has_amplification) {
        text += &crate::terminal::wrapped(&note, width);
    }
    number::plain(&text)
}

/// Returns the notes below the table.
fn table_notes(compared: &[Compared], groups: &[Group<'_>], has_amplification: bool) -> Vec<String> {
    let mut notes =
        vec!["Latencies are completion latencies; no parameter was fitted on these jobs.".to_owned()];
    let jobs = || compared.iter().flat_map(|device| device.jobs.iter().flatten());
    if has_amplification {
        notes.push(AMPLIFICATION.to_owned());
    }
    if groups.iter().any(|group| group.is_paced) {
        notes.push(
            "Devices that complete the same requests per second are in the order of their mean latency, sync calls \
             included."
                .to_owned(),
        );
    }
    notes.extend(unwritten_note(jobs().any(|job| job.unwritten)));
    let is_everything = compared.iter().any(|device| device.prepared.write_first == WriteFirst::Used);
    notes.extend(written_first_note(compared.iter().map(|device| device.prepared.bytes), is_everything));
    notes.extend(random_writes(compared));
    for remark in compared.iter().flat_map(|device| &device.remarks) {
        if !notes.contains(remark) {
            notes.push(remark.clone());
        }
    }
    notes
}

/// Returns the note on random writes to space that nothing wrote before, if there is one.
pub fn random_writes(compared: &[Compared]) -> Vec<String> {
    let note = |device: &Compared| random_writer_note(device.prepared.random_writer.as_deref());
    compared.iter().find_map(note).into_iter().collect()
}

/// Explanation of the column of write amplification.
const AMPLIFICATION: &str =
    "WA: write amplification, the bytes programmed in the flash per byte that the host wrote.";

/// A column of the table.
#[derive(Clone, Copy, PartialEq)]
enum Column {
    Device,
    Job,
    Direction,
    Iops,
    Rate,
    Elapsed,
    Mean,
    P99,
    Max,
    Amplification,
    Mechanism,
}

impl Column {
    fn head(self) -> &'static str {
        match self {
            Column::Device => "device",
            Column::Job => "job",
            Column::Direction => "",
            Column::Iops => "IOPS",
            Column::Rate => "MiB/s",
            Column::Elapsed => "elapsed",
            Column::Mean => "mean",
            Column::P99 => "p99",
            Column::Max => "max",
            Column::Amplification => "WA",
            Column::Mechanism => "mechanism",
        }
    }

    fn is_right(self) -> bool {
        !matches!(self, Column::Device | Column::Job | Column::Direction | Column::Mechanism)
    }

    /// Returns the cell of one direction of a job on a device.
    fn cell(self, device: &str, job: &JobFigures) -> String {
        match self {
            Column::Device => device.to_owned(),
            Column::Job => job.job.clone(),
            Column::Direction => job.direction.to_owned(),
            Column::Iops => iops(job.iops),
            // Sync calls move no bytes.
            Column::Rate if job.direction == SYNC => number::NONE.to_owned(),
            Column::Rate => number::significant(number::mib(job.bytes_per_second as f64), 3),
            Column::Elapsed => number::duration_ns(job.runtime_ms as f64 * 1e6),
            Column::Mean => number::duration_ns(job.latency.mean_ns),
            Column::P99 => {
                let p99 = job.latency.percentile_ns(99.0).expect("99 is one of the percentiles");
                number::duration_ns(p99 as f64)
            }
            Column::Max => number::duration_ns(job.latency.max_ns as f64),
            Column::Amplification => amplification(job),
            Column::Mechanism => main_mechanism(job),
        }
    }
}

/// Formats requests per second: with three significant digits below 100.
pub(crate) fn iops(iops: f64) -> String {
    if iops < 100.0 { number::significant(iops, 3) } else { number::fixed(iops, 0) }
}

/// Returns the write amplification, or a dash for requests that do not write.
pub(crate) fn amplification(job: &JobFigures) -> String {
    job.write_amplification.map_or(number::NONE.to_owned(), |ratio| number::significant(ratio, 3))
}

/// Returns the figures in the widest layout that fits, and true if it has the column of write amplification.
fn figures_text(
    compared: &[Compared],
    groups: &[Group<'_>],
    is_replay: bool,
    width: usize,
) -> (String, bool) {
    use Column::{Amplification, Device, Direction, Elapsed, Iops, Job, Max, Mean, Mechanism, P99, Rate};
    let has_writes =
        groups.iter().flat_map(|group| &group.lines).any(|line| line.figures.write_amplification.is_some());
    let without = |columns: &[Column], left_out: &[Column]| -> Vec<Column> {
        let is_shown = |column: &Column| match column {
            Elapsed => is_replay,
            Amplification => has_writes && !left_out.contains(column),
            _ => !left_out.contains(column),
        };
        columns.iter().copied().filter(is_shown).collect()
    };
    let all = [Device, Job, Direction, Iops, Rate, Elapsed, Mean, P99, Max, Amplification, Mechanism];
    let grouped = &all[3..];
    let flat = |left_out: &[Column]| flat(compared, groups, &without(&all, left_out));
    let headed = |left_out: &[Column]| headed(compared, groups, &without(grouped, left_out));
    let mut layouts = vec![
        (flat(&[]), has_writes),
        (flat(&[Amplification]), false),
        (headed(&[]), has_writes),
        (headed(&[Amplification]), false),
        (headed(&[Amplification, Rate]), false),
    ];
    if is_replay {
        // The elapsed time of a replay compares devices as its requests per second do.
        layouts.push((headed(&[Amplification, Rate, Iops]), false));
    }
    let fits = |(text, _): &(String, bool)| text.lines().all(|line| line.chars().count() <= width);
    let narrow = || narrow(compared, groups, &without(grouped, &[Amplification]), width);
    layouts.into_iter().find(fits).unwrap_or_else(|| (narrow(), false))
}

/// Returns a table with one line for each device and direction.
fn flat(compared: &[Compared], groups: &[Group<'_>], shown: &[Column]) -> String {
    let mut rows = vec![shown.iter().map(|column| column.head().to_owned()).collect()];
    for line in groups.iter().flat_map(|group| &group.lines) {
        let device = &compared[line.device].device;
        rows.extend(line.all().map(|job| cells(shown, device, job)));
    }
    laid_out(&rows, &shown.iter().map(|column| column.is_right()).collect::<Vec<_>>())
}

fn cells(shown: &[Column], device: &str, job: &JobFigures) -> Vec<String> {
    shown.iter().map(|column| column.cell(device, job)).collect()
}

/// Returns a table with a heading for each job and direction, and with sync calls as a line below their device.
fn headed(compared: &[Compared], groups: &[Group<'_>], shown: &[Column]) -> String {
    let heading = |group: &Group<'_>| {
        let mut row = vec![format!("{}, {}", group.job, group.direction)];
        row.extend(shown.iter().map(|column| column.head().to_owned()));
        row
    };
    let mut rows = Vec::new();
    for group in groups {
        rows.push(heading(group));
        for line in &group.lines {
            let device = &compared[line.device].device;
            let name = |job: &JobFigures| {
                if job.direction == SYNC { "    sync".into() } else { format!("  {device}") }
            };
            rows.extend(line.all().map(|job| [vec![name(job)], cells(shown, device, job)].concat()));
        }
    }
    let right: Vec<bool> =
        std::iter::once(false).chain(shown.iter().map(|column| column.is_right())).collect();
    laid_out(&rows, &right)
}

fn laid_out(rows: &[Vec<String>], right: &[bool]) -> String {
    let rows: Vec<Vec<&str>> = rows.iter().map(|row| row.iter().map(String::as_str).collect()).collect();
    columns(&rows, right, usize::MAX)
}

/// Returns the mechanism that took most of the time, with its share, or the mark of reads of mostly unwritten
/// data.
pub(crate) fn main_mechanism(job: &JobFigures) -> String {
    match most_of(&job.mechanisms_ns) {
        _ if job.unwritten => UNWRITTEN.to_owned(),
        Some(most) => most,
        None => number::NONE.to_owned(),
    }
}

/// Returns the mechanism that took most of the time, with its share; `None` if no request took time.
pub(crate) fn most_of(mechanisms: &Mechanisms) -> Option<String> {
    let (mechanism, share) = mechanisms.most()?;
    Some(format!("{mechanism} {}", number::share(share)))
}

/// Returns the notes on the data that the jobs read: unwritten data, whose reads did not access the flash, and data
/// that was written first.
pub(crate) fn notes(devices: &[DeviceFigures], is_everything: bool) -> Vec<String> {
    let mut jobs = devices.iter().flat_map(|device| &device.jobs);
    let unwritten = unwritten_note(jobs.any(|job| job.unwritten));
    let bytes = devices.iter().map(|device| device.written_first_bytes);
    let first = written_first_note(bytes, is_everything);
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

/// Returns the note on the bytes written to each device before the jobs began, if there are any. With
/// `is_everything`, these are all bytes that the jobs use; otherwise, those that the jobs read.
pub(crate) fn written_first_note(
    bytes: impl Iterator<Item = u64> + Clone,
    is_everything: bool,
) -> Option<String> {
    let devices = bytes.clone().count();
    let (least, most) = (bytes.clone().filter(|bytes| *bytes > 0).min()?, bytes.max()?);
    let bytes = match least == most {
        true => number::bytes(most),
        false => format!("{} to {}", number::bytes(least), number::bytes(most)),
    };
    let to = if devices > 1 { " to each new device" } else { "" };
    Some(match is_everything {
        true => {
            format!("Before the jobs began, all space that they use ({bytes}) was written{to} (--written).")
        }
        false => format!(
            "Before the jobs began, the data that they read ({bytes}) was written{to}; --unwritten skips this."
        ),
    })
}

/// Returns the note on a job that writes at random to space that nothing wrote before.
pub(crate) fn random_writer_note(job: Option<&str>) -> Option<String> {
    let job = job?;
    Some(format!(
        "{job} writes at random to space that was never written; a device that holds data there can be several times \
         slower (--written writes it first)."
    ))
}

/// Returns a table with the figures in columns below a line that names the device, the job and the direction.
fn narrow(compared: &[Compared], groups: &[Group<'_>], shown: &[Column], width: usize) -> String {
    let lines: Vec<(String, Vec<String>)> = groups
        .iter()
        .flat_map(|group| &group.lines)
        .flat_map(|line| line.all().map(|job| (&*compared[line.device].device, job)))
        .map(|(device, job)| (format!("{device} {} {}", job.job, job.direction), cells(shown, device, job)))
        .collect();
    let head: Vec<&str> = shown.iter().map(|column| column.head()).collect();
    let widest = |i: usize| lines.iter().map(|(_, row)| row[i].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..head.len()).map(|i| widest(i).max(head[i].chars().count())).collect();
    let last = head.len() - 1;
    let line = |cells: Vec<&str>| {
        let mut text = String::from(" ");
        for (i, (cell, width)) in cells.iter().zip(&widths).enumerate() {
            // Names of mechanisms are aligned left.
            text += &if i == last { format!(" {cell}") } else { format!(" {cell:>width$}") };
        }
        text
    };
    let words = |row: &[String], count: usize| line(row[..count].iter().map(String::as_str).collect());
    let is_short = lines.iter().all(|(_, row)| words(row, head.len()).chars().count() <= width);
    let count = if is_short { head.len() } else { last };
    let mut text = line(head[..count].to_vec()) + "\n";
    for (name, row) in &lines {
        let name = if is_short { name.clone() } else { format!("{name}: {}", row[last]) };
        text += &crate::terminal::wrapped(&name, width);
        text += &format!("{}\n", words(row, count).trim_end());
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
    header.extend(
        ["write_amplification", "unwritten", "written_first_bytes", "notes", "error"].map(String::from),
    );
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
            record.push(job.write_amplification.map_or(String::new(), |ratio| ratio.to_string()));
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
