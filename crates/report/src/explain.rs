//! Explains in a sentence where the time of a cell went: which mechanism took most of a request, and what that means.
//!
//! The text is derived only from the cell's mechanisms. A mechanism that this version does not know, from a file of
//! another version, is named without an explanation.

use crate::number;
use flashlab_lab::results::Cell;
use flashlab_sim::Mechanism;

/// The part of one mechanism in a cell's mean latency.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) mechanism: &'static str,
    /// Nanoseconds per request.
    pub(crate) ns: f64,
    /// Share of the sum of all parts, 0 to 1.
    pub(crate) share: f64,
}

/// Returns the parts that took time, in the cell's order; empty if nothing was timed.
pub(crate) fn parts(cell: &Cell) -> Vec<Part> {
    let timed = || cell.mechanisms.0.iter().filter(|(_, ns)| ns.is_finite() && *ns > 0.0);
    let sum: f64 = timed().map(|(_, ns)| ns).sum();
    timed().map(|&(mechanism, ns)| Part { mechanism, ns, share: ns / sum }).collect()
}

/// Texts about a mechanism.
struct Words {
    /// A phrase that fits after "of a request is".
    phrase: &'static str,
    /// The consequence if the mechanism takes most of the time of reads.
    in_reads: &'static str,
    /// The consequence if the mechanism takes most of the time of writes.
    in_writes: &'static str,
}

fn words(mechanism: Mechanism) -> Words {
    let of = |phrase, in_reads, in_writes| Words { phrase, in_reads, in_writes };
    let same = |phrase, meaning| of(phrase, meaning, meaning);
    match mechanism {
        Mechanism::Bus => same(
            "transfer over the bus",
            "The bus is the bottleneck: a faster device in this host would give almost the same figure.",
        ),
        Mechanism::Host => same(
            "the host's own work",
            "Commands, interrupts, copies and the filesystem take more time than the device: on another machine, the \
             same device would give another figure.",
        ),
        Mechanism::Firmware => same(
            "the controller's firmware",
            "The controller's processor is the bottleneck: it handles one command at a time, so a greater queue depth \
             or more dies would change nothing.",
        ),
        Mechanism::Program => same(
            "programming flash",
            "The flash is the bottleneck: bus and host wait until the written data is programmed.",
        ),
        Mechanism::Read => same(
            "reading flash",
            "The flash array is the bottleneck: each request waits until its pages are read.",
        ),
        Mechanism::ReadModifyWrite => same(
            "read-modify-write",
            "Each write changes a small part of a larger mapped unit, which the device must read and program again \
             as a whole.",
        ),
        Mechanism::Merge => same(
            "merging allocation units",
            "The writes touch more allocation units than the device keeps open: before it opens the next one, it must \
             complete an open one by copying the data that was not written.",
        ),
        Mechanism::Map => of(
            "the device's map",
            "The addresses span more than the device's map cache holds: it reads map pages from flash before it can \
             find the data.",
            "Each write begins at a new place or ends inside a program unit: its log record and map pages are written \
             before the device is free again.",
        ),
        Mechanism::Queue => same(
            "waiting behind other work",
            "Requests wait for earlier ones: more depth would add latency rather than throughput.",
        ),
        Mechanism::Busy => same(
            "the busy time of each write command",
            "The card is busy for the same time after every write command, whatever its size: larger writes would be \
             faster.",
        ),
        Mechanism::Fold => same(
            "emptying the area for small writes",
            "The area for small writes is full: before it takes more of them, the card must move its data to the rest \
             of the flash.",
        ),
        Mechanism::Housekeeping => same(
            "the controller's housekeeping",
            "The controller interrupts requests for periodic work of its own, such as saving its map, which no single \
             request causes.",
        ),
        Mechanism::Cache => of(
            "waiting for a cache to drain",
            "Reads wait until the flash has programmed a page of the volatile cache.",
            "Writes wait for room: in the device's volatile cache, or below the dirty limits of the page cache.",
        ),
        Mechanism::Cipher => same(
            "the volume's cipher",
            "The host's processors encrypt and decrypt more slowly than the members transfer: a host with instructions \
             for the cipher, or the other cipher, would be faster.",
        ),
        Mechanism::Compression => same(
            "compressing data",
            "The host's processors compress more slowly than the members write: a faster method or a lower level would \
             be faster, and background work can compress better later.",
        ),
        Mechanism::Decompression => same(
            "decompressing data",
            "The host's processors decompress more slowly than the members read. Each read decodes the whole extents \
             that contain its data.",
        ),
    }
}

/// Returns a phrase for the mechanism that fits after "of a request is".
pub(crate) fn phrase(mechanism: &str) -> &str {
    Mechanism::from_name(mechanism).map_or(mechanism, |mechanism| words(mechanism).phrase)
}

/// Returns the consequence if this mechanism takes most of the time of writes, or of reads.
pub(crate) fn meaning(mechanism: &str, writes: bool) -> Option<&'static str> {
    let words = words(Mechanism::from_name(mechanism)?);
    Some(if writes { words.in_writes } else { words.in_reads })
}

/// Returns true if the cell's requests are writes. Only cells of writes have a tail. Cells of jobs and of
/// fits have none, so time of the mechanism `program` identifies their writes.
fn writes(cell: &Cell) -> bool {
    cell.tail.is_some() || parts(cell).iter().any(|part| part.mechanism == "program")
}

