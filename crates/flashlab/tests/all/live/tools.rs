//! The program, a folder for one test, and third-party tools.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// Returns true if all of `tools` are installed; else prints the name of the first missing one.
pub(crate) fn are_installed(tools: &[&str]) -> bool {
    let missing = |tool: &&&str| path_of(tool).is_none();
    match tools.iter().find(missing) {
        None => true,
        Some(tool) => skipped(&format!("{tool} is not installed")),
    }
}

/// Prints that a test was skipped, past the test runner, which captures the output of passing tests. Returns false.
pub(crate) fn skipped(why: &str) -> bool {
    let name = std::thread::current().name().unwrap_or("a test").to_owned();
    let _ = writeln!(std::io::stderr(), "SKIPPED {name}: {why}");
    false
}

/// Returns the path of a tool.
pub(crate) fn path_of(tool: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // nbd-client and losetup are in folders that only root has on its PATH.
    let extra = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(extra).map(|folder| folder.join(tool)).find(|file| file.is_file())
}

/// Returns the command of the program with these arguments, not yet started.
pub(crate) fn flashlab(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flashlab"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// Serves `device` in `folder` while the shell runs `script`. Checks that the script succeeds, and returns its output.
pub(crate) fn with(folder: &Folder, device: &[&str], script: &str) -> String {
    let output = attempt(folder, device, script);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}\n{}\n{text}\n{error}", output.status);
    text
}

/// Like [`with`], but returns the output and the status whether or not the script succeeds.
pub(crate) fn attempt(folder: &Folder, device: &[&str], script: &str) -> Output {
    let mut arguments = vec!["serve"];
    arguments.extend(device);
    let script = format!("set -e\nPATH=$PATH:/usr/sbin:/sbin\n{script}");
    arguments.extend(["--run", &script]);
    flashlab(&arguments).current_dir(folder).output().expect("the program is built")
}

/// Folder for one test, removed on drop.
pub(crate) struct Folder(PathBuf);

/// Creates an empty folder that no other test has, whatever their names.
pub(crate) fn empty_folder(name: &str) -> PathBuf {
    static CREATED: AtomicU32 = AtomicU32::new(0);
    let number = CREATED.fetch_add(1, Ordering::Relaxed);
    let folder = format!("{name}-{}-{number}", std::process::id());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    folder
}

impl Folder {
    pub(crate) fn new(name: &str) -> Folder {
        Folder(empty_folder(name))
    }
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
    /// Writes a file of random bytes.
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
