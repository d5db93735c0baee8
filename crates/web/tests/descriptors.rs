//! In a server process without free descriptors, a client gets its reply once a descriptor is free.
//!
//! This test runs alone in its process, since descriptors belong to the process.

use flashlab_web::{Limits, Refused, Server, Stop, Subject};
use rustix::process::{Resource, getrlimit, setrlimit};
use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

/// A subject with metrics only.
struct Metrics;

impl Subject for Metrics {
    fn tick(&mut self) -> Option<String> {
        None
    }
    fn state(&mut self) -> String {
        String::new()
    }
    fn execute(&mut self, _: &serde_json::Value) -> Result<(), Refused> {
        Err(Refused("nothing to change".to_owned()))
    }
    fn metrics(&mut self) -> Option<String> {
        Some("one 1\n".to_owned())
    }
    fn has_page(&self) -> bool {
        false
    }
}

fn send(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("the server listens");
    let request = b"GET /metrics HTTP/1.1\r\nHost: any-name\r\nConnection: close\r\n\r\n";
    stream.write_all(request).expect("the server listens");
    stream
}

fn receive(mut stream: TcpStream) -> String {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers in text");
    answer
}

#[test]
fn a_client_is_answered_once_the_server_has_a_free_descriptor() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = Some(64);
    setrlimit(Resource::Nofile, limit).expect("the limit may be lowered");
    let server =
        Server::bind("127.0.0.1:0".parse().expect("an address"), Limits::default()).expect("a port is free");
    let address = server.address().expect("the listener is bound");
    let stop = Stop::new();
    std::thread::scope(|scope| {
        scope.spawn(|| server.serve(&mut Metrics, &stop).expect("the server serves"));
        let first = receive(send(address));
        assert!(first.starts_with("HTTP/1.1 200 OK") && first.ends_with("one 1\n"), "{first}");
        let mut all: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
        all.pop();
        let stream = send(address);
        assert!(File::open("/dev/null").is_err(), "there is a descriptor left");
        // Long enough for an attempt to accept.
        std::thread::sleep(std::time::Duration::from_millis(20));
        drop(all);
        let late = receive(stream);
        stop.throw();
        assert!(late.starts_with("HTTP/1.1 200 OK"), "{late}");
    });
}
