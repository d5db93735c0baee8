//! Power cuts and saved states of the timed card.

mod cache;

use flashlab_flash::ftl::Wear;
use flashlab_flash::ftl::card::Overwrite;
use flashlab_flash::nand::Nand;
use flashlab_sd::{CardModel, CardParameters, Link, Mode};
use flashlab_sim::{
    Completion, Duration, Fate, FileId, Instant, Model, Op, PowerCut, Request, RequestId, Rng, Status,
};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

fn parameters(overwrite: Overwrite) -> CardParameters {
    let card = crate::card::parameters(overwrite);
    let t_prog_slc = (overwrite == Overwrite::Log).then(|| Duration::from_us(200));
    CardParameters {
        capacity: 2 * MIB,
        modes: vec![Mode::DefaultSpeed],
        nand: Nand { t_prog_slc, ..card.nand },
        ..card
    }
}

fn card(overwrite: Overwrite) -> CardModel {
    let parameters = parameters(overwrite);
    parameters.check().expect("a possible card");
    CardModel::new(parameters, Link { bus: Mode::DefaultSpeed.bus(), t_block_host: Duration::ZERO }, 3)
}

fn random_request(rng: &mut Rng, id: u64) -> Request {
    let op = [Op::Write, Op::Write, Op::Write, Op::Read, Op::Trim, Op::Flush][rng.below(6) as usize];
    let blocks = [1, 16, 256][rng.below(3) as usize];
    let length = 512 * (1 + rng.below(blocks));
    let offset = 512 * rng.below((2 * MIB - length) / 512);
    Request { id: RequestId(id), op, file: FileId::DEVICE, offset, length }
}

/// Runs a card through many power cuts. Returns the completions and the result of each cut.
fn life(overwrite: Overwrite, seed: u64, cuts: u64) -> (Vec<Completion>, Vec<PowerCut>) {
    let mut card = card(overwrite);
    let mut rng = Rng::new(seed);
    let (mut now, mut completions, mut left) = (Instant::ZERO, Vec::new(), Vec::new());
    for cut in 0..cuts {
        let mut outstanding: Vec<Request> = Vec::new();
        for id in 0..1 + rng.below(6) {
            let request = random_request(&mut rng, id);
            card.submit(now, request);
            outstanding.push(request);
        }
        let until = now + Duration::from_ns(rng.below(12_000_000));
        while let Some(completion) = card.complete(until) {
            now = completion.at;
            outstanding.retain(|request| request.id != completion.id);
            completions.push(completion);
        }
        now = now.max(until);
        let undecided = card.power_cut(now);
        // Requests are served in order, so only the first outstanding request has been started.
        let begun = outstanding.first().filter(|request| request.op == Op::Write);
        for (range, _) in &undecided.undecided {
            let request =
                begun.unwrap_or_else(|| panic!("seed {seed}, cut {cut}: {range:?} was not being written"));
            assert!(
                request.offset <= range.start && range.end <= request.end(),
                "seed {seed}, cut {cut}: {range:?} is outside of {request:?}, which was being written"
            );
        }
        if let Some(request) = begun {
            let named: u64 = undecided.undecided.iter().map(|(range, _)| range.end - range.start).sum();
            assert_eq!(named, request.length, "seed {seed}, cut {cut}: all of a torn write is named");
        }
        left.push(undecided);
        now = card.power_up(now);
        card.check();
    }
    (completions, left)
}

/// Completed writes are durable. Only the write in service is undecided, and the cut names all of it.
#[test]
fn a_cut_leaves_only_the_write_in_service_undecided() {
    let mut fates = [0u32; 3];
    for seed in 0..50 {
        for overwrite in [Overwrite::Log, Overwrite::Convert] {
            let (_, left) = life(overwrite, seed, 100);
            for (_, fate) in left.iter().flat_map(|cut| &cut.undecided) {
                fates[*fate as usize] += 1;
            }
        }
    }
    assert!(fates.iter().all(|count| *count > 100), "old, new and unreadable all occur: {fates:?}");
}

