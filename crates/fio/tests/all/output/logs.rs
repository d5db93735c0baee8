//! Tests of the log files.

use super::fake::{self, ms, one, us};
use super::recorded;
use flashlab_fio::job::{Direction, Mix};
use flashlab_fio::output::logs::files;
use flashlab_fio::workload::Record;

#[test]
fn the_same_latencies_give_the_same_latency_logs_as_fio() {
    for name in recorded::NAMES.into_iter().filter(|&name| name != "unified") {
        let (jobs, reports) = recorded::replay(name);
        let files = files(&jobs[0], 1, &reports[0].stats);
        let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
        assert_eq!(names, ["slat", "clat", "lat"].map(|kind| format!("{name}_{kind}.1.log")));
        for (file, kind) in files.iter().zip(["slat", "clat", "lat"]).skip(1) {
            let mut ours = Vec::new();
            file.write_to(&mut ours).expect("memory takes all");
            assert_eq!(
                String::from_utf8(ours).expect("digits"),
                recorded::log_text(name, kind),
                "{name} {kind}"
            );
        }
    }
}

#[test]
fn averaged_logs_have_a_line_a_window_and_direction() {
    let mut job = fake::job("x", Mix::ReadWrite, true, 4_096);
    job.log_avg_msec = 100;
    for prefix in [&mut job.write_bw_log, &mut job.write_iops_log, &mut job.write_lat_log] {
        *prefix = Some("out/p".to_owned());
    }
    let jobs = [job];
    let reports = fake::run(&jobs, |to| {
        to.started(0, ms(1_000));
        for i in 0..25 {
            let direction = if i % 2 == 0 { Direction::Read } else { Direction::Write };
            one(to, 0, direction, ms(1_000 + 10 * i), us(1_010_000 + 10_000 * i), 4_096);
        }
        to.finished(0, ms(1_250));
    });
    let files = files(&jobs[0], 7, &reports[0].stats);
    let text = files.iter().map(|file| {
        let mut lines = Vec::new();
        file.write_to(&mut lines).expect("memory takes all");
        format!("{}\n{}", file.name, String::from_utf8(lines).expect("digits"))
    });
    insta::assert_snapshot!(text.collect::<String>());
}
