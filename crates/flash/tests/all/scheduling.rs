//! The event-exact scheduler compared with a slow reference, and a small case for each guarantee of the scheduler.

use crate::reference::Reference;
use flashlab_flash::nand::{
    Cause, Cell, Channels, Cut, Die, EraseBlock, Finished, Geometry, Kind, Operation, Scheduling, Suspend,
    Timing,
};
use flashlab_sim::{Duration, Instant, Rng};
use proptest::prelude::*;

/// Returns a small geometry. With few dies and times of a few nanoseconds, operations often collide at one instant.
fn small(channels: u32, dies: u32) -> Geometry {
    Geometry { channels, dies, planes: 1, blocks: 4, pages: 6, page: 512 }
}
const BRIEF: Timing = Timing {
    cell: Cell::Tlc,
    t_read: Duration::from_ns(5),
    t_read_spread_ppm: 0,
    t_read_slc: Duration::from_ns(3),
    t_prog: [Duration::from_ns(6), Duration::from_ns(9), Duration::from_ns(14), Duration::ZERO],
    t_prog_slc: Duration::from_ns(4),
    t_bers: Duration::from_ns(30),
    channel_rate: 1_000_000_000,
    t_command: Duration::ZERO,
};
const SUSPEND: Suspend =
    Suspend { t_suspend: Duration::from_ns(2), t_resume: Duration::from_ns(1), programs: true, erases: true };
const READS_FIRST: Scheduling = Scheduling { reads_first: true, overtaken_max: 3, suspend: None };
const SUSPENDING: Scheduling = Scheduling { suspend: Some(SUSPEND), ..READS_FIRST };

fn at(ns: u64) -> Instant {
    Instant::from_ns(ns)
}
fn operation(kind: Kind, block: u32, tag: u32) -> Operation {
    Operation { kind, block: EraseBlock::new(block), page: 0, slc: false, cause: Cause::Host, tag }
}
fn read(block: u32, tag: u32) -> Operation {
    operation(Kind::Read { bytes: 2 }, block, tag)
}
fn program(block: u32, tag: u32) -> Operation {
    operation(Kind::Program { bytes: 4 }, block, tag)
}
fn erase(block: u32, tag: u32) -> Operation {
    operation(Kind::Erase, block, tag)
}
/// Completes all operations. Returns their tags and end times in nanoseconds.
fn ends(channels: &mut Channels) -> Vec<(u32, u64)> {
    let ends = std::iter::from_fn(|| channels.complete(Instant::MAX));
    ends.map(|f| (f.operation.tag, f.at.as_ns())).collect()
}

#[test]
fn one_read_takes_the_array_and_then_the_channel() {
    let mut channels = Channels::new(&small(1, 1), &BRIEF, &Scheduling::FIRST_COME, 0);
    channels.submit(at(10), &read(0, 7));
    assert_eq!(channels.next_due(), Some(at(17)));
    assert_eq!(channels.complete(at(16)), None);
    let finished = channels.complete(Instant::MAX).unwrap();
    let expected = Finished {
        operation: read(0, 7),
        submitted: at(10),
        at: at(17),
        array: Duration::from_ns(5),
        transfer: Duration::from_ns(2),
    };
    assert_eq!(finished, expected);
    assert_eq!(finished.waited(), Duration::ZERO);
    assert!(channels.idle(Die(0)) && channels.outstanding() == 0 && channels.next_due().is_none());
}

#[test]
fn the_read_that_is_ready_first_is_transferred_first_even_if_submitted_last() {
    let mut channels = Channels::new(&small(1, 2), &BRIEF, &Scheduling::FIRST_COME, 0);
    channels.submit_lasting(at(0), &read(0, 1), Duration::from_ns(9));
    channels.submit_lasting(at(1), &read(1, 2), Duration::from_ns(5));
    assert_eq!(ends(&mut channels), [(2, 8), (1, 11)]);
}

#[test]
fn of_reads_that_are_ready_at_one_instant_the_first_submitted_goes_first() {
    let mut channels = Channels::new(&small(1, 2), &BRIEF, &Scheduling::FIRST_COME, 0);
    channels.submit_lasting(at(0), &read(1, 1), Duration::from_ns(6));
    channels.submit_lasting(at(1), &read(0, 2), Duration::from_ns(5));
    assert_eq!(ends(&mut channels), [(1, 8), (2, 10)]);
}

