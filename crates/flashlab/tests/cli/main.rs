//! The program as people use it: started with arguments, watched from outside.

mod aged;
mod bad_input;
mod bytes;
mod desk;
mod determinism;
mod interrupt;
mod jobs;
mod listings;
mod output;
mod published;
mod trace;
mod words;
