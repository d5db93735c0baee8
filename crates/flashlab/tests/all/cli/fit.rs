//! `flashlab fit`: refits of a profile, the choice of numbers and steps, several cards, JSON, and refusals.

use super::folder::Folder;
use serde_json::Value;

/// Arguments of the shortest fit of a published cell: one number on the first step.
const ONE: &[&str] = &["--number", "ftl.t_commit", "--step", "raw randwrite 4K"];

#[test]
fn a_refit_changes_only_the_fitted_number_and_its_source_and_names_the_experiments_cell() {
    let folder = Folder::new("fit-refit");
    let arguments =
        ["fit", "sd-cards:kingston", "--base", "sd/kingston", "--to", "new.toml", "--html", "fit.html"];
    let run = folder.run(&[&arguments[..], ONE].concat());
    assert_eq!(run.code, Some(0), "{}", run.err);
    let page = folder.read("fit.html");
    let calls = |word: &str| page.contains(&format!(">{word}<")) || page.contains(&format!(", {word}\""));
    assert!(calls("measured") && !calls("published"), "the page calls measurements published");
    let new = folder.read("new.toml");
    let old = include_str!("../../../../../profiles/sd/kingston.toml");
    let changed: Vec<&str> =
        new.lines().zip(old.lines()).filter(|(new, old)| new != old).map(|(new, _)| new).collect();
    assert_eq!(new.lines().count(), old.lines().count());
    assert!(changed.iter().all(|line| line.contains("t_commit")), "{changed:?}");
    assert!(new.contains(r#""ftl.t_commit" = { fitted = ["raw randwrite 4K/kingston"] }"#), "{new}");
}

/// The rewrite unit of 1.625 MiB shows only if the fit repeats the history of the measurement: preparing the
/// state of each step anew would convert units that the measured card did not convert.
#[test]
fn a_quick_measurement_of_a_virtual_card_gives_its_numbers_back() {
    let folder = Folder::new("fit-quick-plan");
    let run = folder.line("measure sd/gigastone --plan quick --to card.json");
    assert_eq!(run.code, Some(0), "{}", run.err);
    let run = folder.line("fit card.json --to my-card.toml --format json");
    assert_eq!(run.code, Some(0), "{}", run.err);
    let fit: Value = serde_json::from_str(&run.out).expect("standard output is JSON alone");
    let numbers = fit["estimate"]["numbers"].as_array().expect("a list");
    let number = |name: &str| numbers.iter().find(|n| n["name"] == name).expect("the number is fitted");
    let truths =
        [("flash.t_read", 622_400.0), ("flash.t_prog", 400_200.0), ("ftl.rewrite_unit", 1_703_936.0)];
    for (name, truth) in truths {
        let (n, of) = (number(name), |key: &str| number(name)[key].as_f64().expect("a number"));
        assert!(of("low") <= truth && truth <= of("high") && n["determined"] == "yes", "{n}");
    }
    let cells = fit["estimate"]["cells"].as_array().expect("a list");
    assert!(
        cells.iter().any(|cell| cell["name"] == "overwrite-random-4k"),
        "the name of a single card is left out"
    );
}

/// A fit accepts the profile of a reader in docs/fit.md.
#[test]
fn a_card_in_a_usb_reader_is_fitted_on_the_profile_in_the_guide() {
    let folder = Folder::new("fit-reader");
    let guide = include_str!("../../../../../docs/fit.md");
    let profile =
        guide.split_once("```toml\n").and_then(|(_, rest)| rest.split_once("```")).expect("a profile").0;
    folder.put("reader.toml", profile).put("card.csv", "job,value\nrw=randread bs=4k size=64m,1500\n");
    let line = "fit card.csv --number flash.t_read --host";
    let run = folder.line(&format!("{line} ./reader.toml"));
    assert_eq!(run.code, Some(0), "{}", run.err);
    let refused = folder.line(&format!("{line} linux-pc")).refused();
    assert!(
        refused.contains("linux-pc has no card slot") && refused.contains("A card in a USB reader"),
        "{refused}"
    );
    assert!(guide.contains("### A card in a USB reader\n"));
}

/// An experiment with the steps of sd-cards on which the test below fits a profile, and with one further step.
const OWN_EXPERIMENT: &str = r#"
title = "A card of one's own in the steps of sd-cards"
kind = "matrix"
source = "none"

[columns]
mine = "../mine.toml"

[[step]]
table = "raw randwrite 4K"
unit = "IOPS"
job = "--name=w --filesize=1G --number_ios=50 --direct=1 --bs=4K --rw=randwrite"

[[step]]
table = "raw randread 4K"
unit = "IOPS"
job = "--name=r --filesize=1G --number_ios=50 --direct=1 --bs=4K --rw=randread"

[[step]]
table = "raw randread 16K"
unit = "IOPS"
job = "--name=r --filesize=1G --number_ios=50 --direct=1 --bs=16K --rw=randread"
"#;

#[test]
fn an_experiment_counts_the_cells_of_a_fit_on_another_base_as_fitted() {
    let folder = Folder::new("fit-other-base");
    let steps = ["--step", "raw randwrite 4K", "--step", "raw randread 4K"];
    let numbers = ["--number", "ftl.t_commit"];
    let fit = ["fit", "sd-cards:kingston", "--to", "mine.toml"];
    let run = folder.run(&[&fit[..], &steps, &numbers].concat());
    assert_eq!(run.code, Some(0), "{}", run.err);
    // The reads do not depend on the number, but they were cells of the fit.
    let profile = folder.read("mine.toml");
    let cells = r#""ftl.t_commit" = { fitted = ["raw randwrite 4K/sd-cards:kingston", "raw randread 4K/sd-cards:kingston"] }"#;
    assert!(profile.contains(cells), "{profile}");
    folder.put("mine/experiment.toml", OWN_EXPERIMENT);
    folder.put("mine/published.toml", "");
    let run = folder.run(&["run", "./mine", "--format", "json", "--no-html"]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    let results: Value = serde_json::from_str(&run.out).expect("standard output is JSON alone");
    let cells = results["cells"].as_array().expect("a list");
    let roles: Vec<(&str, &str)> =
        cells.iter().filter_map(|c| Some((c["table"].as_str()?, c["role"].as_str()?))).collect();
    let expected =
        [("raw randwrite 4K", "fitted"), ("raw randread 4K", "fitted"), ("raw randread 16K", "predicted")];
    assert_eq!(roles, expected);
}

#[test]
fn unknown_numbers_and_steps_are_refused_with_the_known_ones() {
    let folder = Folder::new("fit-unknown");
    let run = folder.run(&["fit", "sd-cards:kingston", "--number", "flash.t_porg"]);
    assert_eq!(run.code, Some(2));
    assert!(run.err.contains("there is no number flash.t_porg to fit") && run.err.contains("flash.t_prog"));
    let run = folder.run(&["fit", "sd-cards:kingston", "--step", "raw write"]);
    assert_eq!(run.code, Some(2));
    assert!(run.err.contains("there is no step raw write to fit") && run.err.contains("raw write 1M"));
}

#[test]
fn several_cards_share_the_numbers_of_the_host() {
    let folder = Folder::new("fit-host");
    let cards = ["fit", "sd-cards:kingston", "sd-cards:sandisk", "--fit-host", "--format", "json"];
    let chosen = ["--number", "flash.t_prog", "--number", "host.t_block"];
    let steps = ["--step", "raw write 1M", "--step", "raw read 1M"];
    let run = folder.run(&[&cards[..], &chosen, &steps].concat());
    assert_eq!(run.code, Some(0), "{}", run.err);
    let fit: Value = serde_json::from_str(&run.out).expect("standard output is JSON alone");
    let numbers = fit["estimate"]["numbers"].as_array().expect("a list");
    let names: Vec<&str> = numbers.iter().filter_map(|number| number["name"].as_str()).collect();
    assert_eq!(names.iter().filter(|name| **name == "host.t_block").count(), 1, "{names:?}");
    assert_eq!(names.iter().filter(|name| name.ends_with(":flash.t_prog")).count(), 2, "{names:?}");
}

#[test]
fn a_table_without_lengths_is_fitted_as_runs_of_1_gib() {
    let folder = Folder::new("fit-table");
    folder
        .put("table.csv", "job,value,sd,unit\nrw=randread bs=4k,2100,20,IOPS\nrw=write bs=1m,18,0.2,MiB/s\n");
    let run = folder.run(&["fit", "table.csv", "--host", "raspberry-pi-3"]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    assert!(run.out.contains("2 numbers fitted on 2 cells of table on raspberry-pi-3"), "{}", run.out);
    let flat = run.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        flat.contains("step rw=randread bs=4k and 1 other: assumed the job accessed 1 GiB for at most 30 s"),
        "{}",
        run.out
    );
}

#[test]
fn an_unknown_host_is_refused_with_the_known_ones() {
    let folder = Folder::new("fit-no-host");
    folder.put("table.csv", "job,value,unit\nrw=randread bs=4k number_ios=100 size=8m,2100,IOPS\n");
    let run = folder.run(&["fit", "table.csv", "--host", "raspbery-pi-3"]);
    assert_eq!(run.code, Some(2));
    assert!(run.err.contains("there is no host raspbery-pi-3; the hosts are "), "{}", run.err);
    assert!(
        run.err.contains("raspberry-pi-zero-2w") && run.err.contains("did you mean raspberry-pi-3?"),
        "{}",
        run.err
    );
    assert!(
        !run.err.contains("host="),
        "the message quotes no argument that the user did not write: {}",
        run.err
    );
    let run = folder.run(&["fit", "table.csv", "--host", "raspberry-pi-3", "--base", "sd/typicl"]);
    assert_eq!(run.code, Some(2));
    assert!(run.err.contains("did you mean sd/typical?") && !run.err.contains("host="), "{}", run.err);
}

/// Reads of a card with `flash.t_read=120us` in high speed and in DDR50, in which each read takes 150 us longer.
const HIGH_SPEED: &str = "job,value,sd,unit\n\
    rw=randread bs=4k number_ios=200 size=64m,2198,22,IOPS\nrw=randread bs=16k number_ios=200 size=64m,1026,10,IOPS\n\
    rw=randread bs=64k number_ios=100 size=64m,325.7,3,IOPS\n";
const DDR50: &str = "job,value,sd,unit\n\
    rw=randread bs=4k number_ios=200 size=64m,2304,23,IOPS\nrw=randread bs=16k number_ios=200 size=64m,1400,14,IOPS\n\
    rw=randread bs=64k number_ios=100 size=64m,541,5,IOPS\n";

#[test]
fn one_card_on_two_hosts_gets_one_profile_with_an_access_time_of_the_mode_that_needs_it() {
    let folder = Folder::new("fit-same-card");
    folder.put("pi3.csv", HIGH_SPEED);
    folder.put("pi4.csv", DDR50);
    let both = ["fit", "pi3.csv", "pi4.csv", "--host", "raspberry-pi-3", "--host", "raspberry-pi-4"];
    let refused = folder.run(&both);
    assert_eq!(refused.code, Some(2));
    assert!(refused.err.contains("add --same-card"), "{}", refused.err);
    // This base has no access time for DDR50.
    let both = [&both[..], &["--base", "sd/typical"]].concat();
    let run = folder.run(&[&both[..], &["--same-card", "--to", "card.toml"]].concat());
    assert_eq!(run.code, Some(0), "{}", run.err);
    assert!(run.out.contains("pi3 and pi4 on raspberry-pi-3 and raspberry-pi-4"), "{}", run.out);
    let profile = folder.read("card.toml");
    let json = folder.run(&[&both[..], &["--same-card", "--format", "json"]].concat());
    let fit: Value = serde_json::from_str(&json.out).expect("standard output is JSON alone");
    let numbers = fit["estimate"]["numbers"].as_array().expect("a list");
    let time = numbers
        .iter()
        .find(|number| number["name"] == "card.t_access_ddr50")
        .expect("the mode needs an access time");
    let time = time["value"].as_f64().expect("a number");
    assert!((time / 134e3 - 1.0).abs() < 0.1, "{time}");
    assert!(profile.contains("\"card.t_access_ddr50\" = { fitted = ["), "{profile}");
    let hosts = folder.run(&[&both[..], &["--host", "raspberry-pi-2", "--same-card"]].concat());
    assert!(hosts.err.contains("--host is given 3 times for 2 measurements"), "{}", hosts.err);
    let shared = folder.run(&[&both[..], &["--same-card", "--fit-host"]].concat());
    assert!(shared.err.contains("--fit-host fits the numbers of one host"), "{}", shared.err);
}

/// Reads at one depth show the sum over the dies: two dies with an access time of 340 us read as fast as one with 106 us.
#[test]
fn reads_at_one_depth_on_a_host_with_a_queue_leave_the_access_time_open() {
    let folder = Folder::new("fit-queue");
    let log = "prepare-file;0;0;63212;123\nseq-write;0;0;61855;15\nseq-read;91980;22;0;0\n\
               rand-4k-write;0;0;12266;3066\nrand-4k-read;24835;6208;0;0\n";
    folder.put("card.log", log);
    let fit = |host: &str| {
        let line = format!("fit card.log --host {host} --to {host}.toml --format json");
        let fit: Value = serde_json::from_str(&folder.line(&line).succeeded()).expect("JSON");
        let numbers = fit["estimate"]["numbers"].as_array().expect("a list").clone();
        let t_read =
            numbers.iter().find(|n| n["name"] == "flash.t_read").expect("the number is fitted").clone();
        let queue = fit["alternatives"].to_string().matches("\"command queue\"").count();
        (t_read["high"].as_f64().expect("a number"), queue)
    };
    let (high, queue) = fit("raspberry-pi-5");
    assert!(high > 340e3 && queue == 1, "the interval ends at {high} ns, {queue} alternatives");
    assert_eq!(fit("raspberry-pi-4").1, 0, "a host without a queue needs none");
}
