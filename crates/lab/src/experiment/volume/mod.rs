//! Experiments of kind `volume`: volumes on timed devices, in simulated time.
//!
//! ```toml
//! kind = "volume"
//! [columns]                     # devices
//! usb3-1 = "usb/usb3-1"
//! [volume]
//! jobs = 4                      # jobs that write and read the same range in step, with requests of 1 MiB
//! span_mib = 64                 # length of the range
//! stripe = ["usb3-1", "usb3-2"] # columns of the volume whose size is compared
//! [volume.codec]
//! cores = 4
//! cipher_ns_per_kib = 7143      # ChaCha20-Poly1305
//! source = "..."
//! ```
//!
//! | table | row | cell |
//! |---|---|---|
//! | `write 1M`, `read 1M` | none: the bare device; `volume`; `volume, encrypted` | MiB/s of all jobs |
//! | `cipher` | `write`, `read` | CPU time of the cipher for each MiB that the jobs transfer, in ms |
//! | `stripe` | | size of the volume over the devices of `stripe`, in GiB, in the column of the first one |
//! | `locked volume` | | 1 if opening without the passphrase fails with the text of ENOKEY |
//! | `file names` | `volume`, `volume, encrypted` | occurrences of a known file name on the bare device |
//!
//! The engine itself takes no simulated time, only its members and the cipher do. The last two tables do not depend on
//! time, and use a device in memory.

#[cfg(feature = "volume")]
mod simulate;

#[cfg(feature = "volume")]
pub(super) use simulate::{outcome, run, timed};

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
    /// Costs of the cipher on the machine of the source.
    pub codec: CodecSettings,
}

/// Costs of the cipher.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CodecSettings {
    /// Number of cores.
    pub cores: u32,
    /// Time for 1 KiB on one core.
    pub cipher_ns_per_kib: u64,
    /// Origin of the time.
    pub source: String,
}

/// Checks the settings. The error text stands alone.
pub(super) fn check(settings: &Settings, has_column: impl Fn(&str) -> bool) -> Result<(), String> {
    let CodecSettings { cores, cipher_ns_per_kib, source } = &settings.codec;
    if !(1..=64).contains(&settings.jobs) || !(1..=4096).contains(&settings.span_mib) {
        return Err("[volume]: expected 1 to 64 jobs and a span of 1 to 4096 MiB".into());
    }
    if !(1..=1024).contains(cores) || *cipher_ns_per_kib > 1_000_000_000 || source.is_empty() {
        return Err("[volume.codec]: expected 1 to 1024 cores, at most 1 s for 1 KiB, and a source".into());
    }
    match settings.stripe.iter().find(|column| !has_column(column)) {
        Some(column) => Err(format!("[volume]: stripe names {column}, which is no column")),
        None if settings.stripe.is_empty() => Err("[volume]: stripe names no column".into()),
        None => Ok(()),
    }
}

/// Refuses to run, because this build has no volumes.
#[cfg(not(feature = "volume"))]
pub(super) fn run(
    _: &super::Experiment,
    _: &flashlab_catalogue::library::Library,
    _: u64,
    _: &crate::progress::Progress,
) -> Result<super::Outcome, super::ExperimentError> {
    Err(super::ExperimentError::NeedsFeature("volume"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(cipher_ns_per_kib: u64, cores: u32) -> Settings {
        let codec = CodecSettings { cores, cipher_ns_per_kib, source: "a test".into() };
        Settings { jobs: 4, span_mib: 4, stripe: vec!["a".into()], codec }
    }

    #[test]
    fn settings_out_of_range_are_named() {
        let check = |settings: &Settings| check(settings, |column| column == "a");
        assert_eq!(check(&settings(1, 1)), Ok(()));
        let error = check(&settings(1, 0)).expect_err("no core");
        assert!(error.starts_with("[volume.codec]: expected 1 to 1024 cores"), "{error}");
        let other = Settings { stripe: vec!["b".into()], ..settings(1, 1) };
        assert_eq!(check(&other), Err("[volume]: stripe names b, which is no column".into()));
    }
}
