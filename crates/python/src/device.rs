//! A device under jobs and single requests, in simulated time and without bytes.

use crate::arguments::{self, end_of_wait, instant, time};
use crate::block_device::BlockDevice;
use crate::completions::{Collector, Completions, integers};
use crate::error::{Error, error, warn_of_rounding};
use crate::interrupt::{self, lock};
use crate::job::{Source, read_file};
use crate::library::LibraryHandle;
use crate::result::RunResult;
use flashlab_block::model::{Throttle, Throttled};
use flashlab_block::{Memory, Pages, write_whole};
use flashlab_catalogue::device::{Device as Profile, Filesystem, State};
use flashlab_fio::stats::Settings;
use flashlab_lab::bench::{Bench, Steps};
use flashlab_lab::iologs;
use flashlab_lab::job_run::JobRun;
use flashlab_lab::progress::Progress;
use flashlab_lab::run_inputs::DeviceInputs;
use flashlab_lab::write_first::WriteFirst;
use flashlab_served::Served;
use flashlab_sim::{Duration, Instant, Model, Op};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// A virtual device: a card, a stick or an SSD in its host.
///
/// Jobs run in simulated time, and the device keeps its state from one run to the next. It times requests and moves no
/// bytes; ``BlockDevice`` moves bytes.
#[pyclass(frozen, module = "flashlab")]
pub(crate) struct Device {
    profile: Profile,
    seed: u64,
    filesystem: Option<String>,
    steps: Mutex<Steps>,
}

impl Device {
    fn open(argument: &str, seed: u64, fs: Option<&str>, library: Option<PathBuf>) -> PyResult<Device> {
        let library = LibraryHandle::open(library)?;
        let profile = Profile::open(argument, library.get()).map_err(|fault| {
            if Served::always_stores_bytes(argument) {
                error(format_args!("{argument}: this device stores bytes: use BlockDevice"))
            } else {
                error(fault)
            }
        })?;
        let mut bench = Bench::with(&profile, seed);
        let filesystem = fs.map(|fs| Filesystem::open(fs, library.get())).transpose().map_err(error)?;
        if let Some(filesystem) = &filesystem {
            bench.format_once(&filesystem.parameters).map_err(error)?;
        }
        let filesystem = filesystem.map(|filesystem| filesystem.argument);
        Ok(Device { profile, seed, filesystem, steps: Mutex::new(Steps::new(bench)) })
    }

    fn run_jobs(
        &self,
        source: &Source,
        write_first: bool,
        settings: &Settings,
        progress: &Progress,
    ) -> PyResult<RunResult> {
        let invocation = source.parse()?;
        let found = iologs::read_all(&invocation.jobs, &|path| read_file(path, iologs::BYTES_MAX));
        let found = found.map_err(error)?;
        let mut steps = lock(&self.steps);
        let bench = steps.idle_bench().map_err(error)?;
        for (name, iolog) in found {
            bench.load_iolog(&name, iolog);
        }
        bench.report_to(progress);
        let writes_first = match write_first && self.profile.state.is_none() {
            true => WriteFirst::Read,
            false => WriteFirst::Nothing,
        };
        let run = JobRun::new(bench, &invocation, settings, writes_first);
        bench.report_to(&Progress::default());
        let mut run = run.map_err(error)?;
        run.counted.column = self.profile.label();
        run.counted.remarks = self.profile.remarks();
        run.inputs.seed = self.seed;
        run.inputs.unwritten = !write_first;
        run.inputs.filesystem.clone_from(&self.filesystem);
        run.device = DeviceInputs::of(&self.profile);
        Ok(RunResult::new(invocation, run, &self.profile))
    }
}

#[pymethods]
impl Device {
    #[new]
    #[pyo3(signature = (name, *, seed = 1, fs = None, library = None, **numbers))]
    fn new(
        py: Python<'_>,
        name: &str,
        seed: u64,
        fs: Option<&str>,
        library: Option<PathBuf>,
        numbers: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Device> {
        let argument = arguments::device(name, numbers)?;
        let device = py.detach(|| Device::open(&argument, seed, fs, library))?;
        warn_of_rounding(py)?;
        Ok(device)
    }

    /// Return the device that ``save`` wrote to a file, in the state that the device had then.
    ///
    /// ``name`` is needed only if the device's profile or its library has moved since.
    #[classmethod]
    #[pyo3(signature = (path, name = None, *, fs = None, library = None))]
    fn load(
        _class: &Bound<'_, PyType>,
        py: Python<'_>,
        path: PathBuf,
        name: Option<String>,
        fs: Option<&str>,
        library: Option<PathBuf>,
    ) -> PyResult<Device> {
        check_state_path(&path)?;
        let device = py.detach(|| {
            let state = State::read(&path).map_err(error)?;
            let saved = name.unwrap_or_else(|| arguments::without_state(&state.device));
            let separator = if saved.contains(':') { ',' } else { ':' };
            let argument = format!("{saved}{separator}state={}", path.display());
            Device::open(&argument, state.seed, fs, library)
        })?;
        warn_of_rounding(py)?;
        Ok(device)
    }

    /// Write the state of the device to a file, from which ``Device.load`` and the command line can continue.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        check_state_path(&path)?;
        py.detach(|| {
            let mut steps = lock(&self.steps);
            let bench = steps.idle_bench().map_err(error)?;
            let state = State::save(&self.profile, self.seed, bench.used(), bench.device()).map_err(error)?;
            write_whole(&path, &state.to_bytes())
                .map_err(|fault| error(format_args!("{}: {fault}", path.display())))
        })
    }

