//! End-to-end tests of served devices, with third-party tools and from the command line.
//!
//! If a tool is not installed, its test prints the tool's name to standard error, past the test runner's capture, and
//! ends. `./test` installs all tools on Debian.

mod card;
mod card_ctl;
mod card_log;
#[path = "../../../../serve/tests/live/certificates.rs"]
mod certificates;
mod compose;
mod copy;
mod death;
#[cfg(feature = "image")]
mod directory;
mod file;
mod guest;
mod inspect;
mod measure;
mod metrics;
mod mount;
mod paths;
mod reference;
mod run;
mod serve;
mod stick;
#[cfg(feature = "image")]
mod stick_boot;
mod tls;
pub(crate) mod tools;
mod verify;
#[cfg(feature = "volume")]
mod volume;
#[cfg(feature = "volume")]
mod volume_bench;
#[cfg(feature = "volume")]
mod volume_cuts;
#[cfg(feature = "volume")]
mod volume_messages;
#[cfg(feature = "volume")]
mod volume_nbd;
#[cfg(feature = "volume")]
mod volume_new_files;
#[cfg(feature = "volume")]
mod volume_served;
#[cfg(feature = "volume")]
mod volume_stopped;
mod vsock;
