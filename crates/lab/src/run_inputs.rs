//! The inputs of a run of jobs. Results contain these inputs so that `diff` can explain why two results
//! differ.

use crate::results::{ordered, pairs};
use flashlab_catalogue::device::Device;
use flashlab_fio::cmdline::Invocation;
use flashlab_fio::job::Job;
use serde::{Deserialize, Serialize};

/// Names and values, in order.
pub type Pairs = Vec<(String, String)>;

/// The inputs of a run, apart from its device: the program, the jobs, and the medium.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RunInputs {
    /// Version of flashlab.
    pub version: &'static str,
    /// Commit of the program, if its build recorded one.
    pub commit: Option<String>,
    /// Seed of the medium.
    pub seed: u64,
    /// Filesystem on the device, with the keys that were set: `vfat`.
    pub filesystem: Option<String>,
    /// True if the user left a new device unwritten (`--unwritten`).
    pub unwritten: bool,
    /// True if everything that the jobs use was written to a new device first (`--written`).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub written: bool,
    /// Options that all jobs inherit. Options of `[global]` sections that apply to some jobs only are among those of the
    /// jobs.
    #[serde(rename = "global options", serialize_with = "ordered")]
    pub global_options: Pairs,
    /// Jobs, each once even if it has clones.
    pub jobs: Vec<JobInputs>,
}

/// A job and its options, as written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct JobInputs {
    /// Name of the job.
    #[serde(rename = "jobname")]
    pub name: String,
    /// Options in order. A flag such as `stonewall` has an empty value.
    #[serde(rename = "job options", serialize_with = "ordered")]
    pub options: Pairs,
}

impl RunInputs {
    /// Returns the version and the jobs of a run of `invocation`; the caller fills in the other inputs.
    pub fn new(invocation: &Invocation) -> RunInputs {
        let global = common_options(invocation);
        let mut jobs: Vec<JobInputs> = Vec::new();
        let mut last_wave = invocation.jobs.first().map_or(0, |job| job.wave);
        for job in invocation.jobs.iter().filter(|job| job.clone == 0) {
            let is_own = |(key, _): &&(String, String)| job.options.iter().any(|(own, _)| own == key);
            let inherited = job.inherited.iter().filter(|pair| !global.contains(pair) && !is_own(pair));
            // The options of a command line contain the name that begins the job, and a global name applies to no job.
            let all = inherited.chain(&job.options).filter(|(key, _)| key != "name");
            let mut options: Pairs = all.cloned().collect();
            for name in switches(job, last_wave) {
                if options.iter().chain(&global).all(|(known, _)| known != name) {
                    options.push((name.to_owned(), String::new()));
                }
            }
            last_wave = job.wave;
            jobs.push(JobInputs { name: job.name.clone(), options });
        }
        RunInputs { version: env!("CARGO_PKG_VERSION"), global_options: global, jobs, ..RunInputs::default() }
    }

    /// Returns the jobs as the text of a job file.
    pub fn job_file(&self) -> String {
        let line = |(key, value): &(String, String)| match value.is_empty() {
            true => format!("{key}\n"),
            false => format!("{key}={value}\n"),
        };
        let section = |name: &str, options: &Pairs| {
            format!("[{name}]\n{}", options.iter().map(line).collect::<String>())
        };
        let global = Some(&self.global_options).filter(|options| !options.is_empty());
        let global = global.map(|options| section("global", options));
        let jobs = self.jobs.iter().map(|job| section(&job.name, &job.options));
        global.into_iter().chain(jobs).collect::<Vec<_>>().join("\n")
    }
}

/// Returns the global options that all jobs inherit; without jobs, all global options.
fn common_options(invocation: &Invocation) -> Pairs {
    let Some(first) = invocation.jobs.first() else { return invocation.global_options.clone() };
    let is_common = |pair: &&(String, String)| invocation.jobs.iter().all(|job| job.inherited.contains(pair));
    first.inherited.iter().filter(is_common).cloned().collect()
}

