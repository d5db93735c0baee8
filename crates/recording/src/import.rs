//! Traces of other programs as steps: one request per line, each at its recorded instant.
//!
//! These traces tell when requests arrived, but not why, so each step has one cause: its instant. The exception is a
//! write behind a flush that `blkparse` prints as one request; it waits for the flush.

use crate::{Action, Cause, Event, Flags, Step, TaskId};
use flashlab_sim::{Duration, Op};
use std::fmt;
use std::io::BufRead;

/// Longest line in bytes.
const LINE_MAX: u64 = 4096;
/// Bytes of a sector, the unit of `blkparse`.
const SECTOR: u64 = 512;

/// Format of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TraceFormat {
    /// Text of `blkparse` in its default format. Requests are taken where they are queued (action `Q`).
    Blkparse,
    /// Lines `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime` of the MSR Cambridge traces (SNIA IOTTA),
    /// with time stamps in units of 100 ns.
    Msr,
    /// Lines `device_id,opcode,offset,length,timestamp` of Alibaba's block traces, with time stamps in microseconds.
    Alibaba,
}

/// A line that cannot be imported.
#[derive(Debug)]
pub struct ImportError {
    /// Number of the line, from 1.
    pub line: u64,
    /// Fault.
    pub problem: String,
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.problem)
    }
}

impl std::error::Error for ImportError {}

/// Reads a trace line by line. The iterator ends after the first error.
///
/// All steps belong to task 0. A request that is stamped earlier than the first one starts with the run.
#[derive(Debug)]
pub struct Import<R> {
    from: R,
    format: TraceFormat,
    /// Device to import; without it, a trace of several devices is refused.
    device: Option<String>,
    chosen: bool,
    line: u64,
    first: Option<u64>,
    /// Second step of a line that holds two.
    pending: Option<Step>,
    ended: bool,
}

/// A request in a line of a trace.
struct Row<'a> {
    device: String,
    /// Time stamp in nanoseconds.
    at: u64,
    flush_before: bool,
    /// Operation, offset and length; `None` for a flush without data.
    range: Option<(Op, &'a str, &'a str, u64)>,
    flags: Flags,
}

impl<R: BufRead> Import<R> {
    /// Creates the import of a trace. `device` chooses one device of a trace that has several: `8,0` for `blkparse`,
    /// `usr.0` (host and disk) for MSR, the number for Alibaba.
    pub fn new(from: R, format: TraceFormat, device: Option<&str>) -> Import<R> {
        let device = device.map(str::to_owned);
        let chosen = device.is_some();
        Import { from, format, device, chosen, line: 0, first: None, pending: None, ended: false }
    }

    fn next_step(&mut self) -> Result<Option<Step>, ImportError> {
        if let Some(step) = self.pending.take() {
            return Ok(Some(step));
        }
        let mut line = Vec::new();
        loop {
            self.line += 1;
            line.clear();
            let read = std::io::Read::take(&mut self.from, LINE_MAX).read_until(b'\n', &mut line);
            let number = self.line;
            let fault = |problem: String| ImportError { line: number, problem };
            let length = read.map_err(|error| fault(error.to_string()))?;
            if length == 0 {
                return Ok(None);
            }
            if length as u64 == LINE_MAX && line.last() != Some(&b'\n') {
                return Err(fault(format!("longer than {LINE_MAX} bytes")));
            }
            let text = str::from_utf8(&line).map_err(|_| fault("not UTF-8 text".into()))?.trim();
            if let Some(step) = self.step_of(text).map_err(fault)? {
                return Ok(Some(step));
            }
        }
    }

    /// Returns the step of a line, or `None` for a line without a request to import.
    fn step_of(&mut self, line: &str) -> Result<Option<Step>, String> {
        let row = match self.format {
            TraceFormat::Blkparse => blkparse_row(line)?,
            TraceFormat::Msr => csv_row(line, self.line, "Timestamp", msr_row)?,
            TraceFormat::Alibaba => csv_row(line, self.line, "device_id", alibaba_row)?,
        };
        let Some(row) = row else { return Ok(None) };
        match &self.device {
            Some(device) if *device != row.device && self.chosen => return Ok(None),
            Some(device) if *device != row.device => {
                return Err(format!(
                    "the trace has several devices, {device} and {}: choose one",
                    row.device
                ));
            }
            Some(_) => {}
            None => self.device = Some(row.device),
        }
        let after = Duration::from_ns(row.at.saturating_sub(*self.first.get_or_insert(row.at)));
        let step = |action, cause| Step { task: TaskId(0), at: after, action, causes: vec![cause] };
        let flush = Action::Request { op: Op::Flush, offset: 0, length: 0, flags: row.flags };
        let Some((op, offset, length, unit)) = row.range else {
            return Ok(row.flush_before.then(|| step(flush, Cause::Instant(after))));
        };
        let bytes = |name: &str, text: &str| {
            let value: Option<u64> = text.parse().ok();
            value
                .and_then(|value| value.checked_mul(unit))
                .ok_or_else(|| format!("{name} `{text}` is not a number"))
        };
        let (offset, length) = (bytes("offset", offset)?, bytes("length", length)?);
        if offset.checked_add(length).is_none() {
            return Err(format!("{length} bytes at {offset} end after the last possible byte"));
        }
        let request = Action::Request { op, offset, length, flags: row.flags };
        if !row.flush_before {
            return Ok(Some(step(request, Cause::Instant(after))));
        }
        let behind = Cause::Step { back: 1, event: Event::Completed, think: Duration::ZERO };
        self.pending = Some(step(request, behind));
        Ok(Some(step(flush, Cause::Instant(after))))
    }
}

