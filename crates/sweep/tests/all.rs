//! Sweeps from a plan to the file of results.

use flashlab_catalogue::library::Library;
use flashlab_lab::progress::Progress;
use flashlab_sweep::{
    Cell, Key, Plan, Point, RESULTS_FILE, Row, Store, Sweep, SweepError, Value, columns, run_locally,
};
use std::fs;
use std::path::{Path, PathBuf};

const JOB: &str = "job = \"--rw=randwrite --bs=4k --size=4m --number_ios=200\"\n";

/// A folder that is removed at the end of a test.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("flashlab-sweep-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Folder(path)
    }
    fn results(&self) -> Vec<u8> {
        fs::read(self.0.join(RESULTS_FILE)).expect("the sweep wrote its results")
    }
    fn parts(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.0.join("parts")).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn plan(points: &str) -> Plan {
    Plan::from_toml(&format!("device = \"sd/kingston\"\n{JOB}{points}")).unwrap()
}

fn library() -> Library {
    Library::built_in().unwrap()
}

/// Runs all missing points and returns their number.
fn run(plan: &Plan, library: &Library, folder: &Path, threads: usize) -> Result<usize, SweepError> {
    let sweep = Sweep::new(plan.clone(), library)?;
    let mut store = Store::open(folder)?;
    let missing = store.missing(sweep.points());
    run_locally(&sweep, &mut store, &missing, threads, &Progress::default())?;
    store.finish(sweep.points())?;
    Ok(missing.len())
}

const SMALL: &str = "[grid]\n\"flash.t_prog\" = [\"250us\", \"1ms\"]\niodepth = [1, 2]\n";
const LARGE: &str = "[grid]\n\"flash.t_prog\" = [\"250us\", \"1ms\", \"2ms\"]\niodepth = [1, 2, 4]\n";

#[test]
fn an_interrupted_extended_or_repeated_sweep_runs_missing_points_only_and_gives_the_same_bytes() {
    let library = library();
    let (whole, pieces) = (Folder::new("whole"), Folder::new("pieces"));
    assert_eq!(run(&plan(LARGE), &library, &whole.0, 2).unwrap(), 9);
    assert_eq!(run(&plan(LARGE), &library, &whole.0, 2).unwrap(), 0, "a repeated sweep ran points");

    assert_eq!(run(&plan(SMALL), &library, &pieces.0, 1).unwrap(), 4);
    let sweep = Sweep::new(plan(LARGE), &library).unwrap();
    // An interruption: one further point is on disk, and no results were written.
    let mut store = Store::open(&pieces.0).unwrap();
    let missing = store.missing(sweep.points());
    assert_eq!(missing.len(), 5);
    store.add(vec![sweep.run(missing[3], &Progress::default()).unwrap()]).unwrap();
    assert_eq!(run(&plan(LARGE), &library, &pieces.0, 2).unwrap(), 4);
    assert!(whole.results() == pieces.results(), "the files differ");
}

#[test]
fn many_parts_are_merged_and_rows_of_other_plans_stay() {
    let (library, folder) = (library(), Folder::new("merge"));
    let sweep = Sweep::new(plan(LARGE), &library).unwrap();
    let mut store = Store::open(&folder.0).unwrap();
    for at in 0..9 {
        store.add(vec![sweep.run(at, &Progress::default()).unwrap()]).unwrap();
    }
    let small = Sweep::new(plan(SMALL), &library).unwrap();
    store.finish(small.points()).unwrap();
    assert_eq!(folder.parts().len(), 1);
    let again = Store::open(&folder.0).unwrap();
    assert_eq!((again.missing(small.points()).len(), again.missing(sweep.points()).len()), (0, 0));
}

#[test]
fn equal_rows_that_are_added_again_give_one_part() {
    let (library, folder) = (library(), Folder::new("equal"));
    let sweep = Sweep::new(plan(LARGE), &library).unwrap();
    let mut store = Store::open(&folder.0).unwrap();
    for at in [0, 0, 1, 2, 3, 4, 5, 6, 7, 8] {
        store.add(vec![sweep.run(at, &Progress::default()).unwrap()]).unwrap();
    }
    store.finish(sweep.points()).unwrap();
    assert_eq!(folder.parts().len(), 1);
}

