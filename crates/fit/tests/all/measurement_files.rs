//! Reading and writing of measurement files.

use flashlab_fio::job::Direction;
use flashlab_fit::observation::{
    FileError, Latencies, Mark, Measurements, Observation, Problem, Quantity, State, Step, Target,
};
use flashlab_sim::{Duration, Histogram};
use proptest::prelude::*;

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

/// Returns a measurement of one preparing step and one step with observations.
fn example() -> Measurements {
    let mut histogram = Histogram::new();
    for ns in [1_200_000, 1_300_000, 250_000_000] {
        histogram.record(Duration::from_ns(ns));
    }
    let fill = Step {
        name: "fill".into(),
        job: words("--name=fill --rw=write --bs=1m --size=64m --direct=1"),
        before: State::New,
        ..Step::default()
    };
    let overwrite = Step {
        name: "overwrite".into(),
        job: words("--name=overwrite --rw=randwrite --bs=4k --size=64m --number_ios=3 --direct=1"),
        rest: Duration::from_secs(10),
        filesystem: Some("vfat".into()),
        assumptions: vec!["direct I/O".into()],
        observations: vec![
            Observation {
                sd: Some(0.25),
                runs: 10,
                ..Observation::new(Direction::Write, Quantity::Iops, 11.876)
            },
            Observation::new(Direction::Write, Quantity::LatencyPercentile(99.9), 250e6),
        ],
        latencies: vec![Latencies {
            series_ns: vec![1_200_000, 1_300_000],
            ..Latencies::of(Direction::Write, &histogram)
        }],
        marks: vec![Mark::Incomplete, Mark::Warned],
        notes: vec!["the device timed out once".into()],
        ..Step::default()
    };
    Measurements {
        target: Target {
            name: "/dev/sdb".into(),
            capacity_bytes: Some(7_948_206_080),
            block_bytes: Some(512),
            model: Some("SD Card Reader".into()),
            serial: None,
            filesystem_id: None,
        },
        host: Some("at91".into()),
        engine: "flashlab threads".into(),
        plan: Some("quick".into()),
        steps: vec![fill, overwrite],
    }
}

/// Replaces the first `old`, which the example's text must contain, and returns the error of the resulting
/// text.
fn error_after(old: &str, new: &str) -> FileError {
    let text = example().to_json();
    assert!(text.contains(old), "{old} is not in {text}");
    Measurements::parse(&text.replacen(old, new, 1)).expect_err("a fault")
}

#[test]
fn the_format_is_stable() {
    insta::assert_snapshot!(example().to_json());
}

