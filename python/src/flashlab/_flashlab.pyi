"""Types of the native module."""

import os
import pathlib
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

__version__: str

_Job = Union[str, "os.PathLike[str]", Sequence[str]]
_Number = Union[str, int, float, bool, None]
_Integers = Union[Sequence[int], memoryview, Any]

class Error(Exception):
    """A device, a job or an experiment is invalid or could not be carried out. The text names the fault, its place and a remedy."""

    result: Result
    """Figures so far, if ``Device.run`` raised because a job ended early."""

class IoError(Error, OSError):
    """Raised if a device rejects a request; ``errno`` is the number of the error."""

class BlockDevice:
    """A virtual device with bytes, in simulated time: it can be slow, worn or faulty, and its power can be cut at any
    instant.

    ``name`` is a name as for ``Device``, or a device with layers as for ``flashlab serve``:
    ``memory:size=1M+delay:read=10ms``, ``sd/kingston+error:rate=0.01``. Requests that the device rejects raise
    ``flashlab.IoError``, which is an ``OSError``.
    """
    def __init__(self, name: str, *, seed: int = 1, **numbers: _Number) -> None: ...
    def read(self, offset: int, length: int) -> bytes:
        """Return ``length`` bytes at ``offset``."""
    def write(self, offset: int, data: Union[bytes, bytearray, memoryview], *, durable: bool = False) -> None:
        """Write bytes at ``offset``. They become durable with a flush, or at once with ``durable=True`` (FUA)."""
    def flush(self) -> None:
        """Make all completed writes durable."""
    def discard(self, offset: int, length: int) -> None:
        """Discard a range, which then reads as zeroes or as before."""
    def wait(self, duration: Union[int, str]) -> None:
        """Let time pass while the device works in the background. ``duration`` is a number of nanoseconds, or a text
        such as ``"10ms"``.
        """
    def cut_power(self) -> List[Tuple[int, int, str]]:
        """Cut the power now. Return the ranges that were not durable, as (first byte, end, fate); a fate is ``old``, ``new``
        or ``unreadable``.
        """
    def cut_power_at(self, at: int) -> None:
        """Cut the power when the simulated time reaches ``at`` nanoseconds, even in the middle of a request."""
    def cut_power_during_write(self, nth: int = 1) -> None:
        """Cut the power during the ``nth`` write or discard from now on, at an instant that the seed draws."""
    def take_planned_cut(self) -> Optional[List[Tuple[int, int, str]]]:
        """Return the effect of a planned power cut in the form of ``cut_power``; ``None`` if the cut has not happened."""
    def restore_power(self) -> None:
        """Restore the power. The time advances to the end of the device's recovery."""
    def add_fault(self, rule: str) -> None:
        """Make requests fail by a rule such as ``write after=3 times=1 EIO`` or ``read at=0+4096 rate=0.5``."""
    def clear_faults(self) -> None:
        """Remove the rules that ``add_fault`` added."""
    def counters(self) -> Dict[str, int]:
        """Return all counters of the device by name; empty if the device has no model."""
    def erase_counts(self) -> List[int]:
        """Return the number of erases of each erase block; empty if the device has none."""
    @property
    def is_powered(self) -> bool:
        """True unless the power is off."""
    @property
    def capacity(self) -> int:
        """Capacity in bytes."""
    @property
    def block_size(self) -> int:
        """Block size in bytes: offsets and lengths are multiples of it."""
    @property
    def now_ns(self) -> int:
        """Simulated time in nanoseconds."""
    @property
    def seed(self) -> int:
        """Seed of the medium, of the instants of power cuts and of injected errors."""
    @property
    def name(self) -> str:
        """Name with which the device was opened."""

class serve:
    """A device as a real block device over NBD, from ``__enter__`` to ``__exit__``.

    ``with serve("sd/kingston") as uri`` listens on a private Unix socket. ``socket=`` gives the path of
    another socket, and ``port=`` listens on localhost instead (0: a free port). ``speed`` is the speed of the
    device's time relative to a clock: 2 is twice as fast, 1000 is the maximum, and 0 never waits. ``name``
    may have layers, as in ``flashlab serve``.
    """
    def __init__(
        self,
        name: str,
        *,
        socket: Union[str, "os.PathLike[str]", None] = None,
        port: Optional[int] = None,
        seed: int = 1,
        speed: float = 1.0,
        read_only: bool = False,
        library: Union[str, "os.PathLike[str]", None] = None,
        **numbers: _Number,
    ) -> None: ...
    def __enter__(self) -> str: ...
    def __exit__(self, *_exception: object) -> None: ...
    @property
    def uri(self) -> Optional[str]:
        """URI of the device; ``None`` unless it is being served."""

