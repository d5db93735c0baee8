//! Tests of the pages in a real browser: they load without an error in the console, draw their charts, fit a
//! telephone, and react to the pointer and the keyboard.
//!
//! The tests need Chromium or Chrome; without them each test reports that it was skipped. Windows of headless Chromium
//! are at least 500 pixels wide, so the page is put into a frame of the tested width.

use crate::fixture::*;
use flashlab_fio::cmdline::Invocation;
use flashlab_fio::job::{Direction, Job};
use flashlab_fio::loader::NoFiles;
use flashlab_fio::stats::{Settings, Statistics, Timeline};
use flashlab_fio::workload::{Io, Record};
use flashlab_lab::difference::{Changed, Difference, FigureDifference, LineDifference, MechanismDifference};
use flashlab_lab::figures::{DeviceFigures, JobFigures, Latency, PERCENTILES};
use flashlab_lab::results::{Mechanisms, Results};
use flashlab_lab::run_inputs::{DeviceInputs, RunInputs};
use flashlab_report::html::{DifferencePage, JobPage, difference_page, jobs_page, live_page, trace_page};
use flashlab_report::live::{Page, Row};
use flashlab_sim::{Duration, FileId, Instant, Mechanism, Spent};
use std::{env, fs, path::PathBuf, process::Command};

/// Returns the page of `results` with the command of a run.
fn page(results: &Results) -> String {
    flashlab_report::html::page(results, "flashlab run an-experiment")
}

fn browser() -> Option<PathBuf> {
    let names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
    let path = env::var_os("PATH")?;
    env::split_paths(&path).flat_map(|folder| names.map(|name| folder.join(name))).find(|file| file.is_file())
}

/// A folder for one test. Dropping it deletes the folder.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = env::temp_dir().join(format!("flashlab-report-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a temporary folder");
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0); // what is left in the temporary folder does no harm
    }
}

/// Runs the browser on `html` with further options. Returns its standard output, or `None` if there is no browser.
fn run(test: &str, html: &str, options: &[&str]) -> Option<(Folder, String)> {
    let Some(browser) = browser() else {
        eprintln!("skipped: {test}: neither Chromium nor Chrome is installed");
        return None;
    };
    let folder = Folder::new(test);
    let file = folder.0.join("page.html");
    fs::write(&file, html).expect("the page is written");
    let mut command = Command::new(browser);
    command.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--disable-quic",
        "--no-first-run",
        "--enable-logging=stderr",
    ]);
    command.args(["--disable-background-networking", "--disable-component-update", "--disable-sync"]);
    command.arg(format!("--user-data-dir={}", folder.0.join("profile").display()));
    command.args(options).arg(format!("file://{}", file.display())).current_dir(&folder.0);
    let output = command.output().expect("the browser starts");
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{messages}");
    let console: Vec<&str> = messages.lines().filter(|line| line.contains(":CONSOLE")).collect();
    assert!(console.is_empty(), "{test}: the console has {console:#?}");
    Some((folder, String::from_utf8_lossy(&output.stdout).into_owned()))
}

fn escaped(page: &str) -> String {
    page.replace('&', "&amp;").replace('"', "&quot;")
}

/// Returns the page in frames of these widths, with a script that writes the measurements of each frame,
/// separated by spaces, into the body.
fn framed(page: &str, widths: &[u32]) -> String {
    let frames: String = widths
        .iter()
        .map(|width| {
            format!("<iframe width=\"{width}\" height=\"900\" srcdoc=\"{}\"></iframe>", escaped(page))
        })
        .collect();
    let script = "
        addEventListener('load', function () {
            var measured = [];
            document.querySelectorAll('iframe').forEach(function (frame) {
                var page = frame.contentDocument, root = page.documentElement;
                var charts = Array.from(page.querySelectorAll('svg.chart, .uplot canvas'));
                var flat = charts.filter(function (c) { return c.getBoundingClientRect().width < 50; });
                var texts = Array.from(page.querySelectorAll('svg.chart text'));
                var cut = texts.filter(function (t) {
                    var box = t.getBoundingClientRect();
                    return box.left < -1 || box.right > frame.clientWidth + 1;
                });
                var style = frame.contentWindow.getComputedStyle;
                var before = style(page.body).backgroundColor;
                page.getElementById('theme').click();
                var after = style(page.body).backgroundColor;
                var regions = Array.from(page.querySelectorAll('.scroll'));
                var silent = regions.filter(function (region) {
                    var hint = region.previousElementSibling;
                    return (region.scrollWidth > region.clientWidth + 1) !== (hint.getClientRects().length > 0);
                });
                page.querySelectorAll('details').forEach(function (details) { details.open = true; });
                measured.push([frame.width, root.scrollWidth - root.clientWidth, charts.length, flat.length, cut.length,
                    before !== after, silent.length].join(' '));
            });
            document.body.textContent = 'measured:' + measured.join(';') + ':end';
        });";
    format!("<!DOCTYPE html><html><body>{frames}<script>{script}</script></body></html>")
}

