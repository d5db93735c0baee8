//! Tests of CSV: the header and complete records.

use crate::fixture::*;
use flashlab_lab::results::Results;
use flashlab_report::csv::{cells, curves, files, series, wear};

#[test]
fn header_and_records_have_every_field() {
    let text = cells(&sd_cards_fixture());
    let lines: Vec<&str> = text.split("\r\n").collect();
    assert_eq!(lines.len(), 1 + 48 + 1);
    assert_eq!(lines[49], "");
    insta::assert_snapshot!([lines[0], lines[1], lines[2], lines[39]].join("\n"));
}

#[test]
fn any_text_survives_a_round_trip() {
    let results = hostile_fixture();
    let text = cells(&results);
    let mut reader = ::csv::Reader::from_reader(text.as_bytes());
    let header = reader.headers().expect("a header").clone();
    let at = |name: &str| header.iter().position(|h| h == name).expect("the column");
    let records: Vec<_> = reader.records().collect::<Result<_, _>>().expect("well-formed");
    assert_eq!(records.len(), results.cells.len());
    for (record, cell) in records.iter().zip(&results.cells) {
        assert_eq!(&record[at("experiment")], results.experiment);
        assert_eq!(&record[at("table")], cell.table);
        assert_eq!(&record[at("row")], cell.row);
        assert_eq!(&record[at("column")], cell.column);
    }
}

#[test]
fn results_without_cells_have_a_header_alone() {
    assert_eq!(cells(&empty_fixture()).lines().count(), 1);
}

#[test]
fn each_point_and_each_block_has_a_record() {
    let sweep = curves(&sweep_fixture());
    let lines: Vec<&str> = sweep.split("\r\n").collect();
    assert_eq!(lines.len(), 1 + 19 * (5 + 3 + 3) + 1);
    insta::assert_snapshot!([lines[0], lines[1], lines[5], lines[20]].join("\n"));
    let results = worn_fixture();
    let points: usize = results.series.iter().map(|series| series.points.len()).sum();
    assert_eq!(series(&results).lines().count(), 1 + points);
    let blocks = wear(&results);
    assert_eq!(blocks.lines().count(), 1 + 5 * 3700 + 16_384);
    let bad: usize = results.wear.iter().map(|map| map.bad.len()).sum();
    assert_eq!(blocks.matches(",true\r\n").count(), bad);
    assert!(blocks.contains("worn,\"sequential, none, unlimited\",273,10000,false\r\n"));
}

#[test]
fn a_run_has_a_file_for_each_kind_of_figure() {
    let names = |results: &Results| files(results).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    assert_eq!(names(&sd_cards_fixture()), ["cells.csv"]);
    let both = Results { curves: sweep_fixture().curves, ..worn_fixture() };
    assert_eq!(names(&both), ["cells.csv", "curves.csv", "series.csv", "wear.csv"]);
    assert_eq!(files(&both)[3].1, wear(&both));
}
