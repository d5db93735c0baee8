//! Tests of the times of submissions and completions: depth, batches, rates, think times, ramps, limits and flushes.

use super::fake::{
    Event, EventLog, FixedLatency, is_read, jobs, run_jobs, run_options, run_stopped, shares_of,
};
use flashlab_fio::job::{Engine, Job};
use flashlab_fio::workload::Io;
use flashlab_sim::{Duration, Instant};

fn ms(at: Instant) -> f64 {
    at.as_ns() as f64 / 1e6
}

/// Returns the maximum number of in-flight requests.
fn depth_max(events: &EventLog, job: usize) -> usize {
    let (mut in_flight, mut most) = (0usize, 0);
    for event in events.of_job(job) {
        match event {
            Event::Submitted(_) => in_flight += 1,
            Event::Completed(..) => in_flight -= 1,
            _ => {}
        }
        most = most.max(in_flight);
    }
    most
}

fn deep(depth: u32, options: &str) -> Job {
    jobs(&format!("--iodepth={depth} --rw=randread --bs=4k --size=64m {options}")).remove(0)
}

#[test]
fn iops_are_depth_over_latency() {
    for depth in [1, 2, 7, 32] {
        let job = deep(depth, "--time_based --runtime=1");
        let mut model = FixedLatency::new(Duration::from_us(250));
        let events = run_jobs(&[job], None, &mut model);
        // There are 4,000 rounds. The requests of the last round are made before the runtime of 1 s is over.
        assert_eq!(events.completions(0).len() as u64, u64::from(depth) * 4_000);
        assert_eq!(model.depth_max, depth as usize);
        assert_eq!(events.finished(0), Instant::from_ns(1_000_000_000));
    }
}

#[test]
fn a_synchronous_engine_has_one_request_whatever_the_depth() {
    let job = Job { engine: Engine::Synchronous, ..deep(32, "") };
    let mut model = FixedLatency::new(Duration::from_us(250));
    run_jobs(&[job], None, &mut model);
    assert_eq!(model.depth_max, 1);
}

#[test]
fn batches_are_submitted_together_and_reaped_together() {
    let options = "--iodepth_batch_submit=4 --iodepth_batch_complete_min=4 --iodepth_batch_complete_max=4";
    let job = deep(8, &format!("{options} --number_ios=64"));
    let events = run_jobs(&[job], None, &mut FixedLatency::new(Duration::from_us(100)));
    assert_eq!(depth_max(&events, 0), 8);
    let issued: Vec<u64> = events.requests(0).iter().map(|io| io.issued.as_ns() / 100_000).collect();
    let expected: Vec<u64> = (0..64).map(|i| i / 8).collect();
    assert_eq!(issued, expected);
}

#[test]
fn iodepth_low_drains_the_queue_before_it_is_refilled() {
    let job = Job {
        think_time: Duration::ZERO,
        ..deep(8, "--iodepth_low=2 --iodepth_batch_submit=1 --number_ios=80")
    };
    let events = run_jobs(&[job], None, &mut FixedLatency::new(Duration::from_us(100)));
    let (mut in_flight, mut after_full) = (0, Vec::new());
    for event in events.of_job(0) {
        match event {
            Event::Submitted(_) => in_flight += 1,
            Event::Completed(..) => {
                in_flight -= 1;
                after_full.push(in_flight);
            }
            _ => {}
        }
    }
    assert_eq!(
        after_full.iter().filter(|&&left| left == 2).count(),
        13,
        "twelve refills of six, and the end"
    );
}

#[test]
fn a_late_reap_is_charged_to_the_queue() {
    // Two requests are submitted at 0. A request waits for the other one of its pair, so all are reaped in pairs. The
    // recorder asserts that the parts sum to the latency.
    let mut job = deep(2, "--iodepth_batch_complete_min=2 --number_ios=20");
    job.block_size = [const { flashlab_fio::job::BlockSize::Fixed(4096) }; 3];
    let events = run_jobs(&[job], None, &mut FixedLatency::new(Duration::from_us(100)));
    assert_eq!(events.completions(0).len(), 20);
    assert!(events.completions(0).iter().all(|(io, done)| done.since(io.issued) == Duration::from_us(100)));
}

