//! The latencies and the rates of jobs over time. All charts of the section are linked: a time range that the reader
//! selects in one chart is shown in all of them.

use super::{Section, comparison::interactive, folded};
use crate::{
    figure::{latency_heat, series},
    markup::{Element, element},
    number::{self, plural},
};
use flashlab_fio::stats::{Column, Timeline};
use flashlab_lab::figures::{DeviceFigures, JobFigures};
use flashlab_lab::results::Series;

/// Maximum number of heat maps that are shown unfolded.
const HEATS_MAX: usize = 4;

/// One direction of a job on one device.
struct Run<'a> {
    /// The device, with a number if it runs several jobs of this name.
    name: String,
    job: String,
    timeline: &'a Timeline,
}

/// Returns the section; `None` if no run collected latencies over time.
pub(super) fn section(devices: &[DeviceFigures]) -> Option<Section> {
    let runs: Vec<Run<'_>> = devices.iter().flat_map(runs).collect();
    let mut jobs: Vec<&str> = vec![];
    for run in &runs {
        if !jobs.contains(&run.job.as_str()) {
            jobs.push(&run.job);
        }
    }
    let mut charts = vec![];
    let mut heats = vec![];
    for job in jobs {
        let same: Vec<&Run<'_>> = runs.iter().filter(|run| run.job == job).collect();
        for group in [latencies(&same), rates(&same)] {
            let group: Vec<&Series> = group.iter().collect();
            charts.push(interactive(&series::figure(&group), &[series::interactive(&group, LINK)]));
        }
        heats.extend(same.iter().filter_map(|run| {
            let title = format!("{}: {}", run.name, run.job);
            let (figure, chart) = latency_heat::figure(&title, LINK, run.timeline)?;
            Some(interactive(&figure, &[chart]))
        }));
    }
    let count = heats.len();
    let heats = element("div").class("grid2").children(heats);
    let heats = match count {
        0 => return None,
        n if n > HEATS_MAX => folded(&plural(n, "heat map"), [heats]),
        _ => element("div").class("worn").child(heats),
    };
    let charts: Element = element("div").class("grid2").children(charts);
    Some(Section {
        id: "over-time",
        title: "Over time",
        short: "Over time",
        intro: Some(
            "Simulated time since the start of the job. Drag across a chart to zoom into a time range, in all charts of \
             this section; a double click shows everything. A name above a chart switches its series off and on. With the \
             keyboard, the arrow keys move along a chart, + and − zoom in and out, and 0 shows everything."
                .into(),
        ),
        body: vec![charts, heats],
    })
}

/// Name of the link between the charts of series over seconds and the heat maps.
const LINK: &str = "over s";

fn runs(device: &DeviceFigures) -> impl Iterator<Item = Run<'_>> {
    let device_name = &device.device;
    device.jobs.iter().enumerate().filter_map(move |(i, job)| {
        let timeline = job.timeline.as_ref().filter(|timeline| !timeline.columns().is_empty())?;
        // `numjobs` runs jobs of one name.
        let count = |jobs: &[JobFigures]| {
            jobs.iter().filter(|other| (&other.job, other.direction) == (&job.job, job.direction)).count()
        };
        let name = match count(&device.jobs) {
            1 => device_name.clone(),
            _ => format!("{device_name}, job {}", count(&device.jobs[..=i])),
        };
        Some(Run { name, job: format!("{}, {}", job.job, job.direction), timeline })
    })
}

/// Returns the latencies: several statistics of one device, or the means of several devices.
fn latencies(runs: &[&Run<'_>]) -> Vec<Series> {
    let greatest = runs.iter().flat_map(|run| run.timeline.columns()).map(|column| column.max_ns).max();
    let (nanoseconds, unit) = number::unit_for(greatest.unwrap_or(0) as f64, &number::TIMES);
    let new = |run: &Run<'_>, column: &str, value: &dyn Fn(&Column) -> Option<f64>| {
        over_time(run, "latency", column, unit, &|column| value(column).map(|ns| ns / nanoseconds))
    };
    match runs {
        [run] => vec![
            new(run, "median", &|column| column.percentile_ns(50.0).map(|ns| ns as f64)),
            new(run, "mean", &Column::mean_ns),
            new(run, "p99", &|column| column.percentile_ns(99.0).map(|ns| ns as f64)),
            new(run, "max", &|column| (column.count > 0).then_some(column.max_ns as f64)),
        ],
        runs => runs
            .iter()
            .map(|run| Series { name: "mean latency".into(), ..new(run, &run.name, &Column::mean_ns) })
            .collect(),
    }
}

/// Minimum mean number of requests in an interval of a rate. With fewer calls of `fsync`, their rate would jump between
/// the intervals with and without a completion. The bytes of a request are spread over its latency.
const REQUESTS_MIN: usize = 4;

