//! Fuzzes job files; every `include` reads the same file again.
#![no_main]

use flashlab_fio::jobfile::JobFile;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let itself = |_: &str| -> Result<Vec<u8>, String> { Ok(bytes.to_vec()) };
    match JobFile::parse("fuzz.fio", bytes, &itself) {
        Ok(file) => assert!(file.jobs.len() < 1 << 20),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
