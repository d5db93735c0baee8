//! Tests of the terminal table: its snapshots and its width.

use crate::fixture::*;
use flashlab_lab::results::{Reference, ReferenceKind, Results, Role};
use flashlab_report::terminal::{WIDTH, WIDTH_MIN, columns, missed, table};

fn all() -> [Results; 6] {
    [sd_cards_fixture(), at91_fixture(), sweep_fixture(), worn_fixture(), empty_fixture(), hostile_fixture()]
}

#[test]
fn sd_cards_table_reads_well() {
    insta::assert_snapshot!(table(&sd_cards_fixture(), WIDTH, false));
}

#[test]
fn at91_table_reads_well() {
    insta::assert_snapshot!(table(&at91_fixture(), WIDTH, false));
}

#[test]
fn a_sweep_reads_well() {
    insta::assert_snapshot!(table(&sweep_fixture(), WIDTH, false));
}

#[test]
fn wear_series_and_statistics_read_well() {
    let mut results = worn_fixture();
    results.wear.truncate(4);
    insta::assert_snapshot!(table(&results, WIDTH, false));
}

#[test]
fn a_map_in_colour_is_half_as_high_and_ends_each_row_without_colour() {
    let mut results = worn_fixture();
    results.wear.drain(..5);
    let coloured = table(&results, WIDTH, true);
    let rows: Vec<&str> = coloured.lines().filter(|line| line.contains('▀')).collect();
    assert!((10..=16).contains(&rows.len()), "{}", rows.len());
    assert!(rows.iter().all(|row| row.ends_with("\u{1b}[0m") && row.matches('▀').count() <= 96));
    assert!(!table(&results, WIDTH, false).contains('▀'));
}

#[test]
fn no_line_exceeds_the_width_or_ends_in_a_space() {
    for width in [60, 80, WIDTH, 120] {
        for results in all() {
            for line in table(&results, width, false).lines() {
                let taken = line.chars().count();
                assert!(taken <= width, "{}: {taken} of {width} columns: {line}", results.experiment);
                assert_eq!(line, line.trim_end());
            }
        }
        for line in flashlab_report::terminal::trace(&bring_up(), width).lines() {
            assert!(line.chars().count() <= width, "of {width} columns: {line}");
        }
    }
}

fn bring_up() -> flashlab_lab::trace::Trace {
    use flashlab_lab::trace::{Controller, Kernel, bring_up};
    let library = flashlab_catalogue::library::Library::built_in().expect("the repository's own library");
    let device =
        flashlab_catalogue::device::Device::open("sd/kingston", &library).expect("the library has this card");
    bring_up(&device, Controller::SDHCI_UHS, Kernel::V6_1, 1).expect("an SD card")
}

#[test]
fn tables_read_well_at_60_80_and_120_columns() {
    let mut worn = worn_fixture();
    worn.wear.drain(1..);
    for width in [60, 80, 120] {
        let text = [at91_fixture(), worn.clone()].map(|results| table(&results, width, false)).join("\n");
        insta::assert_snapshot!(format!("at_{width}_columns"), text);
    }
}

#[test]
fn colour_changes_nothing_but_colour() {
    for results in [sd_cards_fixture(), at91_fixture(), sweep_fixture()] {
        let coloured = table(&results, WIDTH, true);
        let is_missed = results.bounds.iter().any(|bound| !bound.held);
        assert_eq!(coloured.contains("\u{1b}[1;31m"), is_missed, "a missed bound is red");
        let mut plain = String::new();
        let mut rest = coloured.as_str();
        while let Some((before, after)) = rest.split_once('\u{1b}') {
            plain.push_str(before);
            rest = after.split_once('m').expect("every sequence sets a colour").1;
        }
        plain.push_str(rest);
        assert_eq!(plain, table(&results, WIDTH, false));
    }
}

#[test]
fn the_source_of_a_reference_is_listed_where_cells_have_one() {
    let mut results = sd_cards_fixture();
    assert!(!table(&results, WIDTH, false).contains("source"));
    let cell = &mut results.cells[0];
    cell.published = None;
    cell.reference = Some(Reference {
        kind: ReferenceKind::ClosedForm,
        name: "G1, rho 0.9346".into(),
        mean: 1.0,
        sd: None,
        error_percent: 0.5,
    });
    let text = table(&results, WIDTH, false);
    assert!(text.contains("source"), "{text}");
    assert!(text.contains("G1, rho 0.9346"), "{text}");
}

