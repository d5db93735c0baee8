//! Tests of recorded runs.
#![forbid(unsafe_code)]

mod capture;
mod device;
mod format;
mod import;
mod replay;
