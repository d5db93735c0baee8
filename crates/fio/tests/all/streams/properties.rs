//! Properties of the requests of jobs: of single patterns, and of any job.

use super::fake::{FixedLatency, is_read, jobs, offsets, run_jobs, run_options};
use flashlab_fio::job::{
    BlockSize, Direction, Distribution, Engine, Extent, Job, Mix, Pattern, SizeShare, SyncWrites,
};
use flashlab_fio::stats::{Settings, Statistics};
use flashlab_fio::workload::{File, Jobs, Task};
use flashlab_sim::{Duration, FileId, Instant, run};
use proptest::prelude::*;

#[test]
fn each_block_comes_once_a_pass_and_time_based_passes_differ() {
    let job = jobs("--rw=randread --bs=4k --size=4000k --time_based --runtime=1").remove(0);
    let offsets = run_jobs(&[job], None, &mut FixedLatency::new(Duration::from_us(250))).offsets(0);
    let passes: Vec<&[u64]> = offsets.chunks(1_000).collect();
    assert_eq!(passes.len(), 4);
    for pass in &passes {
        let mut sorted = pass.to_vec();
        sorted.sort_unstable();
        assert!(sorted.iter().zip(0..).all(|(&offset, block)| offset == block * 4096));
    }
    assert_ne!(passes[0], passes[1]);
}

#[test]
fn loops_repeat_their_offsets_under_randrepeat_only() {
    let repeated = offsets("--rw=randread --bs=4k --size=400k --loops=2");
    assert_eq!(repeated[..100], repeated[100..]);
    let other = offsets("--rw=randread --bs=4k --size=400k --loops=2 --randrepeat=0");
    assert_ne!(other[..100], other[100..]);
}

#[test]
fn reads_and_writes_of_a_seed_go_to_the_same_offsets() {
    for more in ["", "--norandommap", "--random_distribution=zipf:1.2", "--bsrange=4k-16k", "--bs=16k"] {
        let reads = offsets(&format!("--rw=randread --size=4m {more}"));
        assert_eq!(reads, offsets(&format!("--rw=randwrite --size=4m {more}")), "{more}");
        assert_eq!(reads, offsets(&format!("--rw=randread --size=4m {more}")), "{more}");
        assert_ne!(reads, offsets(&format!("--rw=randread --size=4m --randseed=7 {more}")), "{more}");
    }
}

#[test]
fn clones_have_different_offsets() {
    for more in ["", "--norandommap", "--random_distribution=pareto:0.2"] {
        let events = run_options(&format!("--rw=randread --bs=4k --size=4m --numjobs=2 {more}"), 10);
        assert_ne!(events.offsets(0), events.offsets(1), "{more}");
    }
}

#[test]
fn without_randrepeat_the_entropy_selects_the_offsets() {
    let job = jobs("--rw=randread --bs=4k --size=400k --randrepeat=0").remove(0);
    let of = |entropy| {
        let task = Task { entropy, ..Task::on_device(&job, 0, 1 << 20) };
        let mut wave =
            Jobs::new(Instant::ZERO, vec![task], super::fake::EventLog::default()).expect("it runs");
        run(&mut FixedLatency::new(Duration::from_us(10)), &mut wave, Instant::ZERO);
        wave.into_record().offsets(0)
    };
    assert_eq!(of(1), of(1));
    assert_ne!(of(1), of(2));
}

#[test]
fn a_mix_converges_to_its_share() {
    for (percent, more) in [(0, ""), (30, ""), (70, "--norandommap"), (100, "")] {
        let options = format!("--rw=randrw --rwmixread={percent} --bs=4k --size=160m {more}");
        let requests = run_options(&options, 1).requests(0);
        assert_eq!(requests.len(), 40_960);
        let reads = requests.iter().filter(|io| is_read(io)).count() as f64;
        // The limit is five binomial deviations, which are zero at 0 and 100 %.
        let (n, p) = (requests.len() as f64, f64::from(percent) / 100.0);
        assert!((reads - n * p).abs() <= 5.0 * (n * p * (1.0 - p)).sqrt(), "{options}: {reads}");
    }
}

