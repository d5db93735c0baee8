//! The card driven by commands through the host stack, compared with the card timed as a block device.

use flashlab_flash::ftl::card::Overwrite;
use flashlab_host::driver::mmc::MmcModel;
use flashlab_sd::{Bus, Card, CardModel, CardParameters, Identity, Link, Mode};
use flashlab_sim::{
    Completion, Duration, Fate, FileId, Instant, Mechanism, Model, Op, Request, RequestId, Rng, conformance,
};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

fn parameters(overwrite: Overwrite) -> CardParameters {
    let mut parameters = crate::common::parameters(8 * MIB);
    parameters.modes = vec![Mode::DefaultSpeed, Mode::HighSpeed];
    (parameters.mapping.overwrite, parameters.mapping.map_cache) = (overwrite, Some(16 * KIB));
    parameters.check().unwrap();
    parameters
}

const LINK: Link =
    Link { bus: Bus { clock_hz: 25_000_000, width: 4, ddr: false }, t_block_host: Duration::from_us(92) };

fn by_commands(overwrite: Overwrite, transfer: u64) -> MmcModel {
    let parameters = parameters(overwrite);
    let identity = Identity::new(&parameters);
    MmcModel::new(&Card::new(parameters, identity, None, 7), LINK, &[Mode::DefaultSpeed], transfer)
}

/// Returns the block-level model after a read of its first page, and the instant at which that read completes. The host
/// stack reads this page to look for a partition table.
fn modelled(overwrite: Overwrite) -> (CardModel, Instant) {
    let mut model = CardModel::new(parameters(overwrite), LINK, 7);
    let done = serve(&mut model, Instant::ZERO, Op::Read, 0, 4 * KIB);
    (model, done.at)
}

fn serve(model: &mut dyn Model, now: Instant, op: Op, offset: u64, length: u64) -> Completion {
    model.submit(now, Request { id: RequestId(1), op, file: FileId::DEVICE, offset, length });
    model.complete(Instant::MAX).expect("it completes")
}

#[test]
fn the_card_behind_the_stack_meets_the_contract_of_a_model() {
    for seed in 0..4 {
        conformance::check(&|| Box::new(by_commands(Overwrite::Convert, 64 * KIB)), seed);
    }
}

/// Requests of one block look the same to the translation layer in both models, so their times and mechanisms are equal
/// to the nanosecond.
#[test]
fn single_blocks_take_as_long_as_the_block_level_model_says() {
    agree(|rng| (512, 512 * rng.below(4 * MIB / 512)));
}

/// Times and mechanisms are also equal for whole pages that do not begin inside old data, and for reads of whole
/// granules.
#[test]
fn whole_pages_take_as_long_as_the_block_level_model_says() {
    agree(|rng| (4 * KIB, 4 * KIB * rng.below(4 * MIB / (4 * KIB))));
}

fn agree(place: fn(&mut Rng) -> (u64, u64)) {
    for overwrite in [Overwrite::Convert, Overwrite::Log] {
        let mut commanded = by_commands(overwrite, 64 * KIB);
        let (mut modelled, mut now) = modelled(overwrite);
        let mut rng = Rng::new(3);
        for n in 0..2_000 {
            let (length, offset) = place(&mut rng);
            let op = if rng.below(2) == 0 { Op::Read } else { Op::Write };
            let ours = serve(&mut commanded, now, op, offset, length);
            let theirs = serve(&mut modelled, now, op, offset, length);
            assert_eq!(ours, theirs, "{overwrite:?}, request {n}: {op:?} of {length} at {offset}");
            now = ours.at;
        }
    }
}

/// A stream of transfers that each end at a page boundary takes the same total time, although the card learns of each
/// command separately.
#[test]
fn streams_take_as_long_as_the_block_level_model_says() {
    for op in [Op::Write, Op::Read] {
        let mut commanded = by_commands(Overwrite::Log, 32 * KIB);
        let (mut modelled, begun) = modelled(Overwrite::Log);
        let mut now = [begun; 2];
        for offset in (0..4 * MIB).step_by(32 * KIB as usize) {
            serve(&mut commanded, now[0], Op::Write, offset, 32 * KIB);
            now[0] = serve(&mut commanded, now[0] + Duration::from_secs(1), op, offset, 32 * KIB).at;
            serve(&mut modelled, now[1], Op::Write, offset, 32 * KIB);
            now[1] = serve(&mut modelled, now[1] + Duration::from_secs(1), op, offset, 32 * KIB).at;
            assert_eq!(now[0], now[1], "{op:?} at {offset}");
        }
    }
}

