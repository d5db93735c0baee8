//! Power cuts compared with a reference that records every version of every block.

use super::models::{BLOCK, BLOCKS, LATENCY, VolatileModel};
use super::{timed, write};
use flashlab_block::conformance::{execute, read, wait_for};
use flashlab_block::{BlockDevice, Context, Io, IoError, Memory, Outcome, Pages, Started, Timed};
use flashlab_flash::ftl::Wear;
use flashlab_flash::ftl::card::{Mapping, Overwrite};
use flashlab_flash::nand::Nand;
use flashlab_host::driver::mmc::MmcModel;
use flashlab_sd::{Card, CardModel, CardParameters, Identity, Link, Mode};
use flashlab_sim::{Duration, Fate, Instant, Model, Rng};
use std::collections::VecDeque;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::task::{self, Poll, Waker};

type Answering = Pin<Box<dyn Future<Output = Outcome> + Send>>;

fn poll(answer: &mut Answering) -> Poll<Outcome> {
    answer.as_mut().poll(&mut task::Context::from_waker(Waker::noop()))
}

/// The acknowledged contents of a block, with the sequence numbers of the changes that wrote them. The first
/// version is durable, because the device answered a flush that covers it or a change with FUA. For the other
/// versions, no such answer has arrived.
#[derive(Clone, Debug)]
struct Block {
    versions: Vec<(u64, u8)>,
    readable: bool,
}

struct InFlight {
    answer: Answering,
    blocks: Range<u64>,
    /// Byte value of a write; zero for a discard or a write of zeroes, `None` for a read or a flush.
    byte: Option<u8>,
    fua: bool,
    trims: bool,
    /// Sequence number up to which a flush makes changes durable.
    flush_covers_to: Option<u64>,
}

struct CheckedDevice {
    device: Timed,
    blocks: Vec<Block>,
    changes: u64,
    in_flight: VecDeque<InFlight>,
    now: Instant,
    rng: Rng,
    byte: u8,
    /// Longest time from a request to a power cut.
    cut_within: Duration,
    /// True if the model makes a trim durable at once.
    trims_are_durable: bool,
}

impl CheckedDevice {
    fn new(model: impl Model + 'static, cut_within: Duration, seed: u64) -> CheckedDevice {
        let block = Block { versions: vec![(0, 0)], readable: true };
        CheckedDevice {
            device: timed(model),
            blocks: vec![block; BLOCKS as usize],
            changes: 0,
            in_flight: VecDeque::new(),
            now: Instant::ZERO,
            rng: Rng::new(seed),
            byte: 0,
            cut_within,
            trims_are_durable: false,
        }
    }

    fn start(&mut self) {
        let start = self.rng.below(BLOCKS);
        let blocks = start..start + 1 + self.rng.below((BLOCKS - start).min(5));
        let (offset, length) = (blocks.start * BLOCK, (blocks.end - blocks.start) * BLOCK);
        self.byte = self.byte % 250 + 1;
        let byte = self.byte;
        let durable = self.rng.below(4) == 0;
        // A flush that follows a discard makes the discard durable; another test covers this case.
        let fua = durable && self.rng.below(2) == 0;
        let data = vec![byte; length as usize];
        let (io, byte, fua) = match self.rng.below(8) {
            0..4 => (Io::Write { offset, data: data.into(), durable }, Some(byte), durable),
            4 => (Io::Discard { offset, length, durable: false }, Some(0), false),
            5 => (
                Io::WriteZeroes { offset, length, durable: fua, allocate: durable, fast: false },
                Some(0),
                fua,
            ),
            6 => (Io::Flush, None, false),
            _ => (Io::Read { offset, buffer: data }, None, false),
        };
        self.poll_answers();
        let trims = matches!(io, Io::Discard { .. } | Io::WriteZeroes { allocate: false, .. });
        let flush_covers_to = matches!(io, Io::Flush).then_some(self.changes);
        let Started::Pending(answer) = self.device.start(&Context::new(self.now), io) else {
            panic!("each request takes time");
        };
        self.in_flight.push_back(InFlight { answer, blocks, byte, fua, trims, flush_covers_to });
    }

    /// Advances the device to its next due time.
    fn advance(&mut self) {
        if let Some(due) = self.device.next_due() {
            self.device.advance(due);
        }
        self.poll_answers();
    }

