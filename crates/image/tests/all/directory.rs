//! Directories as images: 2,000 files with unusual names, sizes and modes, read back by the tools of each format.

use crate::judges::{are_installed, shell};
use ext4_view::Ext4;
use flashlab_image::ImageError;
use flashlab_image::directory::DirectoryImage;
use flashlab_image::filesystem::Format;
use flashlab_image::scan::Scan;
use flashlab_image::stage::Stage;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, FileTimes, Permissions};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

const FILES: usize = 2000;
/// Sizes around those of sectors, blocks, clusters and pieces.
const SIZES: [usize; 12] = [0, 1, 511, 512, 513, 4095, 4096, 4097, 10_000, 65_535, 65_537, 131_073];
/// Parts of names that every format can store.
const NAMES: [&str; 12] = [
    "plain",
    "two words",
    ".hidden",
    "-dash",
    "[set]",
    "a+b=c,[d]",
    "Größe",
    "漢字",
    "ALL.CAPS",
    "Mixed.Case.Txt",
    "~tilde;quote'",
    "%41$var`x`{}",
];
/// Parts of names that FAT cannot store.
const ODD_NAMES: [&[u8]; 6] =
    [b"new\nline", b"back\\slash", b"star*?", b"\xff\xfe not UTF-8", "\u{1f600}".as_bytes(), b"quote\"<>|:"];

/// A file as a format has to store it: kind, permissions, owner, time and contents.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Seen {
    kind: &'static str,
    mode: u32,
    owner: (u32, u32),
    modified: i64,
    contents: Vec<u8>,
}

/// Creates 2,000 entries in directories of different sizes and depths. `odd` adds everything that FAT cannot store.
fn directory(odd: bool) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let is_root = fs::metadata(folder.path()).unwrap().uid() == 0;
    for n in 0..FILES {
        let parent = match n % 10 {
            0..5 => folder.path().join("many"),
            5..8 => folder.path().join(format!("[{}]", n % 7)),
            _ => (0..n % 12).fold(folder.path().to_owned(), |path, depth| path.join(format!("deep {depth}"))),
        };
        fs::create_dir_all(&parent).unwrap();
        let mut name = OsString::from(format!("{n} "));
        match ODD_NAMES.get(n % 30) {
            Some(odd_name) if odd => name.push(OsStr::from_bytes(odd_name)),
            _ => name.push(NAMES[n % NAMES.len()]),
        }
        if n % 100 == 7 {
            name.push("x".repeat(254 - name.len()));
        }
        create(n, &parent.join(name), odd, is_root);
    }
    folder
}

