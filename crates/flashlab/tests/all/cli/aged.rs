//! Used devices, device counters and device lives: `age`, `state=FILE`, `run endurance`.

use super::folder::Folder;
use insta::assert_snapshot;
use serde_json::Value;

const CARD: &str = "sd/kingston:capacity=64MiB,cycles=40,beyond=4";
const WRITE: &str = "--name=w --rw=randwrite --bs=4k --size=32M --io_size=64M --direct=1";
const READ: &str = "--name=r --rw=randread --bs=4k --size=32M --number_ios=500 --direct=1";

#[test]
fn a_used_card_continues_from_its_state_file() {
    let folder = Folder::new("aged");
    let aged = folder.line(&format!("age {CARD} {WRITE} --to used.state"));
    assert!(aged.err.contains(&format!("start from it with {CARD},state=used.state")), "{}", aged.err);
    let out = aged.succeeded();
    assert!(out.starts_with(&format!("{CARD}:\n  host wrote")) && out.contains("life left"), "{out}");

    let bench = |device: &str| folder.line(&format!("bench {device} {READ} --output-format=json"));
    let used = bench(&format!("{CARD},state=used.state"));
    assert!(used.err.contains("starts from the state in used.state"), "{}", used.err);
    let used = used.succeeded();
    assert_eq!(
        used,
        bench(&format!("{CARD},state=used.state")).succeeded(),
        "a run changed the file of its state"
    );
    assert_ne!(used, bench(CARD).succeeded());
    // The state belongs to the card, so it also loads with another host's reader.
    bench(&format!("{CARD},host=at91rm9200,state=used.state")).succeeded();
    // The seed comes from the state, not from the command line.
    assert_eq!(
        used,
        folder
            .line(&format!("bench --seed 9 {CARD},state=used.state {READ} --output-format=json"))
            .succeeded()
    );

    let further = folder.line(&format!("age --to more.state {CARD},state=used.state {WRITE}"));
    assert!(further.err.contains(&format!("start from it with {CARD},state=more.state")), "{}", further.err);
    further.succeeded();
    let replaced = format!("age --to more.state {CARD} {WRITE}");
    assert!(folder.line(&replaced).refused().contains("--force replaces it"));
    folder.line(&format!("{replaced} --force")).succeeded();
    let compared = folder.line(&format!("compare {CARD},state=more.state {READ}")).succeeded();
    assert!(compared.contains("sd/kingston"), "{compared}");
    assert_eq!(folder.names(), ["more.state", "used.state"]);
}

#[test]
fn age_writes_its_output_file_but_no_logs_and_refuses_formats() {
    let folder = Folder::new("age-output");
    let aged = folder.line(&format!("age {CARD} {WRITE} --write_lat_log=x --output=out --to d.state"));
    assert!(aged.err.contains("age writes no logs"), "{}", aged.err);
    assert_eq!(aged.succeeded(), "");
    assert!(folder.read("out").starts_with(CARD));
    let err = folder.line(&format!("age {CARD} {WRITE} --output-format=json --to e.state")).refused();
    assert!(err.contains("leave --output-format out"), "{err}");
    assert_eq!(folder.names(), ["d.state", "out"]);
}

#[test]
fn a_drive_can_be_aged_like_a_card() {
    let folder = Folder::new("aged-drive");
    let drive = "nvme/p32a80:capacity=256MiB,blocks=24,pages=96,hmb=8M";
    let write = "--name=w --rw=write --bs=128k --size=256M --direct=1";
    folder.line(&format!("age {drive} {write} --to d.state")).succeeded();
    let out = folder.line(&format!("bench {drive},state=d.state {READ}")).succeeded();
    assert!(out.contains("map look-ups"), "{out}");
    let err = folder.line(&format!("bench {drive},state=d.state,t_load=92us {READ}")).refused();
    assert!(err.contains("map.t_load was 91us, is 92us"), "{err}");
    let err = folder
        .line(&format!("bench nvme/p32a80:capacity=256MiB,blocks=24,pages=96,hmb=0,state=d.state {READ}"))
        .refused();
    assert!(err.contains("pc.hmb was 8MiB, is 0B"), "{err}");
}

