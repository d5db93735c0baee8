//! Uniform random writes, sequential writes, and trims (G1 to G5, G9, G10). Labels:
//! docs/closed-forms.md.

use super::device::{Steady, assert_within, parameters, steady, uniform};
use flashlab_flash::ftl::Ftl;
use flashlab_flash::ftl::gc::VictimPolicy;
use flashlab_flash::ftl::gc::closed_forms as forms;
use flashlab_flash::ftl::page_map::PageMap;
use flashlab_sim::Rng;

#[test]
fn fifo_collection_meets_its_closed_form_for_any_block_size() {
    for (rho, b) in [(0.9346, 16), (0.8696, 16), (0.7812, 16), (0.7812, 64)] {
        let (_, Steady { amplification, rho, .. }) = uniform(&parameters(VictimPolicy::Fifo, rho, b), 1);
        assert_within(1.0, amplification, forms::fifo(rho), &format!("FIFO, b {b}, rho {rho:.4}"));
        assert_apart(amplification, forms::agarwal(rho));
    }
}

#[test]
fn greedy_collection_meets_its_closed_form_for_each_block_size() {
    for (rho, b) in [(0.9346, 32), (0.8696, 32), (0.7812, 64), (0.5, 16)] {
        let (_, Steady { amplification, rho, .. }) = uniform(&parameters(VictimPolicy::Greedy, rho, b), 2);
        let expected = forms::greedy(rho, b);
        assert_within(1.0, amplification, expected, &format!("greedy, b {b}, rho {rho:.4}"));
        assert_apart(amplification, forms::agarwal(rho));
    }
}

#[test]
fn random_victims_meet_their_closed_form() {
    for rho in [0.9346, 0.8696, 0.7812] {
        let (_, Steady { amplification, rho, .. }) = uniform(&parameters(VictimPolicy::Random, rho, 16), 3);
        assert_within(1.0, amplification, forms::random(rho), &format!("random, rho {rho:.4}"));
        assert_apart(amplification, forms::agarwal(rho));
    }
}

/// Asserts that `found` differs by more than 2 % from the form that is known to be wrong.
#[track_caller]
fn assert_apart(found: f64, wrong: f64) {
    assert!((found / wrong - 1.0).abs() > 0.02, "{found} meets {wrong}, which it must not");
}

#[test]
fn the_best_of_d_victims_meets_the_mean_field_model() {
    for (d, rho) in [(2, 0.8696), (3, 0.7812), (5, 0.9346), (10, 0.8333)] {
        let (_, Steady { amplification, rho, .. }) =
            uniform(&parameters(VictimPolicy::DChoices { d }, rho, 32), 4);
        let expected = forms::d_choices(rho, 32, d);
        assert_within(1.0, amplification, expected, &format!("best of {d}, rho {rho:.4}"));
    }
}

#[test]
fn trims_add_spare_space() {
    // Each request is a trim with probability q, either of a mapped unit or of any unit.
    for (q, only_mapped) in [(0.1, true), (0.25, true), (0.1, false), (0.3, false)] {
        let parameters = parameters(VictimPolicy::Greedy, 0.9, 32);
        let mut map = PageMap::new(&parameters, 5);
        let mut rng = Rng::new(5);
        let units = map.unit_count();
        let mut mapped = Mapped::all(units as u32);
        let steady = steady(&mut map, |map| {
            if rng.unit() < q {
                let unit = if only_mapped { mapped.draw(&mut rng) } else { rng.below(units) as u32 };
                mapped.remove(unit);
                Ftl::trim(map, unit.into(), 1);
            } else {
                let unit = rng.below(units);
                mapped.insert(unit as u32);
                Ftl::write(map, unit, 1).expect("it has spare");
            }
        });
        let share = map.valid_units() as f64 / units as f64;
        let expected = if only_mapped { (1.0 - 2.0 * q) / (1.0 - q) } else { 1.0 - q };
        assert_within(1.0, share, expected, &format!("mapped share, q {q}"));
        // The effective rho counts mapped units only, so it already accounts for the trims.
        let form = forms::greedy(steady.rho, 32);
        assert_within(1.0, steady.amplification, form, &format!("trims with q {q}, rho {:.4}", steady.rho));
    }
}

/// Set of mapped units, from which a random one can be drawn.
struct Mapped {
    members: Vec<u32>,
    positions: Vec<u32>,
}

impl Mapped {
    fn all(units: u32) -> Self {
        Mapped { members: (0..units).collect(), positions: (0..units).collect() }
    }
    fn draw(&self, rng: &mut Rng) -> u32 {
        self.members[rng.below(self.members.len() as u64) as usize]
    }
    fn remove(&mut self, unit: u32) {
        let position = self.positions[unit as usize];
        if position == u32::MAX {
            return;
        }
        self.members.swap_remove(position as usize);
        if let Some(moved) = self.members.get(position as usize) {
            self.positions[*moved as usize] = position;
        }
        self.positions[unit as usize] = u32::MAX;
    }
    fn insert(&mut self, unit: u32) {
        if self.positions[unit as usize] == u32::MAX {
            self.positions[unit as usize] = self.members.len() as u32;
            self.members.push(unit);
        }
    }
}

#[test]
fn sequential_overwrites_move_nothing() {
    for victim in [VictimPolicy::Greedy, VictimPolicy::Fifo, VictimPolicy::CostBenefit] {
        let mut map = PageMap::new(&parameters(victim, 0.9346, 32), 6);
        let units = map.unit_count();
        let mut next = 0;
        let Steady { amplification, .. } = steady(&mut map, |map| {
            Ftl::write(map, next % units, 1).expect("it has spare");
            next += 1;
        });
        assert_within(0.1, amplification, 1.0, &format!("sequential, {victim:?}"));
    }
}

#[test]
fn several_dies_and_several_units_per_page_do_not_change_the_amplification() {
    let one = parameters(VictimPolicy::Greedy, 0.8696, 32);
    let several = flashlab_flash::ftl::page_map::PageMapParameters {
        geometry: flashlab_flash::nand::Geometry {
            channels: 2,
            dies: 2,
            planes: 2,
            blocks: 1_024,
            pages: 8,
            page: 2 * 4_096,
        },
        write_buffer: 1 << 18,
        ..one
    };
    let (_, Steady { amplification, rho, .. }) = uniform(&several, 7);
    assert_within(1.0, amplification, forms::greedy(rho, 32), "4 dies, 4 units to a page");
}
