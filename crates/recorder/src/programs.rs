//! Programs of the host: QEMU, and the programs that the guest runs, with their libraries.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::RecordError;

/// Debian packages of the programs that shipped workloads and filesystems need.
const PACKAGES: [(&str, &str); 10] = [
    ("busybox", "busybox-static"),
    ("fio", "fio"),
    ("mkfs.btrfs", "btrfs-progs"),
    ("mkfs.exfat", "exfatprogs"),
    ("mkfs.ext4", "e2fsprogs"),
    ("mkfs.f2fs", "f2fs-tools"),
    ("mkfs.vfat", "dosfstools"),
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("sqlite3", "sqlite3"),
    ("xz", "xz-utils"),
];

/// Programs that were found, by name.
#[derive(Debug)]
pub(crate) struct Programs(BTreeMap<String, PathBuf>);

impl Programs {
    /// Searches `PATH`, and the folders of system programs, which the `PATH` of a user lacks.
    ///
    /// # Errors
    /// Returns an error that names all missing programs.
    pub(crate) fn find(names: &[&str]) -> Result<Programs, RecordError> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders: Vec<PathBuf> =
            std::env::split_paths(&path).chain(["/usr/sbin", "/sbin"].map(PathBuf::from)).collect();
        let mut found = BTreeMap::new();
        let mut missing = Vec::new();
        for name in names {
            let place = match name.contains('/') {
                true => Some(PathBuf::from(name)).filter(|file| file.is_file()),
                false => folders.iter().map(|folder| folder.join(name)).find(|file| file.is_file()),
            };
            match place {
                Some(file) => _ = found.insert((*name).to_owned(), file),
                None => missing.push(((*name).to_owned(), package_of(name))),
            }
        }
        match missing.is_empty() {
            true => Ok(Programs(found)),
            false => Err(RecordError::MissingPrograms(missing)),
        }
    }

    /// Returns the place of a program that [`Programs::find`] found.
    pub(crate) fn place(&self, name: &str) -> &Path {
        &self.0[name]
    }
}

fn package_of(name: &str) -> Option<&'static str> {
    PACKAGES.iter().find(|(program, _)| *program == name).map(|(_, package)| *package)
}

/// Returns the files of the libraries that a program loads. A static program or a script loads none.
pub(crate) fn libraries(program: &Path) -> Result<Vec<PathBuf>, RecordError> {
    let output = Command::new("ldd").arg(program).output();
    let output = output.map_err(|error| RecordError::io(Path::new("ldd"), error))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let words = text.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')));
    Ok(words.map(PathBuf::from).filter(|file| file.is_file()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_programs_are_named_together() {
        let fault = Programs::find(&["sh", "no-such-a", "no-such-b"]).unwrap_err().to_string();
        assert_eq!(fault, "missing programs: no-such-a, no-such-b");
    }
}
