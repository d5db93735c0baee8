//! Fuzzes the names of devices and filesystems, as command-line arguments.
#![no_main]

use flashlab_catalogue::device::{Device, Filesystem};
use flashlab_catalogue::library::Library;
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

static LIBRARY: LazyLock<Library> = LazyLock::new(|| Library::built_in().expect("the repository's own"));

fuzz_target!(|text: &str| {
    // A name that ends in `.toml` would be read from disk.
    if text.contains(".toml") {
        return;
    }
    let _ = Device::open(text, &LIBRARY);
    let _ = Filesystem::open(text, &LIBRARY);
});
