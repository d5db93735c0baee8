//! Compares the drive with sums that are calculated by hand, and with closed forms (C1, C3,
//! C4, Q1, Q5 to Q7, Q9). Labels: docs/closed-forms.md.

use crate::common::{Driven, KIB, MIB, loading, small, us};
use flashlab_flash::ftl::page_map::map_cache::HostMemoryPolicy;
use flashlab_flash::nand::Reliability;
use flashlab_nvme::{Link, SsdParameters};
use flashlab_sim::{Duration, Instant, Mechanism, Op, Rng};

fn close(found: f64, expected: f64, percent: f64, what: &str) {
    let error = 100.0 * (found - expected) / expected;
    assert!(
        error.abs() <= percent,
        "{what}: {found:.1}, expected {expected:.1} to {percent} %, off by {error:.2} %"
    );
}

fn random_block(rng: &mut Rng, bytes: u64) -> u64 {
    rng.below(bytes / (4 * KIB)) * 4 * KIB
}

#[test]
fn at_depth_1_the_latency_of_a_read_is_the_sum_of_its_stages() {
    let parameters = small();
    let mut drive = Driven::new(parameters.clone());
    drive.one(Op::Write, 0, MIB);
    drive.pause(us(100_000));
    let link = Link::new(parameters.link);
    let done = drive.one(Op::Read, 0, 4 * KIB);
    let array = parameters.timing.t_read + parameters.timing.transfer(4_096);
    let bus = link.fetch() + link.occupy(4_096) + link.post();
    assert_eq!(done.spent.total(), bus + us(5) + array);
    assert_eq!(
        (done.spent[Mechanism::Bus], done.spent[Mechanism::Firmware], done.spent[Mechanism::Read]),
        (bus, us(5), array)
    );
    let unmapped = drive.one(Op::Read, 40 * MIB, 4 * KIB);
    assert_eq!(unmapped.spent.total(), bus + us(3), "an unmapped unit is read without the array");
}

/// The speed is that of the buffer until the buffer is full, and then that of the programs.
#[test]
fn writes_are_as_fast_as_the_buffer_until_it_is_full() {
    let mut parameters = small();
    parameters.page_map.write_buffer = 2 * MIB;
    let link = Link::new(parameters.link);
    let mut drive = Driven::new(parameters.clone());
    let first = drive.one(Op::Write, 0, 128 * KIB);
    let bus = link.fetch() + link.occupy(128 * KIB) + link.round_trip() + link.post();
    assert_eq!(first.spent.total(), bus + us(4), "the write completes before any program operation");
    assert_eq!(first.spent[Mechanism::Program], Duration::ZERO);
    // Four dies work in parallel. Each program occupies its die for a transfer of 32 KiB and 700 us. The
    // writes do not wait for the data that remains in the buffer.
    let begin = drive.now;
    for n in 1..320 {
        drive.one(Op::Write, n * 128 * KIB, 128 * KIB);
    }
    let programs = (40 * MIB - 2 * MIB) / (32 * KIB);
    let program = parameters.timing.program_mean() + parameters.timing.transfer(32 << 10);
    let expected = program * programs / 4;
    close(drive.now.since(begin).as_ns() as f64, expected.as_ns() as f64, 3.0, "40 MiB");
}

/// Little's law says: depth = throughput x mean latency. The throughput stays below the limits of link,
/// channels, dies and firmware.
#[test]
fn a_closed_loop_obeys_littles_law_and_stays_within_its_bounds() {
    for (t_command, depth) in [(us(0), 64), (us(5), 64), (us(0), 1), (us(0), 8)] {
        let mut parameters = small();
        parameters.controller.t_command = t_command;
        parameters.controller.t_command_unmapped = t_command;
        let mut drive = Driven::new(parameters.clone());
        drive.fill(32 * MIB);
        drive.pause(us(2_000_000));
        let count = 20_000;
        let (latency, time) =
            drive.closed_loop(depth, count, |rng| (Op::Read, random_block(rng, 32 * MIB), 4 * KIB));
        let rate = count as f64 / time;
        close(rate * latency, depth as f64, 0.5, "depth by Little's law");
        let die = (parameters.timing.t_read + parameters.timing.transfer(4_096)).as_ns() as f64;
        let bounds = [
            1.0 / Link::new(parameters.link).occupy(4_096).as_ns() as f64,
            2.0 / parameters.timing.transfer(4_096).as_ns() as f64,
            4.0 / die,
            1.0 / t_command.as_ns() as f64,
        ];
        let bound = bounds.into_iter().fold(f64::INFINITY, f64::min);
        assert!(rate <= bound * 1.000_1, "{rate} above {bound}");
        if depth == 64 {
            assert!(rate > 0.9 * bound, "{rate} far below {bound}: 64 requests keep the slowest part busy");
        }
    }
}

