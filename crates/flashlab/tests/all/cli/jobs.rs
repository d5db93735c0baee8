//! Typical job files of many kinds. Each result is compared with a value that holds for any card.

use super::folder::{Folder, run_command};
use serde_json::Value;

/// Returns a folder with the job files of `tests/all/cli/jobs`.
fn folder_with_jobs(name: &str) -> Folder {
    let folder = Folder::new(name);
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all/cli/jobs");
    for entry in std::fs::read_dir(source).expect("the path exists") {
        let path = entry.expect("readable").path();
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        folder.put(&name, std::fs::read(&path).expect("readable"));
    }
    folder
}

/// Runs `bench` and returns the jobs of its JSON.
fn run(folder: &Folder, words: &str) -> Vec<Value> {
    let json = folder.line(&format!("bench {words} --output-format=json")).succeeded();
    let parsed: Value = serde_json::from_str(&json).expect("nothing but JSON");
    parsed["jobs"].as_array().expect("a list").clone()
}

fn whole(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no whole number"))
}
fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn a_logger_writes_at_its_rate_and_syncs() {
    let folder = folder_with_jobs("logger");
    let jobs = run(&folder, "sd/kingston logger.fio");
    let write = &jobs[0]["write"];
    assert_eq!((whole(&write["bw"]), whole(&write["runtime"])), (512, 60_000));
    assert_eq!(whole(&write["total_ios"]), 60 * 512 / 16);
    assert_eq!(whole(&jobs[0]["sync"]["total_ios"]), 60 * 512 / 16 / 32);
    let text = folder.line("bench --logger-rate 512KiB/s sd/kingston logger.fio").succeeded();
    assert!(text.contains("write tail"), "{text}");
    let (_, beside) = text.split_once("buffer for a logger at 512KiB/s: ").expect("the answer");
    let limit = beside.lines().nth(1).expect("a line below the answer");
    assert!(limit.contains("a lower bound") && limit.contains("leave out pauses"), "{limit}");
}

#[test]
fn a_database_keeps_its_mix_and_its_log_keeps_its_rate() {
    let jobs = run(&folder_with_jobs("database"), "--unwritten sd/kingston database.fio");
    assert_eq!(jobs.len(), 1, "one group");
    let (read, write) = (&jobs[0]["read"], &jobs[0]["write"]);
    let wal = 50 * 20;
    let (reads, writes) = (whole(&read["total_ios"]), whole(&write["total_ios"]));
    let share = reads as f64 / (reads + writes - wal.min(writes)) as f64;
    assert!((0.67..0.73).contains(&share), "{share}");
    assert!(whole(&jobs[0]["sync"]["total_ios"]) <= wal);
    assert_eq!(whole(&jobs[0]["flashlab"]["jobs"]), 5);
}

#[test]
fn phases_follow_each_other_in_groups() {
    let jobs = run(&folder_with_jobs("phases"), "sd/kingston phases.fio");
    let row = |job: &Value| {
        let bytes = |direction: &str| whole(&job[direction]["io_bytes"]) >> 20;
        (
            job["jobname"].as_str().expect("a name").to_owned(),
            whole(&job["groupid"]),
            bytes("read"),
            bytes("write"),
        )
    };
    let rows: Vec<_> = jobs.iter().map(row).collect();
    let expected = [("fill".into(), 0, 0, 128), ("read".into(), 1, 128, 0), ("rand".into(), 2, 8, 0)];
    assert_eq!(rows, expected);
}

#[test]
fn stripes_lie_beside_each_other() {
    let folder = folder_with_jobs("stripes");
    let jobs = run(&folder, "sd/kingston stripes.fio --write_iolog=log");
    assert_eq!(jobs.len(), 4);
    for (n, job) in jobs.iter().enumerate() {
        assert_eq!(whole(&job["write"]["io_bytes"]), 32 << 20);
        let log = folder.read(&format!("log.{}", n + 1));
        let first = log.lines().find(|line| line.contains(" write ")).expect("the job wrote");
        assert_eq!(first.split(' ').nth(3), Some(format!("{}", n << 25).as_str()), "{first}");
    }
}

