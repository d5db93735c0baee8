//! Openers of devices outside this process. The commands pass them on to the crate that opens devices with bytes.

use flashlab_block::BlockDevice;
use flashlab_catalogue::library::Library;
use flashlab_served::{EdgeError, Opener, Sources};
use std::sync::Arc;

/// The opener of exports of NBD servers.
static OPENERS: &[Opener] = &[Opener {
    schemes: &["nbd", "nbds", "nbd+unix", "nbds+unix", "nbd+vsock", "nbds+vsock"],
    open: open_export,
}];

/// Returns the sources of devices that store bytes, and of members of volumes.
pub(crate) fn sources(library: &Library) -> Sources<'_> {
    Sources { library, openers: OPENERS, is_simulated: false }
}

#[cfg(feature = "serve")]
fn open_export(uri: &str, read_only: bool) -> Result<Arc<dyn BlockDevice>, EdgeError> {
    use flashlab_serve::RemoteDevice;
    use flashlab_serve::uri::Uri;
    let parsed = Uri::parse(uri).map_err(|error| EdgeError::Argument(error.to_string()))?;
    RemoteDevice::open(&parsed, read_only).map_err(|error| EdgeError::Failed(error.to_string()))
}

#[cfg(not(feature = "serve"))]
fn open_export(_: &str, _: bool) -> Result<Arc<dyn BlockDevice>, EdgeError> {
    let how = "NBD is not in this build; build with the feature `serve` (cargo build --release --features serve), or with \
               all of them (--features full)";
    Err(EdgeError::Argument(how.to_owned()))
}
