//! Tests with arbitrary results: nothing panics, every page and drawing is well-formed, and no coordinate is
//! NaN or infinite.

use crate::fixture::hostile_fixture;
use flashlab_lab::results::{
    Curve, CurvePoint, CurveSeries, DeviceStatistics, Erases, MapHits, Published, PublishedPoint, Results,
    Role, Series, WearMap,
};
use flashlab_report::{csv, figure, html, json, terminal};
use proptest::{collection::vec, option, prelude::*};
use roxmltree::{Document, ParsingOptions};

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => 0.0..300.0,
        1 => any::<f64>(),
        1 => prop::sample::select(vec![
            f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN, f64::MIN_POSITIVE, 0.0, -0.0, 1e-300, -1.0,
        ]),
    ]
}

fn count() -> impl Strategy<Value = u32> {
    prop_oneof![3 => 0..5000u32, 1 => any::<u32>(), 1 => prop::sample::select(vec![0, 1, u32::MAX])]
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z ]{0,12}",
        "[ -~\u{a1}-\u{2af}一-龥가-힣]{0,24}", // no combining characters, which have no width of their own
        prop::sample::select(vec![
            "</svg><script>alert(1)</script>",
            "\" onload=\"x",
            "]]> & \u{0}\u{1b}[31m\u{202e}",
            "\n\r\t",
            "`a` # - b",
            "a very long name of a series that no legend has room for, and then some more of it to be sure",
        ])
        .prop_map(String::from),
    ]
}

fn role() -> impl Strategy<Value = Role> {
    prop::sample::select(vec![Role::Fitted, Role::Predicted, Role::Assumed, Role::Unsourced])
}

fn published() -> impl Strategy<Value = Published> {
    prop_oneof![
        (number(), option::of(number())).prop_map(|(mean, sd)| Published::Figure { mean, sd }),
        number().prop_map(|below| Published::Below { below }),
        text().prop_map(|text| Published::Text { text }),
    ]
}

prop_compose! {
    fn curve_series()(
        name in text(),
        variant in any::<bool>(),
        points in vec((number(), number(), role()), 0..24),
        published in vec((number(), published()), 0..5),
        hits in vec((number(), number(), number(), number()), 0..8),
        has_places in any::<bool>(),
    ) -> CurveSeries {
        // Half of the curves have the places of a sweep, so that lines, knees and tables have content.
        let place = |i: usize, x: f64| if has_places { (1u32 << (i % 20)) as f64 } else { x };
        CurveSeries {
            name,
            variant,
            points: points
                .into_iter()
                .enumerate()
                .map(|(i, (x, y, role))| CurvePoint { x: place(i, x), y, role })
                .collect(),
            published: published
                .into_iter()
                .enumerate()
                .map(|(i, (x, figure))| PublishedPoint { x: place(i, x), figure })
                .collect(),
            map_hits: hits
                .into_iter()
                .enumerate()
                .map(|(i, (x, sram, hmb, miss))| MapHits { x: place(i, x), sram, hmb, miss })
                .collect(),
        }
    }
}

prop_compose! {
    fn curve()(
        chart in prop_oneof![Just("t<0> \"quoted\" & more".to_string()), text()],
        words in (text(), text(), text()),
        series in vec(curve_series(), 0..5),
        notes in vec(text(), 0..3),
    ) -> Curve {
        Curve { chart, title: words.0, x_unit: words.1, y_unit: words.2, series, notes }
    }
}

fn erases() -> impl Strategy<Value = Erases> {
    (number(), count(), count(), number()).prop_map(|(mean, min, max, sd)| Erases { mean, min, max, sd })
}

prop_compose! {
    fn wear()(
        name in text(),
        block_bytes in any::<u64>(),
        erase_counts in vec(count(), 0..300),
        bad in vec(any::<u32>().prop_map(|n| if n % 3 == 0 { n } else { n % 300 }), 0..80),
        rated_cycles in option::of(count()),
        erases in erases(),
    ) -> WearMap {
        WearMap { name, block_bytes, erase_counts, bad, rated_cycles, erases }
    }
}

