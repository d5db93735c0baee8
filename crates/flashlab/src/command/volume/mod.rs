//! `flashlab volume`: creates, shows, checks and changes volumes over several devices.

mod check;
mod dump;
mod format;
mod rekey;
mod scrub;
mod secret;
mod set;
mod show;
mod work;

use crate::edge::sources;
use crate::failure::{Failure, say};
use crate::interrupts::Interrupts;
use crate::progress::show_elapsed;
use clap::{Args, Subcommand};
use flashlab_block::FileError;
use flashlab_catalogue::library::Library;
use flashlab_report::quantity::size;
use flashlab_served::ServedError;
use flashlab_served::volume::{OpenPool, Pool, PoolError, open_options};
use flashlab_volume::keys::KeyError;
use flashlab_volume::{Degraded, OpenOptions, VolumeError};
#[cfg(feature = "serve")]
pub(crate) use format::find_use;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  flashlab volume format file:a.img,size=1GiB file:b.img,size=1GiB    a new volume over two new files
  flashlab volume format --replicas 2 ssd.a=/dev/sdb ssd.b=/dev/sdc   two copies of everything
  flashlab volume format --encrypt --compression lz4 /dev/sdb         asks for a passphrase
  flashlab serve volume:a.img:b.img --unix disk.sock                  the volume over NBD
  flashlab serve volume:/dev/sdb,passphrase-file=secret               an encrypted one
  flashlab volume show a.img:b.img
  flashlab volume check a.img:b.img
  flashlab volume format --foreground ssd --promote ssd --background hdd --background-compression zstd:15 \\
      ssd.a=/dev/nvme0n1p4 hdd.a=/dev/sdb hdd.b=/dev/sdc                new data on the SSD, old data on the disks
  flashlab volume add a.img:b.img hdd.c=file:c.img,size=1GiB
  flashlab volume remove a.img:b.img:c.img 0
  flashlab volume rekey /dev/sdb                                      asks for the old and the new passphrase

docs/volume.md is an introduction.";

#[derive(Subcommand)]
pub(crate) enum Volume {
    /// Makes one device of several: a copy-on-write volume with checksums.
    ///
    /// `flashlab serve volume:A:B` serves the volume.
    Volume(Options),
}

impl Volume {
    pub(crate) fn run(&self, library: &Library) -> Result<ExitCode, Failure> {
        let Volume::Volume(options) = self;
        let interrupts = &Interrupts::catch();
        match &options.action {
            Action::Format(options) => format::run(options, library, interrupts),
            Action::Show(options) => show::run(options, library),
            Action::Check(name) => check::run(name, library),
            Action::Dump(name) => dump::run(name, library),
            Action::Rekey(options) => rekey::run(options, library, interrupts),
            Action::Set(options) => set::set(options, library, interrupts),
            Action::Add(options) => set::add(options, library, interrupts),
            Action::Remove(options) => set::remove(options, library, interrupts),
            Action::Evacuate(options) => set::evacuate(options, library, interrupts),
            Action::Reconcile(options) => scrub::reconcile(options, library, interrupts),
            Action::Scrub(options) => scrub::run(options, library, interrupts),
        }
    }
}

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Makes devices the members of a new volume. Their contents are lost.
    Format(format::Options),
    /// Shows the size and the use of a volume and of its members.
    Show(show::Options),
    /// Reads and verifies every structure and every copy of the data. Changes nothing.
    ///
    /// Ends with 0 if the volume is sound, and with 1 if there are findings.
    Check(Name),
    /// Prints the superblocks of the members, and their journals and maps.
    ///
    /// The command recovers nothing. It shows as much as it can of a damaged volume.
    Dump(dump::Options),
    /// Changes the passphrase of an encrypted volume, and overwrites every copy of the old wrapped key.
    Rekey(rekey::Options),
    /// Changes options of a volume that is not in use: copies, compression, targets, size, and labels and states of members.
    ///
    /// `flashlab ctl SOCKET set`, `add`, `remove`, `evacuate`, `rekey` and `scrub` change a volume that is served.
    Set(set::Set),
    /// Makes a device another member of a volume that is not in use. The contents of the device are lost.
    Add(set::Add),
    /// Moves all data of a member to other members, and removes the member. The volume must not be in use.
    Remove(set::Member),
    /// Moves all data of a member to other members. The volume must not be in use. Ends with 1 if some of the
    /// data cannot move.
    Evacuate(set::Member),
    /// Does the background work of a volume that is not in use: copies, moves to the background target, compression.
    /// Ends with 1 if some of it cannot be done.
    Reconcile(scrub::Options),
    /// Reads every copy of a volume that is not in use, and repairs bad ones from good ones. Ends with 1 if data is
    /// lost, or if a copy stays bad or unreadable.
    Scrub(scrub::Options),
}

/// An existing volume.
#[derive(Args)]
struct Name {
    /// The members, separated by colons, or a TOML file with a list of them.
    #[arg(value_name = "A.IMG:B.IMG")]
    volume: String,
    #[command(flatten)]
    secret: secret::Secret,
    /// Opens a volume although members are missing, unreadable or stale: never (refuse), if all data has a
    /// copy on the other members (yes), or even if data is missing (very).
    #[arg(long, value_name = "RULE", default_value = "refuse")]
    degraded: Degraded,
}

impl Name {
    fn pool(&self) -> Result<Pool, Failure> {
        pool(&self.volume)
    }

    fn open_read_only(&self, library: &Library) -> Result<OpenPool, Failure> {
        self.open(true, library)
    }

    /// Opens the volume. Asks for the passphrase of an encrypted volume if no option names it.
    fn open(&self, read_only: bool, library: &Library) -> Result<OpenPool, Failure> {
        let pool = self.pool()?;
        let degraded = self.degraded;
        let open = |passphrase| -> Result<_, Failure> {
            let options = OpenOptions { passphrase, degraded, ..open_options(read_only)? };
            Ok(show_elapsed("opening the volume", || pool.open(1, options, sources(library))))
        };
        match open(self.secret.read()?)? {
            Err(ServedError::Volume(PoolError {
                error: VolumeError::Key(KeyError::NotAvailable), ..
            })) => Ok(open(Some(secret::prompt("passphrase: ")?))??),
            Err(error @ (ServedError::File(FileError::Locked(_)) | ServedError::InUse(_))) => {
                say(&error);
                Err(Failure::usage(
                    "a served volume takes its changes through its control socket: flashlab ctl SOCKET set replicas=2, and \
                     add, remove, online, evacuate, state, rekey and scrub in the same way"
                        .to_owned(),
                ))
            }
            opened => Ok(opened?),
        }
    }
}

fn pool(volume: &str) -> Result<Pool, Failure> {
    Ok(Pool::parse(volume.strip_prefix("volume:").unwrap_or(volume))?)
}
