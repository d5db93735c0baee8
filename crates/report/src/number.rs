//! Formats numbers for people, with few digits and never as `-0`.
//!
//! Each kind of number has one function here: durations, sizes, rates, shares, percentages, counts of things, ticks.
//! The texts have the typography of a page: a minus sign, and a no-break space between a number and its unit. [`plain`]
//! converts a text for a terminal. A value that is not finite is shown as [`NONE`], without a unit.

use std::fmt::Display;

/// Placeholder for a missing number.
pub(crate) const NONE: &str = "–";

/// Formats `value` with this many decimals and with commas between thousands: `21,147.3`.
pub(crate) fn fixed(value: f64, decimals: usize) -> String {
    if !value.is_finite() {
        return NONE.into();
    }
    let digits = format!("{:.decimals$}", value.abs());
    let (whole, fraction) = match digits.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (digits.as_str(), None),
    };
    let mut text = String::new();
    if value < 0.0 && has_value(&digits) {
        text.push(MINUS);
    }
    for (i, digit) in whole.char_indices() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if let Some(fraction) = fraction {
        text.push('.');
        text.push_str(fraction);
    }
    text
}

/// Formats like [`fixed`], with `+` before positive values.
pub(crate) fn signed(value: f64, decimals: usize) -> String {
    with_plus(value, fixed(value, decimals))
}

/// Returns `text`, the text of `value`, with `+` before it if the value is positive and its digits are not all zero.
fn with_plus(value: f64, text: String) -> String {
    if value > 0.0 && has_value(&text) { format!("+{text}") } else { text }
}

/// Returns true if a digit of `text` is not zero.
fn has_value(text: &str) -> bool {
    text.bytes().any(|b| (b'1'..=b'9').contains(&b))
}

/// Formats `value` with `digits` significant digits. Whole digits are never dropped.
pub(crate) fn significant(value: f64, digits: usize) -> String {
    fixed(value, decimals_for(value, digits))
}

/// Formats a value of any size with three significant digits, or with all whole digits below a million:
/// `50.3`, `1.20 M`, `3.00e15`.
pub(crate) fn compact(value: f64) -> String {
    of_any_size(value, 3)
}

/// Formats like [`compact`] with four digits, for a single value.
pub(crate) fn exact(value: f64) -> String {
    of_any_size(value, 4)
}

fn of_any_size(value: f64, digits: usize) -> String {
    match value.abs() {
        x if x >= 1e12 && x.is_finite() => typeset(format!("{value:.*e}", digits - 1)),
        x if x >= 1e6 => with_unit(significant(value / 1e6, digits), "M"),
        x if x > 0.0 && x < 1e-6 => typeset(format!("{value:.*e}", digits - 1)),
        _ => significant(value, digits),
    }
}

/// Formats the label of a tick: with this many decimals below 10,000, otherwise as `20 k`, `1.5 M` or `3.0e15`.
pub(crate) fn tick(value: f64, decimals: usize) -> String {
    match value.abs() {
        x if x >= 1e12 && x.is_finite() => typeset(format!("{value:.1e}")),
        x if x >= 1e6 => with_unit(tick_number(value / 1e6), "M"),
        x if x >= 1e4 => with_unit(tick_number(value / 1e3), "k"),
        _ => fixed(value, decimals),
    }
}

/// Formats a value with at most two decimals, without trailing zeroes.
fn tick_number(value: f64) -> String {
    fixed(value, decimals_written((value * 100.0).round() / 100.0))
}

/// Formats a position on an axis as written in its source: `128`, `0.5`.
pub(crate) fn written(value: f64) -> String {
    match value.abs() {
        x if x >= 1e12 && x.is_finite() => typeset(format!("{value:.2e}")),
        _ => fixed(value, decimals_written(value)),
    }
}

/// Returns the number of decimals that shows `digits` significant digits of `value`, at most nine.
pub(crate) fn decimals_for(value: f64, digits: usize) -> usize {
    if value == 0.0 || !value.is_finite() {
        return 0;
    }
    let rounded = format!("{:.*e}", digits.saturating_sub(1), value.abs());
    let exponent: i64 = rounded.split_once('e').and_then(|(_, e)| e.parse().ok()).unwrap_or(0);
    (digits as i64 - 1 - exponent).clamp(0, 9) as usize
}

