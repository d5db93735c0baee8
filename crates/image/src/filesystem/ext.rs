//! ext2, ext3 and ext4: `mke2fs -d`, then debugfs.
//!
//! mke2fs adds files in the order of their sorted names. mke2fs also copies the times of access and of status
//! change of the staged files. These times differ from run to run, so debugfs replaces them. The features
//! come from a configuration of our own, because those of a machine's mke2fs.conf differ between releases.

use super::{Format, Settings, contents};
use crate::error::ImageError;
use crate::stage::Stage;
use crate::tool::{DEBUGFS, DUMPE2FS, MKE2FS};
use crate::tree::{Time, Tree};
use std::fmt::Write as _;
use std::fs;
use std::ops::RangeInclusive;
use std::path::Path;

/// Features as in e2fsprogs 1.47.0, without those that U-Boot and older kernels refuse.
const CONFIGURATION: &str = "[defaults]
\tbase_features = sparse_super,large_file,filetype,resize_inode,dir_index,ext_attr
\tdefault_mntopts = acl,user_xattr
\tenable_periodic_fsck = 0
\tblocksize = 4096
\tinode_size = 256
\tinode_ratio = 16384
[fs_types]
\text3 = {
\t\tfeatures = has_journal
\t}
\text4 = {
\t\tfeatures = has_journal,extent,huge_file,flex_bg,metadata_csum,64bit,dir_nlink,extra_isize
\t}
";
/// Bytes per inode with the configuration.
const INODE_RATIO: u64 = 16384;
/// The inode of the root, and the first one that files can have.
const ROOT: u64 = 2;
const FIRST: u64 = 11;

pub(super) fn make(
    format: Format,
    stage: &Stage,
    settings: &Settings,
    size: u64,
    to: &Path,
) -> Result<(), ImageError> {
    let configuration = stage.beside("mke2fs.conf");
    fs::write(&configuration, CONFIGURATION).map_err(|error| ImageError::file(&configuration, error))?;
    let file = fs::File::create_new(to).and_then(|file| file.set_len(size));
    file.map_err(|error| ImageError::file(to, error))?;
    let (options, extended) = split_extended(&settings.options);
    let root = stage.tree().root();
    let extended = [
        format!("hash_seed={}", settings.identity.uuid("hash seed")),
        "lazy_itable_init=0,lazy_journal_init=0,nodiscard".into(),
        format!("root_owner={}:{}", root.uid, root.gid),
    ]
    .into_iter()
    .chain(extended);
    let mut call = MKE2FS.call()?;
    if !options.iter().any(|option| option.starts_with("-N") || option.starts_with("-i")) {
        // At least an inode for each entry, an eighth more, and 32 for the reserved inodes and `lost+found`.
        let entries = stage.tree().entries().count() as u64;
        let inodes = (size / INODE_RATIO).max(entries + entries / 8 + 32);
        call = call.args(["-N".into(), inodes.to_string()]);
    }
    if !settings.label.is_empty() {
        call = call.args(["-L", &settings.label]);
    }
    let made = call
        .env("MKE2FS_CONFIG", configuration)
        .env("E2FSPROGS_FAKE_TIME", settings.time.to_string())
        .args(["-q", "-F", "-m", "0", "-t", &format.to_string()])
        .args(["-U", &settings.identity.uuid("filesystem").to_string()])
        .args(["-E", &extended.collect::<Vec<_>>().join(",")])
        .arg("-d")
        .arg(stage.root())
        .args(options)
        .arg(to)
        .run(to);
    match made {
        Err(ImageError::Tool { messages, .. }) if is_full(&messages) => {
            return Err(ImageError::Full { size, contents: contents(format, stage.tree()) });
        }
        made => made?,
    };
    set_times_and_owners(stage, settings, to)
}

/// Messages of libext2fs and mke2fs about a filesystem that is too small.
const FULL: [&str; 7] = [
    "Could not allocate block in ext2 filesystem",
    "Could not allocate inode in ext2 filesystem",
    "No free space in the directory",
    "No free space in extent map",
    "Not enough space to build proposed filesystem",
    "Filesystem too small for a journal",
    "too small for device",
];

fn is_full(messages: &str) -> bool {
    FULL.iter().any(|part| messages.contains(part))
}

