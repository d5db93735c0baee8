//! Compares recordings of buffered jobs on a raw device with the model of the page cache, and prints the errors.
//!
//! `buffered RECORDING...` reads recordings made by `flashlab record --fs none --fio job.fio`, whose headers state the
//! latency of the device and the limits of the guest. With `RATES=1` in the environment, it also prints the number of
//! requests in each half second; with `SHOW=1`, the first requests that differ.

use flashlab_sim::Op;
use std::error::Error;

#[path = "../tests/all/buffered/compare.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod compare;

fn main() -> Result<(), Box<dyn Error>> {
    println!(
        "| recording | requests | KiB read, written | flushes | time in ms | error | stream |\n|---|---|---|---|---|---|---|"
    );
    for path in std::env::args().skip(1) {
        let run = compare::Run::read(&std::fs::read(&path)?);
        let recorded = &run.requests;
        let (simulated, _) = run.simulate();
        let count = |requests: &[compare::Logged], op| requests.iter().filter(|r| r.1 == op).count();
        let bytes = |requests: &[compare::Logged], op: Op| {
            requests.iter().filter(|r| r.1 == op).map(|r| r.3).sum::<u64>() >> 10
        };
        let both = |f: &dyn Fn(&[compare::Logged]) -> String| format!("{} / {}", f(recorded), f(&simulated));
        let (was, is) = (compare::span_ms(recorded), compare::span_ms(&simulated));
        let stream = compare::first_difference(recorded, &simulated);
        println!(
            "| {} | {} | {} | {} | {was:.1} / {is:.1} | {:+.1} % | {} |",
            path.rsplit('/').next().unwrap_or_default(),
            both(&|requests| requests.len().to_string()),
            both(&|requests| format!("{}, {}", bytes(requests, Op::Read), bytes(requests, Op::Write))),
            both(&|requests| count(requests, Op::Flush).to_string()),
            (is / was - 1.0) * 100.0,
            stream.map_or("equal".into(), |at| format!("differs at {at}")),
        );
        if std::env::var_os("RATES").is_some() {
            for requests in [recorded, &simulated] {
                let begin = requests[0].0;
                let mut counts = vec![0; 40];
                requests.iter().for_each(|r| counts[((r.0 - begin) / 500_000_000).min(39) as usize] += 1);
                println!("{counts:?}");
            }
        }
        if let (Some(at), true) = (stream, std::env::var_os("SHOW").is_some()) {
            let show = |requests: &[compare::Logged]| {
                for request in requests.iter().skip(at.saturating_sub(2)).take(8) {
                    println!("    {} {:?} {} {}", request.0 / 1000, request.1, request.2, request.3);
                }
            };
            show(recorded);
            println!("  model:");
            show(&simulated);
        }
    }
    Ok(())
}
