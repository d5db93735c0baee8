//! The commands that serve devices, control a server, and generate load on a server.

use super::{ctl, load, serve};
use crate::failure::Failure;
use clap::Subcommand;
use flashlab_catalogue::library::Library;
use std::process::ExitCode;

#[derive(Subcommand)]
pub(crate) enum Server {
    /// Serves devices as real block devices over NBD, for Linux, QEMU, fio or nbdcopy.
    Serve(Box<serve::Options>),
    /// Controls a running server: statistics, wear, power cuts, faults.
    Ctl(ctl::Options),
    /// Generates load on any NBD server: keeps many requests in flight, counts and times them.
    Load(load::Options),
}

impl Server {
    pub(crate) fn run(&self, library: &Library) -> Result<ExitCode, Failure> {
        match self {
            Server::Serve(options) => serve::run(options, library),
            Server::Ctl(options) => ctl::run(options),
            Server::Load(options) => load::run(options),
        }
    }
}
