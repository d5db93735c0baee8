//! The file format of recordings. `docs/recordings.md` describes every byte.
//!
//! A reader holds one chunk in memory. The reader checks the checksum of each chunk before it decodes the
//! chunk, and the digest of the whole file at the end. No length from the file is trusted before it is
//! checked against a limit.

use crate::{Action, Cause, Event, Flags, Header, MarkKind, Step, TaskId};
use flashlab_sim::{Duration, Op};
use sha2::{Digest, Sha256};
use std::fmt;
use std::io::{self, Read, Write};

/// First bytes of every recording.
pub(crate) const MAGIC: &[u8; 8] = b"flashrec";
const VERSION: u16 = 1;
/// Longest header in bytes.
const HEADER_MAX: u32 = 1 << 20;
/// Longest chunk in bytes before compression.
const CHUNK_MAX: u32 = 1 << 20;
/// Length at which the writer ends a chunk. The remaining bytes up to [`CHUNK_MAX`] are enough for any step.
const CHUNK_FULL: usize = 64 << 10;
/// Largest number of causes of a step.
const CAUSES_MAX: usize = 1024;
static CRC: crc::Crc<u32, crc::Table<16>> = crc::Crc::<u32, crc::Table<16>>::new(&crc::CRC_32_ISO_HDLC);

/// Writes a recording step by step.
#[derive(Debug)]
pub struct Writer<W> {
    to: Hashed<W>,
    tasks: u64,
    chunk: Vec<u8>,
    in_chunk: u32,
    steps: u64,
    previous: Previous,
}

impl<W: Write> Writer<W> {
    /// Writes the header. `tasks` holds the names of all tasks, by [`TaskId`].
    ///
    /// # Errors
    /// Returns an error of `to`, or one of kind `InvalidInput` if the header with the names of the tasks
    /// is longer than a mebibyte, or if its compressibility is above 100 per cent.
    pub fn new(to: W, header: &Header, tasks: &[String]) -> io::Result<Writer<W>> {
        let mut body = Vec::new();
        body.extend_from_slice(&header.capacity.to_le_bytes());
        body.extend_from_slice(&header.block.to_le_bytes());
        body.push(header.has_dependencies.into());
        let Header { kernel, filesystem, workload, host, origin, .. } = header;
        for text in [kernel, filesystem, workload, host, origin] {
            put_text(&mut body, text);
        }
        put_varint(&mut body, tasks.len() as u64);
        for name in tasks {
            put_text(&mut body, name);
        }
        if header.compressibility_percent.is_some_and(|percent| percent > 100) {
            return Err(refused("the compressibility is above 100 per cent"));
        }
        body.extend(header.compressibility_percent);
        let length = u32::try_from(body.len()).ok().filter(|length| *length <= HEADER_MAX);
        let length = length.ok_or_else(|| refused("the header is longer than 1 MiB"))?;
        let mut to = Hashed { inner: to, hash: Sha256::new() };
        to.write_all(MAGIC)?;
        to.write_all(&VERSION.to_le_bytes())?;
        to.write_all(&length.to_le_bytes())?;
        to.write_all(&body)?;
        to.write_all(&CRC.checksum(&body).to_le_bytes())?;
        let tasks = tasks.len() as u64;
        Ok(Writer { to, tasks, chunk: Vec::new(), in_chunk: 0, steps: 0, previous: Previous::default() })
    }

    /// Appends a step.
    ///
    /// # Errors
    /// Returns an error of the destination, or one of kind `InvalidInput` for a step that a reader would refuse.
    pub fn push(&mut self, step: &Step) -> io::Result<()> {
        if let Err(problem) = check(step, self.steps, self.tasks) {
            return Err(refused(&format!("step {}: {problem}", self.steps)));
        }
        self.previous.encode(step, &mut self.chunk);
        self.in_chunk += 1;
        self.steps += 1;
        if self.chunk.len() >= CHUNK_FULL { self.end_chunk() } else { Ok(()) }
    }

    /// Writes the end of the recording. Returns the destination and the first 8 bytes of the digest, in 16
    /// hexadecimal digits.
    ///
    /// # Errors
    /// Returns an error of the destination.
    pub fn finish(mut self) -> io::Result<(W, String)> {
        if self.in_chunk > 0 {
            self.end_chunk()?;
        }
        self.to.write_all(&0u32.to_le_bytes())?;
        self.to.write_all(&self.steps.to_le_bytes())?;
        let digest = self.to.hash.finalize_reset();
        self.to.inner.write_all(&digest)?;
        self.to.inner.flush()?;
        Ok((self.to.inner, shown(&digest)))
    }

