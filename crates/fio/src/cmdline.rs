//! Parser for fio's command line: jobs given as options, job files, and fio's program options.
//!
//! The rules are those of fio 3.33. `--bs=4k`, `--bs 4k`, `-bs=4k` and unambiguous abbreviations are
//! equivalent. Options before the first `--name` apply to the jobs of the command line and of the first job
//! file. Options and job files may be mixed; the jobs given as options come first. A switch such as
//! `--time_based` takes a value only after `=`. The jobs of each job file after the first wait for all jobs
//! before them.
//!
//! Three cases differ from fio. A leading `fio` or `sudo fio`, as in a line that was pasted whole, is
//! skipped. fio takes a word such as `numjobs=1`, or the `0` of `--time_based 0`, for the name of a job file;
//! here, such a word is an error with its own message. An option in the place of a value, as in
//! `--bs --rw=read`, is an error; fio takes the option for the value.

use crate::error::{Error, Place, Problem};
use crate::ini::Assignment;
use crate::job::Job;
use crate::jobfile::{Draft, Irrelevant, Plan, is_global};
use crate::loader::Loader;
use crate::number::{Fault, ValueError};
use crate::option::{self, Entry};

/// Format of the results: `--output-format`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OutputFormat {
    /// fio's human-readable text.
    Normal,
    /// fio's JSON.
    Json,
    /// JSON with the bins of the latency histograms.
    JsonPlus,
    /// One line per job, or per group if it is reported as one, with fields separated by semicolons.
    Terse,
}

/// The version of fio's terse output: `--terse-version`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TerseVersion {
    /// Reads, writes and trims, without fio's version.
    Two,
    /// Reads and writes. This is fio's default.
    #[default]
    Three,
    /// Reads, writes and trims.
    Four,
    /// Reads, writes and trims, with the number of bandwidth samples and the statistics of IOPS.
    Five,
}

/// A parsed command line.
///
/// ```
/// use flashlab_fio::cmdline::{Invocation, OutputFormat};
/// use flashlab_fio::loader::NoFiles;
/// let args = ["--output-format=json", "--direct=1", "--name=a", "--rw", "randread", "--name=b", "--stonewall"];
/// let invocation = Invocation::parse(&args, &NoFiles).unwrap();
/// assert_eq!(invocation.output_formats, [OutputFormat::Json]);
/// assert_eq!(invocation.jobs.iter().map(|job| job.wave).collect::<Vec<_>>(), [0, 1]);
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Invocation {
    /// All jobs, clones included, in the order of waves.
    pub jobs: Vec<Job>,
    /// Options that change nothing here; the output lists them.
    pub irrelevant: Vec<Irrelevant>,
    /// Global options as written, for the JSON object `global options`. After several job files, only those
    /// of the last file remain.
    pub global_options: Vec<(String, String)>,
    /// Formats of the results; at least one.
    pub output_formats: Vec<OutputFormat>,
    /// The version of the terse format.
    pub terse_version: TerseVersion,
    /// Output file; `None` means standard output.
    pub output: Option<String>,
    /// `--section`: names of the job-file sections that run. If the list is empty, all sections run.
    pub sections: Vec<String>,
    /// `--parse-only`: the jobs are parsed but not run.
    pub parse_only: bool,
}

/// Rule for the value of an option.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ValueRule {
    None,
    Required,
    /// The value is optional and must follow `=`.
    Optional,
}

