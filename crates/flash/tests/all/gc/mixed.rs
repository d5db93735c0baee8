//! Skewed writes: parts of the address space are hotter than others (G6 to G8). Labels:
//! docs/closed-forms.md.

use super::device::{Steady, assert_within, parameters, steady, uniform};
use flashlab_flash::ftl::Ftl;
use flashlab_flash::ftl::gc::VictimPolicy;
use flashlab_flash::ftl::gc::closed_forms as forms;
use flashlab_flash::ftl::page_map::{PageMap, PageMapParameters, Streams};
use flashlab_flash::ftl::wear_leveling::LevelingPolicy;
use flashlab_sim::Rng;

/// Runs a device to its steady state, with a share `r` of the writes to the first share `f` of the units.
fn hot_and_cold(parameters: &PageMapParameters, r: f64, f: f64, seed: u64) -> Steady {
    let mut map = PageMap::new(parameters, seed);
    let mut rng = Rng::new(seed);
    let units = map.unit_count();
    let hot = (units as f64 * f) as u64;
    steady(&mut map, |map| {
        let unit = if rng.unit() < r { rng.below(hot) } else { hot + rng.below(units - hot) };
        Ftl::write(map, unit, 1).expect("it has spare");
    })
}

#[test]
fn a_mix_of_rates_under_fifo_in_one_stream_meets_its_closed_form() {
    for (r, f, rho) in [(0.8, 0.2, 0.8696), (0.9, 0.5, 0.7812), (0.6, 0.3, 0.9091)] {
        let parameters =
            PageMapParameters { streams: Streams::One, ..parameters(VictimPolicy::Fifo, rho, 32) };
        let Steady { amplification, rho, .. } = hot_and_cold(&parameters, r, f, 1);
        let expected = forms::fifo_of_mix(rho, &[(r, f), (1.0 - r, 1.0 - f)]);
        assert_within(1.5, amplification, expected, &format!("{r} of writes to {f} of units, rho {rho:.4}"));
    }
}

#[test]
fn separated_pools_meet_the_weighted_sum_of_their_closed_forms() {
    // Pools behave as two devices: the first receives 0.8 of the writes and holds 0.2 of the units.
    let (r, f) = (0.8, 0.2);
    let (rho_hot, rho_cold) = (0.75, 0.9);
    let (_, hot) = uniform(&parameters(VictimPolicy::Greedy, rho_hot, 32), 2);
    let (_, cold) = uniform(&parameters(VictimPolicy::Greedy, rho_cold, 32), 3);
    let found = r * hot.amplification + (1.0 - r) * cold.amplification;
    let expected = r * forms::greedy(hot.rho, 32) + (1.0 - r) * forms::greedy(cold.rho, 32);
    assert_within(1.0, found, expected, "two pools");
    // The same rho in both pools gives the uniform value for any shares.
    let rho = 0.8696;
    let pooled = r * forms::fifo(rho) + (1.0 - r) * forms::fifo(rho);
    assert!((pooled - forms::fifo(rho)).abs() < 1e-12);
    // The amplification of a layer that separates hot from cold data without hints from the host lies between
    // that of one stream and that of the best split of the spare space between pools.
    let total = 1.0 / rho;
    let best = (1..1_000)
        .map(|n| {
            // Raw space of the hot pool, as a multiple of the mapped units of both pools.
            let hot = f + (total - 1.0) * f64::from(n) / 1_000.0;
            let cold = total - hot;
            r * forms::fifo(f / hot) + (1.0 - r) * forms::fifo((1.0 - f) / cold)
        })
        .fold(f64::MAX, f64::min);
    let one = PageMapParameters {
        streams: Streams::One,
        reserve: 4,
        ..parameters(VictimPolicy::CostBenefit, rho, 32)
    };
    let apart = PageMapParameters { streams: Streams::HotCold, ..one };
    let one = hot_and_cold(&one, r, f, 4).amplification;
    let apart = hot_and_cold(&apart, r, f, 4).amplification;
    println!("one stream {one:.3}, hot and cold apart {apart:.3}, best pools {best:.3}");
    assert!(apart < 0.97 * one && apart > 0.9 * best, "{one} {apart} {best}");
}

#[test]
fn a_static_share_under_dynamic_leveling_takes_spare_space_and_never_wears() {
    for (c, rho) in [(0.5, 0.9), (0.3, 0.8333)] {
        let parameters = PageMapParameters {
            leveling: LevelingPolicy::Dynamic,
            ..parameters(VictimPolicy::Greedy, rho, 32)
        };
        let mut map = PageMap::new(&parameters, 5);
        let mut rng = Rng::new(5);
        let units = map.unit_count();
        let cold = (units as f64 * c) as u64;
        let Steady { amplification, rho, .. } = steady(&mut map, |map| {
            Ftl::write(map, cold + rng.below(units - cold), 1).expect("it has spare");
        });
        // The cold units were written first, in order, so they fill blocks of their own.
        let expected = forms::greedy((1.0 - c) * rho / (1.0 - c * rho), 32);
        assert_within(1.0, amplification, expected, &format!("static share {c}, rho {rho:.4}"));
        let never = map.blocks().erase_counts().iter().filter(|erases| **erases == 0).count();
        let share = never as f64 / f64::from(map.blocks().count());
        let cold_share = cold as f64 / f64::from(32 * map.blocks().count());
        assert_within(1.0, share, cold_share, "blocks that were never erased");
    }
}
