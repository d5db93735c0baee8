//! Power cuts at any clock cycle of a write. Afterwards, each block is old or new, or belongs to the page
//! that was being programmed and is torn.

use super::*;
use flashlab_sd::opcode;
use flashlab_sd::{State, Transfer, Voltage};
use flashlab_sim::{Fate, Instant, PowerCut};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::LazyLock;

const FIRST: u64 = 20;
/// Number of blocks of the longest write.
const COUNT: usize = 40;
/// Blocks in a page of the array.
const PAGE: u64 = 16;

/// A write during which the power is cut.
#[derive(Clone, Copy, Debug)]
struct Plan {
    overwrite: Overwrite,
    /// Number of blocks.
    count: usize,
    /// Interval between blocks.
    each: Duration,
    /// True if the host announces the length beforehand (CMD23).
    known: bool,
    /// True if the range holds old data.
    over_old: bool,
}

/// The outcome of a write until the power cut.
struct Life {
    card: Card,
    bytes: Bytes,
    cut: PowerCut,
    /// Instants of the events since the start of the write: the command, the arrival of each block, the stop
    /// command, and the end of the busy time.
    events: Vec<Instant>,
    /// Number of blocks that had arrived.
    arrived: u64,
    /// True if the write was complete.
    done: bool,
}

impl Life {
    /// Returns true if `block` must hold new data, and false if it must hold old data. Returns `None` if the
    /// block is unreadable. `fate` is the fate that the cut reports for the block.
    fn is_new(&self, block: u64, fate: Option<Fate>, what: fmt::Arguments<'_>) -> Option<bool> {
        if block >= self.arrived {
            assert!(
                !matches!(fate, Some(Fate::New | Fate::Unreadable)),
                "{what}, block {block}: the host never sent it"
            );
        }
        match fate {
            Some(Fate::Old) => Some(false),
            Some(Fate::New) => Some(true),
            Some(Fate::Unreadable) => None,
            None => {
                let durable = self.done || block >= self.arrived;
                assert!(durable, "{what}, block {block}: it is neither durable nor named");
                Some(self.done)
            }
        }
    }
}

static OLD: LazyLock<Vec<u8>> = LazyLock::new(|| pattern(10, COUNT + 40));
static NEW: LazyLock<Vec<u8>> = LazyLock::new(|| pattern(20, COUNT));

fn new(count: usize) -> &'static [u8] {
    &NEW[..count * 512]
}

/// Powers a card up and selects it. Returns the instant at which it is selected.
fn select(card: &mut Card, now: Instant) -> Instant {
    card.power_on(now, Voltage::V3_3);
    let now = now + Duration::from_ms(10);
    for (index, argument) in [
        (opcode::GO_IDLE_STATE, 0),
        (opcode::SEND_IF_COND, 0x1aa),
        (opcode::APP_CMD, 0),
        (opcode::app::SD_SEND_OP_COND, 0x40ff_8000),
        (opcode::ALL_SEND_CID, 0),
        (opcode::SEND_RELATIVE_ADDR, 0),
    ] {
        card.command(now, Command::new(index, argument));
    }
    let address = u32::from(card.identity().relative_address) << 16;
    card.command(now, Command::new(opcode::SELECT_CARD, address)).expect("the card is selected");
    assert_eq!(card.state(), State::Transfer);
    now
}

/// Writes blocks at intervals of `each` until `cut`. Returns the instants of the events ([`Life::events`]).
fn write(
    card: &mut Card,
    now: Instant,
    block: u64,
    bytes: &[u8],
    each: Duration,
    known: bool,
    cut: Instant,
) -> Vec<Instant> {
    let mut events = vec![now];
    let mut now = now;
    if known {
        card.command(now, Command::new(opcode::SET_BLOCK_COUNT, (bytes.len() / 512) as u32))
            .expect("a count");
    }
    card.command(now, Command::new(opcode::WRITE_MULTIPLE_BLOCK, block as u32)).expect("a write");
    for part in bytes.chunks(512) {
        now = card.busy_until(now).unwrap_or(now) + each;
        if now > cut {
            return events;
        }
        assert_eq!(card.transfer(), Transfer::Receiving { block: 512 });
        card.receive_block(now, part, true).expect("a status");
        events.push(now);
    }
    if !known {
        now += Duration::from_us(3);
        if now > cut {
            return events;
        }
        card.command(now, Command::new(opcode::STOP_TRANSMISSION, 0)).expect("a stop");
        events.push(now);
    }
    events.push(card.busy_until(now).unwrap_or(now));
    events
}