#[test]
fn device_counters_follow_fios_output() {
    let folder = Folder::new("counted");
    let text = folder.line(&format!("bench {CARD} {WRITE}")).succeeded();
    let (_, counted) =
        text.split_once(&format!("\n\n{CARD}:\n")).expect("the counters are a separate paragraph");
    assert!(counted.starts_with("  host wrote") && counted.contains("64.0 MiB"), "{counted}");
    let json: Value =
        serde_json::from_str(&folder.line(&format!("bench {CARD} {WRITE} --output-format=json")).succeeded())
            .expect("JSON");
    let flashlab = &json["flashlab"];
    assert_eq!(flashlab["host_written_bytes"], 64 << 20);
    let (programmed, written) = (flashlab["programmed_bytes"].as_f64().expect("bytes"), (64 << 20) as f64);
    assert_eq!(flashlab["write_amplification"].as_f64(), Some(programmed / written));
    assert!(flashlab["erases"]["mean"].as_f64().expect("erases") > 0.0);
    let results: Value =
        serde_json::from_str(&folder.line("run at91 --no-html --format json").out).expect("JSON");
    assert_eq!(results["statistics"].as_array().map(Vec::len), Some(8), "one device for each row and column");
}

#[test]
fn invalid_states_and_unwritable_destinations_are_refused() {
    let folder = Folder::new("wrong-state");
    folder.line(&format!("age {CARD} {WRITE} --to used.state")).succeeded();
    let whole = std::fs::read(folder.path("used.state")).expect("the path exists");
    folder
        .put("cut.state", &whole[..whole.len() / 2])
        .put("text.state", "not a state")
        .put("empty.state", "");
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 1;
    folder.put("damaged.state", &damaged).put("folder/x", "");
    let mut messages = String::new();
    for line in [
        format!("bench {CARD},state=cut.state {READ}"),
        format!("bench {CARD},state=damaged.state {READ}"),
        format!("bench {CARD},state=text.state {READ}"),
        format!("bench {CARD},state=empty.state {READ}"),
        format!("bench {CARD},state=nothing {READ}"),
        format!("bench {CARD},state=folder {READ}"),
        format!("bench {CARD},state= {READ}"),
        format!("bench {CARD},t_prog=1ms,state=used.state {READ}"),
        format!("bench sd/kioxia:state=used.state {READ}"),
        format!("bench nvme/p32a80:state=used.state {READ}"),
        format!("age {CARD} {WRITE}"),
        format!("age {CARD} {WRITE} --to"),
        format!("age --to a {CARD} {WRITE} --to=b"),
        format!("age {CARD} --to a"),
        format!("bench {CARD} {READ} --to a"),
    ] {
        messages.push_str(&folder.line(&line).refused());
    }
    assert_snapshot!(messages);
    let err = folder.line(&format!("age {CARD} {WRITE} --to nowhere/x")).refused();
    assert!(err.starts_with("flashlab: nowhere/x: "), "{err}");
}

