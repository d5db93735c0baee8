//! A server with a subject for tests, and a client that writes arbitrary bytes.

use flashlab_web::{Limits, Refused, Server, Stop, Subject};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// Time after which a test gives up: much longer than any answer takes, even on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A subject that counts ticks, keeps commands, and adds `padding` spaces to its states.
struct Counting {
    ticks: Arc<AtomicU64>,
    commands: Arc<Mutex<Vec<Value>>>,
    padding: usize,
    has_page: bool,
}

impl Subject for Counting {
    fn tick(&mut self) -> Option<String> {
        let tick = self.ticks.fetch_add(1, Ordering::SeqCst) + 1;
        Some(json!({ "tick": tick, "padding": " ".repeat(self.padding) }).to_string())
    }
    fn state(&mut self) -> String {
        json!({ "commands": *self.commands.lock().expect("no test panics with it") }).to_string()
    }
    fn execute(&mut self, command: &Value) -> Result<(), Refused> {
        if command["do"] == "refuse" {
            return Err(Refused("no such thing".to_owned()));
        }
        self.commands.lock().expect("no test panics with it").push(command.clone());
        Ok(())
    }
    fn metrics(&mut self) -> Option<String> {
        Some("# TYPE a counter\na 1\n".to_owned())
    }
    fn has_page(&self) -> bool {
        self.has_page
    }
}

/// A running server. Dropping it ends the server.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) token: String,
    pub(crate) commands: Arc<Mutex<Vec<Value>>>,
    pub(crate) ticks: Arc<AtomicU64>,
    stop: Stop,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    pub(crate) fn start(limits: Limits) -> Running {
        Running::with(limits, 0, true)
    }

    pub(crate) fn with(limits: Limits, padding: usize, has_page: bool) -> Running {
        let server = Server::bind(([127, 0, 0, 1], 0).into(), limits).expect("a free port");
        let address = server.address().expect("the server listens");
        let token = server.token().as_str().to_owned();
        assert_eq!(server.url().expect("the server listens"), format!("http://{address}/#token={token}"));
        let (stop, commands, ticks) = (Stop::new(), Arc::default(), Arc::default());
        let mut subject =
            Counting { ticks: Arc::clone(&ticks), commands: Arc::clone(&commands), padding, has_page };
        let ending = stop.clone();
        let serve = move || server.serve(&mut subject, &ending).expect("the server runs");
        let thread = std::thread::spawn(serve);
        Running { address, token, commands, ticks, stop, thread: Some(thread) }
    }

    /// Opens a connection and writes `bytes`.
    pub(crate) fn send(&self, bytes: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).expect("the server listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        // If the server has already closed the connection, its answer gives the reason.
        let _ = stream.write_all(bytes);
        stream
    }

    /// Sends `bytes` and returns everything that the server sends until it closes the connection.
    pub(crate) fn exchange(&self, bytes: &[u8]) -> String {
        let mut stream = self.send(bytes);
        let mut answer = Vec::new();
        // A reset connection also counts as closed.
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Sends a request with headers and body, and returns status and body of the answer.
    pub(crate) fn request(&self, line: &str, headers: &[&str], body: &str) -> (u16, String) {
        let mut text = format!("{line} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", self.address);
        headers.iter().for_each(|header| text.extend([header, "\r\n"]));
        text.extend([&format!("Content-Length: {}\r\n\r\n", body.len()), body]);
        let answer = self.exchange(text.as_bytes());
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        (status(head), body.to_owned())
    }

    /// Sends a command with the token.
    pub(crate) fn command(&self, body: &str) -> (u16, String) {
        let authorization = format!("Authorization: Bearer {}", self.token);
        self.request("POST /api/control", &[&authorization, "Content-Type: application/json"], body)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.throw();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Returns the status of an answer; 0 if there is none.
pub(crate) fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
}
