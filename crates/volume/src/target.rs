//! Targets: the members on which data of a given kind should be stored.
//!
//! A target is a preference: when its members have no room, new data, further copies and the journal go to
//! any other member. Only moves to the background target and cached copies never leave their target.

use crate::VolumeError;
use crate::format::{MemberEntry, MemberState};
use crate::member_set::MemberSet;

/// Largest length of a label or a target in bytes.
const LABEL_MAX: usize = 31;

/// Targets of a volume. An empty target for new data, or for the journal, stands for all members.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Targets {
    /// Members for new data.
    pub foreground: String,
    /// Members to which background work moves data. Without this target, data stays where it is.
    pub background: String,
    /// Members on which reads, and moves to the background target, leave a cached copy. Without this target,
    /// they leave none.
    pub promote: String,
    /// Members for the journal and the checkpoints.
    pub metadata: String,
}

impl Targets {
    /// Returns the targets with their names, in the order of the superblock.
    pub fn all(&self) -> [(&'static str, &str); 4] {
        let Targets { foreground, background, promote, metadata } = self;
        [("foreground", foreground), ("background", background), ("promote", promote), ("metadata", metadata)]
    }

    /// Checks that each target that is not empty names a member.
    ///
    /// # Errors
    /// Returns [`VolumeError::Option`] with the first target that names none.
    pub fn check(&self, members: &[MemberEntry]) -> Result<(), VolumeError> {
        self.check_change(members, (&Targets::default(), &[]))
    }

    /// Checks that each target that is not empty names a member. An unchanged target that named none of the
    /// members `before` is accepted, because the removal of a member leaves such targets.
    pub(crate) fn check_change(
        &self,
        members: &[MemberEntry],
        (former, before): (&Targets, &[MemberEntry]),
    ) -> Result<(), VolumeError> {
        for ((name, target), (_, old)) in self.all().into_iter().zip(former.all()) {
            check_text("target", target)?;
            let was_dead = target == old && members_for(old, before).is_empty();
            if !target.is_empty() && !was_dead && members_for(target, members).is_empty() {
                return Err(VolumeError::Option(format!(
                    "{name}={target}: no member has this label or number, and no label begins with {target:?} and a dot"
                )));
            }
        }
        Ok(())
    }
}

/// Checks the label of a member. Digits alone are refused, because they could be taken for the number of another member.
pub(crate) fn check_label(label: &str) -> Result<(), VolumeError> {
    check_text("label", label)?;
    match !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_digit()) {
        false => Ok(()),
        true => Err(VolumeError::Option(format!(
            "label {label:?}: digits alone stand for the number of a member"
        ))),
    }
}

/// Checks that a text fits into the superblock and into a line.
fn check_text(what: &str, text: &str) -> Result<(), VolumeError> {
    if text.len() <= LABEL_MAX && !text.contains(char::is_control) {
        return Ok(());
    }
    Err(VolumeError::Option(format!(
        "{what} {text:?}: at most {LABEL_MAX} bytes, without control characters"
    )))
}

/// Returns the members to which a target applies: those whose label is the target, whose label continues the
/// target after a dot, or whose number is the target.
pub(crate) fn members_for(target: &str, members: &[MemberEntry]) -> MemberSet {
    let is_meant = |(n, member): (usize, &MemberEntry)| {
        let rest = member.label.strip_prefix(target);
        let by_label = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        let by_number = target.parse() == Ok(n);
        member.state != MemberState::Removed && !target.is_empty() && (by_label || by_number)
    };
    (0..).zip(members).filter(|(n, member)| is_meant((*n, member))).map(|(n, _)| n).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_a_label_or_a_prefix_of_labels_or_a_number() {
        let member = |label: &str| MemberEntry {
            id: [0; 16],
            buckets: 32,
            durability: 1,
            metadata: false,
            label: label.into(),
            state: MemberState::Rw,
            errors: crate::format::ErrorCounts::default(),
        };
        let members = ["ssd.a", "ssd.b", "ssdx", "hdd"].map(member);
        assert_eq!(
            ["ssd", "ssd.a", "hdd", "3", "s", ""].map(|target| members_for(target, &members).to_bits()),
            [3, 1, 8, 8, 0, 0]
        );
        let wrong = Targets { promote: "nvme".into(), ..Targets::default() };
        assert!(wrong.check(&members).expect_err("no such label").to_string().starts_with("promote=nvme"));
    }
}
