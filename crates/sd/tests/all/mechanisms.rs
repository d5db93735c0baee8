//! Compares mechanisms that only some cards have with sums that are calculated by hand.

use flashlab_flash::ftl::Wear;
use flashlab_flash::ftl::card::{Mapping, Overwrite};
use flashlab_flash::nand::Nand;
use flashlab_sd::{CardModel, CardParameters, Link, Mode, Refinements};
use flashlab_sim::{
    Completion, Duration, FileId, Instant, Mechanism, Model, Op, Request, RequestId, Rng, Status, conformance,
};

pub(super) const KIB: u64 = 1 << 10;
pub(super) const MIB: u64 = 1 << 20;
pub(super) const AU: u64 = MIB;

pub(super) fn us(n: u64) -> Duration {
    Duration::from_us(n)
}

pub(super) fn parameters(overwrite: Overwrite) -> CardParameters {
    CardParameters {
        capacity: 32 * MIB,
        modes: vec![Mode::Ddr50, Mode::DefaultSpeed],
        nand: Nand {
            page: 4 * KIB,
            t_read: us(300),
            read_rate: 256 * MIB,
            t_prog: us(600),
            t_prog_slc: None,
            bits: None,
            erase_block: AU,
            t_bers: Duration::ZERO,
            spread_ppm: 0,
        },
        mapping: Mapping {
            program_unit: 4 * KIB,
            t_commit: us(250),
            map_unit: 64 * KIB,
            rewrite_unit: if overwrite == Overwrite::Log { AU } else { 64 * KIB },
            overwrite,
            open_units: 1,
            map_cache: None,
            map_page: 4 * KIB,
        },
        wear: Wear::default(),
        refinements: Refinements::default(),
    }
}

pub(super) fn link() -> Link {
    Link { bus: Mode::Ddr50.bus(), t_block_host: Duration::ZERO }
}

/// A card that gets one request at a time.
pub(super) struct Bench {
    pub(super) card: CardModel,
    pub(super) now: Instant,
}

impl Bench {
    pub(super) fn new(parameters: &CardParameters) -> Bench {
        parameters.check().expect("possible");
        Bench { card: CardModel::new(parameters.clone(), link(), 1), now: Instant::ZERO }
    }

    pub(super) fn with(overwrite: Overwrite, set: impl Fn(&mut Refinements)) -> Bench {
        let mut parameters = parameters(overwrite);
        set(&mut parameters.refinements);
        Bench::new(&parameters)
    }

    pub(super) fn run(&mut self, op: Op, offset: u64, length: u64) -> Completion {
        let request = Request { id: RequestId(1), op, file: FileId::DEVICE, offset, length };
        self.card.submit(self.now, request);
        let done = self.card.complete(Instant::MAX).expect("it completes");
        self.now = done.at;
        done
    }

    pub(super) fn time(&mut self, op: Op, offset: u64, length: u64) -> Duration {
        self.run(op, offset, length).spent.total()
    }
}

pub(super) fn write_bus(bytes: u64) -> Duration {
    let bus = Mode::Ddr50.bus();
    bus.command() * 2 + bus.write_block() * (bytes / 512)
}

#[test]
fn cards_with_many_mechanisms_obey_the_contract_of_a_model() {
    for (overwrite, is_striped) in [
        (Overwrite::Convert, true),
        (Overwrite::Log, true),
        (Overwrite::Convert, false),
        (Overwrite::Log, false),
    ] {
        let mut parameters = parameters(overwrite);
        let r = &mut parameters.refinements;
        (r.read_ahead, r.t_command) = (Some(64 * KIB), Some(us(70)));
        *(if is_striped { &mut r.layer.stripe } else { &mut r.write_buffer }) = Some(32 * KIB);
        r.access[Mode::Ddr50.index()] = Some(us(50));
        r.layer.t_write = Some(us(900));
        r.layer.t_copy = Some(us(9_000));
        r.layer.t_switch = Some(us(700));
        r.layer.collect_step = Some(64 * KIB);
        (r.layer.housekeeping_every, r.layer.t_housekeeping) = (Some(100 * KIB), Some(us(5_000)));
        r.layer.small.max = Some(16 * KIB);
        r.layer.small.size = Some(128 * KIB);
        r.layer.small.t_idle = Some(us(100));
        parameters.check().expect("possible");
        for seed in 0..20 {
            let parameters = parameters.clone();
            conformance::check(
                &move || Box::new(CardModel::new(parameters.clone(), link(), 1).in_mode(Mode::Ddr50)),
                seed,
            );
        }
    }
}