#[test]
fn block_sizes_follow_bssplit() {
    let folder = folder_with_jobs("bssplit");
    // The random map would shorten blocks that do not fit between finished blocks, so the job disables it.
    folder.put("split.fio", format!("{}norandommap\n", folder.read("bssplit.fio")));
    let jobs = run(&folder, "sd/kingston split.fio");
    let write = &jobs[0]["write"];
    assert_eq!(whole(&write["io_bytes"]), 64 << 20);
    let mean = (64 << 20) as f64 / number(&write["total_ios"]);
    let expected = 0.6 * 4096.0 + 0.3 * 16_384.0 + 0.1 * 65_536.0;
    assert!((mean / expected - 1.0).abs() < 0.1, "{mean} against {expected}");
    assert!(number(&jobs[0]["iodepth_level"]["8"]) > 99.0);
}

#[test]
fn skewed_reads_hit_the_map_cache() {
    let folder = folder_with_jobs("zipf");
    let zipf = folder.read("zipf.fio").replace("size=1g", "size=16g");
    folder.put("uniform.fio", zipf.replace("zipf:1.2", "random")).put("zipf.fio", zipf);
    let zipf = run(&folder, "sd/kingston zipf.fio");
    let uniform = run(&folder, "sd/kingston uniform.fio");
    assert_eq!(whole(&zipf[0]["read"]["total_ios"]), 16_384);
    let uniform_ns = number(&uniform[0]["read"]["clat_ns"]["mean"]);
    assert!(
        number(&zipf[0]["read"]["clat_ns"]["mean"]) < uniform_ns,
        "blocks that are read often are in memory"
    );
}

#[test]
fn trims_are_counted_separately() {
    let jobs = run(&folder_with_jobs("trim"), "sd/kingston trim.fio");
    assert_eq!(whole(&jobs[0]["trim"]["total_ios"]), 4096);
    let [trims, writes] = ["trim", "write"].map(|direction| whole(&jobs[1][direction]["io_bytes"]));
    assert_eq!((trims, writes), (64 << 20, 64 << 20));
}

#[test]
fn a_recorded_run_is_replayed() {
    let folder = folder_with_jobs("replay");
    let jobs = run(&folder, "sd/kingston replay.fio");
    let count = |direction: &str| whole(&jobs[0][direction]["total_ios"]);
    assert_eq!((count("read"), count("write"), count("sync")), (1, 3, 1));
    assert!(whole(&jobs[0]["job_runtime"]) >= 29, "a pause is missing");
    folder.line("compare sd/* replay.fio").succeeded();
    // A second run replays the iolog of the first.
    folder
        .line("bench sd/kingston --name=a --rw=randwrite --bs=4k --size=1m --direct=1 --write_iolog=mine")
        .succeeded();
    let again = run(&folder, "sd/kingston --name=b --direct=1 --read_iolog=mine");
    assert_eq!(whole(&again[0]["write"]["io_bytes"]), 1 << 20);
}

#[test]
fn a_ramp_is_not_measured() {
    let jobs = run(&folder_with_jobs("ramp"), "sd/kingston ramp.fio");
    let read = &jobs[0]["read"];
    assert!((10_000..10_010).contains(&whole(&read["runtime"])));
    let expected = 1e9 / number(&read["clat_ns"]["mean"]);
    assert!((number(&read["iops"]) / expected - 1.0).abs() < 0.01);
}

