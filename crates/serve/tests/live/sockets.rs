//! Transports: sockets in the filesystem, TCP, vsock, pipes and socket pairs.

use crate::server::{TestClient, alone, memory};
use flashlab_block::{BlockDevice, Context, Features, Geometry, Io, Started};
use flashlab_nbd::client::ClientConfig;
use flashlab_serve::load::{Job, Mix, load};
use flashlab_serve::{Address, Exports, Limits, Listener, PrivateSocket, Server, Stop};
use flashlab_sim::Duration;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

fn server(stop: &Stop) -> Server {
    let exports = Exports::new(alone(memory(1 << 20))).expect("one fits");
    Server::new(exports, Limits::default(), stop.clone())
}

/// Selects the default export, without the reserved zeroes.
const EXPORT_NAME: &[u8; 20] = b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0";

fn read(length: u32) -> Vec<u8> {
    [&0x2560_9513u32.to_be_bytes()[..], &[0; 20], &length.to_be_bytes()].concat()
}

fn assert_serves<S: Read + Write>(stream: S) {
    let mut client =
        TestClient::new(stream, ClientConfig::export("")).expect("the server accepts the client");
    client.write(77, b"through");
    assert_eq!(client.read(76, 9), b"\0through\0");
}

#[test]
fn one_server_listens_on_tcp_and_on_a_unix_socket() {
    let stop = Stop::new().expect("there are descriptors");
    let private = PrivateSocket::new().expect("there is a folder for temporary files");
    let any = Address::Tcp("127.0.0.1:0".parse().expect("an address"));
    let listeners: Vec<_> = [any, private.address()]
        .iter()
        .map(|address| Listener::bind(address).expect("the address is free"))
        .collect();
    let Ok(Address::Tcp(port)) = listeners[0].address() else { panic!("it is a TCP socket") };
    assert_eq!(listeners[1].address().expect("it has a name"), private.address());
    let server = server(&stop);
    std::thread::scope(|scope| {
        scope.spawn(|| server.serve(listeners).expect("polling works"));
        assert_serves(TcpStream::connect(port).expect("somebody listens"));
        assert_serves(UnixStream::connect(private.path()).expect("somebody listens"));
        stop.throw();
    });
    assert!(!private.path().exists(), "the server removes its socket");
}

#[test]
fn listeners_take_turns_while_all_places_are_taken() {
    let stop = Stop::new().expect("there are descriptors");
    let [first, second] =
        [(); 2].map(|()| PrivateSocket::new().expect("there is a folder for temporary files"));
    let listeners = [&first, &second].map(|socket| Listener::bind(&socket.address()).expect("it is free"));
    let connect = |socket: &PrivateSocket| UnixStream::connect(socket.path()).expect("somebody listens");
    let hang = Duration::from_secs(600);
    let limits = Limits { connections: 1, handshake: hang, idle_when_full: None, ..Limits::default() };
    let exports = Exports::new(alone(memory(1 << 20))).expect("one fits");
    let server = Server::new(exports, limits, stop.clone());
    std::thread::scope(|scope| {
        scope.spawn(|| server.serve(listeners.into()).expect("polling works"));
        let served = TestClient::new(connect(&first), ClientConfig::export("")).expect("it is accepted");
        // The next client of the same listener waits longer than the client of the other listener.
        let (_waiting, other) = (connect(&first), connect(&second));
        other.set_read_timeout(Some(std::time::Duration::from_secs(60))).expect("an open socket");
        drop(served);
        assert_serves(other);
        stop.throw();
    });
}

#[test]
fn a_stale_socket_is_replaced_and_one_in_use_is_not() {
    let private = PrivateSocket::new().expect("there is a folder for temporary files");
    drop(UnixListener::bind(private.path()).expect("the address is free"));
    let living = Listener::bind(&private.address()).expect("nobody listens on it");
    let error = Listener::bind(&private.address()).expect_err("somebody listens on it");
    assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    drop(living);
    std::fs::write(private.path(), "a file").expect("the folder is our own");
    assert!(Listener::bind(&private.address()).is_err(), "a file that is not a socket stays");
}

