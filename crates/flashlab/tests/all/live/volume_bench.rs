//! `bench` on volumes: in the times of simulated members, and on files, which have no timing.

use super::tools::{Folder, flashlab};
use super::volume::{formatted, secret, succeed};
use std::process::Output;

#[test]
fn a_bench_says_that_files_have_no_timing() {
    let folder = Folder::new("volume-bench");
    formatted(&folder, &[]);
    let job = ["--name=j", "--direct=1", "--rw=write", "--bs=4k", "--size=64k"];
    let output = flashlab(&[&["bench", "volume:a.img:b.img"], &job[..]].concat());
    let output = { output }.current_dir(&folder).output().expect("the binary is built");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("the members have no timing"), "{text}");
}

/// Formats an encrypted and compressed volume over a virtual stick of a Raspberry Pi 4, and runs jobs
/// that write and read on a copy of it for each setting. Returns the output of each run.
fn benches_on_a_stick(folder: &Folder, cipher: &str, settings: &[&str]) -> Vec<Output> {
    secret(folder, "pass", "correct horse\n", 0o600);
    let pool = "[[member]]\ndevice = \"usb/usb3-1:capacity=256MiB,state=stick.state\"\n";
    std::fs::write(folder.path("pool.toml"), pool).expect("a folder of the test");
    let encrypted = ["--encrypt", "--cipher", cipher, "--passphrase-file", "pass", "--compression", "lz4"];
    succeed(folder, &[&["format"], &encrypted[..], &["pool.toml"]].concat());
    let files = ["stick.state", "stick.state.bytes", "stick.state.sums"];
    let saved = files.map(|file| std::fs::read(folder.path(file)).expect("a file of the member"));
    let job = "--output-format=json --direct=1 --bs=16k --size=2m --iodepth=4 --ioengine=libaio --name=w --rw=randwrite \
               --name=r --stonewall --rw=randread";
    let bench = |setting: &&str| {
        for (file, bytes) in files.iter().zip(&saved) {
            std::fs::write(folder.path(file), bytes).expect("a folder of the test");
        }
        let device = format!("volume:pool.toml,passphrase-file=pass{setting}");
        let options = ["bench", "--compressibility=50", &device];
        let arguments: Vec<&str> = options.into_iter().chain(job.split_whitespace()).collect();
        flashlab(&arguments).current_dir(folder).output().expect("the binary is built")
    };
    settings.iter().map(bench).collect()
}

/// Returns the nanoseconds of codecs in the writes of the first job and the reads of the second one, and the remarks on
/// the run.
fn codecs_of(output: &Output) -> ([u64; 3], String) {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let time = |job: usize, direction: &str, name: &str| {
        json["jobs"][job]["flashlab"]["mechanisms_ns"][direction][name].as_u64().expect("a time")
    };
    let times =
        ["cipher", "compression", "decompression"].map(|name| time(0, "write", name) + time(1, "read", name));
    (times, json["flashlab"]["remarks"].to_string())
}

#[test]
fn codecs_take_the_time_of_the_host_and_the_same_time_in_each_run() {
    let folder = Folder::new("volume-codecs");
    let outputs = benches_on_a_stick(&folder, "chacha20-poly1305", &["", "", ",host=linux-pc", ",host=qemu"]);
    assert_eq!(outputs[0].stdout, outputs[1].stdout, "the times do not depend on threads");
    let all: Vec<([u64; 3], String)> = outputs.iter().map(codecs_of).collect();
    let [(stick, remarks), _, (pc, _), (unknown, free)] = &all[..] else { unreachable!("four runs") };
    assert!(stick.iter().all(|ns| *ns > 0), "the host of the member is the default: {stick:?}");
    assert!(remarks.contains("codecs on 4 processors of raspberry-pi-4-usb: cipher 0."), "{remarks}");
    assert!(stick.iter().zip(pc).all(|(stick, pc)| *pc > 0 && pc < stick), "{pc:?} and {stick:?}");
    assert_eq!(*unknown, [0; 3]);
    for path in ["codec.t_chacha20_poly1305", "codec.t_lz4_compress", "codec.t_lz4_decompress"] {
        assert!(free.contains(&format!("because {path} of qemu is unknown")), "{free}");
    }
}

