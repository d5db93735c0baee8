//! The scrub of a served volume. Background work scrubs the volume while clients use it, and while no more urgent work
//! is left.

use super::orders::WORK_IS_OVER;
use super::pace::Pace;
use flashlab_block::{Context, IoError};
use flashlab_catalogue::units::Dimension;
use flashlab_volume::{Scrub, Scrubbed, Volume};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The last scrub of a served volume.
#[derive(Debug, Default)]
pub(super) struct Scrubs(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    last: Last,
    /// True once the background work has ended, so that no other scrub can begin.
    is_over: bool,
}

#[derive(Clone, Copy, Debug, Default)]
enum Last {
    #[default]
    Never,
    /// The background work begins the scrub once no more urgent work is left. Contains the limit of the stored bytes
    /// per second, if it is not that of the server.
    Wanted(Option<u64>),
    Running(Running),
    Done(Scrubbed),
    /// The server ended before the scrub was complete, or the scrub failed with an error.
    Ended(Option<IoError>),
}

/// A scrub that has begun.
#[derive(Clone, Copy, Debug)]
struct Running {
    scrub: Scrub,
    /// Limit of the stored bytes per second, if it is not that of the server.
    rate: Option<u64>,
    pace: Pace,
    /// Number of stored bytes that the scrub has read.
    read: u64,
    /// Number of all stored bytes at the beginning.
    total: u64,
}

/// Parses the argument of `scrub`, `rate=SIZE`: the limit of the stored bytes per second.
pub(super) fn read_rate(word: &str) -> Result<u64, String> {
    let rate = word.strip_prefix("rate=").ok_or("use `scrub`, `scrub rate=20MiB` or `scrub status`")?;
    Dimension::Size.parse_argument(rate).map_err(|error| format!("{word}: {error}"))
}

impl Scrubs {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, last: Last) {
        self.state().last = last;
    }

    /// Requests a scrub. `rate` replaces the server's limit of the bytes per second; zero means no limit. Fails if a
    /// scrub is already running, or if the background work has ended.
    pub(super) fn want(&self, rate: Option<u64>) -> Result<(), String> {
        let mut state = self.state();
        match state.last {
            Last::Wanted(_) | Last::Running(_) => {
                Err("a scrub is already running; `scrub status` shows its progress".to_owned())
            }
            _ if state.is_over => Err(WORK_IS_OVER.to_owned()),
            _ => {
                state.last = Last::Wanted(rate);
                Ok(())
            }
        }
    }

    /// Returns the scrub that has to continue. A scrub that was requested begins.
    fn to_continue(&self, volume: &Volume) -> Option<Running> {
        let last = self.state().last;
        match last {
            Last::Running(running) => Some(running),
            Last::Wanted(rate) => {
                let total = volume.usage().stored;
                Some(Running { scrub: Scrub::default(), rate, pace: Pace::begin(), read: 0, total })
            }
            _ => None,
        }
    }

    /// Begins the scrub that was requested, or continues the one that has begun, if there is one, until it is complete
    /// or `is_interrupted` returns true. `rate` is the server's limit of the bytes per second.
    pub(super) async fn run(
        &self,
        volume: &Volume,
        cx: &Context,
        rate: u64,
        is_interrupted: &(dyn Fn() -> bool + Sync),
    ) {
        let Some(mut running) = self.to_continue(volume) else { return };
        self.set(Last::Running(running));
        let Running { mut scrub, rate: own_rate, .. } = running;
        let progress = |read| {
            running.read = read;
            self.set(Last::Running(running));
            !is_interrupted()
        };
        let is_complete = scrub.run(volume, cx, own_rate.unwrap_or(rate), progress).await;
        running.scrub = scrub;
        self.set(match is_complete {
            Ok(true) => Last::Done(scrub.result()),
            Ok(false) => Last::Running(running),
            Err(error) => Last::Ended(Some(error)),
        });
    }

    /// Records that the background work has ended. A scrub that is not complete ends, and no other scrub can begin.
    pub(super) fn end(&self) {
        let mut state = self.state();
        state.is_over = true;
        if matches!(state.last, Last::Wanted(_) | Last::Running(_)) {
            state.last = Last::Ended(None);
        }
    }

    pub(super) fn describe(&self) -> String {
        match self.state().last {
            Last::Never => "no scrub since the server started\n".to_owned(),
            Last::Wanted(_) => "the scrub begins once no other background work is left\n".to_owned(),
            Last::Running(Running { pace, read, total, .. }) => {
                format!("scrub: {} ({read} of {total} bytes)\n", pace.describe(read, total))
            }
            Last::Done(scrubbed) => format!("{scrubbed}\n"),
            Last::Ended(None) => "the scrub was interrupted\n".to_owned(),
            Last::Ended(Some(error)) => format!("the scrub failed: {error}\n"),
        }
    }
}
