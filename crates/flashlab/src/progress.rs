//! Progress on standard error for every command that may take longer than a second, and the handling of Ctrl-C.
//!
//! On a terminal, a bar appears after one second. Without a terminal, a line is printed every ten seconds. The bar and
//! the lines contain the same figures: percentage, simulated time, time left. One thread per piece of work reads the
//! [`Progress`] that the simulation writes; results do not depend on that thread.

use crate::failure::{INTERRUPTED, say};
use crate::file;
use flashlab_lab::progress::Progress;
use flashlab_report::quantity::span;
use flashlab_served::time_left::{percent, seconds, time_left};
use flashlab_sim::Duration as Simulated;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{self, IsTerminal, Write};
use std::ops::Deref;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Installs a handler for Ctrl-C, SIGTERM and SIGHUP that removes temporary files and folders and ends the process.
pub(crate) fn catch_interrupts() {
    // If the handler cannot be installed, Ctrl-C still ends the process.
    let _ = ctrlc::set_handler(|| end_at_once());
}

/// Installs a handler for Ctrl-C, SIGTERM and SIGHUP: the first signal stops the work of `progress`, and the
/// second one ends the process. After the first signal, the command may use the results so far.
pub(crate) fn stop_on_interrupt(progress: &Progress) {
    let progress = progress.clone();
    let _ = ctrlc::set_handler(move || {
        if progress.is_stopped() {
            end_at_once();
        }
        progress.stop();
    });
}

/// Removes temporary files and folders and the new files that the command has not kept, and ends the process.
pub(crate) fn end_at_once() -> ! {
    let mut terminal = io::stderr();
    if terminal.is_terminal() {
        // Overwrites the bar, if there is one.
        let _ = write!(terminal, "\r\x1b[2Kflashlab: stopped\n");
    }
    file::exit_clean(INTERRUPTED.into());
}

/// Display of the progress of a piece of work, removed on drop.
pub(crate) struct ProgressDisplay {
    progress: Progress,
    /// Flag that is set once the work has ended, and the condition variable that signals the change.
    finished: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl ProgressDisplay {
    /// Starts the display. `title` names the command and its object.
    pub(crate) fn new(title: impl Into<String>) -> ProgressDisplay {
        let progress = Progress::default();
        let finished = Arc::new((Mutex::new(false), Condvar::new()));
        let (title, shown, signal) = (title.into(), progress.clone(), finished.clone());
        let thread = std::thread::Builder::new().spawn(move || show(&title, &shown, &signal)).ok();
        ProgressDisplay { progress, finished, thread }
    }
}

impl Deref for ProgressDisplay {
    type Target = Progress;
    fn deref(&self) -> &Progress {
        &self.progress
    }
}

impl Drop for ProgressDisplay {
    fn drop(&mut self) {
        let (finished, changed) = &*self.finished;
        *finished.lock().unwrap_or_else(PoisonError::into_inner) = true;
        changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has already printed its message.
            let _ = thread.join();
        }
        self.progress.take_news().into_iter().for_each(say);
    }
}

/// Runs `work`, whose length is unknown, such as reading a large state, and shows the elapsed time.
pub(crate) fn show_elapsed<T>(title: impl Into<String>, work: impl FnOnce() -> T) -> T {
    let _display = ProgressDisplay::new(title);
    work()
}

/// Delay before the bar appears on a terminal.
const BAR_DELAY: Duration = Duration::from_secs(1);
/// Interval between two updates of the bar.
const TICK: Duration = Duration::from_millis(200);
/// Interval between two lines without a terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

fn show(title: &str, progress: &Progress, (finished, changed): &(Mutex<bool>, Condvar)) {
    let bar = ProgressBar::with_draw_target(Some(1_000), ProgressDrawTarget::hidden());
    bar.set_style(ProgressStyle::with_template("{bar:30} {msg}").expect("the template is well-formed"));
    let (terminal, mut lines) = (io::stderr().is_terminal(), 0);
    let mut finished = finished.lock().unwrap_or_else(PoisonError::into_inner);
    while !*finished {
        (finished, _) = changed.wait_timeout(finished, TICK).unwrap_or_else(PoisonError::into_inner);
        let elapsed = bar.elapsed();
        let news = progress.take_news();
        bar.suspend(|| news.into_iter().for_each(say));
        if *finished || (terminal && elapsed < BAR_DELAY) {
            continue;
        }
        let now = Snapshot::of(progress, elapsed);
        if terminal {
            bar.set_draw_target(ProgressDrawTarget::stderr());
            bar.set_position((now.share.unwrap_or(0.0) * 1e3) as u64);
            bar.set_message(now.line(title));
        } else if lines_due(elapsed) > lines {
            lines = lines_due(elapsed);
            say(now.line(title));
        }
    }
    bar.finish_and_clear();
}

fn lines_due(elapsed: Duration) -> u64 {
    elapsed.as_secs() / LINE_INTERVAL.as_secs()
}

/// Progress of a piece of work at one instant.
struct Snapshot {
    share: Option<f64>,
    simulated: Simulated,
    phase: String,
    elapsed: Duration,
}

impl Snapshot {
    fn of(progress: &Progress, elapsed: Duration) -> Snapshot {
        let (share, simulated) = (progress.share(), progress.simulated());
        Snapshot { share, simulated, phase: progress.phase(), elapsed }
    }

    /// Formats a line: `sd-cards: 40 %, 3.21 h simulated, 12 s left (raw write 1M/kioxia)`.
    fn line(&self, title: &str) -> String {
        let mut parts = Vec::new();
        match self.share {
            Some(share) => parts.push(percent(share)),
            None => parts.push(format!("{} so far", seconds(self.elapsed.as_secs_f64()))),
        }
        if self.simulated > Simulated::ZERO {
            parts.push(format!("{} simulated", span(self.simulated)));
        }
        parts.extend(self.share.and_then(|share| time_left(share, self.elapsed)));
        let phase = if self.phase.is_empty() { String::new() } else { format!(" ({})", self.phase) };
        format!("{title}: {}{phase}", parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(share: Option<f64>, simulated: Simulated, phase: &str, seconds: u64) -> String {
        let elapsed = Duration::from_secs(seconds);
        Snapshot { share, simulated, phase: phase.to_owned(), elapsed }.line("hmb")
    }

    #[test]
    fn a_line_shows_percentage_simulated_time_and_time_left() {
        let hours = Simulated::from_secs(3 * 3_600);
        assert_eq!(
            line(Some(0.25), hours, "randread 1 GiB/off", 50),
            "hmb: 25 %, 3.00 h simulated, 2 min 30 s left (randread 1 GiB/off)"
        );
        assert_eq!(line(Some(0.001), Simulated::ZERO, "", 20), "hmb: 0 %");
        assert_eq!(line(Some(0.999), hours, "", 7_200), "hmb: 99 %, 3.00 h simulated, 8 s left");
        assert_eq!(line(None, Simulated::ZERO, "", 4_000), "hmb: 1 h 6 min so far");
    }

    #[test]
    fn lines_are_due_every_ten_seconds() {
        let due: Vec<u64> = [0, 9, 10, 19, 20, 100].map(|s| lines_due(Duration::from_secs(s))).to_vec();
        assert_eq!(due, [0, 0, 1, 1, 2, 10]);
    }
}
