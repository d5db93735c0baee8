//! Tests of job files, workloads and output, one module per subject.

mod output;
mod parse_any;
mod parse_errors;
mod parse_installed;
mod parse_jobs;
mod streams;
