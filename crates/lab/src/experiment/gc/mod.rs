//! Experiments of kind `gc`: write amplification of garbage collection policies, compared with closed forms.
//!
//! ```toml
//! kind = "gc"
//! [gc]
//! blocks = 4096                 # erase blocks that the mapped data would fill
//! reserve = 4                   # free blocks at which collection begins
//! warm_up = 6                   # drive writes before the measurement
//! measured = 2                  # drive writes of the measurement
//! [columns]                     # one policy per column; streams (one, two, hot-cold) and pools are optional
//! "greedy, 2 streams" = "victim=greedy,streams=two"
//! [[row]]                       # one fill level and block size per row
//! name = "OP 7 %"
//! keys = "over_provisioning=0.07,pages=32"
//! [[step]]                      # one distribution of the writes per step
//! table = "80/20"
//! unit = "ratio"
//! job = "--rw=randwrite --bs=4k --norandommap --random_distribution=zoned:80/20:20/80"
//! rows = ["OP 7 %"]             # the default is all rows
//! columns = ["..."]             # the default is all columns
//! ```
//!
//! The page-mapped layer of `flashlab-flash` runs on one die and only counts: no request takes time. Each cell writes
//! the whole device in order, then `warm_up` drive writes of the step's distribution, and reports the amplification of
//! `measured` further drive writes. In a row of a table, all policies without pools receive the same
//! requests.
//!
//! A closed form is evaluated at the effective rho of the run: mapped units over the units that data can occupy, which
//! excludes the free reserve and the unwritten part of open blocks. With `pools=`, hot and cold units are on two
//! devices that share the spare space, as if the host said which data is hot; the distribution then has two zones.
//! Labels of the forms: docs/closed-forms.md.

mod policy;

use super::definition::{Definition, Step};
use super::error::ExperimentError;
use super::map_parallel::map_parallel;
use super::measured::{Measured, MeasuredCell, figure_of};
use super::pattern::cell_name;
use super::{Experiment, Outcome};
use crate::progress::Progress;
use crate::results::{Reference, ReferenceKind};
use flashlab_fio::job::Distribution;
use flashlab_fio::random::Sampler;
use flashlab_flash::ftl::Ftl;
use flashlab_flash::ftl::gc::{VictimPolicy, closed_forms as forms};
use flashlab_flash::ftl::page_map::{PageMap, PageMapParameters, Streams};
use flashlab_flash::ftl::wear_leveling::LevelingPolicy;
use flashlab_flash::nand::{Cell, Geometry};
use flashlab_sim::Rng;
use policy::{Fill, Policy, Pools};
use serde::Deserialize;

/// Bytes of a unit, and of a page: the closed forms do not cover partial pages.
const UNIT: u64 = 4_096;
/// Number of writes between two samples of the fill level, and between two updates of the progress.
const BATCH: u64 = 256;

/// Size and duration of the simulations.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Number of erase blocks that the mapped data would fill.
    pub blocks: u32,
    /// Number of free blocks at which collection begins.
    pub reserve: u32,
    /// Number of drive writes before the measurement.
    pub warm_up: u64,
    /// Number of drive writes of the measurement.
    pub measured: u64,
}

/// Rejects settings, columns and rows that cannot be simulated.
pub(super) fn check(definition: &Definition, settings: &Settings) -> Result<(), String> {
    let sizes = (64..=65_536).contains(&settings.blocks) && (4..=64).contains(&settings.reserve);
    let writes = (1..=1_000).contains(&settings.warm_up) && (1..=1_000).contains(&settings.measured);
    if !sizes || !writes {
        return Err("[gc]: expected blocks from 64 to 65536, reserve from 4 to 64, warm_up and measured from 1 to 1000"
            .into());
    }
    for (column, keys) in &definition.columns {
        Policy::parse(keys.as_str().unwrap_or_default())
            .map_err(|what| format!("column {column}: {what}"))?;
    }
    for row in &definition.rows {
        Fill::parse(&row.keys).map_err(|what| format!("row {}: {what}", row.name))?;
    }
    if definition.rows.is_empty() {
        return Err("kind \"gc\" needs [[row]]".into());
    }
    Ok(())
}