#[test]
fn a_sequence_draws_an_offset_every_so_many_requests() {
    let offsets = offsets("--rw=randread:8 --bs=4k --size=16m");
    let jumps = offsets.windows(2).filter(|pair| pair[1] != pair[0] + 4096).count();
    assert_eq!(offsets.len(), 4_096);
    // There are 512 groups. A few begin where the previous group ended, or reach the end of the file.
    assert!((500..=530).contains(&jumps), "{jumps}");
}

#[test]
fn percentage_random_mixes_jumps_into_a_sequence() {
    let offsets = offsets("--rw=randread --percentage_random=25 --bs=4k --size=160m");
    let jumps = offsets.windows(2).filter(|pair| pair[1] != pair[0] + 4096).count() as f64;
    let (n, p) = (offsets.len() as f64, 0.25);
    assert!((jumps - n * p).abs() < 6.0 * (n * p * (1.0 - p)).sqrt(), "{jumps} of {n}");
}

#[test]
fn trimmed_ranges_are_written_next() {
    let requests = run_options("--rw=randtrimwrite --bsrange=4k-16k --size=4m", 10).requests(0);
    for pair in requests.chunks(2) {
        assert_eq!((pair[0].direction, pair[1].direction), (Direction::Trim, Direction::Write));
        assert_eq!((pair[0].offset, pair[0].length), (pair[1].offset, pair[1].length));
    }
}

fn sizes() -> impl Strategy<Value = BlockSize> {
    let size = prop::sample::select(vec![512u64, 4096, 8192, 12_288, 65_536]);
    prop_oneof![
        size.clone().prop_map(BlockSize::Fixed),
        (1u64..5, 1u64..9)
            .prop_map(|(min, steps)| BlockSize::Range { min: min * 512, max: min * 512 * steps }),
        prop::collection::vec((size, 0u32..100), 1..4).prop_map(|shares| {
            BlockSize::Split(
                shares.into_iter().map(|(bytes, percent)| SizeShare { bytes, percent }).collect(),
            )
        }),
    ]
}

fn extents() -> impl Strategy<Value = Extent> {
    prop_oneof![
        (0u64..3_000_000).prop_map(Extent::Bytes),
        (0u64..500).prop_map(|blocks| Extent::Bytes(blocks * 4096)),
        (0u32..=100).prop_map(Extent::Percent),
    ]
}

fn distributions() -> impl Strategy<Value = Distribution> {
    prop_oneof![
        4 => Just(Distribution::Uniform),
        1 => Just(Distribution::Zipf(1.2)),
        1 => Just(Distribution::Pareto(0.3)),
        1 => Just(Distribution::Normal(20.0)),
        1 => Just(Distribution::Zoned(vec![(60, 10), (40, 90)])),
        1 => Just(Distribution::ZonedAbsolute(vec![(60, 100_000), (40, 10_000_000)])),
    ]
}

fn patterns() -> impl Strategy<Value = Pattern> {
    let mix = prop::sample::select(vec![Mix::Read, Mix::Write, Mix::Trim, Mix::ReadWrite, Mix::TrimWrite]);
    (any::<bool>(), mix, 1u32..5, prop_oneof![Just(0i64), -100_000i64..100_000, any::<i64>()])
        .prop_map(|(random, mix, sequence, sequence_skip)| Pattern { random, mix, sequence, sequence_skip })
}

