//! The scrub of a served volume. Background work scrubs the volume while clients use it.

use super::orders::WORK_IS_OVER;
use flashlab_block::{Context, IoError};
use flashlab_volume::{Scrubbed, Volume};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The last scrub of a served volume.
#[derive(Debug, Default)]
pub(super) struct Scrubs(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    last: Scrub,
    /// True once the background work has ended, so that no other scrub can begin.
    is_over: bool,
}

#[derive(Clone, Copy, Debug, Default)]
enum Scrub {
    #[default]
    Never,
    /// The background work begins the scrub soon.
    Wanted,
    /// Number of stored bytes that the scrub has read, and the number of all stored bytes at its start.
    Running(u64, u64),
    Done(Scrubbed),
    /// The server ended before the scrub was complete, or the scrub failed with an error.
    Ended(Option<IoError>),
}

impl Scrubs {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, last: Scrub) {
        self.state().last = last;
    }

    /// Requests a scrub. Fails if one is already running, or if the background work has ended.
    pub(super) fn want(&self) -> Result<(), String> {
        let mut state = self.state();
        match state.last {
            Scrub::Wanted | Scrub::Running(..) => {
                Err("a scrub is already running; `scrub status` shows its progress".to_owned())
            }
            _ if state.is_over => Err(WORK_IS_OVER.to_owned()),
            _ => {
                state.last = Scrub::Wanted;
                Ok(())
            }
        }
    }

    /// Returns true if the background work should begin a scrub.
    pub(super) fn is_wanted(&self) -> bool {
        matches!(self.state().last, Scrub::Wanted)
    }

    /// Scrubs the volume if a scrub was requested.
    pub(super) async fn run(&self, volume: &Volume, cx: &Context, is_stopped: &(dyn Fn() -> bool + Sync)) {
        if !self.is_wanted() {
            return;
        }
        let total = volume.usage().stored;
        self.set(Scrub::Running(0, total));
        let progress = |read| {
            self.set(Scrub::Running(read, total));
            !is_stopped()
        };
        let result = volume.scrub_with(cx, progress).await;
        self.set(match result {
            Ok(_) if is_stopped() => Scrub::Ended(None),
            Ok(scrubbed) => Scrub::Done(scrubbed),
            Err(error) => Scrub::Ended(Some(error)),
        });
    }

    /// Records that the background work has ended. A scrub that has not begun is cancelled, and no other
    /// scrub can begin.
    pub(super) fn end(&self) {
        let mut state = self.state();
        state.is_over = true;
        if matches!(state.last, Scrub::Wanted) {
            state.last = Scrub::Ended(None);
        }
    }

    pub(super) fn describe(&self) -> String {
        match self.state().last {
            Scrub::Never => "no scrub since the server started\n".to_owned(),
            Scrub::Wanted => "the scrub will begin soon\n".to_owned(),
            Scrub::Running(read, total) => format!("scrub: {read} of {total} bytes\n"),
            Scrub::Done(scrubbed) => format!("{scrubbed}\n"),
            Scrub::Ended(None) => "the scrub was interrupted\n".to_owned(),
            Scrub::Ended(Some(error)) => format!("the scrub failed: {error}\n"),
        }
    }
}