/// The effect of a program option.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    Output,
    Format,
    Minimal,
    AppendTerse,
    TerseVersion,
    Section,
    ParseOnly,
    ReadOnly,
    Irrelevant(&'static str),
    Refused(&'static str),
}

/// One of fio's program options.
pub(crate) struct ProgramOption {
    pub(crate) name: &'static str,
    value_rule: ValueRule,
    pub(crate) effect: Effect,
}

const fn program(name: &'static str, value_rule: ValueRule, effect: Effect) -> ProgramOption {
    ProgramOption { name, value_rule, effect }
}

const NO_PROGRESS: &str = "a simulated run prints its result when it is done";
const NO_SERVER: &str = "jobs run in this process, not on a server";
const NO_TRIGGER: &str = "no trigger interrupts a run";

/// Every program option of fio 3.33.
pub(crate) static PROGRAM: &[ProgramOption] = &[
    program("output", ValueRule::Required, Effect::Output),
    program("output-format", ValueRule::Required, Effect::Format),
    program("section", ValueRule::Required, Effect::Section),
    program("parse-only", ValueRule::None, Effect::ParseOnly),
    program("readonly", ValueRule::None, Effect::ReadOnly),
    program("eta", ValueRule::Required, Effect::Irrelevant(NO_PROGRESS)),
    program("eta-newline", ValueRule::Required, Effect::Irrelevant(NO_PROGRESS)),
    program("eta-interval", ValueRule::Required, Effect::Irrelevant(NO_PROGRESS)),
    program("minimal", ValueRule::None, Effect::Minimal),
    program("append-terse", ValueRule::None, Effect::AppendTerse),
    program("terse-version", ValueRule::Required, Effect::TerseVersion),
    program("status-interval", ValueRule::Required, Effect::Irrelevant(NO_PROGRESS)),
    program("debug", ValueRule::Required, Effect::Irrelevant("fio's debug output describes fio itself")),
    program(
        "idle-prof",
        ValueRule::Required,
        Effect::Irrelevant("it measures this machine, whose load changes no result"),
    ),
    program(
        "warnings-fatal",
        ValueRule::None,
        Effect::Irrelevant(
            "here, a case about which fio warns is accepted, refused, or listed as without effect",
        ),
    ),
    program("max-jobs", ValueRule::Required, Effect::Irrelevant("the limit is 4096 jobs in any case")),
    program("alloc-size", ValueRule::Required, Effect::Irrelevant("fio's shared memory is not needed")),
    program("aux-path", ValueRule::Required, Effect::Irrelevant("fio's state files are not written")),
    program(
        "bandwidth-log",
        ValueRule::None,
        Effect::Refused("no log over all jobs is written; use write_bw_log"),
    ),
    program(
        "latency-log",
        ValueRule::None,
        Effect::Refused("fio itself no longer has it; use write_lat_log"),
    ),
    program("merge-blktrace-only", ValueRule::None, Effect::Refused("binary blktraces are not read")),
    program("version", ValueRule::None, Effect::Refused("use flashlab --version")),
    program("help", ValueRule::Optional, Effect::Refused("use flashlab bench --help")),
    program("cmdhelp", ValueRule::Optional, Effect::Refused("use flashlab explain")),
    program("enghelp", ValueRule::Optional, Effect::Refused("use flashlab explain ioengine")),
    program("cpuclock-test", ValueRule::None, Effect::Refused("it tests this machine, not a device")),
    program("crctest", ValueRule::Optional, Effect::Refused("it tests this machine, not a device")),
    program("memcpytest", ValueRule::Optional, Effect::Refused("it tests this machine, not a device")),
    program("showcmd", ValueRule::None, Effect::Refused("job files are not turned into command lines")),
    program("server", ValueRule::Optional, Effect::Refused(NO_SERVER)),
    program("daemonize", ValueRule::Required, Effect::Refused(NO_SERVER)),
    program("client", ValueRule::Required, Effect::Refused(NO_SERVER)),
    program("remote-config", ValueRule::Required, Effect::Refused(NO_SERVER)),
    program("inflate-log", ValueRule::Required, Effect::Refused("logs are written as text")),
    program("trigger-file", ValueRule::Required, Effect::Refused(NO_TRIGGER)),
    program("trigger-timeout", ValueRule::Required, Effect::Refused(NO_TRIGGER)),
    program("trigger", ValueRule::Required, Effect::Refused(NO_TRIGGER)),
    program("trigger-remote", ValueRule::Required, Effect::Refused(NO_TRIGGER)),
];

#[derive(Clone, Copy)]
enum Known {
    Program(&'static ProgramOption),
    Job(&'static Entry, &'static str),
}

impl Known {
    fn value_rule(self) -> ValueRule {
        match self {
            Known::Program(option) => option.value_rule,
            Known::Job(entry, _) if entry.is_switch() => ValueRule::Optional,
            Known::Job(..) => ValueRule::Required,
        }
    }
    /// Returns the option's first name, which all its aliases share.
    fn name(self) -> &'static str {
        match self {
            Known::Program(option) => option.name,
            Known::Job(entry, _) => entry.name,
        }
    }
    fn written_name(self) -> &'static str {
        match self {
            Known::Program(option) => option.name,
            Known::Job(_, name) => name,
        }
    }
}

