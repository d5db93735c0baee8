//! Comments with headless clauses: sentences that open with a relative or interrogative word or a bare pronoun, such as
//! "What was refused" or "Those of the last write". A reader has to supply their noun.
//!
//! The rule looks at the first word of a sentence only, so that everyone can predict it. The rule does not
//! find every sentence that is hard to read.

use crate::tidy::{files, read};
use std::path::Path;

/// The words that make a sentence headless if it opens with one of them.
const WORDS: [&str; 8] = ["What", "Who", "Whom", "Whose", "Whether", "Which", "Those", "Both"];
/// Greatest share of comment lines with such a sentence, in per cent.
const SHARE_MAX_PERCENT: usize = 1;

/// Comment lines of a text, and those in which a sentence opens with one of [`WORDS`].
#[derive(Debug, Default, PartialEq, Eq)]
struct Count {
    lines: usize,
    /// Numbers of the headless lines from 1, each with true if the sentence opens a doc comment.
    headless: Vec<(usize, bool)>,
}

/// Checks the comments of all sources. A doc comment that opens with one of [`WORDS`] is a finding; in the remaining
/// text, such sentences may be 1 % of the comment lines.
pub(crate) fn check(findings: &mut Vec<String>) {
    let (mut lines, mut headless) = (0, Vec::new());
    for root in ["crates", "xtask", "fuzz/fuzz_targets"] {
        for file in files(Path::new(root), ".rs") {
            let count = count(&read(&file, findings));
            lines += count.lines;
            for (line, opens) in count.headless {
                let place = format!("{}:{line}", file.display());
                if opens {
                    findings.push(format!(
                        "{place}: the doc comment opens with a word that docs/contributing.md excludes under English; name the thing"
                    ));
                }
                headless.push(place);
            }
        }
    }
    eprintln!("== tidy: {} of {lines} comment lines are headless", headless.len());
    if headless.len() * 100 > lines * SHARE_MAX_PERCENT {
        findings.push(format!(
            "{} of {lines} comment lines are headless, more than {SHARE_MAX_PERCENT} %: {}",
            headless.len(),
            headless.join(", ")
        ));
    }
}

/// Counts the comment lines of a text. Code blocks in comments do not count.
fn count(text: &str) -> Count {
    let mut count = Count::default();
    // True where a sentence begins, and where a comment begins.
    let (mut sentence, mut comment) = (true, true);
    let mut in_code = false;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim_start();
        let Some(rest) = line.strip_prefix("//") else {
            (sentence, comment, in_code) = (true, true, false);
            continue;
        };
        let is_doc = rest.starts_with(['/', '!']);
        let words = rest.trim_start_matches(['/', '!']).trim();
        let is_fence = words.starts_with("```");
        in_code ^= is_fence;
        if in_code || is_fence || words.is_empty() {
            (sentence, comment) = (true, comment && words.is_empty());
            continue;
        }
        count.lines += 1;
        let words = words.strip_prefix("- ").inspect(|_| sentence = true).unwrap_or(words);
        let opens = sentence && is_headless(words);
        if opens || words.split(". ").skip(1).any(is_headless) {
            count.headless.push((number, opens && comment && is_doc));
        }
        (sentence, comment) = (words.ends_with(['.', '?', '!', ':']), false);
    }
    count
}

/// Returns true if a sentence opens with one of [`WORDS`].
fn is_headless(sentence: &str) -> bool {
    let end = sentence.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(sentence.len());
    WORDS.contains(&&sentence[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_that_open_with_a_word_of_the_list_count_wherever_they_begin() {
        let text = [
            "//! What a card refuses.",
            "//!",
            "//! The card refuses it. Those of the last",
            "//! write are kept.",
            "fn f() {} // What the code does is not a comment line.",
            "/// Returns both. The",
            "/// Both of a wrapped sentence does not count.",
            "/// - Whether it is a list item.",
            "/// ```",
            "/// Which is code.",
            "/// ```",
            "// Whatever and Whoever are other words.",
            "    // Both count.",
        ];
        let headless = vec![(1, true), (3, false), (8, false), (13, false)];
        assert_eq!(count(&text.join("\n")), Count { lines: 8, headless });
    }

    #[test]
    fn a_doc_comment_opens_only_once() {
        let text = ["/// Names it.", "///", "/// Whose it is.", "struct A;", "/// Whose it is.", "struct B;"]
            .join("\n");
        assert_eq!(count(&text).headless, [(3, false), (5, true)]);
    }
}
