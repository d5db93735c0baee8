//! Binary traces of blktrace. The tests write them as `linux/blktrace_api.h` specifies, and compare the import with the
//! output of `blkparse`.

use flashlab_recording::{Action, Import, Step, TraceFormat};
use flashlab_sim::Op;
use proptest::prelude::*;
use std::path::PathBuf;
use std::process::Command;

const READ: u32 = 1 << 16;
const WRITE: u32 = 1 << 17;
const FLUSH: u32 = 1 << 18;
const SYNC: u32 = 1 << 19;
const QUEUE: u32 = 1 << 20 | 1;
const ISSUE: u32 = 1 << 22 | 7;
const NOTIFY: u32 = 1 << 26;
const AHEAD: u32 = 1 << 27;
const META: u32 = 1 << 28;
const DISCARD: u32 = 1 << 29;
const FUA: u32 = 1 << 31;
const CGROUP: u32 = 1 << 8;
const SDA: u32 = 8 << 20;

/// An event of process 700 + `cpu` on processor `cpu`.
fn event(at: u64, cpu: u32, action: u32, sector: u64, bytes: u32) -> Vec<u8> {
    with(at, cpu, action, (sector, bytes), SDA, &[])
}

fn with(at: u64, cpu: u32, action: u32, (sector, bytes): (u64, u32), device: u32, pdu: &[u8]) -> Vec<u8> {
    let mut event = Vec::new();
    event.extend_from_slice(&(0x6561_7400u32 | 7).to_le_bytes());
    event.extend_from_slice(&(at as u32).to_le_bytes());
    event.extend_from_slice(&at.to_le_bytes());
    event.extend_from_slice(&sector.to_le_bytes());
    for word in [bytes, action, 700 + cpu, device, cpu] {
        event.extend_from_slice(&word.to_le_bytes());
    }
    event.extend_from_slice(&0u16.to_le_bytes());
    event.extend_from_slice(&(pdu.len() as u16).to_le_bytes());
    event.extend_from_slice(pdu);
    event
}

fn named(at: u64, cpu: u32, name: &str) -> Vec<u8> {
    let mut comm = [0; 16];
    comm[..name.len()].copy_from_slice(name.as_bytes());
    with(at, cpu, NOTIFY, (0, 0), 0, &comm)
}

/// Two processors, all kinds of requests, and events without a request of their own.
fn trace() -> [Vec<u8>; 2] {
    [
        [
            named(10, 0, "kjournald"),
            event(1829, 0, QUEUE | WRITE | SYNC, 223_490, 4096),
            event(2829, 0, ISSUE | WRITE | SYNC, 223_490, 4096),
            event(500_001_829, 0, QUEUE | WRITE | FLUSH | FUA | SYNC | META, 64, 8192),
            event(600_001_829, 0, QUEUE | WRITE | FLUSH | SYNC, 0, 0),
            event(1_000_001_829, 0, QUEUE | WRITE | DISCARD, 4096, 1 << 20),
        ]
        .concat(),
        [
            named(20, 1, "cat [2]"),
            event(250_001_829, 1, QUEUE | READ | AHEAD, 0, 131_072),
            event(600_001_900, 1, QUEUE | READ | META, 8, 4096),
            event(700_000_000, 1, QUEUE | WRITE | FUA, 16, 512),
            // A flush without data, as `blkdev_issue_flush` queues it.
            event(800_000_000, 1, QUEUE | WRITE | FLUSH, 0, 0),
        ]
        .concat(),
    ]
}

fn import(files: &[Vec<u8>], device: Option<&str>) -> Result<Vec<Step>, String> {
    let files = files.iter().map(Vec::as_slice).collect();
    Import::blktrace(files, device).collect::<Result<_, _>>().map_err(|error| error.to_string())
}

fn brief(step: &Step) -> (u64, Op, u64, u64) {
    let Action::Request { op, offset, length, .. } = step.action else { panic!("traces have no marks") };
    (step.at.as_ns(), op, offset, length)
}

#[test]
fn events_of_all_processors_become_the_requests_that_were_queued() {
    let steps = import(&trace(), None).unwrap();
    assert_eq!(
        steps.iter().map(brief).collect::<Vec<_>>(),
        [
            (0, Op::Write, 223_490 * 512, 4096),
            (250_000_000, Op::Read, 0, 131_072),
            (500_000_000, Op::Flush, 0, 0),
            (500_000_000, Op::WriteFua, 32_768, 8192),
            (600_000_000, Op::Flush, 0, 0),
            (600_000_071, Op::Read, 4096, 4096),
            (699_998_171, Op::WriteFua, 8192, 512),
            (799_998_171, Op::Flush, 0, 0),
            (1_000_000_000, Op::Trim, 2_097_152, 1_048_576),
        ]
    );
    let files = trace();
    let mut import = Import::blktrace(files.iter().map(Vec::as_slice).collect(), None);
    assert_eq!(import.by_ref().count(), 9);
    assert_eq!(import.tasks(), ["kjournald", "cat [2]"]);
}

