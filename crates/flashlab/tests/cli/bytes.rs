//! `bench` on devices that carry bytes: in simulated time, with every read held against what was written.

use crate::desk::{Desk, Said};
use serde_json::Value;

const JOB: &str = "--name=w --rw=write --bs=64k --size=4m --direct=1 --ioengine=libaio \
    --name=m --stonewall --rw=randrw --bs=4k --size=4m --direct=1 --ioengine=libaio --iodepth=4 --output-format=json";

fn jobs(said: &Said) -> Value {
    assert_eq!(said.code, Some(0), "{}", said.err);
    let json: Value =
        serde_json::from_str(&said.out).unwrap_or_else(|error| panic!("{error} in {}", said.out));
    json["jobs"].clone()
}

#[test]
fn bytes_change_nothing_in_when() {
    let desk = Desk::new("bytes-when");
    let bare = "bench sd/kingston:host.t_request=0us,host.t_command=0us,host.t_block=0us";
    let (bare, bytes) =
        (desk.line(&format!("{bare} {JOB}")), desk.line(&format!("bench --bytes sd/kingston {JOB}")));
    let (without, with) = (jobs(&bare), jobs(&bytes));
    for job in 0..2 {
        for way in ["read", "write"] {
            for figure in ["total_ios", "io_bytes", "runtime", "lat_ns"] {
                assert_eq!(without[job][way][figure], with[job][way][figure], "job {job}, {way}, {figure}");
            }
        }
    }
    assert!(bytes.err.contains("blocks of 4 KiB were read back as written"), "{}", bytes.err);
    assert_eq!(desk.line(&format!("bench --bytes sd/kingston {JOB}")).out, bytes.out, "the same every time");
}

#[test]
fn layers_work_in_simulated_time_and_what_never_takes_any_ends() {
    let desk = Desk::new("bytes-layers");
    let delayed = desk.line(&format!("bench memory:size=8M+overlay+delay:read=2ms,write=1ms+stats {JOB}"));
    let jobs = jobs(&delayed);
    assert_eq!(jobs[0]["write"]["lat_ns"]["mean"].as_f64(), Some(1e6));
    assert_eq!(jobs[1]["read"]["lat_ns"]["mean"].as_f64(), Some(2e6));
    let at_once = desk.line(
        "bench memory:size=1M --name=a --rw=randrw --bs=4k --direct=1 --time_based --runtime=1 --size=1m",
    );
    assert_eq!(at_once.code, Some(0), "{}", at_once.err);
    assert!(at_once.err.contains("read back as written"), "{}", at_once.err);
}

#[test]
fn errors_are_told_and_states_left_alone() {
    let desk = Desk::new("bytes-errors");
    let failing = desk.line(&format!("bench memory:size=8M+error:on=read,rate=0.1,seed=2 {JOB}"));
    assert_eq!(failing.code, Some(1), "{}", failing.err);
    assert!(failing.err.contains("requests failed"), "{}", failing.err);
    let kept = desk.line(&format!("bench --bytes sd/kingston:state=card.state {JOB}"));
    assert_eq!(kept.code, Some(2), "{}", kept.err);
    assert!(kept.err.contains("leave state= out"), "{}", kept.err);
    assert_eq!(desk.names(), [""; 0]);
    assert!(desk.line(&format!("bench memory:size=1Q {JOB}")).err.contains("argument:1:"));
}
