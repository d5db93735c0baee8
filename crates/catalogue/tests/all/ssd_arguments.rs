//! SSD arguments that are impossible. Each error names the number, its value, and the reason.

use flashlab_catalogue::device::Device;
use flashlab_catalogue::library::Library;
use flashlab_nvme::SsdParameters;
use insta::assert_snapshot;
use std::sync::LazyLock;

static LIBRARY: LazyLock<Library> =
    LazyLock::new(|| Library::built_in().expect("the repository's own library"));

fn parameters(argument: &str) -> SsdParameters {
    let device = Device::open(argument, &LIBRARY).unwrap_or_else(|error| panic!("{error}"));
    device.hardware::<SsdParameters>().expect("an SSD").clone()
}

fn wrong(settings: &[&str]) -> String {
    let refuse = |settings: &&str| {
        let refused = Device::open(&format!("nvme/p32a80:{settings}"), &LIBRARY);
        refused.map(|device| panic!("{} is taken", device.argument)).unwrap_or_else(|error| error.to_string())
    };
    settings.iter().map(refuse).collect::<Vec<_>>().join("\n\n")
}

#[test]
fn an_impossible_geometry_is_refused() {
    assert_snapshot!(wrong(&[
        "nand.channels=0",
        "nand.channels=300",
        "nand.dies=0",
        "nand.planes=0",
        "nand.blocks=0",
        "nand.pages=0",
        "nand.page=0B",
        "nand.page=1000B",
        "nand.planes=4294967295",
        "nand.pages=4294967295",
        "nand.blocks=4294967295",
        "ftl.unit=3KiB",
        "ftl.unit=16KiB",
        "ftl.unit=64KiB",
        "nvme.block=8KiB",
        "map.page=8KiB",
        "map.entry=0B",
        "map.sram=1KiB",
        "map.dirty=0B",
    ]));
}

#[test]
fn more_than_the_array_has_and_more_spare_than_capacity_are_refused() {
    assert_snapshot!(wrong(&[
        "ftl.capacity=64GiB",
        "nand.blocks=4000",
        "ftl.capacity=300GiB",
        "nand.blocks=1200",
        "nand.blocks=8",
        "ftl.capacity=1000000B",
        "ftl.capacity=1000001KiB,ftl.unit=8KiB,map.page=8KiB",
        "ftl.reserve=1400",
        "ftl.reserve=2",
        "ftl.slc_blocks=2000",
        "ftl.slc_blocks=200",
        "ftl.slc_fold=50%",
        "ftl.write_buffer=4KiB",
        "ftl.write_buffer=64GiB",
    ]));
}

#[test]
fn wear_that_no_block_could_have_is_refused() {
    assert_snapshot!(wrong(&[
        "wear.cycles=0",
        "wear.factory_bad=100%",
        "wear.factory_bad=30%",
        "wear.leveling=static,wear.threshold=0",
        "wear.program_fail=1",
        "wear.program_fail=1.5e-9",
        "wear.program_fail=-1",
        "wear.erase_fail=2",
        "wear.raw=1GiB",
    ]));
}

#[test]
fn host_memory_that_helps_nobody_is_refused() {
    assert_snapshot!(wrong(&[
        "hmb=4M",
        "hmb=1q",
        "hmb.minimum=300MiB",
        "hmb.minimum=1000B",
        "hmb.preferred=0B",
    ]));
}

#[test]
fn times_that_nothing_takes_are_refused() {
    assert_snapshot!(wrong(&[
        "nand.t_prog=0ns",
        "nand.t_prog_2=0ns",
        "nand.t_prog_slc=0ns",
        "nand.t_read=0ns",
        "nand.t_bers=0ns",
        "nand.t_read_spread=100%",
        "map.t_load=0us",
        "map.loaders=4",
        "nvme.depth=0",
        "nvme.lanes=3",
        "nvme.payload=100",
        "nvme.request_max=1KiB",
        "scheduling.suspend=both",
    ]));
}

#[test]
fn failures_of_programs_and_erases_are_set_in_billionths() {
    assert_eq!(parameters("nvme/p32a80").page_map.endurance, None);
    let endurance =
        parameters("nvme/p32a80:wear.program_fail=1e-6,wear.erase_fail=2.5e-7").page_map.endurance;
    let endurance = endurance.expect("operations fail");
    assert_eq!((endurance.program_fail_ppb, endurance.erase_fail_ppb), (1_000, 250));
    assert_eq!(endurance.rated, u32::MAX, "and blocks do not wear out");
    let worn = parameters("nvme/p32a80:wear.program_fail=1e-6,wear.cycles=3000").page_map.endurance;
    let worn = worn.expect("blocks wear out");
    assert_eq!((worn.rated, worn.program_fail_ppb, worn.erase_fail_ppb), (3_000, 1_000, 0));
    // The error uses the name by which the number was set.
    let refused = wrong(&["wear.program_fail=2", "wear.erase_fail=1"]);
    assert!(!refused.contains("endurance."), "{refused}");
}
