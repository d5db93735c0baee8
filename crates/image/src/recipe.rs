//! The recipe of a disk, in TOML:
//!
//! ```toml
//! table = "mbr"                       # or "gpt"
//! size = "2GiB"                       # without it, as large as the partitions need
//! seed = "rescue stick"               # UUIDs and serial numbers derive from it
//! time = 2024-05-12T00:00:00Z         # of the files; without it, SOURCE_DATE_EPOCH, else 1980-01-01
//!
//! [[partition]]
//! format = "vfat"                     # ext2, ext3, ext4, squashfs, erofs, vfat
//! label = "BOOT"
//! size = "150MiB"                     # or "rest"; optional for every format
//! bootable = true
//!
//! [[partition.file]]
//! to = "vmlinux.64"
//! from = "vmlinux.64"                 # relative to the recipe; or text = "..."
//! checksum = "md5"                    # writes vmlinux.64.md5 beside it
//!
//! [[partition.directory]]
//! to = "w"
//!
//! [[partition.tree]]
//! from = "root"                       # a directory with everything in it
//! to = "usr"
//! ```

use crate::error::ImageError;
use crate::filesystem::{self, Format};
use crate::identity::Identity;
use crate::table::{self, SECTOR};
use flashlab_catalogue::profile::{Place, SourceText};
use flashlab_catalogue::units::Dimension;
use serde::Deserialize;
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::value::{Datetime, Offset};

/// Time of files if nothing else sets one: 1980-01-01, the first instant that FAT can store.
pub const DEFAULT_TIME: i64 = 315_532_800;

/// A disk.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// Kind of the partition table.
    pub table: table::Kind,
    /// Size of the disk in bytes; `None` for as much as the partitions need.
    pub size: Option<u64>,
    /// Source of identifiers.
    pub identity: Identity,
    /// Time of files and filesystems in seconds since 1970.
    pub time: i64,
    /// The partitions in their order.
    pub partitions: Vec<Partition>,
}

/// A partition.
#[derive(Clone, Debug)]
pub struct Partition {
    /// Format of the filesystem.
    pub format: Format,
    /// Label of the filesystem.
    pub label: String,
    /// Name in a GPT.
    pub name: String,
    /// Size; `None` for that of the filesystem.
    pub size: Option<table::Size>,
    /// First sector; `None` for the next free one at a multiple of 1 MiB.
    pub first: Option<u64>,
    /// Type in the partition table.
    pub kind: table::Type,
    /// True if the partition is marked bootable.
    pub bootable: bool,
    /// Options for the filesystem's tool.
    pub options: Vec<String>,
    /// Trees, then directories, files and links; each group in the order of the recipe.
    pub items: Vec<Item>,
}

impl Partition {
    /// Returns the format of the partition, and those of the images among its files.
    fn formats(&self) -> impl Iterator<Item = Format> {
        let images = self.items.iter().filter_map(|item| match item.source {
            Source::Image { format, .. } => Some(format),
            _ => None,
        });
        images.chain([self.format])
    }
}

/// An entry, or a tree of entries, for a partition.
#[derive(Clone, Debug)]
pub struct Item {
    /// Path in the filesystem, without a leading slash.
    pub to: PathBuf,
    /// The place in the recipe, for errors.
    pub place: Place,
    /// The place of the source in the recipe, for errors when the source is read.
    pub source_place: Place,
    /// Permissions; `None` for 0644 of a file, 0755 of a directory.
    pub mode: Option<u32>,
    /// User and group.
    pub owner: (u32, u32),
    /// The source.
    pub source: Source,
}

/// Source of an item.
#[derive(Clone, Debug)]
pub enum Source {
    /// An empty directory.
    Directory,
    /// A symbolic link.
    Link(String),
    /// A text.
    Text(String, Option<Checksum>),
    /// A file of the machine.
    File(PathBuf, Option<Checksum>),
    /// A filesystem image of a directory, as a file.
    Image {
        /// The directory.
        from: PathBuf,
        /// Format of the image.
        format: Format,
        /// Options for the filesystem's tool.
        options: Vec<String>,
        /// The checksum beside it.
        checksum: Option<Checksum>,
    },
    /// All entries of a directory.
    Tree {
        /// The directory.
        from: PathBuf,
        /// True to keep owners; otherwise everything belongs to root.
        keep_owners: bool,
        /// True to keep times; otherwise everything has the recipe's time.
        keep_times: bool,
    },
}

impl Source {
    /// Returns the path on the machine; `None` for a source in the recipe itself.
    pub(crate) fn from(&self) -> Option<&Path> {
        match self {
            Source::Directory | Source::Link(_) | Source::Text(..) => None,
            Source::File(from, _) | Source::Image { from, .. } | Source::Tree { from, .. } => Some(from),
        }
    }
}

