//! Tests that any bytes give jobs or an error, without a panic. No test asserts a time, but a parser of
//! quadratic time would make the last test hang.

use flashlab_fio::cmdline::Invocation;
use flashlab_fio::error::Error;
use flashlab_fio::explain;
use flashlab_fio::job::{BlockSize, Job};
use flashlab_fio::jobfile::JobFile;
use flashlab_fio::number::{self, KbBase, TimeUnit};
use flashlab_fio::option;
use proptest::prelude::*;

/// Asserts the guarantees for every parsed job.
fn assert_sound(job: &Job) {
    assert!(job.depth >= 1 && job.loops >= 1 && job.nr_files >= 1 && !job.files.is_empty());
    assert!(
        job.batch_submit >= 1 && job.batch_submit <= job.depth && (1..=job.depth).contains(&job.depth_low)
    );
    assert!(job.batch_complete_min <= job.depth && job.batch_complete_max >= job.batch_complete_min);
    assert!(job.rw_mix_read <= 100 && job.percentage_random.iter().all(|share| *share <= 100));
    for (size, align) in job.block_size.iter().zip(job.block_align) {
        assert!(align >= 1);
        match size {
            BlockSize::Fixed(bytes) => assert!(*bytes >= 1),
            BlockSize::Range { min, max } => assert!(1 <= *min && min < max),
            BlockSize::Split(shares) => {
                assert_eq!(shares.iter().map(|share| share.percent).sum::<u32>(), 100);
                assert!(shares.iter().all(|share| share.bytes >= 1));
            }
        }
    }
}

fn check(result: Result<Vec<Job>, Error>) {
    match result {
        Ok(jobs) => jobs.iter().for_each(assert_sound),
        Err(error) => assert!(error.to_string().len() < 8192, "{error}"),
    }
}

fn parse(bytes: &[u8]) {
    let loader =
        |path: &str| if path.len() < 3 { Ok(bytes.to_vec()) } else { Err("no such file".to_string()) };
    check(JobFile::parse("job.fio", bytes, &loader).map(|file| file.jobs));
}

/// Generates lines that resemble those of a job file, both valid and invalid.
fn line() -> impl Strategy<Value = String> {
    let names: Vec<&'static str> = option::entries().flat_map(|entry| entry.names()).collect();
    let value = prop_oneof![
        Just("1".to_string()),
        Just("0".to_string()),
        "[0-9]{1,4}[kmgtp%sdh]?",
        "[0-9a-z]{1,5}([:,/-][0-9a-z]{0,5}){0,4}",
        "\\PC{0,12}",
        Just("randwrite".to_string()),
        Just("(4k*2)".to_string()),
    ];
    prop_oneof![
        8 => (prop::sample::select(names), value).prop_map(|(name, value)| format!("{name}={value}")),
        1 => Just("[job]".to_string()),
        1 => Just("direct=1".to_string()),
        1 => Just("include x".to_string()),
        1 => "\\PC{0,20}",
    ]
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        parse(&bytes);
        parse(&[b"[a]\n".as_slice(), &bytes].concat());
    }

    #[test]
    fn arbitrary_lines_never_panic(lines in prop::collection::vec(line(), 0..12)) {
        parse(lines.join("\n").as_bytes());
        parse(format!("[global]\ndirect=1\n[a]\n{}", lines.join("\n")).as_bytes());
    }

    #[test]
    fn each_arbitrary_option_is_sound_or_rejected(line in line()) {
        parse(format!("[a]\ndirect=1\nruntime=1\n{line}").as_bytes());
    }

    #[test]
    fn arbitrary_arguments_never_panic(args in prop::collection::vec(prop_oneof![
        line().prop_map(|line| format!("--{line}")),
        line(),
        "-{0,3}\\PC{0,10}",
        Just("--name=a".to_string()),
    ], 0..8)) {
        let loader = |_: &str| Ok(b"[a]\ndirect=1\n".to_vec());
        check(Invocation::parse(&args, &loader).map(|invocation| invocation.jobs));
    }

    #[test]
    fn arbitrary_values_never_panic(text in "\\PC{0,24}") {
        let _ = number::bytes(&text, KbBase::Binary);
        let _ = number::bytes(&format!("({text})"), KbBase::Decimal);
        let _ = number::extent(&text, KbBase::Binary);
        let _ = number::range(&text, KbBase::Binary);
        let _ = number::time(&text, TimeUnit::Seconds);
        let _ = number::fractions(&text, 20, 0.0, 100.0);
        let _ = explain::explain(&text);
    }

    #[test]
    fn a_truncated_job_file_never_panics(cut in 0_usize..160) {
        let whole = "[global]\ndirect=1\nbssplit=4k/60:64k/40\n[a]\nrw=randrw:8\nrandom_distribution=zoned:60/10:40/90\n\
                     size=${X}\ninclude x\nfilename=a\\:b:c\nruntime=(1m+30s)\n";
        parse(&whole.as_bytes()[..cut.min(whole.len())]);
    }

    #[test]
    fn a_size_is_read_as_it_is_printed(n in 0_u64..=number::LARGEST, suffix in prop::sample::select(vec!["", "b", "B"])) {
        prop_assert_eq!(number::bytes(&format!("{n}{suffix}"), KbBase::Binary), Ok(n));
        prop_assert_eq!(number::bytes(&format!("{n:#x}"), KbBase::Binary), Ok(n));
        prop_assert_eq!(number::bytes(&format!("({n})"), KbBase::Binary), Ok(n));
    }
}

/// Tests texts of ten megabytes that a careless parser would read in quadratic time or memory.
#[test]
fn large_files_of_every_shape_are_parsed_quickly() {
    const BYTES: usize = 10 << 20;
    let fill = |piece: &str| piece.repeat(BYTES / piece.len());
    for text in [
        fill("x"),
        fill("[a]\n"),
        fill(";\n"),
        format!("[a]\n{}", fill("bs=4k\n")),
        format!("[a]\n{}", fill("nice=1\n")),
        format!("[a]\ndirect=1\nnumjobs=4096\n{}", fill("description=x\n")),
        format!(
            "[a]\ndirect=1\nnumjobs=4096\n{}",
            format!("description={}\n", "x".repeat(4000)).repeat(2000)
        ),
        format!("[global]\ndirect=1\n{}", fill("[a]\n")),
        format!("[global]\ndirect=1\n{}[a]\n", fill("cpus_allowed=0\n")),
        format!("[a]\nfilename={}", fill(":a")),
        format!("[a]\n{}", fill("=")),
        format!("[a]\nbs={}", fill("(")),
        format!("[a]\nsize={}", fill("${X}")),
        format!("[a]\ndirect=1\nnrfiles=65536\nfilename_format={}", "$jobname".repeat(500)),
    ] {
        parse(text.as_bytes());
    }
}
