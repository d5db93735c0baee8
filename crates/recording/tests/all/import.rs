//! Traces of other programs: lines in the formats that their authors document, and lines that are refused.

use flashlab_recording::{Action, Cause, Import, Step, TraceFormat};
use flashlab_sim::{Duration, Op};
use proptest::prelude::*;

/// Lines as in the manual of blktrace. `FWFSM` and `FWS` are values of the field RWBS for requests with a flush, as
/// Linux's `blk_fill_rwbs` writes them.
const BLKPARSE: &str = "\
  8,0    3        1     0.000000000   697  G   W 223490 + 8 [kjournald]
  8,0    3        2     0.000001829   697  Q  WS 223490 + 8 [kjournald]
  8,0    3        3     0.000002829   697  D  WS 223490 + 8 [kjournald]
  8,0    1        4     0.250001829   700  Q  RA 0 + 256 [cat]
  8,0    1        5     0.500001829   701  Q FWFSM 64 + 16 [jbd2/sda1-8]
  8,0    1        6     0.600001829   701  Q FWS [fsync]
  8,0    1        7     1.000001829   702  Q   D 4096 + 2048 [fstrim]
CPU3 (sda):
 Reads Queued:           1,      128KiB\t Writes Queued:           3,       12KiB
";

/// Lines as in the documentation of the MSR Cambridge traces.
const MSR: &str = "\
128166372003061629,usr,0,Read,7014609920,24576,41286
128166372016382155,usr,0,Write,1317441536,8192,1963
";
/// Lines as in the documentation of Alibaba's block traces.
const ALIBABA: &str = "419,W,8792731648,16384,1577808144360767\n419,R,4096,512,1577808144361767\n";

#[test]
fn processes_of_blkparse_become_tasks_with_their_names() {
    let text = format!(
        "{BLKPARSE}  8,0 1 8 1.000001900 700 Q R 0 + 8 [cat]\n  8,0 1 9 1.000002000 9 Q R 0 + 8 [a [b] c]\n"
    );
    let mut import = Import::new(text.as_bytes(), TraceFormat::Blkparse, None);
    let tasks: Vec<_> = import.by_ref().map(|step| step.unwrap().task.0).collect();
    assert_eq!(tasks, [0, 1, 2, 2, 3, 4, 1, 5]);
    assert_eq!(import.tasks(), ["kjournald", "cat", "jbd2/sda1-8", "fsync", "fstrim", "a [b] c"]);
}

#[test]
fn requests_are_sorted_by_their_time_stamps() {
    let text = "1,R,0,512,1005\n1,W,512,512,1000\n1,R,1024,512,1002\n";
    let steps = import(text, TraceFormat::Alibaba, None).unwrap();
    let expected = [(0, Op::Write, 512, 512), (2000, Op::Read, 1024, 512), (5000, Op::Read, 0, 512)];
    assert_eq!(steps.iter().map(brief).collect::<Vec<_>>(), expected);
}

#[test]
fn a_time_stamp_that_goes_far_back_is_refused() {
    let line = |at: u64| format!("1,R,0,512,{at}\n");
    let mut text: String = (0..70_000).map(|n| line(1000 + n)).collect();
    text += &line(6000);
    assert_eq!(
        import(&text, TraceFormat::Alibaba, None).unwrap().len(),
        70_001,
        "a time stamp may go back by up to 65,536 places"
    );
    text += &line(10);
    let error = import(&text, TraceFormat::Alibaba, None).unwrap_err();
    assert!(error.starts_with("line 70002: its time stamp is "), "{error}");
    assert!(error.ends_with("more than 65536 places earlier; sort the trace by time"), "{error}");
}

fn import(text: &str, format: TraceFormat, device: Option<&str>) -> Result<Vec<Step>, String> {
    Import::new(text.as_bytes(), format, device).collect::<Result<_, _>>().map_err(|error| error.to_string())
}

/// Instant in nanoseconds, operation, offset and length.
fn brief(step: &Step) -> (u64, Op, u64, u64) {
    let Action::Request { op, offset, length, .. } = step.action else { panic!("traces have no marks") };
    (step.at.as_ns(), op, offset, length)
}

