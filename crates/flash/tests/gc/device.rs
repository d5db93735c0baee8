//! A device to compare with a closed form: one die, since the forms know none, and one unit a page.

use flashlab_flash::ftl::Ftl;
use flashlab_flash::ftl::gc::VictimPolicy;
use flashlab_flash::ftl::page_map::{PageMap, PageMapParameters, Streams};
use flashlab_flash::ftl::wear_leveling::LevelingPolicy;
use flashlab_flash::nand::{Cell, Geometry};
use flashlab_sim::Rng;

pub(crate) const BLOCKS: u32 = 4_096;
pub(crate) const UNIT: u64 = 4_096;
/// Drive writes until a device is steady, and those measured.
pub(crate) const WARM_UP: u64 = 6;
pub(crate) const MEASURED: u64 = 2;

/// `BLOCKS` blocks of `b` units, of which a share `rho` can be addressed, with the smallest reserve there is.
pub(crate) fn parameters(victim: VictimPolicy, rho: f64, b: u32) -> PageMapParameters {
    let units = f64::from(BLOCKS * b) * rho;
    PageMapParameters {
        geometry: Geometry { channels: 1, dies: 1, planes: 1, blocks: BLOCKS, pages: b, page: UNIT },
        cell: Cell::Tlc,
        unit: UNIT,
        capacity: units as u64 * UNIT,
        map_pages: 0,
        victim,
        streams: Streams::Two,
        reserve: 3,
        idle_free: 0,
        write_buffer: 2 * UNIT,
        slc: None,
        leveling: LevelingPolicy::None,
        endurance: None,
    }
}

/// What a steady device did: its amplification, and rho as it was on average.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Steady {
    pub(crate) amplification: f64,
    pub(crate) rho: f64,
}

/// Writes all units in order, then `writes` gives the units of `WARM_UP` and of `MEASURED` drive writes.
pub(crate) fn steady(map: &mut PageMap, mut write: impl FnMut(&mut PageMap)) -> Steady {
    let units = map.unit_count();
    Ftl::write(map, 0, units).expect("it has spare");
    (0..WARM_UP * units).for_each(|_| write(map));
    let before = map.written();
    let (mut mapped, mut effective) = (0u64, 0u64);
    for step in 0..MEASURED * units {
        write(map);
        if step % 64 == 0 {
            mapped += map.valid_units();
            effective += map.effective_units();
        }
    }
    map.check();
    let written = map.written().since(&before);
    Steady { amplification: written.amplification(), rho: mapped as f64 / effective as f64 }
}

/// The same under uniform random writes.
pub(crate) fn uniform(parameters: &PageMapParameters, seed: u64) -> (PageMap, Steady) {
    let mut map = PageMap::new(parameters, seed);
    let mut rng = Rng::new(seed);
    let units = map.unit_count();
    let steady = steady(&mut map, |map| Ftl::write(map, rng.below(units), 1).expect("it has spare"));
    (map, steady)
}

/// Asserts that `found` is `expected` within `percent`.
#[track_caller]
pub(crate) fn assert_within(percent: f64, found: f64, expected: f64, what: &str) {
    let error = 100.0 * (found / expected - 1.0);
    println!("{what}: {found:.4}, closed form {expected:.4}, {error:+.2} %");
    assert!(
        error.abs() <= percent,
        "{what}: {found:.4}, closed form {expected:.4}, {error:+.2} % > {percent} %"
    );
}
