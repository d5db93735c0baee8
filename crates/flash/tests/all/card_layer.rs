//! Translation layer of a card at count level (without times): closed forms of log blocks (L1, L3, L4), of
//! garbage collection (G2, G8) and of wear (W2, W3), and checks of the whole structure after every step of
//! random workloads. Labels: docs/closed-forms.md.

use flashlab_flash::ftl::card::{LayerRefinements, Mapping, Overwrite, Translation};
use flashlab_flash::ftl::{Ftl, LevelingKind, ReadOnly, Wear};
use flashlab_flash::nand::Nand;
use flashlab_sim::{Duration, Rng};
use proptest::prelude::*;

const PAGE: u64 = 4 << 10;

fn nand(pages: u64) -> Nand {
    Nand {
        page: PAGE,
        t_read: Duration::from_us(100),
        read_rate: 64 << 20,
        t_prog: Duration::from_us(600),
        t_prog_slc: None,
        bits: None,
        erase_block: pages * PAGE,
        t_bers: Duration::ZERO,
        spread_ppm: 0,
    }
}

fn mapping(overwrite: Overwrite, rewrite_unit: u64, open_units: u32) -> Mapping {
    Mapping {
        program_unit: PAGE,
        t_commit: Duration::ZERO,
        map_unit: rewrite_unit,
        rewrite_unit,
        overwrite,
        open_units,
        map_cache: None,
        map_page: 4 << 10,
    }
}

/// Returns a card with log blocks and `blocks` rewrite units of `pages` pages.
fn logging(blocks: u64, pages: u64, open_units: u32, wear: Wear) -> Translation {
    let (nand, mapping) = (nand(pages), mapping(Overwrite::Log, pages * PAGE, open_units));
    let capacity = blocks * pages * PAGE;
    Translation::check_wear(capacity, &nand, &mapping, &wear).expect("a possible card");
    Translation::new(capacity, nand, mapping, &wear, 1)
}

fn fill(card: &mut Translation) {
    let units = card.unit_count();
    for first in (0..units).step_by(16) {
        Ftl::write(card, first, 16.min(units - first)).expect("it takes writes");
    }
}

/// Returns the bytes programmed per byte that `writes` writes.
fn amplification(card: &mut Translation, writes: impl FnOnce(&mut Translation)) -> f64 {
    let (written, programmed) = card.written_and_programmed();
    writes(card);
    let (written_now, programmed_now) = card.written_and_programmed();
    (programmed_now - programmed) as f64 / (written_now - written) as f64
}

/// L1: random page writes with one log block per open rewrite unit. A write to a rewrite unit that is not open costs a
/// full merge.
#[test]
fn random_page_writes_over_log_blocks_amplify_by_the_share_that_is_not_open() {
    for (blocks, open, pages) in [(64, 16, 64), (100, 10, 128), (32, 24, 64)] {
        let mut card = logging(blocks, pages, open, Wear::default());
        fill(&mut card);
        let mut rng = Rng::new(7);
        let mut random = |card: &mut Translation, n| {
            (0..n).for_each(|_| Ftl::write(card, rng.below(blocks * pages), 1).unwrap());
        };
        random(&mut card, 2_000);
        let found = amplification(&mut card, |card| random(card, 20_000));
        let expected = 1.0 + pages as f64 * (1.0 - f64::from(open) / blocks as f64);
        assert!((found / expected - 1.0).abs() < 0.01, "{found}, expected {expected}");
        card.check();
    }
}

/// L3: if the writes cover no more rewrite units than can be open, writes cost only the merges of full log blocks. If
/// they cover more, every miss copies a block.
#[test]
fn amplification_rises_abruptly_when_more_units_are_written_than_can_be_open() {
    let (pages, open) = (64u64, 8u64);
    let found = |over: u64| {
        let mut card = logging(64, pages, open as u32, Wear::default());
        fill(&mut card);
        let mut rng = Rng::new(8);
        let mut random = |card: &mut Translation, n| {
            (0..n).for_each(|_| Ftl::write(card, rng.below(over) * pages + rng.below(pages), 1).unwrap());
        };
        random(&mut card, 4_000);
        amplification(&mut card, |card| random(card, 20_000))
    };
    // Two log blocks are filled, then one block is copied.
    assert!(found(open) < 1.55, "{}", found(open));
    for over in [12, 16, 32] {
        let expected = 1.0 + pages as f64 * (1.0 - open as f64 / over as f64);
        assert!((found(over) / expected - 1.0).abs() < 0.015, "{}, expected {expected}", found(over));
    }
}

