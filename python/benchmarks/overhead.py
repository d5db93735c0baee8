"""Measures the cost of Python, as ratios to the same work in Rust.

Prints two ratios, each the median over rounds in which both sides run one after the other on one processor:

- 1,000 calls of a job of 10,000 requests: time in Python divided by time in Rust (goal: at most 1.05);
- single requests through ``submit_many``, 10,000 to a call: speed in Python divided by the speed of a loop over
  ``Model.submit`` and ``Model.complete`` in Rust (goal: at least 0.5).

Usage: ``python python/benchmarks/overhead.py [ROUNDS]`` with the package installed from the release build
(``pip install ./python``). Builds the Rust side, ``crates/lab/examples/python_peer.rs``, with the same profile.
"""

import array
import os
import pathlib
import statistics
import subprocess
import sys
import time

import flashlab

ROOT = pathlib.Path(__file__).parents[2]
DEVICE = "nvme/p32a80"
CALLS = 1_000
JOB = "--name=a --direct=1 --rw=randread --bs=4k --size=64m --number_ios=10000"
BATCHES = 200
REQUESTS = 10_000
SPAN = 64 << 20


def calls():
    device = flashlab.Device(DEVICE)
    device.run(JOB)
    begin = time.perf_counter()
    requests = sum(device.run(JOB).requests for _ in range(CALLS))
    seconds = time.perf_counter() - begin
    assert requests == CALLS * 10_000
    return seconds


def batches():
    device = flashlab.Device(DEVICE)
    device.run(rw="write", bs="1m", size=SPAN)
    # The offsets of the Rust side: a linear congruential generator.
    state, offsets = 1, array.array("Q")
    for _ in range(REQUESTS):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        offsets.append((state >> 33) % (SPAN // 4096) * 4096)
    total = 0
    begin = time.perf_counter()
    for _ in range(BATCHES):
        done = device.submit_many("read", offsets, 4096)
        total += done.latency_ns[-1] + len(done)
    return time.perf_counter() - begin


def peer(mode):
    program = ROOT / "target/release/examples/python_peer"
    return float(subprocess.run([program, mode], capture_output=True, text=True, check=True).stdout)


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    build = ["cargo", "build", "--release", "--quiet", "--package", "flashlab-lab", "--example", "python_peer"]
    subprocess.run(build, cwd=ROOT, check=True)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    ratios = {"calls": [], "batches": []}
    for _ in range(rounds):
        ratios["calls"].append(calls() / peer("calls"))
        ratios["batches"].append(peer("batches") / batches())
    shown = {name: ", ".join(f"{ratio:.3f}" for ratio in sorted(values)) for name, values in ratios.items()}
    print(f"calls: time of Python / Rust, median {statistics.median(ratios['calls']):.3f} of {shown['calls']}")
    print(f"batches: speed of Python / Rust, median {statistics.median(ratios['batches']):.3f} of {shown['batches']}")


if __name__ == "__main__":
    main()
