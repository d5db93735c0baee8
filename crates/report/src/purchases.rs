//! Choices of drives: the drives to buy for a hot set of a given size.

use crate::number;
use flashlab_lab::results::{Purchase, PurchaseOption};

/// Explanation of the columns.
pub(crate) const LEGEND: &str = "All figures are predictions, and none was measured. ✓: the cheapest option that reaches the \
    acceptable share of the first option's requests per second. IOPS: requests per second of clients without \
    pauses. Latencies: those of clients with pauses. Written: bytes that the volume writes to the drive per \
    byte that clients write.";

/// Returns the column heads of a comparison.
pub(crate) fn heads(purchase: &Purchase) -> Vec<String> {
    let drives = || purchase.options.first().into_iter().flat_map(|option| option.drives_gb.keys());
    let mut heads: Vec<String> = vec![String::new(), "USD".into()];
    heads.extend(drives().map(|drive| format!("{drive} GB")));
    heads.extend(["IOPS", "of the first", "read ms", "read p99 ms", "write p99 ms"].map(String::from));
    heads.extend(drives().map(|drive| format!("written to {drive} ×")));
    heads
}

/// Returns the cells of an option, one per head.
pub(crate) fn cells(purchase: &Purchase, option: &PurchaseOption) -> Vec<String> {
    let figure = |value: f64| number::fixed(value, number::decimals_for(value, 3));
    let is_best = purchase.best().is_some_and(|best| best.name == option.name);
    let drive = |gb: &u64| if *gb == 0 { number::NONE.to_owned() } else { gb.to_string() };
    let mut cells = vec![format!("{}{}", option.name, if is_best { " ✓" } else { "" })];
    cells.push(number::fixed(option.usd, 2));
    cells.extend(option.drives_gb.values().map(drive));
    cells.push(figure(option.burst_iops));
    cells.push(number::share(purchase.share(option)));
    cells.extend([option.read_mean_ms, option.read_p99_ms, option.write_p99_ms].map(figure));
    cells.extend(option.written.iter().map(|(drive, ratio)| {
        let is_there = option.drives_gb.get(drive).is_some_and(|gb| *gb > 0);
        if is_there { figure(*ratio) } else { number::NONE.to_owned() }
    }));
    cells
}
