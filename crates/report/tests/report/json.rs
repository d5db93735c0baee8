//! JSON: what programs keep.

use crate::fixture::*;
use flashlab_report::json::results;

#[test]
fn json_has_every_cell_and_the_count_of_parameters() {
    let fixture = sd_cards_fixture();
    let value: serde_json::Value = serde_json::from_str(&results(&fixture)).expect("JSON");
    assert_eq!(value["cells"].as_array().map(Vec::len), Some(48));
    assert_eq!(value["parameters"].as_array().map(Vec::len), Some(fixture.parameters.len()));
    assert_eq!(value["cells"][0]["published"]["mean"], 22.2);
    assert_eq!(value["cells"][0]["role"], "fitted");
    assert!(value["cells"][0]["mechanisms"]["program"].is_number());
}

#[test]
fn figures_that_are_not_finite_are_null() {
    let value: serde_json::Value = serde_json::from_str(&results(&hostile_fixture())).expect("JSON");
    assert!(value["cells"][5]["simulated"]["mean"].is_null());
}

#[test]
fn curves_wear_series_and_statistics_are_in_json_where_there_are_any() {
    let value: serde_json::Value = serde_json::from_str(&results(&sweep_fixture())).expect("JSON");
    assert_eq!(value["curves"][0]["series"][1]["points"].as_array().map(Vec::len), Some(19));
    assert_eq!(value["curves"][0]["series"][0]["published"][1]["below"], 10.0);
    assert!(value["statistics"][0]["map_look_ups"]["miss"].is_number());
    let value: serde_json::Value = serde_json::from_str(&results(&worn_fixture())).expect("JSON");
    assert_eq!(value["wear"][0]["erase_counts"].as_array().map(Vec::len), Some(3700));
    assert!(value.get("curves").is_none());
}
