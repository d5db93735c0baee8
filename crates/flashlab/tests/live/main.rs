//! Served devices as people use them: through tools that nobody here wrote, and from the command line.
//!
//! A tool that is not installed is named on standard error, where the test runner cannot hide it, and its test ends
//! there. `./test` installs all of them on Debian.

mod card;
mod card_ctl;
mod card_log;
#[path = "../../../serve/tests/live/certificates.rs"]
mod certificates;
mod compose;
mod copy;
mod death;
mod file;
mod guest;
mod inspect;
mod metrics;
mod mount;
mod paths;
mod reference;
mod run;
mod serve;
mod tls;
mod tools;
mod verify;
mod vsock;
