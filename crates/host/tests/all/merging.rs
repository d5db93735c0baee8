//! Requests that wait for the device merge with their neighbours.

use super::common::{machine, parameters};
use flashlab_host::{Host, Machine};
use flashlab_sd::{CardModel, Mode};
use flashlab_sim::{Completion, Duration, FileId, Instant, Model, Observer, Op, Request, RequestId, Status};
use proptest::prelude::*;

const KIB: u64 = 1 << 10;
const CAPACITY: u64 = 1 << 20;

/// Returns a host of an empty card whose largest command has 128 KiB.
fn host(merge: bool) -> Host {
    let machine = Machine { merge: Some(merge), ..machine(&[Mode::HighSpeed, Mode::DefaultSpeed], None) };
    let card = parameters(CAPACITY);
    let model = CardModel::new(card.clone(), machine.link(&card.modes), 1);
    Host::new(&machine, Box::new(model))
}

/// Submits requests at once, and returns their completions and the number of commands.
fn run(merge: bool, requests: &[(Op, u64, u64)]) -> (Vec<Completion>, u64) {
    let mut host = host(merge);
    for (id, &(op, offset, length)) in (0..).zip(requests) {
        host.submit(Instant::ZERO, Request { id: RequestId(id), op, file: FileId::DEVICE, offset, length });
    }
    let completions = requests.iter().map(|_| host.complete(Instant::MAX).expect("it completes")).collect();
    assert!(host.next_due().is_none() && host.complete(Instant::MAX).is_none());
    (completions, commands_of(&host))
}

/// Returns the number of commands that a host has sent.
fn commands_of(host: &Host) -> u64 {
    struct Commands(u64);
    impl Observer for Commands {
        fn count(&mut self, name: &'static str, value: u64) {
            if name == "command_count" {
                self.0 = value;
            }
        }
    }
    let mut commands = Commands(0);
    host.observe(&mut commands);
    commands.0
}

/// Returns the number of commands for `requests`, which are submitted while one request is on the bus and another one is
/// prepared.
fn commands(requests: &[(Op, u64, u64)]) -> u64 {
    let first = [(Op::Read, 900 * KIB, 4 * KIB), (Op::Read, 800 * KIB, 4 * KIB)];
    run(true, &[&first, requests].concat()).1 - 2
}

fn read(first: u64, count: u64) -> (Op, u64, u64) {
    (Op::Read, first * KIB, count * KIB)
}

#[test]
fn a_sequence_of_small_reads_takes_the_time_of_the_command_that_it_becomes() {
    let small: Vec<_> = (0..10).map(|n| read(4 * n, 4)).collect();
    let (merged, commands) = run(true, &small);
    let (alike, _) = run(false, &[read(0, 4), read(4, 4), read(8, 32)]);
    assert_eq!(commands, 3);
    assert_eq!(merged[..3], alike[..3]);
    let ids: Vec<u64> = merged.iter().map(|done| done.id.0).collect();
    assert_eq!(ids, (0..10).collect::<Vec<_>>());
    assert!(merged[3..].iter().all(|done| done.at == merged[2].at));
}

#[test]
fn only_neighbours_of_one_kind_merge_up_to_the_largest_command() {
    assert_eq!(commands(&[read(0, 4), read(4, 4), read(8, 4)]), 1, "each request follows the one before it");
    assert_eq!(commands(&[read(8, 4), read(4, 4), read(0, 4)]), 1, "each request precedes the one before it");
    assert_eq!(commands(&[read(0, 4), read(100, 4), read(4, 4), read(104, 4)]), 2, "two streams");
    assert_eq!(commands(&[read(0, 4), read(5, 4)]), 2, "a gap");
    assert_eq!(commands(&[read(0, 4), read(0, 4)]), 2, "the same range");
    assert_eq!(commands(&[read(0, 100), read(100, 28), read(128, 4)]), 2, "128 KiB, and the rest");
    let write = |first: u64| (Op::Write, first * KIB, 4 * KIB);
    assert_eq!(commands(&[write(0), write(4)]), 1);
    assert_eq!(commands(&[write(0), read(4, 4)]), 2, "reads and writes");
    let durable = |first: u64| (Op::WriteFua, first * KIB, 4 * KIB);
    assert_eq!(commands(&[durable(0), durable(4)]), 2);
    let beyond = (Op::Write, CAPACITY, 4 * KIB);
    let (completions, _) = run(true, &[read(0, 4), read(8, 4), write(1020), beyond]);
    assert_eq!(completions[2].status, Status::Ok, "a valid request does not become part of an invalid one");
    assert_eq!(completions[3].status, Status::OutOfRange);
}

#[test]
fn a_request_that_merges_later_waited_for_a_shorter_time() {
    let mut host = host(true);
    let submit = |host: &mut Host, at: Instant, id: u64, offset: u64| {
        let (op, file) = (Op::Read, FileId::DEVICE);
        host.submit(at, Request { id: RequestId(id), op, file, offset, length: 4 * KIB });
    };
    for (id, offset) in [(0, 0), (1, 100 * KIB), (2, 200 * KIB)] {
        submit(&mut host, Instant::ZERO, id, offset);
    }
    let later = Instant::ZERO + Duration::from_us(7);
    submit(&mut host, later, 3, 204 * KIB);
    let done: Vec<Completion> = (0..4).map(|_| host.complete(Instant::MAX).expect("it completes")).collect();
    assert_eq!((done[2].id, done[3].id, done[2].at), (RequestId(2), RequestId(3), done[3].at));
    assert_eq!(done[2].spent.total(), done[2].at.since(Instant::ZERO));
    assert_eq!(done[3].spent.total(), done[3].at.since(later));
}

proptest! {
    /// Each request completes once, after its arrival. The times of its mechanisms sum to its latency, even
    /// if it merges.
    #[test]
    fn merged_requests_complete_once_and_their_times_add_up(
        requests in prop::collection::vec((0_u64..16, 1_u64..4, any::<bool>(), 0_u64..400), 1..40),
    ) {
        let (mut host, mut now) = (host(true), Instant::ZERO);
        let (mut arrived, mut done) = (Vec::new(), Vec::new());
        for (id, (first, count, is_write, after)) in (0..).zip(requests) {
            now += Duration::from_us(after);
            done.extend(std::iter::from_fn(|| host.complete(now)));
            let op = if is_write { Op::Write } else { Op::Read };
            let (offset, length) = (first * 4 * KIB, count * 4 * KIB);
            host.submit(now, Request { id: RequestId(id), op, file: FileId::DEVICE, offset, length });
            arrived.push(now);
        }
        done.extend(std::iter::from_fn(|| host.complete(Instant::MAX)));
        prop_assert!(done.is_sorted_by_key(|done| done.at));
        for completion in &done {
            let arrived = arrived[completion.id.0 as usize];
            prop_assert_eq!(completion.spent.total(), completion.at.since(arrived));
        }
        let mut ids: Vec<u64> = done.iter().map(|done| done.id.0).collect();
        ids.sort_unstable();
        prop_assert!(ids.into_iter().eq(0..arrived.len() as u64));
    }
}
