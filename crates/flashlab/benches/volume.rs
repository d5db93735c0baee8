//! Comparison of volumes with qcow2 and LUKS in one run: the same batched client on one connection, with files in memory.
//!
//! Peers are qemu-storage-daemon with qcow2, the same with LUKS inside qcow2, and nbdkit's file plugin with
//! its luks filter; `memory` is flashlab's own server without a volume. A repeat fills each device in
//! sequence and measures it, and fills it at random and measures it again. All measurements are interleaved,
//! and medians are compared. As in the benchmark `nbd`, each server is measured with all processors and with
//! server and client on one processor, and the faster result counts.
//!
//! If a goal is missed, the benchmark prints the parts of a request's time: server and client without a volume, file
//! I/O of the same size, and checksum, cipher and compression measured in a loop of their own. The remaining time
//! belongs to the engine and to other programs on the machine.
//!
//! `cargo bench -p flashlab --features full --bench volume [-- MILLISECONDS REPEATS]` (250 ms and 5 repeats by default)
//! needs 4 GiB in /dev/shm. Peers that are not installed are skipped by name.

mod peers;

use flashlab_volume::encode::{Checksum, Compressor, Encoding, Identity, decode, encode};
use flashlab_volume::keys::{Cipher, Keyring, MasterKey};
use peers::{Peer, Peers, Placement, Runs, arguments, file_settings, version};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Size of each device: a volume has members of twice the size.
const AREA: &str = "256MiB";
const AREA_BYTES: u64 = 256 << 20;
const MEMBER: &str = "512MiB";
const PASSPHRASE: &str = "correct horse battery staple";
/// Percentage of zeroes in the data for LZ4.
const ZEROES: usize = 50;
/// Size of an extent, the unit of compression.
const EXTENT: usize = 64 << 10;

/// The servers, in the order of the columns.
const NAMES: [&str; 9] =
    ["qcow2", "qcow2-luks", "nbdkit-luks", "memory", "crc32c", "chacha20", "aes-256", "lz4", "replicas-2"];
/// Patterns of requests: name, fio's `rw`, size of a request and queue depth.
const PATTERNS: [Pattern; 4] = [
    Pattern { name: "read 1 MiB", rw: "read", bytes: 1 << 20, depth: 4 },
    Pattern { name: "randread 4 KiB", rw: "randread", bytes: 4096, depth: 32 },
    Pattern { name: "write 1 MiB", rw: "write", bytes: 1 << 20, depth: 4 },
    Pattern { name: "randwrite 4 KiB", rw: "randwrite", bytes: 4096, depth: 32 },
];
const FILLS: [&str; 2] = ["sequential", "random"];
/// Server, peer, and the wanted ratio of their requests per second at 4 KiB and at 1 MiB.
const GOALS: [(&str, &str, f64, f64); 3] = [
    ("crc32c", "qcow2", 3.0, 1.5),
    ("chacha20", "nbdkit-luks", 2.0, 1.5),
    ("aes-256", "nbdkit-luks", 2.5, 1.5),
];

struct Pattern {
    name: &'static str,
    rw: &'static str,
    bytes: usize,
    depth: u32,
}

impl Pattern {
    fn row(&self, fill: &str) -> String {
        format!("{} fill, {}", fill, self.name)
    }
    fn is_read(&self) -> bool {
        self.rw.ends_with("read")
    }
}

