//! Map cache of a drive whose memory does not hold the whole map: map pages are loaded on demand.
//!
//! The cost of a request depends on the location of its map entry ([`Location`]): the buffer of changed map pages, the
//! controller's own memory, host memory or flash. A look-up that needs a load brings a whole map page, which
//! the controller's memory and host memory then both hold. Each of these two memories replaces its least
//! recently used page. Changed pages lie in a buffer of their own and are written back when another page
//! needs their slot, or in idle time. Every copy elsewhere is therefore clean, except in a direct table, and
//! the loss of host memory loses no data. The [`Directory`] lists the map pages that exist on flash. If a
//! page is neither on flash nor changed, none of its units was ever written, or all of them were deallocated.
//!
//! This module models only *the location of map pages* and the cost of finding them. The content of the map belongs to
//! the page map, which is always exact. Not modelled: changes that garbage collection makes to the map (they are
//! written back together with the blocks that it fills), and the competition of loads with other work of the array.

mod directory;
mod loaders;
mod parameters;

pub use directory::Directory;
pub use loaders::Loaders;
pub use parameters::{HostMemoryPolicy, MapCacheParameters};

use crate::ftl::inconsistent::ensure;
use crate::ftl::{Inconsistent, MapPage};
use core::ops::Range;
use flashlab_sim::{Duration, Lru, Observer};
use serde::{Deserialize, Serialize};

/// Location at which a map page was found.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Location {
    /// The whole map is in memory and indexed directly.
    Table,
    /// The buffer of changed pages.
    Dirty,
    /// Nowhere: no unit of the page is mapped.
    Nowhere,
    /// The controller's memory.
    Sram,
    /// Host memory.
    HostMemory,
    /// Flash: the page has to be loaded.
    Flash,
}

/// Outcome of a look-up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LookUp {
    /// Location of the map page.
    pub found: Location,
    /// Firmware time for the look-up, without a load.
    pub time: Duration,
}

/// Cost of a change of a map page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Update {
    /// True if the page has to be loaded first, because only a part of it changes.
    pub load: bool,
    /// Firmware time, without a load.
    pub time: Duration,
    /// Page that was evicted from the buffer of changed pages and has to be programmed.
    pub written_back: Option<MapPage>,
}

/// Number of look-ups that each location answered, and number of loads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
struct Counts {
    table: u64,
    dirty: u64,
    nowhere: u64,
    sram: u64,
    host_memory: u64,
    flash: u64,
    loads: u64,
}

/// State of the map cache: the location of each map page.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MapCache {
    parameters: MapCacheParameters,
    /// True if the drive's own memory holds the whole map.
    resident: bool,
    directory: Directory,
    dirty: Lru,
    sram: Lru,
    host_memory: Lru,
    /// Content of host memory when the host withdrew it, without the pages that have been changed or
    /// deallocated since.
    disabled: Option<Lru>,
    /// Page at which loading in idle time continues.
    next_to_load: u32,
    counts: Counts,
}

impl MapCache {
    /// Creates the map cache of a drive of `units` units, none of which is mapped, without host memory. The caller has
    /// checked the parameters.
    pub fn new(parameters: &MapCacheParameters, units: u64) -> Self {
        let resident = parameters.sram.is_none();
        let pages = parameters.pages(units) as u32;
        let fit = |bytes: u64| (bytes / parameters.page).min(pages.into()) as u32;
        let held = if resident { 0 } else { pages };
        MapCache {
            parameters: parameters.clone(),
            resident,
            directory: Directory::new(held),
            dirty: Lru::new(fit(parameters.dirty), held),
            sram: Lru::new(fit(parameters.sram.unwrap_or(0)), held),
            host_memory: Lru::new(0, held),
            disabled: None,
            next_to_load: 0,
            counts: Counts::default(),
        }
    }

