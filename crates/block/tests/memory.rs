//! The memory device compared with a plain array and used by many threads, and the memory that it takes from the
//! system.

use flashlab_block::conformance::{agrees_with_an_array, ask, read, refuses_what_is_beyond_its_end};
use flashlab_block::{Answer, BlockDevice, Extent, Io, IoError, Memory, MemoryError, Pages};
use proptest::prelude::*;

fn memory(size: u64, pages: Pages) -> Memory {
    Memory::new(size, pages).expect("a size that a device can have")
}

fn write(device: &Memory, offset: u64, data: Vec<u8>) {
    let done = ask(device, Io::Write { offset, data: data.into(), durable: false });
    assert!(done.is_ok(), "{done:?}");
}

fn extents(device: &Memory, offset: u64, length: u64) -> Vec<Extent> {
    match ask(device, Io::Extents { offset, length }) {
        Ok(Answer::Extents(extents)) => extents,
        other => panic!("{other:?}"),
    }
}

const HOLE: bool = true;

fn extent(length: u64, hole: bool) -> Extent {
    Extent { length, hole, zero: hole }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn it_reads_like_a_plain_array(seed: u64, size in 1u64..9 << 20, huge: bool) {
        let pages = if huge { Pages::Huge } else { Pages::Small };
        agrees_with_an_array(&memory(size, pages), seed, 60);
    }
}

#[test]
fn what_is_beyond_its_end_is_refused() {
    for size in [0, 1, 512, 4096, (2 << 20) + 1, 1 << 30] {
        refuses_what_is_beyond_its_end(&memory(size, Pages::Small));
    }
}

#[test]
fn sizes_that_no_device_has_are_refused() {
    assert_eq!(Memory::new(u64::MAX, Pages::Huge).err(), Some(MemoryError::TooLarge));
    assert_eq!(memory(16 << 40, Pages::Huge).geometry().capacity, 16 << 40);
}

#[test]
fn requests_that_are_too_large_are_refused() {
    let device = memory(1 << 30, Pages::Huge);
    let buffer = vec![0; (64 << 20) + 1];
    assert_eq!(ask(&device, Io::Read { offset: 0, buffer }).err(), Some(IoError::TooLarge));
}

#[test]
fn what_was_never_written_or_was_discarded_is_a_hole() {
    let device = memory(8 << 40, Pages::Small);
    assert_eq!(extents(&device, 0, 8 << 40), [extent(8 << 40, HOLE)]);
    write(&device, (3 << 20) + 5, vec![1; 10_000]);
    let (before, used) = (3 << 20, 12_288);
    let rest = (8 << 40) - before - used;
    assert_eq!(extents(&device, 0, 8 << 40), [extent(before, HOLE), extent(used, !HOLE), extent(rest, HOLE)]);
    // The pages at both ends are discarded only in part, so they stay allocated.
    let (offset, length) = ((3 << 20) + 4000, 4096 + 200);
    assert!(ask(&device, Io::Discard { offset, length, durable: false }).is_ok());
    let parts = [extent(4096, !HOLE), extent(4096, HOLE), extent(4096, !HOLE), extent(8192, HOLE)];
    assert_eq!(extents(&device, 3 << 20, 20_480), parts);
    assert!(read(&device, offset, length as usize).iter().all(|byte| *byte == 0));
    assert_eq!(read(&device, offset - 1, 1), [1]);
    assert_eq!(read(&device, offset + length, 1), [1]);
}

#[test]
fn zeroes_that_must_stay_allocated_are_no_hole() {
    let device = memory(1 << 20, Pages::Small);
    let io = Io::WriteZeroes { offset: 0, length: 8192, durable: false, allocate: true, fast: true };
    assert!(ask(&device, io).is_ok());
    assert_eq!(extents(&device, 0, 16_384), [extent(8192, !HOLE), extent(8192, HOLE)]);
}

#[test]
fn threads_that_overlap_never_see_a_block_half_written() {
    const BLOCK: usize = 4096;
    const BLOCKS: u64 = 64;
    let device = memory(BLOCKS * BLOCK as u64, Pages::Huge);
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let device = &device;
            scope.spawn(move || {
                for step in 0..20_000u64 {
                    let offset = (step * 7 + u64::from(thread)) % BLOCKS * BLOCK as u64;
                    match thread % 2 {
                        0 => write(device, offset, vec![thread + 1; BLOCK]),
                        _ => {
                            let block = read(device, offset, BLOCK);
                            assert!(block.iter().all(|byte| *byte == block[0]), "torn at {offset}");
                        }
                    }
                }
            });
        }
    });
}
