//! The QEMU guest: starts it, follows its console, and turns its trace into a recording.
//!
//! `-icount shift=0,sleep=off` counts an instruction as a nanosecond, and the clocks of the guest follow the
//! instructions. `ioeventfd=off` keeps the serial port of the trace from interrupting the guest at instants that depend
//! on the host.

use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use flashlab_block::TemporaryFolder;
use flashlab_recording::capture::{derive, parse};
use flashlab_recording::{Header, Recording};

use crate::error::RecordError;
use crate::kernel::Kernel;
use crate::plan::{Disk, Limits, Plan, TRACE_KIB, host};
use crate::programs::Programs;
use crate::root;

pub(crate) const QEMU: &str = "qemu-system-x86_64";

/// Largest number of console lines that wait for their reader.
const LINES_MAX: usize = 1024;

/// Longest time until a stop takes effect.
const TICK: Duration = Duration::from_millis(200);

/// A recording with the trace from which it was derived.
#[derive(Debug)]
pub struct Recorded {
    /// Recording.
    pub recording: Recording,
    /// Text of the guest's tracefs.
    pub trace: String,
}

/// Receiver of the progress of a recording.
pub trait Progress {
    /// Notes that a stage begins, such as `booting the guest`.
    fn stage(&self, name: &str);
    /// Returns true if the recording has to stop.
    fn is_stopped(&self) -> bool;
}

/// Makes the recording that `plan` describes.
///
/// # Errors
/// Returns an error if a setting is out of range, a program, kernel or module is missing, the guest fails, or its trace
/// is not complete.
pub fn record(plan: &Plan, progress: &dyn Progress) -> Result<Recorded, RecordError> {
    plan.check()?;
    let programs = Programs::find(&[&root::programs_of(plan)[..], &[QEMU]].concat())?;
    progress.stage("building the guest");
    let machine = Machine {
        kernel: &plan.kernel,
        initramfs: root::build(plan, &programs)?,
        memory_mib: plan.limits.memory_mib,
        parameters: "",
        seconds_max: plan.seconds_max,
        disk: plan.disk,
        limits: &plan.limits,
        qemu: programs.place(QEMU),
    };
    record_machine(&machine, plan.format.to_string(), plan.workload.text(), progress)
}

/// A guest that records its own run.
pub(crate) struct Machine<'a> {
    pub(crate) kernel: &'a Kernel,
    pub(crate) initramfs: Vec<u8>,
    /// Memory in MiB, without that of the trace.
    pub(crate) memory_mib: u64,
    /// Further parameters of the kernel.
    pub(crate) parameters: &'static str,
    /// Time limit of the guest in seconds.
    pub(crate) seconds_max: u64,
    pub(crate) disk: Disk,
    pub(crate) limits: &'a Limits,
    pub(crate) qemu: &'a Path,
}

/// Runs a guest, and derives the recording from its trace. The header states `filesystem` and `workload`.
pub(crate) fn record_machine(
    machine: &Machine<'_>,
    filesystem: String,
    workload: String,
    progress: &dyn Progress,
) -> Result<Recorded, RecordError> {
    let folder = TemporaryFolder::new("flashlab-record-")
        .map_err(|error| RecordError::io(&std::env::temp_dir(), error))?;
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).map_err(|error| RecordError::io(&path, error)).map(|()| path)
    };
    let initramfs = write("initramfs", &machine.initramfs)?;
    let trace = write("trace", b"")?;
    progress.stage("booting the guest");
    let console = run(machine, &initramfs, &trace, progress)?;
    let text = fs::read_to_string(&trace).map_err(|error| RecordError::io(&trace, error))?;
    let latency = flashlab_sim::Duration::from_ns(machine.disk.latency_ns);
    let header = Header {
        capacity: machine.disk.size_mib << 20,
        block: 512,
        has_dependencies: true,
        kernel: machine.kernel.release.clone(),
        filesystem,
        workload,
        host: host(
            machine.disk,
            machine.limits,
            machine.memory_mib - machine.limits.memory_mib,
            console.scheduler.as_deref().unwrap_or("unknown"),
            &dirty_limits(console.dirty_limits.as_deref().unwrap_or_default()),
        ),
        compressibility_percent: None,
        origin: format!("flashlab record {}, {}", env!("CARGO_PKG_VERSION"), version_of(machine.qemu)),
    };
    let recording = derive(header, latency, &parse(&text)?)?;
    Ok(Recorded { recording, trace: text })
}

/// Formats the dirty limits that the guest states: the numbers of pages in the page cache at which the kernel begins to
/// write back, and at which it throttles writers. Returns a phrase that ends with a comma, or an empty text if the
/// guest states none.
fn dirty_limits(stated: &str) -> String {
    let mut limits = stated.split_whitespace();
    match (limits.next(), limits.next()) {
        (Some(background), Some(all)) => format!("dirty limits of {background} and {all} pages, "),
        _ => String::new(),
    }
}