#[test]
fn a_rate_is_respected() {
    for depth in [1, 8] {
        let job = deep(depth, "--rate=1m --time_based --runtime=4");
        let events = run_jobs(&[job], None, &mut FixedLatency::new(Duration::from_us(100)));
        assert_eq!(events.requests(0).len(), 4 * 256, "depth {depth}: 256 blocks of 4 KiB a second");
        // A request may be submitted when the bytes before it would have been transferred at the rate.
        for (number, io) in events.requests(0).iter().enumerate() {
            let due = number as u64 * 1_000_000_000 / 256;
            assert!(io.issued.as_ns() >= due, "depth {depth}, request {number} at {:?}", io.issued);
        }
    }
}

#[test]
fn a_rate_beyond_the_device_changes_nothing() {
    let free = run_options("--rw=randread --bs=4k --size=1m", 100);
    let limited = run_options("--rw=randread --bs=4k --size=1m --rate_iops=1000000", 100);
    assert_eq!(free.0, limited.0);
}

#[test]
fn rate_iops_spaces_requests_evenly() {
    let events = run_options("--rw=write --bs=64k --size=10m --rate_iops=100", 100);
    assert!(events.requests(0).iter().zip(0..).all(|(io, number)| io.issued.as_ns() == number * 10_000_000));
}

#[test]
fn a_mixed_job_keeps_the_rate_of_each_direction() {
    let job = deep(1, "--rate_iops=100,50 --time_based --runtime=10");
    let job = Job { pattern: jobs("--rw=randrw --size=1m")[0].pattern, ..job };
    let events = run_jobs(&[job], None, &mut FixedLatency::new(Duration::from_us(10)));
    let reads = events.requests(0).iter().filter(|io| is_read(io)).count();
    assert_eq!((reads, events.requests(0).len() - reads), (1_000, 500));
}

#[test]
fn a_rate_never_changes_the_direction_of_a_job_with_one_direction() {
    for (share, reads) in [(100, true), (0, false)] {
        let options =
            format!("--rw=rw --bs=4k --size=1m --rwmixread={share} --rate_iops=50 --time_based --runtime=1");
        let events = run_options(&options, 10);
        assert_eq!(events.requests(0).len(), 50, "rwmixread={share}");
        assert!(events.requests(0).iter().all(|io| is_read(io) == reads), "rwmixread={share}");
    }
}

#[test]
fn a_think_time_follows_every_thinktime_blocks() {
    let events = run_options("--rw=read --bs=4k --size=40k --thinktime=1000 --thinktime_blocks=4", 100);
    let issued: Vec<u64> = events.requests(0).iter().map(|io| io.issued.as_ns() / 100_000).collect();
    assert_eq!(issued, [0, 1, 2, 3, 14, 15, 16, 17, 28, 29]);
    // fio also pauses for the think time after the last block if that block completes a group.
    let whole = run_options("--rw=read --bs=4k --size=16k --thinktime=1000 --thinktime_blocks=4", 100);
    assert!((ms(whole.finished(0)) - 1.4).abs() < 1e-9);
}

/// Returns the numbers of requests between pauses of more than 9 ms.
fn groups(events: &EventLog) -> Vec<usize> {
    let requests = events.requests(0);
    let far = |a: &Io, b: &Io| b.issued.since(a.issued) > Duration::from_ms(9);
    requests.chunk_by(|a, b| !far(a, b)).map(<[Io]>::len).collect()
}

#[test]
fn a_think_time_first_drains_the_queue_and_drained_requests_count_for_the_next() {
    // The expected values are those of fio 3.33 with libaio, --size=400k and these options.
    for (depth, blocks, expected) in [
        (4, 8, &[11, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 1][..]),
        (8, 3, &[10, 1, 9, 1, 9, 1, 9, 1, 9, 1, 9, 1, 9, 1, 9, 1, 9, 1, 9]),
        (8, 20, &[27, 20, 20, 20, 13]),
    ] {
        let job = deep(depth, &format!("--thinktime=10000 --thinktime_blocks={blocks} --number_ios=100"));
        let events = run_jobs(&[job], None, &mut FixedLatency::new(Duration::from_us(100)));
        assert_eq!(groups(&events), expected, "depth {depth}, {blocks} blocks");
    }
}

