//! A server at an address of its own, and a plain client that does one thing after the other.

use flashlab_block::{BlockDevice, Memory, Pages};
use flashlab_nbd::client::{Client, Event, Request, Wish};
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
pub(crate) struct House {
    pub(crate) stop: Stop,
    pub(crate) counters: Arc<Counters>,
    name: String,
    serving: Option<JoinHandle<()>>,
}

/// A memory device of so many bytes.
pub(crate) fn memory(size: u64) -> Arc<dyn BlockDevice> {
    Arc::new(Memory::new(size, Pages::Small).expect("a size that a device can have"))
}

/// A device as the default export.
pub(crate) fn alone(device: Arc<dyn BlockDevice>) -> Vec<Export> {
    vec![Export { name: String::new(), description: String::new(), device, read_only: false }]
}

/// Returns `limits` with the times that a test does not set so long that a busy machine never reaches them.
fn patient(limits: Limits) -> Limits {
    let (default, hang) = (Limits::default(), Duration::from_secs(600));
    let unless_set = |set, default| if set == default { hang } else { set };
    Limits {
        handshake: unless_set(limits.handshake, default.handshake),
        grace: unless_set(limits.grace, default.grace),
        ..limits
    }
}

impl House {
    /// Serves one device.
    pub(crate) fn of(device: Arc<dyn BlockDevice>) -> House {
        House::with(alone(device), Limits::default(), None)
    }

    pub(crate) fn with(exports: Vec<Export>, limits: Limits, recorder: Option<Arc<Recorder>>) -> House {
        House::build(exports, limits, recorder, Speed::REAL, None)
    }

    pub(crate) fn at_speed(exports: Vec<Export>, speed: Speed) -> House {
        House::build(exports, Limits::default(), None, speed, None)
    }

    pub(crate) fn under_tls(exports: Vec<Export>, limits: Limits, tls: Tls) -> House {
        House::build(exports, limits, None, Speed::REAL, Some(tls))
    }

    fn build(
        exports: Vec<Export>,
        limits: Limits,
        recorder: Option<Arc<Recorder>>,
        speed: Speed,
        tls: Option<Tls>,
    ) -> House {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("flashlab-test-{}-{number}", std::process::id());
        let listener = Listener::bind(&Address::Abstract(name.clone().into())).expect("the name is free");
        let stop = Stop::new().expect("there are descriptors");
        let exports = Exports::new(exports).expect("they fit together");
        let mut server = Server::new(exports, patient(limits), stop.clone()).with_speed(speed);
        if let Some(recorder) = recorder {
            server = server.with_recorder(recorder);
        }
        if let Some(tls) = tls {
            server = server.with_tls(tls);
        }
        let counters = server.counters().clone();
        let serving = std::thread::spawn(move || server.serve(vec![listener]).expect("polling works"));
        House { stop, counters, name, serving: Some(serving) }
    }

    pub(crate) fn uri(&self) -> Uri {
        Address::Abstract(self.name.clone().into()).uri("")
    }

    /// A socket without a word said.
    pub(crate) fn connect(&self) -> UnixStream {
        let address = SocketAddr::from_abstract_name(&self.name).expect("a short name");
        UnixStream::connect_addr(&address).expect("somebody listens")
    }

    /// A client of the default export.
    pub(crate) fn client(&self) -> Guest<UnixStream> {
        Guest::new(self.connect(), Wish::export("")).expect("the server agrees")
    }

    /// Ends the server in order.
    pub(crate) fn end(&mut self) {
        self.stop.throw();
        if let Some(serving) = self.serving.take() {
            serving.join().expect("the server does not panic");
        }
    }

    /// Waits until nobody is connected.
    pub(crate) fn empty(&self) {
        while self.counters.read().connections() > 0 {
            std::thread::yield_now();
        }
    }
}

impl Drop for House {
    fn drop(&mut self) {
        self.end();
    }
}

/// A client with one request in flight at most.
pub(crate) struct Guest<S> {
    pub(crate) stream: S,
    client: Client,
    received: Vec<u8>,
    to_send: Vec<u8>,
}

impl<S: Read + Write> Guest<S> {
    pub(crate) fn new(stream: S, wish: Wish) -> io::Result<Guest<S>> {
        let mut guest =
            Guest { stream, client: Client::new(wish), received: Vec::new(), to_send: Vec::new() };
        loop {
            match guest.next()? {
                Event::Ready => return Ok(guest),
                Event::Send => {}
                other => return Err(io::Error::other(format!("{other:?}"))),
            }
        }
    }

    /// The next event that is not about bytes; what is to be sent is sent.
    fn next(&mut self) -> io::Result<Event> {
        loop {
            let got = self.client.receive(&self.received, &mut self.to_send);
            self.stream.write_all(&self.to_send)?;
            self.to_send.clear();
            let event = match got.event {
                Event::Need(_) => {
                    self.received.drain(..got.consumed);
                    let mut buffer = vec![0; 1 << 16];
                    let count = self.stream.read(&mut buffer)?;
                    if count == 0 {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    self.received.extend_from_slice(&buffer[..count]);
                    continue;
                }
                // The bytes themselves instead of their places.
                Event::Data { slot, offset, here } => {
                    self.to_send = self.received[here.clone()].to_vec();
                    Event::Data { slot, offset, here: 0..here.len() }
                }
                event => event,
            };
            self.received.drain(..got.consumed);
            return Ok(event);
        }
    }

    /// Asks one thing and does not wait.
    pub(crate) fn send(&mut self, request: Request, payload: &[u8]) {
        self.client.request(request, &mut self.to_send).expect("it makes sense");
        self.to_send.extend_from_slice(payload);
        self.stream.write_all(&self.to_send).expect("the connection holds");
        self.to_send.clear();
    }

    /// Asks one thing and says goodbye in the same breath; gives how many answers came until the server had gone.
    pub(crate) fn ask_last(&mut self, request: Request) -> io::Result<usize> {
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

    /// Asks one thing and waits for its end; what was read is in order of the offset.
    pub(crate) fn ask(
        &mut self,
        request: Request,
        payload: &[u8],
    ) -> io::Result<Result<Vec<u8>, ErrorNumber>> {
        self.client.request(request, &mut self.to_send).map_err(io::Error::other)?;
        self.to_send.extend_from_slice(payload);
        let mut read = vec![0; if request.length <= 1 << 30 { request.length as usize } else { 0 }];
        loop {
            match self.next()? {
                Event::Data { offset, here, .. } => {
                    let at = (offset - request.offset) as usize;
                    read[at..at + here.len()].copy_from_slice(&self.to_send);
                    self.to_send.clear();
                }
                Event::Done { result, .. } => return Ok(result.map(|()| read)),
                Event::Closed(why) => return Err(io::Error::other(why)),
                _ => {}
            }
        }
    }

    pub(crate) fn read(&mut self, offset: u64, length: u64) -> Vec<u8> {
        self.ask(Request::read(offset, length), &[]).expect("the connection holds").expect("it can be read")
    }

    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) {
        let request = Request::write(offset, bytes.len() as u64);
        self.ask(request, bytes).expect("the connection holds").expect("it can be written");
    }

    pub(crate) fn flush(&mut self) {
        self.ask(Request::flush(), &[]).expect("the connection holds").expect("it can be flushed");
    }
}
