//! Host memory that is lent and withdrawn, and parameters that no drive can have.

use crate::common::{Driven, KIB, MIB, loading, small, us};
use flashlab_flash::Impossible;
use flashlab_flash::ftl::page_map::map_cache::HostMemoryPolicy;
use flashlab_host::driver::hmb;
use flashlab_nvme::SsdParameters;
use flashlab_nvme::hmb::{Descriptor, Effect, HmbError, Limits, SetFeatures};
use flashlab_sim::{Duration, Mechanism, Op};

fn lend(memory_return: bool) -> (SetFeatures, [Descriptor; 1]) {
    let command = SetFeatures { enable: true, memory_return, size: 64, list: 0x1000, entries: 1 };
    (command, [Descriptor { address: 0x10_0000, size: 64 }])
}

/// Returns the map time of a read at `offset`.
fn map_time(drive: &mut Driven, offset: u64) -> Duration {
    drive.one(Op::Read, offset, 4 * KIB).spent[Mechanism::Map]
}

#[test]
fn returned_memory_is_valid_except_for_changed_map_pages() {
    let (look, fetch, load) = (Duration::from_ns(1_700), Duration::from_ns(4_600), us(91));
    let mut drive = Driven::new(loading(4 * KIB, 0));
    drive.fill(32 * MIB);
    drive.pause(us(1_000_000));
    assert_eq!(map_time(&mut drive, 0), load);
    let (command, list) = lend(false);
    assert_eq!(drive.ssd.set_host_memory(&command, &list), Ok(Effect::Lent(256 * KIB)));
    assert_eq!(map_time(&mut drive, MIB), look + fetch + load, "the contents of the memory are undefined");
    assert_eq!(map_time(&mut drive, 2 * MIB), look + fetch + load);
    assert_eq!(map_time(&mut drive, MIB), look + fetch, "the drive has filled it");
    assert_eq!(drive.ssd.set_host_memory(&command, &list), Err(HmbError::AlreadyEnabled { size: 64 }));

    assert_eq!(drive.ssd.set_host_memory(&SetFeatures::DISABLE, &[]), Ok(Effect::Withdrawn));
    assert_eq!(map_time(&mut drive, 2 * MIB), load, "the drive works without host memory");
    drive.one(Op::Write, MIB, 4 * KIB);
    drive.pause(us(1_000_000));
    let (again, list) = lend(true);
    assert_eq!(drive.ssd.set_host_memory(&again, &list), Ok(Effect::Returned(256 * KIB)));
    map_time(&mut drive, 8 * MIB);
    assert_eq!(map_time(&mut drive, 2 * MIB), look + fetch, "the host memory still holds the page");
    assert_eq!(map_time(&mut drive, MIB), look + fetch + load, "changed meanwhile");
}

#[test]
fn a_power_cut_empties_host_memory() {
    use flashlab_sim::Model;
    let mut drive = Driven::new(loading(4 * KIB, 256 * KIB));
    drive.fill(32 * MIB);
    drive.one(Op::Flush, 0, 0);
    drive.pause(us(1_000_000));
    map_time(&mut drive, MIB);
    map_time(&mut drive, 2 * MIB);
    let known = map_time(&mut drive, MIB);
    drive.ssd.power_cut(drive.now);
    drive.now = drive.ssd.power_up(drive.now);
    assert_eq!(drive.ssd.host_memory(), 256 * KIB, "the driver lends it again");
    assert_eq!(map_time(&mut drive, MIB), known + us(91));
}

fn refused(change: impl Fn(&mut SsdParameters)) -> Impossible {
    let mut parameters = loading(16 * KIB, 256 * KIB);
    parameters.check(hmb::linux).expect("possible as it is");
    change(&mut parameters);
    parameters.check(hmb::linux).expect_err("impossible")
}

#[test]
fn impossible_parameters_are_refused_by_name() {
    let low = refused(|p| p.lend_max = 4 * KIB);
    assert_eq!(low.path, "nvme.hmb");
    assert!(low.why.contains("4096 B") && low.why.contains("8192 B"), "{low}");
    let much = refused(|p| {
        p.map.policy = HostMemoryPolicy::WriteBuffer;
        p.hmb = Limits { preferred: 1 << 24, ..Limits::default() };
        p.lend_max = 64 << 30;
    });
    assert_eq!(much.path, "nvme.hmb");
    assert!(much.why.contains("68719476736 B") && much.why.contains("ftl.write_buffer"), "{much}");
    let minimum = refused(|p| p.hmb = Limits { preferred: 10, minimum: 20, ..Limits::default() });
    assert_eq!(minimum.path, "hmb.minimum");
    assert!(minimum.why.contains("81920 B") && minimum.why.contains("40960 B"), "{minimum}");
    let loaders = refused(|p| p.map.loaders = 4);
    assert_eq!(loaders.path, "map.loaders");
    assert!(loaders.why.contains("waits for each load"), "{loaders}");
    assert_eq!(refused(|p| p.map.loaders = 0).path, "map.loaders");
    assert_eq!(refused(|p| p.map.sram = Some(KIB)).path, "map.sram");
    assert_eq!(refused(|p| p.map.dirty = KIB).path, "map.dirty");
    assert_eq!(refused(|p| p.map.page = 8 * KIB).path, "map.page");
    assert_eq!(refused(|p| p.map.entry = 0).path, "map.entry");
    assert_eq!(refused(|p| p.map.t_load = Duration::ZERO).path, "map.t_load");
    assert_eq!(refused(|p| p.block = 8 * KIB).path, "nvme.block");
    assert_eq!(refused(|p| p.request_max = KIB).path, "nvme.request_max");
    assert_eq!(refused(|p| p.controller.depth = 0).path, "nvme.depth");
    assert_eq!(refused(|p| p.link.lanes = 3).path, "nvme.lanes");
    assert_eq!(refused(|p| p.page_map.capacity = 95 * MIB).path, "ftl.capacity");
    small().check(hmb::linux).expect("possible");
}
