//! Comparison of our parser with an installed fio 3.33. If it is not installed, each test prints that it is
//! skipped.

use flashlab_fio::cmdline::Invocation;
use flashlab_fio::jobfile::JobFile;
use flashlab_fio::loader::NoFiles;
use flashlab_fio::number::{self, KbBase, TimeUnit};
use flashlab_fio::option;
use serde_json::Value;
use std::process::{Command, Output};
use std::sync::OnceLock;

/// Runs fio, or prints the reason why it cannot.
fn fio(arguments: &[&str]) -> Option<Output> {
    static VERSION: OnceLock<Option<String>> = OnceLock::new();
    let version = VERSION.get_or_init(|| {
        let output = Command::new("fio").arg("--version").output().ok();
        output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    });
    if version.as_deref() != Some("fio-3.33") {
        eprintln!("skipped: needs fio-3.33, found {}", version.as_deref().unwrap_or("no fio"));
        return None;
    }
    Some(Command::new("fio").args(arguments).output().expect("fio ran a moment ago"))
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), output.stderr.as_slice()].concat()).into_owned()
}

/// Returns the number that fio reads from `value`, or `None` if fio cannot run.
fn read_by_fio(option: &str, value: &str, base: &str) -> Option<Option<u64>> {
    let option = format!("--{option}={value}");
    let base = format!("--kb_base={base}");
    let output = fio(&["--parse-only", "--debug=parse", "--name=x", "--ioengine=null", &base, &option])?;
    let text = text(&output);
    let number = text.lines().filter_map(|line| line.split_once("ret=0, out=")).next();
    Some(number.and_then(|(_, number)| number.trim().parse().ok()))
}

#[test]
fn every_option_of_the_installed_fio_is_in_the_table_with_its_aliases() {
    let Some(help) = fio(&["--cmdhelp=all"]) else { return };
    let help = text(&help);
    let names: Vec<&str> =
        help.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name.trim()).collect();
    assert!(names.len() > 200, "{} options", names.len());
    for name in names {
        let entry = option::lookup(name).unwrap_or_else(|| panic!("{name} is not in the table"));
        assert_eq!(entry.name, name, "fio's first name for it");
        let about = text(&fio(&[&format!("--cmdhelp={name}")]).expect("fio is there"));
        let alias = about.lines().find_map(|line| line.trim().strip_prefix("alias: "));
        // fio names one of the option's aliases.
        assert!(alias.is_none_or(|alias| entry.aliases.contains(&alias.trim())), "{name}, {alias:?}");
        let is_switch = about.contains("empty or boolean value");
        assert_eq!(entry.is_switch(), is_switch, "whether {name} may stand without a value");
        let default =
            about.lines().find_map(|line| line.trim().strip_prefix("default: ")).unwrap_or_default();
        let differs = ["no default", "0", "100,100,100", "0x89"].contains(&default);
        let is_modelled = entry.support == option::Support::Modelled;
        if is_modelled && !differs {
            assert_eq!(entry.default, default, "default of {name}");
        }
    }
}

#[test]
fn sizes_are_those_of_the_installed_fio() {
    let mut values: Vec<String> = Vec::new();
    for suffix in [
        "", "b", "B", "k", "K", "kb", "ki", "kib", "KiB", "m", "mi", "MiB", "g", "gib", "t", "tib", "p",
        "pib",
    ] {
        values.push(format!("7{suffix}"));
    }
    values.extend(["0x10", "0X1f", "010", "9223372036854775807"].map(str::to_string));
    for value in &values {
        for (base, name) in [(KbBase::Binary, "1024"), (KbBase::Decimal, "1000")] {
            let Some(theirs) = read_by_fio("bs", value, name) else { return };
            assert_eq!(number::bytes(value, base).ok(), theirs, "bs={value} kb_base={name}");
        }
    }
}

#[test]
fn times_are_those_of_the_installed_fio() {
    for value in
        ["60", "2s", "2S", "3m", "3M", "1h", "2d", "500ms", "10msec", "10us", "10u", "10usec", "0", "(5)"]
    {
        let Some(theirs) = read_by_fio("runtime", value, "1024") else { return };
        let ours = number::time(value, TimeUnit::Seconds).ok().map(|time| time.as_ns() / 1000);
        // Debian's build of fio has no arithmetic.
        assert!(
            ours == theirs || (value.starts_with('(') && theirs.is_none()),
            "{value}: {ours:?} {theirs:?}"
        );
    }
    for value in ["100", "100us", "1ms", "1s"] {
        let Some(theirs) = read_by_fio("thinktime", value, "1024") else { return };
        let ours = number::time(value, TimeUnit::Microseconds).ok().map(|time| time.as_ns() / 1000);
        assert_eq!(ours, theirs, "thinktime={value}");
    }
}

/// Name, group and options of a job, as written.
type Described = (String, u64, Value);