#[test]
fn a_socket_pair_and_a_pair_of_pipes_are_served_like_a_connection() {
    let stop = Stop::new().expect("there are descriptors");
    let (ours, theirs) = UnixStream::pair().expect("there are descriptors");
    let one = server(&stop);
    std::thread::scope(|scope| {
        let output = theirs.try_clone().expect("there are descriptors");
        scope.spawn(|| one.serve_pair(theirs.into(), output.into()));
        assert_serves(ours);
    });
    assert!(stop.is_thrown(), "the server ends with its only client");

    struct Pipes(PipeReader, PipeWriter);
    impl Read for Pipes {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            self.0.read(to)
        }
    }
    impl Write for Pipes {
        fn write(&mut self, from: &[u8]) -> io::Result<usize> {
            self.1.write(from)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let stop = Stop::new().expect("there are descriptors");
    let ((input, to_server), (from_server, output)) =
        (io::pipe().expect("there are descriptors"), io::pipe().expect("there are descriptors"));
    let one = server(&stop);
    std::thread::scope(|scope| {
        scope.spawn(|| one.serve_pair(input.into(), output.into()));
        assert_serves(Pipes(from_server, to_server));
    });
}

#[test]
fn a_server_on_pipes_ends_when_it_is_stopped() {
    let stop = Stop::new().expect("there are descriptors");
    let ((input, _to_server), (_from_server, output)) =
        (io::pipe().expect("there are descriptors"), io::pipe().expect("there are descriptors"));
    let one = server(&stop);
    std::thread::scope(|scope| {
        scope.spawn(|| one.serve_pair(input.into(), output.into()));
        stop.throw();
    });
}

/// A device that announces each request, and completes it when the test allows.
struct GatedDevice {
    memory: Arc<dyn BlockDevice>,
    started: Mutex<Sender<()>>,
    released: Mutex<Receiver<()>>,
}

impl BlockDevice for GatedDevice {
    fn geometry(&self) -> Geometry {
        self.memory.geometry()
    }
    fn features(&self) -> Features {
        self.memory.features()
    }
    fn start(&self, cx: &Context, io: Io) -> Started {
        // A closed channel does not block the device.
        let _ = self.started.lock().expect("no thread panics").send(());
        let _ = self.released.lock().expect("no thread panics").recv();
        self.memory.start(cx, io)
    }
}

#[test]
fn a_stopped_server_on_pipes_executes_no_more_requests() {
    let stop = Stop::new().expect("there are descriptors");
    let ((input, mut to_server), (mut from_server, output)) =
        (io::pipe().expect("there are descriptors"), io::pipe().expect("there are descriptors"));
    let ((started, is_started), (release, is_released)) = (channel(), channel());
    let device = GatedDevice {
        memory: memory(1 << 20),
        started: Mutex::new(started),
        released: Mutex::new(is_released),
    };
    let exports = Exports::new(alone(Arc::new(device))).expect("one fits");
    let one = Server::new(exports, Limits::default(), stop.clone());
    std::thread::scope(|scope| {
        scope.spawn(|| one.serve_pair(input.into(), output.into()));
        to_server.write_all(&[&EXPORT_NAME[..], &read(512)].concat()).expect("a pipe has room for it");
        is_started.recv().expect("the device starts the request");
        stop.throw();
        to_server.write_all(&read(512)).expect("a pipe has room for it");
        drop(release);
        let mut sent = Vec::new();
        from_server.read_to_end(&mut sent).expect("it ends");
        assert_eq!(sent.len(), 18 + 10 + 16 + 512, "one request was answered");
    });
}

#[test]
fn a_client_on_a_socket_pair_that_never_receives_is_closed_after_the_grace_period() {
    let (mut ours, theirs) = UnixStream::pair().expect("there are descriptors");
    let stop = Stop::new().expect("there are descriptors");
    let exports = Exports::new(alone(memory(64 << 20))).expect("one fits");
    let limits = Limits { grace: Duration::from_ms(50), ..Limits::default() };
    let one = Server::new(exports, limits, stop.clone());
    std::thread::scope(|scope| {
        let output = theirs.try_clone().expect("there are descriptors");
        let serving = scope.spawn(|| one.serve_pair(theirs.into(), output.into()));
        ours.write_all(&[&EXPORT_NAME[..], &read(32 << 20)].concat()).expect("the server listens");
        ours.read_exact(&mut [0; 18 + 10]).expect("a server greets");
        ours.read_exact(&mut [0; 16]).expect("the server answers");
        stop.throw();
        serving.join().expect("the server does not panic");
    });
}

#[test]
fn a_vsock_port_is_served() {
    // The loopback of vsock (VMADDR_CID_LOCAL), if the kernel has it.
    let address = Address::Vsock { cid: Some(1), port: 20_000 + std::process::id() % 10_000 };
    let listener = match Listener::bind(&address) {
        Ok(listener) => listener,
        Err(error) => {
            // Written directly to stderr, because the test runner captures the output of a passing test.
            let name = "SKIPPED a_vsock_port_is_served";
            let _ = writeln!(std::io::stderr(), "{name}: no loopback of vsock: {error}");
            return;
        }
    };
    assert_eq!(listener.address().expect("the listener is bound"), address);
    let stop = Stop::new().expect("there are descriptors");
    let server = server(&stop);
    std::thread::scope(|scope| {
        scope.spawn(|| server.serve(vec![listener]).expect("polling works"));
        let job = Job { mix: Mix::parse("randrw", 50).expect("fio's word"), verify: true, ..Job::default() };
        let loaded = load(&address.uri(""), &job, &stop);
        stop.throw();
        assert!(loaded.expect("the server serves").verified > 0);
    });
}
