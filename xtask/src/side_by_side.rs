//! Runs programs at the same time, as many as there are processors, and measures the time of each.
//!
//! Many test binaries end with one long test, or wait for guests, browsers and timers. A second program uses
//! the processor that such a test leaves idle. The output of a program appears when it ends, because the
//! outputs of two programs at a time would be mixed.

use crate::Outcome;
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Folder of the outputs. The folder also has the output of a program that hangs.
const OUTPUTS: &str = "target/outputs";

/// Clock ticks per second in /proc, USER_HZ in Linux: 100 on x86, ARM and RISC-V.
const TICKS_PER_SECOND: u64 = 100;

/// A program to run.
pub(crate) struct Job {
    /// Part of CI to which its time belongs.
    pub(crate) part: String,
    /// Name of the file of its output; it differs from those of all other jobs.
    pub(crate) name: String,
    pub(crate) command: Command,
    /// Command that repeats the run by hand.
    pub(crate) repeat: String,
}

/// Times of a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Spent {
    pub(crate) part: String,
    pub(crate) wall: Duration,
    /// Processor time of the program and of all programs that it started and waited for.
    pub(crate) processor: Duration,
}

/// Runs the jobs in their order. After a failure it starts no further job. Returns the times of the jobs that ended, and
/// the first failure.
pub(crate) fn run_all(jobs: Vec<Job>) -> (Vec<Spent>, Outcome) {
    run_all_in(Path::new(OUTPUTS), jobs)
}

fn run_all_in(outputs: &Path, jobs: Vec<Job>) -> (Vec<Spent>, Outcome) {
    if let Err(error) = std::fs::create_dir_all(outputs) {
        return (Vec::new(), Err(format!("{}: {error}", outputs.display())));
    }
    let queue = Mutex::new(jobs.into_iter());
    let ended: Mutex<(Vec<Spent>, Outcome)> = Mutex::new((Vec::new(), Ok(())));
    let work = || {
        loop {
            if ended.lock().expect("no worker panics").1.is_err() {
                return;
            }
            let Some(mut job) = queue.lock().expect("no worker panics").next() else { return };
            let output = outputs.join(&job.name);
            let result = run(&mut job, &output);
            let mut ended = ended.lock().expect("no worker panics");
            print(&job, &output);
            match result {
                Ok((spent, outcome)) => {
                    ended.0.push(spent);
                    ended.1 = std::mem::replace(&mut ended.1, Ok(())).and(outcome);
                }
                Err(error) => ended.1 = std::mem::replace(&mut ended.1, Ok(())).and(Err(error)),
            }
        }
    };
    std::thread::scope(|scope| {
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        (0..workers).for_each(|_| {
            scope.spawn(work);
        });
    });
    ended.into_inner().expect("no worker panics")
}

/// Prints the command of a job and what it has written.
fn print(job: &Job, output: &Path) {
    eprintln!("== {}", described(&job.command));
    let text = std::fs::read(output).unwrap_or_default();
    // A closed standard output ends the run with its next line.
    let _ = std::io::stdout().write_all(&text);
}

fn described(command: &Command) -> String {
    format!("{command:?}").replace('"', "")
}

/// Runs a job with its output in a file.
fn run(job: &mut Job, output: &Path) -> Result<(Spent, Outcome), String> {
    let of_file = |error| format!("{}: {error}", output.display());
    let file = File::create(output).map_err(of_file)?;
    let errors = file.try_clone().map_err(of_file)?;
    job.command.stdin(Stdio::null()).stdout(file).stderr(errors);
    #[allow(clippy::disallowed_methods, reason = "CI prints the time of its parts")]
    let start = Instant::now();
    let of_command = |command: &Command, error| format!("{}: {error}", described(command));
    let mut child = job.command.spawn().map_err(|error| of_command(&job.command, error))?;
    let processor = processor_time_at_its_end(&child);
    let status = child.wait().map_err(|error| of_command(&job.command, error))?;
    let spent = Spent { part: job.part.clone(), wall: start.elapsed(), processor };
    let failed = || format!("{}: {status}\n(to repeat: {})", described(&job.command), job.repeat);
    Ok((spent, if status.success() { Ok(()) } else { Err(failed()) }))
}

