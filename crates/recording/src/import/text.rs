//! Traces in text, one request per line: `blkparse`, MSR Cambridge and Alibaba.

use super::{ImportError, Place, Row, Rows, Tasks, several_devices};
use crate::Flags;
use flashlab_sim::Op;
use std::fmt;
use std::io::BufRead;

/// Longest line in bytes.
const LINE_MAX: u64 = 4096;
/// Bytes of a sector, the unit of `blkparse`.
const SECTOR: u64 = 512;

/// Format of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TraceFormat {
    /// Text of `blkparse` in its default format. The lines that queue a request (action `Q`) become the requests.
    Blkparse,
    /// Lines `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime` of the MSR Cambridge traces (SNIA IOTTA),
    /// with time stamps in units of 100 ns.
    Msr,
    /// Lines `device_id,opcode,offset,length,timestamp` of Alibaba's block traces, with time stamps in microseconds.
    Alibaba,
}

/// Lines of a trace.
#[derive(Debug)]
pub(super) struct Text<R> {
    from: R,
    format: TraceFormat,
    /// Device to import: the chosen one, or else the first one in the trace.
    device: Option<String>,
    /// True if the user chose the device. Otherwise a trace of several devices is refused.
    chosen: bool,
    line: u64,
    tasks: Tasks,
}

/// A request in a line.
struct Fields<'a> {
    device: String,
    /// Time stamp in nanoseconds.
    at: u64,
    /// Number and name of the task.
    task: (u64, &'a str),
    flush_before: bool,
    /// Operation, offset, length, and their unit in bytes; `None` for a flush without data.
    range: Option<(Op, &'a str, &'a str, u64)>,
    flags: Flags,
}

impl<R: BufRead> Text<R> {
    pub(super) fn new(from: R, format: TraceFormat, device: Option<&str>) -> Text<R> {
        let device = device.map(str::to_owned);
        Text { from, format, chosen: device.is_some(), device, line: 0, tasks: Tasks::default() }
    }

    /// Returns the row of a line, or `None` for a line without a request to import.
    fn row_of(&mut self, line: &str) -> Result<Option<Row>, String> {
        let fields = match self.format {
            TraceFormat::Blkparse => blkparse_row(line)?,
            TraceFormat::Msr => csv_row(line, self.line, "Timestamp", msr_row)?,
            TraceFormat::Alibaba => csv_row(line, self.line, "device_id", alibaba_row)?,
        };
        let Some(fields) = fields else { return Ok(None) };
        match &self.device {
            Some(device) if *device != fields.device && self.chosen => return Ok(None),
            Some(device) if *device != fields.device => {
                return Err(several_devices(device, &fields.device));
            }
            Some(_) => {}
            None => self.device = Some(fields.device),
        }
        let Fields { at, task: (number, name), flush_before, range, flags, .. } = fields;
        let bytes = |name: &str, text: &str, unit: u64| {
            let value: Option<u64> = text.parse().ok();
            value
                .and_then(|value| value.checked_mul(unit))
                .ok_or_else(|| format!("{name} `{text}` is not a number, or is too large"))
        };
        let range = match range {
            None if !flush_before => return Ok(None),
            None => None,
            Some((op, offset, length, unit)) => {
                let (offset, length) = (bytes("offset", offset, unit)?, bytes("length", length, unit)?);
                if offset.checked_add(length).is_none() {
                    return Err(format!("{length} bytes at {offset} end after the last possible byte"));
                }
                Some((op, offset, length))
            }
        };
        let task = self.tasks.id(number, name);
        Ok(Some(Row { file: 0, place: Place::Line(self.line), at, task, flush_before, range, flags }))
    }
}

