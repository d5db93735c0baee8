//! Tests of the comparison of simulated runs with real ones.

use super::fake::{self, ms, one};
use super::recorded;
use flashlab_fio::against::{AgainstError, BYTES_MAX, Comparison, Measure, RealRun, SYNC};
use flashlab_fio::job::{Direction, Job, Mix};
use flashlab_fio::output::{Run, json};
use flashlab_fio::stats::Report;
use flashlab_fio::workload::Record;
use proptest::prelude::*;

fn parse(text: &str) -> Result<RealRun, AgainstError> {
    RealRun::parse(text.as_bytes())
}

#[test]
fn a_replayed_run_equals_the_real_one() {
    for name in recorded::NAMES {
        let real = parse(&recorded::json(name)).expect("fio wrote it");
        assert_eq!((real.version.as_str(), real.simulated), ("fio-3.33", false));
        let (_, reports) = recorded::replay(name);
        let comparison = Comparison::new(&real, &reports);
        assert_eq!(comparison.notes, [""; 0]);
        assert!(comparison.figures.len() >= 3, "{name}");
        for figure in &comparison.figures {
            let error = figure.error_percent().expect("nothing here is zero");
            // The flushes are replayed from the buckets of fio's histogram, so their mean is not exact.
            let is_rounded = (figure.direction.as_str(), figure.measure) == (SYNC, Measure::ClatMean);
            assert!(error.abs() < if is_rounded { 0.5 } else { 1e-3 }, "{name}: {figure:?}");
        }
    }
}

#[test]
fn the_table_shows_each_figure_and_the_jobs_without_a_counterpart() {
    let real = parse(&recorded::json("group")).expect("fio wrote it");
    let jobs = ["readers", "others"].map(|name| fake::job(name, Mix::Read, true, 4_096));
    let reports = fake::run(&jobs, |to| {
        for job in 0..2 {
            to.started(job, ms(0));
            (0..200).for_each(|i| one(to, job, Direction::Read, ms(5 * i), ms(5 * i + 1), 4_096));
            to.finished(job, ms(1_000));
        }
    });
    insta::assert_snapshot!(Comparison::new(&real, &reports).to_string());
}

#[test]
fn percentiles_do_not_exceed_the_maximum() {
    let text = recorded::json("group").replace("\"max\"", "\"max\" : 1, \"other\"");
    let real = parse(&text).expect("fio wrote it");
    let (_, figures) = &real.jobs[0].directions[0];
    assert_eq!((figures.p50_ns, figures.p99_9_ns), (Some(1.0), Some(1.0)));
}

#[test]
fn each_of_two_jobs_of_one_name_is_paired_once() {
    let (_, reports) = recorded::replay("trim");
    let one = parse(&recorded::json("trim")).expect("fio wrote it");
    let mut two = one.clone();
    two.jobs.push(one.jobs[0].clone());
    let both = [reports[0].clone(), reports[0].clone()];
    let comparison = Comparison::new(&two, &both);
    assert_eq!(comparison.notes, [""; 0]);
    assert_eq!(comparison.figures.iter().filter(|f| f.measure == Measure::Iops).count(), 2);
    assert_eq!(Comparison::new(&one, &both).notes, ["job trim: not in the real run"]);
}

