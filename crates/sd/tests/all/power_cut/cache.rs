//! Power cuts of the timed card with a volatile cache, alone and with a command queue.

use crate::mechanisms::{Bench, KIB, MIB, link, parameters, us};
use flashlab_flash::ftl::card::Overwrite;
use flashlab_sd::{CardModel, CardParameters};
use flashlab_sim::{
    Duration, Fate, FileId, Instant, Model, Op, PowerCut, Request, RequestId, Rng, Status, conformance,
};

/// A card with a cache of 64 KiB.
fn cached(overwrite: Overwrite) -> CardParameters {
    let mut parameters = parameters(overwrite);
    parameters.refinements.cache = Some(64 * KIB);
    parameters
}

fn meets(cut: &PowerCut, offset: u64, length: u64) -> bool {
    cut.undecided.iter().any(|(range, _)| range.start < offset + length && offset < range.end)
}

#[test]
fn a_write_that_was_not_flushed_is_lost() {
    let mut card = Bench::new(&cached(Overwrite::Convert));
    card.run(Op::Write, 0, 8 * KIB);
    card.run(Op::Write, MIB, 4 * KIB);
    assert!(!card.card.is_durable(&(0..512)) && !card.card.is_durable(&(MIB..MIB + 512)));
    assert!(card.card.is_durable(&(2 * MIB..3 * MIB)));
    let cut = card.card.power_cut(card.now);
    assert!(meets(&cut, MIB, 512), "its drain has not begun: {cut:?}");
    let old =
        |offset| cut.undecided.iter().any(|(range, fate)| *fate == Fate::Old && range.contains(&offset));
    assert!(old(MIB) && old(MIB + 4 * KIB - 1));
    // The first page of the other write was in progress.
    let named: u64 = cut.undecided.iter().map(|(range, _)| range.end - range.start).sum();
    assert_eq!(named, 12 * KIB);
    card.now = card.card.power_up(card.now);
    assert!(card.card.is_durable(&(0..2 * MIB)));
    assert!(card.run(Op::Read, MIB, 4 * KIB).spent.total() < us(300), "it is not mapped");
    card.card.check();
}

#[test]
fn a_flush_makes_every_completed_write_durable() {
    let mut card = Bench::new(&cached(Overwrite::Convert));
    for n in 0..4 {
        card.run(Op::Write, n * MIB, 4 * KIB);
    }
    assert_eq!(card.run(Op::Flush, 0, 0).status, Status::Ok);
    assert!(card.card.is_durable(&(0..4 * MIB)));
    assert_eq!(card.card.power_cut(card.now), PowerCut::default());
}

/// The drain of a single write takes 850 us: a program and a commit.
#[test]
fn data_drains_without_a_flush() {
    for (after, drained) in [(100, false), (849, false), (851, true)] {
        let mut card = Bench::new(&cached(Overwrite::Convert));
        card.run(Op::Write, 0, 4 * KIB);
        let cut = card.card.power_cut(card.now + us(after));
        assert_eq!(cut.undecided.is_empty(), drained, "after {after} us: {cut:?}");
    }
}

#[test]
fn a_write_with_forced_unit_access_outlives_older_data_in_the_cache() {
    let mut card = Bench::new(&cached(Overwrite::Convert));
    card.run(Op::Write, MIB, 4 * KIB);
    card.run(Op::Write, 0, 16 * KIB);
    card.run(Op::WriteFua, 4 * KIB, 4 * KIB);
    assert!(card.card.is_durable(&(4 * KIB..8 * KIB)));
    let cut = card.card.power_cut(card.now);
    assert!(!meets(&cut, 4 * KIB, 4 * KIB), "{cut:?}");
    assert!(
        meets(&cut, 0, 4 * KIB) && meets(&cut, 8 * KIB, 8 * KIB),
        "the rest is still in the cache: {cut:?}"
    );
    assert!(!meets(&cut, MIB, 4 * KIB), "its drain came first");
}