/// Calculates the mean time of a read in the firmware from the share of the map in each memory.
fn closed_form(parameters: &SsdParameters, range: u64) -> f64 {
    let map = &parameters.map;
    let pages = (range / (4 * KIB)).div_ceil(map.entries()) as f64;
    let share = |bytes: u64| ((bytes / map.page) as f64 / pages).min(1.0);
    let ns = |d: Duration| d.as_ns() as f64;
    let firmware = ns(parameters.controller.t_command);
    let (sram, lent) = (share(map.sram.expect("it is loaded")), share(parameters.lend_max));
    if parameters.lend_max == 0 {
        return firmware + (1.0 - sram) * ns(map.t_load);
    }
    firmware + ns(map.t_look) + (1.0 - sram) * ns(map.t_hmb) + (1.0 - lent.max(sram)) * ns(map.t_load)
}

/// The firmware is the only bottleneck. With many reads in flight, the mean time between completions is the
/// mean time of a read in the firmware.
#[test]
fn the_cost_of_random_reads_follows_from_the_shares_of_the_caches() {
    for (sram, lend, range) in [
        (32 * KIB, 0, 32 * MIB),
        (32 * KIB, 0, 4 * MIB),
        (32 * KIB, 0, MIB),
        (32 * KIB, 256 * KIB, 32 * MIB),
        (32 * KIB, 256 * KIB, 16 * MIB),
        (32 * KIB, 256 * KIB, 8 * MIB),
    ] {
        let mut parameters = loading(sram, lend);
        // The array is so fast that the firmware alone limits the throughput.
        parameters.timing.t_read = us(1);
        parameters.timing.channel_rate = 100_000_000_000;
        let expected = closed_form(&parameters, range);
        let mut drive = Driven::new(parameters);
        drive.fill(40 * MIB);
        drive.pause(us(2_000_000));
        for at in 0..range / MIB {
            drive.one(Op::Read, at * MIB, MIB);
        }
        let count = 60_000;
        let (_, time) = drive.closed_loop(32, count, |rng| (Op::Read, random_block(rng, range), 4 * KIB));
        close(time / count as f64, expected, 1.0, &format!("sram {sram} lent {lend} range {range}"));
    }
}

#[test]
fn at_depth_1_a_read_costs_firmware_array_link_and_its_share_of_loads() {
    for range in [8 * MIB, 32 * MIB] {
        let mut parameters = loading(4 * KIB, 256 * KIB);
        parameters.map.t_look = Duration::ZERO;
        let link = Link::new(parameters.link);
        let array = parameters.timing.t_read + parameters.timing.transfer(4_096);
        let rest = link.fetch() + array + link.occupy(4_096) + link.post();
        let expected = closed_form(&parameters, range) + rest.as_ns() as f64;
        let mut drive = Driven::new(parameters);
        drive.fill(40 * MIB);
        drive.pause(us(2_000_000));
        for at in 0..range / MIB {
            drive.one(Op::Read, at * MIB, MIB);
        }
        let (latency, _) = drive.closed_loop(1, 40_000, |rng| (Op::Read, random_block(rng, range), 4 * KIB));
        close(latency, expected, 1.0, &format!("range {range}"));
    }
}