/// Returns the first line of `qemu --version`.
fn version_of(qemu: &Path) -> String {
    let output = Command::new(qemu).arg("--version").stdin(Stdio::null()).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.lines().next().unwrap_or("QEMU").trim().to_owned()
}

/// Runs the guest to its end. Returns the contents of its console.
fn run(
    machine: &Machine<'_>,
    initramfs: &Path,
    trace: &Path,
    progress: &dyn Progress,
) -> Result<Console, RecordError> {
    let mut command = qemu(machine, initramfs, trace);
    let guest = Guest::start(&mut command, Duration::from_secs(machine.seconds_max));
    guest.map_err(|error| RecordError::io(machine.qemu, error))?.follow(progress)
}

/// Returns the command that starts QEMU.
fn qemu(machine: &Machine<'_>, initramfs: &Path, trace: &Path) -> Command {
    let memory = machine.memory_mib + TRACE_KIB / 1024;
    let parameters =
        format!("console=ttyS0 quiet nokaslr no_hash_pointers tsc=reliable panic=-1 {}", machine.parameters);
    let mut command = Command::new(machine.qemu);
    command
        .args([
            "-M",
            "pc",
            "-nodefaults",
            "-display",
            "none",
            "-no-reboot",
            "-net",
            "none",
            "-serial",
            "stdio",
        ])
        .args(["-icount", "shift=0,sleep=off", "-accel", "tcg,thread=single", "-seed", "1"])
        .args(["-rtc", "base=2020-01-01,clock=vm", "-m", &memory.to_string()])
        .arg("-kernel")
        .arg(&machine.kernel.image)
        .arg("-initrd")
        .arg(initramfs)
        .args(["-device", "virtio-serial-pci,ioeventfd=off"])
        .arg("-chardev")
        .arg(format!("file,id=trace,path={}", trace.display().to_string().replace(',', ",,")))
        .args(["-device", "virtserialport,chardev=trace,name=trace"])
        .args(["-append", parameters.trim_end()]);
    command
}

/// Contents of a guest's console: the values that its scripts state, and the last output.
#[derive(Debug, Default)]
struct Console {
    scheduler: Option<String>,
    dirty_limits: Option<String>,
    /// First fault that a script reports.
    fault: Option<String>,
    /// True once the workload has ended.
    is_done: bool,
    /// The last output, for an error message.
    tail: Tail,
}

impl Console {
    /// Reads a line. Returns the name of the stage that the line announces, if any.
    fn read<'a>(&mut self, line: &'a str) -> Option<&'a str> {
        self.tail.push(line);
        self.is_done |= line.trim() == "flashlab: done";
        let (key, value) = line.strip_prefix("flashlab: ")?.split_once(": ")?;
        let set = |field: &mut Option<String>| {
            field.get_or_insert_with(|| value.trim().to_owned());
        };
        match key {
            "stage" => return Some(value.trim()),
            "scheduler" => set(&mut self.scheduler),
            "dirty limits" => set(&mut self.dirty_limits),
            "FAILED" => set(&mut self.fault),
            _ => {}
        }
        None
    }
}

/// The end of a long text.
#[derive(Debug, Default)]
struct Tail(String);

/// Minimum number of bytes that a [`Tail`] keeps of a longer text. A tail keeps at most twice as many, plus
/// one line.
const TAIL: usize = 64 << 10;

impl Tail {
    fn push(&mut self, line: &str) {
        self.0.push_str(line);
        if self.0.len() > 2 * TAIL {
            let start = self.0.ceil_char_boundary(self.0.len() - TAIL);
            self.0.drain(..start);
        }
    }
}

/// A running QEMU, which is killed when this value is dropped.
struct Guest {
    child: Child,
    /// Lines of the console.
    lines: Receiver<String>,
    /// Thread that reads QEMU's own messages. It reads them at all times, because a full pipe would stop
    /// QEMU.
    messages: Option<JoinHandle<Tail>>,
    started: std::time::Instant,
    longest: Duration,
}

impl Guest {
    fn start(command: &mut Command, longest: Duration) -> io::Result<Guest> {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let output = child.stdout.take().expect("the output is a pipe");
        let error = child.stderr.take().expect("the standard error is a pipe");
        let (sender, lines) = sync_channel(LINES_MAX);
        std::thread::spawn(move || read_lines(output, |line| sender.send(line).is_ok()));
        let messages = std::thread::spawn(move || {
            let mut messages = Tail::default();
            read_lines(error, |line| {
                messages.push(&line);
                true
            });
            messages
        });
        #[allow(clippy::disallowed_methods, reason = "the limit is for guests that hang, in wall-clock time")]
        let started = std::time::Instant::now();
        Ok(Guest { child, lines, messages: Some(messages), started, longest })
    }

