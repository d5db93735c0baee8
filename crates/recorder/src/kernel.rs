//! The image and the modules of a kernel package that is installed, or unpacked in a folder.
//!
//! Module files state the modules that they need in their section `.modinfo` (`depends=a,b`), so `depmod` is not
//! required.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::RecordError;

/// A kernel with its modules.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Image to boot.
    pub image: PathBuf,
    /// Release, such as `6.1.0-56-amd64`.
    pub release: String,
    /// Folder of the modules.
    pub modules_folder: PathBuf,
    /// Module files by module name. Names have underscores instead of hyphens.
    modules: BTreeMap<String, PathBuf>,
    /// Names of the modules that are built into the image.
    built_in: Vec<String>,
}

/// A module to load.
pub(crate) struct Module {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
}

/// Longest chain of module dependencies. Real chains have fewer than 10 modules.
const DEPTH_MAX: usize = 32;

impl Kernel {
    /// Returns a kernel from the first of `folders` that contains one: the newest full kernel or, if there is
    /// none, the newest cloud kernel. A folder is laid out like a package: `boot/vmlinuz-RELEASE` and
    /// `lib/modules/RELEASE`.
    ///
    /// # Errors
    /// Returns an error if no folder contains a kernel.
    pub fn find(folders: &[PathBuf]) -> Result<Kernel, RecordError> {
        folders
            .iter()
            .find_map(|folder| Kernel::in_folder(folder))
            .ok_or_else(|| RecordError::NoKernel { searched: folders.to_vec() })
    }

    fn in_folder(folder: &Path) -> Option<Kernel> {
        let entries = fs::read_dir(folder.join("boot")).ok()?;
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut releases: Vec<String> = names
            .filter_map(|name| name.strip_prefix("vmlinuz-").map(str::to_owned))
            .filter(|release| modules_of(folder, release).is_some())
            .collect();
        // Cloud kernels lack most filesystems.
        releases.sort_by_key(|release| (!release.contains("cloud"), version(release)));
        let release = releases.pop()?;
        let modules_folder = modules_of(folder, &release)?;
        let mut modules = BTreeMap::new();
        collect(&modules_folder, &mut modules);
        let built_in = fs::read_to_string(modules_folder.join("modules.builtin")).unwrap_or_default();
        let built_in = built_in.lines().filter_map(|line| module_name(Path::new(line))).collect();
        // An uncompressed image saves the emulated processor the decompression.
        let plain = folder.join("boot").join(format!("vmlinux-{release}"));
        let image = match plain.is_file() {
            true => plain,
            false => folder.join("boot").join(format!("vmlinuz-{release}")),
        };
        Some(Kernel { image, release, modules_folder, modules, built_in })
    }

    /// Reads the modules `wanted` and their dependencies, in an order in which they can be loaded. Leaves out
    /// modules that are built into the image.
    pub(crate) fn load(&self, wanted: &[&str]) -> Result<Vec<Module>, RecordError> {
        let mut loaded = Vec::new();
        for name in wanted {
            self.add(name, &mut loaded, 0)?;
        }
        Ok(loaded)
    }

    fn add(&self, name: &str, loaded: &mut Vec<Module>, depth: usize) -> Result<(), RecordError> {
        let name = name.replace('-', "_");
        if loaded.iter().any(|module| module.name == name) {
            return Ok(());
        }
        let Some(path) = self.modules.get(&name).filter(|_| depth < DEPTH_MAX) else {
            return match self.built_in.contains(&name) {
                true => Ok(()),
                false => Err(RecordError::MissingModule { module: name, release: self.release.clone() }),
            };
        };
        let bytes = read_module(path)?;
        for needed in depends(&bytes) {
            self.add(&needed, loaded, depth + 1)?;
        }
        loaded.push(Module { name, bytes });
        Ok(())
    }
}

fn modules_of(folder: &Path, release: &str) -> Option<PathBuf> {
    ["lib/modules", "usr/lib/modules"]
        .map(|path| folder.join(path).join(release))
        .into_iter()
        .filter_map(|path| path.canonicalize().ok())
        .find(|path| path.is_dir())
}