/// One cell to simulate.
struct Scene<'a> {
    settings: &'a Settings,
    step: &'a Step,
    distribution: &'a Distribution,
    row: &'a str,
    fill: Fill,
    column: &'a str,
    policy: Policy,
    seed: u64,
    progress: &'a Progress,
}

/// The results of one cell.
struct Simulated {
    cell: MeasuredCell,
    reference: Option<Reference>,
    /// Effective rho; `None` with pools.
    rho: Option<f64>,
}

/// The counts of a device in its steady state.
struct Steady {
    /// Units programmed for the host.
    host: u64,
    /// Units programmed for any cause.
    programmed: u64,
    /// Sum of the mapped units over the samples.
    mapped: u64,
    /// Sum, over the samples, of the units that data can occupy.
    effective: u64,
}

impl Steady {
    fn amplification(&self) -> f64 {
        self.programmed as f64 / self.host as f64
    }
    fn rho(&self) -> f64 {
        self.mapped as f64 / self.effective as f64
    }
    fn measured(&self) -> Measured {
        Measured { bytes: self.host * UNIT, counted: self.programmed, ..Measured::default() }
    }
}

/// Runs all steps in all rows and columns.
pub(super) fn run(
    experiment: &Experiment,
    seed: u64,
    progress: &Progress,
) -> Result<Outcome, ExperimentError> {
    const CHECKED: &str = "checked when the experiment was read";
    let definition = &experiment.definition;
    let settings = definition.gc.as_ref().expect(CHECKED);
    let steps = definition.steps.iter().map(|step| Ok((step, experiment.distribution(step)?)));
    let steps = steps.collect::<Result<Vec<_>, ExperimentError>>()?;
    let mut scenes = Vec::new();
    for (step, distribution) in &steps {
        for row in definition.rows.iter().filter(|row| step.is_in(&row.name)) {
            for (column, keys) in definition.columns.iter().filter(|(column, _)| step.is_on(column)) {
                let policy = Policy::parse(keys.as_str().expect(CHECKED)).expect(CHECKED);
                let fill = Fill::parse(&row.keys).expect(CHECKED);
                let row = &row.name;
                scenes.push(Scene {
                    settings,
                    step,
                    distribution,
                    row,
                    fill,
                    column,
                    policy,
                    seed,
                    progress,
                });
            }
        }
    }
    progress.plan(scenes.iter().map(Scene::work).sum());
    let mut outcome = Outcome::default();
    let mut fills: Vec<(&str, Vec<f64>)> = Vec::new();
    for (scene, result) in scenes.iter().zip(map_parallel(&scenes, Scene::run)) {
        let Simulated { cell, reference, rho } = result?;
        outcome.references.extend(reference.map(|reference| (scene.cell_name(), reference)));
        outcome.cells.push(cell);
        match fills.iter_mut().find(|(row, _)| *row == scene.row) {
            Some((_, rhos)) => rhos.extend(rho),
            None => fills.push((scene.row, rho.into_iter().collect())),
        }
    }
    let mean =
        |(row, rhos): &(&str, Vec<f64>)| format!("{row} {:.4}", rhos.iter().sum::<f64>() / rhos.len() as f64);
    let fills: Vec<String> = fills.iter().filter(|(_, rhos)| !rhos.is_empty()).map(mean).collect();
    outcome.notes.push(format!("Effective rho, mean over the policies without pools: {}.", fills.join(", ")));
    Ok(outcome)
}

impl Experiment {
    /// Returns the distribution of a step's writes. Rejects jobs other than random writes of one unit.
    fn distribution(&self, step: &Step) -> Result<Distribution, ExperimentError> {
        let wrong = |what: &str| ExperimentError::Wrong {
            path: self.folder.path_of("experiment.toml"),
            what: format!("step \"{}\": {what}", step.table),
        };
        let jobs = self.read_job(&step.table, &step.job)?;
        let [job] = jobs.as_slice() else { return Err(wrong("expected one job")) };
        let given =
            |name: &str| job.options.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        let is_plain = matches!(given("rw").or(given("readwrite")), Some("randwrite"))
            && given("bs") == Some("4k")
            && job.no_random_map;
        if !is_plain {
            return Err(wrong("expected --rw=randwrite --bs=4k --norandommap"));
        }
        let pools =
            |column: &str| self.definition.columns[column].as_str().is_some_and(|k| k.contains("pools="));
        let zones = zones(&job.distribution);
        if zones.is_none() && self.definition.columns.keys().any(|c| step.is_on(c) && pools(c)) {
            return Err(wrong("columns with pools= need a distribution zoned:... of two zones"));
        }
        Ok(job.distribution.clone())
    }
}