#[test]
fn every_write_command_has_its_busy_time_even_in_sequence() {
    let mut plain = Bench::with(Overwrite::Convert, |_| ());
    let mut busy = Bench::with(Overwrite::Convert, |r| r.layer.t_write = Some(us(2_100)));
    for (offset, length) in [(0, 4 * KIB), (4 * KIB, 4 * KIB), (8 * KIB, 512 * KIB), (MIB, 4 * KIB)] {
        let done = busy.run(Op::Write, offset, length);
        assert_eq!(done.spent.total(), plain.time(Op::Write, offset, length) + us(2_100));
        assert_eq!(done.spent[Mechanism::Busy], us(2_100));
    }
}

#[test]
fn a_single_page_takes_one_program_and_a_long_write_streams_by_stripes() {
    let mut card = Bench::with(Overwrite::Convert, |r| r.layer.stripe = Some(64 * KIB));
    let first = card.run(Op::Write, 0, 4 * KIB);
    assert_eq!(first.spent.total(), write_bus(4 * KIB) + us(600) + us(250), "bus, program, commit");
    // The bus takes longer than the programs of a stripe, so only the program of the last page adds time.
    let long = card.run(Op::Write, 4 * KIB, 512 * KIB);
    assert_eq!(long.spent.total(), write_bus(512 * KIB) + us(600));
    assert_eq!(long.spent[Mechanism::Program], us(600));
}

#[test]
fn a_long_write_takes_the_transfer_of_its_first_buffer_and_all_programs() {
    // The bus needs less time for a page than the array.
    let slow = |r: &mut Refinements| r.write_buffer = Some(128 * KIB);
    let mut card = Bench::with(Overwrite::Convert, slow);
    let pages = 512 / 4;
    let programs = us(600) * pages;
    let first = write_bus(512 * KIB) - write_bus(384 * KIB);
    let done = card.run(Op::Write, 0, 512 * KIB);
    let commands = write_bus(512 * KIB) - first * 4;
    assert_eq!(done.spent.total(), commands + first + programs + us(250), "with the commit of a new run");
    assert_eq!(done.spent[Mechanism::Program], programs);
    let mut card = Bench::with(Overwrite::Convert, slow);
    let short = card.run(Op::Write, 0, 4 * KIB);
    assert_eq!(short.spent.total(), write_bus(4 * KIB) + us(600) + us(250), "bus, program, commit");
}

#[test]
fn small_writes_go_to_their_area_unless_they_continue_a_run() {
    let set = |r: &mut Refinements| {
        r.layer.t_write = Some(us(2_000));
        r.layer.small.max = Some(8 * KIB);
        r.layer.small.t_prog = Some(us(700));
    };
    let mut card = Bench::with(Overwrite::Convert, set);
    let area = |bytes| write_bus(bytes) + us(700);
    assert_eq!(card.time(Op::Write, 512 * KIB, 4 * KIB), area(4 * KIB), "neither busy time nor commit");
    assert_eq!(card.time(Op::Write, 516 * KIB, 4 * KIB), write_bus(4 * KIB) + us(600 + 2_000), "in sequence");
    assert!(card.time(Op::Write, 0, 16 * KIB) > us(2_000), "too long for the area");
    // A write of a part of a granule reads the rest first. The first write has put this granule into the
    // area.
    let part = card.run(Op::Write, 512 * KIB + 512, KIB);
    assert_eq!(part.spent[Mechanism::ReadModifyWrite], us(300));
    assert_eq!(part.spent.total(), us(300 + 700) + Mode::Ddr50.bus().command() * 2, "the transfer overlaps");
    assert_eq!(card.run(Op::Read, 512 * KIB, 4 * KIB).spent[Mechanism::Read], us(300), "it is mapped");
    card.card.check();
}

