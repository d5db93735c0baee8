//! Every kind of drive fulfils the contract of a model.

use crate::common::{KIB, MIB, loading, small, without_firmware};
use flashlab_flash::ftl::page_map::map_cache::HostMemoryPolicy;
use flashlab_host::driver::hmb;
use flashlab_nvme::{Ssd, SsdParameters};
use flashlab_sim::{Duration, conformance};

fn kinds() -> Vec<(&'static str, SsdParameters)> {
    let mut overlapping = loading(8 * KIB, 0);
    overlapping.map.blocking = false;
    overlapping.map.loaders = 3;
    let mut suspending = small();
    suspending.scheduling = crate::common::suspending();
    suspending.timing.t_read_spread_ppm = 250_000;
    let mut direct = loading(8 * KIB, MIB);
    direct.map.policy = HostMemoryPolicy::DirectTable;
    let mut buffering = loading(8 * KIB, MIB);
    buffering.map.policy = HostMemoryPolicy::WriteBuffer;
    let mut instant = without_firmware();
    instant.link.t_way = Duration::ZERO;
    instant.controller.depth = 3;
    vec![
        ("whole map", small()),
        ("no host memory", loading(8 * KIB, 0)),
        ("some host memory", loading(8 * KIB, 64 * KIB)),
        ("host memory for all of the map", loading(8 * KIB, MIB)),
        ("a table in host memory", direct),
        ("a write buffer in host memory", buffering),
        ("loaders beside the firmware", overlapping),
        ("reads first", suspending),
        ("no firmware", instant),
    ]
}

#[test]
fn every_kind_of_drive_obeys_the_contract_of_a_model() {
    for (name, parameters) in kinds() {
        parameters.check(hmb::linux).unwrap_or_else(|error| panic!("{name}: {error}"));
        for seed in 0..4 {
            let parameters = parameters.clone();
            conformance::check(&move || Box::new(Ssd::new(parameters.clone(), hmb::linux, 1)), seed);
        }
    }
}
