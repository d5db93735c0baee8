//! Comparison of our NBD server with other NBD servers in one run: random 4 KiB requests through the same batched
//! client, the cost per byte of 64 KiB requests beside a plain socket, and fio's own nbd engine.
//!
//! All measurements are interleaved and medians are compared, so that other load on the machine affects all servers
//! alike. On one connection, server and client take turns, so the placement of their threads matters as much as the
//! server. Each server is therefore measured twice, with all processors and with server and client on one processor,
//! and the faster result counts.
//!
//! `cargo bench -p flashlab --bench nbd [-- MILLISECONDS REPEATS]` (500 ms and 9 repeats by default). On a shared
//! machine, many short runs are better than few long ones. Peers that are not installed are skipped by name.

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const SIZE: &str = "512M";
const SIZE_BYTES: &str = "536870912";
/// Requests in flight on each connection, number of connections, and true if server and client run on one processor.
const SHAPES: [(u32, u32, bool); 4] = [(32, 1, false), (32, 1, true), (32, 2, false), (16, 4, false)];

/// Server under measurement.
struct Peer {
    name: &'static str,
    /// Version and settings, as printed.
    about: String,
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
    fn uri(&self) -> String {
        format!("nbd+unix:///?socket={}", self.socket.display())
    }
    /// Processor time in clock ticks of a hundredth of a second.
    fn ticks(&self) -> u64 {
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
        // The call fails for a thread that has ended meanwhile, which is harmless.
        ids.for_each(|id| {
            let _ended = sched_setaffinity(Some(id), processors);
        });
    }
}

