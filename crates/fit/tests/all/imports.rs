//! Importers of the outputs of other programs.
//!
//! Sources of the texts in `tests/data`: iozone on the eMMC of an Orange Pi Zero Plus 2 (wiki of linux-sunxi.org) and
//! on a Raspberry Pi with an SSD (an issue on GitHub); flashbench's README; the documentation of NuttX's sdbench; the
//! README of sd-agnostics. fio-3.33.json is real output without its tables of depths and latencies. fio-2.16.json, the
//! log of a Raspberry Pi and the table have the format of the programs, with numbers of our own.

use flashlab_fit::import::parse;
use flashlab_fit::observation::{Mark, Measurements, Quantity, State};
use proptest::prelude::*;
use std::fmt::Write as _;

/// Returns a summary that a person can compare with the text.
fn summary(measurements: &Measurements) -> String {
    let mut text = format!("engine {}\n", measurements.engine);
    for step in &measurements.steps {
        let _ = writeln!(text, "\n{}: {}\n  before: {:?}", step.name, step.job.join(" "), step.before);
        for o in &step.observations {
            let job = o.job.as_ref().map(|job| format!("{job}: ")).unwrap_or_default();
            let sd = o.sd.map(|sd| format!(" ± {sd:.3}")).unwrap_or_default();
            let value = (o.value * 1e3).round() / 1e3;
            let _ =
                writeln!(text, "  {job}{} {} {value}{sd} ({} runs)", o.direction.name(), o.quantity, o.runs);
        }
        step.assumptions.iter().for_each(|a| text += &format!("  assumed: {a}\n"));
        step.marks.iter().for_each(|mark| text += &format!("  {mark:?}\n"));
        step.notes.iter().for_each(|note| text += &format!("  note: {note}\n"));
    }
    text
}

/// Returns the summary of a text, after a round trip through a measurement file.
fn imported(text: &str) -> String {
    let measurements = parse(text, "card").expect("a valid text");
    let again = Measurements::parse(&measurements.to_json()).expect("a valid file");
    assert_eq!(again, measurements);
    assert_eq!(parse(&measurements.to_json(), "other").expect("our own format"), measurements);
    summary(&measurements)
}

macro_rules! import_test {
    ($($name:ident: $file:literal;)*) => { $(
        #[test]
        fn $name() {
            insta::assert_snapshot!(imported(include_str!(concat!("../data/", $file))));
        }
    )* };
}

import_test! {
    iozone: "iozone-orange-pi-emmc.txt";
    iozone_with_blank_columns: "iozone-without-reads.txt";
    a_log_of_hdparm_and_dd: "pi-log.txt";
    flashbench: "flashbench-readme.txt";
    agnostics: "agnostics.txt";
    sdbench: "sdbench-nuttx.txt";
    fio_2_after_warnings: "fio-2.16.json";
    fio_3_with_groups_and_clones: "fio-3.33.json";
    a_table: "table.csv";
}

#[test]
fn several_documents_of_fio_follow_one_another() {
    let one = include_str!("../data/fio-3.33.json");
    let all = format!("fio: a warning\n{one}\nfio: pid=1, err=95\n{one}");
    let measurements = parse(&all, "card").expect("two documents");
    assert_eq!(measurements.steps.len(), 6);
    assert_eq!(measurements.steps[3].name, "a 2");
}

