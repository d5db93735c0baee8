//! Tests of the statistics against closed forms.

use super::fake::{self, io, ms, one, spent, us};
use flashlab_fio::job::{Direction, Engine, Job, Mix};
use flashlab_fio::stats::{Failure, Settings, Statistics, groups};
use flashlab_fio::workload::{Cause, Record};
use flashlab_sim::{Duration, Mechanism, Spent, Status};
use proptest::prelude::*;

fn reader() -> Job {
    fake::job("reader", Mix::Read, false, 4_096)
}
fn writer() -> Job {
    fake::job("writer", Mix::Write, false, 4_096)
}

#[test]
fn requests_of_one_millisecond_give_1000_iops_in_every_window() {
    let reports = fake::run(&[reader()], |to| {
        to.started(0, ms(5));
        (0..2_600).for_each(|i| one(to, 0, Direction::Read, ms(5 + i), ms(6 + i), 4_096));
        to.finished(0, ms(2_605));
    });
    let read = reports[0].stats.direction(Direction::Read);
    assert_eq!((read.io_bytes, read.total_ios(), read.runtime_ms), (2_600 * 4_096, 2_600, 2_600));
    assert_eq!((read.iops.min(), read.iops.max(), read.iops.count()), (1_000, 1_000, 5));
    assert_eq!((read.bandwidth.min(), read.bandwidth.max(), read.bandwidth.count()), (4_000, 4_000, 5));
    assert_eq!(read.requests_per_second(), 1_000.0);
    assert_eq!(read.bytes_per_second(), 4_096_000);
    assert_eq!(reports[0].stats.job_runtime_ms, 2_600);
}

#[test]
fn the_runtime_is_rounded_up_and_zero_for_unused_directions() {
    let reports = fake::run(&[reader()], |to| {
        to.started(0, ms(0));
        one(to, 0, Direction::Read, us(0), us(700), 4_096);
        to.finished(0, us(1_001));
    });
    let read = reports[0].stats.direction(Direction::Read);
    assert_eq!((read.runtime_ms, read.runtime), (2, us(1_001).saturating_since(ms(0))));
    assert_eq!(reports[0].stats.direction(Direction::Write).runtime_ms, 0);
}

#[test]
fn an_empty_window_is_no_sample() {
    let reports = fake::run(&[writer()], |to| {
        to.started(0, ms(0));
        one(to, 0, Direction::Write, ms(0), ms(100), 512_000);
        one(to, 0, Direction::Write, ms(100), ms(1_900), 1_024_000);
        one(to, 0, Direction::Write, ms(1_900), ms(2_100), 512_000);
        to.finished(0, ms(2_100));
    });
    let bandwidth = &reports[0].stats.direction(Direction::Write).bandwidth;
    assert_eq!((bandwidth.count(), bandwidth.min(), bandwidth.max()), (2, 1_000, 2_000));
}

#[test]
fn completions_in_the_ramp_are_dropped_and_requests_that_span_its_end_count() {
    let mut job = reader();
    job.write_lat_log = Some("x".to_owned());
    let reports = fake::run(&[job], |to| {
        to.started(0, ms(0));
        one(to, 0, Direction::Read, ms(0), ms(400), 4_096);
        let spanning = io(Direction::Read, ms(400), 4_096);
        to.submitted(0, &spanning, 1);
        to.ramp_over(0, ms(1_000));
        to.completed(0, &spanning, ms(1_010), &spent(Mechanism::Read, &spanning, ms(1_010)));
        one(to, 0, Direction::Read, ms(1_010), ms(1_020), 4_096);
        to.finished(0, ms(1_020));
    });
    let stats = &reports[0].stats;
    let read = stats.direction(Direction::Read);
    assert_eq!((read.total_ios(), read.runtime_ms), (2, 20));
    assert_eq!(read.clat.max(), Duration::from_ms(610));
    let log = stats.logs.latency.as_ref().expect("asked for");
    let times: Vec<u64> = log.clat.entries().iter().map(|entry| entry.time_ms).collect();
    assert_eq!(times, [10, 20]);
}

