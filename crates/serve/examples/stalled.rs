//! Opens connections to an NBD server and stalls on each. Every second connection announces a write of 64 MiB and
//! sends either all bytes but one, or a single byte. The others read 64 MiB and receive 16 bytes. Prints once a
//! second how many connections the server has closed, until all are closed.
//!
//! `cargo run --release -p flashlab-serve --example stalled -- disk.sock 64`

use flashlab_nbd::wire::{CommandFlags, CommandType, OptionHeader, OptionType, RequestHeader, RequestLayout};
use std::error::Error;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const LENGTH: u64 = 64 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(path), Some(count)) = (arguments.next(), arguments.next()) else {
        return Err("expected the path of a Unix socket and a number of connections".into());
    };
    let count: usize = count.parse()?;
    let closed = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for n in 0..count {
            let (path, closed) = (&path, &closed);
            scope.spawn(move || {
                let ended = stall(path, n);
                closed.fetch_add(1, Ordering::Relaxed);
                if let Err(error) = ended {
                    println!("connection {n}: {error}");
                }
            });
        }
        while closed.load(Ordering::Relaxed) < count {
            println!("{} of {count} closed", closed.load(Ordering::Relaxed));
            std::thread::sleep(Duration::from_secs(1));
        }
    });
    println!("all {count} closed");
    Ok(())
}

/// Stalls until the server closes the connection.
fn stall(path: &str, n: usize) -> io::Result<()> {
    let mut stream = UnixStream::connect(path)?;
    let mut bytes = vec![0, 0, 0, 3];
    OptionHeader::emit_with(OptionType::ExportName, b"", &mut bytes);
    let command = if n.is_multiple_of(2) { CommandType::Write } else { CommandType::Read };
    RequestHeader { flags: CommandFlags::NONE, command, cookie: 1, offset: 0, length: LENGTH }
        .emit(RequestLayout::Compact, &mut bytes);
    stream.write_all(&bytes)?;
    // The greeting, and the export's size and flags.
    stream.read_exact(&mut [0; 18 + 10])?;
    if command == CommandType::Read {
        stream.read_exact(&mut [0; 16])?;
    } else {
        let sent = if n.is_multiple_of(4) { LENGTH as usize - 1 } else { 1 };
        stream.write_all(&vec![0; sent])?;
    }
    // Waits for the end of the connection without receiving another byte of the reply.
    let mut fds = [rustix::event::PollFd::new(&stream, rustix::event::PollFlags::empty())];
    rustix::event::poll(&mut fds, None)?;
    Ok(())
}
