//! `verify=` and related options: the contents of each written block, so that its reader can verify them.
//!
//! A simulation of timing alone has no bytes and refuses these options. A device with contents fills and
//! verifies blocks as these options specify.

use crate::fault::{Fault, ValueError};

/// Contents of a block's header, or the pattern that replaces the header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the variants are named after the values of the option")]
pub enum Method {
    Md5,
    Crc64,
    Crc32,
    Crc32c,
    Crc16,
    Crc7,
    Sha256,
    Sha512,
    Sha3_224,
    Sha3_256,
    Sha3_384,
    Sha3_512,
    Xxhash,
    Sha1,
    /// The pattern fills the block. There is no header.
    Pattern,
    /// A header without a checksum, followed by the pattern: the meaning of `verify_pattern=` alone.
    PatternHeader,
    /// Nothing is written for verification, and nothing is verified.
    Null,
}

/// Valid values of `verify=`. The first two stand for no verification.
pub(crate) const WORDS: &[&str] = &[
    "0",
    "none",
    "md5",
    "crc64",
    "crc32",
    "crc32c",
    "crc32c-intel",
    "crc16",
    "crc7",
    "sha256",
    "sha512",
    "sha3-224",
    "sha3-256",
    "sha3-384",
    "sha3-512",
    "xxhash",
    "sha1",
    "pattern",
    "null",
];

impl Method {
    /// Returns the method of the word at this index of [`WORDS`], or `None` for no verification.
    pub(crate) fn from_word(word: usize) -> Option<Method> {
        use Method as M;
        Some(match WORDS[word] {
            "md5" => M::Md5,
            "crc64" => M::Crc64,
            "crc32" => M::Crc32,
            "crc32c" | "crc32c-intel" => M::Crc32c,
            "crc16" => M::Crc16,
            "crc7" => M::Crc7,
            "sha256" => M::Sha256,
            "sha512" => M::Sha512,
            "sha3-224" => M::Sha3_224,
            "sha3-256" => M::Sha3_256,
            "sha3-384" => M::Sha3_384,
            "sha3-512" => M::Sha3_512,
            "xxhash" => M::Xxhash,
            "sha1" => M::Sha1,
            "pattern" => M::Pattern,
            "null" => M::Null,
            _ => return None,
        })
    }

    /// Returns the value of the option for this method.
    pub fn name(self) -> &'static str {
        use Method as M;
        match self {
            M::Md5 => "md5",
            M::Crc64 => "crc64",
            M::Crc32 => "crc32",
            M::Crc32c => "crc32c",
            M::Crc16 => "crc16",
            M::Crc7 => "crc7",
            M::Sha256 => "sha256",
            M::Sha512 => "sha512",
            M::Sha3_224 => "sha3-224",
            M::Sha3_256 => "sha3-256",
            M::Sha3_384 => "sha3-384",
            M::Sha3_512 => "sha3-512",
            M::Xxhash => "xxhash",
            M::Sha1 => "sha1",
            M::Pattern => "pattern",
            M::PatternHeader => "pattern_hdr",
            M::Null => "null",
        }
    }
}

/// A part of `verify_pattern=`. The parts together are repeated over a block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PatternPart {
    /// Literal bytes.
    Bytes(Vec<u8>),
    /// `%o`: the byte offset of the block, as eight bytes in little-endian order.
    Offset,
}

/// `verify=` and related options.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verify {
    /// `verify=`
    pub(crate) method: Option<Method>,
    /// `verify_pattern=`; empty if not set.
    pub pattern: Vec<PatternPart>,
    /// `verify_interval=`: size in bytes of a block that is verified by itself; `None` means one block per request.
    pub interval: Option<u64>,
    /// `do_verify=`: true if the job reads its data back after it has written all of it.
    pub reads_back: bool,
}

impl Default for Verify {
    /// Returns the settings without verification.
    fn default() -> Verify {
        Verify { method: None, pattern: Vec::new(), interval: None, reads_back: true }
    }
}

impl Verify {
    /// Returns the method of verification, if there is one. A pattern without `verify=` implies
    /// [`Method::PatternHeader`].
    pub fn method(&self) -> Option<Method> {
        self.method.or((!self.pattern.is_empty()).then_some(Method::PatternHeader))
    }
}

/// Maximum size of a pattern in bytes (fio's `MAX_PATTERN_SIZE`).
const PATTERN_MAX: usize = 512;

/// Form of `verify_pattern=`.
pub(crate) const PATTERN_FORM: &str = "hexadecimal bytes (0xdeadbeef), a number, a text in double quotes, %o for the offset, or several of them";

