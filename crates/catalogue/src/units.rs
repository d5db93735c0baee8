//! Quantities with their units, as profiles write them: `225us`, `4MiB`, `50MHz`, `90MiB/s`, `2%`.
//!
//! Arithmetic is exact: `1.42us` is 1420 ns, and a value finer than the base unit is an error. Only rates are rounded,
//! with a note, because published rates have decimals. The printed form is the shortest exact one and parses back to
//! the same quantity.

use std::fmt::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The dimension of a quantity. Quantities are stored as whole base units: ns, B, Hz, B/s, millionths, ps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dimension {
    /// Time, in nanoseconds.
    Time,
    /// A size, in bytes.
    Size,
    /// A clock frequency, in hertz.
    Clock,
    /// A rate, in bytes per second.
    Rate,
    /// A fraction, in millionths; written in percent.
    Share,
    /// A delay of a signal, in picoseconds.
    Delay,
}

impl Dimension {
    /// All dimensions.
    pub const ALL: [Dimension; 6] = [
        Dimension::Time,
        Dimension::Size,
        Dimension::Clock,
        Dimension::Rate,
        Dimension::Share,
        Dimension::Delay,
    ];

    /// Returns the units with their values in base units, smallest first.
    pub const fn units(self) -> &'static [(&'static str, u64)] {
        match self {
            Dimension::Time => &[("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)],
            Dimension::Size => &[("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)],
            Dimension::Clock => &[("Hz", 1), ("kHz", 1_000), ("MHz", 1_000_000)],
            Dimension::Rate => &[("B/s", 1), ("KiB/s", 1 << 10), ("MiB/s", 1 << 20)],
            Dimension::Share => &[("%", 10_000)],
            Dimension::Delay => &[("ps", 1), ("ns", 1_000)],
        }
    }

    /// Returns the value of a unit in base units. The units that [`Dimension::units`] lacks are accepted but never
    /// printed, so that printed values stay comparable.
    fn worth(self, unit: &str) -> Option<u64> {
        self.units()
            .iter()
            .chain(self.larger_units())
            .find(|(name, _)| *name == unit)
            .map(|(_, worth)| *worth)
    }

    /// Returns the accepted units that [`Dimension::units`] lacks.
    const fn larger_units(self) -> &'static [(&'static str, u64)] {
        match self {
            Dimension::Time => &[("min", 60_000_000_000), ("h", 3_600_000_000_000)],
            Dimension::Size => &[("TiB", 1 << 40)],
            Dimension::Clock => &[("GHz", 1_000_000_000)],
            Dimension::Rate => &[("GiB/s", 1 << 30)],
            Dimension::Share | Dimension::Delay => &[],
        }
    }

    /// Returns the dimension with its article: "a time".
    pub(crate) const fn noun(self) -> &'static str {
        match self {
            Dimension::Time => "a time",
            Dimension::Size => "a size",
            Dimension::Clock => "a clock",
            Dimension::Rate => "a rate",
            Dimension::Share => "a percentage",
            Dimension::Delay => "a delay",
        }
    }

    /// Returns an example of a quantity.
    pub(crate) const fn example(self) -> &'static str {
        match self {
            Dimension::Time => "225us",
            Dimension::Size => "4MiB",
            Dimension::Clock => "50MHz",
            Dimension::Rate => "90MiB/s",
            Dimension::Share => "2%",
            Dimension::Delay => "11.4ns",
        }
    }

    /// Returns the finest step. A finer value is an error.
    const fn finest(self) -> &'static str {
        match self {
            Dimension::Time => "1ns",
            Dimension::Size => "1B",
            Dimension::Clock => "1Hz",
            Dimension::Rate => "1B/s",
            Dimension::Share => "0.0001%",
            Dimension::Delay => "1ps",
        }
    }

    /// Returns zero in the unit that profiles use most.
    const fn zero(self) -> &'static str {
        match self {
            Dimension::Time => "0us",
            Dimension::Size => "0B",
            Dimension::Clock => "0Hz",
            Dimension::Rate => "0B/s",
            Dimension::Share => "0%",
            Dimension::Delay => "0ns",
        }
    }

    /// Returns the accepted units as part of a sentence: "Hz, kHz, MHz or GHz".
    fn list(self) -> String {
        let names: Vec<_> = self.units().iter().chain(self.larger_units()).map(|(name, _)| *name).collect();
        or_list(&names)
    }

    /// Parses a decimal number directly followed by a unit, `1.42us`, to base units. A size without a unit is in bytes.
    /// A rate is rounded to whole bytes per second; [`take_notes`] reports the rounding.
    pub fn parse(self, text: &str) -> Result<u64, UnitError> {
        self.parse_with(text, |unit| self.worth(unit))
    }

    /// Parses a quantity of a command-line argument. The syntax is that of [`Dimension::parse`], but sizes also accept
    /// K, M, G and T as in fio (`4M` is 4 MiB).
    pub fn parse_argument(self, text: &str) -> Result<u64, UnitError> {
        self.parse_with(text, |unit| {
            let unit = match unit {
                "k" | "K" if self == Dimension::Size => "KiB",
                "m" | "M" if self == Dimension::Size => "MiB",
                "g" | "G" if self == Dimension::Size => "GiB",
                "t" | "T" if self == Dimension::Size => "TiB",
                other => other,
            };
            self.worth(unit)
        })
    }

    fn parse_with(self, text: &str, worth: impl Fn(&str) -> Option<u64>) -> Result<u64, UnitError> {
        let (value, rounding) = self.read(text, worth)?;
        rounding.into_iter().for_each(note);
        Ok(value)
    }

    /// Parses a quantity. Returns the value and a note if it was rounded.
    fn read(
        self,
        text: &str,
        worth: impl Fn(&str) -> Option<u64>,
    ) -> Result<(u64, Option<String>), UnitError> {
        let not_a_number = || UnitError::NotANumber { text: clip(text), expected: self };
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        if whole.is_empty() || fraction.is_empty() || fraction.contains('.') {
            return Err(not_a_number());
        }
        let unit = if self == Dimension::Size && unit.is_empty() { "B" } else { unit };
        if unit.is_empty() {
            return Err(UnitError::NoUnit { text: clip(text), expected: self });
        }
        let worth = worth(unit).ok_or_else(|| self.refuse(number, unit))?;
        if self == Dimension::Rate
            && let Some(rounded) = rounded(whole, fraction, worth)
        {
            return Ok((rounded, Some(format!("{} is rounded to {rounded}B/s", clip(text)))));
        }
        match exact(whole, fraction, worth) {
            Ok(value) => Ok((value, None)),
            Err(Inexact::TooFine) => Err(UnitError::TooFine { text: clip(text), expected: self }),
            Err(Inexact::TooLarge) => Err(UnitError::TooLarge { text: clip(text), expected: self }),
        }
    }

    fn refuse(self, number: &str, unit: &str) -> UnitError {
        let trimmed = unit.trim();
        if self.worth(trimmed).is_some() {
            return UnitError::Space { should_be: format!("{}{trimmed}", clip(number)) };
        }
        if let Some(other) = Dimension::ALL.into_iter().find(|other| other.worth(trimmed).is_some()) {
            return UnitError::OtherDimension { unit: clip(trimmed), is: other, expected: self };
        }
        UnitError::NotAUnit { unit: clip(trimmed), hint: look_alike(trimmed), expected: self }
    }

    /// Formats `value` base units in the shortest exact form. Of several shortest forms, the one with the
    /// largest unit is used.
    pub fn print(self, value: u64) -> String {
        if value == 0 {
            return self.zero().to_owned();
        }
        let units = self.units();
        let mut shortest: Option<String> = None;
        for (unit, worth) in units.iter().rev() {
            let smallest = *worth == units[0].1;
            if value < *worth && !smallest {
                continue;
            }
            let text = format!("{}{unit}", decimal(value, *worth));
            if shortest.as_ref().is_none_or(|s| text.len() < s.len()) {
                shortest = Some(text);
            }
        }
        shortest.expect("the smallest unit prints everything")
    }
}