#[test]
fn files_lie_on_a_filesystem_or_on_the_bare_device() {
    let folder = folder_with_jobs("vfat");
    let jobs = run(&folder, "--fs vfat sd/kingston vfat.fio");
    let bytes: Vec<u64> = jobs.iter().map(|job| whole(&job["write"]["io_bytes"])).collect();
    assert_eq!(bytes, [32 << 20, 2 << 20, 4 << 20]);
    const NOTE: &str =
        "directory=/mnt/card: without a filesystem, its files lie one after the other on the bare device";
    let jobs = run(&folder, "sd/kingston vfat.fio");
    let bytes: Vec<u64> = jobs.iter().map(|job| whole(&job["write"]["io_bytes"])).collect();
    assert_eq!(bytes, [32 << 20, 2 << 20, 4 << 20]);
    assert!(folder.line("bench sd/kingston vfat.fio").succeeded().contains(NOTE));
    let json = folder.line("bench sd/kingston vfat.fio --output-format=json").succeeded();
    assert!(json.contains(NOTE), "{json}");
    for line in ["compare sd/kingston vfat.fio", "bench sd/kingston vfat.fio --minimal"] {
        assert!(folder.line(line).err.contains(NOTE), "{line}");
    }
    assert!(!folder.line("bench --fs vfat sd/kingston vfat.fio").succeeded().contains(NOTE));
    let read = "--name=a --rw=randread --direct=1 --directory=/mnt --size=3000k --number_ios=50";
    let out = folder.line(&format!("bench sd/kingston {read}"));
    // The file is written before the job begins, so that its reads reach the flash.
    assert_eq!(out.err, "");
    assert!(out.succeeded().contains(" read="), "the array is not read");
    let full = "--name=a --rw=write --direct=1 --directory=/mnt --size=1g --nrfiles=3 --filesize=20g";
    let err = folder.line(&format!("bench sd/kingston {full}")).refused();
    assert!(err.contains("a.0.1: a file of 21474836480 B does not fit on the device"), "{err}");
    let err = folder.line("bench --fs vfat sd/kingston phases.fio").refused();
    assert!(err.contains("add directory="), "{err}");
    let err = folder.line("bench --fs vfat sd/kingston trim.fio --directory=/mnt").refused();
    assert!(err.contains("directory"), "{err}");
}

#[test]
fn think_time_delays_requests() {
    let jobs = run(&folder_with_jobs("think"), "sd/kingston think.fio");
    let read = &jobs[0]["read"];
    assert_eq!(whole(&read["total_ios"]), 200);
    let waits_ms = (200 / 4) as f64 * 10.0;
    let busy_ms = 200.0 * number(&read["clat_ns"]["mean"]) / 1e6;
    let runtime = number(&jobs[0]["job_runtime"]);
    assert!((runtime - waits_ms - busy_ms).abs() <= 10.0, "{runtime} ms");
}

#[test]
fn logs_have_fios_names_and_one_line_per_window_and_direction() {
    let folder = folder_with_jobs("logs");
    folder.line("bench sd/kingston logs.fio").succeeded();
    for kind in ["bw", "iops", "lat", "clat"] {
        let log = folder.read(&format!("logs_{kind}.1.log"));
        assert!((11..=12).contains(&log.lines().count()), "{kind}: {log}");
        assert!(log.lines().all(|line| line.split(", ").count() == 5), "{kind}: {log}");
    }
    folder.put("named.fio", "[mine]\ndirect=1\nrw=write\nsize=64k\nwrite_bw_log\n");
    folder.line("bench sd/kingston named.fio").succeeded();
    assert_eq!(folder.read("mine_bw.1.log").lines().count(), 16);
}

#[test]
fn an_included_file_and_standard_input_are_read() {
    let folder = folder_with_jobs("include");
    let jobs = run(&folder, "sd/kingston include.fio");
    assert_eq!(jobs.iter().map(|job| whole(&job["groupid"])).collect::<Vec<_>>(), [0, 1]);
    let file = std::fs::File::open(folder.path("include.fio")).expect("the path exists");
    let mut command = folder.command(&["bench", "sd/kingston", "-", "--output-format=json"]);
    let piped = run_command(command.stdin(file)).succeeded();
    assert_eq!(piped, folder.line("bench sd/kingston include.fio --output-format=json").succeeded());
    let mut command = folder.command(&["bench", "sd/kingston", "-"]);
    let err = run_command(&mut command).refused();
    assert!(err.contains("no job is defined"), "{err}");
}

#[test]
fn durable_writes_are_not_faster_than_others() {
    let folder = folder_with_jobs("sync");
    let jobs = run(&folder, "sd/kingston sync.fio");
    assert!(jobs.iter().all(|job| whole(&job["error"]) == 0));
    let plain = run(&folder, "sd/kingston --name=s --direct=1 --rw=randwrite --bs=4k --size=8m");
    let mean = |job: &Value| number(&job["write"]["clat_ns"]["mean"]);
    assert!(mean(&jobs[0]) >= mean(&plain[0]));
}

#[test]
fn batches_fill_the_queue() {
    let jobs = run(&folder_with_jobs("batch"), "sd/kingston batch.fio");
    assert_eq!(whole(&jobs[0]["read"]["total_ios"]), 16_384);
    assert!(number(&jobs[0]["iodepth_submit"]["8"]) > 99.0, "eight at a time");
}

