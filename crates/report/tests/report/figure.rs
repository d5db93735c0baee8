//! Figures as files of their own.

use crate::fixture::*;
use flashlab_report::figure::{bars, errors, mechanisms};

#[test]
fn each_pattern_each_table_and_each_cell_has_its_figure() {
    let results = sd_cards_fixture();
    let titles = |figures: Vec<flashlab_report::figure::Figure>| -> Vec<String> {
        figures.into_iter().map(|figure| figure.title).collect()
    };
    assert_eq!(
        titles(bars::figures(&results)),
        ["Sequential write, 1 MiB", "Sequential read, 1 MiB", "Random write, 4 KiB", "Random read, 4 KiB"]
    );
    assert_eq!(titles(errors::figures(&results))[..2], ["raw write 1M", "vfat write 1M"]);
    assert_eq!(mechanisms::figures(&results).len(), 48);
    assert_eq!(mechanisms::figures(&at91_fixture()).len(), 17, "interrupt counts timed no request");
}

#[test]
fn a_figure_is_a_file_of_its_own_with_both_themes() {
    for results in [sd_cards_fixture(), at91_fixture(), hostile_fixture()] {
        let mut figures = bars::figures(&results);
        figures.extend(errors::figures(&results));
        figures.extend(mechanisms::figures(&results));
        for figure in figures {
            let file = figure.to_svg();
            let document = roxmltree::Document::parse(&file).expect("well-formed");
            assert_eq!(document.root_element().tag_name().namespace(), Some("http://www.w3.org/2000/svg"));
            assert!(file.contains("prefers-color-scheme: dark"));
            assert!(!file.contains("NaN") && !file.contains("inf%"), "{}", figure.title);
        }
    }
}
