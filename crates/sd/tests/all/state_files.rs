//! Corrupted state files: a changed state is either rejected or yields a card that works and passes its checks.

use flashlab_flash::ftl::card::{Mapping, Overwrite};
use flashlab_flash::ftl::{LevelingKind, Wear};
use flashlab_flash::nand::Nand;
use flashlab_sd::{CardModel, CardParameters, Link, Mode};
use flashlab_sim::{Duration, FileId, Instant, Model, Op, Request, RequestId, Rng};
use proptest::prelude::*;
use std::sync::LazyLock;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const CAPACITY: u64 = 2 * MIB;

fn parameters(overwrite: Overwrite, rewrite_unit: u64, slc: bool, wear: Wear) -> CardParameters {
    CardParameters {
        capacity: CAPACITY,
        modes: vec![Mode::DefaultSpeed],
        nand: Nand {
            page: 8 * KIB,
            t_read: Duration::from_us(100),
            read_rate: 64 * MIB,
            t_prog: Duration::from_us(600),
            t_prog_slc: slc.then(|| Duration::from_us(200)),
            bits: None,
            erase_block: 64 * KIB,
            t_bers: Duration::from_us(900),
            spread_ppm: 30_000,
        },
        mapping: Mapping {
            program_unit: 8 * KIB,
            t_commit: Duration::from_us(250),
            map_unit: rewrite_unit.min(64 * KIB),
            rewrite_unit,
            overwrite,
            open_units: 3,
            map_cache: Some(KIB),
            map_page: 512,
        },
        wear,
        refinements: Default::default(),
    }
}

/// Returns cards of both overwrite policies, which together use most of the mechanisms that a state file
/// records.
fn kinds() -> Vec<CardParameters> {
    let leveled = Wear {
        leveling: Some(LevelingKind::Static),
        threshold: Some(4),
        relief: Some(2),
        cycles: Some(5_000),
        ..Wear::default()
    };
    let dynamic = Wear { leveling: Some(LevelingKind::Dynamic), cycles: Some(5_000), ..Wear::default() };
    let mut refined = parameters(Overwrite::Convert, 128 * KIB, false, leveled);
    let layer = &mut refined.refinements.layer;
    (layer.small.max, layer.small.size) = (Some(16 * KIB), Some(64 * KIB));
    (layer.small.t_idle, layer.t_switch) = (Some(Duration::from_us(500)), Some(Duration::from_us(700)));
    (layer.housekeeping_every, layer.t_housekeeping) = (Some(100 * KIB), Some(Duration::from_us(5_000)));
    layer.collect_step = Some(16 * KIB);
    vec![
        parameters(Overwrite::Log, 64 * KIB, true, leveled),
        parameters(Overwrite::Log, 64 * KIB, false, dynamic),
        parameters(Overwrite::Convert, 128 * KIB, false, leveled),
        parameters(Overwrite::Log, 32 * KIB, false, dynamic),
        refined,
    ]
}

fn new(parameters: &CardParameters) -> CardModel {
    parameters.check().expect("a possible card");
    let link = Link { bus: Mode::DefaultSpeed.bus(), t_block_host: Duration::ZERO };
    CardModel::new(parameters.clone(), link, 3)
}

fn busy(card: &mut CardModel, rng: &mut Rng, now: &mut Instant, count: u64) {
    for id in 0..count {
        let op = [Op::Write, Op::Write, Op::Write, Op::Trim, Op::Read][rng.below(5) as usize];
        let length = [512, 4 * KIB, 16 * KIB, 64 * KIB][rng.below(4) as usize];
        let places = (CAPACITY - length) / 512;
        let offset = match rng.below(3) {
            0 => 64 * KIB * rng.below(CAPACITY / (64 * KIB)),
            _ => 512 * rng.below(places),
        };
        card.submit(*now, Request { id: RequestId(id), op, file: FileId::DEVICE, offset, length });
        *now = card.complete(Instant::MAX).expect("it completes").at;
        // Some pauses are long enough for the collection of a part of a block.
        *now += Duration::from_us([0, 0, 3_000][rng.below(3) as usize]);
    }
}

/// A card of each kind with its state.
static SAVED: LazyLock<Vec<(CardParameters, Vec<u8>)>> = LazyLock::new(|| {
    let save = |parameters: CardParameters| {
        let mut card = new(&parameters);
        busy(&mut card, &mut Rng::new(3), &mut { Instant::ZERO }, 1_500);
        (parameters, card.save().expect("a card can be saved"))
    };
    kinds().into_iter().map(save).collect()
});

/// Restores a state and continues to use the card. Returns true if the card accepts the state.
fn work(parameters: &CardParameters, state: &[u8]) -> bool {
    let (mut card, mut now, mut rng) = (new(parameters), Instant::ZERO, Rng::new(4));
    if card.restore(state).is_err() {
        return false;
    }
    busy(&mut card, &mut rng, &mut now, 300);
    card.check();
    card.power_cut(now);
    now = card.power_up(now);
    card.check();
    busy(&mut card, &mut rng, &mut now, 100);
    card.save().expect("it can be saved");
    true
}

#[test]
fn a_snapshot_is_restored_and_saved_unchanged() {
    for (parameters, state) in SAVED.iter() {
        let mut card = new(parameters);
        card.restore(state).expect("the state belongs to such a card");
        assert_eq!(card.save().as_ref(), Some(state));
        assert!(work(parameters, state));
    }
}

#[test]
fn a_card_that_rejects_a_state_is_unchanged() {
    let (parameters, state) = &SAVED[0];
    let mut card = new(parameters);
    busy(&mut card, &mut Rng::new(9), &mut { Instant::ZERO }, 200);
    let before = card.save();
    assert!(card.restore(&state[..state.len() - 1]).is_err(), "the state is truncated");
    let mut other = new(&CardParameters { capacity: CAPACITY / 2, ..parameters.clone() });
    assert!(other.restore(state).is_err(), "the state belongs to a larger card");
    let seed = Link { bus: Mode::DefaultSpeed.bus(), t_block_host: Duration::ZERO };
    assert!(
        CardModel::new(parameters.clone(), seed, 4).restore(state).is_err(),
        "the state belongs to a medium with another seed"
    );
    assert_eq!(card.save(), before);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, ..ProptestConfig::default() })]
    #[test]
    fn a_modified_state_is_rejected_or_works(
        kind in 0usize..5,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0u8..4), 1..4),
    ) {
        let (parameters, state) = &SAVED[kind];
        let mut changed = state.clone();
        for (at, byte, how) in changes {
            let at = at.index(changed.len());
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
