//! Tests of recorded runs.
#![forbid(unsafe_code)]

mod blktrace;
mod capture;
mod device;
mod format;
mod import;
mod iolog;
mod job;
mod null_blk;
mod replay;
