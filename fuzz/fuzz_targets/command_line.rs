//! Fuzzes fio command lines. Line feeds separate the arguments.
#![no_main]

use flashlab_fio::cmdline::Invocation;
use flashlab_fio::loader::NoFiles;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let arguments: Vec<&str> = text.split('\n').collect();
    if let Err(error) = Invocation::parse(&arguments, &NoFiles) {
        assert!(!error.to_string().is_empty());
    }
});