    fn end_chunk(&mut self) -> io::Result<()> {
        let stored = lz4_flex::block::compress(&self.chunk);
        for number in [stored.len() as u32, self.chunk.len() as u32, self.in_chunk, CRC.checksum(&stored)] {
            self.to.write_all(&number.to_le_bytes())?;
        }
        self.to.write_all(&stored)?;
        self.chunk.clear();
        self.in_chunk = 0;
        self.previous = Previous::default();
        Ok(())
    }
}

/// Reads a recording step by step. The iterator ends after it has checked the digest, or after the first
/// error.
#[derive(Debug)]
pub struct Reader<R> {
    from: Hashed<R>,
    /// Bytes read so far.
    offset: u64,
    header: Header,
    tasks: Vec<String>,
    /// Compressed chunk. This buffer is a field so that all chunks use the same memory.
    stored: Vec<u8>,
    chunk: Vec<u8>,
    /// Place of the next step in `chunk`.
    place: usize,
    /// Offset of the chunk in the file.
    chunk_at: u64,
    left_in_chunk: u32,
    steps: u64,
    previous: Previous,
    digest: Option<String>,
    ended: bool,
}

/// A fault of a recording and its place.
#[derive(Debug)]
pub struct ReadError {
    /// Offset in the file. For a fault within a compressed chunk, the offset of the chunk.
    pub offset: u64,
    /// Fault.
    pub problem: String,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}: {}", self.offset, self.problem)
    }
}

impl std::error::Error for ReadError {}

impl<R: Read> Reader<R> {
    /// Reads the header. Pass a buffered reader.
    ///
    /// # Errors
    /// Returns the fault and its place if the file cannot be read, is not a recording of this version, or has
    /// a damaged or truncated header.
    pub fn new(from: R) -> Result<Reader<R>, ReadError> {
        let mut reader = Reader {
            from: Hashed { inner: from, hash: Sha256::new() },
            offset: 0,
            header: Header::default(),
            tasks: Vec::new(),
            stored: Vec::new(),
            chunk: Vec::new(),
            place: 0,
            chunk_at: 0,
            left_in_chunk: 0,
            steps: 0,
            previous: Previous::default(),
            digest: None,
            ended: false,
        };
        if reader.array()? != *MAGIC {
            return Err(ReadError { offset: 0, problem: "this is not a recording of flashlab".into() });
        }
        let version = u16::from_le_bytes(reader.array()?);
        if version != VERSION {
            let problem = format!("version {version} of the format: this program reads version {VERSION}");
            return Err(ReadError { offset: 8, problem });
        }
        let length = reader.number()?;
        if length > HEADER_MAX {
            let problem = format!("a header of {length} bytes: expected at most {HEADER_MAX}");
            return Err(ReadError { offset: 10, problem });
        }
        let at = reader.offset;
        let mut body = vec![0; length as usize];
        reader.fill(&mut body)?;
        let sum = reader.number()?;
        let damaged = |problem: &str| ReadError { offset: at, problem: problem.into() };
        if CRC.checksum(&body) != sum {
            return Err(damaged("the header is damaged: its checksum does not match"));
        }
        let mut fields = Fields { rest: &body };
        let (header, tasks) =
            read_header(&mut fields).ok_or_else(|| damaged("the header has no valid contents"))?;
        (reader.header, reader.tasks) = (header, tasks);
        Ok(reader)
    }

    /// Returns the facts about the run.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the names of tasks, by [`TaskId`].
    pub fn tasks(&self) -> &[String] {
        &self.tasks
    }

    /// Returns the first 8 bytes of the digest in 16 hexadecimal digits, once a read past the last step has
    /// found the digest correct.
    pub fn digest(&self) -> Option<&str> {
        self.digest.as_deref()
    }

    /// Replaces `step` with the next one, and reuses the memory of its causes. Returns false after the digest
    /// has been checked, and after the first error. `step` then has no meaning.
    ///
    /// # Errors
    /// Returns the place of a fault.
    pub fn read_step(&mut self, step: &mut Step) -> Result<bool, ReadError> {
        if self.ended {
            return Ok(false);
        }
        let read = self.next_step(step);
        self.ended = !matches!(read, Ok(true));
        read
    }

