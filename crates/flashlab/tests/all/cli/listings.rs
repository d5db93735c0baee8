//! Listings for people and for programs, completions for shells, and manual pages.

use super::folder::Folder;
use serde_json::Value;
use std::process::{Command, Stdio};

fn json(folder: &Folder, line: &str) -> Value {
    let text = folder.line(line).succeeded();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{line}: {error}"))
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array().expect("a list").iter().map(|one| one["name"].as_str().expect("a name")).collect()
}

#[test]
fn devices_are_selected_by_prefix_or_pattern() {
    let folder = Folder::new("devices");
    let all = folder.line("devices").succeeded();
    assert!(["Devices\n", "\nHosts\n", "\nFilesystems\n"].iter().all(|heading| all.contains(heading)));
    let cards = folder.line("devices sd/").succeeded();
    assert!(cards.contains("sd/kingston") && !cards.contains("nvme/") && !cards.contains("Hosts"), "{cards}");
    let some = json(&folder, "devices sd/s* --json");
    assert!(names(&some["devices"]).contains(&"sd/sandisk"));
    assert!(names(&some["devices"]).iter().all(|name| name.starts_with("sd/s")), "{some}");
    assert_eq!(
        (&some["hosts"], &some["filesystems"]),
        (&Value::from(vec![(); 0]), &Value::from(vec![(); 0]))
    );
    for (pattern, list, name) in [
        ("raspberry", "hosts", "raspberry-pi-4"),
        ("host/", "hosts", "raspberry-pi-4"),
        ("fs/vfat", "filesystems", "vfat"),
    ] {
        let found = json(&folder, &format!("devices --json {pattern}"));
        assert!(names(&found[list]).contains(&name), "{pattern}: {found}");
        assert_eq!(names(&found["devices"]), [""; 0]);
    }
    for (pattern, meant) in
        [("sdd/", "did you mean sd/?"), ("sd/kingstom", "did you mean sd/kingston?"), ("tape/*", "lists all")]
    {
        let err = folder.line(&format!("devices {pattern}")).refused();
        assert!(err.contains("no device, host or filesystem matches"), "{err}");
        assert!(err.contains(meant), "{pattern}: {err}");
    }
}

#[test]
fn listings_are_json_for_programs() {
    let folder = Folder::new("listings");
    let devices = json(&folder, "devices --json");
    let kingston = devices["devices"].as_array().expect("a list").iter().find(|d| d["name"] == "sd/kingston");
    let kingston = kingston.expect("the list has this card");
    assert_eq!((&kingston["kind"], &kingston["host"]), (&"card".into(), &"raspberry-pi-4".into()));
    assert!(kingston["capacity_bytes"].as_u64().expect("bytes") > 1 << 30);
    let plain = folder.line("experiments --names").succeeded();
    let experiments = json(&folder, "experiments --json");
    assert_eq!(names(&experiments["experiments"]), plain.lines().collect::<Vec<_>>());
    let all = json(&folder, "explain --json");
    assert!(all["parameters"].as_array().expect("a list").contains(&"flash.t_prog".into()));
    assert_eq!(names(&all["devices"]), names(&devices["devices"]));
}

#[test]
fn every_kind_of_explanation_is_available_as_json() {
    let folder = Folder::new("explained");
    for (name, kind) in [
        ("flash.t_prog", "parameter"),
        ("merge", "mechanism"),
        ("sd/kingston", "card"),
        ("nvme/p32a80:hmb=0", "ssd"),
        ("raspberry-pi-4", "host"),
        ("vfat", "filesystem"),
        ("bs", "fio option"),
        ("--minimal", "fio option"),
        ("include", "fio option"),
    ] {
        let found = json(&folder, &format!("explain --json {name}"));
        assert_eq!(found[0]["kind"], kind, "{name}: {found}");
        assert_eq!(found, json(&folder, &format!("explain {name} --json")));
    }
    let value = &json(&folder, "explain --json sd/kingston")[0]["numbers"][0];
    assert!(["name", "value", "meaning", "source"].iter().all(|key| value[key].is_string()), "{value}");
    let refused = &json(&folder, "explain --json io_submit_mode")[0];
    assert_eq!(
        (&refused["standing"], &refused["accepted_values"]),
        (&"refused".into(), &vec!["inline"].into())
    );
    assert!(folder.line("explain --json t_porg").refused().contains("did you mean flash.t_prog?"));
}

#[test]
fn a_missing_folder_is_not_reported_as_an_unknown_name() {
    let folder = Folder::new("nodir");
    folder.put("empty/readme", "");
    for (line, what) in [
        ("run ./nodir", "no such folder: ./nodir"),
        ("run no/dir", "no such folder: no/dir"),
        ("run ..nodir", "no such folder: ..nodir"),
        ("run ./empty", "the folder ./empty has no experiment.toml"),
        ("run empty", "the folder empty has no experiment.toml"),
        ("run sd-card", "did you mean sd-cards?"),
    ] {
        let err = folder.line(line).refused();
        assert!(err.contains(what), "{line}: {err}");
    }
}

