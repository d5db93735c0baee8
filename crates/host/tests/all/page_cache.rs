//! The page cache: closed forms for times, thresholds, timers and requests, and the durability of `fsync`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use flashlab_host::page_cache::{Advice, PageCache, Settings};
use flashlab_sim::{
    Completion, Duration, FileId, Geometry, Instant, Mechanism, Model, Op, PowerCut, Request, RequestId,
    Spent, Status,
};
use proptest::prelude::*;

const PAGE: u64 = 4096;
const MIB: u64 = 1 << 20;

/// Event of the device: arrival or end of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Event {
    Start(Op, u64, u64),
    End(Op, u64, u64),
}

type Log = Arc<Mutex<Vec<(Instant, Event)>>>;

/// A device that serves one request at a time. A request takes a constant time plus a time per page.
#[derive(Clone)]
struct Serial {
    each: Duration,
    page: Duration,
    fails: bool,
    queue: Vec<(Instant, Instant, Request)>,
    log: Log,
}

impl Serial {
    fn new(each_us: u64, page_us: u64) -> Serial {
        let (each, page) = (Duration::from_us(each_us), Duration::from_us(page_us));
        Serial { each, page, fails: false, queue: Vec::new(), log: Log::default() }
    }
}

impl Model for Serial {
    fn geometry(&self) -> Geometry {
        Geometry { capacity: 256 * MIB, block: 512, request_max: 512 << 10 }
    }
    fn submit(&mut self, now: Instant, request: Request) {
        let Request { op, offset, length, .. } = request;
        let start = self.queue.last().map_or(now, |(_, end, _)| now.max(*end));
        let end = start + self.each + self.page * length.div_ceil(PAGE);
        self.queue.push((now, end, request));
        self.log.lock().unwrap().push((now, Event::Start(op, offset, length)));
    }
    fn next_due(&self) -> Option<Instant> {
        self.queue.first().map(|(_, end, _)| *end)
    }
    fn complete(&mut self, limit: Instant) -> Option<Completion> {
        if self.next_due()? > limit {
            return None;
        }
        let (since, at, Request { id, op, offset, length, .. }) = self.queue.remove(0);
        self.log.lock().unwrap().push((at, Event::End(op, offset, length)));
        let mut spent = Spent::default();
        spent[Mechanism::Program] = at.since(since);
        let status = if self.fails { Status::Unreadable } else { Status::Ok };
        Some(Completion { id, at, status, spent })
    }
    fn power_cut(&mut self, _: Instant) -> PowerCut {
        self.queue.clear();
        PowerCut::default()
    }
    fn power_up(&mut self, now: Instant) -> Instant {
        now
    }
}

/// A cache above a device. Its calls run one after the other.
struct Host {
    cache: PageCache,
    device: Serial,
    now: Instant,
}

impl Host {
    fn new(settings: Settings, device: Serial) -> Host {
        Host { cache: PageCache::new(settings), device, now: Instant::ZERO }
    }

    fn call(&mut self, op: Op, offset: u64, length: u64) -> Completion {
        self.call_file(FileId::DEVICE, op, offset, length)
    }

    /// Runs a call to its end.
    fn call_file(&mut self, file: FileId, op: Op, offset: u64, length: u64) -> Completion {
        let request = Request { id: RequestId(7), op, file, offset, length };
        let mut model = self.cache.over(&mut self.device);
        model.submit(self.now, request);
        let done = model.complete(Instant::MAX).expect("the call completes");
        assert_eq!(done.spent.total(), done.at.since(self.now), "the parts sum to the latency");
        self.now = done.at;
        done
    }

    /// Advances the time to `second` with a read of page 0, which must be in the cache.
    fn wait_until(&mut self, second: u64) {
        self.now = Instant::ZERO + Duration::from_secs(second);
        self.call(Op::Read, 0, 1);
    }

    /// Returns the requests that started, as (operation, first page, pages).
    fn requests(&self) -> Vec<(Op, u64, u64)> {
        let log = self.device.log.lock().unwrap();
        let starts = log.iter().filter_map(|(_, event)| match event {
            Event::Start(op, offset, length) => Some((*op, offset / PAGE, length.div_ceil(PAGE))),
            Event::End(..) => None,
        });
        starts.collect()
    }

