//! `bench` on devices that move bytes: in simulated time, with a check of each read against the written data.

use super::folder::{Folder, RunOutput};
use serde_json::Value;

const JOB: &str = "--name=w --rw=write --bs=64k --size=4m --direct=1 --ioengine=libaio \
    --name=m --stonewall --rw=randrw --bs=4k --size=4m --direct=1 --ioengine=libaio --iodepth=4 --output-format=json";

fn jobs(output: &RunOutput) -> Value {
    assert_eq!(output.code, Some(0), "{}", output.err);
    let json: Value =
        serde_json::from_str(&output.out).unwrap_or_else(|error| panic!("{error} in {}", output.out));
    json["jobs"].clone()
}

#[test]
fn moving_bytes_does_not_change_timing() {
    let folder = Folder::new("bytes-when");
    let bare = "bench sd/kingston:host.t_request=0us,host.t_command=0us,host.t_block=0us";
    let (bare, bytes) =
        (folder.line(&format!("{bare} {JOB}")), folder.line(&format!("bench --bytes sd/kingston {JOB}")));
    let (without, with) = (jobs(&bare), jobs(&bytes));
    for job in 0..2 {
        for way in ["read", "write"] {
            for figure in ["total_ios", "io_bytes", "runtime", "lat_ns"] {
                assert_eq!(without[job][way][figure], with[job][way][figure], "job {job}, {way}, {figure}");
            }
        }
    }
    assert!(bytes.err.contains("blocks of 4 KiB were read back as written"), "{}", bytes.err);
    assert_eq!(
        folder.line(&format!("bench --bytes sd/kingston {JOB}")).out,
        bytes.out,
        "the second run differs"
    );
}

#[test]
fn layers_work_in_simulated_time_and_endless_untimed_jobs_end() {
    let folder = Folder::new("bytes-layers");
    let delayed = folder.line(&format!("bench memory:size=8M+overlay+delay:read=2ms,write=1ms+stats {JOB}"));
    let jobs = jobs(&delayed);
    assert_eq!(jobs[0]["write"]["lat_ns"]["mean"].as_f64(), Some(1e6));
    assert_eq!(jobs[1]["read"]["lat_ns"]["mean"].as_f64(), Some(2e6));
    let at_once = folder.line(
        "bench memory:size=1M --name=a --rw=randrw --bs=4k --direct=1 --time_based --runtime=1 --size=1m",
    );
    assert_eq!(at_once.code, Some(0), "{}", at_once.err);
    assert!(at_once.err.contains("read back as written"), "{}", at_once.err);
}

#[test]
fn errors_are_reported_and_state_files_are_refused() {
    let folder = Folder::new("bytes-errors");
    let failing = folder.line(&format!("bench memory:size=8M+error:on=read,rate=0.1,seed=2 {JOB}"));
    assert_eq!(failing.code, Some(1), "{}", failing.err);
    assert!(failing.err.contains("requests failed"), "{}", failing.err);
    let in_the_ramp = "bench memory:size=8M+error:on=write,after=3 --name=a --direct=1 --rw=write --bs=4k --size=1m --ramp_time=10";
    assert_eq!(folder.line(in_the_ramp).code, Some(1));
    let kept = folder.line(&format!("bench --bytes sd/kingston:state=card.state {JOB}"));
    assert_eq!(kept.code, Some(2), "{}", kept.err);
    assert!(kept.err.contains("leave state= out"), "{}", kept.err);
    assert_eq!(folder.names(), [""; 0]);
    assert!(folder.line(&format!("bench memory:size=1Q {JOB}")).err.contains("argument:1:"));
}

#[test]
fn the_verify_phase_reads_all_written_blocks_and_counts_as_reads() {
    let folder = Folder::new("bytes-verify");
    for method in
        ["crc32c", "md5 --verify_interval=512", "pattern --verify_pattern=0xdeadbeef%o", "sha256", "null"]
    {
        let line = format!(
            "bench memory:size=8M+delay:read=2ms,write=1ms --name=a --direct=1 --rw=randwrite --bs=4k --size=1m --verify={method} \
             --output-format=json"
        );
        let output = folder.line(&line);
        let job = jobs(&output)[0].clone();
        for (way, ms) in [("read", 2), ("write", 1)] {
            assert_eq!(job[way]["total_ios"], 256, "{method}, {way}");
            assert_eq!(job[way]["lat_ns"]["mean"].as_f64(), Some(f64::from(ms) * 1e6), "{method}, {way}");
            assert_eq!(job[way]["runtime"], 256 * ms, "{method}, {way}");
        }
        assert_eq!(job["job_runtime"], 768, "{method}");
        let name = method.split(' ').next().expect("a word");
        let blocks = if method.contains("interval=512") { 2048 } else { 256 };
        assert!(output.err.contains(&format!("{name}: {blocks} blocks verified")), "{}", output.err);
    }
    let left_out = "bench memory:size=8M --name=a --direct=1 --rw=write --size=1m --verify=crc32 --do_verify=0 --output-format=json";
    assert_eq!(jobs(&folder.line(left_out))[0]["read"]["total_ios"], 0);
}

#[test]
fn a_job_that_only_reads_detects_changed_data() {
    let folder = Folder::new("bytes-damage");
    let run = |rw: &str| {
        folder.line(&format!(
            "bench file:disk.img,size=1M --name=a --direct=1 --rw={rw} --bs=4k --verify=crc64"
        ))
    };
    assert_eq!(run("write").code, Some(0));
    assert_eq!(run("read").code, Some(0));
    let path = folder.path("disk.img");
    let mut bytes = std::fs::read(&path).expect("the file was written");
    bytes[8192 + 300] ^= 1;
    std::fs::write(&path, bytes).expect("the file can be written");
    let output = run("read");
    assert_eq!(output.code, Some(1), "{}", output.err);
    let wanted = "crc64: verify failed at offset 8192, length 4096: its checksum differs from the one in its header; 1 of 256 blocks are wrong";
    assert!(output.err.contains(wanted), "{}", output.err);
    assert_eq!(run("randwrite").code, Some(0), "an overwritten block is still wrong");
}

#[test]
fn invalid_verify_options_are_refused() {
    let folder = Folder::new("bytes-unverified");
    for (line, why) in [
        (
            "bench sd/kingston --name=a --direct=1 --rw=write --size=1m --verify=md5",
            "use `bench --bytes`, memory:",
        ),
        (
            "bench memory:size=1M --name=a --direct=1 --rw=write --bs=512 --verify=md5 --verify_interval=32",
            "raise bs=",
        ),
        (
            "bench memory:size=1M --name=a --direct=1 --rw=write --verify=md5 --verify_interval=1000",
            "does not divide",
        ),
        ("bench memory:size=1M --name=a --direct=1 --rw=write --verify=pattern", "needs verify_pattern="),
        (
            "bench memory:size=1M --name=a --direct=1 --rw=write --verify=md5 --name=b --direct=1 --rw=write --verify=crc7",
            "jobs `a` and `b` differ",
        ),
        (
            "bench memory:size=1M --name=a --direct=1 --rw=write --verify=md5 --write_iolog=log",
            "remove one of the two options",
        ),
        ("bench memory:size=1M --name=a --direct=1 --rw=write --verify=meta", "verify"),
        (
            "bench memory:size=1M --name=a --direct=1 --rw=write --verify=md5 --verify_backlog=1",
            "verify_backlog",
        ),
    ] {
        let output = folder.line(line);
        assert!(output.code == Some(2) || output.code == Some(1), "{line}: {:?}", output.code);
        assert!(output.out.is_empty() && output.err.contains(why), "{line}: {}", output.err);
    }
}
