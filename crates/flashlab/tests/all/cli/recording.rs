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
