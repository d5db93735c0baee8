//! The write amplification of one device over its first drive writes.

use flashlab_flash::ftl::Ftl;
use flashlab_flash::ftl::gc::{VictimPolicy, closed_forms};
use flashlab_flash::ftl::page_map::{PageMap, PageMapParameters, Streams};
use flashlab_flash::ftl::wear_leveling::LevelingPolicy;
use flashlab_flash::nand::{Cell, Geometry};
use flashlab_sim::Rng;

/// Size of a unit, and of a page, in bytes.
const UNIT: u64 = 4096;
/// Units that the host can address.
const UNITS: u64 = 16_384;
/// Free blocks at which collection begins. They are not counted as spare.
const RESERVE: u32 = 4;
/// Number of calls of [`Amplification::advance`] that make one drive write.
pub const STEPS_PER_DRIVE_WRITE: u64 = 8;

/// The distribution of the writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Writes {
    /// All units are equally likely.
    Uniform,
    /// 80 % of the writes go to 20 % of the units.
    Skewed,
}

/// A device that receives random writes after one sequential fill.
#[derive(Debug)]
pub struct Amplification {
    map: PageMap,
    rng: Rng,
    writes: Writes,
    pages: u32,
    victim: VictimPolicy,
    /// Mapped units, and units that data can occupy, each summed over the writes of the last step.
    fill: (u64, u64),
}

impl Amplification {
    /// Returns a device whose spare blocks are `spare_percent` of its capacity (2 to 100), with erase blocks of `pages`
    /// pages (16 to 256). `policy` is the name of a victim policy in profiles. Values out of range are limited to the
    /// range. Returns `None` for an unknown policy.
    pub fn new(spare_percent: f64, pages: u32, policy: &str, writes: Writes) -> Option<Amplification> {
        let victim = VictimPolicy::from_name(policy)?;
        let spare = if spare_percent.is_finite() { spare_percent.clamp(2.0, 100.0) } else { 2.0 };
        let pages = pages.clamp(16, 256);
        // In addition to the reserve, the layer needs two open blocks and a spare one.
        let blocks_min = (UNITS as u32).div_ceil(pages) + 3;
        let blocks = (UNITS as f64 * (1.0 + spare / 100.0) / f64::from(pages)).round() as u32;
        let blocks = blocks.max(blocks_min);
        let parameters = PageMapParameters {
            geometry: Geometry {
                channels: 1,
                dies: 1,
                planes: 1,
                // The two open blocks are half unwritten on average.
                blocks: blocks + RESERVE + 1,
                pages,
                page: UNIT,
            },
            cell: Cell::Tlc,
            unit: UNIT,
            capacity: UNITS * UNIT,
            map_pages: 0,
            victim,
            streams: Streams::Two,
            reserve: RESERVE,
            idle_free: 0,
            write_buffer: 2 * UNIT,
            slc: None,
            leveling: LevelingPolicy::None,
            endurance: None,
        };
        let mut map = PageMap::new(&parameters, 0);
        Ftl::write(&mut map, 0, UNITS).expect("blocks neither wear out nor fail");
        Some(Amplification { map, rng: Rng::new(1), writes, pages, victim, fill: (0, 1) })
    }

    fn unit(&mut self) -> u64 {
        const HOT: u64 = UNITS / 5;
        match self.writes {
            Writes::Uniform => self.rng.below(UNITS),
            Writes::Skewed if self.rng.below(100) < 80 => self.rng.below(HOT),
            Writes::Skewed => HOT + self.rng.below(UNITS - HOT),
        }
    }

    /// Writes an eighth of the device and returns the write amplification of these writes.
    pub fn advance(&mut self) -> f64 {
        let before = self.map.written();
        self.fill = (0, 0);
        for _ in 0..UNITS / STEPS_PER_DRIVE_WRITE {
            let unit = self.unit();
            Ftl::write(&mut self.map, unit, 1).expect("blocks neither wear out nor fail");
            self.fill.0 += self.map.valid_units();
            self.fill.1 += self.map.effective_units();
        }
        let written = self.map.written().since(&before);
        (written.host + written.gc) as f64 / written.host.max(1) as f64
    }

    /// Returns the steady write amplification at the fill level of the last step, by its closed form. FIFO
    /// and greedy victims have a closed form under uniform writes. Random victims have a closed form under
    /// any writes. Other policies have none.
    pub fn closed_form(&self) -> Option<f64> {
        let rho = self.fill.0 as f64 / self.fill.1.max(1) as f64;
        match (self.victim, self.writes) {
            (VictimPolicy::Random, _) => Some(closed_forms::random(rho)),
            (VictimPolicy::Fifo, Writes::Uniform) => Some(closed_forms::fifo(rho)),
            (VictimPolicy::Greedy, Writes::Uniform) => Some(closed_forms::greedy(rho, self.pages)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steady(spare: f64, policy: &str, writes: Writes) -> (f64, Option<f64>) {
        let mut device = Amplification::new(spare, 64, policy, writes).expect("the policy exists");
        let amplification: Vec<f64> = (0..12 * STEPS_PER_DRIVE_WRITE).map(|_| device.advance()).collect();
        let last = &amplification[amplification.len() - 16..];
        (last.iter().sum::<f64>() / 16.0, device.closed_form())
    }

    #[test]
    fn the_steady_state_agrees_with_the_closed_forms() {
        for policy in ["greedy", "fifo", "random"] {
            for spare in [7.0, 28.0, 60.0] {
                let (simulated, form) = steady(spare, policy, Writes::Uniform);
                let form = form.expect("uniform writes have a closed form");
                assert!((simulated / form - 1.0).abs() < 0.08, "{policy}, {spare} %: {simulated} and {form}");
            }
        }
        let (simulated, form) = steady(28.0, "random", Writes::Skewed);
        assert!((simulated / form.expect("of any writes") - 1.0).abs() < 0.08);
        assert_eq!(steady(28.0, "greedy", Writes::Skewed).1, None);
    }

    #[test]
    fn values_out_of_range_are_limited_and_unknown_policies_refused() {
        for spare in [f64::NAN, -1.0, 1e9] {
            for pages in [0, 17, u32::MAX] {
                let mut device =
                    Amplification::new(spare, pages, "greedy", Writes::Uniform).expect("a device");
                assert!(device.advance() >= 1.0, "{spare} %, {pages} pages");
            }
        }
        assert!(Amplification::new(28.0, 64, "newest", Writes::Uniform).is_none());
    }
}
