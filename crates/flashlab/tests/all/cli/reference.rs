//! Compares the generated pages of docs/ with the tables of options and parameters and with the help of the commands.

use super::folder::Folder;
use super::listings::commands;
use flashlab_catalogue::reference::parameter_reference;
use flashlab_fio::explain::support_list;
use std::path::Path;

const COMMANDS: &str = "# Commands

<!-- Written by UPDATE_DOCS=1 cargo test -p flashlab --features full --test all reference; change crates/flashlab/src. -->

This page has the help of each command, as `flashlab COMMAND --help` prints it. [Options of fio](fio-options.md) lists the options of a job, and [Parameters](parameters.md) the numbers of devices and hosts.
";

/// Compares a page with the text that the program gives. With `UPDATE_DOCS`, writes the page first.
fn check(page: &str, expected: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, expected).unwrap_or_else(|error| panic!("docs/{page}: {error}"));
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = found.lines().zip(expected.lines()).position(|(found, expected)| found != expected);
    assert!(
        found == expected,
        "docs/{page} is not what the program gives (first difference in line {:?}); \
         regenerate it: UPDATE_DOCS=1 cargo test -p flashlab --features full --test all reference",
        differs.map(|line| line + 1)
    );
}

#[test]
fn the_reference_of_commands_is_their_help() {
    let folder = Folder::new("reference");
    let mut text = COMMANDS.to_owned();
    for command in [vec![String::new()], commands(&folder, "")].concat() {
        let help = folder.line(&format!("{command} --help")).succeeded();
        text += &format!("\n## flashlab{command}\n\n```text\n{}\n```\n", help.trim_end());
    }
    check("commands.md", &text);
}

#[test]
fn the_reference_of_parameters_is_their_table() {
    check("parameters.md", &parameter_reference());
}

#[test]
fn the_reference_of_fio_options_is_their_table() {
    check("fio-options.md", &support_list());
}
