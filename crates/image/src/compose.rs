//! The disk of a recipe.
//!
//! SquashFS and EROFS images without a given size are made first, because the places of the partitions depend
//! on their sizes. The other filesystems are made one at a time, so their temporary files never take more
//! space than one partition and its files.

use crate::error::ImageError;
use crate::filesystem::{self, Format, Settings};
use crate::recipe::{Algorithm, Checksum, Item, Partition, Recipe, Source};
use crate::scan::Scan;
use crate::stage::{CopyError, Stage, copy_data};
use crate::table::{Layout, Request, SECTOR, Size};
use crate::temporary;
use crate::tree::{Content, Entry, Kind, Time, Tree};
use flashlab_block::TemporaryFolder;
use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha512};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A partition of a composed disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Composed {
    /// Format.
    pub format: Format,
    /// Offset on the disk in bytes.
    pub offset: u64,
    /// Size in bytes.
    pub size: u64,
    /// Number of files, directories and other entries.
    pub entries: usize,
}

/// The contents of a partition: a tree, and the sources that its files are copied from.
struct Contents {
    tree: Tree,
    scans: Vec<Scan>,
    /// Temporary folders of the images that the tree contains as files.
    _images: Vec<TemporaryFolder>,
}

/// Composes the disk of a recipe in the empty file `to`, whose path is `path`. Returns the partitions of the
/// disk.
///
/// # Errors
/// Returns an error if the recipe cannot be carried out, a file changes meanwhile, or the disk of the machine is full.
pub fn compose(recipe: &Recipe, to: &mut File, path: &Path) -> Result<Vec<Composed>, ImageError> {
    let settings: Vec<Settings> =
        (1..).zip(&recipe.partitions).map(|(n, part)| settings(recipe, part, n)).collect();
    let mut contents = Vec::new();
    let mut made: Vec<Option<(Stage, u64)>> = Vec::new();
    let mut requests = Vec::new();
    for ((number, partition), settings) in (1..).zip(&recipe.partitions).zip(&settings) {
        let of_partition = |error| ImageError::Partition { number, error: Box::new(error) };
        let gathered = gather(recipe, partition).map_err(of_partition)?;
        let default_size = filesystem::default_size(partition.format, &gathered.tree).map(Size::Bytes);
        let size = match partition.size.or(default_size) {
            Some(size) => {
                made.push(None);
                contents.push(Some(gathered));
                size
            }
            None => {
                let (stage, size) = make(partition.format, gathered, settings).map_err(of_partition)?;
                made.push(Some((stage, size)));
                contents.push(None);
                Size::Bytes(size)
            }
        };
        requests.push(Request {
            first: partition.first,
            size,
            kind: partition.kind,
            name: partition.name.clone(),
            bootable: partition.bootable,
        });
    }
    let layout = Layout::new(recipe.table, recipe.size, requests)?;
    let wrong = |error| ImageError::file(path, error);
    to.set_len(layout.size()).map_err(wrong)?;
    for (offset, bytes) in layout.table(&recipe.identity) {
        to.write_all_at(&bytes, offset).map_err(wrong)?;
    }
    let mut composed = Vec::new();
    for (n, place) in layout.partitions().iter().enumerate() {
        let (format, size) = (recipe.partitions[n].format, place.sectors * SECTOR);
        let (stage, length) = match (made[n].take(), contents[n].take()) {
            (Some(made), _) => made,
            (None, gathered) => {
                let first_sector = u32::try_from(place.first).unwrap_or(0);
                let settings = Settings { size: Some(size), first_sector, ..settings[n].clone() };
                let gathered = gathered.expect("every partition was gathered");
                let made = make(format, gathered, &settings);
                made.map_err(|error| ImageError::Partition { number: n + 1, error: Box::new(error) })?
            }
        };
        let offset = place.first * SECTOR;
        write_partition(&image_of(&stage), length, to, offset, path)?;
        composed.push(Composed { format, offset, size, entries: stage.tree().entries().count() });
    }
    Ok(composed)
}

fn settings(recipe: &Recipe, partition: &Partition, number: usize) -> Settings {
    Settings {
        identity: recipe.identity.of_part(number),
        label: partition.label.clone(),
        time: recipe.time,
        size: None,
        first_sector: 0,
        options: partition.options.clone(),
    }
}

