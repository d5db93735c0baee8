//! Compares the command queue of the timed card with closed forms.

use crate::mechanisms::{Bench, KIB, MIB, link, parameters, us};
use flashlab_flash::ftl::card::Overwrite;
use flashlab_sd::{CardModel, CardParameters, Mode};
use flashlab_sim::{Completion, Duration, FileId, Instant, Mechanism, Model, Op, Request, RequestId, Rng};

const PAGE: u64 = 4 * KIB;

fn queued(dies: u32) -> CardParameters {
    let mut parameters = parameters(Overwrite::Convert);
    (parameters.refinements.queue, parameters.refinements.dies) = (Some(32), Some(dies));
    parameters
}

/// Returns a card whose first 16 MiB are written.
fn written(parameters: &CardParameters) -> (CardModel, Instant) {
    let mut card = Bench::new(parameters);
    for n in 0..16 {
        card.time(Op::Write, n * MIB, MIB);
    }
    (card.card, card.now + us(10))
}

/// Reads pages at the page numbers of `places` with `depth` requests in flight, and returns the completions.
fn read(card: &mut CardModel, start: Instant, depth: usize, places: &[u64]) -> Vec<Completion> {
    let mut now = start;
    let mut done: Vec<Completion> = Vec::new();
    let mut submitted = 0;
    while done.len() < places.len() {
        while submitted < places.len() && submitted - done.len() < depth {
            let (id, offset) = (RequestId(submitted as u64), places[submitted] * PAGE);
            card.submit(now, Request { id, op: Op::Read, file: FileId::DEVICE, offset, length: PAGE });
            submitted += 1;
        }
        let completion = card.complete(Instant::MAX).expect("one is in flight");
        now = completion.at;
        done.push(completion);
    }
    done
}

/// Returns the mean time between two completions, without the completions at both ends.
fn interval(done: &[Completion]) -> f64 {
    let (first, last) = (done[100].at, done[done.len() - 100].at);
    last.since(first).as_ns() as f64 / (done.len() - 200) as f64
}

/// Returns the times of a command and of a page on the wires.
fn wires() -> (f64, f64) {
    let bus = Mode::Ddr50.bus();
    (bus.command().as_ns() as f64, bus.read_block().as_ns() as f64 * (PAGE / 512) as f64)
}

#[test]
fn one_request_at_a_time_takes_four_commands() {
    let mut parameters = queued(4);
    parameters.refinements.read_ahead = None;
    let mut plain = Bench::new(&parameters);
    let mut with_queue = Bench::new(&parameters);
    with_queue.card = with_queue.card.with_queue(32);
    let mut rng = Rng::new(3);
    for _ in 0..2_000 {
        let op = [Op::Read, Op::Write, Op::WriteFua, Op::Trim, Op::Flush][rng.below(5) as usize];
        let longest = [1, 8, 900][rng.below(3) as usize];
        let length = 512 * (1 + rng.below(longest));
        let offset = 512 * rng.below((16 * MIB - length) / 512);
        let expected = plain.run(op, offset, length);
        let mut done = with_queue.run(op, offset, length);
        if op == Op::Read || op.is_write() {
            let commands = if length > 512 { 2 } else { 3 };
            done.spent[Mechanism::Bus] -= Mode::Ddr50.bus().command() * commands;
        }
        assert_eq!(done.spent, expected.spent, "{op:?} {offset} {length}");
        // The two cards are idle for the same time, so that they collect the same garbage.
        (plain.now, with_queue.now) = (plain.now + us(50), with_queue.now + us(50));
    }
}

/// Random reads become faster with queue depth until the dies, the wires or the commands are always busy. The
/// time between two reads is the greatest of (4 c + t_read + b) / depth, t_read / dies, and c + b. Here, c is
/// the time of a command, and b that of a page on the wires.
#[test]
fn reads_scale_with_depth_and_dies_until_the_bus_is_busy() {
    let (c, b) = wires();
    let t_read = 300_000.0;
    for dies in [1u32, 2, 3, 4, 8, 32] {
        for depth in [1usize, 2, 4, 8, 16, 32] {
            let (card, start) = written(&queued(dies));
            // The reads use each die in turn, and never two pages in sequence.
            let places: Vec<u64> = (0..2_000)
                .map(|n| (n * 37 / u64::from(dies) * u64::from(dies) + n % u64::from(dies)) % 4_096)
                .collect();
            let measured = interval(&read(&mut card.with_queue(32), start, depth, &places));
            let alone = 4.0 * c + t_read + b;
            let bound = (alone / depth as f64).max(t_read / f64::from(dies)).max(c + b);
            let ratio = measured / bound;
            assert!(
                (0.999..1.06).contains(&ratio),
                "dies {dies}, depth {depth}: {measured} ns, bound {bound} ns"
            );
        }
    }
}

