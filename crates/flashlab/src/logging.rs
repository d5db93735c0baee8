//! Structured logging to standard error, around the status line.

use crate::status::StatusLine;
use std::io::{self, IsTerminal, Write};
use tracing::level_filters::LevelFilter;

/// What is told.
pub(crate) type Level = LevelFilter;

/// `error`, `warn`, `info`, `debug` or `off`.
pub(crate) fn level(text: &str) -> Result<Level, String> {
    let known = ["off", "error", "warn", "info", "debug"];
    known.contains(&text).then(|| text.parse().ok()).flatten().ok_or(format!("expected {}", known.join(", ")))
}

/// From here on events are told.
pub(crate) fn start(level: Level, status: StatusLine) {
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_ansi(io::stderr().is_terminal())
        .with_target(false)
        .with_writer(move || Above(status.clone()))
        .init();
}

/// Writes above the status line.
struct Above(StatusLine);

impl Write for Above {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.hidden(|| io::stderr().write(bytes))
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
