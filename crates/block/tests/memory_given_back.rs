//! The memory that a device takes from the system. The test is alone in its process, so that nothing else counts.

use flashlab_block::conformance::ask;
use flashlab_block::{Io, Memory, Pages};

/// Returns the bytes of this process that are resident in memory.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux tells it");
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("a number") * 4096
}

#[test]
fn discards_and_zeroes_give_memory_back_page_by_page_and_as_a_whole() {
    const SIZE: u64 = 256 << 20;
    for pages in [Pages::Small, Pages::Huge] {
        let device = Memory::new(SIZE, pages).expect("a size that a device can have");
        for offset in (0..SIZE).step_by(1 << 20) {
            let data = vec![1; 1 << 20].into();
            assert!(ask(&device, Io::Write { offset, data, durable: false }).is_ok());
        }
        let full = resident();
        // Three of every four pages, in separate requests.
        for offset in (0..SIZE).step_by(16_384) {
            assert!(ask(&device, Io::Discard { offset, length: 12_288, durable: false }).is_ok());
        }
        let thin = resident();
        assert!(full - thin > SIZE / 2, "{full} and {thin} bytes are resident");
        let io = Io::WriteZeroes { offset: 0, length: SIZE, durable: false, allocate: false, fast: true };
        assert!(ask(&device, io).is_ok());
        let empty = resident();
        assert!(thin - empty > SIZE / 8, "{thin} and {empty} bytes are resident");
    }
}