fn measure(test: &str, page: &str) {
    let widths = [360, 400, 720, 1200];
    let Some((_folder, dom)) = run(test, &framed(page, &widths), &["--window-size=1400,1000", "--dump-dom"])
    else {
        return;
    };
    let measured = dom
        .split_once("measured:")
        .and_then(|(_, rest)| rest.split_once(":end"))
        .map(|(measured, _)| measured);
    let measured = measured.unwrap_or_else(|| panic!("the script printed nothing: {} bytes", dom.len()));
    // The script replaces the drawing of a holder with its charts.
    let holders = page.matches("class=\"interactive\"").count() - page.matches("<noscript>").count();
    let charts = page.matches("class=\"chart\"").count() - holders + page.matches("&quot;kind&quot;").count();
    let lines: Vec<&str> = measured.split(';').collect();
    assert_eq!(lines.len(), widths.len());
    for (line, width) in lines.iter().zip(widths) {
        assert_eq!(
            *line,
            format!("{width} 0 {charts} 0 0 true 0"),
            "{test}: width, pixels of overflow, charts, charts without width, texts outside, whether the theme switched, \
             tables that scroll and do not say so"
        );
    }
}

/// Returns the page with all parts unfolded, because charts in folded parts have no width.
fn unfolded(page: &str) -> String {
    page.replace("<details ", "<details open=\"open\" ")
        .replace("<details>", "<details open=\"open\">")
        .replace(" open=\"open\" open=\"open\"", " open=\"open\"")
}

#[test]
fn the_pages_of_experiments_fit_every_width_without_overflow_or_error() {
    measure("sd-cards", &unfolded(&page(&sd_cards_fixture())));
    measure("at91", &unfolded(&page(&at91_fixture())));
    measure("hmb", &unfolded(&page(&sweep_fixture())));
    measure("wear", &unfolded(&page(&worn_fixture())));
    measure("endurance", &unfolded(&page(&endurance_fixture())));
    measure("empty", &unfolded(&page(&empty_fixture())));
}

#[test]
fn a_page_of_hostile_names_fits_every_width_and_runs_no_script() {
    measure("strange-names", &unfolded(&page(&hostile_fixture())));
}

#[test]
fn the_page_of_a_bring_up_fits_every_width_without_overflow_or_error() {
    use flashlab_lab::trace::{Controller, Kernel, bring_up};
    let library = flashlab_catalogue::library::Library::built_in().expect("the repository's own library");
    let device =
        flashlab_catalogue::device::Device::open("sd/kingston", &library).expect("the library has this card");
    let trace = bring_up(&device, Controller::SDHCI_UHS, Kernel::V6_1, 1).expect("an SD card");
    measure("bring-up", &unfolded(&trace_page(&trace, "flashlab trace bring-up sd/kingston")));
}

#[test]
fn the_page_of_a_live_experiment_fits_every_width_without_overflow_or_error() {
    let row = |name: &str, ratio: Option<f64>| Row {
        name: name.into(),
        attached: "a unix socket, 4 connections".into(),
        measured: ratio.map(|ratio| (2048.0 * ratio, 1536.0 * ratio)),
        ratio,
        spread: ratio.map(|ratio| (ratio * 0.9, ratio * 1.1)),
        published: Some((4096.0, 3072.0)),
        published_ratio: Some(0.5),
        missing: ratio.is_none().then(|| "qemu-nbd is not installed".into()),
    };
    let live = Page {
        name: "block-paths",
        title: "What a block device's path to its user costs",
        note: "Figures of two machines mean nothing side by side",
        reference: "a file on tmpfs",
        setup: &[("kernel".into(), "Linux 6.1".into()), ("fio".into(), "3.33".into())],
        command: "flashlab run block-paths",
        rows: &[
            row("a file on tmpfs", Some(1.0)),
            row("nbdkit memory over a socket", Some(0.4)),
            row("qemu", None),
        ],
    };
    measure("block-paths", &unfolded(&live_page(&live)));
}