fn create(n: usize, path: &Path, odd: bool, is_root: bool) {
    match (odd, n % 40) {
        (true, 11) => return symlink(format!("../../../{n}/nowhere"), path).unwrap(),
        (true, 12) => return symlink("x/".repeat(150), path).unwrap(),
        (true, 13) => rustix::fs::mknodat(
            rustix::fs::CWD,
            path,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap(),
        (true, 14) if n > 40 => {
            let sibling = path.with_file_name(format!("{n} linked"));
            fs::write(&sibling, "two names").unwrap();
            fs::hard_link(&sibling, path).unwrap();
        }
        (_, 15) => {
            // A hole in front of the data.
            let file = File::create(path).unwrap();
            file.set_len(200_000).unwrap();
            file.write_all_at(b"end", 190_000).unwrap();
        }
        _ => {
            let bytes: Vec<u8> = (0..SIZES[n % SIZES.len()]).map(|at| (at * 7 + n) as u8).collect();
            fs::write(path, bytes).unwrap();
        }
    }
    if odd {
        if is_root {
            lchown(path, Some((n % 5) as u32 * 30_000), Some((n % 3) as u32 * 50_000)).unwrap();
        }
        // All twelve bits; a plain user has to be able to read the file.
        let readable = if is_root { 0 } else { 0o400 };
        fs::set_permissions(path, Permissions::from_mode((n * 37 % 0o10000) as u32 | readable)).unwrap();
    }
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(400_000_000 + n as u64 * 700_000);
    if n % 40 != 13 || !odd {
        let file = File::open(path).unwrap();
        file.set_times(FileTimes::new().set_modified(time)).unwrap();
    }
}

/// Reads the files below a directory of the machine.
fn seen(root: &Path) -> BTreeMap<PathBuf, Seen> {
    fn add(root: &Path, path: &Path, all: &mut BTreeMap<PathBuf, Seen>) {
        let at = root.join(path);
        let metadata = fs::symlink_metadata(&at).unwrap();
        let (kind, contents) = match metadata.file_type() {
            kind if kind.is_dir() => ("directory", Vec::new()),
            kind if kind.is_symlink() => ("link", fs::read_link(&at).unwrap().into_os_string().into_vec()),
            kind if kind.is_file() => ("file", fs::read(&at).unwrap()),
            _ => ("other", Vec::new()),
        };
        if kind == "directory" {
            for entry in fs::read_dir(&at).unwrap() {
                add(root, &path.join(entry.unwrap().file_name()), all);
            }
        }
        let (mode, owner) = (metadata.mode() & 0o7777, (metadata.uid(), metadata.gid()));
        all.insert(path.to_owned(), Seen { kind, mode, owner, modified: metadata.mtime(), contents });
    }
    let mut all = BTreeMap::new();
    add(root, Path::new(""), &mut all);
    all
}

/// Reads the files of ext4 with a reader that shares no code with e2fsprogs.
fn seen_in_ext(image: &Path) -> BTreeMap<PathBuf, Seen> {
    fn add(ext: &Ext4, path: &Path, all: &mut BTreeMap<PathBuf, Seen>) {
        let place = [b"/", path.as_os_str().as_bytes()].concat();
        let metadata = ext.symlink_metadata(&*place).unwrap();
        let kind = metadata.file_type();
        let (kind, contents) = if kind.is_dir() {
            for entry in ext.read_dir(&*place).unwrap() {
                let entry = entry.unwrap();
                let name = entry.file_name();
                let name: &[u8] = name.as_ref();
                if name != b"." && name != b".." && name != b"lost+found" {
                    add(ext, &path.join(OsStr::from_bytes(name)), all);
                }
            }
            ("directory", Vec::new())
        } else if kind.is_symlink() {
            ("link", ext.read_link(&*place).unwrap().as_ref().to_vec())
        } else if kind.is_regular_file() {
            ("file", ext.read(&*place).unwrap())
        } else {
            ("other", Vec::new())
        };
        let (mode, owner) = (u32::from(metadata.mode()) & 0o7777, (metadata.uid(), metadata.gid()));
        let modified = metadata.modified().seconds();
        all.insert(path.to_owned(), Seen { kind, mode, owner, modified, contents });
    }
    let mut all = BTreeMap::new();
    add(&Ext4::load_from_path(image).unwrap(), Path::new(""), &mut all);
    all
}

/// Compares the files. `change` removes from each file the properties that the reader loses.
fn compare(expected: &BTreeMap<PathBuf, Seen>, found: &BTreeMap<PathBuf, Seen>, change: impl Fn(&mut Seen)) {
    let paths = |all: &BTreeMap<PathBuf, Seen>| all.keys().cloned().collect::<Vec<_>>();
    assert_eq!(paths(expected), paths(found));
    for (path, seen) in expected {
        let (mut a, mut b) = (seen.clone(), found[path].clone());
        change(&mut a);
        change(&mut b);
        assert!(a.contents == b.contents, "{path:?}: contents differ");
        (a.contents, b.contents) = (Vec::new(), Vec::new());
        assert_eq!(a, b, "{path:?}");
    }
}

#[test]
fn two_thousand_unusual_files_survive_in_ext4_squashfs_and_erofs() {
    if !are_installed() {
        return;
    }
    let folder = directory(true);
    let expected = seen(folder.path());
    assert!(expected.len() >= FILES);
    let image = DirectoryImage::new(folder.path(), Format::Ext4, None).unwrap();
    let at = image.path().parent().unwrap().to_owned();
    shell(&at, "e2fsck -fn image");
    compare(&expected, &seen_in_ext(&image.path()), |_| {});
    let image = DirectoryImage::new(folder.path(), Format::Squashfs, None).unwrap();
    let at = image.path().parent().unwrap().to_owned();
    shell(&at, "unsquashfs -quiet -no-progress -d out image");
    compare(&expected, &seen(&at.join("out")), |_| {});
    let image = DirectoryImage::new(folder.path(), Format::Erofs, None).unwrap();
    let at = image.path().parent().unwrap().to_owned();
    shell(&at, "fsck.erofs --extract=out image");
    // fsck.erofs sets the owner after the mode, which clears set-user-ID and set-group-ID, and sets no times of links.
    compare(&expected, &seen(&at.join("out")), |seen| {
        seen.mode &= 0o1777;
        if seen.kind != "file" {
            seen.modified = 0;
        }
    });
    assert_eq!(expected, seen(folder.path()), "the directory must stay as it is");
}

#[test]
fn two_thousand_files_survive_in_vfat() {
    if !are_installed() {
        return;
    }
    let folder = directory(false);
    let image = DirectoryImage::new(folder.path(), Format::Vfat, None).unwrap();
    let at = image.path().parent().unwrap().to_owned();
    shell(&at, "fsck.vfat -n image; mkdir out; mcopy -s -m -i image ::/ out/");
    compare(&seen(folder.path()), &seen(&at.join("out")), |seen| {
        (seen.mode, seen.owner) = (0, (0, 0));
        // FAT counts in steps of 2 s. The time of a directory is not compared, because mmd sets it.
        seen.modified = if seen.kind == "file" { seen.modified / 2 } else { 0 };
    });
}

#[test]
fn the_same_directory_gives_the_same_bytes() {
    if !are_installed() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    shell(folder.path(), "mkdir -p a/b; echo x >a/b/c; ln -s c a/b/d; touch -d @1000000000.5 a/b/c a/b a .");
    for format in [Format::Ext4, Format::Squashfs, Format::Erofs, Format::Vfat] {
        let folder = folder.path();
        if format == Format::Vfat {
            fs::remove_file(folder.join("a/b/d")).unwrap();
            shell(folder, "touch -d @1000000000.5 a/b a .");
        }
        let bytes = || fs::read(DirectoryImage::new(folder, format, None).unwrap().path()).unwrap();
        let first = bytes();
        // Reading changes times of access, which must have no effect.
        shell(folder, "touch -a a/b/c");
        std::thread::sleep(Duration::from_millis(if format == Format::Vfat { 2100 } else { 1100 }));
        assert!(first == bytes(), "{format}");
    }
}

#[test]
fn the_refusal_of_an_entry_names_the_entry() {
    let refused = |script: &str, format| {
        let folder = tempfile::tempdir().unwrap();
        shell(folder.path(), script);
        DirectoryImage::new(folder.path(), format, None).unwrap_err().to_string()
    };
    let error = refused("ln -s /etc/passwd link", Format::Vfat);
    assert!(error.contains("link: vfat cannot store a symbolic link"), "{error}");
    let error = refused("touch 'a:b'", Format::Vfat);
    assert!(error.contains("a:b: vfat cannot store this name: it contains"), "{error}");
    let error = refused("touch README readme", Format::Vfat);
    assert!(error.contains("the same as README"), "{error}");
    let error = refused("truncate -s 4G big", Format::Vfat);
    assert!(error.contains("big: vfat stores files of at most 4294967295 bytes"), "{error}");
    let error = refused("touch con.txt", Format::Vfat);
    assert!(error.contains("con.txt: vfat cannot store this name: DOS reserves it"), "{error}");
    let error = refused("touch -d 1960-01-01 old", Format::Squashfs);
    assert!(error.contains("old: squashfs cannot store the time"), "{error}");
    let error = refused("touch -d 2040-01-01 late", Format::Ext4);
    assert!(error.contains("late: ext4 cannot store the time"), "{error}");
}

#[test]
fn a_change_while_the_directory_is_read_is_detected() {
    let cases = [
        ("echo more >>sub/file", "sub/file"),
        ("printf 'same' >sub/file", "sub/file"),
        ("touch new", ""),
        ("rm sub/file", "sub"),
        ("chmod 600 sub/file", "sub/file"),
        ("rm sub/file; ln -s /etc/passwd sub/file", "sub"),
        ("mkfifo sub/pipe", "sub"),
    ];
    for (script, place) in cases {
        let folder = tempfile::tempdir().unwrap();
        shell(folder.path(), "mkdir sub; printf 'SAME' >sub/file");
        let listed = || Scan::of(folder.path()).unwrap();
        let (copied, in_place) = (listed(), Stage::in_place(listed()).unwrap());
        // The kernel's times advance in ticks of up to 10 ms.
        std::thread::sleep(Duration::from_millis(30));
        shell(folder.path(), script);
        let changed = |result: Result<(), ImageError>| match result {
            Err(ImageError::Changed { path }) => path,
            other => panic!("{script}: {other:?}"),
        };
        assert_eq!(
            changed(in_place.check_unchanged()),
            folder.path().join(place).components().collect::<PathBuf>()
        );
        // The copy detects the change when it reads the file, or at the end.
        changed(Stage::new(copied.tree().clone(), &[copied]).map(drop));
    }
}
