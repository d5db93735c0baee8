//! The result of a run of jobs.

use crate::arrow::Table;
use crate::error::not_pickled;
use crate::figures::{JobFigures, Latency, mechanisms};
use crate::notebook::framed;
use flashlab_fio::cmdline::{Invocation, OutputFormat};
use flashlab_fio::stats::Report;
use flashlab_lab::bench::{hints, refusal};
use flashlab_lab::figures::{DeviceFigures, PERCENTILES, figures};
use flashlab_lab::job_run::JobRun;
use flashlab_report::html::{JobPage, jobs_page};
use flashlab_report::job_run::{incomplete_note, text, written_first_note};
use flashlab_sim::Duration;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};
use std::collections::BTreeMap;

/// Result of ``Device.run``: the figures of all jobs.
#[pyclass(frozen, name = "Result", module = "flashlab")]
pub(crate) struct RunResult {
    invocation: Invocation,
    run: JobRun,
    device: String,
    title: String,
    t_read: Option<Duration>,
}

impl RunResult {
    pub(crate) fn new(
        invocation: Invocation,
        run: JobRun,
        device: &flashlab_catalogue::device::Device,
    ) -> RunResult {
        let (argument, title, t_read) = (device.argument.clone(), device.title.clone(), device.t_read());
        RunResult { invocation, run, device: argument, title, t_read }
    }

    /// Returns the reason why a job ended early.
    pub(crate) fn refusal(&self) -> Option<String> {
        refusal(&self.run.reports).map(|refusal| refusal.to_string())
    }

    fn figures(&self) -> DeviceFigures {
        let reports = &self.run.reports;
        DeviceFigures {
            device: self.device.clone(),
            title: self.title.clone(),
            written_first_bytes: self.run.notes.written_first,
            jobs: reports.iter().flat_map(|report| figures(report, self.t_read)).collect(),
            notes: hints(reports, self.t_read).iter().map(ToString::to_string).collect(),
            error: self.refusal(),
            inputs: self.run.device.clone(),
        }
    }

    fn of_report(&self, report: &Report) -> Vec<JobFigures> {
        let with_latencies = |found: flashlab_lab::figures::JobFigures| {
            let direction = report.shown().iter().find(|(_, name)| *name == found.direction);
            // The other figures are those of `fsync` and `fdatasync`.
            let latencies = match direction {
                Some((direction, _)) => &report.stats.direction(*direction).clat,
                None => &report.stats.sync,
            };
            JobFigures::new(found, latencies.clone())
        };
        figures(report, self.t_read).into_iter().map(with_latencies).collect()
    }
}

