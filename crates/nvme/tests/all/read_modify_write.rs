//! Writes of parts of units. The drive first reads the old unit, with the time and the errors of any other
//! read.

use crate::common::{Driven, KIB, MIB, small, unreliable_cells};
use flashlab_flash::ftl::page_map::Found;
use flashlab_flash::nand::{Endurance, Reliability};
use flashlab_nvme::SsdParameters;
use flashlab_sim::{Duration, Mechanism, Model, Op, Status};

const UNIT: u64 = 4 * KIB;

/// A drive with codewords of 1,000 bits and a share of `rate` wrong bits. With 0.4, every attempt to read
/// fails. With 1e-4, a tenth of the first attempts fail, and no second attempt does.
fn unreliable(rate: f64) -> SsdParameters {
    let retry_gain = if rate > 0.1 { 1.0 } else { 1e-9 };
    let reliability = Reliability { retries_max: 2, retry_gain, ..unreliable_cells(rate) };
    SsdParameters { reliability: Some(reliability), ..small() }
}

/// Returns a drive with the units of its first 1 MiB in the array.
fn with_a_unit(parameters: SsdParameters) -> Driven {
    let mut drive = Driven::new(parameters);
    drive.one(Op::Write, 0, MIB);
    drive.one(Op::Flush, 0, 0);
    assert!(matches!(drive.ssd.layer().read(0), Found::At { .. }));
    drive
}

#[test]
fn a_partial_write_reads_the_old_unit_with_all_necessary_retries() {
    let parameters = unreliable(1e-4);
    let timing = parameters.timing;
    let attempt = timing.t_read + timing.transfer(4_096);
    let mut drive = with_a_unit(parameters);
    let mut retried = 0;
    for n in 0..200 {
        let before = drive.counter("read_retry_count");
        let part = drive.one(Op::Write, n % 250 * UNIT + 512, 512);
        let retries = drive.counter("read_retry_count") - before;
        assert_eq!(
            (part.status, part.spent[Mechanism::ReadModifyWrite]),
            (Status::Ok, attempt * (1 + retries))
        );
        drive.one(Op::Flush, 0, 0);
        retried += retries;
    }
    // Binomial: 200 trials at 1 - (1 - 1e-4)^1000.
    assert!((2..40).contains(&retried), "{retried}");
}

#[test]
fn a_partial_write_of_an_unreadable_unit_has_no_effect() {
    let mut drive = with_a_unit(unreliable(0.4));
    let place = drive.ssd.layer().read(0);
    let written = drive.counter("host_written_bytes");
    for (offset, length) in [(0, 512), (UNIT - 512, 1_024), (512, 64 * KIB)] {
        let before = drive.counter("uncorrectable_count");
        let part = drive.one(Op::Write, offset, length);
        assert_eq!(part.status, Status::Unreadable, "{offset}+{length}");
        assert!(part.spent[Mechanism::ReadModifyWrite] > Duration::ZERO, "{part:?}");
        assert!(drive.counter("uncorrectable_count") > before);
        assert_eq!(drive.ssd.layer().read(0), place, "the failed write moved the unit");
    }
    assert_eq!(drive.counter("host_written_bytes"), written);
    assert_eq!(drive.one(Op::Write, 0, UNIT).status, Status::Ok, "a write of a whole unit needs no read");
    assert_eq!(
        drive.one(Op::Write, 512, 512).status,
        Status::Ok,
        "a unit in the buffer needs no read from the array"
    );
    assert_eq!(
        drive.one(Op::Write, 40 * MIB + 512, 512).status,
        Status::Ok,
        "an unmapped unit needs no read from the array"
    );
}

/// The two commands take the same time until they request the link, except that the partial write first reads
/// its unit.
#[test]
fn the_link_transfers_data_in_the_order_of_the_requests_for_it() {
    let mut parameters = small();
    parameters.controller.t_command_write = Duration::ZERO;
    let alone = with_a_unit(parameters.clone()).one(Op::Write, 512, 512);
    let array = parameters.timing.t_read + parameters.timing.transfer(4_096);
    assert_eq!(alone.spent[Mechanism::ReadModifyWrite], array);
    let ns = Duration::from_ns;
    for (behind, is_first) in [(array - ns(1), false), (array + ns(1), true), (array + ns(400), true)] {
        let mut drive = with_a_unit(parameters.clone());
        let began = drive.now;
        drive.submit(Op::Write, 512, 512);
        drive.pause(behind);
        assert_eq!(drive.ssd.complete(drive.now), None, "the read has not ended");
        drive.submit(Op::Write, 8 * MIB, 128 * KIB);
        let part = drive.complete();
        let as_alone = part.at.since(began) == alone.spent.total();
        assert_eq!(as_alone, is_first, "{behind} behind: {part:?}");
    }
}

/// A unit that garbage collection lost stays unreadable until all of it is written or trimmed.
#[test]
fn a_lost_unit_is_readable_again_when_all_of_it_was_written() {
    // Programs fail occasionally, and the data to be moved is unreadable.
    let mut parameters = unreliable(0.4);
    parameters.page_map.endurance =
        Some(Endurance { program_fail_ppb: 20_000_000, ..Endurance::exactly(1_000) });
    let mut drive = with_a_unit(parameters);
    let lost = |drive: &Driven| (0..256).find(|unit| drive.ssd.layer().read(*unit) == Found::Unreadable);
    let mut at = 2 * MIB;
    while lost(&drive).is_none() {
        drive.one(Op::Write, at, 64 * KIB);
        at += 64 * KIB;
        assert!(at < 40 * MIB, "nothing was lost");
    }
    let unit = u64::from(lost(&drive).expect("the loop ended"));
    assert_eq!(drive.one(Op::Write, unit * UNIT + 512, 512).status, Status::Unreadable);
    assert_eq!(drive.one(Op::Read, unit * UNIT, UNIT).status, Status::Unreadable);
    assert_eq!(drive.one(Op::Write, unit * UNIT, UNIT).status, Status::Ok);
    assert_eq!(drive.one(Op::Read, unit * UNIT, UNIT).status, Status::Ok, "it is in the buffer");
}