#[test]
fn the_pages_of_jobs_fit_every_width_without_overflow_or_error() {
    let device = |name: &str, iops: f64| DeviceFigures {
        device: name.into(),
        title: "A card".into(),
        written_first_bytes: 64 << 20,
        jobs: ["read", "write"].map(|direction| job(direction, iops)).into(),
        notes: vec!["job `random`: the reads touched no flash".into()],
        error: None,
        inputs: DeviceInputs::default(),
    };
    let devices =
        [device("sd/kingston", 1234.5), device("sd/sandisk:host=raspberry-pi-4,flash.t_prog=250us", 987.0)];
    let run = inputs();
    let page =
        JobPage { title: "compare", run: &run, command: "flashlab compare", devices: &devices, notes: &[] };
    measure("compare", &unfolded(&jobs_page(&page)));
    measure(
        "bench",
        &unfolded(&jobs_page(&JobPage { title: "sd/kingston", devices: &devices[..1], ..page })),
    );
}

/// Returns the latencies over time of a job that writes for two seconds, with a slow write every tenth of a second.
fn timeline() -> Timeline {
    let jobs = [Job::default()];
    let mut statistics = Statistics::new(&jobs, &Settings { timeline: true, ..Settings::default() });
    let mut wave = statistics.wave(0..1);
    wave.started(0, Instant::ZERO);
    let mut now = Instant::ZERO;
    for i in 0..2_000_u64 {
        let took = Duration::from_us(if i % 100 == 99 { 20_000 } else { 700 + 3 * (i % 50) });
        let io = Io {
            direction: Direction::Write,
            file: FileId::DEVICE,
            offset: 0,
            length: 4096,
            ready: now,
            issued: now,
        };
        let mut spent = Spent::default();
        spent[Mechanism::Program] = took;
        now += took;
        wave.completed(0, &io, now, &spent);
    }
    wave.finished(0, now);
    let timeline = statistics.job(0).direction(Direction::Write).timeline.as_deref();
    timeline.expect("the settings ask for it").clone()
}

pub(crate) fn job(direction: &'static str, iops: f64) -> JobFigures {
    let mean_ns = 1e9 / iops;
    JobFigures {
        job: "random".into(),
        direction,
        requests: 12_345,
        bytes: 12_345 << 12,
        runtime_ms: 10_000,
        iops,
        bytes_per_second: (iops * 4096.0) as u64,
        latency: Latency {
            min_ns: 200_000,
            mean_ns,
            stddev_ns: 1e5,
            max_ns: 90_000_000,
            percentiles_ns: PERCENTILES.map(|percent| (percent, (mean_ns * percent / 50.0) as u64)).to_vec(),
            histogram_ns: vec![(200_000, 4_000), (700_000, 8_000), (1_500_000, 300), (90_000_000, 45)],
        },
        mechanisms_ns: Mechanisms(vec![("bus", mean_ns * 0.25), ("program", mean_ns * 0.75)]),
        unwritten: direction == "read",
        write_amplification: None,
        timeline: Some(timeline()),
    }
}

#[test]
fn the_page_of_differences_fits_every_width_without_overflow_or_error() {
    let mechanism = |name: &str, a_ns, b_ns| MechanismDifference { mechanism: name.into(), a_ns, b_ns };
    let line = |name: &str| LineDifference {
        name: name.into(),
        figures: vec![
            changed_figure("IOPS", "IOPS", 250.0, 200.0),
            changed_figure("mean latency", "ns", 4e6, 5e6),
        ],
        mechanisms: vec![
            mechanism("program", 3e6, 4e6),
            mechanism("bus", 1e6, 1e6),
            mechanism("<new>", 0.0, 1e3),
        ],
    };
    let changed = |name: &str| Changed { name: name.into(), a: Some("4k".into()), b: None };
    let difference = Difference {
        facts: vec![changed("digest")],
        inputs: vec![changed("sd/kingston:flash.t_prog, a long name of a number")],
        bounds: vec![],
        errors: vec![],
        lines: vec![line("raw write 4k, 1bit 30MHz, sd/kingston:host=raspberry-pi-4"), line("<script>")],
        only_a: vec!["read".into()],
        only_b: vec![],
        has_mechanisms: [true; 2],
    };
    measure("diff", &unfolded(&page_of(&difference)));
}