    /// Returns the instants at which writes started, in milliseconds.
    fn write_times_ms(&self) -> Vec<u64> {
        let log = self.device.log.lock().unwrap();
        let starts = log.iter().filter(|(_, event)| matches!(event, Event::Start(Op::Write, ..)));
        starts.map(|(at, _)| at.as_ns() / 1_000_000).collect()
    }
}

/// 100,000 pages of memory: write-back begins above 10,000 dirty pages, and the limit is 20,000.
fn settings() -> Settings {
    Settings { tags: 1, ..Settings::linux(100_000 * PAGE) }
}

#[test]
fn a_write_takes_the_time_of_its_copy_and_reaches_the_device_with_fsync() {
    let set = settings();
    let mut host = Host::new(set, Serial::new(1_000, 10));
    let written = host.call(Op::Write, 0, 300 * PAGE);
    assert_eq!(written.spent.total(), set.t_call + set.t_page * 300);
    assert_eq!(written.spent[Mechanism::Host], written.spent.total());
    assert_eq!(host.requests(), []);
    let synced = host.call(Op::Flush, 0, 0);
    let merged = [(Op::Write, 0, 128), (Op::Write, 128, 128), (Op::Write, 256, 44), (Op::Flush, 0, 0)];
    assert_eq!(host.requests(), merged);
    // The device serves the first plug while the processor builds the second one.
    let device = Duration::from_us(3 * 1_000 + 300 * 10);
    let first_plug = set.t_writeback * 128 + set.t_submit;
    assert_eq!(
        synced.spent.total(),
        set.t_call + first_plug + device + set.t_submit + Duration::from_us(1_000)
    );
    assert_eq!(
        host.call(Op::FlushData, 0, 0).spent[Mechanism::Program],
        Duration::from_us(1_000),
        "a flush alone"
    );
}

#[test]
fn the_flush_of_a_block_device_writes_its_pages_back_and_drops_them() {
    let set = settings();
    let mut host = Host::new(set, Serial::new(1_000, 0));
    host.call(Op::Write, 0, 8 * PAGE);
    let dropped = host.call(Op::Trim, 0, 0);
    assert_eq!(host.requests(), [(Op::Write, 0, 8)], "without a flush of the device");
    let device = Duration::from_us(1_000);
    assert_eq!(dropped.spent.total(), set.t_call + set.t_writeback * 8 + set.t_submit + device);
    host.call(Op::Read, 0, 8 * PAGE);
    assert_eq!(host.requests()[1].0, Op::Read, "no page is left in the cache");
    assert_eq!(host.call(Op::Trim, 0, PAGE).status, Status::Unsupported);
}

#[test]
fn the_advice_on_a_file_drops_its_clean_pages_and_does_not_wait_for_dirty_ones() {
    let (one, other) = (FileId(1), FileId(2));
    let mut host = Host::new(settings(), Serial::new(1_000, 0));
    host.cache.set_file(one, MIB, true);
    host.cache.set_file(other, 2 * MIB, true);
    host.call_file(one, Op::Read, 0, 4 * PAGE);
    host.call_file(other, Op::Read, MIB, 4 * PAGE);
    host.call_file(one, Op::Write, 16 * PAGE, PAGE);
    let before = host.requests().len();
    let dropped = host.call_file(one, Op::Trim, 0, 0);
    assert!(dropped.spent.total() < Duration::from_us(1_000), "the write is still in flight");
    assert_eq!(host.requests()[before..], [(Op::Write, 16, 1)]);
    host.call_file(one, Op::Read, 16 * PAGE, PAGE);
    host.call_file(other, Op::Read, MIB, 4 * PAGE);
    assert_eq!(host.requests().len(), before + 1, "dirty pages and those of other files are cached");
    host.call_file(one, Op::Read, 0, PAGE);
    assert_eq!(host.requests().len(), before + 2);
}

#[test]
fn the_first_timer_writes_any_dirty_file_and_later_timers_only_expired_files() {
    let mut host = Host::new(settings(), Serial::new(100, 0));
    host.call(Op::Write, 0, PAGE);
    host.wait_until(6);
    assert_eq!(host.write_times_ms(), [5_120], "5 s, rounded up to the timer wheel");
    // At 6 s the page becomes dirty again, so it expires at 36 s; the timers are at 10.24, 15.36, ..., 40.96 s.
    host.call(Op::Write, 0, PAGE);
    host.wait_until(40);
    assert_eq!(host.write_times_ms().len(), 1);
    host.wait_until(60);
    assert_eq!(host.write_times_ms(), [5_120, 40_960]);
}