    /// Run fio jobs and return their results.
    ///
    /// ``job`` is the text of a job file, a command line (``"--name=a --rw=randread ..."``), a list of its
    /// words, or the path of a job file. Without ``job``, the keywords are the options of one job:
    /// ``run(rw="randread", bs="4k", runtime=10)``.
    ///
    /// Data that a job reads and that no earlier job wrote is written before the jobs begin, as on a used
    /// device; ``unwritten=True`` skips this step. With ``check``, a job that ends early raises ``Error``,
    /// whose ``result`` has the figures so far. With ``over_time``, the page of the result shows the
    /// latencies over time, which costs the run a few per cent.
    #[pyo3(signature = (job = None, /, *, unwritten = false, over_time = false, check = true, **options))]
    fn run<'py>(
        &self,
        py: Python<'py>,
        job: Option<&Bound<'py, PyAny>>,
        unwritten: bool,
        over_time: bool,
        check: bool,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, RunResult>> {
        let source = Source::new(job, options)?;
        let settings = Settings { timeline: over_time, ..Settings::default() };
        let result = interrupt::run(py, |progress| self.run_jobs(&source, !unwritten, &settings, progress))??;
        let refusal = result.refusal();
        let result = Bound::new(py, result)?;
        match refusal.filter(|_| check) {
            Some(refusal) => {
                let error = Error::new_err(refusal);
                error.value(py).setattr("result", &result)?;
                Err(error)
            }
            None => Ok(result),
        }
    }

    /// Submit one request and return its identifier. ``op`` is ``read``, ``write``, ``write-fua``, ``trim`` or
    /// ``flush``. ``offset`` and ``length`` are multiples of the block of the device. ``at`` is an instant of simulated time
    /// in nanoseconds, not earlier than now; the default is now.
    #[pyo3(signature = (op, offset = 0, length = 4096, *, at = None))]
    fn submit(&self, py: Python<'_>, op: &str, offset: u64, length: u64, at: Option<u64>) -> PyResult<u64> {
        let op = operation(op)?;
        let length = if op.is_flush() { 0 } else { length };
        py.detach(|| {
            let mut steps = lock(&self.steps);
            let now = steps.bench().now();
            let at = at.map_or(Ok(now), |at| instant("at", at))?;
            if at < now {
                let (at, now) = (at.as_ns(), now.as_ns());
                return Err(error(format_args!("at={at}: the time is already {now} ns; it never decreases")));
            }
            check_blocks(steps.bench().device().geometry().block, op, offset, length)?;
            Ok(steps.submit(at, op, offset, length).0)
        })
    }

