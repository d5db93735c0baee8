//! Hashes for the comparison of runs.

use super::measured::Measured;
use flashlab_catalogue::digest::short;
use flashlab_catalogue::library::Folder;
use flashlab_sim::Mechanism;
use sha2::{Digest, Sha256};

/// The mechanisms whose times enter the hash of cells by position, even if they are zero. Published digests
/// depend on this list, so it never changes. Any other mechanism enters by name, and only if its time is not
/// zero. A new variant of [`Mechanism`] therefore does not change the digests of runs in which it takes no
/// time.
const HASHED_BY_POSITION: [Mechanism; 9] = [
    Mechanism::Bus,
    Mechanism::Host,
    Mechanism::Firmware,
    Mechanism::Program,
    Mechanism::Read,
    Mechanism::ReadModifyWrite,
    Mechanism::Merge,
    Mechanism::Map,
    Mechanism::Queue,
];

/// Returns the hash of the inputs of a run: `experiment.toml`, `published.toml`, `numbers` and the seed.
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

/// Returns the hash of the measured cells. Only names and integers enter the hash: the name of the cell, the
/// number of its runs, and for each run the bytes, requests, milliseconds, latency, count, and nanoseconds by
/// mechanism.
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
            add_mechanisms(&mut hash, run.mechanisms_ns());
        }
    }
    short(hash)
}

/// Adds the nanoseconds of each mechanism, given by its name.
fn add_mechanisms<'a>(hash: &mut Sha256, ns_by_name: impl Iterator<Item = (&'a str, u64)> + Clone) {
    for mechanism in HASHED_BY_POSITION {
        let ns = ns_by_name.clone().find(|(name, _)| *name == mechanism.name()).map_or(0, |(_, ns)| ns);
        hash.update(ns.to_le_bytes());
    }
    let by_position = |name: &&str| HASHED_BY_POSITION.iter().any(|mechanism| mechanism.name() == *name);
    for (name, ns) in ns_by_name.filter(|(name, ns)| *ns > 0 && !by_position(name)) {
        hash.update(name.as_bytes());
        hash.update([0]);
        hash.update(ns.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NINE: [(&str, u64); 9] = [
        ("bus", 10),
        ("host", 20),
        ("firmware", 0),
        ("program", 40),
        ("read", 50),
        ("read-modify-write", 60),
        ("merge", 0),
        ("map", 80),
        ("queue", 90),
    ];

    fn digest_of(mechanisms: &[(&str, u64)]) -> String {
        let mut hash = Sha256::new();
        add_mechanisms(&mut hash, mechanisms.iter().copied());
        short(hash)
    }

    #[test]
    fn nine_mechanisms_are_hashed_as_integers_in_their_order() {
        let integers: Vec<u8> = NINE.iter().flat_map(|(_, ns)| ns.to_le_bytes()).collect();
        assert_eq!(digest_of(&NINE), flashlab_catalogue::digest::of_bytes(&integers));
    }

    #[test]
    fn a_further_mechanism_changes_the_digest_only_if_its_time_is_not_zero() {
        let with = |ns| {
            let mut mechanisms = NINE.to_vec();
            mechanisms.insert(3, ("refresh", ns));
            digest_of(&mechanisms)
        };
        assert_eq!(with(0), digest_of(&NINE));
        assert_ne!(with(1), digest_of(&NINE));
        assert_ne!(with(1), with(2));
    }
}