#[test]
fn a_file_is_written_as_a_whole_once_its_first_page_expires() {
    let mut host = Host::new(settings(), Serial::new(100, 0));
    host.call(Op::Write, 0, PAGE);
    host.call(Op::Flush, 0, 0);
    for second in [1, 10, 20] {
        host.wait_until(second);
        host.call(Op::Write, second * 100 * PAGE, PAGE);
    }
    host.wait_until(50);
    assert_eq!(host.write_times_ms().len(), 4);
    assert_eq!(host.write_times_ms()[1..], [35_840; 3], "the first timer after 31 s");
}

#[test]
fn a_file_whose_pages_are_all_in_write_back_does_not_hold_up_the_next_one() {
    // A request takes a minute, so the first writes are still in flight at the second timer.
    let mut host = Host::new(Settings { tags: 32, ..settings() }, Serial::new(60_000_000, 0));
    let (first, second, last) = (FileId::DEVICE, FileId(1), FileId(2));
    host.cache.set_file(second, MIB, false);
    host.cache.set_file(last, MIB, false);
    host.call_file(first, Op::Write, 0, PAGE);
    host.call_file(last, Op::Write, 0, PAGE);
    host.wait_until(6);
    assert_eq!(host.write_times_ms(), [5_120; 2]);
    host.call_file(first, Op::Write, 0, PAGE);
    host.call_file(second, Op::Write, 0, PAGE);
    host.wait_until(11);
    assert_eq!(host.write_times_ms()[2..], [10_240], "it is the turn of the first file");
}

#[test]
fn writers_above_the_thresholds_run_at_the_rate_of_the_device() {
    // 5,000 pages a second: 200 us per page.
    let mut host = Host::new(settings(), Serial::new(0, 200));
    host.call(Op::Write, 0, PAGE);
    host.call(Op::Flush, 0, 0);
    let mut written = 1;
    let mut paused = Duration::ZERO;
    let mut halfway = (Instant::ZERO, 0);
    while written < 60_000 {
        let done = host.call(Op::Write, written * PAGE, 16 * PAGE);
        written += 16;
        paused += done.spent[Mechanism::Cache];
        if written == 40_001 {
            halfway = (host.now, written);
        }
        let on_device: u64 = {
            let log = host.device.log.lock().unwrap();
            let ends = log.iter().filter_map(|(_, event)| match event {
                Event::End(Op::Write, _, length) => Some(length / PAGE),
                _ => None,
            });
            ends.sum()
        };
        assert!(written - on_device <= 20_000 + 64, "{} pages are not on the device", written - on_device);
    }
    assert!(paused > Duration::ZERO);
    let rate = (written - halfway.1) as f64 / host.now.since(halfway.0).as_secs_f64();
    assert!((4_500.0..5_500.0).contains(&rate), "{rate} pages a second in the steady state");
}

#[test]
fn background_writeback_begins_above_its_threshold() {
    let mut host = Host::new(settings(), Serial::new(100, 0));
    host.call(Op::Write, 0, PAGE);
    host.call(Op::Flush, 0, 0);
    host.call(Op::Write, 0, 9_000 * PAGE);
    assert_eq!(host.write_times_ms().len(), 1);
    for n in 0..20 {
        host.call(Op::Write, (9_000 + n * 100) * PAGE, 100 * PAGE);
    }
    assert!(host.write_times_ms().len() > 1);
}

#[test]
fn a_sequential_reader_has_growing_windows_and_then_hits_the_cache() {
    let set = settings();
    let mut host = Host::new(set, Serial::new(1_000, 0));
    let miss = host.call(Op::Read, 0, PAGE);
    assert!(miss.spent.total() > Duration::from_us(1_000));
    for page in 1..60 {
        host.call(Op::Read, page * PAGE, PAGE);
    }
    let windows =
        [(Op::Read, 0, 4), (Op::Read, 4, 8), (Op::Read, 12, 16), (Op::Read, 28, 32), (Op::Read, 60, 32)];
    assert_eq!(host.requests(), windows);
    assert_eq!(host.call(Op::Read, 30 * PAGE, PAGE).spent.total(), set.t_call + set.t_page, "a hit");
    host.cache.set_advice(Advice::Random);
    host.call(Op::Read, 1_000 * PAGE, 2 * PAGE);
    assert_eq!(host.requests().last(), Some(&(Op::Read, 1_000, 2)));
}

