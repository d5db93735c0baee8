//! Features that a client negotiates ([`ClientConfig`]), and the server's description of the export ([`ExportInfo`]).

use crate::wire::TransmissionFlags;
use alloc::string::String;
use alloc::vec::Vec;

/// Encryption of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tls {
    /// No TLS.
    Off,
    /// TLS if the server supports it.
    Try,
    /// TLS; the handshake fails if the server does not support it.
    Require,
}

/// Purpose of the handshake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Goal {
    /// Sending requests.
    Transmission,
    /// Querying the description of the export and its metadata contexts.
    Info,
    /// Listing the exports.
    List,
}

/// Features that a client negotiates.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientConfig {
    /// Name of the export; empty for the default export.
    pub export: String,
    /// Purpose of the handshake.
    pub goal: Goal,
    /// Encryption of the session.
    pub tls: Tls,
    /// Requests structured replies, unless extended headers were negotiated.
    pub structured: bool,
    /// Requests extended headers with 64-bit lengths, unless `export_name` is set.
    pub extended: bool,
    /// Metadata contexts to select, or to list for [`Goal::Info`]. For [`Goal::Info`], an empty list means
    /// all contexts. Contexts require structured replies or extended headers.
    pub contexts: Vec<String>,
    /// Ends the handshake with `NBD_OPT_EXPORT_NAME`, as old clients do. If false, that option is the
    /// fallback for servers without the fixed newstyle handshake, or without `NBD_OPT_GO` and extended
    /// headers.
    pub export_name: bool,
    /// Allows the server to omit the 124 zero bytes of its reply to `NBD_OPT_EXPORT_NAME`.
    pub no_zeroes: bool,
    /// Rejects requests that the protocol or the export does not allow. A test can turn the checks off to
    /// send such requests.
    pub validate_requests: bool,
}

impl ClientConfig {
    /// Returns the configuration of a client that sends requests to an export. The client requests extended
    /// headers, or structured replies if the server does not support extended headers. Both are cheaper to
    /// parse than simple replies.
    pub fn export(name: &str) -> ClientConfig {
        ClientConfig {
            export: name.into(),
            goal: Goal::Transmission,
            tls: Tls::Off,
            structured: true,
            extended: true,
            contexts: Vec::new(),
            export_name: false,
            no_zeroes: true,
            validate_requests: true,
        }
    }

    /// Returns the configuration with simple replies, which the NBD client of the Linux kernel uses.
    #[must_use]
    pub fn simple(self) -> ClientConfig {
        ClientConfig { structured: false, extended: false, ..self }
    }
}

/// A server's description of an export.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ExportInfo {
    /// Size in bytes.
    pub size: u64,
    /// The transmission flags.
    pub flags: TransmissionFlags,
    /// Canonical name of the export, if the server sent it.
    pub name: Option<String>,
    /// Human-readable description, if the server sent one.
    pub description: Option<String>,
    /// Minimum block size, preferred block size and maximum payload size in bytes, if the server sent them ("Size
    /// constraints").
    pub block_sizes: Option<(u32, u32, u32)>,
}

impl ExportInfo {
    /// Returns the minimum block size in bytes, or 1 if the server did not send it.
    pub fn block_minimum(&self) -> u32 {
        self.block_sizes.map_or(1, |(minimum, ..)| minimum)
    }
    /// Returns the maximum payload size in bytes, or 32 MiB if the server did not send it.
    pub fn payload_max(&self) -> u32 {
        self.block_sizes.map_or(32 << 20, |(.., payload)| payload)
    }
}