/// Recovery finds a programmed page with certainty only if the map on the medium records it.
#[test]
fn a_cut_during_the_commit_may_lose_the_write() {
    for overwrite in [Overwrite::Log, Overwrite::Convert] {
        let mut fates = [0u32; 3];
        for before_end in 1..100 {
            let mut card = card(overwrite);
            let request =
                Request { id: RequestId(0), op: Op::Write, file: FileId::DEVICE, offset: 0, length: 8 * KIB };
            card.submit(Instant::ZERO, request);
            let end = card.next_due().expect("the write is in service").as_ns();
            // The commit takes the last 250 us of the write.
            for (_, fate) in card.power_cut(Instant::from_ns(end - before_end * 2_000)).undecided {
                fates[fate as usize] += 1;
            }
        }
        let [old, new, unreadable] =
            [Fate::Old, Fate::New, Fate::Unreadable].map(|fate| fates[fate as usize]);
        assert!(old > 20 && new > 20 && unreadable == 0, "{overwrite:?}: {fates:?}");
    }
}

#[test]
fn the_same_cuts_have_the_same_results() {
    for overwrite in [Overwrite::Log, Overwrite::Convert] {
        assert_eq!(life(overwrite, 4, 100), life(overwrite, 4, 100));
    }
}

#[test]
fn pages_that_a_cut_write_had_not_started_are_unchanged() {
    let mut card = card(Overwrite::Convert);
    let request =
        |op, id| Request { id: RequestId(id), op, file: FileId::DEVICE, offset: 0, length: 256 * KIB };
    card.submit(Instant::ZERO, request(Op::Write, 0));
    let cut = card.power_cut(Instant::ZERO + Duration::from_ms(3));
    let (last, fate) = cut.undecided.last().expect("it was torn");
    assert!(*fate == Fate::Old && last.end == 256 * KIB);
    let now = card.power_up(Instant::ZERO + Duration::from_ms(3));
    // On a fresh card, the part that was never programmed is unmapped again: a read of it takes only the bus time.
    let tail = Request { offset: 128 * KIB, length: 4 * KIB, ..request(Op::Read, 1) };
    card.submit(now, tail);
    let done = card.complete(Instant::MAX).unwrap();
    let bus = Mode::DefaultSpeed.bus();
    assert_eq!(done.spent.total(), bus.command() * 2 + bus.read_block() * 8);
}

#[test]
fn a_saved_state_continues_like_its_card() {
    for overwrite in [Overwrite::Log, Overwrite::Convert] {
        let (mut original, mut rng, mut now) = (card(overwrite), Rng::new(9), Instant::ZERO);
        let drive = |card: &mut CardModel, rng: &mut Rng, now: &mut Instant| -> Vec<Completion> {
            (0..300)
                .map(|id| {
                    card.submit(*now, random_request(rng, id));
                    let done = card.complete(Instant::MAX).expect("it completes");
                    *now = done.at;
                    done
                })
                .collect()
        };
        drive(&mut original, &mut rng, &mut now);
        let state = original.save().expect("a card can be kept");
        let mut copy = card(overwrite);
        copy.restore(&state).expect("it is the same card");
        copy.check();
        let (mut other_rng, mut other_now) = (rng.clone(), now);
        let went_on = drive(&mut original, &mut rng, &mut now);
        assert!(went_on == drive(&mut copy, &mut other_rng, &mut other_now), "the copy behaves differently");
        let other = match overwrite {
            Overwrite::Log => Overwrite::Convert,
            Overwrite::Convert => Overwrite::Log,
        };
        assert!(card(other).restore(&state).is_err(), "the state of another card");
        assert!(card(overwrite).restore(&state[..state.len() / 2]).is_err(), "half a state");
    }
}

#[test]
fn a_worn_out_card_rejects_writes_and_still_reads() {
    let mut parameters = parameters(Overwrite::Log);
    parameters.wear = Wear { cycles: Some(20), beyond: Some(0), ..Wear::default() };
    let mut card =
        CardModel::new(parameters, Link { bus: Mode::DefaultSpeed.bus(), t_block_host: Duration::ZERO }, 3);
    let (mut now, mut statuses) = (Instant::ZERO, Vec::new());
    for id in 0..20_000 {
        let op = if statuses.contains(&Status::ReadOnly) { Op::Read } else { Op::Write };
        let request = Request { id: RequestId(id), op, file: FileId::DEVICE, offset: 0, length: 64 * KIB };
        card.submit(now, request);
        let done = card.complete(Instant::MAX).unwrap();
        now = done.at;
        statuses.push(done.status);
        if op == Op::Read {
            break;
        }
    }
    assert_eq!(statuses[statuses.len() - 2..], [Status::ReadOnly, Status::Ok]);
    card.check();
}
