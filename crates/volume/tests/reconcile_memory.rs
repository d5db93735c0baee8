//! The memory that background work takes. The test is alone in its process, so that no other memory counts.

#![allow(unsafe_code, reason = "GlobalAlloc is an unsafe trait; the system allocator does all of the work")]

use flashlab_block::{BlockDevice, Context, Executor, Io, Memory, Pages, Started};
use flashlab_sim::Instant;
use flashlab_volume::{Change, NewMember, OpenOptions, Options, Targets, Volume};
use futures_util::FutureExt;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts the bytes that were requested and released.
struct Counting {
    requested: AtomicU64,
    released: AtomicU64,
}

#[global_allocator]
static MEMORY: Counting = Counting { requested: AtomicU64::new(0), released: AtomicU64::new(0) };

// SAFETY: every call goes to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.requested.fetch_add(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the caller gives the guarantees that this call requires.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        self.released.fetch_add(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the caller gives the guarantees that this call requires.
        unsafe { System.dealloc(pointer, layout) }
    }
}

impl Counting {
    fn requested(&self) -> u64 {
        self.requested.load(Ordering::Relaxed)
    }

    fn in_use(&self) -> u64 {
        self.requested().saturating_sub(self.released.load(Ordering::Relaxed))
    }
}

/// Logical bytes of an extent.
const EXTENT: u64 = 512;

/// Runs a future on an executor of its own.
fn run<T, F>(future: impl FnOnce(Context) -> F) -> T
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let mut executor = Executor::new(1);
    let cx = executor.context();
    executor.block_on(future(cx))
}

/// Creates a volume with extents of one block on the member `ssd`, which have to move to the member `hdd`.
fn volume_with_work(extents: u64) -> Volume {
    let size = 2 * extents * EXTENT + (16 << 20);
    let device = || Arc::new(Memory::new(size, Pages::Small).expect("a size that a device can have"));
    let member = |label: &str| NewMember { label: label.to_owned(), ..NewMember::new(device()) };
    let members = ["ssd", "hdd"].map(member);
    let devices: Vec<Arc<dyn BlockDevice>> = members.iter().map(|member| member.device.clone()).collect();
    let targets = Targets { foreground: "ssd".into(), ..Targets::default() };
    let options = Options { block: 512, bucket: 256 << 10, targets, ..Options::new([7; 16]) };
    let volume = run(|cx| async move {
        Volume::format(&cx, &members, &options).await.expect("devices of the right size");
        Volume::open(&cx, &devices, OpenOptions::default()).await.expect("a new volume")
    });
    let cx = Context::new(Instant::ZERO);
    for n in 0..extents {
        let write = Io::Write { offset: n * EXTENT, data: vec![1; EXTENT as usize].into(), durable: false };
        assert!(matches!(volume.start(&cx, write), Started::Done(Ok(_))), "write {n}");
    }
    let changing = volume.clone();
    let change = Change { background: Some("hdd".into()), ..Change::default() };
    run(|cx| async move { changing.set(&cx, &change).await }).expect("an option");
    volume
}

/// Returns the memory of the work in bytes for each extent of the map: the memory in use when the first
/// extent has moved, and the memory requested until all extents have moved.
fn memory_of_work(extents: u64) -> (f64, f64) {
    let volume = volume_with_work(extents);
    let (cx, requested, in_use) = (Context::new(Instant::ZERO), MEMORY.requested(), MEMORY.in_use());
    let (mut at_first, mut steps) = (0, 0);
    let done = volume.reconcile(&cx, 0, |_| {
        steps += 1;
        if steps == 1 {
            at_first = MEMORY.in_use() - in_use;
        }
        true
    });
    let done = done.now_or_never().expect("memory answers at once");
    assert_eq!(done.expect("devices that work").moved_bytes, extents * EXTENT);
    let all = MEMORY.requested() - requested;
    (at_first as f64 / extents as f64, all as f64 / extents as f64)
}

#[test]
fn the_memory_for_an_extent_does_not_grow_with_the_map() {
    let (_, of_small) = memory_of_work(8 << 10);
    let (at_first, of_large) = memory_of_work(64 << 10);
    assert!(at_first < 16.0, "{at_first} bytes for each extent of the map are in use at the first one");
    assert!(
        of_large < 1.5 * of_small,
        "{of_small} bytes for each of 8 Ki extents, {of_large} for each of 64 Ki"
    );
}
