//! Hashes for the comparison of runs.

use super::measured::Measured;
use crate::library::Folder;
use sha2::{Digest, Sha256};

/// Number of hexadecimal digits in a printed hash.
const DIGITS: usize = 16;

/// Returns the hash of all inputs of a run: the experiment's files, the devices' numbers, and the seed.
pub(super) fn of_inputs(folder: &Folder, numbers: &[String], seed: u64) -> String {
    let mut hash = Sha256::new();
    for name in ["experiment.toml", "published.toml"] {
        hash.update(folder.file(name).unwrap_or_default());
        hash.update([0]);
    }
    for number in numbers {
        hash.update(number);
        hash.update([0]);
    }
    hash.update(seed.to_le_bytes());
    short(hash)
}

/// Returns the hash of the measured cells. Only names and integers enter it: the name and the number of runs, and for
/// each run the bytes, requests, milliseconds, latency, count, and nanoseconds by mechanism.
pub(super) fn of_cells<'a>(cells: impl Iterator<Item = (String, &'a [Measured])>) -> String {
    let mut hash = Sha256::new();
    for (name, runs) in cells {
        hash.update(name.as_bytes());
        hash.update([0]);
        hash.update((runs.len() as u64).to_le_bytes());
        for run in runs {
            for integer in [run.bytes, run.requests, run.runtime_ms, run.latency_ns, run.counted] {
                hash.update(integer.to_le_bytes());
            }
            for ns in run.mechanisms_ns {
                hash.update(ns.to_le_bytes());
            }
        }
    }
    short(hash)
}

/// Returns the hash of `bytes`.
pub(crate) fn of_bytes(bytes: &[u8]) -> String {
    short(Sha256::new_with_prefix(bytes))
}

fn short(hash: Sha256) -> String {
    let mut text: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    text.truncate(DIGITS);
    text
}
