//! Fuzzes the parser of recorded traces.
#![no_main]

use flashlab_fio::iolog::Iolog;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Err(error) = Iolog::read(bytes) {
        assert!(!error.to_string().is_empty());
    }
});
