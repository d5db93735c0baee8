//! Fuzzes the reader of recordings and the replay. The first byte chooses how the rest becomes a file,
//! because otherwise the checksums would keep random bytes from the decoders:
//!
//! - as it is;
//! - as a file with corrected checksums, number of steps and digest, as far as its lengths can be followed;
//! - as the contents of a header and of chunks, around which a valid file is built.
//!
//! Accepted steps survive another round trip, and every replay of them ends.
#![no_main]

use flashlab_recording::{Mode, Reader, Replay, Step, Writer};
use flashlab_sim::{Completion, Duration, Instant, Mechanism, Spent, Status, Workload};
use libfuzzer_sys::fuzz_target;
use sha2::{Digest, Sha256};
use std::collections::VecDeque;

const CRC: crc::Crc<u32> = crc::Crc::<u32>::new(&crc::CRC_32_ISO_HDLC);

fuzz_target!(|input: &[u8]| {
    let Some((form, bytes)) = input.split_first() else { return };
    let file = match form % 4 {
        0 => bytes.to_vec(),
        1 => corrected(bytes),
        _ => built(bytes),
    };
    let mut reader = match Reader::new(&file[..]) {
        Ok(reader) => reader,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let mut steps = Vec::new();
    for step in reader.by_ref() {
        match step {
            Ok(step) => steps.push(step),
            Err(error) => {
                assert!(error.offset <= file.len() as u64, "{error}");
                break;
            }
        }
    }
    let mut writer = Writer::new(Vec::new(), reader.header(), reader.tasks()).expect("a header that was read is valid");
    for step in &steps {
        writer.push(step).expect("a step that was read is valid");
    }
    let (again, _) = writer.finish().expect("memory accepts every byte");
    let reread: Vec<_> = Reader::new(&again[..]).expect("written").collect::<Result<_, _>>().expect("written");
    assert_eq!(reread, steps);
    for mode in [Mode::Dependencies, Mode::Timestamps { numerator: 3, denominator: 2 }, Mode::Fast { depth: 3 }] {
        replay(&steps, mode);
    }
});

/// Replays `steps` on a device that completes one request after the other, each a microsecond after the last event.
fn replay(steps: &[Step], mode: Mode) {
    let mut replay = Replay::new(steps.iter(), mode, Instant::ZERO);
    let (mut now, mut in_flight, mut submitted) = (Instant::ZERO, VecDeque::new(), 0);
    loop {
        match replay.next(now) {
            flashlab_sim::Arrival::At(at) if in_flight.len() < 4 => {
                assert!(at >= now);
                now = at;
                in_flight.push_back((replay.submit(now).id, now));
                submitted += 1;
                continue;
            }
            flashlab_sim::Arrival::Done if in_flight.is_empty() => break,
            _ => {}
        }
        let (id, since) = in_flight.pop_front().expect("a replay that waits has a request in flight");
        now = now.saturating_add(Duration::from_us(1));
        let mut spent = Spent::default();
        spent[Mechanism::Program] = now.since(since);
        replay.completed(&Completion { id, at: now, status: Status::Ok, spent });
    }
    assert!(submitted <= steps.len());
    if let Ok(outcome) = replay.finish() {
        let counts = [&outcome.reads, &outcome.writes, &outcome.trims, &outcome.flushes];
        assert_eq!(counts.map(|count| count.histogram.count()).iter().sum::<u64>(), submitted as u64);
    }
}

/// Corrects magic, version, checksums, the number of steps and the digest of a file, as far as its lengths can be
/// followed.
fn corrected(bytes: &[u8]) -> Vec<u8> {
    let mut file = bytes.to_vec();
    let number = |file: &[u8], at: usize| Some(u32::from_le_bytes(file.get(at..at + 4)?.try_into().ok()?) as usize);
    let mut correct = || {
        file.get_mut(..10)?.copy_from_slice(b"flashrec\x01\0");
        let end = number(&file, 10)?.checked_add(14)?;
        let sum = CRC.checksum(file.get(14..end)?).to_le_bytes();
        file.get_mut(end..end + 4)?.copy_from_slice(&sum);
        let (mut at, mut steps) = (end + 4, 0);
        loop {
            let stored = number(&file, at)?;
            if stored == 0 {
                break;
            }
            steps += number(&file, at + 8)? as u64;
            let sum = CRC.checksum(file.get(at + 16..at + 16 + stored)?).to_le_bytes();
            file.get_mut(at + 12..at + 16)?.copy_from_slice(&sum);
            at += 16 + stored;
        }
        file.get_mut(at + 4..at + 12)?.copy_from_slice(&steps.to_le_bytes());
        let digest = Sha256::digest(file.get(..at + 12)?);
        file.get_mut(at + 12..at + 44)?.copy_from_slice(&digest);
        Some(())
    };
    let _ = correct();
    file
}

/// Builds a valid file around the contents of a header (length in one byte) and of chunks (length in two bytes, number of
/// steps in one).
fn built(bytes: &[u8]) -> Vec<u8> {
    let mut rest = bytes;
    let mut take = |length: usize| {
        let (taken, left) = rest.split_at(length.min(rest.len()));
        rest = left;
        taken
    };
    let mut file = b"flashrec\x01\0".to_vec();
    let length = take(1).first().map_or(0, |length| usize::from(*length));
    let header = take(length);
    file.extend((header.len() as u32).to_le_bytes());
    file.extend(header);
    file.extend(CRC.checksum(header).to_le_bytes());
    let mut all = 0;
    while let &[low, high, steps] = take(3) {
        let contents = take(usize::from(u16::from_le_bytes([low, high])));
        if contents.is_empty() {
            break;
        }
        let stored = lz4_flex::block::compress(contents);
        for number in [stored.len() as u32, contents.len() as u32, steps.into(), CRC.checksum(&stored)] {
            file.extend(number.to_le_bytes());
        }
        file.extend(stored);
        all += u64::from(steps);
    }
    file.extend(0u32.to_le_bytes());
    file.extend(all.to_le_bytes());
    let digest = Sha256::digest(&file);
    file.extend(digest);
    file
}