/// With random places, some dies are idle while others have several tasks. The throughput of a closed network
/// of `dies` equal stations with `depth` customers (exponential service) is a lower bound, and min(depth,
/// dies) an upper one.
#[test]
fn random_reads_lie_between_the_closed_network_and_the_number_of_dies() {
    let mut rng = Rng::new(5);
    let places: Vec<u64> = (0..6_000).map(|_| rng.below(4_096)).collect();
    let (c, b) = wires();
    for (dies, depth) in [(2u32, 4u32), (3, 3), (3, 9), (4, 2)] {
        let (card, start) = written(&queued(dies));
        let measured = interval(&read(&mut card.with_queue(32), start, depth as usize, &places));
        let gain = 300_000.0 / measured;
        let (d, k) = (f64::from(depth), f64::from(dies));
        let network = k * d / (d + k - 1.0) * 300_000.0 / (300_000.0 + 4.0 * c + b);
        assert!(gain > network && gain < d.min(k), "{dies} dies, depth {depth}: {gain}, network {network}");
    }
}

/// A buffer is in use from the access of a read to the end of its data. The time between two reads is
/// therefore at least (t_read + 2 c + b) / buffers. With one buffer, only one die works at a time.
#[test]
fn reads_gain_no_more_than_the_buffers_of_the_card_permit() {
    let (c, b) = wires();
    let t_read = 300_000.0;
    for (buffers, dies) in [(1, 1u32), (1, 4), (2, 1), (2, 4), (3, 8), (32, 4)] {
        let mut parameters = queued(dies);
        parameters.refinements.queue_buffers = Some(buffers);
        let (card, start) = written(&parameters);
        let places: Vec<u64> = (0..2_000)
            .map(|n| (n * 37 / u64::from(dies) * u64::from(dies) + n % u64::from(dies)) % 4_096)
            .collect();
        let measured = interval(&read(&mut card.with_queue(32), start, 32, &places));
        let held = (t_read + 2.0 * c + b) / f64::from(buffers);
        let bound = held.max(t_read / f64::from(dies)).max(c + b);
        let ratio = measured / bound;
        assert!(
            (0.999..1.06).contains(&ratio),
            "{buffers} buffers, {dies} dies: {measured} ns, bound {bound} ns"
        );
    }
}

#[test]
fn tasks_end_in_the_order_in_which_they_are_ready() {
    let (card, start) = written(&queued(2));
    let done = read(&mut card.with_queue(4), start, 4, &[0, 2, 4, 1]);
    let order: Vec<u64> = done.iter().map(|done| done.id.0).collect();
    assert_eq!(order, [0, 3, 1, 2], "the fourth one is alone in its die");
}

#[test]
fn the_card_and_the_host_limit_the_number_of_tasks() {
    for (card, host, tasks) in [(32, 4, 4), (2, 32, 2)] {
        let mut parameters = queued(32);
        parameters.refinements.queue = Some(card);
        let (card, start) = written(&parameters);
        let places: Vec<u64> = (0..1_000).map(|n| n * 37 % 4_096).collect();
        let measured = interval(&read(&mut card.with_queue(host), start, 32, &places));
        let (c, b) = wires();
        let expected = (4.0 * c + 300_000.0 + b) / f64::from(tasks);
        assert!((measured / expected - 1.0).abs() < 0.05, "{tasks} tasks: {measured} ns, {expected} ns");
    }
}

#[test]
fn writes_without_a_cache_hide_all_their_commands_but_the_last() {
    let mut parameters = queued(4);
    parameters.refinements.layer.t_write = None;
    let (card, start) = written(&parameters);
    let mut card = card.with_queue(32);
    for n in 0..8 {
        let request = Request {
            id: RequestId(n),
            op: Op::Write,
            file: FileId::DEVICE,
            offset: (20 + n) * MIB,
            length: PAGE,
        };
        card.submit(start, request);
    }
    let ends: Vec<Instant> = (0..8).map(|_| card.complete(Instant::MAX).expect("it completes").at).collect();
    let bus = Mode::Ddr50.bus();
    let each = bus.command() + bus.write_block() * (PAGE / 512) + us(850);
    // The status of the next task is read while the card is busy.
    assert!(ends.windows(2).all(|pair| pair[1].since(pair[0]) == each));
}

