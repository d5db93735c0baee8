//! Invalid files, names and numbers: each gives a message with the place of the error and never a panic.

use super::folder::Folder;
use insta::assert_snapshot;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

const JOB: &str = "[a]\ndirect=1\nrw=write\nbs=4k\nsize=16k\n";

/// Returns the messages for job files, each of which is written under its name.
fn messages(folder: &Folder, files: &[(&str, &[u8])]) -> String {
    let message = |(name, bytes): &(&str, &[u8])| {
        folder.put(name, bytes);
        folder.run(&["bench", "sd/kingston", *name]).refused()
    };
    files.iter().map(message).collect()
}

#[test]
fn an_invalid_job_file_is_refused_with_the_place() {
    let folder = Folder::new("no-text");
    let long_option = format!("[a]\nbs={}", "4".repeat(10_000_000));
    let long_junk = "x".repeat(10_000_000);
    let too_long = vec![b'\n'; (16 << 20) + 1];
    let program = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0>\0\x01\0\0\0\xb0\xa3\0\0";
    folder.put("b", "include a");
    assert_snapshot!(messages(
        &folder,
        &[
            ("empty", b""),
            ("section", b"[a"),
            ("global", b"[global]\ndirect=1\n"),
            ("option", b"[a]\ndirect=1\nrw=wri"),
            ("value", b"[a]\ndirect=1\nrw="),
            ("variable", b"[a]\ndirect=1\nsize=${SI"),
            ("latin-1", b"[a]\ndirect=1\ndescription=na\xefve\n"),
            ("program", program),
            ("nul", b"[a]\n\0\0\0\0"),
            ("long-option", long_option.as_bytes()),
            ("long-junk", long_junk.as_bytes()),
            ("too-long", &too_long),
            ("a", b"[a]\ninclude b"),
            ("self", b"[a]\ninclude self"),
            ("missing", b"[a]\ninclude nothing"),
        ]
    ));
}

#[test]
fn numbers_out_of_range_are_refused() {
    let folder = Folder::new("numbers");
    let options = [
        "size=99999999999999999999g",
        "size=9223372036854775807p",
        "size=0",
        "size=-1",
        "size=4.5k",
        "size=200%",
        "bs=0",
        "bs=-4k",
        "bs=1000",
        "bs=31g",
        "bssplit=4k/60:64k/50",
        "offset=-4k",
        "offset=64g",
        "offset=1k",
        "offset=100",
        "io_size=0",
        "runtime=-1",
        "runtime=18446744073709551615",
        "startdelay=9999999999d",
        "startdelay=36501d",
        "runtime=3153600001",
        "log_avg_msec=9000000000000",
        "loops=18446744073709551615",
        "numjobs=0",
        "numjobs=100000",
        "iodepth=0",
        "rwmixread=101",
        "rate=1",
        "time_based",
    ];
    let mut messages = String::new();
    for option in options {
        let text = format!("[a]\ndirect=1\n{option}\n");
        let output = folder.put("job", text).run(&["bench", "sd/kingston", "job"]);
        // An offset inside a page is the only valid option in this list.
        if option == "offset=1k" {
            output.succeeded();
            continue;
        }
        messages.push_str(&output.refused());
    }
    assert_snapshot!(messages);
}

#[test]
fn jobs_beyond_150_years_of_simulated_time_are_refused() {
    let folder = Folder::new("time");
    let job = "--direct=1 --rw=read --bs=4k --name=a";
    folder.line(&format!("bench sd/kingston {job} --thinktime=36500d --number_ios=2")).succeeded();
    folder.put("late", "fio version 3 iolog\n0 a add\n0 a open\n9000000000000000 a write 0 4096\n");
    for more in [
        "--thinktime=36500d --number_ios=9",
        "--startdelay=36500d --ramp_time=36500d --runtime=36500d --time_based --thinktime=36500d",
        "--startdelay=36500d --number_ios=1 --name=b --stonewall --startdelay=36500d --number_ios=1",
        "--read_iolog=late",
    ] {
        let err = folder.line(&format!("bench sd/kingston {job} {more}")).refused();
        assert!(err.contains("not done after 150 years of simulated time"), "{more}: {err}");
    }
}

