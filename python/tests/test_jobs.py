"""Jobs on devices: the results of the command line, errors with its texts, states."""

import importlib.util
import json
import pathlib
import subprocess
import sys
import textwrap
import warnings

import flashlab
import pytest

JOB = """
[global]
direct=1
bs=4k
size=64m
[write]
rw=randwrite
number_ios=500
[read]
stonewall
rw=randread
number_ios=700
"""


def test_a_job_gives_the_json_of_the_command_line(cli_json, tmp_path):
    file = tmp_path / "two.fio"
    file.write_text(JOB)
    device = flashlab.Device("sd/kingston", seed=3, **{"flash.t_prog": "250us"})
    expected = cli_json(
        "bench", "--seed", "3", "sd/kingston:flash.t_prog=250us", str(file), "--output-format=json"
    )
    # A release build of the program states its commit, which the module does not know.
    expected["flashlab"]["run"]["commit"] = None
    assert device.run(JOB).to_dict() == expected


def test_the_forms_of_a_job_are_equivalent(tmp_path):
    file = tmp_path / "a.fio"
    file.write_text("[a]\ndirect=1\nrw=randread\nbs=8k\nsize=16m\nnumber_ios=300\n")
    line = "--name=a --direct=1 --rw=randread --bs=8k --size=16m --number_ios=300"
    forms = [
        lambda device: device.run(file.read_text()),
        lambda device: device.run(str(file)),
        lambda device: device.run(file),
        lambda device: device.run(line),
        lambda device: device.run("fio " + line),
        lambda device: device.run(line.split()),
        lambda device: device.run(name="a", rw="randread", bs="8k", size="16m", number_ios=300),
        lambda device: device.run(name="a", direct=True, rw="randread", bs=8192, size=16 << 20, number_ios=300),
    ]
    figures = set()
    for form in forms:
        job = form(flashlab.Device("sd/sandisk")).to_dict()["jobs"][0]
        job.pop("job options")
        figures.add(json.dumps(job))
    assert len(figures) == 1


def test_a_page_shows_latencies_over_time_on_request_and_the_figures_stay():
    job = {"rw": "randwrite", "bs": "4k", "size": "16m", "number_ios": 300}
    plain = flashlab.Device("sd/kingston").run(**job)
    over_time = flashlab.Device("sd/kingston").run(**job, over_time=True)
    assert ("Over time" in plain.html(), "Over time" in over_time.html()) == (False, True)
    assert plain.json() == over_time.json()


def test_figures_agree_with_each_other():
    result = flashlab.Device("nvme/p32a80").run(rw="randrw", bs="4k", size="64m", iodepth=8, ioengine="libaio", number_ios=2000)
    read, write = result.jobs
    assert (read.direction, write.direction) == ("read", "write")
    assert read.requests + write.requests == result.requests == 2000
    assert read.bytes + write.bytes == result.bytes == 2000 * 4096
    assert result.iops == pytest.approx(1000 * result.requests / result.runtime_ms)
    assert result.bandwidth == pytest.approx(4096 * result.iops)
    for figures in (result, read, write):
        assert sum(figures.mechanisms.values()) == pytest.approx(figures.latency.mean_ns)
    latency = result.latency
    assert latency.count == 2000
    assert latency.min_ns <= latency.percentile(50) <= latency.percentile(99) <= latency.max_ns
    assert latency.percentiles[99.0] == latency.percentile(99)
    assert sum(count for _, count in latency.histogram()) == 2000


def test_the_runtimes_of_consecutive_waves_add_up():
    result = flashlab.Device("sd/kingston").run(JOB)
    write, read = result.jobs
    assert result.runtime_ms == write.runtime_ms + read.runtime_ms
    assert result.iops == pytest.approx(1000 * 1200 / result.runtime_ms)


def test_data_is_written_once_before_it_is_read():
    device = flashlab.Device("sd/kingston")
    job = {"rw": "randread", "bs": "4k", "number_ios": 100}
    assert device.run(size="1m", unwritten=True, **job).written_first == 0
    assert device.run(size="2m", **job).written_first == 2 << 20
    assert device.run(size="2m", **job).written_first == 0
    assert device.run(size="3m", **job).written_first == 1 << 20
    device.run(rw="write", bs="64k", offset="8m", size="1m")
    assert device.run(offset="8m", size="1m", **job).written_first == 0


@pytest.mark.parametrize(
    ("device", "job"),
    [
        ("sd/kingson", "--name=a --rw=read --direct=1"),
        ("sd/kingston:flash.t_prg=3us", "--name=a --rw=read --direct=1"),
        ("sd/kingston", "--name=a --rw=raed --direct=1"),
        ("sd/kingston", "--name=a --rw=write --size=1m --sync_file_range=write:8"),
        ("sd/kingston", "--name=a --rw=read --bs=100 --direct=1"),
        ("sd/kingston", "missing.fio"),
    ],
)
def test_errors_have_the_texts_of_the_command_line(cli, device, job):
    with pytest.raises(flashlab.Error) as caught:
        flashlab.Device(device).run(job)
    assert cli("bench", device, *job.split()) == f"flashlab: {caught.value}\n"


@pytest.mark.parametrize(
    ("arguments", "options", "part"),
    [
        ((), {}, "no job"),
        (("[a]\nrw=read",), {"bs": "4k"}, "not both"),
        ((), {"rw": ["read"]}, "rw: expected a text"),
        (("--name='a",), {}, "No closing quotation"),
        (("[a]\nrw=raed\n",), {}, "job:2:4"),
        (("--name=a --rw=read --direct=1 --output=x.json",), {}, "leave the output options out"),
    ],
)
def test_a_wrong_call_names_the_remedy(arguments, options, part):
    with pytest.raises(flashlab.Error, match=part):
        flashlab.Device("sd/kingston").run(*arguments, **options)


