//! Labels of closed forms, such as G1 or Q7. Each label in a test has a row in docs/closed-forms.md, each row
//! has a label that the code names, and the tests that the page names exist.

use crate::tidy::{files, read};
use std::collections::BTreeSet;
use std::path::Path;

/// The page with a row for each label.
const PAGE: &str = "docs/closed-forms.md";
/// The folders with the tests and the code that name closed forms.
const FOLDERS: [&str; 6] = [
    "crates/catalogue/tests",
    "crates/flash/src/ftl/gc",
    "crates/flash/tests",
    "crates/lab/src/experiment/gc",
    "crates/lab/tests",
    "crates/nvme/tests",
];
/// The first letters of the labels.
const LETTERS: &str = "CEGLQW";
/// The number of underscores from which a word in code font is the name of a test.
const UNDERSCORES_MIN: usize = 3;

/// Compares the labels and the names of tests on the page with the code.
pub(crate) fn check(findings: &mut Vec<String>) {
    let page = read(Path::new(PAGE), findings);
    let rows = rows(&page);
    let (mut code, mut named) = (String::new(), BTreeSet::new());
    for file in FOLDERS.iter().flat_map(|folder| files(Path::new(folder), ".rs")) {
        let text = read(&file, findings);
        for (number, line) in (1..).zip(text.lines()) {
            for label in labels(line) {
                if !rows.contains(&label) {
                    findings.push(format!("{}:{number}: {PAGE} has no row for {label}", file.display()));
                }
                named.insert(label);
            }
        }
        code.push_str(&text);
    }
    findings.extend(rows.difference(&named).map(|label| format!("{PAGE}: no code names {label}")));
    let missing = tests_named(&page).filter(|name| !code.contains(&format!("fn {name}(")));
    findings.extend(missing.map(|name| format!("{PAGE}: there is no test {name}")));
}

/// Returns the labels in the first column of the tables of the page.
fn rows(page: &str) -> BTreeSet<String> {
    let cells = page.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" |"));
    cells.flat_map(|(cell, _)| labels(cell)).collect()
}

/// Returns the labels in a line. "G1 to G3" names three labels.
fn labels(line: &str) -> Vec<String> {
    let mut labels = Vec::new();
    // The label before this word, and the label before the word "to" before this word.
    let (mut last, mut start) = (None, None);
    let words = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty());
    for word in words {
        if let Some((letter, number)) = label(word) {
            let first = start.filter(|(first, _)| *first == letter).map_or(number, |(_, first)| first + 1);
            labels.extend((first..=number).map(|number| format!("{letter}{number}")));
            (last, start) = (Some((letter, number)), None);
        } else {
            (last, start) = (None, last.filter(|_| word == "to"));
        }
    }
    labels
}

/// Returns the letter and the number of a label, or `None` if the word is not a label.
fn label(word: &str) -> Option<(char, u32)> {
    let letter = word.chars().next().filter(|letter| LETTERS.contains(*letter))?;
    let digits = &word[1..];
    let number = digits.parse().ok().filter(|_| digits.len() <= 2)?;
    Some((letter, number))
}

/// Returns the names of tests on the page.
fn tests_named(page: &str) -> impl Iterator<Item = &str> {
    let is_name = |word: &str| word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    let code = page.split('`').skip(1).step_by(2);
    code.filter(move |word| is_name(word) && word.matches('_').count() >= UNDERSCORES_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_a_letter_and_a_number_and_to_stands_for_a_range() {
        let named = ["L1", "G9", "G10", "G11", "W5", "Q2", "G1"];
        assert_eq!(labels("//! Forms (L1, G9 to G11, W5), and from Q2 to \"G1, rho 0.9\"."), named);
        assert!(labels("R1, A2, 0xC1, G, G123, Q1_a, EQ1 and 1.0E1 are others.").is_empty());
    }

    #[test]
    fn the_first_column_of_a_table_and_long_names_in_code_font_count() {
        let page = "G1\n\n| label | test |\n|---|---|\n| G3, W4 | Q5: `a_b_c_d`, `t_look`, `a_b_c(d_e)` |";
        assert_eq!(rows(page), BTreeSet::from(["G3".to_owned(), "W4".to_owned()]));
        assert_eq!(tests_named(page).collect::<Vec<_>>(), ["a_b_c_d"]);
    }
}
