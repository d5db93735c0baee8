//! The available profiles and experiments: the repository's, which are embedded in the binary, and those of
//! `--library DIR`.
//!
//! A library folder has the layout of the repository: `profiles/sd/x.toml` is the card `sd/x`, `profiles/host/y.toml`
//! the host `y`, `profiles/fs/z.toml` the filesystem `z`, `experiments/e/` the experiment `e`. Listings are sorted by
//! name. Names are unique: a folder adds to the built-in library and never replaces part of it.

mod copied_profiles;
mod disk;
mod error;

pub use disk::read_file;
pub use error::{HostError, Inconsistency, LibraryError, UnknownName};

use crate::profile::{Kind, Profile, Source, suggest};
use copied_profiles::Cells;
use include_dir::{Dir, DirEntry, include_dir};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

static PROFILES: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/../../profiles");
static EXPERIMENTS: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/../../experiments");

/// Profiles and experiments by name.
#[derive(Clone, Debug)]
pub struct Library {
    profiles: BTreeMap<String, Profile>,
    experiments: BTreeMap<String, Folder>,
    /// The cells of each experiment whose file could be parsed.
    cells: Vec<Cells>,
}

/// An experiment's folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Folder {
    /// Name of the experiment.
    pub name: String,
    /// Path of the folder, for messages: `experiments/sd-cards`.
    pub path: String,
    /// Contents of the folder's files by their paths relative to the folder.
    pub files: BTreeMap<String, Vec<u8>>,
}

impl Folder {
    /// Returns the bytes of a file.
    pub fn file(&self, name: &str) -> Option<&[u8]> {
        self.files.get(name).map(Vec::as_slice)
    }

    /// Returns the path of a file in the folder, for messages.
    pub fn path_of(&self, name: &str) -> String {
        format!("{}/{name}", self.path)
    }

    /// Returns the paths of all files in the folder.
    pub fn paths(&self) -> impl Iterator<Item = PathBuf> {
        self.files.keys().map(|name| PathBuf::from(self.path_of(name)))
    }
}

/// The files of one library by their paths relative to `profiles` or `experiments`, sorted.
type Files = BTreeMap<String, Vec<u8>>;

impl Library {
    /// Returns the built-in library.
    pub fn built_in() -> Result<Library, LibraryError> {
        let mut library =
            Library { profiles: BTreeMap::new(), experiments: BTreeMap::new(), cells: Vec::new() };
        library.add("", &embedded(&PROFILES), embedded(&EXPERIMENTS))?;
        Ok(library)
    }

    /// Opens the built-in library and adds the profiles and experiments of `folders`.
    pub fn open<P: AsRef<Path>>(folders: &[P]) -> Result<Library, LibraryError> {
        let mut library = Library::built_in()?;
        for folder in folders {
            library.add_folder(folder.as_ref())?;
        }
        Ok(library)
    }

    /// Parses `bytes` as a profile of any kind and adds it under `name`. A profile of the same name is replaced.
    pub fn add_device(&mut self, name: &str, bytes: &[u8]) -> Result<(), LibraryError> {
        let path = format!("{name}.toml");
        check_name(name, &path)?;
        let profile = Profile::parse(&path, bytes).map_err(LibraryError::Profile)?;
        check_folder(name, &profile)?;
        self.profiles.insert(name.to_owned(), profile);
        Ok(())
    }

    fn add_folder(&mut self, folder: &Path) -> Result<(), LibraryError> {
        let (profiles, experiments) = (folder.join("profiles"), folder.join("experiments"));
        if !profiles.is_dir() && !experiments.is_dir() {
            return Err(LibraryError::NotALibrary { path: folder.display().to_string() });
        }
        let prefix = format!("{}/", folder.display().to_string().trim_end_matches('/'));
        self.add(&prefix, &disk::files(&profiles)?, disk::files(&experiments)?)
    }

    fn add(&mut self, prefix: &str, profiles: &Files, experiments: Files) -> Result<(), LibraryError> {
        for (file, bytes) in profiles {
            let Some(name) = file.strip_suffix(".toml") else { continue };
            let path = format!("{prefix}profiles/{file}");
            check_name(name, &path)?;
            let profile = Profile::parse(&path, bytes).map_err(LibraryError::Profile)?;
            check_folder(name, &profile)?;
            if let Some(first) = self.profiles.get(name) {
                let first = first.text.file.clone();
                return Err(LibraryError::DuplicateName { name: name.to_owned(), path, first });
            }
            self.profiles.insert(name.to_owned(), profile);
        }
        self.add_experiments(prefix, experiments)
    }

