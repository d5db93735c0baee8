//! Snapshots of all outputs for a scripted run.

use super::fake::{self, io, ms, one, us};
use flashlab_fio::cmdline::TerseVersion;
use flashlab_fio::job::{Direction, Engine, Job, Mix, PercentilesOf};
use flashlab_fio::output::normal::Normal;
use flashlab_fio::output::{Run, json, terse};
use flashlab_fio::stats::{Report, Settings};
use flashlab_fio::workload::{Cause, Record};
use flashlab_sim::{Duration, Mechanism, Spent, Status};

/// Returns a run of two clones, and then of a reader and a job that fails. The clones write 4 KiB every 452 us for a
/// second; each 64th write takes 20 ms longer because of a merge, and an fsync follows each tenth. The reader reads
/// 1 MiB in 25 ms at depth 2. The device rejects the write of the last job.
fn known() -> (Vec<Job>, Vec<Report>) {
    let mut logger = fake::job("logger", Mix::Write, true, 4_096);
    logger.group_reporting = true;
    logger.options =
        vec![("rw".to_owned(), "randwrite".to_owned()), ("time_based".to_owned(), String::new())];
    let mut clone = logger.clone();
    clone.clone = 1;
    let mut reader = fake::job("reader", Mix::Read, false, 1 << 20);
    reader.description = Some("depth two".to_owned());
    reader.group = 1;
    reader.engine = Engine::Asynchronous;
    reader.engine_name = "libaio".to_owned();
    reader.depth = 2;
    let mut refused = fake::job("refused", Mix::Write, false, 512);
    refused.group = 1;
    let jobs = vec![logger, clone, reader, refused];
    let reports = fake::run_with(
        &jobs,
        &Settings { logger_rates: vec![1_000_000, 20_000_000], ..Settings::default() },
        |to| {
            for job in 0..2 {
                to.started(job, ms(0));
                let mut now = ms(0);
                let mut count = 0;
                while now < ms(1_000) {
                    count += 1;
                    let mut spent = Spent::default();
                    spent[Mechanism::Bus] = Duration::from_us(182);
                    spent[Mechanism::Host] = Duration::from_us(45);
                    spent[Mechanism::Program] = Duration::from_us(225);
                    spent[Mechanism::Merge] = Duration::from_ms(if count % 64 == 0 { 20 } else { 0 });
                    let io = io(Direction::Write, now, 4_096);
                    to.submitted(job, &io, 1);
                    now += spent.total();
                    to.completed(job, &io, now, &spent);
                    if count % 10 == 0 {
                        let sync = fake::spent_in(Mechanism::Program, Duration::from_us(800));
                        to.synced(job, now, now + Duration::from_us(800), &sync, 1);
                        now += Duration::from_us(800);
                    }
                }
                to.finished(job, now);
            }
            to.started(2, ms(1_020));
            for i in 0..80 {
                one(to, 2, Direction::Read, ms(1_020 + 25 * i), ms(1_045 + 25 * i), 1 << 20);
            }
            to.finished(2, ms(3_020));
            to.started(3, ms(1_020));
            let beyond = io(Direction::Write, us(1_020_000), 512);
            to.submitted(3, &beyond, 1);
            to.failed(3, &beyond, us(1_020_000), Cause::Device(Status::OutOfRange));
            to.finished(3, us(1_020_000));
        },
    );
    (jobs, reports)
}

#[test]
fn the_normal_output_of_a_known_run() {
    let (jobs, reports) = known();
    let accepted = ["direct".to_owned(), "invalidate".to_owned()];
    let run = Run { version: "flashlab-0", reports: &reports, global_options: &[], accepted: &accepted };
    insta::assert_snapshot!(Normal { jobs: &jobs, run }.to_string());
}

#[test]
fn the_json_of_a_known_run() {
    let (_, reports) = known();
    let accepted = ["direct".to_owned()];
    let global = [("size".to_owned(), "1m".to_owned())];
    let run =
        Run { version: "flashlab-0", reports: &reports[..1], global_options: &global, accepted: &accepted };
    insta::assert_snapshot!(json::text(&run, json::Bins::With));
}

#[test]
fn with_kb_base_1000_decimal_units_come_first() {
    let mut job = fake::job("k", Mix::Read, true, 4_000);
    job.kb_base = 1_000;
    let jobs = [job];
    let reports = fake::run(&jobs, |to| {
        to.started(0, ms(0));
        (0..400).for_each(|i| one(to, 0, Direction::Read, ms(5 * i), ms(5 * i + 1), 4_000));
        to.finished(0, ms(2_001));
    });
    let run = Run { version: "flashlab-0", reports: &reports, global_options: &[], accepted: &[] };
    let text = Normal { jobs: &jobs, run }.to_string();
    // fio 3.33 printed these lines for 199 reads a second of 4,000 bytes.
    for line in [
        "k: (g=0): rw=randread, bs=(R) 4000B-4000B, (W) 4000B-4000B, (T) 4000B-4000B, ioengine=psync, iodepth=1",
        "  read: IOPS=199, BW=800kB/s (781KiB/s)(1600kB/2001msec)",
        "   bw (   kB/s): min=  781, max=  781, per=100.00%, avg=781.00, stdev= 0.00, samples=4",
        "   READ: bw=800kB/s (781KiB/s), 800kB/s-800kB/s (781KiB/s-781KiB/s), io=1600kB (1563KiB), run=2001-2001msec",
    ] {
        assert!(text.lines().any(|ours| ours == line), "{line}\nin\n{text}");
    }
}

#[test]
fn the_terse_output_of_a_known_run_in_each_version() {
    let (_, reports) = known();
    let versions = [TerseVersion::Two, TerseVersion::Three, TerseVersion::Four, TerseVersion::Five];
    insta::assert_snapshot!(versions.map(|version| terse::text(&reports, version)).concat());
}

#[test]
fn percentile_switches_select_what_is_printed() {
    let latencies = |slat, clat, lat| {
        let mut job = fake::job("j", Mix::Write, true, 4_096);
        job.engine = Engine::Asynchronous;
        job.percentiles = vec![50.0];
        job.percentiles_of = PercentilesOf { slat, clat, lat };
        let reports = fake::run(&[job], |to| {
            to.started(0, ms(0));
            one(to, 0, Direction::Write, us(0), us(100), 4_096);
            to.synced(0, us(100), us(150), &fake::spent_in(Mechanism::Program, Duration::from_us(50)), 1);
            to.finished(0, us(150));
        });
        let run = Run { version: "flashlab-0", reports: &reports, global_options: &[], accepted: &[] };
        let text = Normal { jobs: &[], run }.to_string();
        let printed = |line: &str| line.trim().strip_suffix(" percentiles (nsec):").map(str::to_owned);
        text.lines().filter_map(printed).collect::<Vec<_>>()
    };
    assert_eq!(latencies(false, true, false), ["clat", "sync"]);
    assert_eq!(latencies(true, true, true), ["slat", "clat", "lat", "sync"]);
    assert_eq!(latencies(false, false, true), ["lat", "sync"]);
    assert_eq!(latencies(true, false, false), ["slat"]);
}
