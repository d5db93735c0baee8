//! Wear leveling on a minimal model: units of one erase block each, and some spare blocks, compared with
//! closed forms (W2 to W5). Labels: docs/closed-forms.md.

use flashlab_flash::ftl::wear_leveling::LevelingPolicy;
use flashlab_flash::ftl::{Blocks, Erased};
use flashlab_flash::nand::{Endurance, EraseBlock};
use flashlab_sim::Rng;
use proptest::prelude::*;

const STATIC: fn(u32) -> LevelingPolicy = |threshold| LevelingPolicy::Static { threshold, relief: threshold };

/// Model in which every unit occupies a block of its own. An overwrite of a unit takes another block.
#[derive(Clone)]
struct Units {
    blocks: Blocks,
    place: Vec<EraseBlock>,
    /// True if a block is erased when it is taken, false if it is erased when it is released.
    erases_last: bool,
    moves: u64,
}

impl Units {
    fn new(units: u32, spare: u32, policy: LevelingPolicy, endurance: Option<&Endurance>) -> Self {
        let mut blocks = Blocks::new(units + spare, 1, policy, endurance, 1);
        let place = (0..units).map(|_| blocks.take(0).expect("enough are free")).collect();
        Units { blocks, place, erases_last: false, moves: 0 }
    }

    fn give_back(&mut self, block: EraseBlock) {
        if self.erases_last {
            self.blocks.release(block);
        } else {
            self.blocks.erased(block);
        }
    }

    /// Overwrites a unit. Returns `None` if no block is free.
    fn write(&mut self, unit: usize) -> Option<()> {
        let new = if self.erases_last { self.blocks.take_erased(0) } else { self.blocks.take(0) }?;
        let old = std::mem::replace(&mut self.place[unit], new);
        self.give_back(old);
        while let Some(from) = self.blocks.relocate(0) {
            let unit = self.place.iter().position(|place| *place == from).expect("used blocks hold units");
            let to =
                if self.erases_last { self.blocks.take_worn_erased(0) } else { self.blocks.take_worn(0) }?;
            self.place[unit] = to;
            self.give_back(from);
            self.moves += 1;
        }
        Some(())
    }

    fn difference(&self) -> u32 {
        let counts = self.blocks.erase_counts();
        counts.iter().max().unwrap() - counts.iter().min().unwrap()
    }
}

#[test]
fn without_leveling_one_unit_wears_its_own_block_and_one_more() {
    let mut units = Units::new(100, 20, LevelingPolicy::None, None);
    (0..1_000).for_each(|_| units.write(7).unwrap());
    let worn: Vec<u32> = units.blocks.erase_counts().iter().copied().filter(|e| *e > 0).collect();
    assert_eq!(worn, [500, 500]);
}

#[test]
fn without_leveling_a_range_shares_one_spare_block_evenly() {
    let mut units = Units::new(100, 20, LevelingPolicy::None, None);
    (0..1_100).for_each(|n| units.write(n % 10).unwrap());
    let worn: Vec<u32> = units.blocks.erase_counts().iter().copied().filter(|e| *e > 0).collect();
    assert_eq!(worn, [100; 11]);
}

/// W3: dynamic leveling alone does not erase the blocks of data that is never written. With a share c of such data, the
/// life is 1 - c rho of that under perfect leveling.
#[test]
fn under_dynamic_leveling_a_device_lives_as_long_as_its_blocks_without_cold_data() {
    let cycles = 300;
    for (hot, cold, spare) in [(100, 0, 20), (60, 40, 20), (20, 80, 20), (1, 99, 20)] {
        let mut units =
            Units::new(hot + cold, spare, LevelingPolicy::Dynamic, Some(&Endurance::exactly(cycles)));
        let (mut rng, mut writes) = (Rng::new(3), 0u64);
        while units.write(rng.below(u64::from(hot)) as usize).is_some() {
            writes += 1;
        }
        let warm = u64::from(hot + spare);
        // A block that cannot be erased again still holds its last unit, so a block takes one more write than erases.
        let most = warm * u64::from(cycles) + u64::from(spare);
        assert!(writes <= most && writes as f64 > 0.99 * most as f64, "{writes} writes of {most}");
        let never = units.blocks.erase_counts().iter().filter(|e| **e == 0).count();
        assert_eq!(never, cold as usize, "the number of blocks that were never erased is wrong");
        units.blocks.check();
    }
}