/// Parses `verify_pattern=`.
pub(crate) fn pattern(text: &str) -> Result<Vec<PatternPart>, ValueError> {
    let (mut parts, mut rest, mut bytes) = (Vec::new(), text, 0);
    let malformed = |rest: &str| {
        let at = text[..text.len() - rest.len()].chars().count();
        Fault::Malformed { expected: PATTERN_FORM }.at(at)
    };
    while !rest.is_empty() {
        let (part, remaining) = part(rest).ok_or_else(|| malformed(rest))?;
        bytes += match &part {
            PatternPart::Bytes(bytes) => bytes.len(),
            PatternPart::Offset => 8,
        };
        if bytes > PATTERN_MAX {
            return Err(Fault::NotModelled("a pattern has at most 512 bytes").at(0));
        }
        parts.push(part);
        rest = remaining;
    }
    Ok(parts)
}

/// Splits a text into its first part and the remaining text.
fn part(text: &str) -> Option<(PatternPart, &str)> {
    if let Some(rest) = text.strip_prefix("%o") {
        return Some((PatternPart::Offset, rest));
    }
    if let Some(quoted) = text.strip_prefix('"') {
        let (word, rest) = quoted.split_once('"').filter(|(word, _)| !word.is_empty())?;
        return Some((PatternPart::Bytes(word.as_bytes().to_vec()), rest));
    }
    if let Some(digits) = text.strip_prefix("0x") {
        let end = digits.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(digits.len());
        let (digits, rest) = digits.split_at(end);
        // An odd number of digits is padded with a leading zero, as in a number.
        let padded = if digits.len() % 2 == 1 { format!("0{digits}") } else { digits.to_owned() };
        let byte = |n: usize| u8::from_str_radix(&padded[2 * n..2 * n + 2], 16).ok();
        let bytes: Option<Vec<u8>> = (0..padded.len() / 2).map(byte).collect();
        return bytes.filter(|bytes| !bytes.is_empty()).map(|bytes| (PatternPart::Bytes(bytes), rest));
    }
    // A decimal number is stored in little-endian order, in as many bytes as it needs.
    let digits_from = usize::from(text.starts_with('-'));
    let end = text[digits_from..].find(|c: char| !c.is_ascii_digit()).map_or(text.len(), |n| n + digits_from);
    let number: i64 = text[..end].parse().ok()?;
    let all = number.to_le_bytes();
    let filler = if number < 0 { 0xff } else { 0 };
    let length = all.iter().rposition(|byte| *byte != filler).map_or(1, |last| last + 1);
    // A negative number has at least four bytes.
    let length = if number < 0 { length.max(4) } else { length };
    Some((PatternPart::Bytes(all[..length].to_vec()), &text[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_equal_those_that_fio_writes() {
        // Each text is followed by the first bytes of a block that fio 3.33 wrote at offset 4096.
        for (text, bytes) in [
            ("0xdeadbe", "deadbedeadbe"),
            ("0xabc", "0abc0abc0abc"),
            ("258", "020102010201"),
            ("65536", "000001000001"),
            ("\"ab\"", "616261626162"),
            ("-1", "ffffffffffff"),
            ("\"ab\"0x01%o", "616201001000000000000061"),
        ] {
            let parts = pattern(text).unwrap_or_else(|error| panic!("{text}: {error:?}"));
            let whole: Vec<u8> = parts
                .iter()
                .flat_map(|part| match part {
                    PatternPart::Bytes(bytes) => bytes.clone(),
                    PatternPart::Offset => 4096u64.to_le_bytes().to_vec(),
                })
                .collect();
            let found: String =
                whole.iter().cycle().take(bytes.len() / 2).map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(found, bytes, "{text}");
        }
    }

    #[test]
    fn invalid_patterns_are_rejected_at_their_position() {
        for (text, at) in [("0x", 0), ("\"ab", 0), ("0x12'file'", 4), ("\"\"", 0), ("%i", 0), ("é", 0)] {
            assert_eq!(pattern(text).expect_err(text).at, at, "{text}");
        }
        assert!(pattern(&"9".repeat(40)).is_err() && pattern(&format!("0x{}", "0".repeat(2000))).is_err());
    }

    #[test]
    fn words_and_methods_correspond() {
        for (n, word) in WORDS.iter().enumerate().skip(2) {
            let method = Method::from_word(n).expect("the word names a method");
            assert!(method.name() == *word || *word == "crc32c-intel");
        }
        assert_eq!((Method::from_word(0), Method::from_word(1)), (None, None));
    }
}
