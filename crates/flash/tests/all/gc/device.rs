//! Device that the tests compare with closed forms. The device has a single die and one unit per page, because the
//! closed forms contain neither dies nor partial pages.

use flashlab_flash::ftl::Ftl;
use flashlab_flash::ftl::gc::VictimPolicy;
use flashlab_flash::ftl::page_map::{PageMap, PageMapParameters, Streams};
use flashlab_flash::ftl::wear_leveling::LevelingPolicy;
use flashlab_flash::nand::{Cell, Geometry};
use flashlab_sim::Rng;

pub(crate) const BLOCKS: u32 = 4_096;
pub(crate) const UNIT: u64 = 4_096;
/// Number of drive writes until a device is in its steady state.
pub(crate) const WARM_UP: u64 = 6;
/// Number of drive writes of the measurement.
pub(crate) const MEASURED: u64 = 2;

/// Returns the parameters of a device with `BLOCKS` blocks of `b` units and the smallest possible reserve. The host can
/// address a share `rho` of the units.
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

/// Write amplification of a device in its steady state, and the mean of the effective rho.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Steady {
    pub(crate) amplification: f64,
    pub(crate) rho: f64,
}

/// Writes all units in order, and then calls `write` once per unit for `WARM_UP` and for `MEASURED` drive
/// writes. Returns the results of the measured drive writes.
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

/// Runs a new device as [`steady`] does, under uniform random writes.
pub(crate) fn uniform(parameters: &PageMapParameters, seed: u64) -> (PageMap, Steady) {
    let mut map = PageMap::new(parameters, seed);
    let mut rng = Rng::new(seed);
    let units = map.unit_count();
    let steady = steady(&mut map, |map| Ftl::write(map, rng.below(units), 1).expect("it has spare"));
    (map, steady)
}

/// Asserts that `found` differs from `expected` by at most `percent`.
#[track_caller]
pub(crate) fn assert_within(percent: f64, found: f64, expected: f64, what: &str) {
    let error = 100.0 * (found / expected - 1.0);
    println!("{what}: {found:.4}, closed form {expected:.4}, {error:+.2} %");
    assert!(
        error.abs() <= percent,
        "{what}: {found:.4}, closed form {expected:.4}, {error:+.2} % > {percent} %"
    );
}