pub(crate) fn changed_figure(quantity: &str, unit: &str, a: f64, b: f64) -> FigureDifference {
    let (quantity, unit, percent) = (quantity.into(), unit.into(), Some(100.0 * (b - a) / a));
    FigureDifference { quantity, unit, a, b, percent, deviations: Some(2.5) }
}

pub(crate) fn page_of(difference: &Difference) -> String {
    difference_page(&DifferencePage {
        a: "before.json",
        b: "after.json",
        version: "0.1.0",
        command: "flashlab diff before.json after.json",
        tolerance: 0.0,
        difference,
    })
}

/// Returns the page of two changed lines without a common figure.
fn lines_page() -> String {
    let line = |name: &str, unit: &str| LineDifference {
        name: name.into(),
        figures: vec![changed_figure(unit, unit, 250.0, 200.0)],
        mechanisms: vec![],
    };
    page_of(&Difference {
        facts: vec![],
        inputs: vec![],
        bounds: vec![],
        errors: vec![],
        lines: vec![line("first", "MiB/s"), line("second", "IOPS")],
        only_a: vec![],
        only_b: vec![],
        has_mechanisms: [true; 2],
    })
}

/// Returns the inputs of two jobs.
pub(crate) fn inputs() -> RunInputs {
    let words = ["--direct=1", "--size=1g", "--name=read", "--rw=randread", "--name=write", "--rw=randwrite"];
    let invocation = Invocation::parse(&words, &NoFiles).expect("valid jobs");
    RunInputs { seed: 7, filesystem: Some("vfat".into()), ..RunInputs::new(&invocation) }
}

/// Returns the page of one device with one job, which writes.
fn bench_page() -> String {
    let device = DeviceFigures {
        device: "sd/kingston".into(),
        title: "A card".into(),
        written_first_bytes: 0,
        jobs: vec![job("write", 1234.5)],
        notes: vec![],
        error: None,
        inputs: DeviceInputs::default(),
    };
    jobs_page(&JobPage {
        title: "sd/kingston",
        run: &inputs(),
        command: "flashlab bench",
        devices: &[device],
        notes: &[],
    })
}

/// Runs `steps` on the page in a frame, one after the other with a pause between them. Each step is JavaScript that
/// returns an observation; `page` is the document of the frame and `plots` its charts. Returns the observations.
fn observe(test: &str, page: &str, steps: &[&str]) -> Option<Vec<String>> {
    let steps: String = steps.iter().map(|step| format!("function () {{ {step} }},")).collect();
    let script = format!(
        "addEventListener('load', function () {{
            var page = document.querySelector('iframe').contentDocument;
            var plots = Array.from(page.querySelectorAll('.plot'));
            function readout(i) {{ return plots[i].nextElementSibling.textContent; }}
            function backs() {{
                return plots.map(function (plot) {{
                    return plot.nextElementSibling.querySelector('button').hidden ? '-' : 'z';
                }}).join('');
            }}
            function point(i, type, x, y) {{
                var over = plots[i].querySelector('.u-over'), box = over.getBoundingClientRect();
                over.dispatchEvent(new MouseEvent(type, {{ bubbles: true, view: page.defaultView, button: 0,
                    movementX: 5, clientX: box.left + x * box.width, clientY: box.top + y * box.height }}));
            }}
            function press(i, key) {{
                plots[i].dispatchEvent(new KeyboardEvent('keydown', {{ key: key, bubbles: true }}));
            }}
            function picture(i) {{ return plots[i].querySelector('canvas').toDataURL(); }}
            function button(name) {{
                return Array.from(page.querySelectorAll('.switches button')).find(function (b) {{
                    return b.textContent.trim() === name;
                }});
            }}
            var kept = {{}}, steps = [{steps}], seen = [];
            function next() {{
                if (!steps.length) {{
                    document.body.textContent = 'seen:' + seen.join('|') + ':end';
                    return;
                }}
                seen.push(String(steps.shift()()));
                setTimeout(next, 100);
            }}
            next();
        }});"
    );
    let frame = format!("<iframe width=\"1000\" height=\"900\" srcdoc=\"{}\"></iframe>", escaped(page));
    let html = format!("<!DOCTYPE html><html><body>{frame}<script>{script}</script></body></html>");
    let options = ["--window-size=1200,1000", "--virtual-time-budget=20000", "--dump-dom"];
    let (_folder, dom) = run(test, &html, &options)?;
    let seen = dom.split_once("seen:").and_then(|(_, rest)| rest.split_once(":end"));
    let (seen, _) = seen.unwrap_or_else(|| panic!("the script printed nothing: {} bytes", dom.len()));
    Some(seen.split('|').map(str::to_owned).collect())
}

