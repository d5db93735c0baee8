//! End-to-end tests of the command line: each starts the program with arguments and checks its output and files.

mod aged;
mod bad_input;
mod bytes;
mod determinism;
mod diff;
mod documents;
mod fit;
mod fit_experiment;
mod fit_foreign;
mod folder;
#[cfg(feature = "image")]
mod image;
mod interrupt;
mod jobs;
mod listings;
mod measure;
mod output;
mod published;
mod record;
mod recording;
#[cfg(feature = "image")]
mod small_root;
#[cfg(feature = "sweep")]
mod sweep;
mod trace;
mod words;
