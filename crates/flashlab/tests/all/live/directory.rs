//! `dir:`: a directory as a device. Clients read its files and write to the overlay; the directory stays as it is.

use super::tools::{Folder, are_installed, flashlab, skipped, with};
use std::fs;
use std::path::Path;
use std::process::Command;

fn shell(folder: &Folder, script: &str) -> String {
    let output = Command::new("sh").args(["-ec", script]).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{script}\n{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns everything about a directory that a write would change.
fn state(folder: &Folder) -> String {
    shell(folder, "find tree -printf '%p %y %m %s %T@ %C@\n' | sort; cat tree/etc/hostname")
}

fn folder(name: &str) -> Folder {
    let folder = Folder::new(name);
    shell(&folder, "mkdir -p tree/etc tree/data; echo stick >tree/etc/hostname; echo old >tree/data/log");
    folder
}

/// Runs the program in a folder and returns its exit code, standard output and standard error.
fn run(folder: &Folder, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = flashlab(arguments).current_dir(folder).output().unwrap();
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn writes_go_to_the_overlay_and_diff_lists_them() {
    if !are_installed(&["nbdcopy", "mke2fs", "debugfs", "e2fsck"]) {
        return;
    }
    let folder = folder("dir-overlay");
    let before = state(&folder);
    let kept = "dir:tree,format=ext4+overlay:keep=changes";
    with(
        &folder,
        &[kept],
        "nbdcopy \"$uri\" image; e2fsck -fn image; test \"$(debugfs -R 'cat etc/hostname' image)\" = stick
         printf 'rm etc/hostname\nwrite tree/data/log data/new\n' >commands; debugfs -w -f commands image
         e2fsck -fn image; nbdcopy image \"$uri\"",
    );
    assert_eq!(state(&folder), before);
    let (code, out, error) = run(&folder, &["image", "diff", "dir:tree,format=ext4", "changes"]);
    assert_eq!(code, Some(0), "{error}");
    let lines: Vec<&str> = out.lines().filter(|line| !line.ends_with("(time)")).collect();
    assert_eq!(lines, ["A /data/new", "D /etc/hostname"], "{out}");
    // The changes are there again, but only on an unchanged image.
    with(&folder, &[kept], "nbdcopy \"$uri\" again; test \"$(debugfs -R 'cat data/new' again)\" = old");
    shell(&folder, "echo more >>tree/data/log");
    for arguments in
        [&["serve", kept, "--run", "true"][..], &["image", "diff", "dir:tree,format=ext4", "changes"]]
    {
        let (code, _, error) = run(&folder, arguments);
        assert_eq!(code, Some(2), "{error}");
        assert!(error.contains("changes: these changes belong to another image"), "{error}");
    }
}

#[test]
fn a_directory_without_a_layer_takes_writes_that_do_not_last() {
    if !are_installed(&["nbdcopy", "mksquashfs", "unsquashfs", "mkfs.vfat", "mcopy", "qemu-io"]) {
        return;
    }
    let folder = folder("dir-plain");
    let before = state(&folder);
    let script = "nbdcopy \"$uri\" image; qemu-io -f raw -c 'write -P 7 0 512' -c 'read -P 7 0 512' \"$uri\"";
    with(&folder, &["dir:tree,format=squashfs"], script);
    shell(&folder, "unsquashfs -quiet -no-progress -d out image; diff -r tree out");
    with(&folder, &["dir:tree,format=vfat,size=64MiB+delay:read=1us"], script);
    assert_eq!(fs::metadata(Path::new(folder.as_ref()).join("image")).unwrap().len(), 64 << 20);
    shell(&folder, "mkdir fat; mcopy -s -i image ::/ fat/; diff -r tree fat");
    assert_eq!(state(&folder), before);
}

#[test]
fn directories_that_cannot_become_an_image_are_refused() {
    if !are_installed(&["mkfs.vfat", "mcopy"]) {
        return;
    }
    let folder = folder("dir-refused");
    shell(&folder, "ln -s /etc/passwd tree/link");
    let cases = [
        ("dir:tree,format=vfat", "link: vfat cannot store a symbolic link"),
        ("dir:tree", "format is missing: dir:PATH,format=ext4"),
        ("dir:tree,format=xfs", "xfs"),
        ("dir:none,format=ext4", "none: No such file or directory"),
        ("dir:tree/etc/hostname,format=ext4", "not a directory"),
        ("dir:tree,format=ext4,size=1KiB", "does not fit"),
    ];
    for (device, message) in cases {
        let (code, _, error) = run(&folder, &["serve", device, "--run", "true"]);
        assert_eq!(code, Some(2), "{error}");
        assert!(error.contains(message), "{device}: {error}");
    }
}

#[test]
fn a_full_disk_is_named_and_leaves_nothing_behind() {
    if !are_installed(&["unshare", "mke2fs", "mksquashfs"]) {
        return;
    }
    let folder = folder("dir-full");
    // Squashfs cannot compress these bytes.
    shell(&folder, "mkdir small; head -c 8M /dev/urandom >tree/noise");
    let program = env!("CARGO_BIN_EXE_flashlab");
    let script = format!(
        "mount -t tmpfs -o size=4m none small || exit 77
         ! TMPDIR=$PWD/small {program} serve dir:tree,format=squashfs --run true; ls small
         ! TMPDIR=$PWD/small {program} serve dir:tree,format=ext4 --run true; ls small
         ! {program} image build tree --format squashfs --to small/root.img; ls small"
    );
    let output =
        Command::new("unshare").args(["-rm", "sh", "-c", &script]).current_dir(&folder).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(77) || error.contains("unshare failed") {
        skipped("no mount without rights");
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{error}");
    assert_eq!(error.matches("no space is left in").count(), 3, "{error}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "", "temporary files are left");
}
