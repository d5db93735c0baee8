//! Tests of the file format of recordings: round trips, and errors with their position.

use flashlab_recording::{
    Action, Cause, Event, Flags, Header, MarkKind, ReadError, ReadStep, Reader, Step, TaskId, Writer,
};
use flashlab_sim::{Duration, Op};
use proptest::prelude::*;

fn header() -> Header {
    Header {
        capacity: 1 << 30,
        block: 512,
        has_dependencies: true,
        kernel: "6.12.95".into(),
        filesystem: "ext4".into(),
        workload: "logger".into(),
        host: String::new(),
        compressibility_percent: Some(60),
        origin: "tracefs".into(),
    }
}

fn tasks() -> Vec<String> {
    vec!["fio".into(), "kworker/0:1".into(), "jbd2".into()]
}

fn write(steps: &[Step]) -> (Vec<u8>, String) {
    let mut writer = Writer::new(Vec::new(), &header(), &tasks()).unwrap();
    for step in steps {
        writer.push(step).unwrap();
    }
    writer.finish().unwrap()
}

fn read(bytes: &[u8]) -> Result<(Vec<Step>, String), ReadError> {
    let mut reader = Reader::new(bytes)?;
    let steps = reader.by_ref().collect::<Result<Vec<_>, _>>()?;
    assert_eq!((reader.header(), reader.tasks()), (&header(), &tasks()[..]));
    Ok((steps, reader.digest().expect("a complete recording has a digest").into()))
}

fn action() -> impl Strategy<Value = Action> {
    let ops = prop::sample::select(vec![Op::Read, Op::Write, Op::WriteFua, Op::Trim]);
    let flushes = prop::sample::select(vec![Op::Flush, Op::FlushData]);
    let flags = prop::array::uniform4(any::<bool>()).prop_map(|[sync, meta, read_ahead, background]| Flags {
        sync,
        meta,
        read_ahead,
        background,
    });
    let marks =
        vec![MarkKind::OperationBegins, MarkKind::OperationEnds, MarkKind::RunBegins, MarkKind::RunEnds];
    prop_oneof![
        4 => (ops, any::<u64>(), any::<u64>(), flags.clone()).prop_map(|(op, offset, length, flags)| {
            Action::Request { op, offset, length: length.min(u64::MAX - offset), flags }
        }),
        1 => (flushes, flags).prop_map(|(op, flags)| Action::Request { op, offset: 0, length: 0, flags }),
        1 => prop::sample::select(marks).prop_map(Action::Mark),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let cause = (any::<u32>(), any::<u64>(), 0..3);
    let step = (0u32..3, any::<u64>(), action(), prop::collection::vec(cause, 0..4));
    prop::collection::vec(step, 0..40).prop_map(|drawn| {
        let steps = drawn.into_iter().enumerate().map(|(number, (task, at, action, causes))| {
            let causes = causes.into_iter().map(|(back, time, kind)| match (kind, number as u32) {
                (0, _) | (_, 0) => Cause::Instant(Duration::from_ns(time)),
                (kind, number) => Cause::Step {
                    back: 1 + back % number,
                    event: if kind == 1 { Event::Started } else { Event::Completed },
                    think: Duration::from_ns(time),
                },
            });
            Step { task: TaskId(task), at: Duration::from_ns(at), action, causes: causes.collect() }
        });
        steps.collect()
    })
}

proptest! {
    #[test]
    fn a_written_recording_is_read_back(steps in steps()) {
        let (bytes, digest) = write(&steps);
        prop_assert_eq!(read(&bytes).unwrap(), (steps, digest));
    }

    #[test]
    fn reading_into_a_step_replaces_all_of_its_contents(steps in steps()) {
        let (bytes, _) = write(&steps);
        let (mut reader, mut slice) = (Reader::new(&bytes[..]).unwrap(), steps.iter());
        let [mut from_file, mut from_slice] = [0, 1].map(|task| Step {
            task: TaskId(task),
            at: Duration::ZERO,
            action: Action::Mark(MarkKind::RunEnds),
            causes: vec![Cause::Instant(Duration::ZERO); 3],
        });
        for step in &steps {
            prop_assert!(reader.read_step(&mut from_file).unwrap() && slice.read_step(&mut from_slice));
            prop_assert_eq!([&from_file, &from_slice], [step; 2]);
        }
        prop_assert!(!reader.read_step(&mut from_file).unwrap() && !slice.read_step(&mut from_slice));
        prop_assert!(!reader.read_step(&mut from_file).unwrap(), "the end remains");
    }

    #[test]
    fn random_bytes_after_the_version_are_rejected(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut file = b"flashrec\x01\x00".to_vec();
        file.extend(bytes);
        prop_assert!(read(&file).is_err());
    }
}

/// Sequential reads, enough for several chunks.
fn many() -> Vec<Step> {
    let step = |number: u64| Step {
        task: TaskId(0),
        at: Duration::from_us(number * 97),
        action: Action::Request {
            op: Op::Read,
            offset: number * 4096,
            length: 4096,
            flags: Flags::default(),
        },
        causes: vec![Cause::Instant(Duration::from_us(number * 97))],
    };
    (0..20_000).map(step).collect()
}

#[test]
fn a_recording_of_several_chunks_is_small_and_is_read_back_unchanged() {
    let (bytes, digest) = write(&many());
    assert_eq!(read(&bytes).unwrap(), (many(), digest));
    assert!(bytes.len() < 20_000 * 12, "{} bytes", bytes.len());
}

#[test]
fn every_truncation_is_rejected() {
    let (bytes, _) = write(&many()[..20]);
    for length in 0..bytes.len() {
        let error = read(&bytes[..length]).unwrap_err();
        assert_eq!(error.problem, "the recording is truncated", "{length} bytes");
        assert!(error.offset <= length as u64);
    }
}

#[test]
fn every_changed_byte_is_rejected() {
    let (bytes, _) = write(&many()[..20]);
    for place in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[place] ^= 0x40;
        let error = read(&damaged).expect_err(&format!("byte {place} was changed"));
        assert!(error.offset <= bytes.len() as u64, "{error}");
    }
}

