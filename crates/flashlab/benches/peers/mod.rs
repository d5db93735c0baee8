//! NBD servers that a benchmark compares in one run, and the batched client that measures them.

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Server under measurement.
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    /// Version and settings, as printed.
    pub(crate) about: String,
    child: Child,
    socket: PathBuf,
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let _ = self.child.wait();
    }
}

impl Peer {
    pub(crate) fn uri(&self) -> String {
        format!("nbd+unix:///?socket={}", self.socket.display())
    }
    /// Returns the processor time in clock ticks of a hundredth of a second.
    pub(crate) fn ticks(&self) -> u64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap_or_default();
        let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let fields: Vec<&str> = after_name.split_whitespace().collect();
        let field = |n: usize| fields.get(n).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
        field(11) + field(12)
    }
    /// Restricts the server's threads to these processors.
    fn pin_to(&self, processors: &CpuSet) {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id())).into_iter().flatten().flatten();
        let ids = tasks.filter_map(|task| Pid::from_raw(task.file_name().to_str()?.parse().ok()?));
        // The call fails for a thread that has since ended, which is harmless.
        ids.for_each(|id| {
            let _ended = sched_setaffinity(Some(id), processors);
        });
    }
    /// Runs `flashlab load` on the server and returns its JSON; `Null` if it fails.
    pub(crate) fn load(&self, options: &[&str]) -> Value {
        let mut command = Command::new(env!("CARGO_BIN_EXE_flashlab"));
        command.args(["load", &self.uri(), "--output-format=json"]).args(options);
        let output = command.stderr(Stdio::inherit()).output().expect("the program is built");
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    }
}

/// The servers of a benchmark, and the folder with their sockets and files.
pub(crate) struct Peers {
    pub(crate) servers: Vec<Peer>,
    pub(crate) folder: PathBuf,
}

impl Drop for Peers {
    fn drop(&mut self) {
        self.servers.clear();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Peers {
    /// Creates a folder, in tmpfs if there is one.
    pub(crate) fn new() -> Peers {
        let shared = Path::new("/dev/shm");
        let root = if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() };
        let folder = root.join(format!("flashlab-bench-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("there is a folder for temporary files");
        Peers { servers: Vec::new(), folder }
    }

    pub(crate) fn socket(&self, name: &str) -> String {
        self.folder.join(format!("{name}.sock")).display().to_string()
    }

    /// Starts a server that listens at `socket(name)`. Prints the reason if it does not start.
    pub(crate) fn add(&mut self, name: &'static str, about: &str, command: &mut Command) {
        let child = match command.stdin(Stdio::null()).stdout(Stdio::null()).spawn() {
            Ok(child) => child,
            Err(error) => return println!("{name:<12} left out: {error}"),
        };
        let mut peer = Peer { name, about: about.to_owned(), child, socket: self.socket(name).into() };
        while UnixStream::connect(&peer.socket).is_err() {
            if let Ok(Some(status)) = peer.child.try_wait() {
                return println!("{name:<12} left out: it ended ({status})");
            }
            std::thread::yield_now();
        }
        self.servers.push(peer);
    }

    /// Prepares qemu-storage-daemon with an export of the node `n`, which `options` create. The daemon runs
    /// without an iothread, because with an iothread it aborts when a client disconnects.
    pub(crate) fn storage_daemon(&self, name: &str, options: &[&str]) -> Command {
        let listen = format!("addr.type=unix,addr.path={},max-connections=0", self.socket(name));
        let mut command = Command::new("qemu-storage-daemon");
        command.args(options).args(["--nbd-server", &listen]);
        command.args(["--export", "type=nbd,id=e,node-name=n,name=,writable=on"]);
        command
    }

    /// Calls `measure` for each server. Each repeat starts with a different server.
    pub(crate) fn each(&self, repeat: usize, mut measure: impl FnMut(&Peer)) {
        let count = self.servers.len();
        (0..count).for_each(|n| measure(&self.servers[(n + repeat) % count]));
    }
}

/// Processors on which the servers and the client run: all of them, or one.
pub(crate) struct Placement {
    all: CpuSet,
    one: CpuSet,
}

impl Placement {
    pub(crate) fn new() -> Placement {
        let all = sched_getaffinity(None).expect("a process knows where it runs");
        let mut one = CpuSet::new();
        one.set((0..CpuSet::MAX_CPU).find(|n| all.is_set(*n)).expect("the process runs somewhere"));
        Placement { all, one }
    }

    /// Moves the servers and this process, whose affinity the client inherits.
    pub(crate) fn apply(&self, peers: &Peers, one: bool) {
        let processors = if one { &self.one } else { &self.all };
        sched_setaffinity(None, processors).expect("a process may give processors up, and take them back");
        peers.servers.iter().for_each(|peer| peer.pin_to(processors));
    }
}

/// Values by row and server, in the order in which they were measured.
#[derive(Default)]
pub(crate) struct Runs(BTreeMap<(String, &'static str), Vec<f64>>);

impl Runs {
    /// Adds a value, unless the run failed and has none.
    pub(crate) fn add(&mut self, row: &str, name: &'static str, value: f64) {
        let values = self.0.entry((row.to_owned(), name)).or_default();
        values.extend((!value.is_nan()).then_some(value));
    }
    /// Returns the median; NaN without values.
    pub(crate) fn median(&self, row: &str, name: &'static str) -> f64 {
        let mut values = self.0.get(&(row.to_owned(), name)).cloned().unwrap_or_default();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
    }
}

/// Returns the fastest settings of qemu-storage-daemon for an existing file. Direct I/O with Linux's native AIO is one
/// and a half times as fast as I/O through the page cache, for which each request goes to another thread. tmpfs
/// supports direct I/O from Linux 6.6 on; on older kernels io_uring is the next best.
pub(crate) fn file_settings(path: &Path) -> &'static str {
    let direct = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::DIRECT;
    match rustix::fs::open(path, direct, rustix::fs::Mode::empty()) {
        Ok(_) => "aio=native,cache.direct=on",
        Err(_) => "aio=io_uring",
    }
}

/// Returns the first line that a program prints about its version.
pub(crate) fn version(program: &str) -> String {
    let output = Command::new(program).arg("--version").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.lines().next().unwrap_or(program).trim().to_owned()
}

/// Reads the arguments of a benchmark: milliseconds of a run and number of repeats.
pub(crate) fn arguments(milliseconds: u32, repeats: u32) -> (u32, usize) {
    let numbers: Vec<u32> = std::env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    let number = |n: usize, default| numbers.get(n).copied().unwrap_or(default);
    let (milliseconds, repeats) = (number(0, milliseconds), number(1, repeats));
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    println!("machine      {processors} processors, {milliseconds} ms a run, medians of {repeats}");
    (milliseconds, repeats as usize)
}
