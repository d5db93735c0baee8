//! The sources of devices: profiles of simulated devices, and openers of devices outside this process.

use flashlab_block::BlockDevice;
use flashlab_catalogue::library::Library;
use std::fmt;
use std::sync::Arc;

/// The sources from which an argument's device is opened.
#[derive(Clone, Copy, Debug)]
pub struct Sources<'a> {
    /// Profiles of simulated devices.
    pub library: &'a Library,
    /// Openers of devices outside this process. The program registers them, because this crate does not use sockets.
    pub openers: &'static [Opener],
    /// True if requests are answered in simulated time. A volume then computes in the thread of the request, and its
    /// codecs take the times of a host's processors.
    pub is_simulated: bool,
}

impl<'a> Sources<'a> {
    /// Returns the same sources for devices whose requests are answered in simulated time.
    #[must_use]
    pub fn in_simulated_time(self) -> Sources<'a> {
        Sources { is_simulated: true, ..self }
    }
}

impl<'a> From<&'a Library> for Sources<'a> {
    /// Returns sources without openers of devices outside this process.
    fn from(library: &'a Library) -> Sources<'a> {
        Sources { library, openers: &[], is_simulated: false }
    }
}

/// A function that opens the device of a URI, for reading only if the second argument is true.
pub type OpenUri = fn(&str, bool) -> Result<Arc<dyn BlockDevice>, EdgeError>;

/// The reason why a device outside this process cannot be opened, as a sentence for the user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EdgeError {
    /// The URI is wrong, or this build has no such devices.
    Argument(String),
    /// The device cannot be reached or used.
    Failed(String),
}

impl fmt::Display for EdgeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EdgeError::Argument(why) | EdgeError::Failed(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for EdgeError {}

/// An opener of devices outside this process, such as exports of NBD servers.
pub struct Opener {
    /// Schemes of the URIs that it opens, for example `nbd+unix`.
    pub schemes: &'static [&'static str],
    /// The function that opens a device.
    pub open: OpenUri,
}

impl fmt::Debug for Opener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opener").field("schemes", &self.schemes).finish_non_exhaustive()
    }
}
