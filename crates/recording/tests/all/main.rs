//! Tests of recorded runs.
#![forbid(unsafe_code)]

mod device;
mod format;
mod import;
mod replay;
