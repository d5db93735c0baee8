//! `flashlab record`: short recordings in a guest, and refusals without one.

use super::folder::{Folder, run_command};
#[cfg(feature = "image")]
use super::small_root::SmallRoot;
use crate::live::tools::{are_installed, skipped};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const SCRIPT: &str = "\
for i in 1 2 3; do
    mark op-begins
    dd if=/dev/zero of=file$i bs=64k count=1 conv=fsync 2>/dev/null
    mark op-ends
done
";

/// Returns the folder where `./test` unpacks the kernel with filesystems. If the kernel or a tool is missing, prints a
/// note and returns `None`.
fn kernel() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/guest-mmc");
    if !are_installed(&["qemu-system-x86_64", "busybox", "mkfs.ext4", "ldd"]) {
        return None;
    }
    if !folder.join("boot").is_dir() {
        skipped("no Debian kernel in target/guest-mmc");
        return None;
    }
    Some(folder)
}

#[test]
fn a_recorded_script_is_replayed_on_a_card() {
    let Some(kernel) = kernel() else { return };
    let folder = Folder::new("record");
    folder.put("write.sh", SCRIPT);
    let words = ["record", "--fs", "ext4", "--script", "write.sh", "--to", "run.rec", "--kernel"];
    let run = folder.run(&[&words[..], &[kernel.to_str().expect("the path is UTF-8")]].concat());
    assert_eq!(run.code, Some(0), "{}", run.err);
    let info: Value =
        serde_json::from_str(&folder.run(&["recording", "info", "--json", "run.rec"]).out).unwrap();
    assert_eq!(info["dependencies"], true);
    assert_eq!(info["filesystem"], "ext4");
    assert_eq!(info["marks"], 8);
    assert!(info["kernel"].as_str().unwrap().contains("amd64"), "{info}");
    assert!(info["workload"].as_str().unwrap().contains("dd if=/dev/zero of=file$i bs=64k"), "{info}");
    assert!(info["host"].as_str().unwrap().contains("requests of at most 512 KiB"), "{info}");
    assert!(info["requests"]["writes"]["bytes"].as_u64().unwrap() >= 3 * 65_536, "{info}");
    assert!(info["requests"]["flushes"]["requests"].as_u64().unwrap() >= 3, "{info}");
    let run = folder.run(&["recording", "replay", "sd/kingston", "run.rec"]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    assert!(run.out.starts_with("replayed by dependencies in "), "{}", run.out);
    assert_eq!(folder.names(), ["run.rec", "write.sh"]);
}

/// A script in the place of QEMU prints the console of a guest that fails, so the test boots no kernel.
#[test]
fn a_guest_that_fails_shows_its_console() {
    if !are_installed(&["busybox", "mkfs.ext4", "ldd"]) {
        return;
    }
    let folder = Folder::new("record-fails");
    let modules = ["virtio_pci", "virtio_console", "null_blk", "crc32c_generic", "ext4"];
    let built_in: String = modules.iter().map(|name| format!("kernel/{name}.ko\n")).collect();
    folder.put("boot/vmlinuz-6.1.0-1-amd64", "").put("lib/modules/6.1.0-1-amd64/modules.builtin", built_in);
    let path = std::env::var("PATH").expect("there is a PATH");
    let path = format!("{}:{path}", folder.path("bin").display());
    let failed = |script: &str| {
        folder.put("bin/qemu-system-x86_64", format!("#!/bin/sh\n{script}\n"));
        let executable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(folder.path("bin/qemu-system-x86_64"), executable)
            .expect("the test owns the path");
        let words = ["record", "--fs=ext4", "--workload=logger", "--to=a.rec", "--kernel=."];
        run_command(folder.command(&words).env("PATH", &path)).failed()
    };
    let error = failed(
        "echo 'flashlab: stage: making the filesystem'; echo 'mke2fs: Invalid filesystem option set: nonsense'
         echo 'flashlab: FAILED: mkfs failed'",
    );
    assert!(error.contains("the guest failed: mkfs failed; its console:"), "{error}");
    assert!(error.contains("Invalid filesystem option set: nonsense"), "{error}");
    let error = failed("echo 'Kernel panic - not syncing: VFS'; echo 'qemu: terminated' >&2");
    assert!(error.contains("the guest failed: it stopped before the end of the workload"), "{error}");
    assert!(error.contains("Kernel panic - not syncing") && error.contains("qemu: terminated"), "{error}");
    assert_eq!(folder.names(), ["bin", "boot", "lib"]);
}

#[test]
fn settings_that_no_guest_can_have_are_refused() {
    let folder = Folder::new("record-refused");
    folder.put("boot/vmlinuz-6.1.0-1-amd64", "").put("lib/modules/6.1.0-1-amd64/modules.builtin", "");
    let refused = |line: &str| {
        let run = folder.line(&format!("record --kernel . --to a.rec --fs ext4 {line}"));
        assert_eq!(run.code, Some(2), "{line}: {}", run.err);
        run.err
    };
    let error = refused("--workload sqlit");
    assert!(error.contains("there is no such workload; the shipped ones are sqlite,"), "{error}");
    let error = refused("--workload logger --host raspberry-pi-99");
    assert!(
        error.contains("--host raspberry-pi-99: no host raspberry-pi-99; did you mean raspberry-pi-"),
        "{error}"
    );
    let error = refused("--workload logger --latency 0us");
    assert!(error.contains("a latency of 0 ns: expected 1 us to 1 s"), "{error}");
    let error = refused("--workload logger --queue-depth 0");
    assert!(error.contains("a queue depth of 0: expected 1 to 1024"), "{error}");
    let error = refused("--workload logger --bandwidth 8 --no-discard");
    assert!(error.contains("choose a smaller --request-max or a larger --bandwidth"), "{error}");
    let error = refused("--workload logger --bandwidth 8 --request-max 32KiB");
    assert!(error.contains("counts the bytes of discards; add --no-discard"), "{error}");
    let error = refused("--workload logger --options $(reboot)");
    assert!(error.contains("contain characters of the shell"), "{error}");
    let error = refused("--workload logger --kernel lib --kernel lib").to_string();
    assert!(error.contains("cannot be used multiple times"), "{error}");
    let run = folder.line("record --kernel lib --to a.rec --fs ext4 --workload logger");
    assert!(
        run.err.contains("on Debian: apt-get install linux-image-amd64, or")
            && run.err.contains("none in lib)"),
        "{}",
        run.err
    );
    // Wrong names are reported before a missing kernel.
    let run = folder.line("record --kernel lib --to a.rec --fs ext4 --workload sqlit");
    assert!(run.err.contains("--workload sqlit: there is no such workload"), "{}", run.err);
    let run = folder.line("record --kernel lib --to a.rec --boot none.img");
    assert!(run.err.contains("none.img: No such file"), "{}", run.err);
    let run = folder.line("record --kernel lib --to no/a.rec --fs ext4 --workload logger");
    assert!(run.err.contains("no/a.rec: there is no folder no;"), "{}", run.err);
    let run = folder.line("record --to a.rec --fs ext4");
    assert!(run.err.contains("--workload <NAME>"), "{}", run.err);
}

#[test]
fn an_experiment_names_the_recording_that_it_cannot_replay() {
    let folder = Folder::new("record-experiment");
    folder.put(
        "mine/experiment.toml",
        "title = 'mine'\nkind = 'recorded'\nsource = 'none'\n[columns]\nkingston = 'sd/kingston'\n[recorded]\n\
         repeats = 2\n[[recorded.workload]]\nname = 'own'\nrecordings = 'own'\npayload_bytes = 1\n\
         [[recorded.filesystem]]\nname = 'ext4'\nrecordings = 'ext4'\n",
    );
    folder.put("mine/published.toml", "");
    let refused = || {
        let run = folder.line("run ./mine --no-html");
        assert_eq!(run.code, Some(2), "{}", run.err);
        run.err
    };
    let error = refused();
    assert!(
        error.contains("mine/recordings/ext4-own.rec: the file is missing; `flashlab record`"),
        "{error}"
    );
    folder.put("mine/recordings/ext4-own.rec", "no recording");
    let error = refused();
    assert!(error.contains("ext4-own.rec: at byte 0: this is not a recording"), "{error}");
    folder.put("trace.txt", "  8,0 1 1 0.500000001 7 Q R 0 + 8 [x]\n");
    let run = folder.line("recording import --from blkparse --to mine/recordings/ext4-own.rec trace.txt");
    assert_eq!(run.code, Some(0), "{}", run.err);
    let error = refused();
    assert!(error.contains("ext4-own.rec: the recording has no dependencies"), "{error}");
}

/// A root of a few files boots from SquashFS without compression, so each byte of a file lies in the image as
/// it is. The init of this root compares the checksums of the files that it reads, and the guest fails if a
/// checksum differs.
#[cfg(feature = "image")]
#[test]
fn a_recorded_boot_reads_its_files_and_takes_longer_on_a_slower_device() {
    let Some(kernel) = kernel() else { return };
    if !are_installed(&["mksquashfs"]) {
        return;
    }
    let folder = Folder::new("record-boot-small");
    let root = SmallRoot::build(&folder);
    let words = ["record", "--boot", "root.img", "--memory", "128MiB", "--to", "boot.rec", "--kernel"];
    let run = folder.run(&[&words[..], &[kernel.to_str().expect("the path is UTF-8")]].concat());
    assert_eq!(run.code, Some(0), "{}", run.err);

    let info: Value =
        serde_json::from_str(&folder.line("recording info --json boot.rec").succeeded()).unwrap();
    assert_eq!(info["filesystem"], "squashfs (read-only, below an overlay in memory)");
    assert_eq!((&info["marks"], &info["requests"]["writes"]["requests"]), (&2.into(), &0.into()), "{info}");

    // The boot reads every byte of the files that its init needs, and no other file.
    let reads = reads(&folder.line("recording export --to - boot.rec").succeeded());
    for needed in &root.needed {
        let mut missing = needed.clone();
        // The reads are in the order of their offsets, so each one shortens the missing part from the front.
        for read in &reads {
            if read.contains(&missing.start) {
                missing.start = read.end;
            }
        }
        assert!(missing.is_empty(), "{missing:?} of {needed:?} was not read");
    }
    let unneeded = root.unneeded.start + 4096..root.unneeded.end - 4096;
    let touched = reads.iter().find(|read| read.start < unneeded.end && unneeded.start < read.end);
    assert_eq!(touched, None, "no program needs {unneeded:?}");

    let elapsed = |device: &str| {
        let run = folder.run(&["recording", "replay", "--json", device, "boot.rec"]);
        let report: Value = serde_json::from_str(&run.succeeded()).unwrap();
        report["elapsed_ns"].as_u64().expect("a number")
    };
    let (stick, card) = (elapsed("usb/usb3-1"), elapsed("sd/kingston"));
    assert!(stick < card, "{stick} ns on a stick of 109 MB/s, {card} ns on a card of 20 MB/s");
}

/// Returns the ranges of the reads in an iolog, sorted.
#[cfg(feature = "image")]
fn reads(iolog: &str) -> Vec<std::ops::Range<u64>> {
    let mut reads: Vec<std::ops::Range<u64>> = iolog
        .lines()
        .filter_map(|line| {
            let (_, range) = line.split_once(" read ")?;
            let (offset, length) = range.split_once(' ')?;
            let offset: u64 = offset.parse().expect("an offset");
            Some(offset..offset + length.parse::<u64>().expect("a length"))
        })
        .collect();
    reads.sort_by_key(|read| read.start);
    reads
}

#[test]
fn a_boot_needs_an_image_of_a_known_format() {
    let Some(kernel) = kernel() else { return };
    let folder = Folder::new("record-boot");
    folder.put("text.img", "no image");
    let words = ["record", "--boot", "text.img", "--to", "a.rec", "--kernel", kernel.to_str().unwrap()];
    let run = folder.run(&words);
    assert_eq!(run.code, Some(2), "{}", run.err);
    assert!(run.err.contains("text.img: the file is not a SquashFS, EROFS or ext4 image"), "{}", run.err);
    folder.put("squash.img", "hsqs");
    let run = folder.run(&[&words[..2], &["squash.img", "--writable"], &words[3..]].concat());
    assert_eq!(run.code, Some(2), "{}", run.err);
    assert!(run.err.contains("squashfs cannot be mounted writable"), "{}", run.err);
    let run = folder.run(&["record", "--boot", "squash.img", "--workload", "logger", "--to", "a.rec"]);
    assert_eq!(run.code, Some(2), "{}", run.err);
    assert_eq!(folder.names(), ["squash.img", "text.img"]);
}
