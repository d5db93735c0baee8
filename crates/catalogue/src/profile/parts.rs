//! The parameter structs that the numbers of profiles fill, and the card or SSD that they form together.

use super::Registers;
use flashlab_flash::Impossible;
use flashlab_flash::ftl::Wear;
use flashlab_flash::ftl::card::{Mapping, Overwrite};
use flashlab_flash::ftl::gc::VictimPolicy;
use flashlab_flash::ftl::page_map::Slc;
use flashlab_flash::ftl::page_map::map_cache::{HostMemoryPolicy, MapCacheParameters};
use flashlab_flash::ftl::page_map::{PageMapParameters, Streams};
use flashlab_flash::ftl::wear_leveling::LevelingPolicy;
use flashlab_flash::nand::{Cell, Endurance, Geometry, Nand, Reliability, Scheduling, Suspend, Timing};
use flashlab_host::{Machine, vfat::VfatParameters};
use flashlab_nvme::hmb::{Limits, PAGE};
use flashlab_nvme::{Controller, Generation, LinkParameters, SsdParameters};
use flashlab_sd::CardParameters;
use flashlab_sim::Duration;

/// The parameter structs that profiles fill. A card fills `card`, `registers` and `wear`; an SSD `ssd`, `optional` and
/// `wear`; a card's host `machine`; a PC a field of `ssd`; a filesystem `vfat`.
#[derive(Clone, PartialEq, Debug)]
pub struct Parts {
    /// Parameters of a card, except its wear.
    pub card: CardParameters,
    /// Contents of a card's registers that do not follow from its other parameters.
    pub registers: Registers,
    /// Wear parameters of a card or an SSD.
    pub wear: Wear,
    /// Parameters of a host.
    pub machine: Machine,
    /// Parameters of a filesystem.
    pub vfat: VfatParameters,
    /// Parameters of an SSD, except those in `optional`.
    pub ssd: SsdParameters,
    /// Parameters that an SSD's profile may omit or write in another unit.
    pub optional: Optional,
}

/// Parameters that an SSD's profile may omit or write in another unit. [`Parts::ssd`] converts them to fields of
/// [`SsdParameters`].
#[derive(Clone, PartialEq, Debug, Default)]
#[expect(missing_docs, reason = "the table of parameters says what each is")]
pub struct Optional {
    pub t_prog: [Option<Duration>; 3],
    pub t_read_slc: Option<Duration>,
    pub t_prog_slc: Option<Duration>,
    pub suspend: Suspending,
    pub t_suspend: Option<Duration>,
    pub t_resume: Option<Duration>,
    pub slc_blocks: Option<u32>,
    pub slc_fold_ppm: Option<u32>,
    pub hmb_preferred: u64,
    pub hmb_minimum: u64,
    pub program_fail: Option<f64>,
    pub erase_fail: Option<f64>,
    pub fresh: Option<f64>,
    pub worn: Option<f64>,
    pub cycles_exponent: Option<f64>,
    pub doubling: Option<Duration>,
    pub age_exponent: Option<f64>,
    pub codeword_bits: Option<u32>,
    pub correctable: Option<u32>,
    pub codewords: Option<u32>,
    pub retries_max: Option<u32>,
    pub retry_gain: Option<f64>,
}

/// Operations that a read suspends on its die.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Suspending {
    /// No operation.
    #[default]
    Nothing,
    /// Programs.
    Programs,
    /// Erases.
    Erases,
    /// Programs and erases.
    Both,
}

impl Parts {
    /// Returns parts in which nothing is set. Their zeros fail the checks.
    pub fn blank() -> Self {
        let none = Duration::ZERO;
        Parts {
            card: CardParameters {
                capacity: 0,
                modes: Vec::new(),
                nand: Nand {
                    page: 0,
                    t_read: none,
                    read_rate: 0,
                    t_prog: none,
                    erase_block: 0,
                    t_bers: none,
                    spread_ppm: 0,
                    t_prog_slc: None,
                    bits: None,
                },
                mapping: Mapping {
                    program_unit: 0,
                    t_commit: none,
                    map_unit: 0,
                    rewrite_unit: 0,
                    overwrite: Overwrite::Convert,
                    open_units: 0,
                    map_cache: None,
                    map_page: 0,
                },
                wear: Wear::default(),
            },
            registers: Registers::default(),
            wear: Wear::default(),
            machine: Machine {
                modes: Vec::new(),
                bus_clock_hz: None,
                overclock: None,
                bus_width: None,
                command_max: 0,
                t_request: none,
                t_command: none,
                t_block: none,
                stack: None,
            },
            vfat: VfatParameters {
                cluster: 0,
                partition_start: 0,
                align: 0,
                write_back: none,
                t_unexplained: none,
            },
            ssd: blank_ssd(),
            optional: Optional::default(),
        }
    }

    /// Returns the card that the parts describe, checked.
    pub fn card(&self) -> Result<CardParameters, Impossible> {
        let mut card = self.card.clone();
        card.wear = self.wear;
        card.check()?;
        Ok(card)
    }

