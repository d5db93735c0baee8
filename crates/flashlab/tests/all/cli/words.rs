//! Messages for typing errors, misplaced options and requests for help, and hints next to results.

use super::folder::Folder;

const JOB: &str = "--name=a --rw=randread --bs=4k --direct=1 --number_ios=10";

#[test]
fn a_misspelt_name_gets_a_suggestion() {
    let folder = Folder::new("slips");
    for (line, meant) in [
        ("bench sd/kingstom --name=a --direct=1", "did you mean sd/kingston?"),
        ("bench kioxia --name=a --direct=1", "did you mean sd/kioxia?"),
        ("compare sd/sanddisk --name=a --direct=1", "did you mean sd/sandisk?"),
        ("bench sd/kingston:flash.t_porg=1us --name=a --direct=1", "did you mean flash.t_prog?"),
        ("bench --fs vfta sd/kingston --name=a --direct=1", "did you mean vfat?"),
        ("run sd-card", "did you mean sd-cards?"),
        ("explain t_porg", "did you mean flash.t_prog?"),
        ("explain sd/kingstom", "did you mean sd/kingston?"),
        ("explain nmjobs", "did you mean numjobs?"),
        ("bench sd/kingston --name=a --direct=1 --rw=randraed", "did you mean randread?"),
        ("bench sd/kingston --name=a --direct=1 --nmjobs=2", "did you mean numjobs?"),
        ("bnech sd/kingston", "'bench'"),
    ] {
        let err = folder.line(line).refused();
        assert!(err.contains(meant), "{line}: {err}");
    }
}

#[test]
fn words_of_the_glossary_and_experiments_are_explained() {
    let folder = Folder::new("explained");
    let explained = |name: &str| folder.run(&["explain", name]).succeeded();
    assert!(explained("fitted").contains("adjusted until the simulation reproduces"));
    assert!(explained("effective spare").contains("the exported capacity"));
    assert!(explained("at91").contains("Run it with `flashlab run at91`"));
    let wear = folder.run(&["explain", "wear", "--json"]).succeeded();
    assert!(wear.contains("\"kind\": \"word\"") && wear.contains("erase"), "{wear}");
}

#[test]
fn an_option_of_flashlab_after_the_device_is_explained() {
    let folder = Folder::new("behind");
    for option in
        ["--seed 3", "--seed=3", "--fs vfat", "--against x.json", "--library=x", "--logger-rate=1MiB/s"]
    {
        let err = folder.line(&format!("bench sd/kingston {JOB} {option}")).refused();
        let name = option.split([' ', '=']).next().expect("there is a first part");
        assert!(
            err.starts_with(&format!("flashlab: {name} is an option of flashlab: put it before the device")),
            "{err}"
        );
    }
    assert!(
        folder.line(&format!("bench sd/kingston {JOB} --help")).refused().contains("flashlab bench --help")
    );
}

#[test]
fn a_device_without_a_job_gets_an_example_of_a_job() {
    let folder = Folder::new("no-job");
    for line in ["bench sd/kingston", "compare sd/*"] {
        assert!(
            folder
                .line(line)
                .refused()
                .contains("no job: name a job file or a recording, or give fio's options (--name=")
        );
    }
}

#[test]
fn names_are_listed_and_names_of_each_kind_have_an_explanation() {
    let folder = Folder::new("explain");
    let list = folder.line("explain").succeeded();
    let indented = list.lines().filter(|line| line.starts_with("  ") && !line.trim().is_empty());
    let names: Vec<&str> = indented
        .flat_map(|line| {
            // Titles follow the names of devices, hosts and filesystems.
            let words: Vec<&str> = line.split_whitespace().collect();
            let one = line.trim_start().contains("  ");
            words.into_iter().take(if one { 1 } else { usize::MAX })
        })
        .collect();
    assert!(names.contains(&"flash.t_prog") && names.contains(&"iodepth") && names.contains(&"sd/kingston"));
    assert!(names.len() > 100, "{names:?}");
    for name in
        ["flash.t_prog", "merge", "bs", "--bs", "sd/kingston", "vfat", "raspberry-pi-4", "thread", "verify"]
    {
        assert!(!folder.run(&["explain", name]).succeeded().is_empty(), "{name}");
    }
}

#[test]
fn mostly_unwritten_reads_are_reported() {
    let folder = Folder::new("fresh");
    let fresh = folder.line(&format!("bench --unwritten sd/kingston {JOB}"));
    assert!(fresh.err.contains("job `a` mostly reads data that was never written"), "{}", fresh.err);
    fresh.succeeded();
    let used =
        "--direct=1 --size=1m --name=fill --rw=write --bs=1m --name=a --stonewall --rw=randread --bs=4k";
    let used = folder.line(&format!("bench sd/kingston {used}"));
    assert_eq!(used.err, "");
    used.succeeded();
}

#[test]
fn reads_that_the_page_cache_answers_are_not_unwritten() {
    let folder = Folder::new("cached-reads");
    let job = "--name=a --rw=read --size=8m";
    let used = folder.line(&format!("bench sd/kingston {job}"));
    assert_eq!(used.err, "");
    used.succeeded();
    let compared = folder.line(&format!("compare sd/kingston sd/sandisk {job}")).succeeded();
    assert!(!compared.contains("mostly unwritten data"), "{compared}");
    let fresh = folder.line(&format!("bench --unwritten sd/kingston {job}"));
    assert!(fresh.err.contains("job `a` mostly reads data that was never written"), "{}", fresh.err);
}