#[test]
fn faults_name_their_line() {
    let fio = include_str!("../data/fio-2.16.json");
    let iozone = include_str!("../data/iozone-orange-pi-emmc.txt");
    let terse = format!("\n3;fio-3.33;job;0;0;{}", "0;".repeat(60));
    let log = "/dev/sda:\n Timing buffered disk reads:";
    let dd = "dd if=/dev/zero of=x bs=1M\n";
    let texts = [
        " \n\n".to_owned(),
        "hello\nworld\n".to_owned(),
        "{\"cells\": []}".to_owned(),
        "[1]".to_owned(),
        terse,
        fio[..fio.len() / 2].to_owned(),
        fio.replace("\"iops\" : 1596.67", "\"iops\" : -1596.67"),
        fio.replace("\"job options\"", "\"other options\""),
        fio.replace("\"randread\"", "\"dance\""),
        fio.replace("\"clat\" : {\n          \"min\"", "\"clot\" : {\n          \"min\""),
        iozone.replace("12191", "-12191"),
        iozone.replace("12191", "nan"),
        iozone.replace("     5861", ""),
        iozone.replace(" 4     5350", " 0     5350"),
        format!("{log}  0 MB in  3.05 seconds =  21.66 MB/sec"),
        format!("{log}  66 MB in  3.05 seconds =  80.00 MB/sec"),
        format!("{log}  read() failed: Input/output error"),
        "1000 bytes (1.0 kB) copied, 1 s, 1.0 kB/s".to_owned(),
        format!("{dd}1048576 bytes (1.0 MB) copied, 0 s, 1.0 MB/s"),
        format!("{dd}-1048576 bytes (1.0 MB) copied, 1 s, 1.0 MB/s"),
        format!("{dd}1048576 bytes (1.0 MB) copied, 1 s, 7.0 MB/s"),
        "dd if=/dev/zero of=x bs=17\n".to_owned(),
        "4MiB    8.79M/s".to_owned(),
        "flashbench -a x -b 1024\nalign 2048 pre 787µs on fast post 789µs".to_owned(),
        "flashbench -a x -b 1024\nalign 512 pre 787µs on 788µs post 789µs".to_owned(),
        "prepare-file;0;0;27757;54\nrand-4k-write;0;0;0;0".to_owned(),
        "job,value,sd\nrw=read bs=1m,20".to_owned(),
        "job,value,sd\nrw=read bs=1m,twenty,1".to_owned(),
        "job,value,sd\nbs=1m,20,1".to_owned(),
        "job,value,sd\nrw=randrw bs=4k,20,1".to_owned(),
        "job,value,sd\nrw=read bs=1m,20,1\nrw=read bs=1m,30,1".to_owned(),
        "job,value\nrw=randread bs=4k,2200\nrw=randread bs=4k,8800".to_owned(),
        "job,value,unit\nrw=randread bs=4k,2200,IOPS\nrw=randread bs=4k,900,MiB/s".to_owned(),
        "job,value,sd,unit\nrw=read bs=1m,20,1,furlongs".to_owned(),
        "job,value,sd\nrw=read bs=1m colour=red,20,1".to_owned(),
        "job,value,sd\n".to_owned(),
        "job,value,sd,runs\nrw=read bs=1m,20,1,0.5".to_owned(),
        "job,value,sd,runs\nrw=read bs=1m,20,1,1e10".to_owned(),
        "job,value,sd\nrw=read bs=1m,20,-0.5".to_owned(),
        "flashbench -O -e 0 -b 0\n0B    8.79M/s".to_owned(),
        "flashbench -O -e 18446744073709551615\n4MiB    8.79M/s".to_owned(),
        format!("{dd}18446744073709551615 bytes (18 EB) copied, 1 s"),
    ];
    let errors: Vec<String> = texts
        .iter()
        .map(|text| parse(text, "card").map_or_else(|error| error.to_string(), |m| panic!("{}", summary(&m))))
        .collect();
    insta::assert_snapshot!(errors.join("\n"));
}

#[test]
fn a_log_may_begin_with_a_bracket() {
    let log = "[root@pi ~]# dd if=/dev/zero of=x bs=1M count=1 oflag=direct\n\
               1048576 bytes (1.0 MB, 1.0 MiB) copied, 0.1 s, 10.5 MB/s\n\
               [root@pi ~]# exit\n";
    let measurements = parse(log, "card").expect("a log of dd");
    assert_eq!((measurements.steps.len(), measurements.engine.as_str()), (1, "dd"));
}