    /// Takes the answers that have arrived. Requests are served in order.
    fn poll_answers(&mut self) {
        while let Some(request) = self.in_flight.front_mut() {
            let Poll::Ready(outcome) = poll(&mut request.answer) else { return };
            let request = self.in_flight.pop_front().expect("it was looked at");
            self.handle_answer(&request, &outcome);
        }
    }

    fn handle_answer(&mut self, request: &InFlight, outcome: &Outcome) {
        let blocks = as_index(&request.blocks);
        let Some(byte) = request.byte else {
            let all_readable = self.blocks[blocks].iter().all(|block| block.readable);
            assert_eq!(outcome.is_ok(), request.flush_covers_to.is_some() || all_readable, "{outcome:?}");
            if let Some(flush_covers_to) = request.flush_covers_to {
                self.blocks.iter_mut().for_each(|block| block.mark_durable(flush_covers_to));
            }
            return;
        };
        assert!(outcome.is_ok(), "{outcome:?}");
        self.changes += 1;
        let durable = request.fua || request.trims && self.trims_are_durable;
        for block in &mut self.blocks[blocks] {
            block.versions.push((self.changes, byte));
            block.readable = true;
            if durable {
                block.mark_durable(u64::MAX);
            }
        }
    }

    /// Cuts the power, compares every block with the fate that the cut reports, and restores power.
    fn cut(&mut self) {
        let cut = self.device.power_cut(self.now).expect("memory does not fail");
        // Requests that were due at or before the cut have completed.
        while let Some(request) = self.in_flight.front_mut() {
            match poll(&mut request.answer) {
                Poll::Ready(Err(IoError::ShuttingDown)) => break,
                Poll::Ready(outcome) => {
                    let request = self.in_flight.pop_front().expect("it was looked at");
                    self.handle_answer(&request, &outcome);
                }
                Poll::Pending => panic!("without power nothing is outstanding"),
            }
        }
        let outstanding = std::mem::take(&mut self.in_flight);
        assert_eq!(self.device.next_due(), None);
        let fate_of = |block: u64| {
            let contains = |(range, _): &&(Range<u64>, Fate)| range.contains(&(block * BLOCK));
            cut.undecided.iter().find(contains).map(|(_, fate)| *fate)
        };
        assert_eq!(execute(&self.device, Io::Flush).err(), Some(IoError::ShuttingDown));
        for n in 0..BLOCKS {
            let newest = outstanding.iter().rev().find(|a| a.byte.is_some() && a.blocks.contains(&n));
            let block = &mut self.blocks[n as usize];
            let changes = block.versions.len() > 1 || newest.is_some();
            assert!(
                fate_of(n).is_none() || changes,
                "block {n} was durable, and the cut names it: {block:?}"
            );
            let contents = match (fate_of(n), newest) {
                (Some(Fate::Old), _) => block.versions[0].1,
                (Some(Fate::New), Some(request)) => request.byte.expect("it was looked for"),
                _ => block.versions.last().expect("there is one").1,
            };
            let overwritten = fate_of(n) == Some(Fate::New) && newest.is_some();
            block.readable = fate_of(n) != Some(Fate::Unreadable) && (block.readable || overwritten);
            block.versions = vec![(0, contents)];
        }
        for mut request in outstanding.into_iter().skip(1) {
            assert!(matches!(poll(&mut request.answer), Poll::Ready(Err(IoError::ShuttingDown))));
        }
        self.now = self.device.power_up(self.now);
        self.check();
    }

    fn drain(&mut self) {
        while !self.in_flight.is_empty() {
            self.advance();
        }
    }

    fn check(&mut self) {
        for (n, block) in (0..).zip(&self.blocks) {
            let io = Io::Read { offset: n * BLOCK, buffer: vec![1; BLOCK as usize] };
            match execute(&self.device, io) {
                Err(IoError::Medium) => assert!(!block.readable, "block {n} cannot be read"),
                Err(error) => panic!("block {n}: {error}"),
                Ok(_) => {
                    assert!(block.readable, "block {n} can be read");
                    let (_, byte) = *block.versions.last().expect("there is one");
                    assert_eq!(
                        read(&self.device, n * BLOCK, BLOCK as usize),
                        [byte; BLOCK as usize],
                        "block {n}"
                    );
                }
            }
        }
    }
}