/// L4: with a single open rewrite unit and writes to the first page of each rewrite unit in turn, every write rewrites
/// a block.
#[test]
fn writing_one_page_of_each_rewrite_unit_in_turn_amplifies_by_the_pages_of_a_block() {
    let (blocks, pages) = (20, 32);
    let mut card = logging(blocks, pages, 1, Wear::default());
    fill(&mut card);
    Ftl::write(&mut card, 0, 1).unwrap();
    let found = amplification(&mut card, |card| {
        (1..=500).for_each(|n| Ftl::write(card, n % blocks * pages, 1).unwrap());
    });
    assert_eq!(found, pages as f64);
}

#[test]
fn sequential_overwrites_have_no_amplification() {
    for open in [1, 4] {
        let mut card = logging(20, 32, open, Wear::default());
        fill(&mut card);
        let found = amplification(&mut card, |card| (0..5).for_each(|_| fill(card)));
        assert_eq!(found, 1.0);
        card.check();
    }
    let mut card = convert(200, 64, Wear::default());
    fill(&mut card);
    assert_eq!(amplification(&mut card, |card| (0..5).for_each(|_| fill(card))), 1.0);
    card.check();
}

/// A sequential stream that stops and starts again at the beginning, over more rewrite units than can be open, costs no
/// copies.
#[test]
fn a_stream_that_is_restarted_repeatedly_costs_no_copies() {
    let mut card = logging(20, 32, 2, Wear::default());
    let found = amplification(&mut card, |card| {
        for _ in 0..100 {
            (0..9 * 32 + 18).step_by(2).for_each(|at| Ftl::write(card, at, 2).unwrap());
            card.check();
        }
    });
    assert_eq!(found, 1.0);
}

/// Returns a card that fills blocks in the order of the writes.
fn convert(blocks: u64, pages: u64, wear: Wear) -> Translation {
    let (nand, mapping) = (nand(pages), mapping(Overwrite::Convert, 512 * PAGE, 4));
    let capacity = blocks * pages * PAGE;
    Translation::check_wear(capacity, &nand, &mapping, &wear).expect("a possible card");
    Translation::new(capacity, nand, mapping, &wear, 1)
}

/// Greedy garbage collection under random page writes (G2), also with a share of the data that is written only once
/// (G8). The blocks of that share stay fully valid, so the rest of the data has all of the spare space.
#[test]
fn greedy_collection_amplifies_as_in_its_closed_form() {
    // Number of raw blocks that hold data. Each entry has the spare space relative to the capacity, and the
    // closed form for blocks of 64 pages.
    let (raw, pages) = (2_048u64, 64u64);
    for (spare, expected) in [(0.28, 2.402), (0.15, 3.799)] {
        for cold in [0.0, 0.5] {
            // The reserve and the blocks being filled are not in service.
            let service = (raw - 4) as f64;
            // With a cold share c of the mapped blocks U, the rest has (1 - c) U mapped blocks in T - c U blocks.
            let rho = 1.0 / (1.0 + spare);
            let mapped = service / (1.0 + spare * (1.0 - cold));
            let hot = mapped * (1.0 - cold);
            assert!((hot / (service - cold * mapped) - rho).abs() < 1e-9);
            let wear = Wear { raw: Some(raw * pages * PAGE), ..Wear::default() };
            let mut card = convert(mapped as u64, pages, wear);
            fill(&mut card);
            let units = (mapped as u64 * pages) as f64 * (1.0 - cold);
            let mut rng = Rng::new(3);
            let mut random = |card: &mut Translation, passes: f64| {
                (0..(units * passes) as u64)
                    .for_each(|_| Ftl::write(card, rng.below(units as u64), 1).unwrap());
            };
            random(&mut card, 6.0);
            let found = amplification(&mut card, |card| random(card, 2.0));
            assert!(
                (found / expected - 1.0).abs() < 0.02,
                "spare {spare}, cold {cold}: {found}, expected {expected}"
            );
            card.check();
        }
    }
}