    /// Let time pass, and return the completions. Time passes until the instant ``to``, for the duration
    /// ``by`` (nanoseconds, or a text such as ``"10ms"``), or, without arguments, until all submitted
    /// requests are complete.
    #[pyo3(signature = (*, to = None, by = None))]
    fn advance(
        &self,
        py: Python<'_>,
        to: Option<u64>,
        by: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Completions> {
        let by = by.map(time).transpose()?;
        if to.is_some() && by.is_some() {
            return Err(error("give `to`, an instant, or `by`, a duration, not both"));
        }
        py.detach(|| {
            let mut steps = lock(&self.steps);
            let mut completions = Collector::default();
            let limit = match (to, by) {
                (Some(to), _) => Some(instant("to", to)?),
                (None, by) => by.map(|by| end_of_wait(steps.bench().now(), by)).transpose()?,
            };
            match limit {
                Some(limit) => steps.advance(limit, |completion| completions.push(&completion)),
                None => {
                    while let Some(completion) = steps.next_completion() {
                        completions.push(&completion);
                    }
                }
            }
            Ok(completions.finish())
        })
    }

    /// Submit many requests in one call and return their completions.
    ///
    /// ``ops`` is one operation for all requests, or one for each. ``offsets`` is a sequence, or an array of
    /// 64-bit integers (``array.array("Q")``, NumPy). ``lengths`` has the same form, or is one number for all
    /// requests. With ``at``, each request is submitted at its instant. Without ``at``, each request is
    /// submitted as soon as fewer than ``depth`` requests are in flight.
    #[pyo3(signature = (ops, offsets, lengths = None, *, depth = 1, at = None))]
    fn submit_many(
        &self,
        py: Python<'_>,
        ops: &Bound<'_, PyAny>,
        offsets: &Bound<'_, PyAny>,
        lengths: Option<&Bound<'_, PyAny>>,
        depth: u64,
        at: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Completions> {
        if depth == 0 {
            return Err(error("depth=0: expected at least 1 request in flight"));
        }
        let batch = Batch::new(ops, offsets, lengths, at)?;
        py.detach(|| {
            let mut steps = lock(&self.steps);
            let block = steps.idle_bench().map_err(error)?.device().geometry().block;
            for (op, offset, length) in batch.requests() {
                check_blocks(block, op, offset, length)?;
            }
            let mut completions = Collector::with_capacity(batch.offsets.len());
            let record = |completion: flashlab_sim::Completion| completions.push(&completion);
            match &batch.at {
                None => steps.run_closed(batch.requests(), depth, record),
                Some(at) => {
                    let timed = at.iter().zip(batch.requests());
                    let timed =
                        timed.map(|(at, (op, offset, length))| (Instant::from_ns(*at), op, offset, length));
                    steps.run_open(timed, record);
                }
            }
            Ok(completions.finish())
        })
    }

    /// Let the device idle. ``duration`` is a number of nanoseconds, or a text such as ``"10s"``.
    fn idle(&self, py: Python<'_>, duration: &Bound<'_, PyAny>) -> PyResult<()> {
        let duration: Duration = time(duration)?;
        py.detach(|| {
            let mut steps = lock(&self.steps);
            let to = end_of_wait(steps.idle_bench().map_err(error)?.now(), duration)?;
            steps.advance(to, |_| ());
            Ok(())
        })
    }

    /// Return the wear of the erase blocks as a dictionary: ``block_bytes``, ``erase_counts``, ``bad``,
    /// ``rated_cycles``, ``mean``, ``min``, ``max``, ``sd`` and ``lifetime_left_percent``; ``None`` if the model has no
    /// erase blocks.
    fn wear<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Some(wear) = py.detach(|| lock(&self.steps).bench().wear()) else { return Ok(None) };
        let (dict, erases) = (PyDict::new(py), wear.erases());
        dict.set_item("block_bytes", wear.bytes)?;
        dict.set_item("mean", erases.mean)?;
        dict.set_item("min", erases.min)?;
        dict.set_item("max", erases.max)?;
        dict.set_item("sd", erases.sd)?;
        dict.set_item("rated_cycles", wear.rated_cycles)?;
        dict.set_item("lifetime_left_percent", wear.lifetime_left_percent())?;
        dict.set_item("bad", &wear.bad)?;
        dict.set_item("erase_counts", &wear.erase_counts)?;
        Ok(Some(dict))
    }

    /// Return all counters of the device since it was new, by name.
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counters = py.detach(|| lock(&self.steps).bench().counters());
        let dict = PyDict::new(py);
        for (name, value) in counters.iter() {
            dict.set_item(name, value)?;
        }
        Ok(dict)
    }

    /// Return a device with bytes that has the wear and the mapping of this device. The bytes are zeroes, and
    /// no host adds time. ``delay`` is added to each request. It is a number of nanoseconds, or a text such
    /// as ``"10ms"``.
    #[pyo3(signature = (*, delay = None))]
    fn block_device(&self, py: Python<'_>, delay: Option<&Bound<'_, PyAny>>) -> PyResult<BlockDevice> {
        let delay = delay.map(time).transpose()?;
        py.detach(|| {
            let mut model = self.profile.build_without_host(self.seed);
            let mut steps = lock(&self.steps);
            let saved = steps.idle_bench().map_err(error)?.device().save();
            let unsupported =
                || error(format_args!("{}: the state of this device cannot be saved", self.profile.name));
            model.restore(&saved.ok_or_else(unsupported)?).map_err(error)?;
            if let Some(delay) = delay {
                model = Box::new(Throttled::new(
                    model,
                    Throttle::Delay { read: delay, write: delay, flush: delay },
                ));
            }
            let memory = Memory::new(model.geometry().capacity, Pages::Small).map_err(error)?;
            let device = flashlab_device::Device::of_model(model, Box::new(memory), self.seed);
            Ok(BlockDevice::of(self.profile.argument.clone(), self.seed, device))
        })
    }

