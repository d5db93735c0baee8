//! Compares drains that take several ranges at once with sums that are calculated by hand. The program of a
//! page of 16 KiB takes 600 us. The commit of a drain takes 10 ms. In the tests that use `drained`, all
//! other writes arrive during the first drain.

use crate::mechanisms::{Bench, KIB, MIB, parameters, us, write_bus};
use flashlab_flash::ftl::card::Overwrite;
use flashlab_sd::{CardParameters, Mode, Refinements};
use flashlab_sim::{Duration, Fate, Instant, Mechanism, Model, Observer, Op};

const PROGRAM: u64 = 600;
const COMMIT: u64 = 10_000;

/// Returns a card whose drains take up to `drain` bytes of ranges that lie apart.
fn batched(drain: Option<u64>) -> CardParameters {
    let mut parameters = parameters(Overwrite::Convert);
    parameters.nand.page = 16 * KIB;
    parameters.mapping.program_unit = 16 * KIB;
    parameters.mapping.t_commit = us(COMMIT);
    (parameters.refinements.cache, parameters.refinements.drain) = (Some(256 * KIB), drain);
    parameters
}

fn with(drain: Option<u64>, set: impl Fn(&mut Refinements)) -> Bench {
    let mut parameters = batched(drain);
    set(&mut parameters.refinements);
    Bench::new(&parameters)
}

/// Returns the number of bytes that the array has programmed.
fn programmed(card: &impl Model) -> u64 {
    struct Counter(u64);
    impl Observer for Counter {
        fn count(&mut self, name: &'static str, value: u64) {
            if name == "programmed_bytes" {
                self.0 = value;
            }
        }
    }
    let mut counter = Counter(0);
    card.observe(&mut counter);
    counter.0
}

/// Writes 4 KiB, which drain alone, and writes `ranges` during that drain. Returns the time from the end of
/// the first drain to the end of the last, and the number of bytes that the later drains have programmed.
fn drained(card: &mut Bench, ranges: impl Iterator<Item = (u64, u64)>) -> (Duration, u64) {
    let alone = card.time(Op::Write, 0, 4 * KIB);
    let first_ends = card.now + us(PROGRAM + COMMIT);
    assert_eq!(alone, write_bus(4 * KIB));
    for (offset, length) in ranges {
        card.run(Op::Write, offset, length);
    }
    assert!(card.now < first_ends, "all writes arrive in the first drain");
    card.run(Op::Flush, 0, 0);
    card.card.check();
    (card.now.since(first_ends), programmed(&card.card) - 16 * KIB)
}

/// Returns writes of 4 KiB at `count` places, from high to low addresses.
fn scattered(count: u64) -> impl Iterator<Item = (u64, u64)> {
    (1..=count).rev().map(|n| (n * MIB, 4 * KIB))
}

#[test]
fn scattered_writes_share_pages_and_a_commit() {
    for count in [1u64, 4, 5, 16] {
        let pages = count.div_ceil(4);
        let found = drained(&mut with(Some(64 * KIB), |_| ()), scattered(count));
        assert_eq!(found, (us(PROGRAM * pages + COMMIT), pages * 16 * KIB), "{count} writes");
    }
    let apart = drained(&mut with(None, |_| ()), scattered(16));
    assert_eq!(apart, (us((PROGRAM + COMMIT) * 16), 16 * 16 * KIB), "each write has a page and a commit");
}

#[test]
fn a_stripe_programs_the_pages_of_a_batch_in_parallel() {
    let mut card = with(Some(64 * KIB), |r| r.layer.stripe = Some(64 * KIB));
    assert_eq!(drained(&mut card, scattered(16)), (us(PROGRAM + COMMIT), 64 * KIB));
}

#[test]
fn a_batch_ends_at_the_size_of_a_drain() {
    let found = drained(&mut with(Some(32 * KIB), |_| ()), scattered(16));
    assert_eq!(found.0, us((PROGRAM * 2 + COMMIT) * 2), "two batches of eight writes");
    // The ranges have 12, 24 and 8 KiB. The second does not fit into a batch with the first. The third fits
    // into a batch with the second.
    let ranges = [(3 * MIB, 12 * KIB), (2 * MIB, 24 * KIB), (MIB, 8 * KIB)];
    let found = drained(&mut with(Some(32 * KIB), |_| ()), ranges.into_iter());
    assert_eq!(found.0, us(PROGRAM * (1 + 2) + COMMIT * 2));
}

