//! Entries of the options for verification, trims, errors and zoned devices.

use super::{Entry, Kind, irrelevant, modelled, refused};
use crate::number::LARGEST;
use crate::verify::{self, Method};

const TRIM: &str = "it has an effect only with trim_percentage, which is refused";
const ZONED: &str = "it has an effect only with zonemode=zbd, which is refused";

pub(super) const INTEGRITY: &[Entry] = &[
    modelled(
        "verify",
        &[],
        "0",
        Kind::Word { words: verify::WORDS, set: |s, word| s.job.verify.method = Method::from_word(word) },
        "Writes blocks that can be verified: a header with a checksum, or a pattern. A job reads its data back after \
         its writes, unless they take its whole runtime. With loops or a larger io_size, it does so once after all \
         loops; fio does so after each loop. A job that only reads verifies the data that it finds. Only \
         on a device with contents (`bench --bytes`, memory, files).",
    ),
    modelled(
        "do_verify",
        &[],
        "1",
        Kind::Boolean(|s, on| s.job.verify.reads_back = on),
        "Reads back the data that was written under verify.",
    ),
    refused(
        "verify_only",
        &["0"],
        "a job that writes verifies its own data only; a job that only reads verifies data of earlier runs",
    )
    .switch(),
    irrelevant("verifysort", "fio itself no longer uses it (deprecated there)"),
    irrelevant("verifysort_nr", "fio itself no longer uses it (deprecated there)"),
    modelled(
        "verify_interval",
        &[],
        "",
        Kind::Count {
            least: 0,
            most: LARGEST,
            set: |s, bytes| s.job.verify.interval = (bytes > 0).then_some(bytes),
        },
        "Size of a block with its own header; by default each request is one block.",
    ),
    refused("verify_offset", &["0"], "the header is at the beginning of its block"),
    modelled(
        "verify_pattern",
        &[],
        "",
        Kind::Form {
            form: verify::PATTERN_FORM,
            read: |s, text| {
                s.job.verify.pattern = verify::pattern(text)?;
                Ok(())
            },
        },
        "Bytes that verify=pattern repeats over a block. Without verify, a header without a checksum precedes them. \
         With a method that has a header, they follow the header.",
    ),
    irrelevant(
        "verify_fatal",
        "every block that is read back is verified; wrong data is reported and ends flashlab with exit code 1 in any case",
    ),
    irrelevant("verify_dump", "a wrong block is reported, but not written to a file"),
    irrelevant("verify_async", "verification takes no simulated time"),
    irrelevant("verify_async_cpus", "verification takes no simulated time"),
    refused("verify_backlog", &["0"], "data is read back after all of it is written"),
    refused("verify_backlog_batch", &["0"], "data is read back after all of it is written"),
    refused(
        "experimental_verify",
        &["0"],
        "the requests that were written are read back, and not generated again",
    ),
    refused("verify_state_load", &["0"], "there is no state of another run"),
    irrelevant("verify_state_save", "there is no run that would load it"),
    refused("trim_percentage", &["0"], "only rw=trim, randtrim, trimwrite and randtrimwrite trim"),
    irrelevant("trim_verify_zero", TRIM),
    irrelevant("trim_backlog", TRIM),
    irrelevant("trim_backlog_batch", TRIM),
    refused("continue_on_error", &["none", "0"], "a request that fails ends its job"),
    refused("ignore_error", &[], "a request that fails ends its job"),
    irrelevant("error_dump", "a request that fails is reported in any case"),
];

pub(super) const ZONES: &[Entry] = &[
    refused("zonemode", &["none"], "there are neither zoned devices nor strided access"),
    refused("zonesize", &["0"], "there are neither zoned devices nor strided access"),
    refused("zonerange", &["0"], "there are neither zoned devices nor strided access"),
    refused("zoneskip", &["0"], "there are neither zoned devices nor strided access"),
    irrelevant("zonecapacity", ZONED),
    irrelevant("read_beyond_wp", ZONED),
    irrelevant("max_open_zones", ZONED),
    irrelevant("job_max_open_zones", ZONED),
    irrelevant("ignore_zone_limits", ZONED),
    irrelevant("zone_reset_threshold", ZONED),
    irrelevant("zone_reset_frequency", ZONED),
];
