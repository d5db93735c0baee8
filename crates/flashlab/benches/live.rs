//! Comparison of a served card with the same card in simulated time: the same fio job runs through real fio and NBD,
//! and through `flashlab bench`. The job also runs on `memory`, which shows the time that fio, NBD and the machine add.
//!
//! `cargo bench -p flashlab --bench live [-- REPEATS]` prints medians of interleaved repeats (3 by default). The two sides
//! exclude the time of the card's host. The allowed deviation of the mean latency of 4 KiB patterns is 3 % plus the
//! mean latency of `memory`; the bandwidth of 1 MiB patterns may deviate by 3 %. As root, the server runs with
//! `--realtime`. The benchmark measures a machine, so it prints figures and never fails because of them.
//!
//! Two further measurements show the lateness of the machine itself. In the first, the same job runs on a device with a
//! constant latency, the card's mean, so that none of the lateness comes from the card's model. In the second, flashlab
//! and nbdkit's delay filter each serve a delay of 1 ms.

use serde_json::Value;
use std::process::{Command, Output};

const CARD: &str = "sd/kingston";
/// Keys that remove the time of the simulated host, since a served card has a real host.
const NO_HOST: &str = ":host.t_request=0us,host.t_command=0us,host.t_block=0us";
const PREPARE: &[&str] = &["--name=prepare", "--rw=write", "--bs=1m", "--size=64m"];
const PATTERNS: [(&str, &[&str]); 5] = [
    ("randread 4k", &["--rw=randread", "--bs=4k", "--number_ios=2000"]),
    ("randwrite 4k", &["--rw=randwrite", "--bs=4k", "--number_ios=2000"]),
    ("randread 4k x8", &["--rw=randread", "--bs=4k", "--number_ios=2000", "--iodepth=8"]),
    ("read 1m", &["--rw=read", "--bs=1m"]),
    ("write 1m", &["--rw=write", "--bs=1m"]),
];

/// Figures of a run: requests and MiB per second, mean and median latency in microseconds.
#[derive(Clone, Copy)]
struct Figures {
    iops: f64,
    mib: f64,
    latency: f64,
    median: f64,
}

fn main() {
    let repeats = std::env::args().skip(1).find_map(|text| text.parse().ok()).unwrap_or(3usize);
    let version = Command::new("fio").arg("--version").output();
    let Ok(version) = version.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()) else {
        println!("fio is not installed: nothing to compare");
        return;
    };
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    println!("{version}, ioengine=nbd; {processors} processors; medians of {repeats}\n");
    println!(
        "4 KiB: mean latency in us (medians in brackets). `constant` always takes the card's simulated mean."
    );
    println!(
        "pattern           simulated            live        constant   memory  late by  constant  allowed   iops"
    );
    for (name, pattern) in PATTERNS {
        let simulated = simulated(pattern);
        let constant =
            format!("memory:size=64M+delay:read={0}ns,write={0}ns", (simulated.latency * 1e3) as u64);
        let (mut live, mut memory, mut constants) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..repeats {
            live.push(served(CARD, pattern));
            memory.push(served("memory:size=64M", pattern));
            if !name.ends_with("1m") {
                constants.push(served(&constant, pattern));
            }
        }
        let (live, memory) = (median(live), median(memory));
        if name.ends_with("1m") {
            let ratio = live.mib / simulated.mib;
            println!(
                "{name:<15} {:8.2} MiB/s simulated {:8.2} MiB/s live {:8.0} MiB/s memory; live/simulated {ratio:.3} \
                 (allowed: 0.97 to 1.03)",
                simulated.mib, live.mib, memory.mib
            );
            continue;
        }
        let constant = median(constants);
        let with_median = |of: &Figures| format!("{:.1} ({:.1})", of.latency, of.median);
        println!(
            "{name:<15} {:>11}{:>16}{:>16}{:9.1}{:9.1}{:10.1}{:9.1}  {:.3}",
            format!("{:.1}", simulated.latency),
            with_median(&live),
            with_median(&constant),
            memory.latency,
            live.latency - simulated.latency,
            constant.latency - simulated.latency,
            0.03 * simulated.latency + memory.latency,
            live.iops / simulated.iops,
        );
    }
    peers(repeats);
}

/// Measures reads that take 1 ms, from our server and from nbdkit.
fn peers(repeats: usize) {
    let fio = format!("fio --ioengine=nbd --uri=$uri {}", job(PATTERNS[0].1).join(" "));
    let nbdkit = || {
        Command::new("nbdkit").args(["--filter=delay", "memory", "64M", "rdelay=1ms", "--run", &fio]).output()
    };
    if nbdkit().is_err() {
        println!("nbdkit is not installed: its delay is left out");
        return;
    }
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..repeats {
        ours.push(served("memory:size=64M+delay:read=1ms", PATTERNS[0].1));
        theirs.push(figures(&nbdkit().expect("nbdkit ran a moment ago").stdout));
    }
    println!("\nreads of 4 KiB that take 1 ms are late by, in us, mean (median):");
    for (name, runs) in [("ours", ours), ("nbdkit", theirs)] {
        let run = median(runs);
        println!("{name:<15} {:.1} ({:.1})", run.latency - 1e3, run.median - 1e3);
    }
}

fn flashlab(arguments: &[&str]) -> Output {
    let output =
        Command::new(env!("CARGO_BIN_EXE_flashlab")).args(arguments).output().expect("the binary is built");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn job<'a>(pattern: &'a [&'a str]) -> Vec<&'a str> {
    [&["--direct=1"], PREPARE, &["--name=a", "--stonewall", "--size=64m"], pattern, &["--output-format=json"]]
        .concat()
}

fn simulated(pattern: &[&str]) -> Figures {
    let device = format!("{CARD}{NO_HOST}");
    // libaio keeps as many requests in flight as fio's nbd engine.
    let words = [&["bench", &device, "--ioengine=libaio"][..], &job(pattern)].concat();
    figures(&flashlab(&words).stdout)
}

fn served(device: &str, pattern: &[&str]) -> Figures {
    let command = format!("fio --ioengine=nbd --uri=$uri {}", job(pattern).join(" "));
    let words = ["serve", device, "--run", &command, "--realtime"];
    // Only root may use `--realtime`.
    let permitted = rustix::process::geteuid().is_root();
    figures(&flashlab(&words[..words.len() - usize::from(!permitted)]).stdout)
}

/// Returns the figures of the second job, in the direction that it used. Skips the message about its connection that
/// fio prints before the JSON.
fn figures(stdout: &[u8]) -> Figures {
    let text = String::from_utf8_lossy(stdout);
    let json = text.find("\n{").map_or(&*text, |at| &text[at..]);
    let json: Value = serde_json::from_str(json).unwrap_or_else(|error| panic!("{error} in {text}"));
    let ran = |way: &&Value| way["total_ios"].as_u64() > Some(0);
    let job = &json["jobs"][1];
    let way = [&job["read"], &job["write"]].into_iter().find(ran).expect("one direction ran");
    let number = |value: &Value| value.as_f64().expect("a number");
    Figures {
        iops: number(&way["iops"]),
        mib: number(&way["bw_bytes"]) / f64::from(1 << 20),
        latency: number(&way["lat_ns"]["mean"]) / 1e3,
        median: number(&way["clat_ns"]["percentile"]["50.000000"]) / 1e3,
    }
}

/// Returns the run with the median latency.
fn median(mut runs: Vec<Figures>) -> Figures {
    runs.sort_by(|a, b| a.latency.total_cmp(&b.latency));
    runs[runs.len() / 2]
}