#[test]
fn a_rate_catches_up_after_think_times() {
    // Observed with fio 3.33: ten requests at the rate, then half a second of pause and ten requests at once.
    let job = deep(1, "--thinktime=500000 --thinktime_blocks=10 --rate_iops=100 --time_based --runtime=2");
    let events = run_jobs(&[job], None, &mut FixedLatency::new(Duration::from_us(100)));
    let at: Vec<u64> = events.requests(0).iter().map(|io| io.issued.as_ns() / 1_000_000).collect();
    assert_eq!(at[..12], [0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 590, 590]);
    assert_eq!((at[19], at[20]), (591, 1_091));
}

#[test]
fn the_number_of_requests_counts_from_the_end_of_the_ramp() {
    let job = deep(1, "--rate_iops=50 --ramp_time=1 --runtime=2 --number_ios=60");
    let events = run_jobs(&[job], None, &mut FixedLatency::new(Duration::from_us(100)));
    // fio 3.33 reports 60 requests; another 51 were made in the ramp.
    assert_eq!(events.requests(0).len(), 51 + 60);
}

#[test]
fn a_runtime_stops_submissions_and_requests_in_flight_still_count() {
    let events = run_options("--rw=read --bs=4k --size=1g --runtime=1", 300_000);
    let issued: Vec<u64> = events.requests(0).iter().map(|io| io.issued.as_ns() / 1_000_000).collect();
    assert_eq!(issued, [0, 300, 600, 900]);
    assert_eq!(events.completions(0).len(), 4);
    assert!((ms(events.finished(0)) - 1_200.0).abs() < 1e-9);
}

#[test]
fn a_sleeping_job_ends_with_its_runtime() {
    let events = run_options("--rw=read --bs=4k --size=1m --rate_iops=1 --runtime=2500ms", 100);
    assert_eq!(events.requests(0).len(), 3);
    assert!((ms(events.finished(0)) - 2_500.0).abs() < 1e-9);
}

#[test]
fn a_job_without_time_based_ends_with_its_last_request() {
    let events = run_options("--rw=read --bs=4k --size=40k --runtime=10", 100_000);
    assert!((ms(events.finished(0)) - 1_000.0).abs() < 1e-9);
}

#[test]
fn the_ramp_ends_with_the_first_completion_after_it_and_the_runtime_counts_from_there() {
    let events = run_options("--rw=read --bs=4k --size=1m --time_based --ramp_time=1 --runtime=2", 300_000);
    let over: Vec<Instant> = events
        .of_job(0)
        .filter_map(|event| if let Event::RampOver(at) = event { Some(at) } else { None })
        .collect();
    assert_eq!(over, [Instant::from_ns(1_200_000_000)]);
    // The job makes requests until 3.2 s, the last one at 3.0 s.
    assert!((ms(events.finished(0)) - 3_300.0).abs() < 1e-9);
    // The completion that ends the ramp precedes the reset, so it is not counted.
    let order: Vec<Event> = events.of_job(0).collect();
    let reset = order.iter().position(|event| matches!(event, Event::RampOver(_))).expect("the ramp ends");
    assert!(matches!(order[reset - 1], Event::Completed(_, at) if at == over[0]));
}

#[test]
fn a_start_delay_moves_everything() {
    let events = run_options("--rw=read --bs=4k --size=8k --startdelay=2", 100);
    assert_eq!(events.0[0].1, Event::Started(Instant::from_ns(2_000_000_000)));
    assert_eq!(events.requests(0)[0].issued, Instant::from_ns(2_000_000_000));
}

#[test]
fn a_flush_follows_every_so_many_writes_and_the_next_waits_for_it() {
    let jobs = jobs("--rw=write --bs=4k --size=32k --fsync=4 --end_fsync=1");
    let mut model = FixedLatency::new(Duration::from_us(100));
    model.flush = Duration::from_ms(5);
    let events = run_jobs(&jobs, None, &mut model);
    let issued: Vec<u64> = events.requests(0).iter().map(|io| io.issued.as_ns() / 100_000).collect();
    assert_eq!(issued, [0, 1, 2, 3, 54, 55, 56, 57]);
    let synced = events.of_job(0).filter(|event| matches!(event, Event::Synced(..))).count();
    assert_eq!(synced, 2, "one of fsync=4, one at the end");
    assert!((ms(events.finished(0)) - 10.8).abs() < 1e-9);
}