#[test]
fn mechanisms_sum_to_the_latency() {
    let mut model = by_commands(Overwrite::Convert, 64 * KIB);
    let mut rng = Rng::new(9);
    let mut now = Instant::ZERO;
    for _ in 0..500 {
        let length = 512 * (1 + rng.below(300));
        let offset = 512 * rng.below((8 * MIB - length) / 512);
        let op = [Op::Read, Op::Write, Op::Trim][rng.below(3) as usize];
        let done = serve(&mut model, now, op, offset, length);
        assert_eq!(done.at.since(now), done.spent.total());
        if op == Op::Read {
            assert_eq!(done.spent[Mechanism::Host], LINK.t_block_host * (length / 512));
        }
        now = done.at;
    }
}

/// Cuts the power at instants throughout a write of four transfers. Afterwards, the data of completed transfers is new,
/// that of transfers that were never sent is unchanged, and at most one page is torn. The map agrees: a page that was
/// never programmed is read without the array.
#[test]
fn a_power_cut_leaves_the_pages_programmed_before_it() {
    const TRANSFER: u64 = 16 * KIB;
    const PAGE: u64 = 4 * KIB;
    const PER_TRANSFER: usize = (TRANSFER / PAGE) as usize;
    let request =
        Request { id: RequestId(2), op: Op::Write, file: FileId::DEVICE, offset: MIB, length: 4 * TRANSFER };
    let fresh = by_commands(Overwrite::Log, TRANSFER);
    let whole = serve(&mut fresh.clone(), Instant::ZERO, Op::Write, MIB, 4 * TRANSFER);
    let [mut seen_old, mut seen_new, mut seen_torn] = [0; 3];
    let mut over_before = 0;
    for n in 0..=400 {
        let mut model = fresh.clone();
        model.submit(Instant::ZERO, request);
        let at = Instant::from_ns(whole.at.since(Instant::ZERO).as_ns() * n / 400);
        let cut = model.power_cut(at).undecided;
        assert!(cut.iter().all(|(range, _)| MIB <= range.start && range.end <= request.end()), "{at:?}");
        let fate = |byte: u64| cut.iter().find(|(range, _)| range.contains(&byte)).map(|(_, fate)| *fate);
        let pages: Vec<_> = (MIB..request.end()).step_by(PAGE as usize).map(fate).collect();
        for page in pages.iter().flatten() {
            match page {
                Fate::Old => seen_old += 1,
                Fate::New => seen_new += 1,
                Fate::Unreadable => seen_torn += 1,
            }
        }
        // All pages of completed transfers are new. In the current transfer, recovery may miss pages that are not
        // committed.
        let sent = pages.iter().position(Option::is_none).unwrap_or(pages.len());
        let over = sent.saturating_sub(1) / PER_TRANSFER * PER_TRANSFER;
        assert!(over >= over_before, "{at:?}: {pages:?}");
        over_before = over;
        let new = pages.iter().filter(|page| **page == Some(Fate::New)).count();
        assert!(pages[..over].iter().all(|page| *page == Some(Fate::New)), "{at:?}: {pages:?}");
        let torn = pages.iter().filter(|page| **page == Some(Fate::Unreadable)).count();
        assert!(torn <= 1, "{at:?}: {pages:?}");
        assert!(n > 0 || new == 0, "a command that was never sent: {pages:?}");
        assert!(n < 400 || new == pages.len(), "the write was complete: {pages:?}");
        let ready = model.power_up(at);
        for (place, page) in pages.iter().enumerate() {
            let mut copy = model.clone();
            let read = serve(&mut copy, ready, Op::Read, MIB + place as u64 * PAGE, PAGE);
            let from_array = read.spent[Mechanism::Read] > Duration::ZERO;
            match page {
                Some(Fate::New) => assert!(from_array, "{at:?}: page {place} of {pages:?}"),
                None => {
                    assert!(!from_array && sent <= place, "{at:?}: page {place} of {pages:?}")
                }
                _ => {}
            }
        }
    }
    assert!(seen_old > 100 && seen_new > 100 && seen_torn > 10, "{seen_old} {seen_new} {seen_torn}");
}

/// After a power cut the host brings the card up again, and the written data is there.
#[test]
fn a_power_cut_ends_the_request_in_service_and_the_card_restarts() {
    let mut model = by_commands(Overwrite::Log, 64 * KIB);
    let written = serve(&mut model, Instant::ZERO, Op::Write, 0, 64 * KIB);
    model.submit(
        written.at,
        Request { id: RequestId(2), op: Op::Write, file: FileId::DEVICE, offset: 0, length: 4 * KIB },
    );
    let cut = model.power_cut(written.at + Duration::from_us(10));
    assert_eq!(cut.undecided.len(), 1);
    assert_eq!(model.next_due(), None);
    let ready = model.power_up(written.at + Duration::from_ms(1));
    assert!(ready > written.at + Duration::from_ms(100), "the host initialises the card: {ready:?}");
    let read = serve(&mut model, ready, Op::Read, 0, 4 * KIB);
    assert!(read.spent[Mechanism::Read] > Duration::ZERO, "written data is read from the array");
}
