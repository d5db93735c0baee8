//! Compares the requests of the vfat model with those of a real kernel.
//!
//! `flashlab record --fs vfat --fio vfat/JOB.fio --latency 1ms` made the recordings.
//! experiments/filesystems/README.md lists the differences.

use crate::buffered::compare::{Logged, Run};
use flashlab_catalogue::device::Filesystem;
use flashlab_catalogue::library::Library;
use flashlab_sim::Op;

/// First byte of the first file, on the volume that mkfs.fat made and on the volume of the model. The FATs of
/// the model are a sector longer.
const RECORDED_FILE: u64 = 1_069_056;
const MODELLED_FILE: u64 = 1_073_152;

/// Requests of a run, apart from their times.
struct Requests {
    /// Operation, offset in the file, and length.
    data: Vec<(Op, u64, u64)>,
    /// Sectors of the FAT that were read.
    fat_reads: Vec<u64>,
    metadata_writes: usize,
    flushes: usize,
}

impl Requests {
    fn new(requests: &[Logged], file: u64) -> Requests {
        let of_data = requests.iter().filter(|r| r.2 >= file);
        let of_metadata = |wanted: Op| requests.iter().filter(move |r| r.2 < file && r.1 == wanted);
        Requests {
            data: of_data.map(|(_, op, offset, length)| (*op, offset - file, *length)).collect(),
            fat_reads: of_metadata(Op::Read).map(|r| r.2 / 512 - 32).collect(),
            metadata_writes: of_metadata(Op::Write).count(),
            flushes: of_metadata(Op::Flush).count(),
        }
    }
}

/// Returns the recorded requests, and the requests of the model. The volume of the model resembles the volume
/// that mkfs.fat makes on 512 MiB.
fn both(recording: &[u8]) -> (Requests, Requests) {
    let run = Run::read(recording);
    let library = Library::built_in().expect("the repository's own library");
    let vfat = Filesystem::open("vfat:cluster=4KiB,partition_start=0,align=4KiB", &library).unwrap();
    let simulated = run.simulate_on(&vfat.parameters);
    // The directory lies between the FATs and the file.
    (Requests::new(&run.requests, RECORDED_FILE), Requests::new(&simulated, MODELLED_FILE))
}

#[test]
fn data_and_reads_of_the_fat_are_those_of_linux() {
    for (name, recording) in [
        ("sequential write", include_bytes!("vfat/seq.rec").as_slice()),
        ("sequential read", include_bytes!("vfat/read.rec")),
    ] {
        let (recorded, simulated) = both(recording);
        assert_eq!(recorded.data, simulated.data, "{name}");
        // Linux has had the first sector of the FAT in its cache since the mount.
        assert_eq!(simulated.fat_reads[0], 0, "{name}");
        assert_eq!(recorded.fat_reads, simulated.fat_reads[1..], "{name}");
    }
}

#[test]
fn a_new_file_costs_two_more_metadata_writes_than_in_linux() {
    // fsync writes the directory entry and both FATs. The model also writes the entry when it creates the
    // file, and FSINFO. Linux writes nothing when it creates the file, and writes FSINFO at the unmount.
    let (recorded, simulated) = both(include_bytes!("vfat/seq.rec"));
    assert_eq!((recorded.metadata_writes, simulated.metadata_writes), (3, 5));
    assert_eq!((recorded.flushes, simulated.flushes), (1, 1));
}

#[test]
fn random_writes_follow_the_same_layout_and_flush_as_often() {
    let (recorded, simulated) = both(include_bytes!("vfat/rand.rec"));
    assert_eq!(recorded.data[..32], simulated.data[..32], "the layout of 16 MiB in requests of 512 KiB");
    let random =
        |requests: &Requests| requests.data[32..].iter().filter(|r| (r.0, r.2) == (Op::Write, 4096)).count();
    assert_eq!((random(&recorded), random(&simulated)), (128, 128));
    // A flush follows every 16th of the 128 writes except the last.
    assert_eq!((recorded.flushes, simulated.flushes), (7, 7));
}
