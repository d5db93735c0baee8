//! Columns of an answer, which compares the choices for a question, such as the filesystems for a database.

use crate::number;
use flashlab_lab::results::{Answer, Choice};

/// Column heads of a comparison.
pub(crate) const HEADS: [&str; 9] = [
    "",
    "power cut",
    "× fastest",
    "fastest on",
    "elapsed s",
    "p99 ms",
    "filesystem writes ×",
    "flash writes ×",
    "life in days",
];

/// Explanation of the columns.
pub(crate) const LEGEND: &str = "Medians over the devices. × fastest: elapsed time over that of the fastest choice on the \
    same device. p99: 99th percentile of the latency that the user waits for. Filesystem writes: bytes written to the \
    device per byte that the application wrote. Flash writes: bytes programmed per byte written to the device. Life: \
    until the first erase block fails, if the workload repeats without a pause and wear spreads evenly.";

/// Returns the cells of a choice, one per head.
pub(crate) fn cells(answer: &Answer, choice: &Choice) -> [String; 9] {
    let figure = |value: f64| number::fixed(value, number::decimals_for(value, 3));
    let known = |value: Option<f64>| value.map_or_else(|| number::NONE.to_owned(), figure);
    [
        choice.name.clone(),
        if choice.fragile { "may damage" } else { "survives" }.to_owned(),
        number::fixed(choice.times_fastest, 2),
        format!("{} of {}", choice.fastest_on, answer.devices),
        figure(choice.elapsed_s),
        figure(choice.p99_ms),
        figure(choice.filesystem_writes),
        known(choice.flash_writes),
        known(choice.days),
    ]
}
