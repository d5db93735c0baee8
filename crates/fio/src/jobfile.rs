//! Makes jobs from sections: inheritance, clones, reporting groups, waves, and the check for contradictions.
//!
//! The rules are those of fio 3.33. `[global]` applies to the sections below it and may occur again.
//! `kb_base` is read before the other options of its section. Each job is cloned `numjobs` times. `stonewall`
//! starts a wave and a reporting group, and `new_group` starts only a group. A second job file starts from
//! fio's defaults, and its jobs run after those of the first.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use crate::error::{Contradiction, Error, Place, Problem, printable};
use crate::ini::{self, Assignment, Section};
use crate::job::{BlockSize, Direction, Distribution, Engine, Extent, Job, Mix};
use crate::loader::Loader;
use crate::option::settings::Settings;
use crate::option::{self, Rejection, Support};

/// Maximum number of jobs that fio runs.
pub const JOBS_MAX: usize = 4096;
const FILES_MAX: usize = 1 << 18;
/// Maximum length of the texts of all jobs together, in bytes. Only a job file made to exhaust memory exceeds
/// this length.
const TEXT_BYTES_MAX: usize = 256 << 20;

/// An accepted option that changes nothing. The output lists it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Irrelevant {
    /// Name of the option.
    pub option: &'static str,
    /// Value as written, if there is one.
    pub value: Option<String>,
    /// Position of the option.
    pub place: Place,
    /// Reason why the option changes nothing here.
    pub reason: &'static str,
}

impl Irrelevant {
    /// Returns the option and its value on one line. Control characters are escaped, and a long value is truncated.
    pub fn as_written(&self) -> String {
        match &self.value {
            Some(value) => format!("{}={}", self.option, printable(value)),
            None => self.option.to_string(),
        }
    }
}

impl fmt::Display for Irrelevant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.place, self.as_written(), self.reason)
    }
}

/// A parsed job file.
///
/// ```
/// use flashlab_fio::jobfile::JobFile;
/// use flashlab_fio::loader::NoFiles;
/// let text = b"[global]\nbs=4k\ndirect=1\n[read]\nrw=randread\nnumjobs=2\n";
/// let file = JobFile::parse("job.fio", text, &NoFiles).unwrap();
/// assert_eq!(file.jobs.len(), 2);
/// let error = JobFile::parse("job.fio", b"[read]\nnmjobs=2\n", &NoFiles).unwrap_err();
/// assert_eq!(error.to_string(), "job.fio:2:1: fio 3.33 has no option \"nmjobs\"; did you mean numjobs?");
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct JobFile {
    /// All jobs, clones included, in the order of waves.
    pub jobs: Vec<Job>,
    /// Options that change nothing here.
    pub irrelevant: Vec<Irrelevant>,
    /// Options of the `[global]` sections, as written, for the JSON object `global options`.
    pub global_options: Vec<(String, String)>,
}

impl JobFile {
    /// Parses `bytes`, the contents of the job file `name`. `loader` provides the included files and the
    /// variables.
    pub fn parse(name: &str, bytes: &[u8], loader: &dyn Loader) -> Result<JobFile, Error> {
        let mut plan = Plan::default();
        plan.file(name, bytes, loader, &[])?;
        if plan.jobs.is_empty() {
            let place = Place::File { name: name.into(), line: 1, column: 1 };
            return Err(Error::new(place, Problem::NoJobs));
        }
        Ok(JobFile { jobs: plan.jobs, irrelevant: plan.irrelevant, global_options: plan.global.options })
    }
}

/// The options of a job under construction, both parsed and as written.
#[derive(Clone, Default)]
pub(crate) struct Draft {
    pub(crate) settings: Settings,
    pub(crate) options: Vec<(String, String)>,
}

