//! Files of ext2, ext3 and ext4, read with `ext4-view`.

use super::{Bytes, DEPTH_MAX, Damage, Listed, ListedKind, Reader};
use ext4_view::{Ext4, Ext4Error, Ext4Read, FileType, Metadata};
use std::collections::BTreeMap;
use std::error::Error;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

pub(super) struct Ext(Ext4);

struct Source(Bytes);

impl Ext4Read for Source {
    fn read(&mut self, start: u64, to: &mut [u8]) -> Result<(), Box<dyn Error + Send + Sync + 'static>> {
        Ok(self.0.read(start, to)?)
    }
}

impl Ext {
    pub(super) fn open(bytes: &Bytes) -> Result<Ext, Damage> {
        Ext4::load(Box::new(Source(bytes.clone()))).map(Ext).map_err(text)
    }

    fn add(&self, path: &Path, depth: usize, listed: &mut BTreeMap<PathBuf, Listed>) -> Result<(), Damage> {
        if depth > DEPTH_MAX {
            return Err(format!("{}: more than {DEPTH_MAX} directories deep", path.display()));
        }
        let place = absolute(path);
        let metadata = self.0.symlink_metadata(&*place).map_err(text)?;
        let kind = self.kind(&place, &metadata)?;
        let is_directory = kind == ListedKind::Directory;
        let file = Listed {
            kind,
            mode: u32::from(metadata.mode()) & 0o7777,
            owner: (metadata.uid(), metadata.gid()),
            modified: metadata.modified().seconds(),
        };
        listed.insert(path.to_owned(), file);
        if is_directory {
            for entry in self.0.read_dir(&*place).map_err(text)? {
                let entry = entry.map_err(text)?;
                let name = entry.file_name();
                let name: &[u8] = name.as_ref();
                if name != b"." && name != b".." {
                    self.add(&path.join(OsStr::from_bytes(name)), depth + 1, listed)?;
                }
            }
        }
        Ok(())
    }

    fn kind(&self, place: &[u8], metadata: &Metadata) -> Result<ListedKind, Damage> {
        Ok(match metadata.file_type() {
            FileType::Directory => ListedKind::Directory,
            FileType::Regular => ListedKind::File { size: metadata.len() },
            FileType::Symlink => {
                let target = self.0.read_link(place).map_err(text)?;
                ListedKind::Symlink(target.as_ref().to_vec())
            }
            FileType::BlockDevice => ListedKind::Other("a block device"),
            FileType::CharacterDevice => ListedKind::Other("a character device"),
            FileType::Fifo => ListedKind::Other("a named pipe"),
            FileType::Socket => ListedKind::Other("a socket"),
        })
    }
}

impl Reader for Ext {
    fn list(&self) -> Result<BTreeMap<PathBuf, Listed>, Damage> {
        let mut listed = BTreeMap::new();
        self.add(Path::new(""), 0, &mut listed)?;
        Ok(listed)
    }

    fn read(&self, path: &Path, to: &mut dyn FnMut(&[u8])) -> Result<(), Damage> {
        let mut file = self.0.open(&*absolute(path)).map_err(text)?;
        let mut piece = vec![0; 1 << 16];
        loop {
            match file.read_bytes(&mut piece).map_err(text)? {
                0 => return Ok(()),
                length => to(&piece[..length]),
            }
        }
    }
}

fn absolute(path: &Path) -> Vec<u8> {
    [b"/", path.as_os_str().as_bytes()].concat()
}

fn text(error: Ext4Error) -> Damage {
    error.to_string()
}
