//! What a live server shows while it serves: one line on a terminal, nothing in a pipe; and how signals end it.

use crate::failure::say;
use flashlab_serve::{Count, Counted, Counters, Stop};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::sync::Arc;
use std::time::Duration;

/// How often the line is brought up to date.
const TICK: Duration = Duration::from_secs(1);

/// From here on SIGTERM, SIGHUP and Ctrl-C end the server in order; a second one ends the process.
pub(crate) fn end_on_signals(stop: &Stop) {
    let stop = stop.clone();
    // Where the handler cannot be set, signals still end the process.
    let _ = ctrlc::set_handler(move || {
        if stop.is_thrown() {
            crate::file::exit_clean(crate::failure::INTERRUPTED.into());
        }
        stop.throw();
    });
}

/// The line. Clones are the same line.
#[derive(Clone)]
pub(crate) struct StatusLine(ProgressBar);

impl StatusLine {
    /// Not shown yet.
    pub(crate) fn new() -> StatusLine {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        bar.set_style(ProgressStyle::with_template("{msg}").expect("the template is well-formed"));
        StatusLine(bar)
    }

    /// Clients can connect at `uri`; `alone`: nothing else writes to the terminal.
    pub(crate) fn serving(&self, uri: &str, counters: &Arc<Counters>, alone: bool) {
        if !alone || !console_is_there() {
            return;
        }
        say(format_args!("serving {uri}"));
        self.0.set_draw_target(ProgressDrawTarget::stderr());
        let (bar, counters) = (self.0.clone(), counters.clone());
        // Ends with the process, or finds a line that is finished.
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

    /// Does something that writes to the terminal, without the line in its way.
    pub(crate) fn hidden<T>(&self, what: impl FnOnce() -> T) -> T {
        self.0.suspend(what)
    }

    /// Takes the line away.
    pub(crate) fn finish(&self) {
        self.0.finish_and_clear();
    }
}

fn console_is_there() -> bool {
    std::io::IsTerminal::is_terminal(&std::io::stderr())
}

/// What is open now, and what was done in the last second.
fn line(now: &Counted, second: &Counted) -> String {
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
        let none = Counted::default();
        assert_eq!(line(&none, &none), "connections 0   read 0 IOPS, 0.0 MiB/s   write 0 IOPS, 0.0 MiB/s");
    }
}
