//! What a server offers, and what it bears.

/// Whether a session is encrypted ("TLS support").
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tls {
    /// Never: "NOTLS mode".
    Off,
    /// If the client wants it; always for exports that need it: "SELECTIVETLS mode".
    On,
    /// Always: "FORCEDTLS mode".
    Require,
}

/// What a server offers, and what it bears.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Policy {
    /// Encryption.
    pub tls: Tls,
    /// Replies in chunks. They cost some clients two more system calls a read.
    pub structured: bool,
    /// 64-bit lengths.
    pub extended: bool,
    /// A session ends when its client sends more options than this before it chooses an export.
    pub options_max: u32,
    /// A write's payload from this length on, in bytes, is given out as soon as its header is there, and the rest is
    /// left to be received where it belongs; shorter ones are waited for.
    pub direct_min: usize,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy { tls: Tls::Off, structured: true, extended: true, options_max: 1024, direct_min: 64 << 10 }
    }
}
