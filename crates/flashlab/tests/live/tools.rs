//! The program, a folder to work in, and the tools of others.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Whether all of `tools` are here; says loudly which one is not.
pub(crate) fn here(tools: &[&str]) -> bool {
    let missing = |tool: &&&str| place_of(tool).is_none();
    match tools.iter().find(missing) {
        None => true,
        Some(tool) => skipped(&format!("{tool} is not installed")),
    }
}

/// Says so past the test runner, which keeps what a passing test prints to itself.
pub(crate) fn skipped(why: &str) -> bool {
    let name = std::thread::current().name().unwrap_or("a test").to_owned();
    let _ = writeln!(std::io::stderr(), "SKIPPED {name}: {why}");
    false
}

/// The file of a tool.
pub(crate) fn place_of(tool: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // nbd-client and losetup live where only root looks.
    let extra = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(extra).map(|folder| folder.join(tool)).find(|file| file.is_file())
}

/// The program with these arguments, not yet started.
pub(crate) fn flashlab(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flashlab"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// Serves `device` as long as a shell's `script` runs, in `folder`, and gives what it printed, where all went well.
pub(crate) fn with(folder: &Folder, device: &[&str], script: &str) -> String {
    let output = attempt(folder, device, script);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}\n{}\n{text}\n{error}", output.status);
    text
}

/// The same, however it ended.
pub(crate) fn attempt(folder: &Folder, device: &[&str], script: &str) -> Output {
    let mut arguments = vec!["serve"];
    arguments.extend(device);
    let script = format!("set -e\nPATH=$PATH:/usr/sbin:/sbin\n{script}");
    arguments.extend(["--run", &script]);
    flashlab(&arguments).current_dir(folder).output().expect("the program is built")
}

/// A folder of a test's own; goes when it is dropped.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Folder {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        Folder(folder)
    }
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
    /// A file of noise.
    pub(crate) fn noise(&self, name: &str, bytes: usize) {
        let mut rng = flashlab_sim::Rng::new(7);
        let noise: Vec<u8> =
            std::iter::repeat_with(|| rng.next_u64().to_le_bytes()).flatten().take(bytes).collect();
        std::fs::write(self.path(name), noise).expect("the disk has room");
    }
}

impl AsRef<Path> for Folder {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
