//! Installs the library into a prefix, and compiles C programs against it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// Turns warnings into errors, because the header must compile without warnings.
pub(crate) const STRICT: &[&str] = &["-Wall", "-Wextra", "-Werror", "-pedantic"];
/// Checks of memory and of undefined behaviour in the programs, and of leaks in the library.
const SANITIZERS: &[&str] = &["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g", "-O1"];

/// Returns the folder of the crate.
pub(crate) fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the prefix into which `install.sh` has installed the library that cargo built for this test.
pub(crate) fn prefix() -> &'static Path {
    static PREFIX: OnceLock<PathBuf> = OnceLock::new();
    PREFIX.get_or_init(|| {
        let prefix = Path::new(env!("CARGO_TARGET_TMPDIR")).join("c-prefix");
        let test = std::env::current_exe().expect("the test has a path");
        let build = test.parent().expect("cargo builds the libraries beside the test");
        let _ = std::fs::remove_dir_all(&prefix);
        expect_success(Command::new(folder().join("install.sh")).args([build, &prefix]));
        prefix
    })
}

/// Compiles a program from sources of the crate and links it with the shared library.
pub(crate) fn compile(name: &str, sources: &[&str], options: &[&str]) -> PathBuf {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let library = prefix().join("lib");
    let mut command = Command::new("cc");
    command.arg("-std=c99").args(STRICT).args(options).arg("-I").arg(prefix().join("include"));
    command.args(sources.iter().map(|source| folder().join(source)));
    command.arg("-L").arg(&library).arg("-lflashlab");
    command.arg(format!("-Wl,-rpath,{}", library.display()));
    command.arg("-o").arg(&program);
    expect_success(&mut command);
    program
}

/// Compiles a program with sanitizers.
pub(crate) fn compile_sanitized(name: &str, sources: &[&str], options: &[&str]) -> PathBuf {
    compile(name, sources, &[SANITIZERS, options].concat())
}

/// Runs a program that must succeed. Returns its output.
pub(crate) fn run<S: AsRef<OsStr>>(program: &Path, arguments: &[S]) -> String {
    expect_success(Command::new(program).args(arguments))
}

/// Runs a command that must succeed. Returns its output.
pub(crate) fn expect_success(command: &mut Command) -> String {
    let output = output(command);
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs a command.
pub(crate) fn output(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}
