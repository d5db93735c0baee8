//! Comparison of our NBD server with other NBD servers in one run: random 4 KiB requests through the same batched
//! client, the cost per byte of 64 KiB requests compared with a plain socket, and fio's own nbd engine.
//!
//! All measurements are interleaved and medians are compared, so that other load on the machine affects all servers
//! alike. On one connection, server and client take turns, so the placement of their threads matters as much as the
//! server. Each server is therefore measured twice, with all processors and with server and client on one processor,
//! and the faster result counts.
//!
//! `cargo bench -p flashlab --bench nbd [-- MILLISECONDS REPEATS]` (500 ms and 9 repeats by default). On a shared
//! machine, many short runs are better than few long ones. Peers that are not installed are skipped by name.

mod peers;

use peers::{Peer, Peers, Placement, Runs, arguments, file_settings, version};
use serde_json::Value;
use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Command;

const SIZE: &str = "512M";
const SIZE_BYTES: u64 = 512 << 20;
/// Requests in flight on each connection, number of connections, and true if server and client run on one processor.
const SHAPES: [(u32, u32, bool); 4] = [(32, 1, false), (32, 1, true), (32, 2, false), (16, 4, false)];

fn main() {
    let (milliseconds, repeats) = arguments(500, 9);
    let peers = start();
    for peer in &peers.servers {
        println!("{:<12} {}", peer.name, peer.about);
        // Fills the device, so that no read hits unwritten blocks.
        load(peer, &["--rw=write", "--bs=1m", "--iodepth=4"]);
    }
    println!();
    random(&peers, milliseconds, repeats);
    bytes(&peers, milliseconds, repeats);
    fio(&peers, milliseconds, repeats);
}

/// Runs the client on the whole device.
fn load(peer: &Peer, options: &[&str]) -> Value {
    peer.load(&[&["--size=512m"], options].concat())
}

fn start() -> Peers {
    let mut peers = Peers::new();
    let ours = concat!("flashlab ", env!("CARGO_PKG_VERSION"), ", memory:size=512M");
    let mut command = Command::new(env!("CARGO_BIN_EXE_flashlab"));
    command.args(["serve", "memory:size=512M", "--unix", &peers.socket("ours")]);
    peers.add("ours", ours, &mut command);
    let about = format!("{}, memory plugin, 16 threads (its default, and its best here)", version("nbdkit"));
    let socket = peers.socket("nbdkit");
    peers.add("nbdkit", &about, Command::new("nbdkit").args(["-f", "-U", &socket, "memory", SIZE]));
    let version = version("qemu-storage-daemon");
    // The daemon has no driver for plain memory, so a file in tmpfs takes its place.
    let file = peers.folder.join("qsd.img");
    let made = fs::File::create(&file).and_then(|file| file.set_len(SIZE_BYTES));
    made.expect("the folder for temporary files has room");
    let settings = file_settings(&file);
    let about = format!("{version}, a file in {}, {settings}, no iothread", peers.folder.display());
    let device =
        format!("driver=file,node-name=n,discard=unmap,locking=off,{settings},filename={}", file.display());
    let mut command = peers.storage_daemon("qsd", &["--blockdev", &device]);
    peers.add("qsd", &about, &mut command);
    let about =
        format!("{version}, null-co, no iothread: stores nothing; its reads return the contents of a buffer");
    let device = format!("driver=null-co,node-name=n,size={SIZE_BYTES},read-zeroes=off");
    let mut command = peers.storage_daemon("qsd-null", &["--blockdev", &device]);
    peers.add("qsd-null", &about, &mut command);
    peers
}

fn random(peers: &Peers, milliseconds: u32, repeats: usize) {
    let (mut iops, mut calls, mut cpu) = (Runs::default(), Runs::default(), Runs::default());
    let row = |rw: &str, (depth, connections, one): (u32, u32, bool)| {
        format!("{rw:<9} {depth} x {connections}{}", if one { ", one processor" } else { "" })
    };
    let placement = Placement::new();
    for repeat in 0..repeats {
        for rw in ["randread", "randwrite"] {
            for shape in SHAPES {
                let options = [
                    format!("--rw={rw}"),
                    format!("--iodepth={}", shape.0),
                    format!("--connections={}", shape.1),
                    format!("--runtime={milliseconds}ms"),
                ];
                placement.apply(peers, shape.2);
                peers.each(repeat, |peer| {
                    let before = peer.ticks();
                    let run = load(peer, &options.each_ref().map(String::as_str));
                    let number = |key: &str| run[key].as_f64().unwrap_or(f64::NAN);
                    let server = (peer.ticks() - before) as f64 / 100.0;
                    let row = row(rw, shape);
                    iops.add(&row, peer.name, number("iops") / 1e3);
                    calls.add(&row, peer.name, number("system_calls_per_million") / 1e3);
                    cpu.add(&row, peer.name, server * 1e6 / number("total_ios"));
                });
            }
        }
    }
    placement.apply(peers, false);
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
        "wanted: /nbdkit 2.5 on one connection, 3 on two and four; /qsd 7, for writes on one connection 5 (compared \
         with memory devices; qsd-null is not one, since it stores nothing)\n"
    );
}

/// Measures the CPU seconds per GiB of server and client together.
fn bytes(peers: &Peers, milliseconds: u32, repeats: usize) {
    let Some(ours) = peers.servers.iter().find(|peer| peer.name == "ours") else { return };
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

fn fio(peers: &Peers, milliseconds: u32, repeats: usize) {
    let engines = Command::new("fio").arg("--enghelp").output();
    if !engines.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("nbd")) {
        println!("fio: left out, not installed or without its nbd engine");
        return;
    }
    let mut runs = Runs::default();
    for repeat in 0..repeats {
        for rw in ["randread", "randwrite"] {
            peers.each(repeat, |peer| {
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
            });
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
