//! Logs members that begin to fail, that become unreachable, or that work again.

use flashlab_volume::MemberHealth;
use std::collections::BTreeMap;

/// Condition of a member. A member that alternates between working and failing counts as failing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Condition {
    Works,
    Fails,
    /// The member does not answer, and background work gives its copies to other members.
    Unreachable,
}

/// The state of the members at the last look.
#[derive(Debug, Default)]
pub(super) struct Failures {
    /// The number of failed requests of each member, and the condition that was logged last.
    known: BTreeMap<u8, (u64, Condition)>,
}

impl Failures {
    /// Begins with the present numbers of errors, which include errors of earlier mounts.
    pub(super) fn new(health: &[MemberHealth]) -> Failures {
        Failures {
            known: health.iter().map(|member| (member.number, (failed(member), Condition::Works))).collect(),
        }
    }

    /// Logs the members whose condition changed since the last call.
    pub(super) fn log(&mut self, health: &[MemberHealth]) {
        for (member, condition) in self.changes(health) {
            let MemberHealth { number, label, errors, .. } = member;
            match condition {
                Condition::Works => tracing::warn!(number, label, "the member of the volume works again"),
                Condition::Fails => tracing::warn!(
                    number,
                    label,
                    read_errors = errors.read,
                    write_errors = errors.write,
                    "a member of the volume fails"
                ),
                Condition::Unreachable => tracing::warn!(
                    number,
                    label,
                    "a member of the volume has not answered for 30 s; other members get its copies"
                ),
            }
        }
    }

    /// Returns the members whose condition changed, with the new condition.
    fn changes<'a>(&mut self, health: &'a [MemberHealth]) -> Vec<(&'a MemberHealth, Condition)> {
        let mut changes = Vec::new();
        for member in health {
            let now = failed(member);
            let unknown = (now, Condition::Works);
            let (before, logged) = self.known.get(&member.number).copied().unwrap_or(unknown);
            let condition = match () {
                () if member.unreachable => Condition::Unreachable,
                () if member.failing || now > before => Condition::Fails,
                () => Condition::Works,
            };
            if condition != logged {
                changes.push((member, condition));
            }
            self.known.insert(member.number, (now, condition));
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
        [MemberHealth { number: 2, label: "ssd".into(), failing, unreachable: false, errors }]
    }

    #[test]
    fn each_failure_and_each_recovery_is_one_change() {
        use Condition::{Fails, Unreachable, Works};
        let mut failures = Failures::new(&health(false, 7));
        let mut change = |failing, errors| {
            failures.changes(&health(failing, errors)).pop().map(|(_, condition)| condition)
        };
        assert_eq!(change(false, 7), None, "errors of an earlier mount");
        assert_eq!([change(true, 8), change(true, 9), change(true, 9)], [Some(Fails), None, None]);
        assert_eq!([change(false, 9), change(false, 9)], [Some(Works), None]);
        // The member failed and worked again between two looks.
        assert_eq!(
            [change(false, 10), change(false, 11), change(false, 11)],
            [Some(Fails), None, Some(Works)]
        );
        let [mut silent] = health(true, 12);
        silent.unreachable = true;
        let mut change = |member: &MemberHealth| {
            failures.changes(std::slice::from_ref(member)).pop().map(|(_, condition)| condition)
        };
        assert_eq!([change(&silent), change(&silent)], [Some(Unreachable), None]);
        assert_eq!(change(&health(false, 12)[0]), Some(Works));
    }
}