class Fit:
    """Numbers that were estimated from measurements."""
    @property
    def cards(self) -> List[str]:
        """Names of the cards."""
    def profile(self, card: int = 0, *, name: Optional[str] = None) -> str:
        """Return the profile of a card as TOML, for ``Device("./card.toml")``. ``name`` is the name of the product."""
    def json(self) -> str:
        """Return the JSON of ``flashlab fit --format json``."""
    def to_dict(self) -> Dict[str, Any]:
        """Return the contents of ``json`` as dictionaries and lists: numbers with intervals, cells, conclusions."""
    def table(self, width: int = 100) -> str:
        """Return the tables of ``flashlab fit``, at most ``width`` columns wide."""
    def html(self) -> str:
        """Return the page of ``flashlab fit``."""
    def _repr_html_(self) -> str: ...

def fit(
    *measurements: Union[str, "os.PathLike[str]"],
    base: str | None = None,
    host: Optional[str] = None,
    fit_host: bool = False,
    numbers: Sequence[str] = ...,
    steps: Sequence[str] = ...,
    exact: bool = False,
    floor: float = 1.5,
    seed: int = 1,
    library: Union[str, "os.PathLike[str]", None] = None,
) -> Fit:
    """Estimate the numbers of a card from measurements, as ``flashlab fit`` does.

    Each of ``measurements`` is a file of ``flashlab measure``, fio's JSON, a table ``job,value,sd``, a log of other
    programs, or the published cells of a device: ``sd-cards:kingston``. Several cards share one host.
    """

