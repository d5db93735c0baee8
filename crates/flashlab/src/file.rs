//! Atomic writes of files, and standard output.
//!
//! A file is written under a temporary name and renamed, so that its own name never refers to an incomplete file. The
//! output `-` is standard output.

use crate::failure::Failure;
use flashlab_block::{check_folder_of, read_whole, remove_temporary, replace_whole, try_remove_temporary};
use flashlab_served::Served;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Removes temporary files and folders and the new files that the command has not kept, and ends the process with
/// `code`.
pub(crate) fn exit_clean(code: i32) -> ! {
    // While this value lives, no other thread creates a temporary file or folder.
    let _removed = remove_temporary();
    std::process::exit(code)
}

/// Ends the process like [`exit_clean`], but does not wait for a thread that creates a file, because the
/// allocation that failed may be one of that thread.
pub(crate) fn exit_without_memory(code: i32) -> ! {
    let _removed = try_remove_temporary();
    std::process::exit(code)
}

/// Returns true for `-`, which stands for standard output.
pub(crate) fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Returns the name of an output for messages.
pub(crate) fn shown(path: &Path) -> impl fmt::Display {
    if is_stdout(path) { Path::new("standard output").display() } else { path.display() }
}

/// Checks that `path` is not standard output, for an output that has to be a file.
pub(crate) fn check_not_stdout(path: &Path) -> Result<(), Failure> {
    match is_stdout(path) {
        false => Ok(()),
        true => Err(Failure::usage(
            "-: this output cannot go to standard output; name a file (./- for this name)",
        )),
    }
}

/// Checks that `path` can be written: its folder exists and accepts new files, and `path` is not a folder itself.
/// Changes no existing file.
pub(crate) fn check_output(path: &Path) -> Result<(), Failure> {
    if is_stdout(path) {
        return Ok(());
    }
    let refuse = |why: String| Err(Failure::usage(format!("{}: {why}", path.display())));
    // A symbolic link to an existing file remains, and the file is replaced. A dangling link is itself replaced.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    match fs::metadata(&target) {
        Ok(existing) if existing.is_dir() => return refuse("it is a folder; name a file in it".into()),
        Ok(existing) if !existing.is_file() => return Ok(()),
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
    match check_folder_of(&target) {
        Ok(()) => Ok(()),
        Err(error) => {
            refuse(format!("its folder {} accepts no new file ({error}); name another", folder.display()))
        }
    }
}

/// Checks that `output` is none of `inputs`, even under another name, so that the result does not replace a file that
/// the command reads. Inputs that are not regular files are ignored.
pub(crate) fn check_not_input<P: AsRef<Path>>(
    output: &Path,
    inputs: impl IntoIterator<Item = P>,
) -> Result<(), Failure> {
    if is_stdout(output) {
        return Ok(());
    }
    let identity = |path: &Path| {
        fs::metadata(path).ok().filter(fs::Metadata::is_file).map(|file| (file.dev(), file.ino()))
    };
    let Some(written) = identity(output) else { return Ok(()) };
    match inputs.into_iter().any(|input| identity(input.as_ref()) == Some(written)) {
        false => Ok(()),
        true => Err(Failure::usage(format_args!(
            "{}: the output would replace this file, which the command reads; name another file",
            output.display()
        ))),
    }
}

/// Checks that no path occurs twice among the outputs of a command, since one output would replace another.
pub(crate) fn check_distinct<'a>(outputs: impl IntoIterator<Item = &'a Path>) -> Result<(), Failure> {
    let mut known = Vec::new();
    for output in outputs {
        if known.contains(&output) {
            let path = output.display();
            return Err(Failure::usage(format!(
                "{path} is named for two outputs; give each a file of its own"
            )));
        }
        known.push(output);
    }
    Ok(())
}

/// Checks that `output` is none of the files that `words` name: the device arguments and fio's options of a command,
/// and the members of volumes among the devices.
pub(crate) fn check_not_read<'a>(
    output: &Path,
    words: impl IntoIterator<Item = &'a str>,
) -> Result<(), Failure> {
    let mut before = "";
    let read = words.into_iter().filter(|word| std::mem::replace(&mut before, word) != "--output");
    for word in read {
        check_not_input(output, files_in(word))?;
        // The command itself reports a list of members that cannot be read.
        let members = Served::members_of_volume(word).unwrap_or_default();
        members.iter().try_for_each(|member| check_not_input(output, files_in(member)))?;
    }
    Ok(())
}

