//! Tests of USB devices and of the protocols that carry them, one module per subject.

mod common;
mod mass_storage;
mod quirks;
mod usbip;
mod usbredir;
mod vub300;