#[test]
fn a_bench_on_a_volume_counts_what_its_members_program() {
    let folder = Folder::new("volume-wear");
    let output = &benches_on_a_stick(&folder, "chacha20-poly1305", &[""])[0];
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let counted = &json["flashlab"];
    assert_eq!(counted["host_written_bytes"], 2 << 20, "{counted}");
    let programmed = counted["programmed_bytes"].as_u64().expect("a number");
    // LZ4 halves the data. A superblock, the journal and the checkpoint come in addition.
    assert!(programmed > 1 << 20, "{counted}");
    let remarks = counted["remarks"].to_string();
    let member = "member usb/usb3-1:capacity=256MiB,state=stick.state: ";
    assert!(remarks.contains(member) && remarks.contains(" MiB programmed and "), "{remarks}");
}

#[test]
fn each_cipher_has_a_time_of_its_own_and_a_served_volume_has_no_host() {
    let folder = Folder::new("volume-ciphers");
    let outputs = benches_on_a_stick(&folder, "aes-256-gcm", &["", ",host=raspberry-pi-5", ",host=pi"]);
    let (on_a_pi_4, on_a_pi_5) = (codecs_of(&outputs[0]).0, codecs_of(&outputs[1]).0);
    assert!(on_a_pi_4[0] > 10 * on_a_pi_5[0], "a Raspberry Pi 5 has instructions for AES: {on_a_pi_4:?}");
    let message = String::from_utf8_lossy(&outputs[2].stderr).into_owned();
    assert!(message.contains("host: no host pi"), "{message}");
    let device = "volume:pool.toml,passphrase-file=pass,host=linux-pc";
    let serve = flashlab(&["serve", device, "--unix", "x.sock"]).current_dir(&folder).output();
    let message = String::from_utf8_lossy(&serve.expect("the binary is built").stderr).into_owned();
    assert!(message.contains("volume has no host"), "{message}");
    formatted(&folder, &[]);
    let job = ["--name=j", "--direct=1", "--rw=write", "--bs=4k", "--size=64k"];
    let output = flashlab(&[&["bench", "volume:a.img:b.img,host=linux-pc"], &job[..]].concat());
    let output = { output }.current_dir(&folder).output().expect("the binary is built");
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(message.contains("host= has no effect, because no member has timing"), "{message}");
}

/// The file answers from threads of its own and the stick at its times, so each request waits for both kinds of answers
/// and for the codecs.
#[test]
fn a_bench_on_a_file_and_a_stick_waits_for_both() {
    let folder = Folder::new("volume-file-and-stick");
    secret(&folder, "pass", "correct horse\n", 0o600);
    let pool = "[[member]]\ndevice = \"usb/usb3-1:capacity=256MiB,state=stick.state\"\n\
                [[member]]\ndevice = \"file:a.img,size=256MiB\"\n";
    std::fs::write(folder.path("pool.toml"), pool).expect("a folder of the test");
    let options = ["--encrypt", "--passphrase-file", "pass", "--replicas", "2"];
    succeed(&folder, &[&["format"], &options[..], &["pool.toml"]].concat());
    let pool = pool.replace("a.img,size=256MiB", "a.img");
    std::fs::write(folder.path("pool.toml"), pool).expect("a folder of the test");
    let job = "--direct=1 --bs=16k --size=2m --iodepth=4 --ioengine=libaio --name=w --rw=randwrite --fsync=16 --name=r \
               --stonewall --rw=randread";
    let device = ["bench", "volume:pool.toml,passphrase-file=pass"];
    let arguments: Vec<&str> = device.into_iter().chain(job.split_whitespace()).collect();
    let output = flashlab(&arguments).current_dir(&folder).output().expect("the binary is built");
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && message.contains("512 blocks of 4 KiB were read back"), "{message}");
}

#[test]
fn a_bench_closes_the_volume_so_that_its_writes_remain() {
    let folder = Folder::new("volume-bench-closed");
    formatted(&folder, &[]);
    let bench = |direction: &str| {
        let (direction, job) = (format!("--rw={direction}"), ["--name=j", "--direct=1", "--bs=64k"]);
        let job = [&["bench", "volume:a.img:b.img"], &job[..], &["--size=1m", "--verify=crc32c", &direction]];
        flashlab(&job.concat()).current_dir(&folder).output().expect("the binary is built")
    };
    assert!(bench("write").status.success());
    let read = bench("read");
    let text = String::from_utf8_lossy(&read.stderr).into_owned();
    assert!(read.status.success() && text.contains("16 blocks verified"), "{text}");
}
