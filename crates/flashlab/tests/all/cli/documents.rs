//! Every command that the README and docs/ print runs as printed.
//!
//! A command is a line of a block, or code within a line, that begins with `flashlab` or `cargo`. The
//! commands of a document run in order, in a folder with the files that they mention. A server with a socket
//! runs until the socket exists. A server with a control socket runs until the next server, so that the
//! commands of `ctl` reach it. The quick form only parses commands that take long, or that need another
//! program, a card, root or a guest. It appends `--help`, with which a command succeeds only if its options
//! are known and their values are valid. `FLASHLAB_FULL` runs the commands that take long. docs/checks.md
//! lists the commands that do not run, with the reasons.

use super::folder::{Folder, run_command};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A command with the place where it is printed.
struct Printed {
    document: String,
    line: usize,
    command: String,
}

/// Treatment of a command.
#[derive(Clone, Copy, PartialEq, Debug)]
enum How {
    /// The command runs and succeeds.
    Runs,
    /// The command serves: it runs until its socket exists or it prints its address.
    Serves,
    /// The command is sent to the server that runs.
    Controls,
    /// The command is parsed; the full form runs it.
    Long,
    /// The command is only parsed.
    Parsed,
    /// The command is not checked, because it needs another shell or program.
    Skipped,
}

/// Beginnings of commands, with the treatment and its reason. The first rule that matches applies; other commands run.
const RULES: &[(&str, How, &str)] = &[
    ("flashlab serve", How::Serves, "a server; tests/all/live attaches its devices"),
    ("flashlab ctl", How::Controls, "needs a server"),
    ("flashlab load", How::Parsed, "needs a server"),
    ("flashlab web", How::Serves, "a server; tests/all/web opens its page"),
    ("flashlab record ", How::Parsed, "starts a guest"),
    ("flashlab image", How::Parsed, "needs programs that make filesystems; cli/image composes disks"),
    ("flashlab volume rekey", How::Parsed, "asks for a passphrase"),
    ("flashlab measure /", How::Parsed, "needs a card"),
    ("flashlab measure nbd:", How::Parsed, "needs a server"),
    ("flashlab run ./mine", How::Runs, "the small experiment of docs/experiments.md"),
    ("flashlab run block-paths", How::Parsed, "measures this machine"),
    ("flashlab run", How::Long, "an experiment; cargo xtask golden-check runs it"),
    ("flashlab fit", How::Long, "simulates for seconds"),
    ("flashlab probe", How::Long, "simulates for seconds"),
    ("flashlab bench nvme/", How::Long, "simulates large drives"),
    ("flashlab completions zsh", How::Skipped, "an array of zsh"),
];

/// Parts of a `serve` command that is only parsed, because it needs a port that another program may use,
/// another program, or a privilege.
const PARSED_PARTS: &[&str] = &[
    "--run",
    "--tcp",
    "--tls",
    "--usbip",
    "--vsock",
    "--abstract",
    "--web",
    "dir:",
    "nbd://",
    "stick.img",
    "/sockets/",
];

/// Commands, each with its document, that do not run because they need a client of the server.
const WITH_CLIENT: &[(&str, &str)] = &[("docs/sticks.md", "flashlab ctl ctl.sock cut")];

/// Beginnings of commands, and the lines that make their files beforehand.
const PREPARATIONS: &[(&str, &str)] = &[
    ("flashlab volume format", "rm -f ?.img"),
    ("flashlab volume format --replicas 2 a.img", "truncate -s 1G a.img b.img"),
    ("flashlab volume format --encrypt", "umask 077 && echo a long passphrase > secret"),
    (
        "flashlab volume format --encrypt --passphrase-file secret --compression lz4 pool.toml",
        r#"printf '[[member]]\ndevice = "usb/usb3-1:capacity=1GiB,state=stick.state"\n' > pool.toml"#,
    ),
    (
        "flashlab serve volume:a.img:b.img:c.img",
        "rm -f ?.img && flashlab volume format ssd.a=file:a.img,size=1GiB ssd.b=file:b.img,size=1GiB \
         ssd.c=file:c.img,size=1GiB --size 900MiB",
    ),
];

