//! A record of the versions of all units. From the answers of the drive, the record derives the oldest
//! version that each unit may have after a cut.
//!
//! A version is the number that the translation layer assigns to a write. The answer to a request reveals its
//! version if no other change of the unit was outstanding meanwhile. The versions of overlapping changes are
//! unknown, so the version that was durable before these changes remains the lower bound.

use flashlab_flash::ftl::page_map::Found;
use flashlab_nvme::Ssd;
use flashlab_sim::{Instant, Op, PowerCut, Request};
use std::ops::Range;

/// Content of a unit, as an answer revealed it.
#[derive(Clone, Copy, Debug)]
struct Content {
    /// Number of the write or trim. Every later change has a greater number.
    number: u64,
    mapped: bool,
    /// Instant of the request's submission, as a count of changes begun and ended.
    begun: u64,
}

#[derive(Clone, Debug)]
struct Unit {
    /// The durable content; `answered` holds later contents with the instants of their answers.
    promised: Content,
    answered: Vec<(Instant, Content)>,
    outstanding: u32,
    /// Last end of a change of the unit, as a count of changes begun and ended.
    ended: u64,
    /// Last start of a trim of the unit, as a count of changes begun and ended.
    trimmed: u64,
}

/// An outstanding change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    at: u64,
    /// Last number that the layer had assigned.
    number: u64,
}

pub(crate) struct Versions {
    units: Vec<Unit>,
    unit: u64,
    /// Number of changes begun and ended.
    clock: u64,
    /// True if pages can become unreadable.
    unreliable: bool,
}

impl Versions {
    pub(crate) fn new(ssd: &mut Ssd, unit: u64) -> Self {
        ssd.track_versions();
        let promised = Content { number: 0, mapped: false, begun: 0 };
        let new = Unit { promised, answered: Vec::new(), outstanding: 0, ended: 0, trimmed: 0 };
        let unreliable = ssd.parameters().reliability.is_some();
        Versions { units: vec![new; ssd.layer().units() as usize], unit, clock: 0, unreliable }
    }

    /// Returns the units that a request changes: a trim does not change units that it covers only in part.
    fn changed(&self, request: &Request) -> Range<usize> {
        let (from, to) = match request.op {
            Op::Trim => (request.offset.div_ceil(self.unit), request.end() / self.unit),
            _ => (request.offset / self.unit, request.end().div_ceil(self.unit)),
        };
        from as usize..to.max(from) as usize
    }

    /// Records the submission of a write or a trim.
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

    /// Records the answer to a change. `done` is false if the answer was an error, so that nothing changed.
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

    /// Records the answer of a flush that was submitted at `submitted`.
    pub(crate) fn flushed(&mut self, submitted: Instant) {
        for unit in &mut self.units {
            let covered = unit.answered.iter().take_while(|(at, _)| *at <= submitted).count();
            if let Some((_, content)) = unit.answered.drain(..covered).next_back() {
                unit.promised = content;
            }
        }
    }

    /// Returns the version of each unit.
    pub(crate) fn now(ssd: &Ssd) -> Vec<Option<u64>> {
        (0..ssd.layer().units()).map(|unit| ssd.layer().version(unit).map(|ticket| ticket.0)).collect()
    }

    /// Checks the drive after the power has returned. Every unit must have its durable version or a newer
    /// one. The cut must name each unit whose version differs from `before`. The current contents are durable
    /// from now on.
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
