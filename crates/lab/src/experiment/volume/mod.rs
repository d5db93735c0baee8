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
//! [[volume.codec]]              # encryption with ChaCha20-Poly1305, at the times of the device's host
//! row = "volume, encrypted"
//! [[volume.codec]]              # the same on another machine
//! row = "volume, encrypted on one core"
//! cores = 1
//! cipher_ns_per_kib = 10240
//! source = "..."
//! [[volume.codec]]              # compression of a generated archive of C sources, at the times of the device's host
//! row = "volume, lz4"
//! compression = "lz4"
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
//! | `compression` | `write` or `read`, followed by the text after `volume,` in the row | CPU time of compression or decompression for each MiB, in ms |
//! | `stripe` | | size of the volume over the devices of `stripe`, in GiB, in the column of the first one |
//! | `locked volume` | | 1 if opening without the passphrase fails with the text of ENOKEY |
//! | `file names` | `volume`, `volume, encrypted` | occurrences of a known file name on the bare device |
//! | `compressed` | `lz4`, `then zstd` | stored bytes in percent of the sample, at once and after the background work |
//!
//! Only the members and the codecs take simulated time; the engine itself takes none. Background work runs beside the
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
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Number of jobs.
    pub jobs: u32,
    /// Length in MiB of the range that each job writes and reads.
    pub span_mib: u64,
    /// Columns whose devices form the striped volume.
    pub stripe: Vec<String>,
    /// Data paths with a codec.
    #[serde(rename = "codec")]
    pub codecs: Vec<CodecSettings>,
    /// Volumes over several devices.
    #[serde(default, rename = "layout")]
    pub layouts: Vec<LayoutSettings>,
    /// Compression of a sample.
    #[serde(default)]
    pub compression: Option<CompressionSettings>,
}

/// A volume with encryption or compression. Without `cores`, `cipher_ns_per_kib` and `source`, the times are those of the
/// host of each device.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CodecSettings {
    /// Row of the figures; it begins with `volume, encrypted`, or with `volume, ` if there is a compression.
    pub row: String,
    /// Number of cores of another machine.
    #[serde(default)]
    pub cores: Option<u32>,
    /// Nanoseconds for the encryption or decryption of 1 KiB on one core of this machine.
    #[serde(default)]
    pub cipher_ns_per_kib: Option<u64>,
    /// Origin of the time.
    #[serde(default)]
    pub source: Option<String>,
    /// Compression of a volume without encryption: `lz4` or `zstd`.
    #[serde(default)]
    pub compression: Option<String>,
}

/// Beginning of the rows of encrypted volumes.
const ENCRYPTED: &str = "volume, encrypted";
/// Beginning of the rows of volumes with a codec.
const WITH_CODEC: &str = "volume, ";

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
        let CodecSettings { row, cores, cipher_ns_per_kib, source, compression } = self;
        let begin = if compression.is_some() { WITH_CODEC } else { ENCRYPTED };
        if !row.starts_with(begin) {
            return Err(format!("[[volume.codec]]: row \"{row}\" must begin with \"{begin}\""));
        }
        if compression.as_ref().is_some_and(|name| !["lz4", "zstd"].contains(&name.as_str())) {
            return Err(format!("[[volume.codec]] \"{row}\": expected the compression lz4 or zstd"));
        }
        match (cores, cipher_ns_per_kib, source) {
            (None, None, None) => Ok(()),
            (Some(1..=1024), Some(..=1_000_000_000), Some(source))
                if !source.is_empty() && compression.is_none() =>
            {
                Ok(())
            }
            _ => Err("[[volume.codec]]: expected 1 to 1024 cores, at most 1 s for 1 KiB and a source, or none of the three; \
                      a compression has the times of the host"
                .into()),
        }
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

    pub(super) fn settings(cipher_ns_per_kib: u64, cores: u32) -> Settings {
        let codec = CodecSettings {
            row: ENCRYPTED.into(),
            cores: Some(cores),
            cipher_ns_per_kib: Some(cipher_ns_per_kib),
            source: Some("a test".into()),
            compression: None,
        };
        let (codecs, layouts) = (vec![codec], Vec::new());
        Settings { jobs: 4, span_mib: 4, stripe: vec!["a".into()], codecs, layouts, compression: None }
    }

    #[test]
    fn settings_out_of_range_are_named() {
        let check = |settings: &Settings| check(settings, |column| column == "a" || column == "b");
        assert_eq!(check(&settings(1, 1)), Ok(()));
        let error = check(&settings(1, 0)).expect_err("no core");
        assert!(error.starts_with("[[volume.codec]]: expected 1 to 1024 cores"), "{error}");
        let of_host = CodecSettings { row: ENCRYPTED.into(), ..CodecSettings::default() };
        let with_codec = |codec| check(&Settings { codecs: vec![codec], ..settings(1, 1) });
        assert_eq!(with_codec(of_host.clone()), Ok(()));
        let lz4 = CodecSettings {
            row: "volume, lz4".into(),
            compression: Some("lz4".into()),
            ..CodecSettings::default()
        };
        assert_eq!(with_codec(lz4.clone()), Ok(()));
        let lzma = CodecSettings { compression: Some("lzma".into()), ..lz4.clone() };
        assert!(with_codec(lzma).is_err_and(|error| error.contains("lz4 or zstd")));
        assert!(with_codec(CodecSettings { cores: Some(4), ..lz4 }).is_err(), "one of three");
        assert!(with_codec(CodecSettings { cores: Some(4), ..of_host }).is_err(), "one of three");
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