/// Commands that depend on a feature, with true if this build has the feature.
const FEATURES: &[(&str, bool)] = &[
    ("diff", cfg!(feature = "fit")),
    ("fit", cfg!(feature = "fit")),
    ("measure", cfg!(feature = "fit")),
    ("probe", cfg!(feature = "fit")),
    ("record", cfg!(feature = "record")),
    ("serve", cfg!(feature = "serve")),
    ("ctl", cfg!(feature = "serve")),
    ("load", cfg!(feature = "serve")),
    ("web", cfg!(feature = "web")),
    ("image", cfg!(feature = "image")),
    ("sweep", cfg!(feature = "sweep")),
    ("completions", cfg!(feature = "manual")),
    ("man", cfg!(feature = "manual")),
];

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the path exists")
}

/// Returns the commands of all documents for users, in order.
fn printed() -> Vec<Printed> {
    let mut documents = vec![PathBuf::from("README.md")];
    let entries = fs::read_dir(repository().join("docs")).expect("readable");
    documents.extend(entries.map(|entry| Path::new("docs").join(entry.expect("readable").file_name())));
    documents.retain(|document| document.extension().is_some_and(|extension| extension == "md"));
    documents.sort();
    documents.iter().flat_map(|document| commands(document)).collect()
}

/// Returns the commands of a document.
fn commands(document: &Path) -> Vec<Printed> {
    let text = fs::read_to_string(repository().join(document)).expect("readable");
    let mut found = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((n, line)) = lines.next() {
        let mut line = line.to_owned();
        let mut add = |command: String| {
            found.push(Printed { document: document.display().to_string(), line: n + 1, command });
        };
        if let Some(block) = line.strip_prefix("    ").map(|block| block.trim_start_matches("$ ")) {
            if is_command(block) {
                let mut command = block.to_owned();
                while let Some(begun) = command.strip_suffix('\\') {
                    let (_, next) = lines.next().expect("another line follows a continued line");
                    command = begun.trim_end().to_owned() + " " + next.trim();
                }
                add(without_explanation(&command));
            }
            continue;
        }
        // Code may continue on the next line; fences do not count.
        while !line.starts_with("```") && line.matches('`').count() % 2 == 1 {
            let Some((_, next)) = lines.next() else { break };
            line = line + " " + next.trim_start();
        }
        line.split('`')
            .skip(1)
            .step_by(2)
            .filter(|code| is_command(code))
            .for_each(|code| add(code.to_owned()));
    }
    found
}

fn is_command(code: &str) -> bool {
    let mut words = code.split_whitespace();
    let is_program = matches!(words.next(), Some("flashlab" | "cargo"));
    is_program
        && words.next().is_some_and(|word| word.starts_with(|c: char| c == '-' || c.is_ascii_lowercase()))
}

/// Removes the text after a command in a block: a comment, an explanation after two spaces, or another command.
fn without_explanation(command: &str) -> String {
    let mut quoted = false;
    let end = command.char_indices().find(|(at, character)| {
        quoted ^= *character == '\'';
        let rest = &command[*at..];
        !quoted && (rest.starts_with("  ") || rest.starts_with(" #") || rest.starts_with(" &"))
    });
    command[..end.map_or(command.len(), |(at, _)| at)].to_owned()
}

/// Returns true if the command is a pattern for commands: it has dots or words in capital letters in place of arguments,
/// or quotes that a later line closes, or it only mentions an option.
fn is_pattern(command: &str) -> bool {
    let is_placeholder = |word: &str| {
        let word = word.trim_matches(['[', ']', '\'', '"']);
        let word = word.rsplit(['=', '/']).next().unwrap_or_default();
        !word.is_empty() && word.chars().all(|c| c.is_ascii_uppercase())
    };
    let words: Vec<&str> = command.split_whitespace().collect();
    command.contains("...")
        || matches!(words[..], ["flashlab", _, option] if option.starts_with("--"))
        || matches!(words[..], ["flashlab", "ctl" | "volume", _])
        || command.contains("[--")
        || command.matches('\'').count() % 2 == 1
        || words.into_iter().any(is_placeholder)
}