#[test]
fn an_invalid_profile_is_refused_with_line_column_and_expectation() {
    let folder = Folder::new("profile");
    let kingston = include_str!("../../../../../profiles/sd/kingston.toml");
    let with = |key: &str, line: &str| {
        let lines = kingston.lines().map(|l| if l.starts_with(key) { line } else { l });
        lines.flat_map(|line| [line, "\n"]).collect::<String>()
    };
    let mut messages = String::new();
    for (key, line) in [
        ("t_prog =", "t_prog = \"0us\""),
        ("t_prog =", "t_prog = \"346KiB\""),
        ("t_prog =", "t_prog = 346"),
        ("t_prog =", "t_prog = \"346 us\""),
        ("t_prog =", "t_prog = \"-1us\""),
        ("t_prog =", "t_prog = \"99999999999999999999s\""),
        ("t_prog =", "t_porg = \"346us\""),
        ("t_prog =", "t_prog = \"346us"),
        ("page =", "page = \"7KiB\""),
        ("capacity =", "capacity = \"0MiB\""),
        ("host =", "host = \"raspberry-pi-9\""),
    ] {
        let err = folder.put("my.toml", with(key, line)).run(&["bench", "my.toml", "job"]).refused();
        // The message must contain a line number. The snapshot omits the number, since it depends on the profile's
        // text.
        let place = err.split(": ").nth(1).unwrap_or_default();
        let at = place.split(':').nth(1).and_then(|n| n.parse::<usize>().ok());
        assert!(at.is_some_and(|n| n > 1), "{err}");
        let first = err.lines().next().unwrap_or_default();
        messages.push_str(&first.replacen(&format!(":{}:", at.unwrap_or(0)), ":LINE:", 1));
        messages.push('\n');
    }
    assert_snapshot!(messages);
}

#[test]
fn missing_files_and_folders_are_named() {
    let folder = Folder::new("files");
    folder.put("job", JOB).put("folder/x", "");
    let mut messages = String::new();
    for line in [
        "bench sd/kingston nothing",
        "bench sd/kingston folder",
        "bench nothing.toml job",
        "bench folder job",
        "bench --against nothing sd/kingston job",
        "bench --against folder sd/kingston job",
        "bench sd/kingston --name=a --direct=1 --read_iolog=nothing",
        "bench sd/kingston --name=a --direct=1 --read_iolog=folder",
        "--library nothing devices",
        "--library folder devices",
        "--library job devices",
        "run ./folder",
    ] {
        messages.push_str(&folder.line(line).refused());
    }
    assert_snapshot!(messages);
}

#[test]
fn a_library_is_checked_before_anything_runs() {
    let folder = Folder::new("library");
    let kingston = include_str!("../../../../../profiles/sd/kingston.toml");
    folder.put("lib/profiles/sd/mine.toml", kingston);
    assert!(folder.line("--library lib devices").succeeded().contains("  sd/mine "));
    folder.put("lib/profiles/sd/kingston.toml", kingston);
    assert!(folder.line("--library lib devices").refused().contains("sd/kingston exists already"));
    let _ = std::fs::remove_file(folder.path("lib/profiles/sd/kingston.toml"));
    folder.put("lib/profiles/host/mine.toml", kingston);
    assert!(folder.line("--library lib devices").refused().contains("expected it in profiles/sd/"));
    let _ = std::fs::remove_file(folder.path("lib/profiles/host/mine.toml"));
    folder.put("lib/experiments/mine/README.md", "");
    assert!(
        folder
            .line("--library lib devices")
            .refused()
            .contains("lib/experiments/mine: has no experiment.toml")
    );
}

#[test]
fn an_invalid_experiment_is_refused_with_the_place() {
    let folder = Folder::new("experiment");
    let at91 = include_str!("../../../../../experiments/at91/experiment.toml");
    folder.put("mine/published.toml", include_str!("../../../../../experiments/at91/published.toml"));
    let mut messages = String::new();
    for (from, to) in [
        ("runs = 1", "runs = 0"),
        ("runs = 1", "runs = \"one\""),
        ("runs = 1", "runz = 1"),
        ("kind = \"matrix\"", "kind = \"sweep\""),
        ("unit = \"B/s\"", "unit = \"furlong\""),
        ("--rw=read", "--rw=raed"),
        ("--bs=1m", "--bs=1000"),
        ("\"sd/sandisk-2gb\"", "\"sd/sandisk-3gb\""),
        ("host.command_max=512B", "host.command_max=512q"),
        ("percent = 1.0", "percents = 1.0"),
    ] {
        assert!(at91.contains(from), "{from}");
        folder.put("mine/experiment.toml", at91.replacen(from, to, 1));
        messages.push_str(&folder.line("run ./mine --no-html").refused());
    }
    folder.put("mine/experiment.toml", &at91.as_bytes()[..700]);
    messages.push_str(&folder.line("run mine/experiment.toml").refused());
    assert_snapshot!(messages);
    assert_eq!(folder.names(), ["mine"], "a refused experiment left a file");
}

