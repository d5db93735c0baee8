//! Tests of the engine, of the probed target, and of the guards of devices and files.

mod engine;
mod in_use;
mod own_file;
mod probed;
