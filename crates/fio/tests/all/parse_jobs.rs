//! Tests of the jobs that result from job files and command lines.

use flashlab_fio::cmdline::{Invocation, OutputFormat};
use flashlab_fio::job::{
    BlockSize, Distribution, Engine, Extent, FadviseHint, Fallocate, Job, Mix, Pattern, SizeShare, SyncWrites,
};
use flashlab_fio::jobfile::JobFile;
use flashlab_fio::loader::NoFiles;
use flashlab_sim::Duration;

fn jobs(text: &str) -> Vec<Job> {
    JobFile::parse("job.fio", text.as_bytes(), &NoFiles).unwrap_or_else(|e| panic!("{e}\n{text}")).jobs
}

/// Returns the only job of a section with `direct=1` and these options, separated by blanks.
fn job(options: &str) -> Job {
    let text = format!("[job]\ndirect=1\n{}\n", options.replace(' ', "\n"));
    let mut jobs = jobs(&text);
    assert_eq!(jobs.len(), 1, "{text}");
    jobs.remove(0)
}

fn invocation(line: &str) -> Invocation {
    let args: Vec<&str> = line.split_whitespace().collect();
    Invocation::parse(&args, &NoFiles).unwrap_or_else(|e| panic!("{e}\n{line}"))
}

const RAW: &str = "--filename=/dev/mmcblk0 --name=write_bandwidth_test --filesize=16G --time_based --ramp_time=2s \
                   --runtime=60 --ioengine=sync --direct=1 --bs=1M --iodepth=1 numjobs=1 --rw=write \
                   --fsync_on_close=1 --invalidate=1";

#[test]
fn the_published_command_of_the_six_cards_parses_once_numjobs_has_its_dashes() {
    let args: Vec<&str> = RAW.split_whitespace().collect();
    let error = Invocation::parse(&args, &NoFiles).unwrap_err();
    let expected = r#"argument 11, character 1: fio would take "numjobs=1" for the name of a job file; did you mean --numjobs=1?"#;
    assert_eq!(error.to_string(), expected);

    for (rw, random, mix) in [
        ("write", false, Mix::Write),
        ("read", false, Mix::Read),
        ("randwrite", true, Mix::Write),
        ("randread", true, Mix::Read),
    ] {
        let bs = if random { "4k" } else { "1M" };
        let line = RAW.replace(" numjobs", " --numjobs").replace("rw=write", &format!("rw={rw}"));
        let invocation = invocation(&line.replace("bs=1M", &format!("bs={bs}")));
        let [job] = invocation.jobs.as_slice() else { panic!("one job") };
        assert_eq!(job.name, "write_bandwidth_test");
        assert_eq!((job.pattern.random, job.pattern.mix), (random, mix));
        assert_eq!(job.block_size[0], BlockSize::Fixed(if random { 4096 } else { 1 << 20 }));
        assert_eq!((job.size, job.file_size), (None, Some(16 << 30)));
        assert_eq!((job.runtime, job.ramp_time), (Some(Duration::from_secs(60)), Duration::from_secs(2)));
        assert_eq!((job.engine, job.depth), (Engine::Synchronous, 1));
        assert!(job.time_based && job.fsync_on_close);
        assert_eq!(job.files, ["/dev/mmcblk0"]);
        let listed: Vec<&str> = invocation.irrelevant.iter().map(|i| i.option).collect();
        assert_eq!(listed, ["filename"], "other options are listed");
    }
}

#[test]
fn the_published_command_over_a_filesystem_parses() {
    let line = RAW.replace(" numjobs", " --numjobs").replace("--filesize=16G", "--filesize=4095M");
    let invocation = invocation(&line.replace("--filename=/dev/mmcblk0", "--directory=/mnt/card"));
    let job = &invocation.jobs[0];
    assert_eq!(job.directory.as_deref(), Some("/mnt/card"));
    assert_eq!(job.files, ["write_bandwidth_test.0.0"]);
    assert_eq!(job.file_size, Some(4095 << 20));
    assert_eq!(job.fallocate, Fallocate::Native);
    assert!(invocation.irrelevant.is_empty());
}

#[test]
fn an_empty_job_has_fio_s_defaults() {
    let expected = Job { name: "job".to_string(), ..Job::default() };
    let options = vec![("direct".to_string(), "1".to_string())];
    assert_eq!(job(""), Job { options, ..expected });
}