#[test]
fn charts_react_to_the_pointer_to_their_legends_and_to_the_keyboard() {
    let steps = [
        "return plots.length;",
        // Hovering shows the values of all series.
        "point(0, 'mouseenter', 0.5, 0.5); point(0, 'mousemove', 0.5, 0.5); return readout(0);",
        "return readout(0);",
        // A series that is off leaves the picture and the values.
        "kept.all = picture(0); button('max').click(); return button('max').getAttribute('aria-pressed');",
        "return [picture(0) !== kept.all, readout(0)].join(' ');",
        "button('max').click(); return button('max').getAttribute('aria-pressed');",
        "return [picture(0) === kept.all, readout(0).includes('max')].join(' ');",
        // A heat map counts the requests below the pointer.
        "point(2, 'mouseenter', 0.5, 0.98); point(2, 'mousemove', 0.5, 0.98); return '';",
        "return readout(2);",
        // Dragging across one chart enlarges all linked charts.
        "point(0, 'mousedown', 0.2, 0.5); point(0, 'mousemove', 0.4, 0.5); point(0, 'mouseup', 0.4, 0.5); return '';",
        "return backs();",
        "plots[1].nextElementSibling.querySelector('button').click(); return '';",
        "return backs();",
        // The keyboard enlarges, moves along the chart and shows everything again.
        "press(2, '+'); return '';",
        "kept.at = readout(2); return backs();",
        "press(2, 'Home'); return '';",
        "return readout(2) !== kept.at;",
        "press(2, '0'); return '';",
        "return backs();",
    ];
    let Some(seen) = observe("charts", &bench_page(), &steps) else { return };
    assert_eq!(seen[0], "3", "latency, bandwidth and the heat map");
    let values = &seen[2];
    for word in ["&nbsp;s: ", "median ", "mean ", "p99 ", "max "] {
        assert!(values.contains(word), "{word:?} is not in {values:?}");
    }
    assert_eq!(seen[3], "false");
    assert!(
        seen[4].starts_with("true ") && seen[4].contains("median") && !seen[4].contains("max"),
        "{seen:?}"
    );
    assert_eq!((seen[5].as_str(), seen[6].as_str()), ("true", "true true"));
    assert!(seen[8].contains("&nbsp;µs: ") && !seen[8].contains(": 0 requests"), "{seen:?}");
    assert_eq!((seen[10].as_str(), seen[12].as_str()), ("zzz", "---"), "{seen:?}");
    assert_eq!((seen[14].as_str(), seen[16].as_str(), seen[18].as_str()), ("zzz", "true", "---"), "{seen:?}");
}

#[test]
fn a_place_of_an_overview_shows_the_values_of_its_own_line_only() {
    let steps = [
        "press(0, 'Home'); return '';",
        "return readout(0);",
        "press(0, 'End'); return '';",
        "return readout(0);",
    ];
    let Some(seen) = observe("overview", &lines_page(), &steps) else { return };
    assert!(seen[1].starts_with("first: MiB/s") && !seen[1].contains("IOPS"), "{seen:?}");
    assert!(seen[3].starts_with("second: IOPS") && !seen[3].contains("MiB/s"), "{seen:?}");
}