prop_compose! {
    fn any_job()(
        pattern in patterns(),
        block_size in [sizes(), sizes(), sizes()],
        align in prop::option::of(prop::sample::select(vec![512u64, 1024, 4096, 16_384, 1 << 20])),
        (size, io_size, offset, increment) in
            (prop::option::of(extents()), prop::option::of(extents()), extents(), extents()),
        (number_ios, loops, clone) in (prop::option::of(0u64..500), 0u64..4, 0u32..3),
        (time_based, ramp_ms, think_us, rate) in
            (any::<bool>(), 0u64..5, prop_oneof![Just(0u64), 0u64..500], prop::option::of(1u64..100_000_000)),
        (depth, submit, min, max, low, asynchronous) in
            (0u32..20, 0u32..20, 0u32..20, 0u32..20, 0u32..20, any::<bool>()),
        (fsync, fdatasync, at_end, sync) in (0u32..5, 0u32..5, any::<bool>(), any::<bool>()),
        (distribution, no_random_map, percent) in (distributions(), any::<bool>(), 0u32..=100),
        (rand_repeat, rw_mix_read) in (any::<bool>(), 0u32..=100),
    ) -> Job {
        let least = |size: &BlockSize| match size {
            BlockSize::Fixed(bytes) => *bytes,
            BlockSize::Range { min, .. } => *min,
            BlockSize::Split(shares) => shares.iter().map(|share| share.bytes).min().unwrap_or(512),
        };
        Job {
            pattern,
            block_align: align.map_or([0, 1, 2].map(|d: usize| least(&block_size[d])), |align| [align; 3]),
            block_size,
            size,
            io_size,
            offset,
            offset_increment: increment,
            number_ios,
            loops,
            clone,
            runtime: Some(Duration::from_ms(20)),
            time_based,
            ramp_time: Duration::from_ms(ramp_ms),
            think_time: Duration::from_us(think_us),
            think_time_blocks: 3,
            rate: [rate; 3],
            engine: if asynchronous { Engine::Asynchronous } else { Engine::Synchronous },
            depth,
            batch_submit: submit,
            batch_complete_min: min,
            batch_complete_max: max,
            depth_low: low,
            fsync,
            fdatasync,
            fsync_on_close: at_end,
            sync: sync.then_some(SyncWrites::All),
            distribution,
            no_random_map,
            percentage_random: [percent; 3],
            rand_repeat,
            rw_mix_read,
            ..Job::default()
        }
    }
}

fn is_of_one_size(size: &BlockSize) -> bool {
    match size {
        BlockSize::Fixed(_) => true,
        BlockSize::Range { min, max } => min >= max,
        BlockSize::Split(shares) => shares.iter().filter(|share| share.percent > 0).count() <= 1,
    }
}