/// Returns the number of decimals with which `value` was written, at most six: 22.2 has one, 864452 none.
pub(crate) fn decimals_written(value: f64) -> usize {
    if !value.is_finite() {
        return 0;
    }
    format!("{value}").split_once('.').map_or(0, |(_, fraction)| fraction.len()).min(6)
}

/// No-break space between a number and its unit.
pub(crate) const NO_BREAK: char = '\u{a0}';

/// Minus sign before a negative number.
const MINUS: char = '\u{2212}';

/// Returns a number with its unit. A missing number has no unit, and an empty unit no space.
pub(crate) fn with_unit(number: String, unit: &str) -> String {
    if number == NONE || unit.is_empty() { number } else { format!("{number}{NO_BREAK}{unit}") }
}

/// Returns an upper bound: `< 10`.
pub(crate) fn below(number: impl Display) -> String {
    format!("<{NO_BREAK}{number}")
}

/// Formats a share as `87 %`. A share above zero that rounds to zero is `< 1 %`, and a share below one that rounds to
/// one is `> 99 %`.
pub(crate) fn share(share: f64) -> String {
    let whole = (100.0 * share).round();
    let number = if whole < 1.0 && share > 0.0 {
        below(1)
    } else if whole >= 100.0 && share < 1.0 {
        format!(">{NO_BREAK}99")
    } else {
        fixed(whole, 0)
    };
    with_unit(number, "%")
}

/// Formats a percentage with `digits` significant digits: `7.31 %`.
pub(crate) fn percent(value: f64, digits: usize) -> String {
    with_unit(significant(value, digits), "%")
}

/// Formats an error or a change in percent, with its sign: `+0.4 %`, `−12.0 %`.
pub(crate) fn signed_percent(value: f64, decimals: usize) -> String {
    with_unit(signed(value, decimals), "%")
}