fn main() {
    let numbers: Vec<u32> = std::env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    let milliseconds = numbers.first().copied().unwrap_or(500);
    let repeats = numbers.get(1).copied().unwrap_or(9);
    // A folder in tmpfs, for the peer whose device is a file.
    let shared = Path::new("/dev/shm");
    let root = if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() };
    let folder = root.join(format!("flashlab-bench-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("there is a folder for temporary files");
    let peers = start(&folder);
    for peer in &peers {
        println!("{:<9} {}", peer.name, peer.about);
        // Fills the device, so that no read hits unwritten blocks.
        load(peer, &["--rw=write", "--bs=1m", "--iodepth=4"]);
    }
    println!("machine   {} processors, {milliseconds} ms a run, medians of {repeats}\n", processors());
    random(&peers, milliseconds, repeats);
    bytes(&peers, milliseconds, repeats);
    fio(&peers, milliseconds, repeats);
    drop(peers);
    let _ = fs::remove_dir_all(&folder);
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn start(folder: &Path) -> Vec<Peer> {
    let socket = |name: &str| folder.join(format!("{name}.sock"));
    let at = |name: &str| socket(name).display().to_string();
    let mut peers = Vec::new();
    let mut add = |name, about: &str, command: &mut Command| {
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        match child {
            Ok(child) => {
                let mut peer = Peer { name, about: about.to_owned(), child, socket: socket(name) };
                while UnixStream::connect(&peer.socket).is_err() {
                    if let Ok(Some(status)) = peer.child.try_wait() {
                        println!("{name:<9} left out: it ended ({status})");
                        return;
                    }
                    std::thread::yield_now();
                }
                peers.push(peer);
            }
            Err(error) => println!("{name:<9} left out: {error}"),
        }
    };
    let ours = concat!("flashlab ", env!("CARGO_PKG_VERSION"), ", memory:size=512M");
    let mut command = Command::new(env!("CARGO_BIN_EXE_flashlab"));
    add("ours", ours, command.args(["serve", "memory:size=512M", "--unix", &at("ours")]));
    let about = format!("{}, memory plugin, 16 threads (its default, and its best here)", version("nbdkit"));
    add("nbdkit", &about, Command::new("nbdkit").args(["-f", "-U", &at("nbdkit"), "memory", SIZE]));
    // qemu-storage-daemon runs without an iothread: with one, it aborts when a client disconnects.
    let qsd = |name: &str, device: &str| {
        let listen = format!("addr.type=unix,addr.path={},max-connections=0", at(name));
        let mut command = Command::new("qemu-storage-daemon");
        command.args(["--blockdev", device, "--nbd-server", &listen]);
        command.args(["--export", "type=nbd,id=e,node-name=n,name=,writable=on"]);
        command
    };
    let version = version("qemu-storage-daemon");
    let file = folder.join("qsd.img");
    let settings = memory_file(&file);
    let about = format!("{version}, a file in {}, {settings}, no iothread", folder.display());
    let device =
        format!("driver=file,node-name=n,discard=unmap,locking=off,{settings},filename={}", file.display());
    add("qsd", &about, &mut qsd("qsd", &device));
    let about =
        format!("{version}, null-co, no iothread: stores nothing; its reads return the contents of a buffer");
    let device = format!("driver=null-co,node-name=n,size={SIZE_BYTES},read-zeroes=off");
    add("qsd-null", &about, &mut qsd("qsd-null", &device));
    peers
}

/// Creates the file that serves as qemu-storage-daemon's memory device, since the daemon has no driver for plain
/// memory. Returns the fastest settings for the file. Direct I/O with Linux's native AIO is half as fast again as I/O
/// through the page cache, for which each request goes to another thread. tmpfs supports direct I/O from Linux 6.6 on;
/// on older kernels io_uring is the next best.
fn memory_file(path: &Path) -> &'static str {
    let made = fs::File::create(path).and_then(|file| file.set_len(SIZE_BYTES.parse().expect("a number")));
    made.expect("the folder for temporary files has room");
    let direct = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::DIRECT;
    match rustix::fs::open(path, direct, rustix::fs::Mode::empty()) {
        Ok(_) => "aio=native,cache.direct=on",
        Err(_) => "aio=io_uring",
    }
}

fn version(program: &str) -> String {
    let output = Command::new(program).arg("--version").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.lines().next().unwrap_or(program).trim().to_owned()
}

/// Runs `flashlab load` on a server and returns its JSON.
fn load(peer: &Peer, options: &[&str]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flashlab"));
    command.args(["load", &peer.uri(), "--size=512m", "--output-format=json"]).args(options);
    let output = command.stderr(Stdio::inherit()).output().expect("the program is built");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{}: {error}", peer.name))
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Values by row and server, in the order in which they were measured.
#[derive(Default)]
struct Runs(BTreeMap<(String, &'static str), Vec<f64>>);

impl Runs {
    fn add(&mut self, row: &str, name: &'static str, value: f64) {
        self.0.entry((row.to_owned(), name)).or_default().push(value);
    }
    fn median(&self, row: &str, name: &'static str) -> f64 {
        median(&mut self.0.get(&(row.to_owned(), name)).cloned().unwrap_or_default())
    }
}

fn random(peers: &[Peer], milliseconds: u32, repeats: u32) {
    let (mut iops, mut calls, mut cpu) = (Runs::default(), Runs::default(), Runs::default());
    let row = |rw: &str, (depth, connections, one): (u32, u32, bool)| {
        format!("{rw:<9} {depth} x {connections}{}", if one { ", one processor" } else { "" })
    };
    let all = sched_getaffinity(None).expect("a process knows where it runs");
    let mut one = CpuSet::new();
    one.set((0..CpuSet::MAX_CPU).find(|n| all.is_set(*n)).expect("it runs somewhere"));
    for repeat in 0..repeats as usize {
        for rw in ["randread", "randwrite"] {
            for shape in SHAPES {
                let options = [
                    format!("--rw={rw}"),
                    format!("--iodepth={}", shape.0),
                    format!("--connections={}", shape.1),
                    format!("--runtime={milliseconds}ms"),
                ];
                let processors = if shape.2 { &one } else { &all };
                // The client inherits this process's affinity.
                sched_setaffinity(None, processors)
                    .expect("a process may give processors up, and take them back");
                peers.iter().for_each(|peer| peer.pin_to(processors));
                // The first server of a round changes from repeat to repeat.
                for n in 0..peers.len() {
                    let peer = &peers[(n + repeat) % peers.len()];
                    let before = peer.ticks();
                    let run = load(peer, &options.each_ref().map(String::as_str));
                    let number = |key: &str| run[key].as_f64().unwrap_or(f64::NAN);
                    let server = (peer.ticks() - before) as f64 / 100.0;
                    let row = row(rw, shape);
                    iops.add(&row, peer.name, number("iops") / 1e3);
                    calls.add(&row, peer.name, number("system_calls_per_million") / 1e3);
                    cpu.add(&row, peer.name, server * 1e6 / number("total_ios"));
                }
            }
        }
    }
    sched_setaffinity(None, &all).expect("a process may take its processors back");
    peers.iter().for_each(|peer| peer.pin_to(&all));
    println!("4 KiB at random, iodepth x connections; kIOPS, and seconds of server CPU per million requests");
    let names = ["ours", "nbdkit", "qsd", "qsd-null"];
    let head = names.map(|name| format!("{name:>14}")).concat();
    println!("{:<32}{head}{:>9}{:>7}{:>11}", "", "/nbdkit", "/qsd", "/qsd-null");
    for rw in ["randread", "randwrite"] {
        for shape in SHAPES {
            let row = row(rw, shape);
            let mut line = format!("{row:<32}");
            for name in names {
                let cell = format!("{:.0} ({:.2})", iops.median(&row, name), cpu.median(&row, name));
                write!(line, "{cell:>14}").expect("a string takes all");
            }
            let ratio = |name| iops.median(&row, "ours") / iops.median(&row, name);
            println!("{line}{:>9.2}{:>7.2}{:>11.2}", ratio("nbdkit"), ratio("qsd"), ratio("qsd-null"));
        }
        let [free, kept, ..] = SHAPES.map(|shape| row(rw, shape));
        let best = |name| iops.median(&free, name).max(iops.median(&kept, name));
        let ratio = |name| best("ours") / best(name);
        let line = names.map(|name| format!("{:>14.0}", best(name))).concat();
        println!(
            "{:<32}{line}{:>9.2}{:>7.2}{:>11.2}",
            format!("{rw:<9} 32 x 1, each at its best"),
            ratio("nbdkit"),
            ratio("qsd"),
            ratio("qsd-null")
        );
    }
    println!(
        "wanted: /nbdkit 2.5 on one connection, 3 on two and four; /qsd 7, for writes on one connection 5 (of memory devices: \
         qsd-null stores nothing, and is not one)\n"
    );
}

/// Measures the CPU seconds per GiB of server and client together.
fn bytes(peers: &[Peer], milliseconds: u32, repeats: u32) {
    let Some(ours) = peers.iter().find(|peer| peer.name == "ours") else { return };
    let mut runs = Runs::default();
    for _ in 0..repeats {
        for rw in ["read", "write"] {
            let before = ours.ticks();
            let runtime = format!("--runtime={milliseconds}ms");
            let run = load(ours, &[&format!("--rw={rw}"), "--bs=64k", "--iodepth=8", &runtime]);
            let cpu =
                run["cpu_seconds"].as_f64().unwrap_or(f64::NAN) + (ours.ticks() - before) as f64 / 100.0;
            let gib = run[rw]["io_bytes"].as_f64().unwrap_or(f64::NAN) / f64::from(1 << 30);
            runs.add(rw, "ours", cpu / gib);
        }
        runs.add("socket", "plain", plain_copy());
    }
    let plain = runs.median("socket", "plain");
    println!("64 KiB, iodepth 8, one connection: seconds of CPU per GiB, both sides");
    println!("plain copy over a Unix socket  {plain:.3}");
    for rw in ["read", "write"] {
        let ours = runs.median(rw, "ours");
        println!("{rw:<31}{ours:.3}, {:.2} times that (wanted: 1.5 at most)", ours / plain);
    }
    println!();
}

/// Measures the least work of a server and its client, in CPU seconds per GiB: one thread sends 64 KiB at a time from a
/// store of the devices' size, and another receives them into one buffer.
fn plain_copy() -> f64 {
    /// Number of 64 KiB chunks in a GiB.
    const CHUNKS: usize = 1 << 14;
    let (mut to, mut from) = UnixStream::pair().expect("there are descriptors");
    let (send, mut receive) = (vec![1u8; 512 << 20], vec![0; 64 << 10]);
    let cpu = || {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
    };
    let before = cpu();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for chunk in send.chunks(64 << 10).cycle().take(CHUNKS) {
                to.write_all(chunk).expect("the other end reads");
            }
        });
        for _ in 0..CHUNKS {
            from.read_exact(&mut receive).expect("the other end sends");
        }
    });
    cpu() - before
}

