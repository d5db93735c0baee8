//! Verification, trimming within it, errors, and zoned devices.

use super::{Entry, irrelevant, refused};

const VERIFY: &str = "it has an effect only with verify, which is refused";
const TRIM: &str = "it has an effect only with trim_percentage, which is refused";
const ZONED: &str = "it has an effect only with zonemode=zbd, which is refused";

pub(super) const INTEGRITY: &[Entry] = &[
    refused(
        "verify",
        &["0"],
        "a simulation moves no bytes, so there is nothing to verify, and its reads would be missing",
    ),
    irrelevant("do_verify", VERIFY),
    refused("verify_only", &["0"], "a simulation moves no bytes, so there is nothing to verify").switch(),
    irrelevant("verifysort", "fio itself no longer uses it (deprecated there)"),
    irrelevant("verifysort_nr", "fio itself no longer uses it (deprecated there)"),
    irrelevant("verify_interval", VERIFY),
    irrelevant("verify_offset", VERIFY),
    refused(
        "verify_pattern",
        &[],
        "fio takes it as verify=pattern, and a simulation moves no bytes to verify",
    ),
    irrelevant("verify_fatal", VERIFY),
    irrelevant("verify_dump", VERIFY),
    irrelevant("verify_async", VERIFY),
    irrelevant("verify_async_cpus", VERIFY),
    irrelevant("verify_backlog", VERIFY),
    irrelevant("verify_backlog_batch", VERIFY),
    irrelevant("experimental_verify", VERIFY),
    irrelevant("verify_state_load", VERIFY),
    irrelevant("verify_state_save", VERIFY),
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