    fn next_step(&mut self, step: &mut Step) -> Result<bool, ReadError> {
        if self.left_in_chunk == 0 && !self.next_chunk()? {
            return Ok(false);
        }
        let mut fields = Fields { rest: &self.chunk[self.place..] };
        let fault = |problem: String| ReadError { offset: self.chunk_at, problem };
        if self.previous.decode(&mut fields, step).is_none() {
            return Err(fault(format!("step {} in this chunk has no valid contents", self.steps)));
        }
        if let Err(problem) = check(step, self.steps, self.tasks.len() as u64) {
            return Err(fault(format!("step {}: {problem}", self.steps)));
        }
        self.place = self.chunk.len() - fields.rest.len();
        self.steps += 1;
        self.left_in_chunk -= 1;
        if self.left_in_chunk == 0 && self.place != self.chunk.len() {
            return Err(fault(format!(
                "{} bytes follow the last step of this chunk",
                self.chunk.len() - self.place
            )));
        }
        Ok(true)
    }

    /// Reads the next chunk. Returns false after the end of the recording.
    fn next_chunk(&mut self) -> Result<bool, ReadError> {
        self.chunk_at = self.offset;
        let stored = self.number()?;
        if stored == 0 {
            self.end()?;
            return Ok(false);
        }
        let (raw, steps, sum) = (self.number()?, self.number()?, self.number()?);
        let offset = self.chunk_at;
        let fault = |problem: &str| ReadError { offset, problem: problem.into() };
        let longest = lz4_flex::block::get_maximum_output_size(CHUNK_MAX as usize) as u32;
        if raw > CHUNK_MAX || stored > longest || steps == 0 || steps > raw {
            return Err(fault("the lengths of this chunk are not possible"));
        }
        let mut bytes = std::mem::take(&mut self.stored);
        bytes.resize(stored as usize, 0);
        self.fill(&mut bytes)?;
        if CRC.checksum(&bytes) != sum {
            return Err(fault("this chunk is damaged: its checksum does not match"));
        }
        self.chunk.resize(raw as usize, 0);
        let length = lz4_flex::block::decompress_into(&bytes, &mut self.chunk)
            .map_err(|error| fault(&format!("this chunk cannot be decompressed: {error}")))?;
        self.chunk.truncate(length);
        self.stored = bytes;
        (self.place, self.left_in_chunk, self.previous) = (0, steps, Previous::default());
        Ok(true)
    }

    /// Checks the number of steps and the digest.
    fn end(&mut self) -> Result<(), ReadError> {
        let offset = self.offset;
        let steps = u64::from_le_bytes(self.array()?);
        if steps != self.steps {
            let problem = format!("the recording states {steps} steps, but has {}", self.steps);
            return Err(ReadError { offset, problem });
        }
        let computed = self.from.hash.clone().finalize();
        let offset = self.offset;
        let stored: [u8; 32] = self.array()?;
        if computed[..] != stored {
            let problem = "the recording is damaged: its digest does not match".into();
            return Err(ReadError { offset, problem });
        }
        self.digest = Some(shown(&stored));
        Ok(())
    }

    fn number(&mut self) -> Result<u32, ReadError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], ReadError> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), ReadError> {
        self.from.read_exact(bytes).map_err(|error| {
            let problem = match error.kind() {
                io::ErrorKind::UnexpectedEof => "the recording is truncated".into(),
                _ => error.to_string(),
            };
            ReadError { offset: self.offset, problem }
        })?;
        self.offset += bytes.len() as u64;
        Ok(())
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Result<Step, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut step = Step::EMPTY;
        match self.read_step(&mut step) {
            Ok(true) => Some(Ok(step)),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        }
    }
}

/// Values of the previous step, relative to which the next one is stored. At the start of each chunk, they
/// are reset.
#[derive(Clone, Copy, Default, Debug)]
struct Previous {
    at: u64,
    /// Offset of the byte after the last request that is not a flush.
    end: u64,
}

const OPS: [Op; 6] = [Op::Read, Op::Write, Op::WriteFua, Op::Trim, Op::Flush, Op::FlushData];
const MARKS: [MarkKind; 4] =
    [MarkKind::OperationBegins, MarkKind::OperationEnds, MarkKind::RunBegins, MarkKind::RunEnds];
/// Code of the first mark.
const FIRST_MARK: u8 = 16;