#[test]
fn a_die_keeps_its_register_until_its_own_transfer_ends() {
    // The second read of die 0 starts at 11, when the register is free, not at 5, when the array is free.
    let mut channels = Channels::new(&small(1, 2), &BRIEF, &Scheduling::FIRST_COME, 0);
    channels.submit_lasting(at(0), &operation(Kind::Read { bytes: 6 }, 1, 1), Duration::from_ns(3));
    channels.submit(at(0), &read(0, 2));
    channels.submit(at(0), &read(0, 3));
    assert_eq!(ends(&mut channels), [(1, 9), (2, 11), (3, 18)]);
}

#[test]
fn a_program_is_transferred_before_the_array_works_for_the_time_of_its_page_type() {
    let mut channels = Channels::new(&small(1, 3), &BRIEF, &Scheduling::FIRST_COME, 0);
    for page in 0..3 {
        channels.submit(at(0), &Operation { page, ..program(page, page) });
    }
    channels.submit(at(0), &Operation { slc: true, page: 2, ..program(3, 3) });
    // The transfers end at 4, 8 and 12. For the fourth program, die 0 is free at 10 and the channel at 12.
    assert_eq!(ends(&mut channels), [(0, 10), (1, 17), (3, 20), (2, 26)]);
}

#[test]
fn an_erase_needs_no_channel() {
    let mut channels = Channels::new(&small(1, 2), &BRIEF, &Scheduling::FIRST_COME, 0);
    channels.submit(at(0), &operation(Kind::Program { bytes: 100 }, 0, 1));
    channels.submit(at(0), &erase(1, 2));
    assert_eq!(ends(&mut channels), [(2, 30), (1, 106)]);
}

#[test]
fn a_program_submitted_before_a_transfer_starts_takes_part_in_the_choice() {
    // At 4, when a program requests the channel, the read does not hold the channel yet: the read is ready at 5.
    let mut channels = Channels::new(&small(1, 2), &BRIEF, &Scheduling::FIRST_COME, 0);
    channels.submit(at(0), &read(0, 1));
    assert_eq!(channels.complete(at(4)), None);
    channels.submit(at(4), &program(1, 2));
    assert_eq!(ends(&mut channels), [(1, 10), (2, 14)]);
}

#[test]
fn of_programs_that_request_the_channel_at_one_instant_the_first_submitted_goes_first() {
    // At one instant, die 0 ends its erase and requests the channel for its program before die 1 does.
    let mut channels = Channels::new(&small(1, 2), &BRIEF, &Scheduling::FIRST_COME, 0);
    for operation in [erase(0, 1), erase(1, 2), program(1, 3), program(0, 4)] {
        channels.submit(at(0), &operation);
    }
    assert_eq!(ends(&mut channels), [(1, 30), (2, 30), (3, 40), (4, 44)]);
}

#[test]
fn urgent_reads_go_before_programs_erases_and_background_reads_of_their_die() {
    let mut channels = Channels::new(&small(1, 1), &BRIEF, &READS_FIRST, 0);
    channels.submit(at(0), &erase(0, 1));
    channels.submit(at(1), &program(0, 2));
    channels.submit(at(2), &Operation { cause: Cause::GarbageCollection, ..read(0, 3) });
    channels.submit(at(3), &Operation { cause: Cause::Map, ..read(0, 4) });
    channels.submit(at(4), &read(0, 5));
    assert_eq!(ends(&mut channels), [(1, 30), (4, 37), (5, 44), (2, 54), (3, 61)]);
}

#[test]
fn an_operation_runs_to_its_end_once_it_was_overtaken_the_maximum_number_of_times() {
    let mut channels = Channels::new(&small(1, 1), &BRIEF, &SUSPENDING, 0);
    channels.submit(at(0), &erase(0, 100));
    for tag in 0..8 {
        channels.submit(at(1), &read(0, tag));
    }
    // The erase is suspended at 1 with 29 ns left. Three reads run from 3 on. The erase ends at 24 + 1 + 29.
    let ends = ends(&mut channels);
    assert_eq!(ends[..4], [(0, 10), (1, 17), (2, 24), (100, 54)]);
    assert_eq!(ends[4..], [(3, 61), (4, 68), (5, 75), (6, 82), (7, 89)]);
}

#[test]
fn a_suspended_program_keeps_its_progress_and_pays_for_both_commands() {
    let mut channels = Channels::new(&small(1, 1), &BRIEF, &SUSPENDING, 0);
    channels.submit(at(0), &Operation { page: 2, ..program(0, 1) });
    assert_eq!(channels.complete(at(8)), None);
    // 4 of 14 ns are done. The suspend takes until 10, the read until 17 and the resume until 18; 10 ns are left.
    channels.submit(at(8), &read(0, 2));
    assert_eq!(ends(&mut channels), [(2, 17), (1, 28)]);
}

