//! `flashlab serve --metrics`: the counters of the server and its devices, for Prometheus.

use super::control::ServerControl;
use flashlab_lab::statistics::{Counters, Wear};
use flashlab_serve::{Exposition, MetricType};
use flashlab_served::Gauge;
use flashlab_web::{Refused, Subject};

/// The metrics of a server without a page.
pub(crate) struct MetricsOnly<'a>(pub(crate) &'a ServerControl<'a>);

impl Subject for MetricsOnly<'_> {
    fn tick(&mut self) -> Option<String> {
        None
    }
    fn state(&mut self) -> String {
        String::new()
    }
    fn execute(&mut self, _: &serde_json::Value) -> Result<(), Refused> {
        Err(Refused("there is no page here".to_owned()))
    }
    fn metrics(&mut self) -> Option<String> {
        Some(page(self.0).into())
    }
    fn has_page(&self) -> bool {
        false
    }
}

/// Returns the page with the current counters.
pub(crate) fn page(control: &ServerControl<'_>) -> Exposition {
    let mut page = Exposition::default();
    page.family("flashlab_build_info", MetricType::Gauge, "The program's version.");
    page.sample("flashlab_build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1);
    control.counters().expose(&mut page);
    let observed: Vec<(&str, Counters, Option<Wear>)> = control
        .timed()
        .map(|(name, timed)| {
            let (counters, wear) = timed.with_model(|model| (Counters::of(model), Wear::of(model)));
            (name, counters, wear)
        })
        .collect();
    // The format requires all samples of a family in one group, over all devices.
    let mut names: Vec<&str> = Vec::new();
    for (counter, _) in observed.iter().flat_map(|(_, counters, _)| counters.iter()) {
        if !names.contains(&counter) {
            names.push(counter);
        }
    }
    for counter in names {
        let name = format!("flashlab_device_{counter}");
        page.family(&name, MetricType::Untyped, "Counter of the device since it was new.");
        for (export, counters, _) in &observed {
            if let Some(value) = counters.find(counter) {
                page.sample(&name, &[("export", export)], value);
            }
        }
    }
    let gauges: Vec<(&str, Gauge)> = control.gauges().collect();
    let mut names: Vec<&str> = Vec::new();
    for (_, gauge) in &gauges {
        if !names.contains(&gauge.name) {
            names.push(gauge.name);
        }
    }
    for name in names {
        let of_name = || gauges.iter().filter(|(_, gauge)| gauge.name == name);
        page.family(name, MetricType::Gauge, of_name().next().map_or("", |(_, gauge)| gauge.help));
        for (export, Gauge { labels, value, .. }) in of_name() {
            let labels = labels.iter().map(|(name, value)| (*name, value.as_str()));
            let labels: Vec<(&str, &str)> = [("export", *export)].into_iter().chain(labels).collect();
            page.sample(name, &labels, value);
        }
    }
    let worn: Vec<(&str, &Wear)> =
        observed.iter().filter_map(|(export, _, wear)| Some((*export, wear.as_ref()?))).collect();
    let mut family = |name: &str, help: &str, value: &dyn Fn(&Wear) -> Option<f64>| {
        page.family(name, MetricType::Gauge, help);
        for (export, wear) in &worn {
            if let Some(value) = value(wear) {
                page.sample(name, &[("export", export)], value);
            }
        }
    };
    if !worn.is_empty() {
        let help = "Largest erase count of the blocks in use.";
        family("flashlab_device_erase_count_max", help, &|wear| Some(f64::from(wear.erases().max)));
        let help = "Mean erase count of the blocks in use.";
        family("flashlab_device_erase_count_mean", help, &|wear| Some(wear.erases().mean));
        let help = "Remaining share of the rated erases of the most worn block.";
        let left = |wear: &Wear| Some(wear.lifetime_left_percent()? / 100.0);
        family("flashlab_device_lifetime_left_ratio", help, &left);
    }
    page
}
