//! The passphrase of a volume: from a file, a file descriptor, or a person at the terminal.

use crate::failure::Failure;
use clap::Args;
use flashlab_volume::keys::Passphrase;
use std::io::IsTerminal;
use std::path::PathBuf;
use zeroize::Zeroizing;

/// Source of the passphrase of a volume.
#[derive(Args)]
pub(super) struct Secret {
    /// Reads the passphrase from a file that only its owner can access (chmod 600).
    #[arg(long, value_name = "FILE", conflicts_with = "passphrase_fd")]
    passphrase_file: Option<PathBuf>,
    /// Reads the passphrase from an open file descriptor.
    #[arg(long, value_name = "N")]
    passphrase_fd: Option<u32>,
}

impl Secret {
    /// Returns the option that names a source; `None` without one.
    pub(super) fn option(&self) -> Option<&'static str> {
        match (&self.passphrase_file, self.passphrase_fd) {
            (Some(_), _) => Some("--passphrase-file"),
            (None, Some(_)) => Some("--passphrase-fd"),
            (None, None) => None,
        }
    }

    /// Returns the passphrase of a named source; `None` without one.
    pub(super) fn read(&self) -> Result<Option<Passphrase>, Failure> {
        match (&self.passphrase_file, self.passphrase_fd) {
            (Some(path), _) => Passphrase::from_file(path).map(Some).map_err(Failure::usage),
            (None, Some(fd)) => Passphrase::from_fd(fd).map(Some).map_err(Failure::usage),
            (None, None) => Ok(None),
        }
    }

    /// Returns the passphrase for a new volume. Without a source, a person types it twice.
    pub(super) fn read_new(&self) -> Result<Passphrase, Failure> {
        if let Some(passphrase) = self.read()? {
            return Ok(passphrase);
        }
        prompt_twice(OPTIONS)
    }
}

/// Source of the passphrase that replaces another one.
#[derive(Args)]
pub(super) struct NewSecret {
    /// Reads the new passphrase from a file that only its owner can access (chmod 600).
    #[arg(long, value_name = "FILE", conflicts_with = "new_passphrase_fd")]
    new_passphrase_file: Option<PathBuf>,
    /// Reads the new passphrase from an open file descriptor.
    #[arg(long, value_name = "N")]
    new_passphrase_fd: Option<u32>,
}

impl NewSecret {
    /// Returns the new passphrase. Without a source, a person types it twice.
    pub(super) fn read(&self) -> Result<Passphrase, Failure> {
        match (&self.new_passphrase_file, self.new_passphrase_fd) {
            (Some(path), _) => Passphrase::from_file(path).map_err(Failure::usage),
            (None, Some(fd)) => Passphrase::from_fd(fd).map_err(Failure::usage),
            (None, None) => prompt_twice("--new-passphrase-file or --new-passphrase-fd"),
        }
    }
}

/// Options that give the passphrase of a volume.
const OPTIONS: &str = "--passphrase-file or --passphrase-fd";

/// Asks a person twice for a new passphrase. `options` names the options that give the passphrase without a
/// terminal.
fn prompt_twice(options: &str) -> Result<Passphrase, Failure> {
    let first = ask("new passphrase: ", options)?;
    if ask("the same again: ", options)? != first {
        return Err(Failure::usage("the two passphrases differ"));
    }
    Ok(first)
}

/// Asks a person for the passphrase of a volume.
pub(super) fn prompt(question: &str) -> Result<Passphrase, Failure> {
    ask(question, OPTIONS)
}

fn ask(question: &str, options: &str) -> Result<Passphrase, Failure> {
    if !std::io::stdin().is_terminal() {
        return Err(Failure::usage(format!(
            "required key not available: give the passphrase with {options}"
        )));
    }
    let terminal = console::Term::stderr();
    let ask = terminal.write_str(question).and_then(|()| terminal.read_secure_line());
    let line = Zeroizing::new(ask.map_err(|error| Failure::system("the terminal", &error))?);
    Passphrase::new(line.as_bytes()).map_err(Failure::usage)
}
