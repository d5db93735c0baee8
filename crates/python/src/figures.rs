//! Figures of jobs: rates, latencies and mechanisms.

use crate::error::error;
use flashlab_lab::figures;
use flashlab_lab::results::Mechanisms;
use flashlab_sim::{Duration, Histogram, Mechanism};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};

/// Completion latencies, in nanoseconds.
#[pyclass(frozen, module = "flashlab")]
pub(crate) struct Latency {
    histogram: Histogram,
}

impl Latency {
    pub(crate) fn new(histogram: Histogram) -> Latency {
        Latency { histogram }
    }
}

#[pymethods]
impl Latency {
    /// Number of requests.
    #[getter]
    fn count(&self) -> u64 {
        self.histogram.count()
    }
    #[getter]
    fn min_ns(&self) -> u64 {
        self.histogram.min().as_ns()
    }
    #[getter]
    fn max_ns(&self) -> u64 {
        self.histogram.max().as_ns()
    }
    #[getter]
    fn mean_ns(&self) -> f64 {
        self.histogram.mean_ns()
    }
    #[getter]
    fn stddev_ns(&self) -> f64 {
        self.histogram.stddev_ns()
    }

    /// Return a percentile as fio's histogram gives it: ``percentile(99.9)``.
    fn percentile(&self, percent: f64) -> PyResult<u64> {
        if !(0.0..=100.0).contains(&percent) {
            return Err(error(format_args!("percentile({percent}): expected 0 to 100")));
        }
        let found: Duration = self.histogram.percentile(percent);
        Ok(found.min(self.histogram.max()).as_ns())
    }

    /// Percentiles in nanoseconds, by percent.
    #[getter]
    fn percentiles<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let percentiles = PyDict::new(py);
        for percent in figures::PERCENTILES {
            percentiles.set_item(percent, self.percentile(percent)?)?;
        }
        Ok(percentiles)
    }

    /// Return the midpoint in nanoseconds and the count of each non-empty bucket of the histogram.
    fn histogram(&self) -> Vec<(u64, u64)> {
        self.histogram.occupied().collect()
    }

    fn __repr__(&self) -> String {
        let us = |ns: f64| ns / 1_000.0;
        format!(
            "Latency(count={}, mean={:.1} us, p99={:.1} us, max={:.1} us)",
            self.count(),
            us(self.mean_ns()),
            us(self.histogram.percentile(99.0).min(self.histogram.max()).as_ns() as f64),
            us(self.max_ns() as f64)
        )
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Parts)> {
        Ok((slf.getattr("_restore")?, parts(&slf.get().histogram)))
    }

    /// Return the latencies of which ``__reduce__`` returned the parts.
    #[classmethod]
    fn _restore(_class: &Bound<'_, PyType>, buckets: Vec<(u64, u64)>, moments: &str) -> PyResult<Latency> {
        Ok(Latency::new(histogram((buckets, moments.to_owned()))?))
    }
}

/// The buckets of a histogram, and its moments as JSON.
type Parts = (Vec<(u64, u64)>, String);

fn parts(of: &Histogram) -> Parts {
    (of.occupied().collect(), serde_json::to_string(of.moments()).expect("plain numbers"))
}

fn histogram((buckets, moments): Parts) -> PyResult<Histogram> {
    let moments = serde_json::from_str(&moments).map_err(error)?;
    Ok(Histogram::from_parts(buckets, moments))
}

/// Figures of one direction of one job, or of a group of jobs that is reported as one.
#[pyclass(frozen, module = "flashlab")]
pub(crate) struct JobFigures {
    figures: figures::JobFigures,
    latencies: Histogram,
}

impl JobFigures {
    pub(crate) fn new(figures: figures::JobFigures, latencies: Histogram) -> JobFigures {
        JobFigures { figures, latencies }
    }
}