/// The jobs collected from job files and the command line.
#[derive(Default)]
pub(crate) struct Plan {
    pub(crate) jobs: Vec<Job>,
    pub(crate) irrelevant: Vec<Irrelevant>,
    pub(crate) global: Draft,
    /// `--readonly`
    pub(crate) read_only: bool,
    /// Names of the job-file sections that were read, to check `--section`.
    pub(crate) section_names: BTreeSet<String>,
    /// Options in `irrelevant`, so that each is listed once.
    listed: BTreeSet<(&'static str, Place)>,
    files: usize,
    wave: u32,
    group: u32,
    jobs_in_group: usize,
    names: usize,
    text_bytes: usize,
}

impl Plan {
    /// Adds the jobs of a file. If `sections` is not empty, only the jobs of those sections are added.
    pub(crate) fn file(
        &mut self,
        name: &str,
        bytes: &[u8],
        loader: &dyn Loader,
        sections: &[String],
    ) -> Result<(), Error> {
        let mut stonewall = self.files > 0;
        if stonewall {
            self.global = Draft::default();
        }
        self.files += 1;
        for section in ini::parse(name, bytes, loader)? {
            if is_global(&section.name) {
                let mut global = std::mem::take(&mut self.global);
                self.assign(&mut global, &section)?;
                self.global = global;
                continue;
            }
            self.section_names.insert(section.name.clone());
            if !sections.is_empty() && !sections.contains(&section.name) {
                continue;
            }
            let mut draft = self.begin();
            self.assign(&mut draft, &section)?;
            draft.settings.stonewall |= stonewall;
            stonewall = false;
            self.finish(draft, &section.name, &section.place)?;
        }
        Ok(())
    }

    /// Begins a job that inherits the current global options.
    pub(crate) fn begin(&self) -> Draft {
        // As in fio, a name in `[global]` applies to no job.
        Draft { settings: Settings { name: None, ..self.global.settings.clone() }, options: Vec::new() }
    }

    fn assign(&mut self, draft: &mut Draft, section: &Section) -> Result<(), Error> {
        let (units, others): (Vec<_>, Vec<_>) = section.assignments.iter().partition(|a| a.name == "kb_base");
        units.into_iter().chain(others).try_for_each(|assignment| self.set(draft, assignment))
    }

    /// Applies one option to a job or to `[global]`.
    pub(crate) fn set(&mut self, draft: &mut Draft, assignment: &Assignment) -> Result<(), Error> {
        let Assignment { name, value, place, value_place, literal } = assignment;
        let Some(entry) = option::lookup(name) else {
            let first = name.split_whitespace().next().filter(|first| *first != name);
            let problem = match (first.and_then(option::lookup), value) {
                (Some(entry), None) => Problem::MissingEquals { option: entry.name },
                _ => Problem::UnknownOption { name: name.clone(), did_you_mean: option::suggest(name) },
            };
            return Err(Error::new(place.clone(), problem));
        };
        match entry.support {
            Support::Refused { accepted_values } if !entry.is_accepted(value.as_deref()) => {
                let problem = Problem::Refused {
                    option: entry.name,
                    value: value.clone(),
                    reason: entry.meaning,
                    accepted_values,
                };
                return Err(Error::new(place.clone(), problem));
            }
            Support::Irrelevant => self.list_irrelevant(entry.name, value.clone(), place, entry.meaning),
            _ => {}
        }
        entry.apply(&mut draft.settings, value.as_deref()).map_err(|error| match error {
            Rejection::Missing => Error::new(place.clone(), Problem::MissingValue { option: entry.name }),
            Rejection::Invalid(error) => {
                let within = if *literal { error.at } else { 0 };
                let value = value.clone().unwrap_or_default();
                Error::new(
                    value_place.advanced_by(within),
                    Problem::BadValue { option: entry.name, value, error },
                )
            }
        })?;
        draft.settings.places.insert(entry.name, place.clone());
        if let Some(value) = value {
            match draft.options.iter_mut().find(|(known, _)| known == entry.name) {
                Some((_, known)) => known.clone_from(value),
                None => draft.options.push((entry.name.to_string(), value.clone())),
            }
        }
        Ok(())
    }

    pub(crate) fn list_irrelevant(
        &mut self,
        option: &'static str,
        value: Option<String>,
        place: &Place,
        reason: &'static str,
    ) {
        if self.listed.insert((option, place.clone())) {
            self.irrelevant.push(Irrelevant { option, value, place: place.clone(), reason });
        }
    }

