//! `flashlab web`: a virtual device under a job, as a live page.

use crate::failure::{Failure, say, say_notes};
use crate::tcp::tcp;
use crate::{file, words};
use clap::{Args, Subcommand};
use flashlab_catalogue::library::Library;
use flashlab_lab::session::{Command, Session, SessionError};
use flashlab_served::Served;
use flashlab_sim::Duration;
use flashlab_web::{Limits, Refused, Server, Stop, Subject};
use std::process::ExitCode;

/// The default job of a page: random writes to a tenth of the device, for a hundred years of simulated time.
const JOB: &str = "--name=page --rw=randwrite --bs=16k --size=10% --direct=1 --time_based --runtime=36500d";
/// Port of `--listen` if its argument is a host alone; error messages use it as an example.
const PORT: u16 = 8080;

#[derive(Subcommand)]
pub(crate) enum Web {
    /// Shows a virtual device under a job as a live page in a browser.
    ///
    /// The command prints the address of the page. The address contains a token, without which the page only watches.
    /// `docs/live-page.md` describes the page.
    Web(Options),
}

#[derive(Args)]
pub(crate) struct Options {
    /// Address of the page: PORT, or HOST:PORT. By default a free port that only this machine reaches.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    listen: String,
    /// Ratio of simulated to wall-clock time at the start.
    #[arg(long, value_name = "RATIO", default_value_t = 1.0)]
    speed: f64,
    /// Seed of the medium.
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// The device: `sd/kingston`, `sd/kingston:flash.t_prog=250us`, a TOML file.
    #[arg(default_value = "sd/kingston")]
    device: String,
    /// A job file (`-`: standard input), or options of fio.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "FIO")]
    fio: Vec<String>,
}

impl Web {
    pub(crate) fn run(&self, library: &Library) -> Result<ExitCode, Failure> {
        let Web::Web(options) = self;
        if Served::always_stores_bytes(&options.device) {
            return Err(Failure::usage(format!(
                "{}: the page of `web` shows devices with a model and without layers, such as sd/kingston; `flashlab serve \
                 {} --web 8080` serves any device and shows it if it has a model",
                options.device, options.device
            )));
        }
        let job = job(&options.fio)?;
        let devices = [options.device.clone()];
        let mut session = Session::new(library, &devices, &job, options.seed)
            .and_then(|mut session| {
                session.execute(&Command::Speed { factor: options.speed })?;
                Ok(session)
            })
            .map_err(Failure::usage)?;
        say_notes();
        let server = bind("--listen", &options.listen)?;
        let stop = Stop::new();
        let ending = stop.clone();
        // Without a handler, Ctrl-C still ends the process.
        let _ = ctrlc::set_handler(move || ending.throw());
        let url = server.url().map_err(|error| Failure::system("the listening socket", &error))?;
        file::print(&format!("{url}\n"))?;
        let mut page = SessionPage { session: &mut session };
        server.serve(&mut page, &stop).map_err(|error| Failure::system("the page", &error))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Returns the text of the job that `words` stand for: a job file, or options of fio.
fn job(words: &[String]) -> Result<String, Failure> {
    let words = if words.first().is_some_and(|word| word == "fio") { &words[1..] } else { words };
    super::jobs::check_owner("web", words)?;
    match words {
        [] => Ok(JOB.to_owned()),
        [first, ..] if first.starts_with("--") => Ok(words::join(words)),
        [path] => {
            let bytes = file::read(path, super::jobs::JOB_FILE_BYTES_MAX)
                .map_err(|why| Failure::usage(format!("{path}: the job file cannot be read: {why}")))?;
            String::from_utf8(bytes)
                .map_err(|_| Failure::usage(format!("{path}: expected a job file, which is UTF-8 text")))
        }
        [first, ..] => Err(Failure::usage(format!(
            "{first}: expected one job file, or options of fio (--name=a --rw=randread --bs=4k --direct=1)"
        ))),
    }
}

/// Listens on the address `text`, which is the value of `option`. Warns if other machines can reach the address.
fn bind(option: &str, text: &str) -> Result<Server, Failure> {
    let address = tcp(option, text, PORT)?;
    if !address.ip().is_loopback() {
        say(format_args!("{option}: any machine that can reach {address} can watch; changes need the token"));
    }
    Server::bind(address, Limits::default()).map_err(|error| Failure::system(&address.to_string(), &error))
}

/// The page of a session.
struct SessionPage<'a> {
    session: &'a mut Session,
}

impl SessionPage<'_> {
    fn json(&self, history: bool) -> String {
        serde_json::to_string(&self.session.snapshot(history)).expect("a snapshot serialises to memory")
    }
}

impl Subject for SessionPage<'_> {
    fn pass(&mut self, wall: std::time::Duration) {
        self.session.pass(Duration::from_ns(u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX)));
    }
    fn work(&mut self) -> bool {
        self.session.work()
    }
    fn tick(&mut self) -> Option<String> {
        self.session.close_interval();
        Some(self.json(false))
    }
    fn state(&mut self) -> String {
        self.json(true)
    }
    fn execute(&mut self, command: &serde_json::Value) -> Result<(), Refused> {
        let command = serde_json::from_value(command.clone())
            .map_err(|error| Refused(format!("the command is not valid: {error}")))?;
        self.session.execute(&command).map_err(|error: SessionError| Refused(error.to_string()))
    }
}