enum Inexact {
    TooFine,
    TooLarge,
}

/// Multiplies `whole.fraction` by `worth` and returns the product if it is a whole number. The arguments are ASCII
/// digits of any length.
fn exact(whole: &str, fraction: &str, worth: u64) -> Result<u64, Inexact> {
    let whole = match whole.trim_start_matches('0') {
        "" => 0,
        digits => digits.parse::<u64>().map_err(|_| Inexact::TooLarge)?,
    };
    let fraction = fraction.trim_end_matches('0');
    // A byte has 30 decimals in GiB. In TiB it has 40, which would not fit into the products below.
    if fraction.len() > 30 {
        return Err(Inexact::TooFine);
    }
    let mut tenths = 1_u128;
    let mut numerator = 0_u128;
    for digit in fraction.bytes() {
        tenths *= 10;
        numerator = numerator * 10 + u128::from(digit - b'0');
    }
    let common = greatest_common_divisor(tenths, u128::from(worth));
    let (divisor, factor) = (tenths / common, u128::from(worth) / common);
    if !numerator.is_multiple_of(divisor) {
        return Err(Inexact::TooFine);
    }
    let part = u64::try_from(numerator / divisor * factor).expect("a fraction of one unit is below the unit");
    whole.checked_mul(worth).and_then(|w| w.checked_add(part)).ok_or(Inexact::TooLarge)
}

