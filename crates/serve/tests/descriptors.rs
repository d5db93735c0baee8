//! In a process without free descriptors, callers of the control socket get their reply once a descriptor is
//! free.
//!
//! This test runs alone in its process, since descriptors belong to the process.

use flashlab_serve::{Control, PrivateSocket, Stop};
use rustix::process::{Resource, getrlimit, setrlimit};
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

/// Connects with the last free descriptor, sends a request while the server has none, and reads the reply once
/// descriptors are free again.
fn reply_without_descriptors<S: Read + Write>(
    connect: impl Fn() -> io::Result<S>,
    send_request: impl Fn(&mut S),
) -> String {
    let mut all: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    all.pop();
    let mut stream = connect().expect("the server listens");
    send_request(&mut stream);
    assert!(File::open("/dev/null").is_err(), "there is a descriptor left");
    // Long enough for an attempt to accept.
    std::thread::sleep(std::time::Duration::from_millis(20));
    drop(all);
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it is answered");
    answer
}

#[test]
fn callers_are_answered_once_the_server_has_a_free_descriptor() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = Some(64);
    setrlimit(Resource::Nofile, limit).expect("the limit may be lowered");
    let stop = Stop::new().expect("there are descriptors");
    let private = PrivateSocket::new().expect("there is a folder for temporary files");
    let control = Control::bind(&private.path()).expect("the address is free");
    std::thread::scope(|scope| {
        let stop = &stop;
        scope.spawn(move || control.serve(stop, |line| Ok(line.to_owned())).expect("the server serves"));
        let reply = reply_without_descriptors(
            || UnixStream::connect(private.path()),
            |stream| {
                stream.write_all(b"stats").expect("the server listens");
                stream.shutdown(Shutdown::Write).expect("the stream is open");
            },
        );
        stop.throw();
        assert_eq!(reply, "ok\nstats");
    });
}
