"""Sweeps over executors, with interruptions, dying workers and damaged files."""

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor

import flashlab
import pyarrow
import pyarrow.parquet
import pytest

JOB = {"rw": "randwrite", "bs": "4k", "size": "4m", "number_ios": 100}
GRID = {"flash.t_prog": ["250us", "500us", "1ms"], "iodepth": [1, 2, 4, 8]}


def results(folder):
    return (folder / "results.parquet").read_bytes()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The file of an uninterrupted sweep."""
    folder = tmp_path_factory.mktemp("whole")
    flashlab.sweep("sd/kingston", JOB, GRID, to=folder)
    return results(folder)


def test_a_row_has_the_figures_of_the_same_run(tmp_path):
    result = flashlab.sweep("sd/kingston", JOB, GRID, to=tmp_path)
    rows = {(row["flash.t_prog"], row["iodepth"]): row for row in pyarrow.table(result).to_pylist()}
    assert len(rows) == len(result) == 12 and result.errors == 0
    assert result._repr_html_().count("<tr>") == 13 and "<th>iops</th>" in result._repr_html_()
    run = flashlab.Device("sd/kingston", **{"flash.t_prog": "1ms"}).run(iodepth=4, **JOB)
    row = rows["1ms", 4.0]
    assert (row["iops"], row["latency_ns_mean"]) == (run.iops, run.latency.mean_ns)
    assert row["program_ns"] == run.mechanisms["program"]
    assert pyarrow.parquet.read_table(result.path).to_pylist() == pyarrow.table(result).to_pylist()


def test_the_command_line_gives_the_same_file(tmp_path, whole, cli):
    plan = tmp_path / "plan.toml"
    plan.write_text(
        'device = "sd/kingston"\n[job]\nrw = "randwrite"\nbs = "4k"\nsize = "4m"\nnumber_ios = 100\n'
        '[grid]\n"flash.t_prog" = ["250us", "500us", "1ms"]\niodepth = [1, 2, 4, 8]\n'
    )
    cli("sweep", str(plan))
    if not (tmp_path / "plan").exists():
        pytest.skip("the command line was built without the feature `sweep`")
    assert results(tmp_path / "plan") == whole


@pytest.mark.parametrize("make", [lambda: ThreadPoolExecutor(3), lambda: ProcessPoolExecutor(2)])
def test_every_executor_gives_the_same_file(tmp_path, whole, make):
    with make() as executor:
        flashlab.sweep("sd/kingston", JOB, GRID, executor, to=tmp_path)
    assert results(tmp_path) == whole


def test_a_client_of_dask_gives_the_same_file(tmp_path, whole):
    distributed = pytest.importorskip("distributed", reason="distributed is not installed")
    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    with cluster, distributed.Client(cluster) as client:
        flashlab.sweep("sd/kingston", JOB, GRID, client, to=tmp_path)
    assert results(tmp_path) == whole


class Counting(Executor):
    """Runs tasks at once, counts their points, and fails at the task with a given number."""

    def __init__(self, fail_at=None):
        self.tasks, self.points, self.fail_at = 0, 0, fail_at

    def submit(self, function, chunk, library):
        future = Future()
        self.tasks += 1
        if self.tasks == self.fail_at:
            future.set_exception(OSError("the worker is gone"))
            return future
        self.points += chunk.count('"iodepth"')
        future.set_result(function(chunk, library))
        return future


def test_an_interrupted_and_extended_sweep_runs_missing_points_only(tmp_path, whole):
    small = {"flash.t_prog": ["250us", "1ms"], "iodepth": [1, 2, 4, 8]}
    with pytest.raises(flashlab.Error, match="8 points are stored in .*the worker is gone.*again to continue"):
        flashlab.sweep("sd/kingston", JOB, small, Counting(fail_at=3), to=tmp_path)
    stored = len(list((tmp_path / "parts").iterdir()))
    assert stored >= 2, "chunks that finished are not on disk"
    again = Counting()
    flashlab.sweep("sd/kingston", JOB, GRID, again, to=tmp_path)
    assert again.points == 12 - stored
    assert results(tmp_path) == whole
    repeated = Counting()
    flashlab.sweep("sd/kingston", JOB, GRID, repeated, to=tmp_path)
    assert repeated.tasks == 0


def die_once(marker):
    """End the worker's process the first time that any worker begins."""
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGKILL)).start()


def test_a_worker_that_dies_is_replaced(tmp_path, whole):
    marker = str(tmp_path / "died")
    flashlab.sweep(
        "sd/kingston",
        JOB,
        GRID,
        lambda: ProcessPoolExecutor(1, initializer=die_once, initargs=(marker,)),
        to=tmp_path / "sweep",
    )
    assert os.path.exists(marker)
    assert results(tmp_path / "sweep") == whole


def always_die():
    os.kill(os.getpid(), signal.SIGKILL)