    /// Returns true if the whole map is in the drive's own memory.
    #[inline]
    pub fn is_resident(&self) -> bool {
        self.resident
    }
    /// Returns the number of map pages, or 0 if the whole map is in the drive's own memory.
    pub fn pages(&self) -> u32 {
        self.directory.pages()
    }
    /// Returns the number of units that one map page covers.
    pub fn entries(&self) -> u64 {
        self.parameters.entries()
    }
    /// Returns true if `page` exists on flash or is changed. No unit of any other page is mapped.
    #[inline]
    pub fn exists(&self, page: MapPage) -> bool {
        self.resident || self.directory.contains(page) || self.dirty.contains(page.0)
    }
    /// Returns the members of `pages` that exist on flash, followed by the changed pages that do not exist on
    /// flash. No unit of any other page is mapped.
    pub fn existing(&self, pages: Range<u32>) -> impl Iterator<Item = MapPage> + '_ {
        let changed = pages.clone().filter(|p| !self.directory.contains(MapPage(*p))).map(MapPage);
        let changed = changed.filter(|page| self.dirty.contains(page.0));
        self.directory.iter(pages).chain(changed)
    }

    /// Starts to use `bytes` of host memory, which is empty at first; 0 means no host memory.
    pub fn use_host_memory(&mut self, bytes: u64) {
        let bytes = if self.parameters.policy == HostMemoryPolicy::WriteBuffer { 0 } else { bytes };
        let pages = self.pages();
        let fit = (bytes / self.parameters.page).min(pages.into()) as u32;
        self.host_memory = Lru::new(fit, pages);
        self.disabled = None;
        self.next_to_load = 0;
    }
    /// Stops the use of host memory.
    pub fn disable_host_memory(&mut self) {
        let none = Lru::new(0, self.pages());
        self.disabled = Some(core::mem::replace(&mut self.host_memory, none));
    }
    /// Resumes the use of host memory, with its former content.
    pub fn return_host_memory(&mut self) {
        if let Some(held) = self.disabled.take() {
            self.host_memory = held;
        }
    }

    /// Returns true if host memory has room for the whole map.
    fn host_memory_fits(&self) -> bool {
        self.host_memory.capacity() > 0 && self.host_memory.capacity() == self.pages()
    }
    /// Returns true if reads index host memory directly, like a table: host memory holds all existing pages,
    /// and either no page is changed or host memory is a direct table.
    fn is_indexed_directly(&self) -> bool {
        self.host_memory_fits()
            && self.host_memory.len() == self.directory.count()
            && (self.dirty.is_empty() || self.parameters.policy == HostMemoryPolicy::DirectTable)
    }

    /// Looks up an entry of `page`. If the page is only on flash, the cache loads it.
    #[inline]
    pub fn look_up(&mut self, page: MapPage) -> LookUp {
        if self.resident {
            self.counts.table += 1;
            return LookUp { found: Location::Table, time: Duration::ZERO };
        }
        if self.is_indexed_directly() {
            self.counts.table += 1;
            return LookUp { found: Location::Table, time: Duration::ZERO };
        }
        self.look_up_caches(page)
    }

    fn look_up_caches(&mut self, page: MapPage) -> LookUp {
        if self.dirty.touch(page.0) {
            self.counts.dirty += 1;
            return LookUp { found: Location::Dirty, time: Duration::ZERO };
        }
        if !self.directory.contains(page) {
            self.counts.nowhere += 1;
            return LookUp { found: Location::Nowhere, time: Duration::ZERO };
        }
        let with_host_memory = self.host_memory.capacity() > 0;
        let (look, fetch) = match with_host_memory {
            true => (self.parameters.t_look, self.parameters.t_hmb),
            false => (Duration::ZERO, Duration::ZERO),
        };
        let in_host_memory = self.host_memory.touch(page.0);
        if self.sram.touch(page.0) {
            self.counts.sram += 1;
            return LookUp { found: Location::Sram, time: look };
        }
        self.sram.insert(page.0);
        if in_host_memory {
            self.counts.host_memory += 1;
            return LookUp { found: Location::HostMemory, time: look + fetch };
        }
        self.counts.flash += 1;
        self.counts.loads += 1;
        // Host memory gets a copy, by the same transfer in the other direction.
        self.host_memory.insert(page.0);
        LookUp { found: Location::Flash, time: look + fetch }
    }

    /// Records a change of an entry of `page`, or of every entry if `all` is true.
    #[inline]
    pub fn update(&mut self, page: MapPage, all: bool) -> Update {
        const NOTHING: Update = Update { load: false, time: Duration::ZERO, written_back: None };
        if self.resident || self.dirty.touch(page.0) {
            return NOTHING;
        }
        self.update_clean_page(page, all)
    }

    fn update_clean_page(&mut self, page: MapPage, all: bool) -> Update {
        let in_sram = self.sram.remove(page.0);
        let in_table = self.is_indexed_directly() && self.host_memory.contains(page.0);
        if self.parameters.policy != HostMemoryPolicy::DirectTable || !self.host_memory_fits() {
            self.host_memory.remove(page.0);
        }
        if let Some(away) = &mut self.disabled {
            away.remove(page.0);
        }
        let load = !all && self.directory.contains(page) && !in_sram && !in_table;
        self.counts.loads += u64::from(load);
        let written_back = self.dirty.insert(page.0).map(MapPage);
        let time = if written_back.is_some() { self.parameters.t_write_back } else { Duration::ZERO };
        if let Some(gone) = written_back {
            self.mark_written_back(gone);
        }
        Update { load, time, written_back }
    }

    /// Records the write-back of `page`: the page exists on flash from now on, and host memory holds it if host memory
    /// is a table.
    fn mark_written_back(&mut self, page: MapPage) {
        self.directory.insert(page);
        if self.parameters.policy == HostMemoryPolicy::DirectTable && self.host_memory_fits() {
            self.host_memory.insert(page.0);
        }
    }

    /// Drops `pages`, none of whose units is mapped any more.
    pub fn deallocate(&mut self, pages: Range<u32>) {
        if self.resident {
            return;
        }
        for page in pages.map(MapPage) {
            self.directory.remove(page);
            self.dirty.remove(page.0);
            self.sram.remove(page.0);
            self.host_memory.remove(page.0);
            if let Some(away) = &mut self.disabled {
                away.remove(page.0);
            }
        }
    }

    /// Takes the oldest changed page, which the caller programs in idle time.
    pub fn write_back(&mut self) -> Option<MapPage> {
        let page = self.dirty.oldest().map(MapPage)?;
        self.dirty.remove(page.0);
        self.mark_written_back(page);
        Some(page)
    }

    /// Loads one more page into host memory in idle time, if host memory has room for the whole map. Returns true if it
    /// loaded a page.
    pub fn load_ahead(&mut self) -> bool {
        if !self.host_memory_fits() || self.host_memory.len() == self.directory.count() {
            return false;
        }
        // Some page is missing. The search continues where it last ended, and then once more from the start. Changed
        // pages enter host memory when they are written back.
        let missing = |map: &MapCache, from: u32| {
            let mut existing = map.directory.iter(from..map.pages());
            existing.find(|page| !map.host_memory.contains(page.0) && !map.dirty.contains(page.0))
        };
        let Some(page) = missing(self, self.next_to_load).or_else(|| missing(self, 0)) else { return false };
        self.host_memory.insert(page.0);
        self.counts.loads += 1;
        self.next_to_load = page.0 + 1;
        true
    }

    /// Returns true if [`MapCache::write_back`] or [`MapCache::load_ahead`] has work to do.
    pub fn has_idle_work(&self) -> bool {
        !self.dirty.is_empty() || (self.host_memory_fits() && self.host_memory.len() < self.directory.count())
    }

    /// Makes `page` exist again after a power cut that undid the trim of its units, because that trim had no record on
    /// flash.
    pub fn restore(&mut self, page: MapPage) {
        if !self.exists(page) {
            self.directory.insert(page);
        }
    }

    /// Models a power cut, which also loses host memory. Recovery reads the pages that were programmed last
    /// to find the changed map pages again. The changed map pages stay changed. Returns the number of changed
    /// pages.
    pub fn power_cut(&mut self) -> u32 {
        self.sram.clear();
        self.use_host_memory(0);
        self.dirty.len()
    }

    /// Reports the look-ups by location, the loads, and the use of the memories.
    pub fn observe(&self, to: &mut dyn Observer) {
        to.count("map_hit_table_count", self.counts.table);
        if self.resident {
            return;
        }
        to.count("map_hit_changed_count", self.counts.dirty);
        to.count("map_hit_nowhere_count", self.counts.nowhere);
        to.count("map_hit_sram_count", self.counts.sram);
        to.count("map_hit_hmb_count", self.counts.host_memory);
        to.count("map_miss_count", self.counts.flash);
        to.count("map_read_count", self.counts.loads);
        let bytes = |pages: u32| u64::from(pages) * self.parameters.page;
        for (name, pages) in [("map cache", &self.sram), ("host memory buffer", &self.host_memory)] {
            if pages.capacity() > 0 {
                to.level(name, bytes(pages.len()), bytes(pages.capacity()));
            }
        }
    }

    /// Checks the whole structure.
    ///
    /// # Panics
    /// Panics if the structure is inconsistent; the message names the inconsistency.
    pub fn check(&self) {
        if let Err(inconsistent) = self.walk() {
            panic!("{inconsistent}");
        }
    }

    /// Checks that a map that was restored from a state file has these parameters, `units` units and host memory of
    /// `lent` bytes, and is consistent.
    ///
    /// # Errors
    /// Returns an error if the map has other parameters or is inconsistent.
    pub fn validate(
        &self,
        parameters: &MapCacheParameters,
        units: u64,
        lent: u64,
    ) -> Result<(), Inconsistent> {
        let mut like = MapCache::new(parameters, units);
        like.use_host_memory(lent);
        ensure!(
            self.parameters == *parameters && self.resident == like.resident,
            "the map was saved with other parameters"
        );
        ensure!(
            self.directory.is_sound(like.pages()),
            "the directory of the map has another length, or a wrong count"
        );
        let held =
            [(&self.dirty, &like.dirty), (&self.sram, &like.sram), (&self.host_memory, &like.host_memory)];
        for (memory, like) in held {
            ensure!(
                memory.capacity() == like.capacity() && memory.is_sound(self.pages()),
                "an LRU list of map pages has another size, or is corrupt"
            );
        }
        let away = self.disabled.as_ref();
        ensure!(
            away.is_none_or(|away| away.is_sound(self.pages()) && away.capacity() <= self.pages()),
            "the LRU list of the disabled host memory is corrupt"
        );
        let Counts { table, dirty, nowhere, sram, host_memory, flash, loads } = self.counts;
        let most = [table, dirty, nowhere, sram, host_memory, flash, loads].into_iter().max();
        ensure!(
            most < Some(1 << 60) && self.next_to_load <= self.pages(),
            "a counter of look-ups or loads exceeds its limit"
        );
        self.walk()
    }

    fn walk(&self) -> Result<(), Inconsistent> {
        let table = self.parameters.policy == HostMemoryPolicy::DirectTable && self.host_memory_fits();
        let away = |page: MapPage| self.disabled.as_ref().is_some_and(|away| away.contains(page.0));
        for page in (0..self.pages()).map(MapPage) {
            let changed = self.dirty.contains(page.0);
            let clean = self.sram.contains(page.0) || self.host_memory.contains(page.0) || away(page);
            ensure!(
                !clean || self.directory.contains(page),
                "a clean copy of {page:?} is held, but the page does not exist"
            );
            ensure!(!(changed && self.sram.contains(page.0)), "{page:?} is held both clean and changed");
            ensure!(
                table || !(changed && self.host_memory.contains(page.0)),
                "{page:?} is changed, but host memory holds a copy"
            );
        }
        ensure!(self.dirty.len() <= self.dirty.capacity(), "more changed pages are held than fit");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    const PAGES: u32 = 24;
    const LOOK: Duration = Duration::from_ns(2);
    const FETCH: Duration = Duration::from_ns(5);

    fn map(policy: HostMemoryPolicy) -> MapCache {
        let parameters = MapCacheParameters {
            sram: Some(3 * 512),
            page: 512,
            entry: 8,
            dirty: 2 * 512,
            t_look: LOOK,
            t_hmb: FETCH,
            t_load: Duration::from_us(90),
            t_write_back: Duration::from_us(4),
            loaders: 1,
            blocking: true,
            policy,
        };
        parameters.check().expect("possible");
        MapCache::new(&parameters, u64::from(PAGES) * 64)
    }

    #[derive(Clone, Debug)]
    enum Step {
        LookUp(u32),
        Update(u32, bool),
        Deallocate(Range<u32>),
        Lend(u64),
        TakeAway,
        GiveBack,
        WriteBack,
        LoadAhead,
        PowerCut,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            8 => (0..PAGES).prop_map(Step::LookUp),
            5 => (0..PAGES, any::<bool>()).prop_map(|(page, all)| Step::Update(page, all)),
            1 => (0..PAGES, 0..PAGES).prop_map(|(a, b)| Step::Deallocate(a.min(b)..a.max(b))),
            1 => (0u64..30).prop_map(|pages| Step::Lend(pages * 512)),
            1 => Just(Step::TakeAway),
            1 => Just(Step::GiveBack),
            2 => Just(Step::WriteBack),
            2 => Just(Step::LoadAhead),
            1 => Just(Step::PowerCut),
        ]
    }

    proptest! {
        #[test]
        fn look_ups_find_exactly_the_existing_pages(
            policy in prop_oneof![Just(HostMemoryPolicy::CleanMap), Just(HostMemoryPolicy::DirectTable), Just(HostMemoryPolicy::WriteBuffer)],
            steps in prop::collection::vec(step(), 0..150),
        ) {
            let mut map = map(policy);
            let mut exists = BTreeSet::new();
            // True if host memory was taken away and not lent again.
            let mut away = false;
            for step in steps {
                match step {
                    Step::LookUp(page) => {
                        let LookUp { found, time } = map.look_up(MapPage(page));
                        if found == Location::Nowhere {
                            prop_assert!(!exists.contains(&page));
                        } else if found != Location::Table {
                            prop_assert!(exists.contains(&page));
                            let again = map.look_up(MapPage(page));
                            prop_assert!(matches!(again.found, Location::Dirty | Location::Sram | Location::Table), "{again:?}");
                        }
                        prop_assert!([Duration::ZERO, LOOK, LOOK + FETCH].contains(&time));
                    }
                    Step::Update(page, all) => {
                        let update = map.update(MapPage(page), all);
                        prop_assert!(!update.load || (exists.contains(&page) && !all));
                        exists.insert(page);
                        prop_assert_eq!(map.look_up(MapPage(page)).time, Duration::ZERO);
                    }
                    Step::Deallocate(pages) => {
                        map.deallocate(pages.clone());
                        exists.retain(|page| !pages.contains(page));
                    }
                    Step::Lend(bytes) => {
                        map.use_host_memory(bytes);
                        away = false;
                    }
                    Step::TakeAway if !away => {
                        map.disable_host_memory();
                        away = true;
                    }
                    Step::GiveBack if away => {
                        map.return_host_memory();
                        away = false;
                    }
                    Step::TakeAway | Step::GiveBack => {}
                    Step::WriteBack => {
                        let written = map.write_back();
                        prop_assert!(written.is_none_or(|page| exists.contains(&page.0)));
                    }
                    Step::LoadAhead => {
                        map.load_ahead();
                    }
                    Step::PowerCut => {
                        map.power_cut();
                        away = false;
                    }
                }
                map.check();
                let mut listed: Vec<u32> = map.existing(0..PAGES).map(|page| page.0).collect();
                listed.sort_unstable();
                prop_assert_eq!(listed, exists.iter().copied().collect::<Vec<_>>());
            }
            while map.write_back().is_some() || map.load_ahead() {
                map.check();
            }
            prop_assert!(!map.has_idle_work());
        }
    }
}
