//! Ctrl-C, SIGTERM and SIGHUP during commands that change devices: the first signal ends the command where it leaves
//! everything consistent.

use crate::failure::say;
use crate::progress::end_at_once;
use flashlab_lab::progress::Progress;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The reaction of a command to signals. The second signal always ends the process at once.
pub(crate) struct Interrupts(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    reaction: Reaction,
    is_signalled: bool,
}

/// Reaction to the first signal.
enum Reaction {
    /// The process ends at once, and removes the files that it created. Contains advice for the user, which may be empty.
    End(&'static str),
    /// The command completes, or ends at the next call of [`Interrupts::permit`].
    Defer,
    /// The work with this progress stops.
    Stop(Progress),
}

impl Default for Reaction {
    fn default() -> Reaction {
        Reaction::End("")
    }
}

impl Interrupts {
    /// Installs the handler. A signal ends the process at once, until another method is called.
    pub(crate) fn catch() -> Interrupts {
        let state = Arc::new(Mutex::new(State::default()));
        let signalled = state.clone();
        // If the handler cannot be installed, signals still end the process.
        let _ = ctrlc::set_handler(move || handle(&mut lock(&signalled)));
        Interrupts(state)
    }

    /// Lets a signal end the process at once from now on, with advice for the user that may be empty. Ends the process if
    /// a signal has come already.
    pub(crate) fn permit(&self, advice: &'static str) {
        let mut state = lock(&self.0);
        if state.is_signalled {
            end_at_once();
        }
        state.reaction = Reaction::End(advice);
    }

    /// Lets the command complete in spite of a signal from now on, because it is in the middle of a change.
    pub(crate) fn defer(&self) {
        lock(&self.0).reaction = Reaction::Defer;
    }

    /// Lets a signal stop the work of `progress` from now on. Stops the work if a signal has come already.
    pub(crate) fn stop(&self, progress: &Progress) {
        let mut state = lock(&self.0);
        state.reaction = Reaction::Stop(progress.clone());
        if state.is_signalled {
            progress.stop();
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Handles a signal. While the process ends, the lock keeps the command from another reaction.
fn handle(state: &mut State) {
    let is_second = std::mem::replace(&mut state.is_signalled, true);
    match &state.reaction {
        Reaction::Stop(progress) if !is_second => progress.stop(),
        Reaction::Defer if !is_second => {}
        Reaction::End(advice) => {
            if !advice.is_empty() {
                say(advice);
            }
            end_at_once();
        }
        _ => end_at_once(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_signal_stops_work_and_is_remembered_until_work_begins() {
        let interrupts = Interrupts(Arc::default());
        let [first, second] = [0, 1].map(|_| Progress::default());
        interrupts.stop(&first);
        handle(&mut lock(&interrupts.0));
        assert!(first.is_stopped());
        interrupts.stop(&second);
        assert!(second.is_stopped());
    }

    #[test]
    fn a_signal_during_a_change_has_no_effect_on_it() {
        let (interrupts, later) = (Interrupts(Arc::default()), Progress::default());
        interrupts.defer();
        handle(&mut lock(&interrupts.0));
        interrupts.defer();
        assert!(!later.is_stopped());
        interrupts.stop(&later);
        assert!(later.is_stopped());
    }
}
