//! The playground: pure models as WebAssembly in one page that needs no network.
//!
//! The page contains the module in base 64, because a browser does not load a separate module for a page that is a
//! local file.

use crate::tidy::PURE;
use crate::{Outcome, cargo, cargo_command, run};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Target of the module.
pub(crate) const TARGET: &str = "wasm32-unknown-unknown";
/// Target without a standard library, for the check that the pure crates need none.
const BARE: &str = "x86_64-unknown-none";
const MODULE: &str = "target/wasm32-unknown-unknown/release/flashlab_playground.wasm";
/// Default file of the page.
pub(crate) const PAGE: &str = "target/playground.html";
const SOURCES: &str = "crates/playground/page";
const UPLOT: &str = "crates/report/vendor/uplot";

/// Builds the module and writes the page to `path`.
pub(crate) fn build(path: &str) -> Outcome {
    if !has_target(TARGET) {
        return Err(format!("the target is missing: rustup target add {TARGET}"));
    }
    write(path, "")
}

/// Builds the page and checks in a browser that its controls move the curves. Skips the parts whose tools the machine
/// lacks, with a message.
pub(crate) fn check() -> Outcome {
    if !has_target(TARGET) {
        eprintln!("== skipped: playground: rustup target add {TARGET}");
        return Ok(());
    }
    let page = "target/playground-check.html";
    write(page, CHECK)?;
    let Some(dom) = browse(page, "")? else { return Ok(()) };
    judge(&dom)?;
    let Some(dom) = browse(page, "#latency")? else { return Ok(()) };
    judge_alone(&dom)
}

/// Returns true if the toolchain of this repository can build the module.
pub(crate) fn is_available() -> bool {
    has_target(TARGET)
}

/// Opens the file with a fragment in a browser and returns its elements once its scripts have run. Prints a message and
/// returns `None` if no browser is installed. Output in the browser's console is an error.
pub(crate) fn browse(path: &str, fragment: &str) -> Result<Option<String>, String> {
    let Some(browser) = browser() else {
        eprintln!("== skipped: {path} in a browser: neither Chromium nor Chrome is installed");
        return Ok(None);
    };
    let file = fs::canonicalize(path).map_err(|error| format!("{path}: {error}"))?;
    let mut command = Command::new(browser);
    command.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--enable-logging=stderr",
    ]);
    command.args(["--user-data-dir=target/playground-profile", "--virtual-time-budget=60000", "--dump-dom"]);
    command.arg(format!("file://{}{fragment}", file.display()));
    let output = command.output().map_err(|error| format!("the browser: {error}"))?;
    let messages = String::from_utf8_lossy(&output.stderr);
    if let Some(message) = messages.lines().find(|line| line.contains(":CONSOLE")) {
        return Err(format!("{path}: {message}"));
    }
    Ok(Some(String::from_utf8_lossy(&output.stdout).into_owned()))
}

/// Checks that the pure crates build for a target without a standard library. Prints a message instead if the target is
/// not installed.
pub(crate) fn check_without_std() -> Outcome {
    if !has_target(BARE) {
        eprintln!("== skipped: pure crates without std: rustup target add {BARE}");
        return Ok(());
    }
    let mut command = cargo_command();
    command.args(["check", "--locked", "--target", BARE, "--lib"]);
    command.args(PURE.iter().flat_map(|name| ["--package".to_owned(), format!("flashlab-{name}")]));
    run(&mut command)
}

/// Returns true if the toolchain of this repository has the target.
pub(crate) fn has_target(target: &str) -> bool {
    let output = Command::new("rustc")
        .args(["--print", "target-libdir", "--target", target])
        .stderr(Stdio::null())
        .output();
    let folder = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    folder.is_ok_and(|folder| !folder.is_empty() && Path::new(&folder).is_dir())
}

/// Builds the module, and writes the page with a further script to `path`.
fn write(path: &str, script: &str) -> Outcome {
    // Debug information would be nine tenths of the module.
    let profile = ["--release", "--config", "profile.release.strip=true"];
    let what = ["build", "--locked", "--package", "flashlab-playground", "--lib", "--target", TARGET];
    cargo(&[&what[..], &profile].concat())?;
    let module = fs::read(MODULE).map_err(|error| format!("{MODULE}: {error}"))?;
    let page = page(Path::new(""), &module, script)?;
    let size = page.len();
    fs::write(path, page).map_err(|error| format!("{path}: {error}"))?;
    eprintln!(
        "== playground: {path}, {} KiB, of which the models are {} KiB",
        size >> 10,
        module.len() >> 10
    );
    Ok(())
}

/// Puts the parts of the page together. `root` is the folder of the repository.
fn page(root: &Path, module: &[u8], script: &str) -> Result<String, String> {
    let read = |folder: &str, name: &str| {
        let path = root.join(folder).join(name);
        fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
    };
    let style = read(UPLOT, "uPlot.min.css")? + "\n" + &read(SOURCES, "playground.css")?;
    let scripts = [
        format!("/* uPlot\n{}*/\n", read(UPLOT, "LICENSE")?),
        read(UPLOT, "uPlot.iife.min.js")?,
        format!("\nconst MODULE = \"{}\";\n", STANDARD.encode(module)),
        read(SOURCES, "playground.js")?,
        script.to_owned(),
    ];
    let page = read(SOURCES, "index.html")?;
    Ok(page.replace("/*STYLE*/", &style).replace("/*SCRIPT*/", &scripts.concat()))
}

