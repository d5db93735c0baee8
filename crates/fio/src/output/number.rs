//! Numbers in fio's format: above a maximum number of digits, the next prefix is used.

/// The unit of a number. `Bytes` and `BytesPerSecond` follow the prefix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unit {
    /// No unit.
    None,
    /// `B`.
    Bytes,
    /// `B/s`.
    BytesPerSecond,
}

/// The base of the prefixes: powers of 1024 (Ki, Mi) or of 1000 (k, M).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Base {
    /// Powers of 1024.
    Binary,
    /// Powers of 1000.
    Decimal,
}

/// Formats `number` with at most `digits` digits. With four digits, 8850 is `8850B` and 9999999 is `9.54MiB`; a whole
/// part of three or four digits has no fraction.
pub(crate) fn short(number: u64, digits: usize, base: Base, unit: Unit) -> String {
    let (thousand, prefixes) = match base {
        Base::Binary => (1_024, ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]),
        Base::Decimal => (1_000, ["", "k", "M", "G", "T", "P", "E"]),
    };
    let unit = match unit {
        Unit::None => "",
        Unit::Bytes => "B",
        Unit::BytesPerSecond => "B/s",
    };
    let (mut whole, mut rest, mut prefix) = (number, None, 0);
    while length(whole) > digits && prefix + 1 < prefixes.len() {
        rest = Some(whole % thousand);
        whole /= thousand;
        prefix += 1;
    }
    let prefix = prefixes[prefix];
    let decimals = digits.saturating_sub(length(whole) + 1);
    match rest {
        None => format!("{whole}{unit}"),
        Some(rest) if decimals == 0 => format!("{}{prefix}{unit}", whole + u64::from(rest >= thousand / 2)),
        Some(rest) => format!("{:.decimals$}{prefix}{unit}", whole as f64 + rest as f64 / thousand as f64),
    }
}

fn length(number: u64) -> usize {
    number.checked_ilog10().unwrap_or(0) as usize + 1
}

impl Base {
    /// Returns the base that `kb_base=` requests, and the other one, which fio prints in parentheses.
    pub(crate) fn from_kb_base(kb_base: u32) -> (Base, Base) {
        if kb_base == 1_000 { (Base::Decimal, Base::Binary) } else { (Base::Binary, Base::Decimal) }
    }
}

/// Formats bytes: `64.0MiB`, `67.1MB`.
pub(crate) fn bytes(number: u64, base: Base) -> String {
    short(number, 4, base, Unit::Bytes)
}
/// Formats bytes a second: `8850KiB/s`, `9062kB/s`.
pub(crate) fn rate(number: u64, base: Base) -> String {
    short(number, 4, base, Unit::BytesPerSecond)
}
/// Formats a count: `2212`, `8192k`.
pub(crate) fn count(number: u64) -> String {
    short(number, 4, Base::Decimal, Unit::None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_print_as_fio_3_33_printed_them() {
        for (number, binary, decimal) in [
            (8_192, "8192B", "8192B"),
            (9_999, "9999B", "9999B"),
            (10_234, "9.99KiB", "10.2kB"),
            (10_235, "10.00KiB", "10.2kB"),
            (10_239, "10.00KiB", "10.2kB"),
            (10_240, "10.0KiB", "10.2kB"),
            (100_000, "97.7KiB", "100kB"),
            (102_347, "99.9KiB", "102kB"),
            (104_806, "102KiB", "105kB"),
            (1_023_949, "1000KiB", "1024kB"),
            (1_048_575, "1024KiB", "1049kB"),
            (4 << 20, "4096KiB", "4194kB"),
            (64 << 20, "64.0MiB", "67.1MB"),
        ] {
            assert_eq!(bytes(number, Base::Binary), binary);
            assert_eq!(bytes(number, Base::Decimal), decimal);
        }
    }

    #[test]
    fn rates_and_counts_print_as_fio_3_33_printed_them() {
        assert_eq!(rate(9_062_400, Base::Binary), "8850KiB/s");
        assert_eq!(rate(9_062_400, Base::Decimal), "9062kB/s");
        assert_eq!(rate(33_554_432_000, Base::Binary), "31.2GiB/s");
        assert_eq!(rate(33_554_432_000, Base::Decimal), "33.6GB/s");
        assert_eq!(count(8_192_000), "8192k");
        assert_eq!(count(2_212), "2212");
        assert_eq!(count(305_000), "305k");
    }

    proptest! {
        #[test]
        fn the_printed_number_is_within_its_last_digit(number: u64, shift in 0u32..64) {
            let number = number >> shift;
            for (base, thousand) in [(Base::Binary, 1_024f64), (Base::Decimal, 1_000.0)] {
                let text = short(number, 4, base, Unit::None);
                let digits = text.trim_end_matches(|c: char| c.is_alphabetic());
                let power = ["", "k", "M", "G", "T", "P", "E"]
                    .iter().position(|p| text[digits.len()..].trim_end_matches('i').eq_ignore_ascii_case(p));
                let scale = thousand.powi(power.expect("a prefix") as i32);
                let value: f64 = digits.parse().expect("a number");
                let last = digits.split_once('.').map_or(1.0, |(_, f)| 0.1f64.powi(f.len() as i32));
                // The error is half of the last digit, plus the digits that the smaller prefixes truncate.
                let error = (value * scale - number as f64).abs();
                prop_assert!(error <= (0.5 * last + 1.01 / thousand) * scale, "{number}: {text}");
            }
        }
    }
}
