//! The choice of drives for each hot set, and the curves over the size of the hot set.

use super::super::Experiment;
use crate::results::{Cell, Curve, CurvePoint, CurveSeries, Role};
#[cfg(feature = "volume")]
use {
    super::super::measured::MeasuredCell,
    super::{Layout, Settings},
    crate::results::{PRICES, Purchase, PurchaseOption},
};

/// Tables with a chart: name, title, and unit. Charts with the same unit share a scale, so the latencies of writes, which
/// are up to a hundred times as long, have none.
const CHARTS: [(&str, &str, &str); 3] = [
    ("burst", "Requests per second without pauses", "IOPS"),
    ("read mean", "Mean latency of reads", "ms"),
    ("read p99", "99th percentile of the latency of reads", "ms"),
];
/// The chart of the price: name, title, and unit.
const COST: (&str, &str, &str) = ("cost", "Price for each 1,000 requests per second without pauses", "USD");

/// Returns the charts over the size of the hot set; none for experiments of other kinds. A drive whose model has no flash
/// has no chart of programmed bytes.
pub(in crate::experiment) fn curves(experiment: &Experiment, cells: &[Cell]) -> Vec<Curve> {
    let Some(settings) = &experiment.definition.tiering else { return Vec::new() };
    let curve = |(table, title, unit): (String, String, &str)| {
        let series = settings.layouts.iter().map(|layout| {
            let point = |hot: &u64| {
                let (y, role) = value(cells, &table, &super::Settings::row(*hot), &layout.name)?;
                Some(CurvePoint { x: *hot as f64, y, role })
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
    let has_points = |curve: &Curve| curve.series.iter().any(|series| !series.points.is_empty());
    let owned = |(table, title, unit): (&str, &str, &'static str)| (table.to_owned(), title.to_owned(), unit);
    let charts = CHARTS.into_iter().chain([COST]).map(owned);
    charts.chain(wear(settings)).map(curve).filter(has_points).collect()
}

/// Returns the charts of wear: name, title, and unit.
fn wear(settings: &super::Settings) -> Vec<(String, String, &'static str)> {
    let kinds = [("written to", "written to"), ("programmed in", "programmed by")];
    let chart = |(table, verb): (&str, &str), drive: &String| {
        let title = format!("Wear: bytes {verb} {drive} per byte that clients write");
        (format!("{table} {drive}"), title, "ratio")
    };
    let drives = [&settings.fast, &settings.slow];
    kinds.into_iter().flat_map(|kind| drives.map(|drive| chart(kind, drive))).collect()
}

/// Returns a point of a chart: the figure of a table, or the cost, for a row and a layout.
fn value(cells: &[Cell], table: &str, row: &str, layout: &str) -> Option<(f64, Role)> {
    let cell = |table: &str| {
        cells.iter().find(|cell| cell.table == table && cell.row == row && cell.column == layout)
    };
    if table == COST.0 {
        let (price, burst) = (cell("price")?, cell("burst")?);
        return Some((1000.0 * price.simulated.mean / burst.simulated.mean, price.role));
    }
    cell(table).map(|cell| (cell.simulated.mean, cell.role))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Figure, Mechanisms};
    use flashlab_catalogue::library::Library;

    fn cell(table: &str, row: &str, column: &str, mean: f64) -> Cell {
        Cell {
            table: table.into(),
            row: row.into(),
            column: column.into(),
            unit: String::new(),
            published: None,
            reference: None,
            simulated: Figure { mean, sd: 0.0 },
            role: Role::Predicted,
            error_percent: None,
            requests: 0,
            latency_ns_mean: 0.0,
            mechanisms: Mechanisms(vec![]),
            mechanism_ns_totals: Mechanisms(vec![]),
            tail: None,
        }
    }

    #[test]
    fn latency_wear_and_cost_have_charts_over_the_hot_set() {
        let library = Library::built_in().expect("the library is sound");
        let experiment = Experiment::open("tiering", &library).expect("a shipped experiment");
        let layout = "SSD before the stick";
        let figures = [
            ("burst", 500.0),
            ("price", 45.0),
            ("read p99", 3.0),
            ("written to stick", 2.0),
            ("programmed in ssd", 4.0),
        ];
        let cells = figures.map(|(table, mean)| cell(table, "64 GB hot", layout, mean));
        let points: Vec<(String, f64, f64)> = curves(&experiment, &cells)
            .into_iter()
            .map(|curve| {
                let points: Vec<&CurvePoint> =
                    curve.series.iter().flat_map(|series| &series.points).collect();
                assert_eq!((curve.x_unit.as_str(), points.len()), ("GB hot", 1));
                (curve.chart, points[0].x, points[0].y)
            })
            .collect();
        let expected = [
            ("burst", 500.0),
            ("read p99", 3.0),
            ("cost", 90.0),
            ("written to stick", 2.0),
            ("programmed in ssd", 4.0),
        ];
        assert_eq!(points, expected.map(|(chart, y)| (chart.to_owned(), 64.0, y)));
    }
}