#[test]
fn impossible_drives_are_refused_with_the_parameter() {
    let folder = Folder::new("drives");
    let profile = include_str!("../../../../../profiles/nvme/p32a80.toml");
    let mut messages = String::new();
    for (key, line) in [
        ("channels =", "channels = 0"),
        ("dies =", "dies = 300"),
        ("page =", "page = \"1000B\""),
        ("capacity =", "capacity = \"400GiB\""),
        ("reserve =", "reserve = 0"),
        ("leveling =", "leveling = \"statik\""),
        ("leveling =", "leveling = \"static\"\nthreshold = 0"),
        ("minimum =", "minimum = \"250MiB\""),
        ("generation =", "generation = \"gen6\""),
        ("blocking =", "blocking = 1"),
        ("lanes =", "lanes = 3"),
    ] {
        let changed: String = profile
            .lines()
            .map(|l| if l.starts_with(key) { line } else { l })
            .flat_map(|line| [line, "\n"])
            .collect();
        let with_source = match line.contains("threshold") {
            true => format!("{changed}\"wear.threshold\" = {{ typical = \"x\" }}\n"),
            false => changed,
        };
        let err = folder.put("my.toml", with_source).line(&format!("bench my.toml {READ}")).refused();
        let first = err.lines().next().unwrap_or_default();
        let place = first.split(": ").nth(1).unwrap_or_default().to_owned();
        assert!(place.matches(':').count() == 2, "{err}");
        messages.push_str(&first.replacen(&place, "my.toml:LINE", 1));
        messages.push('\n');
    }
    for argument in [
        "nvme/p32a80:cycles=0",
        "nvme/p32a80:hmb=4M",
        "nvme/p32a80:hmb=64q",
        "nvme/p32a80:host=raspberry-pi-4",
        "sd/kingston:host=linux-pc",
        "sd/kingston:hmb=64M",
        "nvme/p32a80:leveling=static,threshold=0",
        "sd/kingston:cycles=0",
    ] {
        messages.push_str(&folder.line(&format!("bench {argument} {READ}")).refused());
    }
    assert_snapshot!(messages);
}

#[test]
fn endurance_runs_a_users_job_or_trace() {
    let folder = Folder::new("endurance");
    folder.put("job.fio", "[w]\ndirect=1\nrw=write\nbs=1M\nsize=16M\n");
    folder.put("trace.log", "fio version 3 iolog\n0 a add\n0 a open\n1 a write 0 1048576\n20 a write 1048576 1048576\n1000 a close\n");
    let run = |job: &str, device: &str| {
        let line = format!("run endurance --no-html --format json --job {job} --devices {device} --seeds 3");
        let text = folder.line(&line).succeeded();
        serde_json::from_str::<Value>(&text).expect("JSON")
    };
    let days = |results: &Value, row: &str| {
        let cells = results["cells"].as_array().expect("cells");
        let cell = cells.iter().find(|c| c["table"] == "days until the first failure" && c["row"] == row);
        cell.and_then(|cell| cell["simulated"]["mean"].as_f64())
    };
    let job = run("job.fio", CARD);
    let (shortest, median, longest) = (days(&job, "shortest"), days(&job, "median"), days(&job, "longest"));
    assert!(
        shortest > Some(0.0) && shortest <= median && median <= longest,
        "{shortest:?} {median:?} {longest:?}"
    );
    assert!(days(&run("trace.log", CARD), "median") > median, "2 MiB a second and a pause");
    // Wear does not become steady in the first of these runs. The job of the second run erases nothing.
    let endless = run("job.fio", "sd/kingston:capacity=64MiB");
    assert!(
        days(&endless, "median").is_none() && endless["notes"].to_string().contains("wear is not limited")
    );
    folder.put("read.fio", "[r]\ndirect=1\nrw=read\nbs=1M\nsize=16M\n");
    assert!(run("read.fio", CARD)["notes"].to_string().contains("causes no erases"));
    let mut messages = String::new();
    for line in [
        "run at91 --job job.fio",
        "run endurance --job nothing",
        "run endurance --job -",
        "run endurance --seeds 0",
        "run endurance --devices tape/*",
        "run endurance --devices sd/kingston:cycles=many",
    ] {
        messages.push_str(&folder.line(line).refused());
    }
    folder
        .put("wrong.fio", "[w]\nrw=wirte\n")
        .put("bytes.fio", "[w]\ndirect=1\nrw=write\nsize=1M\nverify=crc32c\n");
    folder.put("wrong.log", "fio version 3 iolog\n0 a add\n0 a opne\n");
    for job in ["wrong.fio", "wrong.log", "bytes.fio"] {
        messages.push_str(
            &folder.line(&format!("run endurance --job {job} --devices {CARD} --seeds 1")).refused(),
        );
    }
    assert_snapshot!(messages);
}