/// Returns the numbers of a release: `6.1.0-56-amd64` is 6, 1, 0, 56, 64.
fn version(release: &str) -> Vec<u64> {
    release.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect()
}

fn collect(folder: &Path, modules: &mut BTreeMap<String, PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        // Links such as `build` lead out of the folder.
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => collect(&path, modules),
            Ok(kind) if kind.is_file() => {
                if let Some(name) = module_name(&path) {
                    modules.insert(name, path);
                }
            }
            _ => {}
        }
    }
}

/// Returns the name of the module in the file `crc32c-intel.ko.xz`: `crc32c_intel`.
fn module_name(path: &Path) -> Option<String> {
    let file = path.file_name()?.to_str()?;
    let (stem, extension) = file.split_once(".ko")?;
    matches!(extension, "" | ".xz" | ".zst" | ".gz").then(|| stem.replace('-', "_"))
}

fn read_module(path: &Path) -> Result<Vec<u8>, RecordError> {
    let program = match path.extension().and_then(|extension| extension.to_str()) {
        Some("xz") => "xz",
        Some("zst") => "zstd",
        Some("gz") => "gzip",
        _ => return fs::read(path).map_err(|error| RecordError::io(path, error)),
    };
    let run = Command::new(program).arg("-dc").arg(path).output();
    match run {
        Ok(output) if output.status.success() => Ok(output.stdout),
        Ok(output) => Err(RecordError::io(
            path,
            std::io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        )),
        Err(error) => Err(RecordError::io(Path::new(program), error)),
    }
}

/// Returns the names that follow `depends=` in the section `.modinfo`.
fn depends(module: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(at) = module.windows(KEY.len()).position(|window| window == KEY) else { return Vec::new() };
    let value = module[at + KEY.len()..].split(|byte| *byte == 0).next().unwrap_or_default();
    let names = String::from_utf8_lossy(value);
    names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_names_the_modules_that_it_needs() {
        assert_eq!(depends(b"\x7fELF\0license=GPL\0depends=mbcache,jbd2\0intree=Y\0"), ["mbcache", "jbd2"]);
        assert_eq!(depends(b"\x7fELF\0depends=\0"), [""; 0]);
        assert_eq!(depends(b"no section"), [""; 0]);
    }

    #[test]
    fn names_of_modules_have_underscores_and_no_suffix() {
        let name = |path: &str| module_name(Path::new(path));
        assert_eq!(name("kernel/crc32c-intel.ko.xz").as_deref(), Some("crc32c_intel"));
        assert_eq!(name("kernel/fs/ext4/ext4.ko").as_deref(), Some("ext4"));
        assert_eq!(name("modules.dep"), None);
    }

    #[test]
    fn the_newest_full_kernel_is_preferred_to_cloud_kernels() {
        let folder = std::env::temp_dir().join(format!("flashlab-kernels-{}", std::process::id()));
        for release in ["6.1.9-amd64", "6.1.10-amd64", "6.12.0-cloud-amd64", "6.99.0-amd64"] {
            fs::create_dir_all(folder.join("boot")).unwrap();
            fs::write(folder.join("boot").join(format!("vmlinuz-{release}")), "").unwrap();
            if !release.starts_with("6.99") {
                fs::create_dir_all(folder.join("lib/modules").join(release)).unwrap();
            }
        }
        let kernel = Kernel::find(std::slice::from_ref(&folder)).unwrap();
        assert_eq!(kernel.release, "6.1.10-amd64");
        let fault = kernel.load(&["ext4"]).err().unwrap().to_string();
        assert!(fault.contains("the kernel 6.1.10-amd64 lacks the module ext4"), "{fault}");
        fs::remove_dir_all(&folder).unwrap();
        let fault = Kernel::find(&[folder]).unwrap_err().to_string();
        assert!(fault.contains("apt-get install linux-image-amd64"), "{fault}");
    }
}
