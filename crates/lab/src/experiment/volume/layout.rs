//! Rates of volumes over several devices, with targets and copies.

use super::simulate::{create, jobs, timed};
use super::{LayoutSettings, Settings};
use flashlab_block::{BlockDevice, Executor};
use flashlab_catalogue::device::Device;
use flashlab_volume::{NewMember, Options, Targets};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Returns the MiB per second of writes and then of reads, while the volume's background work runs as in a server.
pub(super) fn measure(
    layout: &LayoutSettings,
    columns: &[(String, Device)],
    settings: &Settings,
    seed: u64,
) -> [f64; 2] {
    let mut executor = Executor::new(seed);
    let mut members = Vec::new();
    for name in layout.members() {
        let (_, device) =
            columns.iter().find(|(column, _)| column == name).expect("checked with the settings");
        let device = timed(device, seed);
        executor.attach(device.clone());
        members.push(NewMember { label: label(layout, name).into(), ..NewMember::new(device) });
    }
    let options = Options { targets: targets(layout), replicas: layout.replicas, ..Options::new([7; 16]) };
    let volume = executor.block_on(create(executor.context(), members, options, None));
    let is_stopped = Arc::new(AtomicBool::new(false));
    let (cx, background, stopped) = (executor.context(), volume.clone(), is_stopped.clone());
    executor.spawn(async move {
        let is_stopped = move || stopped.load(Ordering::Relaxed);
        background.background(&cx, 0, &is_stopped).await.expect("devices that work");
    });
    let target: Arc<dyn BlockDevice> = Arc::new(volume);
    let rates = [Some(None), None].map(|data| jobs(&mut executor, &target, settings, data));
    is_stopped.store(true, Ordering::Relaxed);
    rates
}

/// Returns the label of a member. A target selects members by a label or by a prefix of labels: the background `all`
/// contains the foreground `all.front`, while `front` and `back` have no member in common.
fn label(layout: &LayoutSettings, column: &String) -> &'static str {
    match (layout.is_nested(), layout.foreground.contains(column)) {
        (true, true) => "all.front",
        (true, false) => "all.back",
        (false, true) => "front",
        (false, false) => "back",
    }
}

fn targets(layout: &LayoutSettings) -> Targets {
    let (front, back) = match (layout.background.is_empty(), layout.is_nested()) {
        (true, _) => ("", ""),
        (_, true) => ("all.front", "all"),
        (_, false) => ("front", "back"),
    };
    Targets {
        foreground: front.into(),
        background: back.into(),
        promote: front.into(),
        metadata: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flashlab_catalogue::library::Library;

    fn rates(foreground: &[&str], background: &[&str], replicas: u8) -> [f64; 2] {
        let library = Library::built_in().expect("the library is sound");
        let columns = ["usb3-1", "usb3-2", "usb2-1"].map(|name| {
            let device = Device::open(&format!("usb/{name}"), &library).expect("a known stick");
            (name.to_owned(), device)
        });
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let (foreground, background) = (names(foreground), names(background));
        let layout = LayoutSettings { row: "x".into(), foreground, background, replicas };
        let settings = Settings {
            jobs: 4,
            span_mib: 8,
            stripe: vec!["usb3-1".into()],
            codecs: Vec::new(),
            layouts: Vec::new(),
            compression: None,
        };
        measure(&layout, &columns, &settings, 1)
    }

    /// Two members nearly double the rates, two copies nearly halve the rate of writes, and a slow foreground
    /// is slow.
    #[test]
    fn rates_follow_the_members_of_the_foreground() {
        let [one, two, copies] =
            [(&["usb3-1"][..], 1), (&["usb3-1", "usb3-2"], 1), (&["usb3-1", "usb3-2"], 2)]
                .map(|(members, replicas)| rates(members, &[], replicas));
        assert!(two[0] > 1.8 * one[0] && two[1] > 1.6 * one[1], "{two:?} and {one:?}");
        assert!(copies[0] < 0.6 * two[0], "{copies:?} and {two:?}");
        let fast = rates(&["usb3-1", "usb3-2"], &["usb2-1"], 1);
        let slow = rates(&["usb2-1"], &["usb3-1", "usb3-2"], 1);
        assert!(fast[0] > 3.0 * slow[0] && fast[1] > slow[1], "{fast:?} and {slow:?}");
    }
}
