//! Progress of long work in words: `40 %, 3 min 20 s left`.

use std::time::Duration;

/// Below this share, an estimate of the time left is too inaccurate.
const SHARE_MIN: f64 = 0.01;

/// Formats progress: `40 %, 3 min 20 s left`. `share` is the share of the work that is done, from 0 to 1, and `elapsed` is
/// the time since the beginning of the work. Below one percent, the text has no time left.
pub fn percent_and_time_left(share: f64, elapsed: Duration) -> String {
    let left = time_left(share, elapsed).map(|left| format!(", {left}"));
    percent(share) + &left.unwrap_or_default()
}

/// Formats the share of the work that is done as a percentage, rounded down: `40 %`.
pub fn percent(share: f64) -> String {
    format!("{:.0} %", (share * 100.0).floor())
}

/// Formats the estimated time left: `3 min 20 s left`. Returns `None` below one percent.
pub fn time_left(share: f64, elapsed: Duration) -> Option<String> {
    let left = elapsed.as_secs_f64() * (1.0 - share) / share;
    (share >= SHARE_MIN).then(|| format!("{} left", seconds(left)))
}

/// Formats a wall-clock time, rounded up to a second: `12 s`, `3 min 20 s`, `2 h 5 min`.
pub fn seconds(seconds: f64) -> String {
    match seconds.ceil() as u64 {
        s if s < 60 => format!("{s} s"),
        s if s < 3_600 => format!("{} min {} s", s / 60, s % 60),
        s => format!("{} h {} min", s / 3_600, s % 3_600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_is_that_at_the_rate_so_far() {
        let text = |share, elapsed| percent_and_time_left(share, Duration::from_secs(elapsed));
        assert_eq!(text(0.25, 50), "25 %, 2 min 30 s left");
        assert_eq!(text(0.5, 7_500), "50 %, 2 h 5 min left");
        assert_eq!(text(0.999, 7_200), "99 %, 8 s left");
        assert_eq!(text(1.0, 30), "100 %, 0 s left");
    }

    #[test]
    fn below_one_percent_there_is_no_time_left() {
        assert_eq!(percent_and_time_left(0.0, Duration::from_secs(20)), "0 %");
        assert_eq!(percent_and_time_left(0.009, Duration::from_secs(20)), "0 %");
    }
}