def test_workers_that_always_die_end_the_sweep_with_an_error(tmp_path):
    with pytest.raises(flashlab.Error, match="0 of 12 points .* died 3 times in a row"):
        flashlab.sweep(
            "sd/kingston", JOB, GRID, lambda: ProcessPoolExecutor(1, initializer=always_die), to=tmp_path
        )


def test_a_dead_worker_of_a_given_executor_is_an_error_that_names_the_remedy(tmp_path):
    with ProcessPoolExecutor(1, initializer=always_die) as executor:
        with pytest.raises(flashlab.Error, match="0 of 12 points .* a worker died: .*call sweep again"):
            flashlab.sweep("sd/kingston", JOB, GRID, executor, to=tmp_path)


def test_a_device_stands_for_its_argument():
    device = flashlab.Device("sd/kingston", **{"flash.t_prog": "1ms"})
    by_device = flashlab.sweep(device, JOB, {"iodepth": [4]})
    by_name = flashlab.sweep(device.argument, JOB, {"iodepth": [4]})
    assert pyarrow.table(by_device).equals(pyarrow.table(by_name))


@pytest.mark.parametrize(
    ("space", "part"),
    [({}, "space: no points"), ([], "space: no points"), ({"bs": []}, "space: bs")],
)
def test_a_fault_of_the_space_names_the_python_argument(space, part):
    with pytest.raises(flashlab.Error, match=part):
        flashlab.sweep("sd/kingston", JOB, space)


def test_an_option_that_a_job_file_does_not_refer_to_is_named():
    with pytest.raises(flashlab.Error, match=r"bs is an option of fio: write bs=\$\{bs\} in the job file"):
        flashlab.sweep("sd/kingston", "[a]\nrw=randwrite\ndirect=1\n", {"bs": ["4k"]})


def test_a_killed_process_leaves_its_finished_rows(tmp_path):
    """The kernel of a notebook is killed during a sweep."""
    code = (
        "import flashlab, sys\n"
        "flashlab.sweep('sd/kingston', {'rw': 'randwrite', 'size': '16m'}, {'seed': range(1, 400)}, to=sys.argv[1])\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, tmp_path])
    parts = tmp_path / "parts"
    # The limit only ends a hung test; no figure depends on it.
    for _ in range(6_000):
        if parts.exists() and any(parts.glob("part-*.parquet")) or process.poll() is not None:
            break
        time.sleep(0.01)
    process.kill()
    process.wait()
    executor = Counting()
    few = {"seed": range(1, 3)}
    result = flashlab.sweep("sd/kingston", {"rw": "randwrite", "size": "16m"}, few, executor, to=tmp_path)
    assert len(result) == 2 and executor.tasks < 2, "no point was stored before the process died"


def test_a_damaged_part_is_named_with_the_remedy(tmp_path, whole):
    flashlab.sweep("sd/kingston", JOB, GRID, to=tmp_path)
    part = next((tmp_path / "parts").iterdir())
    data = bytearray(part.read_bytes())
    data[len(data) // 2] ^= 1
    part.write_bytes(data)
    with pytest.raises(flashlab.Error, match="remove the file, and the points in it run again"):
        flashlab.sweep("sd/kingston", JOB, GRID, to=tmp_path)
    part.unlink()
    flashlab.sweep("sd/kingston", JOB, GRID, to=tmp_path)
    assert results(tmp_path) == whole


def test_a_sweep_accepts_the_points_of_a_sampler_and_reports_its_progress(tmp_path):
    seen = []
    points = ({"iodepth": depth, "bs": f"{4 * depth}k"} for depth in (1, 2, 4))
    result = flashlab.sweep("sd/kingston", JOB, points, progress=lambda *counts: seen.append(counts))
    assert len(result) == 3 and seen[-1] == (3, 3)
    assert pyarrow.table(result).column("bs").to_pylist() == ["4k", "8k", "16k"]
    assert result.path is None, "without `to`, the folder remains"


def test_an_exception_of_the_progress_function_reaches_the_caller(tmp_path):
    def fail(*_):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        flashlab.sweep("sd/kingston", JOB, GRID, Counting(), to=tmp_path, progress=fail)


def test_without_a_folder_no_error_names_one():
    with pytest.raises(flashlab.Error, match="points are complete, then .*the worker is gone$"):
        flashlab.sweep("sd/kingston", JOB, GRID, Counting(fail_at=3))


def test_a_text_is_one_value():
    result = flashlab.sweep("sd/kingston", JOB, {"bs": "16k", "iodepth": [1, 2]})
    assert pyarrow.table(result).column("bs").to_pylist() == ["16k", "16k"]


def test_an_error_names_its_point_before_anything_runs():
    executor = Counting()
    with pytest.raises(flashlab.Error, match="point iodepth=1, flash.t_prgo=1ms: .*flash.t_prog"):
        flashlab.sweep("sd/kingston", JOB, {"iodepth": [1], "flash.t_prgo": ["1ms"]}, executor)
    assert executor.tasks == 0
    with pytest.raises(TypeError, match="expected an executor"):
        flashlab.sweep("sd/kingston", JOB, GRID, "threads")