fn browser() -> Option<PathBuf> {
    let names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .flat_map(|folder| names.map(|name| folder.join(name)))
        .find(|file| file.is_file())
}

/// Script that moves each control and writes the values of the charts before and after as the text of the page. A curve
/// is complete once its words no longer change.
const CHECK: &str = "
(function () {
  var seen = [];
  function words(id) { return document.getElementById(id + '-values').textContent; }
  function settled(id, then, last, times) {
    var now = words(id);
    // The last point of a curve has values once the curve is complete.
    var isComplete = now && !/: $/.test(now);
    if (isComplete && now === last && times > 3) return then(now);
    setTimeout(function () { settled(id, then, now, isComplete && now === last ? (times || 0) + 1 : 0); }, 100);
  }
  function move(id, name, value, then) {
    var field = document.querySelector('#' + id + '-controls [name=' + name + ']');
    field.value = value;
    field.dispatchEvent(new Event('input', { bubbles: true }));
    settled(id, function (text) { seen.push(id + ' ' + name + ' ' + value + ': ' + text); then(); });
  }
  var steps = [['amplification', 'spare', 28], ['amplification', 'spare', 60], ['amplification', 'skewed', 1],
    ['amplification', 'pages', 8], ['latency', 't_prog', 500], ['latency', 't_prog', 1000], ['latency', 'spare', 60]];
  // With a fragment, the page shows one figure alone.
  if (location.hash) {
    settled(location.hash.slice(1), function (text) {
      var shown = Array.from(document.querySelectorAll('h1, section')).map(function (part) { return part.id || 'title'; });
      document.body.textContent = 'seen:' + shown.join(' ') + '|' + text + ':end';
    });
    return;
  }
  (function next() {
    var step = steps.shift();
    if (step) return move(step[0], step[1], step[2], next);
    document.body.textContent = 'seen:' + seen.join('|') + ':end';
  })();
})();
";

/// Judges the values that [`CHECK`] wrote: every control changes its chart, in the direction of the physics.
fn judge(dom: &str) -> Outcome {
    let seen = dom.split_once("seen:").and_then(|(_, rest)| rest.split_once(":end"));
    let Some((seen, _)) = seen else { return Err("the page of the playground printed no values".to_owned()) };
    let seen: Vec<&str> = seen.split('|').collect();
    let value = |line: usize, name: &str| -> f64 {
        let of = seen.get(line).and_then(|text| text.split_once(&format!("{name} "))).map(|(_, rest)| rest);
        let number = of.and_then(|rest| rest.split([' ', ';']).next());
        number.and_then(|number| number.replace(',', "").parse().ok()).unwrap_or(f64::NAN)
    };
    let facts = [
        ("more over-provisioning lowers write amplification", value(1, "greedy") < value(0, "greedy")),
        (
            "greedy meets its closed form",
            (value(0, "greedy") / value(0, "greedy, closed form") - 1.0).abs() < 0.1,
        ),
        ("skewed writes have no closed form of greedy", value(2, "greedy, closed form").is_nan()),
        ("skewed writes change the curve", value(2, "greedy") != value(1, "greedy")),
        ("larger blocks change the curve", value(3, "greedy") != value(2, "greedy")),
        ("slower programs sustain less", value(5, "about") < value(4, "about")),
        ("more spare sustains more", value(6, "about") > value(5, "about")),
    ];
    match facts.iter().find(|(_, holds)| !holds) {
        Some((fact, _)) => Err(format!("the page of the playground: not true: {fact}\n{}", seen.join("\n"))),
        None => Ok(()),
    }
}

/// Judges the page with a fragment: it has one figure, whose curves are complete.
fn judge_alone(dom: &str) -> Outcome {
    let seen = dom.split_once("seen:").and_then(|(_, rest)| rest.split_once(":end"));
    match seen.and_then(|(seen, _)| seen.split_once('|')) {
        Some(("latency", values)) if values.contains("mean ") => Ok(()),
        found => Err(format!("the playground with a fragment shows {found:?}, not the latencies alone")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_in_one_piece() {
        let page = page(Path::new(".."), b"\0asm", "").expect("the parts of the page exist");
        for missing in ["/*STYLE*/", "/*SCRIPT*/", "src=", "<link", "@import"] {
            assert!(!page.contains(missing), "{missing}");
        }
        assert!(page.contains("const MODULE = \"AGFzbQ==\";") && page.contains("Leon Sorokin"));
    }

    #[test]
    fn values_that_contradict_the_physics_are_errors() {
        let line = |greedy, form, rate| {
            format!(
                "x: After 12 drive writes: greedy {greedy}; greedy, closed form {form}, about {rate} sustained"
            )
        };
        let skewed = |greedy| format!("x: After 12 drive writes: greedy {greedy}; FIFO 3");
        let dom = |spare: f64| {
            let lines = [
                line(2.6, 2.6, 1),
                line(spare, spare, 1),
                skewed(1.2),
                skewed(1.3),
                line(1.0, 1.0, 30),
                line(1.0, 1.0, 15),
                line(1.0, 1.0, 20),
            ];
            format!("<body>seen:{}:end</body>", lines.join("|"))
        };
        assert_eq!(judge(&dom(1.5)), Ok(()));
        assert!(
            judge(&dom(2.7))
                .is_err_and(|error| error.contains("more over-provisioning lowers write amplification"))
        );
        assert!(judge("<body></body>").is_err());
        assert_eq!(judge_alone("seen:latency|x: mean 3 µs:end"), Ok(()));
        assert!(judge_alone("seen:title amplification latency|x: mean 3 µs:end").is_err());
    }
}