impl Block {
    /// Marks the changes up to `last` as durable.
    fn mark_durable(&mut self, last: u64) {
        let newest = self.versions.iter().rposition(|(change, _)| *change <= last).unwrap_or(0);
        self.versions.drain(..newest);
    }
}

fn as_index(blocks: &Range<u64>) -> Range<usize> {
    blocks.start as usize..blocks.end as usize
}

#[test]
fn after_a_power_cut_every_block_has_the_reported_fate() {
    for seed in 0..60 {
        compare_with_the_versions(CheckedDevice::new(VolatileModel::new(seed), LATENCY * 3, seed));
    }
}

#[test]
fn after_a_power_cut_every_block_of_a_card_with_a_cache_has_the_reported_fate() {
    for seed in 0..40 {
        let mut parameters = parameters();
        parameters.refinements.cache = Some([16 << 10, 64 << 10][seed as usize % 2]);
        parameters.check().expect("a possible card");
        let card = CardModel::new(parameters, link(), seed);
        let mut checked = CheckedDevice::new(card, Duration::from_ms(3), seed);
        checked.trims_are_durable = true;
        compare_with_the_versions(checked);
    }
}

/// Sends random requests and power cuts to a device, and compares every block with its recorded versions.
fn compare_with_the_versions(mut checked: CheckedDevice) {
    for _ in 0..400 {
        match checked.rng.below(24) {
            0..12 => checked.start(),
            12..23 => checked.advance(),
            _ => {
                let passed = checked.rng.below(checked.cut_within.as_ns());
                checked.now += Duration::from_ns(passed);
                checked.cut();
            }
        }
    }
    checked.drain();
    checked.check();
}

#[test]
fn requests_fail_without_power_and_a_second_cut_has_no_effect() {
    let device = timed(VolatileModel::new(3));
    assert!(execute(&device, write(0, 5, 1)).is_ok());
    assert!(execute(&device, Io::Flush).is_ok());
    device.power_cut(Instant::ZERO).expect("memory does not fail");
    assert!(device.power_cut(Instant::ZERO).expect("memory does not fail").undecided.is_empty());
    assert!(!device.is_powered());
    assert_eq!(execute(&device, write(0, 6, 1)).err(), Some(IoError::ShuttingDown));
    let extents = Io::Extents { offset: 0, length: BLOCK };
    assert_eq!(execute(&device, extents).err(), Some(IoError::ShuttingDown));
    let up = device.power_up(Instant::ZERO);
    assert_eq!(device.power_up(Instant::ZERO), up, "it has power already");
    assert_eq!(read(&device, 0, BLOCK as usize), [5; BLOCK as usize]);
}

fn link() -> Link {
    Link { bus: Mode::DefaultSpeed.bus(), t_block_host: Duration::ZERO }
}

fn parameters() -> CardParameters {
    let erase_block = 64 << 10;
    CardParameters {
        capacity: 2 << 20,
        modes: vec![Mode::DefaultSpeed],
        nand: Nand {
            page: 8 << 10,
            t_read: Duration::from_us(100),
            read_rate: 64 << 20,
            t_prog: Duration::from_us(600),
            t_prog_slc: None,
            bits: None,
            erase_block,
            t_bers: Duration::from_us(900),
            spread_ppm: 30_000,
        },
        mapping: Mapping {
            program_unit: 8 << 10,
            t_commit: Duration::from_us(250),
            map_unit: erase_block,
            rewrite_unit: erase_block,
            overwrite: Overwrite::Convert,
            open_units: 3,
            map_cache: None,
            map_page: 4 << 10,
        },
        wear: Wear::default(),
        refinements: Default::default(),
    }
}

/// Returns the same card twice: as a block device, and driven by commands.
fn cards(seed: u64) -> [Box<dyn Model>; 2] {
    let parameters = parameters();
    parameters.check().expect("a possible card");
    let link = link();
    let card = Card::new(parameters.clone(), Identity::new(&parameters), None, seed);
    let by_commands = MmcModel::new(&card, link, &[Mode::DefaultSpeed], 64 << 10);
    [Box::new(CardModel::new(parameters, link, seed)), Box::new(by_commands)]
}