#[pymethods]
impl JobFigures {
    /// Name of the job.
    #[getter]
    fn job(&self) -> &str {
        &self.figures.job
    }
    /// ``read``, ``write``, ``trim``, ``mixed`` (with ``unified_rw_reporting``), or ``sync`` for ``fsync`` and
    /// ``fdatasync``.
    #[getter]
    fn direction(&self) -> &str {
        self.figures.direction
    }
    /// Number of completed requests.
    #[getter]
    fn requests(&self) -> u64 {
        self.figures.requests
    }
    /// Number of bytes that these requests moved.
    #[getter]
    fn bytes(&self) -> u64 {
        self.figures.bytes
    }
    /// Simulated milliseconds from the first request to the end.
    #[getter]
    fn runtime_ms(&self) -> u64 {
        self.figures.runtime_ms
    }
    /// Requests per second.
    #[getter]
    fn iops(&self) -> f64 {
        self.figures.iops
    }
    /// Bytes per second.
    #[getter]
    fn bandwidth(&self) -> u64 {
        self.figures.bytes_per_second
    }
    /// Completion latencies.
    #[getter]
    fn latency(&self) -> Latency {
        Latency::new(self.latencies.clone())
    }
    /// Mean nanoseconds per request by mechanism; they add up to the mean latency.
    #[getter]
    fn mechanisms<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        mechanisms(py, self.figures.mechanisms_ns.0.iter().copied())
    }
    /// True if most of these reads addressed data that was never written, and therefore touched no flash.
    #[getter]
    fn unwritten(&self) -> bool {
        self.figures.unwritten
    }

    fn __repr__(&self) -> String {
        let JobFigures { figures, .. } = self;
        format!(
            "JobFigures(job={:?}, direction={:?}, iops={:.1}, bandwidth={})",
            figures.job, figures.direction, figures.iops, figures.bytes_per_second
        )
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Pickled)> {
        let JobFigures { figures, latencies } = slf.get();
        let counts = (figures.requests, figures.bytes, figures.runtime_ms, figures.bytes_per_second);
        let name = (figures.job.clone(), figures.direction.to_owned());
        let mechanisms = figures.mechanisms_ns.0.iter().map(|(name, ns)| ((*name).to_owned(), *ns)).collect();
        let pickled = (name, counts, figures.iops, mechanisms, figures.unwritten, parts(latencies));
        Ok((slf.getattr("_restore")?, pickled))
    }

    /// Return the figures of which ``__reduce__`` returned the parts.
    #[classmethod]
    fn _restore(
        _class: &Bound<'_, PyType>,
        name: (String, String),
        counts: (u64, u64, u64, u64),
        iops: f64,
        mechanisms: Vec<(String, f64)>,
        unwritten: bool,
        latencies: Parts,
    ) -> PyResult<JobFigures> {
        let (job, direction) = name;
        let (requests, bytes, runtime_ms, bytes_per_second) = counts;
        let direction = DIRECTIONS.into_iter().find(|known| *known == direction);
        let latencies = histogram(latencies)?;
        let figures = figures::JobFigures {
            job,
            direction: direction.ok_or_else(|| error("the pickled figures have an unknown direction"))?,
            requests,
            bytes,
            runtime_ms,
            iops,
            bytes_per_second,
            latency: figures::latency(&latencies),
            mechanisms_ns: known(mechanisms)?,
            unwritten,
            // In Python, the write amplification is one of the counters of the device.
            write_amplification: None,
            timeline: None,
        };
        Ok(JobFigures { figures, latencies })
    }
}

/// Directions of figures.
const DIRECTIONS: [&str; 5] = ["read", "write", "trim", "mixed", figures::SYNC];

/// Names and counts, rate, mechanisms, `unwritten`, and latencies of a job.
type Pickled = ((String, String), (u64, u64, u64, u64), f64, Vec<(String, f64)>, bool, Parts);

/// Returns pickled nanoseconds by mechanism.
pub(crate) fn known(mechanisms: Vec<(String, f64)>) -> PyResult<Mechanisms> {
    let of = |(name, ns): (String, f64)| {
        let found = Mechanism::ALL.into_iter().find(|mechanism| mechanism.name() == name);
        found
            .map(|mechanism| (mechanism.name(), ns))
            .ok_or_else(|| error(format_args!("{name:?} is no mechanism")))
    };
    mechanisms.into_iter().map(of).collect::<PyResult<_>>().map(Mechanisms)
}

/// Returns nanoseconds by mechanism as a dictionary, in printing order.
pub(crate) fn mechanisms<'py, V: IntoPyObject<'py>>(
    py: Python<'py>,
    entries: impl Iterator<Item = (&'static str, V)>,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, ns) in entries {
        dict.set_item(name, ns)?;
    }
    Ok(dict)
}
