//! A generated archive of C sources, for experiments with compression.
//!
//! The text has C's keywords and punctuation, indentation by tabs, identifiers of one or more words, numbers,
//! and comments of the same words. The frequencies of the words follow Zipf's law. Each file uses a few words
//! more often than others, as subsystems of a kernel do, and repeats earlier statements. The constants were
//! chosen such that the text compresses about as well as the kernel's own sources. An experiment uses this
//! text instead of those sources, because it must not depend on an archive that some machines lack.

use flashlab_sim::Rng;
use std::ops::Range;

/// Parts of the vocabulary's words.
const SYLLABLES: [&str; 48] = [
    "al", "ar", "at", "be", "ca", "co", "cu", "de", "di", "do", "en", "er", "ex", "fa", "fi", "ge", "ha",
    "in", "io", "ke", "la", "le", "li", "lo", "ma", "me", "mi", "mo", "na", "ne", "no", "or", "pa", "pe",
    "po", "qu", "ra", "re", "ri", "ro", "sa", "se", "si", "st", "ta", "te", "tr", "un",
];
const TYPES: [&str; 8] = ["int", "u32", "u64", "bool", "void", "size_t", "unsigned long", "const char *"];
const WORDS: u64 = 6000;
/// Number of words that a file prefers.
const LOCAL: u64 = 40;
/// Percentage of the statements that repeat an earlier one, and the number of latest statements that may be repeated.
const REPEATED: (u64, usize) = (45, 256);
/// Mean length of a file in bytes, about that of a kernel source.
const FILE: usize = 16 << 10;

/// Returns a text of `length` bytes. The same seed gives the same text.
pub(super) fn sources(length: usize, seed: u64) -> Vec<u8> {
    let mut writer = Writer {
        rng: Rng::for_purpose(seed, 0x534f_5243),
        text: String::new(),
        first: 0,
        statements: Vec::new(),
    };
    while writer.text.len() < length {
        writer.first = writer.rng.below(WORDS);
        let end = writer.text.len() + FILE / 2 + writer.rng.below(FILE as u64) as usize;
        while writer.text.len() < end {
            writer.function();
        }
    }
    let mut bytes = writer.text.into_bytes();
    bytes.truncate(length);
    bytes
}

/// A text in progress, and the words of its current file.
struct Writer {
    rng: Rng,
    text: String,
    /// Number of the first word that the current file prefers.
    first: u64,
    /// Byte ranges of the functions' statements in the text.
    statements: Vec<Range<usize>>,
}

impl Writer {
    /// Draws a number below `n`; number k is about 1/k as likely as the first one.
    fn zipf(&mut self, n: u64) -> u64 {
        let magnitude = self.rng.below(u64::from(n.ilog2()) + 2);
        self.rng.below(n.min(1 << magnitude))
    }

    fn word(&mut self) {
        let number = match self.rng.below(10) {
            0..6 => self.first + self.zipf(LOCAL),
            _ => self.zipf(WORDS),
        };
        // The number is hashed, so that adjacent numbers give unrelated words.
        let mut hash = Rng::for_purpose(number % WORDS, 0x574f_5244);
        for _ in 0..2 + hash.below(3) {
            self.text += SYLLABLES[hash.below(48) as usize];
        }
    }

    fn name(&mut self) {
        self.word();
        for _ in 0..self.rng.below(3) {
            self.text.push('_');
            self.word();
        }
    }

    fn sentence(&mut self) {
        for n in 0..4 + self.rng.below(8) {
            if n > 0 {
                self.text.push(' ');
            }
            self.word();
        }
    }

    fn expression(&mut self) {
        self.name();
        match self.rng.below(6) {
            0 => {
                self.text += "->";
                self.name();
            }
            1 => {
                self.text.push('(');
                self.name();
                self.text += ", ";
                self.name();
                self.text.push(')');
            }
            2 => {
                let number = self.rng.below(256);
                self.text += &format!(" + 0x{number:02x}");
            }
            _ => {}
        }
    }

    fn function(&mut self) {
        self.text += "/**\n * ";
        self.sentence();
        self.text += ".\n */\nstatic ";
        self.text += TYPES[self.rng.below(8) as usize];
        self.text.push(' ');
        self.name();
        self.text += "(struct ";
        self.name();
        self.text += " *";
        self.word();
        self.text += ")\n{\n";
        for _ in 0..3 + self.rng.below(12) {
            let start = self.text.len();
            match self.earlier() {
                Some(earlier) => self.text.extend_from_within(earlier),
                None => self.statement(1),
            }
            self.statements.push(start..self.text.len());
        }
        self.text += "\treturn ";
        self.expression();
        self.text += ";\n}\n\n";
    }

    /// Draws the earlier statement that the next one repeats; `None` if the next one is new.
    fn earlier(&mut self) -> Option<Range<usize>> {
        let (percent, among) = REPEATED;
        if self.statements.len() < 8 || self.rng.below(100) >= percent {
            return None;
        }
        let back = self.zipf(self.statements.len().min(among) as u64) as usize;
        Some(self.statements[self.statements.len() - 1 - back].clone())
    }

    fn statement(&mut self, depth: usize) {
        let indent = "\t".repeat(depth);
        self.text += &indent;
        match self.rng.below(8) {
            0 if depth < 4 => {
                self.text += "if (!";
                self.expression();
                self.text += ") {\n";
                self.statement(depth + 1);
                self.text += &indent;
                self.text += "}\n";
            }
            1 => {
                self.text += "/* ";
                self.sentence();
                self.text += " */\n";
            }
            2 => {
                self.text += TYPES[self.rng.below(8) as usize];
                self.text.push(' ');
                self.name();
                self.text += " = ";
                self.expression();
                self.text += ";\n";
            }
            3..6 => {
                self.expression();
                self.text += ";\n";
            }
            _ => {
                self.expression();
                self.text += " = ";
                self.expression();
                self.text += ";\n";
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_depends_on_its_seed_and_has_the_length() {
        let text = sources(100_000, 1);
        assert_eq!((text.len(), &text), (100_000, &sources(100_000, 1)));
        assert_ne!(text, sources(100_000, 2));
        assert_eq!(text[..10_000], sources(10_000, 1));
        assert!(std::str::from_utf8(&text).is_ok_and(|text| text.contains("static ")));
    }
}
