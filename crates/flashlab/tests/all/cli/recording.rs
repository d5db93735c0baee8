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
    assert!(run.out.starts_with("replayed by timestamps in 1.000"), "{}", run.out);
    assert!(run.out.contains("host wrote                    12.0 KiB"), "{}", run.out);
    assert!(run.err.contains("was written up to byte 131072"), "{}", run.err);
    let fast =
        folder.run(&["recording", "replay", "--mode", "fast", "--unwritten", "sd/kingston", "run.rec"]);
    assert!(fast.out.starts_with("replayed as fast as possible, 32 requests in flight in "), "{}", fast.out);
    assert!(!fast.err.contains("was written"), "{}", fast.err);
}

#[test]
fn what_cannot_be_replayed_is_refused_with_its_place() {
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
    assert!(run.err.contains("1 writes with force unit access became writes with a datasync"), "{}", run.err);
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
    assert!(refused.refused().contains("the name of a file in an iolog has no spaces"));
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
