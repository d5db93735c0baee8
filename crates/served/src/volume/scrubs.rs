//! The scrub of a served volume, which background work does beside its clients.

use flashlab_block::{Context, IoError};
use flashlab_volume::{Scrubbed, Volume};
use std::sync::{Mutex, MutexGuard, PoisonError};

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
    pub(super) fn want(&self) -> bool {
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

    pub(super) fn describe(&self) -> String {
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
