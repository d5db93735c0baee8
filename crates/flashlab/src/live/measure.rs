//! Execution of a live experiment's scripts, and parsing of their output.

use super::{Outcome, Row};
use crate::failure::{Failure, INTERRUPTED};
use crate::progress::{ProgressDisplay, stop_on_interrupt};
use flashlab_block::TemporaryFolder;
use flashlab_lab::experiment::{Live, LiveSettings};
use flashlab_lab::progress::Progress;
use flashlab_recorder::Kernel;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Settings of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings<'a> {
    /// True to measure in a guest instead of on this machine.
    pub(crate) guest: bool,
    /// Folder with the kernel of the guest; by default, the kernel that `./test` unpacks, or else the
    /// system's.
    pub(crate) kernel: Option<&'a Path>,
    /// Sizes and durations of the measurements.
    pub(crate) sizes: LiveSettings,
}

/// Measures all rows one after the other, and repeats this as often as the settings say.
pub(crate) fn measure(live: &Live, settings: Settings<'_>) -> Result<Outcome, Failure> {
    let rows = live.rows().iter().map(|row| Row {
        name: row.name.clone(),
        published: live.published(&row.name).map(|figures| (figures.read, figures.write)),
        ..Row::default()
    });
    let mut outcome = Outcome { setup: setup(live, settings), rows: rows.collect() };
    let progress = ProgressDisplay::new(live.name());
    stop_on_interrupt(&progress);
    progress.plan(outcome.rows.len() as u64 * u64::from(settings.sizes.repeats));
    for _ in 0..settings.sizes.repeats {
        measure_once(live, settings, &progress, &mut outcome)?;
    }
    Ok(outcome)
}

fn measure_once(
    live: &Live,
    settings: Settings<'_>,
    progress: &Progress,
    outcome: &mut Outcome,
) -> Result<(), Failure> {
    // A guest's devices lie in its own memory. On this machine, they lie in tmpfs.
    let shared = Path::new("/dev/shm");
    let root = if settings.guest || !shared.is_dir() { std::env::temp_dir() } else { shared.to_owned() };
    let folder = TemporaryFolder::inside(&root, &format!("flashlab-{}-", live.name()));
    let folder = folder.map_err(|error| Failure::io(&root, &error))?;
    let scripts = folder.path().join("scripts");
    let work = folder.path().join("work");
    for folder in [&scripts, &work] {
        fs::create_dir(folder).map_err(|error| Failure::io(folder, &error))?;
    }
    let write = |name: &str, bytes: &[u8]| {
        let path = scripts.join(name);
        fs::write(&path, bytes).map_err(|error| Failure::io(&path, &error))
    };
    write("paths.sh", live.script("paths.sh")?)?;
    write("guest.sh", live.script("guest.sh")?)?;
    write("plan", plan(live).as_bytes())?;
    let program = std::env::current_exe().map_err(|error| Failure::system("this program's file", &error))?;
    let mut command = Command::new("sh");
    command.arg(scripts.join(if settings.guest { "guest.sh" } else { "paths.sh" }));
    let sizes = settings.sizes;
    command.env("FLASHLAB", program).env("WORK", &work).env("PLAN", scripts.join("plan"));
    command.env("OPTIONS", live.options()).env("SCRIPTS", &scripts);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
    let numbers = [("DEVICE", sizes.device), ("SIZE", sizes.size), ("RUNTIME", sizes.runtime)];
    command.envs(numbers.map(|(name, number)| (name, number.to_string())));
    if settings.guest {
        let Kernel { image, modules_folder, .. } = guest_kernel(settings.kernel)?;
        command.env("KERNEL", image).env("MODULES", modules_folder).env("MEMORY", sizes.memory.to_string());
        // In an emulated guest, creating and filling the files takes longer than the measurement.
        let limit = 300 + outcome.rows.len() as u32 * (sizes.runtime + 60);
        command.env("LIMIT", limit.to_string());
    }
    let mut script = Script::start(&mut command).map_err(|error| Failure::system("sh", &error))?;
    // The script reports its errors on standard output. Standard error contains only the tools' messages,
    // which matter if the script ends early.
    let (mut done, mut messages) = (false, VecDeque::new());
    while let Some(line) = script.next_line(progress) {
        match line {
            Line::Output(line) => done |= parse_line(line.trim_end(), progress, outcome)?,
            Line::Error(line) => {
                messages.push_back(line);
                if messages.len() > MESSAGES_MAX {
                    messages.pop_front();
                }
            }
        }
    }
    if progress.is_stopped() {
        return Err(Failure::failed("stopped").with_code(INTERRUPTED));
    }
    let status = script.child.wait().map_err(|error| Failure::system("sh", &error))?;
    if done {
        return Ok(());
    }
    let messages: String = messages.iter().map(|line| format!("\n  {}", line.trim_end())).collect();
    let colon = if messages.is_empty() { "" } else { "; its last messages:" };
    Err(Failure::failed(format_args!("the script ended early ({status}){colon}{messages}")))
}