#[test]
fn blkparse_lines_become_the_requests_that_were_queued() {
    let steps = import(BLKPARSE, TraceFormat::Blkparse, None).unwrap();
    assert_eq!(
        steps.iter().map(brief).collect::<Vec<_>>(),
        [
            (0, Op::Write, 223_490 * 512, 4096),
            (250_000_000, Op::Read, 0, 131_072),
            (500_000_000, Op::Flush, 0, 0),
            (500_000_000, Op::WriteFua, 32_768, 8192),
            (600_000_000, Op::Flush, 0, 0),
            (1_000_000_000, Op::Trim, 2_097_152, 1_048_576),
        ]
    );
    assert!(matches!(steps[3].causes[..], [Cause::Step { back: 1, .. }]), "the write waits for its flush");
    assert_eq!(steps[4].causes, [Cause::Instant(Duration::from_ms(600))]);
    let Action::Request { flags, .. } = steps[1].action else { panic!() };
    assert!(flags.read_ahead && !flags.sync);
}

#[test]
fn msr_and_alibaba_lines_become_requests_at_their_instants() {
    let steps = import(MSR, TraceFormat::Msr, None).unwrap();
    let expected = [(0, Op::Read, 7_014_609_920, 24_576), (1_332_052_600, Op::Write, 1_317_441_536, 8192)];
    assert_eq!(steps.iter().map(brief).collect::<Vec<_>>(), expected);
    let steps = import(ALIBABA, TraceFormat::Alibaba, None).unwrap();
    let expected = [(0, Op::Write, 8_792_731_648, 16_384), (1_000_000, Op::Read, 4096, 512)];
    assert_eq!(steps.iter().map(brief).collect::<Vec<_>>(), expected);
    let titled = format!("device_id,opcode,offset,length,timestamp\n{ALIBABA}");
    assert_eq!(import(&titled, TraceFormat::Alibaba, None).unwrap(), steps);
}

#[test]
fn one_device_of_several_is_chosen_by_name() {
    let two = format!("{ALIBABA}7,R,0,512,1577808144370000\n");
    let error = import(&two, TraceFormat::Alibaba, None).unwrap_err();
    assert_eq!(error, "line 3: the trace has several devices, 419 and 7: choose one");
    assert_eq!(import(&two, TraceFormat::Alibaba, Some("419")).unwrap().len(), 2);
    assert_eq!(import(&two, TraceFormat::Alibaba, Some("7")).unwrap().len(), 1);
}

#[test]
fn lines_that_cannot_be_read_are_refused_with_their_number() {
    for (format, line, problem) in [
        (TraceFormat::Msr, "1,usr,0,Erase,0,1,1", "type `Erase`: expected Read or Write"),
        (TraceFormat::Msr, "1,usr,0,Read,-5,1,1", "offset `-5` is not a number, or is too large"),
        (TraceFormat::Msr, "1,2", "2 fields: expected the 7 fields of an MSR trace"),
        (TraceFormat::Alibaba, "1,X,0,1,1", "opcode `X`: expected R or W"),
        (TraceFormat::Alibaba, "1,R,0,1,1.5", "time stamp `1.5` is not a number, or is too large"),
        (
            TraceFormat::Alibaba,
            "1,R,18446744073709551615,512,1",
            "512 bytes at 18446744073709551615 end after the last",
        ),
        (
            TraceFormat::Blkparse,
            "8,0 1 1 0.5 7 Q R 0 + 8 [x]",
            "time `0.5`: expected seconds with nine decimals",
        ),
        (TraceFormat::Blkparse, "8,0 1 1 0.500000000 7 Q R [x]", "operation `R` without `sector + count`"),
        (TraceFormat::Blkparse, "8,0 1 1 0.500000000 7 Q R 8 + 0 [x]", "operation `R` has no sectors"),
        (
            TraceFormat::Blkparse,
            "8,0 1 1 0.500000000 7 Q X 0 + 8 [x]",
            "operation `X` has none of R, W, D, N",
        ),
    ] {
        let error = import(&format!("\n{line}\n"), format, None).unwrap_err();
        assert!(error.starts_with(&format!("line 2: {problem}")), "{error}");
    }
    let endless = "8".repeat(10_000);
    assert_eq!(import(&endless, TraceFormat::Msr, None).unwrap_err(), "line 1: longer than 4096 bytes");
}

proptest! {
    #[test]
    fn any_text_is_imported_or_refused(
        text in "([0-9]{1,3}[, ]|[QRWDNFSMA]{1,3}[, ]|\\+ |0\\.[0-9]{9} |\\n|\\PC){0,60}",
        format in prop::sample::select(vec![TraceFormat::Blkparse, TraceFormat::Msr, TraceFormat::Alibaba]),
    ) {
        if let Err(error) = import(&text, format, None) {
            prop_assert!(error.starts_with("line "));
        }
    }
}
