//! The passphrase of a volume, from a file, a file descriptor or a caller that asked a person.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// Length of the longest passphrase in bytes.
const LEN_MAX: usize = 4096;

/// A passphrase. It is overwritten when it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Passphrase(Zeroizing<Vec<u8>>);

impl Passphrase {
    /// Creates a passphrase from its bytes. A line feed at the end is not part of the passphrase.
    ///
    /// # Errors
    /// Returns [`PassphraseError::Empty`] or [`PassphraseError::TooLong`].
    pub fn new(bytes: &[u8]) -> Result<Passphrase, PassphraseError> {
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        if bytes.is_empty() {
            return Err(PassphraseError::Empty);
        }
        if bytes.len() > LEN_MAX {
            return Err(PassphraseError::TooLong);
        }
        Ok(Passphrase(Zeroizing::new(bytes.to_vec())))
    }

    /// Reads a passphrase from a file that only its owner can read or write.
    ///
    /// # Errors
    /// Returns [`PassphraseError::Mode`] if others have access to the file, an error of the system, or an error of
    /// [`Passphrase::new`].
    pub fn from_file(path: &Path) -> Result<Passphrase, PassphraseError> {
        let system = |error| PassphraseError::System { path: path.to_owned(), error };
        let mut file = File::open(path).map_err(system)?;
        let metadata = file.metadata().map_err(system)?;
        let (mode, is_regular) = (metadata.mode() & 0o7777, metadata.is_file());
        if mode & 0o077 != 0 {
            return Err(PassphraseError::Mode { path: path.to_owned(), mode, is_regular });
        }
        Passphrase::read(&mut file).map_err(system)?
    }

    /// Reads a passphrase from a file descriptor that the process inherited.
    ///
    /// # Errors
    /// Returns an error of the system, or an error of [`Passphrase::new`].
    pub fn from_fd(fd: u32) -> Result<Passphrase, PassphraseError> {
        let path = PathBuf::from(format!("/dev/fd/{fd}"));
        let read = File::open(&path).and_then(|mut file| Passphrase::read(&mut file));
        read.map_err(|error| PassphraseError::System { path, error })?
    }

    /// Reads to the end into a buffer that never moves, so that no copy is left behind.
    fn read(from: &mut impl Read) -> io::Result<Result<Passphrase, PassphraseError>> {
        let mut buffer = Zeroizing::new([0; LEN_MAX + 2]);
        let mut len = 0;
        while len < buffer.len() {
            match from.read(&mut buffer[len..]) {
                Ok(0) => break,
                Ok(read) => len += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Passphrase::new(&buffer[..len]))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Passphrase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Passphrase")
    }
}

/// The reason why there is no passphrase.
#[derive(Debug)]
pub enum PassphraseError {
    /// The passphrase is empty.
    Empty,
    /// The passphrase is longer than 4096 bytes.
    TooLong,
    /// Users other than the owner have access to the file.
    Mode {
        /// Path of the file.
        path: PathBuf,
        /// Permissions of the file.
        mode: u32,
        /// True for a regular file, false for a device or a pipe.
        is_regular: bool,
    },
    /// The file or descriptor cannot be read.
    System {
        /// Path of the file.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
}

impl fmt::Display for PassphraseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PassphraseError::Empty => f.write_str("the passphrase is empty"),
            PassphraseError::TooLong => write!(f, "the passphrase is longer than {LEN_MAX} bytes"),
            PassphraseError::Mode { path, mode, is_regular } => {
                let path = path.display();
                write!(f, "{path}: others can access the passphrase (mode {mode:04o}); ")?;
                match is_regular {
                    true => write!(f, "run: chmod 600 {path}"),
                    false => {
                        f.write_str("this is no regular file: put the passphrase into a file of mode 0600")
                    }
                }
            }
            PassphraseError::System { path, error } => write!(f, "{}: {error}", path.display()),
        }
    }
}

impl std::error::Error for PassphraseError {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    /// A file in the directory for temporary files, deleted at the end of the test.
    struct Temporary(PathBuf);

    impl Temporary {
        fn new(name: &str, contents: &[u8], mode: u32) -> Temporary {
            let path = std::env::temp_dir().join(format!("flashlab-{}-{name}", std::process::id()));
            fs::write(&path, contents).expect("a writable directory");
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("an own file");
            Temporary(path)
        }
    }

    impl Drop for Temporary {
        fn drop(&mut self) {
            let _ = fs::remove_file(&self.0);
        }
    }

    #[test]
    fn a_file_is_read_without_its_line_feed() {
        let file = Temporary::new("passphrase", b"correct horse\n", 0o600);
        assert_eq!(Passphrase::from_file(&file.0).expect("mode 0600").bytes(), b"correct horse");
    }

    #[test]
    fn a_file_that_others_can_read_is_refused_with_the_way_out() {
        let file = Temporary::new("open", b"secret\n", 0o640);
        let path = file.0.display().to_string();
        let error = Passphrase::from_file(&file.0).expect_err("mode 0640").to_string();
        assert_eq!(
            error,
            format!("{path}: others can access the passphrase (mode 0640); run: chmod 600 {path}")
        );
    }

    /// The mode of a device belongs to the system.
    #[test]
    fn no_other_mode_is_advised_for_a_device() {
        let error = Passphrase::from_file(Path::new("/dev/null")).expect_err("mode 0666").to_string();
        assert!(error.contains("no regular file") && !error.contains("chmod"), "{error}");
    }

    #[test]
    fn a_descriptor_is_read_to_its_end() {
        use std::os::fd::AsRawFd;
        let file = Temporary::new("descriptor", b"battery staple", 0o600);
        let open = File::open(&file.0).expect("an own file");
        let passphrase = Passphrase::from_fd(open.as_raw_fd() as u32).expect("an open descriptor");
        assert_eq!(passphrase.bytes(), b"battery staple");
        assert!(matches!(Passphrase::from_fd(1 << 20), Err(PassphraseError::System { .. })));
    }

    #[test]
    fn empty_and_endless_passphrases_are_refused() {
        assert!(matches!(Passphrase::new(b""), Err(PassphraseError::Empty)));
        assert!(matches!(Passphrase::new(b"\n"), Err(PassphraseError::Empty)));
        let endless = Passphrase::read(&mut io::repeat(b'a')).expect("no error of the system");
        assert!(matches!(endless, Err(PassphraseError::TooLong)));
        let longest = Passphrase::new(&[b'a'; LEN_MAX]).expect("the longest one");
        assert_eq!(format!("{longest:?}"), "Passphrase");
    }
}