/// A drive that loads its map on demand reads one map page for each missed look-up, and writes one map page
/// back for each dirty page that it evicts.
#[test]
fn map_reads_and_writes_follow_the_miss_ratio() {
    let mut drive = Driven::new(loading(16 * KIB, 0));
    // The drive has 192 map pages. At most 4 of them are dirty at a time.
    drive.fill(48 * MIB);
    drive.pause(us(5_000_000));
    let before = (drive.counter("map_read_count"), drive.counter("map_programmed_bytes"));
    let count = 20_000;
    drive.closed_loop(8, count, |rng| (Op::Write, random_block(rng, 48 * MIB), 4 * KIB));
    drive.pause(us(5_000_000));
    drive.one(Op::Read, 0, 4 * KIB);
    let reads = drive.counter("map_read_count") - before.0;
    let writes = (drive.counter("map_programmed_bytes") - before.1) / (4 * KIB);
    let misses = count as f64 * (1.0 - 4.0 / 192.0);
    close(reads as f64, misses, 1.0, "map reads");
    close(writes as f64, misses, 1.0, "map writes");
}

/// When host memory holds the whole map, a look-up costs nothing. After the first write, host memory is a cache again.
#[test]
fn the_whole_map_in_host_memory_is_a_table_until_something_changes() {
    let mut drive = Driven::new(loading(16 * KIB, MIB));
    drive.fill(32 * MIB);
    drive.pause(us(1_000_000));
    let (_, time) = drive.closed_loop(32, 1_000, |rng| (Op::Read, random_block(rng, 32 * MIB), 4 * KIB));
    let table = drive.one(Op::Read, 16 * MIB, 4 * KIB).spent;
    assert_eq!(table[Mechanism::Map], Duration::ZERO, "{table:?}");
    assert!(time > 0.0);
    drive.one(Op::Write, 0, 4 * KIB);
    let cached = drive.one(Op::Read, 16 * MIB, 4 * KIB).spent;
    assert_eq!(cached[Mechanism::Map], Duration::from_ns(1_700 + 4_600));
    let lost = drive.one(Op::Read, 0, 8 * KIB).spent;
    assert_eq!(lost[Mechanism::Map], Duration::ZERO, "the changed page is in the drive");
    // After the drive has written the change back, it loads the page into host memory again.
    drive.pause(us(1_000_000));
    assert_eq!(drive.one(Op::Read, 0, 4 * KIB).spent[Mechanism::Map], Duration::ZERO);
}

#[test]
fn a_table_that_is_updated_in_place_survives_writes() {
    let mut parameters = loading(16 * KIB, MIB);
    parameters.map.policy = HostMemoryPolicy::DirectTable;
    let mut drive = Driven::new(parameters);
    drive.fill(32 * MIB);
    drive.pause(us(1_000_000));
    drive.one(Op::Write, 0, 4 * KIB);
    assert_eq!(drive.one(Op::Read, 16 * MIB, 4 * KIB).spent[Mechanism::Map], Duration::ZERO);
}

#[test]
fn host_memory_makes_no_difference_to_random_writes() {
    let rate = |lend| {
        let mut drive = Driven::new(loading(16 * KIB, lend));
        drive.fill(48 * MIB);
        drive.one(Op::Trim, 0, 48 * MIB);
        drive.pause(us(10_000_000));
        let count = 10_000;
        let (_, time) = drive.closed_loop(32, count, |rng| (Op::Write, random_block(rng, 32 * MIB), 4 * KIB));
        count as f64 / time
    };
    let without = rate(0);
    close(rate(256 * KIB), without, 0.1, "some");
    close(rate(MIB), without, 0.1, "all");
}

/// Two requests that need the same map page wait for one load. Other requests proceed.
#[test]
fn loads_beside_the_firmware_do_not_delay_other_requests() {
    let mut parameters = loading(16 * KIB, 0);
    parameters.map.blocking = false;
    parameters.map.loaders = 2;
    let mut drive = Driven::new(parameters);
    drive.fill(32 * MIB);
    drive.pause(us(1_000_000));
    drive.one(Op::Read, 0, 4 * KIB);
    let loads = drive.counter("map_read_count");
    // The second and the third request use the same map page of 256 KiB. The map page of the fourth is
    // already loaded.
    for offset in [8 * MIB, 16 * MIB, 16 * MIB + 64 * KIB, 0] {
        drive.submit(Op::Read, offset, 4 * KIB);
    }
    let order: Vec<u64> = (0..4).map(|_| drive.complete().spent[Mechanism::Map].as_ns() / 1_000).collect();
    assert_eq!(
        drive.counter("map_read_count") - loads,
        2,
        "one load for 8 MiB, one for 16 MiB, none for 0; {order:?}"
    );
    assert_eq!(order[0], 0, "the request with a loaded map page is first: {order:?}");
}