#[test]
fn an_image_that_is_written_with_progress_is_a_write_of_its_last_line() {
    let text = "$ sudo dd if=raspios.img of=/dev/mmcblk0 bs=4M status=progress conv=fsync\n\
                3997171712 bytes (4.0 GB, 3.7 GiB) copied, 190 s, 21.0 MB/s\n\
                953+1 records in\n953+1 records out\n\
                3997171712 bytes (4.0 GB, 3.7 GiB) copied, 201.4 s, 19.8 MB/s\n";
    let measurements = parse(text, "card").expect("a copy");
    let [step] = &measurements.steps[..] else { panic!("one step") };
    let [observation] = &step.observations[..] else { panic!("one observation") };
    assert_eq!(observation.runs, 1);
    assert!((observation.value - 3997171712.0 / 201.4).abs() < 1.0, "{observation:?}");
    assert!(step.job.contains(&"--rw=write".to_owned()), "{step:?}");
    assert!(step.assumptions.iter().any(|text| text.contains("did not limit dd")), "{step:?}");
    // A copy between two files says nothing about a card.
    assert!(parse(&text.replace("/dev/mmcblk0", "copy.img"), "card").is_err());
}

#[test]
fn a_result_of_dd_belongs_to_its_own_command() {
    let result = "1048576 bytes (1.0 MB) copied, 1 s, 1.0 MB/s\n";
    let log = |command: &str| format!("$ dd if=/dev/sdb of=/dev/null bs=1M\n{result}$ {command}\n{result}");
    let name = |command: &str| match parse(&log(command), "card") {
        Ok(measurements) => measurements.steps.last().expect("a step").name.clone(),
        Err(error) => error.to_string(),
    };
    assert_eq!(name("xzcat card.img.xz | sudo dd of=/dev/sdb bs=4M conv=fsync"), "dd write");
    assert_eq!(name("sudo dd if=/dev/sdb bs=4M iflag=direct | gzip > card.img.gz"), "dd read 2");
    let unclear = [
        "dd if=a.img of=b.img bs=1M",
        "dd if=/dev/sdb of=/dev/sdc bs=1M",
        "dd if=a.img bs=1M > /dev/sdb",
        "dd if=/dev/sdb bs=1M |dd of=b.img",
        "cat a.img |dd bs=1M |cat > b.img",
    ];
    for command in unclear {
        assert!(name(command).starts_with("line 4: a result of the dd in line 3: remove it"), "{command}");
    }
}

#[test]
fn iozone_states_its_unit() {
    let table = "kB  reclen    write\n102400    16    810\n";
    let of = |options: &str| {
        let text = format!(
            "iozone -e -I {options} -s 100M -r 16k -i 0\n{}",
            table.replace("write", "write rewrite")
        );
        let text = text.replace("810", "810 900");
        let measurements = parse(&text, "card").expect("a table");
        assert_eq!(measurements.steps[0].name, "write 16K");
        let observation = &measurements.steps[0].observations[0];
        (observation.quantity, observation.value)
    };
    assert_eq!(of(""), (Quantity::BytesPerSecond, 810.0 * 1024.0));
    assert_eq!(of("-O"), (Quantity::Iops, 810.0));
    assert_eq!(of("-N"), (Quantity::LatencyMean, 810_000.0));
}

#[test]
fn words_around_a_table_of_iozone_are_no_options() {
    let table = "iozone -e -I -s 100M -r 16k -i 0\nrun -O and -N later\niozone test complete\n\n\
                 kB  reclen    write  rewrite\n102400    16    810   900\n";
    let measurements = parse(table, "card").expect("a table");
    assert_eq!(measurements.steps[0].observations[0].quantity, Quantity::BytesPerSecond);
    assert_eq!(measurements.steps[0].marks, [], "-I was given");
}

#[test]
fn conv_sync_of_dd_pads_blocks_and_oflag_sync_waits() {
    let job = |flags: &str| {
        let text = format!(
            "dd if=/dev/zero of=/dev/mmcblk0 bs=1M {flags}\n1048576 bytes (1.0 MB) copied, 1 s, 1.0 MB/s\n"
        );
        parse(&text, "card").expect("a write").steps[0].job.join(" ")
    };
    assert!(!job("oflag=direct conv=sync").contains("sync"), "{}", job("oflag=direct conv=sync"));
    assert!(job("oflag=direct,sync").contains("--sync=dsync"));
    assert!(!job("iflag=direct").contains("--bs=1048576"), "the source is not the card");
}