/// Writes old data if the plan requires it, starts the write of the plan, and cuts the power when the time
/// `cut` has passed since that start.
fn life(plan: &Plan, cut: Duration) -> Life {
    let &Plan { overwrite, count, each, known, over_old } = plan;
    // A small card, because zeroing the bytes takes most of the test's time.
    let parameters = CardParameters { capacity: MIB, ..parameters(overwrite) };
    let mut identity = high_capacity(&parameters);
    identity.t_init = Duration::ZERO;
    let bytes = Bytes::new(parameters.capacity);
    let mut card = Card::new(parameters, identity, Some(Box::new(bytes.clone())), 7);
    let mut now = select(&mut card, Instant::ZERO);
    if over_old {
        let events = write(&mut card, now, FIRST - 20, &OLD, each, false, Instant::MAX);
        now = *events.last().expect("it began");
    }
    let cut_at = now.saturating_add(cut);
    let events = write(&mut card, now, FIRST, new(count), each, known, cut_at);
    let done = events.len() > count + usize::from(!known) && events.last().is_some_and(|end| *end <= cut_at);
    let arrived = (events.len() - 1).min(count) as u64;
    let cut = card.power_off(cut_at);
    Life {
        card,
        bytes,
        cut,
        events: events.iter().map(|at| Instant::ZERO + at.since(now)).collect(),
        arrived,
        done,
    }
}

/// Checks that the outcome is permitted.
fn judge(mut life: Life, plan: &Plan, what: fmt::Arguments<'_>, fates: &mut [u32; 3]) {
    let &Plan { count, over_old, .. } = plan;
    let before = if over_old { &OLD[20 * 512..][..count * 512] } else { &[0; COUNT * 512][..count * 512] };
    let new = new(count);
    let fate_of = |block: u64| {
        let at = (FIRST + block) * 512;
        let named = life.cut.undecided.iter().find(|(range, _)| range.contains(&at));
        named.map(|(_, fate)| *fate)
    };
    assert!(!life.done || life.cut.undecided.is_empty(), "{what}: a completed write is durable");
    let mut torn_pages = BTreeSet::new();
    let now = Instant::from_ns(10_000_000_000);
    select(&mut life.card, now);
    let mut now = now + Duration::from_secs(1);
    for block in 0..count as u64 {
        let at = (FIRST + block) * 512;
        let place = block as usize * 512..block as usize * 512 + 512;
        let is_new = life.is_new(block, fate_of(block), what);
        let expected = is_new.map(|is_new| if is_new { &new[place] } else { &before[place] });
        if let Some(fate) = fate_of(block) {
            fates[fate as usize] += 1;
        }
        now += Duration::from_ms(1);
        life.card.command(now, Command::new(opcode::READ_SINGLE_BLOCK, (at / 512) as u32)).expect("a read");
        match (life.card.block_ready(now), expected) {
            (Some(ready), Some(expected)) => {
                let mut read = vec![0; 512];
                life.card.send_block(ready, &mut read);
                assert_eq!(read, expected, "{what}, block {block}: the card returns other data");
                assert_eq!(
                    life.bytes.at(at..at + 512),
                    expected,
                    "{what}, block {block}: the store holds other data"
                );
            }
            (None, None) => {
                torn_pages.insert((FIRST + block) / PAGE);
                let status =
                    life.card.command(now, Command::new(opcode::STOP_TRANSMISSION, 0)).expect("a stop");
                let Response::R1(status) = status else { panic!("{what}, block {block}: {status:?}") };
                assert!(status.has(Status::CARD_ECC_FAILED), "{what}, block {block}: {status:?}");
            }
            (ready, expected) => {
                panic!("{what}, block {block}: ready {ready:?}, readable {}", expected.is_some())
            }
        }
    }
    assert!(torn_pages.len() <= 1, "{what}: pages {torn_pages:?} were programmed at the same time");
    let readable = (0..count as u64).take_while(|block| fate_of(*block) != Some(Fate::Unreadable)).count();
    read_at_once_and_rewrite(&mut life, now, count, readable, what);
    if over_old {
        assert_eq!(life.bytes.at(0..20 * 512), OLD[..20 * 512], "{what}: the blocks before are unchanged");
        assert_eq!(
            life.bytes.at(60 * 512..80 * 512),
            OLD[60 * 512..],
            "{what}: the blocks behind are unchanged"
        );
    }
}

/// Reads all blocks of the write in one command, which must end after `readable` blocks. Then writes all
/// blocks again, after which all of them must be readable.
fn read_at_once_and_rewrite(
    life: &mut Life,
    now: Instant,
    count: usize,
    readable: usize,
    what: fmt::Arguments<'_>,
) {
    life.card.command(now, Command::new(opcode::READ_MULTIPLE_BLOCK, FIRST as u32)).expect("a read");
    let sent = (0..count).take_while(|_| {
        let ready = life.card.block_ready(now);
        ready.is_some_and(|ready| life.card.send_block(ready, &mut []))
    });
    assert_eq!(sent.count(), readable, "{what}: a read in one command");
    life.card.command(now, Command::new(opcode::STOP_TRANSMISSION, 0)).expect("a stop");
    life.card.check();
    // A torn page can be rewritten.
    let end = write(&mut life.card, now, FIRST, new(count), Duration::from_us(25), false, Instant::MAX);
    let now = *end.last().expect("it began");
    life.card.command(now, Command::new(opcode::READ_MULTIPLE_BLOCK, FIRST as u32)).expect("a read");
    for block in 0..count {
        let ready =
            life.card.block_ready(now).unwrap_or_else(|| panic!("{what}: block {block} after writing again"));
        life.card.send_block(ready, &mut []);
    }
}