#[test]
fn patterns_sizes_and_amounts_are_parsed() {
    let j = job("rw=randrw:8 bs=4k,8k rwmixwrite=30 size=50% io_size=3g offset=1m offset_increment=10%");
    assert_eq!(j.pattern, Pattern { random: true, mix: Mix::ReadWrite, sequence: 8, sequence_skip: 0 });
    assert_eq!(j.block_size, [BlockSize::Fixed(4096), BlockSize::Fixed(8192), BlockSize::Fixed(8192)]);
    assert_eq!(j.block_align, [4096, 8192, 8192]);
    assert_eq!(j.rw_mix_read, 70);
    assert_eq!((j.size, j.io_size), (Some(Extent::Percent(50)), Some(Extent::Bytes(3 << 30))));
    assert_eq!((j.offset, j.offset_increment), (Extent::Bytes(1 << 20), Extent::Percent(10)));
    let j = job("readwrite=write:4k blocksize=,8k timeout=1m number_ios=100 loops=3");
    assert_eq!(j.pattern.sequence_skip, 4096);
    assert_eq!(j.block_size[0], BlockSize::Fixed(4096));
    assert_eq!(j.block_size[1], BlockSize::Fixed(8192));
    assert_eq!((j.runtime, j.number_ios, j.loops), (Some(Duration::from_secs(60)), Some(100), 3));
}

/// fio 3.33 gives the same block sizes.
#[test]
fn an_empty_part_leaves_the_earlier_value() {
    let merged = |global: &str, own: &str| jobs(&format!("[global]\n{global}\n[a]\n{own}\n")).remove(0);
    let fixed = |sizes: [u64; 3]| sizes.map(BlockSize::Fixed);
    assert_eq!(merged("bs=16k", "bs=,8k").block_size, fixed([16384, 8192, 8192]));
    assert_eq!(merged("bs=16k,32k,64k", "bs=8k,").block_size, fixed([8192, 32768, 65536]));
    assert_eq!(merged("bssplit=16k", "bssplit=,8k").block_size, fixed([16384, 8192, 8192]));
    let range = |min, max| BlockSize::Range { min, max };
    let ranges = [range(16384, 32768), range(8192, 9216), range(8192, 9216)];
    assert_eq!(merged("bsrange=16k-32k", "bsrange=,8k-9k").block_size, ranges);
    assert_eq!(merged("ba=16k", "ba=,8k").block_align, [16384, 8192, 8192]);
    assert_eq!(merged("percentage_random=50", "percentage_random=,20").percentage_random, [50, 20, 20]);
    assert_eq!(merged("rate=1m", "rate=,0,2k").rate, [Some(1 << 20), None, Some(2048)]);
    assert_eq!(merged("rate_iops=10", "rate_iops=,20").rate_iops, [Some(10), Some(20), Some(20)]);
    let limits = [Some(Duration::from_us(5)), None, None];
    assert_eq!(merged("max_latency=5", "max_latency=,0").max_latency, limits);
}

#[test]
fn a_name_in_global_applies_to_no_job_as_in_fio() {
    let names: Vec<String> =
        jobs("[global]\nname=x\n[a]\n[b]\nname=c\n").into_iter().map(|job| job.name).collect();
    assert_eq!(names, ["a", "c"]);
}

#[test]
fn the_last_option_decides_the_output_formats() {
    use OutputFormat::{Json, JsonPlus, Normal, Terse};
    for (line, formats) in [
        ("--append-terse", &[Normal, Terse][..]),
        ("--output-format=json --append-terse", &[Json, Terse]),
        ("--append-terse --output-format=json", &[Json]),
        ("--output-format=json,json+", &[JsonPlus]),
        ("--append-terse --minimal", &[Terse]),
    ] {
        assert_eq!(invocation(&format!("{line} --name=a")).output_formats, formats, "{line}");
    }
}

#[test]
fn ranges_and_splits_override_bs_in_any_order() {
    for options in ["bs=64k bsrange=16k-4k", "bsrange=4k:16k bs=64k"] {
        let j = job(options);
        assert_eq!(j.block_size[0], BlockSize::Range { min: 4096, max: 16384 });
        assert_eq!(j.block_align[0], 4096);
    }
    let j = job("bssplit=4k/60:64k/,8k rw=rw");
    let shares = vec![SizeShare { bytes: 4096, percent: 60 }, SizeShare { bytes: 65536, percent: 40 }];
    assert_eq!(j.block_size[0], BlockSize::Split(shares));
    assert_eq!(j.block_size[1], BlockSize::Fixed(8192));
}

