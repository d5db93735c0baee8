//! Structured logging to standard error, above the status line.

use crate::status::StatusLine;
use std::io::{self, IsTerminal, Write};
use tracing::level_filters::LevelFilter;

/// Least severe level that is logged.
pub(crate) type Level = LevelFilter;

/// Parses a level: `error`, `warn`, `info`, `debug` or `off`.
pub(crate) fn level(text: &str) -> Result<Level, String> {
    let known = ["off", "error", "warn", "info", "debug"];
    known.contains(&text).then(|| text.parse().ok()).flatten().ok_or(format!("expected {}", known.join(", ")))
}

/// Starts logging of events up to `level`.
pub(crate) fn start(level: Level, status: StatusLine) {
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_ansi(io::stderr().is_terminal())
        .with_target(false)
        .with_writer(move || StatusLineWriter(status.clone()))
        .init();
}

/// Writer to standard error that hides the status line during each write.
struct StatusLineWriter(StatusLine);

impl Write for StatusLineWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.with_line_hidden(|| io::stderr().write(bytes))
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