#[test]
fn rows_of_one_job_may_state_several_quantities() {
    let text = "job,value,sd,unit\nrw=read bs=1m,20,1,MiB/s\nrw=read bs=1m,50,2,ms\n";
    let measurements = parse(text, "card").expect("two quantities");
    let sds: Vec<Option<f64>> = measurements.steps[0].observations.iter().map(|o| o.sd).collect();
    assert_eq!(sds, [Some(1_048_576.0), Some(2e6)]);
}

#[test]
fn a_row_with_a_queue_depth_is_queued() {
    let of = |options: &str| {
        let text = format!("job,value,sd\nrw=randread bs=4k size=1g {options},900,1\n");
        let step = parse(&text, "card").expect("a row").steps.remove(0);
        (step.jobs().expect("a job")[0].effective_depth(), step.assumptions.len())
    };
    assert_eq!((of("iodepth=32"), of("iodepth=1")), ((32, 3), (1, 2)));
    assert_eq!(of("iodepth=8 ioengine=io_uring"), (8, 2));
    assert_eq!(of("iodepth=8 ioengine=psync"), (1, 2), "the row states a synchronous engine");
}

#[test]
fn the_engine_nbd_of_fio_queues_requests() {
    let text = include_str!("../data/fio-2.16.json");
    let nbd = r#""ioengine" : "nbd", "uri" : "nbd://board/card","#;
    let text = text.replacen("\"ioengine\" : \"libaio\",", nbd, 1);
    assert!(text.contains("nbd"));
    let jobs = parse(&text, "card").expect("a job of nbd").steps[0].jobs().expect("a job");
    assert_eq!(jobs[0].effective_depth(), 4);
}

#[test]
fn results_of_the_page_cache_are_left_out_of_fios_files() {
    let text = include_str!("../data/fio-2.16.json").replace("\"error\" : 28", "\"error\" : 0");
    let buffered = text.replacen("\"direct\" : \"1\"", "\"direct\" : \"0\"", 1);
    let [reads, writes] = &parse(&buffered, "card").expect("buffered jobs").steps[..] else {
        panic!("two steps")
    };
    assert!(reads.observations.is_empty() && writes.observations.is_empty(), "{reads:?}");
    let note = "its reads are left out, because they measured the host's memory: run the job with direct=1";
    assert_eq!(reads.notes, [note]);
    assert!(writes.notes[0].ends_with("run the job with direct=1, or end_fsync=1"), "{:?}", writes.notes);
    assert!(!writes.is_marked(Mark::Incomplete));

    // Writes that end on the medium count, as those of `dd conv=fsync`.
    let synced = buffered.replace("\"size\" : \"64m\"", "\"size\" : \"64m\", \"end_fsync\" : \"1\"");
    let writes = &parse(&synced, "card").expect("a synced job").steps[1];
    assert!(!writes.observations.is_empty() && writes.is_marked(Mark::Warned));
    let never = buffered.replace("\"size\" : \"64m\"", "\"size\" : \"64m\", \"fsync\" : \"0\"");
    assert!(parse(&never, "card").expect("a buffered job").steps[1].observations.is_empty());

    // This engine does not use the page cache.
    let engine = buffered.replacen("\"libaio\"", "\"nbd\"", 1);
    assert!(!parse(&engine, "card").expect("direct jobs").steps[0].observations.is_empty());
}

#[test]
fn a_job_of_fio_without_a_completed_request_is_incomplete() {
    let text = include_str!("../data/fio-3.33.json");
    let zeroed = |line: &str| match line.split_once("\"total_ios\": ") {
        Some((indent, _)) => format!("{indent}\"total_ios\": 0,\n"),
        None => format!("{line}\n"),
    };
    let text: String = text.lines().map(zeroed).collect();
    for step in parse(&text, "card").expect("no results").steps {
        assert!(step.observations.is_empty() && step.is_marked(Mark::Incomplete), "{step:?}");
    }
}

#[test]
fn a_log_may_contain_braces() {
    let text = "for i in 1; do\n{ dd if=/dev/zero of=/dev/mmcblk0 bs=1M oflag=direct; }\n\
                1048576 bytes (1.0 MB) copied, 1 s, 1.0 MB/s\n";
    assert_eq!(parse(text, "card").expect("a log").engine, "dd");
}

