//! Errors of opening a device that stores bytes.

use crate::device_files::DeviceFilesError;
use crate::sources::EdgeError;
use flashlab_block::layer::{LayerError, OverlayError};
use flashlab_block::{FileError, MemoryError};
use flashlab_catalogue::device::{DeviceError, StateError};
use flashlab_catalogue::library::UnknownName;
use flashlab_catalogue::profile::Place;
use flashlab_catalogue::units::{UnitError, or_list};
use std::path::PathBuf;
use std::{fmt, io};

/// The reason why a device could not be opened.
#[derive(Debug)]
pub enum ServedError {
    /// The argument is wrong.
    Argument {
        /// The place in the argument; the line is always 1.
        place: Place,
        /// The problem.
        problem: Box<Problem>,
    },
    /// The simulated device cannot be opened.
    Device(DeviceError),
    /// The file of bytes cannot be opened.
    File(FileError),
    /// A file cannot be read or written.
    System {
        /// The path.
        path: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
    /// A file that a layer uses cannot be read or written, or a line of it is invalid.
    Layer(LayerError),
    /// The changes of an overlay cannot be read.
    Overlay(OverlayError),
    /// The overlay of a directory cannot be held in memory.
    Memory(MemoryError),
    /// The changes in a file belong to another image: the directory changed, or the file is for another directory.
    OtherBase {
        /// The file with the changes.
        keep: PathBuf,
    },
    /// The image of a directory cannot be made.
    #[cfg(feature = "image")]
    Image(flashlab_image::ImageError),
    /// The members are not a volume, or their volume cannot be opened.
    #[cfg(feature = "volume")]
    Volume(crate::volume::PoolError),
    /// The volume of these members is encrypted, and no passphrase was given.
    #[cfg(feature = "volume")]
    Locked(String),
    /// Another program has opened this member of a volume for writing.
    #[cfg(feature = "volume")]
    InUse(String),
    /// The passphrase of a volume cannot be read.
    #[cfg(feature = "volume")]
    Passphrase(flashlab_volume::keys::PassphraseError),
    /// The files of a device with a state file do not belong together, or are damaged.
    DeviceFiles(DeviceFilesError),
    /// A device outside this process cannot be opened.
    Edge {
        /// Its URI.
        uri: String,
        /// The reason.
        error: EdgeError,
    },
    /// The list of exports, or of the members of a volume, cannot be read or parsed.
    Exports {
        /// The file.
        path: PathBuf,
        /// The place and the error.
        why: String,
    },
}

impl From<DeviceFilesError> for ServedError {
    fn from(error: DeviceFilesError) -> Self {
        ServedError::DeviceFiles(error)
    }
}

impl From<FileError> for ServedError {
    fn from(error: FileError) -> Self {
        ServedError::File(error)
    }
}

/// A problem in an argument.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Problem {
    /// The name of the device is missing.
    NoName,
    /// A setting is not of the form `key=value`.
    NotASetting {
        /// A correct setting.
        example: &'static str,
    },
    /// The device or layer does not have this key.
    UnknownKey {
        /// The device or layer.
        of: &'static str,
        /// The word as written.
        key: String,
        /// The keys that exist.
        known: &'static [&'static str],
        /// The most similar of these keys.
        did_you_mean: Option<String>,
    },
    /// The word after a plus sign is not the name of a layer.
    NoLayer {
        /// The word as written.
        word: String,
        /// The most similar name of a layer.
        did_you_mean: Option<&'static str>,
        /// The names of all layers.
        known: Vec<&'static str>,
    },
    /// The library has no host with this name.
    Host(UnknownName),
    /// The key is set twice.
    Twice(String),
    /// Two keys are set that exclude each other.
    Both([&'static str; 2]),
    /// A required key is missing.
    Missing {
        /// The key.
        key: &'static str,
        /// A device with the key.
        example: &'static str,
    },
    /// The value is not a number with the right unit.
    Unit {
        /// The key.
        key: &'static str,
        /// The error.
        error: UnitError,
    },
    /// The value is not one of the words that the key accepts.
    Word {
        /// The key.
        key: &'static str,
        /// The word as written.
        word: String,
        /// The accepted words.
        known: &'static [&'static str],
    },
    /// The memory device cannot be created.
    Memory(MemoryError),
    /// An overlay is on a simulated device, or is not the lowest layer.
    NotOnBytes,
    /// A member of a volume is a volume itself.
    NestedVolume,
    /// This build does not include the device.
    NotInBuild {
        /// The word of the device.
        word: &'static str,
        /// The cargo feature that includes the device.
        feature: &'static str,
    },
    /// A `delay` or `rate` layer has no setting.
    NoPace {
        /// The layer with settings.
        example: &'static str,
    },
    /// The caller needs a command-level card, but the argument names something else.
    NotACard,
    /// The settings of a layer are invalid.
    Layer(LayerError),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::NoName => {
                f.write_str("the device is missing; for example memory:size=1GiB or sd/kingston")
            }
            Problem::NotASetting { example } => write!(f, "expected key=value, for example {example}"),
            Problem::UnknownKey { of, key, did_you_mean: Some(nearest), .. } => {
                write!(f, "{of} has no {key}; did you mean {nearest}?")
            }
            Problem::UnknownKey { of, key, known: [], .. } => write!(f, "{of} has no {key}; it takes no settings"),
            Problem::UnknownKey { of, key, known, .. } => {
                write!(f, "{of} has no {key}; it has {}", known.join(", "))
            }
            Problem::NoLayer { word, did_you_mean: Some(nearest), .. } => {
                write!(f, "there is no layer {word}; did you mean {nearest}?")
            }
            Problem::NoLayer { word, known, .. } => {
                write!(f, "there is no layer {word}; the layers are {}", known.join(", "))
            }
            Problem::Twice(key) => write!(f, "{key} is set twice"),
            Problem::Both([one, other]) => write!(f, "{one} and {other} cannot be combined; set only one of them"),
            Problem::Missing { key, example } => write!(f, "{key} is missing: {example}"),
            Problem::Unit { key, error } => write!(f, "{key}: {error}"),
            Problem::Word { key, word, known } => {
                write!(f, "{key}: {word:?} is not {}", or_list(known))
            }
            Problem::Host(error) => write!(f, "host: {error}"),
            Problem::Memory(error) => write!(f, "size: {error}"),
            Problem::NotOnBytes => f.write_str(
                "an overlay must be the lowest layer, and cannot be on a simulated device: file:base.img+overlay",
            ),
            Problem::NestedVolume => f.write_str("a volume cannot be a member of a volume"),
            Problem::NotInBuild { word, feature } => write!(
                f,
                "{word} is not in this build; build with the feature `{feature}` (cargo build --release --features \
                 {feature}), or with all of them (--features full)"
            ),
            Problem::NoPace { example } => write!(f, "a setting is missing; for example {example}"),
            Problem::NotACard => f.write_str(
                "only an SD card without layers takes commands: sd/kingston, sd/kingston:state=FILE",
            ),
            Problem::Layer(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for ServedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServedError::Argument { place, problem } => {
                write!(f, "{place}: {problem}\n{}", place.picture())
            }
            ServedError::Device(error) => error.fmt(f),
            ServedError::File(error) => error.fmt(f),
            ServedError::System { path, error } => write!(f, "{}: {error}", path.display()),
            ServedError::Layer(error) => error.fmt(f),
            ServedError::Overlay(error) => error.fmt(f),
            ServedError::Memory(error) => write!(f, "the overlay: {error}"),
            ServedError::OtherBase { keep } => write!(
                f,
                "{}: these changes belong to another image: the directory changed, or the file is for another directory. \
                 Restore the directory, or remove the file to begin without changes",
                keep.display()
            ),
            #[cfg(feature = "image")]
            ServedError::Image(error) => error.fmt(f),
            #[cfg(feature = "volume")]
            ServedError::Volume(error) => error.fmt(f),
            #[cfg(feature = "volume")]
            ServedError::Locked(members) => write!(
                f,
                "{members}: required key not available: give the passphrase with passphrase-file=FILE or passphrase-fd=N, \
                 as in volume:{members},passphrase-file=secret"
            ),
            #[cfg(feature = "volume")]
            ServedError::Passphrase(error) => error.fmt(f),
            #[cfg(feature = "volume")]
            ServedError::InUse(member) => {
                write!(
                    f,
                    "{member}: another program has opened this member of a volume for writing; stop that program first"
                )
            }
            ServedError::DeviceFiles(error) => error.fmt(f),
            ServedError::Edge { uri, error } => write!(f, "{uri}: {error}"),
            ServedError::Exports { path, why } => write!(f, "{}: {why}", path.display()),
        }
    }
}

impl std::error::Error for ServedError {}

impl From<DeviceError> for ServedError {
    fn from(error: DeviceError) -> Self {
        ServedError::Device(error)
    }
}

impl From<StateError> for ServedError {
    fn from(error: StateError) -> Self {
        ServedError::Device(error.into())
    }
}
