//! Fuzzes the parser of the JSON output of real fio runs.
#![no_main]

use flashlab_fio::against::RealRun;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Err(error) = RealRun::parse(bytes) {
        assert!(!error.to_string().is_empty());
    }
});
