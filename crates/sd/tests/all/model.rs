//! Compares the timed card with sums that are calculated by hand, and checks the contract that every model
//! obeys.

use flashlab_flash::ftl::card::Overwrite;
use flashlab_sd::{CardModel, CardParameters, Link, Mode};
use flashlab_sim::{
    Completion, Duration, FileId, Instant, Mechanism, Model, Observer, Op, Request, RequestId, Rng,
    conformance,
};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

fn us(n: u64) -> Duration {
    Duration::from_us(n)
}

fn parameters() -> CardParameters {
    CardParameters { modes: vec![Mode::Ddr50, Mode::DefaultSpeed], ..CardParameters::example(64 * MIB) }
}

fn link() -> Link {
    Link { bus: Mode::Ddr50.bus(), t_block_host: Duration::ZERO }
}

/// Runs one request on an idle card.
fn one(card: &mut CardModel, now: &mut Instant, op: Op, offset: u64, length: u64) -> Completion {
    card.submit(*now, Request { id: RequestId(9), op, file: FileId::DEVICE, offset, length });
    let done = card.complete(Instant::MAX).expect("it completes");
    *now = done.at;
    done
}

#[test]
fn every_kind_of_card_obeys_the_contract_of_a_model() {
    let mut logging = parameters();
    logging.mapping.overwrite = Overwrite::Log;
    logging.mapping.rewrite_unit = MIB;
    logging.mapping.map_cache = Some(8 * KIB);
    logging.nand.t_bers = us(2_000);
    let mut small_pages = parameters();
    small_pages.nand.page = 512;
    small_pages.nand.spread_ppm = 30_000;
    for parameters in [parameters(), logging, small_pages] {
        parameters.check().expect("possible");
        for seed in 0..20 {
            let parameters = parameters.clone();
            conformance::check(&move || Box::new(CardModel::new(parameters.clone(), link(), 1)), seed);
        }
    }
}

#[test]
fn a_read_of_mapped_data_takes_the_command_the_access_and_the_wires() {
    let (mut card, mut now) = (CardModel::new(parameters(), link(), 1), Instant::ZERO);
    one(&mut card, &mut now, Op::Write, 0, 128 * KIB);
    let bus = Mode::Ddr50.bus();
    let wires = bus.command() * 2 + bus.read_block() * 8;
    let mapped = one(&mut card, &mut now, Op::Read, 0, 4 * KIB);
    assert_eq!(mapped.spent.total(), wires + us(100));
    let unmapped = one(&mut card, &mut now, Op::Read, 8 * MIB, 4 * KIB);
    assert_eq!(unmapped.spent.total(), wires, "an unmapped unit is read without the array");
    let single = one(&mut card, &mut now, Op::Read, 0, 512);
    assert_eq!(single.spent[Mechanism::Bus], bus.command() + bus.read_block(), "one block needs no stop");
}

#[test]
fn a_long_read_is_limited_by_the_slower_of_wires_and_array() {
    for (rate, wires_limit) in [(64 * MIB, true), (10 * MIB, false)] {
        let mut parameters = parameters();
        parameters.nand.read_rate = rate;
        let (mut card, mut now) = (CardModel::new(parameters, link(), 1), Instant::ZERO);
        one(&mut card, &mut now, Op::Write, 0, MIB);
        let done = one(&mut card, &mut now, Op::Read, 0, MIB);
        let bus = Mode::Ddr50.bus();
        let granule = bus.read_block() * 8;
        let stream = Duration::from_ratio_secs(4 * KIB, rate);
        let expected =
            us(100) + bus.command() * 2 + if wires_limit { granule * 256 } else { stream * 255 + granule };
        assert_eq!(done.spent.total(), expected);
    }
}

#[test]
fn a_long_write_hides_the_wires_behind_the_programs() {
    let (mut card, mut now) = (CardModel::new(parameters(), link(), 1), Instant::ZERO);
    let bus = Mode::Ddr50.bus();
    let done = one(&mut card, &mut now, Op::Write, 0, 512 * KIB);
    // After the arrival of the first page, 32 programs follow one another. A write that begins a run updates the map.
    assert_eq!(done.spent.total(), bus.command() * 2 + bus.write_block() * 32 + us(600) * 32 + us(250));
    assert_eq!(done.spent[Mechanism::Program], us(600) * 32);
    let next = one(&mut card, &mut now, Op::Write, 512 * KIB, 512 * KIB);
    assert_eq!(next.spent[Mechanism::Map], Duration::ZERO, "it goes on where the run ended");
}

#[test]
fn slow_wires_hide_all_programs_except_the_last() {
    let link = Link { bus: Mode::DefaultSpeed.bus(), t_block_host: us(100) };
    let (mut card, mut now) = (CardModel::new(parameters(), link, 1), Instant::ZERO);
    let block = link.bus.write_block() + us(100);
    assert!(block * 32 > us(600));
    let done = one(&mut card, &mut now, Op::Write, 0, 64 * KIB);
    assert_eq!(done.spent.total(), link.bus.command() * 2 + block * 128 + us(600) + us(250));
}

#[test]
fn a_small_write_to_fresh_flash_takes_one_program_and_a_commit() {
    let (mut card, mut now) = (CardModel::new(parameters(), link(), 1), Instant::ZERO);
    let bus = Mode::Ddr50.bus();
    for pass in 0..2 {
        let done = one(&mut card, &mut now, Op::Write, MIB + 4 * KIB, 4 * KIB);
        let wires = bus.command() * 2 + bus.write_block() * 8;
        assert_eq!(done.spent.total(), wires + us(600) + us(250), "pass {pass}");
    }
}

