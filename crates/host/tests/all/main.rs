//! Tests of the host software, one module per subject.

mod cache;
mod common;
mod merging;
mod mmc_model;
mod mmc_recovery;
mod mmc_stack;
mod page_cache;
mod prepare;
mod queued;
mod usb;
mod vfat_requests;
