//! Fuzzes state files of devices, raw and with a correct checksum, as an attacker could make them.
#![no_main]

use flashlab_catalogue::device::{Device, State};
use flashlab_catalogue::library::Library;
use libfuzzer_sys::fuzz_target;
use sha2::{Digest, Sha256};
use std::sync::LazyLock;

static DEVICE: LazyLock<Device> = LazyLock::new(|| {
    let library = Library::built_in().expect("the repository's own");
    Device::open("sd/kingston:capacity=4MiB", &library).expect("a card")
});

fuzz_target!(|bytes: &[u8]| {
    let mut signed = bytes.to_vec();
    signed.extend(Sha256::digest(bytes));
    for bytes in [bytes, &signed] {
        match State::parse("fuzz", bytes) {
            Ok(state) => {
                let _ = state.check_compatible(&DEVICE);
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
});
