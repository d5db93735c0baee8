//! The folder of one test, in which the test runs the program.

use crate::live::tools::empty_folder;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Folder that is the program's current one, removed on drop.
pub(crate) struct Folder(PathBuf);

/// Exit code and output of a run of the program.
pub(crate) struct RunOutput {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Folder {
    /// Creates an empty folder.
    pub(crate) fn new(name: &str) -> Self {
        Folder(empty_folder(name))
    }
    /// Writes a file in the folder and creates missing parent folders.
    pub(crate) fn put(&self, name: &str, bytes: impl AsRef<[u8]>) -> &Self {
        let path = self.path(name);
        let parent = path.parent().expect("the file is in the folder");
        std::fs::create_dir_all(parent).and_then(|()| std::fs::write(&path, bytes)).expect(name);
        self
    }
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }
    /// Returns the names of the folder's entries, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries =
            std::fs::read_dir(&self.0).expect("the path exists").map(|entry| entry.expect("readable"));
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// Returns the command of the program with these arguments, not yet started.
    pub(crate) fn command(&self, arguments: &[impl AsRef<OsStr>]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_flashlab"));
        command.args(arguments).current_dir(&self.0).stdin(Stdio::null());
        command
    }
    /// Runs the program with these arguments.
    pub(crate) fn run(&self, arguments: &[impl AsRef<OsStr>]) -> RunOutput {
        run_command(&mut self.command(arguments))
    }
    /// Runs the program with the words of `line` as arguments.
    pub(crate) fn line(&self, line: &str) -> RunOutput {
        self.run(&line.split_whitespace().collect::<Vec<_>>())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs a command to its end.
pub(crate) fn run_command(command: &mut Command) -> RunOutput {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let err = without_progress(&text(output.stderr));
    RunOutput { code: output.status.code(), out: text(output.stdout), err }
}

/// Removes the progress lines, which any run on a slow machine may print.
fn without_progress(err: &str) -> String {
    let is_progress = |line: &&str| {
        line.contains(" %, ") || line.contains(" so far") || line.ends_with(" %\n") || line.contains(" % (")
    };
    err.split_inclusive('\n').filter(|line| !is_progress(line)).collect()
}

impl RunOutput {
    /// Checks for exit code 0 and returns standard output.
    pub(crate) fn succeeded(self) -> String {
        assert_eq!(self.code, Some(0), "{}", self.err);
        self.out
    }
    /// Checks for exit code 2 (invalid arguments or files) and an empty standard output. Returns standard error.
    pub(crate) fn refused(self) -> String {
        assert_eq!((self.code, self.out.as_str()), (Some(2), ""), "{}", self.err);
        self.err
    }
    /// Checks for exit code 1 (I/O or the device failed) and returns standard error.
    pub(crate) fn failed(self) -> String {
        assert_eq!(self.code, Some(1), "{}", self.err);
        self.err
    }
}