#[test]
fn errors_name_a_foreign_file_and_another_version() {
    let message = |bytes: &[u8]| Reader::new(bytes).unwrap_err().to_string();
    assert_eq!(message(b"[global]\nrw=read\n"), "at byte 0: this is not a recording of flashlab");
    let newer = message(b"flashrec\x09\x00");
    assert_eq!(newer, "at byte 8: version 9 of the format: this program reads version 1");
}

#[test]
fn steps_that_could_not_be_read_back_are_not_written() {
    let refused = |step: Step| {
        let mut writer = Writer::new(Vec::new(), &header(), &tasks()).unwrap();
        writer.push(&step).unwrap_err().to_string()
    };
    let step = many().swap_remove(0);
    let first = Cause::Step { back: 1, event: Event::Started, think: Duration::ZERO };
    assert_eq!(
        refused(Step { task: TaskId(3), ..step.clone() }),
        "step 0: task 3 does not exist: the recording has 3 tasks"
    );
    let error = refused(Step { causes: vec![first], ..step.clone() });
    assert_eq!(error, "step 0: waits for a step at distance 1: expected 1 to 0");
    let itself = Cause::Step { back: 0, event: Event::Completed, think: Duration::ZERO };
    let error = refused(Step { causes: vec![itself], ..step });
    assert_eq!(error, "step 0: waits for itself, which is a cycle");
}

#[test]
fn a_header_of_an_earlier_writer_has_no_compressibility() {
    let unknown = Header { compressibility_percent: None, ..header() };
    let bytes = Writer::new(Vec::new(), &unknown, &tasks()).unwrap().finish().unwrap().0;
    let known = Writer::new(Vec::new(), &header(), &tasks()).unwrap().finish().unwrap().0;
    assert_eq!(bytes.len() + 1, known.len());
    assert_eq!(Reader::new(&bytes[..]).unwrap().header(), &unknown);
}