#[test]
fn faults_have_places_and_ways_out() {
    let errors = [
        Measurements::parse(" \n").expect_err("empty"),
        Measurements::parse("{\n  \"target\"").expect_err("truncated"),
        Measurements::parse("{\"fio version\": \"fio-3.36\", \"jobs\": []}").expect_err("foreign"),
        Measurements::parse("{\"cells\": [], \"experiment\": \"gc\"}").expect_err("foreign"),
        Measurements::parse("[1, 2]").expect_err("foreign"),
        error_after("\"flashlab_measurements\": 1", "\"flashlab_measurements\": 2"),
        error_after("\"flashlab_measurements\": 1", "\"flashlab_measurements\": \"one\""),
        error_after("\"block_bytes\"", "\"blocks\""),
        error_after("\"direction\": \"write\"", "\"direction\": \"sideways\""),
        error_after("\"latency_ns_p99.9\"", "\"latency_ns_p101\""),
        error_after("\"name\": \"fill\"", "\"name\": \"overwrite\""),
        error_after("\"name\": \"fill\"", "\"name\": \"\""),
        error_after("--rw=randwrite", "--rw=sometimes"),
        error_after("\"value\": 11.876", "\"value\": -11.876"),
        error_after("\"value\": 11.876", "\"value\": 0"),
        error_after("\"value\": 11.876", "\"value\": NaN"),
        error_after("\"sd\": 0.25", "\"sd\": -1"),
        error_after("\"runs\": 10", "\"runs\": 0"),
        error_after("\"direction\": \"write\"", "\"direction\": \"read\""),
        error_after("\"latency_ns_p99.9\"", "\"iops\""),
        error_after("\"count\": 3", "\"count\": 4"),
    ];
    let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn the_same_number_twice_is_a_contradiction_that_names_the_step() {
    let mut twice = example();
    let again = twice.steps[1].observations[0].clone();
    twice.steps[1].observations.push(again);
    let error = Measurements::parse(&twice.to_json()).expect_err("a contradiction");
    let FileError::Step { number: 2, problem: Problem::Twice { of }, .. } = &error else {
        panic!("{error:?}")
    };
    assert_eq!(of, "write iops");
}

#[test]
fn a_percentile_of_the_summary_is_that_of_the_histogram() {
    let mut histogram = Histogram::new();
    for n in 1..=1000_u64 {
        histogram.record(Duration::from_ns(n * n * 100));
    }
    let latencies = Latencies::of(Direction::Read, &histogram);
    for percent in [1.0, 50.0, 99.0, 99.9, 99.99] {
        assert_eq!(
            latencies.percentile_ns(percent),
            Some(histogram.percentile(percent).as_ns()),
            "{percent}"
        );
    }
}

fn quantity() -> impl Strategy<Value = Quantity> {
    prop_oneof![
        Just(Quantity::Iops),
        Just(Quantity::BytesPerSecond),
        Just(Quantity::LatencyMean),
        Just(Quantity::LatencyMax),
        (1_u32..99_999).prop_map(|n| Quantity::LatencyPercentile(f64::from(n) / 1000.0)),
    ]
}

fn positive() -> impl Strategy<Value = f64> {
    (-6.0..15.0_f64).prop_map(|exponent| 10_f64.powf(exponent))
}

prop_compose! {
    fn observation()(
        quantity in quantity(),
        value in positive(),
        sd in proptest::option::of(positive()),
        runs in 1_u32..1000,
        named in any::<bool>(),
    ) -> Observation {
        let job = named.then(|| "a".to_owned());
        Observation { job, direction: Direction::Read, quantity, value, sd, runs }
    }
}

prop_compose! {
    fn step()(
        observations in proptest::collection::vec(observation(), 0..4),
        latencies in proptest::collection::vec(1_u64..1 << 40, 0..20),
        rest in any::<u64>(),
        before in prop_oneof![
            Just(State::AsLeft), Just(State::Unknown), Just(State::New),
            Just(State::Discarded), Just(State::WrittenInSequence), Just(State::WrittenAtRandom),
        ],
        note in "\\PC{0,20}",
        filesystem in proptest::option::of("[a-z0-9]{1,8}"),
    ) -> Step {
        let mut seen: Vec<(Option<String>, Quantity)> = Vec::new();
        let mut unique = observations;
        unique.retain(|o| {
            let key = (o.job.clone(), o.quantity);
            let is_new = !seen.contains(&key);
            seen.push(key);
            is_new
        });
        let mut histogram = Histogram::new();
        latencies.iter().for_each(|ns| histogram.record(Duration::from_ns(*ns)));
        let summary = Latencies { series_ns: latencies, ..Latencies::of(Direction::Read, &histogram) };
        Step {
            name: "set below".into(),
            job: words("--name=a --rw=randread --bs=4k --size=1m --direct=1"),
            before,
            rest: Duration::from_ns(rest),
            filesystem,
            observations: unique,
            latencies: vec![summary],
            notes: vec![note],
            ..Step::default()
        }
    }
}

proptest! {
    #[test]
    fn files_survive_a_round_trip(
        steps in proptest::collection::vec(step(), 0..5),
        name in "\\PC{0,20}",
        capacity_bytes in proptest::option::of(any::<u64>()),
        host in proptest::option::of("[a-z0-9-]{1,12}"),
    ) {
        let mut measurements = Measurements {
            target: Target { name, capacity_bytes, ..Target::default() },
            host,
            engine: "simulated".into(),
            plan: None,
            steps,
        };
        for (number, step) in measurements.steps.iter_mut().enumerate() {
            step.name = format!("step {number}");
        }
        let text = measurements.to_json();
        prop_assert_eq!(Measurements::parse(&text).map_err(|e| e.to_string()), Ok(measurements));
    }

    #[test]
    fn no_text_causes_a_panic(text in "\\PC{0,200}", at in 0_usize..1500, byte in any::<u8>()) {
        let _ = Measurements::parse(&text);
        let mut bytes = example().to_json().into_bytes();
        let at = at % bytes.len();
        bytes[at] = byte;
        if let Ok(text) = String::from_utf8(bytes) {
            let _ = Measurements::parse(&text);
        }
    }
}
