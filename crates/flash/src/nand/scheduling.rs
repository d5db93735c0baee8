//! Scheduling of the operations on a die, as chosen by a profile.
//!
//! The default is the order of arrival. Urgent reads, for which a host waits, may be served before other operations and
//! may suspend a program or an erase. An overtaken operation cannot starve: after `overtaken_max` reads it runs to its
//! end.

use crate::Impossible;
use alloc::format;
use flashlab_sim::Duration;
use serde::{Deserialize, Serialize};

/// Scheduling of the operations on a die.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Scheduling {
    /// True if urgent reads (of host data and of the map) are served before programs, erases and background reads of
    /// the die.
    pub reads_first: bool,
    /// Maximum number of urgent reads that may overtake a waiting or suspended operation, which then runs to its end.
    pub overtaken_max: u32,
    /// Suspension of programs and erases for urgent reads; requires `reads_first`.
    pub suspend: Option<Suspend>,
}

/// Suspension of a program or an erase for a read. The progress of the operation is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Suspend {
    /// Time from the suspend command until the die can read.
    pub t_suspend: Duration,
    /// Time from the resume command until the array continues.
    pub t_resume: Duration,
    /// True if programs can be suspended.
    pub programs: bool,
    /// True if erases can be suspended.
    pub erases: bool,
}

impl Default for Scheduling {
    fn default() -> Self {
        Scheduling::FIRST_COME
    }
}

impl Scheduling {
    /// Service in the order of arrival.
    pub const FIRST_COME: Scheduling = Scheduling { reads_first: false, overtaken_max: 0, suspend: None };

    /// Checks the parameters for contradictions.
    pub fn check(&self) -> Result<(), Impossible> {
        if self.reads_first && self.overtaken_max == 0 {
            return Err(Impossible::new(
                "scheduling.overtaken_max",
                "is 0, so no read could ever go first; expected at least 1, for example 64",
            ));
        }
        let Some(suspend) = self.suspend else { return Ok(()) };
        if !self.reads_first {
            return Err(Impossible::new(
                "scheduling.suspend",
                "is set, but reads_first is not: a read that waits its turn suspends nothing",
            ));
        }
        if !suspend.programs && !suspend.erases {
            return Err(Impossible::new(
                "scheduling.suspend",
                "suspends neither programs nor erases; expected one of them, or no suspend at all",
            ));
        }
        for (path, time) in [
            ("scheduling.suspend.t_suspend", suspend.t_suspend),
            ("scheduling.suspend.t_resume", suspend.t_resume),
        ] {
            if time > Duration::from_secs(1) {
                return Err(Impossible::new(
                    path,
                    format!("is {time}; expected at most a second, for example \"20us\""),
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUSPEND: Suspend = Suspend {
        t_suspend: Duration::from_us(20),
        t_resume: Duration::from_us(5),
        programs: true,
        erases: true,
    };

    #[test]
    fn choices_that_contradict_one_another_are_refused() {
        assert_eq!(Scheduling::default().check(), Ok(()));
        let all = Scheduling { reads_first: true, overtaken_max: 16, suspend: Some(SUSPEND) };
        assert_eq!(all.check(), Ok(()));
        let neither = Suspend { programs: false, erases: false, ..SUSPEND };
        let long = Suspend { t_resume: Duration::from_secs(2), ..SUSPEND };
        for (wrong, path) in [
            (Scheduling { overtaken_max: 0, ..all }, "scheduling.overtaken_max"),
            (Scheduling { reads_first: false, ..all }, "scheduling.suspend"),
            (Scheduling { suspend: Some(neither), ..all }, "scheduling.suspend"),
            (Scheduling { suspend: Some(long), ..all }, "scheduling.suspend.t_resume"),
        ] {
            assert_eq!(wrong.check().unwrap_err().path, path);
        }
    }
}