/// Returns the treatment of a command.
fn how(command: &str) -> How {
    let has_socket = ["--unix", "--usbredir"].iter().any(|option| command.contains(option));
    let is_local = has_socket && !PARSED_PARTS.iter().any(|part| command.contains(part));
    if command.starts_with("flashlab serve") && !is_local {
        return How::Parsed;
    }
    RULES.iter().find(|(begin, ..)| command.starts_with(begin)).map_or(How::Runs, |(_, how, _)| *how)
}

/// Creates a folder with the files that a document mentions; `name` is unique to the test.
fn folder(name: &str, document: &str) -> Folder {
    let folder = Folder::new(&format!("{name}-{}", document.replace(['/', '.'], "-")));
    let text = fs::read_to_string(repository().join(document)).expect("readable");
    let home = |name: &str| folder.put(name, "");
    home(".local/share/bash-completion/completions/flashlab");
    home(".config/fish/completions/flashlab.fish");
    folder.put("job.fio", "[job]\ndirectory=/mnt\nrw=randwrite\nbs=4k\nsize=16m\nnumber_ios=200\ndirect=1\n");
    folder.put("trace.txt", "  8,0    3        2     0.000001829   697  Q  WS 223490 + 8 [kjournald]\n");
    let profile = fs::read_to_string(repository().join("profiles/sd/kingston.toml")).expect("readable");
    folder.put("my-card.toml", profile.split("\n[source]").next().expect("the first part"));
    folder.line("recording import --from blkparse --to run.rec trace.txt").succeeded();
    folder.line("age sd/kingston job.fio --to used.state").succeeded();
    let measured = folder.line("bench sd/kingston job.fio --output-format=json").succeeded();
    for name in ["real-fio.json", "before.json", "after.json"] {
        folder.put(name, &measured);
    }
    let measure = "measure sd/kingston --to card.json --plan quick";
    if !text.contains(measure) {
        folder.line(measure).succeeded();
    }
    folder.put("base.img", vec![0; 1 << 20]);
    for job in blocks(&text, "ini") {
        let name =
            job.lines().next().and_then(|line| line.strip_prefix("; ")).expect("a comment with the name");
        folder.put(name, &job);
    }
    // The README mentions the plan of docs/sweeps.md.
    let sweeps = fs::read_to_string(repository().join("docs/sweeps.md")).expect("readable");
    for file in blocks(&sweeps, "toml").into_iter().chain(blocks(&text, "toml")) {
        let name = file.lines().next().and_then(|line| line.strip_prefix("# "));
        // A description may follow the name.
        let name = name.map(|line| line.split(':').next().unwrap_or(line));
        if let Some(name) = name.filter(|name| name.ends_with(".toml") && !name.contains(' ')) {
            folder.put(name, &file);
        }
    }
    folder
}

/// A server that runs in the folder of a document.
struct Server(Child);