/// Multiplies `whole.fraction` by `worth` and rounds the product to the nearest whole number. Returns `None` if the
/// product is exact or too large.
fn rounded(whole: &str, fraction: &str, worth: u64) -> Option<u64> {
    if !matches!(exact(whole, fraction, worth), Err(Inexact::TooFine)) {
        return None;
    }
    // Further decimals are far below a byte.
    let fraction = &fraction[..fraction.len().min(18)];
    let tenths = 10_u128.pow(fraction.len() as u32);
    let part = fraction.parse::<u128>().ok()? * u128::from(worth);
    let part = u64::try_from((2 * part + tenths) / (2 * tenths)).ok()?;
    whole.parse::<u64>().ok()?.checked_mul(worth)?.checked_add(part)
}

/// Notes on parsed quantities, until [`take_notes`] takes them.
static NOTES: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn notes() -> MutexGuard<'static, Vec<String>> {
    NOTES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds a note unless it exists already. A limit bounds the list for programs that parse many quantities and never take
/// the notes.
fn note(note: String) {
    let mut notes = notes();
    if notes.len() < NOTES_MAX && !notes.contains(&note) {
        notes.push(note);
    }
}

const NOTES_MAX: usize = 100;

/// Takes the notes on quantities whose value differs from the text.
pub fn take_notes() -> Vec<String> {
    std::mem::take(&mut notes())
}

fn greatest_common_divisor(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// Formats `value / worth` as a decimal number. The number is finite because the values of all units are products of
/// powers of 2 and 10.
fn decimal(value: u64, worth: u64) -> String {
    let (value, worth) = (u128::from(value), u128::from(worth));
    let mut text = (value / worth).to_string();
    let mut rest = value % worth;
    if rest > 0 {
        text.push('.');
    }
    while rest > 0 {
        rest *= 10;
        write!(text, "{}", rest / worth).expect("writing to a string");
        rest %= worth;
    }
    text
}

/// Returns a hint for a unit of common use that this module does not accept.
fn look_alike(unit: &str) -> Option<&'static str> {
    Some(match unit {
        "k" | "K" | "kB" | "KB" | "kb" | "Kb" | "kiB" | "KIB" | "kib" | "Ki" => "KiB is 1024 bytes",
        "m" | "M" | "MB" | "mB" | "mb" | "Mb" | "MIB" | "mib" | "Mi" => "MiB is 1048576 bytes",
        "G" | "GB" | "gB" | "gb" | "Gb" | "GIB" | "gib" | "g" | "Gi" => "GiB is 1073741824 bytes",
        "b" | "byte" | "bytes" => "bytes are B",
        "kB/s" | "KB/s" | "kb/s" | "K/s" | "KiBps" | "KBps" => "KiB/s is 1024 bytes a second",
        "MB/s" | "mb/s" | "M/s" | "MiBps" | "MBps" => "MiB/s is 1048576 bytes a second",
        "\u{b5}s" | "\u{3bc}s" | "usec" | "usecs" | "US" | "uS" => "microseconds are us",
        "msec" | "msecs" | "MS" | "mS" => "milliseconds are ms",
        "nsec" | "nsecs" | "NS" | "nS" => "nanoseconds are ns",
        "sec" | "secs" | "S" | "second" | "seconds" => "seconds are s",
        "minute" | "minutes" | "mins" => "minutes are min",
        "hour" | "hours" | "hr" | "H" => "hours are h",
        "hz" | "HZ" => "hertz are Hz",
        "KHz" | "khz" | "KHZ" => "kHz is 1000 Hz",
        "mhz" | "Mhz" | "MHZ" | "mHz" => "MHz is 1000000 Hz",
        "percent" | "pct" => "percent is %",
        _ => return None,
    })
}