#[test]
fn the_number_of_a_control_group_is_skipped() {
    let group = [7; 8];
    let mut name = group.to_vec();
    name.extend_from_slice(b"cat\0\0\0\0\0\0\0\0\0\0\0\0\0");
    let file = [
        with(1, 0, NOTIFY | CGROUP, (0, 0), 0, &name),
        with(2, 0, QUEUE | WRITE | CGROUP, (8, 512), SDA, &group),
        event(3, 0, QUEUE | READ, 0, 512),
    ]
    .concat();
    let mut import = Import::blktrace(vec![&file[..]], None);
    let steps: Vec<_> = import.by_ref().map(|step| brief(&step.unwrap())).collect();
    assert_eq!(steps, [(0, Op::Write, 4096, 512), (1, Op::Read, 0, 512)]);
    assert_eq!(import.tasks(), ["cat"]);
}

#[test]
fn a_trace_of_a_big_endian_machine_is_read() {
    /// Swaps each field of the event.
    fn swapped(event: &[u8]) -> Vec<u8> {
        let mut fields = event.to_vec();
        let mut at = 0;
        for length in [4, 4, 8, 8, 4, 4, 4, 4, 4, 2, 2] {
            fields[at..at + length].reverse();
            at += length;
        }
        fields
    }
    let little = [event(5, 0, QUEUE | READ, 8, 4096), named(6, 0, "a"), event(9, 0, QUEUE | WRITE, 64, 512)];
    let big = little.iter().flat_map(|event| swapped(event)).collect();
    assert_eq!(import(&[big], None).unwrap(), import(&[little.concat()], None).unwrap());
}

#[test]
fn blkparse_reads_the_same_requests_from_the_same_bytes() {
    let Ok(version) = Command::new("blkparse").arg("-V").output() else {
        eprintln!("skipped: blkparse is not installed");
        return;
    };
    assert!(version.status.success());
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("blkparse-reads");
    std::fs::create_dir_all(&folder).unwrap();
    let files = trace();
    for (cpu, bytes) in files.iter().enumerate() {
        std::fs::write(folder.join(format!("sda.blktrace.{cpu}")), bytes).unwrap();
    }
    let parsed = Command::new("blkparse").args(["-q", "-i", "sda"]).current_dir(&folder).output().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let text = String::from_utf8(parsed.stdout).unwrap();
    let mut of_text = Import::new(text.as_bytes(), TraceFormat::Blkparse, None);
    let from_text: Vec<Step> = of_text
        .by_ref()
        .collect::<Result<_, _>>()
        .unwrap_or_else(|error| panic!("{error} in\n{text}{}", String::from_utf8_lossy(&parsed.stderr)));
    let mut of_bytes = Import::blktrace(files.iter().map(Vec::as_slice).collect(), None);
    let from_bytes: Vec<Step> = of_bytes.by_ref().collect::<Result<_, _>>().unwrap();
    assert_eq!(from_text, from_bytes, "{text}");
    assert_eq!(of_text.tasks(), of_bytes.tasks());
}

#[test]
fn one_device_of_several_is_chosen_by_its_number() {
    let other = with(3, 0, QUEUE | READ, (8, 512), SDA + 16, &[]);
    let file = [event(1, 0, QUEUE | READ, 0, 512), other, event(4, 0, QUEUE | READ, 16, 512)].concat();
    let error = import(std::slice::from_ref(&file), None).unwrap_err();
    assert_eq!(error, "at byte 48: the trace has several devices, 8,0 and 8,16: choose one");
    assert_eq!(import(std::slice::from_ref(&file), Some("8,0")).unwrap().len(), 2);
    assert_eq!(import(&[file], Some("8,16")).unwrap().len(), 1);
}

#[test]
fn files_that_cannot_be_read_are_refused_with_their_offset() {
    let good = event(1, 0, QUEUE | READ, 0, 512);
    let mut newer = event(2, 0, QUEUE | READ, 0, 512);
    newer[0] = 8;
    for (bytes, problem) in [
        (
            b"8,0 1 1 0.000000000 7 Q R 0 + 8 [cat], a text that is no file".to_vec(),
            "at byte 0: this is not a file",
        ),
        (good[..47].to_vec(), "at byte 47: the file ends within an event"),
        (named(1, 0, "cat")[..60].to_vec(), "at byte 60: the file ends within an event"),
        ([&good[..], &[0; 48]].concat(), "at byte 48: no event of blktrace begins here"),
        (
            [&good[..], &newer].concat(),
            "at byte 48: version 8 of blktrace's format: this program reads version 7",
        ),
        (
            event(1, 0, QUEUE | READ, u64::MAX / 512, 1024),
            "at byte 0: sector 36028797018963967 is beyond 16 EiB",
        ),
    ] {
        let error = import(&[bytes], None).unwrap_err();
        assert!(error.starts_with(problem), "{error}");
    }
}

proptest! {
    #[test]
    fn any_events_are_imported_or_refused(
        words in prop::collection::vec((0u64..2000, any::<u32>(), any::<u64>(), any::<u32>(), 0usize..64), 0..40),
        cut in 0usize..64,
    ) {
        let mut file: Vec<u8> = words
            .into_iter()
            .flat_map(|(at, action, sector, bytes, pdu)| with(at, 0, action, (sector, bytes), SDA, &[b'x'; 64][pdu..]))
            .collect();
        file.truncate(file.len().saturating_sub(cut));
        if let Err(error) = import(&[file], None) {
            prop_assert!(error.starts_with("at byte "));
        }
    }
}
