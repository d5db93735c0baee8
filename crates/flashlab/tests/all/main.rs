//! Tests of the program, one module per subject.

mod cli;
mod live;
mod picture;
#[cfg(feature = "web")]
mod web;