#[test]
fn the_random_map_is_dropped_where_fio_drops_it() {
    // The blocks of the writes differ, though there are none.
    assert!(job("rw=randread bs=4k,8k blockalign=4k").no_random_map, "the map is kept");
    assert!(!job("rw=randread").no_random_map);
    assert!(job("rw=randread norandommap").no_random_map);
    assert!(!job("rw=randread norandommap=0").no_random_map);
    assert!(!job("rw=randread bsrange=4k-8k").no_random_map);
    assert!(!job("rw=randread blockalign=4k").no_random_map);
    assert!(job("rw=randread blockalign=512").no_random_map);
    let j = job("rw=randread random_distribution=zipf:1.2");
    assert_eq!((j.distribution, j.no_random_map), (Distribution::Zipf(1.2), true));
}

#[test]
fn queue_options_that_depend_on_each_other_are_resolved() {
    let j = job("ioengine=libaio iodepth=16");
    assert_eq!((j.engine, j.depth, j.depth_low, j.batch_submit), (Engine::Asynchronous, 16, 16, 1));
    assert_eq!((j.batch_complete_min, j.batch_complete_max), (1, 1));
    let j =
        job("ioengine=io_uring iodepth=16 iodepth_low=4 iodepth_batch_submit=0 iodepth_batch_complete_min=8");
    assert_eq!((j.depth_low, j.batch_submit), (4, 16));
    assert_eq!((j.batch_complete_min, j.batch_complete_max), (8, 8));
    let j = job("ioengine=posixaio iodepth=4 iodepth_batch=8 iodepth_low=9 iodepth_batch_complete_max=3");
    assert_eq!((j.batch_submit, j.depth_low, j.batch_complete_max), (4, 4, 3));
    let j = job("ioengine=libaio iodepth=4 iodepth_batch_complete=0 iodepth_batch_complete_max=4");
    assert_eq!((j.batch_complete_min, j.batch_complete_max), (0, 4));
}

#[test]
fn rates_pauses_and_durability_are_parsed() {
    let j =
        job("rate=,500k rw=rw thinktime=100 thinktime_blocks=4 fsync=1k fdatasync=2 end_fsync=1 sync=dsync");
    assert_eq!(j.rate, [None, Some(512_000), Some(512_000)]);
    assert_eq!((j.think_time, j.think_time_blocks), (Duration::from_us(100), 4));
    assert_eq!((j.fsync, j.fdatasync, j.end_fsync, j.sync), (1024, 2, true, Some(SyncWrites::Data)));
    assert_eq!(job("rate_iops=100,").rate_iops, [Some(100), None, None]);
    assert_eq!(job("rate=0").rate, [None; 3]);
    assert_eq!(job("sync=0").sync, None);
    assert_eq!(job("sync=dsync").sync, Some(SyncWrites::Data));
}

#[test]
fn options_of_reports_and_logs_are_parsed() {
    let j = job("percentile_list=99.9:50 write_bw_log=a write_lat_log=b write_iops_log=c log_avg_msec=500");
    assert_eq!(j.percentiles, [50.0, 99.9]);
    let logs = [j.write_bw_log, j.write_lat_log, j.write_iops_log].map(Option::unwrap);
    assert_eq!((logs, j.log_avg_msec), (["a", "b", "c"].map(str::to_string), 500));
    assert!(job("group_reporting unified_rw_reporting=mixed").unified_rw_reporting);
}

#[test]
fn globals_hold_for_the_sections_below_them_until_changed() {
    let text = "[global]\ndirect=1\nbs=8k\n[a]\n[global]\nbs=16k\nrw=write\n[b]\n[c]\nbs=4k\n";
    let file = JobFile::parse("job.fio", text.as_bytes(), &NoFiles).unwrap();
    let found: Vec<_> = file.jobs.iter().map(|j| (j.block_size[0].clone(), j.pattern.mix)).collect();
    let expected = [(8192, Mix::Read), (16384, Mix::Write), (4096, Mix::Write)];
    assert_eq!(found, expected.map(|(bytes, mix)| (BlockSize::Fixed(bytes), mix)));
    let pairs = |list: &[(&str, &str)]| -> Vec<(String, String)> {
        list.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    };
    assert_eq!(file.global_options, pairs(&[("direct", "1"), ("bs", "16k"), ("rw", "write")]));
    assert_eq!(file.jobs[2].options, pairs(&[("bs", "4k")]));
}

#[test]
fn kb_base_holds_for_its_whole_section_and_below() {
    let text =
        "[a]\ndirect=1\nbs=4k\nkb_base=1000\nsize=1mib\n[global]\nkb_base=1000\ndirect=1\n[b]\nbs=4k\n";
    let jobs = jobs(text);
    assert_eq!(jobs[0].block_size[0], BlockSize::Fixed(4000));
    assert_eq!((jobs[0].size, jobs[0].kb_base), (Some(Extent::Bytes(1 << 20)), 1000));
    assert_eq!(jobs[1].block_size[0], BlockSize::Fixed(4000));
}

