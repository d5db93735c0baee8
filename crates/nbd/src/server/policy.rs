//! Features that a server offers, and limits that it enforces.

/// Encryption of a session ("TLS support").
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tls {
    /// No TLS: "NOTLS mode".
    Off,
    /// TLS if the client requests it, and always for exports that require it: "SELECTIVETLS mode".
    On,
    /// TLS always: "FORCEDTLS mode".
    Require,
}

/// Features that a server offers, and limits that it enforces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Policy {
    /// Encryption of sessions.
    pub tls: Tls,
    /// Offers structured replies. With these, some clients need two more system calls per read.
    pub structured: bool,
    /// Offers extended headers with 64-bit lengths.
    pub extended: bool,
    /// Maximum number of options that a client may send, including the option that selects the export. The
    /// session ends when the client exceeds this number.
    pub options_max: u32,
    /// Minimum length in bytes of a payload that the owner receives directly into its destination. The
    /// session returns such a write as soon as its header has arrived. The session waits until shorter
    /// payloads are complete.
    pub direct_payload_min_bytes: usize,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            tls: Tls::Off,
            structured: true,
            extended: true,
            options_max: 1024,
            direct_payload_min_bytes: 64 << 10,
        }
    }
}