/// W2: static leveling uses all cycles of all blocks, except for the threshold.
#[test]
fn under_static_leveling_a_device_lives_as_long_as_all_its_blocks() {
    let (cycles, threshold) = (300, 8);
    for (hot, cold, spare) in [(60, 40, 20), (20, 80, 20), (1, 99, 20)] {
        let mut units = Units::new(hot + cold, spare, STATIC(threshold), Some(&Endurance::exactly(cycles)));
        let mut rng = Rng::new(3);
        while units.blocks.first_failure().is_none() {
            units.write(rng.below(u64::from(hot)) as usize).unwrap();
        }
        let all = f64::from((hot + cold + spare) * cycles);
        let used = units.blocks.first_failure().unwrap() as f64 / all;
        assert!(used > 1.0 - f64::from(threshold + 1) / f64::from(cycles), "{used} of all cycles");
    }
}

/// W4: a move also erases a block, and the next move follows after threshold - 1 to threshold erases. With
/// bursts of moves down to a smaller difference (`relief`), the number of moves per write is no smaller.
#[test]
fn static_leveling_costs_about_one_move_in_threshold_writes() {
    for threshold in [4, 16, 64] {
        for relief in [threshold, threshold / 2] {
            let mut units = Units::new(200, 20, LevelingPolicy::Static { threshold, relief }, None);
            let writes = 60_000u64;
            (0..writes).for_each(|n| units.write((n % 3) as usize).unwrap());
            let moves = units.moves as f64 / writes as f64;
            let (least, most) = (1.0 / f64::from(threshold), 1.0 / f64::from(relief - 1));
            assert!(
                moves > 0.85 * least && moves < 1.05 * most,
                "{moves} moves a write, not {least} to {most}"
            );
        }
    }
}

/// W4 with a ring of data that is rewritten in turn in far more space than it needs, and with a few seldom
/// written units. Data in the blocks that these units have left stays in the least worn blocks for a long
/// time, but is rewritten anyway.
#[test]
fn static_leveling_does_not_move_data_that_is_rewritten_anyway() {
    for (threshold, relief) in [(8, 8), (8, 4), (64, 32)] {
        for seed in 0..20 {
            let mut units = Units::new(20, 180, LevelingPolicy::Static { threshold, relief }, None);
            let (mut rng, writes) = (Rng::new(seed), 100_000u64);
            for n in 0..writes {
                let seldom = rng.below(4_000) == 0;
                units.write(if seldom { 16 + rng.below(4) as usize } else { n as usize % 16 }).unwrap();
            }
            // Four of 200 blocks fall behind. Each of them is moved once the other blocks have been erased
            // between `relief` - 1 and `threshold` more times.
            let moves = units.moves as f64 * 200.0 / (4 * writes) as f64;
            let (least, most) = (1.0 / f64::from(threshold), 1.0 / f64::from(relief - 1));
            assert!(
                moves > 0.5 * least && moves < 1.1 * most,
                "seed {seed}: {moves} moves an erase, not {least} to {most}"
            );
            assert!(units.difference() <= threshold + 1);
        }
    }
}