fn known_options() -> impl Iterator<Item = Known> {
    let names = option::entries().flat_map(|entry| entry.names().map(move |name| Known::Job(entry, name)));
    PROGRAM.iter().map(Known::Program).chain(names)
}

/// Returns the option with this name, or the option that the name abbreviates.
fn find(name: &str, place: &Place) -> Result<Known, Error> {
    if let Some(exact) = known_options().find(|known| known.written_name() == name) {
        return Ok(exact);
    }
    let candidates: Vec<Known> =
        known_options().filter(|known| !name.is_empty() && known.written_name().starts_with(name)).collect();
    let problem = match candidates.first() {
        Some(first) if candidates.iter().all(|other| other.name() == first.name()) => return Ok(*first),
        Some(_) => {
            let candidates = candidates.iter().map(|known| known.written_name()).collect();
            Problem::AmbiguousOption { name: name.to_string(), candidates }
        }
        None => {
            let did_you_mean = option::nearest(name, known_options().map(Known::written_name));
            Problem::UnknownOption { name: name.to_string(), did_you_mean }
        }
    };
    Err(Error::new(place.clone(), problem))
}

/// An argument that is processed after all arguments have been read.
enum Item {
    Option(Assignment),
    File { name: String, place: Place },
}

struct Reader {
    items: Vec<Item>,
    sections: Vec<(String, Place)>,
    output_formats: Vec<OutputFormat>,
    terse_version: TerseVersion,
    output: Option<String>,
    parse_only: bool,
    plan: Plan,
}

impl Invocation {
    /// Parses the arguments (without the program's name). `loader` provides the job files, the files that
    /// they include, and the variables.
    pub fn parse<S: AsRef<str>>(args: &[S], loader: &dyn Loader) -> Result<Invocation, Error> {
        let mut reader = Reader {
            items: Vec::new(),
            sections: Vec::new(),
            output_formats: vec![OutputFormat::Normal],
            terse_version: TerseVersion::default(),
            output: None,
            parse_only: false,
            plan: Plan::default(),
        };
        reader.read(args)?;
        reader.run(loader)
    }

    /// Returns the accepted options that have no effect here. Each option is listed once, as it was written.
    pub fn without_effect(&self) -> Vec<String> {
        let mut options: Vec<String> = Vec::new();
        for irrelevant in &self.irrelevant {
            let option = irrelevant.as_written();
            if !options.contains(&option) {
                options.push(option);
            }
        }
        options
    }
}