#[test]
fn a_range_beyond_the_size_of_a_drain_drains_alone() {
    let ranges = || [(MIB, 96 * KIB), (3 * MIB, 4 * KIB)].into_iter();
    let with_batches = drained(&mut with(Some(32 * KIB), |_| ()), ranges());
    assert_eq!(with_batches, drained(&mut with(None, |_| ()), ranges()));
}

#[test]
fn adjacent_writes_drain_as_without_batches() {
    let ranges = || (1..16).map(|n| (n * 4 * KIB, 4 * KIB));
    let with_batches = drained(&mut with(Some(64 * KIB), |_| ()), ranges());
    assert_eq!(with_batches, drained(&mut with(None, |_| ()), ranges()));
    // Adjacent writes in descending order join too.
    let backwards = (1..9).rev().map(|n| (MIB + n * 16 * KIB, 16 * KIB));
    let found = drained(&mut with(Some(128 * KIB), |_| ()), backwards);
    assert_eq!(found.0, us(PROGRAM * 8 + COMMIT));
}

#[test]
fn parts_of_a_granule_share_its_place() {
    // Each of four granules gets four pieces of 512 B.
    let pieces = (0..16).map(|n| ((1 + n % 4) * MIB + n / 4 * KIB, 512));
    let found = drained(&mut with(Some(128 * KIB), |_| ()), pieces);
    assert_eq!(found, (us(PROGRAM + COMMIT), 16 * KIB));
}

#[test]
fn each_batch_has_the_busy_time_of_a_write_once() {
    let mut card = with(Some(64 * KIB), |r| r.layer.t_write = Some(us(3_000)));
    let (time, _) = drained(&mut card, scattered(8));
    // The time begins before the busy time of the first drain.
    assert_eq!(time, us(3_000 + PROGRAM * 2 + COMMIT + 3_000));
}

#[test]
fn the_area_for_small_writes_packs_a_batch() {
    let area = |r: &mut Refinements| {
        (r.layer.small.max, r.layer.small.page) = (Some(8 * KIB), Some(8 * KIB));
        r.layer.small.t_prog = Some(us(4_000));
    };
    for (stripe, programs) in [(None, 4), (Some(64 * KIB), 1)] {
        let mut card = with(Some(64 * KIB), |r| {
            area(r);
            r.layer.stripe = stripe;
        });
        card.run(Op::Write, 0, 4 * KIB);
        let first_ends = card.now + us(4_000);
        for (offset, length) in scattered(8) {
            card.run(Op::Write, offset, length);
        }
        card.run(Op::Flush, 0, 0);
        assert_eq!(card.now.since(first_ends), us(4_000 * programs), "{stripe:?}");
        assert_eq!(programmed(&card.card), 8 * KIB + 32 * KIB);
        card.card.check();
    }
}

#[test]
fn a_batch_does_not_mix_small_and_long_writes() {
    let mut card = with(Some(128 * KIB), |r| {
        r.layer.small.max = Some(8 * KIB);
        r.layer.small.t_prog = Some(us(PROGRAM + COMMIT));
    });
    let ranges = [(MIB, 8 * KIB), (2 * MIB, 4 * KIB), (3 * MIB, 32 * KIB), (4 * MIB, 12 * KIB)];
    let (time, _) = drained(&mut card, ranges.into_iter());
    let (small, long) = (us(PROGRAM + COMMIT), us(PROGRAM * 3 + COMMIT));
    assert_eq!(time, small + long, "12 KiB in a page of the area, 44 KiB in three pages of the array");
}

#[test]
fn a_read_waits_for_the_page_of_a_batch_that_is_programmed() {
    let mut card = with(Some(64 * KIB), |_| ());
    card.run(Op::Write, 9 * MIB, 4 * KIB);
    card.run(Op::Flush, 0, 0);
    let start = card.now;
    card.run(Op::Write, 0, 4 * KIB);
    for (offset, length) in scattered(8) {
        card.run(Op::Write, offset, length);
    }
    // The batch of two pages begins at the end of the first drain, and its second page 600 us later.
    let batch = start + write_bus(4 * KIB) + us(PROGRAM + COMMIT);
    card.now = batch + us(PROGRAM + 100);
    let arrived = card.now + Mode::Ddr50.bus().command() * 2;
    let read = card.run(Op::Read, 9 * MIB, 4 * KIB);
    assert_eq!(read.spent[Mechanism::Cache], (batch + us(PROGRAM * 2)).since(arrived));
    let on_wires = read.spent.total() - read.spent[Mechanism::Cache] - read.spent[Mechanism::Read];
    for (offset, _) in scattered(8) {
        assert_eq!(card.time(Op::Read, offset, 4 * KIB), on_wires, "the data of the batch is in the cache");
    }
}

