//! Fuzzes the structures that an NVMe controller and its driver exchange: identify data, Set Features, descriptor
//! lists.
#![no_main]

use flashlab_host::driver::hmb::{Driver, UnlimitedMemory};
use flashlab_nvme::hmb::{Buffer, Descriptor, Limits, SetFeatures};
use flashlab_nvme::identify::{BYTES, Identify};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut data = [0; BYTES];
    let length = bytes.len().min(BYTES);
    data[..length].copy_from_slice(&bytes[..length]);
    let identify = Identify::parse(&data).expect("4096 bytes");
    assert_eq!(Identify::parse(&identify.to_bytes()[..]).as_ref(), Ok(&identify));
    let _ = (Identify::parse(bytes).is_ok(), identify.check(), identify.transfer_max());

    let limits = Limits {
        preferred: identify.hmpre,
        minimum: identify.hmmin,
        descriptor_minimum: identify.hmminds,
        descriptors_max: identify.hmmaxd,
    };
    // Leaves out requests for more memory than a large host has.
    if identify.preferred() <= 64 << 30 {
        let mut driver = Driver::new(Driver::LEND_MAX);
        if let Ok((command, grant)) = driver.start(&identify, &mut UnlimitedMemory::default()) {
            Buffer::new(limits).set(&command, &grant.descriptors).expect("the driver keeps to the rules");
        }
    }

    let mut controller = Buffer::new(limits);
    for command in bytes.chunks_exact(20 + 4 * Descriptor::BYTES) {
        let (words, list) = command.split_at(20);
        let word = |n: usize| u32::from_le_bytes(words[4 * n..4 * n + 4].try_into().expect("four bytes"));
        let list: Vec<Descriptor> = list
            .chunks_exact(Descriptor::BYTES)
            .map(|entry| Descriptor::from_bytes(entry.try_into().expect("sixteen bytes")))
            .collect();
        let command = SetFeatures::from_dwords(core::array::from_fn(word));
        let _ = controller.set(&command, &list).map_err(|error| error.to_string());
        assert!(controller.usable() <= identify.preferred());
    }
});