#[test]
fn bars_react_to_the_pointer_to_their_legends_and_to_the_keyboard() {
    let steps = [
        "kept.charts = Array.from(page.querySelectorAll('svg[data-bars]'));
        kept.marks = function (i, query) { return Array.from(kept.charts[i].querySelectorAll(query || '[data-place]')); };
        kept.tip = function () { var tip = page.querySelector('.tip'); return tip.hidden ? 'none' : tip.textContent; };
        kept.send = function (i, type, mark) {
            var box = mark.querySelector('rect').getBoundingClientRect();
            kept.charts[i].dispatchEvent(new PointerEvent(type, { bubbles: true,
                clientX: box.left + box.width / 2, clientY: box.top + box.height / 2 }));
        };
        kept.press = function (i, key) {
            kept.charts[i].dispatchEvent(new KeyboardEvent('keydown', { key: key, bubbles: true }));
        };
        return [kept.tip(), kept.charts.every(function (svg) { return svg.tabIndex === 0; })].join(' ');",
        // Hovering shows the value and marks the same place in all charts.
        "kept.send(0, 'pointermove', kept.marks(0)[0]); return kept.tip();",
        "var places = kept.marks(1, '.linked').map(function (mark) { return mark.dataset.place; });
        return [places.length > 0, places.every(function (place) { return place === kept.marks(0)[0].dataset.place; })].join(' ');",
        // A click dims other places in all charts; another one ends it.
        "kept.send(0, 'click', kept.marks(0)[0]);
        return kept.marks(1).every(function (mark) {
            return mark.classList.contains('dim') !== (mark.dataset.place === kept.marks(0)[0].dataset.place);
        });",
        "kept.send(0, 'click', kept.marks(0)[0]); return page.querySelectorAll('.dim').length;",
        // A series that is off leaves the chart, and the keyboard passes over it.
        "button('raw, published').click();
        var off = kept.marks(0).filter(function (mark) { return mark.dataset.key === 'raw, published'; });
        kept.press(0, 'Home');
        return [off.length > 0, off.every(function (mark) { return !mark.getClientRects().length; }),
            kept.tip().includes('published'), button('raw, published').getAttribute('aria-pressed')].join(' ');",
        "button('raw, published').click(); kept.press(0, 'Home'); return kept.tip();",
        "kept.at = kept.tip(); kept.press(0, 'ArrowDown'); return kept.tip() !== kept.at;",
        "kept.press(0, 'Escape'); return kept.tip();",
        // A mechanism that is off leaves all stacks of the page, and the other parts close the gap.
        "button('program').click();
        var stacks = Array.from(page.querySelectorAll('#why .stack'));
        return stacks.filter(function (stack) {
            var at = 0;
            return Array.from(stack.querySelectorAll('[data-key]')).some(function (mark) {
                if (mark.dataset.key === 'program') return mark.getClientRects().length > 0;
                var rect = mark.querySelector('rect'), x = parseFloat(rect.getAttribute('x'));
                var moved = Math.abs(x - at) > 0.03;
                at = x + parseFloat(rect.getAttribute('width'));
                return moved;
            });
        }).length + ' of ' + (stacks.length > 0);",
    ];
    let page = unfolded(&page(&sd_cards_fixture()));
    let Some(seen) = observe("bars", &page, &steps) else { return };
    assert_eq!(seen[0], "none true");
    assert!(seen[1].contains(", published: ") && seen[1].ends_with("&nbsp;MiB/s"), "{seen:?}");
    assert_eq!(
        (seen[2].as_str(), seen[3].as_str(), seen[4].as_str()),
        ("true true", "true", "0"),
        "{seen:?}"
    );
    assert_eq!(seen[5], "true true false false", "{seen:?}");
    assert_eq!((seen[6].as_str(), seen[7].as_str()), (seen[1].as_str(), "true"), "{seen:?}");
    assert_eq!((seen[8].as_str(), seen[9].as_str()), ("none", "0 of true"), "{seen:?}");
}

#[test]
fn an_error_of_a_script_is_detected() {
    if browser().is_none() {
        eprintln!("skipped: an_error_of_a_script_is_detected: neither Chromium nor Chrome is installed");
        return;
    }
    let broken = "<!DOCTYPE html><html><body><script>document.getElementById('none').hidden = 1;</script></body></html>";
    let seen = std::panic::catch_unwind(|| run("broken", broken, &["--dump-dom"]));
    assert!(seen.is_err(), "the browser's console is not looked at");
}

#[test]
fn the_page_paints_in_light_and_dark() {
    let page = page(&sd_cards_fixture());
    let mut sizes = vec![];
    for (test, scheme) in [("paints-dark", 0), ("paints-light", 1)] {
        let options = [
            "--screenshot=shot.png".to_string(),
            "--window-size=1200,2400".to_string(),
            format!("--blink-settings=preferredColorScheme={scheme}"),
        ];
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let Some((folder, _)) = run(test, &page, &options) else { return };
        let png = fs::read(folder.0.join("shot.png")).expect("a screenshot");
        assert!(png.starts_with(b"\x89PNG"));
        assert!(png.len() > 50_000, "{} bytes are an empty page", png.len());
        sizes.push(png);
    }
    assert_ne!(sizes[0], sizes[1], "the themes look the same");
}
