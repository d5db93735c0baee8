//! `flashlab diff`: results of every kind, against each other and against damaged files.

use super::folder::{Folder, run_command};

const JOB: &str = "--name=r --rw=randread --bs=4k --size=4m --direct=1 --output-format=json";

/// Writes the standard output of a command into a file of the folder.
fn save(folder: &Folder, file: &str, line: &str) {
    let out = folder.line(line).succeeded();
    folder.put(file, out);
}

/// Returns the code and the output of a `diff`.
fn diff(folder: &Folder, arguments: &str) -> (Option<i32>, String) {
    let output = folder.line(&format!("diff {arguments}"));
    assert_eq!(output.err, "", "{arguments}");
    (output.code, output.out)
}

#[test]
fn a_slower_flash_shows_in_the_figures_and_in_its_mechanism() {
    let folder = Folder::new("diff-mechanism");
    save(&folder, "a.json", &format!("bench sd/kingston {JOB}"));
    save(&folder, "b.json", &format!("bench sd/kingston:flash.t_read=500us {JOB}"));
    assert_eq!(
        diff(&folder, "a.json a.json"),
        (Some(0), "A is a.json, B is a.json.\n\nAll figures of 1 common line are equal.\n".into())
    );
    let (code, table) = diff(&folder, "a.json b.json");
    assert_eq!(code, Some(1), "{table}");
    let line = table.lines().find(|line| line.contains("mean latency")).expect("the figure");
    assert!(line.contains("read +"), "the mechanism is not named: {table}");
    let (code, json) = diff(&folder, "a.json b.json --format json");
    let parsed: serde_json::Value = serde_json::from_str(&json).expect("nothing but JSON");
    let first = &parsed["lines"][0]["mechanisms"][0];
    let change = first["b_ns"].as_f64().expect("a number") - first["a_ns"].as_f64().expect("a number");
    let latency = &parsed["lines"][0]["figures"][2];
    assert_eq!((code, &latency["quantity"]), (Some(1), &"mean latency".into()));
    // Only the read time changed, so its mechanism accounts for the change of the whole latency.
    let whole = latency["b"].as_f64().expect("a number") - latency["a"].as_f64().expect("a number");
    assert!((change - whole).abs() < 0.01 * whole, "{change} ns of {whole} ns");
    assert_eq!(diff(&folder, "a.json b.json --tolerance 500%").0, Some(0));
}

#[test]
fn clones_keep_their_mechanisms_and_the_same_figures_in_every_format() {
    let folder = Folder::new("diff-clones");
    let job = "--name=r --rw=randread --bs=4k --size=4m --direct=1 --numjobs=2";
    save(&folder, "a.json", &format!("bench sd/kingston {job} --output-format=json+"));
    save(&folder, "b.json", &format!("bench sd/kingston:flash.t_read=500us {job} --output-format=json+"));
    save(&folder, "c.json", &format!("compare --format json sd/kingston {job}"));
    let (_, table) = diff(&folder, "a.json b.json");
    assert!(table.contains("read +") && table.contains("p99") && !table.contains("no mechanisms"), "{table}");
    let (code, table) = diff(&folder, "a.json c.json --tolerance 0.01");
    assert_eq!(code, Some(0), "{table}");
    let mut json: serde_json::Value = serde_json::from_str(&folder.read("b.json")).expect("JSON");
    for job in json["jobs"].as_array_mut().expect("jobs") {
        job.as_object_mut().expect("a job").remove("flashlab");
    }
    folder.put("fio.json", json.to_string());
    let (_, table) = diff(&folder, "a.json fio.json");
    assert!(table.contains("B contains no mechanisms"), "{table}");
}

#[test]
fn a_result_may_come_from_standard_input() {
    let folder = Folder::new("diff-stdin");
    save(&folder, "a.json", &format!("bench sd/kingston {JOB}"));
    let input = std::fs::File::open(folder.path("a.json")).expect("the file was written");
    let output = run_command(folder.command(&["diff", "-", "a.json"]).stdin(input));
    assert_eq!(
        output.succeeded(),
        "A is standard input, B is a.json.\n\nAll figures of 1 common line are equal.\n"
    );
    assert!(folder.line("diff - -").err.contains("only one of the results"));
}

#[test]
fn percentiles_do_not_exceed_the_maximum() {
    let folder = Folder::new("diff-percentiles");
    // All writes take the same time, which is below the midpoint of its bucket.
    let job = "--name=w --rw=write --bs=64k --size=1m";
    save(&folder, "a.json", &format!("bench sd/kingston {job} --output-format=json"));
    save(&folder, "b.json", &format!("bench sd/kingston:cache.t_page=3us {job} --output-format=json"));
    let (_, text) = diff(&folder, "a.json b.json --format json");
    let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let figures = json["lines"][0]["figures"].as_array().expect("figures");
    let of = |name: &str| figures.iter().find(|f| f["quantity"] == name).expect("the figure")["a"].as_f64();
    assert_eq!(of("p50"), of("maximum"), "{text}");
}

#[test]
fn changed_options_of_a_job_are_inputs() {
    let folder = Folder::new("diff-inputs");
    save(&folder, "a.json", &format!("bench sd/kingston {JOB}"));
    save(&folder, "b.json", &format!("bench sd/kingston {}", JOB.replace("4k", "16k")));
    let (code, table) = diff(&folder, "a.json b.json");
    assert_eq!(code, Some(1));
    let input = table.lines().skip_while(|line| !line.starts_with("input")).nth(1).expect("an input");
    assert_eq!(input.split_whitespace().collect::<Vec<_>>(), ["bs", "4k", "16k"], "{table}");
}