    /// Argument that selects the device on the command line: ``sd/kingston:flash.t_prog=250us``.
    #[getter]
    fn argument(&self) -> &str {
        &self.profile.argument
    }
    /// Name of the profile: ``sd/kingston``.
    #[getter]
    fn name(&self) -> &str {
        &self.profile.name
    }
    /// Full name of the product.
    #[getter]
    fn title(&self) -> &str {
        &self.profile.title
    }
    /// Seed of the device's medium.
    #[getter]
    fn seed(&self) -> u64 {
        self.seed
    }
    /// Capacity in bytes.
    #[getter]
    fn capacity(&self) -> u64 {
        self.profile.capacity()
    }
    /// Simulated time in nanoseconds.
    #[getter]
    fn now_ns(&self, py: Python<'_>) -> u64 {
        py.detach(|| lock(&self.steps).bench().now().as_ns())
    }
    /// Number of submitted requests that are not complete.
    #[getter]
    fn in_flight(&self, py: Python<'_>) -> u64 {
        py.detach(|| lock(&self.steps).in_flight())
    }
    /// Every number of the device and its host: path, value and source.
    #[getter]
    fn numbers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let numbers = serde_json::to_string(&self.profile.numbers()).expect("numbers are texts");
        crate::result::loads(py, &numbers)
    }

    fn __repr__(&self) -> String {
        format!("Device({:?}, seed={})", self.profile.argument, self.seed)
    }
}

/// A batch of requests, in columns of equal length.
struct Batch {
    ops: Vec<Op>,
    offsets: Vec<u64>,
    lengths: Vec<u64>,
    at: Option<Vec<u64>>,
}

impl Batch {
    fn new(
        ops: &Bound<'_, PyAny>,
        offsets: &Bound<'_, PyAny>,
        lengths: Option<&Bound<'_, PyAny>>,
        at: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Batch> {
        let offsets = integers("offsets", offsets)?;
        let ops = match ops.extract::<String>() {
            Ok(op) => vec![operation(&op)?],
            Err(_) => {
                let names: Vec<String> = ops.extract()?;
                names.iter().map(|name| operation(name)).collect::<PyResult<_>>()?
            }
        };
        let lengths = match lengths {
            None => vec![4096],
            Some(lengths) => match lengths.extract::<u64>() {
                Ok(length) => vec![length],
                Err(_) => integers("lengths", lengths)?,
            },
        };
        let at = at.map(|at| integers("at", at)).transpose()?;
        let count = offsets.len();
        let columns = [("ops", ops.len()), ("lengths", lengths.len())];
        let at_length = at.as_ref().map(|at| ("at", at.len()));
        let odd = columns.into_iter().filter(|(_, length)| *length != 1).chain(at_length);
        for (name, length) in odd {
            if length != count {
                return Err(error(format_args!("{name} has {length} entries, but offsets has {count}")));
            }
        }
        if let Some(later) = at.iter().flat_map(|at| at.windows(2)).find(|pair| pair[0] > pair[1]) {
            return Err(error(format_args!(
                "at: {} ns comes after {} ns; instants must not decrease",
                later[1], later[0]
            )));
        }
        if let Some(last) = at.as_ref().and_then(|at| at.last()) {
            instant("at", *last)?;
        }
        Ok(Batch { ops, offsets, lengths, at })
    }

    fn requests(&self) -> impl Iterator<Item = (Op, u64, u64)> + '_ {
        let (one_op, one_length) = (self.ops.len() == 1, self.lengths.len() == 1);
        self.offsets.iter().enumerate().map(move |(n, offset)| {
            let op = self.ops[if one_op { 0 } else { n }];
            let length = self.lengths[if one_length { 0 } else { n }];
            (op, *offset, if op.is_flush() { 0 } else { length })
        })
    }
}

fn operation(name: &str) -> PyResult<Op> {
    Ok(match name {
        "read" => Op::Read,
        "write" => Op::Write,
        "write-fua" => Op::WriteFua,
        "trim" => Op::Trim,
        "flush" => Op::Flush,
        _ => {
            return Err(error(format_args!(
                "{name:?} is not an operation; expected read, write, write-fua, trim or flush"
            )));
        }
    })
}

/// Checks that a request consists of at least one whole block.
fn check_blocks(block: u64, op: Op, offset: u64, length: u64) -> PyResult<()> {
    if op.is_flush() || length > 0 && offset.is_multiple_of(block) && length.is_multiple_of(block) {
        return Ok(());
    }
    Err(error(format_args!(
        "offset={offset}, length={length}: expected multiples of the block of {block} bytes, and a length above 0"
    )))
}

/// Checks that the path contains no comma. Commas separate the keys in the argument of a device.
fn check_state_path(path: &Path) -> PyResult<()> {
    if path.as_os_str().as_encoded_bytes().contains(&b',') {
        return Err(error(format_args!(
            "{}: the path of a state file cannot contain a comma",
            path.display()
        )));
    }
    Ok(())
}
