//! Pairing of lines, differences of figures and mechanisms, and reading of files.

use super::*;

fn line(name: [&str; 3], iops: f64, mechanisms: &[(&str, f64)]) -> Line {
    let figure =
        |quantity: &str, value| Figure { quantity: quantity.into(), unit: "IOPS".into(), value, sd: None };
    Line {
        name: name.map(str::to_owned),
        figures: vec![figure("IOPS", iops)],
        mechanisms: mechanisms.iter().map(|(name, ns)| ((*name).to_owned(), *ns)).collect(),
    }
}

fn jobs(lines: Vec<Line>) -> ResultFile {
    ResultFile {
        kind: Kind::Jobs,
        facts: vec![],
        inputs: vec![],
        devices: vec![],
        options: vec![],
        states_flags: false,
        bounds: vec![],
        errors: vec![],
        lines,
    }
}

fn percent(difference: &Difference) -> Vec<(String, f64)> {
    let of = |line: &LineDifference| (line.name.clone(), line.figures[0].percent.expect("A is not zero"));
    difference.lines.iter().map(of).collect()
}

#[test]
fn lines_are_paired_by_name_whatever_their_order() {
    let a = jobs(vec![line(["d", "x", "read"], 100.0, &[]), line(["d", "y", "read"], 200.0, &[])]);
    let b = jobs(vec![line(["d", "y", "read"], 300.0, &[]), line(["d", "x", "read"], 90.0, &[])]);
    let difference = Difference::between(&a, &b).expect("common lines");
    assert_eq!(percent(&difference), [("x".to_owned(), -10.0), ("y".to_owned(), 50.0)]);
}

#[test]
fn single_devices_and_single_jobs_are_paired_whatever_their_names() {
    let a = jobs(vec![
        line(["real card", "r", "read"], 100.0, &[]),
        line(["real card", "r", "write"], 10.0, &[]),
    ]);
    let b =
        jobs(vec![line(["sd/x", "mine", "read"], 110.0, &[]), line(["sd/x", "mine", "write"], 10.0, &[])]);
    let difference = Difference::between(&a, &b).expect("common lines");
    assert_eq!(percent(&difference), [("read".to_owned(), 10.0), ("write".to_owned(), 0.0)]);
}

#[test]
fn a_read_is_never_compared_with_a_write() {
    let a = jobs(vec![line(["d", "r", "read"], 100.0, &[])]);
    let b = jobs(vec![line(["d", "r", "write"], 100.0, &[])]);
    let error = Difference::between(&a, &b).expect_err("nothing in common");
    assert_eq!(error, DifferenceError::NothingInCommon { a: "d, r, read".into(), b: "d, r, write".into() });
}

#[test]
fn lines_that_only_one_result_has_are_named_and_count_as_a_change() {
    let a = jobs(vec![line(["d", "x", "read"], 1.0, &[]), line(["d", "y", "read"], 1.0, &[])]);
    let b = jobs(vec![line(["d", "x", "read"], 1.0, &[]), line(["d", "z", "read"], 1.0, &[])]);
    let difference = Difference::between(&a, &b).expect("common lines");
    assert_eq!(
        (difference.only_a.as_slice(), difference.only_b.as_slice()),
        (&["y".to_owned()][..], &["z".to_owned()][..])
    );
    assert!(difference.is_changed(0.0) && !difference.lines[0].is_changed(0.0));
}

#[test]
fn the_mechanism_with_the_largest_change_is_first() {
    let a = jobs(vec![line(["d", "x", "write"], 1.0, &[("bus", 100.0), ("program", 500.0), ("host", 40.0)])]);
    let b = jobs(vec![line(["d", "x", "write"], 1.0, &[("bus", 110.0), ("program", 300.0), ("map", 50.0)])]);
    let difference = Difference::between(&a, &b).expect("common lines");
    let changes = difference.lines[0].mechanisms.iter().map(|m| (m.mechanism.as_str(), m.change_ns()));
    let expected = [("program", -200.0), ("map", 50.0), ("host", -40.0), ("bus", 10.0)];
    assert_eq!(changes.collect::<Vec<_>>(), expected);
}

#[test]
fn a_file_without_mechanisms_gives_none_instead_of_zeroes() {
    let a = jobs(vec![line(["d", "x", "write"], 1.0, &[("bus", 100.0)])]);
    let b = jobs(vec![line(["d", "x", "write"], 1.0, &[])]);
    assert!(Difference::between(&a, &b).expect("common lines").lines[0].mechanisms.is_empty());
}