/// W2, W3: under static leveling, the blocks of a card have used almost all their cycles when the card
/// becomes read-only. Otherwise, only the spare blocks and the block of the written rewrite unit wear out.
#[test]
fn the_life_of_a_card_depends_on_its_wear_leveling() {
    let (blocks, pages, cycles, spare) = (100u64, 16u64, 200u32, 28u64);
    let life = |leveling| {
        let wear = Wear {
            raw: Some((blocks + spare) * pages * PAGE),
            leveling: Some(leveling),
            threshold: Some(16),
            cycles: Some(cycles),
            beyond: Some(0),
            ..Wear::default()
        };
        let mut card = logging(blocks, pages, 2, wear);
        fill(&mut card);
        let mut writes = 0u64;
        while Ftl::write(&mut card, 0, pages).is_ok() {
            writes += 1;
        }
        card.check();
        assert!(card.blocks().summary().failures > 0);
        assert_eq!(Ftl::write(&mut card, 16, 1), Err(ReadOnly));
        writes
    };
    let (none, dynamic, all) =
        (life(LevelingKind::None), life(LevelingKind::Dynamic), life(LevelingKind::Static));
    // The block of the written rewrite unit wears along with the spare blocks.
    let (warm, whole) = ((spare + 1) * u64::from(cycles), (blocks + spare) * u64::from(cycles));
    assert!((0.9..=1.0).contains(&(dynamic as f64 / warm as f64)), "{dynamic} of {warm}");
    assert!(
        none <= dynamic && none as f64 > 0.7 * warm as f64,
        "spare blocks are used one after another: {none}"
    );
    // Moves cost a share of about 1 / threshold. The last blocks fail with erase counts within the threshold.
    assert!((0.8..1.0).contains(&(all as f64 / whole as f64)), "{all} of {whole}");
}