/// The reason why a text is not a valid quantity.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum UnitError {
    /// The text does not begin with a plain decimal number.
    NotANumber {
        /// The text as written.
        text: String,
        /// The expected dimension.
        expected: Dimension,
    },
    /// The number has no unit.
    NoUnit {
        /// The text as written.
        text: String,
        /// The expected dimension.
        expected: Dimension,
    },
    /// The unit belongs to another dimension.
    OtherDimension {
        /// The unit.
        unit: String,
        /// Dimension of the unit.
        is: Dimension,
        /// The expected dimension.
        expected: Dimension,
    },
    /// The unit is unknown.
    NotAUnit {
        /// The unit as written.
        unit: String,
        /// A hint at the right unit, if the unit is a common one.
        hint: Option<&'static str>,
        /// The expected dimension.
        expected: Dimension,
    },
    /// A space stands between or around the number and the unit.
    Space {
        /// The text without spaces.
        should_be: String,
    },
    /// The number has more decimals than the base unit can represent.
    TooFine {
        /// The text as written.
        text: String,
        /// The expected dimension.
        expected: Dimension,
    },
    /// The value exceeds 64 bits of base units.
    TooLarge {
        /// The text as written.
        text: String,
        /// The expected dimension.
        expected: Dimension,
    },
}

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnitError::NotANumber { text, expected } => write!(
                f,
                "\"{text}\" is not {}; expected a decimal number and its unit ({}), for example \"{}\"",
                expected.noun(),
                expected.list(),
                expected.example()
            ),
            UnitError::NoUnit { text, expected } => write!(
                f,
                "\"{text}\" has no unit; expected {} in {}, for example \"{}\"",
                expected.noun(),
                expected.list(),
                expected.example()
            ),
            UnitError::OtherDimension { unit, is, expected } => write!(
                f,
                "{unit} is the unit of {}; expected {} in {}, for example \"{}\"",
                is.noun(),
                expected.noun(),
                expected.list(),
                expected.example()
            ),
            UnitError::NotAUnit { unit, hint: Some(hint), expected } => {
                write!(f, "{unit} is not a unit here: {hint}; {} is in {}", expected.noun(), expected.list())
            }
            UnitError::NotAUnit { unit, hint: None, expected } => {
                write!(f, "{unit} is not a unit here; {} is in {}", expected.noun(), expected.list())
            }
            UnitError::Space { should_be } => {
                write!(
                    f,
                    "spaces are not allowed between or around a number and its unit; write \"{should_be}\""
                )
            }
            UnitError::TooFine { text, expected } => {
                write!(
                    f,
                    "\"{text}\" is finer than {}, the finest step of {}",
                    expected.finest(),
                    expected.noun()
                )
            }
            UnitError::TooLarge { text, expected } => {
                write!(f, "\"{text}\" is too large; the largest is {}", expected.print(u64::MAX))
            }
        }
    }
}

impl std::error::Error for UnitError {}