/// Results of all runs.
#[derive(Default)]
struct Results {
    /// Requests per second, by row and placement.
    iops: [Runs; 2],
    /// Clock ticks of the server's processor time, and requests, over all runs of a row.
    cpu: BTreeMap<(String, &'static str), (u64, f64)>,
    /// Times of the parts of a request in microseconds.
    parts: Runs,
}

impl Results {
    /// Returns the requests per second of a server at its best.
    fn best(&self, row: &str, name: &'static str) -> f64 {
        let [all, one] = &self.iops;
        all.median(row, name).max(one.median(row, name))
    }
    /// Returns the microseconds of the server's processor time for each request.
    fn cpu(&self, row: &str, name: &'static str) -> f64 {
        self.cpu
            .get(&(row.to_owned(), name))
            .map_or(f64::NAN, |(ticks, requests)| *ticks as f64 * 1e4 / requests)
    }
}

fn main() {
    let (milliseconds, repeats) = arguments(250, 5);
    let peers = start();
    for peer in &peers.servers {
        println!("{:<12} {}", peer.name, peer.about);
    }
    println!();
    let (mut results, placement) = (Results::default(), Placement::new());
    for repeat in 0..repeats {
        for fill in FILLS {
            peers.each(repeat, |peer| self::fill(peer, fill));
            measure(&peers, &placement, (fill, milliseconds, repeat), &mut results);
        }
        parts(&peers, &mut results.parts);
    }
    placement.apply(&peers, false);
    table(&results);
    goals(&results);
}

fn start() -> Peers {
    let mut peers = Peers::new();
    let secret = peers.folder.join("secret");
    fs::write(&secret, PASSPHRASE).expect("the folder has room");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).expect("the file is ours");
    add_qemu(&mut peers, "qcow2", &[]);
    add_qemu(&mut peers, "qcow2-luks", &["encrypt.format=luks"]);
    add_nbdkit(&mut peers);
    let memory = format!("memory:size={AREA}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_flashlab"));
    command.args(["serve", &memory, "--unix", &peers.socket("memory")]);
    peers.add("memory", "flashlab, without a volume", &mut command);
    let key = format!("--passphrase-file={}", secret.display());
    add_volume(&mut peers, "crc32c", 1, &[]);
    add_volume(&mut peers, "chacha20", 1, &["--encrypt", &key]);
    add_volume(&mut peers, "aes-256", 1, &["--encrypt", "--cipher=aes-256-gcm", &key]);
    add_volume(&mut peers, "lz4", 1, &["--compression=lz4"]);
    add_volume(&mut peers, "replicas-2", 2, &["--replicas=2"]);
    peers
}

/// Runs a command to its end, without output. Returns false, with a message, if it fails.
fn run(name: &str, command: &mut Command) -> bool {
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status();
    match status {
        Ok(status) if status.success() => return true,
        Ok(status) => println!("{name:<12} left out: {:?} ended ({status})", command.get_program()),
        Err(error) => println!("{name:<12} left out: {:?}: {error}", command.get_program()),
    }
    false
}

/// Adds qemu-storage-daemon with a new qcow2 image. `options` turn on its encryption.
fn add_qemu(peers: &mut Peers, name: &'static str, options: &[&str]) {
    let file = peers.folder.join(format!("{name}.img")).display().to_string();
    let secret = format!("secret,id=s,data={PASSPHRASE}");
    let mut image = Command::new("qemu-img");
    image.args(["create", "-q", "-f", "qcow2", "--object", &secret]);
    for option in options {
        image.args(["-o", option, "-o", "encrypt.key-secret=s,encrypt.iter-time=500"]);
    }
    if !run(name, image.args([&file, &AREA_BYTES.to_string()])) {
        return;
    }
    let settings = file_settings(file.as_ref());
    let device = format!("driver=file,node-name=f,locking=off,{settings},filename={file}");
    let encryption = if options.is_empty() { "" } else { ",encrypt.format=luks,encrypt.key-secret=s" };
    let image = format!("driver=qcow2,node-name=n,file=f{encryption}");
    let options = ["--object", &secret, "--blockdev", &device, "--blockdev", &image];
    let about = format!("{}, {settings}", version("qemu-storage-daemon"));
    let mut command = peers.storage_daemon(name, &options);
    peers.add(name, &about, &mut command);
}

