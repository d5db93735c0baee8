//! Exports that a server offers.

use crate::wire::TransmissionFlags;
use alloc::string::String;
use alloc::vec::Vec;

/// Properties of an export. The handshake reports them, and the session checks requests against them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Export {
    /// Canonical name of the export.
    pub name: String,
    /// Human-readable description; may be empty.
    pub description: String,
    /// Size in bytes.
    pub size: u64,
    /// The transmission flags. `HAS_FLAGS`, `SEND_DF` and `BLOCK_STATUS_PAYLOAD` follow from the session and
    /// are ignored here. `SEND_RESIZE`, and `SEND_FAST_ZERO` without `SEND_WRITE_ZEROES`, are ignored too.
    pub flags: TransmissionFlags,
    /// Minimum block size in bytes: a power of two up to 65536. Requests that are not aligned to whole blocks are
    /// rejected.
    pub block_minimum: u32,
    /// Preferred block size in bytes: a power of two, at least 512 and at least the minimum block size.
    pub block_preferred: u32,
    /// Advertised maximum payload size in bytes. A session accepts payloads up to [`PAYLOAD_MAX`](super::PAYLOAD_MAX)
    /// even if this limit is lower.
    pub payload_max: u32,
    /// Rejects clients that do not request the block sizes.
    pub block_size_required: bool,
    /// Offers the export only under TLS.
    pub tls_required: bool,
    /// Metadata contexts that `NBD_CMD_BLOCK_STATUS` can report; contexts after the first 64 are ignored.
    /// [`ContextSet`] identifies each by its position in this list.
    pub contexts: Vec<MetaContext>,
}

impl Export {
    /// Returns a read-write export with the default "Size constraints" that supports flush, FUA and several
    /// connections, and has the metadata context `base:allocation`.
    pub fn new(name: &str, size: u64) -> Export {
        let flags =
            TransmissionFlags::SEND_FLUSH | TransmissionFlags::SEND_FUA | TransmissionFlags::CAN_MULTI_CONN;
        Export {
            name: name.into(),
            description: String::new(),
            size,
            flags,
            block_minimum: 1,
            block_preferred: 4096,
            payload_max: 32 << 20,
            block_size_required: false,
            tls_required: false,
            contexts: [MetaContext::allocation()].into(),
        }
    }
}

/// One metadata context ("Metadata querying").
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MetaContext {
    /// Name of the context: a namespace, a colon and a leaf-name.
    pub name: String,
    /// True if the status needs more than 32 bits. Such a context exists only with extended headers.
    pub wide: bool,
}

impl MetaContext {
    /// Returns `base:allocation`. Bit 0 of its status marks a hole, bit 1 zeroes.
    pub fn allocation() -> MetaContext {
        MetaContext::new("base:allocation")
    }
    /// Returns a context with 32-bit status.
    pub fn new(name: &str) -> MetaContext {
        MetaContext { name: name.into(), wide: false }
    }
}

/// A set of an export's metadata contexts, by their positions in [`Export::contexts`].
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ContextSet(u64);

impl ContextSet {
    /// The empty set.
    pub const NONE: ContextSet = ContextSet(0);

    /// Adds the context at a position. Ignores positions of 64 and above.
    pub fn insert(&mut self, position: usize) {
        self.0 |= u32::try_from(position).ok().and_then(|position| 1u64.checked_shl(position)).unwrap_or(0);
    }
    /// Returns true if the set contains the context at this position.
    pub fn contains(self, position: usize) -> bool {
        u32::try_from(position)
            .ok()
            .and_then(|position| self.0.checked_shr(position))
            .is_some_and(|bits| bits & 1 == 1)
    }
    /// Returns true if the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
    /// Returns the number of contexts in the set.
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }
    /// Returns the positions in ascending order.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        (0..64).filter(move |position| self.contains(*position))
    }
}

/// One entry of the list of exports.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExportListing {
    /// Name of the export.
    pub name: String,
    /// Human-readable description; may be empty.
    pub description: String,
    /// Lists the export only under TLS.
    pub tls_required: bool,
}

/// The exports of a server. The handshake calls this trait, so exports may come and go, or be created on request.
pub trait Exports: Send + Sync {
    /// Returns all exports to list.
    fn list(&self) -> Vec<ExportListing>;
    /// Returns the export with this name. The empty name selects the default export, if there is one.
    fn find(&self, name: &str) -> Option<Export>;
}

/// A fixed list of exports. The default is the export with an empty name, or else the first export.
impl Exports for Vec<Export> {
    fn list(&self) -> Vec<ExportListing> {
        let listed = |export: &Export| ExportListing {
            name: export.name.clone(),
            description: export.description.clone(),
            tls_required: export.tls_required,
        };
        self.iter().map(listed).collect()
    }
    fn find(&self, name: &str) -> Option<Export> {
        let named = self.iter().find(|export| export.name == name);
        let default = if name.is_empty() { self.first() } else { None };
        named.or(default).cloned()
    }
}