#[test]
fn the_tolerance_is_in_percent_of_the_first_value() {
    let figure = |a, b| {
        FigureDifference::new(&line(["", "", ""], a, &[]).figures[0], &line(["", "", ""], b, &[]).figures[0])
    };
    assert!(!figure(200.0, 204.0).is_changed(2.0));
    assert!(figure(200.0, 204.1).is_changed(2.0));
    assert!(figure(200.0, 195.9).is_changed(2.0));
    assert!(!figure(7.0, 7.0).is_changed(0.0));
    // Every change from zero exceeds any percentage.
    assert!(figure(0.0, 1e-9).is_changed(1000.0));
}

#[test]
fn deviations_combine_as_variances() {
    let with = |value, sd| Figure { quantity: "IOPS".into(), unit: "IOPS".into(), value, sd: Some(sd) };
    let difference = FigureDifference::new(&with(100.0, 3.0), &with(110.0, 4.0));
    assert_eq!(difference.deviations, Some(2.0));
}

#[test]
fn a_changed_value_is_found_among_others_of_its_name() {
    let mut a = jobs(vec![line(["d", "x", "read"], 1.0, &[])]);
    let mut b = a.clone();
    let input = |value: &str| ("sd/x:flash.t_prog".to_owned(), value.to_owned());
    (a.inputs, b.inputs) = (vec![input("346us"), input("1ms")], vec![input("346us"), input("2ms")]);
    let changed = |a: &ResultFile, b: &ResultFile| {
        let inputs = Difference::between(a, b).expect("common lines").inputs;
        inputs.into_iter().map(|input| (input.a, input.b)).collect::<Vec<_>>()
    };
    assert_eq!(changed(&a, &b), [(Some("1ms".to_owned()), Some("2ms".to_owned()))]);
    b.inputs.remove(0);
    a.inputs.swap(0, 1);
    b.inputs[0].1 = "346us".to_owned();
    assert_eq!(changed(&a, &b), [(Some("1ms".to_owned()), None)]);
}

fn names(difference: &Difference) -> Vec<&str> {
    difference.lines.iter().map(|line| line.name.as_str()).collect()
}

#[test]
fn a_device_is_paired_with_the_same_device_under_other_keys() {
    let file = |devices: &[&str]| {
        jobs(devices.iter().map(|device| line([device, "x", "read"], 1.0, &[])).collect::<Vec<_>>())
    };
    let a = file(&["sd/a", "sd/b:host=h", "sd/c"]);
    let difference = Difference::between(&a, &file(&["sd/b", "sd/c:k=1", "sd/c:k=2", "sd/a"]));
    let difference = difference.expect("common lines");
    assert_eq!(names(&difference), ["sd/a", "sd/b:host=h"]);
    // Two devices of B could be the counterpart of sd/c, so sd/c has none.
    assert_eq!(
        (difference.only_a, difference.only_b),
        (vec!["sd/c".into()], vec!["sd/c:k=1".into(), "sd/c:k=2".into()])
    );
    assert_eq!(difference.facts, [changed_text("device", "sd/b:host=h", "sd/b")]);
    // One device against several: the device of the same name is the counterpart.
    let one = Difference::between(&file(&["sd/c"]), &a).expect("a common line");
    assert_eq!((names(&one), one.only_b.len()), (vec!["sd/c"], 2));
    Difference::between(&file(&["sd/z"]), &a).expect_err("no counterpart");
}

fn changed_text(name: &str, a: &str, b: &str) -> Changed<String> {
    Changed { name: name.into(), a: Some(a.into()), b: Some(b.into()) }
}

