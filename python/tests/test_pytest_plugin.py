"""The pytest plugin, run in a separate pytest process."""

import re

import flashlab

pytest_plugins = ["pytester"]

SUITE = """
import errno
import flashlab
import pytest

def test_new(flash_device):
    flash_device.write(0, b"a" * 4096)
    flash_device.flush()
    flash_device.cut_power()
    flash_device.restore_power()
    assert flash_device.read(0, 4096) == b"a" * 4096
    assert flash_device.name == "sd/kingston"

@pytest.mark.flash_device("sd/sandisk", wear=0.5, delay="20ms")
def test_worn_and_slow(flash_device):
    assert 50 <= max(flash_device.erase_counts()) <= 53
    flash_device.write(0, bytes(512))
    assert flash_device.now_ns > 20_000_000

@pytest.mark.parametrize("name", ["nvme/p32a80", "nvme/reference"])
def test_worn_drives(open_flash_device, name):
    assert max(open_flash_device(name, wear=0.2).erase_counts()) >= 20

def test_layers_memory_and_seeds(open_flash_device):
    slow = open_flash_device("memory:size=1M", delay="5ms", seed=3)
    slow.write(0, bytes(512))
    assert slow.seed == 3 and slow.now_ns >= 5_000_000
    both = open_flash_device("sd/kingston+delay:read=1ms", delay=2_000_000)
    both.read(0, 512)
    assert both.now_ns >= 3_000_000
    for name in ("memory:size=1M", "sd/kingston+delay:read=1ms"):
        with pytest.raises(ValueError, match="only the device of a profile wears out"):
            open_flash_device(name, wear=0.5)
    with pytest.raises(ValueError, match="give other numbers"):
        open_flash_device("nvme/p32a80", wear=0.5, capacity="1GiB")

@pytest.mark.flash_device(faults=["write after=2 EIO"])
def test_faulty(flash_device):
    flash_device.write(0, bytes(512))
    flash_device.write(0, bytes(512))
    with pytest.raises(flashlab.IoError) as caught:
        flash_device.write(0, bytes(512))
    assert caught.value.errno == errno.EIO

def test_two(open_flash_device):
    one, two = open_flash_device("memory:size=1M"), open_flash_device("nvme/p32a80")
    assert one.seed != two.seed
    with pytest.raises(flashlab.IoError):
        open_flash_device(faults="write EIO").write(0, bytes(512))

def test_fails(flash_device):
    print("seed", flash_device.seed)
    assert flash_device.read(0, 512) == b"x" * 512
"""


def test_devices_are_new_worn_slow_or_faulty_and_failures_print_the_seed(pytester):
    pytester.makepyfile(SUITE)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=7, failed=1)
    text = result.stdout.str()
    repeat = re.search(r"to repeat: pytest (\S+) --flash-seed=(\d+)", text)
    assert repeat[1].endswith("::test_fails")
    seed = re.search(r"^seed (\d+)$", text, re.M)[1]
    again = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-k", "test_fails", f"--flash-seed={repeat[2]}")
    assert f"seed {seed}" in again.stdout.str()
    other = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-k", "test_fails", "--flash-seed=1")
    assert f"seed {seed}" not in other.stdout.str()


def test_the_plugin_is_registered():
    import importlib.metadata as metadata

    points = metadata.distribution("flashlab").entry_points
    assert [point.value for point in points if point.group == "pytest11"] == ["flashlab.pytest_plugin"]
    assert flashlab.__version__ == metadata.version("flashlab")
