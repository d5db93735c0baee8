//! Fuzzes the arguments that name block devices and the layers over them.
#![no_main]

use flashlab_catalogue::library::Library;
use flashlab_served::Served;
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

static LIBRARY: LazyLock<Library> = LazyLock::new(|| Library::built_in().expect("the repository's own"));

/// Words that would open or create files, and drives whose maps take long to build.
const NOT_HERE: [&str; 7] = ["file", ".toml", "state", "keep", "to=", "rules", "nvme"];

fuzz_target!(|text: &str| {
    if NOT_HERE.iter().any(|word| text.contains(word)) {
        return;
    }
    if let Err(error) = Served::open(text, 1, false, &LIBRARY) {
        // An error has a message.
        assert!(!error.to_string().is_empty());
    }
});