fn add_nbdkit(peers: &mut Peers) {
    let name = "nbdkit-luks";
    let file = peers.folder.join("nbdkit.img").display().to_string();
    let secret = format!("secret,id=s,data={PASSPHRASE}");
    let mut image = Command::new("qemu-img");
    image.args(["create", "-q", "-f", "luks", "--object", &secret, "-o", "key-secret=s,iter-time=500"]);
    if !run(name, image.args([&file, &AREA_BYTES.to_string()])) {
        return;
    }
    let socket = peers.socket(name);
    let passphrase = format!("passphrase=+{}", peers.folder.join("secret").display());
    let mut command = Command::new("nbdkit");
    command.args(["-f", "-U", &socket, "--filter=luks", "file", &file, &passphrase]);
    let about = format!("{}, file plugin, luks filter (XTS, without integrity)", version("nbdkit"));
    peers.add(name, &about, &mut command);
}

fn add_volume(peers: &mut Peers, name: &'static str, members: usize, options: &[&str]) {
    let program = env!("CARGO_BIN_EXE_flashlab");
    let path = |n: usize| peers.folder.join(format!("{name}-{n}.img")).display().to_string();
    let paths: Vec<String> = (0..members).map(path).collect();
    let mut format = Command::new(program);
    format.args(["volume", "format", "--size", AREA]).args(options);
    format.args(paths.iter().map(|path| format!("file:{path},size={MEMBER}")));
    if !run(name, &mut format) {
        return;
    }
    // `serve` needs the passphrase file that `volume format` received.
    let key = options.iter().find_map(|option| option.strip_prefix("--passphrase-file="));
    let key = key.map_or(String::new(), |file| format!(",passphrase-file={file}"));
    let volume = format!("volume:{}{key}", paths.join(":"));
    let mut command = Command::new(program);
    command.args(["serve", &volume, "--unix", &peers.socket(name)]);
    let about = format!("flashlab {}, volume on {members} x {MEMBER}", env!("CARGO_PKG_VERSION"));
    peers.add(name, &about, &mut command);
}

/// Runs the client on the whole device. The volume with LZ4 receives compressible data.
fn load(peer: &Peer, options: &[&str]) -> serde_json::Value {
    let zeroes = format!("--buffer_compress_percentage={}", if peer.name == "lz4" { ZEROES } else { 0 });
    let size = format!("--size={AREA_BYTES}");
    peer.load(&[&[&*size, &*zeroes], options].concat())
}

/// Writes the whole device in sequence and then, for `random`, once more at random offsets.
fn fill(peer: &Peer, order: &str) {
    load(peer, &["--rw=write", "--bs=1m", "--iodepth=4"]);
    if order == "random" {
        load(peer, &["--rw=randwrite", "--bs=4k", "--iodepth=32"]);
    }
}

fn measure(
    peers: &Peers,
    placement: &Placement,
    (fill, milliseconds, repeat): (&str, u32, usize),
    results: &mut Results,
) {
    for pattern in &PATTERNS {
        let options = [
            format!("--rw={}", pattern.rw),
            format!("--bs={}", pattern.bytes),
            format!("--iodepth={}", pattern.depth),
            format!("--runtime={milliseconds}ms"),
        ];
        let row = pattern.row(fill);
        for one in [false, true] {
            placement.apply(peers, one);
            peers.each(repeat, |peer| {
                let before = peer.ticks();
                let run = load(peer, &options.each_ref().map(String::as_str));
                let number = |key: &str| run[key].as_f64().unwrap_or(f64::NAN);
                results.iops[usize::from(one)].add(&row, peer.name, number("iops"));
                if let Some(requests) = run["total_ios"].as_f64() {
                    let cpu = results.cpu.entry((row.clone(), peer.name)).or_default();
                    *cpu = (cpu.0 + peer.ticks() - before, cpu.1 + requests);
                }
            });
        }
    }
    placement.apply(peers, false);
}

/// Returns the microseconds that a call takes: the best of ten averages, each over about 2 ms.
#[allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]
fn time(mut call: impl FnMut()) -> f64 {
    let mut average = || {
        let (began, mut calls) = (Instant::now(), 0u32);
        while calls == 0 || began.elapsed().as_millis() < 2 {
            (0..4).for_each(|_| call());
            calls += 4;
        }
        began.elapsed().as_secs_f64() * 1e6 / f64::from(calls)
    };
    (0..10).map(|_| average()).fold(f64::INFINITY, f64::min)
}

