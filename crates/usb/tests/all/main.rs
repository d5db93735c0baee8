//! Tests of the USB adapter and its protocols, one module per subject.

mod common;
mod usbip;
mod usbredir;
mod vub300;