/// A flush of a cache waits for the tasks before it, and later tasks wait for the flush.
#[test]
fn a_flush_is_a_barrier() {
    let mut parameters = queued(4);
    parameters.refinements.cache = Some(64 * KIB);
    let (card, start) = written(&parameters);
    let mut card = card.with_queue(32);
    let ops = [Op::Write, Op::Read, Op::Flush, Op::Read, Op::Write];
    for (n, op) in (0..).zip(ops) {
        let (id, offset) = (RequestId(n), n * MIB);
        card.submit(start, Request { id, op, file: FileId::DEVICE, offset, length: PAGE });
    }
    let done: Vec<Completion> = (0..5).map(|_| card.complete(Instant::MAX).expect("it completes")).collect();
    let place = |id: u64| done.iter().position(|done| done.id.0 == id).expect("it is done");
    assert_eq!(place(2), 2, "{done:?}");
    assert!(place(0) < 2 && place(1) < 2);
    assert!(
        done[3].at.since(done[2].at) >= Mode::Ddr50.bus().command() * 4,
        "the next task enters after the flush"
    );
    let durable = done[2].at;
    assert!(durable.since(start) >= us(850), "the flush waited for the drain");
}

#[test]
fn reads_wait_for_a_write_that_has_the_data_lines() {
    let (card, start) = written(&queued(4));
    let mut card = card.with_queue(32);
    let mut submit = |now: Instant, id, op, page: u64| {
        card.submit(
            now,
            Request { id: RequestId(id), op, file: FileId::DEVICE, offset: page * PAGE, length: PAGE },
        );
    };
    submit(start, 0, Op::Write, 3_000);
    submit(start + us(100), 1, Op::Read, 0);
    submit(start + us(100), 2, Op::Read, 1);
    let done: Vec<Completion> = (0..3).map(|_| card.complete(Instant::MAX).expect("it completes")).collect();
    assert_eq!(done[0].id.0, 0);
    // The dies are busy until the write ends, then read at the same time.
    let (c, b) = wires();
    let apart = done[2].at.since(done[1].at).as_ns() as f64;
    assert!((apart - (c + b)).abs() < 2.0 * c, "{apart}");
    assert!(done[1].at.since(done[0].at) >= us(300) - Duration::from_us(1));
}

/// An access that has not begun when a write takes the array is postponed by the time of the write.
#[test]
fn a_write_postpones_the_accesses_that_have_not_begun() {
    let (card, start) = written(&queued(2));
    let mut card = card.with_queue(32);
    for (id, op, page) in [(0, Op::Read, 0), (1, Op::Read, 2), (2, Op::Write, 5_000)] {
        let (id, offset) = (RequestId(id), page * PAGE);
        card.submit(start, Request { id, op, file: FileId::DEVICE, offset, length: PAGE });
    }
    let done: Vec<Completion> = (0..3).map(|_| card.complete(Instant::MAX).expect("it completes")).collect();
    assert_eq!(done.iter().map(|done| done.id.0).collect::<Vec<_>>(), [2, 0, 1], "{done:?}");
    let bus = Mode::Ddr50.bus();
    // The write is ready after the commands of all three tasks. The first read is in its die by then.
    let write_starts = start + bus.command() * 8;
    let write = bus.write_block() * (PAGE / 512) + us(850);
    assert_eq!(done[0].at, write_starts + write);
    // The second read begins when the first one leaves the die, postponed by the write.
    let ready = start + bus.command() * 2 + us(300) + write + us(300);
    assert_eq!(done[2].at, ready + bus.command() * 2 + bus.read_block() * (PAGE / 512));
}

#[test]
fn impossible_queues_and_dies_are_refused() {
    let refused = |queue, dies| {
        let mut parameters = parameters(Overwrite::Convert);
        (parameters.refinements.queue, parameters.refinements.dies) = (queue, dies);
        parameters.check().expect_err("impossible").path
    };
    assert_eq!(refused(Some(0), None), "card.queue");
    assert_eq!(refused(Some(33), None), "card.queue");
    assert_eq!(refused(Some(2), Some(0)), "flash.dies");
    assert_eq!(refused(None, Some(2)), "flash.dies");
    for (queue, buffers) in [(Some(32), 0), (Some(32), 33), (None, 1)] {
        let mut parameters = parameters(Overwrite::Convert);
        (parameters.refinements.queue, parameters.refinements.queue_buffers) = (queue, Some(buffers));
        assert_eq!(parameters.check().expect_err("impossible").path, "card.queue_buffers");
    }
}

#[test]
fn a_queue_that_the_host_does_not_use_has_no_effect() {
    let mut other = parameters(Overwrite::Convert);
    other.refinements.queue = None;
    let mut rng = Rng::new(9);
    let (mut a, mut b) = (Bench::new(&queued(4)), Bench::new(&other));
    a.card = CardModel::new(queued(4), link(), 1);
    for _ in 0..300 {
        let offset = rng.below(4_096) * PAGE;
        let op = [Op::Read, Op::Write][rng.below(2) as usize];
        assert_eq!(a.run(op, offset, PAGE), b.run(op, offset, PAGE));
    }
}