/// Returns a real run of clones with these rates, whose options have `numjobs=2`.
fn clones(iops: &[u64]) -> RealRun {
    let job = |iops: &u64| {
        format!(
            r#"{{"jobname": "w", "groupid": 0, "error": 0, "job options": {{"numjobs": "2"}}, "write": {{"io_bytes": 1,
                "total_ios": {iops}, "bw_bytes": 4096, "iops": {iops}, "clat_ns": {{"mean": {iops}}}}}}}"#
        )
    };
    let jobs: Vec<String> = iops.iter().map(job).collect();
    parse(&format!(r#"{{"fio version": "fio-3.33", "jobs": [{}]}}"#, jobs.join(","))).expect("fio's shape")
}

/// Returns the simulated run of two clones of 200 requests a second.
fn simulated_clones(group_reporting: bool) -> Vec<Report> {
    let job = Job { group_reporting, ..fake::job("w", Mix::Write, true, 4_096) };
    fake::run(&[job.clone(), job], |to| {
        for job in 0..2 {
            to.started(job, ms(0));
            (0..200).for_each(|i| one(to, job, Direction::Write, ms(5 * i), ms(5 * i + 1), 4_096));
            to.finished(job, ms(1_000));
        }
    })
}

#[test]
fn clones_are_combined_if_the_other_run_reports_them_as_one() {
    let (separate, group) = (clones(&[100, 300]), clones(&[400]));
    for (real, group_reporting) in [(&separate, true), (&group, false), (&group, true)] {
        let comparison = Comparison::new(real, &simulated_clones(group_reporting));
        let iops = comparison.figures.iter().filter(|figure| figure.measure == Measure::Iops);
        let found: Vec<(f64, f64)> = iops.map(|figure| (figure.real, figure.simulated)).collect();
        assert_eq!((found, comparison.notes), (vec![(400.0, 400.0)], vec![]));
    }
    // The mean latency is that of all requests: 100 of 100 ns, and 300 of 300 ns.
    let comparison = Comparison::new(&separate, &simulated_clones(true));
    assert!(comparison.figures.iter().any(|f| f.measure == Measure::ClatMean && f.real == 250.0));
}

#[test]
fn latencies_that_fio_did_not_measure_are_left_out() {
    let comparison = Comparison::new(&clones(&[0]), &simulated_clones(true));
    let measures: Vec<Measure> = comparison.figures.iter().map(|figure| figure.measure).collect();
    assert_eq!(measures, [Measure::Bandwidth, Measure::Iops]);
}

#[test]
fn two_single_jobs_are_paired_regardless_of_their_names() {
    let (_, reports) = recorded::replay("trim");
    let mut real = parse(&recorded::json("trim")).expect("fio wrote it");
    real.jobs[0].name = "mytest".to_owned();
    let comparison = Comparison::new(&real, &reports);
    assert!(comparison.figures.len() >= 3);
    assert_eq!(comparison.notes, ["job trim is compared with mytest, the only job of the real run"]);
    real.jobs.push(real.jobs[0].clone());
    assert_eq!(Comparison::new(&real, &reports).figures, []);
}

#[test]
fn text_before_and_after_the_json_is_skipped() {
    let text = format!("fio: note\n\n{}\ntrim: (groupid=0)\n", recorded::json("trim"));
    assert_eq!(parse(&text).expect("a whole object"), parse(&recorded::json("trim")).expect("fio wrote it"));
}

#[test]
fn our_own_output_is_recognised() {
    let (_, reports) = recorded::replay("trim");
    let run = Run { version: "flashlab-0", reports: &reports, global_options: &[], accepted: &[] };
    let own = parse(&json::text(&run, json::Bins::With)).expect("of fio's shape");
    assert!(own.simulated);
    assert_eq!(Comparison::new(&own, &reports).notes.len(), 1);
}

#[test]
fn errors_of_syntax_name_the_line_and_those_of_shape_the_path() {
    assert_eq!(parse(""), Err(AgainstError::NoObject));
    assert_eq!(parse("fio: no such file\n"), Err(AgainstError::NoObject));
    let large = vec![b' '; BYTES_MAX + 1];
    assert_eq!(RealRun::parse(&large), Err(AgainstError::TooLarge { bytes: BYTES_MAX + 1 }));
    let broken = parse("note\n{\n  \"fio version\" : oops\n}").expect_err("not JSON");
    assert!(matches!(broken, AgainstError::Syntax { line: 3, .. }), "{broken:?}");
    for (text, path) in [
        ("{}", "fio version"),
        (r#"{"fio version": 3, "jobs": []}"#, "fio version"),
        (r#"{"fio version": "fio-3.33"}"#, "jobs"),
        (r#"{"fio version": "fio-3.33", "jobs": {}}"#, "jobs"),
        (r#"{"fio version": "fio-3.33", "jobs": [7]}"#, "jobs[0].jobname"),
        (
            r#"{"fio version": "fio-2.1", "jobs": [{"jobname": "a", "error": 0, "read": {"io_bytes": 1, "bw": 1,
                "clat": {"mean": 1}}}]}"#,
            "jobs[0].read.clat_ns",
        ),
        (
            r#"{"fio version": "fio-3", "jobs": [{"jobname": "a", "error": 0, "read": {"io_bytes": 1,
                "bw_bytes": "x", "clat_ns": {}}}]}"#,
            "jobs[0].read.bw_bytes",
        ),
    ] {
        match parse(text) {
            Err(AgainstError::Unexpected { path: found, .. }) => assert_eq!(found, path),
            other => panic!("{text}: {other:?}"),
        }
    }
}

#[test]
fn deep_nesting_is_an_error() {
    let text = format!("{{\"jobs\": {}", "[".repeat(100_000));
    assert!(matches!(parse(&text), Err(AgainstError::Syntax { .. })));
}

proptest! {
    #[test]
    fn truncated_and_damaged_files_never_panic(cut in 0usize..6_000, at in 0usize..6_000, byte: u8) {
        let mut bytes = recorded::json("trim").into_bytes();
        let place = at % bytes.len();
        bytes[place] = byte;
        bytes.truncate(cut.max(1));
        let _ = RealRun::parse(&bytes);
    }

    #[test]
    fn any_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = RealRun::parse(&bytes);
    }
}
