//! Numbers as fio 3.33 reads them: sizes, times, percentages, ranges and lists.
//!
//! Suffixes are not case sensitive. With `kb_base=1024`, fio's default, `k`, `kb` and `ki` are 1024 and only `kib` is
//! 1000. With `kb_base=1000` the values are swapped. (fio's manual groups `ki` with `kib`; this module follows fio
//! 3.33.) fio silently truncates some numbers: it reads `4.5k` as 4, `1min` as one microsecond and `1:30` as thirty
//! seconds. This module rejects such numbers, and the error says what to write instead. No value exceeds 2^63 - 1, as
//! in fio.

use crate::expression;
pub use crate::fault::{Fault, ValueError};
use crate::job::Extent;
use flashlab_sim::Duration;

/// The largest number that fio accepts.
pub const LARGEST: u64 = i64::MAX as u64;

/// The meaning of `k`: `kb_base=`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum KbBase {
    /// `k` is 1024, `kib` is 1000; fio's default.
    #[default]
    Binary,
    /// `k` is 1000, `kib` is 1024.
    Decimal,
}

/// The unit of a time without a suffix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimeUnit {
    /// Unit of `runtime`, `ramp_time` and `startdelay`.
    Seconds,
    /// Unit of `log_avg_msec`.
    Milliseconds,
    /// Unit of `thinktime`.
    Microseconds,
}

impl TimeUnit {
    const fn ns(self) -> u64 {
        match self {
            TimeUnit::Seconds => 1_000_000_000,
            TimeUnit::Milliseconds => 1_000_000,
            TimeUnit::Microseconds => 1_000,
        }
    }
    /// Returns the name of the unit.
    pub const fn name(self) -> &'static str {
        match self {
            TimeUnit::Seconds => "seconds",
            TimeUnit::Milliseconds => "milliseconds",
            TimeUnit::Microseconds => "microseconds",
        }
    }
}

const BYTE_SUFFIXES: &str = "k, m, g, t or p, alone or followed by b or ib";
const TIME_SUFFIXES: &str = "d, h, m, s, ms or us";

/// Splits a text into a number, which may begin with `0x`, and the text after it.
fn digits(text: &str) -> Result<(u64, &str), ValueError> {
    if text.is_empty() {
        return Err(Fault::Empty.at(0));
    }
    if text.starts_with('-') {
        return Err(Fault::Negative.at(0));
    }
    let (radix, prefix) = if text.starts_with("0x") || text.starts_with("0X") { (16, 2) } else { (10, 0) };
    let body = &text[prefix..];
    let end = body.find(|c: char| !c.is_digit(radix)).unwrap_or(body.len());
    if end == 0 {
        return Err(Fault::NotANumber.at(0));
    }
    match u64::from_str_radix(&body[..end], radix) {
        Ok(n) if n <= LARGEST => Ok((n, &body[end..])),
        _ => Err(Fault::TooLarge.at(0)),
    }
}

/// Returns the number of characters before `rest`, which is the end of `text`.
fn rest_position(text: &str, rest: &str) -> usize {
    text[..text.len() - rest.len()].chars().count()
}

fn bad_suffix(text: &str, rest: &str, expected: &'static str) -> ValueError {
    let at = rest_position(text, rest);
    let more = rest.find(['-', ':', ',', '/']).map(|end| (end, &rest[..end]));
    let fault = match (rest.chars().next(), more) {
        (Some('.'), _) => Fault::Fraction,
        (Some('%'), _) => Fault::Percent,
        (Some('z' | 'Z'), _) if rest.len() == 1 => Fault::Zones,
        (_, Some((end, suffix))) if byte_factor(suffix, KbBase::Binary).or(time_factor(suffix)).is_some() => {
            return Fault::OneValue { instead: "remove the range or list" }
                .at(at + rest[..end].chars().count());
        }
        _ => Fault::Suffix { rest: rest.to_string(), expected },
    };
    fault.at(at)
}

/// Returns the factor of a size suffix.
pub(crate) fn byte_factor(suffix: &str, base: KbBase) -> Option<u64> {
    let suffix = suffix.to_ascii_lowercase();
    let (letter, rest) = match suffix.chars().next() {
        None => return Some(1),
        Some(c) => (c, &suffix[c.len_utf8()..]),
    };
    let power = match letter {
        'b' if rest.is_empty() => return Some(1),
        'k' => 1,
        'm' => 2,
        'g' => 3,
        't' => 4,
        'p' => 5,
        _ => return None,
    };
    let swapped = match rest {
        "" | "b" | "i" => false,
        "ib" => true,
        _ => return None,
    };
    let unit: u64 = if (base == KbBase::Binary) != swapped { 1024 } else { 1000 };
    Some(unit.pow(power))
}

