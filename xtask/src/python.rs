//! The Python package: builds its wheel with maturin, installs it in an environment of its own, and runs its tests.
//!
//! The environment is `target/python/venv`. Only the first run, and a change of `python/tests/requirements.txt`, need
//! the package index. A machine without Python or without the index skips this part, with a message.

use crate::{Outcome, leave_package, run};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Folder of the environment and the wheels.
const FOLDER: &str = "target/python";
/// Programs that the build and the tests use.
const REQUIREMENTS: &str = "python/tests/requirements.txt";
/// Exits with an error if Python is too old for the package or cannot create environments.
const PROBE: &str = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 9))";

/// Builds the wheel and runs the tests.
pub(crate) fn check() -> Outcome {
    if !Command::new("python3").args(["-c", PROBE]).status().is_ok_and(|status| status.success()) {
        eprintln!(
            "== python: SKIPPED: no python3 of version 3.9 or later with venv; ./test installs it on Debian"
        );
        return Ok(());
    }
    if let Err(error) = environment() {
        eprintln!("== python: SKIPPED: {error} (the package index is needed once)");
        return Ok(());
    }
    let wheel = wheel()?;
    let mut install = program("pip");
    install.args(["install", "--quiet", "--no-deps", "--no-index", "--force-reinstall"]);
    run(install.arg(&wheel))?;
    let mut tests = program("python");
    run(tests.args(["-m", "pytest", "-p", "no:cacheprovider", "python/tests", "--rootdir=python"]))
}

/// Creates the environment with the required programs, unless it exists.
fn environment() -> Outcome {
    let requirements = std::fs::read(REQUIREMENTS).map_err(|error| format!("{REQUIREMENTS}: {error}"))?;
    let installed = Path::new(FOLDER).join("requirements.txt");
    if std::fs::read(&installed).is_ok_and(|before| before == requirements) {
        return Ok(());
    }
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(Path::new(FOLDER).join("venv")))?;
    run(program("pip").args(["install", "--quiet", "--disable-pip-version-check", "-r", REQUIREMENTS]))?;
    std::fs::write(&installed, &requirements).map_err(|error| format!("{}: {error}", installed.display()))
}

/// Builds the wheel in the profile and with the features of the tests, so that after a run of the tests cargo compiles
/// only the crate of the module. Returns the path of the wheel.
fn wheel() -> Result<PathBuf, String> {
    let folder = Path::new(FOLDER).join("wheels");
    // The name of a wheel contains the version, so an earlier version may have left a wheel of another name.
    let _ = std::fs::remove_dir_all(&folder);
    let folder = std::path::absolute(folder).map_err(|error| format!("{FOLDER}: {error}"))?;
    // In this folder, maturin finds the settings of the package in pyproject.toml.
    let mut build = program("maturin");
    leave_package(&mut build);
    build.current_dir("python").args(["build", "--locked", "--profile", "dev", "--features", "as-in-tests"]);
    run(build.arg("--out").arg(&folder))?;
    let mut files = std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let wheel = files.next().ok_or_else(|| format!("{}: maturin built no wheel", folder.display()))?;
    wheel.map(|entry| entry.path()).map_err(|error| format!("{}: {error}", folder.display()))
}

/// Returns a program of the environment, by its absolute path.
fn program(name: &str) -> Command {
    let path = Path::new(FOLDER).join("venv/bin").join(name);
    Command::new(std::path::absolute(&path).unwrap_or(path))
}

#[cfg(test)]
mod tests {
    use std::fs;

    /// A source distribution contains only files below the folder of pyproject.toml, so links in that folder lead to
    /// the data that the crates embed.
    #[test]
    fn a_source_distribution_includes_the_data_of_the_library() {
        let settings: toml::Table = fs::read_to_string("../python/pyproject.toml").unwrap().parse().unwrap();
        let includes = settings["tool"]["maturin"]["include"].as_array().unwrap();
        for folder in ["profiles", "experiments"] {
            let link = fs::canonicalize(format!("../python/{folder}")).unwrap();
            assert_eq!(link, fs::canonicalize(format!("../{folder}")).unwrap());
            let pattern = format!("{folder}/**/*");
            let is_included = |include: &toml::Value| {
                include.get("path").and_then(toml::Value::as_str) == Some(&pattern)
                    && include["format"].as_str() == Some("sdist")
            };
            assert!(includes.iter().any(is_included), "{folder}: {includes:?}");
        }
    }
}
