//! Makes FAT32 with mkfs.vfat, mmd and mcopy.
//!
//! mcopy reads directories in the order of the host's filesystem, drops files whose names DOS reserves, and
//! takes brackets in a target for a pattern. Hence mcopy receives single files in sorted order, and the
//! brackets in the name of their directory are escaped. Names that mcopy would change are refused. At the
//! end, a listing is compared with the tree.

use super::{Format, Settings, contents};
use crate::error::{ImageError, TreeProblem};
use crate::stage::Stage;
use crate::tool::{Call, MCOPY, MDIR, MKFS_VFAT, MMD, Tool};
use crate::tree::{Kind, Tree};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Names of DOS devices, which mcopy drops with any extension.
const RESERVED: [&str; 6] = ["con", "prn", "aux", "nul", "clock$", "config$"];
/// Bytes of arguments for one call. Linux permits 2 MiB for arguments and environment together.
const ARGUMENTS_MAX: usize = 512 << 10;
/// Smallest filesystem with clusters of 1 KiB. A long name takes an entry of 32 bytes for every 13 characters, and
/// mtools adds one cluster to a directory at a time, so it cannot write names of more than 195 characters with clusters
/// of 512 bytes.
const LONG_NAMES_SIZE: u64 = 66 << 20;
/// Smallest number of clusters in FAT32 (Microsoft's specification, section 3.5); drivers treat a filesystem
/// with fewer clusters as FAT16.
const CLUSTERS_MIN: u64 = 65_525;

/// Checks the names of a tree.
pub(super) fn check_names(tree: &Tree) -> Result<(), ImageError> {
    let mut folded: BTreeMap<String, &Path> = BTreeMap::new();
    for (path, _) in tree.entries().skip(1) {
        let refuse = |problem| Err(ImageError::tree(path, problem));
        let rule = |rule| TreeProblem::Name { format: Format::Vfat, rule };
        let Some(text) = path.to_str() else { return refuse(rule("it is not UTF-8")) };
        let name = text.rsplit('/').next().unwrap_or(text);
        if let Err(broken) = check_name(name) {
            return refuse(rule(broken));
        }
        if let Some(other) = folded.insert(text.to_lowercase(), path) {
            return refuse(TreeProblem::SameName { format: Format::Vfat, other: other.to_owned() });
        }
    }
    Ok(())
}

fn check_name(name: &str) -> Result<(), &'static str> {
    if name.chars().any(|c| c.is_control() || "\"*/:<>?\\|".contains(c)) {
        return Err("it contains a control character or one of \" * : < > ? \\ |");
    }
    if name.ends_with(['.', ' ']) {
        return Err("it ends with a dot or a space");
    }
    if name.chars().any(|c| c.len_utf16() > 1) {
        return Err("mtools cannot write characters beyond U+FFFF, such as emoji");
    }
    if name.chars().count() > 255 {
        return Err("it has more than 255 characters");
    }
    let base = name.split('.').next().unwrap_or(name).to_ascii_lowercase();
    let digit = base.strip_suffix(|c: char| c.is_ascii_digit()).filter(|base| ["com", "lpt"].contains(base));
    if digit.is_some() || RESERVED.contains(&&*base) {
        return Err("DOS reserves it for a device");
    }
    Ok(())
}

pub(super) fn check_label(label: &str) -> Result<(), &'static str> {
    let is_valid = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || " _-".contains(c);
    if label.len() > 11 || !label.chars().all(is_valid) || label.starts_with(' ') {
        return Err("a label of FAT has at most 11 capital letters, digits, spaces, _ and -");
    }
    Ok(())
}

pub(super) fn make(stage: &Stage, settings: &Settings, size: u64, to: &Path) -> Result<(), ImageError> {
    let least = CLUSTERS_MIN * 512 + (CLUSTERS_MIN * 8).next_multiple_of(512) + 32 * 512;
    if size < least {
        return Err(ImageError::TooSmall { size, needed: least.next_multiple_of(1 << 20) });
    }
    let file = fs::File::create_new(to).and_then(|file| file.set_len(size));
    file.map_err(|error| ImageError::file(to, error))?;
    // mkfs.vfat 4.2 ignores SOURCE_DATE_EPOCH and dates the entry of the label by the clock; --invariant
    // dates it 2015-03-14. The serial number below replaces the constant one that --invariant sets.
    let mut call = timed(MKFS_VFAT, settings)?.args(["--invariant", "-F", "32", "-S", "512"]);
    call = call.args(["-i", &format!("{:08x}", settings.identity.serial("filesystem"))]);
    call = call.args(["-h", &settings.first_sector.to_string()]);
    if !settings.label.is_empty() {
        call = call.args(["-n", &settings.label]);
    }
    if size >= LONG_NAMES_SIZE {
        let sectors = if size >= 4 * LONG_NAMES_SIZE { "8" } else { "2" };
        call = call.args(["-s", sectors]);
    }
    call.args(&settings.options).arg(to).run(to)?;
    let tree = stage.tree();
    if size < LONG_NAMES_SIZE {
        check_lengths(tree)?;
    }
    for (folders, parent) in batches(tree, |kind| *kind == Kind::Directory) {
        let targets = folders.iter().map(|name| format!("{parent}{name}"));
        fill(timed(MMD, settings)?.arg("-i").arg(to).args(targets), stage, size, to)?;
    }
    for (files, parent) in batches(tree, |kind| *kind != Kind::Directory) {
        let folder = stage.root().join(folder_of(&parent));
        let sources = files.iter().map(|name| folder.join(name));
        let call = timed(MCOPY, settings)?.args(["-m", "-Q", "-i"]).arg(to).args(sources);
        fill(call.arg(&parent), stage, size, to)?;
    }
    compare(tree, settings, to)
}

