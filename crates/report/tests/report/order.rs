//! Order of the lines on the pages of comparisons and differences.

use crate::browser::{changed_figure, inputs, job, page_of};
use flashlab_lab::difference::{Difference, LineDifference};
use flashlab_lab::figures::DeviceFigures;
use flashlab_lab::run_inputs::DeviceInputs;
use flashlab_report::html::{JobPage, jobs_page};

/// Returns the places of `parts` in `page`, after `start`.
fn places(page: &str, start: &str, parts: &[&str]) -> Vec<usize> {
    let from = page.find(start).unwrap_or_else(|| panic!("no {start}"));
    parts.iter().map(|part| from + page[from..].find(part).unwrap_or_else(|| panic!("no {part}"))).collect()
}

#[test]
fn the_fastest_device_of_each_job_comes_first() {
    let device = |name: &str, read: f64, write: f64| DeviceFigures {
        device: name.into(),
        title: String::new(),
        written_first_bytes: 0,
        jobs: vec![job("read", read), job("write", write)],
        notes: vec![],
        error: None,
        inputs: DeviceInputs::default(),
    };
    let devices = [device("sd/a", 100.0, 30.0), device("sd/b", 300.0, 10.0), device("sd/c", 200.0, 20.0)];
    let run = inputs();
    let page = JobPage { title: "compare", run: &run, command: "", devices: &devices, notes: &[] };
    let html = jobs_page(&page);
    let rows: Vec<&str> = html.split("<tr>").filter(|row| row.contains("data-value")).collect();
    let names: Vec<&str> = rows.iter().filter_map(|row| row.split("sd/").nth(1)?.get(..1)).collect();
    assert_eq!(names, ["b", "c", "a", "a", "c", "b"], "reads, then writes");
    assert!(html.contains("wide sortable"));
    // One device has nothing to sort.
    assert!(!jobs_page(&JobPage { devices: &devices[..1], ..page }).contains("wide sortable"));
}

#[test]
fn the_page_of_jobs_contains_the_jobs_and_the_seed() {
    let run = inputs();
    let page = JobPage { title: "bench", run: &run, command: "flashlab bench", devices: &[], notes: &[] };
    let html = jobs_page(&page);
    assert!(
        html.contains("[read]\nrw=randread\n") && html.contains("direct=1"),
        "a part of the job file is missing"
    );
    let html: String = html.split_whitespace().collect();
    assert!(html.contains("<dt>seed</dt><dd><code>7</code></dd>"));
    assert!(html.contains("<dt>filesystem</dt><dd><code>vfat</code></dd>"));
}

#[test]
fn the_largest_change_comes_first_and_small_ones_are_folded() {
    let line = |name: &str, b: f64| LineDifference {
        name: name.into(),
        figures: vec![changed_figure("IOPS", "IOPS", 1000.0, b)],
        mechanisms: vec![],
    };
    let with = |lines: Vec<LineDifference>| {
        page_of(&Difference { lines, has_mechanisms: [true; 2], ..Difference::default() })
    };
    let lines = vec![line("first", 1000.5), line("second", 1100.0), line("third", 300.0)];
    let html = with(lines.clone());
    let parts = [">third<", ">second<", "1 line changed by less than", ">first<"];
    assert!(places(&html, "id=\"figures\"", &parts).is_sorted(), "{html}");
    // Without larger changes, small changes are shown.
    assert!(!with(vec![line("first", 1000.5)]).contains("changed by less than"));
}

#[test]
fn devices_that_keep_the_rate_are_ranked_by_latency_with_their_syncs() {
    let figures = |direction: &'static str, mean_ns: f64| {
        let mut figures = job(direction, 16.0);
        figures.latency.mean_ns = mean_ns;
        figures
    };
    let device = |name: &str, write_ns: f64, sync_ns: Option<f64>| DeviceFigures {
        device: name.into(),
        title: String::new(),
        written_first_bytes: 0,
        jobs: [figures("write", write_ns)].into_iter().chain(sync_ns.map(|ns| figures("sync", ns))).collect(),
        notes: vec![],
        error: None,
        inputs: DeviceInputs::default(),
    };
    let devices = [device("sd/a", 2e6, None), device("sd/b", 5e4, Some(9e6)), device("sd/c", 1e6, None)];
    let run = inputs();
    let page = JobPage { title: "compare", run: &run, command: "", devices: &devices, notes: &[] };
    let html = jobs_page(&page);
    let rows: Vec<&str> = html.split("<tr>").filter(|row| row.contains("data-value")).collect();
    let names: Vec<&str> = rows.iter().filter_map(|row| row.split("sd/").nth(1)?.get(..1)).collect();
    assert_eq!(
        names[..4],
        ["c", "a", "b", "b"],
        "a cache takes the write at once, and stores it in the sync call"
    );
    assert!(rows[3].contains("sync"), "no sync row follows the write row");
}