/// Measures the parts of requests in this process: file I/O, and the encoding and decoding of extents.
fn parts(peers: &Peers, parts: &mut Runs) {
    let path = peers.folder.join("part.img");
    let file = fs::File::options().read(true).write(true).create(true).truncate(false).open(&path);
    let file = file.expect("the folder has room");
    let (area, mut place) = (64u64 << 20, 0u64);
    let mut buffer = compressible(1 << 20);
    (0..64).for_each(|n| file.write_all_at(&buffer, n << 20).expect("the folder has room"));
    for pattern in &PATTERNS {
        let bytes = pattern.bytes;
        let taken = time(|| {
            // A step of the golden ratio visits the file in a scattered order.
            place = (place + (area as f64 * 0.618) as u64) / bytes as u64 * bytes as u64 % (area - (1 << 20));
            let part = &mut buffer[..bytes];
            match pattern.is_read() {
                true => file.read_exact_at(part, place),
                false => file.write_all_at(part, place),
            }
            .expect("the file is there");
        });
        parts.add(pattern.name, "file", taken);
        for name in ["crc32c", "chacha20", "aes-256", "lz4"] {
            parts.add(pattern.name, name, codec(name, pattern));
        }
    }
    lz4_flex_rates(parts);
}

/// Returns the microseconds that encoding or decoding takes for a request.
fn codec(name: &str, pattern: &Pattern) -> f64 {
    let keyring = |cipher| {
        let mut keyring = Keyring::new(MasterKey::from_random(&mut [3; 32]), cipher);
        keyring.add(1, &[1; 16]);
        Some(keyring)
    };
    let how = Encoding {
        compressor: if name == "lz4" { Compressor::Lz4 } else { Compressor::None },
        checksum: Checksum::Crc32c,
        checksum_unit: 4096,
        block: 4096,
        keyring: match name {
            "chacha20" => keyring(Cipher::ChaCha20Poly1305),
            "aes-256" => keyring(Cipher::Aes256Gcm),
            _ => None,
        },
    };
    let length = pattern.bytes.min(EXTENT);
    let data = compressible(length);
    let identity = Identity { volume: [1; 16], address: 0, length: length as u32, epoch: 1, write: 1 };
    let count = (pattern.bytes / length) as f64;
    if !pattern.is_read() {
        let data = flashlab_block::Payload::from(data);
        return count
            * time(|| {
                std::hint::black_box(encode(data.clone(), &identity, &how));
            });
    }
    let encoded = encode(data.into(), &identity, &how);
    count
        * time(|| {
            let stored = encoded.bytes.to_vec();
            let decoded = decode(stored, encoded.compression, &encoded.check, &identity, &how);
            std::hint::black_box(decoded.expect("the data was encoded"));
        })
}

/// Returns data like that of `flashlab load`: random bytes with zeroes at the end of each 512 bytes.
fn compressible(length: usize) -> Vec<u8> {
    let mut state = 1u64;
    let mut data: Vec<u8> = (0..length)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        })
        .collect();
    data.chunks_mut(512).for_each(|chunk| {
        let random = chunk.len() * (100 - ZEROES) / 100;
        chunk[random..].fill(0);
    });
    data
}

/// Measures the rates of lz4_flex itself, on extents in preallocated buffers.
fn lz4_flex_rates(parts: &mut Runs) {
    let data = compressible(EXTENT);
    let mut compressed = vec![0; lz4_flex::block::get_maximum_output_size(EXTENT)];
    let mut length = 0;
    let taken = time(|| {
        length = lz4_flex::block::compress_into(&data, &mut compressed).expect("the buffer is large enough");
    });
    parts.add("write 1 MiB", "lz4_flex", taken * 16.0);
    let mut plain = vec![0; EXTENT];
    let taken = time(|| {
        let written = lz4_flex::block::decompress_into(&compressed[..length], &mut plain);
        assert_eq!(written.expect("the data was compressed"), EXTENT);
    });
    parts.add("read 1 MiB", "lz4_flex", taken * 16.0);
}