/// Separates the extended options from the others, because mke2fs accepts only one list of extended options.
fn split_extended(options: &[String]) -> (Vec<&String>, Vec<String>) {
    let (mut plain, mut extended, mut options) = (Vec::new(), Vec::new(), options.iter());
    while let Some(option) = options.next() {
        match option.strip_prefix("-E") {
            Some("") => extended.extend(options.next().cloned()),
            Some(list) => extended.push(list.to_owned()),
            None => plain.push(option),
        }
    }
    (plain, extended)
}

fn set_times_and_owners(stage: &Stage, settings: &Settings, to: &Path) -> Result<(), ImageError> {
    let listing = DUMPE2FS.call()?.arg(to).run(to)?;
    let used = used_inodes(&listing).ok_or_else(|| ImageError::Tool {
        program: DUMPE2FS.program,
        messages: format!("the list of inodes of {} cannot be read", to.display()),
    })?;
    let script = stage.beside("debugfs.commands");
    fs::write(&script, commands(stage.tree(), settings.time, &used))
        .map_err(|error| ImageError::file(&script, error))?;
    let call = DEBUGFS.call()?.env("E2FSPROGS_FAKE_TIME", settings.time.to_string());
    let output = call.args(["-w", "-f"]).arg(&script).arg(to).output()?;
    // debugfs always exits with 0, and the first line of its messages is its version.
    let messages = String::from_utf8_lossy(&output.stderr);
    let faults: Vec<&str> = messages.lines().filter(|line| !line.starts_with("debugfs ")).collect();
    if faults.is_empty() && output.status.success() {
        return Ok(());
    }
    Err(ImageError::Tool { program: DEBUGFS.program, messages: faults.join("; ") })
}

/// Returns the commands for debugfs.
fn commands(tree: &Tree, time: i64, used: &[RangeInclusive<u64>]) -> String {
    let root = tree.root();
    let mut text = format!("set_current_time @{time}\n");
    let Time { seconds, .. } = root.modified;
    for (field, value) in [("mode", format!("0{:o}", 0o40000 | root.mode)), ("mtime", format!("@{seconds}"))]
    {
        let _ = writeln!(text, "set_inode_field <{ROOT}> {field} {value}");
    }
    let belongs_to_root = tree.belongs_to_root();
    for inode in [ROOT].into_iter().chain(used.iter().cloned().flatten()) {
        for field in ["atime", "ctime", "crtime"] {
            let _ = writeln!(text, "set_inode_field <{inode}> {field} @{time}");
        }
        for field in ["uid", "gid"].iter().filter(|_| belongs_to_root) {
            let _ = writeln!(text, "set_inode_field <{inode}> {field} 0");
        }
    }
    text
}

/// Returns the used inodes of files from the output of dumpe2fs, which lists the free inodes of each group.
fn used_inodes(listing: &str) -> Option<Vec<RangeInclusive<u64>>> {
    let count = listing.lines().find_map(|line| line.strip_prefix("Inode count:"))?.trim().parse().ok()?;
    let mut used = Vec::new();
    let mut next = FIRST;
    for list in listing.lines().filter_map(|line| line.trim().strip_prefix("Free inodes:")) {
        for range in list.split(',').map(str::trim).filter(|range| !range.is_empty()) {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
            if first > next {
                used.push(next..=first - 1);
            }
            next = last + 1;
        }
    }
    if next <= count {
        used.push(next..=count);
    }
    Some(used)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn used_inodes_are_the_gaps_between_free_ones() {
        let listing = "Inode count:              64\nGroup 0:\n  Free inodes: 14-16, 20\n  Free inodes: \n  \
                       Free inodes: 33-48\n";
        assert_eq!(used_inodes(listing), Some(vec![11..=13, 17..=19, 21..=32, 49..=64]));
        assert_eq!(used_inodes("Inode count: 16\n Free inodes: 12-16\n"), Some(vec![11..=11]));
        assert_eq!(used_inodes("Inode count: x\n"), None);
        assert_eq!(used_inodes(""), None);
    }

    #[test]
    fn running_out_of_memory_is_not_reported_as_a_full_filesystem() {
        assert!(is_full("mke2fs: Could not allocate block in ext2 filesystem while populating file system"));
        assert!(!is_full("mke2fs: Memory allocation failed while setting up superblock"));
    }

    #[test]
    fn extended_options_of_the_user_join_the_list() {
        let options = ["-O", "^64bit", "-E", "stride=2", "-Eresize=100"].map(String::from);
        let (plain, extended) = split_extended(&options);
        assert_eq!(plain, ["-O", "^64bit"]);
        assert_eq!(extended, ["stride=2", "resize=100"]);
    }
}
