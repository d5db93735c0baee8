//! Reads that the model serves ahead of time end as if they were served when they arrive.

use crate::common::{Driven, KIB, MIB, suspending, unreliable_cells, us, without_firmware};
use flashlab_flash::nand::Scheduling;
use flashlab_nvme::SsdParameters;
use flashlab_sim::{Completion, Duration, Instant, Model, Op, Rng, Status};
use proptest::prelude::*;

const UNIT: u64 = 4 * KIB;

/// Returns a drive with a slow link to the host and with firmware that takes no time. If `decodes` is true,
/// the drive decodes its reads, so the model serves no read ahead of time. The decoding finds no errors.
fn drive(scheduling: Scheduling, decodes: bool) -> SsdParameters {
    let mut parameters = without_firmware();
    parameters.controller.depth = 24;
    parameters.link.t_way = us(100);
    parameters.scheduling = scheduling;
    parameters.timing.t_read_spread_ppm = 250_000;
    parameters.reliability = decodes.then(|| unreliable_cells(0.0));
    parameters
}

fn scheduling() -> impl Strategy<Value = Scheduling> {
    let reads_first = Scheduling { suspend: None, ..suspending() };
    prop_oneof![Just(Scheduling::FIRST_COME), Just(reads_first), Just(suspending())]
}

/// Consecutive requests: the gap before each in nanoseconds, its operation, and its position and length in blocks of
/// 512 bytes.
type Requests = Vec<(u64, Op, u64, u64)>;

fn requests() -> impl Strategy<Value = Requests> {
    let changes = [Op::Write, Op::Write, Op::Write, Op::WriteFua, Op::Trim, Op::Flush];
    // Most requests are reads of one unit, so that there are phases without changes. There are few distinct
    // positions.
    let read = prop_oneof![9 => Just((Op::Read, 8)), 1 => (Just(Op::Read), 1u64..64)];
    let change = (proptest::sample::select(changes.to_vec()), prop_oneof![Just(8u64), 1u64..300]);
    let what = prop_oneof![12 => read, 1 => change];
    let place = prop_oneof![3 => (0u64..100).prop_map(|unit| unit * 8), 1 => 0u64..90_000];
    let gap = prop_oneof![5 => 0u64..2_000, 3 => 0u64..100_000, 1 => 0u64..8_000_000];
    let request = (gap, what, place).prop_map(|(gap, (op, blocks), place)| (gap, op, place, blocks));
    proptest::collection::vec(request, 1..300)
}

/// Returns the completions of the requests, and counters of the work of the drive.
fn run(parameters: SsdParameters, requests: &Requests) -> (Vec<Completion>, [u64; 2]) {
    let mut drive = Driven::new(parameters);
    // The end of the drive stays unmapped. The random writes give garbage collection work to do.
    drive.fill(44 * MIB);
    let mut rng = Rng::new(1);
    (0..2_500).for_each(|_| _ = drive.one(Op::Write, rng.below(44 * MIB / UNIT) * UNIT, UNIT));
    let mut done = Vec::new();
    for (gap, op, place, blocks) in requests {
        let next = drive.now + Duration::from_ns(*gap);
        done.extend(std::iter::from_fn(|| drive.ssd.complete(next)));
        drive.now = next;
        let length = if op.is_flush() { 0 } else { blocks * 512 };
        drive.submit(*op, place * 512, length);
    }
    done.extend(std::iter::from_fn(|| drive.ssd.complete(Instant::MAX)));
    let used = ["host_read_bytes", "programmed_bytes"].map(|name| drive.counter(name));
    (done, used)
}

#[test]
fn a_drive_that_decodes_its_reads_can_fail_them() {
    let mut parameters = drive(Scheduling::FIRST_COME, true);
    parameters.reliability = Some(unreliable_cells(0.4));
    let mut drive = Driven::new(parameters);
    drive.one(Op::Write, 0, UNIT);
    drive.one(Op::Flush, 0, 0);
    assert_eq!(drive.one(Op::Read, 0, UNIT).status, Status::Unreadable);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn requests_end_as_if_no_read_were_served_ahead(scheduling in scheduling(), requests in requests()) {
        prop_assert_eq!(run(drive(scheduling, false), &requests), run(drive(scheduling, true), &requests));
    }
}
