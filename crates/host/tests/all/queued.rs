//! A host with a command queue engine, compared with closed forms.

use crate::common::{T_COMMAND, machine, parameters};
use flashlab_host::Machine;
use flashlab_sd::{CardParameters, Identity, Mode};
use flashlab_sim::{
    Completion, Duration, FileId, Instant, Mechanism, Model, Op, Request, RequestId, Rng, conformance,
};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const MODES: [Mode; 2] = [Mode::HighSpeed, Mode::DefaultSpeed];

fn card(queue: Option<u32>, dies: Option<u32>) -> CardParameters {
    let mut card = parameters(64 * MIB);
    card.modes = MODES.to_vec();
    (card.refinements.queue, card.refinements.dies) = (queue, dies);
    card.check().expect("a possible card");
    card
}

fn model(machine: &Machine, card: &CardParameters) -> Box<dyn Model> {
    machine.with_card(card, &Identity::new(card), 1)
}

fn request(id: u64, op: Op, offset: u64, length: u64) -> Request {
    Request { id: RequestId(id), op, file: FileId::DEVICE, offset, length }
}

fn run(model: &mut dyn Model, now: Instant, request: Request) -> Completion {
    model.submit(now, request);
    model.complete(Instant::MAX).expect("it completes")
}

#[test]
fn a_request_alone_takes_two_more_commands_with_a_queue() {
    let plain = card(None, None);
    let queued = card(Some(32), Some(4));
    for prepare in [false, true] {
        let with = |queue| Machine { prepare: Some(prepare), ..machine(&MODES, queue) };
        let (mut a, mut b) = (model(&with(None), &plain), model(&with(Some(32)), &queued));
        let (mut now_a, mut now_b) = (Instant::ZERO, Instant::ZERO);
        let mut rng = Rng::new(1);
        for id in 0..1_000 {
            let op = [Op::Read, Op::Write, Op::Flush][rng.below(3) as usize];
            let blocks = 2 + rng.below(254);
            let offset = rng.below(8_000) * 4 * KIB;
            let without = run(&mut *a, now_a, request(id, op, offset, blocks * 512));
            let mut done = run(&mut *b, now_b, request(id, op, offset, blocks * 512));
            if !op.is_flush() {
                let bus = &mut done.spent[Mechanism::Bus];
                *bus = bus.saturating_sub(Mode::HighSpeed.bus().command() * 2);
            }
            assert_eq!(done.spent, without.spent, "{op:?}");
            let idle = Duration::from_us(100);
            (now_a, now_b) = (without.at + idle, done.at + idle);
        }
    }
}

/// Keeps `depth` reads of 4 KiB in flight, in each die in turn. Returns the mean time between two completions.
fn interval(machine: &Machine, card: &CardParameters, depth: u64) -> Duration {
    let mut model = model(machine, card);
    let mut now = Instant::ZERO;
    for n in 0..32 {
        now = run(&mut *model, now, request(n, Op::Write, n * MIB, MIB)).at;
    }
    let dies = u64::from(card.refinements.dies.unwrap_or(1));
    let page = card.nand.page;
    let places = move |n: u64| (n * 37 / dies * dies + n % dies) % (32 * MIB / page) * page;
    let (count, mut submitted, mut ends) = (1_000, 0, Vec::new());
    while ends.len() < count as usize {
        while submitted < count && submitted < ends.len() as u64 + depth {
            model.submit(now, request(submitted, Op::Read, places(submitted), 4 * KIB));
            submitted += 1;
        }
        let done = model.complete(Instant::MAX).expect("it completes");
        now = done.at;
        ends.push(now);
    }
    let (first, last) = (ends[100], ends[ends.len() - 100]);
    Duration::from_ns(last.since(first).as_ns() / (ends.len() as u64 - 200))
}

/// The software prepares one task after the other while the card reads. The time between two reads is the
/// time of one read divided by the queue depth. Lower bounds are the software's time, t_read / dies, and the
/// time on the bus.
#[test]
fn the_software_bounds_the_gain_of_a_queue() {
    let queued = card(Some(32), Some(8));
    let alone = interval(&machine(&MODES, Some(32)), &queued, 1);
    for (depth, t_command) in [(2, 1), (4, 1), (16, 400), (32, 700)] {
        let t_command = Duration::from_us(t_command);
        let machine = Machine { t_command, prepare: Some(true), ..machine(&MODES, Some(32)) };
        let software = machine.t_request + t_command + machine.t_block * 8;
        let one = alone.saturating_sub(T_COMMAND) + t_command;
        let bus = Mode::HighSpeed.bus();
        let data = bus.command() + bus.read_block() * 8;
        let bound = Duration::from_ns(one.as_ns() / depth)
            .max(software)
            .max(data)
            .max(Duration::from_ns(queued.nand.t_read.as_ns() / 8));
        let measured = interval(&machine, &queued, depth);
        let ratio = measured.as_ns() as f64 / bound.as_ns() as f64;
        assert!((0.99..1.08).contains(&ratio), "depth {depth}, {t_command:?}: {measured:?}, bound {bound:?}");
    }
}

/// The parts of a long request are tasks of their own, which the card serves at the same time.
#[test]
fn a_long_request_becomes_several_tasks() {
    let observed = |queue| {
        struct Commands(u64);
        impl flashlab_sim::Observer for Commands {
            fn count(&mut self, name: &'static str, value: u64) {
                if name == "command_count" {
                    self.0 = value;
                }
            }
        }
        let machine = Machine { command_max: 32 * KIB, ..machine(&MODES, queue) };
        let mut model = model(&machine, &card(queue, queue.map(|_| 4)));
        let now = run(&mut *model, Instant::ZERO, request(0, Op::Write, 0, MIB)).at;
        let done = run(&mut *model, now, request(1, Op::Read, 0, 256 * KIB));
        assert_eq!(done.spent.total(), done.at.since(now));
        let mut commands = Commands(0);
        model.observe(&mut commands);
        (commands.0, done.spent.total())
    };
    let (plain, queued) = (observed(None), observed(Some(8)));
    assert_eq!((plain.0, queued.0), (32 + 8, 32 + 8));
    assert!(queued.1 < plain.1, "preparation and accesses overlap: {queued:?}, {plain:?}");
}

#[test]
fn the_queue_depth_is_the_smaller_one_of_host_and_card() {
    let depth = |host, card_queue| machine(&MODES, host).queue_depth(&card(card_queue, None));
    assert_eq!(depth(Some(16), Some(32)), Some(16));
    assert_eq!(depth(Some(32), Some(8)), Some(8));
    assert_eq!(depth(None, Some(8)), None);
    assert_eq!(depth(Some(8), None), None);
    assert_eq!(machine(&MODES, Some(33)).check().expect_err("impossible").path, "host.queue");
}

#[test]
fn hosts_with_queues_and_caches_meet_the_contract_of_a_model() {
    for (queue, cache) in
        [(None, true), (Some(1), false), (Some(4), true), (Some(32), false), (Some(32), true)]
    {
        for modes in [vec![Mode::HighSpeed, Mode::DefaultSpeed], vec![Mode::Hs200, Mode::DefaultSpeed]] {
            let mut card = card(queue, queue.map(|_| 3));
            card.modes = modes.clone();
            card.refinements.cache = cache.then_some(96 * KIB);
            card.check().expect("a possible card");
            let machine = machine(&modes, queue);
            for seed in 0..12 {
                conformance::check(&|| model(&machine, &card), seed);
            }
        }
    }
}