#[test]
fn an_operation_with_less_time_left_than_a_suspend_takes_is_not_suspended() {
    let mut channels = Channels::new(&small(1, 1), &BRIEF, &SUSPENDING, 0);
    channels.submit(at(0), &program(0, 1));
    assert_eq!(channels.complete(at(8)), None);
    channels.submit(at(8), &read(0, 2));
    assert_eq!(ends(&mut channels), [(1, 10), (2, 17)]);
}

#[test]
fn a_read_that_waits_while_a_program_is_transferred_suspends_the_program_at_its_beginning() {
    let mut channels = Channels::new(&small(1, 1), &BRIEF, &SUSPENDING, 0);
    channels.submit(at(0), &program(0, 1));
    assert_eq!(channels.complete(at(3)), None);
    channels.submit(at(3), &read(0, 2));
    assert_eq!(ends(&mut channels), [(2, 13), (1, 20)]);
}

#[test]
fn a_kind_of_operation_that_may_not_be_suspended_is_not_suspended() {
    let suspend = Some(Suspend { programs: false, ..SUSPEND });
    let mut channels = Channels::new(&small(1, 1), &BRIEF, &Scheduling { suspend, ..SUSPENDING }, 0);
    channels.submit(at(0), &Operation { page: 2, ..program(0, 1) });
    assert_eq!(channels.complete(at(8)), None);
    channels.submit(at(8), &read(0, 2));
    assert_eq!(ends(&mut channels), [(1, 18), (2, 25)]);
}

#[test]
fn a_cut_voids_operations_that_the_array_has_not_begun() {
    let mut channels = Channels::new(&small(1, 3), &BRIEF, &SUSPENDING, 0);
    channels.submit(at(0), &program(0, 1));
    channels.submit(at(0), &program(1, 2));
    channels.submit(at(0), &erase(2, 3));
    channels.submit(at(0), &program(2, 4));
    assert_eq!(channels.complete(at(6)), None);
    channels.submit(at(6), &read(2, 5));
    // At 7, the first program is in the array, the second is on the channel, and the erase is being suspended for a
    // read. The suspend takes until 8.
    let cut = channels.power_cut(at(7));
    let cut: Vec<_> = cut.into_iter().map(|(operation, cut)| (operation.tag, cut)).collect();
    assert_eq!(cut, [(1, Cut::Torn), (2, Cut::Void), (3, Cut::Torn), (4, Cut::Void), (5, Cut::Void)]);
    assert!(channels.outstanding() == 0 && channels.next_due().is_none());
    assert!((0..3).all(|die| channels.idle(Die(die))));
    channels.submit(at(7), &read(0, 6));
    assert_eq!(ends(&mut channels), [(6, 14)]);
}

#[test]
fn a_cut_voids_a_program_that_is_to_be_suspended_when_the_array_begins_it() {
    // The transfer of the program ends at 4; the read arrives at 3.
    for (cut, expected) in [(3, Cut::Void), (4, Cut::Torn)] {
        let mut channels = Channels::new(&small(1, 1), &BRIEF, &SUSPENDING, 0);
        channels.submit(at(0), &program(0, 1));
        channels.submit(at(3), &read(0, 2));
        let cut = channels.power_cut(at(cut));
        assert_eq!(cut, [(program(0, 1), expected), (read(0, 2), Cut::Void)]);
    }
}

#[test]
#[should_panic(expected = "ask `complete` first")]
fn a_submission_after_an_uncollected_end_panics() {
    let mut channels = Channels::new(&small(1, 1), &BRIEF, &Scheduling::FIRST_COME, 0);
    channels.submit(at(0), &read(0, 1));
    channels.submit(at(100), &read(0, 2));
}

#[test]
fn reads_vary_uniformly_about_their_mean_and_by_the_seed() {
    let timing = Timing { t_read: Duration::from_us(50), t_read_spread_ppm: 250_000, ..BRIEF };
    let times = |seed: u64| -> Vec<u64> {
        let mut channels = Channels::new(&small(1, 1), &timing, &Scheduling::FIRST_COME, seed);
        (0..20_000).for_each(|tag| channels.submit(at(0), &read(0, tag)));
        std::iter::from_fn(|| channels.complete(Instant::MAX)).map(|f| f.array.as_ns()).collect()
    };
    let drawn = times(1);
    assert_eq!(drawn, times(1));
    assert_ne!(drawn, times(2));
    assert!(drawn.iter().all(|t| (37_500..=62_500).contains(t)));
    // The standard deviation is 7,217 ns for a uniform range of 25,000 ns, and 51 ns for the mean of 20,000 reads.
    let mean = drawn.iter().sum::<u64>() as f64 / 20_000.0;
    assert!((mean - 50_000.0).abs() < 4.0 * 51.0, "{mean}");
    let lowest_tenth = drawn.iter().filter(|&&t| t < 40_000).count() as f64;
    assert!((lowest_tenth - 2_000.0).abs() < 4.0 * 42.4, "{lowest_tenth}");
}