#[test]
fn devices_are_compared_first_and_their_numbers_only_for_the_same_product() {
    let with = |device: &str, host: &str, numbers: &[(&str, &str)]| {
        let mut file = jobs(vec![line([device, "x", "read"], 1.0, &[])]);
        let numbers = numbers.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        file.devices =
            vec![DeviceInputs { device: device.into(), host: Some(host.into()), state: None, numbers }];
        file.facts = vec![("seed", "1".into())];
        file
    };
    let of_a = [("flash.t_prog", "1ms"), ("host.t_block", "2us"), ("port.t_command", "2us")];
    let of_b = [("flash.t_prog", "2ms"), ("host.t_block", "2us"), ("port.t_command", "2us")];
    let a = with("sd/a", "pi", &of_a);
    let mut b = with("sd/a:flash.t_prog=2ms", "pi", &of_b);
    b.facts[0].1 = "2".into();
    let difference = Difference::between(&a, &b).expect("a common line");
    let facts = [changed_text("device", "sd/a", "sd/a:flash.t_prog=2ms"), changed_text("seed", "1", "2")];
    assert_eq!(difference.facts, facts);
    assert_eq!(difference.inputs, [changed_text("flash.t_prog", "1ms", "2ms")]);
    // The numbers of two different products are not compared, but those of their common host are.
    let other =
        with("sd/b", "pi", &[("flash.t_prog", "3ms"), ("host.t_block", "5us"), ("port.t_command", "1us")]);
    let inputs = Difference::between(&a, &other).expect("a common line").inputs;
    let expected = [changed_text("host.t_block", "2us", "5us"), changed_text("port.t_command", "2us", "1us")];
    assert_eq!(inputs, expected);
}

#[test]
fn an_option_that_one_file_leaves_out_has_its_default() {
    let with = |options: &[(&str, &str)]| {
        let mut file = jobs(vec![line(["d", "x", "read"], 1.0, &[])]);
        file.options = options.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        file
    };
    let inputs = |a, b| Difference::between(&a, &b).expect("a common line").inputs;
    assert_eq!(inputs(with(&[("bs", "4k"), ("iodepth", "1")]), with(&[("bs", "4k")])), []);
    let deeper = inputs(with(&[("bs", "4k")]), with(&[("bs", "4k"), ("x: iodepth", "8")]));
    assert_eq!(deeper, [changed_text("x: iodepth", "1", "8")]);
    // A log states no options, and fio's JSON states no options without a value.
    assert_eq!(inputs(with(&[("bs", "4k")]), with(&[])), []);
    let mut ours = with(&[("bs", "4k"), ("time_based", "")]);
    ours.states_flags = true;
    assert_eq!(inputs(ours.clone(), with(&[("bs", "4k")])), []);
    let mut theirs = with(&[("bs", "4k")]);
    theirs.states_flags = true;
    assert_eq!(inputs(theirs, ours), [changed_text("time_based", "0", "1")]);
}

#[test]
fn inputs_and_facts_are_listed_only_if_they_differ() {
    let mut a = jobs(vec![line(["d", "x", "read"], 1.0, &[])]);
    let mut b = a.clone();
    a.inputs = vec![("bs".into(), "4k".into()), ("rw".into(), "read".into()), ("size".into(), "1g".into())];
    b.inputs = vec![("rw".into(), "read".into()), ("bs".into(), "8k".into()), ("iodepth".into(), "2".into())];
    let changed = |name: &str, a: Option<&str>, b: Option<&str>| Changed {
        name: name.into(),
        a: a.map(str::to_owned),
        b: b.map(str::to_owned),
    };
    let expected = [
        changed("bs", Some("4k"), Some("8k")),
        changed("size", Some("1g"), None),
        changed("iodepth", None, Some("2")),
    ];
    assert_eq!(Difference::between(&a, &b).expect("common lines").inputs, expected);
}

#[test]
fn an_experiment_is_not_compared_with_jobs_or_with_another_experiment() {
    let experiment = |name: &str, table: &str| ResultFile {
        kind: Kind::Experiment,
        facts: vec![("experiment", name.to_owned())],
        ..jobs(vec![line([table, "", "card"], 1.0, &[])])
    };
    let (a, b) = (experiment("a", "raw read"), experiment("b", "raw write"));
    assert_eq!(Difference::between(&a, &jobs(vec![])), Err(DifferenceError::Kinds));
    assert_eq!(Difference::between(&a, &b), Err(DifferenceError::Experiments("a".into(), "b".into())));
}