/// Returns the possible names of files in an argument: the argument itself, a profile with settings
/// (`./card.toml:cycles=3000`), the values of settings (`sd/kingston:state=used.state`), and fio's `--read_iolog`.
fn files_in(word: &str) -> Vec<&str> {
    if word.starts_with('-') {
        return word.trim_start_matches('-').strip_prefix("read_iolog=").into_iter().collect();
    }
    std::iter::once(word).chain(word.split([':', ',', '=', '+'])).collect()
}

/// Checks that files can be written to `folder`: the folder or its nearest existing ancestor accepts new files, and
/// `folder` is not a file.
pub(crate) fn check_output_folder(folder: &Path) -> Result<(), Failure> {
    let refuse = |why: String| Err(Failure::usage(format!("{}: {why}", folder.display())));
    if folder.exists() && !folder.is_dir() {
        return refuse("it is not a folder; name another".into());
    }
    let existing = folder.ancestors().map(or_current).find(|ancestor| ancestor.exists());
    let existing = existing.unwrap_or(Path::new("."));
    match check_folder_of(&existing.join("figures")) {
        Ok(()) => Ok(()),
        Err(error) => {
            refuse(format!("{} accepts no new file ({error}); name another folder", existing.display()))
        }
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().map_or(Path::new("."), or_current)
}

fn or_current(folder: &Path) -> &Path {
    if folder.as_os_str().is_empty() { Path::new(".") } else { folder }
}

/// Writes `text` to `path`, as [`write_with`] does.
pub(crate) fn write(path: &Path, text: &[u8]) -> Result<(), Failure> {
    write_with(path, |file| file.write_all(text))
}

/// Writes the output of `content` to a temporary file beside `path` and renames it. An error or a signal leaves neither
/// a half-written file at `path` nor a temporary file. If `path` is not a regular file (`-`, `/dev/stdout`, a pipe),
/// writes to it directly.
pub(crate) fn write_with(
    path: &Path,
    content: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> Result<(), Failure> {
    if is_stdout(path) {
        let stdout = io::stdout().as_fd().try_clone_to_owned().map(File::from);
        return stdout
            .and_then(|file| fill(file, content).map(drop))
            .map_err(|error| Failure::stdout(&error));
    }
    let written = match fs::metadata(path) {
        Ok(existing) if !existing.is_file() => {
            OpenOptions::new().write(true).open(path).and_then(|file| fill(file, content).map(drop))
        }
        // Replaces the target of a symbolic link, so that the link remains.
        Ok(existing) => fs::canonicalize(path)
            .and_then(|path| replace_whole(&path, Some(existing.permissions()), content)),
        Err(_) => replace_whole(path, None, content),
    };
    written.map_err(|error| Failure::io(path, &error))
}

fn fill(file: File, content: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> io::Result<File> {
    let mut writer = BufWriter::new(file);
    content(&mut writer)?;
    writer.into_inner().map_err(io::IntoInnerError::into_error)
}

/// Returns `json` indented over several lines, with a line end.
pub(crate) fn pretty(json: &serde_json::Value) -> String {
    let text = serde_json::to_string_pretty(json).expect("the keys of JSON values are text");
    format!("{text}\n")
}

/// Writes to standard output.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| Failure::stdout(&error))
}

/// Reads a user's file of at most `most` bytes; `-` is standard input. The error message does not name the file.
pub(crate) fn read(path: &str, most: u64) -> Result<Vec<u8>, String> {
    if path != "-" {
        return read_whole(Path::new(path), most).map_err(|error| error.to_string());
    }
    let mut bytes = Vec::new();
    match io::stdin().lock().take(most + 1).read_to_end(&mut bytes) {
        Ok(_) if bytes.len() as u64 > most => Err(match most >> 20 {
            0 => format!("it is longer than {most} bytes"),
            mib => format!("it is longer than {mib} MiB"),
        }),
        Ok(_) => Ok(bytes),
        Err(error) => Err(error.to_string()),
    }
}
