//! The state of a device in a file. `flashlab age` and `flashlab serve` write it, and the argument `state=FILE`
//! restores it.
//!
//! | bytes | content |
//! |---|---|
//! | 8 | `flashlab` |
//! | 4 | format version, little endian |
//! | 4 | length of the header in bytes, little endian |
//! | ... | header, in postcard: [`Header`] |
//! | ... | saved state of the model or card, as one LZ4 frame |
//! | 32 | SHA-256 of all bytes before it |
//!
//! In the saved copy of a device, all array operations are finished and the clocks are reset. Saving does not
//! change the device itself.
//!
//! The header lists every number that the state depends on. If a profile has changed since, the error
//! therefore names the numbers that differ. A state can be restored only to a device with the numbers that it
//! was saved with. Only the state of an SSD also depends on the numbers of the host, because the host lends
//! memory to the drive. Invalid bytes cause an error, never a panic. Reading takes at most the memory for the
//! file and for the size that its header announces.

use super::{Device, SourcedNumber};
use flashlab_sim::{Duration, Model};
use lz4_flex::frame::{FrameDecoder, FrameEncoder};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

const MAGIC: &[u8; 8] = b"flashlab";
const VERSION: u32 = 14;
const PREFIX: usize = MAGIC.len() + 4 + 4;
const CHECKSUM: usize = 32;
/// Limit for the header in bytes. A header holds a few hundred short texts at most.
const HEADER_BYTES_MAX: usize = 1 << 20;
/// Limit in bytes for the file after its prefix, and for the state without compression. The state of a 1 TiB device
/// takes 3 GiB.
const STATE_BYTES_MAX: u64 = 16 << 30;

/// The saved state of a used device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct State {
    /// Path of the file, for messages.
    pub file: String,
    /// The argument that selected the device: `sd/kingston:flash.t_prog=250us`.
    pub device: String,
    /// Version of flashlab that saved the state.
    pub version: String,
    /// Seed of the medium.
    pub seed: u64,
    /// Simulated time for which the device was used.
    pub used: Duration,
    /// True if the device was served, so that files with its data are stored beside the state file.
    pub has_bytes: bool,
    /// Numbers that the state depends on: path and value, in the order of the parameter table.
    numbers: Vec<(String, String)>,
    pub(super) model: Vec<u8>,
}

/// The header of a state file.
#[derive(Serialize, Deserialize)]
struct Header {
    version: String,
    device: String,
    numbers: Vec<(String, String)>,
    seed: u64,
    used: Duration,
    has_bytes: bool,
    /// Bytes of the model's state before compression.
    bytes: u64,
}

impl State {
    /// Saves `model`, which has no requests in flight. The model is that of `device` with the medium of
    /// [`Device::medium_seed`] of `seed`, after simulated use for the time `used`.
    pub fn save(device: &Device, seed: u64, used: Duration, model: &dyn Model) -> Result<State, StateError> {
        State::of(device, seed, used, model.save())
    }

    /// Builds a state from the saved bytes of a model or a card.
    pub fn of(
        device: &Device,
        seed: u64,
        used: Duration,
        saved: Option<Vec<u8>>,
    ) -> Result<State, StateError> {
        let unsupported = || StateError::SaveUnsupported { device: device.argument.clone() };
        Ok(State {
            file: String::new(),
            device: device.argument.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            seed: device.state.as_ref().map_or(seed, |state| state.seed),
            used,
            has_bytes: false,
            numbers: numbers(device),
            model: saved.ok_or_else(unsupported)?,
        })
    }

    /// Returns the state with a mark that data files are stored beside the state file.
    #[must_use]
    pub fn with_bytes(self) -> State {
        State { has_bytes: true, ..self }
    }

