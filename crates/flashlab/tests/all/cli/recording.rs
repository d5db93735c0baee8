//! `flashlab recording`: from a trace to a replay, and refusals.

use super::folder::Folder;
use serde_json::Value;

const TRACE: &str = "\
  8,0    3        2     0.000001829   697  Q  WS 223490 + 8 [kjournald]
  8,0    1        4     0.250001829   700  Q  RA 0 + 256 [cat]
  8,0    1        5     0.500001829   701  Q FWFSM 64 + 16 [jbd2/sda1-8]
  8,0    1        7     1.000001829   702  Q   D 4096 + 2048 [fstrim]
";

fn imported(name: &str) -> Folder {
    let folder = Folder::new(name);
    folder.put("trace.txt", TRACE);
    let run = folder.run(&["recording", "import", "--from", "blkparse", "--to", "run.rec", "trace.txt"]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    folder
}

#[test]
fn an_imported_trace_is_counted_and_replayed() {
    let folder = imported("recording-replay");
    let info: Value =
        serde_json::from_str(&folder.run(&["recording", "info", "--json", "run.rec"]).out).unwrap();
    assert_eq!(info["requests"]["writes"]["bytes"], 12_288);
    assert_eq!(info["end_bytes"], 114_430_976);
    assert_eq!(info["tasks"], serde_json::json!(["kjournald", "cat", "jbd2/sda1-8", "fstrim"]));
    let run = folder.run(&["recording", "replay", "sd/kingston", "run.rec"]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    assert!(run.out.starts_with("replayed by timestamps in 1.00 s"), "{}", run.out);
    let is_wrote = |line: &str| line.split_whitespace().eq(["host", "wrote", "12.0", "KiB"]);
    assert!(run.out.lines().any(is_wrote), "{}", run.out);
    assert!(run.err.contains("was written up to byte 131072"), "{}", run.err);
    let fast =
        folder.run(&["recording", "replay", "--mode", "fast", "--unwritten", "sd/kingston", "run.rec"]);
    assert!(fast.out.starts_with("replayed as fast as possible, 32 requests in flight in "), "{}", fast.out);
    assert!(!fast.err.contains("was written"), "{}", fast.err);
}

#[test]
fn a_recording_that_cannot_be_replayed_is_refused_with_the_place() {
    let folder = imported("recording-refused");
    let refused = |words: &[&str]| {
        let run = folder.run(&[&["recording"], words].concat());
        assert_eq!(run.code, Some(2), "{}", run.err);
        run.err
    };
    let error = refused(&["replay", "sd/kingston:card.capacity=64MiB", "run.rec"]);
    assert!(error.contains("run.rec: step 0 reaches byte 114430976"), "{error}");
    let error = refused(&["replay", "--mode", "dependencies", "sd/kingston", "run.rec"]);
    assert!(error.contains("run.rec: the recording has no dependencies"), "{error}");
    for (words, option) in [
        (&["--mode", "fast", "--scale", "200"][..], "--scale applies to --mode timestamps only"),
        (&["--depth", "4"], "--depth applies to --mode fast only"),
        (&["--mode", "timestamps", "--depth", "4"], "--depth applies to --mode fast only"),
    ] {
        let error = refused(&[&["replay"], words, &["sd/kingston", "run.rec"]].concat());
        assert!(error.contains(option), "{error}");
    }
    let error = refused(&["info", "trace.txt"]);
    assert!(error.contains("trace.txt: at byte 0: this is not a recording"), "{error}");
    folder.put("job.fio", "[a]\nrw=read\n");
    let error = refused(&["import", "--from", "blkparse", "--to", "bad.rec", "job.fio"]);
    assert!(
        error.contains("job.fio: it contains no request when read as text of blkparse; check --from"),
        "{error}"
    );
    let error = refused(&["import", "--from", "blkparse", "--to", "bad.rec", "none.txt"]);
    assert!(error.contains("none.txt: No such file"), "{error}");
    folder.put("bad.txt", "8,0 1 1 0.5 7 Q R 0 + 8 [x]\n");
    let error = refused(&["import", "--from", "blkparse", "--to", "bad.rec", "bad.txt"]);
    assert!(error.contains("bad.txt: line 1: time `0.5`"), "{error}");
}

#[test]
fn an_exported_recording_is_imported_again() {
    let folder = imported("recording-export");
    let run = folder.run(&["recording", "export", "--to", "run.log", "--name", "disk", "run.rec"]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    assert!(run.err.contains("5 requests of run.rec are in run.log"), "{}", run.err);
    assert!(
        run.err.contains("1 writes with force unit access became writes, each followed by a datasync"),
        "{}",
        run.err
    );
    let log = folder.read("run.log");
    assert!(
        log.starts_with("fio version 3 iolog\n0 disk add\n0 disk open\n0 disk write 114426880 4096\n"),
        "{log}"
    );
    let run = folder.run(&["recording", "import", "--from", "iolog", "--to", "again.rec", "run.log"]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    let info: Value =
        serde_json::from_str(&folder.run(&["recording", "info", "--json", "again.rec"]).out).unwrap();
    assert_eq!(
        (&info["end_bytes"], &info["requests"]["flushes"]["requests"]),
        (&114_430_976.into(), &2.into())
    );
    let refused = folder.run(&["recording", "export", "--to", "x.log", "--name", "a b", "run.rec"]);
    assert!(refused.refused().contains("the name of a file in an iolog cannot be empty or contain spaces"));
}

#[test]
fn a_recording_and_an_iolog_can_go_to_standard_output() {
    let folder = imported("recording-stdout");
    let names = folder.names();
    let run = folder.line("recording export --to - --name disk run.rec");
    assert!(run.err.contains("5 requests of run.rec are in standard output"), "{}", run.err);
    let log = run.succeeded();
    assert!(log.starts_with("fio version 3 iolog\n0 disk add\n") && log.ends_with(" disk close\n"), "{log}");
    let mut import = folder.command(&["recording", "import", "--from", "blkparse", "--to", "-", "trace.txt"]);
    let output = import.output().expect("the program is built");
    assert_eq!(output.stdout, std::fs::read(folder.path("run.rec")).expect("the trace was imported"));
    assert_eq!(folder.names(), names);
    // `./-` names a file that is called `-`.
    folder.line("recording export --to ./- run.rec").succeeded();
    assert!(folder.path("-").is_file());
}

#[test]
fn a_trace_of_blktrace_is_found_by_its_common_name() {
    let folder = Folder::new("recording-blktrace");
    let missing = folder.run(&["recording", "import", "--from", "blktrace", "--to", "run.rec", "sda"]);
    assert!(missing.refused().contains("sda: neither this file nor sda.blktrace.0 exists"));
    let event = |at: u64, sector: u64| {
        let mut event = vec![0; 48];
        event[..4].copy_from_slice(&0x6561_7407u32.to_le_bytes());
        event[8..16].copy_from_slice(&at.to_le_bytes());
        event[16..24].copy_from_slice(&sector.to_le_bytes());
        event[24..28].copy_from_slice(&4096u32.to_le_bytes());
        event[28..32].copy_from_slice(&(1u32 << 16 | 1).to_le_bytes());
        event
    };
    folder.put("sda.blktrace.0", event(5000, 8)).put("sda.blktrace.2", event(1000, 64));
    let run = folder.run(&["recording", "import", "--from", "blktrace", "--to", "run.rec", "sda"]);
    assert!(run.err.contains("2 requests of sda are in run.rec"), "{}", run.err);
    folder.put("sda.blktrace.1", "short");
    let run = folder.run(&["recording", "import", "--from", "blktrace", "--to", "run.rec", "sda"]);
    assert!(run.refused().contains("sda.blktrace.1: at byte 5: the file ends within an event"));
}

#[test]
fn a_recording_can_take_the_place_of_a_job() {
    let folder = imported("recording-as-a-job");
    let run = folder.line("bench --html page.html sd/kingston run.rec --output-format=json");
    assert_eq!(run.code, Some(0), "{}", run.err);
    let report: Value = serde_json::from_str(&run.out).expect("fio's JSON");
    let job = &report["jobs"][0];
    assert_eq!(job["jobname"], "run");
    assert_eq!(job["read"]["total_ios"], 1);
    assert_eq!(job["write"]["io_bytes"], 12_288);
    assert_eq!(job["sync"]["total_ios"], 1);
    assert_eq!(report["flashlab"]["host_written_bytes"], 12_288);
    assert_eq!(report["flashlab"]["written_first_bytes"], 128 << 10, "up to the end of the last read");
    assert!(folder.read("page.html").contains("program"), "the page shows no mechanism");

    let compared = folder.line("compare sd/kingston sd/sandisk run.rec");
    assert_eq!(compared.code, Some(0), "{}", compared.err);
    assert!(compared.out.contains("kingston") && compared.out.contains("sandisk"), "{}", compared.out);

    let aged = folder.line("age --to used.state sd/kingston run.rec");
    assert_eq!(aged.code, Some(0), "{}", aged.err);
    let used = folder.line("recording replay sd/kingston:state=used.state run.rec");
    assert_eq!(used.code, Some(0), "{}", used.err);

    let lives = folder.line(
        "run endurance --job run.rec --devices sd/kingston --devices sd/sandisk --seeds 1 --budget 1 --no-html",
    );
    assert_eq!(lives.code, Some(0), "{}", lives.err);
    for device in ["sd/kingston", "sd/sandisk"] {
        let reason = format!("{device}: wear is not limited on {device}");
        assert!(lives.err.contains(&reason), "{}", lives.err);
    }
}

#[test]
fn a_replay_as_a_job_takes_the_same_time_as_a_replay() {
    let folder = imported("recording-same");
    for unwritten in ["", "--unwritten "] {
        is_same_as_a_job(&folder, unwritten);
    }
}

fn is_same_as_a_job(folder: &Folder, unwritten: &str) {
    let replay = folder.line(&format!("recording replay --json {unwritten}sd/kingston run.rec"));
    let replay: Value = serde_json::from_str(&replay.out).expect("JSON");
    let bench = folder.line(&format!("bench {unwritten}sd/kingston run.rec --output-format=json"));
    let bench: Value = serde_json::from_str(&bench.out).expect("JSON");
    let job = &bench["jobs"][0];
    for (kind, direction) in [("reads", "read"), ("writes", "write"), ("trims", "trim")] {
        let (ours, fios) = (&replay["requests"][kind], &job[direction]);
        assert_eq!(ours["count"], fios["total_ios"], "{kind}");
        assert_eq!(ours["max_ns"], fios["clat_ns"]["max"], "{kind}");
        let parts: u64 = ours["mechanisms_ns"].as_object().unwrap().values().filter_map(Value::as_u64).sum();
        let waiting = ours["waiting_ns"].as_u64().unwrap();
        let sum = ours["mean_ns"].as_f64().unwrap() * ours["count"].as_f64().unwrap();
        assert_eq!(parts + waiting, sum.round() as u64, "{kind}: {replay}");
    }
    assert_eq!(replay["mode"], "timestamps");
    assert_eq!(replay["flashlab"]["host_written_bytes"], 12_288);
}

#[test]
fn a_recording_as_a_job_is_refused_if_it_cannot_be_replayed() {
    let folder = imported("recording-job-refused");
    folder.put("two.fio", "[global]\ndirect=1\n[a]\nread_iolog=run.rec\n[b]\nrw=read\nsize=1m\n");
    folder.put(
        "after.fio",
        "[global]\ndirect=1\nbs=64k\n[a]\nrw=write\nsize=1m\n[b]\nstonewall\nread_iolog=run.rec\n",
    );
    for (line, why) in [
        ("bench sd/kingston:card.capacity=64MiB run.rec", "step 0 of the recording reaches byte 114430976"),
        ("bench sd/kingston run.rec --fsync=1", "remove fsync="),
        ("bench sd/kingston run.rec --loops=2", "remove loops="),
        ("bench --fs vfat sd/kingston run.rec", "leave --fs out"),
        ("bench sd/kingston two.fio", "which runs alone: add stonewall"),
        ("bench --compressibility 50 sd/kingston run.rec", "only simulates times"),
    ] {
        let run = folder.line(line);
        assert_ne!(run.code, Some(0), "{line}");
        assert!(run.err.contains(why), "{line}: {}", run.err);
    }
    let run = folder.line("bench sd/kingston after.fio");
    assert_eq!(run.code, Some(0), "{}", run.err);
    let recording = std::fs::read(folder.path("run.rec")).unwrap();
    folder.put("cut.rec", &recording[..recording.len() - 50]);
    let error = folder.line("bench sd/kingston cut.rec").refused();
    assert!(error.contains("cut.rec: at byte ") && error.contains("truncated"), "{error}");
}

#[test]
fn a_device_with_bytes_receives_data_of_the_stated_compressibility_and_reads_are_checked() {
    let folder = Folder::new("recording-bytes");
    // A write of 128 KiB, and later a read of the same range.
    folder.put("t.csv", "1,W,0,131072,0\n1,R,0,131072,1000\n");
    let run = folder.line("recording import --from alibaba --compressibility 75 --to run.rec t.csv");
    assert_eq!(run.code, Some(0), "{}", run.err);
    let zeros = |command: &str| {
        let path = folder.path("disk.img");
        let _ = std::fs::remove_file(&path);
        std::fs::write(&path, vec![0xff; 1 << 20]).unwrap();
        let run = folder.line(command);
        assert_eq!(run.code, Some(0), "{command}: {}", run.err);
        assert!(run.err.contains("32 blocks of 4 KiB were read back as written"), "{}", run.err);
        let bytes = std::fs::read(path).unwrap();
        let zeros = bytes[..131_072].iter().filter(|byte| **byte == 0).count();
        (zeros as f64 / 1_310.72).round() as u32
    };
    assert_eq!(zeros("recording replay file:disk.img run.rec"), 75);
    assert_eq!(zeros("bench file:disk.img run.rec"), 75);
    assert_eq!(zeros("recording replay --compressibility 25 file:disk.img run.rec"), 25);
    assert_eq!(zeros("bench --compressibility 50 file:disk.img run.rec"), 50);
}
