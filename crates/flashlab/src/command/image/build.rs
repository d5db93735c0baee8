//! `flashlab image build` and `compare`: root images, their sizes and the cost of their builds.

use super::compose::check_file;
use crate::failure::{Failure, say};
use crate::width::columns;
use crate::{file, progress, words};
use clap::Args;
use flashlab_catalogue::units::Dimension;
use flashlab_image::ImageError;
use flashlab_image::build::{Built, Configuration, Files, published};
use flashlab_image::filesystem::Format;
use flashlab_image::temporary;
use flashlab_report::terminal::wrapped;
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
    /// Size of the filesystem; for squashfs and erofs, a limit. By default, the size of the contents plus
    /// some free space.
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
    file::check_not_input(to, [source])?;
    let size = options.size.as_deref().map(|size| Dimension::Size.parse_argument(size)).transpose();
    let size = size.map_err(|error| Failure::usage(format_args!("--size: {error}")))?;
    let configuration = Configuration {
        name: format.to_string(),
        format: *format,
        options: split("--options", &options.options)?,
    };
    let files = Files::open(source)?;
    // As in `file::write_with`, a symbolic link remains, and an existing file keeps its permissions.
    let to = &fs::canonicalize(to).unwrap_or_else(|_| to.clone());
    let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let (built, uncompressed) = progress::show_elapsed(format!("building {}", to.display()), || {
        let folder = temporary::folder_in(parent)?;
        let image = folder.path().join("image");
        let built = files.build(&configuration, size, &image)?;
        let uncompressed = files.uncompressed_size()?;
        // Without the sync, a crash of the machine could leave an incomplete image under the name.
        let synced = fs::File::open(&image).and_then(|file| file.sync_all());
        synced
            .and_then(|()| match fs::metadata(to) {
                Ok(existing) => fs::set_permissions(&image, existing.permissions()),
                Err(_) => Ok(()),
            })
            .and_then(|()| fs::rename(&image, to))
            .map_err(|error| ImageError::File { path: to.clone(), error })?;
        Ok::<_, ImageError>((built, uncompressed))
    })?;
    if *json {
        let built = row(&configuration, &Ok(built), uncompressed);
        file::print(&file::pretty(&built))?;
    } else {
        file::print(&table(&[(configuration, Ok(built))], uncompressed, columns()))?;
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
            let folder = temporary::folder()?;
            files.build(&configuration, None, &folder.path().join("image"))
        });
        match built {
            // An option or a format that the installed tools do not support does not prevent the other rows.
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
        file::print(&table(&rows, uncompressed, columns()))?;
    }
    let failed = rows.iter().filter(|(_, built)| built.is_err()).count();
    if failed > 0 {
        say(format_args!("{failed} of {} configurations cannot be built with these tools", rows.len()));
    }
    Ok(ExitCode::SUCCESS)
}

/// Splits options as a shell does.
fn split(option: &str, text: &str) -> Result<Vec<String>, Failure> {
    words::split(text).map_err(|error| Failure::usage(format_args!("{option}: {error}")))
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

/// Width of the numeric columns in characters, including the spaces before them.
const NUMBERS: usize = 33;

/// Returns the table in lines of at most `columns` characters. A name that is too long continues on further
/// lines, and the reason for a missing image is below the name of the configuration.
fn table(rows: &[(Configuration, Result<Built, ImageError>)], uncompressed: u64, columns: usize) -> String {
    let longest = rows.iter().map(|(configuration, _)| configuration.name.chars().count()).max();
    let width = longest.unwrap_or(0).clamp(5, columns - NUMBERS);
    let mut text = format!("{:<width$} {:>14} {:>8} {:>8}\n", "image", "bytes", "ratio %", "CPU s");
    for (Configuration { name, .. }, built) in rows {
        let name = indented(name, width);
        let (first, rest) = name.split_once('\n').expect("each line ends");
        let _ = match built {
            Ok(Built { size, cpu }) => {
                let (ratio, cpu) = (ratio(*size, uncompressed), cpu.as_secs_f64());
                write!(text, "{first:<width$} {size:>14} {ratio:>8.2} {cpu:>8.2}\n{rest}")
            }
            Err(error) => write!(text, "{first}\n{rest}  {}", indented(&error.to_string(), columns - 2)),
        };
    }
    text.push('\n');
    text.push_str(&wrapped(
        &format!(
            "The ratio is relative to the uncompressed filesystem size that mksquashfs reports, {uncompressed} bytes."
        ),
        columns,
    ));
    text
}

/// Wraps the lines of a text. The lines after the first are indented by two spaces.
fn indented(text: &str, width: usize) -> String {
    let lines: String = text.lines().map(|line| wrapped(line, width - 2)).collect();
    lines.trim_end().replace('\n', "\n  ") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_table_fits_in_sixty_and_in_eighty_columns() {
        let row = |name: &str, built| {
            (Configuration { name: name.into(), format: Format::Squashfs, options: Vec::new() }, built)
        };
        let built = || Ok(Built { size: 12_345_678, cpu: Duration::from_millis(1_500) });
        let missing = || {
            let messages =
                "cannot build this image, for a reason that takes more than one line to explain here".into();
            Err(ImageError::Tool { program: "mksquashfs", messages })
        };
        let rows = [
            row("ext4", built()),
            row("squashfs -b 4096 -comp lz4 -Xhc -no-xattrs -all-time 0", built()),
            row("squashfs -b 4096 -comp zip -no-xattrs -all-time 0", missing()),
        ];
        let narrow = table(&rows, 23_456_789, 60);
        let wide = table(&rows, 23_456_789, 80);
        for (text, columns) in [(&narrow, 60), (&wide, 80)] {
            assert!(text.lines().all(|line| line.chars().count() <= columns), "{text}");
            assert_eq!(text.matches("      12345678    52.63     1.50\n").count(), 2, "{text}");
        }
        let expected = "\
image                                bytes  ratio %    CPU s
ext4                              12345678    52.63     1.50
squashfs -b 4096 -comp            12345678    52.63     1.50
  lz4 -Xhc -no-xattrs
  -all-time 0
squashfs -b 4096 -comp
  zip -no-xattrs -all-time
  0
  mksquashfs failed: cannot build this image, for a reason
  that takes more than one line to explain here

The ratio is relative to the uncompressed filesystem size
that mksquashfs reports, 23456789 bytes.
";
        assert_eq!(narrow, expected);
    }
}