impl Reader {
    fn read<S: AsRef<str>>(&mut self, args: &[S]) -> Result<(), Error> {
        let mut args = args.iter().map(S::as_ref).enumerate().peekable();
        for _ in 0..words_before_options(args.clone().map(|(_, arg)| arg)) {
            args.next();
        }
        let mut only_files = false;
        let mut switch_before = None;
        while let Some((index, arg)) = args.next() {
            let place = Place::Argument { number: index + 1, column: 1 };
            if arg == "--" && !only_files {
                only_files = true;
                continue;
            }
            if only_files || arg == "-" || !arg.starts_with('-') {
                if let Some(problem) = unlikely_job_file(arg, switch_before) {
                    return Err(Error::new(place, problem));
                }
                self.items.push(Item::File { name: arg.to_string(), place });
                continue;
            }
            let body = arg.strip_prefix("--").unwrap_or(&arg[1..]);
            let (name, value) = match body.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (body, None),
            };
            let dashes = arg.len() - body.len();
            let found = find(name, &place.advanced_by(dashes))?;
            let value_place = match value {
                Some(value) => place.advanced_by(arg.chars().count() - value.chars().count()),
                None => Place::Argument { number: index + 2, column: 1 },
            };
            let value = match (found.value_rule(), value) {
                (ValueRule::None, Some(_)) => {
                    return Err(Error::new(value_place, Problem::UnwantedValue { option: found.name() }));
                }
                (ValueRule::Required, None) => {
                    let next = args.next_if(|(_, next)| !is_known_option(next));
                    let missing =
                        || Error::new(place.clone(), Problem::MissingValue { option: found.name() });
                    Some(next.ok_or_else(missing)?.1)
                }
                (_, value) => value,
            };
            switch_before =
                (found.value_rule() == ValueRule::Optional && value.is_none()).then(|| found.written_name());
            match found {
                Known::Program(option) => self.program(option, value, &place, &value_place)?,
                Known::Job(_, name) => self.items.push(Item::Option(Assignment {
                    name: name.to_string(),
                    value: value.map(str::to_string),
                    place,
                    value_place,
                    literal: true,
                })),
            }
        }
        Ok(())
    }

    fn program(
        &mut self,
        option: &'static ProgramOption,
        value: Option<&str>,
        place: &Place,
        value_place: &Place,
    ) -> Result<(), Error> {
        let value = value.unwrap_or_default();
        match option.effect {
            Effect::ParseOnly => self.parse_only = true,
            Effect::ReadOnly => self.plan.read_only = true,
            Effect::Output => self.output = Some(value.to_string()),
            Effect::Section => self.sections.push((value.to_string(), value_place.clone())),
            Effect::Format => {
                self.output_formats = formats(value).map_err(|error| {
                    let at = value_place.advanced_by(error.at);
                    Error::new(at, Problem::BadValue { option: option.name, value: value.to_string(), error })
                })?;
            }
            Effect::Minimal => self.output_formats = vec![OutputFormat::Terse],
            Effect::AppendTerse if self.output_formats.contains(&OutputFormat::Terse) => {}
            Effect::AppendTerse => self.output_formats.push(OutputFormat::Terse),
            Effect::TerseVersion => {
                const WORDS: &[&str] = &["2", "3", "4", "5"];
                let word = option::form::word(value, WORDS).map_err(|error| {
                    let at = value_place.advanced_by(error.at);
                    Error::new(at, Problem::BadValue { option: option.name, value: value.to_string(), error })
                })?;
                use TerseVersion::{Five, Four, Three, Two};
                self.terse_version = [Two, Three, Four, Five][word];
            }
            Effect::Irrelevant(reason) => {
                let value = (option.value_rule == ValueRule::Required).then(|| value.to_string());
                self.plan.list_irrelevant(option.name, value, place, reason);
            }
            Effect::Refused(reason) => {
                let problem = Problem::RefusedProgramOption { option: option.name, reason };
                return Err(Error::new(place.clone(), problem));
            }
        }
        Ok(())
    }

    fn run(mut self, loader: &dyn Loader) -> Result<Invocation, Error> {
        let mut job: Option<(Draft, String, Place)> = None;
        let mut files = Vec::new();
        for item in self.items {
            match item {
                Item::File { name, place } => files.push((name, place)),
                Item::Option(assignment) if assignment.name == "name" => {
                    if let Some((draft, name, place)) = job.take() {
                        self.plan.finish(draft, &name, &place)?;
                    }
                    let name = assignment.value.clone().unwrap_or_default();
                    if is_global(&name) {
                        set_global(&mut self.plan, &assignment)?;
                    } else {
                        let mut draft = self.plan.begin();
                        self.plan.set(&mut draft, &assignment)?;
                        job = Some((draft, name, assignment.place));
                    }
                }
                Item::Option(assignment) => match &mut job {
                    Some((draft, ..)) => self.plan.set(draft, &assignment)?,
                    None => set_global(&mut self.plan, &assignment)?,
                },
            }
        }
        if let Some((draft, name, place)) = job.take() {
            self.plan.finish(draft, &name, &place)?;
        }
        let sections: Vec<String> = self.sections.iter().map(|(name, _)| name.clone()).collect();
        for (name, place) in &files {
            let bytes = loader.load(name).map_err(|reason| {
                Error::new(place.clone(), Problem::Unreadable { file: shown(name).to_string(), reason })
            })?;
            self.plan.file(shown(name), &bytes, loader, &sections)?;
        }
        for (name, place) in &self.sections {
            if files.is_empty() {
                let reason = "there is no job file";
                self.plan.list_irrelevant("section", Some(name.clone()), place, reason);
            } else if !self.plan.section_names.contains(name) {
                let did_you_mean = option::nearest(name, self.plan.section_names.iter().map(String::as_str))
                    .map(str::to_string);
                let problem = Problem::UnknownSection { name: name.clone(), did_you_mean };
                return Err(Error::new(place.clone(), problem));
            }
        }
        if self.plan.jobs.is_empty() {
            let place = match files.last() {
                Some((name, _)) => Place::File { name: shown(name).into(), line: 1, column: 1 },
                None => Place::CommandLine,
            };
            return Err(Error::new(place, Problem::NoJobs));
        }
        Ok(Invocation {
            jobs: self.plan.jobs,
            irrelevant: self.plan.irrelevant,
            global_options: self.plan.global.options,
            output_formats: self.output_formats,
            terse_version: self.terse_version,
            output: self.output,
            sections,
            parse_only: self.parse_only,
        })
    }
}