#[test]
fn a_full_area_folds_its_oldest_rewrite_unit() {
    let set = |r: &mut Refinements| {
        r.layer.small.max = Some(4 * KIB);
        r.layer.small.size = Some(16 * KIB);
    };
    let mut card = Bench::with(Overwrite::Convert, set);
    // The first two writes are to one rewrite unit, and the others to other units. The area has four slots.
    for (at, folds) in [(0, false), (12, false), (100, false), (200, false), (300, true), (400, false)] {
        let done = card.run(Op::Write, at * KIB, 4 * KIB);
        let expected = if folds {
            // The two granules of the rewrite unit of offset 0 are streamed out and programmed.
            (us(600) + Duration::from_ratio_secs(4 * KIB, 256 * MIB)) * 2
        } else {
            Duration::ZERO
        };
        assert_eq!(done.spent[Mechanism::Fold], expected, "write at {at} KiB");
    }
    card.card.check();
}

#[test]
fn the_card_reads_ahead_until_the_next_command() {
    let mut card = Bench::with(Overwrite::Convert, |r| r.read_ahead = Some(64 * KIB));
    card.time(Op::Write, 0, 256 * KIB);
    assert_eq!(card.run(Op::Read, 0, 4 * KIB).spent[Mechanism::Read], us(300), "not in sequence");
    // After the first access, the array streams faster than the wires transfer.
    let stream = |bytes| Duration::from_ratio_secs(bytes, 256 * MIB);
    assert!(stream(4 * KIB) < Mode::Ddr50.bus().read_block() * 8);
    for offset in [4, 8, 12] {
        let read = card.run(Op::Read, offset * KIB, 4 * KIB).spent[Mechanism::Read];
        assert_eq!(read, Duration::ZERO, "{offset} KiB continues");
    }
    assert_eq!(card.run(Op::Read, 128 * KIB, 4 * KIB).spent[Mechanism::Read], us(300), "elsewhere");
}

#[test]
fn an_array_slower_than_the_wires_delays_reads_beyond_its_read_ahead() {
    let slow = |bytes| Duration::from_ratio_secs(bytes, 10 * MIB);
    let mut parameters = parameters(Overwrite::Convert);
    parameters.nand.read_rate = 10 * MIB;
    parameters.refinements.read_ahead = Some(8 * KIB);
    let mut card = Bench::new(&parameters);
    card.time(Op::Write, 0, 256 * KIB);
    card.run(Op::Read, 0, 4 * KIB);
    // The pause leaves 8 KiB in the buffer, which two reads take without a pause of the wires.
    card.now += us(5000);
    assert_eq!(card.run(Op::Read, 4 * KIB, 4 * KIB).spent[Mechanism::Read], Duration::ZERO);
    assert_eq!(card.run(Op::Read, 8 * KIB, 4 * KIB).spent[Mechanism::Read], Duration::ZERO);
    // Meanwhile the array streams on, for as long as the two reads took.
    let bus = Mode::Ddr50.bus();
    let each = bus.read_block() * 8 + bus.command() * 2;
    let read = card.run(Op::Read, 12 * KIB, 4 * KIB).spent[Mechanism::Read];
    assert_eq!(read, slow(4 * KIB).saturating_sub(each * 2));
}

#[test]
fn reading_ahead_does_not_hide_the_time_of_a_read_command() {
    let mut card = Bench::with(Overwrite::Convert, |r| {
        (r.read_ahead, r.t_command) = (Some(64 * KIB), Some(us(240)));
    });
    let mut plain = Bench::with(Overwrite::Convert, |r| r.read_ahead = Some(64 * KIB));
    for bench in [&mut card, &mut plain] {
        bench.time(Op::Write, 0, 256 * KIB);
    }
    for offset in [0, 4 * KIB, 128 * KIB] {
        for bench in [&mut card, &mut plain] {
            bench.now += us(300);
        }
        let read = card.run(Op::Read, offset, 4 * KIB);
        assert_eq!(read.spent[Mechanism::Firmware], us(240));
        assert_eq!(read.spent.total(), plain.time(Op::Read, offset, 4 * KIB) + us(240), "{offset}");
    }
}

#[test]
fn the_access_time_of_a_mode_counts_only_in_that_mode() {
    let mut parameters = parameters(Overwrite::Convert);
    parameters.refinements.access[Mode::Ddr50.index()] = Some(us(150));
    for (mode, expected) in [(Mode::Ddr50, us(450)), (Mode::HighSpeed, us(300))] {
        let mut card = Bench::new(&parameters);
        card.card = card.card.in_mode(mode);
        card.time(Op::Write, 0, 64 * KIB);
        assert_eq!(card.run(Op::Read, 0, 4 * KIB).spent[Mechanism::Read], expected, "{mode:?}");
    }
}

