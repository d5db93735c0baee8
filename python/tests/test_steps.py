"""Single requests and batches."""

import array
import pickle

import flashlab
import pyarrow
import pytest


def test_requests_one_by_one_take_as_long_as_the_same_job():
    job = flashlab.Device("sd/kingston").run(rw="write", bs="64k", size="4m")
    one_by_one = flashlab.Device("sd/kingston")
    total = 0
    for n in range(64):
        one_by_one.submit("write", n << 16, 64 << 10)
        (latency,) = one_by_one.advance().latency_ns
        total += latency
    assert total == pytest.approx(job.latency.mean_ns * 64)
    batch = flashlab.Device("sd/kingston").submit_many("write", range(0, 4 << 20, 64 << 10), 64 << 10)
    assert sum(batch.latency_ns) == total
    assert sum(batch.mechanisms.values()) == total


def test_a_batch_keeps_as_many_requests_in_flight_as_its_depth():
    device = flashlab.Device("nvme/p32a80")
    offsets = array.array("Q", [n * 4096 for n in range(256)])
    serial = device.submit_many("write", offsets)
    deep = flashlab.Device("nvme/p32a80").submit_many("write", offsets, depth=8)
    assert serial.ok and deep.ok and len(deep) == 256
    assert deep.at_ns[-1] < serial.at_ns[-1]
    assert sorted(deep.ids) == list(range(256))


def test_requests_arrive_at_their_instants():
    device = flashlab.Device("sd/kingston")
    batch = device.submit_many("write", [0, 4096, 8192], at=[0, 10**9, 2 * 10**9])
    starts = [at - latency for at, latency in zip(batch.at_ns, batch.latency_ns)]
    assert starts == [0, 10**9, 2 * 10**9]


def test_time_advances_to_an_instant_by_a_duration_or_to_the_completions():
    device = flashlab.Device("sd/kingston")
    number = device.submit("write", 0, 4096)
    assert device.in_flight == 1
    assert len(device.advance(by=1)) == 0
    assert device.now_ns == 1
    done = device.advance()
    assert list(done.ids) == [number] and device.in_flight == 0
    assert device.now_ns == done.at_ns[0] == done.latency_ns[0]
    device.advance(to=10**9)
    assert device.now_ns == 10**9
    device.idle("1s")
    assert device.now_ns == 2 * 10**9


def test_a_request_beyond_the_end_has_a_status():
    device = flashlab.Device("sd/kingston")
    device.submit("read", device.capacity, 4096)
    done = device.advance()
    assert done.statuses == ["out of range"] and not done.ok


def test_plain_figures_can_be_pickled_and_the_error_of_a_result_names_an_alternative():
    device = flashlab.Device("sd/kingston", seed=3)
    assert device.seed == 3
    done = device.submit_many("write", range(0, 1 << 20, 4096))
    copy = pickle.loads(pickle.dumps(done))
    assert pyarrow.table(copy).equals(pyarrow.table(done)) and copy.mechanisms == done.mechanisms
    result = device.run(rw="randrw", bs="4k", size="1m")
    latency = pickle.loads(pickle.dumps(result.latency))
    assert repr(latency) == repr(result.latency) and latency.histogram() == result.latency.histogram()
    assert (latency.stddev_ns, latency.percentiles) == (result.latency.stddev_ns, result.latency.percentiles)
    assert {job.direction for job in result.jobs} == {"read", "write"}
    for job in result.jobs:
        copy = pickle.loads(pickle.dumps(job))
        for name in ("job", "direction", "requests", "bytes", "runtime_ms", "iops", "bandwidth", "mechanisms", "unwritten"):
            assert getattr(copy, name) == getattr(job, name)
        assert copy.latency.percentiles == job.latency.percentiles
    with pytest.raises(TypeError, match=r"return result.to_dict\(\) or an Arrow table"):
        pickle.dumps(result)


def test_jobs_wait_for_submitted_requests():
    device = flashlab.Device("sd/kingston")
    device.submit("write")
    with pytest.raises(flashlab.Error, match="requests in flight: 1"):
        device.run(rw="read", bs="4k", size="1m")
    device.advance()
    device.run(rw="read", bs="4k", size="1m")


@pytest.mark.parametrize(
    ("call", "part"),
    [
        (lambda d: d.submit("reed"), "expected read, write"),
        (lambda d: d.submit("read", at=-1), None),
        (lambda d: d.submit("read", -4096), None),
        (lambda d: (d.idle("1s"), d.submit("read", at=5)), "the time is already"),
        (lambda d: d.submit("read", at=2**64 - 1), "146 years"),
        (lambda d: d.submit_many("read", [0], at=[2**64 - 1]), "146 years"),
        (lambda d: d.advance(to=2**64 - 1), "146 years"),
        (lambda d: d.advance(by=2**64 - 1), "146 years"),
        (lambda d: d.idle(2**64 - 1), "146 years"),
        (lambda d: d.advance(to=1, by=1), "not both"),
        (lambda d: d.advance(by="10 parsecs"), "parsecs"),
        (lambda d: d.submit_many("read", [0, 4096], [4096]), None),
        (lambda d: d.submit_many("read", [0, 4096], [4096] * 3), "lengths has 3 entries"),
        (lambda d: d.submit_many("read", [0, 4096], at=[5, 4]), "instants must not decrease"),
        (lambda d: d.submit_many("read", array.array("d", [0.0])), "64 bits"),
        (lambda d: d.submit_many("read", array.array("q", [-4096])), "offsets: expected a sequence"),
        (lambda d: d.submit_many("read", "0"), "offsets: expected a sequence"),
        (lambda d: d.submit_many("read", [2**64]), "offsets: expected a sequence"),
        (lambda d: d.submit("read", 100), "multiples of the block of 512 bytes"),
        (lambda d: d.submit("write", 0, 0), "length above 0"),
        (lambda d: d.submit_many("write", [0, 4096, 8193]), "offset=8193"),
        (lambda d: d.submit_many("write", [0], depth=0), "depth=0: expected at least 1"),
        (lambda d: d.idle("10 h"), 'write "10h"'),
    ],
)
def test_a_wrong_request_is_an_error(call, part):
    device = flashlab.Device("sd/kingston")
    if part is None:
        try:
            call(device)
        except (flashlab.Error, OverflowError):
            pass
        return
    with pytest.raises(flashlab.Error, match=part):
        call(device)


def test_numpy_arrays_pass_without_lists():
    numpy = pytest.importorskip("numpy")
    offsets = numpy.arange(100, dtype=numpy.uint64) * 4096
    batch = flashlab.Device("nvme/p32a80").submit_many("write", offsets, numpy.full(100, 4096, dtype=numpy.uint64))
    latencies = numpy.asarray(batch.latency_ns)
    assert latencies.dtype == numpy.uint64 and latencies.shape == (100,)
    assert (latencies == list(batch.latency_ns)).all()