#[test]
fn names_from_outside_cannot_move_the_cursor() {
    assert!(!table(&hostile_fixture(), WIDTH, false).contains('\u{1b}'));
}

#[test]
fn a_terminal_gets_plain_spaces_and_hyphens() {
    let texts = all().map(|results| table(&results, WIDTH, false));
    for text in texts.iter().chain([&flashlab_report::terminal::trace(&bring_up(), WIDTH)]) {
        let line = text.lines().find(|line| line.contains(['\u{a0}', '\u{2212}']));
        assert_eq!(line, None);
    }
    assert!(texts[0].contains(" -"), "no error is negative");
}

#[test]
fn a_figure_without_a_figure_to_compare_does_not_count_as_a_prediction() {
    let mut results = sd_cards_fixture();
    for cell in &mut results.cells {
        cell.published = None;
        cell.error_percent = None;
        cell.role = Role::Predicted;
    }
    let text = table(&results, 100, false);
    assert!(text.contains("none of which has a measurement") && !text.contains("predicted"), "{text}");
}

#[test]
fn a_width_that_is_too_small_for_a_plot_is_enlarged() {
    for width in 0..WIDTH_MIN {
        for results in all() {
            assert_eq!(table(&results, width, false), table(&results, WIDTH_MIN, false));
        }
    }
}

#[test]
fn one_cell_with_a_measurement_and_one_without_are_counted() {
    let mut results = sd_cards_fixture();
    results.cells.truncate(2);
    results.cells[1].published = None;
    let count = "1 has a measurement (1 fitted), 1 has none";
    let table = table(&results, WIDTH, false);
    assert!(table.contains(count), "{table}");
}

#[test]
fn a_missed_bound_is_printed_with_its_worst_value() {
    let bounds = sd_cards_fixture().bounds;
    let bound = bounds.iter().find(|bound| !bound.held).expect("one bound is missed");
    let expected = "missed: random reads over vfat (limit 25 %; worst -27.30 %, vfat randread 4K/suneast)";
    assert_eq!(missed(bound), expected);
}

#[test]
fn a_cell_that_meets_a_missed_bound_is_not_coloured() {
    let mut results = sd_cards_fixture();
    for bound in &mut results.bounds {
        bound.held = false;
        bound.missed = vec!["raw write 1M/kingston".into()];
    }
    let red = |text: &str| text.lines().filter(|line| line.contains("\u{1b}[1;31m")).count();
    let bounds = results.bounds.len();
    assert_eq!(red(&table(&results, WIDTH, true)), bounds + 1);
}

#[test]
fn lives_have_one_line_for_each_device() {
    let mut results = endurance_fixture();
    for cell in &mut results.cells {
        cell.column += ":cycles=3000";
    }
    let text = table(&results, WIDTH, false);
    let of = |device: &str| text.lines().filter(|line| line.starts_with(device)).collect::<Vec<_>>();
    assert!(text.contains("days until the first failure, with cycles=3000 on all devices"), "{text}");
    assert_eq!((of("kingston").len(), of("transcend").len()), (1, 1), "{text}");
    assert!(of("kingston")[0].split_whitespace().eq(["kingston", "198", "199", "199", "18.1"]), "{text}");
    assert!(text.contains("wear, "), "the wear maps of a few devices are missing");

    let mut many = endurance_fixture();
    for name in ["gigastone", "kioxia", "suneast"] {
        let of_kingston = results.cells.iter().filter(|cell| cell.column.starts_with("kingston"));
        let renamed = of_kingston.cloned().map(|mut cell| {
            cell.column = name.into();
            cell
        });
        let more: Vec<_> = renamed.collect();
        many.cells.extend(more);
    }
    // A life that is not known yet has only an interval.
    many.cells.retain(|cell| cell.column != "kioxia" || cell.row == "median");
    for cell in many.cells.iter_mut().filter(|cell| cell.column == "kioxia") {
        cell.row = "95 % from".into();
    }
    let text = table(&many, WIDTH, false);
    assert!(text.contains("the life is not known yet") && !text.contains("wear, "), "{text}");
    assert!(text.contains("The page and JSON have the wear maps"), "{text}");
}

#[test]
fn words_are_whole_in_narrow_columns() {
    let rows = [
        vec!["a long name of some device", "the first figure", "another figure"],
        vec!["device", "1,234", "5,678"],
    ];
    let text = columns(&rows, &[false, true, true], 28);
    for word in rows.iter().flatten().flat_map(|cell| cell.split(' ')) {
        assert!(text.contains(word), "{word} is cut in\n{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 28), "{text}");
}
