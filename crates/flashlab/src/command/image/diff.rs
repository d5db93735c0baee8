//! `flashlab image diff`: the files that an overlay changed.

use crate::failure::{Failure, say};
use crate::file;
use clap::Args;
use flashlab_catalogue::units::Dimension;
use flashlab_image::ImageError;
use flashlab_image::diff::{Bytes, Change, DiffError, Difference, State, diff};
use flashlab_image::directory::DirectoryImage;
use flashlab_image::filesystem::Format;
use flashlab_served::check_kept_changes;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Args)]
pub(super) struct Options {
    /// Prints JSON.
    #[arg(long)]
    json: bool,
    /// The base: an image, or a directory as in `serve`: `dir:PATH,format=ext4`.
    base: String,
    /// The file of `+overlay:keep=FILE`, even while a server uses it, or another image.
    overlay: PathBuf,
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let Options { base, overlay, json } = options;
    let made = base.strip_prefix("dir:").map(directory).transpose()?;
    let path = made.as_ref().map_or_else(|| PathBuf::from(base), DirectoryImage::path);
    let wrong = |path: &Path| {
        let path = path.to_owned();
        move |error| Failure::io(&path, &error)
    };
    let before = Bytes::of_image(open(&path)?).map_err(wrong(&path))?;
    let after = match before.under_changes(open(overlay)?).map_err(wrong(overlay))? {
        Some(after) => {
            if made.is_some() {
                check_kept_changes(&open(&path)?, overlay)?;
            }
            after
        }
        None => Bytes::of_image(open(overlay)?).map_err(wrong(overlay))?,
    };
    if before.size() != after.size() {
        return Err(Failure::usage(format_args!(
            "{}: it is neither the changes of an overlay on {base} nor an image of the same {} bytes",
            overlay.display(),
            before.size()
        )));
    }
    let differences = diff(&before, &after).map_err(|error| match &error {
        DiffError::Bytes(_) => Failure::failed(format_args!("{}: {error}", overlay.display())),
        DiffError::Unknown { state: State::Base, .. } => Failure::usage(format_args!("{base}: {error}")),
        _ => Failure::failed(error),
    })?;
    let count: usize = differences.iter().map(|difference| difference.changes.len()).sum();
    if *json {
        file::print(&file::pretty(&to_json(&differences)))?;
    } else {
        file::print(&to_text(&differences))?;
    }
    say(format_args!("{count} {} changed", if count == 1 { "file" } else { "files" }));
    Ok(ExitCode::SUCCESS)
}

fn open(path: &Path) -> Result<File, Failure> {
    File::open(path).map_err(|error| Failure::io(path, &error))
}

/// Makes an image of the directory that a text such as `PATH,format=ext4,size=1GiB` describes.
fn directory(text: &str) -> Result<DirectoryImage, Failure> {
    let wrong = |why: String| Failure::usage(format_args!("dir:{text}: {why}"));
    let mut parts = text.split(',');
    let (path, mut format, mut size) = (parts.next().unwrap_or_default(), None, None);
    for part in parts {
        match part.split_once('=') {
            Some(("format", name)) => format = Some(Format::parse(name).map_err(wrong)?),
            Some(("size", text)) => {
                let parsed = Dimension::Size.parse_argument(text);
                size = Some(parsed.map_err(|error| wrong(format!("size: {error}")))?);
            }
            _ => return Err(wrong(format!("{part:?}: expected format=ext4 or size=1GiB"))),
        }
    }
    let format = format.ok_or_else(|| wrong("format is missing: dir:PATH,format=ext4".into()))?;
    DirectoryImage::new(Path::new(path), format, size).map_err(|error: ImageError| error.into())
}

/// Returns the letter of a change: A for added, D for removed, M for changed.
fn letter(change: &Change) -> char {
    match change {
        Change::Added => 'A',
        Change::Removed => 'D',
        Change::Changed(_) => 'M',
    }
}

fn properties(change: &Change) -> Vec<String> {
    match change {
        Change::Changed(properties) => properties.iter().map(ToString::to_string).collect(),
        _ => Vec::new(),
    }
}

fn to_text(differences: &[Difference]) -> String {
    let mut text = String::new();
    for Difference { partition, changes } in differences {
        if let Some(number) = partition.filter(|_| !changes.is_empty()) {
            let _ = writeln!(text, "partition {number}:");
        }
        for (path, change) in changes {
            let path = path.to_string_lossy();
            let path: String =
                path.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect();
            let _ = write!(text, "{} /{path}", letter(change));
            let properties = properties(change);
            let _ = match properties.is_empty() {
                true => writeln!(text),
                false => writeln!(text, " ({})", properties.join(", ")),
            };
        }
    }
    text
}

fn to_json(differences: &[Difference]) -> Value {
    let change = |(path, change): (&PathBuf, &Change)| {
        json!({
            "path": format!("/{}", path.to_string_lossy()),
            "change": letter(change).to_string(),
            "properties": properties(change),
        })
    };
    let difference = |Difference { partition, changes }: &Difference| json!({ "partition": partition, "changes": changes.iter().map(change).collect::<Vec<_>>() });
    differences.iter().map(difference).collect()
}