/// Action of a random run.
#[derive(Clone, Copy, Debug)]
enum Action {
    Submit {
        kind: u8,
        block: u32,
        page: u32,
        slc: bool,
        cause: u8,
        array: u64,
        bytes: u32,
    },
    /// Completes at most one operation, within this many nanoseconds.
    Take(u64),
    /// Clones the scheduler, and continues with the clone and with a serialized and deserialized copy.
    Clone,
    /// Cuts the power after this many nanoseconds.
    Cut(u64),
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        10 => (0u8..8, 0u32..24, 0u32..6, any::<bool>(), 0u8..5, 1u64..9, 0u32..6).prop_map(
            |(kind, block, page, slc, cause, array, bytes)| Action::Submit { kind, block, page, slc, cause, array, bytes }
        ),
        6 => (0u64..12).prop_map(Action::Take),
        2 => (0u64..60).prop_map(Action::Take),
        1 => Just(Action::Clone),
        1 => (0u64..20).prop_map(Action::Cut),
    ]
}

fn scheduling() -> impl Strategy<Value = Scheduling> {
    let suspend = (0u64..4, 0u64..3, any::<bool>(), any::<bool>()).prop_map(
        |(t_suspend, t_resume, programs, erases)| Suspend {
            t_suspend: Duration::from_ns(t_suspend),
            t_resume: Duration::from_ns(t_resume),
            programs,
            erases,
        },
    );
    prop_oneof![
        1 => Just(Scheduling::FIRST_COME),
        1 => (1u32..5).prop_map(|overtaken_max| Scheduling { overtaken_max, ..READS_FIRST }),
        3 => (1u32..5, suspend).prop_map(|(overtaken_max, suspend)| Scheduling {
            reads_first: true,
            overtaken_max,
            suspend: Some(suspend)
        }),
    ]
}

/// A run of the scheduler, beside a clone and the reference.
struct Run {
    timing: Timing,
    now: Instant,
    channels: Channels,
    clone: Option<Channels>,
    reference: Reference,
    submitted: u32,
}

impl Run {
    fn step(&mut self, action: Action) {
        match action {
            Action::Submit { kind, block, page, slc, cause, array, bytes } => {
                let kind = match kind {
                    0..=3 => Kind::Read { bytes },
                    4..=6 => Kind::Program { bytes: bytes + 1 },
                    _ => Kind::Erase,
                };
                let cause =
                    [Cause::Host, Cause::Host, Cause::Map, Cause::GarbageCollection, Cause::WearLeveling]
                        [cause as usize];
                let tag = self.submitted;
                self.submitted += 1;
                let operation = Operation { kind, block: EraseBlock::new(block), page, slc, cause, tag };
                let array = match kind {
                    Kind::Read { .. } => Duration::from_ns(array),
                    Kind::Program { .. } => self.timing.program(page, slc),
                    Kind::Erase => self.timing.t_bers,
                };
                let now = self.now;
                self.all(|channels| match kind {
                    Kind::Read { .. } => channels.submit_lasting(now, &operation, array),
                    _ => channels.submit(now, &operation),
                });
                self.reference.submit(now, operation, array);
            }
            Action::Take(within) => {
                let limit = self.now.saturating_add(Duration::from_ns(within));
                self.now = self.take(limit).unwrap_or(limit);
            }
            Action::Clone => {
                self.clone = Some(self.channels.clone());
                let state = postcard::to_allocvec(&self.channels).expect("a state can be written");
                self.channels = postcard::from_bytes(&state).expect("the state can be read");
            }
            Action::Cut(after) => {
                let when = self.now.saturating_add(Duration::from_ns(after));
                while self.take(when).is_some() {}
                self.now = when;
                let expected = self.reference.power_cut(when);
                self.all(|channels| assert_eq!(channels.power_cut(when), expected));
            }
        }
    }

    fn all(&mut self, mut each: impl FnMut(&mut Channels)) {
        each(&mut self.channels);
        self.clone.iter_mut().for_each(each);
    }