impl<R: BufRead + fmt::Debug> Rows for Text<R> {
    fn next_row(&mut self) -> Result<Option<Row>, ImportError> {
        let mut line = Vec::new();
        loop {
            self.line += 1;
            line.clear();
            let read = std::io::Read::take(&mut self.from, LINE_MAX).read_until(b'\n', &mut line);
            let place = Place::Line(self.line);
            let fault = |problem: String| ImportError { file: 0, place, problem };
            let length = read.map_err(|error| fault(error.to_string()))?;
            if length == 0 {
                return Ok(None);
            }
            if length as u64 == LINE_MAX && line.last() != Some(&b'\n') {
                return Err(fault(format!("longer than {LINE_MAX} bytes")));
            }
            let text = str::from_utf8(&line).map_err(|_| fault("not UTF-8 text".into()))?.trim();
            if let Some(row) = self.row_of(text).map_err(fault)? {
                return Ok(Some(row));
            }
        }
    }

    fn tasks(&self) -> &[String] {
        self.tasks.names()
    }
}

/// Splits a line of comma-separated fields. The first line may be a header whose first field is `title`.
fn csv_row<'a>(
    line: &'a str,
    number: u64,
    title: &str,
    row: fn(&[&'a str]) -> Result<Fields<'a>, String>,
) -> Result<Option<Fields<'a>>, String> {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    if line.is_empty() || number == 1 && fields[0] == title {
        return Ok(None);
    }
    row(&fields).map(Some)
}

fn msr_row<'a>(fields: &[&'a str]) -> Result<Fields<'a>, String> {
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
    Ok(plain(format!("{host}.{disk}"), at, range))
}

fn alibaba_row<'a>(fields: &[&'a str]) -> Result<Fields<'a>, String> {
    let [device, kind, offset, length, at] = *fields else {
        return Err(format!("{} fields: expected the 5 fields of an Alibaba trace", fields.len()));
    };
    let op = match kind {
        "R" => Op::Read,
        "W" => Op::Write,
        _ => return Err(format!("opcode `{kind}`: expected R or W")),
    };
    let range = Some((op, offset, length, 1));
    Ok(plain(device.into(), stamp(at, 1000)?, range))
}

/// Returns a request from a trace format that states neither tasks nor flags.
fn plain<'a>(device: String, at: u64, range: Option<(Op, &'a str, &'a str, u64)>) -> Fields<'a> {
    Fields { device, at, task: (0, ""), flush_before: false, range, flags: Flags::default() }
}

/// Returns a time stamp in nanoseconds.
fn stamp(text: &str, unit: u64) -> Result<u64, String> {
    let value: Option<u64> = text.parse().ok();
    value
        .and_then(|value| value.checked_mul(unit))
        .ok_or_else(|| format!("time stamp `{text}` is not a number, or is too large"))
}

/// Reads a line of `blkparse`: device, CPU, sequence number, seconds, process, action, operation, the range,
/// and the name of the process in brackets, which may contain spaces. Lines of other actions and the summary
/// at the end contain no request.
fn blkparse_row(line: &str) -> Result<Option<Fields<'_>>, String> {
    let name = line.split_once('[').and_then(|(_, name)| name.strip_suffix(']')).unwrap_or_default();
    let fields: Vec<&str> = line.split_whitespace().collect();
    let is_device = |text: &str| {
        text.split_once(',')
            .is_some_and(|(major, minor)| major.parse::<u32>().is_ok() && minor.parse::<u32>().is_ok())
    };
    let [device, _, _, at, process, "Q", kind, ref rest @ ..] = fields[..] else { return Ok(None) };
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
        (Some(Op::Read | Op::Trim), &[_, "+", "0", ..]) => {
            return Err(format!("operation `{kind}` has no sectors"));
        }
        (Some(Op::Read | Op::Trim), _) => return Err(format!("operation `{kind}` without `sector + count`")),
        _ => None,
    };
    let process =
        process.parse().map_err(|_| format!("process `{process}`: expected the number of a process"))?;
    let flush_before = before.contains('F');
    Ok(Some(Fields { device: device.into(), at, task: (process, name), flush_before, range, flags }))
}
