//! The QEMU guest: starts it, follows its console, and turns its trace into a recording.
//!
//! `-icount shift=0,sleep=off` counts an instruction as a nanosecond, and the clocks of the guest follow the
//! instructions. `ioeventfd=off` keeps the serial port of the trace from interrupting the guest at instants of the host.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
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

/// Carries out a plan.
///
/// # Errors
/// A setting is out of range, a program, kernel or module is missing, the guest fails, or its trace is not complete.
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
    let scheduler = console.lines().find_map(|line| line.strip_prefix("flashlab: scheduler: "));
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
            scheduler.unwrap_or("unknown").trim(),
            &dirty_limits(&console),
        ),
        compressibility_percent: None,
        origin: format!("flashlab record {}, {}", env!("CARGO_PKG_VERSION"), version_of(machine.qemu)),
    };
    let recording = derive(header, latency, &parse(&text)?)?;
    Ok(Recorded { recording, trace: text })
}

/// Returns the dirty limits of the guest's kernel from its console, as a part of a sentence that ends with a comma: the
/// pages of the page cache at which the kernel begins to write back, and at which it throttles writers. Empty if the
/// console does not state them.
fn dirty_limits(console: &str) -> String {
    let line = console.lines().find_map(|line| line.strip_prefix("flashlab: dirty limits: "));
    let mut limits = line.unwrap_or_default().split_whitespace();
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

/// Runs the guest to its end. Returns the output of its console.
fn run(
    machine: &Machine<'_>,
    initramfs: &Path,
    trace: &Path,
    progress: &dyn Progress,
) -> Result<String, RecordError> {
    let mut guest = Guest::start(machine, initramfs, trace)?;
    let failed = |fault: &str, console: &str| {
        Err(RecordError::Guest { fault: fault.to_owned(), console: console.to_owned() })
    };
    let mut console = String::new();
    loop {
        match guest.lines.recv_timeout(TICK) {
            Ok(line) => {
                if let Some(name) = line.strip_prefix("flashlab: stage: ") {
                    progress.stage(name.trim());
                }
                console.push_str(&line);
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) if progress.is_stopped() => return Err(RecordError::Stopped),
            Err(RecvTimeoutError::Timeout) if guest.started.elapsed() < guest.longest => {}
            Err(RecvTimeoutError::Timeout) => {
                let fault = format!("it did not end within {} s (--timeout)", machine.seconds_max);
                return failed(&fault, &console);
            }
        }
    }
    let complaints = guest.finish()?;
    if let Some(fault) = console.lines().find_map(|line| line.strip_prefix("flashlab: FAILED: ")) {
        return failed(fault.trim(), &console);
    }
    match console.lines().any(|line| line.trim() == "flashlab: done") {
        true => Ok(console),
        false => failed("it stopped before the end of the workload", &format!("{console}{complaints}")),
    }
}

/// A running QEMU, which ends with this value.
struct Guest {
    child: Child,
    /// Lines of the console.
    lines: Receiver<String>,
    started: std::time::Instant,
    longest: Duration,
}

impl Guest {
    fn start(machine: &Machine<'_>, initramfs: &Path, trace: &Path) -> Result<Guest, RecordError> {
        let memory = machine.memory_mib + TRACE_KIB / 1024;
        let parameters = format!(
            "console=ttyS0 quiet nokaslr no_hash_pointers tsc=reliable panic=-1 {}",
            machine.parameters
        );
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
            .args(["-append", parameters.trim_end()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| RecordError::io(machine.qemu, error))?;
        let output = child.stdout.take().expect("the output is a pipe");
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let mut reader = BufReader::new(output);
            let mut line = Vec::new();
            while matches!(reader.read_until(b'\n', &mut line), Ok(1..)) {
                let text = String::from_utf8_lossy(&line).replace('\r', "");
                line.clear();
                if sender.send(text).is_err() {
                    break;
                }
            }
        });
        #[allow(clippy::disallowed_methods, reason = "the limit is for guests that hang, in wall-clock time")]
        let started = std::time::Instant::now();
        Ok(Guest { child, lines, started, longest: Duration::from_secs(machine.seconds_max) })
    }

    /// Waits for the end of QEMU. Returns its own messages.
    fn finish(&mut self) -> Result<String, RecordError> {
        let mut complaints = String::new();
        let wait = (|| {
            if let Some(mut output) = self.child.stderr.take() {
                output.read_to_string(&mut complaints)?;
            }
            self.child.wait()
        })();
        wait.map_err(|error| RecordError::io(Path::new(QEMU), error))?;
        Ok(complaints)
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // A guest that has ended cannot be killed, which is no fault.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