#[test]
fn a_flush_of_a_deep_job_delays_later_requests() {
    let job =
        Job { fsync: 6, pattern: jobs("--rw=write --size=1m")[0].pattern, ..deep(4, "--number_ios=24") };
    let mut model = FixedLatency::new(Duration::from_us(100));
    model.flush = Duration::from_ms(1);
    let events = run_jobs(&[job], None, &mut model);
    let mut flushing = false;
    for event in events.of_job(0) {
        match event {
            Event::Flushing { .. } => flushing = true,
            Event::Synced(..) => flushing = false,
            Event::Submitted(io) => assert!(!flushing, "{io:?} did not wait"),
            _ => {}
        }
    }
    assert_eq!(events.completions(0).len(), 24);
}

#[test]
fn synchronous_writes_include_their_flush() {
    let options = "--rw=rw --bs=4k --size=4m --sync=1";
    let mut model = FixedLatency::new(Duration::from_us(100));
    model.flush = Duration::from_us(700);
    let events = run_jobs(&jobs(options), None, &mut model);
    for (io, done) in events.completions(0) {
        let expected = if is_read(&io) { 100 } else { 800 };
        assert_eq!(done.since(io.issued), Duration::from_us(expected), "{io:?}");
    }
    assert!(events.of_job(0).all(|event| !matches!(event, Event::Flushing { .. })));
}

#[test]
fn clones_at_one_instant_submit_in_their_order() {
    let events = run_options("--rw=read --bs=4k --size=40k --numjobs=3", 100);
    let order: Vec<usize> =
        events.0.iter().filter(|(_, e)| matches!(e, Event::Submitted(_))).map(|(job, _)| *job).collect();
    assert_eq!(order.len(), 30);
    assert!(order.chunks(3).all(|round| round == [0, 1, 2]), "{order:?}");
    assert_eq!(run_options("--rw=read --bs=4k --size=40k --numjobs=3", 100).0, events.0);
}

#[test]
fn a_rejected_request_ends_its_job_and_no_other() {
    for depth in [1, 4] {
        let mut jobs = vec![deep(depth, "--number_ios=100"), deep(depth, "--number_ios=100 --startdelay=1")];
        jobs[1].end_fsync = true;
        let mut model = FixedLatency::new(Duration::from_us(100));
        model.reject_from = 150;
        let events = run_jobs(&jobs, None, &mut model);
        assert_eq!(events.completions(0).len(), 100);
        assert_eq!(events.completions(1).len(), 50, "depth {depth}");
        assert!(events.of_job(1).any(|event| matches!(event, Event::Failed(_))));
        assert!(events.finished(1) > events.finished(0));
    }
}

#[test]
fn a_rejected_flush_ends_its_job() {
    let base = "--rw=write --bs=4k --size=64k";
    // The first flush is rejected. It is the second request with fsync=1, or with sync=1 at depth 1; the fifth with
    // fdatasync=4, or with sync=1 at depth 4; and the 17th with end_fsync=1.
    for (options, reject_from, completed) in [
        ("--sync=1", 1, 0),
        ("--sync=1 --iodepth=4", 4, 0),
        ("--fsync=1", 1, 1),
        ("--fdatasync=4 --iodepth=2", 4, 4),
        ("--end_fsync=1", 16, 16),
        ("--end_fsync=1 --loops=2", 16, 16),
    ] {
        let mut model = FixedLatency::new(Duration::from_us(100));
        model.reject_from = reject_from;
        let events = run_jobs(&jobs(&format!("{base} {options}")), None, &mut model);
        assert!(events.of_job(0).any(|event| matches!(event, Event::Failed(_))), "{options}");
        assert_eq!(events.completions(0).len(), completed, "{options}");
        assert!(!events.of_job(0).any(|event| matches!(event, Event::Synced(..))), "{options}");
    }
}

