//! Compares the volatile cache of the timed card with sums that are calculated by hand. The drain of a page
//! takes a program of 600 us and a commit of 250 us.

use crate::mechanisms::{Bench, KIB, MIB, parameters, us, write_bus};
use flashlab_flash::ftl::card::Overwrite;
use flashlab_sd::{CardParameters, Mode};
use flashlab_sim::{Duration, Instant, Mechanism, Model, Observer, Op, Status};

fn cached(size: u64) -> CardParameters {
    let mut parameters = parameters(Overwrite::Convert);
    parameters.refinements.cache = Some(size);
    parameters
}

/// Returns the bytes that the host has written and those that the array has programmed.
fn written_and_programmed(card: &impl Model) -> (u64, u64) {
    struct Counters(u64, u64);
    impl Observer for Counters {
        fn count(&mut self, name: &'static str, value: u64) {
            match name {
                "host_written_bytes" => self.0 = value,
                "programmed_bytes" => self.1 = value,
                _ => {}
            }
        }
    }
    let mut counters = Counters(0, 0);
    card.observe(&mut counters);
    (counters.0, counters.1)
}

/// Returns the time of the commands of a flush.
fn flush_bus() -> Duration {
    let bus = Mode::Ddr50.bus();
    bus.command() * 2 + bus.write_block() + bus.read_block()
}

#[test]
fn a_write_takes_only_the_time_of_the_bus_while_the_cache_has_room() {
    let mut card = Bench::new(&cached(64 * KIB));
    for n in 0..8 {
        let done = card.run(Op::Write, n * MIB, 4 * KIB);
        assert_eq!(done.spent.total(), write_bus(4 * KIB), "write {n}");
        assert_eq!(done.spent[Mechanism::Bus], write_bus(4 * KIB));
    }
}

#[test]
fn the_processor_adds_its_time_to_each_write_while_the_cache_drains() {
    let mut parameters = cached(64 * KIB);
    parameters.refinements.t_command_write = Some(us(700));
    let mut card = Bench::new(&parameters);
    for n in 0..40 {
        let done = card.run(Op::Write, n * 256 * KIB, 4 * KIB);
        // The drain of a write takes 850 us, and the next write arrives within 850 us.
        assert_eq!(done.spent[Mechanism::Firmware], us(700));
        assert_eq!(done.spent.total(), write_bus(4 * KIB) + us(700), "write {n}");
    }
    let forced = card.run(Op::WriteFua, 0, 4 * KIB);
    assert_eq!(forced.spent[Mechanism::Firmware], us(0), "a forced write does not enter the cache");
    parameters.refinements.cache = None;
    assert_eq!(parameters.check().expect_err("impossible").path, "card.t_command_write");
}

#[test]
fn a_full_cache_takes_writes_at_the_rate_of_its_drain() {
    let mut card = Bench::new(&cached(16 * KIB));
    let mut ends: Vec<Instant> = Vec::new();
    for n in 0..20 {
        card.run(Op::Write, n * MIB, 4 * KIB);
        ends.push(card.now);
    }
    // The cache holds four writes, one of which drains.
    assert!(ends.windows(2).skip(5).all(|pair| pair[1].since(pair[0]) == us(850)));
}

#[test]
fn a_long_write_overlaps_the_bus_with_the_drain() {
    let mut card = Bench::new(&cached(128 * KIB));
    card.run(Op::Write, 0, 2 * MIB);
    let before = card.now;
    card.run(Op::Write, 2 * MIB, 2 * MIB);
    // One half of the cache drains while the other half fills. The sequence needs no commit.
    assert_eq!(card.now.since(before), us(600) * (2 * MIB / (4 * KIB)));
}

#[test]
fn a_flush_waits_for_the_drain() {
    let mut card = Bench::new(&cached(64 * KIB));
    assert_eq!(card.time(Op::Flush, 0, 0), flush_bus(), "the cache is empty");
    let start = card.now;
    for n in 0..5 {
        card.run(Op::Write, n * MIB, 4 * KIB);
    }
    let before = card.now;
    let done = card.run(Op::Flush, 0, 0);
    // The first drain begins when the first write is in the cache.
    assert_eq!(card.now.since(start), write_bus(4 * KIB) + us(850) * 5);
    assert_eq!(done.spent[Mechanism::Cache], card.now.since(before) - flush_bus());
    assert_eq!(done.spent[Mechanism::Bus], flush_bus());
}

#[test]
fn small_writes_in_sequence_drain_together() {
    let mut parameters = cached(64 * KIB);
    parameters.refinements.layer.t_write = Some(us(2_000));
    let mut card = Bench::new(&parameters);
    for n in 0..8 {
        card.run(Op::Write, n * 4 * KIB, 4 * KIB);
    }
    card.run(Op::Flush, 0, 0);
    // The first write drains alone. The others drain in one step, which continues the sequence. Each drain
    // has its busy time.
    let expected = write_bus(4 * KIB) + us(600 + 250 + 2_000) + us(600 * 7 + 2_000);
    assert_eq!(card.now.since(Instant::ZERO), expected);
}