/// Formats requests per second: thousands at 4 KiB, GiB/s at 1 MiB.
fn rate(pattern: &Pattern, iops: f64) -> String {
    match pattern.bytes {
        4096 => format!("{:.1}", iops / 1e3),
        bytes => format!("{:.2}", iops * bytes as f64 / f64::from(1 << 30)),
    }
}

fn table(results: &Results) {
    println!("Requests at the better placement: kIOPS at 4 KiB (iodepth 32), GiB/s at 1 MiB (iodepth 4);");
    println!("in brackets, microseconds of server CPU for each request");
    let head = NAMES.map(|name| format!("{name:>15}")).concat();
    println!("{:<34}{head}", "");
    for fill in FILLS {
        for pattern in &PATTERNS {
            let row = pattern.row(fill);
            let cell = |name| {
                let (rate, cpu) = (rate(pattern, results.best(&row, name)), results.cpu(&row, name));
                format!("{:>15}", format!("{rate} ({cpu:.1})"))
            };
            println!("{row:<34}{}", NAMES.map(cell).concat());
        }
    }
    println!();
}

fn goals(results: &Results) {
    let verdict = |met: bool| if met { "met" } else { "MISSED" };
    for fill in FILLS {
        for pattern in &PATTERNS {
            let row = pattern.row(fill);
            for (name, peer, small, large) in GOALS {
                let wanted = if pattern.bytes == 4096 { small } else { large };
                let (ours, theirs) = (results.best(&row, name), results.best(&row, peer));
                if ours.is_nan() || theirs.is_nan() {
                    continue;
                }
                let (ratio, what) = (ours / theirs, format!("{name} / {peer}"));
                println!(
                    "{row:<34} {what:<24} {ratio:>5.2}, wanted {wanted:<4} {}",
                    verdict(ratio >= wanted)
                );
                if ratio < wanted {
                    bound(results, pattern, &row, name, 1e6 / (theirs * wanted));
                }
            }
        }
    }
    for pattern in PATTERNS.iter().filter(|pattern| pattern.bytes > 4096) {
        let own = 1e6 / results.parts.median(pattern.name, "lz4_flex");
        let row = pattern.row("sequential");
        let ratio = results.best(&row, "lz4") / own;
        let what = format!("lz4 / lz4_flex ({} GiB/s)", rate(pattern, own));
        println!("{row:<34} {what:<24} {ratio:>5.2}, wanted 0.7  {}", verdict(ratio >= 0.7));
        if ratio < 0.7 {
            bound(results, pattern, &row, "lz4", 1e6 / (own * 0.7));
        }
    }
    for pattern in PATTERNS.iter().filter(|pattern| !pattern.is_read()) {
        let row = pattern.row("sequential");
        let ratio = results.cpu(&row, "replicas-2") / results.cpu(&row, "crc32c");
        let what = "replicas-2 / crc32c, CPU";
        println!("{row:<34} {what:<24} {ratio:>5.2}, wanted 1.8 at most  {}", verdict(ratio <= 1.8));
    }
}

/// Prints the parts of a request's time, to show why a goal is missed.
fn bound(results: &Results, pattern: &Pattern, row: &str, name: &'static str, wanted: f64) {
    let total = 1e6 / results.best(row, name);
    let transport = 1e6 / results.best(row, "memory");
    let (file, codec) =
        (results.parts.median(pattern.name, "file"), results.parts.median(pattern.name, name));
    let engine = total - transport - file - codec;
    println!(
        "  {total:.1} us a request, wanted {wanted:.1}: transport and memory device {transport:.1}, file {file:.1}, codec \
         {codec:.1}, engine and other load {engine:.1}"
    );
}
