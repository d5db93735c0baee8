//! Versions beside the drive: the least that the answers promise of each unit, held against what a cut leaves of it.
//!
//! A version is the number that the translation layer gives a write. A request that is answered alone (no other change of
//! the unit was outstanding meanwhile) shows its version; that of overlapping changes is unknown, and what was promised
//! before them holds on as the least.

use flashlab_flash::ftl::page_map::Found;
use flashlab_nvme::Ssd;
use flashlab_sim::{Instant, Op, PowerCut, Request};
use std::ops::Range;

/// A content of a unit, as an answer showed it.
#[derive(Clone, Copy, Debug)]
struct Content {
    /// Number of the write or trim; every later change has a greater one.
    number: u64,
    mapped: bool,
    /// When its request was submitted, in changes begun and ended.
    begun: u64,
}

#[derive(Clone, Debug)]
struct Unit {
    /// The content that is promised, and those that were answered since, with the times of their answers.
    promised: Content,
    answered: Vec<(Instant, Content)>,
    outstanding: u32,
    /// When a change of it ended last, and when a trim of it began last, in changes begun and ended.
    ended: u64,
    trimmed: u64,
}

/// A change that is outstanding.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    at: u64,
    /// The last number that the layer had given.
    number: u64,
}

pub(crate) struct Versions {
    units: Vec<Unit>,
    unit: u64,
    /// Changes begun and ended.
    clock: u64,
    /// Pages can become unreadable.
    unreliable: bool,
}

impl Versions {
    pub(crate) fn new(ssd: &mut Ssd, unit: u64) -> Self {
        ssd.keep_versions();
        let promised = Content { number: 0, mapped: false, begun: 0 };
        let new = Unit { promised, answered: Vec::new(), outstanding: 0, ended: 0, trimmed: 0 };
        let unreliable = ssd.parameters().reliability.is_some();
        Versions { units: vec![new; ssd.layer().units() as usize], unit, clock: 0, unreliable }
    }

    /// The units that a request changes: a trim leaves those alone that it covers in part.
    fn changed(&self, request: &Request) -> Range<usize> {
        let (from, to) = match request.op {
            Op::Trim => (request.offset.div_ceil(self.unit), request.end() / self.unit),
            _ => (request.offset / self.unit, request.end().div_ceil(self.unit)),
        };
        from as usize..to.max(from) as usize
    }

    /// A write or a trim is submitted.
    pub(crate) fn begin(&mut self, ssd: &Ssd, request: &Request) -> Begun {
        self.clock += 1;
        let range = self.changed(request);
        for unit in &mut self.units[range] {
            unit.outstanding += 1;
            if request.op == Op::Trim {
                unit.trimmed = self.clock;
            }
        }
        Begun { at: self.clock, number: ssd.layer().accepted().0 }
    }

    /// It was answered; `done` is false where the answer was an error, and nothing changed.
    pub(crate) fn end(&mut self, ssd: &Ssd, request: &Request, begun: Begun, at: Instant, done: bool) {
        self.clock += 1;
        for number in self.changed(request) {
            let found = ssd.layer().read(number as u32);
            let version = ssd.layer().version(number as u32).map(|ticket| ticket.0);
            let unit = &mut self.units[number];
            unit.outstanding -= 1;
            let alone = unit.outstanding == 0 && unit.ended < begun.at;
            unit.ended = self.clock;
            let lost = found == Found::Unreadable && self.unreliable;
            if !done || !alone || lost {
                continue;
            }
            let content = if request.op == Op::Trim {
                assert_eq!(found, Found::Unmapped, "unit {number} after {request:?}");
                Content { number: ssd.layer().accepted().0, mapped: false, begun: begun.at }
            } else {
                let version = version.filter(|version| *version > begun.number);
                let version =
                    version.unwrap_or_else(|| panic!("unit {number} is not there after {request:?}"));
                Content { number: version, mapped: true, begun: begun.at }
            };
            if request.op == Op::WriteFua {
                unit.promised = content;
                unit.answered.clear();
            } else {
                unit.answered.push((at, content));
            }
        }
    }

    /// A flush that was submitted at `submitted` was answered.
    pub(crate) fn flushed(&mut self, submitted: Instant) {
        for unit in &mut self.units {
            let covered = unit.answered.iter().take_while(|(at, _)| *at <= submitted).count();
            if let Some((_, content)) = unit.answered.drain(..covered).next_back() {
                unit.promised = content;
            }
        }
    }

    /// Version of each unit.
    pub(crate) fn now(ssd: &Ssd) -> Vec<Option<u64>> {
        (0..ssd.layer().units()).map(|unit| ssd.layer().version(unit).map(|ticket| ticket.0)).collect()
    }

    /// The power was cut and is back: every unit is as promised or newer, and the cut has named each that is not as it was
    /// `before`. From here on all of it is promised.
    pub(crate) fn assert_kept(&mut self, ssd: &Ssd, before: &[Option<u64>], cut: &PowerCut, what: &str) {
        self.clock += 1;
        for (number, unit) in self.units.iter_mut().enumerate() {
            let found = ssd.layer().read(number as u32);
            let version = ssd.layer().version(number as u32).map(|ticket| ticket.0);
            let lost = found == Found::Unreadable && self.unreliable;
            let offset = number as u64 * self.unit;
            let named = cut.undecided.iter().any(|(range, _)| range.contains(&offset));
            assert!(
                version == before[number] || named || lost,
                "{what}: unit {number} was {:?}, is {version:?}, and the cut does not name it",
                before[number]
            );
            let kept = match version {
                Some(version) => version >= unit.promised.number,
                None => {
                    found == Found::Unmapped && (!unit.promised.mapped || unit.trimmed > unit.promised.begun)
                }
            };
            assert!(kept || lost, "{what}: unit {number} reads {found:?}, {version:?}: {unit:?}");
            let content =
                Content { number: version.unwrap_or(0), mapped: version.is_some(), begun: self.clock };
            *unit = Unit { promised: content, answered: Vec::new(), outstanding: 0, ended: 0, trimmed: 0 };
        }
    }
}