#[test]
fn a_write_of_a_part_of_a_page_reads_the_page_unless_the_file_has_no_data_there() {
    let mut host = Host::new(settings(), Serial::new(1_000, 0));
    host.call(Op::Write, 100, 2_300);
    assert_eq!(host.requests(), [(Op::Read, 0, 1)]);
    host.call(Op::Write, 2_400, 2_300);
    assert_eq!(host.requests()[1..], [(Op::Read, 1, 1)], "page 0 is cached, page 1 is not");
    host.cache.set_file(FileId(1), MIB, false);
    host.call_file(FileId(1), Op::Write, 10 * PAGE + 1, 1);
    assert_eq!(host.requests().len(), 2);
    host.cache.set_file(FileId(2), MIB, true);
    host.call_file(FileId(2), Op::Write, 10 * PAGE + 1, 1);
    assert_eq!(host.requests()[2..], [(Op::Read, 10, 1)]);
}

#[test]
fn a_failed_write_back_is_reported_by_the_next_fsync_once() {
    let mut host = Host::new(settings(), Serial::new(1_000, 0));
    host.call(Op::Write, 0, PAGE);
    host.device.fails = true;
    host.wait_until(6);
    host.device.fails = false;
    assert_eq!(host.call(Op::Flush, 0, 0).status, Status::Unreadable);
    assert_eq!(host.call(Op::Flush, 0, 0).status, Status::Ok);
    assert_eq!(host.call(Op::Write, 256 * MIB, PAGE).status, Status::OutOfRange);
    assert_eq!(host.call(Op::Trim, 0, PAGE).status, Status::Unsupported);
}

#[test]
fn the_close_writes_everything_and_forgets_all_pages() {
    let mut host = Host::new(settings(), Serial::new(100, 10));
    host.call(Op::Write, 0, 1_000 * PAGE);
    let now = host.now;
    host.now = host.cache.close(&mut host.device, now);
    let pages: u64 = host.requests().iter().map(|(_, _, pages)| pages).sum();
    assert_eq!(pages, 1_000);
    let before = host.requests().len();
    host.call(Op::Read, 0, PAGE);
    assert_eq!(host.requests().len(), before + 1, "the page is no longer cached");
}

#[test]
fn calls_at_one_instant_wait_for_a_free_processor() {
    let set = settings();
    let cost = set.t_call + set.t_page;
    // Four processors are left out: the two waiting calls begin while the first four still copy pages, so the calls do
    // not run in whole rounds.
    for (processors, rounds) in [(1, 6), (2, 3), (3, 2), (6, 1), (8, 1)] {
        let mut cache = PageCache::new(Settings { processors, ..set });
        let mut device = Serial::new(1_000, 0);
        let mut model = cache.over(&mut device);
        for n in 0..6 {
            let (id, offset) = (RequestId(n), n * PAGE);
            model.submit(
                Instant::ZERO,
                Request { id, op: Op::Write, file: FileId::DEVICE, offset, length: PAGE },
            );
        }
        let mut done: Vec<Completion> =
            (0..6).map(|_| model.complete(Instant::MAX).expect("a call")).collect();
        done.sort_by_key(|call| call.at);
        let last = done.last().expect("six calls").at.since(Instant::ZERO);
        assert_eq!(last, cost * rounds, "{processors} processors");
        let work: Duration =
            done.iter().map(|call| call.spent[Mechanism::Host]).fold(Duration::ZERO, |a, b| a + b);
        assert_eq!(work, cost * 6, "waiting is not work");
        assert!(work <= last * u64::from(processors));
    }
}

/// A call of the property test: kind, page, offset in the page, length.
type Step = (u8, u64, u64, u64);