fn wears() -> impl Strategy<Value = Wear> {
    let kinds = [LevelingKind::None, LevelingKind::Dynamic, LevelingKind::Static];
    (0usize..3, 1u32..6, 1u32..3, prop::option::of(5u32..60), 0u32..4).prop_map(
        move |(kind, threshold, pools, cycles, beyond)| Wear {
            leveling: Some(kinds[kind]),
            threshold: Some(threshold),
            relief: Some(1 + threshold / 2),
            pools: Some(pools),
            cycles,
            beyond: Some(beyond * 4),
            ..Wear::default()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Checks the structure under random writes and trims, until the card becomes read-only and after that.
    #[test]
    fn the_structure_is_consistent_after_every_step(
        logs in any::<bool>(),
        fast in any::<bool>(),
        open_units in 1u32..4,
        wear in wears(),
        steps in prop::collection::vec((0u64..96, 1u64..40, 0u8..10, 0u64..8), 1..120),
    ) {
        let (pages, blocks) = (8u64, 12u64);
        let overwrite = if logs { Overwrite::Log } else { Overwrite::Convert };
        let mut nand = nand(pages);
        if fast {
            nand.t_prog_slc = Some(Duration::from_us(200));
        }
        let mapping = mapping(overwrite, pages * PAGE, open_units);
        let capacity = blocks * pages * PAGE;
        let mut card = Translation::new(capacity, nand, mapping, &wear, 5);
        let mut mapped = vec![false; (blocks * pages) as usize];
        let mut ended = false;
        for (first, count, what, shift) in steps {
            // Some ranges are not whole pages.
            let start = first * PAGE + if what < 7 { 0 } else { shift * 512 };
            let end = (start + count * PAGE).min(capacity);
            let units = |range: std::ops::Range<u64>| range.start as usize..range.end as usize;
            if what == 0 {
                card.trim(start..end);
                let (start, end) = (start.div_ceil(PAGE), end / PAGE);
                if start < end {
                    mapped[units(start..end)].fill(false);
                }
            } else if what == 1 && !logs {
                // Three ranges without overlap, two of which may be adjacent.
                let parts = [start..start + 512, start + PAGE..start + 2 * PAGE, start + 2 * PAGE..end];
                let parts: Vec<_> = parts.into_iter().filter(|part| part.start < part.end && part.end <= end).collect();
                if card.write_batch(&parts).is_err() {
                    ended = true;
                    break;
                }
                parts.iter().for_each(|part| mapped[units(part.start / PAGE..part.end.div_ceil(PAGE))].fill(true));
            } else if card.write(start..end).is_ok() {
                prop_assert!(!ended, "a read-only card accepted a write");
                mapped[units(start / PAGE..end.div_ceil(PAGE))].fill(true);
            } else {
                ended = true;
                prop_assert!(wear.cycles.is_some(), "a card that never wears out rejected a write");
                break;
            }
            card.check();
            for (unit, mapped) in (0..).zip(&mapped) {
                prop_assert_eq!(card.is_mapped(unit * PAGE), *mapped, "unit {}", unit);
            }
        }
        if ended {
            card.check();
            prop_assert!(card.write(0..PAGE).is_err());
        }
    }
}

/// All blocks fail within a few erases of one another, so that cards become read-only in the middle of a write.
#[test]
fn a_card_that_becomes_read_only_during_a_write_is_consistent_and_keeps_its_data() {
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let (pages, blocks) = (8u64, 12u64);
        let overwrite = if seed % 2 == 0 { Overwrite::Log } else { Overwrite::Convert };
        let mut nand = nand(pages);
        nand.t_prog_slc = (seed % 3 == 0).then_some(Duration::from_us(200));
        let wear = Wear { cycles: Some(3 + rng.below(8) as u32), beyond: Some(0), ..Wear::default() };
        let units = blocks * pages;
        let mapping = mapping(overwrite, pages * PAGE, 1 + rng.below(3) as u32);
        let mut card = Translation::new(units * PAGE, nand, mapping, &wear, seed);
        let mut written = vec![false; units as usize];
        loop {
            let first = rng.below(units);
            let end = (first + 1 + rng.below(40)).min(units);
            let range = first as usize..end as usize;
            if rng.below(3) == 0 {
                Ftl::trim(&mut card, first, end - first);
                written[range].fill(false);
                continue;
            }
            let done = Ftl::write(&mut card, first, end - first);
            card.check();
            if done.is_err() {
                break;
            }
            written[range].fill(true);
        }
        for (unit, written) in (0..).zip(&written) {
            assert!(
                !written || card.is_mapped(unit * PAGE),
                "seed {seed}: unit {unit} was written, and is lost"
            );
        }
    }
}

/// Each granule is a rewrite unit, and a page holds four of them: nothing is copied, whatever is overwritten.
#[test]
fn a_page_mapped_card_copies_nothing_for_an_overwrite() {
    let page = 4 * PAGE;
    let (nand, granule) = (Nand { page, erase_block: 64 * page, ..nand(1) }, PAGE);
    let mapping = Mapping { program_unit: page, ..mapping(Overwrite::Convert, granule, 4) };
    mapping.check(&nand).expect("possible");
    let mut card = Translation::new(64 << 20, nand, mapping, &Wear::default(), 1);
    card.write(0..8 << 20).expect("it takes writes");
    let programmed = |card: &Translation| card.written_and_programmed().1;
    let before = programmed(&card);
    // A whole granule, parts of granules, and a range that crosses a granule boundary.
    for range in [
        granule..2 * granule,
        513 * 512..514 * 512,
        3 * 512..granule - 512,
        2 * granule - 512..2 * granule + 512,
    ] {
        let copies = card.write(range.clone()).expect("it takes writes").merge;
        assert_eq!(copies, Duration::ZERO, "{range:?}");
        card.check();
    }
    assert_eq!(programmed(&card) - before, 4 * page, "one page each");
    let batch: Vec<_> = (0..16).map(|n| (n * 17 + 1) * granule..(n * 17 + 2) * granule).collect();
    let work = card.write_batch(&batch).expect("it takes writes");
    assert_eq!((work.read_modify_write, work.copies()), (Duration::ZERO, Duration::ZERO));
    assert_eq!(work.runs.iter().map(|run| run.pages).sum::<u64>(), 4, "16 granules, four to a page");
    card.check();
}

/// Batches of 16 granules fill pages of four granules, so garbage collection amplifies them like writes of
/// one granule to a card with pages of one granule.
#[test]
fn batches_of_whole_pages_amplify_like_pages_of_one_granule() {
    let found = |granules_of_page: u64, of_batch: u64| {
        let page = granules_of_page * PAGE;
        let nand = Nand { page, erase_block: 256 * PAGE, ..nand(1) };
        let mapping = Mapping { program_unit: page, ..mapping(Overwrite::Convert, PAGE, 4) };
        let wear = Wear { raw: Some(80 << 20), ..Wear::default() };
        let mut card = Translation::new(64 << 20, nand, mapping, &wear, 1);
        fill(&mut card);
        let (units, mut rng) = (card.unit_count(), Rng::new(3));
        let mut random = |card: &mut Translation, batches: u64| {
            for _ in 0..batches {
                let mut at: Vec<u64> = (0..of_batch).map(|_| rng.below(units)).collect();
                at.sort_unstable();
                at.dedup();
                let ranges: Vec<_> = at.iter().map(|at| at * PAGE..(at + 1) * PAGE).collect();
                card.write_batch(&ranges).expect("it takes writes");
            }
        };
        random(&mut card, 80_000 / of_batch);
        let amplification = amplification(&mut card, |card| random(card, 80_000 / of_batch));
        card.check();
        amplification
    };
    let (packed, single) = (found(4, 16), found(1, 1));
    assert!(single > 1.5, "{single}");
    // With pages of four granules, the last page of each victim's data is often not full.
    assert!((1.0..1.05).contains(&(packed / single)), "{packed}, {single}");
}

/// Cards that collect garbage while they are idle or ahead of writes run out of blocks in the middle of a collection.
#[test]
fn a_card_that_becomes_read_only_during_garbage_collection_is_consistent() {
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let (pages, blocks) = (8u64, 12u64);
        let wear = Wear { cycles: Some(3 + rng.below(8) as u32), beyond: Some(0), ..Wear::default() };
        let units = blocks * pages;
        let mapping = mapping(Overwrite::Convert, pages * PAGE, 2);
        let refinements =
            LayerRefinements { collect_step: (seed % 2 == 0).then_some(PAGE), ..LayerRefinements::default() };
        let mut card = Translation::new(units * PAGE, nand(pages), mapping, &wear, seed).with(refinements);
        fill(&mut card);
        while Ftl::write(&mut card, rng.below(units), 1).is_ok() {
            card.idle(Duration::from_us(rng.below(4_000)));
            card.check();
        }
        card.idle(Duration::from_secs(1));
        card.check();
    }
}

/// The second of two writes of a whole rewrite unit goes to SLC blocks, which may run out.
#[test]
fn a_card_that_runs_out_of_blocks_in_slc_mode_has_no_excess_open_unit() {
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let (pages, blocks) = (8u64, 12u64);
        let mut nand = nand(pages);
        nand.t_prog_slc = Some(Duration::from_us(200));
        let wear = Wear { cycles: Some(3 + rng.below(8) as u32), beyond: Some(0), ..Wear::default() };
        let mapping = mapping(Overwrite::Log, pages * PAGE, 1 + rng.below(2) as u32);
        let mut card = Translation::new(blocks * pages * PAGE, nand, mapping, &wear, seed);
        let mut write = |first, count| {
            let done = Ftl::write(&mut card, first, count);
            card.check();
            done
        };
        loop {
            let (whole, part) = (rng.below(blocks) * pages, rng.below(blocks) * pages + 1);
            let done = write(part, 1).and_then(|_| write(whole, pages)).and_then(|_| write(whole, pages));
            if done.is_err() {
                break;
            }
        }
    }
}
