//! The file device: its data compared with a plain array, its lock, and files whose size changes.

use flashlab_block::conformance::{
    agrees_with_an_array, execute, read, rejects_requests_beyond_the_end, wait_for,
};
use flashlab_block::{
    Access, BlockDevice, Buffered, Context, File, FileError, Io, IoError, Started, Workers,
};
use flashlab_sim::Instant;
use std::path::PathBuf;
use std::sync::Arc;

/// A file of one test. Dropping this value deletes the file.
struct TempFile(PathBuf);

impl TempFile {
    fn new(test: &str) -> TempFile {
        let name = format!("{test}-{}", std::process::id());
        TempFile(PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name))
    }
    fn open(&self, size: u64, access: Access) -> Result<File, FileError> {
        File::open(&self.0, Some(size), access, false)
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn a_file_reads_like_a_plain_array() {
    for (seed, size) in [(1, 4 << 20), (2, 4096), (3, (1 << 20) + 77)] {
        let temp = TempFile::new(&format!("array-{seed}"));
        agrees_with_an_array(&temp.open(size, Access::Cached).expect("a new file"), seed, 200);
    }
    let temp = TempFile::new("beyond");
    rejects_requests_beyond_the_end(&temp.open(1 << 20, Access::Cached).expect("a new file"));
}

#[test]
fn direct_access_reads_like_a_plain_array() {
    let temp = TempFile::new("direct");
    match temp.open(4 << 20, Access::Direct) {
        Ok(device) => {
            assert_eq!(device.geometry().block, 4096);
            agrees_with_an_array(&device, 5, 200);
        }
        // Some filesystems have no O_DIRECT (EINVAL).
        Err(FileError::System { error, .. }) => assert_eq!(error.raw_os_error(), Some(22)),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn workers_read_like_a_plain_array_and_run_requests_concurrently() {
    let temp = TempFile::new("workers");
    let file = Arc::new(temp.open(4 << 20, Access::Cached).expect("a new file"));
    let device = Workers::new(file, 4).expect("there are threads");
    agrees_with_an_array(&device, 6, 300);
    rejects_requests_beyond_the_end(&device);
    let start = |io| device.start(&Context::new(Instant::ZERO), io);
    let write = |n: u64| Io::Write { offset: n * 4096, data: vec![n as u8; 4096].into(), durable: n == 99 };
    let started: Vec<Started> = (0..100).map(|n| start(write(n))).collect();
    started.into_iter().for_each(|started| assert!(wait_for(&device, started).is_ok()));
    (0..100).for_each(|n| assert_eq!(read(&device, n * 4096, 4096), [n as u8; 4096]));
    // A request completes even if its answer is dropped.
    drop(start(write(200)));
    drop(device);
    let file = File::open(&temp.0, None, Access::Cached, true).expect("the path exists");
    assert_eq!(read(&file, 200 * 4096, 4096), [200; 4096]);
}

#[test]
fn a_buffered_file_reads_like_a_plain_array_and_waits_on_other_threads() {
    let temp = TempFile::new("buffered");
    let device = Buffered::new(temp.open(4 << 20, Access::Cached).expect("a new file"));
    agrees_with_an_array(&device, 7, 300);
    rejects_requests_beyond_the_end(&device);
    let start = |io| device.start(&Context::new(Instant::ZERO), io);
    let write = |n: u64| Io::Write { offset: n * 4096, data: vec![n as u8; 4096].into(), durable: false };
    // The first write finds out whether the filesystem reports that a write would have to wait.
    wait_for(&device, start(write(0))).expect("the disk has room");
    assert!(matches!(start(write(0)), Started::Done(Ok(_))), "a write waits, although the pool is idle");
    let flush = start(Io::Flush);
    assert!(matches!(flush, Started::Pending(_)), "the flush did not go to another thread");
    let others: Vec<Started> = (1..100).map(|n| start(write(n))).collect();
    let durable = start(Io::Write { offset: 0, data: vec![0; 4096].into(), durable: true });
    assert!(matches!(durable, Started::Pending(_)), "the durable write did not go to another thread");
    for started in others.into_iter().chain([flush, durable]) {
        assert!(wait_for(&device, started).is_ok());
    }
    (0..100).for_each(|n| assert_eq!(read(&device, n * 4096, 4096), [n as u8; 4096]));
    // Data that only the disk has is read on another thread, or at once if the system keeps it in memory.
    let evicted = std::fs::File::open(&temp.0).expect("the path exists");
    rustix::fs::fadvise(&evicted, 0, None, rustix::fs::Advice::DontNeed).expect("advice");
    (0..100).for_each(|n| assert_eq!(read(&device, n * 4096, 4096), [n as u8; 4096]));
    drop(device);
    assert!(temp.open(4 << 20, Access::Cached).is_ok(), "the lock was not released");
}

#[test]
fn written_data_survives_reopening_and_an_open_file_is_locked() {
    let temp = TempFile::new("again");
    let device = temp.open(1 << 20, Access::Cached).expect("a new file");
    assert!(execute(&device, Io::Write { offset: 5000, data: vec![7; 100].into(), durable: true }).is_ok());
    assert!(matches!(temp.open(1 << 20, Access::Cached), Err(FileError::Locked(_))));
    drop(device);
    assert!(matches!(
        temp.open(2 << 20, Access::Cached),
        Err(FileError::SizeMismatch { found: 1_048_576, .. })
    ));
    let device = File::open(&temp.0, None, Access::Cached, true).expect("the path exists");
    assert_eq!(read(&device, 5000, 100), [7; 100]);
    let write = Io::Write { offset: 0, data: vec![1].into(), durable: false };
    assert_eq!(execute(&device, write).err(), Some(IoError::ReadOnly));
    let missing = |read_only| File::open(&temp.0.with_extension("no"), None, Access::Cached, read_only);
    assert!(
        matches!(missing(false), Err(FileError::NoSize(_))),
        "the file could be created, so only its size is missing"
    );
    assert!(matches!(missing(true), Err(FileError::System { .. })));
}

#[test]
fn a_shrunk_file_fails_every_request_and_stays_shrunk() {
    let requests = || {
        [
            Io::Read { offset: 900_000, buffer: vec![0; 4096] },
            Io::Extents { offset: 0, length: 1 << 20 },
            Io::Write { offset: (1 << 20) - 4, data: vec![1; 4].into(), durable: false },
            Io::WriteZeroes { offset: 0, length: 1 << 20, durable: false, allocate: false, fast: false },
            Io::Discard { offset: 0, length: 1 << 20, durable: false },
            Io::Flush,
        ]
    };
    for first in 0..requests().len() {
        let temp = TempFile::new(&format!("shrinks-{first}"));
        let device = temp.open(1 << 20, Access::Cached).expect("a new file");
        assert!(
            execute(&device, Io::Write { offset: 0, data: vec![7; 1 << 20].into(), durable: true }).is_ok()
        );
        let outside = std::fs::OpenOptions::new().write(true).open(&temp.0).expect("the path exists");
        outside.set_len(8192).expect("it can be cut");
        let request = requests().into_iter().nth(first).expect("there is one");
        assert_eq!(execute(&device, request).err(), Some(IoError::Medium), "request {first}");
        assert_eq!(outside.metadata().expect("the path exists").len(), 8192, "request {first}");
        // Extending the file again does not bring the lost bytes back.
        outside.set_len(1 << 20).expect("the disk has room");
        let read = Io::Read { offset: 0, buffer: vec![0; 512] };
        assert_eq!(execute(&device, read).err(), Some(IoError::Medium), "after request {first}");
    }
}

/// A write to the lost range makes the file longer again, with zeroes before the write.
#[test]
fn zeroes_in_place_of_lost_data_are_never_read() {
    let lost = || Io::Read { offset: 400_000, buffer: vec![0; 4096] };
    let extents = || Io::Extents { offset: 0, length: 4096 };
    type Look = fn() -> Io;
    let looks = [("read", lost as Look), ("flush", || Io::Flush), ("extents", extents)];
    let write = |offset| Io::Write { offset, data: vec![1; 4096].into(), durable: false };
    for (name, look) in looks {
        for is_buffered in [false, true] {
            let temp = TempFile::new(&format!("lost-{name}-{is_buffered}"));
            let file = temp.open(1 << 20, Access::Cached).expect("a new file");
            let device: Box<dyn BlockDevice> =
                if is_buffered { Box::new(Buffered::new(file)) } else { Box::new(file) };
            let full = Io::Write { offset: 0, data: vec![7; 1 << 20].into(), durable: false };
            assert!(execute(&*device, full).is_ok());
            assert!(execute(&*device, write(4096)).is_ok() && execute(&*device, lost()).is_ok());
            let outside = std::fs::OpenOptions::new().write(true).open(&temp.0).expect("the path exists");
            outside.set_len(8192).expect("it can be cut");
            // The first write may be answered, because it does not look at the size.
            let _ = execute(&*device, write(800_000));
            assert_eq!(execute(&*device, look()).err(), Some(IoError::Medium), "{name}, {is_buffered}");
            assert_eq!(
                execute(&*device, write(800_000)).err(),
                Some(IoError::Medium),
                "{name}, {is_buffered}"
            );
        }
    }
}

#[test]
fn a_grown_file_keeps_its_original_size() {
    let temp = TempFile::new("grows");
    let device = temp.open(1 << 20, Access::Cached).expect("a new file");
    let outside = std::fs::OpenOptions::new().write(true).open(&temp.0).expect("the path exists");
    outside.set_len(2 << 20).expect("the disk has room");
    assert_eq!(device.geometry().capacity, 1 << 20);
    rejects_requests_beyond_the_end(&device);
    assert_eq!(read(&device, 0, 512), [0; 512]);
}

#[test]
fn an_empty_file_is_an_empty_device_unless_a_size_is_given() {
    let temp = TempFile::new("empty");
    std::fs::File::create(&temp.0).expect("the disk has room");
    let device = File::open(&temp.0, None, Access::Cached, false).expect("the path exists");
    assert_eq!(device.geometry().capacity, 0);
    rejects_requests_beyond_the_end(&device);
    assert!(execute(&device, Io::Flush).is_ok());
    drop(device);
    assert_eq!(temp.open(512, Access::Cached).expect("it is made larger").geometry().capacity, 512);
}

/// A loop device of a file. Dropping this value detaches it.
struct LoopDevice(String);

impl LoopDevice {
    fn attach(file: &TempFile) -> Option<LoopDevice> {
        let mut command = std::process::Command::new("losetup");
        let output = command.args(["--find", "--show"]).arg(&file.0).output().ok()?;
        let name = String::from_utf8(output.stdout).expect("ASCII").trim().to_owned();
        output.status.success().then_some(LoopDevice(name))
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = std::process::Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

#[test]
fn a_file_below_a_loop_device_opens_read_only() {
    let temp = TempFile::new("loop");
    drop(temp.open(1 << 20, Access::Cached).expect("a new file"));
    let Some(device) = LoopDevice::attach(&temp) else {
        eprintln!("skipped: a_file_below_a_loop_device_opens_read_only: needs root and losetup");
        return;
    };
    let error = temp.open(1 << 20, Access::Cached).expect_err("the loop device has the file");
    assert!(matches!(&error, FileError::BelowLoopDevice { device: name, .. } if device.0.ends_with(name)));
    let way_out = format!("(losetup -d {})", device.0);
    assert!(error.to_string().contains(&way_out), "{error}");
    drop(File::open(&temp.0, None, Access::Cached, true).expect("readers change nothing"));
    drop(device);
    drop(temp.open(1 << 20, Access::Cached).expect("a file that is free again"));
}
