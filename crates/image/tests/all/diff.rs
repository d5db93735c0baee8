//! Differences between an image and its changed copy, in each format that can change.

use crate::judges::{are_installed, shell};
use flashlab_image::diff::{Bytes, Change, DiffError, Difference, Property, diff};
use std::fs::File;
use std::path::Path;
use tempfile::TempDir;

fn compared(folder: &Path) -> Result<Vec<Difference>, DiffError> {
    let bytes = |name: &str| Bytes::of_image(File::open(folder.join(name)).unwrap()).unwrap();
    diff(&bytes("base"), &bytes("changed"))
}

/// Runs a script that makes `base` from the directory `t`, and copies `base` to `changed`.
fn image(script: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    shell(
        folder.path(),
        &format!("mkdir -p t/etc; echo one >t/etc/one; echo two >t/two; {script}; cp base changed"),
    );
    folder
}

fn lines(differences: &[Difference]) -> Vec<String> {
    let line = |(path, change): (&std::path::PathBuf, &Change)| {
        let change = match change {
            Change::Added => "A".to_owned(),
            Change::Removed => "D".to_owned(),
            // The time of a directory depends on the tool.
            Change::Changed(properties) => {
                let kept = properties.iter().filter(|property| **property != Property::Time);
                format!("M{}", kept.map(|property| format!(" {property}")).collect::<String>())
            }
        };
        format!("{change}: {}", path.display())
    };
    differences
        .iter()
        .flat_map(|difference| &difference.changes)
        .map(line)
        .filter(|line| !line.starts_with("M:"))
        .collect()
}

#[test]
fn changes_in_ext_are_listed() {
    if !are_installed() {
        return;
    }
    for format in ["ext2", "ext4"] {
        let folder = image(&format!("truncate -s 16M base; mke2fs -q -t {format} -d t base"));
        assert_eq!(lines(&compared(folder.path()).unwrap()), [""; 0]);
        shell(
            folder.path(),
            "printf 'cd etc\nrm one\nwrite t/two one\nwrite t/two new\nmkdir folder\nsymlink link two\n\
             set_inode_field /two mode 0100600\nset_inode_field /two uid 7\n' >commands
             debugfs -w -f commands changed; e2fsck -fn changed",
        );
        assert_eq!(
            lines(&compared(folder.path()).unwrap()),
            ["A: etc/folder", "A: etc/link", "A: etc/new", "M contents: etc/one", "M mode owner: two"],
            "{format}"
        );
    }
}

#[test]
fn changes_in_fat_are_listed() {
    if !are_installed() {
        return;
    }
    let folder = image("truncate -s 40M base; mkfs.vfat -F 32 base; mcopy -s -i base t/etc t/two ::/");
    assert_eq!(lines(&compared(folder.path()).unwrap()), [""; 0]);
    shell(
        folder.path(),
        "mdel -i changed ::/two; printf ONE >one; mcopy -o -i changed one ::/etc/one; mmd -i changed '::/new folder'
         mcopy -i changed t/two '::/new folder/Long name.text'",
    );
    assert_eq!(
        lines(&compared(folder.path()).unwrap()),
        ["M contents: etc/one", "A: new folder", "A: new folder/Long name.text", "D: two"]
    );
}

#[test]
fn partitions_are_compared_one_by_one() {
    if !are_installed() {
        return;
    }
    for label in ["dos", "gpt"] {
        let folder = image(&format!(
            "truncate -s 80M base; printf 'label: {label}\nsize=16M\nsize=40M\n' | sfdisk -q base
             truncate -s 16M ext; mke2fs -q -t ext4 -d t ext; dd if=ext of=base bs=1M seek=1 conv=notrunc status=none
             truncate -s 40M fat; mkfs.vfat -F 32 fat; dd if=fat of=base bs=1M seek=17 conv=notrunc status=none"
        ));
        shell(folder.path(), "mcopy -i changed@@17M t/two ::/");
        let differences = compared(folder.path()).unwrap();
        let partitions: Vec<_> = differences.iter().map(|difference| difference.partition).collect();
        assert_eq!(partitions, [Some(1), Some(2)], "{label}");
        assert!(differences[0].changes.is_empty());
        assert_eq!(lines(&differences), ["A: two"]);
    }
}

#[test]
fn bytes_without_readable_files_are_errors() {
    if !are_installed() {
        return;
    }
    let folder = image("mksquashfs t base -quiet -no-progress");
    assert_eq!(compared(folder.path()).unwrap()[0].changes.len(), 0);
    shell(folder.path(), "printf x | dd of=changed bs=1 seek=100 conv=notrunc status=none");
    let error = compared(folder.path()).unwrap_err();
    assert!(matches!(error, DiffError::ReadOnly { format: "SquashFS", offset: 100, .. }), "{error}");
    let folder = image("truncate -s 1M base");
    assert!(matches!(compared(folder.path()), Err(DiffError::Unknown { .. })));
    let folder = image("truncate -s 16M base; mke2fs -q -t ext4 -d t base");
    shell(folder.path(), "dd if=/dev/urandom of=changed bs=1k seek=3 count=300 conv=notrunc status=none");
    let error = compared(folder.path()).unwrap_err();
    assert!(matches!(error, DiffError::Damaged { .. }), "{error}");
}