/// A file with a checksum, beside the file that it covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Checksum {
    /// Algorithm, which is also the ending of the file's name.
    pub algorithm: Algorithm,
    /// True if the file contains only the digits; otherwise it contains a line that `md5sum -c` reads.
    pub bare: bool,
}

/// Algorithm of a checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Algorithm {
    /// MD5.
    Md5,
    /// SHA-1.
    Sha1,
    /// SHA-256.
    Sha256,
    /// SHA-512.
    Sha512,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RecipeText {
    table: Spanned<String>,
    size: Option<Spanned<String>>,
    #[serde(default)]
    seed: String,
    time: Option<Spanned<Datetime>>,
    partition: Vec<Spanned<PartitionText>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct PartitionText {
    format: Spanned<String>,
    label: Option<Spanned<String>>,
    name: Option<Spanned<String>>,
    size: Option<Spanned<String>>,
    start: Option<Spanned<String>>,
    #[serde(rename = "type")]
    kind: Option<Spanned<String>>,
    #[serde(default)]
    bootable: bool,
    #[serde(default)]
    options: Vec<String>,
    #[serde(default)]
    tree: Vec<TreeText>,
    #[serde(default)]
    directory: Vec<DirectoryText>,
    #[serde(default)]
    file: Vec<FileText>,
    #[serde(default)]
    link: Vec<LinkText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct TreeText {
    from: Spanned<String>,
    #[serde(default)]
    to: Option<Spanned<String>>,
    owners: Option<Spanned<String>>,
    times: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct DirectoryText {
    to: Spanned<String>,
    mode: Option<Spanned<String>>,
    owner: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct FileText {
    to: Spanned<String>,
    from: Option<Spanned<String>>,
    text: Option<String>,
    image: Option<Spanned<String>>,
    options: Option<Spanned<Vec<String>>>,
    mode: Option<Spanned<String>>,
    owner: Option<Spanned<String>>,
    checksum: Option<Spanned<String>>,
    checksum_style: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct LinkText {
    to: Spanned<String>,
    target: String,
    owner: Option<Spanned<String>>,
}

/// The text of a recipe, and the folder from which its relative paths start.
struct Parser<'a> {
    text: SourceText,
    folder: &'a Path,
}

impl Recipe {
    /// Parses the recipe in the file `path`, whose contents are `text`. A recipe without a time gets
    /// `default_time`.
    ///
    /// # Errors
    /// Returns an error with the line and the problem.
    pub fn parse(path: &Path, text: &str, default_time: i64) -> Result<Recipe, ImageError> {
        let source = SourceText::new(path.to_string_lossy(), text);
        let parsed: Result<RecipeText, toml::de::Error> = toml::from_str(text);
        let recipe = parsed.map_err(|error| {
            let place = source.place(error.span().unwrap_or(0..0));
            ImageError::Recipe { place, why: error.message().trim_end().to_owned() }
        })?;
        let parser = Parser { text: source, folder: path.parent().unwrap_or(Path::new("")) };
        parser.recipe(recipe, default_time)
    }
}

impl Parser<'_> {
    fn error(&self, span: Range<usize>, why: impl Into<String>) -> ImageError {
        ImageError::Recipe { place: self.text.place(span), why: why.into() }
    }

    fn recipe(&self, text: RecipeText, default_time: i64) -> Result<Recipe, ImageError> {
        let table = match &**text.table.get_ref() {
            "mbr" => table::Kind::Mbr,
            "gpt" => table::Kind::Gpt,
            other => {
                return Err(
                    self.error(text.table.span(), format!("{other:?} is neither \"mbr\" nor \"gpt\""))
                );
            }
        };
        let time = text.time.as_ref().map(|time| self.time(time)).transpose()?.unwrap_or(default_time);
        if text.partition.is_empty() {
            return Err(self.error(0..0, "a disk has at least one [[partition]]"));
        }
        let partitions = text.partition.into_iter().map(|partition| self.partition(table, partition));
        let partitions = partitions.collect::<Result<Vec<Partition>, _>>()?;
        let is_stored =
            partitions.iter().flat_map(Partition::formats).all(|format| format.times().contains(&time));
        if !is_stored || !(DEFAULT_TIME..=u32::MAX.into()).contains(&time) {
            let why = "the time must be between 1980 and 2106 (until 2038-01-19 with ext2, ext3 and ext4)";
            return Err(self.error(text.time.map_or(0..0, |time| time.span()), why));
        }
        Ok(Recipe {
            table,
            size: text.size.map(|size| self.bytes(&size)).transpose()?,
            identity: Identity::new(text.seed),
            time,
            partitions,
        })
    }

    fn partition(&self, table: table::Kind, text: Spanned<PartitionText>) -> Result<Partition, ImageError> {
        let text = text.into_inner();
        let format = self.format(&text.format)?;
        if let Some(label) = &text.label {
            filesystem::check_label(format, label.get_ref()).map_err(|why| self.error(label.span(), why))?;
        }
        if let Some(name) = &text.name {
            let rule = match table {
                table::Kind::Mbr => Some("only a GPT has names of partitions; use label, or table = \"gpt\""),
                table::Kind::Gpt if name.get_ref().encode_utf16().count() > 36 => {
                    Some("a name has at most 36 characters")
                }
                table::Kind::Gpt => None,
            };
            rule.map_or(Ok(()), |rule| Err(self.error(name.span(), rule)))?;
        }
        let kind = match &text.kind {
            None => table.type_of(format),
            Some(kind) => table.parse_type(kind.get_ref()).ok_or_else(|| {
                let example = match table {
                    table::Kind::Mbr => "\"linux\", \"esp\" or a byte such as \"0x0c\"",
                    table::Kind::Gpt => "\"linux\", \"esp\" or a GUID",
                };
                self.error(kind.span(), format!("expected {example}"))
            })?,
        };
        let size = match &text.size {
            Some(size) if size.get_ref() == "rest" => Some(table::Size::Rest),
            Some(size) => Some(table::Size::Bytes(self.bytes(size)?)),
            None => None,
        };
        let first = text.start.as_ref().map(|start| self.sector(start)).transpose()?;
        let string = |text: Option<Spanned<String>>| text.map(Spanned::into_inner).unwrap_or_default();
        let mut items = Vec::new();
        for tree in &text.tree {
            items.push(self.tree(tree)?);
        }
        for directory in &text.directory {
            items.push(self.item(&directory.to, &directory.mode, &directory.owner, Source::Directory)?);
        }
        for file in &text.file {
            let source = self.source(file)?;
            let mut item = self.item(&file.to, &file.mode, &file.owner, source)?;
            if let Some(from) = &file.from {
                item.source_place = self.text.place(from.span());
            }
            items.push(item);
        }
        for link in &text.link {
            items.push(self.item(&link.to, &None, &link.owner, Source::Link(link.target.clone()))?);
        }
        Ok(Partition {
            format,
            label: string(text.label),
            name: string(text.name),
            size,
            first,
            kind,
            bootable: text.bootable,
            options: text.options,
            items,
        })
    }

    fn item(
        &self,
        to: &Spanned<String>,
        mode: &Option<Spanned<String>>,
        owner: &Option<Spanned<String>>,
        source: Source,
    ) -> Result<Item, ImageError> {
        let path = to.get_ref().trim_start_matches('/').trim_end_matches('/');
        Ok(Item {
            to: PathBuf::from(path),
            place: self.text.place(to.span()),
            source_place: self.text.place(to.span()),
            mode: mode.as_ref().map(|mode| self.mode(mode)).transpose()?,
            owner: owner.as_ref().map_or(Ok((0, 0)), |owner| self.owner(owner))?,
            source,
        })
    }

    fn tree(&self, text: &TreeText) -> Result<Item, ImageError> {
        let keep = |text: &Option<Spanned<String>>, otherwise| match text {
            None => Ok(false),
            Some(word) if word.get_ref() == "keep" => Ok(true),
            Some(word) if word.get_ref() == otherwise => Ok(false),
            Some(word) => Err(self.error(word.span(), format!("expected \"keep\" or {otherwise:?}"))),
        };
        let source = Source::Tree {
            from: self.folder.join(text.from.get_ref()),
            keep_owners: keep(&text.owners, "root")?,
            keep_times: keep(&text.times, "fixed")?,
        };
        // Without `to`, the tree becomes the root.
        let to = text.to.clone().unwrap_or_else(|| Spanned::new(text.from.span(), String::new()));
        let item = self.item(&to, &None, &None, source)?;
        Ok(Item { source_place: self.text.place(text.from.span()), ..item })
    }

    fn source(&self, file: &FileText) -> Result<Source, ImageError> {
        let checksum = match (&file.checksum, &file.checksum_style) {
            (Some(checksum), style) => Some(self.checksum(checksum, style.as_ref())?),
            (None, Some(style)) => {
                return Err(self.error(style.span(), "checksum-style needs checksum = \"sha256\""));
            }
            (None, None) => None,
        };
        if let (Some(options), None) = (&file.options, &file.image) {
            return Err(self.error(options.span(), "options go with image = \"squashfs\""));
        }
        let from = file.from.as_ref().map(|from| self.folder.join(from.get_ref()));
        match (from, &file.text, &file.image) {
            (Some(from), None, None) => Ok(Source::File(from, checksum)),
            (None, Some(text), None) => Ok(Source::Text(text.clone(), checksum)),
            (Some(from), None, Some(format)) => {
                let format = self.format(format)?;
                let options = file.options.as_ref().map_or(Vec::new(), |options| options.get_ref().clone());
                Ok(Source::Image { from, format, options, checksum })
            }
            _ => {
                let why = "a file has either from = \"PATH\" or text = \"...\"; image = \"squashfs\" goes with from";
                Err(self.error(file.to.span(), why))
            }
        }
    }

    fn checksum(
        &self,
        text: &Spanned<String>,
        style: Option<&Spanned<String>>,
    ) -> Result<Checksum, ImageError> {
        let algorithm = Algorithm::parse(text.get_ref());
        let algorithm = algorithm.ok_or_else(|| {
            self.error(text.span(), format!("{:?} is not md5, sha1, sha256 or sha512", text.get_ref()))
        })?;
        let bare = match style.map(|style| (&**style.get_ref(), style.span())) {
            None | Some(("coreutils", _)) => false,
            Some(("bare", _)) => true,
            Some((_, span)) => {
                return Err(self.error(span, "expected \"coreutils\" (DIGITS  NAME) or \"bare\" (DIGITS)"));
            }
        };
        Ok(Checksum { algorithm, bare })
    }

    fn format(&self, text: &Spanned<String>) -> Result<Format, ImageError> {
        Format::parse(text.get_ref()).map_err(|why| self.error(text.span(), why))
    }

    fn bytes(&self, text: &Spanned<String>) -> Result<u64, ImageError> {
        let bytes = Dimension::Size.parse_argument(text.get_ref());
        match bytes {
            Ok(bytes) if bytes % SECTOR != 0 => {
                Err(self.error(text.span(), "the size must be a multiple of 512 bytes"))
            }
            Ok(bytes) => Ok(bytes),
            Err(error) => Err(self.error(text.span(), error.to_string())),
        }
    }

    fn sector(&self, text: &Spanned<String>) -> Result<u64, ImageError> {
        Ok(self.bytes(text)? / SECTOR)
    }

    fn mode(&self, text: &Spanned<String>) -> Result<u32, ImageError> {
        let mode = u32::from_str_radix(text.get_ref(), 8).ok().filter(|mode| *mode <= crate::tree::MODE_BITS);
        mode.ok_or_else(|| self.error(text.span(), "expected an octal mode up to 7777, such as \"0644\""))
    }

    fn owner(&self, text: &Spanned<String>) -> Result<(u32, u32), ImageError> {
        let pair = text.get_ref().split_once(':');
        let numbers = pair.and_then(|(uid, gid)| Some((uid.parse().ok()?, gid.parse().ok()?)));
        numbers
            .ok_or_else(|| self.error(text.span(), "expected the numbers of user and group, such as \"0:0\""))
    }

    /// Returns the number of seconds from 1970 to a date and time.
    fn time(&self, text: &Spanned<Datetime>) -> Result<i64, ImageError> {
        let example = "expected a date with a time and an offset, such as 2024-05-12T00:00:00Z";
        let Datetime { date: Some(date), time: Some(time), offset: Some(offset) } = text.get_ref() else {
            return Err(self.error(text.span(), example));
        };
        let minutes = match offset {
            Offset::Z => 0,
            Offset::Custom { minutes } => i64::from(*minutes),
        };
        let days = days_since_1970(date.year.into(), date.month.into(), date.day.into());
        let of_day =
            i64::from(time.hour) * 3600 + i64::from(time.minute) * 60 + i64::from(time.second.unwrap_or(0));
        Ok(days * 86_400 + of_day - minutes * 60)
    }
}

/// Returns the number of days from 1970-01-01 to a date of the Gregorian calendar. The calculation uses years that
/// begin in March.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leap_days + (153 * month + 2) / 5 + day - 1 - 719_468
}

impl Algorithm {
    const NAMES: [(&'static str, Algorithm); 4] = [
        ("md5", Algorithm::Md5),
        ("sha1", Algorithm::Sha1),
        ("sha256", Algorithm::Sha256),
        ("sha512", Algorithm::Sha512),
    ];

    fn parse(name: &str) -> Option<Algorithm> {
        Algorithm::NAMES.iter().find(|(known, _)| *known == name).map(|(_, algorithm)| *algorithm)
    }

    /// Returns the name, which is also the ending of the file with the checksum.
    pub fn name(self) -> &'static str {
        let found = Algorithm::NAMES.iter().find(|(_, algorithm)| *algorithm == self);
        found.expect("every algorithm has a name").0
    }
}

#[cfg(test)]
mod tests;