/// Returns the name of a job file for messages. The loader interprets `-`, by which fio means standard input.
fn shown(name: &str) -> &str {
    if name == "-" { "standard input" } else { name }
}

/// Returns the number of words that call fio itself in a line that was pasted whole: `fio`, `sudo /usr/bin/fio`.
fn words_before_options<'a>(mut args: impl Iterator<Item = &'a str>) -> usize {
    let (first, second) = (args.next(), args.next());
    match (first, second) {
        (Some("sudo"), Some(fio)) if is_fio(fio) => 2,
        (Some("fio"), _) => 1,
        // A job file may be named `fio` too, so the path alone is not enough.
        (Some(path), Some(_)) if is_fio(path) => 1,
        _ => 0,
    }
}

fn is_fio(word: &str) -> bool {
    word == "fio" || word.ends_with("/fio")
}

/// Returns an error if `word` is unlikely to name a job file: `numjobs=1`, or the `0` of `--time_based 0`.
fn unlikely_job_file(word: &str, switch_before: Option<&str>) -> Option<Problem> {
    let did_you_mean = match (word.split_once('='), switch_before) {
        (Some((name, value)), _) => {
            let known = option::lookup(name).map(|_| name).or_else(|| option::suggest(name))?;
            format!("--{known}={value}")
        }
        (None, Some(switch)) if word == "0" || word == "1" => format!("--{switch}={word}"),
        _ => return None,
    };
    Some(Problem::UnlikelyJobFile { word: word.to_string(), did_you_mean })
}

fn set_global(plan: &mut Plan, assignment: &Assignment) -> Result<(), Error> {
    let mut global = std::mem::take(&mut plan.global);
    plan.set(&mut global, assignment)?;
    plan.global = global;
    Ok(())
}

/// Returns true if an argument is another option rather than the value of the preceding option.
fn is_known_option(arg: &str) -> bool {
    let name = arg.strip_prefix("--").map(|body| body.split('=').next().unwrap_or(body));
    name.is_some_and(|name| known_options().any(|known| known.written_name() == name))
}

/// Parses the value of `--output-format`: `normal,json`.
fn formats(text: &str) -> Result<Vec<OutputFormat>, ValueError> {
    let mut formats = Vec::new();
    let mut at = 0;
    for word in text.split(',') {
        let format = match word {
            "normal" => OutputFormat::Normal,
            "json" => OutputFormat::Json,
            "json+" => OutputFormat::JsonPlus,
            "terse" | "minimal" => OutputFormat::Terse,
            _ => {
                let words = vec!["normal", "json", "json+", "terse"];
                let did_you_mean = option::nearest(word, words.iter().copied());
                return Err(Fault::NotOneOf { words, did_you_mean }.at(at));
            }
        };
        if !formats.contains(&format) {
            formats.push(format);
        }
        at += word.chars().count() + 1;
    }
    // As in fio, json+ adds the buckets to the one JSON document.
    if formats.contains(&OutputFormat::JsonPlus) {
        formats.retain(|format| *format != OutputFormat::Json);
    }
    Ok(formats)
}