    /// Ends a section and adds its jobs to the plan.
    pub(crate) fn finish(&mut self, draft: Draft, name: &str, place: &Place) -> Result<(), Error> {
        let Draft { settings, options } = draft;
        let name = settings.name.clone().unwrap_or_else(|| name.to_string());
        let contradiction = |option: &str, contradiction: Contradiction| {
            let place = settings.places.get(option).unwrap_or(place).clone();
            Error::new(place, Problem::Contradiction { job: name.clone(), contradiction })
        };
        let clones = settings.numjobs as usize;
        if self.jobs.len() + clones > JOBS_MAX {
            let place = settings.places.get("numjobs").unwrap_or(place).clone();
            return Err(Error::new(place, Problem::TooManyJobs { most: JOBS_MAX }));
        }
        let mut job = settings.job.clone();
        job.name.clone_from(&name);
        let prefixes = [&mut job.write_bw_log, &mut job.write_lat_log, &mut job.write_iops_log];
        for prefix in prefixes.into_iter().flatten().filter(|prefix| prefix.is_empty()) {
            prefix.clone_from(&name);
        }
        resolve_sizes(&settings, &mut job);
        resolve_depth(&settings, &mut job);
        check(&settings, &job, self.read_only).map_err(|(option, reason)| contradiction(option, reason))?;
        job.buffered = !settings.direct && job.engine_name != "null";

        let files =
            if settings.filenames.is_empty() { job.nr_files as usize } else { settings.filenames.len() };
        self.names += files * clones;
        if self.names > FILES_MAX {
            return Err(contradiction("nrfiles", Contradiction::TooManyFiles { most: FILES_MAX }));
        }
        let text: usize = options.iter().map(|(name, value)| name.len() + value.len()).sum();
        let text = text + settings.filename_format.replace("$jobname", &name).len() * files;
        self.text_bytes += text * clones;
        if self.text_bytes > TEXT_BYTES_MAX {
            return Err(Error::new(place.clone(), Problem::TooMuchText { most: TEXT_BYTES_MAX }));
        }

        if settings.stonewall && !self.jobs.is_empty() {
            self.wave += 1;
        }
        if (settings.stonewall || settings.new_group) && self.jobs_in_group > 0 {
            self.group += 1;
            self.jobs_in_group = 0;
        }
        self.jobs_in_group += clones;
        (job.wave, job.group, job.options) = (self.wave, self.group, options);
        job.inherited = self.inherited();
        self.list_options_without_effect(&settings, &job);
        for clone in 0..settings.numjobs {
            self.jobs.push(make_clone(&settings, &job, clone));
        }
        Ok(())
    }

    /// Returns the present global options, which jobs without a `[global]` section between them share.
    fn inherited(&self) -> Arc<Vec<(String, String)>> {
        let last = self.jobs.last().map(|job| job.inherited.clone());
        last.filter(|last| **last == self.global.options)
            .unwrap_or_else(|| Arc::new(self.global.options.clone()))
    }

