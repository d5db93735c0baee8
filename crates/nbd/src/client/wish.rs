//! What a client wants to agree on, and what it is told.

use crate::wire::TransmissionFlags;
use alloc::string::String;
use alloc::vec::Vec;

/// Whether a session is to be encrypted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tls {
    /// No.
    Off,
    /// If the server does it.
    Try,
    /// Or else not at all.
    Require,
}

/// What the handshake is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Goal {
    /// Requests.
    Transmission,
    /// To be told of the export and its metadata contexts.
    Info,
    /// To be told the names of the exports.
    List,
}

/// What a client wants to agree on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wish {
    /// The export; empty for the default one.
    pub export: String,
    /// What the handshake is for.
    pub goal: Goal,
    /// Encryption.
    pub tls: Tls,
    /// Replies in chunks, if the server does them.
    pub structured: bool,
    /// 64-bit lengths, if the server does them.
    pub extended: bool,
    /// Metadata contexts to choose (or, for [`Goal::Info`], to ask for; then none means all). They need chunks.
    pub contexts: Vec<String>,
    /// End the handshake as old clients do, with `NBD_OPT_EXPORT_NAME`; otherwise that is the last resort.
    pub export_name: bool,
    /// Let the server leave out the 124 zero bytes after that.
    pub no_zeroes: bool,
    /// Refuse requests that the server would refuse. Turned off, a test can send them.
    pub checks: bool,
}

impl Wish {
    /// Requests for an export, with whatever makes them cheapest to parse: extended headers, structured replies.
    pub fn export(name: &str) -> Wish {
        Wish {
            export: name.into(),
            goal: Goal::Transmission,
            tls: Tls::Off,
            structured: true,
            extended: true,
            contexts: Vec::new(),
            export_name: false,
            no_zeroes: true,
            checks: true,
        }
    }

    /// The same with simple replies, as the kernel's client does.
    #[must_use]
    pub fn simple(self) -> Wish {
        Wish { structured: false, extended: false, ..self }
    }
}

/// What a server told of an export.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ExportInfo {
    /// Bytes.
    pub size: u64,
    /// What it can do.
    pub flags: TransmissionFlags,
    /// The name that the server gives it, if it told.
    pub name: Option<String>,
    /// Words for a person, if there are any.
    pub description: Option<String>,
    /// Smallest block, best block and largest payload in bytes, if they were told ("Size constraints").
    pub block_sizes: Option<(u32, u32, u32)>,
}

impl ExportInfo {
    /// The smallest block, in bytes. 1 where nothing was told.
    pub fn block_minimum(&self) -> u32 {
        self.block_sizes.map_or(1, |(minimum, ..)| minimum)
    }
    /// The largest payload, in bytes. 32 MiB where nothing was told.
    pub fn payload_max(&self) -> u32 {
        self.block_sizes.map_or(32 << 20, |(.., payload)| payload)
    }
}
