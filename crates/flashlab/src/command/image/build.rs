//! `flashlab image build` and `compare`: root images, their sizes and the cost of their builds.

use super::compose::check_file;
use crate::failure::{Failure, say};
use crate::{file, progress};
use clap::Args;
use flashlab_catalogue::units::Dimension;
use flashlab_image::ImageError;
use flashlab_image::build::{Built, Configuration, Files, published};
use flashlab_image::filesystem::Format;
use flashlab_image::temporary::TemporaryFolder;
use serde_json::json;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Args)]
pub(super) struct BuildOptions {
    /// Format of the image: `squashfs`, `erofs`, `ext4`, `ext2`, `ext3`, `vfat`.
    #[arg(long, value_name = "FORMAT", value_parser = Format::parse)]
    format: Format,
    /// Options for mksquashfs, mkfs.erofs, mke2fs or mkfs.vfat, in quotes: `--options='-comp zstd -b 256K'`.
    #[arg(long, value_name = "OPTIONS", default_value = "", allow_hyphen_values = true)]
    options: String,
    /// Size of the filesystem; for squashfs and erofs a limit. Without it, the size of the contents and some free space.
    #[arg(long, value_name = "SIZE")]
    size: Option<String>,
    /// File for the image.
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
    /// The directory, or an archive of tar.
    source: PathBuf,
}

#[derive(Args)]
pub(super) struct CompareOptions {
    /// Adds a configuration: `FORMAT OPTIONS`, such as `--with='squashfs -comp zstd -b 256K'`.
    #[arg(long, value_name = "CONFIGURATION", allow_hyphen_values = true)]
    with: Vec<String>,
    /// Compares the configurations of `--with` alone.
    #[arg(long, requires = "with")]
    only: bool,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
    /// The directory, or an archive of tar.
    source: PathBuf,
}

pub(super) fn build(options: &BuildOptions) -> Result<ExitCode, Failure> {
    let BuildOptions { format, to, source, json, .. } = options;
    check_file(to)?;
    let size = options.size.as_deref().map(|size| Dimension::Size.parse_argument(size)).transpose();
    let size = size.map_err(|error| Failure::usage(format_args!("--size: {error}")))?;
    let configuration = Configuration {
        name: format.to_string(),
        format: *format,
        options: split("--options", &options.options)?,
    };
    let files = Files::open(source)?;
    let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let (built, uncompressed) = progress::show_elapsed(format!("building {}", to.display()), || {
        let folder = TemporaryFolder::inside(parent)?;
        let image = folder.path().join("image");
        let built = files.build(&configuration, size, &image)?;
        let uncompressed = files.uncompressed_size()?;
        fs::rename(&image, to).map_err(|error| ImageError::File { path: to.clone(), error })?;
        Ok::<_, ImageError>((built, uncompressed))
    })?;
    if *json {
        let built = row(&configuration, &Ok(built), uncompressed);
        file::print(&file::pretty(&built))?;
    } else {
        file::print(&table(&[(configuration, Ok(built))], uncompressed))?;
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn compare(options: &CompareOptions) -> Result<ExitCode, Failure> {
    let mut configurations = if options.only { Vec::new() } else { published() };
    for text in &options.with {
        let words = split("--with", text)?;
        let (format, rest) =
            words.split_first().ok_or_else(|| Failure::usage("--with: a format is missing"))?;
        let format = Format::parse(format).map_err(|why| Failure::usage(format_args!("--with: {why}")))?;
        configurations.push(Configuration { name: text.clone(), format, options: rest.to_vec() });
    }
    let files = Files::open(&options.source)?;
    let uncompressed = files.uncompressed_size()?;
    let mut rows = Vec::new();
    for configuration in configurations {
        let built = progress::show_elapsed(format!("building {}", configuration.name), || {
            let folder = TemporaryFolder::new()?;
            files.build(&configuration, None, &folder.path().join("image"))
        });
        match built {
            // One option or format that the tools lack does not spoil the other rows.
            Ok(_) | Err(ImageError::ErofsOption(_) | ImageError::Tool { .. } | ImageError::Tree { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        rows.push((configuration, built));
    }
    if options.json {
        let rows: Vec<_> =
            rows.iter().map(|(configuration, built)| row(configuration, built, uncompressed)).collect();
        file::print(&file::pretty(&json!({ "uncompressed_bytes": uncompressed, "images": rows })))?;
    } else {
        file::print(&table(&rows, uncompressed))?;
    }
    let failed = rows.iter().filter(|(_, built)| built.is_err()).count();
    if failed > 0 {
        say(format_args!("{failed} of {} configurations cannot be built with these tools", rows.len()));
    }
    Ok(ExitCode::SUCCESS)
}

/// Splits options as a shell does.
fn split(option: &str, text: &str) -> Result<Vec<String>, Failure> {
    shlex::split(text)
        .ok_or_else(|| Failure::usage(format_args!("{option}: a quotation mark has no partner")))
}

/// Returns the size of an image in per cent of the uncompressed size.
fn ratio(size: u64, uncompressed: u64) -> f64 {
    100.0 * size as f64 / uncompressed.max(1) as f64
}

fn row(
    configuration: &Configuration,
    built: &Result<Built, ImageError>,
    uncompressed: u64,
) -> serde_json::Value {
    let Configuration { name, format, options } = configuration;
    let mut row = json!({ "name": name, "format": format.to_string(), "options": options.join(" ") });
    match built {
        Ok(built) => {
            row["bytes"] = json!(built.size);
            row["ratio_percent"] = json!(ratio(built.size, uncompressed));
            row["cpu_seconds"] = json!(built.cpu.as_secs_f64());
        }
        Err(error) => row["refused"] = json!(error.to_string()),
    }
    row
}

fn table(rows: &[(Configuration, Result<Built, ImageError>)], uncompressed: u64) -> String {
    let width =
        rows.iter().map(|(configuration, _)| configuration.name.chars().count()).max().unwrap_or(0).max(5);
    let mut text = format!("{:<width$} {:>14} {:>8} {:>8}\n", "image", "bytes", "ratio %", "CPU s");
    for (Configuration { name, .. }, built) in rows {
        let _ = match built {
            Ok(Built { size, cpu }) => {
                let (ratio, cpu) = (ratio(*size, uncompressed), cpu.as_secs_f64());
                writeln!(text, "{name:<width$} {size:>14} {ratio:>8.2} {cpu:>8.2}")
            }
            Err(error) => writeln!(text, "{name:<width$} {error}"),
        };
    }
    let _ = writeln!(
        text,
        "\nThe ratio is that to the uncompressed filesystem size of mksquashfs, {uncompressed} bytes."
    );
    text
}
