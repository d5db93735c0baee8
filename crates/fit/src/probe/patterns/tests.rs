//! The patterns on small and unusual devices, whose latencies follow a fixed rule.

use crate::probe::{
    Action, Confidence, Direction, Finding, Name, Options, Outcome, Probe, Run, Series, Target, Value, drive,
};
use flashlab_sim::Geometry;
use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// A device that answers each request in 100 us, except writes that open an allocation unit.
#[derive(Clone)]
struct Fake {
    geometry: Geometry,
    /// Capacity at which the addresses of marks wrap.
    wraps_at: u64,
    refuses: fn(&Series) -> bool,
    /// Size of an allocation unit.
    unit: u64,
    /// Open units, the least recently used one first. A write that opens another unit takes 1 ms.
    open: VecDeque<u64>,
    open_max: usize,
}

impl Fake {
    fn new(capacity: u64) -> Fake {
        Fake {
            geometry: Geometry { capacity, block: 512, request_max: MIB },
            wraps_at: capacity,
            refuses: |_| false,
            unit: capacity,
            open: VecDeque::new(),
            open_max: 1,
        }
    }

    fn findings(mut self) -> Vec<Finding> {
        let mut probe = Probe::new(self.geometry, Options { destroy: true, whole_device: false }, 1);
        drive(&mut probe, &mut self, |_, _| true).expect("no failure")
    }

    fn find(self, name: Name) -> Finding {
        self.findings().into_iter().find(|finding| finding.name == name).expect("each property has a finding")
    }

    fn latency(&mut self, direction: Direction, (at, length): (u64, u64)) -> u64 {
        assert!(length > 0 && at + length <= self.geometry.capacity, "{length} bytes at {at}");
        assert!(at % self.geometry.block == 0 && length % self.geometry.block == 0, "{length} bytes at {at}");
        if direction == Direction::Read {
            return 100_000;
        }
        let unit = at / self.unit;
        let known = self.open.iter().position(|open| *open == unit);
        known.map(|known| self.open.remove(known));
        self.open.push_back(unit);
        if self.open.len() > self.open_max {
            self.open.pop_front();
        }
        if known.is_some() { 100_000 } else { 1_000_000 }
    }
}

impl Target for Fake {
    type Error = Infallible;

    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn carry_out(&mut self, action: &Action) -> Result<Outcome, Infallible> {
        Ok(match action {
            Action::Run(series) if (self.refuses)(series) => Outcome::Refused,
            Action::Run(series) => {
                let mut run = Run::default();
                let mut now = 0;
                for request in &series.requests {
                    let latency = self.latency(series.direction, *request);
                    now += latency;
                    run.latencies_ns.push(latency);
                    run.completed_ns.push(now);
                }
                Outcome::Run(run)
            }
            Action::Mark(offsets) => {
                let last: BTreeMap<u64, u64> = offsets.iter().map(|at| (at % self.wraps_at, *at)).collect();
                Outcome::Marks(offsets.iter().map(|at| last[&(at % self.wraps_at)] == *at).collect())
            }
            Action::Idle(_) | Action::Discard(_) | Action::Done => Outcome::Done,
        })
    }
}

#[test]
fn every_capacity_gives_each_finding_once() {
    for capacity in [2 * KIB, 64 * KIB, MIB, 3 * MIB, 16 * MIB, 100 * MIB, GIB] {
        for block in [512, 4 * KIB].into_iter().filter(|block| *block <= capacity) {
            let mut fake = Fake::new(capacity);
            fake.geometry.block = block;
            let mut names: Vec<Name> = fake.findings().iter().map(|finding| finding.name).collect();
            names.sort();
            let mut all = Name::ALL.to_vec();
            all.sort();
            assert_eq!(names, all, "{capacity} bytes in blocks of {block}");
        }
    }
}

#[test]
fn large_blocks_hide_the_read_page_only() {
    let mut fake = Fake::new(GIB);
    fake.geometry.block = 4 * KIB;
    assert_eq!(fake.clone().find(Name::QueueDepth).value, Value::Count(1));
    assert_eq!(fake.find(Name::ReadPage).value, Value::NotMeasured);
}

#[test]
fn a_device_below_108_mib_has_no_room_for_random_writes() {
    assert_eq!(Fake::new(100 * MIB).find(Name::RandomWriteUnit).value, Value::NotMeasured);
    assert_ne!(Fake::new(112 * MIB).find(Name::RandomWriteUnit).value, Value::NotMeasured);
}

#[test]
fn a_capacity_that_wraps_is_exact_for_powers_of_two_and_an_upper_bound_otherwise() {
    let found = |wraps_at| Fake { wraps_at, ..Fake::new(16 * GIB) }.find(Name::Capacity);
    let exact = found(4 * GIB);
    assert_eq!((exact.value, exact.confidence), (Value::Bytes(4 * GIB), Confidence::High));
    let bound = found(6 * MIB);
    assert_eq!((bound.value, bound.confidence), (Value::Bytes(8 * MIB), Confidence::Low), "{}", bound.reason);
}

#[test]
fn refused_series_leave_a_finding() {
    let streams = |series: &Series| {
        series.direction == Direction::Write
            && series.requests.len() == 64
            && series.requests[0].1 == 64 * KIB
    };
    let found = Fake { refuses: streams, ..Fake::new(GIB) }.find(Name::OpenUnits);
    assert_eq!(found.reason, "the device refused the writes");
}

#[test]
fn merged_units_are_measured_as_far_as_the_region_contains_them() {
    let found = |unit| Fake { unit, open_max: 3, ..Fake::new(4 * GIB) }.find(Name::AllocationUnit);
    for (unit, value, confidence) in [
        (4 * MIB, Value::Bytes(4 * MIB), Confidence::High),
        (60 * MIB, Value::Bytes(60 * MIB), Confidence::Low),
        (80 * MIB, Value::NotMeasured, Confidence::None),
    ] {
        let found = found(unit);
        assert_eq!((&found.value, found.confidence), (&value, confidence), "{}", found.reason);
    }
}
