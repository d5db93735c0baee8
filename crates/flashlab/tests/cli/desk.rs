//! A folder of one's own with the program at hand.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A folder that is the program's current one, and goes when it is dropped.
pub(crate) struct Desk(PathBuf);

/// What a run of the program said.
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Desk {
    /// An empty folder; `name` is the test's.
    pub(crate) fn new(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
        Desk(folder)
    }
    /// Puts a file into it; folders on the way are made.
    pub(crate) fn put(&self, name: &str, bytes: impl AsRef<[u8]>) -> &Self {
        let path = self.path(name);
        let folder = path.parent().expect("it is in the desk");
        std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, bytes)).expect(name);
        self
    }
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }
    /// The names of what lies in it, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).expect("it is there").map(|entry| entry.expect("readable"));
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// The program with these arguments, not yet started.
    pub(crate) fn command(&self, arguments: &[impl AsRef<OsStr>]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_flashlab"));
        command.args(arguments).current_dir(&self.0).stdin(Stdio::null());
        command
    }
    /// Runs it.
    pub(crate) fn run(&self, arguments: &[impl AsRef<OsStr>]) -> Said {
        said(&mut self.command(arguments))
    }
    /// Runs it with the words of a line.
    pub(crate) fn line(&self, line: &str) -> Said {
        self.run(&line.split_whitespace().collect::<Vec<_>>())
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs a command to its end.
pub(crate) fn said(command: &mut Command) -> Said {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let err = without_progress(&text(output.stderr));
    Said { code: output.status.code(), out: text(output.stdout), err }
}

/// Leaves out the lines of progress, which a slow machine may add to any run.
fn without_progress(err: &str) -> String {
    let is_progress = |line: &&str| {
        line.contains(" %, ") || line.contains(" so far") || line.ends_with(" %\n") || line.contains(" % (")
    };
    err.split_inclusive('\n').filter(|line| !is_progress(line)).collect()
}

impl Said {
    /// What it printed, where all went well.
    pub(crate) fn fine(self) -> String {
        assert_eq!(self.code, Some(0), "{}", self.err);
        self.out
    }
    /// What it complained of in the user's words or files: exit code 2, nothing on standard output.
    pub(crate) fn refused(self) -> String {
        assert_eq!((self.code, self.out.as_str()), (Some(2), ""), "{}", self.err);
        self.err
    }
    /// What it said when reading, writing or the device failed: exit code 1.
    pub(crate) fn failed(self) -> String {
        assert_eq!(self.code, Some(1), "{}", self.err);
        self.err
    }
}