#[test]
fn a_row_has_the_figures_of_the_same_run_elsewhere() {
    let library = library();
    let sweep = Sweep::new(plan("[grid]\n\"flash.t_prog\" = [\"1ms\"]"), &library).unwrap();
    let row = sweep.run(0, &Progress::default()).unwrap();
    assert_eq!(row.point, [("flash.t_prog".to_owned(), Cell::Text("1ms".into()))]);
    let device = flashlab_catalogue::device::Device::open("sd/kingston:flash.t_prog=1ms", &library).unwrap();
    let words = "--name=a --rw=randwrite --bs=4k --size=4m --number_ios=200 --direct=1".split(' ');
    let words: Vec<&str> = words.collect();
    let jobs = flashlab_fio::cmdline::Invocation::parse(&words, &flashlab_fio::loader::NoFiles).unwrap().jobs;
    let mut bench = flashlab_lab::bench::Bench::with(&device, 1);
    let reports = bench.run(&jobs, &flashlab_fio::stats::Settings::default()).unwrap().reports(&jobs);
    let stats = &reports[0].stats;
    let written = stats.direction(flashlab_fio::job::Direction::Write);
    assert_eq!(row.figures["requests"], Cell::Count(200));
    assert_eq!(row.figures["latency_ns_mean"], Cell::Number(written.clat.mean_ns()));
    assert_eq!(row.figures["iops"], Cell::Number(200_000.0 / written.runtime_ms as f64));
    assert!(matches!(row.figures["program_ns"], Cell::Number(ns) if ns >= 1_000_000.0 / 8.0));
}

#[test]
fn device_host_job_seed_filesystem_and_variables_change_the_key() {
    let library = library();
    let keys = |text: &str| -> Vec<String> {
        let plan = Plan::from_toml(text).unwrap();
        Sweep::new(plan, &library).unwrap().points().iter().map(|(key, _)| key.0.clone()).collect()
    };
    let of = |device: &str, job: &str, rest: &str| {
        keys(&format!("device = \"{device}\"\njob = \"{job}\"\n{rest}[grid]\niodepth = [1]\n"))[0].clone()
    };
    let base = of("sd/kingston", "--rw=randwrite", "");
    assert_eq!(base, of("sd/kingston", "--rw=randwrite", ""), "equal inputs have equal keys");
    for (device, job, rest) in [
        ("sd/kioxia", "--rw=randwrite", ""),
        ("sd/kingston:flash.t_prog=1ms", "--rw=randwrite", ""),
        ("sd/kingston:host=raspberry-pi-3", "--rw=randwrite", ""),
        ("sd/kingston", "--rw=randread", ""),
        ("sd/kingston", "--rw=randwrite", "seed = 2\n"),
        ("sd/kingston", "--rw=randwrite", "fs = \"vfat\"\n"),
        ("sd/kingston", "--rw=randwrite", "unwritten = true\n"),
    ] {
        assert_ne!(base, of(device, job, rest), "{device} {job} {rest}");
    }
    let text = "device = \"sd/kingston\"\njob = \"\"\"[a]\nrw=randwrite\ndirect=1\nbs=${bs}\n\"\"\"\n\
                [grid]\nbs = [\"4k\", \"8k\"]\n";
    let keys = keys(text);
    assert_ne!(keys[0], keys[1], "a variable of a job file changes the key");
}

#[test]
fn points_with_equal_inputs_run_once() {
    let library = library();
    let plan = Plan::from_json(
        r#"{"device": "sd/kingston", "job": {"rw": "randread"}, "points": [{"iodepth": 1}, {"iodepth": 1}]}"#,
    );
    assert_eq!(Sweep::new(plan.unwrap(), &library).unwrap().points().len(), 1);
}

