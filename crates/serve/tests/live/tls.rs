//! TLS: accepted and rejected clients, bytes outside TLS, and connections that end early.

use crate::certificates;
use crate::server::{TestClient, TestServer, alone, memory};
use flashlab_block::model::{Throttle, Throttled, Untimed};
use flashlab_block::{Geometry, Memory, Pages, Timed};
use flashlab_nbd::client;
use flashlab_nbd::uri::{Transport, Uri};
use flashlab_serve::load::{Job, LoadError, Mix, load};
use flashlab_serve::{Limits, Stop, Tls, TlsMode};
use flashlab_sim::Duration;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, Stream};
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A directory with certificates. Dropping it removes the directory.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("tls-{name}-{}", std::process::id()));
        certificates::make(&folder);
        Folder(folder)
    }
    fn server(&self, mode: TlsMode, verify_peer: bool) -> TestServer {
        let tls = Tls::new(&self.0, mode, verify_peer).expect("they were just made");
        TestServer::with_tls(alone(memory(16 << 20)), Limits::default(), tls)
    }
    fn uri(&self, server: &TestServer) -> Uri {
        let folder = self.0.to_str().expect("the name is text").to_owned();
        Uri { tls: true, tls_certificates: Some(folder), ..server.uri() }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn job(word: &str) -> Job {
    let mix = Mix::parse(word, 50).expect("fio's word");
    Job { mix, depth: 16, verify: true, ..Job::default() }
}

fn run(uri: &Uri, job: &Job) -> Result<u64, LoadError> {
    load(uri, job, &Stop::new().expect("there are descriptors")).map(|loaded| loaded.verified)
}

#[test]
fn small_and_large_blocks_read_back_as_written() {
    let folder = Folder::new("load");
    let server = folder.server(TlsMode::Require, true);
    let uri = folder.uri(&server);
    for (block, connections) in [(4096, 1), (512, 4), (1 << 20, 2), (4 << 20, 1)] {
        let job = Job { block, connections, ..job("randrw") };
        assert!(run(&uri, &job).expect("the server serves") > 0, "{block}");
    }
}

#[test]
fn an_error_says_when_tls_is_required_or_unavailable() {
    let folder = Folder::new("require");
    let error = run(&folder.server(TlsMode::Require, false).uri(), &job("read")).expect_err("in the clear");
    assert!(error.to_string().contains("TLS"), "{error}");
    let server = folder.server(TlsMode::On, false);
    run(&server.uri(), &job("read")).expect("TLS is optional");
    run(&folder.uri(&server), &job("read")).expect("TLS is supported");
    let error = run(&folder.uri(&TestServer::new(memory(1 << 20))), &job("read")).expect_err("it has no TLS");
    assert!(error.to_string().contains("TLS"), "{error}");
}

#[test]
fn a_server_of_another_authority_or_name_is_not_trusted() {
    let (ours, others) = (Folder::new("ours"), Folder::new("others"));
    let server = ours.server(TlsMode::On, false);
    assert!(run(&others.uri(&server), &job("read")).is_err());
    let elsewhere = Uri { tls_hostname: Some("elsewhere".to_owned()), ..ours.uri(&server) };
    let error = run(&elsewhere, &job("read")).expect_err("its certificate is for localhost");
    assert!(error.to_string().contains("not valid for name"), "{error}");
    let trusting = Uri { tls_verify_peer: Some(false), ..others.uri(&server) };
    run(&trusting, &job("read")).expect("the client does not verify the server");
    let no_certificates = Uri { tls_certificates: None, ..ours.uri(&server) };
    assert!(matches!(run(&no_certificates, &job("read")), Err(LoadError::Tls(_))));
}

#[test]
fn a_client_without_a_certificate_of_the_authority_is_rejected() {
    let (ours, others) = (Folder::new("server"), Folder::new("client"));
    let server = ours.server(TlsMode::Require, true);
    // The client trusts the server, but first presents a certificate that the server does not trust, and then none.
    std::fs::copy(ours.0.join("ca-cert.pem"), others.0.join("ca-cert.pem")).expect("the disk has room");
    assert!(run(&others.uri(&server), &job("read")).is_err());
    std::fs::remove_file(others.0.join("client-cert.pem")).expect("the path exists");
    assert!(run(&others.uri(&server), &job("read")).is_err());
    run(&ours.uri(&server), &job("read")).expect("it is known");
}

#[test]
fn bytes_sent_before_tls_are_discarded() {
    let folder = Folder::new("injected");
    let server = folder.server(TlsMode::On, false);
    let mut stream = server.connect();
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting).expect("a server greets");
    let starttls = [&b"IHAVEOPT"[..], &5u32.to_be_bytes(), &0u32.to_be_bytes()].concat();
    let list = [&b"IHAVEOPT"[..], &3u32.to_be_bytes(), &0u32.to_be_bytes()].concat();
    stream.write_all(&[&1u32.to_be_bytes()[..], &starttls, &list].concat()).expect("the server listens");
    let mut answer = [0; 20];
    stream.read_exact(&mut answer).expect("the server answers");
    assert_eq!(answer[8..16], [0, 0, 0, 5, 0, 0, 0, 1], "STARTTLS, and an acknowledgement");
    stream.shutdown(Shutdown::Write).expect("the stream is open");
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).expect("it ends");
    assert_eq!(rest, [0u8; 0], "LIST was answered");
    server.wait_until_empty();
}