#[test]
fn a_bound_without_cells_is_refused_with_the_names_of_the_cells() {
    let folder = Folder::new("bound");
    let experiment = |pattern: &str| {
        format!(
            "title = \"t\"\nkind = \"matrix\"\nsource = \"s\"\n[columns]\nmine = \"../cards/my.toml\"\n[[step]]\n\
             table = \"write\"\nunit = \"IOPS\"\njob = \"--name=w --rw=write --bs=4k --size=64k --direct=1\"\n\
             [[bound]]\nname = \"fast\"\ncells = [\"write/mine\", \"{pattern}\"]\nat_least = 1\n"
        )
    };
    let profile = include_str!("../../../../../profiles/sd/kingston.toml");
    folder.put("a/cards/my.toml", profile.split("\n[source]").next().expect("the first part"));
    folder.put("a/mine/published.toml", "");
    folder.put("a/mine/experiment.toml", experiment("wrte/*"));
    let refused = folder.line("run ./a/mine --no-html").refused();
    let expected = "bound \"fast\": cells = [\"wrte/*\"] matches no cell; the cells are write/mine";
    assert!(refused.contains(expected), "{refused}");
    // The path of the profile is relative to the experiment, in whichever folder the command runs.
    folder.put("a/mine/experiment.toml", experiment("wri*"));
    folder.line("run ./a/mine --no-html").succeeded();
    folder.line("run a/mine/experiment.toml --no-html").succeeded();
}

#[test]
fn an_invalid_iolog_is_refused_with_the_place() {
    let folder = Folder::new("iolog");
    let whole = include_str!("jobs/trace.log");
    let replay = "bench sd/kingston --name=a --direct=1 --read_iolog=log";
    let mut messages = String::new();
    for bytes in [
        &whole.as_bytes()[..100],
        b"",
        b"fio version 4 iolog\n",
        b"\x07\x65\x61\x74binary",
        b"fio version 3 iolog\n0 a add\n1 b write 0 4096\n",
        b"fio version 3 iolog\n0 a add\n1 a wirte 0 4096\n",
        b"fio version 3 iolog\n0 a add\n1 a write 0 99999999999999999999\n",
        b"fio version 3 iolog\n0 a add\n1 a write -4096 4096\n",
    ] {
        messages.push_str(&folder.put("log", bytes).line(replay).refused());
    }
    assert_snapshot!(messages);
}

#[test]
fn a_refused_request_ends_the_job_with_a_message() {
    let folder = Folder::new("refused");
    let replay = "bench sd/kingston --name=a --direct=1 --read_iolog=log";
    for request in ["write 100 77", "write 99999999999999 4096"] {
        folder.put("log", format!("fio version 3 iolog\n0 a add\n0 a open\n1 a {request}\n"));
        let output = folder.line(replay);
        assert!(output.out.contains("\na: (groupid=0, jobs=1): err="), "{}", output.out);
        let err = output.failed();
        assert!(err.contains("flashlab: job `a` ended early: the device rejected a write"), "{err}");
        let compared = folder.line(&replay.replace("bench", "compare")).failed();
        assert!(compared.contains("job `a` ended early"), "{compared}");
    }
}

#[test]
fn against_refuses_files_that_are_not_fio_results() {
    let folder = Folder::new("against");
    folder.put("job", JOB);
    let run = folder.line("bench sd/kingston job --output-format=json").succeeded();
    let two = "bench sd/kingston --direct=1 --number_ios=5 --name=b --name=c --output-format=json";
    let two = folder.line(two).succeeded();
    let mut messages = String::new();
    for bytes in [
        b"".as_slice(),
        b"[]",
        b"{\"jobs\":[]}",
        &run.as_bytes()[..500],
        b"\xff\xfe\x00",
        "[".repeat(100_000).as_bytes(),
        two.as_bytes(),
    ] {
        messages.push_str(
            &folder.put("real.json", bytes).line("bench --against real.json sd/kingston job").refused(),
        );
    }
    assert_snapshot!(messages);
    folder.put("real.json", &run);
    let same = folder.line("bench --against real.json sd/kingston job").succeeded();
    assert!(same.contains("0.0 %"), "{same}");
    let both = folder.line("bench --against real.json sd/kingston job --output-format=json").refused();
    assert!(both.contains("--against prints a table of its own"), "{both}");
}

#[test]
fn arguments_that_are_not_text_are_refused() {
    let folder = Folder::new("arguments");
    let odd = OsStr::from_bytes(b"\xff\xfe");
    let word = OsStr::new;
    for arguments in [
        vec![odd],
        vec![word("run"), odd],
        vec![word("bench"), odd, word("job")],
        vec![word("bench"), word("sd/kingston"), odd],
        vec![word("bench"), word("--against"), odd, word("sd/kingston"), word("job")],
        vec![word("explain"), odd],
        vec![word("--library"), odd, word("devices")],
    ] {
        folder.run(&arguments).refused();
    }
}

/// An experiment that reads a profile and a saved state beside it.
const OWN_EXPERIMENT: &str = r#"
title = "Two cards"
kind = "matrix"
source = "none"
[columns]
mine = "mine.toml"
used = "sd/kingston:state=used.state"
[[step]]
table = "write"
unit = "IOPS"
job = "--name=w --direct=1 --rw=write --bs=4k --size=16k"
"#;