#[test]
fn group_reporting_combines_jobs() {
    let jobs = run(&folder_with_jobs("groups"), "sd/kingston groups.fio");
    let groups: Vec<_> =
        jobs.iter().map(|job| (whole(&job["groupid"]), whole(&job["flashlab"]["jobs"]))).collect();
    assert_eq!(groups, [(0, 2), (1, 2), (2, 1)]);
    assert!(jobs[2].get("mixed").is_some_and(|mixed| whole(&mixed["total_ios"]) > 0));
}

#[test]
fn one_table_compares_all_cards() {
    let folder = folder_with_jobs("compare");
    let table = folder.line("compare sd/* phases.fio").succeeded();
    for card in ["sd/kingston", "sd/gigastone", "sd/transcend", "sd/suneast", "sd/kioxia", "sd/sandisk"] {
        assert_eq!(
            table.lines().filter(|line| line.split_whitespace().next() == Some(card)).count(),
            3,
            "{table}"
        );
    }
    assert!(
        !table.contains("sd/qemu-sdsc") && !table.contains("sd/vlab-sdhc"),
        "the pattern includes an emulated card: {table}"
    );
    assert!(
        folder.line("compare sd/qemu-sdsc phases.fio").succeeded().contains("sd/qemu-sdsc"),
        "a card that is named is missing"
    );
    folder.line("compare sd/* phases.fio --output=table").succeeded();
    assert_eq!(folder.read("table"), table);
    let err = folder.line("compare sd/* phases.fio --output-format=json").refused();
    assert!(err.contains("compare prints one table"), "{err}");
    // The job fits on the large cards, so only the small ones report an error.
    let some = folder.line("compare sd/* --name=a --direct=1 --rw=read --offset=10g --number_ios=1");
    assert!(some.out.contains("sd/sandisk-2gb: job `a` begins at byte"), "{}", some.out);
    some.failed();
    let all = folder.line("compare sd/* --name=a --direct=1 --rw=read --bs=1000").refused();
    assert_eq!(all.lines().count(), 1, "{all}");
}

#[test]
fn several_devices_are_compared_and_the_rest_belongs_to_fio() {
    let folder = folder_with_jobs("compare-several");
    let job = "--name=a --rw=randwrite --bs=4k --size=64m --direct=1 --number_ios=100";
    let line = format!("compare --format json --html page.html sd/kingston sd/sandisk*b sd/kingston {job}");
    let text = folder.line(&line).succeeded();
    let all: Value = serde_json::from_str(&text).expect("JSON");
    let devices = all["devices"].as_array().expect("a list");
    let names: Vec<&str> = devices.iter().filter_map(|device| device["device"].as_str()).collect();
    let sandisk = ["sd/sandisk-2gb", "sd/sandisk-512mb"];
    assert_eq!(names, [&["sd/kingston"][..], &sandisk].concat(), "each device occurs once");
    for device in devices {
        let job = &device["jobs"][0];
        assert_eq!((job["direction"].as_str(), whole(&job["requests"])), (Some("write"), 100));
        let spent = job["mechanisms_ns"].as_object().expect("an object").values();
        let sum: f64 = spent.filter_map(Value::as_f64).sum();
        let mean = job["latency"]["mean_ns"].as_f64().expect("a number");
        assert!((sum - mean).abs() < 1.0, "{sum} of {mean}");
    }
    let page = folder.read("page.html");
    assert!(names.iter().all(|name| page.contains(name)) && page.contains("id=\"why\""));

    let csv = folder.line(&format!("compare --format csv sd/kingston sd/sandisk {job}")).succeeded();
    let mut lines = csv.lines();
    assert!(
        lines.next().is_some_and(|head| head.starts_with("device,job,direction,requests,bytes,")),
        "{csv}"
    );
    assert_eq!(lines.clone().count(), 2);
    assert!(lines.all(|line| line.contains(",a,write,100,409600,")), "{csv}");

    // An existing job file is not a device, even if its name begins like one.
    folder.put("sd/job", "[a]\nrw=randwrite\nbs=4k\nsize=64m\ndirect=1\nnumber_ios=10\n");
    let table = folder.line("compare sd/kingston sd/sandisk sd/job").succeeded();
    assert_eq!(table.lines().filter(|line| line.trim_start().starts_with("sd/")).count(), 2, "{table}");
    assert!(
        folder.line("compare sd/kingston sd/sanddisk sd/job").refused().contains("did you mean sd/sandisk?")
    );
    assert!(
        folder
            .line("compare sd/kingston job.fio --format=json")
            .refused()
            .contains("put it before the device")
    );
}