#[test]
fn results_of_an_experiment_are_read_as_they_are_written() {
    use crate::results::{Cell, Figure as Simulated, Mechanisms, Results, Role, Tail};
    let results = Results {
        experiment: "one-cell".into(),
        seed: 7,
        cells: vec![Cell {
            table: "raw write 4k".into(),
            row: "1bit".into(),
            column: "card".into(),
            unit: "IOPS".into(),
            published: None,
            reference: None,
            simulated: Simulated { mean: 250.5, sd: 0.0 },
            role: Role::Predicted,
            error_percent: None,
            requests: 10,
            latency_ns_mean: 4_000_000.0,
            mechanisms: Mechanisms(vec![("program", 3_500_000.0), ("bus", 500_000.0)]),
            mechanism_ns_totals: Mechanisms(vec![]),
            tail: Some(Tail {
                mean_ns: 4e6,
                p99_ns: 5,
                p99_9_ns: 6,
                max_ns: 7,
                logger_buffer_bytes: Some(8),
            }),
        }],
        ..Results::default()
    };
    let text = serde_json::to_string(&results).expect("plain data");
    let read = ResultFile::parse(text.as_bytes()).expect("a result");
    assert_eq!(read.kind, Kind::Experiment);
    assert_eq!(read.facts[..2], [("experiment", "one-cell".to_owned()), ("seed", "7".to_owned())]);
    let [only] = &read.lines[..] else { panic!("one line, not {:?}", read.lines) };
    assert_eq!(only.name, ["raw write 4k", "1bit", "card"]);
    assert_eq!(only.mechanisms, [("program".to_owned(), 3_500_000.0), ("bus".to_owned(), 500_000.0)]);
    let figures: Vec<(&str, f64)> = only.figures.iter().map(|f| (f.quantity.as_str(), f.value)).collect();
    let expected = [("IOPS", 250.5), ("mean latency", 4e6), ("p99", 5.0), ("p99.9", 6.0), ("maximum", 7.0)];
    assert_eq!(figures, expected);
}

/// Returns the JSON of fio with one job, whose entry contains `members`.
fn fio(members: &str) -> ResultFile {
    let text = format!(
        r#"fio: a note
{{"fio version": "fio-3.33", "jobs": [{{"jobname": "etcd", "groupid": 0, "job options": {{"rw": "write"}}, {members}}}]}}"#
    );
    ResultFile::parse(text.as_bytes()).expect("fio's JSON")
}

#[test]
fn the_flushes_of_a_job_are_a_line() {
    let with = |mean: u64| {
        fio(&format!(
            r#""error": 0, "write": {{"io_bytes": 4096, "bw_bytes": 9, "iops": 3.0, "total_ios": 1,
                "clat_ns": {{"mean": 10, "max": 10}}}},
                "sync": {{"total_ios": 2, "lat_ns": {{"mean": {mean}, "max": 400, "percentile": {{"99.000000": 390}}}}}},
                "flashlab": {{"mechanisms_ns": {{"sync": {{"program": 200}}}}}}"#
        ))
    };
    let read = with(100);
    let [_, sync] = &read.lines[..] else { panic!("two lines, not {:?}", read.lines) };
    assert_eq!(sync.name, ["", "etcd", "sync"]);
    assert_eq!(sync.mechanisms, [("program".to_owned(), 100.0)]);
    let figures: Vec<(&str, f64)> = sync.figures.iter().map(|f| (f.quantity.as_str(), f.value)).collect();
    assert_eq!(figures, [("mean latency", 100.0), ("p99", 390.0), ("maximum", 400.0)]);
    let difference = Difference::between(&read, &with(300)).expect("common lines");
    assert_eq!(percent(&difference)[1], ("sync".to_owned(), 200.0));
}

