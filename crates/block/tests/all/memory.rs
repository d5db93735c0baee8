//! The memory device: its data compared with a plain array, its limits, its holes, and concurrent access.

use flashlab_block::conformance::{agrees_with_an_array, execute, read, rejects_requests_beyond_the_end};
use flashlab_block::{Answer, BlockDevice, Extent, Io, IoError, Memory, MemoryError, Pages};
use proptest::prelude::*;

fn memory(size: u64, pages: Pages) -> Memory {
    Memory::new(size, pages).expect("a size that a device can have")
}

fn write(device: &Memory, offset: u64, data: Vec<u8>) {
    let done = execute(device, Io::Write { offset, data: data.into(), durable: false });
    assert!(done.is_ok(), "{done:?}");
}

fn extents(device: &Memory, offset: u64, length: u64) -> Vec<Extent> {
    match execute(device, Io::Extents { offset, length }) {
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
    fn memory_reads_like_a_plain_array(seed: u64, size in 1u64..9 << 20, huge: bool) {
        let pages = if huge { Pages::Huge } else { Pages::Small };
        agrees_with_an_array(&memory(size, pages), seed, 60);
    }
}

#[test]
fn requests_beyond_the_end_are_rejected() {
    for size in [0, 1, 512, 4096, (2 << 20) + 1, 1 << 30] {
        rejects_requests_beyond_the_end(&memory(size, Pages::Small));
    }
}

#[test]
fn too_large_sizes_are_rejected() {
    assert_eq!(Memory::new(u64::MAX, Pages::Huge).err(), Some(MemoryError::TooLarge));
    assert_eq!(memory(16 << 40, Pages::Huge).geometry().capacity, 16 << 40);
}

#[test]
fn too_large_requests_are_rejected() {
    let device = memory(1 << 30, Pages::Huge);
    let buffer = vec![0; (64 << 20) + 1];
    assert_eq!(execute(&device, Io::Read { offset: 0, buffer }).err(), Some(IoError::TooLarge));
}

#[test]
fn unwritten_ranges_and_wholly_discarded_pages_are_holes() {
    let device = memory(8 << 40, Pages::Small);
    assert_eq!(extents(&device, 0, 8 << 40), [extent(8 << 40, HOLE)]);
    write(&device, (3 << 20) + 5, vec![1; 10_000]);
    let (before, used) = (3 << 20, 12_288);
    let rest = (8 << 40) - before - used;
    assert_eq!(extents(&device, 0, 8 << 40), [extent(before, HOLE), extent(used, !HOLE), extent(rest, HOLE)]);
    // The pages at both ends are discarded only in part, so they stay allocated.
    let (offset, length) = ((3 << 20) + 4000, 4096 + 200);
    assert!(execute(&device, Io::Discard { offset, length, durable: false }).is_ok());
    let parts = [extent(4096, !HOLE), extent(4096, HOLE), extent(4096, !HOLE), extent(8192, HOLE)];
    assert_eq!(extents(&device, 3 << 20, 20_480), parts);
    assert!(read(&device, offset, length as usize).iter().all(|byte| *byte == 0));
    assert_eq!(read(&device, offset - 1, 1), [1]);
    assert_eq!(read(&device, offset + length, 1), [1]);
}

#[test]
fn allocated_zeroes_are_not_a_hole() {
    let device = memory(1 << 20, Pages::Small);
    let io = Io::WriteZeroes { offset: 0, length: 8192, durable: false, allocate: true, fast: true };
    assert!(execute(&device, io).is_ok());
    assert_eq!(extents(&device, 0, 16_384), [extent(8192, !HOLE), extent(8192, HOLE)]);
}

#[test]
fn concurrent_reads_never_see_a_torn_block() {
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
