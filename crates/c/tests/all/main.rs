//! The library from C: programs that are compiled with the header, linked with the library and run.

mod build;
mod header;
mod programs;
