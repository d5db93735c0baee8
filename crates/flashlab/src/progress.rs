//! Progress on a terminal, nothing in a pipe; and Ctrl-C.

use flashlab_lab::experiment::Watch;
use indicatif::{ProgressBar, ProgressStyle};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

static STOPPED: AtomicBool = AtomicBool::new(false);

/// From here on Ctrl-C asks work to stop; a second one ends the process at once.
pub(crate) fn catch_interrupts() {
    // Where the handler cannot be set, Ctrl-C ends the process, which leaves no half-written file either.
    let _ = ctrlc::set_handler(|| {
        if STOPPED.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    });
}

/// A bar for work of known length, or a spinner. Shows itself only on a terminal.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// For `length` steps of `what`.
    pub(crate) fn bar(length: u64, what: &str) -> Self {
        let style = "{msg} {bar:40} {pos}/{len} {elapsed}";
        Progress::styled(ProgressBar::new(length), style, what)
    }
    /// For work of unknown length.
    pub(crate) fn spinner(what: &str) -> Self {
        Progress::styled(ProgressBar::new_spinner(), "{spinner} {msg} {elapsed}", what)
    }

    fn styled(bar: ProgressBar, style: &str, what: &str) -> Self {
        bar.set_style(ProgressStyle::with_template(style).expect("the templates above are well-formed"));
        bar.set_message(what.to_owned());
        bar.enable_steady_tick(Duration::from_millis(200));
        Progress(bar)
    }
    /// One step further.
    pub(crate) fn step(&self) {
        self.0.inc(1);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

impl Watch for Progress {
    fn ran(&self) {
        self.step();
    }
    fn stopped(&self) -> bool {
        STOPPED.load(Ordering::Relaxed)
    }
}
