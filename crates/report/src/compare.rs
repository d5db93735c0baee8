//! One job on many devices, as a table.

use crate::number;
use flashlab_lab::compare::Compared;
use tabled::builder::Builder;
use tabled::settings::{Alignment, Style, object::Columns};

const HEAD: [&str; 8] = ["device", "job", "", "IOPS", "MiB/s", "mean", "p99", "max"];
/// Mark of a line whose reads met nothing written, in place of the mechanism that took most of the time.
const NO_FLASH: &str = "no flash was read";
const MIB: f64 = 1_048_576.0;

/// The table: a line for each device and direction, fastest first within a job, and what took the time.
pub fn table(compared: &[Compared]) -> String {
    let mut rows: Vec<(f64, Vec<String>)> = Vec::new();
    let mut failures = String::new();
    for device in compared {
        match &device.lines {
            Ok(lines) => rows.extend(lines.iter().map(|line| {
                let (mechanism, share) = line.most;
                let cells = vec![
                    device.device.clone(),
                    line.job.clone(),
                    line.direction.name().to_owned(),
                    number::fixed(line.requests_per_second, 0),
                    number::significant(line.bytes_per_second as f64 / MIB, 3),
                    number::duration_ns(line.latency_ns_mean),
                    number::duration_ns(line.tail.p99.as_ns() as f64),
                    number::duration_ns(line.tail.max.as_ns() as f64),
                    match line.unwritten {
                        true => NO_FLASH.to_owned(),
                        false => format!("{} {} %", mechanism.name(), number::fixed(share, 0)),
                    },
                ];
                (line.requests_per_second, cells)
            })),
            Err(error) => failures.push_str(&format!("{}: {error}\n", device.device)),
        }
    }
    // Jobs in their order; stable, so that equal speeds stay in the order of the names.
    let jobs: Vec<String> = rows.iter().map(|(_, cells)| cells[1].clone()).collect();
    let place = |cells: &[String]| jobs.iter().position(|job| *job == cells[1]);
    rows.sort_by(|(a, x), (b, y)| (place(x), &x[2]).cmp(&(place(y), &y[2])).then(b.total_cmp(a)));
    if rows.is_empty() {
        return failures;
    }
    let mut builder = Builder::default();
    builder.push_record(HEAD.into_iter().chain(["most of it"]));
    rows.into_iter().for_each(|(_, cells)| builder.push_record(cells));
    let mut table = builder.build();
    table.with(Style::blank()).modify(Columns::new(3..8), Alignment::right());
    let text: String = table.to_string().lines().map(|line| format!("{}\n", line.trim_end())).collect();
    let mut notes =
        String::from("Latencies are completion latencies; nothing here was fitted on this job.\n");
    let lines = || compared.iter().flat_map(|device| device.lines.iter().flatten());
    if lines().any(|line| line.unwritten) {
        notes.push_str(&format!(
            "{NO_FLASH}: most of these reads met what nothing has written, which says nothing of the card's flash.\n"
        ));
    }
    let first = compared.iter().map(|device| device.written_first_bytes);
    if let (Some(least), Some(most)) = (first.clone().filter(|bytes| *bytes > 0).min(), first.max()) {
        let bytes = match least == most {
            true => number::bytes(most),
            false => format!("{} to {}", number::bytes(least), number::bytes(most)),
        };
        notes.push_str(&format!(
            "Before the jobs began, {bytes} that they read were written on each new device; --unwritten leaves that out.\n"
        ));
    }
    format!("{text}{failures}{notes}")
}
