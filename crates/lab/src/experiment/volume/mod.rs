//! Experiments of kind `volume`: volumes on timed devices, in simulated time.
//!
//! ```toml
//! kind = "volume"
//! [columns]                     # devices
//! usb3-1 = "usb/usb3-1"
//! [volume]
//! jobs = 4                      # jobs that run together and all write and read the range, 1 MiB at a time
//! span_mib = 64                 # length of the range
//! stripe = ["usb3-1", "usb3-2"] # columns of the volume whose size is compared
//! [[volume.codec]]              # a machine that encrypts with ChaCha20-Poly1305
//! row = "volume, encrypted"
//! cores = 4
//! cipher_ns_per_kib = 8335
//! source = "..."
//! [[volume.layout]]             # a volume over several devices
//! row = "2 SSDs"
//! foreground = ["usb3-1", "usb3-2"]  # for new data and for cached copies
//! background = ["usb2-1"]       # for data at rest; without it, data stays where it is
//! replicas = 1
//! [volume.compression]          # lz4 at once and zstd in the background, on a generated archive of C sources
//! sample_mib = 4
//! zstd_level = 15
//! ```
//!
//! | table | row | cell |
//! |---|---|---|
//! | `write 1M`, `read 1M` | none: the bare device; `volume`; the row of a codec | MiB/s of all jobs |
//! | `write 1M`, `read 1M` | the row of a layout | the same, in the column of the first device of `stripe` |
//! | `cipher` | `write` or `read`, followed by the text after `volume, encrypted` in the codec's row | CPU time of the cipher for each MiB that the jobs transfer, in ms |
//! | `stripe` | | size of the volume over the devices of `stripe`, in GiB, in the column of the first one |
//! | `locked volume` | | 1 if opening without the passphrase fails with the text of ENOKEY |
//! | `file names` | `volume`, `volume, encrypted` | occurrences of a known file name on the bare device |
//! | `compressed` | `lz4`, `then zstd` | stored bytes in percent of the sample, at once and after the background work |
//!
//! Only the members and the cipher take simulated time; the engine itself takes none. Background work runs beside the
//! jobs of a layout, as in a server. The last three tables do not depend on time, and use a device in memory.

#[cfg(feature = "volume")]
mod compressed;
#[cfg(feature = "volume")]
mod layout;
#[cfg(feature = "volume")]
mod sample;
#[cfg(feature = "volume")]
mod simulate;

#[cfg(feature = "volume")]
pub(super) use simulate::{run, timed};

use serde::Deserialize;

/// Jobs and costs of an experiment.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Number of jobs.
    pub jobs: u32,
    /// Length in MiB of the range that each job writes and reads.
    pub span_mib: u64,
    /// Columns whose devices form the striped volume.
    pub stripe: Vec<String>,
    /// Machines that encrypt.
    #[serde(rename = "codec")]
    pub codecs: Vec<CodecSettings>,
    /// Volumes over several devices.
    #[serde(default, rename = "layout")]
    pub layouts: Vec<LayoutSettings>,
    /// Compression of a sample.
    #[serde(default)]
    pub compression: Option<CompressionSettings>,
}

/// Costs of the cipher.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CodecSettings {
    /// Row of the figures; it begins with `volume, encrypted`.
    pub row: String,
    /// Number of cores.
    pub cores: u32,
    /// Nanoseconds for 1 KiB on one core.
    pub cipher_ns_per_kib: u64,
    /// Origin of the time.
    pub source: String,
}

/// Beginning of the rows of encrypted volumes.
const ENCRYPTED: &str = "volume, encrypted";

/// Members and targets of a volume over several devices.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayoutSettings {
    /// Row of the figures.
    pub row: String,
    /// Columns for new data and for cached copies.
    pub foreground: Vec<String>,
    /// Columns for data at rest; if empty, the volume has no targets.
    #[serde(default)]
    pub background: Vec<String>,
    /// Number of copies.
    #[serde(default = "one")]
    pub replicas: u8,
}

fn one() -> u8 {
    1
}

/// Compression at once with LZ4 and in the background with Zstandard.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CompressionSettings {
    /// Length in MiB of the generated archive.
    pub sample_mib: u64,
    /// Level of Zstandard.
    pub zstd_level: u8,
}

