//! The requests of the vfat model compared with those of Linux 6.1 in a recorded run (fio 3.33, vfat with 16 KiB
//! clusters on a whole disk, direct I/O on a file of 256 MiB; /sys/block/DEV/stat after each step):
//!
//! | step | reads | writes | sectors written |
//! |---|---|---|---|
//! | layout (fallocate) and first sequential write | 128 | 1135 | 1048926 |
//! | second sequential write | 0 | 514 | 524289 |
//! | sequential read | 512 | 0 | 0 |
//! | 2,000 random writes | 0 | 2002 | 16001 |
//! | remove | 0 | 5 | 261 |
//!
//! Linux counts a flush as a write of no sectors.

use flashlab_host::fs::vfat::Vfat;
use flashlab_host::fs::{Allocate, Filesystem};
use flashlab_host::{Host, Machine, VfatParameters};
use flashlab_sd::Mode;
use flashlab_sim::{
    Completion, Duration, FileId, Geometry, Instant, Mechanism, Model, Op, PowerCut, Request, RequestId, Rng,
    Spent, Status, conformance,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

const SECTOR: u64 = 512;
const MIB: u64 = 1 << 20;

/// A device that takes 100 us for each request, serves one at a time, and records its requests.
#[derive(Clone)]
struct Recorder {
    capacity: u64,
    log: Arc<Mutex<Vec<(Instant, Request)>>>,
    served: Vec<Completion>,
    free: Instant,
    is_read_only: Arc<AtomicBool>,
}

impl Recorder {
    fn new(capacity: u64) -> Self {
        Recorder {
            capacity,
            log: Arc::default(),
            served: Vec::new(),
            free: Instant::ZERO,
            is_read_only: Arc::default(),
        }
    }
}

impl Model for Recorder {
    fn geometry(&self) -> Geometry {
        Geometry { capacity: self.capacity, block: SECTOR, request_max: 32 * MIB }
    }
    fn submit(&mut self, now: Instant, request: Request) {
        self.log.lock().expect("one thread").push((now, request));
        let start = self.free.max(now);
        let mut spent = Spent::default();
        spent[Mechanism::Queue] = start.since(now);
        let status = match request.op {
            _ if !self.geometry().admits(&request) => Status::OutOfRange,
            Op::Write if self.is_read_only.load(Ordering::Relaxed) => Status::ReadOnly,
            _ => Status::Ok,
        };
        spent[Mechanism::Bus] = Duration::from_us(100);
        self.free = start + Duration::from_us(100);
        self.served.push(Completion { id: request.id, at: self.free, status, spent });
    }
    fn next_due(&self) -> Option<Instant> {
        self.served.first().map(|c| c.at)
    }
    fn complete(&mut self, limit: Instant) -> Option<Completion> {
        (self.served.first()?.at <= limit).then(|| self.served.remove(0))
    }
    fn power_cut(&mut self, _: Instant) -> PowerCut {
        self.served.clear();
        PowerCut::default()
    }
    fn power_up(&mut self, now: Instant) -> Instant {
        now
    }
}

/// Returns (reads, writes including flushes, sectors written) since the last call.
fn counted(log: &Mutex<Vec<(Instant, Request)>>) -> (usize, usize, u64) {
    let log = std::mem::take(&mut *log.lock().expect("one thread"));
    let reads = log.iter().filter(|(_, r)| r.op == Op::Read).count();
    let writes = log.iter().filter(|(_, r)| matches!(r.op, Op::Write | Op::Flush)).count();
    let sectors = log.iter().filter(|(_, r)| r.op == Op::Write).map(|(_, r)| r.length / SECTOR).sum();
    (reads, writes, sectors)
}

fn parameters() -> VfatParameters {
    VfatParameters {
        cluster: 16 << 10,
        partition_start: 0,
        align: 16 << 10,
        write_back: Duration::from_secs(30),
        t_unexplained: Duration::from_us(159),
    }
}

/// A machine whose software takes no time, and that sends at most 512 KiB per request, like the recorded one.
fn machine() -> Machine {
    Machine {
        modes: vec![Mode::Ddr50, Mode::DefaultSpeed],
        bus_clock_hz: None,
        overclock: None,
        bus_width: None,
        command_max: 512 << 10,
        t_request: Duration::ZERO,
        t_command: Duration::ZERO,
        t_block: Duration::ZERO,
        t_gap: None,
        prepare: None,
        merge: None,
        queue: None,
        stack: None,
    }
}

struct Bench {
    vfat: Vfat,
    log: Arc<Mutex<Vec<(Instant, Request)>>>,
    now: Instant,
}

impl Bench {
    fn new() -> Self {
        let recorder = Recorder::new(600 * MIB);
        let log = recorder.log.clone();
        let device = Box::new(Host::new(&machine(), Box::new(recorder)));
        let (vfat, now) = Vfat::format(parameters(), device, Instant::ZERO).expect("room for FAT32");
        counted(&log);
        Bench { vfat, log, now }
    }
    fn create(&mut self, bytes: u64, allocate: Allocate) {
        self.now = self.vfat.create(self.now, FileId::DEVICE, bytes, allocate).expect("room for the file");
    }
    fn one(&mut self, op: Op, offset: u64, length: u64) -> Completion {
        self.vfat.submit(self.now, Request { id: RequestId(1), op, file: FileId::DEVICE, offset, length });
        let done = self.vfat.complete(Instant::MAX).expect("it completes");
        assert_eq!(done.spent.total(), done.at.since(self.now));
        self.now = done.at;
        done
    }
    fn sequential(&mut self, op: Op) {
        for at in (0..256 * MIB).step_by(MIB as usize) {
            assert_eq!(self.one(op, at, MIB).status, Status::Ok);
        }
    }
    fn fsync(&mut self) {
        self.one(Op::Flush, 0, 0);
    }
}

#[test]
fn a_new_file_is_filled_with_zeros_before_the_timed_window() {
    let mut bench = Bench::new();
    bench.create(256 * MIB, Allocate::Zeroed);
    let (reads, writes, sectors) = counted(&bench.log);
    // The FAT entries of 16,384 clusters fill 128 sectors, which are read one by one. There are 129 sectors
    // if the first entry lies inside a sector.
    assert!((128..=129).contains(&reads), "{reads}");
    // 512 requests of zeroes. Linux wrote the metadata in 111 pieces of 350 sectors in total; the model merges them.
    assert!((515..=520).contains(&writes), "{writes}");
    assert!((524_288 + 258..=524_288 + 350).contains(&sectors), "{sectors}");
}

#[test]
fn direct_writes_inside_a_file_send_only_data_and_fsync_sends_one_sector_and_a_flush() {
    let mut bench = Bench::new();
    bench.create(256 * MIB, Allocate::Zeroed);
    counted(&bench.log);
    bench.sequential(Op::Write);
    bench.fsync();
    assert_eq!(counted(&bench.log), (0, 514, 524_289), "two requests a MiB, one sector, a flush");

    bench.sequential(Op::Read);
    assert_eq!(counted(&bench.log), (512, 0, 0));

    let mut rng = Rng::new(1);
    for _ in 0..2_000 {
        bench.one(Op::Write, rng.below(65_536) * 4_096, 4_096);
    }
    bench.fsync();
    assert_eq!(counted(&bench.log), (0, 2_002, 16_001));
}

#[test]
fn fdatasync_writes_a_new_size_but_not_a_time_stamp_alone() {
    let mut bench = Bench::new();
    bench.create(256 * MIB, Allocate::Zeroed);
    counted(&bench.log);
    bench.one(Op::Write, 0, 4_096);
    bench.one(Op::FlushData, 0, 0);
    assert_eq!(counted(&bench.log), (0, 2, 8), "the data and a flush");
    bench.one(Op::Write, 256 * MIB, 4_096);
    bench.one(Op::FlushData, 0, 0);
    let (_, writes, sectors) = counted(&bench.log);
    assert_eq!((writes, sectors), (6, 12), "data, both FATs, FSINFO, the entry and a flush");
}

#[test]
fn without_fallocate_a_write_far_into_the_file_first_fills_the_hole() {
    let mut bench = Bench::new();
    bench.create(0, Allocate::Nothing);
    counted(&bench.log);
    let done = bench.one(Op::Write, 200 * MIB, 4_096);
    assert_eq!(done.status, Status::Ok);
    let (_, writes, sectors) = counted(&bench.log);
    assert_eq!((writes, sectors), (401, 200 * MIB / SECTOR + 8));
    assert_eq!(bench.vfat.size(FileId::DEVICE), Some(200 * MIB + 4_096));
}

#[test]
fn a_changed_time_stamp_is_written_back_after_thirty_seconds() {
    let mut bench = Bench::new();
    bench.create(256 * MIB, Allocate::Zeroed);
    counted(&bench.log);
    let begin = bench.now;
    while bench.now < begin + Duration::from_secs(62) {
        bench.one(Op::Write, 0, 4_096);
        bench.now += Duration::from_ms(5);
    }
    let log = std::mem::take(&mut *bench.log.lock().expect("one thread"));
    let stamps: Vec<Instant> = log.iter().filter(|(_, r)| r.length == SECTOR).map(|(at, _)| *at).collect();
    assert_eq!(stamps.len(), 2, "about twice in a minute");
    assert!(stamps[0] >= begin + Duration::from_secs(30));
}

#[test]
fn removing_a_file_writes_both_fats_and_the_entry_and_no_data() {
    let mut bench = Bench::new();
    bench.create(256 * MIB, Allocate::Zeroed);
    counted(&bench.log);
    bench.now = bench.vfat.remove(bench.now, FileId::DEVICE);
    let (reads, writes, sectors) = counted(&bench.log);
    assert_eq!(reads, 0);
    assert!((3..=5).contains(&writes), "{writes}");
    assert!((258..=263).contains(&sectors), "{sectors}");
    assert_eq!(bench.one(Op::Read, 0, 4_096).status, Status::OutOfRange);
}

#[test]
fn writes_take_the_unexplained_time_for_each_cluster_and_reads_do_not() {
    let mut bench = Bench::new();
    bench.create(256 * MIB, Allocate::Zeroed);
    assert_eq!(bench.one(Op::Write, 0, MIB).spent[Mechanism::Host], Duration::from_us(159 * 64));
    assert_eq!(bench.one(Op::Write, 8_192, 16_384).spent[Mechanism::Host], Duration::from_us(159 * 2));
    assert_eq!(bench.one(Op::Read, 0, MIB).spent[Mechanism::Host], Duration::ZERO);
}

#[test]
fn a_flush_reports_the_failed_writes_of_the_filesystem_once() {
    let recorder = Recorder::new(600 * MIB);
    let is_read_only = recorder.is_read_only.clone();
    let (mut vfat, mut now) =
        Vfat::format(parameters(), Box::new(recorder), Instant::ZERO).expect("room for FAT32");
    is_read_only.store(true, Ordering::Relaxed);
    now = vfat.create(now, FileId::DEVICE, MIB, Allocate::Zeroed).expect("there is room");
    is_read_only.store(false, Ordering::Relaxed);
    let mut flush = || {
        let flush = Request { id: RequestId(1), op: Op::Flush, file: FileId::DEVICE, offset: 0, length: 0 };
        vfat.submit(now, flush);
        let done = vfat.complete(Instant::MAX).expect("it completes");
        now = done.at;
        done.status
    };
    assert_eq!([flush(), flush()], [Status::ReadOnly, Status::Ok]);
}

#[test]
fn a_file_that_does_not_fit_is_rejected_with_the_largest_size() {
    let mut bench = Bench::new();
    let error =
        bench.vfat.create(bench.now, FileId::DEVICE, 601 * MIB, Allocate::Zeroed).expect_err("too large");
    assert!(error.most < 600 * MIB && error.most > 590 * MIB, "{error}");
}

#[test]
fn vfat_over_a_host_meets_the_contract_of_a_model() {
    for seed in 0..20 {
        let make = || -> Box<dyn Model> {
            let device = Box::new(Host::new(&machine(), Box::new(Recorder::new(64 * MIB))));
            let (mut vfat, now) = Vfat::format(parameters(), device, Instant::ZERO).expect("room");
            // The whole volume is one file, so no file can grow.
            let most = vfat.create(now, FileId::DEVICE, u64::MAX, Allocate::Zeroed).expect_err("all").most;
            vfat.create(now, FileId::DEVICE, most, Allocate::Zeroed).expect("exactly what is free");
            Box::new(Reset(vfat))
        };
        conformance::check(&make, seed);
    }
}

/// A volume whose clock starts after the layout, because conformance tests start at instant zero. Shifts all instants.
#[derive(Clone)]
struct Reset(Vfat);

impl Reset {
    const LAYOUT: Duration = Duration::from_secs(1_000);
}

impl Model for Reset {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }
    fn submit(&mut self, now: Instant, request: Request) {
        self.0.submit(now + Reset::LAYOUT, request);
    }
    fn next_due(&self) -> Option<Instant> {
        self.0.next_due().map(|at| Instant::ZERO + at.saturating_since(Instant::ZERO + Reset::LAYOUT))
    }
    fn complete(&mut self, limit: Instant) -> Option<Completion> {
        let done = self.0.complete(limit.saturating_add(Reset::LAYOUT))?;
        Some(Completion { at: Instant::ZERO + done.at.since(Instant::ZERO + Reset::LAYOUT), ..done })
    }
    fn power_cut(&mut self, now: Instant) -> PowerCut {
        self.0.power_cut(now + Reset::LAYOUT)
    }
    fn power_up(&mut self, now: Instant) -> Instant {
        Instant::ZERO + self.0.power_up(now + Reset::LAYOUT).since(Instant::ZERO + Reset::LAYOUT)
    }
}
