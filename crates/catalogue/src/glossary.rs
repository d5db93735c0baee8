//! The words of `docs/glossary.md`, with their meanings.

/// Text of the glossary.
const TEXT: &str = include_str!("../../../docs/glossary.md");

/// Returns the words of an entry, as written, and their meaning. The name is one of the words (`clat`), a word without
/// its addition in parentheses (`write amplification`), or the addition (`WA`); the case of letters does not matter.
///
/// ```
/// let (words, meaning) = flashlab_catalogue::glossary::entry("write amplification").expect("a word of the glossary");
/// assert!(words.contains("WA") && meaning.contains("bytes programmed"));
/// ```
pub fn entry(name: &str) -> Option<(&'static str, &'static str)> {
    entries().find(|(words, _)| names(words).any(|known| known.eq_ignore_ascii_case(name)))
}

/// Returns the words and meanings of all entries.
fn entries() -> impl Iterator<Item = (&'static str, &'static str)> {
    let rows = TEXT.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | "));
    rows.filter(|(word, _)| *word != "word")
}

/// Returns the names of an entry.
fn names(words: &str) -> impl Iterator<Item = &str> {
    words.split([',', '(', ')']).map(str::trim).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_by_each_of_their_names() {
        for name in ["wear", "WA", "write amplification", "effective spare", "slat", "garbage collection"] {
            assert!(entry(name).is_some_and(|(_, meaning)| !meaning.is_empty()), "{name}");
        }
        assert_eq!(entry("word"), None);
        assert_eq!(entry(""), None);
    }

    #[test]
    fn every_kind_of_source_is_in_the_glossary() {
        for word in crate::profile::Source::WORDS {
            assert!(entry(word).is_some_and(|(_, meaning)| meaning.starts_with("of a number:")), "{word}");
        }
    }
}
