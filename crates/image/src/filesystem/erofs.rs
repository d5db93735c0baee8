//! Makes EROFS images with mkfs.erofs, and checks options against the installed version.
//!
//! mkfs.erofs ignores an extended option (`-E`) that it does not know, and exits with 0: version 1.5 accepts
//! `-Eall-fragments,dedupe` and applies neither. [`check_options`] refuses such options.

use super::{Format, Settings};
use crate::error::{ImageError, TreeProblem};
use crate::stage::Stage;
use crate::tool::{MKFS_EROFS, messages};
use crate::tree::Tree;
use flashlab_catalogue::profile::suggest;
use std::fmt;
use std::path::Path;

/// Compressors of all versions; the usage text of later versions lists one per line.
const KNOWN: [&str; 6] = ["lz4", "lz4hc", "lzma", "deflate", "libdeflate", "zstd"];

/// Version of erofs-utils.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ErofsVersion {
    /// Number before the point.
    pub major: u32,
    /// Number after the point.
    pub minor: u32,
}

/// The extended options and the minor version of erofs-utils 1 that introduced each of them, from its change log.
const EXTENDED: [(&str, u32); 17] = [
    ("legacy-compress", 0),
    ("nosbcrc", 0),
    ("force-inode-compact", 1),
    ("force-inode-extended", 1),
    ("noinline_data", 3),
    ("force-inode-blockmap", 3),
    ("force-chunk-indexes", 3),
    ("ztailpacking", 5),
    ("fragments", 6),
    ("all-fragments", 6),
    ("dedupe", 6),
    ("xattr-name-filter", 7),
    ("fragdedupe", 8),
    ("48bit", 9),
    ("dot-omitted", 9),
    ("xattr-prefixes", 9),
    ("inline_data", 3),
];

/// Latest version that fails with names of 255 bytes.
const SHORT_NAMES: ErofsVersion = ErofsVersion { major: 1, minor: 5 };

/// The reason why an option is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OptionError {
    /// No known version has the extended option, so mkfs.erofs would ignore it.
    UnknownExtended {
        /// The option.
        option: String,
        /// The most similar one.
        did_you_mean: Option<&'static str>,
    },
    /// A later version introduced the extended option; this one would ignore it.
    TooNew {
        /// The option.
        option: String,
        /// Version that introduced it.
        since: ErofsVersion,
        /// Version of the installed program.
        installed: ErofsVersion,
    },
    /// The program was built without the compressor.
    NoCompressor {
        /// The compressor.
        compressor: String,
        /// The compressors of the program.
        available: Vec<String>,
    },
    /// The option affects compressed files only, and no compressor is chosen.
    NotCompressed {
        /// The option.
        option: String,
    },
}

/// Abilities of the installed mkfs.erofs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Abilities {
    /// Version.
    pub version: ErofsVersion,
    /// Compressors.
    pub compressors: Vec<String>,
}

impl Abilities {
    /// Asks the installed program for its version and compressors.
    ///
    /// # Errors
    /// Returns an error if the program is missing or prints no version.
    pub fn ask() -> Result<Abilities, ImageError> {
        // Version 1.5 does not know `--version`, but prints its version with the error.
        let version = MKFS_EROFS.call()?.arg("--version").output()?;
        let usage = MKFS_EROFS.call()?.arg("--help").output()?;
        let text = [&version.stdout[..], b"\n", &usage.stdout, &usage.stderr].concat();
        Abilities::parse(&String::from_utf8_lossy(&text)).ok_or_else(|| ImageError::ToolVersion {
            program: MKFS_EROFS.program,
            messages: messages(&version),
        })
    }

    fn parse(text: &str) -> Option<Abilities> {
        let version = text.lines().find_map(|line| {
            let rest = line.strip_prefix("mkfs.erofs ")?;
            let rest = rest.strip_prefix("(erofs-utils) ").unwrap_or(rest);
            let (major, rest) = rest.split_once('.')?;
            let minor = rest.split(|c: char| !c.is_ascii_digit()).next()?;
            Some(ErofsVersion { major: major.parse().ok()?, minor: minor.parse().ok()? })
        })?;
        Some(Abilities { version, compressors: compressors(text) })
    }
}