prop_compose! {
    fn series()(
        words in (text(), text(), text(), text(), text()),
        points in vec((number(), number()), 0..60),
        repeat in prop::sample::select(vec![1usize, 1, 1, 90]),
    ) -> Series {
        let points = (0..repeat).flat_map(|_| points.clone()).collect();
        Series { name: words.0, step: words.1, column: words.2, unit: words.3, x_unit: words.4, points }
    }
}

prop_compose! {
    fn statistics()(
        words in (text(), text(), text()),
        bytes in (any::<u64>(), option::of(any::<u64>()), any::<u64>()),
        counts in (any::<u64>(), any::<u64>(), any::<u64>()),
        moved in vec((prop::sample::select(vec!["collection", "map"]), any::<u64>()), 0..3),
        look_ups in vec((prop::sample::select(vec!["sram", "miss"]), any::<u64>()), 0..3),
        numbers in (option::of(number()), option::of(number()), option::of(number()), option::of(number())),
        erases in option::of(erases()),
        read_only in any::<bool>(),
    ) -> DeviceStatistics {
        DeviceStatistics {
            table: words.0,
            row: words.1,
            column: words.2,
            remarks: Vec::new(),
            host_written_bytes: bytes.0,
            host_read_bytes: bytes.1,
            programmed_bytes: bytes.2,
            write_amplification: numbers.0,
            erase_count: counts.0,
            erases,
            collection_count: counts.1,
            moved_bytes: moved,
            map_look_ups: look_ups,
            effective_spare: numbers.1,
            lifetime_left_percent: numbers.2,
            bad_block_count: counts.2,
            read_only,
            read_only_seconds: read_only.then_some(1.5),
            first_failure_seconds: numbers.3,
        }
    }
}

prop_compose! {
    fn results()(
        curves in vec(curve(), 0..3),
        wear in vec(wear(), 0..3),
        series in vec(series(), 0..4),
        statistics in vec(statistics(), 0..9),
        has_cells in any::<bool>(),
    ) -> Results {
        let rest = if has_cells { hostile_fixture() } else { Results::default() };
        Results { curves, wear, series, statistics, ..rest }
    }
}

fn is_well_formed(text: &str) {
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    let document = Document::parse_with_options(text, options).unwrap_or_else(|error| panic!("{error}"));
    for node in document.descendants() {
        for name in ["x", "y", "x1", "x2", "y1", "y2", "width", "height", "viewBox", "d", "cx", "cy", "r"] {
            let value = node.attribute(name).unwrap_or_default();
            assert!(!value.contains("NaN") && !value.contains("inf"), "{name}=\"{value}\"");
        }
        for name in ["width", "height"] {
            assert!(!node.attribute(name).unwrap_or_default().starts_with('-'), "a negative {name}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_results_have_a_well_formed_page_and_figures(results in results()) {
        let page = html::page(&results, "flashlab run \"<&>\"");
        is_well_formed(&page);
        prop_assert!(!page.contains("<script>alert"));
        for (_, figure) in figure::all(&results) {
            is_well_formed(&figure.to_svg());
        }
    }

    #[test]
    fn any_results_fit_a_terminal_and_cannot_move_its_cursor(results in results(), width in 60..130_usize) {
        let plain = terminal::table(&results, width, false);
        for line in plain.lines() {
            prop_assert!(line.chars().count() <= width, "{} of {width} columns: {line}", line.chars().count());
            prop_assert_eq!(line, line.trim_end());
        }
        let turned = plain.chars().find(|c| *c != '\n' && (c.is_control() || *c == '\u{202e}'));
        prop_assert_eq!(turned, None);
        terminal::table(&results, width, true);
    }

    #[test]
    fn any_results_are_csv_and_json(results in results()) {
        for text in [csv::cells(&results), csv::curves(&results), csv::series(&results), csv::wear(&results)] {
            let mut reader = ::csv::Reader::from_reader(text.as_bytes());
            for record in reader.records() {
                prop_assert!(record.is_ok());
            }
        }
        prop_assert!(serde_json::from_str::<serde_json::Value>(&json::results(&results)).is_ok());
    }
}
