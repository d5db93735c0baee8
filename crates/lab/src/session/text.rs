//! Numbers and reasons in the texts of events.

use flashlab_sim::{Duration, Status};

/// Returns a number of requests: `1 request`, `2 requests`.
pub(super) fn requests(number: u64) -> String {
    format!("{number} request{}", if number == 1 { "" } else { "s" })
}

/// Returns a duration in the largest unit in which it is at least one, exactly if it is a whole number of
/// this unit, otherwise with three significant digits: `4.28 ms`.
pub(super) fn duration(time: Duration) -> String {
    const UNITS: [(&str, f64); 4] = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
    let ns = time.as_ns() as f64;
    // A value that would round up to 1000 is printed in the next unit.
    let fits = |(_, unit): &&(&str, f64)| ns / unit < 999.5;
    let (name, unit) = UNITS.iter().find(fits).unwrap_or(&UNITS[3]);
    let value = ns / unit;
    let decimals = match value {
        _ if value.fract() == 0.0 => 0,
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {name}")
}

/// Returns the reason for which a request failed.
pub(super) fn reason(status: Status) -> &'static str {
    match status {
        Status::Ok => "no error",
        Status::OutOfRange => "its range lies outside of the device",
        Status::Unsupported => "the device does not support it",
        Status::ReadOnly => "the device is worn out and refuses writes",
        Status::Unreadable => "I/O error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_whole_or_have_three_digits() {
        let text = |ns| duration(Duration::from_ns(ns));
        assert_eq!([0, 5, 999, 1_500].map(text), ["0 ns", "5 ns", "999 ns", "1.50 us"]);
        assert_eq!([4_284_500, 999_499, 999_500].map(text), ["4.28 ms", "999 us", "1.00 ms"]);
        assert_eq!([12_345_678_000, 3_600_000_000_000].map(text), ["12.3 s", "3600 s"]);
        assert_eq!([1, 2].map(requests), ["1 request", "2 requests"]);
    }
}