#[test]
fn a_mistake_in_the_job_does_not_number_its_words() {
    let text = r#"{"device": "sd/kingston", "job": {"rw": "raed"}, "grid": {"bs": ["4k"]}}"#;
    let error = Sweep::new(Plan::from_json(text).unwrap(), library()).err().expect("a misspelt option");
    assert!(error.to_string().starts_with("point bs=4k: job: rw=raed: it must be one of"), "{error}");
}

#[test]
fn options_without_effect_are_named() {
    let named = |engine: &str| {
        let job = format!(r#"{{"rw": "randread", "ioengine": "{engine}"}}"#);
        let text = format!(r#"{{"device": "sd/kingston", "job": {job}, "grid": {{"iodepth": [1, 4]}}}}"#);
        let sweep = Sweep::new(Plan::from_json(&text).unwrap(), library()).unwrap();
        sweep.without_effect().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(named("psync"), ["iodepth"]);
    assert!(named("libaio").is_empty());
}

#[test]
fn a_fault_of_a_point_is_found_before_the_first_run() {
    let library = library();
    let fault = |points: &str| Sweep::new(plan(points), &library).err().expect("refused").to_string();
    let error = fault("[grid]\n\"flash.t_prgo\" = [\"1ms\"]");
    assert!(error.starts_with("point flash.t_prgo=1ms: ") && error.contains("flash.t_prog"), "{error}");
    let error = fault("[grid]\nbs = [\"4k\", \"0\"]");
    assert!(error.starts_with("point bs=0: "), "{error}");
    let error = fault("[grid]\nseed = [1.5]");
    assert!(error.contains("expected a whole number"), "{error}");
}

#[test]
fn a_run_that_fails_gives_a_row_with_its_error_and_runs_again() {
    let (library, folder) = (library(), Folder::new("failing"));
    fs::create_dir_all(&folder.0).unwrap();
    let iolog = folder.0.join("damaged.iolog");
    fs::write(&iolog, "fio version 2 iolog\n/dev/mmcblk0 add\n/dev/mmcblk0 leap 0 4096\n").unwrap();
    let mut plan = plan("[[points]]\niodepth = 1\n[[points]]\nread_iolog = \"IOLOG\"\n");
    plan.points[1].0[0].1 = Value::Text(iolog.display().to_string());
    let sweep = Sweep::new(plan.clone(), &library).unwrap();
    run(&plan, &library, &folder.0, 1).unwrap();
    let mut store = Store::open(&folder.0).unwrap();
    assert_eq!(store.counts(sweep.points()), (2, 1));
    let (point, error) = store.first_error(sweep.points()).unwrap();
    assert!(point.starts_with("read_iolog=") && error.contains("damaged.iolog:3:"), "{point}: {error}");
    assert_eq!(store.missing(sweep.points()), [1]);
    let stopped = Progress::default();
    stopped.stop();
    assert_eq!(run_locally(&sweep, &mut store, &[1], 1, &stopped).unwrap(), 0, "a point ran");
}

/// The names of the parts are hashes, so their order is not that of the runs.
#[test]
fn a_good_row_replaces_the_row_of_an_earlier_failure_in_any_order_of_the_parts() {
    let library = library();
    let sweep = Sweep::new(plan(SMALL), &library).unwrap();
    let failed = |n: i64| Row {
        key: sweep.points()[0].0.to_string(),
        point: vec![("n".into(), Cell::Count(n))],
        figures: [("error".to_owned(), Cell::Text("no".to_owned()))].into(),
    };
    for n in 0..8 {
        let folder = Folder::new(&format!("order-{n}"));
        let mut store = Store::open(&folder.0).unwrap();
        store.add(vec![failed(n)]).unwrap();
        let good = Row { figures: [("iops".to_owned(), Cell::Number(1.5))].into(), ..failed(n) };
        store.add(vec![good.clone()]).unwrap();
        let again = Store::open(&folder.0).unwrap();
        assert_eq!(again.rows(&sweep.points()[..1]), [&good]);
    }
}

#[test]
fn a_damaged_or_truncated_part_is_found_and_its_points_run_again() {
    let (library, folder) = (library(), Folder::new("damaged"));
    run(&plan(SMALL), &library, &folder.0, 2).unwrap();
    let part = folder.parts().remove(0);
    let bytes = fs::read(&part).unwrap();
    for at in (0..bytes.len()).step_by(13) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        fs::write(&part, &damaged).unwrap();
        let error = Store::open(&folder.0).err().expect("damage is found").to_string();
        assert!(error.contains("remove the file, and the points in it run again"), "{error}");
    }
    fs::write(&part, &bytes[..bytes.len() / 2]).unwrap();
    assert!(Store::open(&folder.0).is_err());
    fs::remove_file(&part).unwrap();
    assert!(run(&plan(SMALL), &library, &folder.0, 2).unwrap() > 0);
}

#[test]
fn rows_survive_their_encoding() {
    let row = |key: &str, value: Cell, error: Option<&str>| Row {
        key: key.into(),
        point: vec![("victim".into(), value), ("depth".into(), Cell::Number(4.0))],
        figures: [("iops".to_owned(), Cell::Number(1.5)), ("requests".to_owned(), Cell::Count(7))]
            .into_iter()
            .chain(error.map(|text| ("error".to_owned(), Cell::Text(text.to_owned()))))
            .collect(),
    };
    let folder = Folder::new("encoding");
    let mut store = Store::open(&folder.0).unwrap();
    let rows = [row("a", Cell::Text("greedy".into()), None), row("b", Cell::Text("fifo".into()), Some("no"))];
    let bytes = Store::encode(&rows).unwrap();
    assert_eq!(bytes, Store::encode(&rows).unwrap(), "equal rows give equal bytes");
    assert_eq!(store.add_encoded(bytes).unwrap(), 2);
    let part = folder.parts().remove(0);
    let again = Store::encode(&rows).unwrap();
    assert!(fs::read(part).unwrap() == again, "the rows read back differ from the encoded rows");
    assert!(store.add_encoded(b"PAR1".to_vec()).is_err());
}

#[test]
fn quantities_and_whole_numbers_of_points_are_numbers() {
    let row = |key: &str, time: &str, depth: Cell| Row {
        key: key.into(),
        point: vec![("flash.t_prog".into(), Cell::Text(time.into())), ("iodepth".into(), depth)],
        figures: [("iops".to_owned(), Cell::Number(1.5))].into(),
    };
    let rows = [row("a", "250us", Cell::Number(4.0)), row("b", "1ms", Cell::Count(8))];
    let keys = rows.clone().map(|row| Cell::Text(row.key));
    let columns = columns(&rows, &keys);
    let of = |name: &str| columns.iter().find(|column| column.name() == name).expect("the column");
    assert!(of("iodepth").has_counts());
    assert_eq!(of("iodepth").counts().collect::<Vec<_>>(), [Some(4), Some(8)]);
    assert_eq!(of("flash.t_prog_ns").counts().collect::<Vec<_>>(), [Some(250_000), Some(1_000_000)]);
    assert!(!of("flash.t_prog").has_numbers() && of("iops").has_numbers());
    // If a sweep adds a point whose value is not a quantity, the name has no quantities, whatever a file
    // contains.
    let folder = Folder::new("quantities");
    let mut store = Store::open(&folder.0).unwrap();
    let other = row("c", "none", Cell::Count(1));
    store.add_encoded(Store::encode(&rows).unwrap()).unwrap();
    store.add_encoded(Store::encode(std::slice::from_ref(&other)).unwrap()).unwrap();
    let keys = ["a", "b", "c"].map(|key| (Key(key.to_owned()), Point::default()));
    let found: Vec<Row> = store.rows(&keys).into_iter().cloned().collect();
    assert_eq!(
        Store::encode(&found).unwrap(),
        Store::encode(&[rows.to_vec(), vec![other]].concat()).unwrap()
    );
}