/// Checks that no name needs more than one cluster of 512 bytes.
fn check_lengths(tree: &Tree) -> Result<(), ImageError> {
    let is_long =
        |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().chars().count() > 195);
    let rule = "a name of more than 195 characters needs a filesystem of at least 66 MiB";
    match tree.entries().find(|(path, _)| is_long(path)) {
        None => Ok(()),
        Some((path, _)) => Err(ImageError::tree(path, TreeProblem::Name { format: Format::Vfat, rule })),
    }
}

fn timed(tool: Tool, settings: &Settings) -> Result<Call, ImageError> {
    Ok(tool.call()?.env("SOURCE_DATE_EPOCH", settings.time.to_string()))
}

fn fill(call: Call, stage: &Stage, size: u64, to: &Path) -> Result<(), ImageError> {
    match call.run(to) {
        Err(ImageError::Tool { messages, .. }) if messages.contains("Disk full") => {
            Err(ImageError::Full { size, contents: contents(Format::Vfat, stage.tree()) })
        }
        done => done.map(drop),
    }
}

/// Returns the names of the entries whose kind `is` selects. The names are in groups, each of which lies in
/// one directory and fits into a command line. A group comes with its directory as mtools writes it:
/// `::/a/b/`.
fn batches(tree: &Tree, is: impl Fn(&Kind) -> bool) -> Vec<(Vec<&str>, String)> {
    let mut batches: Vec<(Vec<&str>, String)> = Vec::new();
    let mut length = 0;
    for (path, _) in tree.entries().skip(1).filter(|(_, entry)| is(&entry.kind)) {
        let path = path.to_str().expect("the names were checked");
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let parent = format!("::/{}{}", escape(folder), if folder.is_empty() { "" } else { "/" });
        // The command line contains the paths of the staged files, which are longer than the names.
        length += 2 * parent.len() + name.len() + 512;
        match batches.last_mut() {
            Some((names, last)) if *last == parent && length < ARGUMENTS_MAX => names.push(name),
            _ => {
                length = 0;
                batches.push((vec![name], parent));
            }
        }
    }
    batches
}

/// Escapes a directory for mtools, which takes `[` for the start of a set of characters.
fn escape(folder: &str) -> String {
    folder.replace('[', "[[]")
}

fn folder_of(parent: &str) -> PathBuf {
    PathBuf::from(parent.trim_start_matches("::/").replace("[[]", "["))
}

/// Checks that the filesystem has the names of the tree, since mcopy skips some files without an error.
fn compare(tree: &Tree, settings: &Settings, to: &Path) -> Result<(), ImageError> {
    if tree.entries().count() == 1 {
        // mdir reports an error for an empty filesystem.
        return Ok(());
    }
    let listing = timed(MDIR, settings)?.args(["-b", "-a", "-/", "-i"]).arg(to).arg("::/").run(to)?;
    let made: BTreeSet<&str> =
        listing.lines().map(|line| line.trim_start_matches("::/").trim_end_matches('/')).collect();
    let missing =
        tree.entries().skip(1).find(|(path, _)| !path.to_str().is_some_and(|path| made.contains(path)));
    match missing {
        None => Ok(()),
        Some((path, _)) => {
            let problem = TreeProblem::Name { format: Format::Vfat, rule: "mtools changes or drops it" };
            Err(ImageError::tree(path, problem))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_mtools_would_change_are_refused() {
        for name in ["con", "CON.txt", "lpt1", "Com9.tar.gz", "a:b", "a.", "a ", "a\nb", "\u{1f600}"] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
        for name in ["icon", "com", "lpt10", "com1x", ".hidden", " a", "[a]", "漢字", "a+b=c,[d]"] {
            assert_eq!(check_name(name), Ok(()), "{name:?}");
        }
        assert!(check_name(&"ä".repeat(255)).is_ok());
        assert!(check_name(&"ä".repeat(256)).is_err());
    }
}
