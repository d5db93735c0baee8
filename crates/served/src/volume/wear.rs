//! The work that the flash of simulated members does for a volume.

use super::PoolMember;
use crate::Served;
use flashlab_block::Timed;
use flashlab_sim::Observer;
use std::sync::Arc;

/// Bytes and erases of a device since it was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Totals {
    /// Bytes that the volume wrote to the device.
    written: u64,
    /// Bytes that the device programmed into its flash.
    programmed: u64,
    erases: u64,
}

impl Observer for Totals {
    fn count(&mut self, name: &'static str, value: u64) {
        match name {
            "host_written_bytes" => self.written = value,
            "programmed_bytes" => self.programmed = value,
            "erase_count" => self.erases = value,
            _ => {}
        }
    }
}

impl Totals {
    fn of(device: &Timed) -> Totals {
        let mut totals = Totals::default();
        device.with_model(|model| model.observe(&mut totals));
        totals
    }
}

/// The simulated members of a volume.
#[derive(Clone, Debug, Default)]
pub(super) struct Wear(Arc<Vec<Worn>>);

/// A simulated member.
#[derive(Debug)]
struct Worn {
    name: String,
    device: Arc<Timed>,
    /// Totals when the volume was opened.
    before: Totals,
}

impl Wear {
    /// Begins to count the work of the members. `served` has the devices of `members` in the same order.
    pub(super) fn begin(members: &[PoolMember], served: &[Served]) -> Wear {
        let worn = |(member, served): (&PoolMember, &Served)| {
            let device = served.timed.clone()?;
            let name = if member.label.is_empty() { &member.device } else { &member.label };
            Some(Worn { name: name.clone(), before: Totals::of(&device), device })
        };
        Wear(Arc::new(members.iter().zip(served).filter_map(worn).collect()))
    }

    /// Passes on the programmed bytes and the erases of all members together.
    pub(super) fn observe(&self, to: &mut dyn Observer) {
        let totals = self.0.iter().map(|worn| Totals::of(&worn.device));
        let sum = totals.fold(Totals::default(), |sum, one| Totals {
            written: 0,
            programmed: sum.programmed + one.programmed,
            erases: sum.erases + one.erases,
        });
        to.count("programmed_bytes", sum.programmed);
        to.count("erase_count", sum.erases);
    }

    /// Describes the work of each member since the volume was opened.
    pub(super) fn remarks(&self) -> Vec<String> {
        let mib = |bytes: u64| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
        let remark = |Worn { name, device, before }: &Worn| {
            let now = Totals::of(device);
            format!(
                "member {name}: {} written by the volume, {} programmed and {} erases, with the preparation",
                mib(now.written - before.written),
                mib(now.programmed - before.programmed),
                now.erases - before.erases
            )
        };
        self.0.iter().map(remark).collect()
    }
}
