//! One file a command.

pub(crate) mod age;
pub(crate) mod bench;
pub(crate) mod compare;
mod control;
pub(crate) mod ctl;
pub(crate) mod explain;
pub(crate) mod jobs;
pub(crate) mod list;
pub(crate) mod load;
pub(crate) mod manual;
mod metrics;
pub(crate) mod run;
pub(crate) mod serve;
mod tls;
pub(crate) mod trace;
mod usb;
mod usb_control;
