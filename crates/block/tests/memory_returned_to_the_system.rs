//! Tests that a device returns memory to the system. The test runs in its own process, so that no other test
//! changes the resident memory.

use flashlab_block::conformance::execute;
use flashlab_block::{Io, Memory, Pages};

/// Returns the bytes of this process that are resident in memory.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux reports it");
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("a number") * 4096
}

#[test]
fn discards_and_zeroes_return_memory_to_the_system() {
    const SIZE: u64 = 256 << 20;
    for pages in [Pages::Small, Pages::Huge] {
        let device = Memory::new(SIZE, pages).expect("a size that a device can have");
        for offset in (0..SIZE).step_by(1 << 20) {
            let data = vec![1; 1 << 20].into();
            assert!(execute(&device, Io::Write { offset, data, durable: false }).is_ok());
        }
        let full = resident_bytes();
        // Discards three of every four pages, in separate requests.
        for offset in (0..SIZE).step_by(16_384) {
            assert!(execute(&device, Io::Discard { offset, length: 12_288, durable: false }).is_ok());
        }
        let thin = resident_bytes();
        assert!(full - thin > SIZE / 2, "{full} and {thin} bytes are resident");
        let io = Io::WriteZeroes { offset: 0, length: SIZE, durable: false, allocate: false, fast: true };
        assert!(execute(&device, io).is_ok());
        let empty = resident_bytes();
        assert!(thin - empty > SIZE / 8, "{thin} and {empty} bytes are resident");
    }
}
