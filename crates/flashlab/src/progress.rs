//! Progress on a terminal, nothing in a pipe; and Ctrl-C.

use crate::failure::INTERRUPTED;
use crate::file;
use flashlab_lab::experiment::Watch;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

/// From here on Ctrl-C ends the process at once, whatever it does, and no half-written file stays.
pub(crate) fn catch_interrupts() {
    // Where the handler cannot be set, Ctrl-C still ends the process.
    let _ = ctrlc::set_handler(|| {
        let mut terminal = io::stderr();
        if terminal.is_terminal() {
            // Over the bar, if there is one.
            let _ = write!(terminal, "\r\x1b[2Kflashlab: stopped\n");
        }
        file::exit_clean(INTERRUPTED.into());
    });
}

/// A bar for work of known length, or a spinner. Shows itself only on a terminal, and only if the work takes a second.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// For `length` steps of `what`.
    pub(crate) fn bar(length: u64, what: &str) -> Self {
        let style = "{msg} {bar:40} {pos}/{len} {elapsed}";
        Progress::styled(ProgressBar::hidden(), Some(length), style, what)
    }
    /// For work of unknown length.
    pub(crate) fn spinner(what: &str) -> Self {
        Progress::styled(ProgressBar::hidden(), None, "{spinner} {msg} {elapsed}", what)
    }

    fn styled(bar: ProgressBar, length: Option<u64>, style: &str, what: &str) -> Self {
        if let Some(length) = length {
            bar.set_length(length);
        }
        bar.set_style(ProgressStyle::with_template(style).expect("the templates above are well-formed"));
        bar.set_message(what.to_owned());
        let shown = bar.clone();
        // Ends with the process, or finds a bar that is finished.
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_secs(1));
            if !shown.is_finished() {
                shown.set_draw_target(ProgressDrawTarget::stderr());
                shown.enable_steady_tick(Duration::from_millis(200));
            }
        });
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
}
