//! Data of the interactive charts of a page.

use crate::fixture::*;
use flashlab_lab::results::Results;
use roxmltree::{Document, ParsingOptions};
use serde_json::Value;
use std::collections::BTreeSet;

/// Returns the charts of the page of `results`, those of each figure in a list.
fn charts(results: &Results) -> Vec<Vec<Value>> {
    let page = flashlab_report::html::page(results, "flashlab run");
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    let document = Document::parse_with_options(&page, options).expect("well-formed");
    let data = document.descendants().filter_map(|node| node.attribute("data-charts"));
    data.map(|text| serde_json::from_str(text).expect("JSON")).collect()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

#[test]
fn a_variant_has_one_colour_and_each_level_of_its_map_look_ups_has_a_dash() {
    let figures = charts(&sweep_fixture());
    let [main, map] = &figures[0][..] else { panic!("two charts, not {:?}", figures[0]) };
    let series = |chart: &Value| chart["series"].as_array().expect("series").clone();
    // No two series of the chart look alike.
    let looks: BTreeSet<(String, String)> = series(main)
        .iter()
        .map(|line| (text(line, "colour").to_owned(), text(&line["parts"][0], "form").to_owned()))
        .collect();
    assert_eq!(looks.len(), series(main).len());
    for line in series(map) {
        let (names, level) = text(&line, "name").rsplit_once(": ").expect("series and level");
        let form = match level {
            "SRAM" => "dotted",
            "HMB" => "dashed",
            _ => "line",
        };
        assert_eq!(text(&line["parts"][0], "form"), form, "{names}");
        let first = names.split("; ").next().expect("a name");
        let of = |other: &Value| text(other, "name").trim_end_matches(" (variant)") == first;
        let same = series(main).into_iter().find(|other| of(other)).expect("the series");
        assert_eq!(text(&line, "colour"), text(&same, "colour"), "{names}");
    }
    assert!(text(map, "title").starts_with("Map look-ups") && text(map, "subtitle").contains("GiB"));
}

#[test]
fn charts_of_different_steps_are_not_linked() {
    let mut results = worn_fixture();
    let mut other = results.series.clone();
    other.iter_mut().for_each(|series| series.step = "another step".into());
    results.series.extend(other);
    let figures = charts(&results);
    let links = |is_other: bool| -> BTreeSet<String> {
        let of = figures
            .iter()
            .flatten()
            .filter(|chart| text(chart, "label").contains("another step") == is_other);
        of.map(|chart| text(chart, "link").to_owned()).collect()
    };
    assert!(!links(true).is_empty() && links(true).is_disjoint(&links(false)), "{:?}", links(true));
}
