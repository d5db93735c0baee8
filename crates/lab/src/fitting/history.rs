//! The state in which earlier steps of a history leave the addresses of a step.
//!
//! A plan controls this state with steps of its own. The forward model prepares addresses only if no earlier
//! step has left them in the state that a step names. Writing data once more would change the device, unlike
//! the measurement.

use super::forward::ReadyStep;
use flashlab_fio::job::{Extent, Job, Mix};
use flashlab_fit::observation::State;
use std::ops::Range;

/// Returns true if the steps in `earlier`, in order, left all addresses of `step` in the state that it names.
pub(super) fn is_left(earlier: &[ReadyStep], step: &ReadyStep) -> bool {
    if earlier.iter().chain([step]).any(|step| step.filesystem.is_some()) {
        return false;
    }
    step.jobs.iter().all(|job| {
        let Some(range) = range_of(job) else { return false };
        let changes = earlier.iter().rev().flat_map(|step| changes(step).into_iter().rev());
        let mut changes =
            changes.filter(|change| change.range.start < range.end && range.start < change.range.end);
        let covers = |change: &Change| change.range.start <= range.start && range.end <= change.range.end;
        // A change of a part to the same state leaves the rest as it was.
        let ends = |change: &Change| change.state != Some(step.before) || covers(change);
        changes.find(ends).is_some_and(|change| change.state == Some(step.before))
    })
}

/// Returns false if the time of the step depends on an unknown state. Such a step writes at random, or to
/// several areas in turn, on the device as it was left, and no step in `earlier` has changed these addresses.
/// One sequential stream takes about the same time in every state.
pub(super) fn is_state_known(earlier: &[ReadyStep], step: &ReadyStep) -> bool {
    if step.before != State::AsLeft || earlier.iter().any(|step| step.before == State::New) {
        return true;
    }
    let is_one_stream = |job: &Job| step.jobs.len() == 1 && !job.pattern.random;
    let dependent = step.jobs.iter().filter(|job| job.pattern.mix != Mix::Read && !is_one_stream(job));
    dependent.map(range_of).all(|range| {
        let overlaps = |change: Change| {
            range.as_ref().is_some_and(|own| change.range.start < own.end && own.start < change.range.end)
        };
        earlier.iter().flat_map(changes).any(overlaps)
    })
}

/// A change of addresses.
struct Change {
    range: Range<u64>,
    /// State of the range afterwards; `None` if it is not known. Random writes to a part of the range count
    /// as writes to all of it.
    state: Option<State>,
}

/// Returns the changes of a step in order: its preparation, then its jobs.
fn changes(step: &ReadyStep) -> Vec<Change> {
    let everything = 0..u64::MAX;
    let range = |job| range_of(job).unwrap_or(everything.clone());
    let prepared = step.jobs.iter().filter_map(|job| match step.before {
        State::AsLeft | State::New => None,
        State::Unknown => Some(Change { range: range(job), state: None }),
        state => Some(Change { range: range(job), state: Some(state) }),
    });
    let ran = step.jobs.iter().filter(|job| job.pattern.mix != Mix::Read).map(|job| {
        let is_complete = job.runtime.is_none() && job.number_ios.is_none() && job.io_size.is_none();
        let state = match (job.pattern.mix, job.pattern.random) {
            (Mix::Write, true) => Some(State::WrittenAtRandom),
            (Mix::Write, false) if is_complete => Some(State::WrittenInSequence),
            (Mix::Trim, false) if is_complete => Some(State::Discarded),
            _ => None,
        };
        Change { range: range(job), state }
    });
    prepared.chain(ran).collect()
}

/// Returns the addresses of a job; `None` if it does not state them in bytes. A job without a size has no end.
fn range_of(job: &Job) -> Option<Range<u64>> {
    let (Extent::Bytes(offset), Extent::Bytes(increment)) = (job.offset, job.offset_increment) else {
        return None;
    };
    let start = offset.checked_add(increment.checked_mul(u64::from(job.clone))?)?;
    match job.size {
        None => Some(start..u64::MAX),
        Some(Extent::Bytes(size)) => Some(start..start.checked_add(size)?),
        Some(Extent::Percent(_)) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flashlab_catalogue::library::Library;
    use flashlab_fit::observation::Step;
    use flashlab_fit::plan::{Area, Plan, Scale};

    fn ready(job: &str, before: State) -> ReadyStep {
        let job = format!("--name=a {job}").split(' ').map(str::to_owned).collect();
        let step = Step { name: "a".into(), job, before, ..Step::default() };
        ReadyStep::of(&step, Vec::new(), &Library::built_in().expect("a library")).expect("a job").0
    }

    #[test]
    fn a_step_needs_preparation_unless_the_last_change_left_its_state() {
        let fill = ready("--rw=write --bs=1m --offset=8m --size=8m", State::AsLeft);
        let read = |offset: u64| {
            ready(&format!("--rw=randread --bs=4k --offset={offset}m --size=4m"), State::WrittenInSequence)
        };
        let overwrite =
            ready("--rw=randwrite --bs=4k --offset=8m --size=4m --number_ios=9", State::WrittenInSequence);
        let part = ready("--rw=write --bs=1m --offset=8m --size=8m --runtime=5", State::AsLeft);
        assert!(is_left(std::slice::from_ref(&fill), &read(8)));
        assert!(!is_left(std::slice::from_ref(&fill), &read(14)), "its end was not written");
        assert!(is_left(&[fill.clone(), read(8)], &overwrite), "reads change nothing");
        assert!(!is_left(&[fill.clone(), overwrite.clone()], &read(8)));
        assert!(is_left(&[fill.clone(), overwrite], &read(12)));
        assert!(!is_left(&[part], &read(8)), "a runtime may have ended it");
        assert!(is_left(&[read(8)], &read(8)), "the first read prepared the data");
    }

    #[test]
    fn the_state_of_random_and_interleaved_writes_needs_an_earlier_step() {
        let area = Area { capacity: 32 << 30, block: 512, is_writable: true, discards: false };
        let planned = Plan::new(Scale::Quick, &area).expect("the device is large enough").steps;
        let steps: Vec<ReadyStep> =
            planned.iter().map(|step| ready(&step.job[1..].join(" "), step.before)).collect();
        for (n, step) in planned.iter().enumerate() {
            let is_unknown = step.name.starts_with("write-random-")
                || step.name.starts_with("open-units-") && step.name != "open-units-1";
            assert_eq!(is_state_known(&steps[..n], &steps[n]), !is_unknown, "{}", step.name);
        }
        let new = ready("--rw=read --bs=4k --size=4k", State::New);
        assert!(is_state_known(&[new], &steps[0]), "the whole device is new");
    }

    #[test]
    fn a_plan_prepares_all_its_states_itself() {
        for scale in [Scale::Quick, Scale::Standard] {
            let area = Area { capacity: 32 << 30, block: 512, is_writable: true, discards: true };
            let plan = Plan::new(scale, &area).expect("the device is large enough");
            let steps: Vec<ReadyStep> =
                plan.steps.iter().map(|step| ready(&step.job[1..].join(" "), step.before)).collect();
            for n in 0..steps.len() {
                let left = is_left(&steps[..n], &steps[n]);
                assert!(steps[n].before == State::AsLeft || left, "{}", plan.steps[n].name);
            }
        }
    }
}
