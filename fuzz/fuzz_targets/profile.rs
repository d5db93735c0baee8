//! Fuzzes the parser of profiles.
#![no_main]

use flashlab_catalogue::profile::Profile;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Err(error) = Profile::parse("fuzz.toml", bytes) {
        assert!(!error.to_string().is_empty());
    }
});
