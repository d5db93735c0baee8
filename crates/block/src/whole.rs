//! Functions that read a whole file (job files, lists of exports, rules, recorded runs, certificates) or replace one
//! (states, results).

use crate::temporary::TemporaryFile;
use rustix::io::Errno;
use std::fs::{File, Permissions};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

/// Reads a file of at most `max_bytes`. Fails for anything but a regular file or a pipe: a device such as `/dev/zero`
/// has no end.
pub fn read_whole(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(Errno::ISDIR.into());
    }
    if !metadata.is_file() && !is_pipe(metadata.file_type()) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is a device or a socket; expected a regular file or a pipe",
        ));
    }
    let mut bytes = Vec::new();
    if metadata.len() <= max_bytes {
        file.take(max_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
    }
    if metadata.len() > max_bytes || bytes.len() as u64 > max_bytes {
        let why = match max_bytes >> 20 {
            0 => format!("it is longer than {max_bytes} bytes"),
            mib => format!("it is longer than {mib} MiB"),
        };
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    Ok(bytes)
}

/// Reads a text file of at most `max_bytes`.
pub fn read_whole_text(path: &Path, max_bytes: u64) -> io::Result<String> {
    let not_text = |_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text");
    String::from_utf8(read_whole(path, max_bytes)?).map_err(not_text)
}

/// Replaces a file durably. After a crash of the machine, `path` has either its old content or `bytes`. Once
/// this function has returned, `path` has `bytes`.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_whole(path, None, |file| file.write_all(bytes))?;
    sync_folder_of(path)
}

/// Replaces a file atomically: writes the output of `content` under a temporary name, syncs it to disk and renames it,
/// so that `path` never refers to an incomplete file. An error, or a signal whose handler calls
/// [`remove_temporary`](crate::remove_temporary), leaves no temporary file.
///
/// A crash of the machine may still bring the old file back; [`write_whole`] prevents this.
pub fn replace_whole(
    path: &Path,
    permissions: Option<Permissions>,
    content: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> io::Result<()> {
    let (temporary, file) = TemporaryFile::create(temporary_name(path))?;
    if let Some(permissions) = permissions {
        file.set_permissions(permissions)?;
    }
    let mut writer = BufWriter::new(file);
    content(&mut writer)?;
    writer.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
    temporary.rename(path)
}

/// Checks that the folder of `path` accepts new files: creates and removes the temporary file of [`replace_whole`].
pub fn check_folder_of(path: &Path) -> io::Result<()> {
    TemporaryFile::create(temporary_name(path)).map(drop)
}

/// Syncs the folder of a file to disk, so that the file keeps its name after a crash of the machine. A new or renamed
/// file needs this in addition to the sync of its content.
pub fn sync_folder_of(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match File::open(folder).and_then(|folder| folder.sync_all()) {
        // Some filesystems do not sync folders, and a folder that this user cannot read cannot be opened.
        Err(error)
            if [Errno::INVAL, Errno::BADF, Errno::OPNOTSUPP, Errno::ACCESS]
                .iter()
                .any(|errno| error.raw_os_error() == Some(errno.raw_os_error())) =>
        {
            Ok(())
        }
        synced => synced,
    }
}

fn temporary_name(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.partial", std::process::id()));
    path.with_file_name(name)
}

fn is_pipe(kind: std::fs::FileType) -> bool {
    use std::os::unix::fs::FileTypeExt;
    kind.is_fifo()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_have_no_end_or_are_too_long_are_rejected() {
        let zero = read_whole(Path::new("/dev/zero"), 1 << 20).expect_err("it has no end");
        assert_eq!(zero.kind(), io::ErrorKind::InvalidInput);
        let folder = read_whole(Path::new("/"), 1 << 20).expect_err("it is a folder");
        assert_eq!(folder.kind(), io::ErrorKind::IsADirectory);
        let this = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/whole.rs");
        let text = read_whole_text(&this, 1 << 20).expect("the path names a file");
        assert!(read_whole(&this, text.len() as u64).is_ok());
        let long = read_whole(&this, text.len() as u64 - 1).expect_err("it is a byte too long");
        assert_eq!(long.kind(), io::ErrorKind::FileTooLarge);
    }

    #[test]
    fn a_file_is_replaced_as_a_whole_or_not_at_all() {
        let folder = crate::TemporaryFolder::new("flashlab-whole-").expect("a writable folder");
        let path = folder.path().join("file");
        let names = || std::fs::read_dir(folder.path()).expect("a folder").count();
        check_folder_of(&path).expect("a writable folder");
        assert_eq!(names(), 0);
        write_whole(&path, b"old").expect("a writable folder");
        let failed = replace_whole(&path, None, |file| {
            file.write_all(b"half of the")?;
            Err(io::ErrorKind::StorageFull.into())
        });
        assert_eq!(failed.map_err(|error| error.kind()), Err(io::ErrorKind::StorageFull));
        assert_eq!((std::fs::read(&path).expect("it remains"), names()), (b"old".to_vec(), 1));
        write_whole(&path, b"new").expect("a writable folder");
        assert_eq!((std::fs::read(&path).expect("it is there"), names()), (b"new".to_vec(), 1));
    }

    #[test]
    fn a_pipe_is_read_to_its_end() {
        let (reader, mut writer) = io::pipe().expect("there are descriptors");
        io::Write::write_all(&mut writer, b"text").expect("a pipe holds it");
        drop(writer);
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&reader));
        assert_eq!(read_whole(Path::new(&path), 4).expect("the pipe ends after the text"), b"text");
    }
}
