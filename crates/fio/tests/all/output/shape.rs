//! Tests that our JSON has the paths, types and key order of fio's.

use super::{fake, recorded};
use flashlab_fio::job::{Direction, Mix};
use flashlab_fio::output::{Run, json};
use flashlab_fio::workload::Record;
use serde_json::Value;

/// Returns each path with the type of its value, in order. The members of options and bins are left out, since their
/// names differ from run to run.
pub(crate) fn shape(value: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    walk(value, "", &mut lines);
    lines
}

fn walk(value: &Value, path: &str, lines: &mut Vec<String>) {
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(n) if n.is_f64() => "real",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "list",
        Value::Object(_) => "object",
    };
    lines.push(format!("{path}: {kind}"));
    match value {
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(i, item)| walk(item, &format!("{path}[{i}]"), lines));
        }
        Value::Object(_) if path.ends_with("options") => {}
        Value::Object(members) if path.ends_with("bins") => {
            assert!(members.values().all(|n| n.is_u64()), "a bin is no count");
        }
        Value::Object(members) => {
            let ours = |name: &str| name == "flashlab";
            for (name, member) in members.iter().filter(|(name, _)| !ours(name)) {
                walk(member, &format!("{path}/{name}"), lines);
            }
        }
        _ => {}
    }
}

/// Asserts that two JSON texts have the same shape; panics with the first difference.
pub(crate) fn assert_same_shape(real: &str, ours: &str) {
    let parse = |text: &str| shape(&serde_json::from_str(text).expect("JSON"));
    let (real, ours) = (parse(real), parse(ours));
    for (real, ours) in real.iter().zip(&ours) {
        assert_eq!(real, ours);
    }
    assert_eq!(real.len(), ours.len());
}

#[test]
fn json_has_the_keys_types_and_order_of_recorded_fio_runs() {
    for name in recorded::NAMES {
        let (jobs, reports) = recorded::replay(name);
        let global = [("write_lat_log".to_owned(), name.to_owned())];
        let run = Run { version: "flashlab-0", reports: &reports, global_options: &global, accepted: &[] };
        assert_eq!(jobs.len(), 1);
        assert_same_shape(&recorded::json(name), &json::text(&run, json::Bins::With));
    }
}

#[test]
fn json_of_reported_groups_has_the_shape_of_a_recorded_fio_run() {
    let mut readers = fake::job("readers", Mix::Read, true, 4_096);
    readers.group_reporting = true;
    readers.description = Some("two of them".to_owned());
    let mut writers = fake::job("writers", Mix::Write, false, 65_536);
    writers.group_reporting = true;
    writers.group = 1;
    let mut jobs = vec![readers.clone(), readers, writers.clone(), writers];
    jobs[1].clone = 1;
    jobs[3].clone = 1;
    let reports = fake::run(&jobs, |to| {
        for job in 0..4 {
            let direction = if job < 2 { Direction::Read } else { Direction::Write };
            to.started(job, fake::ms(0));
            fake::one(to, job, direction, fake::us(0), fake::us(100), 4_096);
            to.finished(job, fake::us(100));
        }
    });
    let global = [("size".to_owned(), "1m".to_owned())];
    let run = Run { version: "flashlab-0", reports: &reports, global_options: &global, accepted: &[] };
    assert_same_shape(&recorded::json("group"), &json::text(&run, json::Bins::Without));
}