    /// Completes the next operation on the scheduler, the clone and the reference, and asserts that all agree. Returns
    /// the time of its end.
    fn take(&mut self, limit: Instant) -> Option<Instant> {
        let (due, now) = (self.channels.next_due(), self.now);
        let expected = self.reference.complete(limit);
        self.all(|channels| {
            let finished = channels.complete(limit);
            let ended = finished.map(|f| crate::reference::Ended {
                operation: f.operation,
                submitted: f.submitted,
                at: f.at,
            });
            assert_eq!(ended, expected);
            if let Some(finished) = finished {
                assert!(
                    finished.at >= now && finished.at <= limit && due.is_some_and(|due| due <= finished.at)
                );
                finished.waited();
            } else {
                assert!(channels.next_due().is_none_or(|due| due > limit));
            }
        });
        expected.map(|ended| ended.at)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, ..ProptestConfig::default() })]

    #[test]
    fn the_scheduler_agrees_with_the_slow_reference(
        channels in 1u32..4,
        dies in 1u32..4,
        scheduling in scheduling(),
        actions in proptest::collection::vec(action(), 1..150),
    ) {
        let geometry = small(channels, dies);
        let mut run = Run {
            timing: BRIEF,
            now: Instant::ZERO,
            channels: Channels::new(&geometry, &BRIEF, &scheduling, 1),
            clone: None,
            reference: Reference::new(&geometry, &BRIEF, &scheduling),
            submitted: 0,
        };
        actions.into_iter().for_each(|action| run.step(action));
        while let Some(at) = run.take(Instant::MAX) {
            run.now = at;
        }
        prop_assert_eq!(run.channels.outstanding(), 0);
    }
}

#[test]
fn the_limits_of_calls_do_not_change_the_results() {
    for seed in 0..200 {
        let timing = Timing { t_read_spread_ppm: 400_000, t_read: Duration::from_ns(9), ..BRIEF };
        let run = |limits: bool| -> Vec<Finished> {
            let mut rng = Rng::new(seed);
            let mut limit = Rng::for_purpose(seed, 1);
            let mut channels = Channels::new(&small(2, 3), &timing, &SUSPENDING, seed);
            let (mut now, mut ends) = (0, Vec::new());
            for tag in 0..300 {
                let next = now + rng.below(15);
                while limits && now < next {
                    now += limit.below(next - now) + 1;
                    ends.extend(std::iter::from_fn(|| channels.complete(at(now))));
                }
                now = next;
                ends.extend(std::iter::from_fn(|| channels.complete(at(now))));
                let block = rng.below(12) as u32;
                let kinds = [read(block, tag), read(block, tag), program(block, tag), erase(block, tag)];
                channels.submit(at(now), &kinds[rng.below(4) as usize]);
            }
            ends.extend(std::iter::from_fn(|| channels.complete(Instant::MAX)));
            ends
        };
        assert_eq!(run(false), run(true), "seed {seed}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn reads_submitted_ahead_end_like_reads_submitted_at_their_arrival(
        (channels, dies) in (1u32..4, 1u32..4),
        scheduling in scheduling(),
        lead in 1u64..30,
        reads in proptest::collection::vec((0u64..8, 0u32..24), 1..80),
        cut in 0u64..400,
    ) {
        let timing = Timing { t_read_spread_ppm: 400_000, t_read: Duration::from_ns(9), ..BRIEF };
        let (geometry, cut) = (small(channels, dies), at(cut));
        // Returns the operations that end before the cut, and the effect of the cut on the others that have arrived.
        let run = |lead: u64| {
            let mut channels = Channels::new(&geometry, &timing, &scheduling, 1);
            let (mut comes, mut ends) = (0, Vec::new());
            for (tag, (gap, block)) in (0..).zip(&reads) {
                comes += gap;
                let told = at(comes.saturating_sub(lead)).min(cut);
                ends.extend(std::iter::from_fn(|| channels.complete(told)));
                match lead {
                    0 if at(comes) > cut => break,
                    0 => channels.submit(at(comes), &read(*block, tag)),
                    _ => channels.submit_ahead(at(comes), &read(*block, tag)),
                }
            }
            ends.extend(std::iter::from_fn(|| channels.complete(cut)));
            (ends, channels.power_cut(cut))
        };
        let (ends, cut_off) = run(0);
        let (ends_ahead, cut_off_ahead) = run(lead);
        prop_assert_eq!(ends_ahead, ends);
        let (come, to_come) = cut_off_ahead.split_at(cut_off.len());
        prop_assert_eq!(come, cut_off);
        prop_assert!(to_come.iter().all(|(_, cut)| *cut == Cut::Void), "{:?}", to_come);
    }
}