class Device:
    """A virtual device: a card, a stick or an SSD in its host.

    Jobs run in simulated time, and the device keeps its state from one run to the next. It times requests and moves no
    bytes; ``BlockDevice`` moves bytes.
    """
    def __init__(
        self,
        name: str,
        *,
        seed: int = 1,
        fs: Optional[str] = None,
        library: Union[str, "os.PathLike[str]", None] = None,
        **numbers: _Number,
    ) -> None: ...
    @classmethod
    def load(
        cls,
        path: Union[str, "os.PathLike[str]"],
        name: Optional[str] = None,
        *,
        fs: Optional[str] = None,
        library: Union[str, "os.PathLike[str]", None] = None,
    ) -> Device:
        """Return the device that ``save`` wrote to a file, in the state that the device had then.

        ``name`` is needed only if the device's profile or its library has moved since.
        """
    def save(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Write the state of the device to a file, from which ``Device.load`` and the command line can continue."""
    def run(
        self,
        job: Optional[_Job] = None,
        /,
        *,
        unwritten: bool = False,
        over_time: bool = False,
        check: bool = True,
        **options: _Number,
    ) -> Result:
        """Run fio jobs and return their results.

        ``job`` is the text of a job file, a command line (``"--name=a --rw=randread ..."``), a list of its
        words, or the path of a job file. Without ``job``, the keywords are the options of one job:
        ``run(rw="randread", bs="4k", runtime=10)``.

        Data that a job reads and that no earlier job wrote is written before the jobs begin, as on a used
        device; ``unwritten=True`` skips this step. With ``check``, a job that ends early raises ``Error``,
        whose ``result`` has the figures so far. With ``over_time``, the page of the result shows the
        latencies over time, which costs the run a few per cent.
        """
    def submit(self, op: str, offset: int = 0, length: int = 4096, *, at: Optional[int] = None) -> int:
        """Submit one request and return its identifier. ``op`` is ``read``, ``write``, ``write-fua``, ``trim`` or
        ``flush``. ``offset`` and ``length`` are multiples of the block of the device. ``at`` is an instant of simulated time
        in nanoseconds, not earlier than now; the default is now.
        """
    def advance(self, *, to: Optional[int] = None, by: Union[int, str, None] = None) -> Completions:
        """Let time pass, and return the completions. Time passes until the instant ``to``, for the duration
        ``by`` (nanoseconds, or a text such as ``"10ms"``), or, without arguments, until all submitted
        requests are complete.
        """
    def submit_many(
        self,
        ops: Union[str, Sequence[str]],
        offsets: _Integers,
        lengths: Union[int, _Integers, None] = None,
        *,
        depth: int = 1,
        at: Optional[_Integers] = None,
    ) -> Completions:
        """Submit many requests in one call and return their completions.

        ``ops`` is one operation for all requests, or one for each. ``offsets`` is a sequence, or an array of
        64-bit integers (``array.array("Q")``, NumPy). ``lengths`` has the same form, or is one number for all
        requests. With ``at``, each request is submitted at its instant. Without ``at``, each request is
        submitted as soon as fewer than ``depth`` requests are in flight.
        """
    def idle(self, duration: Union[int, str]) -> None:
        """Let the device idle. ``duration`` is a number of nanoseconds, or a text such as ``"10s"``."""
    def block_device(self, *, delay: Union[int, str, None] = None) -> BlockDevice:
        """Return a device with bytes that has the wear and the mapping of this device. The bytes are zeroes, and
        no host adds time. ``delay`` is added to each request. It is a number of nanoseconds, or a text such
        as ``"10ms"``.
        """
    def wear(self) -> Optional[Dict[str, Any]]:
        """Return the wear of the erase blocks as a dictionary: ``block_bytes``, ``erase_counts``, ``bad``,
        ``rated_cycles``, ``mean``, ``min``, ``max``, ``sd`` and ``lifetime_left_percent``; ``None`` if the model has no
        erase blocks.
        """
    def counters(self) -> Dict[str, int]:
        """Return all counters of the device since it was new, by name."""
    @property
    def name(self) -> str:
        """Name of the profile: ``sd/kingston``."""
    @property
    def argument(self) -> str:
        """Argument that selects the device on the command line: ``sd/kingston:flash.t_prog=250us``."""
    @property
    def title(self) -> str:
        """Full name of the product."""
    @property
    def seed(self) -> int:
        """Seed of the device's medium."""
    @property
    def capacity(self) -> int:
        """Capacity in bytes."""
    @property
    def now_ns(self) -> int:
        """Simulated time in nanoseconds."""
    @property
    def in_flight(self) -> int:
        """Number of submitted requests that are not complete."""
    @property
    def numbers(self) -> List[Dict[str, Any]]:
        """Every number of the device and its host: path, value and source."""

class Completions:
    """Completions of requests, in the order of their instants, as columns.

    ``ids``, ``at_ns`` and ``latency_ns`` are memory views of 64-bit integers: ``list(c.latency_ns)`` and
    ``numpy.asarray(c.latency_ns)`` both work.
    """
    def __len__(self) -> int: ...
    @property
    def ids(self) -> memoryview:
        """Identifiers of the requests, as ``submit`` returned them."""
    @property
    def at_ns(self) -> memoryview:
        """Instants of the completions, in nanoseconds of simulated time."""
    @property
    def latency_ns(self) -> memoryview:
        """Latencies in nanoseconds."""
    @property
    def statuses(self) -> List[str]:
        """Statuses as texts: ``ok``, ``out of range``, ``unsupported``, ``read-only``, ``unreadable``."""
    @property
    def ok(self) -> bool:
        """True if every request succeeded."""
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...
    @property
    def mechanisms(self) -> Dict[str, int]:
        """Nanoseconds by mechanism, summed over the requests; they add up to the sum of the latencies."""

class Latency:
    """Completion latencies, in nanoseconds."""
    @property
    def count(self) -> int:
        """Number of requests."""
    @property
    def min_ns(self) -> int: ...
    @property
    def max_ns(self) -> int: ...
    @property
    def mean_ns(self) -> float: ...
    @property
    def stddev_ns(self) -> float: ...
    @property
    def percentiles(self) -> Dict[float, int]:
        """Percentiles in nanoseconds, by percent."""
    def percentile(self, percent: float) -> int:
        """Return a percentile as fio's histogram gives it: ``percentile(99.9)``."""
    def histogram(self) -> List[Tuple[int, int]]:
        """Return the midpoint in nanoseconds and the count of each non-empty bucket of the histogram."""

class JobFigures:
    """Figures of one direction of one job, or of a group of jobs that is reported as one."""
    @property
    def job(self) -> str:
        """Name of the job."""
    @property
    def direction(self) -> str:
        """``read``, ``write``, ``trim``, ``mixed`` (with ``unified_rw_reporting``), or ``sync`` for ``fsync`` and
        ``fdatasync``.
        """
    @property
    def requests(self) -> int:
        """Number of completed requests."""
    @property
    def bytes(self) -> int:
        """Number of bytes that these requests moved."""
    @property
    def runtime_ms(self) -> int:
        """Simulated milliseconds from the first request to the end."""
    @property
    def iops(self) -> float:
        """Requests per second."""
    @property
    def bandwidth(self) -> int:
        """Bytes per second."""
    @property
    def latency(self) -> Latency:
        """Completion latencies."""
    @property
    def mechanisms(self) -> Dict[str, float]:
        """Mean nanoseconds per request by mechanism; they add up to the mean latency."""
    @property
    def unwritten(self) -> bool:
        """True if most of these reads addressed data that was never written, and therefore touched no flash."""

class Result:
    """Result of ``Device.run``: the figures of all jobs."""
    @property
    def iops(self) -> float:
        """Requests per second, over all jobs and directions. Jobs that ran one after the other (``stonewall``) count with
        the sum of their runtimes.
        """
    @property
    def bandwidth(self) -> float:
        """Bytes per second, over all jobs and directions."""
    @property
    def requests(self) -> int:
        """Number of completed requests."""
    @property
    def bytes(self) -> int:
        """Number of bytes that these requests moved."""
    @property
    def runtime_ms(self) -> int:
        """Simulated milliseconds in which jobs ran."""
    @property
    def latency(self) -> Latency:
        """Completion latencies of all requests."""
    @property
    def mechanisms(self) -> Dict[str, float]:
        """Mean nanoseconds per request by mechanism, over all requests; they add up to the mean latency."""
    @property
    def jobs(self) -> List[JobFigures]:
        """Figures of each direction of each job in which a request completed, and of the job's ``fsync`` and
        ``fdatasync``.
        """
    @property
    def device(self) -> Dict[str, Any]:
        """Counters of the device during the run: bytes, write amplification, erases, look-ups of the map, remaining life."""
    @property
    def written_first(self) -> int:
        """Bytes that were written before the jobs began, because the jobs read them."""
    @property
    def error(self) -> Optional[str]:
        """The reason why a job ended early, such as a request that the device rejected; ``None`` if all jobs ended as
        planned.
        """
    @property
    def notes(self) -> List[str]:
        """Remarks that a reader of the figures should know."""
    @property
    def iologs(self) -> Dict[str, str]:
        """Text of each iolog that a job requests with ``write_iolog``, by its name."""
    def json(self) -> str:
        """Return the JSON of ``flashlab bench --output-format=json``."""
    def to_dict(self) -> Dict[str, Any]:
        """Return the contents of ``json`` as dictionaries and lists."""
    def text(self) -> str:
        """Return fio's normal output with the counters of the device."""
    def html(self) -> str:
        """Return a page with results, latencies and mechanisms."""
    def _repr_html_(self) -> str: ...
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...

class Experiment:
    """An experiment: a simulation whose results are compared with published figures.

    ``name`` is one of ``experiments()``, or the path of a folder with an experiment.
    """
    def __init__(self, name: str, *, library: Union[str, "os.PathLike[str]", None] = None) -> None: ...
    @property
    def name(self) -> str:
        """Name of the experiment."""
    @property
    def title(self) -> str:
        """Subject of the comparison, in one line."""
    def run(self, *, seed: int = 1) -> ExperimentResult:
        """Run the experiment on the medium of ``seed``. The digest is that of ``flashlab run``."""

class ExperimentResult:
    """Results of an experiment."""
    @property
    def experiment(self) -> str:
        """Name of the experiment."""
    @property
    def seed(self) -> int:
        """Seed of the medium."""
    @property
    def digest(self) -> str:
        """First 16 hexadecimal digits of the SHA-256 over the canonical cells."""
    @property
    def inputs(self) -> str:
        """First 16 hexadecimal digits of the SHA-256 over the inputs: the experiment's TOML files, the devices' numbers, the
        seed, and other inputs of the run, such as saved states, jobs and recordings.
        """
    @property
    def cells(self) -> List[Cell]:
        """The compared figures."""
    @property
    def missed_bounds(self) -> List[Tuple[str, str, str]]:
        """Bounds that the experiment declares and that the results miss: the name of each, its limit and its worst cell."""
    @property
    def notes(self) -> List[str]:
        """Notes on the whole experiment."""
    def json(self) -> str:
        """Return the JSON of ``flashlab run --format json``."""
    def to_dict(self) -> Dict[str, Any]:
        """Return the contents of ``json`` as dictionaries and lists."""
    def csv(self) -> str:
        """Return one line of CSV per cell."""
    def _repr_html_(self) -> str: ...
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...
    def table(self, width: int = 100) -> str:
        """Return the tables of ``flashlab run``, at most ``width`` columns wide, but at least 20."""
    def html(self) -> str:
        """Return the page of ``flashlab run``."""

class Cell:
    """One figure of an experiment."""
    @property
    def table(self) -> str:
        """Table of the cell: ``raw write 1M``."""
    @property
    def row(self) -> str:
        """Row of the cell; may be empty."""
    @property
    def column(self) -> str:
        """Column of the cell, usually a device."""
    @property
    def unit(self) -> str:
        """Unit of the figures."""
    @property
    def simulated(self) -> float:
        """Simulated figure, the mean over the runs."""
    @property
    def simulated_sd(self) -> float:
        """Standard deviation of the simulated figure over the runs."""
    @property
    def published(self) -> Optional[float]:
        """Figure measured on hardware; ``None`` if there is none, or only a bound or a statement in words."""
    @property
    def role(self) -> str:
        """``fitted``, ``predicted``, ``assumed`` or ``unsourced``."""
    @property
    def error_percent(self) -> Optional[float]:
        """100 (simulated - published) / published."""
    @property
    def requests(self) -> int:
        """Number of requests in the timed windows."""
    @property
    def latency_ns_mean(self) -> float:
        """Mean latency of these requests in nanoseconds."""
    @property
    def mechanisms(self) -> Dict[str, float]:
        """Mean nanoseconds per request by mechanism; they add up to ``latency_ns_mean``."""

def devices(
    pattern: Optional[str] = None, *, library: Union[str, "os.PathLike[str]", None] = None
) -> List[str]:
    """Return the sorted names of the devices, or of the devices that match a pattern such as ``sd/*``."""
def experiments(*, library: Union[str, "os.PathLike[str]", None] = None) -> List[str]:
    """Return the names of the experiments that run in simulated time."""

class Sweep:
    """The points of a sweep and the folder with their rows."""
    def __init__(
        self,
        plan: str,
        folder: Union[str, "os.PathLike[str]"],
        library: Union[str, "os.PathLike[str]", None] = None,
    ) -> None: ...
    def __len__(self) -> int: ...
    def missing(self) -> List[int]:
        """Return the numbers of the points without a row."""
    def chunk(self, points: List[int]) -> str:
        """Return the plan of a chunk as JSON, for ``run_chunk`` in any process."""
    def add(self, rows: bytes) -> int:
        """Add the rows that ``run_chunk`` returned, write them to disk, and return their number."""
    def finish(self, is_kept: bool) -> SweepResult:
        """Write ``results.parquet``. ``is_kept`` is false if the folder is temporary."""
    @property
    def folder(self) -> pathlib.Path:
        """Folder of the results."""

class SweepResult:
    """Result of ``sweep``: one row for each point, in the order of the points."""
    @property
    def path(self) -> Optional[pathlib.Path]:
        """Path of the Parquet file with the rows; ``None`` if ``sweep`` was called without ``to``."""
    def __len__(self) -> int: ...
    @property
    def errors(self) -> int:
        """Number of rows whose run failed. Their column ``error`` has the reason, and they run again in the next sweep."""
    @property
    def first_error(self) -> Optional[Tuple[str, str]]:
        """The first point whose run failed, with its error; ``None`` if there is none."""
    def _repr_html_(self) -> str: ...
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...

def run_chunk(chunk: str, library: Union[str, "os.PathLike[str]", None] = None) -> bytes:
    """Run the points of a chunk and return their rows as bytes."""
