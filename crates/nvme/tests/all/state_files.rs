//! Corrupted state files: a changed state is either rejected or yields a drive that works and passes its checks.

use crate::common::{Driven, KIB, MIB, loading, small, unreliable_cells, us};
use flashlab_flash::ftl::gc::VictimPolicy;
use flashlab_flash::ftl::page_map::Slc;
use flashlab_flash::ftl::page_map::Streams;
use flashlab_flash::ftl::wear_leveling::LevelingPolicy;
use flashlab_flash::nand::{Endurance, Reliability};
use flashlab_nvme::SsdParameters;
use flashlab_sim::{Model, Op, Rng};
use proptest::prelude::*;
use std::sync::LazyLock;

/// Returns drives with as much state as possible: pending records, open pages, failed blocks.
fn kinds() -> Vec<SsdParameters> {
    let mut first = loading(8 * KIB, 64 * KIB);
    first.page_map.geometry.pages = 8;
    first.page_map.capacity = 10 * MIB;
    first.page_map.leveling = LevelingPolicy::Static { threshold: 4, relief: 2 };
    first.page_map.streams = Streams::HotCold;
    first.page_map.victim = VictimPolicy::CostBenefit;
    let mut second = small();
    second.page_map.geometry.pages = 9;
    second.page_map.capacity = 9 * MIB;
    second.page_map.slc = Some(Slc { blocks: 3, fold_ppm: 300_000 });
    second.page_map.endurance = Some(Endurance {
        program_fail_ppb: 1_000_000,
        factory_bad_ppm: 10_000,
        ..Endurance::exactly(10_000)
    });
    second.reliability = Some(Reliability { worn: 1e-6, ..unreliable_cells(1e-5) });
    let mut third = loading(8 * KIB, MIB);
    third.page_map.geometry.pages = 8;
    third.page_map.capacity = 10 * MIB;
    third.page_map.victim = VictimPolicy::DChoices { d: 3 };
    third.page_map.leveling = LevelingPolicy::None;
    let mut fourth = small();
    fourth.page_map.geometry.pages = 8;
    fourth.page_map.capacity = 10 * MIB;
    fourth.page_map.victim = VictimPolicy::Fifo;
    vec![first, second, third, fourth]
}

fn busy(drive: &mut Driven, rng: &mut Rng, count: u32) {
    let capacity = drive.ssd.geometry().capacity;
    for _ in 0..count {
        let op = [Op::Write, Op::Write, Op::Write, Op::WriteFua, Op::Trim, Op::Read, Op::Flush]
            [rng.below(7) as usize];
        let length = [512, 4 * KIB, 4 * KIB, 64 * KIB][rng.below(4) as usize];
        let offset = rng.below((capacity - length) / 512) * 512;
        drive.one(op, offset, length);
        if rng.below(50) == 0 {
            drive.pause(us(5_000));
        }
    }
}

/// A drive of each kind with its state.
static SAVED: LazyLock<Vec<(SsdParameters, Vec<u8>)>> = LazyLock::new(|| {
    let save = |parameters: SsdParameters| {
        let mut drive = Driven::new(parameters.clone());
        drive.fill(8 * MIB);
        busy(&mut drive, &mut Rng::new(3), 2_000);
        (parameters, drive.ssd.save().expect("it can be saved"))
    };
    kinds().into_iter().map(save).collect()
});

/// Restores a state and continues to use the drive. Returns true if the drive accepts the state.
fn work(parameters: &SsdParameters, state: &[u8]) -> bool {
    let mut drive = Driven::new(parameters.clone());
    if drive.ssd.restore(state).is_err() {
        return false;
    }
    let mut rng = Rng::new(4);
    busy(&mut drive, &mut rng, 300);
    drive.ssd.layer().check();
    drive.ssd.map().check();
    drive.ssd.power_cut(drive.now);
    drive.now = drive.ssd.power_up(drive.now);
    drive.ssd.layer().check();
    busy(&mut drive, &mut rng, 100);
    drive.ssd.save().expect("it can be saved");
    true
}

#[test]
fn a_snapshot_is_restored_and_saved_unchanged() {
    for (parameters, state) in SAVED.iter() {
        let mut drive = Driven::new(parameters.clone());
        drive.ssd.restore(state).expect("the state belongs to such a drive");
        assert_eq!(drive.ssd.save().as_ref(), Some(state), "the state changed");
        assert!(work(parameters, state));
    }
}

#[test]
fn a_drive_that_rejects_a_state_is_unchanged() {
    let (parameters, state) = &SAVED[0];
    let mut drive = Driven::new(parameters.clone());
    busy(&mut drive, &mut Rng::new(9), 200);
    let before = drive.ssd.save();
    let mut wrong = state.clone();
    wrong.truncate(state.len() - 1);
    assert!(drive.ssd.restore(&wrong).is_err());
    assert_eq!(drive.ssd.save(), before);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]
    #[test]
    fn a_modified_state_is_rejected_or_works(
        kind in 0usize..4,
        behind_the_maps: bool,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0u8..4), 1..4),
    ) {
        let (parameters, state) = &SAVED[kind];
        let mut changed = state.clone();
        for (at, byte, how) in changes {
            // The maps make up most of the state. The structures that connect the maps follow them.
            let at = match behind_the_maps {
                true => changed.len() - 1 - at.index(3_000),
                false => at.index(changed.len()),
            };
            match how {
                0 => changed[at] = byte,
                // Keeps the continuation bit of a number: the encoding stays valid, and the number changes.
                1 => changed[at] = (changed[at] & 0x80) | (byte & 0x7f),
                2 => changed[at] = changed[at].wrapping_add(1),
                _ => changed[at] ^= 1,
            }
        }
        work(parameters, &changed);
    }
}
