//! Tests of the program, one module per subject.

mod cli;
mod live;
#[cfg(feature = "web")]
mod web;