#[test]
fn a_unit_that_is_closed_early_copies_the_rest_of_its_data() {
    let t_copy = Duration::from_ms(80);
    for size in [64 * KIB, 256 * KIB, 512 * KIB] {
        let mut card = Bench::with(Overwrite::Log, |r| r.layer.t_copy = Some(t_copy));
        card.time(Op::Write, 0, AU);
        card.time(Op::Write, AU, AU);
        card.time(Op::Write, 0, size);
        let closing = card.run(Op::Write, AU, size);
        assert_eq!(closing.spent[Mechanism::Merge], t_copy.scale(AU - size, AU), "t_copy (1 - size/AU)");
        assert_eq!(
            closing.spent[Mechanism::Program],
            us(600) * (size / (4 * KIB)),
            "a program for each page"
        );
    }
}

/// Returns the value of a counter of a card.
fn counter(card: &CardModel, name: &'static str) -> u64 {
    struct Counter(&'static str, u64);
    impl flashlab_sim::Observer for Counter {
        fn count(&mut self, name: &'static str, value: u64) {
            if name == self.0 {
                self.1 += value;
            }
        }
    }
    let mut counter = Counter(name, 0);
    card.observe(&mut counter);
    counter.1
}

#[test]
fn pages_of_the_area_for_small_writes_count_towards_the_write_amplification() {
    let set = |r: &mut Refinements| {
        r.layer.small.max = Some(4 * KIB);
        r.layer.small.page = Some(16 * KIB);
    };
    let mut card = Bench::with(Overwrite::Convert, set);
    for n in 0..10 {
        card.time(Op::Write, n * 100 * KIB, 4 * KIB);
    }
    assert_eq!(counter(&card.card, "host_written_bytes"), 10 * 4 * KIB);
    assert_eq!(counter(&card.card, "programmed_bytes"), 10 * 16 * KIB);
    let saved = card.card.save().expect("it can be saved");
    let mut restored = Bench::with(Overwrite::Convert, set);
    restored.card.restore(&saved).expect("its own state");
    assert_eq!(counter(&restored.card, "programmed_bytes"), 10 * 16 * KIB);
}

#[test]
fn the_fragments_of_a_rewrite_unit_are_folded_into_whole_pages() {
    // A page of 16 KiB holds four granules, so the eight fragments of a rewrite unit fill two pages. With a
    // stripe, both pages are programmed at once.
    let fold = |set: fn(&mut Refinements)| {
        let mut parameters = parameters(Overwrite::Convert);
        parameters.nand.page = 16 * KIB;
        parameters.mapping.program_unit = 16 * KIB;
        let r = &mut parameters.refinements;
        (r.layer.small.max, r.layer.small.page) = (Some(4 * KIB), Some(4 * KIB));
        r.layer.small.size = Some(32 * KIB);
        set(r);
        let mut card = Bench::new(&parameters);
        for n in 0..8 {
            assert_eq!(card.run(Op::Write, n * 8 * KIB, 4 * KIB).spent[Mechanism::Fold], Duration::ZERO);
        }
        let fold = card.run(Op::Write, MIB, 4 * KIB).spent[Mechanism::Fold];
        card.card.check();
        fold - Duration::from_ratio_secs(32 * KIB, 256 * MIB)
    };
    assert_eq!(fold(|_| ()), us(600) * 2, "eight fragments in two pages");
    assert_eq!(
        fold(|r| r.layer.stripe = Some(32 * KIB)),
        us(600),
        "the pages of a stripe are programmed together"
    );
}

#[test]
fn copies_program_the_pages_of_a_stripe_in_parallel() {
    let closing = |stripe: Option<u64>| {
        let mut card = Bench::with(Overwrite::Log, |r| r.layer.stripe = stripe);
        for n in 0..2 {
            card.time(Op::Write, n * AU, AU);
        }
        card.time(Op::Write, 0, 512 * KIB);
        card.run(Op::Write, AU, 512 * KIB).spent[Mechanism::Merge]
    };
    let read = Duration::from_ratio_secs(512 * KIB, 256 * MIB);
    assert_eq!(closing(None), read + us(600) * 128, "the rest of the first unit");
    assert_eq!(closing(Some(64 * KIB)), read + us(600) * 8);
}

#[test]
fn idle_time_that_collection_uses_is_not_available_for_folding() {
    let folded = |gap: Duration| {
        let mut parameters = parameters(Overwrite::Convert);
        let layer = &mut parameters.refinements.layer;
        (layer.small.max, layer.small.size, layer.small.t_idle) = (Some(4 * KIB), Some(8 * MIB), Some(us(1)));
        parameters.wear.raw = Some(48 * MIB);
        let mut card = Bench::new(&parameters);
        for n in 0..32 {
            card.time(Op::Write, n * MIB, MIB);
        }
        // Overwrites of a part of each block leave victims, each with half of its data.
        for n in 0..24 {
            card.time(Op::Write, n * MIB, 512 * KIB);
        }
        for n in 0..64 {
            card.time(Op::Write, 31 * MIB + n * 8 * KIB, 4 * KIB);
        }
        let before = (counter(&card.card, "collection_moved_bytes"), counter(&card.card, "fold_moved_bytes"));
        card.now += gap;
        card.time(Op::Read, 0, 4 * KIB);
        let of = |name, before| counter(&card.card, name) - before;
        (of("collection_moved_bytes", before.0), of("fold_moved_bytes", before.1))
    };
    let (collected, moved) = folded(Duration::from_ms(5));
    assert_eq!(collected, 8 * 4 * KIB, "the eighth page of 616 us begins before the end");
    assert_eq!(moved, 0, "collection took all of the time");
    let (_, moved) = folded(Duration::from_ms(60_000));
    assert_eq!(moved, 64 * 4 * KIB, "after the collection, the card folds");
}

#[test]
fn a_card_that_becomes_read_only_while_it_folds_keeps_the_data_of_its_area() {
    for overwrite in [Overwrite::Convert, Overwrite::Log] {
        let mut parameters = parameters(overwrite);
        let layer = &mut parameters.refinements.layer;
        (layer.small.max, layer.small.size) = (Some(4 * KIB), Some(256 * KIB));
        parameters.wear = Wear { cycles: Some(1), beyond: Some(1), ..Wear::default() };
        let mut card = Bench::new(&parameters);
        let mut rng = Rng::new(3);
        let mut written = std::collections::BTreeSet::new();
        let last = loop {
            let offset = rng.below(32 * MIB / (4 * KIB)) * 4 * KIB;
            let done = card.run(Op::Write, offset, 4 * KIB);
            if done.status != Status::Ok {
                break done.status;
            }
            written.insert(offset);
        };
        assert_eq!(last, Status::ReadOnly);
        card.card.check();
        for offset in written {
            let read = card.run(Op::Read, offset, 4 * KIB).spent[Mechanism::Read];
            assert!(read > Duration::ZERO, "{overwrite:?}: the data at {offset} is still there");
        }
        let saved = card.card.save().expect("it can be saved");
        CardModel::new(parameters, link(), 1).restore(&saved).expect("its own state");
    }
}

#[test]
fn a_switch_to_another_rewrite_unit_takes_extra_time() {
    let t_switch = Duration::from_ms(12);
    let mut card = Bench::with(Overwrite::Log, |r| r.layer.t_switch = Some(t_switch));
    let mut switched =
        |offset, length| card.run(Op::Write, offset, length).spent[Mechanism::Merge] >= t_switch;
    assert!(!switched(0, 64 * KIB) && !switched(64 * KIB, 64 * KIB), "the first unit");
    assert!(!switched(128 * KIB, AU - 128 * KIB) && !switched(AU, 64 * KIB), "in sequence into the next one");
    assert!(switched(4 * AU, 64 * KIB), "elsewhere");
    assert!(!switched(6 * AU, AU), "a whole unit is never open");
}

#[test]
fn housekeeping_follows_each_interval_of_written_bytes() {
    let set = |r: &mut Refinements| {
        (r.layer.housekeeping_every, r.layer.t_housekeeping) = (Some(40 * KIB), Some(us(50_000)));
    };
    let mut card = Bench::with(Overwrite::Convert, set);
    let pauses: Vec<u64> = (0..30)
        .filter(|n| card.run(Op::Write, n * 4 * KIB, 4 * KIB).spent[Mechanism::Housekeeping] == us(50_000))
        .collect();
    assert_eq!(pauses, [9, 19, 29]);
    let long = card.run(Op::Write, MIB, 100 * KIB);
    assert_eq!(long.spent[Mechanism::Housekeeping], us(50_000) * 2, "a long write contains two pauses");
}

#[test]
fn stepwise_collection_bounds_the_time_of_a_write() {
    let worst = |step: Option<u64>| {
        let mut parameters = parameters(Overwrite::Convert);
        parameters.refinements.layer.collect_step = step;
        parameters.wear.raw = Some(48 * MIB);
        let mut card = Bench::new(&parameters);
        let mut rng = Rng::new(7);
        for offset in 0..32 {
            card.time(Op::Write, offset * MIB, MIB);
        }
        let mut worst = Duration::ZERO;
        for n in 0..40_000 {
            let done = card.run(Op::Write, rng.below(32 * 256) * 4 * KIB, 4 * KIB);
            // The first writes convert sequential data.
            if n > 10_000 {
                worst = worst.max(done.spent.total());
            }
        }
        card.card.check();
        worst
    };
    let step = 32 * KIB;
    let bound = write_bus(4 * KIB) + us(600 + 250) + (us(600) + us(20)) * (step / (4 * KIB));
    assert!(worst(None) > bound * 4, "without steps, a write waits for a whole erase block");
    assert!(worst(Some(step)) <= bound, "{:?}", worst(Some(step)));
}

#[test]
fn a_restored_card_continues_as_the_saved_one() {
    for overwrite in [Overwrite::Convert, Overwrite::Log] {
        let set = |r: &mut Refinements| {
            r.layer.t_switch = Some(us(500));
            (r.layer.housekeeping_every, r.layer.t_housekeeping) = (Some(300 * KIB), Some(us(7_000)));
            r.layer.small.max = Some(8 * KIB);
            r.layer.small.size = Some(64 * KIB);
        };
        let mut card = Bench::with(overwrite, set);
        let mut rng = Rng::new(11);
        let mut step = move |bench: &mut [&mut Bench]| {
            let (offset, length) = (rng.below(1 << 12) * 4 * KIB, (rng.below(5) + 1) * 4 * KIB);
            let times: Vec<_> = bench.iter_mut().map(|b| b.run(Op::Write, offset, length).spent).collect();
            assert!(times.windows(2).all(|pair| pair[0] == pair[1]), "{offset} {length}");
        };
        (0..200).for_each(|_| step(&mut [&mut card]));
        // A power cycle ends the runs of writes, as in every restored card.
        card.card.power_cut(card.now);
        card.now = card.card.power_up(card.now);
        let saved = card.card.save().expect("it can be saved");
        let mut restored = Bench::with(overwrite, set);
        restored.card.restore(&saved).expect("its own state");
        restored.now = card.now;
        (0..200).for_each(|_| step(&mut [&mut card, &mut restored]));
        assert!(Bench::with(overwrite, |_| ()).card.restore(&saved).is_ok(), "the rest is ignored");
        let torn = &saved[..saved.len() - 1];
        assert!(Bench::with(overwrite, set).card.restore(torn).is_err());
    }
}

#[test]
fn contradictory_parameters_are_refused() {
    let refused = |set: fn(&mut Refinements)| {
        let mut parameters = parameters(Overwrite::Convert);
        set(&mut parameters.refinements);
        parameters.check().expect_err("impossible").path
    };
    assert_eq!(refused(|r| r.layer.stripe = Some(6 * KIB)), "flash.stripe");
    assert_eq!(refused(|r| r.write_buffer = Some(6 * KIB)), "card.write_buffer");
    assert_eq!(
        refused(|r| (r.layer.stripe, r.write_buffer) = (Some(64 * KIB), Some(64 * KIB))),
        "card.write_buffer"
    );
    assert_eq!(refused(|r| r.layer.small.page = Some(4 * KIB)), "ftl.small_max");
    assert_eq!(refused(|r| r.layer.small.max = Some(64 * KIB)), "ftl.small_max");
    assert_eq!(
        refused(|r| (r.layer.small.max, r.layer.small.size) = (Some(KIB), Some(KIB))),
        "ftl.small_size"
    );
    assert_eq!(refused(|r| r.layer.housekeeping_every = Some(KIB)), "ftl.t_housekeeping");
    assert_eq!(refused(|r| r.layer.collect_step = Some(0)), "ftl.collect_step");
}