/// Returns the factor of a time suffix in nanoseconds.
pub(crate) fn time_factor(suffix: &str) -> Option<u64> {
    let factor = match suffix.to_ascii_lowercase().as_str() {
        "d" => 86_400_000_000_000,
        "h" => 3_600_000_000_000,
        "m" => 60_000_000_000,
        "s" => 1_000_000_000,
        "ms" | "msec" => 1_000_000,
        "u" | "us" | "usec" => 1_000,
        _ => return None,
    };
    Some(factor)
}

fn product(n: u64, factor: u64) -> Result<u64, ValueError> {
    n.checked_mul(factor).filter(|n| *n <= LARGEST).ok_or(Fault::TooLarge.at(0))
}

/// Parses a size in bytes, or a count (`iodepth=1k` is 1024).
///
/// ```
/// use flashlab_fio::number::{self, KbBase};
/// assert_eq!(number::bytes("4k", KbBase::Binary), Ok(4096));
/// assert_eq!(number::bytes("4k", KbBase::Decimal), Ok(4000));
/// assert_eq!(number::bytes("(4k * 16)", KbBase::Binary), Ok(65536));
/// assert!(number::bytes("4.5k", KbBase::Binary).is_err());
/// ```
pub fn bytes(text: &str, base: KbBase) -> Result<u64, ValueError> {
    let text = text.trim_end();
    if text.starts_with('(') {
        return expression::evaluate(text, &|suffix| byte_factor(suffix, base));
    }
    let (n, rest) = digits(text)?;
    if !rest.is_empty() && (text.starts_with("0x") || text.starts_with("0X")) {
        let expected = "no suffix after a hexadecimal number";
        return Err(Fault::Suffix { rest: rest.to_string(), expected }.at(rest_position(text, rest)));
    }
    match byte_factor(rest, base) {
        Some(factor) => product(n, factor),
        None => Err(bad_suffix(text, rest, BYTE_SUFFIXES)),
    }
}

/// Parses a size or count between `least` and `most`.
pub fn bounded(text: &str, base: KbBase, least: u64, most: u64) -> Result<u64, ValueError> {
    match bytes(text, base)? {
        n if n < least || n > most => Err(Fault::OutOfRange { least, most }.at(0)),
        n => Ok(n),
    }
}

/// Parses a size that may be a percentage: `10g`, `50%`.
pub fn extent(text: &str, base: KbBase) -> Result<Extent, ValueError> {
    let Some(number) = text.trim_end().strip_suffix('%') else { return bytes(text, base).map(Extent::Bytes) };
    match bytes(number, base)? {
        n @ 0..=100 => Ok(Extent::Percent(n as u32)),
        _ => Err(Fault::OverHundred.at(0)),
    }
}

/// Parses a time. A number without a suffix is in `unit`; inside parentheses it is in microseconds, as in fio.
pub fn time(text: &str, unit: TimeUnit) -> Result<Duration, ValueError> {
    let text = text.trim_end();
    if text.starts_with('(') {
        let suffix = |suffix: &str| if suffix.is_empty() { Some(1_000) } else { time_factor(suffix) };
        return expression::evaluate(text, &suffix).map(Duration::from_ns);
    }
    let (n, rest) = digits(text)?;
    if text.starts_with("0x") || text.starts_with("0X") {
        return Err(Fault::Suffix { rest: text[1..].to_string(), expected: "a decimal number" }.at(1));
    }
    let factor = match rest.to_ascii_lowercase().as_str() {
        "" => unit.ns(),
        "sec" | "secs" | "second" | "seconds" => {
            let fault = Fault::NotModelled("fio 3.33 reads this as microseconds; for seconds write s");
            return Err(fault.at(rest_position(text, rest)));
        }
        "min" | "mins" | "minute" | "minutes" => {
            let fault = Fault::NotModelled("fio 3.33 reads this as microseconds; for minutes write m");
            return Err(fault.at(rest_position(text, rest)));
        }
        clock if clock.starts_with(':') => {
            let instead =
                "fio reads 1:30 as 1 and then 30, and keeps the 30; write 90 for a minute and a half";
            return Err(Fault::OneValue { instead }.at(rest_position(text, rest)));
        }
        suffix => time_factor(suffix).ok_or_else(|| bad_suffix(text, rest, TIME_SUFFIXES))?,
    };
    n.checked_mul(factor).map(Duration::from_ns).ok_or(Fault::TooLarge.at(0))
}

/// Parses 0 or 1.
pub fn boolean(text: &str) -> Result<bool, ValueError> {
    match text.trim() {
        "0" => Ok(false),
        "1" => Ok(true),
        "" => Err(Fault::Empty.at(0)),
        _ => Err(Fault::NotBoolean.at(0)),
    }
}

