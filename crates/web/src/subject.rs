//! The [`Subject`] trait: the thing that the page shows and changes.

use std::time::Duration;

/// Reason why a command does not apply, for the user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refused(pub String);

/// The thing that the page shows and changes. One thread makes all calls.
pub trait Subject: Send {
    /// Reports that `wall` of wall-clock time has passed.
    fn pass(&mut self, _wall: Duration) {}
    /// Does a small part of the pending work. Returns true if more is pending.
    fn work(&mut self) -> bool {
        false
    }
    /// Ends the interval since the last call and returns the state for the event streams as JSON. The server sends it
    /// if it has changed. Returns `None` if there is no page.
    fn tick(&mut self) -> Option<String>;
    /// Returns the whole state as JSON, with its history, for a page that opens.
    fn state(&mut self) -> String;
    /// Executes a command.
    ///
    /// # Errors
    /// Returns the reason if the command does not apply.
    fn execute(&mut self, command: &serde_json::Value) -> Result<(), Refused>;
    /// Returns metrics in the text format of Prometheus; `None` if the subject has none.
    fn metrics(&mut self) -> Option<String> {
        None
    }
    /// Returns true if the subject has a page; otherwise only its metrics are served.
    fn has_page(&self) -> bool {
        true
    }
}
