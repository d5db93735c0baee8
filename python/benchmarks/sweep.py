"""Measures the speed of a sweep on Dask workers: two workers relative to one, and one worker relative to a plain loop.

Needs `distributed`. The machine has to have two idle processors.
"""

import time

import flashlab
from distributed import Client, LocalCluster

JOB = {"rw": "randwrite", "bs": "4k", "size": "64m", "number_ios": 20_000, "time_based": 0}


def space(first):
    return ({"iodepth": 4, "seed": first + n} for n in range(200))


def seconds(executor, first):
    begin = time.perf_counter()
    result = flashlab.sweep("sd/kingston", JOB, space(first), executor)
    assert len(result) == 200 and result.errors == 0, result
    return time.perf_counter() - begin


def on_workers(count, first):
    with LocalCluster(n_workers=count, threads_per_worker=1, dashboard_address=None) as cluster:
        with Client(cluster) as client:
            flashlab.sweep("sd/kingston", JOB, [{"iodepth": 4, "seed": 10**6 + n} for n in range(8)], client)
            return seconds(client, first)


if __name__ == "__main__":
    begin = time.perf_counter()
    for point in space(0):
        flashlab.Device("sd/kingston", seed=point["seed"]).run(iodepth=point["iodepth"], **JOB)
    alone = time.perf_counter() - begin
    one, two = on_workers(1, 0), on_workers(2, 0)
    print(f"200 points: {alone:.1f} s in a loop, {one:.1f} s on one worker, {two:.1f} s on two")
    print(f"cost of chunks and scheduler: {100 * (one / alone - 1):.1f} %; two workers are {one / two:.2f} times as fast")