/// Returns the JSON of two clones of a job, with histograms unless `bins` is false.
fn clones(bins: bool) -> ResultFile {
    let clone = |requests: u64, mean: u64, bucket: u64, program: u64| {
        let bins = if bins { format!(r#", "bins": {{"{bucket}": {requests}}}"#) } else { String::new() };
        format!(
            r#"{{"jobname": "etcd", "groupid": 0, "job options": {{"rw": "write", "numjobs": "2"}},
                "write": {{"io_bytes": 4096, "bw_bytes": 10, "iops": 5.0, "total_ios": {requests},
                    "clat_ns": {{"mean": {mean}, "max": 1000, "percentile": {{"50.000000": {bucket}}}{bins}}}}},
                "flashlab": {{"mechanisms_ns": {{"write": {{"program": {program}}}}}}}}}"#
        )
    };
    let jobs = [clone(300, 100, 90, 30_000), clone(100, 500, 480, 50_000)].join(", ");
    let text = format!(r#"{{"fio version": "fio-3.33", "jobs": [{jobs}]}}"#);
    ResultFile::parse(text.as_bytes()).expect("fio's JSON")
}

#[test]
fn clones_of_a_job_are_one_line_with_mechanisms_and_percentiles() {
    let read = clones(true);
    let [line] = &read.lines[..] else { panic!("one line, not {:?}", read.lines) };
    assert_eq!(line.mechanisms, [("program".to_owned(), 200.0)]);
    let figures: Vec<(&str, f64)> = line.figures.iter().map(|f| (f.quantity.as_str(), f.value)).collect();
    let rates = [("IOPS", 10.0), ("bandwidth", 20.0), ("mean latency", 200.0)];
    assert_eq!(figures[..3], rates);
    assert_eq!(figures[3..], [("p50", 90.0), ("p99", 480.0), ("p99.9", 480.0), ("maximum", 1000.0)]);
    // Percentiles do not combine without histograms; mechanisms do.
    let read = clones(false);
    assert_eq!(read.lines[0].mechanisms, [("program".to_owned(), 200.0)]);
    assert!(read.lines[0].figures.iter().all(|figure| !figure.quantity.starts_with('p')));
}

#[test]
fn clones_in_a_comparison_are_combined_as_in_the_json_of_a_bench() {
    let clone = |requests: u64, mean: u64, bucket: u64, program: u64| {
        format!(
            r#"{{"job": "etcd", "direction": "write", "requests": {requests}, "iops": 5.0, "bytes_per_second": 10,
                "latency": {{"mean_ns": {mean}, "max_ns": 1000,
                    "percentiles_ns": [[50, {bucket}], [99, {bucket}], [99.9, {bucket}]],
                    "histogram_ns": [[{bucket}, {requests}]]}},
                "mechanisms_ns": {{"program": {program}}}}}"#
        )
    };
    let jobs = [clone(300, 100, 90, 100), clone(100, 500, 480, 500)].join(", ");
    let text = format!(r#"{{"devices": [{{"device": "", "jobs": [{jobs}]}}]}}"#);
    let read = ResultFile::parse(text.as_bytes()).expect("a comparison");
    assert_eq!(read.lines, clones(true).lines);
}

#[test]
fn directions_that_are_counted_together_are_a_line() {
    let read = fio(r#""error": 0, "mixed": {"io_bytes": 1, "bw_bytes": 9, "iops": 3.0, "total_ios": 1,
            "clat_ns": {"mean": 10, "max": 10}}"#);
    let [mixed] = &read.lines[..] else { panic!("one line, not {:?}", read.lines) };
    assert_eq!(mixed.name[2], "mixed");
    assert_eq!(mixed.figures.len(), 4);
}

#[test]
fn a_job_that_failed_in_one_file_is_a_difference() {
    let with = |error: i64| {
        fio(&format!(
            r#""error": {error}, "write": {{"io_bytes": 1, "bw_bytes": 9, "iops": 3.0, "clat_ns": {{"mean": 1, "max": 1}}}}"#
        ))
    };
    let difference = Difference::between(&with(0), &with(5)).expect("common lines");
    assert_eq!(difference.errors, [Changed { name: "etcd".into(), a: None, b: Some(5) }]);
    assert!(difference.is_changed(0.0) && !difference.lines[0].is_changed(0.0));
}

#[test]
fn a_damaged_file_is_refused_with_its_place() {
    let message = |bytes: &[u8]| ResultFile::parse(bytes).expect_err("no result").to_string();
    assert!(message(b"\xff\xfe").starts_with("byte 1 is not text"), "{}", message(b"\xff\xfe"));
    let cut = message(b"{\"experiment\": \"a\",\n \"cells\": [{\"table\": 3}]}");
    assert!(cut.starts_with("line 2, column 22: invalid type: integer `3`, expected a string"), "{cut}");
    let foreign = message(b"{\"cats\": 3}");
    assert!(foreign.contains("`flashlab run`, `compare`, `bench`"), "{foreign}");
    ResultFile::parse(b"{\"devices\": [{\"device\": 1}]}").expect_err("no name");
    // Every shorter text is refused, and none causes a panic.
    let whole = br#"{"devices":[{"device":"d","jobs":[]}]}"#;
    for length in 0..whole.len() {
        ResultFile::parse(&whole[..length]).expect_err("a part of a file");
    }
}
