//! Tests of recorded runs.
#![forbid(unsafe_code)]

mod device;
mod replay;