/// Runs calls, several at a time. Checks that `fsync` makes earlier writes durable, and returns all completions.
fn run(steps: &[Step], depth: usize, settings: Settings) -> Vec<Completion> {
    let mut cache = PageCache::new(settings);
    let mut device = Serial::new(90, 3);
    let log = Arc::clone(&device.log);
    let mut now = Instant::ZERO;
    let mut in_flight: BTreeMap<u64, (Instant, Request)> = BTreeMap::new();
    let (mut completions, mut written): (Vec<Completion>, Vec<(Instant, Request)>) = (Vec::new(), Vec::new());
    let mut steps = steps.iter().enumerate();
    loop {
        let mut model = cache.over(&mut device);
        if in_flight.len() < depth
            && let Some((n, (kind, page, skip, length))) = steps.next()
        {
            let op = [Op::Write, Op::Write, Op::Read, Op::Flush][usize::from(*kind)];
            now += Duration::from_us(*skip % 700);
            let is_flush = op.is_flush();
            let (offset, length) = if is_flush { (0, 0) } else { (page * PAGE + skip, *length) };
            let request = Request { id: RequestId(n as u64), op, file: FileId::DEVICE, offset, length };
            while let Some(done) = model.complete(now) {
                finish(done, &mut in_flight, &mut completions, &mut written, &log);
            }
            model.submit(now, request);
            in_flight.insert(n as u64, (now, request));
        } else if let Some(done) = model.complete(Instant::MAX) {
            assert!(done.at >= now, "completions do not go back in time");
            now = done.at;
            finish(done, &mut in_flight, &mut completions, &mut written, &log);
        } else {
            assert!(in_flight.is_empty(), "{in_flight:?} never complete");
            return completions;
        }
    }
}

fn finish(
    done: Completion,
    in_flight: &mut BTreeMap<u64, (Instant, Request)>,
    completions: &mut Vec<Completion>,
    written: &mut Vec<(Instant, Request)>,
    log: &Log,
) {
    let (since, request) = in_flight.remove(&done.id.0).expect("each call completes once");
    assert_eq!(done.spent.total(), done.at.since(since), "the parts sum to the latency");
    completions.push(done);
    match request.op {
        // The pages are dirty before the writer pauses.
        Op::Write => written.push((done.at.saturating_sub(done.spent[Mechanism::Cache]), request)),
        Op::Flush => {
            for (at, write) in written.iter().filter(|(at, _)| *at < since) {
                assert!(is_durable(*at, write, done.at, log), "{write:?} is not durable after fsync");
            }
        }
        _ => {}
    }
}

/// Returns true if the device wrote every page of `write` after `at`, and then completed a flush by `limit`. A write of
/// the device counts only if it starts at `at` or later, and a flush only if it starts after that write ends.
fn is_durable(at: Instant, write: &Request, limit: Instant, log: &Log) -> bool {
    let log = log.lock().unwrap();
    let last = (write.offset + write.length - 1) / PAGE;
    (write.offset / PAGE..=last).all(|page| {
        let covers = |offset: u64, length: u64| (offset..offset + length).contains(&(page * PAGE));
        let started = log.iter().position(|(start, event)| {
            *start >= at && matches!(event, Event::Start(Op::Write, offset, length) if covers(*offset, *length))
        });
        let Some(started) = started else { return false };
        let is_end = |event: &Event| matches!(event, Event::End(Op::Write, offset, length) if covers(*offset, *length));
        let Some(ended) = log[started..].iter().position(|(_, event)| is_end(event)) else { return false };
        let flush = log[started + ended..].iter().position(|(_, event)| matches!(event, Event::Start(Op::Flush, ..)));
        let Some(flush) = flush else { return false };
        let after = &log[started + ended + flush..];
        after.iter().any(|(end, event)| matches!(event, Event::End(Op::Flush, ..)) && *end <= limit)
    })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec((0_u8..4, 0_u64..96, 0_u64..PAGE, 1_u64..40_000), 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn an_fsync_makes_earlier_writes_durable_and_runs_are_reproducible(
        steps in steps(), depth in 1_usize..4, processors in 1_u32..3, pages in 32_u64..400, tags in 1_u32..5,
    ) {
        let settings = Settings { processors, tags, ..Settings::linux(pages * PAGE) };
        let first = run(&steps, depth, settings);
        prop_assert_eq!(first.len(), steps.len());
        prop_assert!(first.iter().all(|done| done.status == Status::Ok));
        prop_assert_eq!(first, run(&steps, depth, settings));
    }
}