/// Returns the first 40 characters, with control characters escaped, to quote outside text in a message.
/// `...` follows if the text is longer.
pub fn clip(text: &str) -> String {
    let mut clipped: String = text.chars().take(40).flat_map(visible).collect();
    if text.chars().nth(40).is_some() {
        clipped.push_str("...");
    }
    clipped
}

fn visible(c: char) -> impl Iterator<Item = char> {
    let escaped = c.is_control().then(|| c.escape_default());
    let plain = (!c.is_control()).then_some(c);
    escaped.into_iter().flatten().chain(plain)
}

/// Joins names as in "a, b or c".
pub fn or_list<S: AsRef<str>>(names: &[S]) -> String {
    let mut text = String::new();
    for (i, name) in names.iter().enumerate() {
        if i > 0 {
            text.push_str(if i + 1 == names.len() { " or " } else { ", " });
        }
        text.push_str(name.as_ref());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn decimals_are_exact() {
        assert_eq!(Dimension::Time.parse("1.42us"), Ok(1_420));
        assert_eq!(Dimension::Time.parse("0.000000001s"), Ok(1));
        assert_eq!(Dimension::Time.parse("4.35ms"), Ok(4_350_000));
        assert_eq!(Dimension::Size.parse("1.5KiB"), Ok(1_536));
        assert_eq!(Dimension::Size.parse("0.000000000931322574615478515625GiB"), Ok(1));
        assert_eq!(Dimension::Share.parse("0.0001%"), Ok(1));
        assert_eq!(Dimension::Delay.parse("11.4ns"), Ok(11_400));
        assert_eq!(Dimension::Clock.parse("25.000000MHz"), Ok(25_000_000));
    }

    #[test]
    fn values_finer_than_a_base_unit_are_refused() {
        for (dimension, text) in [
            (Dimension::Time, "1.4201us"),
            (Dimension::Time, "0.5ns"),
            (Dimension::Size, "0.1KiB"),
            (Dimension::Share, "0.00001%"),
        ] {
            assert!(matches!(dimension.parse(text), Err(UnitError::TooFine { .. })), "{text}");
        }
    }

    #[test]
    fn sizes_that_overflow_are_refused() {
        for text in
            ["18446744073709551616B", "17179869184GiB", "99999999999999999999999999999999999999999GiB"]
        {
            assert!(matches!(Dimension::Size.parse(text), Err(UnitError::TooLarge { .. })), "{text}");
        }
        assert_eq!(Dimension::Size.parse("18446744073709551615B"), Ok(u64::MAX));
    }

    #[test]
    fn an_error_states_what_was_expected() {
        let say = |d: Dimension, text| d.parse(text).unwrap_err().to_string();
        assert_eq!(
            say(Dimension::Size, "8KB"),
            "KB is not a unit here: KiB is 1024 bytes; a size is in B, KiB, MiB, GiB or TiB"
        );
        assert_eq!(
            say(Dimension::Size, "8us"),
            "us is the unit of a time; expected a size in B, KiB, MiB, GiB or TiB, for example \"4MiB\""
        );
        assert_eq!(
            say(Dimension::Time, "225"),
            "\"225\" has no unit; expected a time in ns, us, ms, s, min or h, for example \"225us\""
        );
        assert_eq!(
            say(Dimension::Time, "225 us"),
            "spaces are not allowed between or around a number and its unit; write \"225us\""
        );
        assert_eq!(
            say(Dimension::Time, "1.4201us"),
            "\"1.4201us\" is finer than 1ns, the finest step of a time"
        );
        assert_eq!(
            say(Dimension::Time, "-5us"),
            "\"-5us\" is not a time; expected a decimal number and its unit (ns, us, ms, s, min or h), for example \"225us\""
        );
        assert_eq!(say(Dimension::Rate, "9MB/s"), {
            "MB/s is not a unit here: MiB/s is 1048576 bytes a second; a rate is in B/s, KiB/s, MiB/s or GiB/s"
        });
    }

    #[test]
    fn larger_units_and_plain_bytes_are_read() {
        assert_eq!(Dimension::Size.parse("1048576"), Ok(1 << 20));
        assert_eq!(Dimension::Size.parse("1.5TiB"), Ok(3 << 39));
        assert_eq!(Dimension::Size.parse_argument("2T"), Ok(2 << 40));
        assert_eq!(Dimension::Size.parse_argument("0"), Ok(0));
        assert_eq!(Dimension::Time.parse("1.5h"), Ok(5_400_000_000_000));
        assert_eq!(Dimension::Time.parse("2min"), Ok(120_000_000_000));
        assert!(matches!(Dimension::Size.parse("1.5"), Err(UnitError::TooFine { .. })));
        assert!(matches!(Dimension::Time.parse("5"), Err(UnitError::NoUnit { .. })));
    }

    #[test]
    fn a_rate_is_rounded_to_whole_bytes_a_second_with_a_note() {
        let read = |text| Dimension::Rate.read(text, |unit| Dimension::Rate.worth(unit));
        let note = "97.66MiB/s is rounded to 102403932B/s".to_owned();
        assert_eq!(read("97.66MiB/s"), Ok((102_403_932, Some(note))));
        assert_eq!(read("0.4B/s").map(|(rate, _)| rate), Ok(0));
        assert_eq!(read("0.33333333333333333333333333333333KiB/s").map(|(rate, _)| rate), Ok(341));
        assert_eq!(read("97.5MiB/s"), Ok((102_236_160, None)));
        assert!(Dimension::Size.parse("97.66MiB").is_err());
    }

    #[test]
    fn only_arguments_may_shorten_the_units_of_a_size() {
        assert_eq!(Dimension::Size.parse_argument("4M"), Ok(4 << 20));
        assert_eq!(Dimension::Size.parse_argument("4MiB"), Ok(4 << 20));
        assert!(Dimension::Size.parse("4M").is_err());
        assert!(Dimension::Time.parse_argument("4M").is_err());
    }

    #[test]
    fn the_shortest_exact_form_is_printed() {
        assert_eq!(Dimension::Time.print(1_420), "1.42us");
        assert_eq!(Dimension::Time.print(225_000), "225us");
        assert_eq!(Dimension::Time.print(500_000), "500us");
        assert_eq!(Dimension::Time.print(2_000_000), "2ms");
        assert_eq!(Dimension::Time.print(0), "0us");
        assert_eq!(Dimension::Size.print(30_517 << 20), "30517MiB");
        assert_eq!(Dimension::Size.print(512), "512B");
        assert_eq!(Dimension::Size.print((1 << 30) + 1), "1073741825B");
        assert_eq!(Dimension::Rate.print(90 << 20), "90MiB/s");
        assert_eq!(Dimension::Clock.print(30_000_000), "30MHz");
        assert_eq!(Dimension::Share.print(25_000), "2.5%");
        assert_eq!(Dimension::Share.print(1), "0.0001%");
    }

    fn dimension() -> impl Strategy<Value = Dimension> {
        prop::sample::select(Dimension::ALL.to_vec())
    }

    proptest! {
        #[test]
        fn printed_values_parse_back(dimension in dimension(), value: u64) {
            prop_assert_eq!(dimension.parse(&dimension.print(value)), Ok(value));
        }

        #[test]
        fn round_values_parse_back_and_are_printed_no_longer_than_written(
            dimension in dimension(), whole in 0_u64..100_000, cents in 0_u64..100, unit: prop::sample::Index,
        ) {
            let units = dimension.units();
            let text = format!("{whole}.{cents:02}{}", units[unit.index(units.len())].0);
            if let Ok((value, None)) = dimension.read(&text, |unit| dimension.worth(unit)) {
                let printed = dimension.print(value);
                prop_assert!(printed.len() <= text.len(), "{} for {}", printed, text);
                prop_assert_eq!(dimension.parse(&printed), Ok(value));
            }
        }

        #[test]
        fn no_text_panics(dimension in dimension(), text in any::<String>(), digits in "[0-9.]{0,60}[A-Za-z%/ ]{0,5}") {
            let _ = dimension.parse(&text).map_err(|e| e.to_string());
            let _ = dimension.parse_argument(&digits).map_err(|e| e.to_string());
        }
    }
}
