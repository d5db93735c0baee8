//! `flashlab image compose`: builds a disk image from a recipe.

use crate::failure::{Failure, say};
use crate::{file, progress};
use clap::Args;
use flashlab_image::ImageError;
use flashlab_image::compose::{Composed, compose};
use flashlab_image::recipe::{DEFAULT_TIME, Recipe};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Maximum size of a recipe in bytes.
const RECIPE_BYTES_MAX: u64 = 16 << 20;

#[derive(Args)]
pub(super) struct Options {
    /// File for the disk. Copy it to a stick with dd or nbdcopy.
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
    /// The recipe, in TOML. Its paths are relative to its folder.
    recipe: PathBuf,
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let Options { to, recipe } = options;
    check_file(to)?;
    file::check_not_input(to, [recipe])?;
    let wrong = |why: String| Failure::usage(format_args!("{}: {why}", recipe.display()));
    let name = recipe.to_str().ok_or_else(|| wrong("the name is not UTF-8; rename the file".into()))?;
    let text = String::from_utf8(file::read(name, RECIPE_BYTES_MAX).map_err(wrong)?);
    let text =
        text.map_err(|error| wrong(format!("not UTF-8 at byte {}", error.utf8_error().valid_up_to())))?;
    let recipe = Recipe::parse(recipe, &text, source_date()?)?;
    let composed = progress::show_elapsed(format!("composing {}", to.display()), || {
        write_image(to, |file| compose(&recipe, file, to))
    })?;
    for (number, partition) in (1..).zip(composed) {
        let Composed { format, offset, size, entries } = partition;
        say(format_args!("partition {number}: {format}, {size} bytes at {offset}, {entries} entries"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the time in SOURCE_DATE_EPOCH (reproducible-builds.org), or the default.
fn source_date() -> Result<i64, Failure> {
    let Some(text) = std::env::var_os("SOURCE_DATE_EPOCH") else { return Ok(DEFAULT_TIME) };
    let seconds = text.to_str().and_then(|text| text.parse().ok());
    seconds.ok_or_else(|| Failure::usage("SOURCE_DATE_EPOCH: expected the seconds since 1970"))
}

/// Checks that `to` is or can become a regular file.
pub(super) fn check_file(to: &Path) -> Result<(), Failure> {
    file::check_not_stdout(to)?;
    if fs::metadata(to).is_ok_and(|existing| !existing.is_file() && !existing.is_dir()) {
        let why = "not a regular file; write to a file, and copy it with dd or nbdcopy";
        return Err(Failure::usage(format_args!("{}: {why}", to.display())));
    }
    file::check_output(to)
}

/// Writes an image as [`file::write_with`] does, but returns an error of `make` unchanged.
pub(super) fn write_image<T>(
    to: &Path,
    make: impl FnOnce(&mut File) -> Result<T, ImageError>,
) -> Result<T, Failure> {
    let mut made = None;
    let written = file::write_with(to, |writer| match made.insert(make(writer.get_mut())) {
        Ok(_) => Ok(()),
        Err(error) => Err(io::Error::other(error.to_string())),
    });
    match made {
        Some(Err(error)) => Err(error.into()),
        Some(Ok(made)) => written.map(|()| made),
        None => Err(written.expect_err("without an error the image is made")),
    }
}