#[test]
fn waves_and_groups_follow_stonewalls() {
    let text =
        "[global]\ndirect=1\n[a]\nstonewall\nnumjobs=2\n[b]\n[c]\nwait_for_previous\n[d]\nnew_group\n[e]\n";
    let found: Vec<_> = jobs(text).iter().map(|j| (j.name.clone(), j.clone, j.wave, j.group)).collect();
    let expected =
        [("a", 0, 0, 0), ("a", 1, 0, 0), ("b", 0, 0, 0), ("c", 0, 1, 1), ("d", 0, 1, 2), ("e", 0, 1, 2)];
    assert_eq!(found, expected.map(|(name, clone, wave, group)| (name.to_string(), clone, wave, group)));
}

#[test]
fn clones_have_separate_files_unless_they_share_a_name() {
    let text = "[w]\ndirect=1\nnumjobs=2\nnrfiles=2\ndirectory=/a:/b\nread_iolog=x:y\n";
    let jobs = jobs(text);
    assert_eq!(jobs[0].files, ["w.0.0", "w.0.1"]);
    assert_eq!(jobs[1].files, ["w.1.0", "w.1.1"]);
    assert_eq!((jobs[0].directory.as_deref(), jobs[1].directory.as_deref()), (Some("/a"), Some("/b")));
    assert_eq!((jobs[0].read_iolog.as_deref(), jobs[1].read_iolog.as_deref()), (Some("x"), Some("y")));
    let j = job(r"directory=/a:/b filename=one:t\:wo nrfiles=7");
    assert_eq!((j.files.as_slice(), j.nr_files), (["one".to_string(), "t:wo".to_string()].as_slice(), 2));
    assert_eq!(j.directory.as_deref(), Some("/a"));
    assert_eq!(job("filename_format=$jobname-$filenum.dat nrfiles=2").files, ["job-0.dat", "job-1.dat"]);
}

#[test]
fn the_name_option_names_the_job() {
    let job = job("name=other");
    assert_eq!((job.name.as_str(), job.files.as_slice()), ("other", ["other.0.0".to_string()].as_slice()));
}

#[test]
fn flags_without_a_value_are_set_but_not_among_the_options_as_in_fio() {
    let j = job("time_based runtime=1 group_reporting=1 blocksize=8k bs=16k");
    assert!(j.time_based && j.group_reporting);
    let names: Vec<&str> = j.options.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["direct", "runtime", "group_reporting", "bs"]);
    assert_eq!(j.options[3].1, "16k");
}

#[test]
fn irrelevant_options_are_listed_with_their_position() {
    let text = "[global]\ndirect=1\nnice=5\n[a]\nthread\nthreads=1\niodepth=4\nfilename=/dev/sdb\n[b]\nverify=0\ncpus_allowed=0-3\n";
    let file = JobFile::parse("job.fio", text.as_bytes(), &NoFiles).unwrap();
    let listed: Vec<String> = file.irrelevant.iter().map(ToString::to_string).collect();
    let expected = [
        "job.fio:3:1: nice=5: nothing else competes for the processor",
        "job.fio:5:1: thread: whether jobs are threads or processes makes no difference to a device",
        "job.fio:6:1: threads=1: fio accepts it, but does not use it; numjobs= starts clones of a job",
        "job.fio:8:1: filename=/dev/sdb: every file name stands for the simulated device",
        "job.fio:7:1: iodepth=4: a synchronous ioengine has one request at a time",
        "job.fio:11:1: cpus_allowed=0-3: the host's costs do not depend on which processor a job runs on",
    ];
    assert_eq!(listed, expected);
}

#[test]
fn jobs_are_buffered_unless_they_are_direct_or_run_on_the_engine_null() {
    let buffered = |options: &str| jobs(&format!("[a]\n{options}\n"))[0].buffered;
    assert!(buffered("rw=read") && buffered("direct=0") && buffered("direct=1\nbuffered=1"));
    assert!(!buffered("direct=1") && !buffered("buffered=0") && !buffered("buffered=1\ndirect=1"));
    assert!(!buffered("ioengine=null") && !buffered("direct=0\nioengine=null"));
}