    /// Lists the modelled options that change nothing in this job.
    fn list_options_without_effect(&mut self, settings: &Settings, job: &Job) {
        if let Some(place) = settings.places.get("filename").filter(|_| settings.directories.is_empty()) {
            let value = Some(settings.filenames.join(":"));
            self.list_irrelevant("filename", value, place, "every file name stands for the simulated device");
        }
        if job.engine == Engine::Synchronous
            && job.depth > 1
            && let Some(place) = settings.places.get("iodepth")
        {
            let reason = "a synchronous ioengine has one request at a time";
            self.list_irrelevant("iodepth", Some(job.depth.to_string()), place, reason);
        } else if job.has_one_request_at_a_time()
            && job.depth > 1
            && let Some(place) = settings.places.get("iodepth")
        {
            let reason = "this ioengine serves buffered requests one after the other";
            self.list_irrelevant("iodepth", Some(job.depth.to_string()), place, reason);
        }
        for option in ["fadvise_hint", "sync_file_range"] {
            if !job.buffered
                && let Some(place) = settings.places.get(option)
            {
                let value =
                    job.options.iter().find(|(name, _)| name == option).map(|(_, value)| value.clone());
                self.list_irrelevant(
                    option,
                    value,
                    place,
                    "it concerns the page cache, which direct I/O bypasses",
                );
            }
        }
    }
}

/// Returns true if the section is global. As in fio, every section whose name begins with `global` is global.
pub fn is_global(section: &str) -> bool {
    section.starts_with("global")
}

/// Resolves block sizes and alignment from `bs`, `bsrange`, `bssplit` and `blockalign`.
fn resolve_sizes(settings: &Settings, job: &mut Job) {
    for direction in Direction::ALL.map(|d| d as usize) {
        let size = match (&settings.block_split[direction], settings.block_range[direction]) {
            (Some(shares), _) if shares.len() == 1 => BlockSize::Fixed(shares[0].bytes),
            (Some(shares), _) => BlockSize::Split(shares.clone()),
            (None, Some((min, max))) if min < max => BlockSize::Range { min, max },
            (None, Some((min, _))) => BlockSize::Fixed(min),
            (None, None) => BlockSize::Fixed(settings.block[direction]),
        };
        let (least, _) = size.bounds();
        let align = settings.block_align[direction].unwrap_or(least);
        // fio drops the random map if the alignment of any direction, used or not, differs from its smallest block, or
        // if a distribution repeats blocks.
        job.no_random_map |= align != least;
        job.block_size[direction] = size;
        job.block_align[direction] = align;
    }
    job.no_random_map |= job.distribution != Distribution::Uniform;
}

/// Resolves the queue parameters that depend on each other.
fn resolve_depth(settings: &Settings, job: &mut Job) {
    let or_depth = |n: u32| if n == 0 || n > job.depth { job.depth } else { n };
    (job.batch_submit, job.depth_low) = (or_depth(job.batch_submit), or_depth(settings.depth_low));
    job.batch_complete_min = job.batch_complete_min.min(job.depth);
    job.batch_complete_max = settings.batch_complete_max.unwrap_or(0).max(job.batch_complete_min);
}

/// Checks the options of a job for contradictions. The error contains the name of the option at fault.
fn check(settings: &Settings, job: &Job, read_only: bool) -> Result<(), (&'static str, Contradiction)> {
    let replays = !settings.read_iologs.is_empty();
    let mix = job.pattern.mix;
    if job.time_based && job.runtime.is_none() {
        return Err(("time_based", Contradiction::TimeBasedWithoutRuntime));
    }
    if job.rate.iter().any(Option::is_some) && job.rate_iops.iter().any(Option::is_some) {
        return Err(("rate_iops", Contradiction::RateAndRateIops));
    }
    if settings.block_range.iter().any(Option::is_some) && settings.block_split.iter().any(Option::is_some) {
        return Err(("bssplit", Contradiction::RangeAndSplit));
    }
    if read_only && mix != Mix::Read && !replays {
        return Err(("rw", Contradiction::WritesWhileReadOnly));
    }
    if job.offset == Extent::Percent(100) && !replays {
        return Err(("offset", Contradiction::NothingAfterOffset));
    }
    if !settings.directories.is_empty()
        && let Some(path) = settings.filenames.iter().find(|name| name.starts_with('/'))
    {
        return Err(("filename", Contradiction::AbsoluteNameInDirectory { path: path.clone() }));
    }
    let used = || mix.directions().iter().map(|&d| d as usize);
    let block = used().map(|d| job.block_size[d].bounds().0).min().unwrap_or(1);
    let size = match job.size {
        Some(Extent::Bytes(size)) => Some(size),
        _ => None,
    };
    for (option, size) in [("size", size), ("filesize", job.file_size)] {
        if let Some(size) = size.filter(|size| *size < block && !replays) {
            return Err((option, Contradiction::SizeBelowBlock { option, size, block }));
        }
    }
    const SECONDS_MAX: u64 = 3600;
    for direction in used() {
        let (_, block) = job.block_size[direction].bounds();
        if let Some(rate) = job.rate[direction].filter(|rate| block / rate > SECONDS_MAX) {
            return Err(("rate", Contradiction::RateTooLow { rate, block }));
        }
    }
    Ok(())
}

/// Makes one of the `numjobs` clones, with its own file names.
fn make_clone(settings: &Settings, job: &Job, clone: u32) -> Job {
    let mut job = Job { clone, ..job.clone() };
    let assigned = |values: &[String]| values.get(clone as usize % values.len().max(1)).cloned();
    if settings.filenames.is_empty() {
        job.directory = assigned(&settings.directories);
        let format = settings.filename_format.replace("$clientuid", "localhost");
        let format = format.replace("$jobname", &job.name).replace("$jobnum", &clone.to_string());
        job.files = (0..job.nr_files).map(|file| format.replace("$filenum", &file.to_string())).collect();
    } else {
        job.directory = settings.directories.first().cloned();
        job.files.clone_from(&settings.filenames);
        job.nr_files = job.files.len() as u32;
    }
    job.read_iolog = assigned(&settings.read_iologs);
    job
}
