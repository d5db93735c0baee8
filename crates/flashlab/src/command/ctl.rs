//! `flashlab ctl`: sends a command to a running server on its `--control` socket.

use crate::failure::{Failure, say};
use crate::{file, words};
use clap::Args;
use flashlab_serve::send_command;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Commands:
  stats             prints requests, lateness of replies, and the counters of `stats` layers
  wear              prints the counters of a simulated device: writes, programs, erases, remaining life
  cut               cuts the power and restores it: volatile data is lost, requests in flight fail
  unplug, replug    the same in two steps; in between, every request fails
  fault RULE        adds a rule to the device's `error` layer: fault read|write at=0+4096 times=1 EIO
  fault list        lists the rules
  fault clear       removes all rules
  keep              writes the state of a device with state=FILE
  scrub [rate=S]    reads every copy of a volume beside its clients, at most S bytes per second (20MiB), and repairs bad
                    ones; scrub status shows the progress, the time left and the result
  set KEY=VALUE...  changes options of a volume: the options and values of `flashlab volume set` (replicas=2, size=max,
                    compression=lz4, background=hdd, label=0=ssd.a)
  add MEMBER        makes a device another member, with --force, --keep-size and --durability N as in `flashlab
                    volume add`; the server opens it, so a path begins in the directory of the server
  online DEVICE     takes back a volume's member whose device was missing or failed, and returned
  remove MEMBER     moves all data of a member to others, and removes it; remove status shows the progress,
                    the time left and the result
  evacuate MEMBER   moves all data of a volume's member to others in the background; stats shows the time left
  state MEMBER=S    sets the state of a volume's member: rw, ro, evacuating or spare
  rekey FILE        changes the passphrase of an encrypted volume to that in a file that the server can read

For a card behind --usbredir or --usbip, cut cuts its power, unplug and replug remove and insert it, and
fault QUIRK[=VALUE][@WHEN] adds a fault (fault busy=400ms, fault write-crc=100; see docs/cards.md). The same holds for
a stick (fault disconnect=2s, fault write-protected; see docs/sticks.md).

Examples:
  flashlab serve sd/kingston --unix card.sock --control ctl.sock &
  flashlab ctl ctl.sock cut
  flashlab ctl --export scratch ctl.sock stats";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Name of the export; by default the only one, or the one without a name.
    #[arg(long, value_name = "NAME", default_value = "")]
    export: String,
    /// Control socket of the server.
    socket: PathBuf,
    /// Command with its arguments, or one word that has all of them, quoted as in a shell.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    command: Vec<String>,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    if options.command.iter().any(|word| word.contains('\n')) {
        return Err(Failure::usage("a word of the command contains a line feed; a command is one line"));
    }
    let command = match options.command.as_slice() {
        [line] => line.clone(),
        words => words::join(words),
    };
    let line = format!("{}\n{}", options.export, command);
    let told = send_command(&options.socket, &line).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            let path = options.socket.display();
            Failure::failed(format_args!(
                "{path}: no server listens there; start the server with --control {path}"
            ))
        }
        _ => Failure::io(&options.socket, &error),
    })?;
    match told {
        Ok(text) => {
            file::print(&text)?;
            Ok(ExitCode::SUCCESS)
        }
        Err(why) => {
            say(why);
            Ok(ExitCode::FAILURE)
        }
    }
}
