//! Tests of SD cards, one module per subject.

mod batch;
mod bus;
mod cached;
mod card;
mod clients;
mod kept;
mod mechanisms;
mod model;
mod power_cut;
mod queued;
