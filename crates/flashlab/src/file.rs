//! Files that are there whole or not at all, and standard output.

use crate::failure::Failure;
use flashlab_block::read_whole;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The file that is being written, under the name that it has until it is whole.
static PARTIAL: Mutex<Option<PathBuf>> = Mutex::new(None);

fn partial() -> MutexGuard<'static, Option<PathBuf>> {
    PARTIAL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends the process with `code` and leaves no half-written file.
pub(crate) fn exit_clean(code: i32) -> ! {
    // Held to the end: nobody begins another file meanwhile.
    remove(&partial());
    std::process::exit(code)
}

/// The same after a failed allocation, which may have hit a thread that holds the name of the file.
pub(crate) fn exit_without_memory(code: i32) -> ! {
    if let Ok(partial) = PARTIAL.try_lock() {
        remove(&partial);
    }
    std::process::exit(code)
}

fn remove(partial: &Option<PathBuf>) {
    if let Some(path) = partial {
        // There is nobody left to tell.
        let _ = fs::remove_file(path);
    }
}

/// Refuses `path` as a file to write: if its folder is missing or takes no file, or if it is a folder itself. Nothing that
/// exists is changed.
pub(crate) fn check_output(path: &Path) -> Result<(), Failure> {
    let refuse = |why: String| Err(Failure::usage(format!("{}: {why}", path.display())));
    // A link that leads nowhere yet is created where it leads.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    match fs::metadata(&target) {
        Ok(there) if there.is_dir() => return refuse("it is a folder; name a file in it".into()),
        Ok(there) if !there.is_file() => return Ok(()),
        Ok(_) => {
            if let Err(error) = OpenOptions::new().append(true).open(&target) {
                return refuse(format!("it cannot be written ({error}); name another file"));
            }
        }
        Err(_) => {}
    }
    let folder = folder_of(&target);
    if !folder.exists() {
        let folder = folder.display();
        return refuse(format!("there is no folder {folder}; create it (mkdir -p {folder}) or name another"));
    }
    match takes_files(&target) {
        Ok(()) => Ok(()),
        Err(error) => {
            refuse(format!("its folder {} takes no file ({error}); name another", folder.display()))
        }
    }
}

/// Refuses `folder` as one in which files are written: if something else has its name, or if it cannot be created or
/// takes no file.
pub(crate) fn check_output_folder(folder: &Path) -> Result<(), Failure> {
    let refuse = |why: String| Err(Failure::usage(format!("{}: {why}", folder.display())));
    if folder.exists() && !folder.is_dir() {
        return refuse("it is no folder; name another".into());
    }
    let there = folder.ancestors().map(or_here).find(|ancestor| ancestor.exists());
    let there = there.unwrap_or(Path::new("."));
    match takes_files(&there.join("figures")) {
        Ok(()) => Ok(()),
        Err(error) => refuse(format!("{} takes no file ({error}); name another folder", there.display())),
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().map_or(Path::new("."), or_here)
}

fn or_here(folder: &Path) -> &Path {
    if folder.as_os_str().is_empty() { Path::new(".") } else { folder }
}

/// Creates and removes the file under which `path` would be written.
fn takes_files(path: &Path) -> io::Result<()> {
    let beside = beside(path);
    *partial() = Some(beside.clone());
    let created = File::create(&beside).and_then(|_| fs::remove_file(&beside));
    *partial() = None;
    created
}

/// Writes `text` to `path`, as [`write_with`] does.
pub(crate) fn write(path: &Path, text: &[u8]) -> Result<(), Failure> {
    write_with(path, |file| file.write_all(text))
}

/// Writes what `content` writes to `path`: beside it first, then renamed. Whatever stops it, no half-written file keeps
/// the name, and nothing is left beside it. What is no regular file (`/dev/stdout`, a pipe) is written as it is.
pub(crate) fn write_with(
    path: &Path,
    content: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> Result<(), Failure> {
    let written = match fs::metadata(path) {
        Ok(there) if !there.is_file() => {
            OpenOptions::new().write(true).open(path).and_then(|file| fill(file, content).map(drop))
        }
        // A link keeps being one: the file that it names is replaced.
        Ok(there) => {
            fs::canonicalize(path).and_then(|path| replace(&path, content, Some(there.permissions())))
        }
        Err(_) => replace(path, content, None),
    };
    written.map_err(|error| Failure::io(path, &error))
}

fn replace(
    path: &Path,
    content: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
    permissions: Option<fs::Permissions>,
) -> io::Result<()> {
    let beside = beside(path);
    *partial() = Some(beside.clone());
    let written = File::create(&beside).and_then(|file| {
        permissions.map_or(Ok(()), |permissions| file.set_permissions(permissions))?;
        fill(file, content)?.sync_all()
    });
    let done = written.and_then(|()| fs::rename(&beside, path));
    if done.is_err() {
        // The error that matters is the first one; the leftover may not even exist.
        let _ = fs::remove_file(&beside);
    }
    *partial() = None;
    done
}

fn fill(file: File, content: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> io::Result<File> {
    let mut writer = BufWriter::new(file);
    content(&mut writer)?;
    writer.into_inner().map_err(io::IntoInnerError::into_error)
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.partial", std::process::id()));
    path.with_file_name(name)
}

/// Returns `json` laid out in lines, with a line end.
pub(crate) fn pretty(json: &serde_json::Value) -> String {
    let text = serde_json::to_string_pretty(json).expect("its keys are text");
    format!("{text}\n")
}

/// Writes to standard output.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| Failure::stdout(&error))
}

/// The bytes of a file that a person made, of at most `most`; `-` is standard input. The error says why not, without
/// the name.
pub(crate) fn read(path: &str, most: u64) -> Result<Vec<u8>, String> {
    if path != "-" {
        return read_whole(Path::new(path), most).map_err(|error| error.to_string());
    }
    let mut bytes = Vec::new();
    match io::stdin().lock().take(most + 1).read_to_end(&mut bytes) {
        Ok(_) if bytes.len() as u64 > most => Err(format!("it is longer than {} MiB", most >> 20)),
        Ok(_) => Ok(bytes),
        Err(error) => Err(error.to_string()),
    }
}