/// Returns the global options and the jobs of fio's JSON.
fn jobs_of_fio(arguments: &[&str]) -> Option<(Value, Vec<Described>)> {
    let output = fio(&[&["--output-format=json"], arguments].concat())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let json: Value = serde_json::from_str(&text[text.find('{').expect("JSON")..]).expect("JSON");
    let jobs = json["jobs"].as_array().expect("jobs").iter();
    let jobs = jobs.map(|job| {
        let name = job["jobname"].as_str().expect("a name").to_owned();
        (name, job["groupid"].as_u64().expect("a group"), job["job options"].clone())
    });
    Some((json["global options"].clone(), jobs.collect()))
}

/// Returns options as in fio's JSON, which omits the object if there are none.
fn object(options: &[(String, String)]) -> Value {
    if options.is_empty() {
        return Value::Null;
    }
    Value::Object(options.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str()))).collect())
}

#[test]
fn jobs_of_files_are_named_grouped_and_described_as_by_the_installed_fio() {
    let files = [
        "[global]\nioengine=null\nsize=64k\n[a]\nbs=4k\nbs=8k\nblocksize=16k\n[b]\nstonewall\nnumjobs=2\n[c]\nnew_group=1\n",
        "; x\n[global]\nioengine=null\n[a b] ; y\nsize=64k # z\ntime_based=0\ngroup_reporting\n[a b]\nsize=32k\nname=q\n",
        "[globals]\nioengine=null\nsize=64k\n[a]\nstonewall=1\ndescription=x y\n[global]\nbs=8k\n[b]\nkb_base=1000\nbs=4k\n",
    ];
    for (index, contents) in files.iter().enumerate() {
        let folder = std::env::temp_dir().join(format!("flashlab-parse-{}-{index}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for a job file");
        let path = folder.join("job.fio");
        std::fs::write(&path, contents).expect("a job file");
        let theirs = jobs_of_fio(&[path.to_str().expect("UTF-8")]);
        std::fs::remove_dir_all(&folder).expect("the folder of a job file");
        let Some((globals, jobs)) = theirs else { return };
        let ours = JobFile::parse("job.fio", contents.as_bytes(), &NoFiles).expect(contents);
        let described: Vec<_> =
            ours.jobs.iter().map(|j| (j.name.clone(), u64::from(j.group), object(&j.options))).collect();
        assert_eq!(described, jobs, "{contents}");
        assert_eq!(object(&ours.global_options), globals, "{contents}");
    }
}

#[test]
fn jobs_of_command_lines_are_those_of_the_installed_fio() {
    for line in [
        "--ioengine=null --size=64k --name=x --rw=write --name=y --stonewall --numjobs=2",
        "--name=global --ioengine=null --size=64k --name=x --new_group --name=y --new_group=1",
        "--name=x --ioengine null --size 64k -bs=8k --blocksize=16k --runt=5 --group_reporting",
    ] {
        let args: Vec<&str> = line.split(' ').collect();
        let Some((globals, jobs)) = jobs_of_fio(&args) else { return };
        let ours = Invocation::parse(&args, &NoFiles).expect(line);
        let described: Vec<_> =
            ours.jobs.iter().map(|j| (j.name.clone(), u64::from(j.group), object(&j.options))).collect();
        assert_eq!(described, jobs, "{line}");
        assert_eq!(object(&ours.global_options), globals, "{line}");
    }
}

#[test]
fn options_that_the_installed_fio_rejects_are_rejected() {
    for options in [
        "--bs=0",
        "--bs=4z",
        "--bs=99999999999999999999",
        "--iodepth=0",
        "--rwmixread=101",
        "--direct=2",
        "--direct=yes",
        "--rw=bogus",
        "--rw=reads",
        "--kb_base=3",
        "--io_size=101%",
        "--filesize=0",
        "--bsrange=4k",
        "--bssplit=/50",
        "--random_distribution=zipf:1",
        "--random_distribution=pareto:1.5",
        "--random_distribution=zoned:10/10:20/20",
        "--percentage_random=101",
        "--percentile_list=101",
        "--percentile_list=x",
        "--fallocate=bogus",
        "--sync=2",
        "--ba=0",
        "--rate=1m --rate_iops=5",
        "--size=1k --bs=4k",
        "--bogus=1",
        "--time_based=",
        "--rw=write --readonly",
        "numjobs=1",
        "--time_based 0",
        "--output-format=xml",
        "--direct",
        "--nosuchoption",
        "--bs=",
    ] {
        let line = format!("--name=x --ioengine=null --size=64k {options}");
        let args: Vec<&str> = line.split(' ').collect();
        let Some(output) = fio(&args) else { return };
        assert!(!output.status.success(), "fio takes {options}");
        assert!(Invocation::parse(&args, &NoFiles).is_err(), "{options} was taken");
    }
}
