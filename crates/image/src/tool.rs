//! External programs in a fixed environment.
//!
//! A tool sees the locale C.UTF-8, UTC and no configuration of the user, so its output does not depend on the
//! user. Of the user's environment, the tool gets `PATH`, for programs that it starts, and `TMPDIR`. The tool
//! gets no standard input. If the tool fails, its messages become part of the error.

use crate::error::ImageError;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Longest message of a tool in an error, in characters. Of a longer message, only the end is kept.
const MESSAGE_MAX: usize = 2000;

/// A program and the package that contains it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tool {
    /// Name of the program.
    pub program: &'static str,
    /// Debian package that contains the program.
    pub package: &'static str,
}

/// Makes ext2, ext3 and ext4.
pub const MKE2FS: Tool = Tool { program: "mke2fs", package: "e2fsprogs" };
/// Sets the times and owners in ext2, ext3 and ext4.
pub const DEBUGFS: Tool = Tool { program: "debugfs", package: "e2fsprogs" };
/// Lists the free inodes of ext2, ext3 and ext4.
pub const DUMPE2FS: Tool = Tool { program: "dumpe2fs", package: "e2fsprogs" };
/// Makes SquashFS.
pub const MKSQUASHFS: Tool = Tool { program: "mksquashfs", package: "squashfs-tools" };
/// Makes EROFS.
pub const MKFS_EROFS: Tool = Tool { program: "mkfs.erofs", package: "erofs-utils" };
/// Makes FAT32.
pub const MKFS_VFAT: Tool = Tool { program: "mkfs.vfat", package: "dosfstools" };
/// Unpacks archives.
pub const TAR: Tool = Tool { program: "tar", package: "tar" };
/// Copies files into FAT32.
pub const MCOPY: Tool = Tool { program: "mcopy", package: "mtools" };
/// Lists the files of FAT32.
pub const MDIR: Tool = Tool { program: "mdir", package: "mtools" };
/// Makes directories in FAT32.
pub const MMD: Tool = Tool { program: "mmd", package: "mtools" };

impl Tool {
    /// Returns the path of the program. Looks in `PATH`, and in `/usr/sbin` and `/sbin`, which the `PATH` of an
    /// ordinary user often lacks.
    ///
    /// # Errors
    /// Returns an error that names the package if the program is not installed.
    pub fn find(self) -> Result<PathBuf, ImageError> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::env::split_paths(&path).chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
        let found = folders.map(|folder| folder.join(self.program)).find(|program| program.is_file());
        found.ok_or(ImageError::MissingTool { program: self.program, package: self.package })
    }

    /// Prepares a call of the program.
    ///
    /// # Errors
    /// Returns an error that names the package if the program is not installed.
    pub fn call(self) -> Result<Call, ImageError> {
        let mut command = Command::new(self.find()?);
        command.stdin(Stdio::null());
        // Variables such as TAR_OPTIONS and MTOOLS_SKIP_CHECK change the behaviour of the tools.
        command.env_clear();
        command.envs(["PATH", "TMPDIR"].into_iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        command.envs([("LC_ALL", "C.UTF-8"), ("TZ", "UTC"), ("MTOOLSRC", "/dev/null"), ("MKE2FS_SYNC", "0")]);
        Ok(Call { tool: self, command })
    }
}

/// A call of a tool.
#[derive(Debug)]
pub struct Call {
    tool: Tool,
    command: Command,
}

impl Call {
    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Call {
        self.command.arg(argument);
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args(mut self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Call {
        self.command.args(arguments);
        self
    }

    /// Sets a variable of the environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Call {
        self.command.env(name, value.into());
        self
    }

    /// Runs the program and returns its output, whatever its exit code.
    ///
    /// # Errors
    /// Returns an error if the program cannot be started.
    pub fn output(mut self) -> Result<Output, ImageError> {
        let program = Path::new(self.command.get_program()).to_owned();
        self.command.output().map_err(|error| ImageError::file(&program, error))
    }

    /// Runs the program, which writes to `to`, and returns its standard output.
    ///
    /// # Errors
    /// Returns the messages of the program if it fails, or the folder of `to` if the disk is full.
    pub fn run(self, to: &Path) -> Result<String, ImageError> {
        let tool = self.tool;
        let output = self.output()?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let messages = messages(&output);
        if messages.contains("No space left on device") || messages.contains("Disk quota exceeded") {
            return Err(ImageError::file(to, io::Error::from(io::ErrorKind::StorageFull)));
        }
        Err(ImageError::Tool { program: tool.program, messages })
    }
}

/// Returns the messages of a program: standard error, or standard output if the former is empty.
pub(crate) fn messages(output: &Output) -> String {
    let error = String::from_utf8_lossy(&output.stderr);
    let text = if error.trim().is_empty() { String::from_utf8_lossy(&output.stdout) } else { error };
    let text = text.trim();
    let skipped = text.chars().count().saturating_sub(MESSAGE_MAX);
    let text: String = text.chars().skip(skipped).collect();
    if text.is_empty() { format!("no message ({})", output.status) } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_gets_none_of_the_other_variables_of_the_user() {
        const ENV: Tool = Tool { program: "env", package: "coreutils" };
        let output = ENV.call().unwrap().env("ADDED", "1").output().unwrap();
        let output = String::from_utf8(output.stdout).unwrap();
        let known = ["PATH", "TMPDIR", "LC_ALL", "TZ", "MTOOLSRC", "MKE2FS_SYNC", "ADDED"];
        for line in output.lines() {
            let name = line.split('=').next().unwrap();
            assert!(known.contains(&name), "{line}");
        }
        assert!(output.contains("ADDED=1\n"));
    }
}