/// Parses `4k-16k` or `4k:16k`. The result has the smaller value first, regardless of the order in the text.
pub fn range(text: &str, base: KbBase) -> Result<(u64, u64), ValueError> {
    const EXPECTED: &str = "a range such as 4k-16k";
    let middle = text.find(['-', ':']).ok_or(Fault::Malformed { expected: EXPECTED }.at(0))?;
    let (low, high) = (&text[..middle], &text[middle + 1..]);
    if low.is_empty() || high.is_empty() {
        return Err(Fault::Malformed { expected: EXPECTED }.at(0));
    }
    let low = bytes(low, base)?;
    let high = shifted(bytes(high, base), text, middle + 1)?;
    Ok((low.min(high), low.max(high)))
}

/// Parses up to three values for reads, writes and trims by fio's rule. A single value applies to all
/// directions. If there are two, the second one also applies to trims. An empty value becomes `None`, which
/// leaves the earlier value.
pub fn each_direction<T: Clone>(
    text: &str,
    separator: &[char],
    mut one: impl FnMut(&str) -> Result<T, ValueError>,
) -> Result<[Option<T>; 3], ValueError> {
    let mut parts: Vec<Option<T>> = Vec::new();
    for (start, part) in pieces(text, separator) {
        if parts.len() == 3 {
            return Err(Fault::TooManyParts { most: 3 }.at(text[..start].chars().count()));
        }
        parts.push(if part.is_empty() { None } else { Some(shifted(one(part), text, start)?) });
    }
    if parts.iter().all(Option::is_none) {
        return Err(Fault::Empty.at(0));
    }
    let read = parts[0].clone();
    Ok(match parts.len() {
        1 => [read.clone(), read.clone(), read],
        2 => [read, parts[1].clone(), parts[1].clone()],
        _ => [read, parts[1].clone(), parts[2].clone()],
    })
}

/// Stores the values that [`each_direction`] found; a direction without a value keeps its earlier one.
pub(crate) fn merge<T>(values: &mut [T; 3], found: [Option<T>; 3]) {
    for (value, found) in values.iter_mut().zip(found) {
        if let Some(found) = found {
            *value = found;
        }
    }
}

/// Splits `text` at the separators outside parentheses. Each part comes with the byte position where it begins.
pub(crate) fn pieces<'a>(
    text: &'a str,
    separators: &'a [char],
) -> impl Iterator<Item = (usize, &'a str)> + 'a {
    let mut start = Some(0);
    std::iter::from_fn(move || {
        let from = start?;
        let mut depth = 0_u32;
        let end = text[from..].find(|c: char| {
            match c {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth == 0 && separators.contains(&c)
        });
        let part = match end {
            Some(length) => {
                let separator = text[from + length..].chars().next().map_or(1, char::len_utf8);
                start = Some(from + length + separator);
                &text[from..from + length]
            }
            None => {
                start = None;
                &text[from..]
            }
        };
        Some((from, part))
    })
}

/// Converts the position of an error in a part to its position in `text`, where the part begins at byte `start`.
pub(crate) fn shifted<T>(result: Result<T, ValueError>, text: &str, start: usize) -> Result<T, ValueError> {
    result.map_err(|e| ValueError { at: e.at + text[..start].chars().count(), fault: e.fault })
}

/// Parses a finite decimal fraction between `least` and `most`.
pub fn fraction(text: &str, least: f64, most: f64) -> Result<f64, ValueError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(Fault::Empty.at(0));
    }
    let plain = |c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | '+' | 'e' | 'E');
    match text.parse::<f64>() {
        Ok(x) if text.chars().all(plain) && x.is_finite() => {
            if x < least || x > most {
                return Err(Fault::OutOfRange { least: least as u64, most: most as u64 }.at(0));
            }
            Ok(x)
        }
        _ => Err(Fault::NotANumber.at(0)),
    }
}

