//! Disks from recipes, judged by the programs of their formats.

use crate::judges::{are_installed, shell};
use flashlab_image::ImageError;
use flashlab_image::compose::{Composed, compose};
use flashlab_image::recipe::{DEFAULT_TIME, Recipe};
use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

/// Composes `disk.img` from a recipe in a folder.
fn compose_in(folder: &Path, recipe: &str) -> Result<Vec<Composed>, ImageError> {
    let recipe = Recipe::parse(&folder.join("stick.toml"), recipe, DEFAULT_TIME)?;
    let path = folder.join("disk.img");
    let mut disk = File::create(&path).unwrap();
    compose(&recipe, &mut disk, &path)
}

/// Creates a folder with a kernel and a directory `root`, some of whose links point outside it.
fn sources() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("vmlinux.64"), vec![7; 300_000]).unwrap();
    shell(
        folder.path(),
        "mkdir -p root/etc root/bin root/dev
         echo secret >outside
         echo stick >root/etc/hostname
         printf '#!/bin/sh\n' >root/bin/init; chmod 4755 root/bin/init
         ln root/bin/init root/bin/again
         ln -s ../../outside root/etc/leaves
         ln -s /etc/shadow root/etc/absolute
         ln -s nowhere root/etc/dangling
         mkfifo root/dev/pipe",
    );
    folder
}

/// Writes partition `n` of a composed disk to `part.N`.
fn extract(folder: &Path, composed: &[Composed]) {
    for (n, Composed { offset, size, .. }) in (1..).zip(composed) {
        let (skip, count) = (offset / 512, size / 512);
        shell(folder, &format!("dd if=disk.img of=part.{n} bs=512 skip={skip} count={count} status=none"));
    }
}

/// The recipe of the documentation, for a smaller stick.
fn rescue() -> String {
    let recipe = include_str!("../../../../docs/rescue-stick.toml");
    recipe.replace("\"2GiB\"", "\"256MiB\"").replace("\"150MiB\"", "\"64MiB\"")
}

#[test]
fn the_rescue_stick_is_accepted_by_every_checker() {
    if !are_installed() {
        return;
    }
    let folder = sources();
    let at = folder.path();
    let composed = compose_in(at, &rescue()).unwrap();
    extract(at, &composed);
    let table: serde_json::Value = serde_json::from_str(
        &shell(at, "sfdisk --verify disk.img && sfdisk --json disk.img")
            .split_once('{')
            .map(|(_, json)| format!("{{{json}"))
            .unwrap(),
    )
    .unwrap();
    let table = &table["partitiontable"];
    assert_eq!(table["label"], "dos");
    assert_eq!(table["partitions"][0]["start"], 1);
    assert_eq!(table["partitions"][0]["size"], 64 * 2048);
    assert_eq!(
        (&table["partitions"][0]["type"], &table["partitions"][0]["bootable"]),
        (&"c".into(), &true.into())
    );
    assert_eq!(
        (&table["partitions"][1]["type"], &table["partitions"][1]["start"]),
        (&"83".into(), &(65 * 2048).into())
    );
    shell(at, "fsck.vfat -n part.1; e2fsck -fn part.2");
    let blkid = |n| shell(at, &format!("blkid -p -o export part.{n}"));
    assert!(blkid(1).contains("LABEL=BOOT\n") && blkid(1).contains("VERSION=FAT32"), "{}", blkid(1));
    assert!(blkid(2).contains("LABEL=root\n") && blkid(2).contains("TYPE=ext3"), "{}", blkid(2));
    shell(
        at,
        "mkdir boot; mcopy -i part.1 ::/vmlinux.64 ::/vmlinux.64.md5 boot/
         cmp boot/vmlinux.64 vmlinux.64
         debugfs -R 'dump squashfs.img s' part.2; debugfs -R 'dump squashfs.img.md5 s.md5' part.2
         test \"$(cat s.md5)\" = \"$(md5sum <s | cut -d' ' -f1)\"; test \"$(cat boot/vmlinux.64.md5)\" = \"$(md5sum <vmlinux.64 | cut -d' ' -f1)\"
         unsquashfs -no-xattrs -d unpacked s; diff -r --no-dereference --exclude=pipe root unpacked
         test \"$(debugfs -R 'cat version' part.2)\" = v1.10.11.rescue",
    );
    assert!(shell(at, "debugfs -R 'stat w' part.2").contains("Mode:  0755"));
}

