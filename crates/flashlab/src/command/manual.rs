//! `flashlab completions` and `flashlab man`: shell completions and manual pages, generated from the command line.

use crate::failure::Failure;
use crate::{Cli, file};
use clap::builder::PossibleValuesParser;
use clap::{Command, CommandFactory, Subcommand};
use clap_complete::Shell;
use flashlab_catalogue::explain::Listing;
use flashlab_catalogue::library::Library;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Subcommand)]
pub(crate) enum Manual {
    /// Prints completions of the command line for a shell, with the names of devices and experiments.
    Completions {
        /// Name of the shell.
        shell: Shell,
    },
    /// Prints the manual page of flashlab, or writes those of all commands into a folder.
    Man {
        /// Folder for the pages: flashlab.1, flashlab-bench.1, ...
        folder: Option<PathBuf>,
    },
}

impl Manual {
    pub(crate) fn run(&self, library: &Library) -> Result<ExitCode, Failure> {
        match self {
            Manual::Completions { shell } => completions(*shell, library),
            Manual::Man { folder } => pages(folder.as_deref()),
        }
    }
}

/// Prints the completions for `shell`.
fn completions(shell: Shell, library: &Library) -> Result<ExitCode, Failure> {
    let listing = Listing::all(library);
    let devices: Vec<&str> = listing.device_names().collect();
    let everything: Vec<&str> = listing.names().collect();
    let experiments: Vec<&str> = library.experiments().map(|folder| folder.name.as_str()).collect();
    let named = [
        ("bench", "device", &devices),
        ("age", "device", &devices),
        ("compare", "device", &devices),
        ("explain", "what", &everything),
        ("run", "experiment", &experiments),
    ];
    let with =
        |cli, &(command, argument, names): &(_, _, &Vec<&str>)| with_values(cli, command, argument, names);
    let mut cli = named.iter().fold(Cli::command(), with);
    if shell == Shell::Zsh {
        // The completions for bash and fish offer the names at every position of a command.
        cli = with_values(cli, "compare", "rest", &devices);
    }
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut cli, "flashlab", &mut text);
    let mut text = String::from_utf8(text).expect("completions are made of UTF-8");
    if shell == Shell::Fish {
        // For fish, clap_complete omits the values of positional arguments.
        for (command, _, names) in named {
            let names = names.join(" ");
            let when = format!("__fish_flashlab_using_subcommand {command}");
            // `compare` also takes a job file, so its completions keep file names, which `-f` would remove.
            let files = if command == "compare" { "" } else { " -f" };
            text.push_str(&format!("complete -c flashlab -n \"{when}\"{files} -a \"{names}\"\n"));
        }
    }
    if shell == Shell::Zsh {
        text = text.lines().map(|line| names_or_files(line) + "\n").collect();
    }
    file::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns `cli` with `names` as the only values of an argument. The result serves for completions, not for parsing.
fn with_values(cli: Command, command: &'static str, argument: &'static str, names: &[&str]) -> Command {
    // clap needs names with a static lifetime. The process ends once the completions are printed, so leaking is
    // harmless.
    let values = PossibleValuesParser::new(names.iter().map(|name| &*(*name).to_owned().leak()));
    cli.mut_subcommand(command, |command| {
        // `mut_arg` moves the argument to the end of the list, so the positions are set explicitly.
        let places: Vec<_> = command.get_positionals().map(|arg| arg.get_id().clone()).collect();
        let command = command.mut_arg(argument, |arg| arg.value_parser(values));
        let place = |command: Command, (n, id)| command.mut_arg(id, |arg| arg.index(n + 1));
        places.into_iter().enumerate().fold(command, place)
    })
}

/// Makes zsh complete file names as well, if `line` of its completions offers names for all remaining words.
fn names_or_files(line: &str) -> String {
    let rest = line.strip_prefix("'*::").and_then(|line| line.strip_suffix(")' \\"));
    match rest.and_then(|rest| rest.rsplit_once(":(")) {
        Some((help, names)) => {
            format!("'*::{help}:{{ _files; local none=$?; compadd -- {names} || (( none == 0 )) }}' \\")
        }
        None => line.to_owned(),
    }
}

/// Prints the page of flashlab, or writes the pages of all commands to `folder`, which is created if it does not exist.
fn pages(folder: Option<&Path>) -> Result<ExitCode, Failure> {
    // `generate_to` omits `help` as well. Without `help` here, both forms write the same page.
    let cli = Cli::command().disable_help_subcommand(true);
    let Some(folder) = folder else {
        let mut text = Vec::new();
        clap_mangen::Man::new(cli).render(&mut text).expect("a vector takes all");
        file::print(&String::from_utf8(text).expect("the page is made of UTF-8"))?;
        return Ok(ExitCode::SUCCESS);
    };
    if folder.exists() && !folder.is_dir() {
        let folder = folder.display();
        return Err(Failure::usage(format!(
            "{folder}: it is not a folder; man writes one page for each command into one"
        )));
    }
    std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(cli, folder))
        .map_err(|error| Failure::io(folder, &error))?;
    Ok(ExitCode::SUCCESS)
}