#[pymethods]
impl RunResult {
    /// Requests per second, over all jobs and directions. Jobs that ran one after the other (``stonewall``) count with
    /// the sum of their runtimes.
    #[getter]
    fn iops(&self) -> f64 {
        self.run.requests_per_second()
    }
    /// Bytes per second, over all jobs and directions.
    #[getter]
    fn bandwidth(&self) -> f64 {
        self.run.bytes_per_second()
    }
    /// Number of completed requests.
    #[getter]
    fn requests(&self) -> u64 {
        self.run.requests()
    }
    /// Number of bytes that these requests moved.
    #[getter]
    fn bytes(&self) -> u64 {
        self.run.bytes()
    }
    /// Simulated milliseconds in which jobs ran.
    #[getter]
    fn runtime_ms(&self) -> u64 {
        self.run.runtime_ms()
    }
    /// Completion latencies of all requests.
    #[getter]
    fn latency(&self) -> Latency {
        Latency::new(self.run.latencies())
    }
    /// Mean nanoseconds per request by mechanism, over all requests; they add up to the mean latency.
    #[getter]
    fn mechanisms<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        mechanisms(py, self.run.mechanisms_ns().into_iter())
    }
    /// Figures of each direction of each job in which a request completed, and of the job's ``fsync`` and
    /// ``fdatasync``.
    #[getter]
    fn jobs(&self) -> Vec<JobFigures> {
        self.run.reports.iter().flat_map(|report| self.of_report(report)).collect()
    }
    /// Counters of the device during the run: bytes, write amplification, erases, look-ups of the map, remaining life.
    #[getter]
    fn device<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let counted =
            serde_json::to_string(&self.run.counted).expect("names are text and figures are finite");
        loads(py, &counted)
    }
    /// Bytes that were written before the jobs began, because the jobs read them.
    #[getter]
    fn written_first(&self) -> u64 {
        self.run.notes.written_first
    }
    /// The reason why a job ended early, such as a request that the device rejected; ``None`` if all jobs ended as
    /// planned.
    #[getter]
    fn error(&self) -> Option<String> {
        self.refusal()
    }
    /// Remarks that a reader of the figures should know.
    #[getter]
    fn notes(&self) -> Vec<String> {
        let notes = &self.run.notes;
        let own = [notes.files.clone(), written_first_note(notes), incomplete_note(notes)];
        let without_effect = self.invocation.without_effect();
        let ignored = (!without_effect.is_empty())
            .then(|| format!("without effect here: {}", without_effect.join(", ")));
        let logs = self.invocation.jobs.iter().any(|job| {
            [&job.write_bw_log, &job.write_lat_log, &job.write_iops_log].into_iter().any(Option::is_some)
        });
        let logs = logs.then(|| "run() writes no logs; `flashlab bench` does".to_owned());
        let hints = hints(&self.run.reports, self.t_read).into_iter().map(|hint| hint.to_string());
        let remarks = self.run.counted.remarks.iter().cloned();
        own.into_iter().chain([ignored, logs]).flatten().chain(hints).chain(remarks).collect()
    }
    /// Text of each iolog that a job requests with ``write_iolog``, by its name.
    #[getter]
    fn iologs(&self) -> BTreeMap<String, String> {
        let named = |(job, text): (&usize, &String)| {
            let job = &self.invocation.jobs[*job];
            (job.write_iolog.clone().unwrap_or_default(), text.clone())
        };
        self.run.iologs.iter().map(named).collect()
    }

    /// Return the JSON of ``flashlab bench --output-format=json``.
    fn json(&self) -> String {
        text(&self.invocation, &self.run, OutputFormat::Json)
    }
    /// Return the contents of ``json`` as dictionaries and lists.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        loads(py, &self.json())
    }
    /// Return fio's normal output with the counters of the device.
    fn text(&self) -> String {
        text(&self.invocation, &self.run, OutputFormat::Normal)
    }
    /// Return a page with results, latencies and mechanisms.
    fn html(&self) -> String {
        let notes: Vec<String> =
            [self.run.notes.files.clone(), incomplete_note(&self.run.notes)].into_iter().flatten().collect();
        jobs_page(&JobPage {
            title: &self.device,
            run: &self.run.inputs,
            command: &format!("flashlab.Device({:?}).run(...)", self.device),
            devices: &[self.figures()],
            notes: &notes,
        })
    }

    fn _repr_html_(&self) -> String {
        framed(&self.html())
    }

    /// Return the table of the jobs, one row for each direction of each job.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The protocol lets a producer ignore the request.
        let _ = requested_schema;
        let rows: Vec<_> = self.run.reports.iter().flat_map(|report| figures(report, self.t_read)).collect();
        let mut table = Table::default();
        table.texts("job", rows.iter().map(|row| &row.job));
        table.texts("direction", rows.iter().map(|row| row.direction));
        table.counts("requests", rows.iter().map(|row| row.requests));
        table.counts("bytes", rows.iter().map(|row| row.bytes));
        table.counts("runtime_ms", rows.iter().map(|row| row.runtime_ms));
        table.figures("iops", rows.iter().map(|row| row.iops));
        table.counts("bandwidth", rows.iter().map(|row| row.bytes_per_second));
        table.counts("latency_ns_min", rows.iter().map(|row| row.latency.min_ns));
        table.figures("latency_ns_mean", rows.iter().map(|row| row.latency.mean_ns));
        table.figures("latency_ns_stddev", rows.iter().map(|row| row.latency.stddev_ns));
        table.counts("latency_ns_max", rows.iter().map(|row| row.latency.max_ns));
        for (n, percent) in PERCENTILES.iter().enumerate() {
            let name = format!("latency_ns_p{percent}").replace('.', "_");
            table.counts(&name, rows.iter().map(|row| row.latency.percentiles_ns[n].1));
        }
        table.mechanisms(&rows.iter().map(|row| &row.mechanisms_ns.0[..]).collect::<Vec<_>>());
        table.stream(py)
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(not_pickled("Result", "result.to_dict()"))
    }

    fn __repr__(&self) -> String {
        format!(
            "Result(device={:?}, requests={}, iops={:.1}, bandwidth={:.2} MiB/s, mean latency={:.1} us)",
            self.device,
            self.requests(),
            self.iops(),
            self.bandwidth() / f64::from(1 << 20),
            self.run.latencies().mean_ns() / 1_000.0
        )
    }
}

/// Parses JSON into Python's dictionaries and lists.
pub(crate) fn loads<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import("json")?.call_method1("loads", (text,))
}
