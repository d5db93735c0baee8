//! Erase counts compared with the closed forms W1, W2, W4 and W5. Labels: docs/closed-forms.md.

use super::device::{BLOCKS, assert_within, parameters, uniform};
use flashlab_flash::ftl::Ftl;
use flashlab_flash::ftl::gc::VictimPolicy;
use flashlab_flash::ftl::page_map::{PageMap, PageMapParameters};
use flashlab_flash::ftl::wear_leveling::LevelingPolicy;
use flashlab_flash::nand::Endurance;
use flashlab_sim::Rng;

#[test]
fn the_mean_erase_count_is_the_host_writes_times_amplification_over_the_raw_units() {
    let (mut map, _) = uniform(&parameters(VictimPolicy::Greedy, 0.8696, 32), 1);
    let mut rng = Rng::new(1);
    let units = map.unit_count();
    let (before, erases) = (map.written(), map.blocks().erases());
    (0..4 * units).for_each(|_| Ftl::write(&mut map, rng.below(units), 1).expect("it has spare"));
    let written = map.written().since(&before);
    let mean = (map.blocks().erases() - erases) as f64 / f64::from(BLOCKS);
    let expected = written.host as f64 * written.amplification() / f64::from(BLOCKS * 32);
    assert_within(0.1, mean, expected, "mean erases");
}

#[test]
fn the_life_of_a_device_is_its_raw_bytes_times_its_cycles_over_its_amplification() {
    let cycles = 60;
    let endurance = Some(Endurance::exactly(cycles));
    let parameters = PageMapParameters {
        endurance,
        leveling: LevelingPolicy::Static { threshold: 2, relief: 1 },
        ..small(0.8)
    };
    let mut map = PageMap::new(&parameters, 2);
    let mut rng = Rng::new(2);
    let units = map.unit_count();
    let mut host = 0u64;
    while Ftl::write(&mut map, rng.below(units), 1).is_ok() {
        host += 1;
    }
    map.check();
    let written = map.written();
    let raw = f64::from(map.blocks().count() * 32);
    let amplification = written.total() as f64 / written.host as f64;
    assert_within(3.0, host as f64, raw * f64::from(cycles) / amplification, "units written in a life");
}

/// Returns [`parameters`] with fewer blocks, because wear takes many erases.
fn small(rho: f64) -> PageMapParameters {
    let mut parameters = parameters(VictimPolicy::Greedy, rho, 32);
    parameters.geometry.blocks = 512;
    parameters.capacity = (512.0 * 32.0 * rho) as u64 * 4_096;
    parameters
}

#[test]
fn the_cost_of_static_leveling_is_at_most_about_one_over_its_threshold() {
    // Half of the units are never written again.
    let run = |leveling| {
        let mut map = PageMap::new(&PageMapParameters { leveling, ..small(0.8) }, 3);
        let mut rng = Rng::new(3);
        let units = map.unit_count();
        Ftl::write(&mut map, 0, units).expect("it has spare");
        for _ in 0..60 * units {
            Ftl::write(&mut map, units / 2 + rng.below(units / 2), 1).expect("it has spare");
        }
        map.check();
        map
    };
    let dynamic = run(LevelingPolicy::Dynamic);
    for threshold in [8, 16, 32] {
        let leveled = run(LevelingPolicy::Static { threshold, relief: threshold });
        let (dynamic, written) = (dynamic.written(), leveled.written());
        let host = written.host as f64;
        let cost = (written.total() as f64 - dynamic.total() as f64) / host / dynamic.amplification();
        let wear = leveled.blocks().summary();
        // The cost has two causes: the moves, and the mixing of moved data with other data in the same
        // blocks.
        let moved = written.leveling as f64 / written.total() as f64 * f64::from(threshold);
        println!("threshold {threshold}: {moved:.2}/threshold moved, {cost:.3} more amplification, {wear:?}");
        assert!(moved <= 1.5, "threshold {threshold}: {moved}");
        assert!(cost <= 2.0 / f64::from(threshold), "threshold {threshold}: {cost}");
        assert!(wear.max - wear.min <= threshold + 2, "threshold {threshold}: {wear:?}");
    }
    let wear = dynamic.blocks().summary();
    assert!(
        wear.min == 0 && wear.max > 64,
        "without static leveling, cold blocks wear or hot ones do not: {wear:?}"
    );
}

#[test]
fn uniform_load_wears_evenly() {
    // A measurement with all blocks in use gave a deviation of about 1.4 % of the mean, at a mean of 87
    // erases.
    let parameters = PageMapParameters { leveling: LevelingPolicy::Dynamic, ..small(0.8) };
    let mut map = PageMap::new(&parameters, 4);
    let mut rng = Rng::new(4);
    let units = map.unit_count();
    while map.blocks().summary().mean < 87.0 {
        for _ in 0..units {
            Ftl::write(&mut map, rng.below(units), 1).expect("it has spare");
        }
    }
    let wear = map.blocks().summary();
    let evenness = 100.0 * wear.deviation / wear.mean;
    println!("deviation over mean {evenness:.2} % at {:.1} mean erases", wear.mean);
    assert!(evenness < 2.8, "{evenness} %: {wear:?}");
}