#[test]
fn no_output_replaces_a_file_that_the_command_reads() {
    let folder = Folder::new("output-is-input");
    folder.put("trace.txt", "  8,0 1 1 0.500000001 7 Q R 0 + 8 [x]\n").put("job.fio", JOB);
    folder.put("cells.csv", "job,value,sd\nrw=randread bs=4k,5,1\n").put("disk.img", [0; 8192]);
    assert_eq!(folder.line("recording import --from blkparse --to run.rec trace.txt").code, Some(0));
    std::os::unix::fs::symlink("job.fio", folder.path("link")).expect("the name is new");
    let result = folder.line("bench sd/kingston --output-format=json --output=run.json job.fio");
    assert_eq!(result.code, Some(0), "{}", result.err);
    assert_eq!(folder.line("age sd/kingston job.fio --to used.state").code, Some(0));
    folder.put("mine.toml", include_str!("../../../../../profiles/sd/kingston.toml"));
    folder.put("experiment.toml", OWN_EXPERIMENT).put("published.toml", "");
    let names = folder.names();
    let before: Vec<_> = names.iter().map(|name| std::fs::read(folder.path(name)).expect(name)).collect();
    for (line, output) in [
        ("recording import --from blkparse --to trace.txt trace.txt", "trace.txt"),
        ("recording export --to run.rec run.rec", "run.rec"),
        ("age --to job.fio sd/kingston job.fio", "job.fio"),
        ("bench --html link sd/kingston job.fio", "link"),
        ("compare --html ./job.fio sd/kingston job.fio", "./job.fio"),
        ("diff --html run.json run.json run.json", "run.json"),
        ("bench --html mine.toml ./mine.toml job.fio", "mine.toml"),
        ("bench --html used.state sd/kingston:state=used.state job.fio", "used.state"),
        ("bench sd/kingston job.fio --output=job.fio", "job.fio"),
        ("bench ./mine.toml job.fio --output mine.toml", "mine.toml"),
        ("bench --against run.json --html run.json sd/kingston job.fio", "run.json"),
        ("compare --html mine.toml ./mine.toml sd/kingston job.fio", "mine.toml"),
        ("age ./mine.toml:cycles=100 job.fio --to mine.toml", "mine.toml"),
        ("run endurance --devices ./mine.toml:cycles=3000 --html mine.toml", "mine.toml"),
        ("run . --html experiment.toml", "experiment.toml"),
        ("run ./experiment.toml --html ./published.toml", "./published.toml"),
        ("run . --html mine.toml", "mine.toml"),
        ("run . --html used.state", "used.state"),
        ("fit cells.csv --host raspberry-pi-4 --to cells.csv", "cells.csv"),
        ("probe disk.img --to disk.img", "disk.img"),
        ("measure disk.img --to disk.img", "disk.img"),
        ("record --fs ext4 --fio job.fio --to job.fio", "job.fio"),
    ] {
        let run = folder.line(line);
        assert_eq!(run.code, Some(2), "{line}: {}", run.err);
        let expected =
            format!("flashlab: {output}: the output would replace this file, which the command reads;");
        assert!(run.err.contains(&expected), "{line}: {}", run.err);
    }
    assert_eq!(folder.names(), names);
    for (name, before) in names.iter().zip(before) {
        assert!(std::fs::read(folder.path(name)).expect(name) == before, "{name}");
    }
    // A result may replace an earlier result, even if the name of its file is a separate word of the command
    // line.
    let again =
        folder.line("bench --html run.html sd/kingston job.fio --output-format=json --output run.json");
    assert_eq!(again.code, Some(0), "{}", again.err);
}

#[test]
fn an_option_of_fio_before_the_device_is_refused_with_the_right_order() {
    let folder = Folder::new("order");
    for line in ["bench --name=a sd/kingston", "compare --output=x sd/kingston", "age --rw=read sd/kingston"]
    {
        let run = folder.line(line);
        assert_eq!(run.code, Some(2), "{line}");
        assert!(
            run.err.contains("tip: options of fio follow the device: sd/kingston --name=a"),
            "{}",
            run.err
        );
        assert!(!run.err.contains("-- --"), "{}", run.err);
    }
    let similar = folder.line("bench --htlm page.html sd/kingston").err;
    assert!(similar.contains("'--html'") && !similar.contains("options of fio"), "{similar}");
}

#[test]
fn a_target_without_a_block_to_read_is_refused_by_its_size() {
    let folder = Folder::new("empty-target");
    folder.put("empty", "");
    let error = folder.line("probe empty").refused();
    assert!(error.contains("empty: it has 0 bytes; a probe needs at least 4096"), "{error}");
}
