//! Files of FAT, read with `fatfs`.

use super::{Bytes, DEPTH_MAX, Damage, Listed, ListedKind, Reader};
use fatfs::{DateTime, Dir, FileSystem, FsOptions};
use std::collections::BTreeMap;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

pub(super) struct Fat(FileSystem<Source>);

/// Bytes with a position.
struct Source {
    bytes: Bytes,
    at: u64,
}

impl Fat {
    pub(super) fn open(bytes: &Bytes) -> Result<Fat, Damage> {
        let source = Source { bytes: bytes.clone(), at: 0 };
        FileSystem::new(source, FsOptions::new()).map(Fat).map_err(text)
    }

    fn add(
        folder: &Dir<'_, Source>,
        path: &Path,
        depth: usize,
        listed: &mut BTreeMap<PathBuf, Listed>,
    ) -> Result<(), Damage> {
        if depth > DEPTH_MAX {
            return Err(format!("{}: more than {DEPTH_MAX} directories deep", path.display()));
        }
        for entry in folder.iter() {
            let entry = entry.map_err(text)?;
            let name = entry.file_name();
            if name == "." || name == ".." {
                continue;
            }
            let path = path.join(&name);
            let kind = if entry.is_dir() {
                Fat::add(&entry.to_dir(), &path, depth + 1, listed)?;
                ListedKind::Directory
            } else {
                ListedKind::File { size: entry.len() }
            };
            let modified = seconds(entry.modified());
            listed.insert(
                path,
                Listed { kind, mode: entry.attributes().bits().into(), owner: (0, 0), modified },
            );
        }
        Ok(())
    }
}

impl Reader for Fat {
    fn list(&self) -> Result<BTreeMap<PathBuf, Listed>, Damage> {
        let root = Listed { kind: ListedKind::Directory, mode: 0, owner: (0, 0), modified: 0 };
        let mut listed = BTreeMap::from([(PathBuf::new(), root)]);
        Fat::add(&self.0.root_dir(), Path::new(""), 0, &mut listed)?;
        Ok(listed)
    }

    fn read(&self, path: &Path, to: &mut dyn FnMut(&[u8])) -> Result<(), Damage> {
        let path = path.to_str().ok_or("the name is not UTF-8")?;
        let mut file = self.0.root_dir().open_file(path).map_err(text)?;
        let mut piece = vec![0; 1 << 16];
        loop {
            match file.read(&mut piece).map_err(text)? {
                0 => return Ok(()),
                length => to(&piece[..length]),
            }
        }
    }
}

/// Returns a number that orders FAT's times, which have no time zone.
fn seconds(time: DateTime) -> i64 {
    let DateTime { date, time } = time;
    let days = (i64::from(date.year) * 16 + i64::from(date.month)) * 32 + i64::from(date.day);
    days * 86_400 + i64::from(time.hour) * 3600 + i64::from(time.min) * 60 + i64::from(time.sec)
}

fn text(error: io::Error) -> Damage {
    error.to_string()
}

impl Read for Source {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let length = (to.len() as u64).min(self.bytes.size().saturating_sub(self.at));
        self.bytes.read(self.at, &mut to[..length as usize])?;
        self.at += length;
        Ok(length as usize)
    }
}

impl Seek for Source {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
            SeekFrom::End(by) => self.bytes.size().checked_add_signed(by),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

/// `fatfs` requires this trait, and writes nothing as long as its caller writes nothing.
impl Write for Source {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
