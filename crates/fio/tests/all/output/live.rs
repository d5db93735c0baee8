//! Comparison of our JSON with that of an installed fio, if there is one.

use super::fake;
use super::shape::assert_same_shape;
use flashlab_fio::job::{Direction, Engine, Job, Mix};
use flashlab_fio::output::{Run, json};
use flashlab_fio::workload::Record;
use std::process::Command;

/// Returns the JSON of real fio. If fio is missing or has another version, prints the reason and returns `None`.
fn fio(arguments: &[&str]) -> Option<String> {
    let version = Command::new("fio").arg("--version").output().ok();
    let version = version.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    if version.as_deref() != Some(json::FORMAT) {
        eprintln!("skipped: needs {}, found {}", json::FORMAT, version.as_deref().unwrap_or("no fio"));
        return None;
    }
    let output = Command::new("fio")
        .args(["--output-format=json", "--ioengine=null", "--size=256k", "--bs=4k"])
        .args(arguments)
        .output()
        .expect("fio ran a moment ago");
    Some(String::from_utf8(output.stdout).expect("fio writes UTF-8"))
}

fn ours(jobs: &[Job], directions: &[Direction]) -> String {
    let reports = fake::run(jobs, |to| {
        for job in 0..jobs.len() {
            to.started(job, fake::ms(0));
            for &direction in directions {
                fake::one(to, job, direction, fake::us(0), fake::us(100), 4_096);
            }
            to.finished(job, fake::us(100));
        }
    });
    let global = [("size".to_owned(), "256k".to_owned())];
    let run = Run { version: "flashlab-0", reports: &reports, global_options: &global, accepted: &[] };
    json::text(&run, json::Bins::Without)
}

#[test]
fn json_has_the_shape_of_the_installed_fio() {
    use Direction::{Read, Trim, Write};
    for (rw, mix, random, directions) in [
        ("read", Mix::Read, false, &[Read][..]),
        ("randrw", Mix::ReadWrite, true, &[Read, Write]),
        ("randtrim", Mix::Trim, true, &[Trim]),
        ("trimwrite", Mix::TrimWrite, false, &[Trim, Write]),
    ] {
        let Some(real) = fio(&["--iodepth=4", "--name=a", &format!("--rw={rw}")]) else { return };
        let mut job = fake::job("a", mix, random, 4_096);
        job.engine = Engine::Asynchronous;
        assert_same_shape(&real, &ours(&[job], directions));
    }
}

#[test]
fn json_of_several_jobs_has_the_shape_of_the_installed_fio() {
    let apart = ["--rw=write", "--name=a", "--numjobs=2"];
    let together = ["--rw=write", "--group_reporting", "--name=a", "--numjobs=2"];
    for (arguments, group_reporting) in [(apart, false), (["", "", ""], true)] {
        let arguments: &[&str] = if group_reporting { &together } else { &arguments };
        let Some(real) = fio(arguments) else { return };
        let mut job = fake::job("a", Mix::Write, false, 4_096);
        job.group_reporting = group_reporting;
        let mut clone = job.clone();
        clone.clone = 1;
        assert_same_shape(&real, &ours(&[job, clone], &[Direction::Write]));
    }
}
