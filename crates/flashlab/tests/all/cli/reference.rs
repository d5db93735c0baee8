//! Compares docs/commands.md with the help of the commands.

use super::folder::Folder;
use super::listings::commands;
use std::path::Path;

const HEAD: &str = "# Commands

<!-- Written by UPDATE_DOCS=1 cargo test -p flashlab --features full --test all command_reference; change crates/flashlab/src. -->

This page has the help of each command, as `flashlab COMMAND --help` prints it. [Options of fio](fio-options.md) lists the options of a job, and [Parameters](parameters.md) the numbers of devices and hosts.
";

#[test]
fn the_command_reference_is_the_help_of_the_commands() {
    let folder = Folder::new("reference");
    let mut expected = HEAD.to_owned();
    for command in [vec![String::new()], commands(&folder, "")].concat() {
        let help = folder.line(&format!("{command} --help")).succeeded();
        expected += &format!("\n## flashlab{command}\n\n```text\n{}\n```\n", help.trim_end());
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/commands.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &expected).expect("docs/commands.md can be written");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = found.lines().zip(expected.lines()).position(|(found, expected)| found != expected);
    assert!(
        found == expected,
        "docs/commands.md is not what the commands print (first difference in line {:?}); \
         regenerate it: UPDATE_DOCS=1 cargo test -p flashlab --features full --test all command_reference",
        differs.map(|line| line + 1)
    );
}
