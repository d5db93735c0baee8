//! NVMe SSDs.

mod optional;
mod parameters;

use super::{Definition, DeviceKind, Hardware, Parts, Role, pc, wear};
use flashlab_flash::Impossible;
use flashlab_flash::ftl::Wear;
use flashlab_flash::ftl::gc::VictimPolicy;
use flashlab_flash::ftl::page_map::Slc;
use flashlab_flash::ftl::page_map::map_cache::{HostMemoryPolicy, MapCacheParameters};
use flashlab_flash::ftl::page_map::{PageMapParameters, Streams};
use flashlab_flash::ftl::wear_leveling::LevelingPolicy;
use flashlab_flash::nand::{Cell, Geometry, Scheduling, Timing};
use flashlab_host::driver::hmb;
use flashlab_nvme::hmb::Limits;
use flashlab_nvme::{Controller, Generation, LinkParameters, Ssd, SsdParameters};
use flashlab_sim::{Duration, Model};
use optional::{OptionalSsdParameters, pages};

/// An NVMe SSD.
pub(super) static KIND: Definition = Definition {
    name: "ssd",
    noun: "an ssd",
    subject: "SSD",
    folder: "nvme/",
    sections: &["nvme", "nand", "scheduling", "ftl", "map", "hmb", "reliability", "wear"],
    // The first table of a card has no counterpart for SSDs. An empty table takes its place, so that every
    // kind of device has the parameters of flash in its second table.
    tables: || &[&[], parameters::TABLE, wear::TABLE, parameters::WEAR],
    role: Role::Device(DeviceKind {
        host: &pc::KIND,
        host_example: "linux-pc",
        // The host lends memory to the drive.
        state_includes_host: true,
        hardware: |parts| Ok(Box::new(parameters_of(parts)?)),
    }),
    blank,
    check: |parts| parameters_of(parts).map(drop),
};

impl Hardware for SsdParameters {
    fn build(&self, seed: u64) -> Box<dyn Model> {
        Box::new(Ssd::new(self.clone(), hmb::linux, seed))
    }
    fn build_without_host(&self, seed: u64) -> Box<dyn Model> {
        self.build(seed)
    }
    fn capacity(&self) -> u64 {
        self.page_map.capacity
    }
    fn t_read(&self) -> Option<Duration> {
        Some(self.timing.t_read)
    }
    fn wear_leveling(&self) -> LevelingPolicy {
        self.page_map.leveling
    }
}

pub(super) fn blank(parts: &mut Parts) {
    parts.insert(blank_ssd());
    parts.insert(OptionalSsdParameters::default());
    parts.insert(Wear::default());
}

/// Checks and returns the parameters of the SSD that the parts describe.
fn parameters_of(parts: &Parts) -> Result<SsdParameters, Impossible> {
    let (optional, wear) = (parts.get::<OptionalSsdParameters>(), parts.get::<Wear>());
    let mut ssd = parts.get::<SsdParameters>().clone();
    for (n, t_prog) in optional.t_prog.into_iter().enumerate() {
        ssd.timing.t_prog[n + 1] = t_prog.unwrap_or(ssd.timing.t_prog[n]);
    }
    ssd.timing.t_read_slc = optional.t_read_slc.unwrap_or(ssd.timing.t_read);
    ssd.timing.t_prog_slc = optional.t_prog_slc.unwrap_or(ssd.timing.t_prog[0]);
    ssd.page_map.cell = ssd.timing.cell;
    ssd.page_map.leveling = wear.policy();
    ssd.page_map.endurance = optional.endurance(wear.endurance())?;
    ssd.page_map.slc =
        optional.slc_blocks.map(|blocks| Slc { blocks, fold_ppm: optional.slc_fold_ppm.unwrap_or(0) });
    if optional.slc_blocks.is_none() && optional.slc_fold_ppm.is_some() {
        return Err(Impossible::new("ftl.slc_fold", "has no effect without ftl.slc_blocks"));
    }
    ssd.scheduling.suspend = optional.suspend()?;
    ssd.reliability = optional.reliability()?;
    ssd.hmb.preferred = pages("hmb.preferred", optional.hmb_preferred)?;
    ssd.hmb.minimum = pages("hmb.minimum", optional.hmb_minimum)?;
    ssd.check(hmb::linux)
        .map_err(|impossible| Impossible { path: profile_path(impossible.path), ..impossible })?;
    Ok(ssd)
}

/// Returns the path in a profile of a parameter to which the lower crates give another name.
fn profile_path(path: &'static str) -> &'static str {
    match path {
        "ftl.slc.blocks" => "ftl.slc_blocks",
        "ftl.slc.fold" => "ftl.slc_fold",
        "nvme.hmb" => "pc.hmb",
        "endurance.rated" => "wear.cycles",
        "endurance.factory_bad" => "wear.factory_bad",
        "endurance.program_fail" => "wear.program_fail",
        "endurance.erase_fail" => "wear.erase_fail",
        "scheduling.suspend.t_suspend" => "scheduling.t_suspend",
        "scheduling.suspend.t_resume" => "scheduling.t_resume",
        other => other,
    }
}

fn blank_ssd() -> SsdParameters {
    let none = Duration::ZERO;
    SsdParameters {
        block: 0,
        request_max: 0,
        controller: Controller {
            depth: 0,
            t_command: none,
            t_command_write: none,
            t_command_unmapped: none,
            t_idle: none,
        },
        link: LinkParameters { generation: Generation::Gen1, lanes: 0, payload: 0, t_way: none },
        page_map: PageMapParameters {
            geometry: Geometry { channels: 0, dies: 0, planes: 0, blocks: 0, pages: 0, page: 0 },
            cell: Cell::Slc,
            unit: 0,
            capacity: 0,
            map_pages: 0,
            victim: VictimPolicy::Greedy,
            streams: Streams::One,
            reserve: 0,
            idle_free: 0,
            write_buffer: 0,
            slc: None,
            leveling: LevelingPolicy::Dynamic,
            endurance: None,
        },
        timing: Timing {
            cell: Cell::Slc,
            t_read: none,
            t_read_spread_ppm: 0,
            t_read_slc: none,
            t_prog: [none; 4],
            t_prog_slc: none,
            t_bers: none,
            channel_rate: 0,
            t_command: none,
        },
        scheduling: Scheduling::FIRST_COME,
        reliability: None,
        map: MapCacheParameters {
            sram: None,
            page: 0,
            entry: 0,
            dirty: 0,
            t_look: none,
            t_hmb: none,
            t_load: none,
            t_write_back: none,
            loaders: 0,
            blocking: false,
            policy: HostMemoryPolicy::CleanMap,
        },
        hmb: Limits::default(),
        lend_max: 0,
    }
}
