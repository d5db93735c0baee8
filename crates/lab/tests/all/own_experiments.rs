//! Experiments in a user's folder: names of their devices, names in bounds, and reads of unwritten data.

use super::experiments::{Folder, LIBRARY};
use flashlab_lab::experiment::Experiment;
use flashlab_lab::progress::Progress;
use std::fs;

const CARD: &str = include_str!("../../../catalogue/tests/profiles/library/profiles/test/one.toml");
const OWN: &str = r#"
title = "A card in two rows"
kind = "matrix"
source = "a test"
[columns]
own = "card.toml"
one = "test/one"
[[row]]
name = "slow"
keys = "host=slow-board"
[[row]]
name = "fast"
[[step]]
table = "read"
unit = "IOPS"
job = "--name=a --direct=1 --rw=read --bs=4k --size=64k"
[[step]]
table = "write"
unit = "IOPS"
job = "--name=a --direct=1 --rw=write --bs=4k --size=64k"
[[step]]
table = "read again"
unit = "IOPS"
job = "--name=a --direct=1 --rw=read --bs=4k --size=64k"
"#;

fn own(name: &str, experiment: &str, published: &str) -> Folder {
    let folder = Folder::new(name, experiment, published);
    fs::write(folder.0.join("card.toml"), CARD).unwrap();
    folder
}

#[test]
fn the_hash_of_inputs_does_not_depend_on_how_the_path_of_the_folder_is_written() {
    let folder = own("own-paths", OWN, "");
    let run = |path: &str| {
        let experiment = Experiment::open(path, &LIBRARY).unwrap_or_else(|e| panic!("{e}"));
        experiment.run(&LIBRARY, 1, &Progress::default()).unwrap_or_else(|e| panic!("{e}"))
    };
    let path = folder.0.display().to_string();
    let (plain, odd) = (run(&path), run(&format!("{path}/../own-paths/experiment.toml")));
    assert_eq!(plain.inputs, odd.inputs);
    let paths: Vec<&str> = plain.parameters.iter().map(|parameter| &*parameter.path).collect();
    assert!(paths.iter().all(|name| !name.contains("own-paths")), "{paths:?}");
    assert!(plain.devices.iter().any(|device| device.name == "card.toml"));
}

#[test]
fn reads_of_unwritten_data_are_named() {
    let results = own("own-unwritten", OWN, "").run(1);
    let notes: Vec<_> = results.notes.iter().filter(|note| note.starts_with("Unwritten data: ")).collect();
    let [note] = notes[..] else { panic!("{notes:?}") };
    assert!(note.contains("read slow/own, read slow/one, read fast/own, read fast/one."), "{note}");
}

/// Returns the error of the experiment [`OWN`] with this text appended.
fn wrong(text: &str) -> String {
    own("own-wrong", &format!("{OWN}{text}"), "").wrong()
}

#[test]
fn a_wrong_key_of_a_row_names_the_row() {
    let bad = OWN.replace("host=slow-board", "flash.t_porg=1ms");
    let error = own("own-row", &bad, "").wrong();
    assert!(error.starts_with("DIR/experiment.toml: column own, row slow: "), "{error}");
}

#[test]
fn a_row_or_a_cell_occurs_only_once() {
    let error = wrong("[[row]]\nname = \"slow\"\n");
    assert_eq!(error, "DIR/experiment.toml: row \"slow\" occurs twice");
    let step =
        "[[step]]\ntable = \"read\"\nunit = \"IOPS\"\njob = \"--rw=read --size=4k\"\nrows = [\"fast\"]\n";
    let error = wrong(step);
    let expected = "two steps have the cell \"read fast/own\"; give each a table of its own";
    assert_eq!(error, format!("DIR/experiment.toml: {expected}"));
}

#[test]
fn a_bound_names_existing_rows_and_tables_and_possible_numbers() {
    for (keys, expected) in [
        ("from = \"slw\"\nbelow = 1", "from: there is no row \"slw\"; did you mean slow?"),
        ("ratio_to = \"pi5\"\nat_least = 1", "ratio_to: there is no row \"pi5\""),
        ("knee = \"pi5\"", "knee: there is no row \"pi5\""),
        ("against = \"reed\"\nat_least = 1", "against: there is no table \"reed\"; did you mean read?"),
        ("percent = 1\nexpected = { pi5 = 20.0 }", "expected: there is no row \"pi5\""),
        ("at_least = 30\nat_most = 5", "at_least = 30 is above at_most = 5"),
        ("percent = -5", "percent must be 0 or more"),
    ] {
        let error = wrong(&format!("[[bound]]\nname = \"b\"\ncells = [\"*\"]\n{keys}\n"));
        assert_eq!(error, format!("DIR/experiment.toml: bound \"b\": {expected}"));
    }
    for figure in ["{ mean = -3 }", "{ mean = 3, sd = -0.4 }"] {
        let table = format!("[[table]]\nname = \"read\"\nrow = \"slow\"\nunit = \"IOPS\"\nown = {figure}\n");
        let error = own("own-published", OWN, &table).wrong();
        assert!(error.starts_with("DIR/published.toml: table \"read\", own: expected"), "{error}");
    }
}