/// Parses fractions separated by `:`, as in `percentile_list=99:99.9`.
pub fn fractions(text: &str, most_parts: usize, least: f64, most: f64) -> Result<Vec<f64>, ValueError> {
    let mut list = Vec::new();
    for (start, part) in pieces(text, &[':']) {
        if list.len() == most_parts {
            return Err(Fault::TooManyParts { most: most_parts }.at(text[..start].chars().count()));
        }
        list.push(shifted(fraction(part, least, most), text, start)?);
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_equal_those_of_fio_3_33() {
        // The values were read from the output of `fio --parse-only --debug=parse`.
        let cases = [
            ("4k", 4096),
            ("4K", 4096),
            ("4kb", 4096),
            ("4kB", 4096),
            ("4ki", 4096),
            ("4Ki", 4096),
            ("4kib", 4000),
            ("4KiB", 4000),
            ("4m", 4 << 20),
            ("4mi", 4 << 20),
            ("4mib", 4_000_000),
            ("1g", 1 << 30),
            ("4tb", 4 << 40),
            ("4tib", 4_000_000_000_000),
            ("1p", 1 << 50),
            ("0x10", 16),
            ("0X10", 16),
            ("010", 10),
            ("4b", 4),
            ("0", 0),
            ("9223372036854775807", LARGEST),
        ];
        for (text, expected) in cases {
            assert_eq!(bytes(text, KbBase::Binary), Ok(expected), "{text}");
        }
        for (text, expected) in [("4k", 4000), ("4ki", 4000), ("4kib", 4096), ("4mib", 4 << 20)] {
            assert_eq!(bytes(text, KbBase::Decimal), Ok(expected), "{text} with kb_base=1000");
        }
    }

    #[test]
    fn numbers_that_fio_misreads_are_rejected() {
        let fault = |text| bytes(text, KbBase::Binary).unwrap_err().fault;
        assert_eq!(fault(""), Fault::Empty);
        assert_eq!(fault("-4k"), Fault::Negative);
        assert_eq!(fault("4.5k"), Fault::Fraction);
        assert_eq!(fault("4%"), Fault::Percent);
        assert_eq!(fault("4z"), Fault::Zones);
        assert_eq!(fault("k"), Fault::NotANumber);
        assert_eq!(fault("0x"), Fault::NotANumber);
        for text in ["4x", "4kk", "1e3", "4 k", "0x10k", "4\u{212a}"] {
            assert!(matches!(fault(text), Fault::Suffix { .. }), "{text}");
        }
        for text in ["9223372036854775808", "99999999999999999999", "16384p", "8192p", "0xffffffffffffffff"] {
            assert_eq!(fault(text), Fault::TooLarge, "{text}");
        }
    }

    #[test]
    fn times_equal_those_of_fio_3_33() {
        let cases = [
            ("60", 60_000_000_000),
            ("60s", 60_000_000_000),
            ("10M", 600_000_000_000),
            ("1h", 3_600_000_000_000),
            ("1D", 86_400_000_000_000),
            ("500ms", 500_000_000),
            ("1msec", 1_000_000),
            ("10u", 10_000),
            ("500us", 500_000),
            ("(60)", 60_000),
            ("(1m + 30s)", 90_000_000_000),
        ];
        for (text, ns) in cases {
            assert_eq!(time(text, TimeUnit::Seconds), Ok(Duration::from_ns(ns)), "{text}");
        }
        assert_eq!(time("100", TimeUnit::Microseconds), Ok(Duration::from_us(100)));
        for text in ["1.5", "1min", "1sec", "1:30", "-1", "1m30s", "0x10", "10ns", "", "1d d", "999999999d"] {
            assert!(time(text, TimeUnit::Seconds).is_err(), "{text}");
        }
    }

    #[test]
    fn one_to_three_values_apply_to_all_directions() {
        let split = |text| each_direction(text, &[','], |part| bytes(part, KbBase::Binary));
        assert_eq!(split("4k"), Ok([Some(4096); 3]));
        assert_eq!(split("4k,8k"), Ok([Some(4096), Some(8192), Some(8192)]));
        assert_eq!(split("1,2,3"), Ok([Some(1), Some(2), Some(3)]));
        assert_eq!(split(",8k"), Ok([None, Some(8192), Some(8192)]));
        assert_eq!(split("4k,"), Ok([Some(4096), None, None]));
        assert_eq!(split("4k,8k,"), Ok([Some(4096), Some(8192), None]));
        assert_eq!(split("4k,8k,16k,32k"), Err(Fault::TooManyParts { most: 3 }.at(10)));
        assert_eq!(split("4k,8x").unwrap_err().at, 4);
    }

    #[test]
    fn percentages_ranges_and_lists_are_parsed() {
        assert_eq!(extent("50%", KbBase::Binary), Ok(Extent::Percent(50)));
        assert_eq!(extent("50", KbBase::Binary), Ok(Extent::Bytes(50)));
        assert_eq!(extent("101%", KbBase::Binary), Err(Fault::OverHundred.at(0)));
        assert_eq!(range("8k-4k", KbBase::Binary), Ok((4096, 8192)));
        assert_eq!(range("4k:8k", KbBase::Binary), Ok((4096, 8192)));
        assert_eq!(fractions("99:99.9", 20, 0.0, 100.0), Ok(vec![99.0, 99.9]));
        for text in ["inf", "nan", "1,2", "101", "-1", ""] {
            assert!(fractions(text, 20, 0.0, 100.0).is_err(), "{text}");
        }
    }
}