proptest! {
    /// A rate that never delays a job disables the fast paths of jobs without a rate. Nothing else may differ.
    #[test]
    fn a_rate_that_is_never_reached_changes_nothing(
        (depth, depth_low) in (1u32..12, 0u32..12),
        (batch_complete_min, batch_complete_max) in (0u32..4, 1u32..4),
        number_ios in prop::option::of(1u64..200),
        (runtime, ramp, think) in (1u64..2_000, prop::option::of(0u64..300), prop::option::of(0u64..40)),
        (is_synced, no_random_map, randrepeat) in any::<(bool, bool, bool)>(),
        (latency, reject_from) in (1u64..100, prop::option::of(0u64..200)),
    ) {
        let us = |us: Option<u64>| Duration::from_us(us.unwrap_or(0));
        let unlimited = Job {
            pattern: Pattern { random: true, mix: Mix::Write, sequence: 1, sequence_skip: 0 },
            engine: Engine::Asynchronous,
            depth,
            depth_low,
            batch_complete_min,
            batch_complete_max,
            number_ios,
            runtime: Some(Duration::from_us(runtime)),
            ramp_time: us(ramp),
            think_time: us(think),
            sync: is_synced.then_some(SyncWrites::All),
            no_random_map,
            rand_repeat: randrepeat,
            write_lat_log: Some("log".to_owned()),
            ..Job::default()
        };
        let limited = Job { rate: [Some(1 << 60); 3], ..unlimited.clone() };
        let go = |job: &Job| {
            let mut model = FixedLatency::new(Duration::from_us(latency));
            model.reject_from = reject_from.unwrap_or(u64::MAX);
            let jobs = [job.clone()];
            let events = run_jobs(&jobs, Some(100 * 4096), &mut model.clone());
            let mut statistics = Statistics::new(&jobs, &Settings::default());
            let file = File { id: FileId::DEVICE, size: 100 * 4096 };
            let task = Task { job, files: vec![file], number: 0, entropy: 0, iolog: None };
            let mut wave = Jobs::new(Instant::ZERO, vec![task], statistics.wave(0..1)).expect("it runs");
            run(&mut model, &mut wave, Instant::ZERO);
            (events.requests(0), events.completions(0), events.finished(0), format!("{:?}", statistics.job(0)))
        };
        prop_assert_eq!(go(&unlimited), go(&limited));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    /// Requests lie in their region and within the depth, no request waits forever, and a second run is identical.
    #[test]
    fn any_job_stays_in_its_region_and_its_depth(job in any_job(), capacity in 1u64..4_000_000, files in 1u32..4) {
        let files: Vec<File> = (0..files).map(|id| File { id: FileId(id), size: capacity + u64::from(id) }).collect();
        let go = || {
            let task = Task { job: &job, files: files.clone(), number: 0, entropy: 0, iolog: None };
            let mut wave = Jobs::new(Instant::ZERO, vec![task], super::fake::EventLog::default()).ok()?;
            let mut model = FixedLatency::new(Duration::from_us(50));
            run(&mut model, &mut wave, Instant::ZERO);
            Some((wave.into_record(), model.depth_max))
        };
        let Some((events, _)) = go() else {
            return Ok(());
        };
        let regions = flashlab_fio::workload::Regions::new(&job, &files).expect("the job ran");
        let in_order =
            !job.pattern.random || job.pattern.sequence > 1 || job.percentage_random.iter().any(|&percent| percent < 100);
        for io in events.requests(0) {
            let region = regions.regions.iter().find(|region| region.file == io.file).expect("one of the files");
            prop_assert!(io.offset >= region.start, "{io:?} before {region:?}");
            prop_assert!(io.offset < region.start + region.length, "{io:?} after {region:?}");
            // The last block of a sequence of blocks of one size is sent whole.
            let trimmed = job.pattern.mix == Mix::TrimWrite;
            let drawn_as = if trimmed { Direction::Trim } else { io.direction };
            let is_fixed = is_of_one_size(&job.block_size[drawn_as as usize]);
            let ends = io.offset + io.length <= region.start + region.length;
            prop_assert!(ends || (in_order && is_fixed), "{io:?} beyond {region:?}");
            prop_assert!(io.offset + io.length <= region.file_size && io.length > 0);
        }
        if job.pattern.random && job.pattern.sequence == 1 && job.percentage_random[0] == 100 {
            let align = job.block_align[0];
            prop_assume!(job.block_align == [align; 3]);
            for io in events.requests(0) {
                let region = regions.regions.iter().find(|region| region.file == io.file).expect("one of the files");
                prop_assert!((io.offset - region.start).is_multiple_of(align), "{io:?} is not aligned");
            }
        }
        let depth = if job.engine == Engine::Synchronous { 1 } else { job.depth.max(1) as usize };
        let mut in_flight = 0usize;
        for event in events.of_job(0) {
            match event {
                super::fake::Event::Submitted(_) => in_flight += 1,
                super::fake::Event::Completed(..) => in_flight -= 1,
                _ => {}
            }
            prop_assert!(in_flight <= depth);
        }
        prop_assert_eq!(in_flight, 0);
        prop_assert_eq!(go().expect("it ran before").0.0, events.0);
    }

    /// With the random map, a pass requests every byte exactly once.
    #[test]
    fn a_pass_covers_each_byte_once(
        size in prop_oneof![
            (1u64..9).prop_map(|units| BlockSize::Fixed(units * 512)),
            (1u64..4, 2u64..9).prop_map(|(min, steps)| BlockSize::Range { min: min * 512, max: min * 512 * steps }),
        ],
        blocks in 1u64..600,
        start in 0u64..50,
        mixed: bool,
    ) {
        let least = match size { BlockSize::Fixed(bytes) => bytes, BlockSize::Range { min, .. } => min, _ => 0 };
        let mix = if mixed { Mix::ReadWrite } else { Mix::Write };
        let job = Job {
            pattern: Pattern { random: true, mix, sequence: 1, sequence_skip: 0 },
            block_size: [size.clone(), size.clone(), size],
            block_align: [least; 3],
            offset: Extent::Bytes(start * 512),
            ..Job::default()
        };
        let events = run_jobs(&[job], Some(start * 512 + blocks * least), &mut FixedLatency::new(Duration::from_us(1)));
        let mut ranges: Vec<(u64, u64)> = events.requests(0).iter().map(|io| (io.offset, io.length)).collect();
        ranges.sort_unstable();
        let mut at = start * 512;
        for (offset, length) in ranges {
            prop_assert_eq!(offset, at);
            at += length;
        }
        prop_assert_eq!(at, start * 512 + blocks * least);
    }
}
