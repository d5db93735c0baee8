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