fn image_of(stage: &Stage) -> PathBuf {
    stage.beside("image")
}

/// Makes a filesystem in a file beside its stage. Returns the stage and the size of the filesystem.
fn make(format: Format, contents: Contents, settings: &Settings) -> Result<(Stage, u64), ImageError> {
    let stage = Stage::new(contents.tree, &contents.scans)?;
    let image = image_of(&stage);
    filesystem::make(format, &stage, settings, &image)?;
    let size = fs::metadata(&image).map_err(|error| ImageError::file(&image, error))?.len();
    Ok((stage, size))
}

/// Copies an image of `length` bytes to its place on the disk.
fn write_partition(
    image: &Path,
    length: u64,
    to: &mut File,
    offset: u64,
    path: &Path,
) -> Result<(), ImageError> {
    let mut source = File::open(image).map_err(|error| ImageError::file(image, error))?;
    match copy_data(&mut source, to, length, offset) {
        Ok(true) => Ok(()),
        Ok(false) => Err(ImageError::Changed { path: image.to_owned() }),
        Err(CopyError::Read(error)) => Err(ImageError::file(image, error)),
        Err(CopyError::Write(error)) => Err(ImageError::file(path, error)),
    }
}

/// Returns the contents of a partition. Their tree has passed the check that the partition's format can store
/// it.
fn gather(recipe: &Recipe, partition: &Partition) -> Result<Contents, ImageError> {
    let time = Time::from_seconds(recipe.time);
    let mut contents =
        Contents { tree: Tree::new(Entry::directory(time)), scans: Vec::new(), _images: Vec::new() };
    for item in &partition.items {
        let added = contents.add(recipe, item);
        // The error names the place in the recipe, which helps the user more than the path alone.
        added.map_err(|error| match error {
            ImageError::File { path, error } => {
                let is_missing =
                    error.kind() == io::ErrorKind::NotFound && item.source.from() == Some(&*path);
                let hint = if is_missing { "; paths start at the recipe's folder" } else { "" };
                let why = format!("{}: {error}{hint}", path.display());
                ImageError::Recipe { place: item.source_place.clone(), why }
            }
            ImageError::Tree { .. } => {
                ImageError::Recipe { place: item.place.clone(), why: error.to_string() }
            }
            error => error,
        })?;
    }
    filesystem::check(partition.format, &contents.tree)?;
    Ok(contents)
}

impl Contents {
    fn add(&mut self, recipe: &Recipe, item: &Item) -> Result<(), ImageError> {
        let modified = Time::from_seconds(recipe.time);
        let (uid, gid) = item.owner;
        let entry = |kind, mode| Entry { kind, mode: item.mode.unwrap_or(mode), uid, gid, modified };
        let file = |content| entry(Kind::File(content), 0o644);
        match &item.source {
            Source::Directory => self.tree.insert(&item.to, entry(Kind::Directory, 0o755)),
            Source::Link(target) => self.tree.insert(&item.to, entry(Kind::Symlink(target.into()), 0o777)),
            Source::Text(text, checksum) => {
                self.add_checksum(item, *checksum, &mut text.as_bytes(), file)?;
                self.tree.insert(&item.to, file(Content::Bytes(text.clone().into_bytes())))
            }
            Source::File(from, checksum) => {
                let (scan, content) = Scan::of_file(from)?;
                self.scans.push(scan);
                self.add_copy(item, content, *checksum, file)
            }
            Source::Image { from, format, options, checksum } => {
                let content = self.image(recipe, item, from, *format, options)?;
                self.add_copy(item, content, *checksum, file)
            }
            Source::Tree { from, keep_owners, keep_times } => {
                let scan = Scan::of(from)?;
                for (path, entry) in scan.tree().entries() {
                    let mut entry = entry.clone();
                    if let Kind::HardLink(first) = &entry.kind {
                        entry.kind = Kind::HardLink(item.to.join(first));
                    }
                    if !keep_owners {
                        (entry.uid, entry.gid) = (0, 0);
                    }
                    if !keep_times {
                        entry.modified = modified;
                    }
                    let to = if path.as_os_str().is_empty() { item.to.clone() } else { item.to.join(path) };
                    self.tree.insert(&to, entry)?;
                }
                self.scans.push(scan);
                Ok(())
            }
        }
    }