impl Previous {
    fn encode(&mut self, step: &Step, to: &mut Vec<u8>) {
        put_varint(to, step.task.0.into());
        let at = step.at.as_ns();
        put_signed(to, at.wrapping_sub(self.at) as i64);
        self.at = at;
        match step.action {
            Action::Request { op, offset, length, flags } => {
                to.push(OPS.iter().position(|known| *known == op).expect("every operation has a code") as u8);
                let Flags { sync, meta, read_ahead, background } = flags;
                let bits = [sync, meta, read_ahead, background];
                to.push(bits.iter().rev().fold(0, |byte, bit| byte << 1 | u8::from(*bit)));
                if !op.is_flush() {
                    put_signed(to, offset.wrapping_sub(self.end) as i64);
                    put_varint(to, length);
                    self.end = offset + length;
                }
            }
            Action::Mark(kind) => {
                let code =
                    MARKS.iter().position(|known| *known == kind).expect("every mark has a code") as u8;
                to.push(FIRST_MARK + code);
            }
        }
        put_varint(to, step.causes.len() as u64);
        for cause in &step.causes {
            match *cause {
                Cause::Instant(after) => {
                    put_varint(to, 0);
                    put_varint(to, after.as_ns());
                }
                Cause::Step { back, event, think } => {
                    put_varint(to, u64::from(back) << 1 | u64::from(event == Event::Completed));
                    put_varint(to, think.as_ns());
                }
            }
        }
    }

    fn decode(&mut self, from: &mut Fields<'_>, step: &mut Step) -> Option<()> {
        step.task = TaskId(u32::try_from(from.varint()?).ok()?);
        self.at = self.at.wrapping_add(from.signed()? as u64);
        step.at = Duration::from_ns(self.at);
        let code = from.byte()?;
        step.action = if code >= FIRST_MARK {
            Action::Mark(*MARKS.get(usize::from(code - FIRST_MARK))?)
        } else {
            let op = *OPS.get(usize::from(code))?;
            let bits = from.byte()?;
            if bits >= 16 {
                return None;
            }
            let bit = |number: u8| bits >> number & 1 == 1;
            let flags = Flags { sync: bit(0), meta: bit(1), read_ahead: bit(2), background: bit(3) };
            let (mut offset, mut length) = (0, 0);
            if !op.is_flush() {
                offset = self.end.wrapping_add(from.signed()? as u64);
                length = from.varint()?;
                self.end = offset.checked_add(length)?;
            }
            Action::Request { op, offset, length, flags }
        };
        let count = usize::try_from(from.varint()?).ok().filter(|count| *count <= CAUSES_MAX)?;
        step.causes.clear();
        for _ in 0..count {
            let (code, time) = (from.varint()?, Duration::from_ns(from.varint()?));
            step.causes.push(match code {
                0 => Cause::Instant(time),
                _ => {
                    let event = if code & 1 == 1 { Event::Completed } else { Event::Started };
                    Cause::Step { back: u32::try_from(code >> 1).ok()?, event, think: time }
                }
            });
        }
        Some(())
    }
}

/// Rule that a step breaks.
#[derive(Clone, Copy, Debug)]
enum Problem {
    Task { task: u32, tasks: u64 },
    FlushWithRange,
    End { offset: u64, length: u64 },
    Causes { count: usize },
    Itself,
    Distance { back: u32, farthest: u64 },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Problem::Task { task, tasks } => {
                write!(f, "task {task} does not exist: the recording has {tasks} tasks")
            }
            Problem::FlushWithRange => write!(f, "a flush has no range"),
            Problem::End { offset, length } => {
                write!(f, "{length} bytes at {offset} end after the last possible byte")
            }
            Problem::Causes { count } => write!(f, "{count} causes: expected at most {CAUSES_MAX}"),
            Problem::Itself => write!(f, "waits for itself, which is a cycle"),
            Problem::Distance { back, farthest } => {
                write!(f, "waits for a step at distance {back}: expected 1 to {farthest}")
            }
        }
    }
}

/// Checks that a recording of `tasks` tasks may have `step` as step `number`.
fn check(step: &Step, number: u64, tasks: u64) -> Result<(), Problem> {
    let Step { task, action, causes, .. } = step;
    if u64::from(task.0) >= tasks {
        return Err(Problem::Task { task: task.0, tasks });
    }
    if let Action::Request { op, offset, length, .. } = *action {
        if op.is_flush() && (offset, length) != (0, 0) {
            return Err(Problem::FlushWithRange);
        }
        if offset.checked_add(length).is_none() {
            return Err(Problem::End { offset, length });
        }
    }
    if causes.len() > CAUSES_MAX {
        return Err(Problem::Causes { count: causes.len() });
    }
    let farthest = number.min(Cause::FARTHEST.into());
    for cause in causes {
        match *cause {
            Cause::Step { back: 0, .. } => return Err(Problem::Itself),
            Cause::Step { back, .. } if u64::from(back) > farthest => {
                return Err(Problem::Distance { back, farthest });
            }
            _ => {}
        }
    }
    Ok(())
}