#[test]
fn buffered_clones_share_the_processors_and_a_note_says_that_they_share_a_region() {
    let folder = Folder::new("clones");
    let job = "--name=w --rw=randwrite --bs=64k --size=4m --numjobs=16 --group_reporting";
    let bench = |more: &str| folder.line(&format!("bench sd/kingston {job} {more}")).succeeded();
    let shared = bench("");
    assert!(shared.contains("fio gives each of the 16 clones a file of its own"), "{shared}");
    for alone in ["--directory=/d", "--filename=/dev/mmcblk0", "--offset_increment=4m"] {
        assert!(!bench(alone).contains("a file of its own"), "{alone}");
    }
    let json: Value = serde_json::from_str(&bench("--output-format=json")).expect("JSON");
    let write = &json["jobs"][0]["write"];
    // A page takes 1.94 us on each of four processors.
    let limit = 4.0 * 4096.0 / 1.94e-6;
    assert!(number(&write["bw_bytes"]) < limit, "{}", write["bw_bytes"]);
}

#[test]
fn syncs_have_a_row_and_their_mechanisms_wherever_writes_have_them() {
    let folder = Folder::new("syncs");
    let job = "--name=mytest --rw=write --ioengine=sync --fdatasync=1 --directory=d --size=1m --bs=2300";
    let text = folder.line(&format!("bench --html=page.html sd/kingston {job}")).succeeded();
    assert!(text.contains("  sync time, mean (usec): "), "{text}");
    let json = folder.line(&format!("bench sd/kingston {job} --output-format=json")).succeeded();
    let json: Value = serde_json::from_str(&json).expect("JSON");
    let job_json = &json["jobs"][0];
    let parts = job_json["flashlab"]["mechanisms_ns"]["sync"].as_object().expect("the parts of a sync");
    let sum: f64 = parts.values().map(number).sum();
    let (calls, mean) = (number(&job_json["sync"]["total_ios"]), number(&job_json["sync"]["lat_ns"]["mean"]));
    assert!((sum / calls - mean).abs() < 1.0, "{sum} over {calls} is not {mean}");
    let page = folder.read("page.html");
    assert!(page.contains("mytest, sync") && page.contains("the sync row shows the bottleneck"));
    assert!(!page.contains("take more time than the device"), "the writes are not the bottleneck");
    let table = folder.line(&format!("compare sd/kingston sd/sandisk {job}")).succeeded();
    let rows: Vec<&str> = table.lines().filter(|line| line.contains(" sync ")).collect();
    assert_eq!(rows.len(), 2, "{table}");
    assert!(rows.iter().all(|row| !row.contains("host")), "{table}");
}

#[test]
fn bench_writes_a_page_with_results_latencies_and_mechanisms() {
    let folder = folder_with_jobs("bench-page");
    let job = "--name=a --rw=randrw --bs=4k --size=64m --direct=1 --number_ios=100";
    folder.line(&format!("bench --html page.html sd/kingston {job}")).succeeded();
    let page = folder.read("page.html");
    let parts = [
        "id=\"results\"",
        "id=\"latency\"",
        "id=\"over-time\"",
        "id=\"why\"",
        "p99.99",
        "<dt>program</dt>",
        "m-program",
    ];
    for part in parts {
        assert!(page.contains(part), "{part} is missing");
    }
    assert!(
        page.contains(&format!("flashlab bench --html page.html sd/kingston {job}")),
        "the page lacks its command"
    );
}