#[test]
fn data_that_is_overwritten_in_the_cache_is_programmed_once() {
    let mut card = Bench::new(&cached(64 * KIB));
    card.run(Op::Write, MIB, 4 * KIB);
    for _ in 0..6 {
        card.run(Op::Write, 0, 4 * KIB);
    }
    card.run(Op::Flush, 0, 0);
    assert_eq!(written_and_programmed(&card.card), (28 * KIB, 8 * KIB));
}

#[test]
fn a_read_takes_its_data_from_the_cache_or_waits_for_the_page_in_progress() {
    let bus = Mode::Ddr50.bus();
    let on_wires = bus.command() * 2 + bus.read_block() * 8;
    let mut card = Bench::new(&cached(64 * KIB));
    card.run(Op::Write, 4 * MIB, 4 * KIB);
    card.run(Op::Flush, 0, 0);
    let start = card.now;
    card.run(Op::Write, 0, 16 * KIB);
    let drain = start + write_bus(16 * KIB);
    assert_eq!(card.time(Op::Read, 0, 4 * KIB), on_wires, "the draining data is in the cache");
    let before = card.now;
    let read = card.run(Op::Read, 4 * MIB, 4 * KIB);
    let arrived = before + bus.command() * 2;
    assert_eq!(read.spent[Mechanism::Cache], (drain + us(600)).since(arrived), "the first page ends");
    assert_eq!(read.spent[Mechanism::Read], us(300));
    card.run(Op::Flush, 0, 0);
    // Four pages and a commit, held up by the array's part of the read.
    assert_eq!(card.now, drain + us(4 * 600 + 250 + 300));
}

#[test]
fn a_forced_write_bypasses_the_cache() {
    let mut card = Bench::new(&cached(64 * KIB));
    let alone = write_bus(4 * KIB) + us(850);
    assert_eq!(card.time(Op::WriteFua, 8 * MIB, 4 * KIB), alone);
    card.run(Op::Write, 0, 4 * KIB);
    card.run(Op::Write, MIB, 4 * KIB);
    let done = card.run(Op::WriteFua, 2 * MIB, 4 * KIB);
    // The forced write waits for the drain of the first write, and the drain of the second write waits for
    // the forced write.
    assert_eq!(done.spent[Mechanism::Cache], us(850) - write_bus(4 * KIB));
    assert_eq!(done.spent.total(), done.spent[Mechanism::Cache] + alone);
    let before = card.now;
    card.run(Op::Flush, 0, 0);
    assert_eq!(card.now.since(before), us(850));
}

#[test]
fn a_worn_out_card_rejects_writes_and_flushes() {
    let mut parameters = cached(64 * KIB);
    parameters.capacity = 2 * MIB;
    parameters.wear = flashlab_flash::ftl::Wear { cycles: Some(20), beyond: Some(0), ..Default::default() };
    let mut card = Bench::new(&parameters);
    let mut statuses = Vec::new();
    while !statuses.contains(&Status::ReadOnly) {
        statuses.push(card.run(Op::Write, 0, 64 * KIB).status);
        assert!(statuses.len() < 20_000, "the card does not wear out");
    }
    assert_eq!(card.run(Op::Flush, 0, 0).status, Status::ReadOnly, "data remains in the cache");
    assert_eq!(card.run(Op::WriteFua, MIB, 4 * KIB).status, Status::ReadOnly);
    assert_eq!(card.run(Op::Read, 0, 64 * KIB).status, Status::Ok);
    assert!(!card.card.power_cut(card.now).undecided.is_empty());
    card.card.check();
}

#[test]
fn a_cache_of_less_than_two_pages_is_refused() {
    assert_eq!(cached(4 * KIB).check().expect_err("impossible").path, "card.cache");
    assert!(cached(8 * KIB).check().is_ok());
}

#[test]
fn a_read_from_the_cache_ends_the_read_ahead() {
    let mut parameters = cached(64 * KIB);
    parameters.refinements.read_ahead = Some(64 * KIB);
    let time_after = |others: &[u64]| {
        let mut card = Bench::new(&parameters);
        card.run(Op::Write, 0, 64 * KIB);
        card.run(Op::Flush, 0, 0);
        card.run(Op::Write, 4 * MIB, 16 * KIB);
        card.run(Op::Read, 0, 4 * KIB);
        for offset in others {
            assert_eq!(card.run(Op::Read, *offset, 4 * KIB).spent[Mechanism::Read], Duration::ZERO);
        }
        card.run(Op::Read, 4 * KIB, 4 * KIB).spent[Mechanism::Read]
    };
    assert!(time_after(&[]) < us(300), "the card has read ahead");
    assert_eq!(time_after(&[4 * MIB + 12 * KIB]), us(300));
}
