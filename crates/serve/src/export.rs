//! The devices that a server exports.

use flashlab_block::BlockDevice;
use flashlab_nbd::server::{self, MetaContext};
use flashlab_nbd::wire::TransmissionFlags;
use std::fmt;
use std::sync::Arc;

/// A device with the name under which a server exports it.
#[derive(Clone)]
pub struct Export {
    /// Name of the export; empty for the default export.
    pub name: String,
    /// Human-readable description, sent to clients that request it.
    pub description: String,
    /// The block device.
    pub device: Arc<dyn BlockDevice>,
    /// True if the server rejects all requests that change data.
    pub read_only: bool,
}

impl fmt::Debug for Export {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Export")
            .field("name", &self.name)
            .field("read_only", &self.read_only)
            .finish_non_exhaustive()
    }
}

/// All exports of a server.
#[derive(Clone, Debug)]
pub struct Exports(Arc<[Export]>);

/// Maximum length of a name in bytes (the NBD specification's limit on strings).
const NAME_BYTES_MAX: usize = 4096;

/// Reason why a list of exports is invalid.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ExportsError {
    /// The list is empty.
    None,
    /// Two exports have the same name.
    Twice(String),
    /// A name is longer than 4,096 bytes, or contains a zero byte.
    Name,
}

impl fmt::Display for ExportsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExportsError::None => f.write_str("no device to serve"),
            ExportsError::Twice(name) if name.is_empty() => {
                f.write_str("two devices without a name; give all but one of them names: NAME=DEVICE")
            }
            ExportsError::Twice(name) => write!(f, "two devices have the name {name:?}"),
            ExportsError::Name => f.write_str("a name must have at most 4096 bytes and contain no zero byte"),
        }
    }
}

impl std::error::Error for ExportsError {}

impl Exports {
    /// Creates a list of exports, which clients see in the order of `exports`.
    pub fn new(exports: Vec<Export>) -> Result<Exports, ExportsError> {
        if exports.is_empty() {
            return Err(ExportsError::None);
        }
        for (n, export) in exports.iter().enumerate() {
            if export.name.len() > NAME_BYTES_MAX || export.name.contains('\0') {
                return Err(ExportsError::Name);
            }
            if exports[..n].iter().any(|other| other.name == export.name) {
                return Err(ExportsError::Twice(export.name.clone()));
            }
        }
        Ok(Exports(exports.into()))
    }

    /// Returns the exports for the handshake of a new connection. Each connection needs a new list, because the size of
    /// a device may change. If no export has the empty name, the empty name selects the first export.
    pub(crate) fn offered(&self) -> Vec<server::Export> {
        self.0.iter().map(offered).collect()
    }
}

fn offered(export: &Export) -> server::Export {
    use TransmissionFlags as T;
    let (geometry, features) = (export.device.geometry(), export.device.features());
    let block = u32::try_from(geometry.block).expect("a block is small");
    let read_only = export.read_only || features.read_only;
    // A flush makes all completed writes durable, on whatever connection they arrived. `CAN_MULTI_CONN` requires
    // this.
    let flags = (T::SEND_FLUSH | T::SEND_FUA | T::CAN_MULTI_CONN)
        .with_if(read_only, T::READ_ONLY)
        .with_if(features.discard && !read_only, T::SEND_TRIM)
        .with_if(features.write_zeroes && !read_only, T::SEND_WRITE_ZEROES | T::SEND_FAST_ZERO)
        .with_if(features.cache, T::SEND_CACHE)
        .with_if(features.rotational, T::ROTATIONAL);
    server::Export {
        description: export.description.clone(),
        flags,
        block_minimum: block,
        block_preferred: block.max(4096),
        payload_max: u32::try_from(geometry.request_max).unwrap_or(u32::MAX),
        contexts: if features.extents { vec![MetaContext::allocation()] } else { Vec::new() },
        ..server::Export::new(&export.name, geometry.capacity)
    }
}

impl std::ops::Deref for Exports {
    type Target = [Export];
    fn deref(&self) -> &[Export] {
        &self.0
    }
}
