//! The latencies and the rates of jobs over time. All charts of the section are linked: a time range that the reader
//! selects in one chart is shown in all of them.

use super::{Section, comparison::interactive, folded};
use crate::{
    figure::{latency_heat, series},
    markup::{Element, element},
    number::{self, plural},
};
use flashlab_fio::stats::{Column, Timeline};
use flashlab_lab::figures::DeviceFigures;
use flashlab_lab::results::Series;

/// Maximum number of heat maps that are shown unfolded.
const HEATS_MAX: usize = 4;

/// One direction of a job on one device.
struct Run<'a> {
    device: &'a str,
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
            charts.push(interactive(&series::figure(&group), &[series::interactive(&group)]));
        }
        heats.extend(same.iter().filter_map(|run| {
            let title = format!("{}: {}", run.device, run.job);
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
    device.jobs.iter().filter_map(|job| {
        let timeline = job.timeline.as_ref().filter(|timeline| !timeline.columns().is_empty())?;
        Some(Run { device: &device.device, job: format!("{}, {}", job.job, job.direction), timeline })
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
            new(run, "greatest", &|column| (column.count > 0).then_some(column.max_ns as f64)),
        ],
        runs => runs
            .iter()
            .map(|run| Series { name: "mean latency".into(), ..new(run, run.device, &Column::mean_ns) })
            .collect(),
    }
}

/// Returns the bandwidths or, for calls of `fsync`, which move no bytes of their own, the calls per second.
fn rates(runs: &[&Run<'_>]) -> Vec<Series> {
    let bytes: u64 = runs.iter().flat_map(|run| run.timeline.columns()).map(|column| column.bytes).sum();
    let (name, unit) = if bytes > 0 { ("bandwidth", "MiB/s") } else { ("rate", "calls/s") };
    let of = |run: &&Run<'_>| {
        let seconds = run.timeline.interval().as_ns() as f64 / 1e9;
        let label = if runs.len() > 1 { run.device } else { "" };
        let amount =
            |column: &Column| if bytes > 0 { number::mib(column.bytes as f64) } else { column.count as f64 };
        let rate = |column: &Column| Some(amount(column) / seconds);
        let mut series = over_time(run, name, label, unit, &rate);
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
    Series {
        name: name.into(),
        step: run.job.clone(),
        column: column.into(),
        unit: unit.into(),
        x_unit: "s".into(),
        points: run.timeline.columns().iter().enumerate().filter_map(point).collect(),
    }
}