#[test]
fn a_card_keeps_answered_writes_and_tears_only_outstanding_ones() {
    let mut torn = 0;
    for (seed, model) in (0..40).flat_map(|seed| cards(seed).map(|model| (seed, model))) {
        let capacity = model.geometry().capacity;
        let store = Memory::new(capacity, Pages::Small).expect("a size that is possible");
        let device = Timed::new(model, Box::new(store));
        let mut rng = Rng::new(seed);
        let mut array = vec![0u8; capacity as usize];
        let mut now = Instant::ZERO;
        for step in 0..20u8 {
            let length = (1 + rng.below(256)) << 9;
            let offset = rng.below((capacity - length) >> 9) << 9;
            let data = vec![step + 1; length as usize];
            let started =
                device.start(&Context::new(now), Io::Write { offset, data: data.into(), durable: false });
            let range = offset as usize..(offset + length) as usize;
            if step % 2 == 0 {
                assert!(wait_for(&device, started).is_ok());
                array[range].fill(step + 1);
                continue;
            }
            now = now.max(device.next_due().expect("it writes"));
            let cut_at = Instant::from_ns(now.as_ns() - rng.below(2_000_000).min(now.as_ns()));
            let cut = device.power_cut(cut_at).expect("memory does not fail");
            now = device.power_up(now);
            torn += cut.undecided.len();
            for (part, fate) in &cut.undecided {
                assert!(range.start as u64 <= part.start && part.end <= range.end as u64, "seed {seed}");
                let part = part.start as usize..part.end as usize;
                match fate {
                    Fate::Old => {}
                    Fate::New => array[part].fill(step + 1),
                    Fate::Unreadable => {
                        let read = Io::Read { offset: part.start as u64, buffer: vec![0; part.len()] };
                        assert_eq!(execute(&device, read).err(), Some(IoError::Medium));
                        let data = vec![0xee; part.len()];
                        let again = Io::Write { offset: part.start as u64, data: data.into(), durable: true };
                        assert!(execute(&device, again).is_ok(), "the torn part cannot be rewritten");
                        array[part].fill(0xee);
                    }
                }
            }
            assert!(read(&device, 0, array.len()) == array, "seed {seed}, step {step}");
        }
    }
    assert!(torn > 100, "only {torn}");
}

#[test]
fn a_discard_with_fua_makes_all_earlier_changes_durable() {
    for seed in 0..50 {
        let device = timed(VolatileModel::new(seed));
        assert!(execute(&device, write(0, 5, 2)).is_ok());
        assert!(execute(&device, write(9, 7, 1)).is_ok());
        assert!(execute(&device, Io::Discard { offset: 0, length: BLOCK, durable: true }).is_ok());
        assert!(device.power_cut(Instant::ZERO).expect("memory does not fail").undecided.is_empty());
        device.power_up(Instant::ZERO);
        let expected = [[0; BLOCK as usize], [5; BLOCK as usize]].concat();
        assert_eq!(read(&device, 0, 2 * BLOCK as usize), expected);
        assert_eq!(read(&device, 9 * BLOCK, BLOCK as usize), [7; BLOCK as usize]);
    }
}

#[test]
fn a_power_cut_reverts_to_the_last_write_with_fua() {
    let mut seen = [false; 2];
    for seed in 0..50 {
        let device = timed(VolatileModel::new(seed));
        assert!(execute(&device, write(0, 5, 1)).is_ok());
        let data = vec![6; BLOCK as usize].into();
        assert!(execute(&device, Io::Write { offset: 0, data, durable: true }).is_ok());
        assert!(execute(&device, write(0, 7, 1)).is_ok());
        let cut = device.power_cut(Instant::ZERO).expect("memory does not fail");
        device.power_up(Instant::ZERO);
        let contents = match cut.undecided[..] {
            [(_, Fate::Old)] => 6,
            [(_, Fate::New)] => 7,
            _ => continue,
        };
        seen[contents as usize - 6] = true;
        assert_eq!(read(&device, 0, BLOCK as usize), [contents; BLOCK as usize], "seed {seed}");
    }
    assert_eq!(seen, [true; 2]);
}
