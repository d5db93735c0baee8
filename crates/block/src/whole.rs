//! Reading and writing a whole file that a user names: job files, lists of exports, rules, recorded runs, certificates.

use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

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

/// Writes a file under a temporary name, flushes it to disk and renames it, so that its own name never refers to an
/// incomplete file.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.partial", std::process::id()));
    let temporary = path.with_file_name(name);
    let written = File::create(&temporary)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .and_then(|()| std::fs::rename(&temporary, path));
    if written.is_err() {
        // The caller gets the first error; the temporary file may not exist.
        let _ = std::fs::remove_file(&temporary);
    }
    written
}

fn is_pipe(kind: std::fs::FileType) -> bool {
    use std::os::unix::fs::FileTypeExt;
    kind.is_fifo()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_without_an_end_are_rejected() {
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
    fn a_pipe_is_read_to_its_end() {
        let (reader, mut writer) = io::pipe().expect("there are descriptors");
        io::Write::write_all(&mut writer, b"text").expect("a pipe holds it");
        drop(writer);
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&reader));
        assert_eq!(read_whole(Path::new(&path), 4).expect("the pipe ends after the text"), b"text");
    }
}