impl<R: BufRead> Iterator for Import<R> {
    type Item = Result<Step, ImportError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let step = self.next_step().transpose();
        self.ended = !matches!(step, Some(Ok(_)));
        step
    }
}

/// Splits a line of comma-separated fields. The first line may be a header whose first field is `title`.
fn csv_row<'a>(
    line: &'a str,
    number: u64,
    title: &str,
    row: fn(&[&'a str]) -> Result<Row<'a>, String>,
) -> Result<Option<Row<'a>>, String> {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    if line.is_empty() || number == 1 && fields[0] == title {
        return Ok(None);
    }
    row(&fields).map(Some)
}

fn msr_row<'a>(fields: &[&'a str]) -> Result<Row<'a>, String> {
    let [at, host, disk, kind, offset, length, _] = *fields else {
        return Err(format!("{} fields: expected the 7 fields of an MSR trace", fields.len()));
    };
    let op = match kind {
        "Read" => Op::Read,
        "Write" => Op::Write,
        _ => return Err(format!("type `{kind}`: expected Read or Write")),
    };
    let range = Some((op, offset, length, 1));
    let at = stamp(at, 100)?;
    Ok(Row { device: format!("{host}.{disk}"), at, flush_before: false, range, flags: Flags::default() })
}

fn alibaba_row<'a>(fields: &[&'a str]) -> Result<Row<'a>, String> {
    let [device, kind, offset, length, at] = *fields else {
        return Err(format!("{} fields: expected the 5 fields of an Alibaba trace", fields.len()));
    };
    let op = match kind {
        "R" => Op::Read,
        "W" => Op::Write,
        _ => return Err(format!("opcode `{kind}`: expected R or W")),
    };
    let range = Some((op, offset, length, 1));
    Ok(Row {
        device: device.into(),
        at: stamp(at, 1000)?,
        flush_before: false,
        range,
        flags: Flags::default(),
    })
}

/// Returns a time stamp in nanoseconds.
fn stamp(text: &str, unit: u64) -> Result<u64, String> {
    let value: Option<u64> = text.parse().ok();
    value
        .and_then(|value| value.checked_mul(unit))
        .ok_or_else(|| format!("time stamp `{text}` is not a number"))
}

/// Reads a line of `blkparse`: device, CPU, sequence number, seconds, process, action, operation, then the range.
/// Lines of other actions and the summary at the end have no request.
fn blkparse_row(line: &str) -> Result<Option<Row<'_>>, String> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let is_device = |text: &str| {
        text.split_once(',')
            .is_some_and(|(major, minor)| major.parse::<u32>().is_ok() && minor.parse::<u32>().is_ok())
    };
    let [device, _, _, at, _, "Q", kind, ref rest @ ..] = fields[..] else { return Ok(None) };
    if !is_device(device) {
        return Ok(None);
    }
    let seconds = |text: &str| {
        let (whole, part) = text.split_once('.')?;
        let whole: u64 = whole.parse().ok()?;
        let part: u64 = (part.len() == 9).then(|| part.parse().ok())??;
        whole.checked_mul(1_000_000_000)?.checked_add(part)
    };
    let at = seconds(at).ok_or_else(|| format!("time `{at}`: expected seconds with nine decimals"))?;
    let data = kind
        .find(['R', 'W', 'D', 'N'])
        .ok_or_else(|| format!("operation `{kind}` has none of R, W, D, N"))?;
    let (before, after) = (&kind[..data], &kind[data + 1..]);
    let op = match &kind[data..=data] {
        "R" => Some(Op::Read),
        "D" => Some(Op::Trim),
        "W" if after.contains('F') => Some(Op::WriteFua),
        "W" => Some(Op::Write),
        _ => None,
    };
    let flags = Flags {
        sync: after.contains('S'),
        meta: after.contains('M'),
        read_ahead: after.contains('A'),
        background: false,
    };
    let range = match (op, rest) {
        (Some(op), &[sector, "+", count, ..]) if count != "0" => Some((op, sector, count, SECTOR)),
        (Some(Op::Read | Op::Trim), _) => return Err(format!("operation `{kind}` without `sector + count`")),
        _ => None,
    };
    Ok(Some(Row { device: device.into(), at, flush_before: before.contains('F'), range, flags }))
}
