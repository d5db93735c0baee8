//! Tests of the page: it is well-formed and self-contained, shows every figure, and escapes names.

use crate::fixture::*;
use flashlab_lab::results::{
    Cell, PRICES, Published, Purchase, PurchaseOption, Reference, ReferenceKind, Results, Role,
};
use flashlab_sim::Mechanism;
use roxmltree::{Document, Node, ParsingOptions};
use std::collections::BTreeMap;

/// Returns the page of `results` with the command of a run.
fn page(results: &Results) -> String {
    flashlab_report::html::page(results, "flashlab run an-experiment --seed 7")
}

fn parse(page: &str) -> Document<'_> {
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    Document::parse_with_options(page, options).unwrap_or_else(|error| panic!("not well-formed: {error}"))
}

fn with_class<'a, 'i>(document: &'a Document<'i>, class: &'a str) -> impl Iterator<Item = Node<'a, 'i>> + 'a {
    document.descendants().filter(move |node| {
        node.attribute("class").is_some_and(|all| all.split(' ').any(|name| name == class))
    })
}

fn text_of(node: Node<'_, '_>) -> String {
    node.descendants().filter(Node::is_text).filter_map(|n| n.text()).collect()
}

fn all() -> [(&'static str, Results); 7] {
    [
        ("sweep", sweep_fixture()),
        ("worn", worn_fixture()),
        ("endurance", endurance_fixture()),
        ("sd-cards", sd_cards_fixture()),
        ("at91", at91_fixture()),
        ("hostile", hostile_fixture()),
        ("empty", empty_fixture()),
    ]
}

#[test]
fn the_page_is_well_formed_and_needs_no_network() {
    for (name, results) in all() {
        let page = page(&results);
        let document = parse(&page);
        assert_eq!(document.root_element().tag_name().name(), "html", "{name}");
        for banned in ["http://", "https://", "src=", "@import", "url(//", "<link"] {
            assert!(!page.contains(banned), "{name} contains {banned}");
        }
        for node in document.descendants() {
            for attribute in node.attributes().filter(|a| a.name() == "href") {
                assert!(attribute.value().starts_with('#'), "{name} links to {}", attribute.value());
            }
        }
    }
}

#[test]
fn every_link_and_identifier_of_the_page_resolves_to_one_place() {
    for (name, results) in all() {
        let page = page(&results);
        let document = parse(&page);
        let mut ids: Vec<&str> = document.descendants().filter_map(|node| node.attribute("id")).collect();
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count, "{name} has an identifier twice");
        for node in document.descendants() {
            let fill = node.attribute("fill").and_then(|f| f.strip_prefix("url(#")?.strip_suffix(')'));
            let link = node.attribute("href").and_then(|link| link.strip_prefix('#'));
            for target in [fill, link, node.attribute("aria-labelledby")].into_iter().flatten() {
                assert!(ids.binary_search(&target).is_ok(), "{name}: nothing is called {target}");
            }
        }
    }
}

#[test]
fn both_themes_are_in_the_page_and_define_the_same_variables() {
    let page = page(&sd_cards_fixture());
    assert!(page.contains("@media (prefers-color-scheme: dark)"));
    assert!(page.contains(":root[data-theme=\"dark\"]"));
    assert!(page.contains(":root:not([data-theme=\"light\"])"));
    let names = |css: &str| -> Vec<String> {
        css.split([';', '\n']).filter_map(|rule| Some(rule.trim().split_once(':')?.0.to_string())).collect()
    };
    let light = names(include_str!("../../src/style/light.css"));
    assert_eq!(light, names(include_str!("../../src/style/dark.css")));
    for variable in page.split("var(").skip(1).filter_map(|rest| rest.split_once(')')).map(|(name, _)| name) {
        assert!(page.contains(&format!("{variable}: ")), "{variable} is not defined");
    }
}

#[test]
fn every_cell_is_charted_and_tabled_and_explained_where_requests_were_timed() {
    for (name, results) in all().into_iter().filter(|(_, results)| results.curves.is_empty()) {
        let page = page(&results);
        let document = parse(&page);
        let count = |is: fn(&Cell) -> bool| results.cells.iter().filter(|cell| is(cell)).count();
        let timed = count(|cell| cell.mechanisms.0.iter().any(|(_, ns)| *ns > 0.0));
        assert_eq!(with_class(&document, "cell").count(), timed, "{name}: explanations");
        let sentences: Vec<String> = with_class(&document, "why").map(text_of).collect();
        assert_eq!(sentences.len(), timed, "{name}: sentences");
        assert!(sentences.iter().all(|s| s.ends_with('.')), "{name}");
        let section = document.descendants().find(|node| node.attribute("id") == Some("figures"));
        let Some(section) = section else {
            assert_eq!(results.cells.len(), 0, "{name} has no figures");
            continue;
        };
        let rows = section.descendants().filter(|n| n.has_tag_name("tbody")).flat_map(|n| n.children());
        let rows = rows.filter(|n| n.has_tag_name("tr")).count();
        assert_eq!(rows, results.cells.len(), "{name}: table rows");
        let titles =
            section.descendants().filter(|n| n.has_tag_name("title")).map(text_of).collect::<Vec<_>>();
        let simulated = titles.iter().filter(|t| t.contains(", simulated")).count();
        assert_eq!(simulated, results.cells.len(), "{name}: simulated bars");
        let published = titles.iter().filter(|t| t.ends_with(", published")).count();
        assert_eq!(published, count(|cell| cell.published.is_some()), "{name}: published bars");
    }
}

#[test]
fn headings_are_distinct_and_labels_are_complete() {
    for (name, mut results) in all() {
        // One table with two units makes two charts.
        let more: Vec<Cell> = results.cells.iter().take(3).cloned().collect();
        results.cells.extend(more.into_iter().map(|cell| Cell { unit: "erases".into(), ..cell }));
        if let Some(cell) = results.cells.iter_mut().find(|cell| !cell.row.is_empty()) {
            cell.row = "a name of a row that is much longer than any gutter has room for".into();
        }
        let page = page(&results);
        let document = parse(&page);
        for section in document.descendants().filter(|n| n.has_tag_name("section")) {
            let captions = section.descendants().filter(|n| n.has_tag_name("figcaption"));
            let mut headings: Vec<String> = captions.map(text_of).collect();
            let count = headings.len();
            headings.sort_unstable();
            headings.dedup();
            assert_eq!(headings.len(), count, "{name}: two figures with one heading: {headings:?}");
        }
        for text in document.descendants().filter(|n| n.has_tag_name("text")).map(text_of) {
            assert!(!text.contains('…'), "{name}: cut: {text}");
        }
    }
}

#[test]
fn the_lifetime_of_the_devices_comes_first() {
    let page = page(&endurance_fixture());
    let document = parse(&page);
    let summary = document.descendants().find(|n| n.attribute("id") == Some("summary")).expect("a summary");
    let text = text_of(summary).replace('\u{a0}', " ");
    assert!(
        text.trim_start().starts_with(
            "Summary\nDays until the first failure, by the median: from 199 days for kingston to"
        ),
        "{text}"
    );
    let tile = with_class(&document, "tile").nth(1).map(text_of).unwrap_or_default();
    assert_eq!(
        tile.trim(),
        "transcend\n1,289\u{a0}daysmedian; 1,288\u{a0}days to 1,291\u{a0}days; 3.5\u{a0}years"
    );
    let ids: Vec<&str> = document
        .descendants()
        .filter(|n| n.has_tag_name("section"))
        .filter_map(|n| n.attribute("id"))
        .collect();
    assert_eq!(ids[..3], ["summary", "figures", "wear"]);
}

#[test]
fn long_parts_are_folded() {
    let page = page(&sd_cards_fixture());
    let document = parse(&page);
    let cards: Vec<Node<'_, '_>> = with_class(&document, "card").collect();
    assert!(cards.len() > 1 && cards.iter().all(|card| card.has_tag_name("details")));
    assert_eq!(cards.iter().filter(|card| card.attribute("open").is_some()).count(), 1);
    assert!(with_class(&document, "profile").all(|profile| profile.attribute("open").is_none()));
    let parameters = document.descendants().find(|n| n.attribute("id") == Some("parameters")).expect("one");
    assert!(parameters.descendants().any(|n| n.has_tag_name("details")), "29 parameters are folded");
}

/// Returns the value of each variable of a theme's style sheet.
fn colours(sheet: &str) -> BTreeMap<&str, &str> {
    sheet.split([';', '\n']).filter_map(|rule| rule.trim().strip_prefix("--")?.split_once(": ")).collect()
}

/// Returns the relative luminance of `#rrggbb`, as WCAG 2.2 defines it.
fn luminance(colour: &str) -> f64 {
    let channel = |i: usize| {
        let value = u8::from_str_radix(&colour[1 + 2 * i..3 + 2 * i], 16).expect("hexadecimal");
        let value = f64::from(value) / 255.0;
        if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * channel(0) + 0.7152 * channel(1) + 0.0722 * channel(2)
}

fn contrast(a: &str, b: &str) -> f64 {
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

/// WCAG 2.2 requires a contrast of 3 to 1 for graphics (1.4.11) and of 4.5 to 1 for text (1.4.3).
#[test]
fn colours_of_graphics_and_text_stand_out_from_both_backgrounds() {
    let figure = include_str!("../../src/style/figure.css");
    let variable =
        |rule: &'static str| rule.split_once("fill: var(--")?.1.split_once(')').map(|(name, _)| name);
    let mechanisms: Vec<&str> = figure.split(".m-").skip(1).filter_map(variable).collect();
    assert_eq!(
        mechanisms.len(),
        Mechanism::ALL.len() + 1,
        "one more colour, for unknown mechanisms: {mechanisms:?}"
    );
    for (theme, sheet) in [
        ("light", include_str!("../../src/style/light.css")),
        ("dark", include_str!("../../src/style/dark.css")),
    ] {
        let colours = colours(sheet);
        for ground in ["paper", "surface"] {
            let graphics = mechanisms.iter().map(|name| (*name, 3.0));
            let series = ["s0", "s1", "s2", "s3", "s4", "s5"].into_iter().map(|name| (name, 3.0));
            let text = ["ink", "soft", "accent", "good", "bad"].into_iter().map(|name| (name, 4.5));
            for (name, least) in graphics.chain(series).chain(text) {
                let contrast = contrast(colours[name], colours[ground]);
                assert!(contrast >= least, "{theme}: {name} on {ground} has {contrast:.2}, needs {least}");
            }
        }
    }
}

#[test]
fn drawings_have_names_and_tables_have_headers() {
    for (name, results) in all() {
        let page = page(&results);
        let document = parse(&page);
        for drawing in document.descendants().filter(|n| n.has_tag_name("svg")) {
            let is_silent = drawing.attribute("aria-hidden") == Some("true");
            let is_named =
                drawing.attribute("role") == Some("img") && drawing.attribute("aria-label").is_some();
            assert!(is_silent || is_named, "{name}: a drawing without a name");
        }
        for row in document.descendants().filter(|n| n.has_tag_name("tbody")).flat_map(|n| n.children()) {
            if row.has_tag_name("tr") {
                assert!(
                    row.children().any(|n| n.attribute("scope") == Some("row")),
                    "{name}: a row without header"
                );
            }
        }
    }
}

#[test]
fn raw_is_charted_beside_vfat_and_wide_ranges_are_logarithmic() {
    let page = page(&sd_cards_fixture());
    let document = parse(&page);
    let figures: Vec<Node<'_, '_>> = document.descendants().filter(|n| n.has_tag_name("figure")).collect();
    let caption =
        |i: usize| text_of(figures[i].descendants().find(|n| n.has_tag_name("figcaption")).expect("one"));
    assert_eq!(caption(0), "\nSequential write, 1 MiB\nMiB/s".trim_start().to_string());
    assert!(caption(2).contains("KiB/s, logarithmic (raw: 1 IOPS is 4 KiB/s)"), "{}", caption(2));
    let legend: Vec<String> =
        figures[2].descendants().filter(|n| n.has_tag_name("li")).map(text_of).collect();
    let legend: Vec<&str> = legend.iter().map(|s| s.trim()).collect();
    assert_eq!(
        legend,
        ["raw, published", "raw, fitted", "vfat, published", "vfat, predicted", "vfat, fitted"]
    );
}

#[test]
fn mechanism_bars_fill_their_width() {
    let page = page(&sd_cards_fixture());
    let document = parse(&page);
    for cell in with_class(&document, "cell") {
        let parts =
            cell.descendants().filter(|n| n.attribute("class").is_some_and(|c| c.starts_with("part ")));
        let width =
            |n: Node<'_, '_>| n.attribute("width").and_then(|w| w.strip_suffix('%')?.parse::<f64>().ok());
        let sum: f64 = parts.filter_map(width).sum();
        assert!((sum - 100.0).abs() < 0.1, "{sum}");
    }
}

#[test]
fn every_mark_has_a_value_and_a_switch_for_its_series() {
    for (name, results) in all() {
        let page = page(&results);
        let document = parse(&page);
        for drawing in document.descendants().filter(|n| n.attribute("data-bars").is_some()) {
            let before = drawing.prev_sibling_element().filter(|n| n.attribute("class") == Some("legend"));
            let mut switches: Vec<String> =
                before.iter().flat_map(Node::children).map(|key| text_of(key).trim().to_owned()).collect();
            let section = drawing.ancestors().find(|n| n.has_tag_name("section")).expect("in a section");
            let terms = with_class(&document, "words").filter(|list| list.ancestors().any(|n| n == section));
            switches.extend(
                terms.flat_map(|list| list.descendants()).filter(|n| n.has_tag_name("dt")).map(text_of),
            );
            for mark in drawing.descendants().filter(|n| n.attribute("data-place").is_some()) {
                let title = mark.children().find(|n| n.has_tag_name("title")).map(text_of).expect("a value");
                let has_value = mark.attribute("data-value").is_some_and(|value| !value.is_empty());
                assert!(has_value || title.contains(": "), "{name}: {title}");
                if let Some(key) = mark.attribute("data-key") {
                    assert!(
                        switches.iter().any(|s| s == key),
                        "{name}: nothing switches {key:?}: {switches:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn figures_without_any_measurement_are_simulated_not_predicted() {
    let mut results = sd_cards_fixture();
    let tags = |results: &Results| -> Vec<String> {
        let page = page(results);
        let document = parse(&page);
        let tags = with_class(&document, "tag").map(text_of);
        tags.chain(with_class(&document, "legend").map(text_of)).collect()
    };
    assert!(tags(&results).iter().any(|tag| tag.contains("predicted")));
    // One cell lacks a measurement, unlike the other cells.
    let cell = results.cells.iter_mut().find(|cell| cell.role == Role::Predicted).expect("a prediction");
    cell.published = None;
    let html = page(&results);
    let simulated =
        |class| with_class(&parse(&html), class).filter(|n| text_of(*n).contains("simulated")).count();
    assert_eq!((simulated("tag"), simulated("legend")), (2, 1), "in the table and beside its explanation");
    for cell in &mut results.cells {
        cell.published = None;
    }
    let tags = tags(&results);
    assert!(tags.iter().any(|tag| tag.contains("simulated")), "{tags:?}");
    assert!(!tags.iter().any(|tag| tag.contains("predicted")), "{tags:?}");
}

#[test]
fn names_from_outside_are_escaped() {
    let page = page(&hostile_fixture());
    assert!(!page.contains("<script>alert") && !page.contains("<img") && !page.contains("<b>not"));
    assert_eq!(page.matches("<script>").count(), 1);
    let document = parse(&page);
    let heading = document.descendants().find(|n| n.has_tag_name("h1")).expect("a heading");
    assert_eq!(text_of(heading), "<script>alert(\"x\")</script> & 'co'");
}

#[test]
fn the_same_results_give_the_same_page() {
    assert_eq!(page(&sd_cards_fixture()), page(&sd_cards_fixture()));
}

#[test]
fn a_missed_bound_is_named_in_the_summary() {
    let page = page(&sd_cards_fixture());
    let document = parse(&page);
    let summary =
        document.descendants().find(|n| n.attribute("id") == Some("summary")).map(text_of).expect("one");
    assert!(summary.contains("8 of 9") && summary.contains("missed: random reads over vfat"), "{summary}");
    assert!(summary.contains("c3d81e90aa5574f2") && summary.contains("5b0c1a7be42d9f06"));
}

#[test]
fn points_of_a_curve_are_charted_and_tabled_and_published_points_are_explained() {
    let results = sweep_fixture();
    let page = page(&results);
    let document = parse(&page);
    assert!(
        !document.descendants().any(|node| node.attribute("id") == Some("figures")),
        "points have no bars"
    );
    for (i, curve) in results.curves.iter().enumerate() {
        let id = format!("curve-{i}");
        let figure =
            document.descendants().find(|n| n.attribute("id") == Some(&id)).expect("each curve has a figure");
        let chart = figure.descendants().find(|n| n.attribute("class") == Some("chart")).expect("a chart");
        let titles: Vec<String> =
            chart.descendants().filter(|n| n.has_tag_name("title")).map(text_of).collect();
        for series in &curve.series {
            let of = format!("{}, ", series.name);
            let place = |title: &String| {
                title.strip_prefix(&of).and_then(|rest| rest.split_once("\u{a0}GiB: ")?.0.parse::<f64>().ok())
            };
            let points = titles.iter().filter_map(place);
            assert_eq!(points.count(), series.points.len() + series.published.len(), "{}", series.name);
        }
        let rows = figure.descendants().find(|n| n.has_tag_name("tbody")).expect("a table");
        assert_eq!(rows.children().filter(|n| n.has_tag_name("tr")).count(), RANGES.len());
        let text = text_of(figure);
        assert!(
            curve.notes.iter().all(|note| text.contains(&note.replace('`', ""))),
            "a note is missing below a curve"
        );
    }
    let published = results.cells.iter().filter(|cell| cell.published.is_some()).count();
    assert_eq!(with_class(&document, "cell").count(), published);
}

#[test]
fn fitted_points_predictions_and_the_knee_are_named_below_a_curve() {
    let page = page(&sweep_fixture());
    let document = parse(&page);
    let figure = document.descendants().find(|n| n.attribute("id") == Some("curve-0")).expect("the first");
    let text = text_of(figure).replace('\u{a0}', " ");
    assert!(text.contains("Fitted: HMB off at 1 GiB; HMB 128 MiB at 1, 128 GiB"), "{text}");
    assert!(text.contains("3 other points are predictions with a measurement, 87 without one."));
    assert!(text.contains(
        "HMB 128 MiB: Breaks after 128 GiB: 50.1 kIOPS there, 33.8 kIOPS at 144 GiB, while the map"
    ));
    let words = with_class(&document, "words-of-curve").nth(1).map(text_of).unwrap_or_default();
    assert!(words.contains("HMB 240 MiB: The same as HMB off everywhere."), "{words}");
}

#[test]
fn every_map_has_its_histogram_and_its_numbers_in_words() {
    let results = worn_fixture();
    let page = page(&results);
    let document = parse(&page);
    assert_eq!(with_class(&document, "worn").count(), results.wear.len());
    for part in with_class(&document, "worn") {
        assert_eq!(with_figure(part), 2);
    }
    let whole = text_of(document.root_element());
    assert!(whole.contains(
        "Mean 753.0 erases, 742 to 764, standard deviation 4.91. A block is rated for 3,000 erases."
    ));
}

fn with_figure(part: Node<'_, '_>) -> usize {
    part.descendants().filter(|node| node.has_tag_name("figure")).count()
}

#[test]
fn the_page_of_a_bring_up_is_well_formed_and_has_every_step() {
    use flashlab_lab::trace::{Controller, Kernel, bring_up};
    let library = flashlab_catalogue::library::Library::built_in().unwrap();
    let device = flashlab_catalogue::device::Device::open("sd/kingston", &library).unwrap();
    let mut trace = bring_up(&device, Controller::SDHCI_UHS, Kernel::V6_1, 1).unwrap();
    trace.title = "<b>a card</b> & \"more\"".into();
    let page = flashlab_report::html::trace_page(&trace, "flashlab trace bring-up sd/kingston");
    let document = parse(&page);
    assert!(document.descendants().any(
        |node| node.text() == Some("<b>a card</b> & \"more\" · SD host controller, SDHCI 3.0 with UHS-I")
    ));
    let rows = document.descendants().filter(|node| node.has_tag_name("tr")).count();
    assert_eq!(rows, trace.steps.len() + 1, "a row for each step, and the head");
    let calls = with_class(&document, "arrow")
        .filter(|node| node.attribute("class").is_some_and(|c| c.contains("call")));
    let commands = trace.steps.iter().filter(|step| step.command().is_some()).count();
    assert!(calls.count() >= commands, "an arrow for each command");
    assert_eq!(with_class(&document, "words-of-step").count(), trace.steps.len());
}

/// The page of `run tiering`: the choice for each hot set in a sentence, and each option in a table.
#[test]
fn the_choice_of_drives_comes_first_and_marks_the_cheapest_acceptable_option() {
    let option = |name: &str, usd: f64, stick: u64, burst_iops: f64| PurchaseOption {
        name: name.into(),
        usd,
        drives_gb: [("ssd".into(), 128), ("stick".into(), stick)].into(),
        burst_iops,
        read_mean_ms: 0.25,
        read_p99_ms: 1.5,
        write_p99_ms: 2.5,
        written: [("ssd".into(), 1.25), ("stick".into(), 0.5)].into(),
    };
    let options = vec![option("all on <SSD>", 64.0, 0, 1000.0), option("tiers", 32.0, 640, 700.0)];
    let purchase = |hot_gb, acceptable_share| Purchase { hot_gb, acceptable_share, options: options.clone() };
    let note = format!("{PRICES} = GB of ssd x 0.100 USD");
    let purchases = vec![purchase(16, 0.5), purchase(64, 0.9)];
    let page = page(&Results { purchases, notes: vec![note.clone()], ..Results::default() });
    let document = parse(&page);
    let sections: Vec<Node<'_, '_>> =
        document.descendants().filter(|node| node.has_tag_name("section")).collect();
    assert_eq!(sections[0].attribute("id"), Some("purchases"));
    let in_section = |tag: &'static str| sections[0].descendants().filter(move |node| node.has_tag_name(tag));
    let sentences: Vec<String> = in_section("li").map(text_of).collect();
    assert_eq!(
        sentences,
        [
            "Hot set of 16 GB: tiers, 128 GB of ssd and 640 GB of stick, 32 USD: 70 % of the requests per second of \
             \"all on <SSD>\" for 50 % of its price.",
            "Hot set of 64 GB: all on <SSD>, 128 GB of ssd, 64 USD. No cheaper option reaches 90 % of its requests per \
             second.",
        ]
    );
    assert!(in_section("p").any(|node| text_of(node) == note), "the prices are missing");
    let captions: Vec<String> = in_section("caption").map(text_of).collect();
    assert_eq!(captions, ["Hot set of 16 GB", "Hot set of 64 GB"]);
    let heads: Vec<String> = in_section("thead").map(text_of).collect();
    assert!(heads[0].contains("stick GB") && heads[0].contains("written to stick"), "{heads:?}");
    let rows: Vec<Vec<String>> = in_section("tbody")
        .flat_map(|body| body.children().filter(|node| node.has_tag_name("tr")).collect::<Vec<_>>())
        .map(|row| row.children().filter(Node::is_element).map(text_of).collect())
        .collect();
    let marked: Vec<&str> = rows.iter().map(|row| row[0].as_str()).collect();
    assert_eq!(marked, ["all on <SSD>", "tiers \u{2713}", "all on <SSD> \u{2713}", "tiers"]);
    assert_eq!(rows[1][1..6], ["32.00", "128", "640", "700", "70\u{a0}%"].map(String::from));
    // A drive that is absent from an option has no size and no figure.
    let none = &rows[0][3];
    assert_eq!((none, &rows[0][10]), (&rows[2][3], none));
    assert_ne!((&rows[1][3], &rows[1][10]), (none, none));
}

#[test]
fn the_page_states_its_command_and_the_digest_of_its_seed() {
    let results = sd_cards_fixture();
    let document = page(&results);
    let document = parse(&document);
    let footer = document.descendants().find(|node| node.has_tag_name("footer")).map(text_of).expect("one");
    let words = format!("Run again with flashlab run an-experiment --seed 7: seed {} gives", results.seed);
    assert!(footer.replace('\n', "").contains(&words), "{footer}");
}

#[test]
fn the_tail_of_writes_states_their_mean_and_only_a_measured_buffer() {
    let mut results = sd_cards_fixture();
    results.cells.retain(|cell| cell.tail.is_some());
    results.cells.truncate(1);
    let tail = results.cells[0].tail.as_mut().expect("the cell has a tail");
    (tail.mean_ns, tail.logger_buffer_bytes) = (123e6, None);
    let page = page(&results);
    let document = parse(&page);
    let section = document.descendants().find(|node| node.attribute("id") == Some("tail")).expect("one");
    let cells: Vec<String> =
        section.descendants().filter(|node| node.has_tag_name("td")).map(text_of).collect();
    assert_eq!((cells[1].as_str(), cells[5].as_str()), ("123\u{a0}ms", "–"));
    let csv = flashlab_report::csv::cells(&results);
    assert!(csv.ends_with(",\r\n"), "{csv}");
}

#[test]
fn a_figure_with_a_closed_form_is_explained_with_the_closed_form() {
    let mut results = sd_cards_fixture();
    results.cells.truncate(1);
    results.cells[0].published = None;
    results.cells[0].reference = Some(Reference {
        kind: ReferenceKind::ClosedForm,
        name: "G1, rho 0.9346".into(),
        mean: 2.5,
        sd: None,
        error_percent: 1.0,
    });
    let page = page(&results);
    let document = parse(&page);
    let compared = with_class(&document, "compare").map(text_of).next().expect("one cell is explained");
    assert!(compared.contains(" simulated, 2.500 closed form, "), "{compared}");
}

#[test]
fn whiskers_are_explained_only_if_a_bar_has_some() {
    let mut results = sd_cards_fixture();
    results.cells.iter_mut().for_each(|cell| cell.simulated.sd = 1.0);
    assert!(page(&results).contains("Whiskers are one standard deviation over the runs."));
    results.cells.iter_mut().for_each(|cell| cell.simulated.sd = 0.0);
    assert!(page(&results).contains("Whiskers are one standard deviation, where the source states it."));
    for cell in &mut results.cells {
        let Some(Published::Figure { sd, .. }) = &mut cell.published else { panic!("a figure") };
        *sd = None;
    }
    assert!(!page(&results).contains("Whiskers"), "one run has no deviation");
}
