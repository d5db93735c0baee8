//! Runs the reference tools that check images.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Programs that make and check images, with the Debian package of each.
const TOOLS: [(&str, &str); 15] = [
    ("mke2fs", "e2fsprogs"),
    ("e2fsck", "e2fsprogs"),
    ("debugfs", "e2fsprogs"),
    ("mkfs.vfat", "dosfstools"),
    ("fsck.vfat", "dosfstools"),
    ("mcopy", "mtools"),
    ("mdir", "mtools"),
    ("mksquashfs", "squashfs-tools"),
    ("unsquashfs", "squashfs-tools"),
    ("mkfs.erofs", "erofs-utils"),
    ("fsck.erofs", "erofs-utils"),
    ("dump.erofs", "erofs-utils"),
    ("sfdisk", "fdisk"),
    ("blkid", "util-linux"),
    ("md5sum", "coreutils"),
];

/// Returns true if all programs are installed. If a program is missing, the test fails in CI; elsewhere, it
/// prints its name and is skipped.
pub(crate) fn are_installed() -> bool {
    let folders = folders();
    let is_missing =
        |program: &str| !std::env::split_paths(&folders).any(|folder| folder.join(program).is_file());
    let Some((program, package)) = TOOLS.iter().find(|(program, _)| is_missing(program)) else { return true };
    let name = std::thread::current().name().unwrap_or("a test").to_owned();
    let why = format!("{program} is not installed (apt-get install {package})");
    assert!(std::env::var_os("CI").is_none(), "{name}: {why}");
    // This bypasses the test runner, which captures the output of passing tests.
    let _ = writeln!(std::io::stderr(), "SKIPPED {name}: {why}");
    false
}

fn folders() -> String {
    format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default())
}

/// Runs a shell script in a folder and returns its standard output.
///
/// # Panics
/// Panics with the output if the script fails.
pub(crate) fn shell(folder: &Path, script: &str) -> String {
    let mut command = Command::new("sh");
    command.args(["-ec", script]).current_dir(folder).stdin(Stdio::null());
    command.envs([("PATH", &*folders()), ("LC_ALL", "C.UTF-8"), ("TZ", "UTC"), ("MTOOLSRC", "/dev/null")]);
    let output = command.output().expect("sh is installed");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}\n{}\n{text}\n{error}", output.status);
    text
}
