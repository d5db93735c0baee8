//! The terminal table: snapshots that a person can judge, and its width.

use crate::fixture::*;
use flashlab_report::terminal::{WIDTH, table};

#[test]
fn sd_cards_table_reads_well() {
    insta::assert_snapshot!(table(&sd_cards_fixture(), false));
}

#[test]
fn at91_table_reads_well() {
    insta::assert_snapshot!(table(&at91_fixture(), false));
}

#[test]
fn no_line_is_wider_than_promised_or_ends_in_a_space() {
    for results in [sd_cards_fixture(), at91_fixture(), empty_fixture(), hostile_fixture()] {
        for line in table(&results, false).lines() {
            assert!(line.chars().count() <= WIDTH, "{} columns: {line}", line.chars().count());
            assert_eq!(line, line.trim_end());
        }
    }
}

#[test]
fn colour_changes_nothing_but_colour() {
    for results in [sd_cards_fixture(), at91_fixture()] {
        let coloured = table(&results, true);
        let is_missed = results.bounds.iter().any(|bound| !bound.held);
        assert_eq!(coloured.contains("\u{1b}[1;31m"), is_missed, "a missed bound is red");
        let mut plain = String::new();
        let mut rest = coloured.as_str();
        while let Some((before, after)) = rest.split_once('\u{1b}') {
            plain.push_str(before);
            rest = after.split_once('m').expect("every sequence sets a colour").1;
        }
        plain.push_str(rest);
        assert_eq!(plain, table(&results, false));
    }
}

#[test]
fn names_from_outside_cannot_move_the_cursor() {
    assert!(!table(&hostile_fixture(), false).contains('\u{1b}'));
}
