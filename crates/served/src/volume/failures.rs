//! Log of the members that begin to fail, and of those that work again.

use flashlab_volume::MemberHealth;
use std::collections::BTreeMap;

/// The state of the members at the last look.
#[derive(Debug, Default)]
pub(super) struct Failures {
    /// The number of failed requests of each member, and true if its failure was logged.
    known: BTreeMap<u8, (u64, bool)>,
}

impl Failures {
    /// Begins with the present numbers of errors, some of which are from earlier mounts.
    pub(super) fn new(health: &[MemberHealth]) -> Failures {
        Failures { known: health.iter().map(|member| (member.number, (failed(member), false))).collect() }
    }

    /// Logs the members that failed since the last call, and those that failed before and had no error since.
    pub(super) fn log(&mut self, health: &[MemberHealth]) {
        for (member, fails) in self.changes(health) {
            let MemberHealth { number, label, errors, .. } = member;
            if fails {
                tracing::warn!(
                    number,
                    label,
                    read_errors = errors.read,
                    write_errors = errors.write,
                    "a member of the volume fails"
                );
            } else {
                tracing::warn!(number, label, "the member of the volume works again");
            }
        }
    }

    /// Returns the members that began to fail, with true, and those that work again, with false. A member that
    /// alternates is one that fails.
    fn changes<'a>(&mut self, health: &'a [MemberHealth]) -> Vec<(&'a MemberHealth, bool)> {
        let mut changes = Vec::new();
        for member in health {
            let now = failed(member);
            let (before, is_logged) = self.known.get(&member.number).copied().unwrap_or((now, false));
            let fails = member.failing || now > before;
            if fails != is_logged {
                changes.push((member, fails));
            }
            self.known.insert(member.number, (now, fails));
        }
        changes
    }
}

/// Returns the number of failed requests of a member.
fn failed(member: &MemberHealth) -> u64 {
    u64::from(member.errors.read) + u64::from(member.errors.write)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flashlab_volume::ErrorCounts;

    fn health(failing: bool, write: u32) -> [MemberHealth; 1] {
        let errors = ErrorCounts { write, ..ErrorCounts::default() };
        [MemberHealth { number: 2, label: "ssd".into(), failing, errors }]
    }

    #[test]
    fn each_failure_and_each_recovery_is_one_change() {
        let mut failures = Failures::new(&health(false, 7));
        let mut change =
            |failing, errors| failures.changes(&health(failing, errors)).pop().map(|(_, fails)| fails);
        assert_eq!(change(false, 7), None, "errors of an earlier mount");
        assert_eq!([change(true, 8), change(true, 9), change(true, 9)], [Some(true), None, None]);
        assert_eq!([change(false, 9), change(false, 9)], [Some(false), None]);
        // The member failed and worked again between two looks.
        assert_eq!(
            [change(false, 10), change(false, 11), change(false, 11)],
            [Some(true), None, Some(false)]
        );
    }
}