#[test]
fn an_erase_removes_older_data_from_the_cache() {
    let mut card = Bench::new(&cached(Overwrite::Convert));
    card.run(Op::Write, MIB, 4 * KIB);
    card.run(Op::Write, 0, 16 * KIB);
    card.run(Op::Trim, 0, 16 * KIB);
    card.run(Op::Flush, 0, 0);
    let read = card.run(Op::Read, 0, 16 * KIB);
    assert_eq!(read.spent[flashlab_sim::Mechanism::Read], Duration::ZERO, "it is not mapped");
}

/// New data takes the place of old data in the order of the drains. The data of a later write may therefore
/// survive when the data of an earlier write is lost.
#[test]
fn drains_need_not_follow_the_order_of_the_writes() {
    let mut card = Bench::new(&cached(Overwrite::Convert));
    card.run(Op::Write, 3 * MIB, 4 * KIB);
    card.run(Op::Write, 0, 4 * KIB);
    card.run(Op::Write, MIB, 4 * KIB);
    card.run(Op::Write, 0, 4 * KIB);
    // The first drain and the drain of the range at 0 have ended.
    let cut = card.card.power_cut(card.now + us(2 * 850));
    assert!(!meets(&cut, 0, 4 * KIB) && meets(&cut, MIB, 4 * KIB), "{cut:?}");
}

#[test]
fn a_card_with_a_cache_or_a_queue_obeys_the_contract_of_a_model() {
    for (cache, drain, queue) in [
        (true, None, None),
        (true, Some(24 * KIB), None),
        (false, None, Some(1)),
        (false, None, Some(32)),
        (true, None, Some(1)),
        (true, None, Some(5)),
        (true, Some(16 * KIB), Some(5)),
    ] {
        for overwrite in [Overwrite::Convert, Overwrite::Log] {
            let mut parameters = parameters(overwrite);
            let r = &mut parameters.refinements;
            (r.layer.stripe, r.read_ahead) = (Some(16 * KIB), Some(64 * KIB));
            (r.layer.small.max, r.layer.small.size) = (Some(8 * KIB), Some(64 * KIB));
            (r.cache, r.drain) = (cache.then_some(48 * KIB), drain);
            r.t_command_write = drain.map(|_| us(60));
            (r.queue, r.dies) = (queue, queue.map(|_| 4));
            parameters.check().expect("possible");
            for seed in 0..20 {
                let parameters = parameters.clone();
                let make = move || -> Box<dyn Model> {
                    let card = CardModel::new(parameters.clone(), link(), 1);
                    Box::new(match queue {
                        Some(depth) => card.with_queue(depth),
                        None => card,
                    })
                };
                conformance::check(&make, seed);
            }
        }
    }
}