def test_a_job_that_the_device_ends_raises_with_the_figures_so_far():
    job = {"rw": "read", "bs": "1m", "max_latency": "1ms", "number_ios": 20}
    with pytest.raises(flashlab.Error, match="longer than max_latency") as caught:
        flashlab.Device("sd/kingston").run(**job)
    assert caught.value.result.requests == 1
    result = flashlab.Device("sd/kingston").run(check=False, **job)
    assert result.error == str(caught.value)


def test_a_saved_device_continues_like_the_command_line(cli_json, tmp_path):
    path = tmp_path / "used.state"
    device = flashlab.Device("sd/kioxia", **{"flash.t_read": "80us"})
    device.run(rw="randwrite", bs="4k", size="64m", number_ios=3000)
    device.save(path)
    loaded = flashlab.Device.load(path)
    assert loaded.wear() == device.wear()
    assert loaded.wear()["max"] > 0
    job = "--name=a --direct=1 --rw=randread --bs=4k --size=64m --number_ios=200".split()
    expected = cli_json("bench", loaded.argument, *job, "--output-format=json")
    expected["flashlab"]["run"]["commit"] = None
    assert loaded.run(job).to_dict() == expected
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(flashlab.Error, match="the checksum does not match"):
        flashlab.Device.load(path)


def test_the_path_of_a_state_has_no_comma(tmp_path):
    device = flashlab.Device("sd/kingston")
    for call in (device.save, flashlab.Device.load):
        with pytest.raises(flashlab.Error, match="cannot contain a comma"):
            call(tmp_path / "a,b.state")


def test_integers_of_other_types_are_numbers():
    class Integer:
        def __index__(self):
            return 2

    assert flashlab.Device("sd/kingston").run(rw="read", bs="4k", size="1m", number_ios=Integer()).requests == 2


@pytest.mark.parametrize(
    "opened",
    [
        lambda numbers: flashlab.Device("sd/kingston", **numbers),
        lambda numbers: flashlab.BlockDevice("sd/kingston", **numbers),
        lambda numbers: flashlab.serve("sd/kingston", **numbers).__enter__(),
        lambda numbers: flashlab.sweep("sd/kingston", {"rw": "write", "number_ios": 1}, {"seed": [1], **numbers}),
    ],
)
def test_a_rounded_number_gives_one_warning(opened):
    with pytest.warns(UserWarning, match="97.66MiB/s is rounded to"):
        opened({"flash.read_rate": "97.66MiB/s"})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        flashlab.Device("sd/kingston")


def test_a_filesystem_needs_a_directory():
    device = flashlab.Device("sd/kingston", fs="vfat")
    with pytest.raises(flashlab.Error, match="add directory=/mnt"):
        device.run(rw="write", bs="64k", size="1m")
    assert device.run(rw="write", bs="64k", size="1m", directory="/mnt").requests == 16


def test_remarks_name_numbers_set_by_hand_and_options_without_effect():
    device = flashlab.Device("sd/kingston", **{"flash.t_prog": "250us"})
    notes = device.run(rw="read", bs="64k", size="1m", thread=True, write_lat_log="x").notes
    assert "set by hand: flash.t_prog = 250us" in notes
    assert any(note.startswith("without effect here: thread") for note in notes)
    assert any("writes no logs" in note for note in notes)


@pytest.mark.parametrize(
    "call",
    [
        'flashlab.Device("nvme/p32a80").run(rw="randread", bs="4k", time_based=True, runtime=100_000_000, unwritten=True)',
        'flashlab.experiment("hmb").run()',
    ],
)
def test_other_threads_run_during_a_long_call_and_ctrl_c_ends_it(call):
    program = textwrap.dedent(
        f"""
        import os, signal, threading
        import flashlab

        def other_thread():
            # With the GIL held by the call, this code would never run, and the call would not end.
            assert sum(range(1_000_000)) == 499_999_500_000
            os.kill(os.getpid(), signal.SIGINT)

        try:
            threading.Timer(0.3, other_thread).start()
            {call}
        except KeyboardInterrupt:
            print("interrupted")
        """
    )
    completed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert completed.stdout == "interrupted\n", completed.stderr


def test_the_stubs_name_everything_that_the_module_has():
    stubs = (pathlib.Path(flashlab.__file__).parent / "_flashlab.pyi").read_text()
    for name, value in vars(flashlab._flashlab).items():
        if name.startswith("__") and name != "__version__":
            continue
        assert name in stubs
        if isinstance(value, type) and value is not flashlab.Error:
            body = stubs.split(f"class {name}")[1].split("\nclass ")[0]
            # `_restore` is for pickle alone.
            public = [name for name in vars(value) if not name.startswith("__") and name != "_restore"]
            assert [member for member in public if f"def {member}(" not in body] == []


def test_the_stubs_have_the_docstrings_of_the_module():
    spec = importlib.util.spec_from_file_location("stubs", pathlib.Path(__file__).parents[1] / "stubs.py")
    stubs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(stubs)
    text = stubs.STUB.read_text()
    assert stubs.documented(text, flashlab._flashlab) == text, "run python/stubs.py with the new module"
    assert text.count('"""') > 200
