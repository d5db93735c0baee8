//! The guest's root: an archive that the kernel unpacks into memory (initramfs, Documentation/driver-api/early-userspace).

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use cpio::newc::{Builder, ModeFileType};

use crate::error::RecordError;
use crate::kernel::Kernel;
use crate::plan::Plan;
use crate::programs::{Programs, libraries};
use crate::workload::job_in_guest;

/// First process of the guest.
const INIT: &str = include_str!("init.sh");

/// Script with which the first process of each guest begins.
const GUEST: &str = include_str!("guest.sh");

/// Modules that every guest needs: the disk, and the serial port for the trace.
const MODULES: [&str; 3] = ["virtio_pci", "virtio_console", "null_blk"];

/// Returns the names of the programs that a plan needs in the guest.
pub(crate) fn programs_of(plan: &Plan) -> Vec<&str> {
    let mut names = vec!["busybox"];
    names.extend(plan.format.filesystem.program());
    names.extend(plan.workload.programs.iter().map(String::as_str));
    names
}

/// Builds the archive of the guest's root.
pub(crate) fn build(plan: &Plan, programs: &Programs) -> Result<Vec<u8>, RecordError> {
    let mut root = Root::default();
    for folder in ["bin", "tools", "modules", "proc", "sys", "dev", "mnt", "tmp"] {
        root.folder(Path::new(folder));
    }
    root.start(INIT);
    root.file(Path::new("plan.sh"), 0o644, plan.variables().as_bytes());
    root.file(Path::new("workload.sh"), 0o644, plan.workload.script.as_bytes());
    root.events();
    if let Some(job) = &plan.workload.job {
        let job = job_in_guest(job, plan.format.filesystem);
        root.file(Path::new("job.fio"), 0o644, job.as_bytes());
    }
    root.modules(&plan.kernel, plan.format.filesystem.modules())?;
    for name in programs_of(plan) {
        let place = programs.place(name);
        let file = Path::new(name).file_name().unwrap_or_default();
        let folder = if name == "busybox" { "bin" } else { "tools" };
        root.copy(place, &Path::new(folder).join(file))?;
        for library in libraries(place)? {
            let inside = library.strip_prefix("/").expect("ldd prints absolute paths").to_owned();
            root.copy(&library, &inside)?;
        }
    }
    Ok(root.finish())
}

/// Files of an archive in the order in which they were added.
#[derive(Default)]
pub(crate) struct Root {
    bytes: Vec<u8>,
    present: BTreeSet<PathBuf>,
    last_inode: u32,
}

impl Root {
    /// Adds the script of the first process, and the common script that it reads first.
    pub(crate) fn start(&mut self, init: &str) {
        self.file(Path::new("init"), 0o755, init.as_bytes());
        self.file(Path::new("guest.sh"), 0o644, GUEST.as_bytes());
    }

    /// Adds the list of the events that the guest traces.
    pub(crate) fn events(&mut self) {
        let events = flashlab_recording::capture::EVENTS.map(|event| format!("{event}\n")).concat();
        self.file(Path::new("events"), 0o644, events.as_bytes());
    }

    /// Adds the modules of the disk and the trace, the modules `wanted`, and the dependencies of all these
    /// modules. Also adds a list of the modules in the order of loading.
    pub(crate) fn modules(&mut self, kernel: &Kernel, wanted: &[&str]) -> Result<(), RecordError> {
        let mut order = String::new();
        for module in kernel.load(&[&MODULES[..], wanted].concat())? {
            order.push_str(&format!("{}\n", module.name));
            self.file(&Path::new("modules").join(format!("{}.ko", module.name)), 0o644, &module.bytes);
        }
        self.file(Path::new("modules/order"), 0o644, order.as_bytes());
        Ok(())
    }

    pub(crate) fn folder(&mut self, path: &Path) {
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            self.folder(parent);
        }
        self.add(path, 0o755, ModeFileType::Directory, &[]);
    }

    pub(crate) fn file(&mut self, path: &Path, mode: u32, contents: &[u8]) {
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            self.folder(parent);
        }
        self.add(path, mode, ModeFileType::Regular, contents);
    }

    pub(crate) fn copy(&mut self, from: &Path, to: &Path) -> Result<(), RecordError> {
        if !self.present.contains(to) {
            let bytes = fs::metadata(from).map_err(|error| RecordError::io(from, error))?.len();
            if bytes > u32::MAX.into() {
                return Err(RecordError::Setting(format!(
                    "{}: the file has 4 GiB or more, which the archive of the guest cannot store",
                    from.display()
                )));
            }
            let contents = fs::read(from).map_err(|error| RecordError::io(from, error))?;
            self.file(to, 0o755, &contents);
        }
        Ok(())
    }

    fn add(&mut self, path: &Path, mode: u32, kind: ModeFileType, contents: &[u8]) {
        if !self.present.insert(path.to_owned()) {
            return;
        }
        self.last_inode += 1;
        let size = u32::try_from(contents.len()).expect("every file is shorter than 4 GiB");
        let name = path.to_string_lossy();
        let mut writer = Builder::new(&name)
            .ino(self.last_inode)
            .mode(mode)
            .set_mode_file_type(kind)
            .write(&mut self.bytes, size);
        let written = io::Write::write_all(&mut writer, contents).and_then(|()| writer.finish());
        written.expect("a vector takes all bytes");
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        cpio::newc::trailer(&mut self.bytes).expect("a vector takes all bytes");
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_refusal_of_a_file_of_4_gib_names_the_file() {
        let path = std::env::temp_dir().join(format!("flashlab-large-{}", std::process::id()));
        fs::File::create(&path).unwrap().set_len(1 << 32).unwrap();
        let fault = Root::default().copy(&path, Path::new("tools/large")).unwrap_err().to_string();
        fs::remove_file(&path).unwrap();
        assert!(fault.contains("large") && fault.contains("4 GiB or more"), "{fault}");
    }

    #[test]
    fn folders_precede_their_files_and_each_path_is_added_once() {
        let mut root = Root::default();
        root.file(Path::new("lib/x86_64/libc.so"), 0o755, b"elf");
        root.file(Path::new("lib/x86_64/libm.so"), 0o755, b"m");
        root.file(Path::new("lib/x86_64/libm.so"), 0o755, b"again");
        let mut rest = io::Cursor::new(root.finish());
        let mut names = Vec::new();
        loop {
            let reader = cpio::newc::Reader::new(rest).unwrap();
            if reader.entry().is_trailer() {
                break;
            }
            names.push((reader.entry().name().to_owned(), reader.entry().file_size()));
            rest = reader.finish().unwrap();
        }
        let expected = [("lib", 0), ("lib/x86_64", 0), ("lib/x86_64/libc.so", 3), ("lib/x86_64/libm.so", 1)];
        assert_eq!(names, expected.map(|(name, size)| (name.to_owned(), size)));
    }
}