/// Sends random requests and cuts the power. The card must report blocks as durable unless they were written
/// after the last flush. A cut must name only blocks that were written after the last flush and that the card
/// did not report as durable.
#[test]
fn a_cut_names_only_blocks_that_were_not_durable() {
    let mut fates = [0u32; 3];
    for (seed, queue) in (0..40).map(|seed| (seed, [None, Some(8)][seed as usize % 2])) {
        let overwrite = [Overwrite::Convert, Overwrite::Log][seed as usize / 2 % 2];
        let mut parameters = cached(overwrite);
        parameters.capacity = 4 * MIB;
        if seed / 4 % 2 == 1 {
            // A page holds several granules, so a page that is torn holds data of several ranges.
            (parameters.nand.page, parameters.mapping.program_unit) = (16 * KIB, 16 * KIB);
            parameters.refinements.drain = (overwrite == Overwrite::Convert).then_some(32 * KIB);
        }
        (parameters.refinements.queue, parameters.refinements.dies) = (queue, queue.map(|_| 2));
        let card = CardModel::new(parameters, link(), 1);
        let mut card = if let Some(depth) = queue { card.with_queue(depth) } else { card };
        let mut rng = Rng::new(seed);
        // For each block, true if a cut may lose its last write.
        let mut undecided = vec![false; (4 * MIB / 512) as usize];
        let mut now = Instant::ZERO;
        for cut_number in 0..60 {
            for step in 0..1 + rng.below(8) {
                let op = [Op::Write, Op::Write, Op::Write, Op::WriteFua, Op::Read, Op::Trim, Op::Flush];
                let op = op[rng.below(7) as usize];
                let longest = [1, 16, 200][rng.below(3) as usize];
                let length = 512 * (1 + rng.below(longest));
                let offset = 512 * rng.below((4 * MIB - length) / 512);
                let request = Request { id: RequestId(step), op, file: FileId::DEVICE, offset, length };
                card.submit(now, request);
                let range = (offset / 512) as usize..((offset + length) / 512) as usize;
                let done = card.complete(Instant::MAX).expect("it completes");
                assert!(done.status == Status::Ok && done.id == request.id);
                now = done.at + us(rng.below(200));
                match op {
                    Op::Write => undecided[range].fill(true),
                    Op::WriteFua | Op::Trim => undecided[range].fill(false),
                    Op::Flush => undecided.fill(false),
                    _ => {}
                }
                let durable = |block: usize| card.is_durable(&(block as u64 * 512..(block as u64 + 1) * 512));
                let promised = (0..undecided.len()).step_by(7).filter(|block| !undecided[*block]);
                promised.for_each(|block| assert!(durable(block), "seed {seed}: block {block} is promised"));
            }
            let is_durable: Vec<bool> =
                (0..4 * MIB / 512).map(|block| card.is_durable(&(block * 512..block * 512 + 512))).collect();
            let cut = card.power_cut(now);
            for (range, fate) in &cut.undecided {
                fates[*fate as usize] += 1;
                for block in range.start / 512..range.end / 512 {
                    assert!(
                        undecided[block as usize] && !is_durable[block as usize],
                        "seed {seed}, cut {cut_number}: block {block} was durable, and the cut names it {fate:?}"
                    );
                }
            }
            now = card.power_up(now);
            card.check();
            undecided.fill(false);
        }
    }
    assert!(fates.iter().all(|count| *count > 20), "old, new and unreadable all occur: {fates:?}");
}

/// The parts of the write that have reached the array are new after the cut.
#[test]
fn a_cut_during_a_write_that_is_longer_than_the_cache_names_old_and_new_parts() {
    let mut seen = [false; 2];
    for after in (0..60_000).step_by(700) {
        let mut card = Bench::new(&cached(Overwrite::Convert)).card;
        let request =
            Request { id: RequestId(0), op: Op::Write, file: FileId::DEVICE, offset: 0, length: 512 * KIB };
        card.submit(Instant::ZERO, request);
        let now = Instant::ZERO + us(after);
        if card.complete(now).is_some() {
            break;
        }
        let cut = card.power_cut(now);
        for (range, fate) in &cut.undecided {
            assert!(range.end <= 512 * KIB);
            seen[0] |= *fate == Fate::New;
            seen[1] |= *fate == Fate::Old;
        }
        if let [(first, Fate::New), (second, _), ..] = &cut.undecided[..] {
            assert!(first.start == 0 && first.end == second.start, "{cut:?}");
        }
    }
    assert!(seen[0] && seen[1]);
}

#[test]
fn a_saved_card_has_drained_its_cache() {
    let mut card = Bench::new(&cached(Overwrite::Convert));
    card.run(Op::Write, 0, 32 * KIB);
    card.run(Op::Write, MIB, 4 * KIB);
    let saved = card.card.save().expect("it can be saved");
    assert!(!card.card.is_durable(&(MIB..MIB + 512)), "the card itself goes on");
    let mut restored = Bench::new(&cached(Overwrite::Convert));
    restored.card.restore(&saved).expect("its own state");
    restored.card.check();
    restored.now = card.now + Duration::from_secs(1);
    assert!(restored.run(Op::Read, MIB, 4 * KIB).spent.total() > us(300), "it is mapped");
}
