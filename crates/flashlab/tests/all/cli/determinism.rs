//! The same arguments give the same bytes, independent of time, folder, environment and number of processors.

use super::folder::{Folder, run_command};
use std::process::Command;
use std::sync::LazyLock;

/// Command lines that print all their figures.
const LINES: [&str; 4] = [
    "run at91 --format json --no-html",
    "run at91 --html page.html",
    "compare sd/* --name=a --direct=1 --rw=randrw --bs=4k --runtime=1 --randrepeat=0",
    "bench sd/kioxia --name=a --direct=1 --rw=randrw --bs=4k --runtime=1 --numjobs=3 --output-format=normal,json+",
];

/// Result of a run of [`LINES`].
struct Reference {
    outputs: [String; LINES.len()],
    page: String,
}

/// The run to which the tests compare others.
static REFERENCE: LazyLock<Reference> = LazyLock::new(|| {
    let folder = Folder::new("reference");
    let outputs = LINES.map(|line| folder.line(line).succeeded());
    Reference { outputs, page: folder.read("page.html") }
});

fn arguments(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

#[test]
fn time_folder_and_environment_do_not_change_the_output() {
    let there = Folder::new("there");
    for (line, first) in LINES.iter().zip(&REFERENCE.outputs) {
        let mut elsewhere = there.command(&arguments(line));
        elsewhere.env_clear().env("TZ", "Asia/Tokyo").env("LC_ALL", "de_DE.UTF-8").env("LINES", "7");
        elsewhere.env("TERM", "xterm-256color").env("CLICOLOR_FORCE", "1").env("RUST_BACKTRACE", "1");
        assert_eq!(*first, run_command(&mut elsewhere).succeeded(), "{line}");
    }
    assert_eq!(REFERENCE.page, there.read("page.html"));
}

#[test]
fn the_width_changes_only_the_layout_of_tables() {
    let (wide, narrow) = (Folder::new("wide"), Folder::new("narrow"));
    let run = |folder: &Folder, line: &str, columns| {
        run_command(folder.command(&arguments(line)).env("COLUMNS", columns).env("LINES", "7")).succeeded()
    };
    let job = "--name=a --direct=1 --rw=randrw --bs=4k --size=64m --number_ios=50";
    let figures = [
        "run at91 --format json --no-html".to_owned(),
        format!("compare --format json sd/kingston sd/sandisk {job}"),
        format!("compare --format csv sd/kingston sd/sandisk {job}"),
        format!("bench sd/kingston {job} --output-format=normal,json+"),
    ];
    for line in &figures {
        assert_eq!(run(&wide, line, "120"), run(&narrow, line, "40"), "{line}");
    }
    let digest = |text: &str| {
        let digest = text.split_whitespace().skip_while(|word| *word != "digest").nth(1);
        digest.expect("the table has a digest").to_owned()
    };
    let tables =
        [run(&wide, "run at91 --html page.html", "120"), run(&narrow, "run at91 --html page.html", "40")];
    assert_ne!(tables[0], tables[1]);
    assert_eq!(digest(&tables[0]), digest(&tables[1]));
    assert_eq!(wide.read("page.html"), narrow.read("page.html"));
}

#[test]
fn the_number_of_processors_does_not_change_results() {
    let folder = Folder::new("processors");
    for (line, first) in LINES.iter().zip(&REFERENCE.outputs) {
        let mut one = Command::new("taskset");
        one.args(["-c", "0", env!("CARGO_BIN_EXE_flashlab")])
            .args(arguments(line))
            .current_dir(folder.path(""));
        match one.output() {
            Ok(output) if output.status.success() => {
                assert_eq!(*first, String::from_utf8_lossy(&output.stdout), "{line}");
            }
            other => eprintln!("left out, it needs taskset and processor 0: {other:?}"),
        }
    }
}

#[test]
fn seeds_draw_different_media() {
    let folder = Folder::new("seeds");
    let run = |seed: &str| {
        folder
            .line(&format!(
                "bench --seed {seed} sd/kingston --name=a --direct=1 --rw=write --bs=1m --size=64m"
            ))
            .succeeded()
    };
    assert_eq!(run("7"), run("7"));
    assert_ne!(run("7"), run("8"));
}
