//! What there is to serve.

use crate::wire::TransmissionFlags;
use alloc::string::String;
use alloc::vec::Vec;

/// One export, as the handshake tells of it and as requests are held against it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Export {
    /// The name that the server gives it.
    pub name: String,
    /// Words for a person; may be empty.
    pub description: String,
    /// Bytes.
    pub size: u64,
    /// What it can do. `HAS_FLAGS`, `SEND_DF` and `BLOCK_STATUS_PAYLOAD` follow from the session and are ignored here.
    pub flags: TransmissionFlags,
    /// Smallest block, in bytes: a power of two up to 65536. Requests that are not of whole blocks are refused.
    pub block_minimum: u32,
    /// Best block, in bytes: a power of two, at least 512 and the smallest block.
    pub block_preferred: u32,
    /// Largest payload that is advertised, in bytes. A session takes [`PAYLOAD_MAX`](super::PAYLOAD_MAX) all the same.
    pub payload_max: u32,
    /// Whoever does not ask for the block sizes is sent away.
    pub block_size_required: bool,
    /// Only under TLS.
    pub tls_required: bool,
    /// What `NBD_CMD_BLOCK_STATUS` can tell, at most 64 contexts. Their numbers in [`ContextSet`] are their places here.
    pub contexts: Vec<MetaContext>,
}

impl Export {
    /// A read-write export with the default "Size constraints" that can flush, FUA and more connections than one, and
    /// tells `base:allocation`.
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
    /// A namespace, a colon, a leaf-name.
    pub name: String,
    /// Its status needs more than 32 bits: it exists only with extended headers.
    pub wide: bool,
}

impl MetaContext {
    /// `base:allocation`, whose status has bit 0 for a hole and bit 1 for zeroes.
    pub fn allocation() -> MetaContext {
        MetaContext::new("base:allocation")
    }
    /// A context of 32-bit status.
    pub fn new(name: &str) -> MetaContext {
        MetaContext { name: name.into(), wide: false }
    }
}

/// A set of an export's metadata contexts, by their places in [`Export::contexts`].
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ContextSet(u64);

impl ContextSet {
    /// None.
    pub const NONE: ContextSet = ContextSet(0);

    /// Adds one. Places from 64 on are not kept.
    pub fn insert(&mut self, place: usize) {
        self.0 |= u32::try_from(place).ok().and_then(|place| 1u64.checked_shl(place)).unwrap_or(0);
    }
    /// Whether this one is in it.
    pub fn has(self, place: usize) -> bool {
        u32::try_from(place)
            .ok()
            .and_then(|place| self.0.checked_shr(place))
            .is_some_and(|bits| bits & 1 == 1)
    }
    /// Whether none is in it.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
    /// How many are in it.
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }
    /// The places in order.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        (0..64).filter(move |place| self.has(*place))
    }
}

/// One line of a list of exports.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listed {
    /// The name to ask for.
    pub name: String,
    /// Words for a person; may be empty.
    pub description: String,
    /// Only under TLS; not listed without it.
    pub tls_required: bool,
}

/// What a server serves. Asked during the handshake, so that exports may come and go, or be made as they are asked for.
pub trait Exports: Send + Sync {
    /// All that are to be listed.
    fn list(&self) -> Vec<Listed>;
    /// The one with this name. The empty name means the default export, if there is one.
    fn find(&self, name: &str) -> Option<Export>;
}

/// A fixed list; the first is the default export.
impl Exports for Vec<Export> {
    fn list(&self) -> Vec<Listed> {
        let listed = |export: &Export| Listed {
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
