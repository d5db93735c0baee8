//! Tests of the engine and of its guards.

mod engine;
mod in_use;
mod own_file;
mod probed;