#[test]
fn the_inputs_of_a_run_are_compared_and_the_device_comes_first() {
    let folder = Folder::new("diff-run");
    let job = "--name=w --rw=randwrite --bs=4k --size=4m --direct=1";
    save(&folder, "a.json", &format!("bench sd/kingston {job} --output-format=json"));
    let changed = |line: &str, table: &str| {
        save(&folder, "b.json", line);
        let (_, text) = diff(&folder, "a.json b.json --format json");
        let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let changed = json[table].as_array().expect("a list").iter();
        changed
            .map(|value| {
                [&value["name"], &value["a"], &value["b"]].map(|v| v.as_str().unwrap_or("-").to_owned())
            })
            .collect::<Vec<_>>()
    };
    let bench = |options: &str, device: &str| format!("bench {options} {device} {job} --output-format=json");
    assert_eq!(changed(&bench("", "sd/suneast"), "facts"), [["device", "sd/kingston", "sd/suneast"]]);
    assert_eq!(changed(&bench("--seed 2", "sd/kingston"), "facts"), [["seed", "1", "2"]]);
    let vfat = format!("{} --directory=/d", bench("--fs vfat", "sd/kingston"));
    assert_eq!(changed(&vfat, "facts"), [["filesystem", "none", "vfat"]]);
    let slow = "sd/kingston:flash.t_prog=2ms";
    assert_eq!(changed(&bench("", slow), "facts"), [["device", "sd/kingston", slow]]);
    assert_eq!(changed(&bench("", slow), "inputs"), [["flash.t_prog", "332.2us", "2ms"]]);
    // A comparison of several devices has the same card, under other keys, and states a default.
    let compare = format!("compare --format json sd/suneast {slow} {job} --iodepth=1");
    assert_eq!(changed(&compare, "facts"), [["device", "sd/kingston", slow]]);
    assert_eq!(changed(&compare, "inputs"), [["flash.t_prog", "332.2us", "2ms"]]);
    // fio's own JSON has no inputs of flashlab; the engine tells a measurement from a simulation.
    let mut json: serde_json::Value = serde_json::from_str(&folder.read("a.json")).expect("JSON");
    json.as_object_mut().expect("an object").remove("flashlab");
    folder.put("fio.json", json.to_string());
    let (_, table) = diff(&folder, "a.json fio.json");
    let engine = table.lines().find(|line| line.starts_with("engine")).expect("the engine");
    assert_eq!(engine.split_whitespace().collect::<Vec<_>>(), ["engine", "simulated", "fio-3.33"], "{table}");
}

#[test]
fn experiments_comparisons_and_fio_are_read() {
    let folder = Folder::new("diff-kinds");
    save(&folder, "a.json", "run at91 --format json --no-html");
    save(&folder, "b.json", "run at91 --seed 2 --format json --no-html");
    let (code, table) = diff(&folder, "a.json b.json --tolerance 50");
    assert_eq!(code, Some(0), "{table}");
    assert!(table.lines().any(|line| line.split_whitespace().eq(["seed", "1", "2"])), "{table}");

    save(
        &folder,
        "c.json",
        "compare --format json sd/kingston --name=x --rw=randread --bs=4k --size=4m --direct=1",
    );
    save(&folder, "d.json", &format!("bench sd/kingston {JOB}"));
    // The same device and job: the formats differ, the figures do not.
    let (code, table) = diff(&folder, "c.json d.json --tolerance 0.01");
    assert_eq!(code, Some(0), "{table}");
    let errors = folder.line("diff a.json c.json");
    assert_eq!(errors.code, Some(2));
    assert!(errors.err.contains("no figures in common"), "{}", errors.err);
}

#[test]
fn a_page_is_written_and_bad_input_is_refused() {
    let folder = Folder::new("diff-bad");
    save(&folder, "a.json", &format!("bench sd/kingston {JOB}"));
    save(&folder, "b.json", &format!("bench sd/sandisk {JOB}"));
    assert_eq!(folder.line("diff a.json b.json --html page.html").code, Some(1));
    assert!(folder.read("page.html").starts_with("<!DOCTYPE html>"));
    let whole = folder.read("a.json");
    folder
        .put("cut.json", &whole[..whole.len() / 2])
        .put("bytes.json", b"\xff\x00")
        .put("cats.json", "{\"cats\": 3}");
    for (arguments, part) in [
        ("a.json cut.json", "cut.json: line"),
        ("bytes.json a.json", "bytes.json: byte 1 is not text"),
        (
            "a.json cats.json",
            "cats.json: this JSON is of another program; expected the JSON of `flashlab run`",
        ),
        ("a.json none.json", "none.json: No such file"),
        ("a.json b.json --html none/page.html", "there is no folder"),
        ("a.json b.json --tolerance x", "expected a percentage"),
        ("a.json b.json --tolerance -1", "-1"),
    ] {
        let output = folder.line(&format!("diff {arguments}"));
        assert_eq!((output.code, output.out.as_str()), (Some(2), ""), "{arguments}: {}", output.err);
        assert!(output.err.contains(part), "{arguments}: {}", output.err);
    }
}