#[test]
fn data_of_a_batch_is_mapped_where_it_was_written() {
    let mut card = with(Some(64 * KIB), |_| ());
    drained(&mut card, scattered(7));
    for n in 0..9 {
        let read = card.run(Op::Read, n * MIB, 4 * KIB);
        assert_eq!(read.spent[Mechanism::Read] > us(0), n < 8, "{n} MiB");
        assert!(card.card.is_durable(&(n * MIB..n * MIB + 4 * KIB)));
    }
}

/// All ranges in a page share the fate of the page. The ranges are packed in the order of their addresses:
/// the first page holds those from 1 to 4 MiB, and the second page those from 5 to 8 MiB.
#[test]
fn a_power_cut_tears_a_batch_page_by_page() {
    let mut seen = [false; 3];
    for step in 0..60 {
        let mut card = with(Some(64 * KIB), |_| ());
        card.run(Op::Write, 0, 4 * KIB);
        let batch = card.now + us(PROGRAM + COMMIT);
        for (offset, length) in scattered(8) {
            card.run(Op::Write, offset, length);
        }
        // The first page, the second page and the commit are in progress in turn.
        let after = PROGRAM / 2 + step * 20;
        let cut = card.card.power_cut(batch + us(after));
        let fate = |n: u64| {
            let of: Vec<Fate> = cut
                .undecided
                .iter()
                .filter(|(range, _)| *range == (n * MIB..n * MIB + 4 * KIB))
                .map(|(_, fate)| *fate)
                .collect();
            assert_eq!(of.len(), 1, "{n} MiB after {after} us: {cut:?}");
            of[0]
        };
        assert_eq!(cut.undecided.len(), 8, "{cut:?}");
        for page in [1..5, 5..9] {
            assert!(page.clone().all(|n| fate(n) == fate(page.start)), "{cut:?}");
        }
        seen[fate(1) as usize] = true;
        card.now = card.card.power_up(batch + us(after));
        card.card.check();
        if after < PROGRAM {
            assert_eq!(fate(5), Fate::Old);
            let read = card.run(Op::Read, 5 * MIB, 4 * KIB);
            assert_eq!(
                read.spent[Mechanism::Read],
                us(0),
                "the second page was not begun, so its data is not mapped"
            );
        }
    }
    assert_eq!(seen, [true; 3], "old, new and unreadable");
}

#[test]
fn a_full_cache_takes_writes_at_the_rate_of_its_batches() {
    let mut card = with(Some(64 * KIB), |_| ());
    let ends: Vec<_> = (0..400)
        .map(|n| {
            card.run(Op::Write, n % 100 * 64 * KIB, 4 * KIB);
            card.now
        })
        .collect();
    // The cache holds 64 writes. The first drains alone, and then 16 drain at a time.
    let first = ends[0] + us(PROGRAM + COMMIT);
    let second = first + us(PROGRAM * 4 + COMMIT);
    let until = |end: Instant| ends.iter().filter(|at| **at <= end).count();
    assert_eq!((until(first), until(second)), (64, 65));
    // Every 16 writes take a batch of four pages and one commit.
    assert_eq!(ends[399].since(ends[399 - 160]), us(PROGRAM * 4 + COMMIT) * 10);
}

#[test]
fn a_drain_that_packs_nothing_is_refused() {
    let refused = |set: fn(&mut CardParameters)| {
        let mut parameters = batched(Some(64 * KIB));
        set(&mut parameters);
        parameters.check().err().map(|impossible| impossible.path)
    };
    assert_eq!(refused(|_| ()), None);
    assert_eq!(refused(|p| p.refinements.cache = None), Some("card.drain"));
    assert_eq!(refused(|p| p.refinements.drain = Some(8 * KIB)), Some("card.drain"), "less than a page");
    assert_eq!(refused(|p| p.refinements.drain = Some(256 * KIB)), Some("card.drain"), "all of the cache");
    let block_mapped = |p: &mut CardParameters| {
        p.mapping.overwrite = Overwrite::Log;
        (p.mapping.map_unit, p.mapping.rewrite_unit) = (p.nand.erase_block, p.nand.erase_block);
    };
    let mut logged = batched(Some(64 * KIB));
    block_mapped(&mut logged);
    assert_eq!(logged.check().err().map(|impossible| impossible.path), Some("card.drain"));
    logged.refinements.layer.small.max = Some(8 * KIB);
    assert!(logged.check().is_ok(), "its area for small writes packs");
    logged.refinements.layer.small.size = Some(64 * KIB);
    assert_eq!(logged.check().err().map(|impossible| impossible.path), Some("card.drain"));
}
