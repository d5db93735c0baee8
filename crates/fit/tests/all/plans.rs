//! Plans of measurements.

use flashlab_fio::job::{Direction, Extent, Job};
use flashlab_fio::loader::NoFiles;
use flashlab_fit::import;
use flashlab_fit::observation::State;
use flashlab_fit::plan::{self, Area, CAPACITY_MIN, Plan, PlanError, PlannedStep, Scale};
use proptest::prelude::*;

const MIB: u64 = 1 << 20;

fn card(capacity: u64) -> Area {
    Area { capacity, block: 512, is_writable: true, discards: true }
}

fn jobs(step: &PlannedStep) -> Vec<Job> {
    flashlab_fio::cmdline::Invocation::parse(&step.job, &NoFiles).expect("a valid job").jobs
}

/// Returns the range of addresses of a job.
fn range(job: &Job, capacity: u64) -> (u64, u64) {
    let bytes = |extent: Extent| match extent {
        Extent::Bytes(bytes) => bytes,
        Extent::Percent(_) => panic!("plans use bytes"),
    };
    let start = bytes(job.offset) + u64::from(job.clone) * bytes(job.offset_increment);
    (start, start + job.size.map_or(capacity, bytes))
}

fn is_write(job: &Job) -> bool {
    matches!(job.pattern.mix, flashlab_fio::job::Mix::Write)
}

#[test]
fn the_plans_of_a_card() {
    let describe = |scale, area: &Area| {
        let plan = Plan::new(scale, area).expect("large enough");
        let lines: Vec<String> =
            plan.steps.iter().map(|step| format!("{:?}: {}", step.before, step.job.join(" "))).collect();
        format!(
            "{}: writes {} MiB, reads {} MiB, at most {:?}, life {:.6} %\n{}\n",
            plan.name,
            plan.written_bytes() / MIB,
            plan.read_bytes() / MIB,
            plan.time_max(),
            100.0 * plan.life_share(area.capacity),
            lines.join("\n")
        )
    };
    let area = card(8_000_000_000);
    let read_only = Area { is_writable: false, ..area };
    insta::assert_snapshot!(
        [describe(Scale::Quick, &area), describe(Scale::Standard, &area), describe(Scale::Quick, &read_only)]
            .join("\n")
    );
}

/// Compares the job file with a snapshot. No fio reads the file here.
#[test]
fn a_printed_plan_is_a_job_file_that_fio_reads() {
    let plan = Plan::new(Scale::Quick, &Area { is_writable: false, ..card(8_000_000_000) }).expect("a plan");
    insta::assert_snapshot!(plan.fio_file("plan.fio", "/dev/mmcblk0"));
}

#[test]
fn small_targets_and_large_blocks_are_refused() {
    let small = Plan::new(Scale::Quick, &card(CAPACITY_MIN - 1));
    assert_eq!(small, Err(PlanError::TooSmall { capacity: CAPACITY_MIN - 1 }));
    let large = Plan::new(Scale::Quick, &Area { block: 8192, ..card(1 << 30) });
    assert_eq!(large, Err(PlanError::Block { block: 8192 }));
}

#[test]
fn every_area_of_the_smallest_target_holds_a_request() {
    for scale in [Scale::Quick, Scale::Standard] {
        for is_writable in [false, true] {
            let plan = Plan::new(scale, &Area { is_writable, ..card(CAPACITY_MIN) }).expect("large enough");
            for step in &plan.steps {
                // The parser refuses, as fio does, a job whose area is smaller than its block.
                assert!(!jobs(step).is_empty(), "{}", step.name);
            }
        }
    }
}

#[test]
fn descriptions_survive_a_round_trip() {
    let state = plan::Description {
        plan: "standard".into(),
        before: State::WrittenInSequence,
        rest: flashlab_sim::Duration::from_secs(5),
    };
    assert_eq!(plan::Description::parse(&state.to_string()), Some(state));
    assert_eq!(plan::Description::parse("a job of mine"), None);
}

