//! Status line of a live server, and its reaction to signals.
//!
//! The status line appears on a terminal only; a pipe gets no status.

use crate::failure::say;
use flashlab_serve::{Count, CounterValues, Counters, Stop};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Interval between two updates of the line.
const TICK: Duration = Duration::from_secs(1);

/// Installs a handler for SIGTERM, SIGHUP and Ctrl-C: the first signal shuts the server down cleanly, the second one
/// ends the process.
pub(crate) fn end_on_signals(stop: &Stop) {
    let stop = stop.clone();
    // If the handler cannot be installed, signals still end the process.
    let _ = ctrlc::set_handler(move || {
        if stop.is_thrown() {
            crate::file::exit_clean(crate::failure::INTERRUPTED.into());
        }
        stop.throw();
    });
}

/// Handle of the status line. Clones refer to the same line.
#[derive(Clone)]
pub(crate) struct StatusLine {
    bar: ProgressBar,
    uri: Arc<OnceLock<String>>,
}

impl StatusLine {
    /// Returns a line that is not shown yet.
    pub(crate) fn new() -> StatusLine {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        bar.set_style(ProgressStyle::with_template("{msg}").expect("the template is well-formed"));
        StatusLine { bar, uri: Arc::default() }
    }

    /// Returns the URI at which clients can connect, once they can.
    pub(crate) fn uri(&self) -> Option<&str> {
        self.uri.get().map(String::as_str)
    }

    /// Prints `uri`, at which clients can connect, and shows the line. Does neither if standard error is not
    /// a terminal, or if `alone` is false because another program writes to the terminal.
    pub(crate) fn serving(&self, uri: &str, counters: &Arc<Counters>, alone: bool) {
        let _ = self.uri.set(uri.to_owned()); // only the first address appears in messages
        if !alone || !is_terminal() {
            return;
        }
        say(format_args!("serving {uri}"));
        self.bar.set_draw_target(ProgressDrawTarget::stderr());
        let (bar, counters) = (self.bar.clone(), counters.clone());
        // The thread ends with the process, or once the line is finished.
        std::thread::spawn(move || {
            let mut before = counters.read();
            while !bar.is_finished() {
                let now = counters.read();
                bar.set_message(line(&now, &now.since(&before)));
                before = now;
                std::thread::sleep(TICK);
            }
        });
    }

    /// Hides the line while `write` writes to the terminal.
    pub(crate) fn with_line_hidden<T>(&self, write: impl FnOnce() -> T) -> T {
        self.bar.suspend(write)
    }

    /// Removes the line.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

fn is_terminal() -> bool {
    std::io::IsTerminal::is_terminal(&std::io::stderr())
}

/// Formats the open connections and the throughput of the last second.
fn line(now: &CounterValues, second: &CounterValues) -> String {
    let way = |requests, bytes| {
        let mib = second.get(bytes) as f64 / f64::from(1 << 20);
        format!("{} IOPS, {mib:.1} MiB/s", second.get(requests))
    };
    let mut line = format!(
        "connections {}   read {}   write {}",
        now.connections(),
        way(Count::Reads, Count::ReadBytes),
        way(Count::Writes, Count::WriteBytes),
    );
    if now.get(Count::Errors) > 0 {
        line.push_str(&format!("   errors {}", now.get(Count::Errors)));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_server_says_so_in_one_line() {
        let none = CounterValues::default();
        assert_eq!(line(&none, &none), "connections 0   read 0 IOPS, 0.0 MiB/s   write 0 IOPS, 0.0 MiB/s");
    }
}
