//! The page in a real browser: it loads, draws its charts, and fits a telephone.
//!
//! Runs where Chromium or Chrome is installed; elsewhere each test says that it was skipped. Windows of headless
//! Chromium are at least 500 pixels wide, so that the page is put into a frame of the width in question.

use crate::fixture::*;
use flashlab_lab::results::Results;
use flashlab_report::html::page;
use std::{env, fs, path::PathBuf, process::Command};

fn browser() -> Option<PathBuf> {
    let names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
    let path = env::var_os("PATH")?;
    env::split_paths(&path).flat_map(|folder| names.map(|name| folder.join(name))).find(|file| file.is_file())
}

/// A folder for one test, gone when the test ends.
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

/// Runs the browser on `html` with further options; its standard output, or nothing where there is no browser.
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
    ]);
    command.args(["--disable-background-networking", "--disable-component-update", "--disable-sync"]);
    command.arg(format!("--user-data-dir={}", folder.0.join("profile").display()));
    command.args(options).arg(format!("file://{}", file.display())).current_dir(&folder.0);
    let output = command.output().expect("the browser starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some((folder, String::from_utf8_lossy(&output.stdout).into_owned()))
}

fn escaped(page: &str) -> String {
    page.replace('&', "&amp;").replace('"', "&quot;")
}

/// The page in frames of these widths, with a script that writes `name=value` of each measurement into the body.
fn framed(page: &str, widths: &[u32]) -> String {
    let frames: String = widths
        .iter()
        .map(|width| {
            format!("<iframe width=\"{width}\" height=\"900\" srcdoc=\"{}\"></iframe>", escaped(page))
        })
        .collect();
    let script = "
        addEventListener('load', function () {
            var said = [];
            document.querySelectorAll('iframe').forEach(function (frame) {
                var page = frame.contentDocument, root = page.documentElement;
                var charts = Array.from(page.querySelectorAll('svg.chart'));
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
                said.push([frame.width, root.scrollWidth - root.clientWidth, charts.length, flat.length, cut.length,
                    before !== after].join(' '));
            });
            document.body.textContent = 'measured:' + said.join(';') + ':end';
        });";
    format!("<!DOCTYPE html><html><body>{frames}<script>{script}</script></body></html>")
}

fn measure(test: &str, results: &Results) {
    let widths = [360, 720, 1200];
    let page = page(results);
    let Some((_folder, dom)) = run(test, &framed(&page, &widths), &["--window-size=1400,1000", "--dump-dom"])
    else {
        return;
    };
    let said =
        dom.split_once("measured:").and_then(|(_, rest)| rest.split_once(":end")).map(|(said, _)| said);
    let said = said.unwrap_or_else(|| panic!("the script said nothing: {} bytes", dom.len()));
    let charts = page.matches("class=\"chart\"").count();
    let lines: Vec<&str> = said.split(';').collect();
    assert_eq!(lines.len(), widths.len());
    for (line, width) in lines.iter().zip(widths) {
        assert_eq!(
            *line,
            format!("{width} 0 {charts} 0 0 true"),
            "width, pixels of overflow, charts, charts without width, texts outside, whether the theme switched"
        );
    }
}

#[test]
fn the_page_of_sd_cards_fits_every_width_without_overflow() {
    measure("sd-cards-fits", &sd_cards_fixture());
}

#[test]
fn the_page_of_at91_fits_every_width_without_overflow() {
    measure("at91-fits", &at91_fixture());
}

#[test]
fn the_page_of_a_sweep_fits_every_width_without_overflow() {
    measure("sweep-fits", &sweep_fixture());
}

#[test]
fn the_page_of_wear_fits_every_width_without_overflow() {
    measure("worn-fits", &worn_fixture());
}

#[test]
fn a_page_of_strange_names_fits_every_width_and_runs_none_of_them() {
    measure("strange-names-fit", &hostile_fixture());
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
    assert_ne!(sizes[0], sizes[1], "the themes differ");
}