/// Returns the commands in the help, with the subcommands of each: `bench`, `trace bring-up`.
pub(super) fn commands(folder: &Folder, before: &str) -> Vec<String> {
    // Without their features, these commands are listed, but have no help of their own.
    if !cfg!(feature = "fit") && ["diff", "fit", "measure", "probe"].contains(&before.trim()) {
        return Vec::new();
    }
    if !cfg!(feature = "record") && before.trim() == "record" {
        return Vec::new();
    }
    if !cfg!(feature = "serve") && ["serve", "ctl", "load"].contains(&before.trim()) {
        return Vec::new();
    }
    if !cfg!(feature = "web") && before.trim() == "web" {
        return Vec::new();
    }
    let help = folder.line(&format!("{before} --help")).succeeded();
    let Some((_, list)) = help.split_once("\nCommands:\n") else { return Vec::new() };
    let list = list.split("\n\n").next().expect("a first part");
    // The list of `ctl` contains commands for a server, not subcommands.
    if !list.lines().any(|line| line.starts_with("  help ")) {
        return Vec::new();
    }
    let names =
        list.lines().filter_map(|line| line.strip_prefix("  ")?.split_once("  ")).map(|(name, _)| name);
    let names = names.filter(|name| !name.is_empty() && *name != "help").map(str::to_owned);
    names
        .flat_map(|name| {
            [vec![format!("{before} {name}")], commands(folder, &format!("{before} {name}"))].concat()
        })
        .collect()
}

#[test]
fn every_command_has_a_manual_page_and_completions() {
    let folder = Folder::new("manual");
    assert_eq!(folder.line("man pages").succeeded(), "");
    let commands = commands(&folder, "");
    assert!(commands.len() > 10, "{commands:?}");
    let completions =
        ["bash", "zsh", "fish"].map(|shell| folder.line(&format!("completions {shell}")).succeeded());
    for command in &commands {
        let name = command.trim().replace(' ', "-");
        let page = folder.read(&format!("pages/flashlab-{name}.1"));
        assert!(page.contains(".SH SYNOPSIS") && page.contains(".SH DESCRIPTION"), "{name}");
        let last = command.rsplit(' ').next().expect("a name");
        assert!(completions.iter().all(|text| text.contains(last)), "{command}");
    }
    let page = folder.line("man").succeeded();
    assert_eq!(page, folder.read("pages/flashlab.1"));
    for text in completions {
        assert!(
            ["sd/kingston", "sd-cards", "raspberry-pi-4"].iter().all(|name| text.contains(name)),
            "names"
        );
    }
}

#[test]
fn every_device_of_compare_is_completed() {
    let folder = Folder::new("complete-compare");
    let script = folder.line("completions bash").succeeded();
    let script = format!(
        "{script}\nCOMP_WORDS=(flashlab compare sd/kingston sd/sandisk-) COMP_CWORD=3\n\
         _flashlab flashlab sd/sandisk- sd/kingston\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"\n"
    );
    let bash = Command::new("bash").arg("-c").arg(script).output().expect("bash is installed");
    let offered = String::from_utf8_lossy(&bash.stdout).into_owned();
    let all = flashlab_catalogue::library::Library::built_in().expect("the library is sound");
    let names = all.devices().map(|(name, _)| name).filter(|name| name.starts_with("sd/sandisk-"));
    assert_eq!(offered.lines().collect::<Vec<_>>(), names.collect::<Vec<_>>());

    let zsh = folder.line("completions zsh").succeeded();
    let offers_both = |line: &str| {
        line.starts_with("'*::rest") && line.contains("_files") && line.contains("sd/kingston sd/kioxia")
    };
    assert_eq!(zsh.lines().filter(|line| offers_both(line)).count(), 1, "{zsh}");
    let fish = folder.line("completions fish").succeeded();
    let of_compare = "complete -c flashlab -n \"__fish_flashlab_using_subcommand compare\" -a \"";
    let names = fish.lines().filter_map(|line| line.strip_prefix(of_compare));
    assert_eq!(names.filter(|names| names.contains("sd/kingston")).count(), 1, "{fish}");
}

/// Runs a checker on a text, if the program is installed. Returns its messages.
fn checked(program: &[&str], text: &str) -> Option<String> {
    use std::io::Write;
    let mut child = Command::new(program[0]);
    let child = child.args(&program[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let Ok(mut child) = child.spawn() else {
        eprintln!("skipped: {} is not installed", program[0]);
        return None;
    };
    child
        .stdin
        .take()
        .expect("the stream is a pipe")
        .write_all(text.as_bytes())
        .expect("the program reads all");
    let output = child.wait_with_output().expect("the process ends");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    Some(if output.status.success() { errors } else { format!("{}: {errors}", output.status) })
}

#[test]
fn shells_and_formatters_accept_completions_and_pages() {
    let folder = Folder::new("formatters");
    folder.line("man pages").succeeded();
    for name in std::fs::read_dir(folder.path("pages")).expect("the folder was made") {
        let name = name.expect("readable").file_name().to_string_lossy().into_owned();
        let page = folder.read(&format!("pages/{name}"));
        let Some(errors) = checked(&["groff", "-man", "-Tutf8", "-ww", "-z"], &page) else { break };
        assert_eq!(errors, "", "{name}");
    }
    for shell in ["bash", "zsh", "fish"] {
        let script = folder.line(&format!("completions {shell}")).succeeded();
        if let Some(errors) = checked(&[shell, "-n"], &script) {
            assert_eq!(errors, "", "{shell}");
        }
    }
}
