//! The page of jobs on one device (`bench`) or on several (`compare`): results, latencies, and time by mechanism.

use super::{Section, comparison, document, footer, notes, tables, timeline, why};
use crate::{
    compare, explain,
    figure::latency_histogram,
    markup::{Element, element},
    number::{self, plural},
    rank,
};
use flashlab_lab::figures::{DeviceFigures, JobFigures, SYNC};
use flashlab_lab::results::{Cell, Figure, Mechanisms, Results, Role};
use flashlab_lab::run_inputs::RunInputs;

/// Maximum number of histograms that are shown unfolded.
const HISTOGRAMS_MAX: usize = 4;

/// The content of the page.
#[derive(Clone, Copy, Debug)]
pub struct JobPage<'a> {
    /// The device, or `compare`.
    pub title: &'a str,
    /// The inputs of the run.
    pub run: &'a RunInputs,
    /// The command that reproduces the page.
    pub command: &'a str,
    /// The figures, in the order of the page.
    pub devices: &'a [DeviceFigures],
    /// Notes on the whole page.
    pub notes: &'a [String],
}

/// Returns the page.
pub fn jobs_page(page: &JobPage<'_>) -> String {
    let lead = match page.devices {
        [only] => only.title.clone(),
        devices => format!("The same jobs on {}", plural(devices.len(), "device")),
    };
    let header = element("header")
        .child(element("p").class("kicker").text(format!("Simulated with flashlab {}", page.run.version)))
        .child(element("h1").text(page.title))
        .child(element("p").class("lead").text(lead))
        .child(facts(page));
    let results = as_results(page.devices);
    let mut sections = vec![Section {
        id: "results",
        title: "Results",
        short: "Results",
        intro: Some("Latencies are completion latencies. No parameter was fitted on these jobs.".into()),
        body: [table(page.devices)].into_iter().chain(failures(page.devices)).collect(),
    }];
    if page.devices.len() > 1 {
        sections.extend(comparison::figures(&results));
    }
    sections.push(Section::new("job", "Job", "Job", job(page)));
    sections.push(Section::new("latency", "Latency", "Latency", latency(page.devices)));
    sections.extend(timeline::section(page.devices));
    sections.extend(why::section_with(&results, &|cell| explanation(page.devices, cell)));
    sections.extend(notes_section(page));
    document(page.title, &format!("flashlab {}", page.run.version), header, &sections, footer(page.command))
}

/// Returns the inputs of the run in one line: the medium, the filesystem, the host, the program.
fn facts(page: &JobPage<'_>) -> Element {
    let run = page.run;
    let mut facts = vec![("seed", run.seed.to_string())];
    facts.extend(run.filesystem.clone().map(|filesystem| ("filesystem", filesystem)));
    if let [only] = page.devices {
        facts.extend(only.inputs.host.clone().map(|host| ("host", host)));
        facts.extend(only.inputs.state.clone().map(|state| ("state", state)));
    }
    facts.push(("flashlab", run.version.to_owned()));
    facts.extend(run.commit.clone().map(|commit| ("commit", commit)));
    super::facts(facts)
}

/// Returns the jobs as a job file.
fn job(page: &JobPage<'_>) -> Vec<Element> {
    vec![element("pre").class("job").text(page.run.job_file())]
}

/// Returns the figures of all devices: job by job in order of first appearance, the fastest device of each job first, as
/// in the table on a terminal.
fn all(devices: &[DeviceFigures]) -> impl Iterator<Item = (&DeviceFigures, &JobFigures)> {
    let mut all: Vec<(&DeviceFigures, &JobFigures)> =
        devices.iter().flat_map(|device| device.jobs.iter().map(move |job| (device, job))).collect();
    if devices.len() > 1 {
        let groups = groups(devices);
        let lines = groups.iter().flat_map(|group| &group.lines);
        all = lines.flat_map(|line| line.all().map(|job| (&devices[line.device], job))).collect();
    }
    all.into_iter()
}