/// Returns the bandwidths or, for calls of `fsync`, which move no bytes of their own, the calls per second.
fn rates(runs: &[&Run<'_>]) -> Vec<Series> {
    let bytes: u64 = runs.iter().flat_map(|run| run.timeline.columns()).map(|column| column.bytes).sum();
    let (name, unit) = if bytes > 0 { ("bandwidth", "MiB/s") } else { ("rate", "calls/s") };
    let of = |run: &&Run<'_>| {
        let interval = run.timeline.interval().as_ns() as f64 / 1e9;
        let columns = run.timeline.columns();
        let requests: u64 = columns.iter().map(|column| column.count).sum();
        let together = (REQUESTS_MIN * columns.len()).div_ceil(requests.max(1) as usize);
        let amount =
            |column: &Column| if bytes > 0 { number::mib(column.bytes as f64) } else { column.count as f64 };
        let point = |(i, columns): (usize, &[Column])| {
            let seconds = columns.len() as f64 * interval;
            let begin = (i * together) as f64 * interval;
            (begin + seconds / 2.0, columns.iter().map(amount).sum::<f64>() / seconds)
        };
        let points = columns.chunks(together.max(1)).enumerate().map(point).collect();
        let label = if runs.len() > 1 { &run.name } else { "" };
        let mut series = new_series(run, (name, label), unit, points);
        // The job ends within the last interval, whose rate would be too low.
        if series.points.len() > 2 {
            series.points.pop();
        }
        series
    };
    runs.iter().map(of).collect()
}

/// Returns a series with one point in the middle of each interval that has a value.
fn over_time(
    run: &Run<'_>,
    name: &str,
    column: &str,
    unit: &str,
    value: &dyn Fn(&Column) -> Option<f64>,
) -> Series {
    let seconds = run.timeline.interval().as_ns() as f64 / 1e9;
    let point = |(i, column): (usize, &Column)| Some(((i as f64 + 0.5) * seconds, value(column)?));
    let points = run.timeline.columns().iter().enumerate().filter_map(point).collect();
    new_series(run, (name, column), unit, points)
}

fn new_series(run: &Run<'_>, (name, column): (&str, &str), unit: &str, points: Vec<(f64, f64)>) -> Series {
    let (step, x_unit) = (run.job.clone(), "s".into());
    Series { name: name.into(), step, column: column.into(), unit: unit.into(), x_unit, points }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flashlab_fio::job::{Direction, Job};
    use flashlab_fio::stats::{Settings, Statistics};
    use flashlab_fio::workload::{Io, Record};
    use flashlab_lab::figures::figures;
    use flashlab_lab::run_inputs::DeviceInputs;
    use flashlab_sim::{Duration, FileId, Instant, Mechanism, Spent};

    /// Returns the figures of two jobs of one name, each with 16 trims of 1 MiB that take 1.3 ms each.
    fn device() -> DeviceFigures {
        let jobs = [Job::default(), Job::default()];
        let mut statistics = Statistics::new(&jobs, &Settings { timeline: true, ..Settings::default() });
        let mut wave = statistics.wave(0..2);
        let mut spent = Spent::default();
        spent[Mechanism::Firmware] = Duration::from_us(1_300);
        for job in 0..2 {
            wave.started(job, Instant::ZERO);
            let mut now = Instant::ZERO;
            for _ in 0..16 {
                let (file, ready) = (FileId::DEVICE, now);
                let io =
                    Io { direction: Direction::Trim, file, offset: 0, length: 1 << 20, ready, issued: ready };
                now += spent.total();
                wave.completed(job, &io, now, &spent);
            }
            wave.finished(job, now);
        }
        let jobs = statistics.reports(&jobs).iter().flat_map(|report| figures(report, None)).collect();
        DeviceFigures {
            device: "sd/sandisk".into(),
            title: String::new(),
            written_first_bytes: 0,
            jobs,
            notes: vec![],
            error: None,
            inputs: DeviceInputs::default(),
        }
    }

    #[test]
    fn the_bandwidth_of_an_even_device_is_even() {
        let device = device();
        let all: Vec<Run<'_>> = runs(&device).collect();
        let rates = rates(&all.iter().collect::<Vec<_>>());
        let mean = 1e3 / 1.3;
        for (_, rate) in &rates[0].points {
            assert!((rate / mean - 1.0).abs() < 0.01, "{:?}", rates[0].points);
        }
    }

    #[test]
    fn jobs_of_one_name_on_one_device_have_numbers() {
        let device = device();
        let names: Vec<String> = runs(&device).map(|run| run.name).collect();
        assert_eq!(names, ["sd/sandisk, job 1", "sd/sandisk, job 2"]);
    }
}
