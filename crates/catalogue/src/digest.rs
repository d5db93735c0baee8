//! Short hashes that identify inputs, results and saved states.

use sha2::{Digest, Sha256};

/// Number of hexadecimal digits in a printed hash.
const DIGITS: usize = 16;

/// Returns the first 16 hexadecimal digits of a hash.
pub fn short(hash: Sha256) -> String {
    let mut text: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    text.truncate(DIGITS);
    text
}

/// Returns the first 16 hexadecimal digits of the SHA-256 of `bytes`.
pub fn of_bytes(bytes: &[u8]) -> String {
    short(Sha256::new_with_prefix(bytes))
}
