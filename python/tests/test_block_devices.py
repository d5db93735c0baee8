"""Devices with bytes: reads and writes, faults, power cuts, wear, serving over NBD."""

import errno
import shutil
import subprocess
import threading

import flashlab
import pytest


def test_bytes_come_back():
    device = flashlab.BlockDevice("sd/kingston")
    for data in (b"a" * 512, bytearray(b"b" * 512), memoryview(b"c" * 512)):
        device.write(8192, data)
        assert device.read(8192, 512) == bytes(data)
    assert device.read(0, 1024) == bytes(1024)
    device.discard(8192, 512)
    assert device.read(8192, 512) in (bytes(512), b"c" * 512)
    assert device.now_ns > 0


def test_a_power_cut_keeps_flushed_data_and_decides_the_rest():
    old, new = b"o" * 4096, b"n" * 4096
    for seed in range(20):
        device = flashlab.BlockDevice("sd/kingston", seed=seed, capacity="16MiB")
        device.write(0, old)
        device.flush()
        device.write(0, new)
        undecided = device.cut_power()
        assert not device.is_powered
        with pytest.raises(flashlab.IoError) as caught:
            device.read(0, 4096)
        assert caught.value.errno == errno.ESHUTDOWN
        device.restore_power()
        for start, end, fate in undecided:
            assert (start, end) == (0, 4096) and fate in ("old", "new", "unreadable")
        assert device.read(0, 4096) in (old, new)


def test_a_planned_cut_happens_in_the_middle_of_a_write():
    device = flashlab.BlockDevice("sd/kingston", seed=7)
    device.cut_power_during_write(nth=2)
    device.write(0, b"1" * 4096)
    assert device.take_planned_cut() is None
    with pytest.raises(flashlab.IoError):
        device.write(4096, b"2" * 4096)
    assert device.take_planned_cut() is not None
    device.restore_power()
    device.cut_power_at(device.now_ns + 1)
    device.wait("1ms")
    assert not device.is_powered


def test_the_same_seed_gives_the_same_answers_at_the_same_nanoseconds():
    def run(seed):
        device = flashlab.BlockDevice("sd/kingston+error:rate=0.3", seed=seed)
        answers = []
        for n in range(30):
            try:
                device.write(n * 4096, bytes(4096))
                answers.append(device.now_ns)
            except flashlab.IoError as error:
                answers.append(error.errno)
        return answers

    assert run(1) == run(1)
    assert run(1) != run(2)
    assert errno.EIO in run(1)


def test_faults_are_rules():
    device = flashlab.BlockDevice("memory:size=1M")
    device.add_fault("write after=1 times=1 ENOSPC")
    device.write(0, bytes(512))
    with pytest.raises(OSError) as caught:
        device.write(0, bytes(512))
    assert caught.value.errno == errno.ENOSPC
    device.write(0, bytes(512))
    device.add_fault("read EIO")
    device.clear_faults()
    device.read(0, 512)
    with pytest.raises(flashlab.Error):
        device.add_fault("wriet EIO")
    with pytest.raises(flashlab.Error, match="has no timing"):
        device.cut_power()


@pytest.mark.parametrize(("offset", "length"), [(0, 3), (1 << 20, 512), ((1 << 64) - 512, 512), (0, 1 << 40)])
def test_a_wrong_range_is_an_error(offset, length):
    device = flashlab.BlockDevice("sd/kingston", capacity="1MiB")
    with pytest.raises(flashlab.IoError) as caught:
        device.read(offset, length)
    assert caught.value.errno in (errno.EINVAL, errno.EOVERFLOW, errno.ENOMEM)


def test_a_read_that_is_too_long_needs_no_memory():
    device = flashlab.BlockDevice("nvme/p32a80")
    with pytest.raises(flashlab.IoError) as caught:
        device.read(0, 1 << 40)
    assert caught.value.errno == errno.EOVERFLOW


def test_a_wait_beyond_the_end_of_time_is_an_error():
    device = flashlab.BlockDevice("sd/kingston")
    with pytest.raises(flashlab.Error, match="146 years"):
        device.wait(2**64 - 1)
    device.wait(2**62)
    device.write(0, b"x" * 512)


def test_a_used_device_becomes_a_device_with_bytes():
    used = flashlab.Device("sd/kingston", capacity="64MiB", **{"wear.cycles": 50})
    used.run(rw="randwrite", bs="4k", number_ios=3000)
    device = used.block_device(delay="10ms")
    assert device.erase_counts() == used.wear()["erase_counts"]
    assert max(device.erase_counts()) > 0
    device.write(0, b"x" * 512)
    assert device.now_ns > 10_000_000
    assert device.read(0, 512) == b"x" * 512


def nbd(program, *arguments):
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not here (Debian's libnbd-bin)")
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("where", [{}, {"port": 0}, "socket"])
def test_a_served_device_keeps_the_bytes_of_a_client(tmp_path, where):
    if where == "socket":
        where = {"socket": tmp_path / "device.sock"}
    (tmp_path / "sent").write_bytes(bytes(range(256)) * 4096)
    with flashlab.serve("sd/kingston", speed=0, capacity="1MiB", **where) as uri:
        assert nbd("nbdinfo", "--size", uri).strip() == str(1 << 20)
        nbd("nbdcopy", "--flush", str(tmp_path / "sent"), uri)
        nbd("nbdcopy", uri, str(tmp_path / "received"))
    assert (tmp_path / "received").read_bytes() == (tmp_path / "sent").read_bytes()


def test_a_server_ends_with_its_block():
    server = flashlab.serve("memory:size=1M")
    assert server.uri is None
    with pytest.raises(ZeroDivisionError):
        with server as uri:
            assert server.uri == uri
            with pytest.raises(flashlab.Error, match="already"):
                server.__enter__()
            raise ZeroDivisionError
    assert server.uri is None
    threads = [thread.name for thread in threading.enumerate()]
    with server as again:
        assert again.startswith("nbd+unix://")
    assert [thread.name for thread in threading.enumerate()] == threads


def test_wrong_arguments_of_a_server_name_the_remedy(tmp_path):
    for arguments, part in [
        ({"socket": tmp_path / "a", "port": 1}, "not both"),
        ({"speed": -1.0}, "speed=-1"),
        ({"speed": float("nan")}, "speed=NaN"),
        ({"speed": 1001}, "0.000001 to 1000"),
    ]:
        with pytest.raises(flashlab.Error, match=part):
            flashlab.serve("memory:size=1M", **arguments)
    with pytest.raises(flashlab.Error, match="did you mean"):
        flashlab.serve("sd/kingson").__enter__()
    with pytest.raises(flashlab.Error, match="No such file"):
        flashlab.serve("memory:size=1M", socket=tmp_path / "missing/a.sock").__enter__()