#[test]
fn trimmed_data_is_answered_without_the_array_and_without_a_load() {
    let mut drive = Driven::new(loading(16 * KIB, 0));
    drive.fill(32 * MIB);
    drive.one(Op::Trim, 0, 48 * MIB);
    drive.pause(us(1_000_000));
    let loads = drive.counter("map_read_count");
    let done = drive.one(Op::Read, 16 * MIB, 64 * KIB);
    assert_eq!((done.spent[Mechanism::Read], done.spent[Mechanism::Map]), (Duration::ZERO, Duration::ZERO));
    assert_eq!(done.spent[Mechanism::Firmware], us(3));
    assert_eq!(drive.counter("map_read_count"), loads);
}

#[test]
fn a_flush_waits_for_programs_and_a_partial_write_reads_first() {
    let mut drive = Driven::new(small());
    drive.one(Op::Write, 0, 64 * KIB);
    let flush = drive.one(Op::Flush, 0, 0);
    assert!(flush.spent[Mechanism::Program] >= us(300), "{flush:?}");
    assert_eq!(drive.one(Op::Flush, 0, 0).spent[Mechanism::Program], Duration::ZERO, "all is durable");
    let part = drive.one(Op::Write, 512, 1_024);
    let array = small().timing.t_read + small().timing.transfer(4_096);
    assert_eq!(part.spent[Mechanism::ReadModifyWrite], array);
    let whole = drive.one(Op::Write, 4 * KIB, 4 * KIB);
    assert_eq!(whole.spent[Mechanism::ReadModifyWrite], Duration::ZERO);
}

/// An FUA write takes the time of one program, even if a trim and a write on another die are not yet durable.
#[test]
fn a_write_with_fua_takes_the_time_of_its_own_program() {
    let parameters = small();
    let page = |n| parameters.timing.transfer(32 << 10) + parameters.timing.program(n, false);
    let mut drive = Driven::new(parameters.clone());
    let first = drive.one(Op::WriteFua, 0, 4 * KIB);
    assert_eq!(first.spent[Mechanism::Program], page(0));
    drive.one(Op::Write, MIB, 4 * KIB);
    drive.one(Op::Trim, 0, 4 * KIB);
    let second = drive.one(Op::WriteFua, 2 * MIB, 4 * KIB);
    assert_eq!(second.spent[Mechanism::Program], page(0), "the next die");
    // Only the record of the trim remains to be programmed.
    assert_eq!(drive.one(Op::Flush, 0, 0).spent[Mechanism::Program], page(0));
    assert_eq!(
        drive.one(Op::WriteFua, 2 * MIB, 4 * KIB).spent[Mechanism::Program],
        page(0),
        "each FUA write takes a program of its own"
    );
}

#[test]
fn a_restored_drive_continues_as_the_original() {
    use flashlab_sim::Model;
    let mut drive = Driven::new(loading(16 * KIB, 256 * KIB));
    drive.fill(24 * MIB);
    drive.pause(us(1_000_000));
    let state = drive.ssd.save().expect("it can be kept");
    let mut again = Driven::new(loading(16 * KIB, 256 * KIB));
    again.ssd.restore(&state).expect("of the same parameters");
    assert_eq!(again.counter("host_written_bytes"), 24 * MIB);
    assert_eq!(again.now, Instant::ZERO);
    let read = again.one(Op::Read, 8 * MIB, 4 * KIB);
    assert!(read.spent[Mechanism::Read] > Duration::ZERO, "it is mapped");
    let mut other = Driven::new(loading(32 * KIB, 256 * KIB));
    assert!(other.ssd.restore(&state).expect_err("other parameters").why.contains("other parameters"));
    assert!(other.ssd.restore(&state[..100]).is_err());
}

