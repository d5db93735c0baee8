//! `flashlab volume rekey`.

use super::format::kdf;
use super::secret::NewSecret;
use super::{Name, work};
use crate::failure::Failure;
use crate::file;
use clap::Args;
use flashlab_block::Context;
use flashlab_catalogue::library::Library;
use flashlab_served::volume::{failed_rekey, note_on_removed, random};
use flashlab_served::wait::wait_on;
use flashlab_sim::Instant;
use flashlab_volume::Volume;
use flashlab_volume::keys::Kdf;
use std::process::ExitCode;

#[derive(Args)]
pub(super) struct Options {
    #[command(flatten)]
    name: Name,
    #[command(flatten)]
    new: NewSecret,
    /// Function that derives a key from the new passphrase: argon2id or scrypt.
    #[arg(long, value_name = "NAME", default_value = "argon2id", value_parser = kdf)]
    kdf: Kdf,
}

pub(super) fn run(options: &Options, library: &Library) -> Result<ExitCode, Failure> {
    let pool = options.name.open(false, library)?;
    work::close_after(&pool, rekey(options, &pool.volume))?;
    file::print(&format!("the volume has a new passphrase{}\n", note_on_removed(&pool.volume)))?;
    Ok(ExitCode::SUCCESS)
}

fn rekey(options: &Options, volume: &Volume) -> Result<(), Failure> {
    let passphrase = options.new.read()?;
    let cx = Context::new(Instant::ZERO);
    let done = wait_on(volume.rekey(&cx, &passphrase, options.kdf, random()?), volume);
    done.map_err(|error| Failure::failed(failed_rekey(&error)))
}