/// Returns two shares of the first of two zones: its share of the writes, and its share of the units.
fn zones(distribution: &Distribution) -> Option<(f64, f64)> {
    match distribution {
        Distribution::Zoned(zones) => match zones.as_slice() {
            [(r, f), (others, rest)] if r + others == 100 && f + rest == 100 && *f > 0 && *rest > 0 => {
                Some((f64::from(*r) / 100.0, f64::from(*f) / 100.0))
            }
            _ => None,
        },
        _ => None,
    }
}

impl Scene<'_> {
    fn cell_name(&self) -> String {
        cell_name(&self.step.table, self.row, self.column)
    }
    /// Returns the number of units that the host can address.
    fn units(&self) -> u64 {
        u64::from(self.settings.blocks) * u64::from(self.fill.pages)
    }
    /// Returns the number of drive writes, including the first one, which is sequential.
    fn drive_writes(&self) -> u64 {
        1 + self.settings.warm_up + self.settings.measured
    }
    fn work(&self) -> u64 {
        self.units() * self.drive_writes()
    }

    fn run(&self) -> Result<Simulated, ExperimentError> {
        self.progress.enter(self.cell_name());
        let (devices, weights) = match self.policy.pools {
            Some(pools) => self.run_pools(pools)?,
            None => {
                let spare = self.units() as f64 * self.fill.over_provisioning;
                (vec![self.run_device(self.units(), spare, self.distribution)?], vec![1.0])
            }
        };
        let mean =
            |of: &dyn Fn(&Steady) -> f64| devices.iter().zip(&weights).map(|(d, w)| w * of(d)).sum::<f64>();
        let amplification = mean(&Steady::amplification);
        let form = self.form(&devices, &weights);
        let rho = devices.iter().map(|d| format!("{:.4}", d.rho())).collect::<Vec<_>>().join(" and ");
        let cell = MeasuredCell {
            table: self.step.table.clone(),
            row: self.row.to_owned(),
            column: self.column.to_owned(),
            unit: self.step.unit.clone(),
            role: self.step.role,
            simulated: figure_of(&[amplification]),
            runs: devices.iter().map(Steady::measured).collect(),
            logger_bytes: None,
        };
        let reference = form.map(|(name, mean)| Reference {
            kind: ReferenceKind::ClosedForm,
            sd: None,
            name: format!("{name}, rho {rho}"),
            mean,
            error_percent: 100.0 * (amplification - mean) / mean,
        });
        Ok(Simulated { cell, reference, rho: self.policy.pools.is_none().then(|| devices[0].rho()) })
    }

    /// Runs one device for each of the two zones. Returns the counts of the devices, and their shares of the writes.
    fn run_pools(&self, pools: Pools) -> Result<(Vec<Steady>, Vec<f64>), ExperimentError> {
        let (r, f) = zones(self.distribution).expect("checked before the first run");
        let units = self.units() as f64;
        let op = self.fill.over_provisioning;
        let part = match pools {
            Pools::Equal => f,
            Pools::Best => forms::best_split(r, f, op, |rho| self.uniform_form(rho).expect("checked").1),
        };
        let spare = units * op;
        let hot = self.run_device((units * f) as u64, spare * part, &Distribution::Uniform)?;
        let cold =
            self.run_device((units * (1.0 - f)) as u64, spare * (1.0 - part), &Distribution::Uniform)?;
        Ok((vec![hot, cold], vec![r, 1.0 - r]))
    }

    /// Runs a device of `units` units with `spare` more units, in addition to the reserve and the open blocks.
    fn run_device(
        &self,
        units: u64,
        spare: f64,
        distribution: &Distribution,
    ) -> Result<Steady, ExperimentError> {
        let parameters = self.parameters(units, spare);
        let mut map = PageMap::new(&parameters, self.seed);
        let mut rng = Rng::for_purpose(self.seed, 1);
        let sampler = Sampler::new(distribution, units, UNIT, &mut rng);
        let mut write = |map: &mut PageMap| {
            Ftl::write(map, sampler.draw(&mut rng), 1).expect("blocks neither wear out nor fail");
        };
        Ftl::write(&mut map, 0, units).expect("the device is new");
        self.progress.advance(units);
        let (warm_up, measured) = (self.settings.warm_up * units, self.settings.measured * units);
        let mut before = map.written();
        let (mut mapped, mut effective) = (0, 0);
        for step in 0..warm_up + measured {
            if step == warm_up {
                before = map.written();
            }
            write(&mut map);
            if step % BATCH == 0 {
                if self.progress.is_stopped() {
                    return Err(ExperimentError::Stopped);
                }
                self.progress.advance(BATCH);
                if step >= warm_up {
                    mapped += map.valid_units();
                    effective += map.effective_units();
                }
            }
        }
        let written = map.written().since(&before);
        Ok(Steady { host: written.host, programmed: written.host + written.gc, mapped, effective })
    }

    fn parameters(&self, units: u64, spare: f64) -> PageMapParameters {
        let pages = self.fill.pages;
        // The reserve is kept free. One block more makes up for the unwritten parts of the open blocks.
        let blocks = ((units as f64 + spare) / f64::from(pages)).round() as u32 + self.settings.reserve + 1;
        PageMapParameters {
            geometry: Geometry { channels: 1, dies: 1, planes: 1, blocks, pages, page: UNIT },
            cell: Cell::Tlc,
            unit: UNIT,
            capacity: units * UNIT,
            map_pages: 0,
            victim: self.policy.victim,
            streams: self.policy.streams,
            reserve: self.settings.reserve,
            idle_free: 0,
            write_buffer: 2 * UNIT,
            slc: None,
            leveling: LevelingPolicy::None,
            endurance: None,
        }
    }

    /// Returns the closed form for the policy under uniform writes, and its value.
    fn uniform_form(&self, rho: f64) -> Option<(&'static str, f64)> {
        let b = self.fill.pages;
        match self.policy.victim {
            VictimPolicy::Fifo => Some(("G1", forms::fifo(rho))),
            VictimPolicy::Greedy => Some(("G2", forms::greedy(rho, b))),
            VictimPolicy::Random => Some(("G3", forms::random(rho))),
            VictimPolicy::DChoices { d } => Some(("G5", forms::d_choices(rho, b, d))),
            _ => None,
        }
    }

    /// Returns the closed form for the cell, if there is one, and its value.
    fn form(&self, devices: &[Steady], weights: &[f64]) -> Option<(&'static str, f64)> {
        if self.policy.pools.is_some() {
            let forms = devices.iter().zip(weights).map(|(d, w)| Some(w * self.uniform_form(d.rho())?.1));
            return Some(("G7", forms.sum::<Option<f64>>()?));
        }
        let rho = devices[0].rho();
        let parts = match (self.distribution, self.policy.victim) {
            (Distribution::Uniform, _) => return self.uniform_form(rho),
            (_, VictimPolicy::Random) => return Some(("G3", forms::random(rho))),
            (_, VictimPolicy::Fifo) if self.policy.streams == Streams::One => self.parts()?,
            _ => return None,
        };
        Some(("G6", forms::fifo_of_mix(rho, &parts)))
    }

    /// Returns the parts of the distribution, each with its share of the writes and its share of the units.
    fn parts(&self) -> Option<Vec<(f64, f64)>> {
        match self.distribution {
            // fio's order of the ranks is a permutation only if the number of units is a power of two.
            Distribution::Zipf(theta) if self.units().is_power_of_two() => {
                Some(forms::zipf_parts(self.units(), *theta))
            }
            distribution => zones(distribution).map(|(r, f)| vec![(r, f), (1.0 - r, 1.0 - f)]),
        }
    }
}