    fn add_experiments(&mut self, prefix: &str, files: Files) -> Result<(), LibraryError> {
        let mut folders: BTreeMap<String, Folder> = BTreeMap::new();
        for (file, bytes) in files {
            let Some((name, inside)) = file.split_once('/') else { continue };
            let path = format!("{prefix}experiments/{name}");
            let new = || Folder { name: name.to_owned(), path, files: BTreeMap::new() };
            folders.entry(name.to_owned()).or_insert_with(new).files.insert(inside.to_owned(), bytes);
        }
        for (name, folder) in folders {
            check_name(&name, &folder.path)?;
            if folder.file("experiment.toml").is_none() {
                return Err(LibraryError::NoExperiment { path: folder.path });
            }
            if let Some(first) = self.experiments.get(&name) {
                return Err(LibraryError::DuplicateName {
                    name,
                    path: folder.path,
                    first: first.path.clone(),
                });
            }
            self.cells.extend(Cells::of(&folder));
            self.experiments.insert(name, folder);
        }
        Ok(())
    }

    /// Returns all profiles with their names, sorted.
    pub fn profiles(&self) -> impl Iterator<Item = (&str, &Profile)> {
        self.profiles.iter().map(|(name, profile)| (name.as_str(), profile))
    }

    /// Returns the profiles of a kind with the names that users write: `sd/kingston`, `raspberry-pi-4`, `vfat`.
    pub fn of_kind(&self, kind: Kind) -> impl Iterator<Item = (&str, &Profile)> {
        let plain = move |name| str::strip_prefix(name, kind.omitted_folder()).unwrap_or(name);
        self.profiles().filter(move |(_, p)| p.kind == kind).map(move |(name, p)| (plain(name), p))
    }

    /// Returns all devices with their names, sorted.
    pub fn devices(&self) -> impl Iterator<Item = (&str, &Profile)> {
        self.profiles().filter(|(_, profile)| profile.kind.is_device())
    }

    /// Looks up a device by name. The error suggests a similar name, or the profile of that name in the working
    /// directory.
    pub fn device(&self, name: &str) -> Result<&Profile, UnknownName> {
        let found = self.devices().find(|(n, _)| *n == name);
        found.map(|(_, profile)| profile).ok_or_else(|| {
            let file = format!("./{name}.toml");
            let file = Some(file).filter(|file| Path::new(file).is_file());
            let similar = || suggest(name, self.devices().map(|(n, _)| n)).map(str::to_owned);
            UnknownName {
                what: "device",
                name: crate::units::clip(name),
                did_you_mean: file.or_else(similar),
                advice: advice(name),
                list: "flashlab devices",
            }
        })
    }

    /// Looks up a profile by the name that users write. The error suggests a similar name.
    pub fn profile(&self, kind: Kind, name: &str) -> Result<&Profile, UnknownName> {
        let found = self.of_kind(kind).find(|(n, _)| *n == name);
        found.map(|(_, profile)| profile).ok_or_else(|| UnknownName {
            what: kind.subject(),
            name: crate::units::clip(name),
            did_you_mean: suggest(name, self.of_kind(kind).map(|(n, _)| n)).map(str::to_owned),
            advice: kind.is_filesystem().then_some(
                "`flashlab record --fs` runs jobs on ext4, f2fs, vfat, exfat or btrfs under a real kernel",
            ),
            list: "flashlab devices",
        })
    }

