//! Quantities in words for people: times and numbers of bytes.

use flashlab_sim::Duration;

/// Formats a time for people: `3.2 days`.
pub fn span(time: Duration) -> String {
    let seconds = time.as_ns() as f64 / 1e9;
    match seconds {
        s if s < 120.0 => format!("{s:.3} s"),
        s if s < 7_200.0 => format!("{:.1} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.1} h", s / 3_600.0),
        s => format!("{:.1} days", s / 86_400.0),
    }
}

/// Formats a number of bytes for people, rounded down to a whole unit: `12 KiB`.
pub fn size(bytes: u64) -> String {
    match bytes {
        b if b < 10 << 10 => format!("{b} B"),
        b if b < 10 << 20 => format!("{} KiB", b >> 10),
        b if b < 10 << 30 => format!("{} MiB", b >> 20),
        b => format!("{} GiB", b >> 30),
    }
}