/// Checks the settings. The error text is a complete message.
pub(super) fn check(settings: &Settings, has_column: impl Fn(&str) -> bool) -> Result<(), String> {
    if !(1..=64).contains(&settings.jobs) || !(1..=4096).contains(&settings.span_mib) {
        return Err("[volume]: expected 1 to 64 jobs and a span of 1 to 4096 MiB".into());
    }
    settings.codecs.iter().try_for_each(CodecSettings::check)?;
    settings.layouts.iter().try_for_each(LayoutSettings::check)?;
    let sample = |sample: CompressionSettings| {
        (1..=256).contains(&sample.sample_mib) && (1..=22).contains(&sample.zstd_level)
    };
    if !settings.compression.is_none_or(sample) {
        return Err("[volume.compression]: expected a sample of 1 to 256 MiB and a level from 1 to 22".into());
    }
    let of_layouts =
        settings.layouts.iter().flat_map(|layout| layout.foreground.iter().chain(&layout.background));
    match settings.stripe.iter().chain(of_layouts).find(|column| !has_column(column)) {
        Some(column) => Err(format!("[volume]: {column} is not a column")),
        None if settings.stripe.is_empty() => Err("[volume]: stripe names no column".into()),
        None => Ok(()),
    }
}

impl CodecSettings {
    fn check(&self) -> Result<(), String> {
        let CodecSettings { row, cores, cipher_ns_per_kib, source } = self;
        if !row.starts_with(ENCRYPTED) {
            return Err(format!("[[volume.codec]]: row \"{row}\" must begin with \"{ENCRYPTED}\""));
        }
        if !(1..=1024).contains(cores) || *cipher_ns_per_kib > 1_000_000_000 || source.is_empty() {
            return Err(
                "[[volume.codec]]: expected 1 to 1024 cores, at most 1 s for 1 KiB, and a source".into()
            );
        }
        Ok(())
    }
}

impl LayoutSettings {
    /// Returns true if all members for new data are also members for data at rest.
    fn is_nested(&self) -> bool {
        self.foreground.iter().all(|column| self.background.contains(column))
    }

    /// Returns the columns of all members, each once.
    fn members(&self) -> Vec<&String> {
        let added = self.background.iter().filter(|column| !self.foreground.contains(column));
        self.foreground.iter().chain(added).collect()
    }

    fn check(&self) -> Result<(), String> {
        let LayoutSettings { row, foreground, background, replicas } = self;
        let at = |what: &str| Err(format!("[[volume.layout]] \"{row}\": {what}"));
        let members = self.members().len();
        if foreground.is_empty() || usize::from(*replicas) > members || *replicas == 0 {
            return at("expected a foreground, and at least 1 but at most as many replicas as members");
        }
        let is_shared = foreground.iter().any(|column| background.contains(column));
        if is_shared && !self.is_nested() {
            return at("the background must contain all of the foreground or none of it");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(cipher_ns_per_kib: u64, cores: u32) -> Settings {
        let codec =
            CodecSettings { row: ENCRYPTED.into(), cores, cipher_ns_per_kib, source: "a test".into() };
        let (codecs, layouts) = (vec![codec], Vec::new());
        Settings { jobs: 4, span_mib: 4, stripe: vec!["a".into()], codecs, layouts, compression: None }
    }

    #[test]
    fn settings_out_of_range_are_named() {
        let check = |settings: &Settings| check(settings, |column| column == "a" || column == "b");
        assert_eq!(check(&settings(1, 1)), Ok(()));
        let error = check(&settings(1, 0)).expect_err("no core");
        assert!(error.starts_with("[[volume.codec]]: expected 1 to 1024 cores"), "{error}");
        let other = Settings { stripe: vec!["c".into()], ..settings(1, 1) };
        assert_eq!(check(&other), Err("[volume]: c is not a column".into()));
        let with = |foreground: &[&str], background: &[&str], replicas| {
            let columns = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
            let (foreground, background) = (columns(foreground), columns(background));
            let layout = LayoutSettings { row: "x".into(), foreground, background, replicas };
            check(&Settings { layouts: vec![layout], ..settings(1, 1) })
        };
        assert_eq!(with(&["a"], &["a", "b"], 2), Ok(()));
        assert_eq!(with(&["a"], &["c"], 1), Err("[volume]: c is not a column".into()));
        let error = with(&["a", "b"], &["b"], 1).expect_err("partly the same");
        assert!(error.contains("the background must contain all of the foreground"), "{error}");
        assert!(with(&["a"], &[], 2).is_err_and(|error| error.contains("as many replicas as members")));
    }
}
