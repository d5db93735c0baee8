//! Versions in the spare areas, for tests that compare the content after a power cut with the content that the layer
//! guarantees.
//!
//! The spare area of a page holds the version of each unit of the page (see `recovery.rs`). The layer itself does not
//! need the versions and stores them only if a test asks for them.

use super::place::Mapped;
use super::programs::{Part, Source};
use super::{PageMap, Ticket};

impl PageMap {
    /// Starts to record the version of each unit that is programmed. This takes 8 bytes for each unit of the array.
    pub fn track_versions(&mut self) {
        self.map.track_versions(self.layout.places());
    }

    /// Returns the number of the write that a read of `unit` finds. Returns `None` if the unit is not mapped
    /// or cannot be read. Also returns `None` for a unit in the array if the program of its page was torn or
    /// failed, or if the layer records no versions.
    pub fn version(&self, unit: u32) -> Option<Ticket> {
        let version = match self.map.entry(unit).decode() {
            Mapped::Slot(slot) if self.buffers.of(unit).slot(slot).trimmed > 0 => None,
            Mapped::Slot(slot) => Some(self.buffers.of(unit).slot(slot).version),
            Mapped::At(place) => self.map.versions().map(|versions| versions[place as usize]),
            Mapped::Nowhere | Mapped::Trimmed(_) | Mapped::Unreadable => None,
        };
        version.filter(|version| *version > 0).map(Ticket)
    }

    /// Writes the versions of a program's units into the spare areas of its page.
    #[cold]
    pub(super) fn record_versions(&mut self, id: u32) {
        let program = self.programs.get(id);
        let Some(versions) = self.map.versions_mut() else { return };
        for (n, Part { from, .. }) in self.programs.parts(id)[..program.count as usize].iter().enumerate() {
            versions[program.place as usize + n] = match program.source {
                Source::Data => self.buffers.data.slot(*from).version,
                Source::Map => self.buffers.map.slot(*from).version,
                Source::Moved(_) => versions[*from as usize],
            };
        }
    }

    /// Makes the spare areas of a program's page unreadable, because the program was torn or failed.
    #[cold]
    pub(super) fn clear_versions(&mut self, id: u32) {
        let place = self.programs.get(id).place as usize;
        if let Some(versions) = self.map.versions_mut() {
            versions[place..place + self.layout.units_per_page as usize].fill(0);
        }
    }
}
