//! A planned power cut.

use flashlab_sim::{Duration, Instant, Rng};

/// Purpose of the random stream from which the instants of power cuts are drawn.
const PURPOSE: u64 = 0x6375_7470;

/// The plan of a power cut.
#[derive(Debug)]
pub(crate) struct Cut {
    plan: Plan,
    rng: Rng,
}

#[derive(Clone, Copy, Debug)]
enum Plan {
    None,
    At(Instant),
    /// Number of writes up to and including the one that the cut interrupts.
    During(u64),
}

impl Cut {
    pub(crate) fn new(seed: u64) -> Cut {
        Cut { plan: Plan::None, rng: Rng::for_purpose(seed, PURPOSE) }
    }

    pub(crate) fn at(&mut self, at: Instant) {
        self.plan = Plan::At(at);
    }

    pub(crate) fn during(&mut self, nth: u64) {
        self.plan = Plan::During(nth.max(1));
    }

    pub(crate) fn cancel(&mut self) {
        self.plan = Plan::None;
    }

    /// Counts a write. Returns true if the cut interrupts this write; the caller then plans the instant with
    /// [`Cut::draw`].
    pub(crate) fn counts_down(&mut self) -> bool {
        match &mut self.plan {
            Plan::During(1) => {
                self.plan = Plan::None;
                true
            }
            Plan::During(left) => {
                *left -= 1;
                false
            }
            Plan::None | Plan::At(_) => false,
        }
    }

    /// Plans the cut for an instant between `from` and `to`.
    pub(crate) fn draw(&mut self, from: Instant, to: Instant) {
        let span = to.max(from).since(from).as_ns();
        self.plan = Plan::At(from.saturating_add(Duration::from_ns(self.rng.below(span + 1))));
    }

    /// Returns the instant of the cut and ends the plan, if the cut is not later than `at`.
    pub(crate) fn take_due(&mut self, at: Instant) -> Option<Instant> {
        match self.plan {
            Plan::At(cut) if cut <= at => {
                self.plan = Plan::None;
                Some(cut)
            }
            _ => None,
        }
    }
}