    /// Returns the SSD that the parts describe, checked.
    pub fn ssd(&self) -> Result<SsdParameters, Impossible> {
        let optional = &self.optional;
        let mut ssd = self.ssd.clone();
        for (n, t_prog) in optional.t_prog.into_iter().enumerate() {
            ssd.timing.t_prog[n + 1] = t_prog.unwrap_or(ssd.timing.t_prog[n]);
        }
        ssd.timing.t_read_slc = optional.t_read_slc.unwrap_or(ssd.timing.t_read);
        ssd.timing.t_prog_slc = optional.t_prog_slc.unwrap_or(ssd.timing.t_prog[0]);
        ssd.page_map.cell = ssd.timing.cell;
        ssd.page_map.leveling = self.wear.policy();
        ssd.page_map.endurance = optional.endurance(self.wear.endurance())?;
        ssd.page_map.slc =
            optional.slc_blocks.map(|blocks| Slc { blocks, fold_ppm: optional.slc_fold_ppm.unwrap_or(0) });
        if optional.slc_blocks.is_none() && optional.slc_fold_ppm.is_some() {
            return Err(Impossible::new("ftl.slc_fold", "has no effect without ftl.slc_blocks"));
        }
        ssd.scheduling.suspend = optional.suspend()?;
        ssd.reliability = optional.reliability()?;
        ssd.hmb.preferred = pages("hmb.preferred", optional.hmb_preferred)?;
        ssd.hmb.minimum = pages("hmb.minimum", optional.hmb_minimum)?;
        ssd.check().map_err(|impossible| Impossible { path: path_here(impossible.path), ..impossible })?;
        Ok(ssd)
    }
}

/// Returns the profile's path for a parameter that the lower crates call by another path.
fn path_here(path: &'static str) -> &'static str {
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

/// Converts bytes of host memory to pages.
fn pages(path: &'static str, bytes: u64) -> Result<u32, Impossible> {
    match u32::try_from(bytes / PAGE) {
        Ok(pages) if bytes.is_multiple_of(PAGE) => Ok(pages),
        _ => Err(Impossible::new(path, format!("is not a multiple of the host's memory page, {PAGE} B"))),
    }
}

/// Converts a probability to parts per billion, the resolution of the random draws.
fn billionths(path: &'static str, probability: f64) -> Result<u32, Impossible> {
    if probability >= 1.0 {
        let why = "is not below 1, so that no operation would ever succeed; expected for example 1e-6";
        return Err(Impossible::new(path, why));
    }
    let billionths = probability * 1e9;
    let whole = billionths.round();
    if (billionths - whole).abs() > 1e-6 {
        let why = "is not a multiple of 1e-9, the resolution of the random draws; expected for example 1e-6";
        return Err(Impossible::new(path, why));
    }
    Ok(whole as u32)
}

impl Optional {
    /// Returns the endurance of the erase blocks, including the failures of single operations.
    fn endurance(&self, wear: Option<Endurance>) -> Result<Option<Endurance>, Impossible> {
        let failures = [("wear.program_fail", self.program_fail), ("wear.erase_fail", self.erase_fail)];
        let [program_fail, erase_fail] = failures.map(|(path, share)| billionths(path, share.unwrap_or(0.0)));
        let (program_fail_ppb, erase_fail_ppb) = (program_fail?, erase_fail?);
        if wear.is_none() && program_fail_ppb == 0 && erase_fail_ppb == 0 {
            return Ok(None);
        }
        let wear = wear.unwrap_or(Endurance::exactly(u32::MAX));
        Ok(Some(Endurance { program_fail_ppb, erase_fail_ppb, ..wear }))
    }

    fn suspend(&self) -> Result<Option<Suspend>, Impossible> {
        let (programs, erases) = match self.suspend {
            Suspending::Nothing => return Ok(None),
            Suspending::Programs => (true, false),
            Suspending::Erases => (false, true),
            Suspending::Both => (true, true),
        };
        let missing = |path| Impossible::new(path, "is missing; scheduling.suspend requires it");
        Ok(Some(Suspend {
            t_suspend: self.t_suspend.ok_or_else(|| missing("scheduling.t_suspend"))?,
            t_resume: self.t_resume.ok_or_else(|| missing("scheduling.t_resume"))?,
            programs,
            erases,
        }))
    }

    fn reliability(&self) -> Result<Option<Reliability>, Impossible> {
        let Some(fresh) = self.fresh else { return Ok(None) };
        fn needed<T>(path: &'static str, value: Option<T>) -> Result<T, Impossible> {
            value.ok_or_else(|| {
                Impossible::new(path, "is missing; reliability.fresh requires all parameters of its section")
            })
        }
        Ok(Some(Reliability {
            fresh,
            worn: needed("reliability.worn", self.worn)?,
            cycles_exponent: needed("reliability.cycles_exponent", self.cycles_exponent)?,
            doubling: needed("reliability.doubling", self.doubling)?,
            age_exponent: needed("reliability.age_exponent", self.age_exponent)?,
            codeword_bits: needed("reliability.codeword_bits", self.codeword_bits)?,
            correctable: needed("reliability.correctable", self.correctable)?,
            codewords: needed("reliability.codewords", self.codewords)?,
            retries_max: needed("reliability.retries_max", self.retries_max)?,
            retry_gain: needed("reliability.retry_gain", self.retry_gain)?,
        }))
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
