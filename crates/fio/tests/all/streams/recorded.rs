//! Comparison of sequential streams with iologs recorded by fio 3.33: see iologs/README.md.

use super::fake::{Event, EventLog, FixedLatency, files, jobs, run_jobs};
use flashlab_fio::iolog::{Action, Iolog, IologRecorder, Version};
use flashlab_fio::job::{Direction, Job};
use flashlab_fio::workload::{Jobs, Task};
use flashlab_sim::{Duration, Instant, run};
use std::path::Path;

struct Case {
    name: &'static str,
    bytes: Option<u64>,
    options: &'static str,
}

fn cases() -> impl Iterator<Item = Case> {
    include_str!("../../iologs/commands.txt").lines().filter(|line| !line.starts_with('#')).map(|line| {
        let mut fields = line.split('|').map(str::trim);
        let mut field = || fields.next().expect("a line has three fields");
        Case { name: field(), bytes: field().parse().ok(), options: field() }
    })
}

/// Returns the text of a file in iologs/.
fn text(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/iologs").join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn log(name: &str) -> String {
    text(&format!("{name}.log"))
}

/// Returns the options in the first line of a file, and the numbers after it.
pub(crate) fn numbers(file: &str) -> (String, Vec<u64>) {
    let text = text(file);
    let (options, numbers) = text.split_once('\n').expect("options, then numbers");
    let numbers = numbers.split_whitespace().map(|number| number.parse().expect("a number")).collect();
    (options.to_owned(), numbers)
}

/// (action, file, offset, length), with the file as a number.
type Line = (Action, u32, u64, u64);

/// Returns the requests of each clone. Clones append to one log, in any order.
fn recorded(text: &str, clones: usize) -> Vec<Vec<Line>> {
    let header = Version::Three.header();
    let mut parts: Vec<Option<Vec<Line>>> = vec![None; clones];
    let mut undecided = Vec::new();
    for part in text.split(header).skip(1) {
        // A file that several clones share has only one `add` line in the whole log.
        let added = if part.contains(" add\n") { String::new() } else { "\n0 file add".to_string() };
        let log = Iolog::read(format!("{header}{added}{part}").as_bytes()).expect("fio writes iologs");
        let lines = log.entries.iter().map(|e| (e.action, e.file, e.offset, e.length)).collect();
        let clone = log.files[0].strip_prefix("j.").and_then(|rest| rest.split('.').next()?.parse().ok());
        match clone {
            Some(clone) => {
                let clone: usize = clone;
                parts[clone] = Some(lines);
            }
            None => undecided.push(lines),
        }
    }
    // A clone without its own file name is identified by its first offset, since offsets grow with the clone's number.
    undecided.sort_by_key(|lines: &Vec<Line>| lines[0].2);
    let mut rest = undecided.into_iter();
    parts.into_iter().map(|part| part.or_else(|| rest.next()).expect("each clone has its part")).collect()
}

fn ours(events: &EventLog, clone: usize) -> Vec<Line> {
    events
        .of_job(clone)
        .filter_map(|event| match event {
            Event::Submitted(io) => {
                let action = match io.direction {
                    Direction::Read => Action::Read,
                    Direction::Write => Action::Write,
                    Direction::Trim => Action::Trim,
                };
                Some((action, io.file.0, io.offset, io.length))
            }
            Event::Flushing { file, offset, data_only, .. } => {
                let action = if data_only { Action::DataSync } else { Action::Sync };
                Some((action, file.0, offset, 0))
            }
            _ => None,
        })
        .collect()
}

#[test]
fn sequential_streams_equal_those_of_fio() {
    let mut wrong = Vec::new();
    for Case { name, bytes, options } in cases() {
        let jobs: Vec<Job> = jobs(options);
        let theirs = recorded(&log(name), jobs.len());
        let events = run_jobs(&jobs, bytes, &mut FixedLatency::new(Duration::from_us(3)));
        for (clone, theirs) in theirs.iter().enumerate() {
            let mut ours = ours(&events, clone);
            // In a flush, fio does not always name the file whose turn it is.
            let files_matter = |line: &Line| !line.0.is_flush();
            ours.iter_mut().filter(|line| !files_matter(line)).for_each(|line| line.1 = 0);
            if &ours != theirs {
                wrong.push(format!("{name} ({options}), clone {clone}\n  fio  {theirs:?}\n  ours {ours:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns the lines without their times.
fn untimed(text: &str) -> Vec<&str> {
    let mut lines = text.lines();
    let header = lines.next().into_iter();
    header.chain(lines.map(|line| line.split_once(' ').expect("a time and the rest").1)).collect()
}

#[test]
fn recorded_iologs_equal_those_of_fio() {
    for name in [
        "sequential",
        "skip",
        "trimwrite",
        "fsync-and-fdatasync",
        "fdatasync-end-fsync",
        "files",
        "fsync-on-close",
    ] {
        let case = cases().find(|case| case.name == name).expect("a case of this name");
        let jobs = jobs(case.options);
        let tasks = jobs
            .iter()
            .zip(0..)
            .map(|(job, number)| Task { job, files: files(job, None), number, entropy: 0, iolog: None })
            .collect();
        let names = jobs
            .iter()
            .map(|job| files(job, None).iter().map(|file| file.id).zip(job.files.iter().cloned()).collect())
            .collect();
        let recorder = IologRecorder::new(Version::Three, names, ());
        let mut wave = Jobs::new(Instant::ZERO, tasks, recorder).expect("the job runs");
        run(&mut FixedLatency::new(Duration::from_us(3)), &mut wave, Instant::ZERO);
        let (_, logs) = wave.into_record().finish();
        assert_eq!(untimed(&logs[0]), untimed(&log(name)), "{name}");
    }
}