#[test]
fn options_of_the_page_cache_are_listed_where_direct_io_bypasses_it() {
    let listed = |text: &str| {
        let file = JobFile::parse("job.fio", text.as_bytes(), &NoFiles).unwrap();
        file.irrelevant.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let text = "[a]\nfadvise_hint=random\ninvalidate=0\n";
    let job = &jobs(text)[0];
    assert_eq!((job.fadvise_hint, job.invalidate), (FadviseHint::Random, false));
    assert_eq!(listed(text), [""; 0]);
    let direct = "job.fio:2:1: fadvise_hint=random: it concerns the page cache, which direct I/O bypasses";
    assert_eq!(listed(&format!("{text}direct=1\n")), [direct]);
    let text = "[a]\nioengine=libaio\niodepth=8\n";
    let one = "job.fio:3:1: iodepth=8: this ioengine serves buffered requests one after the other";
    assert_eq!(listed(text), [one]);
    assert_eq!(listed(&format!("{text}direct=1\n")), [""; 0]);
    assert!(jobs("[a]\nsync_file_range=write:8\n")[0].sync_file_range);
}

#[test]
fn options_before_the_first_name_hold_for_all_jobs() {
    let invocation =
        invocation("--direct=1 --bs 8k -size=1m --name=a --rw=write --name=global --bs=16k --name=b");
    let found: Vec<_> = invocation.jobs.iter().map(|j| (j.name.as_str(), j.block_size[0].clone())).collect();
    assert_eq!(found, [("a", BlockSize::Fixed(8192)), ("b", BlockSize::Fixed(16384))]);
    assert_eq!(invocation.jobs[0].options[0], ("name".to_string(), "a".to_string()));
    assert_eq!(invocation.output_formats, [OutputFormat::Normal]);
}

#[test]
fn program_options_and_abbreviations_are_parsed() {
    let line = "--output-form=json,normal --output result.json --eta=never --parse-only --name=x --directo=/mnt --runt=5 \
                --direct 1 --time_based";
    let invocation = invocation(line);
    assert_eq!(invocation.output_formats, [OutputFormat::Json, OutputFormat::Normal]);
    assert_eq!(invocation.output.as_deref(), Some("result.json"));
    assert!(invocation.parse_only);
    assert_eq!(invocation.irrelevant[0].option, "eta");
    assert_eq!(invocation.jobs[0].runtime, Some(Duration::from_secs(5)));
}

#[test]
fn job_files_and_options_mix_as_in_fio() {
    let files = |name: &str| match name {
        "a.fio" => Ok(b"[global]\nbs=64k\n[one]\n[two]\n".to_vec()),
        "b.fio" => Ok(b"[global]\nioengine=null\n[three]\n".to_vec()),
        _ => Err("no such file".to_string()),
    };
    let parse = |line: &str| Invocation::parse(&line.split(' ').collect::<Vec<_>>(), &files);
    let found = |invocation: Invocation| -> Vec<(String, u32, BlockSize)> {
        invocation.jobs.into_iter().map(|j| (j.name, j.wave, j.block_size[0].clone())).collect()
    };
    let row = |name: &str, wave, bytes| (name.to_string(), wave, BlockSize::Fixed(bytes));
    // Jobs of the command line come first, its globals apply to the first file, and the second file waits.
    let invocation = parse("a.fio --ioengine=null b.fio --name=x --bs=8k").unwrap();
    let expected = [row("x", 0, 8192), row("one", 0, 65536), row("two", 0, 65536), row("three", 1, 4096)];
    assert_eq!(found(invocation), expected);
    let invocation = parse("--ioengine=null --section=two a.fio").unwrap();
    assert_eq!(found(invocation), [row("two", 0, 65536)]);
}

#[test]
fn a_leading_fio_of_a_pasted_line_is_skipped() {
    let parse = |line: &str| {
        let args: Vec<&str> = line.split_whitespace().collect();
        let files = |name: &str| match name {
            "fio" | "jobs/fio" => Ok(b"[from-file]\ndirect=1\n".to_vec()),
            _ => Err("not there".to_string()),
        };
        Invocation::parse(&args, &files).map(|invocation| invocation.jobs[0].name.clone())
    };
    for line in [
        "--name=a --direct=1",
        "fio --name=a --direct=1",
        "sudo fio --name=a --direct=1",
        "/usr/bin/fio --direct=1 --name a",
        "sudo ./fio --name=a --direct=1",
        "fio -direct=1 -name=a",
    ] {
        assert_eq!(parse(line).as_deref(), Ok("a"), "{line}");
    }
    assert_eq!(parse("fio jobs/fio").as_deref(), Ok("from-file"));
    assert_eq!(parse("jobs/fio").as_deref(), Ok("from-file"));
    let places = ["fio --name=a --direct=1 --bs=x", "fio"].map(|line| parse(line).unwrap_err().to_string());
    assert_eq!(
        places,
        [
            "argument 4, character 6: bs=x: this is not a number",
            "command line: no job is defined: add a section such as [job], or --name=job before the options"
        ]
    );
}
