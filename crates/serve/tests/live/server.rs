//! A server with its own address, and a simple client that sends one request at a time.

use flashlab_block::{BlockDevice, Memory, Pages};
use flashlab_nbd::client::{Client, ClientConfig, Event, Request};
use flashlab_nbd::uri::Uri;
use flashlab_nbd::wire::ErrorNumber;
use flashlab_serve::{
    Address, Counters, Export, Exports, Limits, Listener, Recorder, Server, Speed, Stop, Tls,
};
use flashlab_sim::Duration;
use std::io::{self, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;

/// A server that runs until it is dropped.
pub(crate) struct TestServer {
    pub(crate) stop: Stop,
    pub(crate) counters: Arc<Counters>,
    name: String,
    serving: Option<JoinHandle<()>>,
}

/// Returns a memory device of `size` bytes.
pub(crate) fn memory(size: u64) -> Arc<dyn BlockDevice> {
    Arc::new(Memory::new(size, Pages::Small).expect("a size that a device can have"))
}

/// Returns a list with the device as the default export.
pub(crate) fn alone(device: Arc<dyn BlockDevice>) -> Vec<Export> {
    vec![Export { name: String::new(), description: String::new(), device, read_only: false }]
}

/// Replaces the limit of the handshake and the grace period, unless the test sets them, by times so long that
/// even a busy machine never reaches them.
fn with_long_times(limits: Limits) -> Limits {
    let (default, hang) = (Limits::default(), Duration::from_secs(600));
    let unless_set = |set, default| if set == default { hang } else { set };
    Limits {
        handshake: unless_set(limits.handshake, default.handshake),
        grace: unless_set(limits.grace, default.grace),
        ..limits
    }
}

impl TestServer {
    /// Serves one device.
    pub(crate) fn new(device: Arc<dyn BlockDevice>) -> TestServer {
        TestServer::with(alone(device), Limits::default(), None)
    }

    pub(crate) fn with(exports: Vec<Export>, limits: Limits, recorder: Option<Arc<Recorder>>) -> TestServer {
        TestServer::build(exports, limits, recorder, Speed::REAL, None)
    }

    pub(crate) fn with_speed(exports: Vec<Export>, speed: Speed) -> TestServer {
        TestServer::build(exports, Limits::default(), None, speed, None)
    }

    pub(crate) fn with_tls(exports: Vec<Export>, limits: Limits, tls: Tls) -> TestServer {
        TestServer::build(exports, limits, None, Speed::REAL, Some(tls))
    }

    fn build(
        exports: Vec<Export>,
        limits: Limits,
        recorder: Option<Arc<Recorder>>,
        speed: Speed,
        tls: Option<Tls>,
    ) -> TestServer {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("flashlab-test-{}-{number}", std::process::id());
        let listener = Listener::bind(&Address::Abstract(name.clone().into())).expect("the name is free");
        let stop = Stop::new().expect("there are descriptors");
        let exports = Exports::new(exports).expect("they fit together");
        let mut server = Server::new(exports, with_long_times(limits), stop.clone()).with_speed(speed);
        if let Some(recorder) = recorder {
            server = server.with_recorder(recorder);
        }
        if let Some(tls) = tls {
            server = server.with_tls(tls);
        }
        let counters = server.counters().clone();
        let serving = std::thread::spawn(move || server.serve(vec![listener]).expect("polling works"));
        TestServer { stop, counters, name, serving: Some(serving) }
    }

    pub(crate) fn uri(&self) -> Uri {
        Address::Abstract(self.name.clone().into()).uri("")
    }

    /// Returns a connected socket on which no byte was sent.
    pub(crate) fn connect(&self) -> UnixStream {
        let address = SocketAddr::from_abstract_name(&self.name).expect("a short name");
        UnixStream::connect_addr(&address).expect("the server listens")
    }

    /// Returns a client of the default export.
    pub(crate) fn client(&self) -> TestClient<UnixStream> {
        TestClient::new(self.connect(), ClientConfig::export("")).expect("the server accepts the client")
    }

    /// Stops the server in order.
    pub(crate) fn shut_down(&mut self) {
        self.stop.throw();
        if let Some(serving) = self.serving.take() {
            serving.join().expect("the server does not panic");
        }
    }

    /// Waits until no client is connected.
    pub(crate) fn wait_until_empty(&self) {
        while self.counters.read().connections() > 0 {
            std::thread::yield_now();
        }
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.shut_down();
    }
}

/// A client with at most one request in flight.
pub(crate) struct TestClient<S> {
    pub(crate) stream: S,
    client: Client,
    received: Vec<u8>,
    to_send: Vec<u8>,
}

impl<S: Read + Write> TestClient<S> {
    pub(crate) fn new(stream: S, config: ClientConfig) -> io::Result<TestClient<S>> {
        let mut client =
            TestClient { stream, client: Client::new(config), received: Vec::new(), to_send: Vec::new() };
        loop {
            match client.next()? {
                Event::Ready => return Ok(client),
                Event::Send => {}
                other => return Err(io::Error::other(format!("{other:?}"))),
            }
        }
    }

    /// Sends the pending bytes, and returns the next event that does not ask for bytes.
    fn next(&mut self) -> io::Result<Event> {
        loop {
            let received = self.client.receive(&self.received, &mut self.to_send);
            self.stream.write_all(&self.to_send)?;
            self.to_send.clear();
            let event = match received.event {
                Event::Need(_) => {
                    self.received.drain(..received.consumed);
                    let mut buffer = vec![0; 1 << 16];
                    let count = self.stream.read(&mut buffer)?;
                    if count == 0 {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    self.received.extend_from_slice(&buffer[..count]);
                    continue;
                }
                // The receive buffer is drained below, so the data moves to `to_send`.
                Event::Data { slot, offset, range } => {
                    self.to_send = self.received[range.clone()].to_vec();
                    Event::Data { slot, offset, range: 0..range.len() }
                }
                event => event,
            };
            self.received.drain(..received.consumed);
            return Ok(event);
        }
    }

    /// Sends one request, and does not wait for the reply.
    pub(crate) fn send(&mut self, request: Request, payload: &[u8]) {
        self.client.request(request, &mut self.to_send).expect("the request is valid");
        self.to_send.extend_from_slice(payload);
        self.stream.write_all(&self.to_send).expect("the connection is open");
        self.to_send.clear();
    }

    /// Sends one request and a disconnect together. Returns the number of replies up to the end of the connection.
    pub(crate) fn execute_last(&mut self, request: Request) -> io::Result<usize> {
        self.client.request(request, &mut self.to_send).map_err(io::Error::other)?;
        self.client.disconnect(&mut self.to_send);
        self.stream.write_all(&self.to_send)?;
        self.to_send.clear();
        let mut answers = 0;
        loop {
            match self.next() {
                Ok(Event::Done { .. }) => answers += 1,
                Ok(_) => self.to_send.clear(),
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(answers),
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends one request and waits for its completion. Returns the data of a read, ordered by offset.
    pub(crate) fn execute(
        &mut self,
        request: Request,
        payload: &[u8],
    ) -> io::Result<Result<Vec<u8>, ErrorNumber>> {
        self.client.request(request, &mut self.to_send).map_err(io::Error::other)?;
        self.to_send.extend_from_slice(payload);
        let mut read = vec![0; if request.length <= 1 << 30 { request.length as usize } else { 0 }];
        loop {
            match self.next()? {
                Event::Data { offset, range, .. } => {
                    let at = (offset - request.offset) as usize;
                    read[at..at + range.len()].copy_from_slice(&self.to_send);
                    self.to_send.clear();
                }
                Event::Done { result, .. } => return Ok(result.map(|()| read)),
                Event::Closed(why) => return Err(io::Error::other(why)),
                _ => {}
            }
        }
    }

    pub(crate) fn read(&mut self, offset: u64, length: u64) -> Vec<u8> {
        self.execute(Request::read(offset, length), &[])
            .expect("the connection is open")
            .expect("it can be read")
    }

    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) {
        let request = Request::write(offset, bytes.len() as u64);
        self.execute(request, bytes).expect("the connection is open").expect("it can be written");
    }

    pub(crate) fn flush(&mut self) {
        self.execute(Request::flush(), &[]).expect("the connection is open").expect("it can be flushed");
    }
}