#[test]
fn a_fat_without_a_size_knows_its_first_sector() {
    if !are_installed() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let composed = compose_in(at, "table = \"mbr\"\n[[partition]]\nformat = \"vfat\"\n").unwrap();
    extract(at, &composed);
    let boot = fs::read(at.join("part.1")).unwrap();
    // BPB_HiddSec of Microsoft's specification.
    assert_eq!(u32::from_le_bytes(boot[28..32].try_into().unwrap()), 2048);
    assert_eq!(composed[0].size, 97 << 20);
}

#[test]
fn the_label_of_fat_has_the_same_date_on_every_day() {
    if !are_installed() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let recipe = "table = \"mbr\"\n[[partition]]\nformat = \"vfat\"\nlabel = \"BOOT\"\nsize = \"40MiB\"\n";
    let composed = compose_in(at, recipe).unwrap();
    extract(at, &composed);
    let bytes = fs::read(at.join("part.1")).unwrap();
    let label = bytes.windows(12).position(|entry| entry == b"BOOT       \x08").unwrap();
    // Years count from 1980 in the top seven bits of a date: created, read and written.
    for date in [16, 18, 24] {
        let date = u16::from_le_bytes([bytes[label + date], bytes[label + date + 1]]);
        assert_eq!((1980 + (date >> 9), (date >> 5) & 15, date & 31), (2015, 3, 14));
    }
    let serial = u32::from_le_bytes(bytes[67..71].try_into().unwrap());
    assert_ne!(serial, 0x1234_abcd, "the serial number is that of the recipe");
}

#[test]
fn links_that_leave_the_tree_are_stored_as_links() {
    if !are_installed() {
        return;
    }
    let folder = sources();
    let at = folder.path();
    for format in ["ext2", "ext4", "squashfs", "erofs"] {
        let size = if format.starts_with("ext") { "size = \"16MiB\"" } else { "" };
        let recipe = format!(
            "table = \"gpt\"\n[[partition]]\nformat = \"{format}\"\n{size}\n[[partition.tree]]\nfrom = \"root\"\n"
        );
        let composed = compose_in(at, &recipe).unwrap();
        extract(at, &composed);
        let list = match format {
            "squashfs" => "rm -rf u; unsquashfs -no-xattrs -d u part.1",
            "erofs" => "rm -rf u; mkdir u; fsck.erofs --extract=u part.1",
            _ => "rm -rf u; mkdir u; e2fsck -fn part.1; debugfs -R 'rdump / u' part.1; rm -rf u/lost+found",
        };
        shell(at, list);
        let links = shell(at, "cd u/etc; readlink leaves absolute dangling");
        assert_eq!(links, "../../outside\n/etc/shadow\nnowhere\n", "{format}");
        assert_eq!(shell(at, "grep -rl secret u || true"), "", "{format}");
        // rdump and fsck.erofs set the owner after the mode, which clears the set-user-ID bit.
        let mode = match format {
            "squashfs" => shell(at, "stat -c %a u/bin/init"),
            "erofs" => format!("{:o}", erofs_mode(&at.join("part.1"), "/bin/init")),
            _ => shell(at, "debugfs -R 'stat bin/init' part.1"),
        };
        assert!(mode.contains("4755"), "{format}: {mode}");
    }
}

