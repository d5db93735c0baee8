//! Tests of the page-mapped translation layer through its public interface.

use flashlab_flash::ftl::Ftl;
use flashlab_flash::ftl::gc::VictimPolicy;
use flashlab_flash::ftl::page_map::Slc;
use flashlab_flash::ftl::page_map::{Accepted, PageMap, PageMapParameters, Streams};
use flashlab_flash::ftl::wear_leveling::LevelingPolicy;
use flashlab_flash::nand::{Cell, Geometry};
use flashlab_sim::Rng;

fn small() -> PageMapParameters {
    PageMapParameters {
        geometry: Geometry { channels: 2, dies: 2, planes: 1, blocks: 32, pages: 16, page: 16_384 },
        cell: Cell::Tlc,
        unit: 4_096,
        capacity: 4 * 22 * 16 * 16_384,
        map_pages: 0,
        victim: VictimPolicy::Greedy,
        streams: Streams::Two,
        reserve: 3,
        idle_free: 0,
        write_buffer: 256 << 10,
        slc: None,
        leveling: LevelingPolicy::Dynamic,
        endurance: None,
    }
}

#[test]
fn random_overwrites_never_run_out_of_space() {
    let mut map = PageMap::new(&small(), 1);
    let mut rng = Rng::new(1);
    for step in 0..200_000u32 {
        let unit = rng.below(map.unit_count());
        Ftl::write(&mut map, unit, 1).expect("it has spare");
        if step % 5_000 == 0 {
            map.check();
        }
    }
    println!("{:?} {}", map.written(), map.written().amplification());
}

/// The last units in the blocks of the SLC buffer do not fill a page, and no other units can be folded with them. The
/// layer programs the partial page.
#[test]
fn a_full_slc_buffer_is_folded_to_its_last_unit() {
    let mut parameters = small();
    parameters.geometry = Geometry { channels: 1, dies: 1, pages: 3, ..parameters.geometry };
    parameters.capacity = 10 * 3 * 16_384;
    parameters.slc = Some(Slc { blocks: 2, fold_ppm: 0 });
    let mut map = PageMap::new(&parameters, 1);
    for unit in 0..2 {
        Ftl::write(&mut map, unit, 1).expect("it has room");
        map.flush();
        map.settle();
    }
    assert!(!map.slc_is_full());
}

/// `write_and_settle` issues the same programs, moves and erases as `write` and `settle`.
#[test]
fn write_and_settle_equals_write_followed_by_settle() {
    let (mut whole, mut stepped) = (PageMap::new(&small(), 1), PageMap::new(&small(), 1));
    let mut rng = Rng::new(2);
    for _ in 0..60_000u32 {
        let unit = rng.below(whole.unit_count()) as u32;
        whole.write_and_settle(unit).expect("it has spare");
        while stepped.write(unit) == Accepted::Full {
            stepped.settle();
        }
        stepped.settle();
    }
    assert!(whole.written().gc > 0, "no garbage was collected");
    assert_eq!(whole.written(), stepped.written());
    assert_eq!(whole.blocks().erase_counts(), stepped.blocks().erase_counts());
    assert!((0..whole.units()).all(|unit| whole.read(unit) == stepped.read(unit)));
}
