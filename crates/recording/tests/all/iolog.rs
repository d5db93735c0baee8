//! Iologs of fio: import, export, and a round trip through fio itself.

use flashlab_fio::iolog::Version;
use flashlab_recording::{Action, Export, Flags, Import, MarkKind, Step, TaskId};
use flashlab_sim::{Duration, Op};
use std::path::PathBuf;
use std::process::Command;

fn import(text: &str, file: Option<&str>) -> Result<Vec<Step>, String> {
    Import::iolog(text.as_bytes(), file).collect::<Result<_, _>>().map_err(|error| error.to_string())
}

/// Microsecond, operation, offset and length.
fn brief(step: &Step) -> (u64, Op, u64, u64) {
    let Action::Request { op, offset, length, .. } = step.action else { panic!("iologs have no marks") };
    (step.at.as_ns() / 1000, op, offset, length)
}

fn step(us: u64, op: Op, offset: u64, length: u64) -> Step {
    let action = Action::Request { op, offset, length, flags: Flags::default() };
    Step { task: TaskId(0), at: Duration::from_us(us), action, causes: Vec::new() }
}

fn export(version: Version, steps: &[Step]) -> String {
    let mut export = Export::new(version, "device");
    let mut text: String = steps.iter().map(|step| export.push(step)).collect();
    text += &export.finish();
    text
}

fn steps() -> Vec<Step> {
    let mark = Action::Mark(MarkKind::RunBegins);
    vec![
        step(0, Op::Write, 4096, 8192),
        Step { action: mark, ..step(5, Op::Read, 0, 0) },
        step(1500, Op::Read, 4096, 4096),
        step(2600, Op::WriteFua, 65_536, 512),
        step(2700, Op::FlushData, 0, 0),
        step(9000, Op::Trim, 0, 1 << 20),
        step(9000, Op::Flush, 0, 0),
    ]
}

#[test]
fn iologs_of_both_versions_become_requests_at_their_instants() {
    let three = "fio version 3 iolog\n100 f add\n100 f open\n200 f write 0 4096\n450 f datasync 0 0\n700 f trim 8192 512\n";
    let expected = [(0, Op::Write, 0, 4096), (250, Op::FlushData, 0, 0), (500, Op::Trim, 8192, 512)];
    assert_eq!(import(three, None).unwrap().iter().map(brief).collect::<Vec<_>>(), expected);
    let two = "fio version 2 iolog\nf add\nf open\nf read 0 4096\nf wait 3 0\nf sync 0 0\nf close\n";
    let expected = [(0, Op::Read, 0, 4096), (3000, Op::Flush, 0, 0)];
    assert_eq!(import(two, None).unwrap().iter().map(brief).collect::<Vec<_>>(), expected);
}

#[test]
fn one_file_of_several_is_chosen_and_errors_name_their_line() {
    let two = "fio version 2 iolog\na add\nb add\na read 0 512\nb read 512 512\nb read 0 512\n";
    let error = import(two, None).unwrap_err();
    assert_eq!(error, "line 5: the trace has several devices, a and b: choose one");
    assert_eq!(import(two, Some("b")).unwrap().len(), 2);
    assert_eq!(import(two, Some("c")).unwrap().len(), 0);
    let error = import("fio version 2 iolog\nf add\nf wrte 0 1\n", None).unwrap_err();
    assert_eq!(error, "line 3: column 3: unknown action `wrte`; did you mean `write`?");
}

#[test]
fn an_export_names_every_request_and_its_time() {
    let three = "fio version 3 iolog\n0 device add\n0 device open\n0 device write 4096 8192\n1500 device read 4096 4096\n\
                 2600 device write 65536 512\n2600 device datasync 65536 0\n2700 device datasync 0 0\n\
                 9000 device trim 0 1048576\n9000 device sync 0 0\n9000 device close\n";
    assert_eq!(export(Version::Three, &steps()), three);
    let two = "fio version 2 iolog\ndevice add\ndevice open\ndevice write 4096 8192\ndevice wait 1 0\n\
               device read 4096 4096\ndevice wait 2 0\ndevice write 65536 512\ndevice datasync 65536 0\n\
               device datasync 0 0\ndevice wait 9 0\ndevice trim 0 1048576\ndevice sync 0 0\ndevice close\n";
    assert_eq!(export(Version::Two, &steps()), two);
}

#[test]
fn a_round_trip_keeps_every_request() {
    let plain: Vec<Step> =
        steps().into_iter().filter(|step| matches!(step.action, Action::Request { .. })).collect();
    let back = import(&export(Version::Three, &plain), None).unwrap();
    let mut expected: Vec<_> = plain.iter().map(brief).collect();
    expected[2].1 = Op::Write;
    expected.insert(3, (2600, Op::FlushData, 0, 0));
    assert_eq!(back.iter().map(brief).collect::<Vec<_>>(), expected);
}

#[test]
fn fio_replays_an_export() {
    let version = Command::new("fio").arg("--version").output().ok();
    let version = version.map(|run| String::from_utf8_lossy(&run.stdout).trim().to_owned());
    if version.as_deref() != Some("fio-3.33") {
        eprintln!("skipped: needs fio-3.33, found {}", version.as_deref().unwrap_or("no fio"));
        return;
    }
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("fio-replays");
    std::fs::create_dir_all(&folder).unwrap();
    let steps = [
        step(0, Op::Write, 4096, 8192),
        step(1500, Op::Read, 4096, 4096),
        step(2600, Op::Write, 65_536, 512),
        step(2700, Op::FlushData, 0, 0),
        step(9000, Op::Read, 0, 512),
    ];
    for version in [Version::Two, Version::Three] {
        std::fs::write(folder.join("run.log"), export(version, &steps)).unwrap();
        let mut fio = Command::new("fio");
        fio.args(["--name=replay", "--ioengine=sync", "--read_iolog=run.log", "--output-format=json"]);
        fio.args(["--replay_redirect=data"]).current_dir(&folder);
        std::fs::write(folder.join("data"), vec![0; 1 << 20]).unwrap();
        let run = fio.output().unwrap();
        let out = String::from_utf8_lossy(&run.stdout);
        assert!(run.status.success(), "{out}{}", String::from_utf8_lossy(&run.stderr));
        let field = |section: &str, name: &str| {
            let rest = &out[out.find(&format!("\"{section}\" : {{")).unwrap()..];
            let rest = &rest[rest.find(&format!("\"{name}\" : ")).unwrap() + name.len() + 5..];
            rest[..rest.find(',').unwrap()].parse::<u64>().unwrap()
        };
        assert_eq!((field("read", "total_ios"), field("read", "io_bytes")), (2, 4608));
        assert_eq!((field("write", "total_ios"), field("write", "io_bytes")), (2, 8704));
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