/// Waits until a program ends, and returns its processor time. The kernel keeps this time until the program
/// is waited for. The result is zero on a system without /proc.
fn processor_time_at_its_end(child: &Child) -> Duration {
    let ended = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
    let pid = Pid::from_raw(child.id().try_into().expect("a process identifier is positive"));
    while waitid(Id::Pid(pid), ended) == Err(nix::errno::Errno::EINTR) {}
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    Duration::from_millis(ticks(&stat).unwrap_or(0) * 1000 / TICKS_PER_SECOND)
}

/// Returns the sum of utime, stime, cutime and cstime, the fields 14 to 17 of proc_pid_stat(5). The second field, a name in
/// parentheses, may contain spaces and parentheses.
fn ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let times = fields.split_whitespace().skip(11).take(4);
    times.map(|field| field.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(name: &str, script: &str) -> Job {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Job { part: "part".to_owned(), name: name.to_owned(), command, repeat: "sh".to_owned() }
    }

    #[test]
    fn the_time_of_a_program_includes_the_time_of_the_programs_that_it_started() {
        let folder = std::env::temp_dir().join(format!("flashlab-side-by-side-{}", std::process::id()));
        let busy = "n=0; while [ $n -lt 200000 ]; do n=$((n + 1)); done";
        let (spent, outcome) = run(&mut job("busy", &format!("sh -c '{busy}'; true")), &folder).unwrap();
        std::fs::remove_file(&folder).unwrap();
        assert!(outcome.is_ok() && spent.processor > Duration::ZERO, "{spent:?} {outcome:?}");
        assert!(spent.processor <= spent.wall + Duration::from_millis(20), "{spent:?}");
    }

    /// The first program of each worker fails, so that no worker takes another one.
    #[test]
    fn no_program_starts_after_a_failure_and_the_error_says_how_to_repeat_it() {
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        let mut jobs: Vec<Job> = (0..workers).map(|n| job(&format!("fails-{n}"), "exit 3")).collect();
        jobs.push(job("never", "exit 0"));
        let outputs = std::env::temp_dir().join(format!("flashlab-outputs-{}", std::process::id()));
        let (spent, outcome) = run_all_in(&outputs, jobs);
        let was_started = outputs.join("never").exists();
        std::fs::remove_dir_all(&outputs).unwrap();
        assert!(!was_started && (1..=workers).contains(&spent.len()), "{spent:?}");
        let error = outcome.unwrap_err();
        assert!(error.contains("exit status: 3") && error.ends_with("(to repeat: sh)"), "{error}");
    }

    #[test]
    fn a_program_runs_beside_one_that_waits_for_it() {
        let outputs = std::env::temp_dir().join(format!("flashlab-beside-{}", std::process::id()));
        if std::thread::available_parallelism().is_ok_and(|processors| processors.get() < 2) {
            return println!("a_program_runs_beside_one_that_waits_for_it: skipped on one processor");
        }
        let flag = outputs.join("flag");
        let waits =
            format!("for n in $(seq 600); do [ -e {0} ] && exit 0; sleep 0.1; done; exit 1", flag.display());
        let jobs = vec![job("waits", &waits), job("ends", &format!("echo > {}", flag.display()))];
        let (spent, outcome) = run_all_in(&outputs, jobs);
        std::fs::remove_dir_all(&outputs).unwrap();
        assert!(outcome.is_ok() && spent.len() == 2, "{spent:?} {outcome:?}");
    }

    #[test]
    fn a_program_name_with_spaces_and_parentheses_does_not_shift_the_fields() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194304 100 0 0 0 1 20 300 4000 20 0 1 0 5 6 7";
        assert_eq!(ticks(stat), Some(4321));
        assert_eq!(ticks("7 (short) S 1"), Some(0));
        assert_eq!(ticks(""), None);
    }
}
