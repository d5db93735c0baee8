//! `flashlab fit EXPERIMENT`: the profiles of all cards together.

use super::folder::Folder;
use serde_json::Value;
use std::fmt::Write;

const EXPERIMENT: &str = r#"
title = "Two cards"
kind = "matrix"
source = "none"

[columns]
one = "sd/one"
two = "sd/two"

[[step]]
table = "raw randwrite 4K"
unit = "IOPS"
job = "--name=w --filesize=1G --number_ios=200 --direct=1 --bs=4K --rw=randwrite"

[[step]]
table = "raw write 1M"
unit = "MiB/s"
job = "--name=s --filesize=64M --direct=1 --bs=1M --rw=write"

[[step]]
table = "raw randread 4K"
unit = "IOPS"
job = "--name=r --filesize=64M --number_ios=200 --direct=1 --bs=4K --rw=randread"
"#;

/// Returns the profile of a card with these times. Both cards share `ftl.t_commit`.
fn profile(card: &str, t_read: &str, t_prog: &str, t_commit: &str) -> String {
    let shipped = include_str!("../../../../../profiles/sd/kingston.toml");
    let shared = r#"["raw randwrite 4K/one", "raw randwrite 4K/two"]"#;
    let with = |text: String, key: &str, value: &str| {
        let is_key = |line: &str| line.split_once('=').is_some_and(|(name, _)| name.trim() == key);
        let lines = text
            .lines()
            .map(|line| if is_key(line) { format!("{key} = {value:?}") } else { line.to_owned() });
        lines.collect::<Vec<_>>().join("\n")
    };
    let text = shipped
        .replace(r#"["raw randwrite 4K/kingston"]"#, shared)
        .replace("/kingston", &format!("/{card}"))
        .replace("/sandisk", &format!("/{card}"));
    [("t_read", t_read), ("t_prog", t_prog), ("t_commit", t_commit)]
        .into_iter()
        .fold(text, |text, (key, value)| with(text, key, value))
}

/// Writes a library with the profiles of the two cards, which have `times`, and with the experiment and its `published`
/// figures.
fn put_library(folder: &Folder, times: [&str; 5], published: &str) {
    folder.put("lib/profiles/sd/one.toml", profile("one", times[0], times[1], times[4]));
    folder.put("lib/profiles/sd/two.toml", profile("two", times[2], times[3], times[4]));
    folder.put("lib/experiments/two-cards/experiment.toml", EXPERIMENT);
    folder.put("lib/experiments/two-cards/published.toml", published);
}

const TRUE: [&str; 5] = ["300us", "400us", "500us", "250us", "800us"];
const WRONG: [&str; 5] = ["400us", "360us", "450us", "300us", "600us"];

/// Simulates the experiment. Returns the figures in the format of published ones.
fn simulate(folder: &Folder) -> String {
    let run = folder.run(&["run", "two-cards", "--library", "lib", "--format", "json", "--no-html"]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    let results: Value = serde_json::from_str(&run.out).expect("standard output is JSON alone");
    let mut text = String::new();
    let cells = results["cells"].as_array().expect("a list");
    for table in ["raw randwrite 4K", "raw write 1M", "raw randread 4K"] {
        let unit = if table == "raw write 1M" { "MiB/s" } else { "IOPS" };
        writeln!(text, "[[table]]\nname = \"{table}\"\nunit = \"{unit}\"").expect("a text");
        for cell in cells.iter().filter(|cell| cell["table"] == table) {
            let column = cell["column"].as_str().expect("a name");
            let mean = cell["simulated"]["mean"].as_f64().or_else(|| cell["simulated"].as_f64());
            let mean = mean.unwrap_or_else(|| panic!("no value in {cell}"));
            writeln!(text, "{column} = {{ mean = {mean}, sd = 0.1 }}").expect("a text");
        }
    }
    text
}

fn fit(folder: &Folder, to: &str) -> Value {
    let run = folder.run(&["fit", "two-cards", "--library", "lib", "--to", to, "--format", "json"]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    serde_json::from_str(&run.out).expect("standard output is JSON alone")
}

#[test]
fn a_fit_of_an_experiment_finds_the_numbers_of_all_cards_and_keeps_its_own_result() {
    let folder = Folder::new("fit-experiment");
    put_library(&folder, TRUE, "");
    let published = simulate(&folder);
    put_library(&folder, WRONG, &published);
    let fitted = fit(&folder, "new");
    let numbers = fitted["numbers"].as_array().expect("a list");
    let find = |path: &str, cell: &str| {
        let is_it = |number: &&Value| number["path"] == path && number["cells"][0] == cell;
        numbers.iter().find(is_it).unwrap_or_else(|| panic!("{path} on {cell}: {fitted}"))
    };
    for (path, cell, truth) in [
        ("flash.t_read", "raw randread 4K/one", 300.0),
        ("flash.t_read", "raw randread 4K/two", 500.0),
        ("flash.t_prog", "raw write 1M/one", 400.0),
        ("flash.t_prog", "raw write 1M/two", 250.0),
        ("ftl.t_commit", "raw randwrite 4K/one", 800.0),
    ] {
        let after = find(path, cell)["after"].as_str().expect("a text");
        let after: f64 = after.trim_end_matches("us").parse().expect("microseconds");
        // fio states times in whole milliseconds, which is up to 1.1 % of a step.
        assert!((after / truth - 1.0).abs() < 0.02, "{path} on {cell}: {after} instead of {truth}");
    }
    assert_eq!(numbers.len(), 5, "the cards share ftl.t_commit: {fitted}");
    let sum = |which: &str| fitted[which].as_f64().expect("a number");
    assert!(sum("sum_after") < 1.0 && sum("sum_before") > 100.0, "{fitted}");

    // The written profiles are the library of the next fit, which changes nothing.
    for card in ["one", "two"] {
        let name = format!("sd/{card}.toml");
        folder.put(&format!("lib/profiles/{name}"), folder.read(&format!("new/{name}")));
    }
    fit(&folder, "again");
    for card in ["one", "two"] {
        let read = |to: &str| folder.read(&format!("{to}/sd/{card}.toml"));
        assert_eq!(read("new"), read("again"));
    }
}

#[test]
fn options_of_the_fit_of_one_card_are_refused_beside_an_experiment() {
    let folder = Folder::new("fit-experiment-options");
    for option in [&["--base", "sd/kingston"][..], &["--fit-host"], &["--number", "flash.t_read"]] {
        let run = folder.run(&[&["fit", "sd-cards"][..], option].concat());
        assert_eq!(run.code, Some(2), "{}", run.out);
        let names_the_way_out = run.err.contains("flashlab fit sd-cards:COLUMN");
        assert!(run.err.contains(option[0]) && names_the_way_out, "{}", run.err);
    }
    let run = folder.run(&["fit", "gc"]);
    assert_eq!(run.code, Some(2), "{}", run.out);
    assert!(run.err.contains("has the source `fitted`"), "{}", run.err);
}
