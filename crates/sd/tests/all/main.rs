//! Tests of SD cards, one module per subject.

mod batch;
mod bus;
mod cached;
mod card;
mod clients;
mod mechanisms;
mod model;
mod power_cut;
mod queued;
mod state_files;