#[test]
fn a_request_above_max_latency_ends_its_job() {
    let base = "--rw=randwrite --bs=4k --size=64m --number_ios=100 --iodepth=4";
    let failed = |options: &str, us| {
        let events = run_options(&format!("{base} {options}"), us);
        (events.completions(0).len(), events.of_job(0).any(|event| matches!(event, Event::Failed(_))))
    };
    assert_eq!(failed("--max_latency=250us", 250), (100, false));
    // Requests in flight complete and are counted, as in fio; no more requests are sent.
    assert_eq!(failed("--max_latency=249", 250), (4, true));
    assert_eq!(failed("--max_latency=1us,250us", 250), (100, false));
    assert_eq!(failed("--max_latency=1ms,249us", 250), (4, true));
    // fio measures nothing in a ramp.
    let after_ramp = failed("--max_latency=249us --ramp_time=1ms", 250);
    assert!(after_ramp.1 && after_ramp.0 > 12, "{after_ramp:?}");
    // The flush of a synchronous write belongs to its latency.
    assert_eq!(failed("--max_latency=499us --sync=1 --iodepth=1", 250), (1, true));
    assert_eq!(failed("--max_latency=500us --sync=1 --iodepth=1", 250), (100, false));
}

#[test]
fn a_buffered_job_drops_its_cached_pages_before_each_loop_but_the_first() {
    let end_us = |options: &str| {
        let line = format!("--ioengine=psync --rw=read --bs=4k --size=16k {options}");
        run_options(&line, 10).finished(0).as_ns() / 1_000
    };
    // There are four requests a loop. Dropping the pages takes as long as a request, but does not count as one.
    assert_eq!(end_us("--loops=3 --direct=1"), 120);
    assert_eq!(end_us("--loops=3"), 120 + 2 * 10);
    assert_eq!(end_us("--loops=3 --invalidate=0"), 120 + 2 * 10, "fio closes the file all the same");
    assert_eq!(end_us("--io_size=48k"), 120 + 2 * 10);
    let requests = |options: &str| {
        let line = format!("--ioengine=psync --rw=randread --bs=4k --size=16k --time_based {options}");
        run_options(&line, 10).requests(0).len()
    };
    assert_eq!(requests("--runtime=1ms"), 80, "four of five steps are requests");
    assert_eq!(requests("--runtime=1ms --invalidate=0"), 100);
    assert_eq!(requests("--runtime=1ms --direct=1"), 100);
}

#[test]
fn a_stopped_job_completes_only_its_requests_in_flight() {
    for options in [
        "--iodepth=1 --ioengine=psync --direct=1",
        // Buffered: cached pages are dropped after every second request.
        "--ioengine=psync --size=8k",
        "--iodepth=16",
        "--iodepth=16 --iodepth_batch_submit=4 --iodepth_batch_complete_min=4",
        "--iodepth=4 --rate_iops=1000",
        "--iodepth=4 --thinktime=3ms",
        "--iodepth=4 --startdelay=1h",
        "--iodepth=4 --ramp_time=1h",
        "--rw=randwrite --sync=1",
        "--rw=randwrite --fsync=3 --end_fsync=1",
        "--rw=randread --numjobs=3 --iodepth=2",
    ] {
        let line = format!("--rw=randread --bs=4k --size=64m --time_based --runtime=100d {options}");
        for at in [0, 1, 777_000, 10_000_000, 10_000_001] {
            let jobs = jobs(&line);
            let (events, stopped, last) = run_stopped(&jobs, Instant::from_ns(at));
            for job in 0..jobs.len() {
                let ended = events.finished(job);
                assert!(ended <= last.max(stopped), "{options}: {ended:?}");
                assert!(last <= stopped + Duration::from_ms(2), "{options}: {stopped:?} to {last:?}");
                let late = events.requests(job).into_iter().filter(|io| io.issued > stopped).count();
                assert_eq!(late, 0, "{options}, stopped at {at}");
                if !options.contains("ramp") {
                    assert_eq!(
                        events.requests(job).len(),
                        events.completions(job).len(),
                        "{options}, stopped at {at}"
                    );
                }
            }
        }
    }
}

#[test]
fn the_share_done_rises_from_0_to_1() {
    for line in [
        "--rw=randread --bs=4k --size=1m",
        "--rw=read --bs=4k --size=1m --time_based --runtime=100ms",
        "--rw=write --bs=4k --number_ios=100 --size=1g",
        "--rw=randrw --bs=4k --size=1m --loops=3 --numjobs=2",
    ] {
        let shares = shares_of(&jobs(line));
        assert!(shares.windows(2).all(|pair| pair[0] <= pair[1]), "{line}: {shares:?}");
        let half = shares[shares.len() / 2];
        assert!((0.4..0.6).contains(&half), "{line}: {half}");
        assert_eq!(shares.last(), Some(&1.0), "{line}");
    }
}