    /// Looks up a host of any kind by the name that users write: `raspberry-pi-4`. If `name` ends in `.toml`,
    /// reads the profile at this path instead. The error suggests a similar name.
    pub fn host(&self, name: &str) -> Result<Cow<'_, Profile>, HostError> {
        if name.ends_with(".toml") {
            let profile =
                Profile::parse(name, &read_file(Path::new(name))?).map_err(LibraryError::Profile)?;
            return match profile.kind.is_host() {
                true => Ok(Cow::Owned(profile)),
                false => Err(HostError::NotAHost { file: name.to_owned(), found: profile.kind }),
            };
        }
        let hosts = || Kind::hosts().flat_map(|kind| self.of_kind(kind));
        let found = hosts().find(|(known, _)| *known == name);
        found.map(|(_, profile)| Cow::Borrowed(profile)).ok_or_else(|| {
            HostError::Unknown(UnknownName {
                what: "host",
                name: crate::units::clip(name),
                did_you_mean: suggest(name, hosts().map(|(known, _)| known)).map(str::to_owned),
                advice: None,
                list: "flashlab devices",
            })
        })
    }

    /// Returns all experiments, sorted by name.
    pub fn experiments(&self) -> impl Iterator<Item = &Folder> {
        self.experiments.values()
    }

    /// Looks up an experiment by name. The error suggests a similar name.
    pub fn experiment(&self, name: &str) -> Result<&Folder, UnknownName> {
        self.experiments.get(name).ok_or_else(|| UnknownName {
            what: "experiment",
            name: crate::units::clip(name),
            did_you_mean: suggest(name, self.experiments.keys().map(String::as_str)).map(str::to_owned),
            advice: None,
            list: "flashlab experiments",
        })
    }

    /// Returns the inconsistencies between profiles that are valid individually. A device may name a
    /// host that does not exist, or `typical` values may differ between devices that were fitted on the same
    /// row of a published table.
    pub fn inconsistencies(&self) -> Vec<Inconsistency> {
        let mut found = Vec::new();
        let cards: Vec<_> = self.devices().collect();
        for (i, (name, card)) in cards.iter().enumerate() {
            let host = card.host.as_deref().expect("a device's profile names a host");
            if let Err(unknown) = self.profile(card.kind.host().expect("a device has a host"), host) {
                found.push(Inconsistency::NoHost { file: card.text.file.clone(), unknown });
            }
            let tables = tables(card);
            for number in card.numbers.iter().filter(|n| matches!(n.source, Source::Typical(_))) {
                let of_one_table = |other: &Profile| self::tables(other).iter().any(|t| tables.contains(t));
                let mut kin = cards[..i].iter().filter(|(_, other)| of_one_table(other));
                let differs = kin.find_map(|(other_name, other)| {
                    let first = other.number(number.parameter.path)?;
                    let typical = matches!(first.source, Source::Typical(_));
                    (typical && first.value != number.value).then_some((other_name, other, first))
                });
                if let Some((other_name, other, first)) = differs {
                    found.push(Inconsistency::NotTypical {
                        path: number.parameter.path,
                        first: format!("{} in {other_name} ({})", first.value, other.line_of(first)),
                        second: format!("{} in {name} ({})", number.value, card.line_of(number)),
                    });
                }
            }
        }
        found
    }
}

/// Returns a remark on the commands that accept `name`, if it is a pattern or a real device.
fn advice(name: &str) -> Option<&'static str> {
    if name.contains('*') {
        return Some("`flashlab compare` runs a job on all devices of a pattern");
    }
    name.starts_with("/dev/").then_some("`flashlab measure` and `flashlab probe` examine real devices")
}

/// Returns the rows of published tables (`raw write 1M`) that numbers of a profile were fitted on.
fn tables(profile: &Profile) -> Vec<&str> {
    let cells = profile.numbers.iter().filter_map(|number| match &number.source {
        Source::Fitted(cells) => Some(cells),
        _ => None,
    });
    cells.flatten().filter_map(|cell| Some(cell.rsplit_once('/')?.0)).collect()
}

/// Checks that a profile is in the right folder. Users omit the folder from the names of some kinds
/// (`host/`). All profiles of such a kind must be in its folder, and no other profile may be there.
fn check_folder(name: &str, profile: &Profile) -> Result<(), LibraryError> {
    let mut special = Kind::all().map(Kind::omitted_folder).filter(|folder| !folder.is_empty());
    let found = special.find(|folder| name.starts_with(folder)).unwrap_or_default();
    if found == profile.kind.omitted_folder() {
        return Ok(());
    }
    let (path, kind) = (profile.text.file.clone(), profile.kind);
    Err(LibraryError::Misplaced { path, kind, folder: kind.folder() })
}

/// Rejects a name that contains characters other than a to z, 0 to 9, `-`, `_`, `.` and `/`. Other characters
/// may have a meaning in arguments (`name:key=value,...`) or patterns.
fn check_name(name: &str, path: &str) -> Result<(), LibraryError> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_./".contains(c);
    if name.chars().all(fits) {
        return Ok(());
    }
    Err(LibraryError::BadName { path: path.to_owned() })
}

fn embedded(dir: &Dir<'static>) -> Files {
    let mut files = Files::new();
    let mut rest: Vec<&DirEntry<'static>> = dir.entries().iter().collect();
    while let Some(entry) = rest.pop() {
        match entry {
            DirEntry::Dir(dir) => rest.extend(dir.entries()),
            DirEntry::File(file) => {
                let path = file.path().to_str().expect("the repository's names are ASCII");
                files.insert(path.replace('\\', "/"), file.contents().to_vec());
            }
        }
    }
    files
}