/// Returns the definition of the mechanism's time, for a legend.
pub(crate) fn definition(mechanism: &str) -> &'static str {
    Mechanism::from_name(mechanism).map_or("", |mechanism| flashlab_catalogue::explain::in_words(mechanism).0)
}

/// Returns the explanation of a cell whose mechanisms tell its direction.
pub(crate) fn sentence(cell: &Cell) -> String {
    sentence_of(cell, writes(cell))
}

/// Returns the explanation of a cell of writes, or of reads.
pub(crate) fn sentence_of(cell: &Cell, writes: bool) -> String {
    let mut parts = parts(cell);
    parts.sort_by(|a, b| b.ns.total_cmp(&a.ns));
    let sum = number::duration_ns(parts.iter().map(|part| part.ns).sum());
    let mut text = match parts.as_slice() {
        [] => return "No request was timed for this figure.".into(),
        [only] => format!("All {sum} of a request is {}.", phrase(only.mechanism)),
        [first, second, ..] if first.share >= 0.5 => {
            let mut text = format!(
                "{} of a request's {sum} ({}) is {}",
                number::duration_ns(first.ns),
                number::share(first.share),
                phrase(first.mechanism)
            );
            if second.share >= 0.15 {
                text += &format!("; {} adds {}", phrase(second.mechanism), number::share(second.share));
            }
            text + "."
        }
        [first, rest @ ..] => {
            let mut text = format!(
                "No mechanism takes half of a request's {sum}: {} is {}",
                phrase(first.mechanism),
                number::share(first.share)
            );
            for part in rest.iter().take(2) {
                text += &format!(", {} {}", phrase(part.mechanism), number::share(part.share));
            }
            return text + ". None of them alone is the bottleneck.";
        }
    };
    if let Some(meaning) = meaning(parts[0].mechanism, writes) {
        text.push(' ');
        text.push_str(meaning);
    }
    text
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use flashlab_lab::results::{Figure, Mechanisms, Role};

    /// Returns a predicted cell whose requests spend these times.
    pub(crate) fn cell(mechanisms: &[(&'static str, f64)]) -> Cell {
        Cell {
            table: "t".into(),
            row: String::new(),
            column: "c".into(),
            unit: "IOPS".into(),
            published: None,
            reference: None,
            simulated: Figure { mean: 1.0, sd: 0.0 },
            role: Role::Predicted,
            error_percent: None,
            requests: 1,
            latency_ns_mean: mechanisms.iter().map(|(_, ns)| ns).sum(),
            mechanisms: Mechanisms(mechanisms.to_vec()),
            mechanism_ns_totals: Mechanisms(vec![]),
            tail: None,
        }
    }

    fn explained(mechanisms: &[(&'static str, f64)]) -> String {
        number::plain(&sentence(&cell(mechanisms)))
    }

    #[test]
    fn the_mechanism_with_most_of_the_time_is_named_first() {
        assert_eq!(
            explained(&[("bus", 10e6), ("program", 84e6), ("host", 6e6)]),
            "84.0 ms of a request's 100 ms (84 %) is programming flash. The flash is the bottleneck: bus and host \
             wait until the written data is programmed."
        );
        assert!(explained(&[("host", 30e6), ("program", 70e6)]).contains("; the host's own work adds 30 %."));
    }

    #[test]
    fn without_a_majority_no_mechanism_is_named_as_the_cause() {
        assert_eq!(
            explained(&[("bus", 30.0), ("read", 40.0), ("map", 30.0)]),
            "No mechanism takes half of a request's 100 ns: reading flash is 40 %, transfer over the bus 30 %, the \
             device's map 30 %. None of them alone is the bottleneck."
        );
    }

    #[test]
    fn the_map_of_writes_is_not_explained_by_a_cache_that_is_too_small() {
        let write = explained(&[("program", 346.0), ("map", 548.0)]);
        assert!(write.contains("Each write begins at a new place or ends inside a program unit"), "{write}");
        let read = explained(&[("read", 246.0), ("map", 548.0)]);
        assert!(read.contains("The addresses span more than the device's map cache holds"), "{read}");
    }

    #[test]
    fn waits_for_a_cache_are_explained_by_the_direction() {
        let waits = cell(&[("cache", 900.0), ("host", 100.0)]);
        assert!(sentence_of(&waits, true).contains("Writes wait for room: in the device's volatile cache"));
        assert!(sentence_of(&waits, false).contains("Reads wait until the flash has programmed a page"));
    }

    #[test]
    fn unknown_mechanisms_and_untimed_cells_have_a_sentence() {
        assert_eq!(explained(&[("folding", 5.0)]), "All 5 ns of a request is folding.");
        assert_eq!(explained(&[("bus", 0.0)]), explained(&[]));
    }

    #[test]
    fn every_mechanism_has_a_phrase_of_its_own_and_a_definition() {
        let mut phrases: Vec<&str> =
            Mechanism::ALL.iter().map(|mechanism| phrase(mechanism.name())).collect();
        phrases.sort_unstable();
        phrases.dedup();
        assert_eq!(phrases.len(), Mechanism::ALL.len());
        assert!(Mechanism::ALL.iter().all(|mechanism| !definition(mechanism.name()).is_empty()));
    }

    #[test]
    fn shares_sum_to_one() {
        let shares: f64 =
            parts(&cell(&[("bus", 1.0), ("host", 2.0), ("map", f64::NAN)])).iter().map(|p| p.share).sum();
        assert_eq!(shares, 1.0);
    }
}