/// Fresh pages need practically no read retries. Pages that are a million seconds old need a measurable
/// number of them.
#[test]
fn data_in_a_restored_drive_keeps_its_age() {
    use flashlab_sim::Model;
    let mut parameters = small();
    let doubling = us(1_000_000);
    let reliability = Reliability {
        fresh: 0.0,
        worn: 1e-9,
        cycles_exponent: 0.01,
        doubling,
        age_exponent: 1.0,
        codeword_bits: 1_000,
        correctable: 0,
        codewords: 1,
        retries_max: 1,
        retry_gain: 1.0,
    };
    parameters.reliability = Some(reliability);
    let retries = |drive: &mut Driven| {
        let before = drive.counter("read_retry_count");
        drive.closed_loop(1, 1_000, |rng| (Op::Read, random_block(rng, 48 * MIB), 4 * KIB));
        drive.counter("read_retry_count") - before
    };
    let mut drive = Driven::new(parameters.clone());
    // After four fills, every block has been erased.
    (0..4).for_each(|_| drive.fill(48 * MIB));
    assert_eq!(retries(&mut drive), 0, "it is fresh");
    let kept_fresh = drive.ssd.save().expect("it can be kept");
    drive.pause(doubling * 500_000);
    drive.one(Op::Read, 0, 4 * KIB);
    let kept = drive.ssd.save().expect("it can be kept");
    let again = |state: &[u8], off| {
        let mut drive = Driven::new(parameters.clone());
        drive.ssd.restore(state).expect("of the same parameters");
        drive.ssd.age_without_power(off);
        retries(&mut drive)
    };
    let expected = |seconds| {
        let rate = reliability.raw_bit_error_rate(1, doubling * seconds);
        1_000.0 * reliability.page_failure(rate)
    };
    let age = |found: u64, seconds: u64| {
        // The number of retries has a binomial distribution. The test accepts four standard deviations.
        let mean: f64 = expected(seconds);
        let off = (found as f64 - mean).abs() / (mean * (1.0 - mean / 1_000.0)).sqrt();
        assert!(off < 4.0, "{found} retries in 1000 reads, expected {mean}");
    };
    assert_eq!(again(&kept_fresh, Duration::ZERO), 0);
    age(again(&kept, Duration::ZERO), 500_000);
    age(again(&kept, doubling * 500_000), 1_000_000);
    age(again(&kept_fresh, doubling * 1_000_000), 1_000_000);
}

/// If the dies are the bottleneck, the rate of steady random writes follows from the time of programs, moves
/// and erases. Units are whole pages, so that a move takes one read.
#[test]
fn the_dies_limit_the_rate_of_steady_random_writes() {
    let mut parameters = small();
    parameters.page_map.geometry.planes = 1;
    parameters.page_map.geometry.page = 4 * KIB;
    parameters.page_map.geometry.blocks = 128;
    parameters.page_map.geometry.pages = 64;
    parameters.page_map.capacity = 100 * MIB;
    parameters.page_map.idle_free = 0;
    parameters.page_map.write_buffer = 512 * KIB;
    parameters.timing.channel_rate = 100_000_000_000;
    parameters.timing.t_command = Duration::ZERO;
    parameters.controller.t_command_write = Duration::ZERO;
    parameters.controller.depth = 1_024;
    let timing = parameters.timing;
    let mut drive = Driven::new(parameters);
    drive.fill(100 * MIB);
    let random = |rng: &mut Rng| (Op::Write, random_block(rng, 100 * MIB), 4 * KIB);
    drive.closed_loop(256, 60_000, random);
    let before = (drive.counter("programmed_bytes"), drive.counter("collection_moved_bytes"));
    let erases = |drive: &Driven| drive.ssd.layer().blocks().erases();
    let erased = erases(&drive);
    let mut rng = Rng::new(77);
    let count = 60_000;
    let (_, time) = drive.closed_loop(256, count, |_| random(&mut rng));
    let programs = (drive.counter("programmed_bytes") - before.0) as f64 / (4 * KIB) as f64;
    let moves = (drive.counter("collection_moved_bytes") - before.1) as f64 / (4 * KIB) as f64;
    let ns = |d: Duration| d.as_ns() as f64;
    let busy = programs * ns(timing.program_mean())
        + moves * ns(timing.t_read)
        + (erases(&drive) - erased) as f64 * ns(timing.t_bers);
    let amplification = programs / count as f64;
    assert!((1.5..4.0).contains(&amplification), "{amplification}");
    close(count as f64 / time, count as f64 / (busy / 4.0), 3.0, "writes a nanosecond");
}
