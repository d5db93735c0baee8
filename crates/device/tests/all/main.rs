//! Tests of devices by name.

mod cards;
mod power;
mod requests;