    fn add_copy(
        &mut self,
        item: &Item,
        content: Content,
        checksum: Option<Checksum>,
        file: impl Fn(Content) -> Entry,
    ) -> Result<(), ImageError> {
        if let Content::Copy { from, .. } = &content
            && checksum.is_some()
        {
            let mut source = File::open(from).map_err(|error| ImageError::file(from, error))?;
            self.add_checksum(item, checksum, &mut source, &file)?;
        }
        self.tree.insert(&item.to, file(content))
    }

    /// Adds a file with the checksum of `source` beside an item.
    fn add_checksum(
        &mut self,
        item: &Item,
        checksum: Option<Checksum>,
        source: &mut dyn Read,
        file: impl Fn(Content) -> Entry,
    ) -> Result<(), ImageError> {
        let Some(Checksum { algorithm, bare }) = checksum else { return Ok(()) };
        let digits = digest(algorithm, source).map_err(|error| ImageError::file(&item.to, error))?;
        let name = item.to.file_name().unwrap_or_default();
        let line = if bare { digits } else { format!("{digits}  {}", name.to_string_lossy()) };
        let mut beside = OsString::from(name);
        beside.push(format!(".{}", algorithm.name()));
        let content = Content::Bytes(format!("{line}\n").into_bytes());
        // The file with the checksum is not executable, whatever the mode of the file that it covers.
        self.tree.insert(&item.to.with_file_name(beside), Entry { mode: 0o644, ..file(content) })
    }

    /// Makes a filesystem image of a directory, and returns it as the contents of a file.
    fn image(
        &mut self,
        recipe: &Recipe,
        item: &Item,
        from: &Path,
        format: Format,
        options: &[String],
    ) -> Result<Content, ImageError> {
        let scan = Scan::of(from)?;
        let mut tree = scan.tree().clone();
        tree.for_each(|entry| {
            (entry.uid, entry.gid) = (0, 0);
            entry.modified = Time::from_seconds(recipe.time);
        });
        let settings = Settings {
            identity: recipe.identity.of_part(item.to.display()),
            label: String::new(),
            time: recipe.time,
            size: None,
            first_sector: 0,
            options: options.to_vec(),
        };
        filesystem::check(format, &tree)?;
        let stage = Stage::new(tree, &[scan])?;
        let folder = temporary::folder()?;
        let image = folder.path().join("image");
        filesystem::make(format, &stage, &settings, &image)?;
        let size = fs::metadata(&image).map_err(|error| ImageError::file(&image, error))?.len();
        self._images.push(folder);
        Ok(Content::Copy { from: image, size })
    }
}

/// Returns the hexadecimal digits of a checksum.
fn digest(algorithm: Algorithm, source: &mut dyn Read) -> io::Result<String> {
    fn of<D: Digest>(source: &mut dyn Read) -> io::Result<String> {
        let (mut digest, mut piece) = (D::new(), vec![0; 1 << 16]);
        loop {
            match source.read(&mut piece) {
                Ok(0) => break,
                Ok(length) => digest.update(&piece[..length]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
    }
    match algorithm {
        Algorithm::Md5 => of::<Md5>(source),
        Algorithm::Sha1 => of::<Sha1>(source),
        Algorithm::Sha256 => of::<Sha256>(source),
        Algorithm::Sha512 => of::<Sha512>(source),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_the_standards() {
        let of = |algorithm| digest(algorithm, &mut &b"abc"[..]).unwrap();
        assert_eq!(of(Algorithm::Md5), "900150983cd24fb0d6963f7d28e17f72");
        assert_eq!(of(Algorithm::Sha1), "a9993e364706816aba3e25717850c26c9cd0d89d");
        assert!(of(Algorithm::Sha256).starts_with("ba7816bf8f01cfea414140de5dae2223"));
        assert!(of(Algorithm::Sha512).starts_with("ddaf35a193617abacc417349ae204131"));
    }
}