/// Returns the compressors that a usage text names. Versions up to 1.7 print one list; later versions print a
/// table of options.
fn compressors(text: &str) -> Vec<String> {
    if let Some(list) = text.lines().find_map(|line| line.strip_prefix("Available compressors are:")) {
        return list.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
    }
    let names = text.lines().filter_map(|line| line.trim_start().split(['[', ' ', '\t']).next());
    names.filter(|name| KNOWN.contains(name)).map(str::to_owned).collect()
}

/// Checks options for mkfs.erofs.
///
/// # Errors
/// Returns an option that the program would ignore, or whose compressor the program does not have.
pub fn check_options(options: &[String], abilities: &Abilities) -> Result<(), OptionError> {
    let (extended, compressors) = (values(options, "-E"), values(options, "-z"));
    for option in extended.iter().flat_map(|list| list.split(',')) {
        check_extended(option, abilities.version)?;
    }
    for compressor in compressors.iter().flat_map(|list| list.split(':')) {
        let name = compressor.split(',').next().unwrap_or(compressor);
        if !abilities.compressors.iter().any(|known| known == name) {
            let available = abilities.compressors.clone();
            return Err(OptionError::NoCompressor { compressor: name.to_owned(), available });
        }
    }
    let needs_compressor =
        |option: &&String| option.starts_with("-C") || option.starts_with("--compress-hints");
    match options.iter().find(needs_compressor) {
        Some(option) if compressors.is_empty() => Err(OptionError::NotCompressed { option: option.clone() }),
        _ => Ok(()),
    }
}

fn check_extended(option: &str, version: ErofsVersion) -> Result<(), OptionError> {
    let name = option.trim_start_matches('^').split('=').next().unwrap_or(option);
    let Some((_, minor)) = EXTENDED.iter().find(|(known, _)| *known == name) else {
        let did_you_mean = suggest(name, EXTENDED.map(|(known, _)| known));
        return Err(OptionError::UnknownExtended { option: option.to_owned(), did_you_mean });
    };
    let since = ErofsVersion { major: 1, minor: *minor };
    if version < since {
        return Err(OptionError::TooNew { option: option.to_owned(), since, installed: version });
    }
    Ok(())
}

/// Returns the values of a short option, given as `-Xvalue` or `-X value`.
fn values<'a>(options: &'a [String], name: &str) -> Vec<&'a str> {
    let (mut found, mut options) = (Vec::new(), options.iter());
    while let Some(option) = options.next() {
        match option.strip_prefix(name) {
            Some("") => found.extend(options.next().map(String::as_str)),
            Some(value) => found.push(value),
            None => {}
        }
    }
    found
}

/// Checks that no name has 255 bytes, a length at which early versions fail without naming the file.
fn check_names(tree: &Tree) -> Result<(), ImageError> {
    let rule = "mkfs.erofs up to 1.5 fails with names of 255 bytes";
    let is_long = |path: &Path| path.file_name().is_some_and(|name| name.len() > 254);
    match tree.entries().find(|(path, _)| is_long(path)) {
        None => Ok(()),
        Some((path, _)) => Err(ImageError::tree(path, TreeProblem::Name { format: Format::Erofs, rule })),
    }
}

pub(super) fn make(stage: &Stage, settings: &Settings, to: &Path) -> Result<(), ImageError> {
    let abilities = Abilities::ask()?;
    check_options(&settings.options, &abilities).map_err(ImageError::ErofsOption)?;
    if abilities.version <= SHORT_NAMES {
        check_names(stage.tree())?;
    }
    let mut call = MKFS_EROFS.call()?.env("SOURCE_DATE_EPOCH", settings.time.to_string());
    call = call.args(["-U", &settings.identity.uuid("filesystem").to_string()]);
    if stage.tree().belongs_to_root() {
        call = call.arg("--all-root");
    }
    call.args(&settings.options).arg(to).arg(stage.root()).run(to).map(drop)
}