#[test]
fn reads_of_unwritten_data_are_marked_in_json_csv_and_pages() {
    let folder = folder_with_jobs("unwritten-reads");
    let job = "--name=a --rw=randread --bs=4k --size=64m --direct=1 --number_ios=100";
    let line = |rest: &str| format!("compare {rest} sd/kingston sd/sandisk {job}");

    let read = |text: String| -> Value { serde_json::from_str(&text).expect("JSON") };
    let written = read(folder.line(&line("--format json --html written.html")).succeeded());
    let unwritten = read(folder.line(&line("--unwritten --format json --html unwritten.html")).succeeded());
    for device in 0..2 {
        let (written, unwritten) = (&written["devices"][device], &unwritten["devices"][device]);
        assert_eq!(whole(&written["written_first_bytes"]), 64 << 20);
        assert_eq!(written["jobs"][0]["unwritten"], false);
        assert_eq!(whole(&unwritten["written_first_bytes"]), 0);
        assert_eq!(unwritten["jobs"][0]["unwritten"], true);
        assert!(unwritten["notes"][0].as_str().is_some_and(|note| note.contains("accessing its flash")));
    }
    let written_first = |page: &str| page.contains("was written to each new device");
    let no_flash = |page: &str| page.contains("<td>mostly unwritten data</td>");
    let (page, other) = (folder.read("written.html"), folder.read("unwritten.html"));
    assert!(written_first(&page) && !no_flash(&page) && page.contains("id=\"figures\""));
    assert!(!written_first(&other) && no_flash(&other), "a read is not marked");
    assert!(!other.contains("id=\"figures\""), "bars of reads without flash compare nothing");

    let csv = folder.line(&line("--unwritten --format csv")).succeeded();
    assert!(csv.lines().skip(1).all(|line| line.contains(",true,0,")), "{csv}");

    folder.line(&format!("bench --html bench.html sd/kingston {job}")).succeeded();
    assert!(folder.read("bench.html").contains(" was written; --unwritten skips this"));
    folder.line(&format!("bench --unwritten --html bench.html sd/kingston {job}")).succeeded();
    assert!(no_flash(&folder.read("bench.html")));
}

#[test]
fn tables_fit_the_requested_columns() {
    let folder = folder_with_jobs("columns");
    let requests: String =
        (0..4000).map(|n| format!("  8,0 0 {n} {n}.500000000 7 Q WS {} + 8 [x]\n", n * 64)).collect();
    folder.put("trace.txt", &requests);
    folder.line("recording import --from blkparse --to run.rec trace.txt").succeeded();
    let job =
        "--name=a-job-with-a-rather-long-name --rw=randrw --bs=4k --size=64m --direct=1 --number_ios=20";
    #[cfg(feature = "volume")]
    let long = {
        let path = "members-in-a-folder-with-a-rather-long-name";
        std::fs::create_dir(folder.path(path)).expect("a writable folder");
        let members = ["ssd.fast", "hdd.a-label-that-is-long"]
            .map(|label| format!("{label}=file:{path}/{label}.img,size=64MiB"));
        folder.line(&format!("volume format --replicas 2 {}", members.join(" "))).succeeded();
        format!("volume show {path}/ssd.fast.img:{path}/hdd.a-label-that-is-long.img")
    };
    let lines = [
        #[cfg(feature = "volume")]
        long,
        "recording info run.rec".to_owned(),
        "recording replay nvme/p32a80 run.rec --mode fast".to_owned(),
        "run at91 --no-html".to_owned(),
        "trace bring-up sd/kingston".to_owned(),
        "devices".to_owned(),
        "experiments".to_owned(),
        "explain".to_owned(),
        "explain nvme/p32a80".to_owned(),
        "explain t_prog".to_owned(),
        "explain bs".to_owned(),
        format!("compare sd/kingston sd/sandisk:host=raspberry-pi-4 {job}"),
    ];
    for line in lines {
        let default = folder.line(&line).succeeded();
        for columns in ["60", "80", "100", "120"] {
            let words: Vec<&str> = line.split_whitespace().collect();
            let text = run_command(folder.command(&words).env("COLUMNS", columns)).succeeded();
            let width: usize = columns.parse().expect("a number");
            for row in text.lines() {
                assert!(row.chars().count() <= width, "{line} at {columns}: {row}");
            }
            assert!(columns != "100" || text == default, "{line}: 100 is the width without a terminal");
        }
    }
}

