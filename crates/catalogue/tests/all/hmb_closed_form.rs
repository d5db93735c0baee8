//! Checks that the figures in the bounds of experiments/hmb match the closed form (C1 in
//! docs/closed-forms.md) for the current profile.

use flashlab_catalogue::device::Device;
use flashlab_catalogue::library::Library;
use flashlab_nvme::SsdParameters;
use flashlab_nvme::hmb::PAGE;
use flashlab_sim::Duration;
use std::collections::BTreeMap;

const EXPERIMENT: &str = include_str!("../../../../experiments/hmb/experiment.toml");

/// Returns the random reads over `range` GiB, in thousands per second, with the firmware as the only
/// bottleneck. A read takes the time of one command plus the look-up of its map page. The time of the look-up
/// depends on whether the page is in the controller's memory, in the host memory buffer, or in neither.
fn closed_form(ssd: &SsdParameters, range: u64) -> f64 {
    let map = &ssd.map;
    let pages_of = |bytes: u64| bytes as f64 / ssd.page_map.unit as f64 / map.entries() as f64;
    let pages = pages_of(range << 30);
    let lent = ssd.lend_max.min(u64::from(ssd.hmb.preferred) * PAGE) / map.page;
    let held = |pages_held: u64| (pages_held as f64 / pages).min(1.0);
    let us = |time: Duration| time.as_ns() as f64 / 1e3;
    let sram = held(map.sram.expect("the map is loaded") / map.page);
    let us = us(ssd.controller.t_command)
        + if lent == 0 {
            (1.0 - sram) * us(map.t_load)
        } else if lent as f64 >= pages_of(ssd.page_map.capacity) {
            0.0
        } else {
            us(map.t_look) + (1.0 - sram) * us(map.t_hmb) + (1.0 - held(lent)) * us(map.t_load)
        };
    1e3 / us
}

#[test]
fn the_expected_read_rates_follow_the_closed_form_of_the_profile() {
    let library = Library::built_in().expect("the repository's own library");
    let experiment: toml::Table = EXPERIMENT.parse().expect("TOML");
    let columns = experiment["columns"].as_table().expect("a device each");
    let values = experiment["range"]["values"].as_array().expect("a list");
    let mut held = Vec::new();
    for bound in experiment["bound"].as_array().expect("a list") {
        let Some(expected) = bound.get("expected").and_then(toml::Value::as_table) else { continue };
        let cells = bound["cells"][0].as_str().expect("a pattern");
        let column = cells.strip_prefix("randread */").expect("all reads of a column");
        let device = Device::open(columns[column].as_str().expect("a device"), &library);
        let device = device.unwrap_or_else(|error| panic!("{error}"));
        let ssd: &SsdParameters = device.hardware().expect("an SSD");
        let typed: BTreeMap<&str, f64> = expected
            .iter()
            .map(|(row, figure)| (row.as_str(), figure.as_float().expect("a figure")))
            .collect();
        assert_eq!(typed.len(), values.len(), "{column}: a figure for each range");
        for range in values {
            let range = range.as_integer().and_then(|range| u64::try_from(range).ok()).expect("GiB");
            let typed = typed[format!("{range} GiB").as_str()];
            let found = closed_form(ssd, range);
            assert!(
                (typed - found).abs() <= 0.005_001,
                "{column}, {range} GiB: {typed}, but {found:.3} by the profile"
            );
        }
        held.push(column.to_owned());
    }
    assert_eq!(held, ["HMB off", "HMB 64 MiB", "HMB 128 MiB", "HMB 240 MiB"]);
}