impl fmt::Display for ErofsVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl fmt::Display for OptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OptionError::UnknownExtended { option, did_you_mean } => {
                write!(f, "mkfs.erofs ignores -E{option}, which it does not know")?;
                match did_you_mean {
                    Some(nearest) => write!(f, "; did you mean -E{nearest}?"),
                    None => write!(f, "; leave it out"),
                }
            }
            OptionError::TooNew { option, since, installed } => write!(
                f,
                "mkfs.erofs {installed} ignores -E{option}, which came with erofs-utils {since}; install that version \
                 or leave the option out"
            ),
            OptionError::NoCompressor { compressor, available } => write!(
                f,
                "the installed mkfs.erofs has no compressor {compressor}; it has {}",
                if available.is_empty() { "none".into() } else { available.join(", ") }
            ),
            OptionError::NotCompressed { option } => write!(
                f,
                "{option} affects compressed files only, and no compressor is chosen; add for example -zlz4hc"
            ),
        }
    }
}

impl std::error::Error for OptionError {}

#[cfg(test)]
mod tests {
    use super::*;

    const USAGE_1_5: &str =
        "mkfs.erofs 1.5\nusage: [options] FILE DIRECTORY\n\nAvailable compressors are: lz4hc, lz4\n";
    const USAGE_1_8: &str = "mkfs.erofs (erofs-utils) 1.8.6\nUsage: mkfs.erofs [OPTIONS] FILE SOURCE(s)\n -zX[,level=Y]         \
                             X=compressor (Y=compression level, Z=dictionary size, optional)\n    [:Alg2]\n           \
                             lz4\n           lz4hc[,level=0..12]\t\t(default=9)\n           \
                             lzma[,level=<0-9,100-109>]\t(default=6, extreme=100)\n";

    fn check(options: &[&str], usage: &str) -> Result<(), OptionError> {
        let abilities = Abilities::parse(usage).expect("the usage has a version");
        check_options(&options.iter().map(|option| (*option).to_owned()).collect::<Vec<_>>(), &abilities)
    }

    #[test]
    fn version_and_compressors_come_from_the_usage() {
        let old = Abilities::parse(USAGE_1_5).unwrap();
        assert_eq!(
            (old.version, old.compressors),
            (ErofsVersion { major: 1, minor: 5 }, vec!["lz4hc".into(), "lz4".into()])
        );
        let new = Abilities::parse(USAGE_1_8).unwrap();
        assert_eq!(new.version, ErofsVersion { major: 1, minor: 8 });
        assert_eq!(new.compressors, ["lz4", "lz4hc", "lzma"]);
        assert_eq!(Abilities::parse("no version"), None);
        let none = "mkfs.erofs 1.5\nAvailable compressors are: \n";
        assert_eq!(Abilities::parse(none).unwrap().compressors, [""; 0]);
    }

    #[test]
    fn options_that_the_version_would_ignore_are_refused() {
        let options = ["-C1048576", "-Eztailpacking", "-Eall-fragments", "-Ededupe", "-zlz4hc,12"];
        let since = ErofsVersion { major: 1, minor: 6 };
        let installed = ErofsVersion { major: 1, minor: 5 };
        let too_new = OptionError::TooNew { option: "all-fragments".into(), since, installed };
        assert_eq!(check(&options, USAGE_1_5), Err(too_new));
        assert_eq!(check(&options, USAGE_1_8), Ok(()));
        let unknown = check(&["-E", "ztailpack"], USAGE_1_8);
        assert!(matches!(
            unknown,
            Err(OptionError::UnknownExtended { did_you_mean: Some("ztailpacking"), .. })
        ));
    }

    #[test]
    fn missing_compressors_and_useless_cluster_sizes_are_refused() {
        assert!(matches!(check(&["-zlzma"], USAGE_1_5), Err(OptionError::NoCompressor { .. })));
        assert!(matches!(check(&["-zlz4:lzma,9"], USAGE_1_5), Err(OptionError::NoCompressor { .. })));
        assert_eq!(check(&["-zlzma"], USAGE_1_8), Ok(()));
        assert!(matches!(check(&["-C65536"], USAGE_1_5), Err(OptionError::NotCompressed { .. })));
        assert_eq!(check(&["-zlz4hc", "-C65536"], USAGE_1_5), Ok(()));
    }
}
