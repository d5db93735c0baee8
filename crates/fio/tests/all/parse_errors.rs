//! Snapshots of the error messages for faulty job files and command lines.

use flashlab_fio::cmdline::Invocation;
use flashlab_fio::jobfile::JobFile;
use flashlab_fio::loader::NoFiles;
use insta::assert_snapshot;

/// Returns the messages for job files that each contain one `[job]` with the given lines.
fn messages(cases: &[&str]) -> String {
    let message = |lines: &&str| {
        let text = format!("[job]\n{lines}\n");
        match JobFile::parse("job.fio", text.as_bytes(), &NoFiles) {
            Ok(_) => format!("{lines:?} was accepted"),
            Err(error) => error.to_string(),
        }
    };
    cases.iter().map(message).collect::<Vec<_>>().join("\n")
}

fn command_lines(cases: &[&str]) -> String {
    let message = |line: &&str| {
        let args: Vec<&str> = line.split_whitespace().collect();
        match Invocation::parse(&args, &NoFiles) {
            Ok(_) => format!("{line:?} was accepted"),
            Err(error) => error.to_string(),
        }
    };
    cases.iter().map(message).collect::<Vec<_>>().join("\n")
}

#[test]
fn options_that_are_unknown_or_lack_a_value_are_rejected() {
    assert_snapshot!(messages(&["nmjobs=2", "  BS=4k", "frobnicate=1", "bs", "bs=", "bs 4k", "--bs=4k", "size = "]), @r#"
    job.fio:2:1: fio 3.33 has no option "nmjobs"; did you mean numjobs?
    job.fio:2:3: fio 3.33 has no option "BS"; did you mean bs?
    job.fio:2:1: fio 3.33 has no option "frobnicate"; `flashlab explain` lists the modelled options
    job.fio:2:1: bs needs a value: bs=...
    job.fio:2:4: bs=: the value is empty
    job.fio:2:1: a = is missing; write bs=...
    job.fio:2:1: fio 3.33 has no option "--bs"; did you mean bs?
    job.fio:2:7: size=: the value is empty
    "#);
}

#[test]
fn invalid_numbers_are_rejected() {
    assert_snapshot!(messages(&[
        "bs=4.5k", "bs=-4k", "bs=0", "bs=4x", "size=1e9", "size=16384p", "size=99999999999999999999", "size=0",
        "size=101%", "offset=-1", "size=10z", "bs=4k-16k", "bs=4k,8k,16k,32k", "bs=4k,8q", "iodepth=0", "numjobs=0",
        "rwmixread=101", "direct=yes", "time_based=2", "filesize=50%", "filesize=1g-2g", "size=(1m", "size=(7/2)",
    ]), @r#"
    job.fio:2:5: bs=4.5k: only whole numbers are accepted (fio drops everything after the point, including the suffix); use a smaller unit
    job.fio:2:4: bs=-4k: it must not be negative
    job.fio:2:4: bs=0: it must be at least 1
    job.fio:2:5: bs=4x: "x" is not a valid suffix; expected k, m, g, t or p, alone or followed by b or ib
    job.fio:2:7: size=1e9: "e9" is not a valid suffix; expected k, m, g, t or p, alone or followed by b or ib
    job.fio:2:6: size=16384p: it is larger than 2^63 - 1, fio's maximum
    job.fio:2:6: size=99999999999999999999: it is larger than 2^63 - 1, fio's maximum
    job.fio:2:6: size=0: it must be at least 1
    job.fio:2:6: size=101%: a percentage is at most 100%
    job.fio:2:8: offset=-1: it must not be negative
    job.fio:2:8: size=10z: z counts zones, and zoned devices are not modelled; write bytes
    job.fio:2:6: bs=4k-16k: only one value is accepted; for a range write bsrange=4k-16k, for a mix bssplit=4k/50:16k/50
    job.fio:2:14: bs=4k,8k,16k,32k: at most 3 parts are accepted
    job.fio:2:8: bs=4k,8q: "q" is not a valid suffix; expected k, m, g, t or p, alone or followed by b or ib
    job.fio:2:9: iodepth=0: it must be between 1 and 65536
    job.fio:2:9: numjobs=0: it must be between 1 and 4096
    job.fio:2:11: rwmixread=101: it must be between 0 and 100
    job.fio:2:8: direct=yes: it must be 0 or 1
    job.fio:2:12: time_based=2: it must be 0 or 1
    job.fio:2:12: filesize=50%: it is not a percentage; write it without %
    job.fio:2:12: filesize=1g-2g: only one value is accepted; remove the range or list
    job.fio:2:9: size=(1m: expected an operator or )
    job.fio:2:10: size=(7/2): the division leaves a remainder
    "#);
}

#[test]
fn invalid_times_and_times_that_fio_would_misread_are_rejected() {
    assert_snapshot!(messages(&["runtime=1:30", "runtime=1min", "runtime=1.5h", "ramp_time=2sec", "startdelay=1-5", "thinktime=1x"]), @r#"
    job.fio:2:10: runtime=1:30: only one value is accepted; fio reads 1:30 as 1 and then 30, and keeps the 30; write 90 for a minute and a half
    job.fio:2:10: runtime=1min: fio 3.33 reads this as microseconds; for minutes write m
    job.fio:2:10: runtime=1.5h: only whole numbers are accepted (fio drops everything after the point, including the suffix); use a smaller unit
    job.fio:2:12: ramp_time=2sec: fio 3.33 reads this as microseconds; for seconds write s
    job.fio:2:13: startdelay=1-5: a delay drawn from a range is not modelled; write a single time, such as 5
    job.fio:2:12: thinktime=1x: "x" is not a valid suffix; expected d, h, m, s, ms or us
    "#);
}

#[test]
fn invalid_words_and_forms_are_rejected() {
    assert_snapshot!(messages(&[
        "rw=randwrit", "rw=randread:0", "ioengine=libiao", "ioengine=rbd", "ioengine=windowsaio", "bssplit=4k/60:64k/41", "bssplit=4k/x",
        "random_distribution=zipf:1", "random_distribution=zipf:1.2:0.5", "random_distribution=zoned:60/10:30/20",
        "percentile_list=99:101", "percentile_list=90,99", "fallocate=maybe", "unified_rw_reporting=both", "filename=a::b",
        "kb_base=1001",
    ]), @r#"
    job.fio:2:4: rw=randwrit: it must be one of read, write, trim, randread, randwrite, randtrim, rw, readwrite, randrw, trimwrite, randtrimwrite; did you mean randwrite?
    job.fio:2:13: rw=randread:0: it must be between 1 and 4294967295
    job.fio:2:10: ioengine=libiao: it must be one of sync, psync, vsync, pvsync, pvsync2, libaio, io_uring, posixaio, null; did you mean libaio?
    job.fio:2:10: ioengine=rbd: this engine does more than queue requests, and is not modelled; use psync for one request at a time, libaio or io_uring for a queue
    job.fio:2:10: ioengine=windowsaio: it exists on another operating system only; libaio queues requests, too
    job.fio:2:9: bssplit=4k/60:64k/41: the shares of the block sizes sum to 101, not to 100
    job.fio:2:12: bssplit=4k/x: this is not a number
    job.fio:2:26: random_distribution=zipf:1: expected a theta above 0 and up to 100 that is not 1, such as zipf:1.1
    job.fio:2:29: random_distribution=zipf:1.2:0.5: the centre of a distribution is not modelled; leave it out
    job.fio:2:27: random_distribution=zoned:60/10:30/20: the shares of the accesses sum to 90, not to 100
    job.fio:2:20: percentile_list=99:101: it must be between 0 and 100
    job.fio:2:17: percentile_list=90,99: this is not a number
    job.fio:2:11: fallocate=maybe: it must be one of none, native, posix, keep, truncate, 0, 1
    job.fio:2:22: unified_rw_reporting=both: directions are reported separately (none) or together (mixed), not both ways
    job.fio:2:12: filename=a::b: expected a name before the :
    job.fio:2:9: kb_base=1001: it must be one of 1024, 1000; did you mean 1000?
    "#);
}

#[test]
fn options_that_are_not_modelled_are_refused() {
    assert_snapshot!(messages(&["verify_only", "zonemode=zbd", "latency_target=10ms", "steadystate=iops:1%", "hipri",
        "prioclass=1", "exec_prerun=rm -rf /", "clustername=ceph", "max_latency=1m,2x"]), @r#"
    job.fio:2:1: verify_only is not modelled: a job that writes verifies its own data only; a job that only reads verifies data of earlier runs; remove it, or write verify_only=0
    job.fio:2:1: zonemode=zbd is not modelled: there are neither zoned devices nor strided access; remove it, or write zonemode=none
    job.fio:2:1: latency_target=10ms is not modelled: the depth of the queue is not adjusted to a latency; remove it, or write latency_target=0
    job.fio:2:1: steadystate=iops:1% is not modelled: a job ends by its size or runtime, not when its speed has settled; remove it
    job.fio:2:1: hipri is not modelled: completions arrive by interrupt; polling has other costs; remove it, or write hipri=0
    job.fio:2:1: prioclass=1 is not modelled: the queue has no priorities; remove it, or write prioclass=0 or prioclass=2
    job.fio:2:1: exec_prerun=rm -rf / is not modelled: no program is run before a job; remove it
    job.fio:2:1: clustername=ceph is not modelled: it belongs to an engine that is not modelled; remove it
    job.fio:2:17: max_latency=1m,2x: "x" is not a valid suffix; expected d, h, m, s, ms or us
    "#);
}

#[test]
fn options_that_contradict_each_other_or_exceed_a_limit_are_rejected() {
    assert_snapshot!(messages(&[
        "direct=1\ntime_based",
        "direct=1\nrate=1m\nrate_iops=100",
        "direct=1\nbsrange=4k-8k\nbssplit=4k:8k",
        "direct=1\nsize=1k",
        "direct=1\nbs=1m\nfilesize=64k",
        "direct=1\noffset=100%",
        "direct=1\ndirectory=/mnt\nfilename=/dev/sdb",
        "direct=1\nbs=1m\nrate=100",
        "direct=1\nnumjobs=4096\nnrfiles=4096",
        "direct=1\nnumjobs=4096\n[more]\ndirect=1",
    ]), @r#"
    job.fio:3:1: job "job": time_based needs a runtime: add runtime=60, or remove time_based
    job.fio:4:1: job "job": rate and rate_iops cannot be combined; keep one of them
    job.fio:4:1: job "job": bsrange and bssplit cannot be combined; keep one of them
    job.fio:3:1: job "job": size=1024 is less than one block of 4096 bytes; raise size or lower bs
    job.fio:4:1: job "job": filesize=65536 is less than one block of 1048576 bytes; raise filesize or lower bs
    job.fio:3:1: job "job": offset=100% leaves nothing to read or write; lower it
    job.fio:4:1: job "job": filename="/dev/sdb" is an absolute path; remove it or directory
    job.fio:4:1: job "job": at rate=100 bytes a second one block of 1048576 bytes takes over an hour; rate is in bytes a second
    job.fio:4:1: job "job": all jobs together have more than 262144 files
    job.fio:4:1: this makes more than 4096 jobs, fio's maximum
    "#);
}

#[test]
fn invalid_command_lines_are_rejected() {
    assert_snapshot!(command_lines(&[
        "",
        "--direct=1 --bs=4k",
        "--name=x --direct=1 numjobs=1",
        "--name=x --direct=1 numjob=1",
        "job.fio",
        "--name=x --nmjobs=2",
        "--name=x --dir=1",
        "--name=x --bs",
        "--name=x --bs --rw=read",
        "--name=x --bs=4.5k",
        "--name=x --bs 4.5k",
        "--name=x --time_based 0",
        "--name=x --rw=write --readonly --direct=1",
        "--terse-version=6 --name=x",
        "--output-format=json,xml --name=x",
        "--client=host --name=x",
        "--parse-only=1 --name=x",
        "--cmdhelp=all",
        "--name=",
        "--",
        "-",
    ]), @r#"
    command line: no job is defined: add a section such as [job], or --name=job before the options
    command line: no job is defined: add a section such as [job], or --name=job before the options
    argument 3, character 1: fio would take "numjobs=1" for the name of a job file; did you mean --numjobs=1?
    argument 3, character 1: fio would take "numjob=1" for the name of a job file; did you mean --numjobs=1?
    argument 1, character 1: cannot read the job file "job.fio": no other file may be read here
    argument 2, character 3: fio 3.33 has no option "nmjobs"; did you mean numjobs?
    argument 2, character 3: "dir" may be directory, direct; write the name in full
    argument 2, character 1: bs needs a value: bs=...
    argument 2, character 1: bs needs a value: bs=...
    argument 2, character 7: bs=4.5k: only whole numbers are accepted (fio drops everything after the point, including the suffix); use a smaller unit
    argument 3, character 2: bs=4.5k: only whole numbers are accepted (fio drops everything after the point, including the suffix); use a smaller unit
    argument 3, character 1: fio would take "0" for the name of a job file; did you mean --time_based=0?
    argument 2, character 1: job "x": it writes or trims, and --readonly forbids both; remove --readonly
    argument 1, character 17: terse-version=6: it must be one of 2, 3, 4, 5; did you mean 2?
    argument 1, character 22: output-format=json,xml: it must be one of normal, json, json+, terse
    argument 1, character 1: --client is not supported here: jobs run in this process, not on a server
    argument 1, character 14: --parse-only takes no value
    argument 1, character 1: --cmdhelp is not supported here: use flashlab explain
    argument 1, character 8: name=: the value is empty
    command line: no job is defined: add a section such as [job], or --name=job before the options
    argument 1, character 1: cannot read the job file "standard input": no other file may be read here
    "#);
}

#[test]
fn unknown_sections_are_rejected() {
    let files = |_: &str| Ok(b"[global]\ndirect=1\n[light]\n[heavy]\n".to_vec());
    let error = |section: &str| Invocation::parse(&[section, "job.fio"], &files).unwrap_err().to_string();
    assert_snapshot!([error("--section=haevy"), error("--section=x")].join("\n"), @r#"
    argument 1, character 11: no section is named "haevy"; did you mean "heavy"?
    argument 1, character 11: no section is named "x"
    "#);
    let empty = Invocation::parse(&["job.fio"], &|_: &str| Ok(b"[global]\ndirect=1\n".to_vec())).unwrap_err();
    assert_snapshot!(empty, @"job.fio:1:1: no job is defined: add a section such as [job], or --name=job before the options");
}

#[test]
fn foreign_text_is_escaped_and_truncated() {
    let name = "\u{7f}".to_string();
    assert_snapshot!(command_lines(&[&format!("--name=x --{}=1", "y".repeat(5000)), &format!("--{name}")]), @r#"
    argument 2, character 3: fio 3.33 has no option "yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy..."; `flashlab explain` lists the modelled options
    argument 1, character 3: fio 3.33 has no option "\u{7f}"; `flashlab explain` lists the modelled options
    "#);
}