#[test]
fn a_small_write_into_sequential_data_reads_and_rewrites_a_rewrite_unit_once() {
    let (mut card, mut now) = (CardModel::new(parameters(), link(), 1), Instant::ZERO);
    one(&mut card, &mut now, Op::Write, 0, MIB);
    let first = one(&mut card, &mut now, Op::Write, 132 * KIB, 4 * KIB);
    // The card reads all but the 4 KiB that are overwritten, 124 KiB at 64 MiB/s, and programs 8 pages.
    let rewrite = Duration::from_ratio_secs(124, 64 * 1024) + us(600) * 8;
    assert_eq!(first.spent[Mechanism::ReadModifyWrite], rewrite);
    assert_eq!(first.spent[Mechanism::Program], us(600));
    let again = one(&mut card, &mut now, Op::Write, 160 * KIB, 4 * KIB);
    assert_eq!(again.spent[Mechanism::ReadModifyWrite], Duration::ZERO);
}

/// A longer write never takes less time: the map update does not depend on the page boundary.
#[test]
fn larger_random_writes_take_longer() {
    let latency = |length: u64| {
        let (mut card, mut now) = (CardModel::new(parameters(), link(), 1), Instant::ZERO);
        one(&mut card, &mut now, Op::Write, 32 * MIB, length).spent.total()
    };
    let lengths = [512, KIB, 2 * KIB, 4 * KIB, 8 * KIB, 16 * KIB, 32 * KIB, 64 * KIB, 128 * KIB];
    assert!(lengths.map(latency).is_sorted(), "{:?}", lengths.map(latency));
}

#[test]
fn a_write_takes_one_erase_for_each_erase_block() {
    let mut parameters = parameters();
    parameters.nand.t_bers = us(5_000);
    parameters.nand.erase_block = 64 * KIB;
    let (mut card, mut now) = (CardModel::new(parameters, link(), 1), Instant::ZERO);
    let done = one(&mut card, &mut now, Op::Write, 0, MIB);
    assert_eq!(done.spent[Mechanism::Program], us(600) * 64 + us(5_000) * 16);
}

/// A quarter of the map is in memory, so three quarters of the random reads load a map page.
#[test]
fn map_loads_follow_the_share_of_the_map_that_fits() {
    let mut parameters = parameters();
    parameters.mapping.map_cache = Some(4 * KIB);
    parameters.mapping.map_page = KIB;
    // A map page of 256 entries covers 32 MiB, so there are 16 map pages, of which 4 are in memory.
    parameters.capacity = 512 * MIB;
    let (mut card, mut now) = (CardModel::new(parameters, link(), 1), Instant::ZERO);
    let (mut rng, reads) = (Rng::new(4), 40_000);
    let mut loading = Duration::ZERO;
    for _ in 0..reads {
        let offset = rng.below(512 * MIB / (4 * KIB)) * 4 * KIB;
        loading += one(&mut card, &mut now, Op::Read, offset, 4 * KIB).spent[Mechanism::Map];
    }
    let share = loading.as_ns() as f64 / us(100).as_ns() as f64 / f64::from(reads);
    assert!((share - 0.75).abs() < 0.01, "{share} map loads a read, expected 1 - C/N = 0.75");
}

#[test]
fn counters_account_for_every_byte_programmed() {
    struct Counts(Vec<(&'static str, u64)>);
    impl Observer for Counts {
        fn count(&mut self, name: &'static str, value: u64) {
            self.0.push((name, value));
        }
    }
    let (mut card, mut now) = (CardModel::new(parameters(), link(), 1), Instant::ZERO);
    one(&mut card, &mut now, Op::Write, 0, MIB);
    one(&mut card, &mut now, Op::Write, 132 * KIB, 4 * KIB);
    let mut counts = Counts(Vec::new());
    card.observe(&mut counts);
    let get = |name| counts.0.iter().find(|(n, _)| *n == name).unwrap_or_else(|| panic!("no {name}")).1;
    assert_eq!(get("host_written_bytes"), MIB + 4 * KIB);
    assert_eq!(get("read_modify_write_bytes"), 124 * KIB);
    assert_eq!(get("programmed_bytes"), MIB + 128 * KIB + 16 * KIB);
}

#[test]
fn impossible_parameters_are_refused_by_name() {
    let broken = |change: fn(&mut CardParameters)| {
        let mut parameters = parameters();
        change(&mut parameters);
        parameters.check().expect_err("impossible").path
    };
    assert_eq!(broken(|p| p.nand.t_prog = Duration::ZERO), "flash.t_prog");
    assert_eq!(broken(|p| p.nand.page = 700), "flash.page");
    assert_eq!(broken(|p| p.nand.page = 6 * KIB), "flash.page");
    assert_eq!(
        broken(|p| {
            let small = &mut p.refinements.layer.small;
            (small.max, small.t_idle) = (Some(4 * KIB), Some(Duration::from_ms(1)));
        }),
        "ftl.small_idle"
    );
    assert_eq!(broken(|p| p.mapping.map_unit = 20 * KIB), "ftl.map_unit");
    assert_eq!(broken(|p| p.mapping.rewrite_unit = 200 * KIB), "ftl.rewrite_unit");
    assert_eq!(broken(|p| p.mapping.open_units = 0), "ftl.open_units");
    assert_eq!(broken(|p| p.capacity = 16 * KIB), "card.capacity");
    assert_eq!(broken(|p| p.modes.clear()), "card.modes");
}