    /// Serialises the state in the format of the file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let header = Header {
            version: self.version.clone(),
            device: self.device.clone(),
            numbers: self.numbers.clone(),
            seed: self.seed,
            used: self.used,
            has_bytes: self.has_bytes,
            bytes: self.model.len() as u64,
        };
        let header = postcard::to_allocvec(&header).expect("texts and integers serialise to memory");
        let mut bytes = Vec::with_capacity(PREFIX + header.len() + self.model.len() / 2 + CHECKSUM);
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(u32::try_from(header.len()).expect("a header is short").to_le_bytes());
        bytes.extend(header);
        let mut encoder = FrameEncoder::new(bytes);
        encoder.write_all(&self.model).expect("writing to memory");
        let mut bytes = encoder.finish().expect("writing to memory");
        let checksum = Sha256::digest(&bytes);
        bytes.extend(checksum);
        bytes
    }

    /// Reads the file at `path`.
    pub fn read(path: &Path) -> Result<State, StateError> {
        let file = path.display().to_string();
        let cannot_read =
            |error: std::io::Error| StateError::CannotRead { file: file.clone(), why: error.to_string() };
        let mut bytes = Vec::new();
        let mut opened = File::open(path).map_err(cannot_read)?;
        Read::by_ref(&mut opened).take(PREFIX as u64).read_to_end(&mut bytes).map_err(cannot_read)?;
        // A file that is not a state, such as a device node, may be endless. Read on only after the magic number.
        if bytes.starts_with(MAGIC) {
            opened.take(STATE_BYTES_MAX).read_to_end(&mut bytes).map_err(cannot_read)?;
        }
        State::parse(&file, &bytes)
    }

    /// Parses the bytes of `file`. The model's own bytes remain unparsed.
    pub fn parse(file: &str, bytes: &[u8]) -> Result<State, StateError> {
        let refuse = |problem| StateError::Wrong { file: file.to_owned(), problem };
        if !bytes.starts_with(MAGIC) {
            return Err(refuse(Problem::NotAState));
        }
        let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let version = word(MAGIC.len()).ok_or_else(|| refuse(Problem::Truncated))?;
        if version != VERSION {
            return Err(refuse(Problem::Version { found: version }));
        }
        let content = bytes.len().checked_sub(CHECKSUM).filter(|content| *content >= PREFIX);
        let content = content.ok_or_else(|| refuse(Problem::Truncated))?;
        if Sha256::digest(&bytes[..content])[..] != bytes[content..] {
            return Err(refuse(Problem::Checksum));
        }
        // The checksum is right, so only deliberate changes can make the following bytes invalid.
        let header_bytes = word(MAGIC.len() + 4).map_or(usize::MAX, |length| length as usize);
        let header_end = Some(header_bytes).filter(|length| *length <= HEADER_BYTES_MAX);
        let header_end = header_end.map(|length| PREFIX + length).filter(|end| *end <= content);
        let header_end = header_end.ok_or_else(|| refuse(Problem::InvalidHeader))?;
        let header: Header =
            postcard::from_bytes(&bytes[PREFIX..header_end]).map_err(|_| refuse(Problem::InvalidHeader))?;
        if header.bytes > STATE_BYTES_MAX {
            return Err(refuse(Problem::InvalidHeader));
        }
        let mut model = Vec::new();
        let read = FrameDecoder::new(&bytes[header_end..content])
            .take(header.bytes.saturating_add(1))
            .read_to_end(&mut model);
        if read.ok() != usize::try_from(header.bytes).ok() {
            return Err(refuse(Problem::InvalidHeader));
        }
        let Header { version, device, numbers, seed, used, has_bytes, .. } = header;
        Ok(State { file: file.to_owned(), device, version, seed, used, has_bytes, numbers, model })
    }

    /// Returns the first hexadecimal digits of a hash of the model's state.
    pub fn checksum(&self) -> String {
        crate::digest::of_bytes(&self.model)
    }

    /// Checks that the state belongs to `device`: that all numbers agree and that the model accepts the saved bytes.
    pub fn check_compatible(&self, device: &Device) -> Result<(), StateError> {
        let here = numbers(device);
        let value = |of: &[(String, String)], path: &str| {
            of.iter().find(|(known, _)| known == path).map(|(_, value)| value.clone())
        };
        let paths = here.iter().chain(self.numbers.iter().filter(|(p, _)| value(&here, p).is_none()));
        let differences: Vec<Difference> = paths
            .map(|(path, _)| Difference {
                path: path.clone(),
                saved: value(&self.numbers, path),
                here: value(&here, path),
            })
            .filter(|difference| difference.saved != difference.here)
            .collect();
        if differences.iter().all(|d| d.saved.is_none() || d.here.is_none()) && differences.len() > here.len()
        {
            let (file, saved) = (self.file.clone(), self.device.clone());
            return Err(StateError::OtherKind { file, saved, here: device.argument.clone() });
        }
        if !differences.is_empty() {
            let (file, saved) = (self.file.clone(), self.device.clone());
            return Err(StateError::Differs { file, saved, here: device.argument.clone(), differences });
        }
        let mut restored = device.hardware.build(self.seed).restore(&self.model);
        // A card at the level of commands also reads the part of the state that a timed model ignores.
        if let Some(mut card) = device.hardware.build_card(self.seed, None) {
            restored = restored.and_then(|()| card.restore(&self.model));
        }
        restored.map_err(|error| StateError::Rejected {
            file: self.file.clone(),
            version: self.version.clone(),
            why: error.why,
        })
    }
}

