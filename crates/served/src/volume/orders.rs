//! Commands to an open volume: the states of its members, and a scrub beside its clients.
//!
//! A command ends quickly. The long work that follows from it (moves of data, a scrub) belongs to the background work of the
//! volume, which gives way to clients.

use super::OpenPool;
use flashlab_block::{BlockDevice, Context, IoError};
use flashlab_sim::Instant;
use flashlab_volume::{MemberState, Scrubbed, Volume};
use std::future::Future;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

/// Time between two polls of a command.
const POLL_EVERY: Duration = Duration::from_millis(1);

/// The last scrub of a served volume.
#[derive(Debug, Default)]
pub(super) struct Scrubs(Mutex<Scrub>);

#[derive(Clone, Copy, Debug, Default)]
enum Scrub {
    #[default]
    Never,
    /// The background work begins it soon.
    Wanted,
    /// Stored bytes that were read, and their total at the start.
    Running(u64, u64),
    Done(Scrubbed),
    /// The server ended first, or the volume failed.
    Ended(Option<IoError>),
}

impl Scrubs {
    fn state(&self) -> MutexGuard<'_, Scrub> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for a scrub. Returns false if one runs already.
    fn want(&self) -> bool {
        let mut state = self.state();
        let is_free = !matches!(*state, Scrub::Wanted | Scrub::Running(..));
        if is_free {
            *state = Scrub::Wanted;
        }
        is_free
    }

    /// Returns true if the background work should begin a scrub.
    pub(super) fn is_wanted(&self) -> bool {
        matches!(*self.state(), Scrub::Wanted)
    }

    /// Scrubs the volume if somebody asked for it.
    pub(super) async fn run(&self, volume: &Volume, cx: &Context, is_stopped: &(dyn Fn() -> bool + Sync)) {
        if !self.is_wanted() {
            return;
        }
        let total = volume.usage().stored;
        *self.state() = Scrub::Running(0, total);
        let progress = |read| {
            *self.state() = Scrub::Running(read, total);
            !is_stopped()
        };
        let result = volume.scrub_with(cx, progress).await;
        *self.state() = match result {
            Ok(_) if is_stopped() => Scrub::Ended(None),
            Ok(scrubbed) => Scrub::Done(scrubbed),
            Err(error) => Scrub::Ended(Some(error)),
        };
    }

    /// Gives up a scrub that did not begin, because the volume failed.
    pub(super) fn end(&self) {
        if self.is_wanted() {
            *self.state() = Scrub::Ended(None);
        }
    }

    fn describe(&self) -> String {
        match *self.state() {
            Scrub::Never => "no scrub since the server started\n".to_owned(),
            Scrub::Wanted => "the scrub begins\n".to_owned(),
            Scrub::Running(read, total) => format!("scrub: {read} of {total} bytes\n"),
            Scrub::Done(scrubbed) => format!("{scrubbed}\n"),
            Scrub::Ended(None) => "the scrub was interrupted\n".to_owned(),
            Scrub::Ended(Some(error)) => format!("the scrub failed: {error}\n"),
        }
    }
}

/// Executes a command. Returns `None` if the volume has no such command.
pub(super) fn execute(pool: &OpenPool, words: &[&str], advance: &dyn Fn()) -> Option<Result<String, String>> {
    match words {
        ["scrub" | "evacuate" | "state", ..] if pool.volume.features().read_only => {
            Some(Err("the volume is served read-only".to_owned()))
        }
        ["scrub"] => Some(match pool.scrubs.want() {
            true => Ok("the scrub begins; `scrub status` shows its progress and its result\n".to_owned()),
            false => Err("a scrub runs already; `scrub status` shows its progress".to_owned()),
        }),
        ["scrub", "status"] => Some(Ok(pool.scrubs.describe())),
        ["evacuate", member] => Some(set_state(pool, member, MemberState::Evacuating, advance)),
        ["state", change] => {
            let Some((member, text)) = change.split_once('=') else {
                return Some(Err("state MEMBER=STATE is needed; for example: state ssd.a=ro".to_owned()));
            };
            let state = MemberState::ALL.into_iter().find(|state| state.name() == text);
            Some(match state.filter(|state| *state != MemberState::Removed) {
                Some(state) => set_state(pool, member, state, advance),
                None => Err(format!("{text:?} is not a state: rw, ro, evacuating or spare is needed")),
            })
        }
        ["evacuate" | "state", ..] => {
            Some(Err("the member is missing; for example: evacuate ssd.a".to_owned()))
        }
        _ => None,
    }
}

fn set_state(
    pool: &OpenPool,
    member: &str,
    state: MemberState,
    advance: &dyn Fn(),
) -> Result<String, String> {
    let volume = &pool.volume;
    let number =
        volume.member(member).ok_or_else(|| format!("{member}: no member has this number or label"))?;
    let cx = Context::new(Instant::ZERO);
    let done = wait_beside(volume.set_member_state(&cx, number, state), advance);
    done.map_err(|error| error.to_string())?;
    let rest = match state {
        MemberState::Evacuating => "; its data moves to others in the background, and `stats` shows the rest",
        _ => "",
    };
    Ok(format!("member {number} is {}{rest}\n", state.name()))
}

/// Waits for a future while other threads use the same devices.
fn wait_beside<T>(future: impl Future<Output = T>, advance: &dyn Fn()) -> T {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut std::task::Context::from_waker(Waker::noop())) {
            return value;
        }
        advance();
        thread::sleep(POLL_EVERY);
    }
}
