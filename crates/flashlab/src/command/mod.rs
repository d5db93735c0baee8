//! One file a command.

pub(crate) mod bench;
pub(crate) mod compare;
pub(crate) mod explain;
pub(crate) mod list;
pub(crate) mod run;
