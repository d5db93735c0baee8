//! Tests of JSON.

use crate::fixture::*;
use flashlab_lab::results::{Results, Role};
use flashlab_report::json::results as json;

#[test]
fn json_has_every_cell_and_every_parameter() {
    let fixture = sd_cards_fixture();
    let value: serde_json::Value = serde_json::from_str(&json(&fixture)).expect("JSON");
    assert_eq!(value["cells"].as_array().map(Vec::len), Some(48));
    assert_eq!(value["parameters"].as_array().map(Vec::len), Some(fixture.parameters.len()));
    assert_eq!(value["cells"][0]["published"]["mean"], 22.2);
    assert_eq!(value["cells"][0]["role"], "fitted");
    assert!(value["cells"][0]["mechanisms"]["program"].is_number());
}

#[test]
fn figures_that_are_not_finite_are_null() {
    let value: serde_json::Value = serde_json::from_str(&json(&hostile_fixture())).expect("JSON");
    assert!(value["cells"][5]["simulated"]["mean"].is_null());
}

#[test]
fn curves_wear_series_and_statistics_are_in_json_where_there_are_any() {
    let value: serde_json::Value = serde_json::from_str(&json(&sweep_fixture())).expect("JSON");
    assert_eq!(value["curves"][0]["series"][1]["points"].as_array().map(Vec::len), Some(19));
    assert_eq!(value["curves"][0]["series"][0]["published"][1]["below"], 10.0);
    assert!(value["statistics"][0]["map_look_ups"]["miss"].is_number());
    let value: serde_json::Value = serde_json::from_str(&json(&worn_fixture())).expect("JSON");
    assert_eq!(value["wear"][0]["erase_counts"].as_array().map(Vec::len), Some(3700));
    assert!(value.get("curves").is_none());
}

#[test]
fn only_cells_with_a_measurement_count_as_predictions() {
    let mut results = sd_cards_fixture();
    let predicted = |results: &Results| {
        let value: serde_json::Value = serde_json::from_str(&json(results)).expect("JSON");
        value["summary"].clone()
    };
    let all = predicted(&results);
    assert_eq!(
        (&all["measured"], &all["unmeasured"], &all["predicted"]),
        (&48.into(), &0.into(), &24.into())
    );
    let mut bare = results.cells.iter_mut().filter(|cell| cell.role == Role::Predicted);
    for cell in bare.by_ref().take(21) {
        cell.published = None;
        cell.error_percent = None;
    }
    for (cell, error) in
        results.cells.iter_mut().filter(|c| c.role == Role::Predicted).skip(21).zip([-7.0, 3.0, 5.0])
    {
        cell.error_percent = Some(error);
    }
    let some = predicted(&results);
    assert_eq!(
        (&some["measured"], &some["unmeasured"], &some["predicted"]),
        (&27.into(), &21.into(), &3.into())
    );
    assert_eq!((&some["predicted_with_error"], &some["error_percent_median"]), (&3.into(), &5.0.into()));
    let table = flashlab_report::terminal::table(&results, 100, false).replace('\n', " ");
    let count = "for 48 cells: 27 have a measurement (24 fitted, 3 predicted), 21 have none";
    assert!(table.contains(count), "{table}");
    let page = flashlab_report::html::page(&results, "flashlab run at91").replace('\u{a0}', " ");
    for words in [
        "The median error of the 3 predictions with a measurement is 5.0 %.",
        "of 3 predictions with a measurement; 21 cells without",
    ] {
        assert!(page.contains(words), "{words}");
    }
    assert!(flashlab_report::csv::cells(&results).contains(",predicted,false,"));
}
