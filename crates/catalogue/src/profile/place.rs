//! Positions in a text, and their presentation: file, line, column, and the line itself with carets underneath.

use std::fmt;
use std::ops::Range;

/// Maximum number of characters shown of a line.
const SHOWN: usize = 100;

/// A text from outside, with its name for messages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourceText {
    /// Path of the file as a user would open it, or `argument`.
    pub file: String,
    /// The content.
    pub text: String,
}

impl SourceText {
    /// Returns `text` with the name `file`.
    pub fn new(file: impl Into<String>, text: impl Into<String>) -> Self {
        SourceText { file: file.into(), text: text.into() }
    }

    /// Returns the place of a byte range. Bounds beyond the end or inside a character move to the left.
    pub fn place(&self, span: Range<usize>) -> Place {
        let start = self.boundary(span.start);
        let end = self.boundary(span.end).max(start);
        let line_start = self.text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = self.text[start..].find('\n').map_or(self.text.len(), |at| start + at);
        let column = self.text[line_start..start].chars().count();
        let width = self.text[start..end.min(line_end)].chars().count().max(1);
        let skipped = if column < SHOWN - 20 { 0 } else { column - SHOWN / 2 };
        let line = self.text[line_start..line_end].trim_end_matches('\r');
        let shown: String = line.chars().skip(skipped).take(SHOWN).map(printable).collect();
        Place {
            file: self.file.clone(),
            line: self.text[..start].bytes().filter(|b| *b == b'\n').count() + 1,
            column: column + 1,
            indent: column - skipped,
            width: width.min(SHOWN - (column - skipped)),
            shown,
        }
    }

    /// Returns the line of byte `at`, counted from 1.
    pub fn line(&self, at: usize) -> usize {
        self.place(at..at).line
    }

    fn boundary(&self, at: usize) -> usize {
        (0..=at.min(self.text.len())).rev().find(|at| self.text.is_char_boundary(*at)).unwrap_or(0)
    }
}

fn printable(c: char) -> char {
    match c {
        '\t' => ' ',
        c if c.is_control() => char::REPLACEMENT_CHARACTER,
        c => c,
    }
}

/// A place in a [`SourceText`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Place {
    /// Name of the text.
    pub file: String,
    /// Line, counted from 1.
    pub line: usize,
    /// Column in characters, counted from 1.
    pub column: usize,
    shown: String,
    indent: usize,
    width: usize,
}

impl Place {
    /// Returns the line of the text with carets under the place. The picture ends without a newline.
    pub fn picture(&self) -> Picture<'_> {
        Picture(self)
    }
}

impl fmt::Display for Place {
    /// `profiles/sd/kingston.toml:12:10`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// Displays the line of a place with carets underneath.
pub struct Picture<'a>(&'a Place);

impl fmt::Display for Picture<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { line, shown, indent, width, .. } = self.0;
        let gutter = line.to_string().len();
        writeln!(f, " {line} | {shown}")?;
        write!(f, " {:gutter$} | {:indent$}{}", "", "", "^".repeat(*width))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_and_columns_count_characters_from_one() {
        let text = SourceText::new("x.toml", "a = 1\n\u{e9}\t= \"2\"\r\n");
        let place = text.place(11..14);
        assert_eq!(place.to_string(), "x.toml:2:5");
        assert_eq!(place.picture().to_string(), " 2 | \u{e9} = \"2\"\n   |     ^^^");
    }

    #[test]
    fn a_long_line_is_cut_to_the_part_around_the_place() {
        let text = SourceText::new("x", format!("{}HERE{}", "-".repeat(5_000_000), "-".repeat(5_000_000)));
        let place = text.place(5_000_000..5_000_004);
        assert_eq!(place.column, 5_000_001);
        let picture = place.picture().to_string();
        assert!(picture.len() < 300, "{}", picture.len());
        assert!(picture.contains("--HERE--"));
    }

    proptest! {
        #[test]
        fn any_range_of_any_text_has_a_place(text: String, start in 0_usize..200, length in 0_usize..200) {
            let text = SourceText::new("x", text);
            let place = text.place(start..start + length);
            let _ = place.picture().to_string();
        }
    }
}