/// W4 under any load, with a threshold well above the natural spread of the erase counts.
#[test]
fn static_leveling_costs_at_most_one_move_in_relief_writes_under_any_load() {
    /// Returns the unit of the nth write. The second argument is the number of units, the third is n.
    type Load = fn(&mut Rng, usize, usize) -> usize;
    let loads: [(&str, Load); 4] = [
        ("uniform", |rng, units, _| rng.below(units as u64) as usize),
        ("nine in ten to a tenth", |rng, units, _| {
            let unit = rng.below(units as u64) as usize;
            if rng.below(10) == 0 { unit } else { unit % (units / 10) }
        }),
        ("a ring over half, and one in a thousand anywhere", |rng, units, n| {
            if rng.below(1_000) == 0 { rng.below(units as u64) as usize } else { n % (units / 2) }
        }),
        ("three units, which drift", |rng, units, n| (n / 5_000 * 7 + rng.below(3) as usize) % units),
    ];
    for (name, load) in loads {
        for (count, spare) in [(195, 5), (200, 20), (100, 100), (20, 180)] {
            for relief in [32, 64] {
                let policy = LevelingPolicy::Static { threshold: 64, relief };
                let (mut units, mut rng) = (Units::new(count, spare, policy, None), Rng::new(1));
                let writes = 60_000;
                (0..writes).for_each(|n| units.write(load(&mut rng, count as usize, n)).unwrap());
                let moves = units.moves as f64 / writes as f64;
                assert!(
                    moves < 1.4 / f64::from(relief),
                    "{name}, {count} units and {spare} blocks more, relief {relief}: {moves} moves a write"
                );
                assert!(units.difference() <= 65);
            }
        }
    }
}

/// Similar to W5: random writes over all units. Erase counts differ by at most the threshold, so the deviation over the
/// mean falls with the mean. At 87 erases, it is of the order of one per cent.
#[test]
fn under_uniform_load_wear_is_even_to_a_few_per_cent() {
    for (policy, most) in [(LevelingPolicy::Dynamic, 0.06), (STATIC(4), 0.02)] {
        let mut units = Units::new(1_000, 70, policy, None);
        let mut rng = Rng::new(5);
        (0..1_070 * 87).for_each(|_| units.write(rng.below(1_000) as usize).unwrap());
        let wear = units.blocks.summary();
        assert!(wear.mean >= 87.0 && wear.deviation / wear.mean <= most, "{policy:?}: {wear:?}");
    }
}

#[test]
fn a_block_survives_exactly_as_many_erases_as_its_limit() {
    let mut blocks = Blocks::new(2, 1, LevelingPolicy::None, Some(&Endurance::exactly(3)), 1);
    let mut ends = Vec::new();
    for _ in 0..4 {
        let block = blocks.take(0).unwrap();
        ends.push(blocks.erased(block));
    }
    assert_eq!(ends, [Erased::Free, Erased::Free, Erased::Free, Erased::WornOut]);
    assert_eq!((blocks.erases(), blocks.first_failure(), blocks.bad_count()), (3, Some(3), 1));
    assert!(
        blocks.is_bad(EraseBlock::new(0))
            && blocks.take(0) == Some(EraseBlock::new(1))
            && blocks.take(0).is_none()
    );
}

#[test]
fn blocks_that_are_bad_from_the_factory_are_never_allocated() {
    let endurance = Endurance { factory_bad_ppm: 200_000, ..Endurance::exactly(10) };
    let mut blocks = Blocks::new(1_000, 4, LevelingPolicy::Dynamic, Some(&endurance), 7);
    blocks.check();
    let bad = blocks.factory_bad_count();
    assert!((150..250).contains(&bad), "{bad} of 1000");
    let taken: Vec<EraseBlock> =
        (0..4).flat_map(|p| std::iter::from_fn(|| blocks.take(p)).collect::<Vec<_>>()).collect();
    assert_eq!(taken.len() as u32, 1_000 - bad);
    assert!(taken.iter().all(|b| !endurance.factory_bad(7, *b)));
    assert_eq!(blocks.summary().blocks, 1_000 - bad);
    assert_eq!(blocks.summary().failures, 0);
}

/// State of a block in the plain list that serves as the reference.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Is {
    Free(u64),
    Used,
    Bad,
}

