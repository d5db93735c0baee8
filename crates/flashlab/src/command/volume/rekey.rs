//! `flashlab volume rekey`.

use super::format::kdf;
use super::secret::NewSecret;
use super::{Name, work};
use crate::failure::Failure;
use crate::file;
use crate::interrupts::Interrupts;
use crate::progress::show_elapsed;
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

pub(super) fn run(
    options: &Options,
    library: &Library,
    interrupts: &Interrupts,
) -> Result<ExitCode, Failure> {
    let pool = options.name.open(false, library)?;
    work::close_after(&pool, rekey(options, &pool.volume, interrupts))?;
    file::print(&format!("the volume has a new passphrase{}\n", note_on_removed(&pool.volume)))?;
    Ok(ExitCode::SUCCESS)
}

fn rekey(options: &Options, volume: &Volume, interrupts: &Interrupts) -> Result<(), Failure> {
    let passphrase = options.new.read()?;
    // Without all of the members, the old passphrase would still open the volume.
    interrupts.defer();
    let (cx, salt) = (Context::new(Instant::ZERO), random()?);
    let done = show_elapsed("rekey", || wait_on(volume.rekey(&cx, &passphrase, options.kdf, salt), volume));
    done.map_err(|error| Failure::failed(failed_rekey(&error)))
}
