//! Write buffer, SLC buffer and throughput at count level, without times (closed forms Q7 to Q9). Labels:
//! docs/closed-forms.md.

use super::device::{UNIT, assert_within, parameters, uniform};
use flashlab_flash::ftl::gc::VictimPolicy;
use flashlab_flash::ftl::page_map::Slc;
use flashlab_flash::ftl::page_map::{Accepted, Outcome, PageMap, PageMapParameters};
use flashlab_flash::nand::{Cause, Geometry, Kind, Operation};

#[test]
fn an_slc_buffer_is_full_after_its_size_divided_by_the_share_that_is_not_folded() {
    for fold_ppm in [0, 250_000, 600_000] {
        let slc = Slc { blocks: 256, fold_ppm };
        let geometry =
            Geometry { blocks: 1_024, pages: 96, ..parameters(VictimPolicy::Greedy, 0.5, 96).geometry };
        let parameters = PageMapParameters {
            geometry,
            slc: Some(slc),
            capacity: 512 * 96 * UNIT,
            ..parameters(VictimPolicy::Greedy, 0.5, 96)
        };
        let mut map = PageMap::new(&parameters, 1);
        // A block in SLC mode has a third of the pages of a TLC block.
        let size = f64::from(slc.blocks) * 32.0;
        let mut host = 0u32;
        // The cliff: from here on, each page that the host writes waits until a whole page has been folded.
        let cliff = loop {
            assert!(matches!(map.write(host % map.units()), Accepted::Buffered(_)));
            host += 1;
            map.settle();
            if map.slc_is_full() {
                break f64::from(host);
            }
        };
        let expected = size / (1.0 - f64::from(fold_ppm) / 1e6);
        // The open block and the block being folded each shift the cliff by up to a block.
        let blur = 100.0 * 3.0 * 32.0 / size;
        assert_within(blur, cliff, expected, &format!("cliff with {fold_ppm} ppm folded"));
        map.check();
    }
}

#[test]
fn a_write_buffer_takes_a_burst_of_its_size() {
    let parameters =
        PageMapParameters { write_buffer: 64 * UNIT, ..parameters(VictimPolicy::Greedy, 0.8, 32) };
    let mut map = PageMap::new(&parameters, 1);
    // The map programs nothing until the test polls it.
    let mut burst = 0;
    while matches!(map.write(burst), Accepted::Buffered(_)) {
        burst += 1;
    }
    assert_eq!(burst, 64);
    // From here on, the map accepts one unit for each unit that it programs.
    for unit in burst..burst + 200 {
        assert_eq!(map.write(unit), Accepted::Full);
        let program = map.poll().expect("pages wait");
        assert!(matches!(program.kind, Kind::Program { .. }));
        map.finished(&program, Outcome::Ok);
        assert!(matches!(map.write(unit), Accepted::Buffered(_)));
    }
}

#[test]
fn a_steady_write_costs_the_programs_reads_and_erases_that_limit_throughput() {
    // In the steady state, a random write of a unit costs WA programs, WA - 1 reads and WA / b erases. Weighted with
    // the times of these operations, the sum is the closed form of the throughput where the dies are the limit.
    let b = 32;
    let (mut map, steady) = uniform(&parameters(VictimPolicy::Greedy, 0.8333, b), 2);
    let mut rng = flashlab_sim::Rng::new(3);
    let (mut programs, mut reads, mut erases) = (0u64, 0u64, 0u64);
    let host = 400_000;
    for _ in 0..host {
        map.write(rng.below(u64::from(map.units())) as u32);
        while let Some(Operation { kind, cause, .. }) =
            map.poll().inspect(|operation| finish(&mut map, operation))
        {
            match kind {
                Kind::Program { .. } => programs += 1,
                Kind::Read { .. } => {
                    assert_eq!(cause, Cause::GarbageCollection);
                    reads += 1;
                }
                Kind::Erase => erases += 1,
            }
        }
    }
    let (wa, host) = (steady.amplification, f64::from(host));
    assert_within(1.0, programs as f64 / host, wa, "programs");
    assert_within(1.0, reads as f64 / host, wa - 1.0, "reads");
    assert_within(1.0, erases as f64 / host, wa / f64::from(b), "erases");
}

fn finish(map: &mut PageMap, operation: &Operation) {
    map.finished(operation, Outcome::Ok);
}
