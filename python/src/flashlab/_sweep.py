"""Sweeps: one job at many points, distributed over any executor."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, ThreadPoolExecutor, wait
from itertools import islice
from typing import Any, Optional, Union

from ._flashlab import Device, Error, Sweep, SweepResult, run_chunk

Path = Union[str, "os.PathLike[str]"]
Value = Union[str, int, float, bool]
Space = Union[Mapping[str, Iterable[Value]], Iterable[Mapping[str, Value]]]

# Duration of a chunk. A scheduler that costs two milliseconds per task stays below half a per cent of it.
CHUNK_SECONDS = 0.5
# Largest number of points in a chunk. The death of a worker loses at most this number of points.
CHUNK_POINTS = 1000
# Number of times that the executor breaks in succession, without a new row, before a sweep gives up.
ATTEMPTS = 3


def sweep(
    device: Union[str, Device],
    job: Union[str, Mapping[str, Value]],
    space: Space,
    executor: Union[None, Executor, Callable[[], Executor], Any] = None,
    *,
    to: Optional[Path] = None,
    seed: int = 1,
    fs: Optional[str] = None,
    unwritten: bool = False,
    library: Optional[Path] = None,
    progress: Optional[Callable[[int, int], object]] = None,
) -> SweepResult:
    """Run a job at many points and return one row for each of them.

    ``device`` is a name with its numbers, or a ``Device``, which stands for its argument. Each point has a new device.

    ``space`` is a grid, ``{"flash.t_prog": ["250us", "1ms"], "iodepth": [1, 4]}``, or any iterable of points,
    ``{"iodepth": 4}``, such as the draws of a sampler. Every combination of the values of a grid is a point. A name is
    an option of the job or a number of the device; the names ``device``, ``seed`` and ``fs`` vary the arguments of the
    same names. ``job`` is a command line, the text of a job file (whose variables ``${bs}`` are then names), or a
    dictionary of options.

    ``executor`` is an executor of ``concurrent.futures`` or a client of ``dask.distributed``; the default is one thread
    per processor. A function that returns an executor is called again when a worker's death breaks the executor.

    ``to`` is a folder. Rows are written to it as they arrive, by the hash of their inputs, so that a sweep that was
    interrupted, extended or repeated runs only the missing points. ``results.parquet`` in the folder contains all
    rows. Without ``to``, only the result contains the rows. ``progress`` is called with the number of stored points and
    the number of all points.

    >>> result = sweep("sd/kingston", {"rw": "randwrite", "number_ios": 50}, {"bs": ["4k", "8k"]})
    >>> len(result)
    2
    """
    argument = device.argument if isinstance(device, Device) else device
    plan = {"device": argument, "job": _job(job), "seed": seed, "unwritten": unwritten, **_points(space)}
    if fs is not None:
        plan["fs"] = fs
    library = None if library is None else os.fspath(library)
    if to is not None:
        return _sweep(plan, to, True, library, executor, progress)
    with tempfile.TemporaryDirectory(prefix="flashlab-sweep-") as folder:
        return _sweep(plan, folder, False, library, executor, progress)


def _job(job: Union[str, Mapping[str, Value]]) -> Union[str, dict[str, Value]]:
    return job if isinstance(job, str) else dict(job)


def _points(space: Space) -> dict[str, Any]:
    if not isinstance(space, Mapping):
        points = [{name: _plain(value) for name, value in point.items()} for point in space]
        if not points:
            raise Error("space: no points: expected {name: [values]}, or at least one point {name: value}")
        return {"points": points}
    grid = {name: [_plain(value) for value in _values(values)] for name, values in space.items()}
    if not grid:
        raise Error("space: no points: give each name a list of values")
    for name, values in grid.items():
        if not values:
            raise Error(f"space: {name}: the list has no values")
    return {"grid": grid}


def _values(values: Iterable[Value]) -> Iterable[Value]:
    """Return the values of a name. A text is one value, although it can be iterated."""
    return [values] if isinstance(values, str) else values


def _plain(value: Any) -> Value:
    """Return a NumPy number as a Python number."""
    return value.item() if hasattr(value, "item") else value


def _sweep(
    plan: dict[str, Any],
    folder: Path,
    is_kept: bool,
    library: Optional[str],
    executor: Any,
    progress: Optional[Callable[[int, int], object]],
) -> SweepResult:
    state = Sweep(json.dumps(plan), folder, library)
    missing = state.missing()
    run = _Run(state, is_kept, library, progress, len(missing))
    if not missing:
        pass
    elif executor is None:
        with ThreadPoolExecutor(os.cpu_count() or 1) as threads:
            run.on(threads)
    elif hasattr(executor, "get_executor"):
        # A client of Dask.
        run.on(executor.get_executor(pure=False))
    elif isinstance(executor, Executor):
        run.on_given(executor)
    elif callable(executor):
        run.on_replaceable(executor)
    else:
        raise TypeError(
            "executor: expected an executor of concurrent.futures, a function that returns one, or a client of "
            f"dask.distributed, but this is a {type(executor).__name__}"
        )
    return state.finish(is_kept)


class _Run:
    """The missing points of a sweep, in chunks of about equal duration."""

    def __init__(
        self,
        state: Sweep,
        is_kept: bool,
        library: Optional[str],
        progress: Optional[Callable[[int, int], object]],
        missing: int,
    ) -> None:
        self.state, self.is_kept, self.library, self.progress = state, is_kept, library, progress
        self.stored = len(state) - missing
        self.seconds = 0.0
        self.points = 0

    def on_replaceable(self, make: Callable[[], Executor]) -> None:
        """Run all points, with a new executor whenever the death of a worker breaks one."""
        attempts = 0
        while True:
            before = self.stored
            try:
                with make() as executor:
                    self.on(executor)
                return
            except BrokenExecutor as broken:
                attempts = 1 if self.stored > before else attempts + 1
                if attempts == ATTEMPTS:
                    raise Error(
                        f"{self._place()}, but the workers died {ATTEMPTS} times in a row without a further row: {broken}"
                    ) from broken

    def on_given(self, executor: Executor) -> None:
        """Run all points on an executor of the caller, which cannot be replaced when a worker's death breaks it."""
        try:
            self.on(executor)
        except BrokenExecutor as broken:
            call = "call sweep again, with a new executor" if self.is_kept else "give a folder (to=) to keep rows"
            raise Error(
                f"{self._place()}, then a worker died: {broken}; {call}, or pass a function that returns an executor"
            ) from broken

    def on(self, executor: Executor) -> None:
        """Run all points on one executor."""
        missing = iter(self.state.missing())
        ahead = 2 * _workers(executor)
        pending: dict[Any, int] = {}
        try:
            while self._advance(executor, missing, pending, ahead):
                if self.progress is not None:
                    self.progress(self.stored, len(self.state))
        finally:
            for task in pending:
                task.cancel()

    def _advance(self, executor: Executor, missing: Iterator[int], pending: dict[Any, int], ahead: int) -> bool:
        """Keep ``ahead`` chunks in flight, and store the rows of finished chunks. Return false if no chunk is left."""
        try:
            while len(pending) < ahead:
                chunk = list(islice(missing, self._chunk_points(ahead)))
                if not chunk:
                    break
                task = executor.submit(_timed_chunk, self.state.chunk(chunk), self.library)
                pending[task] = len(chunk)
            if not pending:
                return False
            for task in wait(pending, return_when=FIRST_COMPLETED).done:
                rows, seconds = task.result()
                self._add(rows, seconds, pending.pop(task))
            return True
        except BrokenExecutor:
            self._keep_finished(pending)
            raise
        except Exception as error:
            self._keep_finished(pending)
            if isinstance(error, Error):
                raise
            again = "; call sweep again to continue" if self.is_kept else ""
            raise Error(
                f"{self._place()}, then a worker failed: {type(error).__name__}: {error}{again}"
            ) from error

    def _keep_finished(self, pending: dict[Any, int]) -> None:
        """Store the rows of the chunks that finished before another chunk failed."""
        for task, points in list(pending.items()):
            if task.done() and not task.cancelled() and task.exception() is None:
                self._add(*task.result(), points)
                del pending[task]

    def _add(self, rows: bytes, seconds: float, points: int) -> None:
        self.stored += self.state.add(rows)
        self.seconds += seconds
        self.points += points

    def _chunk_points(self, ahead: int) -> int:
        """Return the number of points in the next chunk: one at first, to learn how long a point takes."""
        if self.points < ahead:
            return 1
        return max(1, min(CHUNK_POINTS, int(CHUNK_SECONDS * self.points / max(self.seconds, 1e-9))))

    def _place(self) -> str:
        done = f"{self.stored} of {len(self.state)} points are"
        return f"{done} stored in {os.fspath(self.state.folder)}" if self.is_kept else f"{done} complete"


def _timed_chunk(chunk: str, library: Optional[str]) -> tuple[bytes, float]:
    """Run a chunk in a worker. Return its rows and the seconds that it took."""
    begin = time.perf_counter()
    rows = run_chunk(chunk, library)
    return rows, time.perf_counter() - begin


def _workers(executor: Any) -> int:
    """Return the number of chunks that run at a time."""
    client = getattr(executor, "_client", None)
    if client is not None:
        return max(1, sum(client.nthreads().values()))
    return getattr(executor, "_max_workers", None) or os.cpu_count() or 1
