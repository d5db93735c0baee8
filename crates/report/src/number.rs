//! Formats numbers for people: significant digits only, thousands separators, and never `-0`.
//!
//! A value that is not finite is shown as [`NONE`].

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
    if value < 0.0 && digits.bytes().any(|b| (b'1'..=b'9').contains(&b)) {
        text.push('-');
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
    let text = fixed(value, decimals);
    let is_zero = !text.bytes().any(|b| (b'1'..=b'9').contains(&b));
    if value > 0.0 && !is_zero { format!("+{text}") } else { text }
}

/// Formats `value` with `digits` significant digits. Whole digits are never dropped.
pub(crate) fn significant(value: f64, digits: usize) -> String {
    fixed(value, decimals_for(value, digits))
}

/// Formats a value of any size with three significant digits: `50.3`, `1.20 M`, `3.00e15`.
pub(crate) fn compact(value: f64) -> String {
    of_any_size(value, 3)
}

/// Formats like [`compact`] with four digits, for a single value.
pub(crate) fn exact(value: f64) -> String {
    of_any_size(value, 4)
}

fn of_any_size(value: f64, digits: usize) -> String {
    typeset(match value.abs() {
        x if x >= 1e12 && x.is_finite() => format!("{value:.*e}", digits - 1),
        x if x >= 1e6 => format!("{} M", significant(value / 1e6, digits)),
        x if x > 0.0 && x < 1e-6 => format!("{value:.*e}", digits - 1),
        _ => significant(value, digits),
    })
}

/// Formats a position on an axis as written in its source: `128`, `0.5`.
pub(crate) fn written(value: f64) -> String {
    match value.abs() {
        x if x >= 1e12 && x.is_finite() => typeset(format!("{value:.2e}")),
        _ => typeset(fixed(value, decimals_written(value))),
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

/// No-break space between a number and its unit in running text.
pub(crate) const NO_BREAK: char = '\u{a0}';

/// Units of times with their nanoseconds, for [`unit_for`].
pub(crate) const TIMES: [(f64, &str); 4] = [(1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")];

/// Returns the unit in which an axis up to `greatest` is easiest to read, with its size. The largest of `units` is
/// first.
pub(crate) fn unit_for(greatest: f64, units: &[(f64, &'static str); 4]) -> (f64, &'static str) {
    *units.iter().find(|(size, _)| greatest >= 2.0 * size).unwrap_or(&units[3])
}

/// Formats a duration with three significant digits: `45.0 ms`, `312 µs`, `3.08 s`.
pub(crate) fn duration_ns(ns: f64) -> String {
    let (scaled, unit) = match ns.abs() {
        x if x < 999.5 => (ns, "ns"),
        x if x < 999.5e3 => (ns / 1e3, "µs"),
        x if x < 999.5e6 => (ns / 1e6, "ms"),
        _ => (ns / 1e9, "s"),
    };
    let digits = if unit == "ns" { fixed(scaled, 0) } else { significant(scaled, 3) };
    format!("{digits}{NO_BREAK}{unit}")
}

/// Formats a size with three significant digits: `512 B`, `21.4 KiB`, `1.52 MiB`.
pub(crate) fn bytes(bytes: u64) -> String {
    const KIB: f64 = 1024.0;
    let b = bytes as f64;
    let (scaled, unit) = match b {
        _ if bytes < 1024 => return format!("{bytes}{NO_BREAK}B"),
        b if b < 999.5 * KIB => (b / KIB, "KiB"),
        b if b < 999.5 * KIB * KIB => (b / KIB / KIB, "MiB"),
        b if b < 999.5 * KIB * KIB * KIB => (b / KIB / KIB / KIB, "GiB"),
        b => (b / KIB / KIB / KIB / KIB, "TiB"),
    };
    format!("{}{NO_BREAK}{unit}", significant(scaled, 3))
}

/// Formats a time span with three significant digits: `2.08 days`, `31.0 h`, `12.0 min`, `4.50 s`.
pub(crate) fn span_s(seconds: f64) -> String {
    const HOUR: f64 = 3600.0;
    let (scaled, unit) = match seconds.abs() {
        s if s < 120.0 => (seconds, "s"),
        s if s < 2.0 * HOUR => (seconds / 60.0, "min"),
        s if s < 48.0 * HOUR => (seconds / HOUR, "h"),
        _ => (seconds / HOUR / 24.0, "days"),
    };
    format!("{}{NO_BREAK}{unit}", compact(scaled))
}

/// Replaces the hyphen before a number with a typographic minus sign.
pub(crate) fn typeset(number: String) -> String {
    match number.strip_prefix('-') {
        Some(rest) => format!("\u{2212}{rest}"),
        None => number,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_apart_and_zero_has_no_sign() {
        assert_eq!(fixed(2_192_806.0, 0), "2,192,806");
        assert_eq!(fixed(999.0, 1), "999.0");
        assert_eq!(fixed(-1234.56, 1), "-1,234.6");
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
    fn durations_and_sizes_change_unit_where_they_should() {
        let shown = |ns| duration_ns(ns).replace(NO_BREAK, " ");
        assert_eq!(shown(999.4), "999 ns");
        assert_eq!(shown(999_499.0), "999 µs");
        assert_eq!(shown(999_600.0), "1.00 ms");
        assert_eq!(shown(3.077e9), "3.08 s");
        assert_eq!(shown(0.0), "0 ns");
        assert_eq!(bytes(1023).replace(NO_BREAK, " "), "1023 B");
        assert_eq!(bytes(1024).replace(NO_BREAK, " "), "1.00 KiB");
        assert_eq!(bytes(1024 * 1024).replace(NO_BREAK, " "), "1.00 MiB");
    }

    #[test]
    fn values_of_any_size_are_short() {
        assert_eq!(compact(50.26), "50.3");
        assert_eq!(exact(1_234_567.0), "1.235 M");
        assert_eq!(compact(1e300), "1.00e300");
        assert_eq!(compact(-3e-9), "\u{2212}3.00e-9");
        assert_eq!((compact(0.0), compact(f64::NAN)), ("0".into(), NONE.into()));
        assert_eq!(
            (written(128.0), written(0.5), written(1e15)),
            ("128".into(), "0.5".into(), "1.00e15".into())
        );
        assert_eq!(span_s(180_000.0).replace(NO_BREAK, " "), "2.08 days");
    }

    #[test]
    fn written_decimals_are_those_of_the_source() {
        assert_eq!(decimals_written(22.2), 1);
        assert_eq!(decimals_written(864_452.0), 0);
        assert_eq!(decimals_written(1.0 / 3.0), 6);
    }
}