/// Returns the names of the switches that are on in a job. Like fio's JSON, the parser keeps the written text
/// only of options with a value.
fn switches(job: &Job, last_wave: u32) -> impl Iterator<Item = &'static str> {
    let all = [
        ("stonewall", job.wave > last_wave),
        ("group_reporting", job.group_reporting),
        ("time_based", job.time_based),
        ("norandommap", job.no_random_map),
        ("allrandrepeat", job.all_rand_repeat),
        ("overwrite", job.overwrite),
        ("end_fsync", job.end_fsync),
        ("fsync_on_close", job.fsync_on_close),
        ("unlink", job.unlink),
        ("replay_no_stall", job.replay_no_stall),
        ("unified_rw_reporting", job.unified_rw_reporting),
    ];
    all.into_iter().filter_map(|(name, is_on)| is_on.then_some(name))
}

/// The inputs of a run that belong to its device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceInputs {
    /// Argument that selected the device, with the keys that were set: `sd/kingston:flash.t_prog=2ms`.
    pub device: String,
    /// Host of the device; `None` for a device that stores bytes without a model.
    pub host: Option<String>,
    /// Checksum of the saved state from which the device starts.
    pub state: Option<String>,
    /// Every number of the device and of its host.
    #[serde(serialize_with = "ordered", deserialize_with = "pairs")]
    pub numbers: Pairs,
}

impl DeviceInputs {
    /// Returns the inputs of a device without a profile.
    pub fn named(argument: &str) -> DeviceInputs {
        DeviceInputs { device: argument.to_owned(), ..DeviceInputs::default() }
    }

    /// Returns the inputs of `device`.
    pub fn of(device: &Device) -> DeviceInputs {
        let numbers = device.numbers().into_iter().map(|number| (number.path, number.value));
        DeviceInputs {
            device: device.argument.clone(),
            host: Some(device.host_name.clone()).filter(|host| !host.is_empty()),
            state: device.state.as_ref().map(|state| state.checksum()),
            numbers: numbers.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flashlab_fio::loader::NoFiles;

    #[test]
    fn a_job_file_has_the_jobs_with_their_options_and_no_clones() {
        let words = "--direct=1 --name=r --rw=randread --size=1m --numjobs=3 --name=w --stonewall --rw=write --size=1m";
        let words: Vec<&str> = words.split(' ').collect();
        let inputs = RunInputs::new(&Invocation::parse(&words, &NoFiles).expect("valid jobs"));
        let expected = "[global]\ndirect=1\n\n[r]\nrw=randread\nsize=1m\nnumjobs=3\n\n[w]\nrw=write\nsize=1m\nstonewall\n";
        assert_eq!(inputs.job_file(), expected);
    }

    /// A `[global]` section applies to the jobs below it only, and adds to the sections above it.
    #[test]
    fn a_job_has_the_options_of_the_global_sections_above_it() {
        let text = "[global]\ndirect=1\nbs=8k\n[a]\nsize=1m\n[global]\nbs=16k\nrw=write\n[b]\nsize=1m\n\
                    [c]\nsize=1m\nbs=4k\n[global]\nbs=2k\n";
        let read = |text: &str| {
            let load = |_: &str| Ok(text.as_bytes().to_vec());
            let invocation = Invocation::parse(&["job.fio"], &load).expect("valid jobs");
            (RunInputs::new(&invocation), invocation.jobs)
        };
        let (inputs, jobs) = read(text);
        let expected = "[global]\ndirect=1\n\n[a]\nbs=8k\nsize=1m\n\n[b]\nbs=16k\nrw=write\nsize=1m\n\n\
                        [c]\nrw=write\nsize=1m\nbs=4k\n";
        assert_eq!(inputs.job_file(), expected);
        let (_, again) = read(&inputs.job_file());
        let meaning = |jobs: &[Job]| -> Vec<_> {
            jobs.iter().map(|job| (job.block_size.clone(), job.pattern, job.buffered)).collect()
        };
        assert_eq!(meaning(&again), meaning(&jobs));
    }
}