/// Maximum number of lines of standard error in an error message.
const MESSAGES_MAX: usize = 10;

/// Longest time until the program notices a stop, or the end of a script whose servers keep its pipes open.
const TICK: Duration = Duration::from_millis(200);

/// A line of a script.
enum Line {
    Output(String),
    Error(String),
}

/// A running script with the programs that it starts. Dropping this value stops the script and these
/// programs, unless the script has ended.
struct Script {
    child: Child,
    lines: Receiver<Line>,
}

impl Script {
    fn start(command: &mut Command) -> io::Result<Script> {
        // The process group makes it possible to stop the script together with all programs that it has started.
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let (sender, lines) = channel();
        let output = child.stdout.take().expect("the standard output is a pipe");
        let error = child.stderr.take().expect("the standard error is a pipe");
        send_lines(output, sender.clone(), Line::Output);
        send_lines(error, sender, Line::Error);
        Ok(Script { child, lines })
    }

    /// Returns the next line; `None` after the last one, or when `progress` is stopped.
    fn next_line(&mut self, progress: &Progress) -> Option<Line> {
        while !progress.is_stopped() {
            match self.lines.recv_timeout(TICK) {
                Ok(line) => return Some(line),
                Err(RecvTimeoutError::Disconnected) => return None,
                // A server that the script left behind keeps the pipes open.
                Err(RecvTimeoutError::Timeout) if matches!(self.child.try_wait(), Ok(Some(_))) => {
                    return None;
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        None
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        // The script detaches its device on this signal. If the signal cannot be sent, the script has ended.
        if let Some(group) = Pid::from_raw(self.child.id().cast_signed()) {
            let _ = kill_process_group(group, Signal::TERM);
        }
        let _ = self.child.wait();
    }
}

/// Starts a thread that sends the lines of a pipe until the pipe ends.
fn send_lines(pipe: impl Read + Send + 'static, to: Sender<Line>, of: fn(String) -> Line) {
    std::thread::spawn(move || {
        for line in BufReader::new(pipe).split(b'\n').map_while(Result::ok) {
            if to.send(of(String::from_utf8_lossy(&line).into_owned())).is_err() {
                break;
            }
        }
    });
}

/// Returns the plan for the scripts: one line per row, with the row's number as its key.
fn plan(live: &Live) -> String {
    let line = |(n, row): (usize, &flashlab_lab::experiment::LiveRow)| {
        format!("{n} {} {} {} {} {}\n", row.path, row.sockets, row.jobs, row.depth, row.how)
    };
    live.rows().iter().enumerate().map(line).collect()
}

/// Parses a line of a script's output into `outcome`. Returns true if the script reports its end.
fn parse_line(line: &str, progress: &Progress, outcome: &mut Outcome) -> Result<bool, Failure> {
    // The guest's terminal may print other text before the keyword.
    let Some(at) = line.find("PATHS ") else { return Ok(false) };
    let mut words = line[at..].splitn(3, ' ').skip(1);
    let (keyword, rest) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (key, value) = rest.split_once(' ').unwrap_or((rest, ""));
    let row = key.parse().ok().and_then(|n: usize| outcome.rows.get_mut(n));
    match (keyword, row) {
        ("done", _) => return Ok(true),
        ("failed", _) => return Err(Failure::failed(rest)),
        ("machine", _) => match outcome.setup.iter_mut().find(|(name, _)| name == "machine") {
            Some((_, machine)) => *machine = rest.to_owned(),
            None => outcome.setup.push(("machine".to_owned(), rest.to_owned())),
        },
        ("result", Some(row)) => {
            let (attached, json) = value.split_once(' ').unwrap_or((value, ""));
            row.attached = attached.to_owned();
            match figures(json) {
                Some(figures) => row.runs.push(figures),
                None => row.missing = Some("fio's output was truncated".to_owned()),
            }
            progress.advance(1);
        }
        ("missing", Some(row)) => {
            row.missing = Some(value.to_owned());
            progress.advance(1);
        }
        _ => {}
    }
    Ok(false)
}

/// Returns the throughput of reads and writes in MiB/s from the JSON of fio or of `flashlab load`.
fn figures(json: &str) -> Option<(f64, f64)> {
    let json: Value = serde_json::from_str(&json[json.find('{')?..]).ok()?;
    let job = json.get("jobs").map_or(&json, |jobs| &jobs[0]);
    let rate = |name: &str| Some(job[name]["bw_bytes"].as_f64()? / f64::from(1 << 20));
    Some((rate("read")?, rate("write")?))
}

/// Returns the description of the machine, the tools and the settings.
fn setup(live: &Live, settings: Settings<'_>) -> Vec<(String, String)> {
    let mut setup = Vec::new();
    if !settings.guest {
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        setup.push(("machine".to_owned(), format!("Linux {}, {processors} processors", release.trim())));
    }
    let version = |program: &str| {
        let output = Command::new(program).arg("--version").output().ok()?;
        Some(String::from_utf8_lossy(&output.stdout).lines().next()?.trim().to_owned())
    };
    let programs: BTreeMap<&str, &str> = BTreeMap::from([
        ("fio", "fio"),
        ("nbdkit", "nbdkit"),
        ("qemu-storage-daemon", "qemu-storage-daemon"),
    ]);
    for (name, program) in programs {
        setup.push((name.to_owned(), version(program).unwrap_or_else(|| "not installed".to_owned())));
    }
    let LiveSettings { device, size, runtime, repeats, .. } = settings.sizes;
    let each =
        format!("{device} MiB per device, {size} MiB per job, {runtime} s, medians of {repeats} repeats");
    setup.push(("each row".to_owned(), each));
    setup.push(("fio options".to_owned(), live.options().to_owned()));
    setup.push(("published".to_owned(), live.source().to_owned()));
    setup
}

/// Returns the kernel in a folder; by default the one that `./test` unpacks from Debian's package, or the system's own.
fn guest_kernel(folder: Option<&Path>) -> Result<Kernel, Failure> {
    let folders = match folder {
        Some(folder) => vec![folder.to_owned()],
        None => ["target/guest", "/"].map(PathBuf::from).to_vec(),
    };
    Kernel::find(&folders).map_err(Failure::failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome() -> Outcome {
        Outcome { setup: Vec::new(), rows: vec![Row::default(), Row::default()] }
    }

    #[test]
    fn the_output_of_a_script_becomes_rows() {
        let mut outcome = outcome();
        let progress = Progress::default();
        let fio = r#"{"jobs":[{"read":{"bw_bytes":2097152},"write":{"bw_bytes":1048576}}]}"#;
        let load = r#"{"read":{"bw_bytes":4194304},"write":{"bw_bytes":0}}"#;
        for line in [
            "noise",
            &format!("\x1b[2KPATHS result 0 loop-over-tmpfs {fio}\r"),
            &format!("PATHS result 0 loop-over-tmpfs {load}"),
            "PATHS missing 1 no LIO in this kernel",
            "PATHS missing 7 no such row",
            "PATHS machine Linux 6.1, 2 emulated processors",
        ] {
            assert!(!parse_line(line.trim_end(), &progress, &mut outcome).expect("nothing failed"), "{line}");
        }
        assert!(parse_line("PATHS done", &progress, &mut outcome).expect("nothing failed"));
        assert!(parse_line("PATHS failed fio is not installed", &progress, &mut outcome).is_err());
        assert_eq!(outcome.rows[0].runs, [(2.0, 1.0), (4.0, 0.0)]);
        assert_eq!(outcome.rows[1].missing.as_deref(), Some("no LIO in this kernel"));
        assert_eq!(outcome.setup, [("machine".to_owned(), "Linux 6.1, 2 emulated processors".to_owned())]);
    }

    #[test]
    fn a_truncated_result_is_a_missing_row() {
        let mut outcome = outcome();
        parse_line("PATHS result 0 tcm_loop {\"jobs\":[{\"re", &Progress::default(), &mut outcome)
            .expect("the row is missing, the run goes on");
        assert!(outcome.rows[0].runs.is_empty() && outcome.rows[0].missing.is_some());
    }
}
