//! A running server of the page, and plain HTTP requests to it.

use crate::live::tools::flashlab;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::Duration;

/// Number of attempts, `PAUSE` apart, before a test stops waiting for an effect. Also suffices on a busy machine.
const TRIES: u32 = 1_200;
const PAUSE: Duration = Duration::from_millis(50);

/// A running `flashlab web` or `flashlab serve --web`, killed on drop.
pub(super) struct WebServer {
    child: Child,
    pub(super) url: String,
}

impl WebServer {
    pub(super) fn start(arguments: &[&str]) -> WebServer {
        let mut child = flashlab(&[&["web"], arguments].concat())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary is built");
        let mut url = String::new();
        let output = child.stdout.take().expect("the stream is a pipe");
        BufReader::new(output).read_line(&mut url).expect("the server prints the address");
        WebServer { child, url: url.trim().to_owned() }
    }

    /// Starts `flashlab serve --web` with a Unix socket in `folder`.
    #[cfg(feature = "serve")]
    pub(super) fn serve(folder: &crate::live::tools::Folder, arguments: &[&str]) -> WebServer {
        let words = [&["serve", "--web=127.0.0.1:0", "--unix=s.sock"], arguments].concat();
        let mut server = flashlab(&words);
        let mut child =
            server.current_dir(folder).stderr(Stdio::piped()).spawn().expect("the binary is built");
        let log = BufReader::new(child.stderr.take().expect("the stream is a pipe"));
        let mut lines = log.lines().map_while(Result::ok);
        let line =
            lines.find(|line| line.contains("the page is http://")).expect("the server prints the address");
        let (_, url) = line.split_once("the page is ").expect("the text was just found");
        let url = url.trim().to_owned();
        // A thread reads the rest, so that the server never blocks on a full pipe.
        std::thread::spawn(move || lines.for_each(drop));
        WebServer { child, url }
    }

    /// Ends the program, as if the machine had failed.
    pub(super) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn address(&self) -> &str {
        let rest = self.url.strip_prefix("http://").expect("an address");
        rest.split('/').next().expect("a first part")
    }

    pub(super) fn token(&self) -> &str {
        self.url.split("token=").nth(1).expect("the address has a token")
    }

    /// Sends a request and returns the status line and the body.
    pub(super) fn request(&self, line: &str, headers: &str, body: &str) -> (String, String) {
        let mut stream = TcpStream::connect(self.address()).expect("the server listens");
        let length = body.len();
        let text = format!(
            "{line} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}",
            self.address()
        );
        stream.write_all(text.as_bytes()).expect("the server reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("the server answers in text");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        (head.lines().next().unwrap_or_default().to_owned(), body.to_owned())
    }

    /// Returns the state.
    pub(super) fn state(&self) -> Value {
        let (status, body) = self.request("GET /api/state", "", "");
        assert_eq!(status, "HTTP/1.1 200 OK");
        serde_json::from_str(&body).expect("the state is JSON")
    }

    /// Waits until the state satisfies `condition`, and returns it.
    pub(super) fn wait_for(&self, what: &str, condition: impl Fn(&Value) -> bool) -> Value {
        for _ in 0..TRIES {
            let state = self.state();
            if condition(&state) {
                return state;
            }
            std::thread::sleep(PAUSE);
        }
        panic!("{what} did not happen: {}", self.state()["events"]);
    }
}

impl Drop for WebServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns a counter of a device in a state; 0 if the device does not count it.
pub(super) fn counter(state: &Value, device: usize, name: &str) -> u64 {
    let counters = state["devices"][device]["counters"].as_array();
    let found = counters.into_iter().flatten().find(|pair| pair[0] == name);
    found.and_then(|pair| pair[1].as_u64()).unwrap_or(0)
}

/// Returns true if an event of the state contains `text`.
pub(super) fn happened(state: &Value, text: &str) -> bool {
    let events = state["events"].as_array();
    events.into_iter().flatten().any(|event| event["text"].as_str().is_some_and(|found| found.contains(text)))
}