/// Units of times with their nanoseconds, for [`unit_for`].
pub(crate) const TIMES: [(f64, &str); 4] = [(1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")];

/// Bytes of a KiB and a MiB.
const KIB: f64 = 1024.0;
const MIB: f64 = KIB * KIB;

/// Units of sizes with their bytes, for [`unit_for`].
#[cfg(feature = "fit")]
pub(crate) const SIZES: [(f64, &str); 4] = [(KIB * MIB, "GiB"), (MIB, "MiB"), (KIB, "KiB"), (1.0, "B")];

/// Returns the unit in which an axis up to `greatest` is easiest to read, with its size. The largest of `units` is
/// first.
pub(crate) fn unit_for(greatest: f64, units: &[(f64, &'static str); 4]) -> (f64, &'static str) {
    *units.iter().find(|(size, _)| greatest >= 2.0 * size).unwrap_or(&units[3])
}

/// Formats a duration with three significant digits: `45.0 ms`, `312 µs`, `3.08 s`.
pub(crate) fn duration_ns(ns: f64) -> String {
    let (scaled, unit) = match ns.abs() {
        x if x < 999.5 => return with_unit(fixed(ns, 0), "ns"),
        x if x < 999.5e3 => (ns / 1e3, "µs"),
        x if x < 999.5e6 => (ns / 1e6, "ms"),
        _ => (ns / 1e9, "s"),
    };
    with_unit(significant(scaled, 3), unit)
}

/// Formats a change of a duration, with its sign: `+1.20 ms`.
#[cfg(feature = "fit")]
pub(crate) fn signed_duration_ns(ns: f64) -> String {
    with_plus(ns, duration_ns(ns))
}

/// Formats a range of durations exactly. If both ends have the same unit, only the second has it: `100 to 200 µs`,
/// `500 µs to 1 ms`.
pub(crate) fn duration_range_ns(from: u64, to: u64) -> String {
    let of = |ns: u64| {
        let ns = ns as f64;
        let (size, unit) = TIMES.into_iter().find(|(size, _)| ns >= *size).unwrap_or(TIMES[3]);
        (written(ns / size), unit)
    };
    let ((from, from_unit), (to, to_unit)) = (of(from), of(to));
    let from = if from_unit == to_unit { from } else { with_unit(from, from_unit) };
    format!("{from} to {}", with_unit(to, to_unit))
}

/// Formats a duration as a number of milliseconds, without the unit: `12.345`.
pub(crate) fn milliseconds(ns: u64) -> String {
    fixed(ns as f64 / 1e6, 3)
}

/// Formats a time span with three significant digits: `2.08 days`, `31.0 h`, `12.0 min`, `4.50 s`. A span below a second
/// is a duration: `45.0 ms`.
pub(crate) fn span_s(seconds: f64) -> String {
    const HOUR: f64 = 3600.0;
    let (scaled, unit) = match seconds.abs() {
        s if s > 0.0 && s < 1.0 => return duration_ns(1e9 * seconds),
        s if s < 120.0 => (seconds, "s"),
        s if s < 2.0 * HOUR => (seconds / 60.0, "min"),
        s if s < 48.0 * HOUR => (seconds / HOUR, "h"),
        _ => (seconds / HOUR / 24.0, "days"),
    };
    with_unit(compact(scaled), unit)
}

/// Formats a size with three significant digits: `512 B`, `21.4 KiB`, `1.52 MiB`.
pub(crate) fn bytes(bytes: u64) -> String {
    let (scaled, unit) = match bytes as f64 {
        _ if bytes < 1024 => return with_unit(bytes.to_string(), "B"),
        b if b < 999.5 * KIB => (b / KIB, "KiB"),
        b if b < 999.5 * MIB => (b / MIB, "MiB"),
        b if b < 999.5 * KIB * MIB => (b / KIB / MIB, "GiB"),
        b => (b / MIB / MIB, "TiB"),
    };
    with_unit(significant(scaled, 3), unit)
}

/// Formats a size without rounding if it is a whole number, below 10,000, of MiB, KiB or bytes, as the sizes of units
/// are.
#[cfg(feature = "fit")]
pub(crate) fn exact_bytes(bytes: u64) -> String {
    for (shift, unit) in [(20, "MiB"), (10, "KiB"), (0, "B")] {
        let whole = bytes >> shift;
        if bytes > 0 && whole << shift == bytes && whole < 10_000 {
            return with_unit(whole.to_string(), unit);
        }
    }
    self::bytes(bytes)
}

/// Converts a number of bytes to MiB.
pub(crate) fn mib(bytes: f64) -> f64 {
    bytes / MIB
}

/// Formats a number of bytes per second with `digits` significant digits: `21.1 MiB/s`, or `12.0 KiB/s` below a tenth of
/// a MiB/s.
#[cfg(feature = "fit")]
pub(crate) fn rate(bytes_per_second: f64, digits: usize) -> String {
    if bytes_per_second.abs() < 0.1 * MIB {
        with_unit(significant(bytes_per_second / KIB, digits), "KiB/s")
    } else {
        with_unit(significant(mib(bytes_per_second), digits), "MiB/s")
    }
}

/// Returns a count with the noun in its number: `1 cell`, `1,024 cells`.
pub(crate) fn plural(n: usize, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{} {noun}s", fixed(n as f64, 0)) }
}

/// Replaces the hyphen before a number with a minus sign.
pub(crate) fn typeset(number: String) -> String {
    match number.strip_prefix('-') {
        Some(rest) => format!("{MINUS}{rest}"),
        None => number,
    }
}

/// Returns a text of numbers for a terminal: with hyphens before negative numbers and with plain spaces before units.
/// Its lines keep their widths.
pub(crate) fn plain(text: &str) -> String {
    let typed = |c| match c {
        NO_BREAK => ' ',
        MINUS => '-',
        other => other,
    };
    text.chars().map(typed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_apart_and_zero_has_no_sign() {
        assert_eq!(fixed(2_192_806.0, 0), "2,192,806");
        assert_eq!(fixed(999.0, 1), "999.0");
        assert_eq!(fixed(-1234.56, 1), "\u{2212}1,234.6");
        assert_eq!(fixed(-0.004, 2), "0.00");
        assert_eq!(signed(0.004, 2), "0.00");
        assert_eq!(signed(0.4, 1), "+0.4");
        assert_eq!(fixed(f64::NAN, 1), NONE);
    }

    #[test]
    fn digits_are_significant_after_rounding() {
        assert_eq!(significant(1.297, 3), "1.30");
        assert_eq!(significant(9.996, 3), "10.0");
        assert_eq!(significant(773.4, 3), "773");
        assert_eq!(significant(123_456.0, 3), "123,456");
        assert_eq!(significant(0.0, 3), "0");
    }

    #[test]
    fn durations_and_sizes_use_the_unit_of_their_rounded_value() {
        let shown = |ns| plain(&duration_ns(ns));
        assert_eq!(shown(999.4), "999 ns");
        assert_eq!(shown(999_499.0), "999 µs");
        assert_eq!(shown(999_600.0), "1.00 ms");
        assert_eq!(shown(3.077e9), "3.08 s");
        assert_eq!(shown(0.0), "0 ns");
        assert_eq!(shown(f64::NAN), NONE);
        let sizes = [1023, 1024, 1024 * 1024, 1024 * 1024 - 1].map(|size| plain(&bytes(size)));
        assert_eq!(sizes, ["1023 B", "1.00 KiB", "1.00 MiB", "1.00 MiB"]);
        let spans = [0.0, 0.25, 90.0, 600.0, 10_800.0, 180_000.0].map(|span| plain(&span_s(span)));
        assert_eq!(spans, ["0 s", "250 ms", "90.0 s", "10.0 min", "3.00 h", "2.08 days"]);
    }

    #[test]
    fn exact_texts_are_not_rounded() {
        let ranges = [(0, 1), (100_000, 200_000), (500_000, 1_000_000), (1_500, 2_000_000_000)];
        let ranges = ranges.map(|(from, to)| plain(&duration_range_ns(from, to)));
        assert_eq!(ranges, ["0 to 1 ns", "100 to 200 µs", "500 µs to 1 ms", "1.5 µs to 2 s"]);
        assert_eq!(milliseconds(12_345_678), "12.346");
        assert_eq!([1, 2, 1_024].map(|n| plural(n, "cell")), ["1 cell", "2 cells", "1,024 cells"]);
    }

    #[cfg(feature = "fit")]
    #[test]
    fn sizes_of_units_are_exact_and_rates_have_a_readable_unit() {
        let sizes = [512, 4 << 20, 1536 << 10, 10_000, 3 << 40].map(|size| plain(&exact_bytes(size)));
        assert_eq!(sizes, ["512 B", "4 MiB", "1536 KiB", "9.77 KiB", "3.00 TiB"]);
        let rates = [21.147 * MIB, 0.05 * MIB, f64::NAN].map(|value| plain(&rate(value, 3)));
        assert_eq!(rates, ["21.1 MiB/s", "51.2 KiB/s", NONE]);
        let changes = [1.2e6, -45e3, 0.3].map(signed_duration_ns);
        assert_eq!(changes, ["+1.20\u{a0}ms", "\u{2212}45.0\u{a0}µs", "0\u{a0}ns"]);
    }

    #[test]
    fn percentages_have_no_negative_zero_and_no_unit_without_a_number() {
        let errors = [-0.001, 0.4, -12.0, f64::NAN].map(|error| signed_percent(error, 2));
        assert_eq!(errors, ["0.00\u{a0}%", "+0.40\u{a0}%", "\u{2212}12.00\u{a0}%", NONE]);
        assert_eq!(percent(7.3149, 3), "7.31\u{a0}%");
        let shares = [0.0, 0.004, 0.87, 0.999, 1.0, 1.25, f64::NAN].map(|part| plain(&share(part)));
        assert_eq!(shares, ["0 %", "< 1 %", "87 %", "> 99 %", "100 %", "125 %", NONE]);
    }

    #[test]
    fn ticks_are_short() {
        let ticks = [0.5, 9_000.0, 20_000.0, -1.5e6, 3e15, f64::INFINITY].map(|value| plain(&tick(value, 1)));
        assert_eq!(ticks, ["0.5", "9,000.0", "20 k", "-1.5 M", "3.0e15", NONE]);
    }

    #[test]
    fn a_terminal_has_plain_spaces_and_hyphens() {
        let text = format!("{} at {}", signed_percent(-1.5, 1), with_unit(written(0.5), ""));
        assert_eq!((plain(&text).as_str(), text.chars().count()), ("-1.5 % at 0.5", 13));
    }

    #[test]
    fn values_of_any_size_are_short() {
        assert_eq!(compact(50.26), "50.3");
        assert_eq!(exact(1_234_567.0), "1.235\u{a0}M");
        assert_eq!(compact(1e300), "1.00e300");
        assert_eq!(compact(-3e-9), "\u{2212}3.00e-9");
        assert_eq!((compact(0.0), compact(f64::NAN)), ("0".into(), NONE.into()));
        assert_eq!(
            (written(128.0), written(0.5), written(1e15)),
            ("128".into(), "0.5".into(), "1.00e15".into())
        );
    }

    #[test]
    fn written_decimals_are_those_of_the_source() {
        assert_eq!(decimals_written(22.2), 1);
        assert_eq!(decimals_written(864_452.0), 0);
        assert_eq!(decimals_written(1.0 / 3.0), 6);
    }
}