/// JSON in fio's format with the jobs of a printed plan maps back to the steps of the plan.
#[test]
fn results_of_fio_map_back_to_steps() {
    let document = |step: &PlannedStep, state: &plan::Description| {
        let options: Vec<String> = step
            .job
            .iter()
            .filter_map(|option| option.strip_prefix("--"))
            .filter(|option| !option.starts_with("name=") && *option != "direct=1")
            .map(|option| {
                let (key, value) = option.split_once('=').unwrap_or((option, ""));
                format!("\"{key}\": \"{value}\"")
            })
            .collect();
        format!(
            "{{\"fio version\": \"fio-3.36\", \"global options\": {{\"filename\": \"${{TARGET}}\", \"direct\": \"1\"}},
            \"jobs\": [{{\"jobname\": \"{}\", \"groupid\": 0, \"error\": 0, \"job options\": {{\"description\": \"{}\", {}}},
            \"{}\": {{\"io_bytes\": 4096, \"bw\": 4, \"iops\": 1, \"clat_ns\": {{\"min\": 1, \"max\": 1, \"mean\": 1}}}}}}]}}\n",
            step.name,
            state,
            options.join(", "),
            if step.reads > 0 { "read" } else { "write" }
        )
    };
    let plan = Plan::new(Scale::Standard, &card(8_000_000_000)).expect("a plan");
    let text: String = plan
        .steps
        .iter()
        .map(|step| {
            let state = plan::Description { plan: plan.name.clone(), before: step.before, rest: step.rest };
            document(step, &state)
        })
        .collect();
    let measurements = import::parse(&text, "card").expect("fio's output");
    assert_eq!(measurements.plan.as_deref(), Some("standard"));
    assert_eq!(measurements.steps.len(), plan.steps.len());
    for (step, planned) in measurements.steps.iter().zip(&plan.steps) {
        assert_eq!((&step.name, step.before, step.rest), (&planned.name, planned.before, planned.rest));
        assert!(step.notes.is_empty() && step.assumptions.is_empty() && step.marks.is_empty(), "{step:?}");
        let strip = |jobs: Vec<Job>| jobs.into_iter().map(|job| Job { options: Vec::new(), ..job });
        let (ours, theirs) = (strip(jobs(planned)), strip(step.jobs().expect("valid")));
        assert!(ours.eq(theirs), "{}", step.name);
    }
}

proptest! {
    #[test]
    fn plans_stay_within_the_device_and_control_the_state(
        capacity in CAPACITY_MIN..1 << 41,
        quick in any::<bool>(),
        is_writable in any::<bool>(),
        discards in any::<bool>(),
    ) {
        let scale = if quick { Scale::Quick } else { Scale::Standard };
        let area = Area { is_writable, discards, ..card(capacity) };
        let plan = Plan::new(scale, &area).expect("large enough");
        let mut written: Vec<(u64, u64)> = Vec::new();
        for step in &plan.steps {
            let mut bytes = 0;
            for job in jobs(step) {
                let (start, end) = range(&job, capacity);
                prop_assert!(end <= capacity && end <= plan.extent, "{}: {start}..{end}", step.name);
                prop_assert!(is_writable || !is_write(&job), "{} writes", step.name);
                let overlaps = written.iter().any(|(a, b)| *a < end && start < *b);
                let covered = |at: u64| written.iter().any(|(a, b)| *a <= at && at < *b);
                if step.before == State::Discarded {
                    prop_assert!(!overlaps, "{} starts from written addresses", step.name);
                }
                if step.before == State::WrittenInSequence {
                    prop_assert!(covered(start) && covered(end - 1), "{} needs written data", step.name);
                }
                if is_write(&job) {
                    let limit = job.number_ios.map_or(u64::MAX, |n| {
                        let flashlab_fio::job::BlockSize::Fixed(block) = job.block_size[Direction::Write as usize]
                            else { panic!("plans use fixed sizes") };
                        n * block
                    });
                    bytes += limit.min(end - start);
                    written.push((start, end));
                }
            }
            prop_assert_eq!(bytes, step.writes, "{}", step.name);
        }
        prop_assert_eq!(plan.written_bytes() == 0, !is_writable);
        prop_assert!(plan.life_share(capacity) < 0.002);
    }
}
