//! End-to-end tests of the command line: each starts the program with arguments and checks its output and files.

mod aged;
mod bad_input;
mod bytes;
mod determinism;
#[cfg(feature = "fit")]
mod diff;
mod documents;
#[cfg(feature = "fit")]
mod fit;
#[cfg(feature = "fit")]
mod fit_experiment;
#[cfg(feature = "fit")]
mod fit_foreign;
pub(crate) mod folder;
#[cfg(feature = "image")]
mod image;
mod interrupt;
mod jobs;
mod listings;
#[cfg(feature = "fit")]
mod measure;
mod output;
mod published;
#[cfg(feature = "record")]
mod record;
mod recording;
#[cfg(feature = "full")]
mod reference;
#[cfg(feature = "image")]
mod small_root;
#[cfg(feature = "sweep")]
mod sweep;
mod trace;
mod words;