fn fio(peers: &[Peer], milliseconds: u32, repeats: u32) {
    let engines = Command::new("fio").arg("--enghelp").output();
    if !engines.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("nbd")) {
        println!("fio: left out, not installed or without its nbd engine");
        return;
    }
    let mut runs = Runs::default();
    for repeat in 0..repeats as usize {
        for rw in ["randread", "randwrite"] {
            for n in 0..peers.len() {
                let peer = &peers[(n + repeat) % peers.len()];
                let output = Command::new("fio")
                    .args([
                        "--name=a",
                        "--ioengine=nbd",
                        "--bs=4k",
                        "--iodepth=32",
                        "--time_based",
                        "--size=512m",
                    ])
                    .args([
                        format!("--rw={rw}"),
                        format!("--uri={}", peer.uri()),
                        format!("--runtime={milliseconds}ms"),
                    ])
                    .arg("--output-format=json")
                    .output()
                    .expect("fio ran a moment ago");
                let text = String::from_utf8_lossy(&output.stdout);
                let json: Value =
                    text.find('{').and_then(|at| serde_json::from_str(&text[at..]).ok()).unwrap_or_default();
                let direction = &json["jobs"][0][rw.trim_start_matches("rand")];
                runs.add(rw, peer.name, direction["iops"].as_f64().unwrap_or(f64::NAN) / 1e3);
            }
        }
    }
    println!("fio's own nbd engine, 4 KiB, iodepth 32, one job; kIOPS");
    for rw in ["randread", "randwrite"] {
        let [ours, nbdkit, qsd, null] =
            ["ours", "nbdkit", "qsd", "qsd-null"].map(|name| runs.median(rw, name));
        let ratio = ours / nbdkit;
        println!("{rw:<18}{ours:>14.1}{nbdkit:>14.1}{qsd:>14.1}{null:>14.1}{ratio:>9.2} (wanted: 0.97)");
    }
}