/// Returns the numbers that a device's state depends on.
fn numbers(device: &Device) -> Vec<(String, String)> {
    let kind = device.kind();
    let host = kind.host().filter(|_| kind.state_includes_host());
    let rests = |sourced: &&SourcedNumber| {
        let parameter = sourced.number.parameter;
        let is_in_state = kind.has(parameter) || host.is_some_and(|host| host.has(parameter));
        is_in_state && !parameter.is_of_codecs()
    };
    let number = |sourced: &SourcedNumber| {
        (sourced.number.parameter.path.to_owned(), sourced.number.value.to_string())
    };
    device.sourced_numbers().iter().filter(rests).map(number).collect()
}

/// A number that differs between the state file and the device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    /// Path of the parameter.
    pub path: String,
    /// Value in the file; `None` if the file does not have the parameter.
    pub saved: Option<String>,
    /// Value in the device; `None` if the device does not have the parameter.
    pub here: Option<String>,
}

/// A defect of a state file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Problem {
    /// The file does not begin with the magic number.
    NotAState,
    /// The file has the format of another version.
    Version {
        /// Format version of the file.
        found: u32,
    },
    /// The file ends too early.
    Truncated,
    /// The checksum does not match the content.
    Checksum,
    /// The header is invalid, or states another length of the model's state, although the checksum matches.
    InvalidHeader,
}

/// An error while reading, checking or saving a state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StateError {
    /// The file cannot be read.
    CannotRead {
        /// Path of the file.
        file: String,
        /// Error text of the operating system.
        why: String,
    },
    /// The file is not a state file, or is damaged.
    Wrong {
        /// Path of the file.
        file: String,
        /// The defect.
        problem: Problem,
    },
    /// The state belongs to a device with other numbers.
    Differs {
        /// Path of the file.
        file: String,
        /// The device that was saved.
        saved: String,
        /// The device that should be restored.
        here: String,
        /// The numbers that differ.
        differences: Vec<Difference>,
    },
    /// The state belongs to another kind of device.
    OtherKind {
        /// Path of the file.
        file: String,
        /// The device that was saved.
        saved: String,
        /// The device that should be restored.
        here: String,
    },
    /// The model rejects the saved bytes.
    Rejected {
        /// Path of the file.
        file: String,
        /// Version of flashlab that saved the state.
        version: String,
        /// Error text of the model.
        why: String,
    },
    /// The model of this device does not support saving.
    SaveUnsupported {
        /// The device.
        device: String,
    },
}

impl fmt::Display for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StateError::CannotRead { file, why } => {
                write!(
                    f,
                    "{file}: the state file cannot be read: {why}; `flashlab age DEVICE JOB --to FILE` creates one"
                )
            }
            StateError::Wrong { file, problem } => write!(f, "{file}: {problem}"),
            StateError::Differs { file, saved, here, differences } => {
                write!(
                    f,
                    "{file}: the saved state of {saved} does not match {here}; create the file again, or open the \
                     device with the saved numbers:"
                )?;
                const SHOWN: usize = 8;
                let say = |value: &Option<String>| value.clone().unwrap_or_else(|| "absent".into());
                for Difference { path, saved, here } in differences.iter().take(SHOWN) {
                    write!(f, "\n  {path} was {}, is {}", say(saved), say(here))?;
                }
                match differences.len().saturating_sub(SHOWN) {
                    0 => Ok(()),
                    more => write!(f, "\n  and {more} more"),
                }
            }
            StateError::OtherKind { file, saved, here } => {
                write!(
                    f,
                    "{file}: the saved state belongs to {saved}, a different kind of device than {here}"
                )
            }
            StateError::Rejected { file, version, why } => write!(
                f,
                "{file}: the state that flashlab {version} saved cannot be restored by flashlab {}: {why}; create the \
                 file again",
                env!("CARGO_PKG_VERSION")
            ),
            StateError::SaveUnsupported { device } => {
                write!(f, "{device}: the state of this device cannot be saved")
            }
        }
    }
}

impl std::error::Error for StateError {}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::NotAState => {
                write!(f, "not a state file; `flashlab age DEVICE JOB --to FILE` creates one")
            }
            Problem::Version { found } => write!(
                f,
                "the state file has format {found}, from another version of flashlab; this version reads format \
                 {VERSION}: use the other version, or delete the file (and the .bytes, .sums and .journal files \
                 beside it) and create the device again with `flashlab age` or `serve`"
            ),
            Problem::Truncated => write!(f, "the file ends too early: copy it again, or create it again"),
            Problem::Checksum => write!(
                f,
                "the checksum does not match: the file is truncated or damaged; copy it again, or create it again"
            ),
            Problem::InvalidHeader => {
                write!(f, "the header is inconsistent although the checksum matches; create the file again")
            }
        }
    }
}