proptest! {
    /// The guarantee holds for any writes, and for the smallest thresholds and numbers of spare blocks.
    #[test]
    fn under_static_leveling_erase_counts_never_differ_by_more_than_the_threshold_and_one(
        units in 1u32..20,
        spare in 1u32..6,
        threshold in 1u32..8,
        relief in 1u32..8,
        erases_last in any::<bool>(),
        hot in 1u64..20,
        seeks_the_most_worn in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let policy = LevelingPolicy::Static { threshold, relief: relief.min(threshold) };
        let mut model = Units { erases_last, ..Units::new(units, spare, policy, None) };
        let mut rng = Rng::new(seed);
        for step in 0..2_000 {
            let unit = if seeks_the_most_worn && rng.below(2) == 0 {
                (0..model.place.len()).max_by_key(|u| model.blocks.erase_count(model.place[*u])).unwrap()
            } else {
                rng.below(hot.min(u64::from(units))) as usize
            };
            model.write(unit).expect("nothing wears out");
            prop_assert!(model.difference() <= threshold + 1,
                "step {step}: {:?} differ by more than {threshold} + 1", model.blocks.erase_counts());
        }
        model.blocks.check();
    }

    #[test]
    fn blocks_agree_with_a_plain_list(
        pools in 1u32..4,
        dynamic in any::<bool>(),
        limited in any::<bool>(),
        steps in prop::collection::vec((0u8..6, any::<u32>()), 1..200),
    ) {
        let policy = if dynamic { LevelingPolicy::Dynamic } else { LevelingPolicy::None };
        let endurance = Endurance::exactly(3);
        let count = 12;
        let mut blocks = Blocks::new(count, pools, policy, limited.then_some(&endurance), 1);
        let order = |n: u32| u64::from(if dynamic { n } else { count - 1 - n });
        let mut list: Vec<(Is, u32)> = (0..count).map(|n| (Is::Free(order(n)), 0)).collect();
        let mut clock = u64::from(count);
        // Dynamic leveling takes the least worn block, and among those the longest free one. Without leveling, the next
        // block is the last one freed.
        let next = |list: &[(Is, u32)], pool: u32| {
            let free = (0..count).filter(|b| b % pools == pool).filter_map(|b| match list[b as usize] {
                (Is::Free(since), erases) => Some((erases, since, b)),
                _ => None,
            });
            if dynamic { free.min() } else { free.max_by_key(|(_, since, _)| *since) }.map(|(.., b)| b)
        };
        for (what, salt) in steps {
            let pool = salt % pools;
            let used: Vec<u32> = (0..count).filter(|b| list[*b as usize].0 == Is::Used).collect();
            let some_used = used.get(salt as usize % used.len().max(1)).copied();
            match (what, some_used) {
                (0 | 1, _) => {
                    let expected = next(&list, pool);
                    prop_assert_eq!(blocks.take(pool), expected.map(EraseBlock::new));
                    if let Some(b) = expected {
                        list[b as usize].0 = Is::Used;
                    }
                }
                (2, _) => {
                    let mut expected = next(&list, pool);
                    while let Some(b) = expected && limited && list[b as usize].1 == 3 {
                        list[b as usize].0 = Is::Bad;
                        expected = next(&list, pool);
                    }
                    prop_assert_eq!(blocks.take_erased(pool), expected.map(EraseBlock::new));
                    if let Some(b) = expected {
                        list[b as usize] = (Is::Used, list[b as usize].1 + 1);
                    }
                }
                (3, Some(b)) => {
                    blocks.release(EraseBlock::new(b));
                    list[b as usize].0 = Is::Free(clock);
                    clock += 1;
                }
                (4, Some(b)) => {
                    let worn = limited && list[b as usize].1 == 3;
                    let ended = blocks.erased(EraseBlock::new(b));
                    prop_assert_eq!(ended, if worn { Erased::WornOut } else { Erased::Free });
                    list[b as usize] = if worn { (Is::Bad, 3) } else { (Is::Free(clock), list[b as usize].1 + 1) };
                    clock += 1;
                }
                (5, Some(b)) if salt % 5 == 0 => {
                    blocks.retire(EraseBlock::new(b));
                    list[b as usize].0 = Is::Bad;
                }
                _ => {}
            }
            blocks.check();
            prop_assert_eq!(blocks.erase_counts().to_vec(), list.iter().map(|(_, e)| *e).collect::<Vec<_>>());
            for b in 0..count {
                prop_assert_eq!(blocks.is_bad(EraseBlock::new(b)), list[b as usize].0 == Is::Bad);
            }
        }
    }
}
