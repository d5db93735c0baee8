//! The choice of drives for each hot set, and the curves over the size of the hot set.

use super::super::Experiment;
use crate::results::{Cell, Curve, CurvePoint, CurveSeries};
#[cfg(feature = "volume")]
use {
    super::super::measured::MeasuredCell,
    super::{Layout, Settings},
    crate::results::{PRICES, Purchase, PurchaseOption},
};

/// Tables with a chart: name, title, and unit.
const CHARTS: [(&str, &str, &str); 3] = [
    ("burst", "Requests per second without pauses", "IOPS"),
    ("read mean", "Mean latency of reads", "ms"),
    ("read p99", "99th percentile of the latency of reads", "ms"),
];

/// Returns the charts over the size of the hot set; none for experiments of other kinds.
pub(in crate::experiment) fn curves(experiment: &Experiment, cells: &[Cell]) -> Vec<Curve> {
    let Some(settings) = &experiment.definition.tiering else { return Vec::new() };
    let written = [&settings.fast, &settings.slow].map(|drive| {
        let title = format!("Bytes written to {drive} per byte that clients write");
        (format!("written to {drive}"), title, "ratio")
    });
    let charts = CHARTS.map(|(table, title, unit)| (table.to_owned(), title.to_owned(), unit));
    let curve = |(table, title, unit): (String, String, &str)| {
        let series = settings.layouts.iter().map(|layout| {
            let point = |hot: &u64| {
                let row = super::Settings::row(*hot);
                let is_here =
                    |cell: &&Cell| (&cell.table, &cell.row, &cell.column) == (&table, &row, &layout.name);
                let cell = cells.iter().find(is_here)?;
                Some(CurvePoint { x: *hot as f64, y: cell.simulated.mean, role: cell.role })
            };
            CurveSeries {
                name: layout.name.clone(),
                variant: false,
                points: settings.hot_gb.iter().filter_map(point).collect(),
                published: Vec::new(),
                map_hits: Vec::new(),
            }
        });
        let series = series.collect();
        Curve { chart: table, title, x_unit: "GB hot".into(), y_unit: unit.into(), series, notes: Vec::new() }
    };
    charts.into_iter().chain(written).map(curve).collect()
}

/// Returns the options for each hot set, and the share that makes an option acceptable.
#[cfg(feature = "volume")]
pub(super) fn purchases(settings: &Settings, cells: &[MeasuredCell]) -> Vec<Purchase> {
    let purchase = |hot: &u64| {
        let row = Settings::row(*hot);
        let figure = |table: &str, layout: &Layout| {
            let is_here =
                |cell: &&MeasuredCell| cell.table == table && cell.row == row && cell.column == layout.name;
            cells.iter().find(is_here).map_or(0.0, |cell| cell.simulated.mean)
        };
        let option = |layout: &Layout| PurchaseOption {
            name: layout.name.clone(),
            usd: settings.usd(layout),
            drives_gb: [(&settings.fast, layout.fast_gb), (&settings.slow, layout.slow_gb)]
                .map(|(drive, gb)| (drive.clone(), gb))
                .into(),
            burst_iops: figure("burst", layout),
            read_mean_ms: figure("read mean", layout),
            read_p99_ms: figure("read p99", layout),
            write_p99_ms: figure("write p99", layout),
            written: [&settings.fast, &settings.slow]
                .map(|drive| (drive.clone(), figure(&format!("written to {drive}"), layout)))
                .into(),
        };
        Purchase {
            hot_gb: *hot,
            acceptable_share: settings.acceptable_share,
            options: settings.layouts.iter().map(option).collect(),
        }
    };
    settings.hot_gb.iter().map(purchase).collect()
}

/// Returns the note on the prices.
#[cfg(feature = "volume")]
pub(super) fn formula(settings: &Settings) -> String {
    let prices = &settings.usd_per_gb;
    let price = |drive: &String| prices.drives.get(drive).copied().unwrap_or(0.0);
    let (fast, slow) = (&settings.fast, &settings.slow);
    format!(
        "{PRICES} = GB of {fast} x {:.3} USD + GB of {slow} x {:.3} USD. Source of the prices: {}. Put your own \
         prices into the experiment: they change the choice, not the measurements.",
        price(fast),
        price(slow),
        prices.source
    )
}