#[test]
fn data_that_a_job_reads_is_written_before_the_job_begins() {
    let folder = Folder::new("written-first");
    let job = "--name=a --rw=randread --bs=4k --size=16m --direct=1";
    let json = |line: &str| -> serde_json::Value {
        let text = folder.line(&format!("{line} --output-format=json")).succeeded();
        serde_json::from_str(&text).expect("JSON")
    };
    let iops = |json: &serde_json::Value| json["jobs"][0]["read"]["iops"].as_f64().expect("a rate");
    let (written, unwritten) =
        (json(&format!("bench sd/kingston {job}")), json(&format!("bench --unwritten sd/kingston {job}")));
    assert_eq!(written["flashlab"]["written_first_bytes"], 16 << 20);
    assert_eq!(unwritten["flashlab"]["written_first_bytes"], 0);
    assert_eq!(
        written["flashlab"]["host_written_bytes"], 0,
        "data written first does not count as the job's"
    );
    let after =
        "--direct=1 --size=16m --name=fill --rw=write --bs=1m --name=a --stonewall --rw=randread --bs=4k";
    let after = json(&format!("bench sd/kingston {after}"));
    assert_eq!(after["flashlab"]["written_first_bytes"], 0, "the first job of the run writes the data");
    let by_job = after["jobs"][1]["read"]["iops"].as_f64().expect("a rate");
    assert!((iops(&written) / by_job - 1.0).abs() < 0.02, "{} {by_job}", iops(&written));
    assert!(iops(&written) < iops(&unwritten));
    let text = folder.line(&format!("bench sd/kingston {job}")).succeeded();
    assert!(
        text.contains("\nBefore the jobs began, the data that they read (16.0 MiB) was written; --unwritten"),
        "{text}"
    );
    // Nothing is written in advance to a used device.
    folder
        .line("age --to used.state sd/kingston --name=w --rw=write --bs=1m --size=16m --direct=1")
        .succeeded();
    let used = json(&format!("bench sd/kingston:state=used.state {job}"));
    assert_eq!(used["flashlab"]["written_first_bytes"], 0);

    let compared = folder.line(&format!("compare sd/k* {job}")).succeeded();
    assert!(!compared.contains("mostly unwritten data"), "{compared}");
    let in_one_line = compared.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(in_one_line.contains("was written to each new device; --unwritten skips this"), "{compared}");
    let compared = folder.line(&format!("compare --unwritten sd/k* {job}")).succeeded();
    let marked = compared.lines().filter(|line| line.starts_with("sd/k") || line.starts_with(" sd/k"));
    assert!(marked.clone().count() >= 2, "{compared}");
    assert!(marked.clone().all(|line| line.ends_with("mostly unwritten data")), "{compared}");
}

#[test]
fn options_without_effect_are_named() {
    let folder = Folder::new("effect");
    let line = format!("{JOB} --filename=/dev/sdb --thread --nice=5");
    let out = folder.line(&format!("bench sd/kingston {line}")).succeeded();
    assert!(out.contains("Without effect here: thread, nice=5, filename=/dev/sdb\n"), "{out}");
    let compared = folder.line(&format!("compare sd/kingston {line} --write_bw_log=x"));
    assert!(
        compared.err.contains("without effect here: thread, nice=5, filename=/dev/sdb\n"),
        "{}",
        compared.err
    );
    assert!(compared.err.contains("compare writes no logs"), "{}", compared.err);
    assert_eq!(folder.names(), [""; 0]);
}

#[test]
fn the_examples_of_the_help_run() {
    let folder = Folder::new("examples");
    folder.put("job.fio", "[a]\ndirect=1\nrw=randread\nnumber_ios=10\n");
    for name in ["before.json", "after.json"] {
        folder
            .put(name, folder.line("bench --unwritten sd/kingston job.fio --output-format=json").succeeded());
    }
    let help = folder.line("--help").succeeded();
    let examples: Vec<&str> = help.lines().filter_map(|line| line.strip_prefix("  flashlab ")).collect();
    assert!(examples.len() > 4, "{help}");
    // `run sd-cards` has tests of its own, and takes longer than all other examples.
    for example in examples.iter().filter(|example| **example != "run sd-cards") {
        folder.line(&example.replace('\'', "")).succeeded();
    }
}

#[test]
fn a_command_that_is_not_in_this_build_names_its_feature() {
    let folder = Folder::new("absent");
    for (command, feature, is_here) in [
        ("diff", "fit", cfg!(feature = "fit")),
        ("fit", "fit", cfg!(feature = "fit")),
        ("measure", "fit", cfg!(feature = "fit")),
        ("probe", "fit", cfg!(feature = "fit")),
        ("record", "record", cfg!(feature = "record")),
    ] {
        let err = folder.line(&format!("{command} --no-such-option")).refused();
        let absent = format!("flashlab {command} is not in this build; build with the feature `{feature}`");
        assert_eq!(err.contains(&absent), !is_here, "{err}");
    }
}