#[test]
fn garbage_and_silence_instead_of_a_handshake_end_the_connection() {
    let folder = Folder::new("garbage");
    let tls = Tls::new(&folder.0, TlsMode::On, false).expect("they were just made");
    let limits = Limits { handshake: Duration::from_ms(200), ..Limits::default() };
    let server = TestServer::with_tls(alone(memory(1 << 20)), limits, tls);
    let starttls = [&1u32.to_be_bytes()[..], b"IHAVEOPT", &5u32.to_be_bytes(), &0u32.to_be_bytes()].concat();
    for garbage in [&b""[..], b"\x16\x03\x01", b"GET / HTTP/1.1\r\n\r\n", &[0xff; 4096]] {
        // On a busy machine, a client may miss the time limit for the handshake; it then tries again.
        let mut stream = retry(|| {
            let mut stream = server.connect();
            stream.write_all(&starttls)?;
            stream.read_exact(&mut [0; 18 + 20]).map(|()| stream)
        });
        // The server may have closed the connection already.
        let _ = stream.write_all(garbage);
        let _ = stream.read_to_end(&mut Vec::new());
    }
    server.wait_until_empty();
    retry(|| TestClient::new(server.connect(), client::ClientConfig::export(""))).read(0, 512);
}

/// Repeats `attempt` until it succeeds. On an idle machine the first attempt succeeds.
fn retry<T>(attempt: impl FnMut() -> io::Result<T>) -> T {
    std::iter::repeat_with(attempt).take(1_000).find_map(Result::ok).expect("it succeeds at last")
}

/// Passes the first `bytes` bytes of a client to the server, and then ends both connections.
fn run_through_cut_connection(
    server: &TestServer,
    folder: &Folder,
    mut bytes: usize,
) -> Result<u64, LoadError> {
    let path = folder.0.join("proxy");
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).expect("the name is free");
    let socket = path.into_os_string().into_encoded_bytes();
    let uri = Uri { transport: Transport::Unix { socket }, ..folder.uri(server) };
    std::thread::scope(|scope| {
        let client = scope.spawn(|| run(&uri, &job("randwrite")));
        let (mut client_side, _) = listener.accept().expect("the client connects");
        let mut server_side = server.connect();
        let back = (server_side.try_clone(), client_side.try_clone());
        let (Ok(mut from), Ok(mut to)) = back else { panic!("there are descriptors") };
        scope.spawn(move || std::io::copy(&mut from, &mut to));
        let mut buffer = [0; 4096];
        while bytes > 0 {
            let count_max = bytes.min(buffer.len());
            let Ok(n @ 1..) = client_side.read(&mut buffer[..count_max]) else { break };
            server_side.write_all(&buffer[..n]).expect("the server listens");
            bytes -= n;
        }
        for side in [&server_side, &client_side] {
            // One of the sides may have ended already.
            let _ = side.shutdown(Shutdown::Both);
        }
        client.join().expect("the client does not panic")
    })
}

#[test]
fn a_tls_client_that_disconnects_at_any_byte_does_not_affect_others() {
    let folder = Folder::new("dies");
    let server = folder.server(TlsMode::Require, false);
    for bytes in (0..2000).step_by(41).chain([100_000, 1_000_000]) {
        assert!(run_through_cut_connection(&server, &folder, bytes).is_err(), "after {bytes} bytes");
    }
    server.wait_until_empty();
    run(&folder.uri(&server), &job("randrw")).expect("it still serves");
}

#[test]
fn errors_name_missing_and_invalid_certificates() {
    let folder = Folder::new("missing");
    let error = |mode| Tls::new(&folder.0, mode, true).expect_err("they cannot be used").to_string();
    std::fs::write(folder.0.join("ca-cert.pem"), "no certificate").expect("the disk has room");
    assert!(error(TlsMode::On).contains("ca-cert.pem"), "{}", error(TlsMode::On));
    std::fs::remove_file(folder.0.join("server-key.pem")).expect("the path exists");
    let error = Tls::new(&folder.0, TlsMode::On, false).expect_err("it has no key").to_string();
    assert!(error.contains("server-key.pem"), "{error}");
}