#[test]
fn lat_is_the_sum_of_slat_and_clat_and_slat_is_empty_for_synchronous_engines() {
    for engine in [Engine::Asynchronous, Engine::Synchronous] {
        let mut job = reader();
        job.engine = engine;
        let reports = fake::run(&[job], |to| {
            to.started(0, ms(0));
            one(to, 0, Direction::Read, us(0), us(100), 4_096);
            let mut late = io(Direction::Read, us(110), 4_096);
            late.ready = us(100);
            to.submitted(0, &late, 1);
            to.completed(0, &late, us(200), &spent(Mechanism::Read, &late, us(200)));
            one(to, 0, Direction::Read, us(200), us(300), 4_096);
            to.finished(0, us(300));
        });
        let read = reports[0].stats.direction(Direction::Read);
        assert_eq!(
            (read.lat().min_ns(), read.lat().max_ns(), read.lat().sum_ns()),
            (100_000, 100_000, 300_000)
        );
        assert_eq!(read.clat.sum_ns(), 290_000);
        let slat = read.slat();
        let expected = if engine == Engine::Asynchronous { (3, 10_000, 10_000) } else { (0, 0, 0) };
        assert_eq!((slat.count(), slat.max_ns(), slat.sum_ns()), expected);
    }
}

#[test]
fn depths_and_batches_are_those_of_submission() {
    let mut job = reader();
    job.engine = Engine::Asynchronous;
    job.depth = 8;
    job.batch_submit = 4;
    job.batch_complete_max = 8;
    let reports = fake::run(&[job], |to| {
        to.started(0, ms(0));
        let first: Vec<_> = (0..8).map(|_| io(Direction::Read, us(0), 4_096)).collect();
        first.iter().zip(1..).for_each(|(io, depth)| to.submitted(0, io, depth));
        first.iter().for_each(|io| to.completed(0, io, us(50), &spent(Mechanism::Read, io, us(50))));
        one(to, 0, Direction::Read, us(50), us(90), 4_096);
        to.finished(0, us(90));
    });
    let stats = &reports[0].stats;
    // Two batches of four at depths 4 and 8, and a single request at depth 1. Eight requests are reaped at once, then
    // one.
    assert_eq!(stats.depths.counts(), &[1, 0, 4, 4, 0, 0, 0]);
    assert_eq!(stats.submits.counts(), &[0, 3, 0, 0, 0, 0, 0]);
    assert_eq!(stats.completes.counts(), &[0, 1, 1, 0, 0, 0, 0]);
}

#[test]
fn jobs_of_a_reported_group_are_summed_under_the_first_name() {
    let jobs = ["a", "b", "c"].map(|name| {
        let mut job = fake::job(name, Mix::Write, false, 4_096);
        job.group_reporting = name != "c";
        job
    });
    let reports =
        fake::run_with(&jobs, &Settings { logger_rates: vec![1_000_000], ..Settings::default() }, |to| {
            for job in 0..3 {
                to.started(job, ms(0));
                for i in 0..1_000 {
                    one(to, job, Direction::Write, ms(i), ms(i + 1), 4_096 * (job as u64 + 1));
                }
                to.finished(job, ms(1_000));
            }
        });
    let entries: Vec<_> = reports.iter().map(|r| (r.job.name.as_str(), r.jobs)).collect();
    assert_eq!(entries, [("a", 2), ("c", 1)]);
    let write = reports[0].stats.direction(Direction::Write);
    assert_eq!((write.total_ios(), write.io_bytes, write.runtime_ms), (2_000, 3 * 4_096_000, 1_000));
    assert_eq!((write.bandwidth.min(), write.bandwidth.count()), (12_000, 4));
    assert_eq!(reports[0].stats.loggers[0].bytes(), 1_000);
    let groups = groups(&reports);
    let (number, lines) = &groups[0];
    assert_eq!((groups.len(), *number, lines.len()), (1, 0, 1));
    let line = &lines[0];
    assert_eq!((line.name, line.aggregate, line.io_bytes), ("WRITE", 6 * 4_096_000, 6 * 4_096_000));
    assert_eq!((line.slowest, line.fastest), (3 * 4_096_000, 3 * 4_096_000));
}

#[test]
fn a_log_of_each_request_replaces_the_windows_as_in_fio() {
    let mut job = writer();
    job.write_bw_log = Some("x".to_owned());
    job.write_iops_log = Some("x".to_owned());
    let reports = fake::run(&[job], |to| {
        to.started(0, ms(0));
        one(to, 0, Direction::Write, us(0), us(100), 4_096);
        to.finished(0, ms(2_000));
    });
    let write = reports[0].stats.direction(Direction::Write);
    // As in fio, 4,096 bytes in 100,000 ns are 40,960 bytes a millisecond.
    assert_eq!((write.bandwidth.min(), write.bandwidth.count()), (40_960, 1));
    assert_eq!((write.iops.min(), write.iops.count()), (1, 1));
}

