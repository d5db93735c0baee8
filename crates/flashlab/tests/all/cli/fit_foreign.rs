//! `flashlab fit` with result files of fio: the formats of several versions, files that are refused, and results that
//! are marked.
//!
//! The files `fio/fio-*.json` have the members that these versions of fio print. The files share one set of
//! results: 2,212 random reads of 4 KiB per second, and 22.2 MiB/s of sequential writes.

use super::folder::{Folder, RunOutput};
use serde_json::Value;

const FIO_2_1: &str = include_str!("fio/fio-2.1.json");
const FIO_2_21: &str = include_str!("fio/fio-2.21.json");
const FIO_3_1: &str = include_str!("fio/fio-3.1.json");
const FIO_3_36: &str = include_str!("fio/fio-3.36-json-plus.json");
const CONTRADICTION: &str = include_str!("fio/contradiction.json");

fn fit(folder: &Folder, bytes: impl AsRef<[u8]>, arguments: &[&str]) -> RunOutput {
    folder.put("card.json", bytes);
    folder.run(&[&["fit", "card.json", "--host", "raspberry-pi-4"][..], arguments].concat())
}

#[test]
fn versions_of_fio_from_2_21_on_give_the_same_fit() {
    let folder = Folder::new("fit-versions");
    let numbers = |text: &str| {
        let chosen = ["--number", "flash.t_read", "--number", "flash.t_prog", "--format", "json"];
        let run = fit(&folder, text, &chosen);
        assert_eq!(run.code, Some(0), "{}", run.err);
        let fit: Value = serde_json::from_str(&run.out).expect("standard output is JSON alone");
        let numbers = fit["estimate"]["numbers"].as_array().expect("a list").clone();
        let of =
            |n: &Value| (n["name"].as_str().unwrap_or("").to_owned(), n["value"].as_f64().unwrap_or(0.0));
        numbers.iter().map(of).collect::<Vec<_>>()
    };
    let newest = numbers(FIO_3_36);
    assert_eq!(newest.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["flash.t_read", "flash.t_prog"]);
    // Some runs print no percentiles.
    let without = FIO_3_1.replace("\"percentile\"", "\"other\"");
    for older in [FIO_2_21, FIO_3_1, &without] {
        for ((name, new), (_, old)) in newest.iter().zip(numbers(older)) {
            // Versions of fio up to 3.2 print rates in whole KiB/s.
            assert!((old / new - 1.0).abs() < 1e-3, "{name}: {old} and {new}");
        }
    }
}