#[test]
fn a_job_of_fio_below_a_millisecond_has_no_rates() {
    let text = include_str!("../data/fio-3.33.json");
    let zeroed = |line: &str| match line.split_once("\"iops\": ") {
        Some((indent, _)) => format!("{indent}\"iops\": 0.0,\n"),
        None => format!("{line}\n"),
    };
    let text: String = text.lines().map(zeroed).collect();
    let measurements = parse(&text, "card").expect("zero IOPS");
    let all = measurements.steps.iter().flat_map(|step| &step.observations);
    assert!(all.clone().all(|o| o.quantity != Quantity::Iops && o.value.is_finite()));
    assert!(all.count() > 0);
}

#[test]
fn runs_of_one_job_become_a_mean_and_a_deviation() {
    let text = " Timing buffered disk reads:  60 MB in  3.00 seconds =  20.00 MB/sec\n \
                Timing buffered disk reads:  66 MB in  3.00 seconds =  22.00 MB/sec\n";
    let measurements = parse(text, "card").expect("two runs");
    let [step] = &measurements.steps[..] else { panic!("one step") };
    let [observation] = &step.observations[..] else { panic!("one observation") };
    let mib = 1_048_576.0;
    assert_eq!(observation.quantity, Quantity::BytesPerSecond);
    assert_eq!((observation.value, observation.runs), (21.0 * mib, 2));
    let sd = observation.sd.expect("two runs have one");
    assert!((sd / mib - 2.0_f64.sqrt()).abs() < 1e-9, "{sd}");
}

#[test]
fn the_discard_of_a_plan_has_no_results_and_may_fail() {
    let results = "{\"io_bytes\": 4194304, \"bw_bytes\": 4194304, \"iops\": 100.0, \
                   \"clat_ns\": {\"mean\": 1.0, \"max\": 1}}";
    let job = |name: &str, error: u32, rw: &str, direction: &str, before: &str| {
        format!(
            "{{\"fio version\": \"fio-3.36\", \"jobs\": [{{\"jobname\": \"{name}\", \"error\": {error}, \
             \"job options\": {{\"rw\": \"{rw}\", \"direct\": \"1\", \
             \"description\": \"flashlab plan quick: {before}, rest 0 ms\"}}, \"{direction}\": {results}}}]}}\n"
        )
    };
    for (error, state, marks) in [(0, State::Discarded, vec![]), (95, State::AsLeft, vec![Mark::Warned])] {
        let text = job("discard", error, "trim", "trim", "as-left")
            + &job("write", 0, "randwrite", "write", "discarded");
        let steps = parse(&text, "card").expect("two jobs").steps;
        assert_eq!((&steps[0].observations, &steps[0].marks), (&vec![], &marks));
        assert_eq!((steps[1].before, steps[1].observations.is_empty()), (state, false));
    }
}

proptest! {
    /// No text causes a panic, and every text that is accepted gives a valid measurement file.
    #[test]
    fn damaged_texts_are_refused_or_give_valid_files(
        which in 0_usize..9,
        cut in any::<proptest::sample::Index>(),
        at in any::<proptest::sample::Index>(),
        with in "[0-9a-z.,;{}\" -]{0,4}",
    ) {
        let texts = [
            include_str!("../data/iozone-orange-pi-emmc.txt"),
            include_str!("../data/iozone-without-reads.txt"),
            include_str!("../data/pi-log.txt"),
            include_str!("../data/flashbench-readme.txt"),
            include_str!("../data/agnostics.txt"),
            include_str!("../data/sdbench-nuttx.txt"),
            include_str!("../data/fio-2.16.json"),
            include_str!("../data/fio-3.33.json"),
            include_str!("../data/table.csv"),
        ];
        let chars: Vec<char> = texts[which].chars().collect();
        let at = at.index(chars.len());
        let end = at + cut.index((chars.len() - at).min(8));
        let text: String =
            chars[..at].iter().copied().chain(with.chars()).chain(chars[end..].iter().copied()).collect();
        if let Ok(measurements) = parse(&text, "card") {
            prop_assert_eq!(
                Measurements::parse(&measurements.to_json()).map_err(|e| e.to_string()),
                Ok(measurements)
            );
        }
    }
}