impl Server {
    /// Starts a server and waits until its sockets exist or, without sockets, until it prints its address.
    fn start(folder: &Folder, line: &str) -> Result<Server, String> {
        let output = fs::File::create(folder.path("server.log")).expect("the folder is writable");
        let mut command = shell_command(folder, &format!("exec {line}"));
        command.stdout(output.try_clone().expect("an open file")).stderr(output);
        let mut server = Server(command.spawn().expect("there is a shell"));
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_socket = |option: &str| matches!(option, "--unix" | "--usbredir" | "--control");
        let sockets: Vec<&str> =
            words.windows(2).filter(|pair| is_socket(pair[0])).map(|pair| pair[1]).collect();
        // The limit only ends a hung server; nothing depends on it.
        for _ in 0..24_000 {
            let log = folder.read("server.log");
            let is_ready = match sockets.is_empty() {
                true => log.contains("http://"),
                false => sockets.iter().all(|socket| folder.path(socket).exists()),
            };
            if let Some(status) = server.0.try_wait().expect("a child") {
                return Err(format!("{line}: {status}\n{log}"));
            }
            if is_ready {
                return Ok(server);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Err(format!("{line}: no address\n{}", folder.read("server.log")))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

/// The state of the commands of one document.
struct Running {
    document: String,
    folder: Folder,
    /// The first server with a socket that the document prints.
    first: Option<String>,
    /// The server with a control socket.
    server: Option<Server>,
}

impl Running {
    fn new(document: &str) -> Running {
        Running {
            document: document.to_owned(),
            folder: folder("printed", document),
            first: None,
            server: None,
        }
    }

    /// Starts a server. A server with a control socket keeps running.
    fn serve(&mut self, line: &str) -> Result<(), String> {
        self.server = None;
        self.first.get_or_insert_with(|| line.to_owned());
        let server = Server::start(&self.folder, line)?;
        self.server = Some(server).filter(|_| line.contains("--control"));
        Ok(())
    }

    /// Starts the first server with a control socket, unless one runs.
    fn need_control(&mut self) -> Result<(), String> {
        if self.server.is_some() {
            return Ok(());
        }
        let first = self.first.clone().expect("a document prints a server before its commands of `ctl`");
        self.serve(&format!("{first} --control ctl.sock"))
    }
}

/// Returns the fenced blocks of a language.
fn blocks(text: &str, language: &str) -> Vec<String> {
    let fence = format!("\n```{language}\n");
    text.split(&fence).skip(1).map(|block| block.split("```").next().unwrap_or_default().to_owned()).collect()
}

/// Runs a command line in a shell that finds the program of this test.
fn shell(folder: &Folder, line: &str) -> super::folder::RunOutput {
    run_command(&mut shell_command(folder, line))
}

fn shell_command(folder: &Folder, line: &str) -> Command {
    let program = Path::new(env!("CARGO_BIN_EXE_flashlab")).parent().expect("a folder");
    let path = std::env::join_paths(
        std::iter::once(program.to_owned())
            .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())),
    );
    let mut command = Command::new("sh");
    command.args(["-c", line]).current_dir(folder.path("")).env("HOME", folder.path("")).stdin(Stdio::null());
    command.env("PATH", path.expect("paths without colons"));
    command
}

/// Checks a command of the program. Returns the problem.
fn check(running: &mut Running, command: &str, full: bool) -> Result<(), String> {
    let subcommand = command.split_whitespace().nth(1).expect("a command has two words");
    if FEATURES.iter().any(|(name, built)| *name == subcommand && !built) {
        return Ok(());
    }
    let needs_client = WITH_CLIENT.contains(&(&running.document, command));
    let treatment = how(command);
    // An option after the device would belong to fio.
    let is_fio = matches!(subcommand, "bench" | "compare" | "age") && treatment == How::Long && !full;
    let line = match treatment {
        _ if is_fio || needs_client || is_pattern(command) || command.split_whitespace().count() == 2 => {
            format!("flashlab {subcommand} --help")
        }
        How::Skipped => return Ok(()),
        How::Long if !full => format!("{} --help", command.split(" >").next().expect("the first part")),
        How::Parsed => format!("{command} --help"),
        How::Runs | How::Long | How::Serves | How::Controls => command.to_owned(),
    };
    for (_, preparation) in PREPARATIONS.iter().filter(|(begin, _)| line.starts_with(begin)) {
        running.server = None;
        shell(&running.folder, preparation).succeeded();
    }
    match treatment {
        How::Serves if line == command => return running.serve(&line),
        How::Controls if line == command => running.need_control()?,
        _ => {}
    }
    let output = shell(&running.folder, &line);
    if line.ends_with(" unplug") {
        // The document describes the next commands for a device that is plugged in.
        running.server = None;
    }
    match output.code {
        Some(0) => Ok(()),
        code => Err(format!("{line}: exit code {code:?}\n{}", output.err)),
    }
}

#[test]
fn every_printed_command_of_the_program_runs_or_is_parsed() {
    let full = std::env::var_os("FLASHLAB_FULL").is_some();
    let commands = printed();
    let mut problems = Vec::new();
    let mut at: Option<(&str, Running)> = None;
    let mut count = 0;
    for Printed { document, line, command } in &commands {
        if !command.starts_with("flashlab ") {
            continue;
        }
        if at.as_ref().is_none_or(|(name, _)| name != document) {
            at = Some((document, Running::new(document)));
        }
        let (_, running) = at.as_mut().expect("set above");
        if let Err(problem) = check(running, command, full) {
            problems.push(format!("{document}:{line}: {problem}"));
        }
        count += 1;
    }
    assert!(count > 80, "only {count} commands were found");
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn the_tutorial_shows_the_output_of_its_commands() {
    let document = "docs/tutorial.md";
    let folder = folder("shown", document);
    let text = fs::read_to_string(repository().join(document)).expect("readable");
    let mut shown = blocks(&text, "text").into_iter();
    for line in
        ["flashlab compare 'sd/*' logger.fio", "flashlab bench --logger-rate 64KiB/s sd/kingston logger.fio"]
    {
        let output = shell(&folder, line).succeeded();
        for part in shown.next().expect("a block of output").lines() {
            assert!(output.contains(part), "{line}: {part:?} is not in its output:\n{output}");
        }
    }
    assert_eq!(shown.next(), None, "a block of output has no command in this test");
}

#[test]
#[cfg(feature = "sweep")]
fn the_points_of_the_large_plan_are_listed() {
    let plan = repository().join("docs/gc-sweep.toml");
    let folder = Folder::new("gc-sweep");
    let listed = folder.run(&["sweep".as_ref(), "--list".as_ref(), plan.as_os_str()]).succeeded();
    assert_eq!(listed.lines().filter(|line| line.contains('=')).count(), 10_000);
}

#[test]
fn every_printed_command_of_cargo_names_an_existing_task_or_target() {
    let tasks = fs::read_to_string(repository().join("xtask/src/main.rs")).expect("readable");
    for Printed { document, line, command } in printed() {
        let words: Vec<&str> = command.split_whitespace().collect();
        let after = |option: &str| {
            let place = words.iter().position(|word| *word == option)?;
            words.get(place + 1).copied()
        };
        let place = format!("{document}:{line}: {command}");
        if let ["cargo", "xtask", task, ..] = words[..] {
            assert!(tasks.contains(&format!("[\"{task}\"")), "{place}: xtask has no such task");
        }
        let Some(package) = after("-p").filter(|_| words[0] == "cargo") else { continue };
        let folder = repository().join("crates").join(package.trim_start_matches("flashlab-"));
        assert!(folder.is_dir(), "{place}: there is no such package");
        for (option, kind) in [("--example", "examples"), ("--bench", "benches"), ("--test", "tests")] {
            let Some(target) = after(option) else { continue };
            let exists =
                ["", ".rs"].iter().any(|ending| folder.join(kind).join(format!("{target}{ending}")).exists());
            assert!(exists, "{place}: there is no such target");
        }
    }
}

#[test]
fn the_rules_apply_to_printed_commands() {
    let commands = printed();
    for (begin, _, reason) in RULES {
        assert!(
            commands.iter().any(|printed| printed.command.starts_with(begin)),
            "{begin} ({reason}) is not printed"
        );
    }
    assert_eq!(
        without_explanation("flashlab serve x --run 'a  # b'   # c"),
        "flashlab serve x --run 'a  # b'"
    );
    assert_eq!(without_explanation("flashlab serve x &"), "flashlab serve x");
    assert!(is_pattern("flashlab bench ./mine.toml ...") && is_pattern("flashlab ctl SOCKET keep"));
    assert!(
        !is_pattern("flashlab compare 'sd/*' job.fio")
            && !is_pattern("flashlab bench --logger-rate 1MiB/s sd/kingston job.fio")
    );
}