#[test]
fn measurements_that_contradict_each_other_are_named_with_their_values() {
    let folder = Folder::new("fit-contradiction");
    let run = fit(&folder, CONTRADICTION, &[]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    let flat = run.out.split_whitespace().collect::<Vec<_>>().join(" ");
    let expected = "randread (2212 IOPS) and again (1106 IOPS) measure the same and differ by";
    assert!(flat.contains(expected), "{}", run.out);
}

#[test]
fn the_warning_about_unexplained_cells_comes_before_the_tables() {
    let folder = Folder::new("fit-verdict");
    let warning =
        "Warning: the model does not explain the cells within their deviations, and no number counts as";
    let run = fit(&folder, CONTRADICTION, &["--html", "fit.html"]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    let (before, _) = run.out.split_once("\nnumber ").expect("the table of numbers");
    let flat = before.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains(warning), "{}", run.out);
    let page = folder.read("fit.html");
    let header =
        page.split_once("<header").and_then(|(_, rest)| rest.split_once("</header>")).expect("a header").0;
    assert!(header.contains(&format!("<strong>{warning}")), "{header}");
    assert_eq!(run.out.matches("does not explain").count(), 1, "{}", run.out);
    assert!(!run.out.contains("explains them too") && !run.out.contains("Worth measuring"), "{}", run.out);
}

/// A suggestion starts from the interval that the table prints.
#[test]
fn suggested_measurements_quote_the_printed_intervals() {
    let folder = Folder::new("fit-next");
    let run = fit(&folder, FIO_3_1, &[]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    let flat = run.out.split_whitespace().collect::<Vec<_>>().join(" ");
    let suggestions: Vec<&str> = flat.split("Worth measuring: ").skip(1).collect();
    assert!(!suggestions.is_empty(), "{}", run.out);
    for suggestion in suggestions {
        let narrowed = suggestion.split_once(" would narrow ").and_then(|(_, rest)| rest.split_once(", "));
        match narrowed.filter(|(name, _)| name.starts_with("flash.") || name.starts_with("ftl.")) {
            Some((name, rest)) => {
                let interval = rest.split(", to about").next().expect("an interval");
                let row = flat.split(&format!("{name} ")).nth(1).expect("a row of the table");
                assert!(row.contains(interval), "{name}: {interval} is not in {row}");
            }
            None => assert!(suggestion.contains(" would tell this model from "), "{suggestion}"),
        }
    }
}

/// By Little's law, 2,212 requests per second of 900 us each keep two requests in flight; a job without a queue has one.
#[test]
fn a_rate_and_a_latency_that_contradict_each_other_are_named() {
    let folder = Folder::new("fit-little");
    let file = |latency_ns: u64| {
        let observation = |quantity: &str, value: u64| {
            format!(r#"{{ "direction": "read", "quantity": "{quantity}", "value": {value} }}"#)
        };
        format!(
            r#"{{ "flashlab_measurements": 1, "target": {{ "name": "card" }}, "host": "raspberry-pi-4", "engine": "own",
               "steps": [{{ "name": "reads", "job": ["--name=r", "--rw=randread", "--bs=4k", "--size=16m"],
               "before": "written-in-sequence", "observations": [{}, {}] }}] }}"#,
            observation("iops", 2212),
            observation("latency_ns_mean", latency_ns)
        )
    };
    let contradict = "2212 IOPS and a mean latency of 900 us contradict each other at a queue depth of 1";
    for (latency_ns, is_named) in [(900_000, true), (440_000, false)] {
        let run = fit(&folder, file(latency_ns), &[]);
        assert_eq!(run.code, Some(0), "{}", run.err);
        let flat = run.out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(flat.contains(contradict), is_named, "{}", run.out);
    }
}

#[test]
fn a_failed_job_is_marked() {
    let folder = Folder::new("fit-failed");
    let run = fit(&folder, FIO_3_1.replacen("\"error\": 0", "\"error\": 5", 1), &[]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    assert!(run.out.contains("step randread is incomplete"), "{}", run.out);
    assert!(!run.out.contains("step write is incomplete"), "{}", run.out);
}

#[test]
fn a_job_that_completed_no_request_is_named_and_left_out() {
    let folder = Folder::new("fit-idle");
    let (before, after) = FIO_3_1.split_once("\"total_ios\": ").expect("the reads");
    let rest = after.trim_start_matches(|digit: char| digit.is_ascii_digit());
    let run = fit(&folder, format!("{before}\"total_ios\": 0{rest}"), &[]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    assert!(run.out.contains("step randread completed no request; it is left out."), "{}", run.out);
}

#[test]
fn a_file_with_results_of_the_page_cache_alone_is_refused_with_the_remedy() {
    let folder = Folder::new("fit-buffered");
    let buffered = FIO_3_1.replace("\"direct\": \"1\"", "\"direct\": \"0\"");
    let err = fit(&folder, buffered, &[]).refused();
    assert!(err.contains("its reads are left out, because they measured the host's memory"), "{err}");
    assert!(err.contains("run the job with direct=1, or end_fsync=1"), "{err}");
}

#[test]
fn files_that_hold_no_results_are_refused_with_the_reason() {
    let folder = Folder::new("fit-refused");
    let cut = &FIO_3_1[..FIO_3_1.len() / 2];
    let cases: [(&[u8], &str); 10] = [
        (b"", "the file is empty"),
        (b"{}", "neither a file of `flashlab measure`"),
        (b"[]", "neither a file of `flashlab measure`"),
        (b"{\"name\": \"x\", \"results\": [1, 2]}", "neither a file of `flashlab measure`"),
        (b"null", "no line is a result of a known program"),
        (b"\xff\xfe{\0", "byte 1 is not valid UTF-8"),
        (b"{\"fio version\": \"fio-3.36\", \"jobs\": []}", "jobs: expected the results of at least one job"),
        (FIO_2_1.as_bytes(), "fio-2.1.11 has written no `job options`"),
        (cut.as_bytes(), "is the file complete?"),
        (b"{\"fio version\": 3, \"jobs\": []}", "fio version: expected a string"),
    ];
    for (bytes, reason) in cases {
        let run = fit(&folder, bytes, &[]);
        assert_eq!(run.code, Some(2), "{reason}: {}", run.out);
        assert!(run.err.contains("card.json: ") && run.err.contains(reason), "{reason}: {}", run.err);
        assert!(run.out.is_empty(), "{}", run.out);
    }
    for (from, to, reason) in [
        ("\"clat_ns\"", "\"other\"", "jobs[0].read.clat_ns: expected this member"),
        ("\"iops\": 2212.0", "\"iops\": -1", "jobs[0].read.iops: expected a number that is not negative"),
        ("\"bs\": \"4k\"", "\"bs\": \"4q\"", "bs"),
        ("\"rw\": \"randread\"", "\"rw\": \"sideways\"", "sideways"),
    ] {
        let run = fit(&folder, FIO_3_1.replace(from, to), &[]);
        assert_eq!(run.code, Some(2), "{to}: {}", run.out);
        assert!(run.err.contains(reason), "{to}: {}", run.err);
    }
}