/// A clock cycle of the bus in high-speed mode, in nanoseconds.
const CLOCK: u64 = 20;

/// Cuts the power at every event on the bus, one nanosecond before and after each event, one clock cycle
/// after each event, and at every `stride`-th clock cycle.
fn sweep(plan: Plan, stride: usize) {
    let whole = life(&plan, LONG);
    let end = whole.events.last().expect("it began").as_ns();
    let mut cuts: BTreeSet<u64> = (0..end / CLOCK + 2).step_by(stride).map(|n| n * CLOCK).collect();
    for event in &whole.events {
        cuts.extend([
            event.as_ns().saturating_sub(1),
            event.as_ns(),
            event.as_ns() + 1,
            event.as_ns() + CLOCK,
        ]);
    }
    let mut fates = [0; 3];
    for cut in cuts {
        let life = life(&plan, Duration::from_ns(cut));
        judge(life, &plan, format_args!("{plan:?}, cut after {cut} ns"), &mut fates);
    }
    assert!(fates.iter().all(|count| *count > 0), "old, new and unreadable all occur: {fates:?}");
}

/// Returns the distance in clock cycles between two cuts of the exhaustive sweeps. In the full form (`cargo
/// xtask full`), the distance is 1. In the quick form, it is a prime number, so that the cuts meet every
/// phase of a byte and of a block.
fn stride() -> usize {
    if std::env::var_os("FLASHLAB_FULL").is_some() { 1 } else { 7 }
}

/// The write has 14 blocks in two pages.
#[test]
fn a_cut_at_every_single_clock_of_a_short_open_ended_write_leaves_old_or_new_blocks() {
    let each = Duration::from_us(21);
    sweep(Plan { overwrite: Overwrite::Convert, count: 14, each, known: false, over_old: true }, stride());
}

#[test]
fn a_cut_at_every_single_clock_of_a_short_write_of_known_length_leaves_old_or_new_blocks() {
    let each = Duration::from_us(21);
    sweep(Plan { overwrite: Overwrite::Log, count: 14, each, known: true, over_old: true }, stride());
}

#[test]
fn a_cut_at_any_clock_of_an_open_ended_write_leaves_old_or_new_blocks() {
    for overwrite in [Overwrite::Convert, Overwrite::Log] {
        for over_old in [false, true] {
            let each = Duration::from_us(21);
            sweep(Plan { overwrite, count: COUNT, each, known: false, over_old }, 401);
        }
    }
}

#[test]
fn a_cut_at_any_clock_of_a_write_of_known_length_leaves_old_or_new_blocks() {
    for overwrite in [Overwrite::Convert, Overwrite::Log] {
        for over_old in [false, true] {
            let each = Duration::from_us(21);
            sweep(Plan { overwrite, count: COUNT, each, known: true, over_old }, 401);
        }
    }
}

/// The bus is slower than the array, so the array waits. Each page is programmed long before the next page
/// arrives.
#[test]
fn a_cut_between_pages_on_slow_wires_leaves_old_or_new_blocks() {
    let each = Duration::from_us(164);
    sweep(Plan { overwrite: Overwrite::Convert, count: COUNT, each, known: false, over_old: true }, 1_009);
}

/// The host stops before the announced length. Blocks that it did not send are unchanged.
#[test]
fn a_write_that_is_stopped_early_leaves_the_rest_as_it_was() {
    for overwrite in [Overwrite::Convert, Overwrite::Log] {
        let parameters = parameters(overwrite);
        let identity = high_capacity(&parameters);
        let mut host = Host::new(Card::new(parameters, identity, Some(Box::new(Bytes::new(4 * MIB))), 7));
        host.bring_up();
        host.widen(Mode::HighSpeed);
        host.write(FIRST as u32 - 20, &OLD);
        host.r1(opcode::SET_BLOCK_COUNT, COUNT as u32);
        host.r1(opcode::WRITE_MULTIPLE_BLOCK, FIRST as u32);
        for part in new(COUNT).chunks(512).take(10) {
            host.native.write_block(part, 512, LONG).expect("a block");
        }
        host.send(opcode::STOP_TRANSMISSION, 0, ResponseType::R1b).expect("a stop");
        host.native.wait_ready(LONG).expect("the card becomes ready");
        host.application(opcode::app::SEND_NUM_WR_BLOCKS, 0);
        let mut written = [0; 4];
        host.native.read_block(&mut written, 4, LONG).expect("how many");
        assert_eq!(u32::from_be_bytes(written), 10);
        let read = host.read(FIRST as u32, COUNT);
        assert_eq!(read[..10 * 512], new(COUNT)[..10 * 512]);
        assert_eq!(read[10 * 512..], OLD[30 * 512..][..30 * 512]);
        host.card().check();
    }
}
