//! Tests of the USB adapter and its protocols, one module per subject.

mod common;
mod mass_storage;
mod quirks;
mod usbip;
mod usbredir;
mod vub300;
