//! A host that prepares commands while the bus is busy, compared with sums calculated by hand.

use flashlab_host::{Host, Machine};
use flashlab_sd::{CardModel, Mode};
use flashlab_sim::{Duration, FileId, Instant, Mechanism, Model, Op, Request, RequestId};

const KIB: u64 = 1 << 10;

fn machine(prepare: bool) -> Machine {
    Machine {
        modes: vec![Mode::HighSpeed, Mode::DefaultSpeed],
        bus_clock_hz: None,
        overclock: None,
        bus_width: None,
        command_max: 128 * KIB,
        t_request: Duration::from_us(40),
        t_command: Duration::from_us(60),
        t_block: Duration::from_us(1),
        t_gap: None,
        prepare: Some(prepare),
        merge: None,
        queue: None,
        stack: None,
    }
}

/// Returns the host's time in each of `count` requests of `length` bytes, all submitted at once.
fn host_times(prepare: bool, op: Op, count: u64, length: u64) -> Vec<Duration> {
    let machine = machine(prepare);
    let card = super::common::parameters(64 << 20);
    let model = CardModel::new(card.clone(), machine.link(&card.modes), 1);
    let mut host = Host::new(&machine, Box::new(model));
    for n in 0..count {
        let request = Request { id: RequestId(n), op, file: FileId::DEVICE, offset: n * length, length };
        host.submit(Instant::ZERO, request);
    }
    (0..count).map(|_| host.complete(Instant::MAX).expect("it completes").spent[Mechanism::Host]).collect()
}

#[test]
fn preparation_overlaps_with_the_transfer_of_the_previous_command() {
    let us = Duration::from_us;
    let blocks = 64 * KIB / 512;
    let whole = us(40 + 60 + blocks);
    assert_eq!(host_times(false, Op::Read, 3, 64 * KIB), [whole; 3]);
    // A read of 64 KiB takes longer than the preparation of the next one.
    assert_eq!(host_times(true, Op::Read, 3, 64 * KIB), [whole, us(60), us(60)]);
    // One block moves faster than the next command is prepared.
    let bus = Mode::HighSpeed.bus();
    let left = us(41).saturating_sub(bus.read_block() + bus.command());
    assert_eq!(host_times(true, Op::Read, 2, 512), [us(40 + 60 + 1), us(60) + left]);
}

#[test]
fn the_pieces_of_a_long_request_are_prepared_like_requests() {
    let us = Duration::from_us;
    let blocks = 128 * KIB / 512;
    assert_eq!(host_times(false, Op::Read, 1, 256 * KIB), [us(40 + 60 + 60 + 2 * blocks)]);
    assert_eq!(host_times(true, Op::Read, 1, 256 * KIB), [us(40 + 60 + 60 + blocks)]);
}

#[test]
fn a_trim_needs_no_preparation_time_per_block() {
    let us = Duration::from_us;
    for prepare in [false, true] {
        assert_eq!(host_times(prepare, Op::Trim, 1, 256 * KIB), [us(40 + 60)], "{prepare}");
    }
}

#[test]
fn a_request_after_a_power_cut_includes_no_time_of_the_interrupted_request() {
    let machine = machine(false);
    let card = super::common::parameters(64 << 20);
    let read = |length| Request { id: RequestId(0), op: Op::Read, file: FileId::DEVICE, offset: 0, length };
    let mut host = Host::new(&machine, Box::new(CardModel::new(card.clone(), machine.link(&card.modes), 1)));
    host.submit(Instant::ZERO, read(256 * KIB));
    let alone = host.complete(Instant::MAX).expect("it completes");
    // The first of two commands has ended, and the second one is in progress.
    let at = alone.at;
    host.submit(at, read(256 * KIB));
    let cut = at + Duration::from_ns(alone.spent.total().as_ns() * 3 / 4);
    assert_eq!(host.complete(cut), None);
    host.power_cut(cut);
    let up = host.power_up(cut);
    host.submit(up, read(256 * KIB));
    let done = host.complete(Instant::MAX).expect("it completes");
    assert_eq!((done.spent, done.at.since(up)), (alone.spent, alone.spent.total()));
}