    /// Follows the guest to its end. Returns the contents of its console.
    fn follow(mut self, progress: &dyn Progress) -> Result<Console, RecordError> {
        let mut console = Console::default();
        let failed = |fault: String, console: String| Err(RecordError::Guest { fault, console });
        loop {
            match self.lines.recv_timeout(TICK) {
                Ok(line) => {
                    if let Some(stage) = console.read(&line) {
                        progress.stage(stage);
                    }
                }
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {}
            }
            // These checks follow every line, so that they also stop a guest that prints without a pause.
            if progress.is_stopped() {
                return Err(RecordError::Stopped);
            }
            if self.started.elapsed() >= self.longest {
                let seconds = self.longest.as_secs();
                return failed(format!("it did not end within {seconds} s (--timeout)"), console.tail.0);
            }
        }
        self.child.wait().map_err(|error| RecordError::io(Path::new(QEMU), error))?;
        match (console.fault.take(), console.is_done) {
            (Some(fault), _) => failed(fault, console.tail.0),
            (None, true) => Ok(console),
            (None, false) => {
                let messages = self.messages.take().and_then(|reader| reader.join().ok()).unwrap_or_default();
                failed("it stopped before the end of the workload".to_owned(), console.tail.0 + &messages.0)
            }
        }
    }
}

/// Passes the lines of a pipe to `take`, until the end of the pipe or until `take` returns false. A line of
/// more than [`TAIL`] bytes is passed in parts.
fn read_lines(pipe: impl Read, mut take: impl FnMut(String) -> bool) {
    let mut reader = BufReader::new(pipe);
    let mut line = Vec::new();
    while matches!(reader.by_ref().take(TAIL as u64).read_until(b'\n', &mut line), Ok(1..)) {
        let text = String::from_utf8_lossy(&line).replace('\r', "");
        line.clear();
        if !take(text) {
            break;
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // `kill` fails if the guest has already ended, which is not an error.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    /// Notes the stages of a recording, and stops the recording after `stop_after` stages.
    #[derive(Default)]
    struct Stages {
        seen: RefCell<Vec<String>>,
        stop_after: Option<usize>,
    }

    impl Progress for Stages {
        fn stage(&self, name: &str) {
            self.seen.borrow_mut().push(name.to_owned());
        }
        fn is_stopped(&self) -> bool {
            self.stop_after.is_some_and(|stages| self.seen.borrow().len() >= stages)
        }
    }

    /// Follows a shell script in place of QEMU.
    fn follow(script: &str, seconds_max: u64, stages: &Stages) -> Result<Console, RecordError> {
        let mut shell = Command::new("sh");
        let guest = Guest::start(shell.args(["-c", script]), Duration::from_secs(seconds_max));
        guest.expect("there is a shell").follow(stages)
    }

    /// Script that prints without a pause. It ends, so that a broken limit fails the test instead of blocking
    /// it.
    const NOISE: &str = "seq 1 1000000";

    #[test]
    fn a_guest_that_prints_without_a_pause_can_be_stopped() {
        let stages = Stages { stop_after: Some(1), ..Stages::default() };
        let stopped = follow(&format!("echo flashlab: stage: noise; {NOISE}"), 600, &stages);
        assert!(matches!(stopped, Err(RecordError::Stopped)));
        assert_eq!(stages.seen.into_inner(), ["noise"]);
    }

    #[test]
    fn a_guest_that_prints_without_a_pause_has_a_time_limit() {
        let late = follow(NOISE, 0, &Stages::default());
        let Err(RecordError::Guest { fault, .. }) = late else {
            panic!("a failure of the guest is expected")
        };
        assert_eq!(fault, "it did not end within 0 s (--timeout)");
    }

    #[test]
    fn a_failure_contains_the_end_of_the_console_and_of_the_messages_of_qemu() {
        let script = "seq 1 300000; seq 1 300000 >&2; echo last line; echo last message >&2";
        let failed = follow(script, 600, &Stages::default());
        let Err(RecordError::Guest { fault, console }) = failed else {
            panic!("a failure of the guest is expected")
        };
        assert_eq!(fault, "it stopped before the end of the workload");
        assert!(console.contains("300000\nlast line\n") && console.ends_with("300000\nlast message\n"));
        assert!(console.len() <= 5 * TAIL, "{}", console.len());
    }

    #[test]
    fn values_that_the_guest_states_before_a_long_output_are_kept() {
        let script = "echo 'flashlab: scheduler: none'; echo 'flashlab: dirty limits: 1 2'; seq 1 300000; \
                      echo 'flashlab: done'";
        let console = follow(script, 600, &Stages::default()).expect("the guest is done");
        assert_eq!(console.scheduler.as_deref(), Some("none"));
        assert_eq!(
            dirty_limits(&console.dirty_limits.expect("the guest stated them")),
            "dirty limits of 1 and 2 pages, "
        );
        let failed =
            follow("echo 'flashlab: FAILED: no disk'; echo 'flashlab: done'", 600, &Stages::default());
        assert!(matches!(failed, Err(RecordError::Guest { fault, .. }) if fault == "no disk"));
    }
}