#[test]
fn a_rejected_request_has_the_errno_of_linux() {
    for (direction, errno) in [(Direction::Write, 28), (Direction::Read, 5)] {
        let reports = fake::run(&[writer()], |to| {
            to.started(0, ms(0));
            let refused = io(direction, us(10), 4_096);
            to.submitted(0, &refused, 1);
            to.failed(0, &refused, us(10), Cause::Device(Status::OutOfRange));
            to.finished(0, us(10));
        });
        assert_eq!(reports[0].stats.failure.expect("it failed").errno(), errno);
        assert_eq!(reports[0].stats.total_ios(), 0);
    }
}

#[test]
fn errnos_are_described_as_linux_does() {
    for (cause, errno, description) in [
        (Cause::Device(Status::Unsupported), 95, "Operation not supported"),
        (Cause::Device(Status::OutOfRange), 28, "No space left on device"),
        (Cause::Device(Status::Unreadable), 5, "Input/output error"),
        (Cause::Flush(Status::Unsupported), 95, "Operation not supported"),
        (Cause::Flush(Status::ReadOnly), 5, "Input/output error"),
    ] {
        let failure = Failure { io: io(Direction::Write, us(10), 4_096), at: us(10), cause };
        assert_eq!((failure.errno(), failure.description()), (errno, description));
    }
    for direction in [Direction::Read, Direction::Write] {
        let cause = Cause::Device(Status::OutOfRange);
        let failure = Failure { io: io(direction, us(10), 100), at: us(10), cause };
        assert_eq!((failure.errno(), failure.description()), (22, "Invalid argument"));
    }
}

#[test]
fn waves_count_into_their_own_jobs() {
    let jobs = [reader(), writer()];
    let mut statistics = Statistics::new(&jobs, &Settings::default());
    let mut wave = statistics.wave(1..2);
    wave.started(0, ms(3));
    one(&mut wave, 0, Direction::Write, ms(3), ms(4), 512);
    wave.finished(0, ms(4));
    assert_eq!(statistics.job(0).total_ios(), 0);
    assert_eq!(statistics.job(1).total_ios(), 1);
    assert_eq!(statistics.job(1).finished, ms(4));
}

proptest! {
    /// For any sequence of requests, one after the other, the mechanisms sum exactly to clat in nanoseconds,
    /// and no table loses a request.
    #[test]
    fn the_parts_sum_to_the_whole(
        requests in prop::collection::vec((0usize..3, prop::array::uniform8(0u64..3_000_000), 0u64..20_000), 1..200),
        unified: bool,
    ) {
        let mut job = fake::job("any", Mix::ReadWrite, true, 4_096);
        job.engine = Engine::Asynchronous;
        job.unified_rw_reporting = unified;
        let mut clats = 0u128;
        let mut lats = 0u128;
        let reports = fake::run(&[job], |to| {
            let mut now = ms(1);
            to.started(0, ms(0));
            for (direction, parts, slat) in &requests {
                let mut io = io(Direction::ALL[*direction], now + Duration::from_ns(*slat), 4_096);
                io.ready = now;
                let mut spent = Spent::default();
                Mechanism::ALL.into_iter().zip(parts).for_each(|(m, &ns)| spent[m] = Duration::from_ns(ns));
                to.submitted(0, &io, 1);
                let done = io.issued + spent.total();
                to.completed(0, &io, done, &spent);
                clats += u128::from(spent.total().as_ns());
                lats += u128::from(spent.total().as_ns() + slat);
                now = done;
            }
            to.finished(0, now);
        });
        let stats = &reports[0].stats;
        let sum = |f: fn(&flashlab_fio::stats::DirectionStats) -> u128| stats.directions.iter().map(f).sum::<u128>();
        prop_assert_eq!(sum(|d| d.clat.sum_ns()), clats);
        prop_assert_eq!(sum(|d| d.lat().sum_ns()), lats);
        for direction in &stats.directions {
            let parts: u128 = direction.mechanisms_ns().map(|(_, ns)| u128::from(ns)).sum();
            prop_assert_eq!(parts, direction.clat.sum_ns());
            prop_assert_eq!(direction.slat().sum_ns() + direction.clat.sum_ns(), direction.lat().sum_ns());
        }
        let n = requests.len() as u64;
        prop_assert_eq!(stats.total_ios(), n);
        let latency = &stats.latency;
        prop_assert_eq!(latency.ns().iter().chain(latency.us()).chain(latency.ms()).sum::<u64>(), n);
        prop_assert_eq!(stats.depths.counts().iter().sum::<u64>(), n);
        prop_assert_eq!((stats.submits.total(), stats.completes.total()), (n, n));
    }
}