/// Returns the mode of a file in EROFS. dump.erofs prints only the permissions of the mode.
fn erofs_mode(image: &Path, path: &str) -> u16 {
    let dump = shell(image.parent().unwrap(), &format!("dump.erofs --path={path} part.1"));
    let nid = dump.split("NID: ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    let bytes = fs::read(image).unwrap();
    let meta_block = u32::from_le_bytes(bytes[1024 + 40..][..4].try_into().unwrap()) as usize;
    let inode = meta_block * 4096 + nid.parse::<usize>().unwrap() * 32;
    u16::from_le_bytes(bytes[inode + 4..][..2].try_into().unwrap())
}

#[test]
fn a_gpt_and_its_copy_are_accepted() {
    if !are_installed() {
        return;
    }
    let folder = sources();
    let at = folder.path();
    let recipe = r#"
table = "gpt"
seed = "gpt"
[[partition]]
name = "Ünïx root"
format = "erofs"
options = ["-zlz4hc"]
[[partition.tree]]
from = "root"
[[partition]]
format = "vfat"
type = "esp"
size = "40MiB"
[[partition]]
format = "ext2"
bootable = true
size = "8MiB"
[[partition.file]]
to = "version"
text = "1"
checksum = "sha256"
"#;
    let composed = compose_in(at, recipe).unwrap();
    extract(at, &composed);
    assert!(shell(at, "sfdisk --verify disk.img").contains("No errors detected"));
    let table: serde_json::Value = serde_json::from_str(&shell(at, "sfdisk --json disk.img")).unwrap();
    let partitions = &table["partitiontable"]["partitions"];
    assert_eq!(partitions[0]["name"], "Ünïx root");
    assert_eq!(partitions[1]["type"], "C12A7328-F81F-11D2-BA4B-00A0C93EC93B");
    assert_eq!(partitions[2]["attrs"], "LegacyBIOSBootable");
    shell(at, "fsck.erofs part.1; fsck.vfat -n part.2; e2fsck -fn part.3");
    shell(
        at,
        "for f in version version.sha256; do debugfs -R \"dump $f $f\" part.3; done; sha256sum -c version.sha256",
    );
    // With the first header destroyed, sfdisk finds the copy at the end.
    shell(at, "dd if=/dev/zero of=disk.img bs=512 seek=1 count=33 conv=notrunc status=none");
    let copy: serde_json::Value = serde_json::from_str(&shell(at, "sfdisk --json disk.img")).unwrap();
    assert_eq!(copy["partitiontable"]["partitions"], *partitions);
}

#[test]
fn two_runs_give_equal_bytes_and_another_seed_gives_others() {
    if !are_installed() {
        return;
    }
    let parts = [
        ("ext2", "16MiB"),
        ("ext3", "16MiB"),
        ("ext4", "32MiB"),
        ("vfat", "40MiB"),
        ("squashfs", ""),
        ("erofs", ""),
    ];
    let mut recipe = String::from("table = \"gpt\"\nseed = \"SEED\"\n");
    for (format, size) in parts {
        recipe += &format!("[[partition]]\nformat = \"{format}\"\n");
        if !size.is_empty() {
            recipe += &format!("size = \"{size}\"\n");
        }
        recipe += "[[partition.tree]]\nfrom = \"tree\"\nto = \"data\"\n[[partition.file]]\nto = \"version\"\ntext = \"1\"\n";
    }
    let run = |order: &str, seed: &str| {
        let folder = tempfile::tempdir().unwrap();
        // On most filesystems, another order of creation results in another order of reading.
        shell(
            folder.path(),
            &format!("mkdir tree; for n in {order}; do mkdir tree/$n; echo $n >tree/$n/file; done"),
        );
        compose_in(folder.path(), &recipe.replace("SEED", seed)).unwrap();
        fs::read(folder.path().join("disk.img")).unwrap()
    };
    let first = run("a b c d", "one");
    // FAT counts time in steps of 2 s, the others in seconds or less.
    std::thread::sleep(Duration::from_millis(2100));
    let second = run("d b a c", "one");
    let differs = first.iter().zip(&second).position(|(a, b)| a != b);
    assert!(first.len() == second.len() && differs.is_none(), "byte {differs:?} differs");
    assert!(first != run("a b c d", "two"));
}

#[test]
fn files_that_do_not_fit_are_named() {
    if !are_installed() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    fs::write(at.join("small"), [1; 1000]).unwrap();
    File::create(at.join("large")).unwrap().set_len(100 << 20).unwrap();
    let recipe = |format: &str, size: &str| {
        format!(
            "table = \"mbr\"\n[[partition]]\nformat = \"{format}\"\nsize = \"{size}\"\n[[partition.file]]\nto = \"a\"\n\
             from = \"small\"\n[[partition.file]]\nto = \"b\"\nfrom = \"large\"\n"
        )
    };
    for format in ["ext4", "vfat"] {
        let error = compose_in(at, &recipe(format, "64MiB")).unwrap_err().to_string();
        assert!(error.starts_with("partition 1: b does not fit") && error.contains("67108864"), "{error}");
    }
    // Here the sum of the sizes fits, but the structures of the filesystem take the rest. The file has data, not a
    // hole.
    fs::write(at.join("large"), vec![1; 40 << 20]).unwrap();
    for format in ["ext2", "vfat"] {
        let error = compose_in(at, &recipe(format, "42074112")).unwrap_err();
        let ImageError::Partition { number: 1, error } = error else { panic!("{error}") };
        assert!(matches!(*error, ImageError::Full { .. }), "{format}: {error}");
    }
    let error = compose_in(at, &recipe("vfat", "8MiB").replace("large", "small")).unwrap_err().to_string();
    assert!(error.contains("at least 34603008 bytes"), "{error}");
    let squashfs = "table = \"mbr\"\n[[partition]]\nformat = \"squashfs\"\nsize = \"512\"\n[[partition.file]]\nto = \"a\"\nfrom = \"small\"\n";
    assert!(compose_in(at, squashfs).unwrap_err().to_string().contains("at least 4096 bytes, and has 512"));
}

#[test]
fn the_refusal_of_an_entry_names_the_entry_or_its_line_in_the_recipe() {
    if !are_installed() {
        return;
    }
    let folder = sources();
    let error = |recipe: &str| compose_in(folder.path(), recipe).unwrap_err().to_string();
    let vfat = "table = \"mbr\"\n[[partition]]\nformat = \"vfat\"\nsize = \"40MiB\"\n";
    let tree = error(&format!("{vfat}[[partition.tree]]\nfrom = \"root\"\n"));
    assert!(tree.contains("dev/pipe: vfat cannot store a named pipe"), "{tree}");
    let link = error(&format!("{vfat}[[partition.link]]\nto = \"l\"\ntarget = \"x\"\n"));
    assert!(link.contains("l: vfat cannot store a symbolic link"), "{link}");
    let file = |to: &str| format!("[[partition.file]]\nto = \"{to}\"\ntext = \"\"\n");
    let case = error(&format!("{vfat}{}{}", file("A"), file("a")));
    assert!(case.contains("a: vfat ignores case, so this name is the same as A"), "{case}");
    let twice = error(&format!("{vfat}{}{}", file("a"), file("a")));
    assert!(twice.contains("stick.toml:9:6: a: two entries have this path"), "{twice}");
    let outside = error(&format!("{vfat}{}", file("../a")));
    assert!(outside.contains("stick.toml:6:6") && outside.contains("stays inside"), "{outside}");
    let missing = error(&format!("{vfat}[[partition.file]]\nto = \"a\"\nfrom = \"none\"\n"));
    assert!(missing.contains("stick.toml:7:8") && missing.contains("none: No such file"), "{missing}");
    assert!(missing.contains("paths start at the recipe's folder"), "{missing}");
    let no_file = error(&format!("{vfat}[[partition.file]]\nto = \"a\"\nfrom = \"root\"\n"));
    assert!(no_file.contains("not a regular file") && !no_file.contains("paths start"), "{no_file}");
    let option = error("table = \"mbr\"\n[[partition]]\nformat = \"erofs\"\noptions = [\"-Efragment\"]\n");
    assert!(option.contains("did you mean -Efragments?"), "{option}");
    let tool =
        error("table = \"mbr\"\n[[partition]]\nformat = \"squashfs\"\noptions = [\"-comp\", \"zip\"]\n");
    assert!(tool.starts_with("partition 1: mksquashfs failed: "), "{tool}");
}