fn groups(devices: &[DeviceFigures]) -> Vec<rank::Group<'_>> {
    rank::groups(devices.iter().map(|device| device.jobs.as_slice()))
}

/// Returns the figures as cells for the charts of experiments: one table per job and direction, one column per device.
/// The cells of jobs that pace the devices are mean latencies. Reads that did not access the flash have no cell, because a
/// bar would compare them with reads that did.
fn as_results(devices: &[DeviceFigures]) -> Results {
    let paced: Vec<(String, &str)> = groups(devices)
        .iter()
        .filter(|group| group.is_paced)
        .map(|group| (group.job.to_owned(), group.direction))
        .collect();
    let is_paced = |job: &JobFigures| {
        let is_of_group =
            |direction: &str| direction == job.direction || (job.direction == SYNC && direction != "read");
        paced.iter().any(|(name, direction)| *name == job.job && is_of_group(direction))
    };
    let figure = |job: &JobFigures| match (is_paced(job), job.direction) {
        (true, _) => (job.latency.mean_ns / 1e6, "ms"),
        (false, SYNC) => (job.iops, "calls/s"),
        (false, _) => (job.iops, "IOPS"),
    };
    let cells = all(devices).filter(|(_, job)| !job.unwritten).map(|(device, job)| Cell {
        table: table_name(job),
        row: String::new(),
        column: device.device.clone(),
        unit: figure(job).1.into(),
        published: None,
        reference: None,
        simulated: Figure { mean: figure(job).0, sd: 0.0 },
        role: Role::Predicted,
        error_percent: None,
        requests: job.requests,
        latency_ns_mean: job.latency.mean_ns,
        mechanisms: job.mechanisms_ns.clone(),
        mechanism_ns_totals: Mechanisms(vec![]),
        tail: None,
    });
    Results { cells: cells.collect(), ..Results::default() }
}

fn table_name(job: &JobFigures) -> String {
    format!("{}, {}", job.job, job.direction)
}

/// Returns the explanation of a cell by its job; `None` if the direction of the job is neither reads nor writes.
fn explanation(devices: &[DeviceFigures], cell: &Cell) -> Option<String> {
    let (device, job) =
        all(devices).find(|(device, job)| device.device == cell.column && table_name(job) == cell.table)?;
    beside_syncs(device, job).or_else(|| match job.direction {
        "read" => Some(explain::sentence_of(cell, false)),
        "write" => Some(explain::sentence_of(cell, true)),
        _ => None,
    })
}

/// Returns the explanation of requests that take less time than the `fsync` and `fdatasync` calls of the same job. The
/// mechanisms of such requests say nothing about the speed of the job.
fn beside_syncs(device: &DeviceFigures, job: &JobFigures) -> Option<String> {
    let time = |job: &JobFigures| job.latency.mean_ns * job.requests as f64;
    let of_job = || device.jobs.iter().filter(|other| other.job == job.job);
    let syncs: f64 = of_job().filter(|other| other.direction == SYNC).map(time).sum();
    let whole: f64 = of_job().map(time).sum();
    (job.direction != SYNC && syncs > 0.5 * whole).then(|| {
        format!(
            "fsync or fdatasync takes {} of the time of this job and these requests take {}: the sync row shows the \
             bottleneck.",
            number::share(syncs / whole),
            number::share(time(job) / whole)
        )
    })
}