fn read_header(from: &mut Fields<'_>) -> Option<(Header, Vec<String>)> {
    let capacity = u64::from_le_bytes(from.take(8)?.try_into().ok()?);
    let block = u32::from_le_bytes(from.take(4)?.try_into().ok()?);
    let has_dependencies = match from.byte()? {
        0 => false,
        1 => true,
        _ => return None,
    };
    let [kernel, filesystem, workload] = [from.text()?, from.text()?, from.text()?];
    let [host, origin] = [from.text()?, from.text()?];
    let mut tasks = Vec::new();
    for _ in 0..from.varint()? {
        tasks.push(from.text()?);
    }
    let compressibility_percent = if from.rest.is_empty() { None } else { Some(from.byte()?) };
    if compressibility_percent.is_some_and(|percent| percent > 100) {
        return None;
    }
    let header = Header {
        capacity,
        block,
        has_dependencies,
        kernel,
        filesystem,
        workload,
        host,
        compressibility_percent,
        origin,
    };
    from.rest.is_empty().then_some((header, tasks))
}

/// Bytes that are read field by field. Each method returns `None` if the bytes end or are not valid.
struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }
    #[inline]
    fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*byte)
    }
    /// Reads a number. If at least 8 bytes are left, a number that ends within 8 bytes is read without a
    /// loop: three steps move the groups of 7 bits together.
    #[inline]
    fn varint(&mut self) -> Option<u64> {
        let Some(word) = self.rest.first_chunk() else { return self.varint_by_bytes() };
        let word = u64::from_le_bytes(*word);
        if word & 0x80 == 0 {
            self.rest = &self.rest[1..];
            return Some(word & 0x7f);
        }
        let ends = !word & 0x8080_8080_8080_8080;
        if ends == 0 {
            return self.varint_by_bytes();
        }
        let end = ends.trailing_zeros();
        self.rest = &self.rest[end as usize / 8 + 1..];
        let value = word & (u64::MAX >> (63 - end)) & 0x7f7f_7f7f_7f7f_7f7f;
        let value = (value & 0x007f_007f_007f_007f) | (value & 0x7f00_7f00_7f00_7f00) >> 1;
        let value = (value & 0x0000_3fff_0000_3fff) | (value & 0x3fff_0000_3fff_0000) >> 2;
        Some((value & 0x0000_0000_0fff_ffff) | (value & 0x0fff_ffff_0000_0000) >> 4)
    }
    #[cold]
    fn varint_by_bytes(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return None;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }
    #[inline]
    fn signed(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }
    fn text(&mut self) -> Option<String> {
        let length = usize::try_from(self.varint()?).ok()?;
        String::from_utf8(self.take(length)?.to_vec()).ok()
    }
}

fn put_varint(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

fn put_signed(to: &mut Vec<u8>, value: i64) {
    put_varint(to, (value << 1 ^ value >> 63) as u64);
}

fn put_text(to: &mut Vec<u8>, text: &str) {
    put_varint(to, text.len() as u64);
    to.extend_from_slice(text.as_bytes());
}

fn shown(digest: &[u8]) -> String {
    digest[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

fn refused(problem: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, problem)
}

/// A stream whose bytes are hashed as they pass.
#[derive(Debug)]
struct Hashed<T> {
    inner: T,
    hash: Sha256,
}

impl<W: Write> Hashed<W> {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hash.update(bytes);
        self.inner.write_all(bytes)
    }
}

impl<R: Read> Hashed<R> {
    fn read_exact(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        self.inner.read_exact(bytes)?;
        self.hash.update(bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Fields, put_signed, put_varint};
    use proptest::prelude::*;

    /// Numbers of every length with equal probability.
    fn numbers() -> impl Strategy<Value = u64> {
        (any::<u64>(), 0..64_u32).prop_map(|(bits, shift)| bits >> shift)
    }

    proptest! {
        #[test]
        fn numbers_are_read_as_they_were_written(numbers in prop::collection::vec(numbers(), 0..40)) {
            let mut bytes = Vec::new();
            for number in &numbers {
                put_varint(&mut bytes, *number);
                put_signed(&mut bytes, *number as i64);
            }
            let mut fields = Fields { rest: &bytes };
            for number in &numbers {
                prop_assert_eq!(fields.varint(), Some(*number));
                prop_assert_eq!(fields.signed(), Some(*number as i64));
            }
            prop_assert!(fields.rest.is_empty());
        }

        #[test]
        fn the_fast_and_the_slow_path_read_the_same(bytes in prop::collection::vec(any::<u8>(), 0..24)) {
            let (mut fast, mut slow) = (Fields { rest: &bytes }, Fields { rest: &bytes });
            loop {
                let number = fast.varint();
                prop_assert_eq!(number, slow.varint_by_bytes());
                if number.is_none() {
                    break;
                }
                prop_assert_eq!(fast.rest, slow.rest);
            }
        }
    }
}
