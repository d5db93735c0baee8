//! The card with a command line takes as long as the timed model for the same requests.

use super::*;
use flashlab_sd::opcode;
use flashlab_sd::{Bus, CardModel, Link};
use flashlab_sim::{FileId, Instant, Mechanism, Model, Op, Request, RequestId, Rng, Spent};

/// Returns a card without bytes that the host has brought up, and its model.
fn both(overwrite: Overwrite) -> (Host, CardModel) {
    let parameters = parameters(overwrite);
    let identity = high_capacity(&parameters);
    let mut host = Host::new(Card::new(parameters.clone(), identity, None, 3));
    host.bring_up();
    host.widen(Mode::HighSpeed);
    let bus: Bus = *host.native.bus();
    (host, CardModel::new(parameters, Link { bus, t_block_host: Duration::ZERO }, 3))
}

/// Returns the model's time for a request, and how that time divides among the mechanisms.
fn modelled(model: &mut CardModel, now: Instant, op: Op, offset: u64, length: u64) -> (Duration, Spent) {
    model.submit(now, Request { id: RequestId(1), op, file: FileId::DEVICE, offset, length });
    let done = model.complete(Instant::MAX).expect("it completes");
    (done.at.since(now), done.spent)
}

fn array_part(spent: &Spent) -> Vec<(Mechanism, Duration)> {
    let wires = [Mechanism::Bus, Mechanism::Host];
    spent.iter().filter(|(mechanism, _)| !wires.contains(mechanism)).collect()
}

/// Sends the same request as commands. `known` adds CMD23 before a transfer of several blocks.
fn by_commands(host: &mut Host, op: Op, offset: u64, length: u64, known: bool) -> (Duration, Spent) {
    let start = host.native.now();
    host.card().take_spent();
    let (block, count) = ((offset / 512) as u32, (length / 512) as u32);
    let known = known && count > 1 && op != Op::Trim;
    if known {
        host.r1(opcode::SET_BLOCK_COUNT, count);
    }
    match op {
        Op::Read => {
            host.r1(if count == 1 { 17 } else { 18 }, block);
            // Reading all blocks at once and one by one takes the same time.
            if block % 16 == 0 {
                host.native.read_blocks(&mut [], 512, count, LONG).expect("all blocks");
            } else {
                (0..count).for_each(|_| host.native.read_block(&mut [], 512, LONG).expect("a block"));
            }
        }
        Op::Write => {
            host.r1(if count == 1 { 24 } else { 25 }, block);
            for _ in 0..count {
                host.native.write_block(&[], 512, LONG).expect("a block");
            }
        }
        _ => {
            host.r1(opcode::ERASE_WR_BLK_START, block);
            host.r1(opcode::ERASE_WR_BLK_END, block + count - 1);
            host.send(opcode::ERASE, 0, ResponseType::R1b).expect("an erase");
        }
    }
    if matches!(op, Op::Read | Op::Write) && count > 1 && !known {
        host.send(opcode::STOP_TRANSMISSION, 0, ResponseType::R1b).expect("a stop");
    }
    host.native.wait_ready(LONG).expect("the card becomes ready");
    let spent = host.card().take_spent();
    (host.native.now().since(start), spent)
}

/// Sends random requests to the card and to the model. Both must take the same time for each request, and
/// divide this time in the same way among the array's mechanisms.
fn compare(overwrite: Overwrite, known: bool, seed: u64, draw: impl Fn(&mut Rng) -> (Op, u64, u64)) {
    let (mut host, mut model) = both(overwrite);
    let mut rng = Rng::new(seed);
    for n in 0..300 {
        let (op, offset, length) = draw(&mut rng);
        let at = host.native.now();
        let (expected, parts) = modelled(&mut model, at, op, offset, length);
        let (took, spent) = by_commands(&mut host, op, offset, length, known);
        let what = format!("seed {seed}, request {n}: {op:?} of {length} at {offset}");
        assert_eq!(took, expected, "{what}: the model says {parts:?}");
        assert_eq!(array_part(&spent), array_part(&parts), "{what}");
        // Sometimes the card is idle.
        host.native.advance(Duration::from_us(rng.below(3) * 700));
    }
    host.card().check();
    assert_eq!(host.card().save().map(|s| s.len() > 100), Some(true));
}

/// With CMD23 the card has the same information as the model, so any request is possible.
#[test]
fn requests_of_known_length_take_as_long_as_the_model_says() {
    for overwrite in [Overwrite::Convert, Overwrite::Log] {
        for seed in 0..20 {
            compare(overwrite, true, seed, |rng| {
                let op = [Op::Read, Op::Write, Op::Write, Op::Trim][rng.below(4) as usize];
                let most = [1, 16, 300][rng.below(3) as usize];
                let length = 512 * (1 + rng.below(most));
                (op, 512 * rng.below((4 * MIB - length) / 512), length)
            });
        }
    }
}

/// Without CMD23, the requests are reads of whole granules and writes of single pages.
#[test]
fn open_ended_requests_of_whole_pages_take_as_long_as_the_model_says() {
    for overwrite in [Overwrite::Convert, Overwrite::Log] {
        for seed in 0..20 {
            compare(overwrite, false, seed, |rng| {
                if rng.below(2) == 0 {
                    let length = 4 * KIB * (1 + rng.below(40));
                    return (Op::Read, 4 * KIB * rng.below((4 * MIB - length) / (4 * KIB)), length);
                }
                let page = 8 * KIB;
                (Op::Write, page * rng.below(4 * MIB / page), page)
            });
        }
    }
}

/// The stream begins at the start of a rewrite unit. Each command writes a whole number of pages.
#[test]
fn an_open_ended_stream_takes_as_long_as_the_model_says() {
    for overwrite in [Overwrite::Convert, Overwrite::Log] {
        let (mut host, mut model) = both(overwrite);
        for pass in 0..3 {
            let mut at = 0;
            let mut rng = Rng::new(pass);
            while at < 4 * MIB {
                let length = (8 * KIB * (1 + rng.below(24))).min(4 * MIB - at);
                let (expected, parts) = modelled(&mut model, host.native.now(), Op::Write, at, length);
                let (took, spent) = by_commands(&mut host, Op::Write, at, length, false);
                assert_eq!(took, expected, "pass {pass}, {length} at {at}: {parts:?}");
                assert_eq!(array_part(&spent), array_part(&parts));
                at += length;
            }
        }
    }
}
