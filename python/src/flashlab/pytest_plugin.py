"""Pytest plugin: virtual block devices that are slow, worn or faulty, and whose power can be cut.

The fixture ``flash_device`` is the device that the marker ``flash_device`` describes. ``open_flash_device`` opens
further devices::

    @pytest.mark.flash_device("sd/kingston", wear=0.9, faults=["write rate=0.01 EIO"])
    def test_log_survives_a_power_cut(flash_device):
        flash_device.cut_power_during_write(nth=3)
        ...

The seed of the devices is drawn for each run. The report of a failure contains the command that repeats the failure.
"""

import hashlib
import math
import secrets
import shlex
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Union

import pytest

from . import BlockDevice, Device, Error

_SEED = pytest.StashKey[int]()
_OPENED = pytest.StashKey[List[BlockDevice]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("flashlab").addoption(
        "--flash-seed",
        type=int,
        metavar="N",
        help="seed of the virtual flash devices; by default it is drawn, and printed if a test fails",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        'flash_device(name="sd/kingston", *, wear=0.0, delay=None, faults=(), seed=None, **numbers): '
        "the device of the fixture flash_device, see open_flash_device",
    )
    seed = config.getoption("--flash-seed")
    config.stash[_SEED] = secrets.randbits(32) if seed is None else seed


@pytest.fixture
def open_flash_device(request: pytest.FixtureRequest) -> Callable[..., BlockDevice]:
    """A function that opens a virtual block device.

    ``wear`` is the used share of the rated erases of the most worn block, from 0 to 1. With ``wear``, a card has 64 MiB
    and a drive has 4 MiB for each plane of its array. Both have 100 rated cycles. ``numbers`` can change these sizes and
    cycles. ``delay`` is added to each request (``"10ms"``). ``faults`` are rules such as ``"write rate=0.01 EIO"``, or
    one rule. ``seed`` replaces the seed of the run. ``numbers`` change the profile: ``**{"flash.t_prog": "5ms"}`` makes
    a card slow.
    """
    opened = request.node.stash.setdefault(_OPENED, [])
    base = f"{request.config.stash[_SEED]}:{request.node.nodeid}"

    def open_device(
        name: str = "sd/kingston",
        *,
        wear: float = 0.0,
        delay: Union[int, str, None] = None,
        faults: Union[str, Sequence[str]] = (),
        seed: Optional[int] = None,
        **numbers: Any,
    ) -> BlockDevice:
        if seed is None:
            digest = hashlib.sha256(f"{base}:{len(opened)}".encode()).digest()
            seed = int.from_bytes(digest[:4], "little")
        device = _open(name, wear, delay, seed, numbers)
        for rule in [faults] if isinstance(faults, str) else faults:
            device.add_fault(rule)
        opened.append(device)
        return device

    return open_device


@pytest.fixture
def flash_device(
    request: pytest.FixtureRequest, open_flash_device: Callable[..., BlockDevice]
) -> BlockDevice:
    """The virtual block device that the marker ``flash_device`` describes; without a marker, a new ``sd/kingston``."""
    marker = request.node.get_closest_marker("flash_device")
    return open_flash_device(*marker.args, **marker.kwargs) if marker else open_flash_device()


def _open(name: str, wear: float, delay: Union[int, str, None], seed: int, numbers: Dict[str, Any]) -> BlockDevice:
    if not 0 <= wear <= 1:
        raise ValueError(f"wear={wear}: expected 0 to 1")
    if not wear:
        # An integer is in nanoseconds.
        time = f"{delay}ns" if isinstance(delay, int) else delay
        layer = "" if time is None else f"+delay:read={time},write={time},flush={time}"
        return BlockDevice(name + layer, seed=seed, **numbers)
    device = _small(name, seed, numbers)
    _wear_out(device, wear)
    return device.block_device(delay=delay)


def _small(name: str, seed: int, numbers: Dict[str, Any]) -> Device:
    """Open a device that is small enough to be worn out in a second, unless ``numbers`` give it another size."""
    try:
        profile = {number["path"]: number["value"] for number in Device(name).numbers}
    except Error as error:
        raise ValueError(
            f"wear=: {name!r}: only the device of a profile wears out, without layers; use delay= and faults= instead of "
            f"layers ({error})"
        ) from error
    small: Dict[str, Any] = {"wear.cycles": 100, "capacity": "64MiB"}
    if "nand.blocks" in profile:
        planes = math.prod(int(profile[f"nand.{part}"]) for part in ("channels", "dies", "planes"))
        small = {**small, "capacity": f"{4 * planes}MiB", "nand.blocks": 24, "nand.pages": 16}
    try:
        return Device(name, seed=seed, **{**small, **numbers})
    except Error as error:
        raise ValueError(f"wear= makes {name} small ({small}), which fails: give other numbers ({error})") from error


def _wear_out(device: Device, wear: float) -> None:
    """Overwrite the device until its most worn block has used this share of its rated erases."""
    while True:
        state = device.wear()
        if state is None or state["lifetime_left_percent"] is None:
            raise ValueError(f"{device.name} does not wear out; add wear.cycles=")
        if state["max"] >= wear * state["rated_cycles"]:
            return
        if device.counters().get("read_only"):
            raise ValueError(f"{device.name} is read-only before its blocks reach {wear:.0%} of their erases")
        device.run(rw="write", bs="1m", unwritten=True, check=False)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    opened = item.stash.get(_OPENED, [])
    if report.failed and opened:
        lines = [f"{device!r} at {device.now_ns} ns" for device in opened]
        lines.append(f"to repeat: pytest {shlex.quote(item.nodeid)} --flash-seed={item.config.stash[_SEED]}")
        report.sections.append(("virtual flash devices", "\n".join(lines)))
