//! Options of verification, of trimming within it, of errors and of zoned devices.

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
        Kind::Word { words: verify::WORDS, set: |s, word| s.job.verify.method = Method::of_word(word) },
        "Writes blocks that can be judged: a header and a sum, or a pattern. What a job wrote is read back when it has written \
         all; a job that only reads judges what it finds. Only on a device with bytes (`bench --bytes`, memory, files).",
    ),
    modelled(
        "do_verify",
        &[],
        "1",
        Kind::Boolean(|s, on| s.job.verify.reads_back = on),
        "Whether what was written under verify is read back.",
    ),
    refused(
        "verify_only",
        &["0"],
        "nothing is judged that was not written in the same run, but by a job that only reads",
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
        "Bytes that have a header of their own; each request has one where it is not given.",
    ),
    refused("verify_offset", &["0"], "the header stands at the beginning of its block"),
    modelled(
        "verify_pattern",
        &[],
        "",
        Kind::Form {
            form: "hexadecimal bytes (0xdeadbeef), a number, a text in double quotes, %o for the offset, or several of them",
            read: |s, text| {
                s.job.verify.pattern = verify::pattern(text)?;
                Ok(())
            },
        },
        "The bytes of verify=pattern, over and over; alone it means a header without a sum before them. Under a method with a header they are what \
         follows the header.",
    ),
    irrelevant(
        "verify_fatal",
        "all blocks are judged; wrong data is reported and ends flashlab with exit code 1 in any case",
    ),
    irrelevant("verify_dump", "a block that is wrong is told, and written nowhere"),
    irrelevant("verify_async", "judging takes no simulated time"),
    irrelevant("verify_async_cpus", "judging takes no simulated time"),
    refused("verify_backlog", &["0"], "what was written is read back when all is written"),
    refused("verify_backlog_batch", &["0"], "what was written is read back when all is written"),
    refused(
        "experimental_verify",
        &["0"],
        "what is read back is what was written, not what would be drawn again",
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
    refused("zonemode", &["none"], "there is no zoned device, and no walk in strides"),
    refused("zonesize", &["0"], "there is no zoned device, and no walk in strides"),
    refused("zonerange", &["0"], "there is no zoned device, and no walk in strides"),
    refused("zoneskip", &["0"], "there is no zoned device, and no walk in strides"),
    irrelevant("zonecapacity", ZONED),
    irrelevant("read_beyond_wp", ZONED),
    irrelevant("max_open_zones", ZONED),
    irrelevant("job_max_open_zones", ZONED),
    irrelevant("ignore_zone_limits", ZONED),
    irrelevant("zone_reset_threshold", ZONED),
    irrelevant("zone_reset_frequency", ZONED),
];
