//! Tests of figures as files.

use crate::fixture::{self, *};
use flashlab_lab::results::{
    Curve, CurvePoint, CurveSeries, MapHits, Published, PublishedPoint, Results, Role, Series,
};
use flashlab_report::figure::{
    Figure, all, bars, curves, errors, latency, mechanisms, series, wear_histogram, wear_map,
};

#[test]
fn each_pattern_each_table_and_each_cell_has_its_figure() {
    let results = sd_cards_fixture();
    let titles =
        |figures: Vec<Figure>| -> Vec<String> { figures.into_iter().map(|figure| figure.title).collect() };
    assert_eq!(
        titles(bars::figures(&results)),
        ["Sequential write, 1 MiB", "Sequential read, 1 MiB", "Random write, 4 KiB", "Random read, 4 KiB"]
    );
    assert_eq!(titles(errors::figures(&results))[..2], ["raw write 1M", "vfat write 1M"]);
    assert_eq!(mechanisms::figures(&results).len(), 48);
    assert_eq!(mechanisms::figures(&at91_fixture()).len(), 17, "interrupt counts timed no request");
}

#[test]
fn a_figure_is_a_file_of_its_own_with_both_themes() {
    for results in [sd_cards_fixture(), at91_fixture(), sweep_fixture(), worn_fixture(), hostile_fixture()] {
        for (_, figure) in all(&results) {
            let file = figure.to_svg();
            let document = roxmltree::Document::parse(&file).expect("well-formed");
            assert_eq!(document.root_element().tag_name().namespace(), Some("http://www.w3.org/2000/svg"));
            assert!(file.contains("prefers-color-scheme: dark"));
            assert!(!file.contains("NaN") && !file.contains("inf%"), "{}", figure.title);
        }
    }
}

/// Returns the drawing without style and hatches.
fn drawing(figure: &Figure) -> String {
    let file = figure.to_svg();
    file.split_once("</defs>\n").map_or(file.clone(), |(_, drawing)| drawing.to_string())
}

#[test]
fn a_small_curve_has_the_expected_drawing() {
    let point = |x: f64, y: f64, role| CurvePoint { x, y, role };
    let series = CurveSeries {
        name: "HMB <128 MiB>".into(),
        variant: false,
        points: vec![
            point(1.0, 58.0, Role::Fitted),
            point(64.0, 50.0, Role::Predicted),
            point(128.0, 50.0, Role::Predicted),
            point(144.0, 33.0, Role::Predicted),
        ],
        published: vec![
            PublishedPoint { x: 1.0, figure: Published::Figure { mean: 58.0, sd: None } },
            PublishedPoint { x: 144.0, figure: Published::Below { below: 40.0 } },
        ],
        map_hits: vec![
            MapHits { x: 1.0, sram: 0.6, hmb: 0.4, miss: 0.0 },
            MapHits { x: 128.0, sram: 0.0, hmb: 1.0, miss: 0.0 },
            MapHits { x: 144.0, sram: 0.0, hmb: 0.89, miss: 0.11 },
        ],
    };
    let results = Results {
        curves: vec![Curve {
            chart: "randread".into(),
            title: String::new(),
            x_unit: "GiB".into(),
            y_unit: "kIOPS".into(),
            series: vec![series],
            notes: vec![],
        }],
        ..Results::default()
    };
    let figures = curves::figures(&results);
    assert_eq!(figures[0].title, "Random read");
    assert!(curves::multiples(&results).is_empty(), "one curve needs no comparison");
    insta::assert_snapshot!(drawing(&figures[0]));
}

#[test]
fn a_small_map_and_its_histogram_have_the_expected_drawings() {
    let counts = vec![0, 0, 1, 10, 10, 10, 10, 10, 7, 7, 7, 3];
    let results =
        Results { wear: vec![fixture::wear_map("tiny", counts, vec![9], Some(30))], ..Results::default() };
    insta::assert_snapshot!(drawing(&wear_map::figures(&results)[0]));
    insta::assert_snapshot!(drawing(&wear_histogram::figures(&results)[0]));
}

#[test]
fn a_small_series_has_the_expected_drawing() {
    let one = |column: &str, ys: [f64; 4]| Series {
        name: "free blocks".into(),
        step: "sequential".into(),
        column: column.into(),
        unit: "blocks".into(),
        x_unit: "h".into(),
        points: ys.into_iter().enumerate().map(|(i, y)| (i as f64, y)).collect(),
    };
    let both = vec![one("none", [9.0, 8.0, 7.0, 6.0]), one("static", [9.0, 9.0, f64::NAN, 5.0])];
    let results = Results { series: both, ..Results::default() };
    let figures = series::figures(&results);
    assert_eq!(figures.len(), 1, "one chart for both devices");
    insta::assert_snapshot!(drawing(&figures[0]));
}

#[test]
fn each_column_of_each_chart_of_a_sweep_has_a_figure_of_latencies() {
    let results = sweep_fixture();
    let titles: Vec<String> = latency::figures(&results).into_iter().map(|figure| figure.title).collect();
    assert_eq!(titles.len(), 5 + 3 + 3);
    assert_eq!(titles[..2], ["HMB off", "HMB 128 MiB"]);
    assert_eq!(mechanisms::figures(&results).len(), 8, "published points");
}