#[test]
fn delayed_replies_arrive_under_tls() {
    let folder = Folder::new("delayed");
    let tls = Tls::new(&folder.0, TlsMode::Require, false).expect("they were just made");
    let (size, us) = (1 << 20, Duration::from_us);
    let throttle = Throttle::Delay { read: us(50), write: us(100), flush: us(10) };
    let geometry = Geometry { capacity: size, block: 512, request_max: 1 << 20 };
    let model = Throttled::new(Box::new(Untimed::new(geometry)), throttle);
    let store = Memory::new(size, Pages::Small).expect("a size that a device can have");
    let device = Arc::new(Timed::new(Box::new(model), Box::new(store)));
    let server = TestServer::with_tls(alone(device), Limits::default(), tls);
    run(&folder.uri(&server), &Job { size: Some(64 << 10), ..job("randrw") }).expect("the server serves");
}

/// A TLS client that sends arbitrary bytes.
struct RawTlsClient {
    stream: UnixStream,
    tls: ClientConnection,
}

impl RawTlsClient {
    /// Starts TLS without selecting an export.
    fn new(folder: &Folder, server: &TestServer) -> RawTlsClient {
        RawTlsClient::attempt(folder, server).expect("the server accepts the client")
    }

    /// Starts TLS. Fails if the server ends the connection.
    fn attempt(folder: &Folder, server: &TestServer) -> io::Result<RawTlsClient> {
        let mut stream = server.connect();
        let starttls =
            [&1u32.to_be_bytes()[..], b"IHAVEOPT", &5u32.to_be_bytes(), &0u32.to_be_bytes()].concat();
        stream.write_all(&starttls)?;
        stream.read_exact(&mut [0; 18 + 20])?;
        let mut roots = RootCertStore::empty();
        let authority =
            CertificateDer::from_pem_file(folder.0.join("ca-cert.pem")).expect("it was just made");
        roots.add(authority).expect("it is one");
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring has what TLS needs")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from("localhost").expect("it is a name");
        let mut tls = ClientConnection::new(Arc::new(config), name).expect("the settings are right");
        while tls.is_handshaking() {
            tls.complete_io(&mut stream)?;
        }
        Ok(RawTlsClient { stream, tls })
    }

    /// Selects the default export.
    fn open(&mut self) {
        self.try_open().expect("the server answers");
    }

    fn try_open(&mut self) -> io::Result<()> {
        self.try_send(&[&b"IHAVEOPT"[..], &1u32.to_be_bytes(), &0u32.to_be_bytes()].concat(), &[])?;
        Stream::new(&mut self.tls, &mut self.stream).read_exact(&mut [0; 8 + 2 + 124])
    }

    /// Sends `encrypted` under TLS, and `bytes` directly after it without encryption.
    fn send(&mut self, encrypted: &[u8], bytes: &[u8]) {
        self.try_send(encrypted, bytes).expect("the server listens");
    }

    fn try_send(&mut self, encrypted: &[u8], bytes: &[u8]) -> io::Result<()> {
        self.tls.writer().write_all(encrypted).expect("there is room");
        let mut all = Vec::new();
        while self.tls.wants_write() {
            self.tls.write_tls(&mut all).expect("there is memory");
        }
        all.extend_from_slice(bytes);
        self.stream.write_all(&all)
    }
}

fn request(command: u16, length: u32) -> Vec<u8> {
    let magic = 0x2560_9513u32.to_be_bytes();
    let head = [&magic[..], &0u16.to_be_bytes(), &command.to_be_bytes(), &7u64.to_be_bytes()].concat();
    [&head[..], &0u64.to_be_bytes(), &length.to_be_bytes()].concat()
}

#[test]
fn bytes_after_a_close_alert_are_ignored() {
    let folder = Folder::new("close-alert");
    let server = folder.server(TlsMode::Require, false);
    let mut client = RawTlsClient::new(&folder, &server);
    client.open();
    client.tls.writer().write_all(&request(0, 512)).expect("there is room");
    client.tls.send_close_notify();
    // More bytes than TLS receives at a time.
    client.send(&[], &[0x17; 20_000]);
    let mut answer = [0; 16 + 512];
    Stream::new(&mut client.tls, &mut client.stream)
        .read_exact(&mut answer)
        .expect("the request is answered");
    drop(client);
    server.wait_until_empty();
}

#[test]
fn an_incomplete_record_does_not_keep_a_connection_open() {
    let folder = Folder::new("part");
    let tls = Tls::new(&folder.0, TlsMode::Require, false).expect("they were just made");
    let limits = Limits { handshake: Duration::from_ms(500), ..Limits::default() };
    let server = TestServer::with_tls(alone(memory(1 << 20)), limits, tls);
    let part = b"\x17\x03\x03";
    // On a busy machine, a client may miss the time limit for the handshake; it then tries again.
    let _silent = retry(|| {
        let mut silent = RawTlsClient::attempt(&folder, &server)?;
        silent.try_send(&[], part).map(|()| silent)
    });
    let mut leaving = retry(|| {
        let mut leaving = RawTlsClient::attempt(&folder, &server)?;
        leaving.try_open().map(|()| leaving)
    });
    leaving.send(&request(2, 0), part);
    // The two clients are still connected, so the server has to close them.
    server.wait_until_empty();
}
