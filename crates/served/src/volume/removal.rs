//! The removal of a member of a served volume: background work moves the member's data to others, then removes the
//! member.
//!
//! If the server ends before the removal is complete, the member remains a member, and its evacuation continues after
//! the next start. If a removal that has begun fails, the member returns to its previous state.

use super::orders::{WORK_IS_OVER, change_failed};
use super::pace::Pace;
use flashlab_block::Context;
use flashlab_volume::{Leftover, MemberState, MemberUsage, MissingMember, Reconciled, Volume, Work};
use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Maximum number of attempts to remove a member. Writes in flight may still place data on a member whose evacuation
/// has begun.
const ATTEMPTS_MAX: u32 = 16;

/// The last removal of a member.
#[derive(Debug, Default)]
pub(super) struct Removals(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    last: Removal,
    /// True while a command prepares a removal.
    is_reserved: bool,
    /// True once the background work has ended, so that no other removal can begin.
    is_over: bool,
}

/// Control of a removal: a function that takes the result of the work so far and returns false if the work has to end,
/// and a function that returns true if the server ends.
type Control<'a> = (&'a (dyn Fn(&Reconciled) -> bool + Sync), &'a (dyn Fn() -> bool + Sync));

#[derive(Clone, Debug, Default)]
enum Removal {
    #[default]
    Never,
    /// Background work begins the removal soon. Contains the previous state of the member, if its device is present.
    Wanted(u8, Option<MemberState>),
    /// Contains the beginning of the work and the number of bytes that the member had then.
    Running(u8, Pace, u64),
    Done(u8, Leftover),
    /// The member was not removed, for this reason.
    Failed(u8, String),
}

impl Removals {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, last: Removal) {
        self.state().last = last;
    }

    /// Reserves the only removal that may run at a time. Fails if another removal is under way, or if
    /// background work has ended.
    pub(super) fn reserve(&self) -> Result<(), String> {
        let mut state = self.state();
        if state.is_reserved || matches!(state.last, Removal::Wanted(..) | Removal::Running(..)) {
            return Err("a member is being removed already; `remove status` shows its progress".to_owned());
        }
        if state.is_over {
            return Err(WORK_IS_OVER.to_owned());
        }
        state.is_reserved = true;
        Ok(())
    }

    /// Gives up a reservation.
    pub(super) fn release(&self) {
        self.state().is_reserved = false;
    }

    /// Requests the removal of a member. `before` is its state before the evacuation, if its device is present.
    pub(super) fn want(&self, member: u8, before: Option<MemberState>) {
        let mut state = self.state();
        state.is_reserved = false;
        state.last = match state.is_over {
            true => Removal::Failed(member, WORK_IS_OVER.to_owned()),
            false => Removal::Wanted(member, before),
        };
    }

    /// Returns true if background work should begin a removal.
    pub(super) fn is_wanted(&self) -> bool {
        matches!(self.state().last, Removal::Wanted(..))
    }

    /// Removes the member whose removal was requested, if any.
    pub(super) async fn run(&self, volume: &Volume, cx: &Context, rate: u64, control: Control<'_>) {
        let Removal::Wanted(member, before) = self.state().last.clone() else { return };
        self.set(Removal::Running(member, Pace::begin(), volume.bytes_on(member)));
        let removed = empty_and_remove(volume, cx, rate, (member, control)).await;
        let after = match removed {
            Ok(Some(left)) => Removal::Done(member, left),
            Ok(None) => Removal::Failed(member, "the server ended".to_owned()),
            Err(mut why) => {
                if let Some(before) = before
                    && let Err(error) = volume.set_member_state(cx, member, before).await
                {
                    let _ = write!(why, "; its state remains evacuating: {error}");
                }
                Removal::Failed(member, why)
            }
        };
        self.set(after);
    }

    /// Records that the background work has ended. A removal that has not begun fails, and no other removal
    /// can begin.
    pub(super) fn end(&self) {
        let mut state = self.state();
        state.is_over = true;
        if let Removal::Wanted(member, _) = state.last {
            state.last = Removal::Failed(member, WORK_IS_OVER.to_owned());
        }
    }

    /// Describes the progress or the result, in one line.
    pub(super) fn describe(&self, volume: &Volume) -> String {
        match self.state().last.clone() {
            Removal::Never => "no removal since the server started\n".to_owned(),
            Removal::Wanted(member, _) => {
                format!("member {member}: {} bytes remain to be moved\n", volume.bytes_on(member))
            }
            Removal::Running(member, pace, total) => {
                let left = volume.bytes_on(member);
                let progress = pace.describe(total.saturating_sub(left), total);
                format!("member {member}: {progress} ({left} bytes remain to be moved)\n")
            }
            Removal::Done(member, left) => {
                let left = left.text();
                format!("member {member} is removed; leave it out when the volume is opened again{left}\n")
            }
            Removal::Failed(member, why) => format!("member {member} is not removed: {why}\n"),
        }
    }
}

/// Returns a note on the devices that were removed from a volume, for the message about a new passphrase; empty if no
/// device was removed. The volume does not know whether their superblocks were overwritten.
pub fn note_on_removed(volume: &Volume) -> String {
    let members = volume.usage().members;
    let removed = (0u8..).zip(&members).filter(|(_, member)| member.state == MemberState::Removed);
    let name = |(number, member): (u8, &MemberUsage)| {
        MissingMember { number, label: member.label.clone() }.to_string()
    };
    let names: Vec<String> = removed.map(name).collect();
    if names.is_empty() {
        return String::new();
    }
    format!(
        "; the old one still opens removed devices whose superblocks were not overwritten (removed: {} {})",
        if names.len() == 1 { "member" } else { "members" },
        names.join(", ")
    )
}

/// Moves the data of a member to others, and removes it. Returns `None` if the server ends.
async fn empty_and_remove(
    volume: &Volume,
    cx: &Context,
    rate: u64,
    (member, (progress, is_stopped)): (u8, Control<'_>),
) -> Result<Option<Leftover>, String> {
    let mut attempt = 0;
    loop {
        let done = volume.reconcile(cx, rate, progress).await.map_err(|error| error.to_string())?;
        if is_stopped() {
            return Ok(None);
        }
        let error = match volume.remove(cx, member).await {
            Ok(left) => return Ok(Some(left)),
            Err(error) => error,
        };
        attempt += 1;
        let left = volume.backlog().current;
        let is_left = left.contains_key(&Work::Evacuate) || left.contains_key(&Work::Replicate);
        if attempt < ATTEMPTS_MAX && is_left {
            continue;
        }
        let mut why = change_failed(&error);
        for ((work, reason), amount) in &done.pending {
            let _ = write!(why, "; pending: {} of {} bytes, {}", work.name(), amount.bytes, reason.text());
        }
        return Err(why);
    }
}