fn table(devices: &[DeviceFigures]) -> Element {
    let columns = [
        ("device", false),
        ("job", false),
        ("", false),
        ("IOPS", true),
        ("MiB/s", true),
        ("requests", true),
        ("moved", true),
        ("simulated time", true),
        ("write amplification", true),
        ("main mechanism", false),
    ];
    let rows = all(devices).map(|(device, job)| {
        element("tr")
            .child(tables::row_head(&device.device))
            .child(tables::text(&job.job))
            .child(tables::text(job.direction))
            .child(tables::number_of(job.iops, compare::iops(job.iops)))
            .child(tables::number_of(
                job.bytes_per_second as f64,
                moved(job, number::significant(number::mib(job.bytes_per_second as f64), 3)),
            ))
            .child(tables::number_of(job.requests as f64, number::fixed(job.requests as f64, 0)))
            .child(tables::number_of(job.bytes as f64, moved(job, number::bytes(job.bytes))))
            .child(tables::number_of(job.runtime_ms as f64, number::duration_ns(job.runtime_ms as f64 * 1e6)))
            .child(tables::number_of(job.write_amplification.unwrap_or(0.0), compare::amplification(job)))
            .child(tables::text(&compare::main_mechanism(job)))
    });
    let html = element("table").child(tables::head(&columns)).child(element("tbody").children(rows));
    if devices.len() > 1 { tables::sortable("Results", html) } else { tables::scrolling("Results", html) }
}

/// Returns `text`, or a dash for calls that move no bytes.
fn moved(job: &JobFigures, text: String) -> String {
    if job.direction == SYNC { number::NONE.to_owned() } else { text }
}

/// Returns the list of devices without figures, with their errors.
fn failures(devices: &[DeviceFigures]) -> Option<Element> {
    let failed = devices.iter().filter_map(|device| {
        let error = device.error.as_ref()?;
        Some(element("li").child(element("b").text(&device.device)).text(format!(": {error}")))
    });
    let failed: Vec<Element> = failed.collect();
    (!failed.is_empty()).then(|| element("ul").class("note").children(failed))
}

/// Returns the percentiles as a table, then the histograms.
fn latency(devices: &[DeviceFigures]) -> Vec<Element> {
    let percentiles = flashlab_lab::figures::PERCENTILES.map(|percent| format!("p{percent}"));
    let mut columns = vec![("device", false), ("job", false), ("", false), ("min", true), ("mean", true)];
    columns.extend(percentiles.iter().map(|name| (name.as_str(), true)));
    columns.push(("max", true));
    let duration = |ns: f64| tables::number(number::duration_ns(ns));
    let rows = all(devices).map(|(device, job)| {
        let latency = &job.latency;
        element("tr")
            .child(tables::row_head(&device.device))
            .child(tables::text(&job.job))
            .child(tables::text(job.direction))
            .child(duration(latency.min_ns as f64))
            .child(duration(latency.mean_ns))
            .children(latency.percentiles_ns.iter().map(|(_, ns)| duration(*ns as f64)))
            .child(duration(latency.max_ns as f64))
    });
    let html = element("table").child(tables::head(&columns)).child(element("tbody").children(rows));
    let figures: Vec<Element> = all(devices)
        .map(|(device, job)| comparison::framed(&latency_histogram::figure(&device.device, job)))
        .collect();
    let count = figures.len();
    let histograms = element("div").class("grid2").children(figures);
    let histograms = if count > HISTOGRAMS_MAX {
        super::folded(&plural(count, "histogram"), [histograms])
    } else {
        element("div").class("worn").child(histograms)
    };
    vec![tables::scrolling("Percentiles of the completion latency", html), histograms]
}

/// Returns the notes on the whole page and on each device.
fn notes_section(page: &JobPage<'_>) -> Option<Section> {
    let whole = page.notes.iter().cloned().chain(compare::notes(page.devices, page.run.written));
    let mut body: Vec<Element> = whole.map(|note| notes::paragraph(&note)).collect();
    let of = |device: &DeviceFigures| {
        let note = |note: &String| notes::paragraph(&format!("{}: {note}", device.device));
        device.notes.iter().map(note).collect::<Vec<_>>()
    };
    body.extend(page.devices.iter().flat_map(of));
    (!body.is_empty()).then(|| Section::new("notes", "Notes", "Notes", body))
}