#[test]
fn a_request_above_max_latency_ends_its_job_with_exit_code_1() {
    let folder = folder_with_jobs("max-latency");
    let line = "bench sd/kingston --name=a --rw=randwrite --bs=4k --size=64m --direct=1 --number_ios=100";
    folder.line(&format!("{line} --max_latency=1s")).succeeded();
    let output = folder.line(&format!("{line} --max_latency=100us"));
    assert!(output.out.contains("err=110 (write of 4096 bytes at "), "{}", output.out);
    let err = output.failed();
    assert!(err.contains("longer than max_latency=100us; the results end with this request"), "{err}");
}

#[test]
fn unlinked_files_free_space_for_the_next_wave() {
    let folder = folder_with_jobs("unlink");
    let line = |unlink| {
        let jobs = "--direct=1 --directory=/mnt --rw=write --bs=1m --size=3g --number_ios=8";
        format!("bench --fs vfat sd/kingston:capacity=4GiB {jobs} {unlink} --name=a --name=b --stonewall")
    };
    let err = folder.line(&line("")).refused();
    assert!(err.contains("b.0.0: a vfat file of 3221225472 B does not fit"), "{err}");
    folder.line(&line("--unlink=1")).succeeded();
}

#[test]
fn terse_output_has_the_fields_that_scripts_cut() {
    let folder = folder_with_jobs("terse");
    let line = "bench sd/kingston --name=a --rw=randrw --bs=4k --size=64m --direct=1 --runtime=5 --thread";
    let job = &run(&folder, &line["bench ".len()..])[0];
    for format in ["--minimal", "--output-format=terse", "--output-format terse --terse-version=3"] {
        let output = folder.line(&format!("{line} {format}"));
        assert!(output.err.contains("without effect here: thread"), "{}", output.err);
        let out = output.succeeded();
        let fields: Vec<&str> = out.trim_end().split(';').collect();
        // The fields of `cut -d";" -f 3,7,8,48,49`.
        let [name, read_bw, read_iops, write_bw, write_iops] = [3, 7, 8, 48, 49].map(|n| fields[n - 1]);
        let iops = |direction: &str| (number(&job[direction]["iops"]) as u64).to_string();
        let bw = |direction: &str| whole(&job[direction]["bw"]).to_string();
        assert_eq!((fields[0], fields[1], name), ("3", "fio-3.33", "a"));
        assert_eq!((read_bw, read_iops), (&*bw("read"), &*iops("read")));
        assert_eq!((write_bw, write_iops), (&*bw("write"), &*iops("write")));
    }
    let both = folder.line(&format!("{line} --append-terse")).succeeded();
    assert!(both.starts_with("a: (g=0)") && both.contains("\n3;fio-3.33;a;0;0;"), "{both}");
}

#[test]
fn random_writes_to_new_space_are_noted_and_can_be_prepared() {
    let folder = Folder::new("written");
    let job = "--name=a --rw=randwrite --bs=4k --size=64m --direct=1 --number_ios=200";
    let note = "a writes at random to space that was never written";
    for command in ["bench", "compare"] {
        let new = folder.line(&format!("{command} sd/kingston {job}")).succeeded();
        assert!(new.contains(note), "{new}");
        let written = folder.line(&format!("{command} --written sd/kingston {job}")).succeeded();
        assert!(
            !written.contains(note) && written.contains("all space that they use (64.0 MiB)"),
            "{written}"
        );
        folder.line(&format!("{command} --written --unwritten sd/kingston {job}")).refused();
        let unwritten = folder.line(&format!("{command} --unwritten sd/kingston {job}")).succeeded();
        assert!(!unwritten.contains(note), "{unwritten}");
    }
    let iops = |options: &str| {
        let text =
            folder.line(&format!("bench {options} sd/kingston {job} --output-format=json")).succeeded();
        let result: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(result["flashlab"]["run"]["written"] == true, options == "--written");
        result["jobs"][0]["write"]["iops"].as_f64().expect("a rate")
    };
    assert!(iops("--written") < iops(""), "old data has to be moved");
}

#[test]
fn compare_names_the_command_for_devices_that_move_bytes() {
    let folder = Folder::new("compare-bytes");
    let job = "--name=a --rw=read --bs=4k --size=1m --direct=1";
    for device in ["memory:size=1M", "sd/kingston volume:a.img"] {
        let message = folder.line(&format!("compare {device} {job}")).refused();
        assert!(message.contains("compare takes simulated devices; bench takes volume:"), "{message}");
    }
}
