//! Tests of the catalogue, one module per subject.

mod hmb_closed_form;
mod profile_devices;
mod profile_errors;
mod profiles;
mod ssd_arguments;
mod sticks;
