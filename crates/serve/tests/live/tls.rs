//! TLS: accepted and rejected clients, and the reset of all state negotiated in the clear.

use crate::certificates;
use crate::house::{Guest, House, alone, memory};
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
    fn house(&self, mode: TlsMode, verify_peer: bool) -> House {
        let tls = Tls::new(&self.0, mode, verify_peer).expect("they were just made");
        House::under_tls(alone(memory(16 << 20)), Limits::default(), tls)
    }
    fn uri(&self, house: &House) -> Uri {
        let folder = self.0.to_str().expect("the name is text").to_owned();
        Uri { tls: true, tls_certificates: Some(folder), ..house.uri() }
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
fn blocks_small_and_large_come_back_as_they_were_written() {
    let folder = Folder::new("load");
    let house = folder.house(TlsMode::Require, true);
    let uri = folder.uri(&house);
    for (block, connections) in [(4096, 1), (512, 4), (1 << 20, 2), (4 << 20, 1)] {
        let job = Job { block, connections, ..job("randrw") };
        assert!(run(&uri, &job).expect("the server serves") > 0, "{block}");
    }
}

#[test]
fn whoever_must_use_tls_and_does_not_hears_of_it() {
    let folder = Folder::new("require");
    let refused = run(&folder.house(TlsMode::Require, false).uri(), &job("read")).expect_err("in the clear");
    assert!(refused.to_string().contains("TLS"), "{refused}");
    let house = folder.house(TlsMode::On, false);
    run(&house.uri(), &job("read")).expect("who may use TLS need not");
    run(&folder.uri(&house), &job("read")).expect("but can");
    let refused = run(&folder.uri(&House::of(memory(1 << 20))), &job("read")).expect_err("it has no TLS");
    assert!(refused.to_string().contains("TLS"), "{refused}");
}

#[test]
fn a_server_of_another_authority_or_name_is_not_trusted() {
    let (ours, others) = (Folder::new("ours"), Folder::new("others"));
    let house = ours.house(TlsMode::On, false);
    assert!(run(&others.uri(&house), &job("read")).is_err());
    let elsewhere = Uri { tls_hostname: Some("elsewhere".to_owned()), ..ours.uri(&house) };
    let refused = run(&elsewhere, &job("read")).expect_err("its certificate is for localhost");
    assert!(refused.to_string().contains("not valid for name"), "{refused}");
    let trusting = Uri { tls_verify_peer: Some(false), ..others.uri(&house) };
    run(&trusting, &job("read")).expect("who does not look sees nothing wrong");
    let nobody = Uri { tls_certificates: None, ..ours.uri(&house) };
    assert!(matches!(run(&nobody, &job("read")), Err(LoadError::Tls(_))));
}

#[test]
fn a_client_without_a_certificate_of_the_authority_is_sent_away() {
    let (ours, others) = (Folder::new("server"), Folder::new("client"));
    let house = ours.house(TlsMode::Require, true);
    // The client trusts the server, but first presents a certificate that the server does not trust, and then none.
    std::fs::copy(ours.0.join("ca-cert.pem"), others.0.join("ca-cert.pem")).expect("the disk has room");
    assert!(run(&others.uri(&house), &job("read")).is_err());
    std::fs::remove_file(others.0.join("client-cert.pem")).expect("it is there");
    assert!(run(&others.uri(&house), &job("read")).is_err());
    run(&ours.uri(&house), &job("read")).expect("it is known");
}

#[test]
fn what_was_sent_before_tls_is_thrown_away() {
    let folder = Folder::new("injected");
    let house = folder.house(TlsMode::On, false);
    let mut stream = house.connect();
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting).expect("a server greets");
    let starttls = [&b"IHAVEOPT"[..], &5u32.to_be_bytes(), &0u32.to_be_bytes()].concat();
    let list = [&b"IHAVEOPT"[..], &3u32.to_be_bytes(), &0u32.to_be_bytes()].concat();
    stream.write_all(&[&1u32.to_be_bytes()[..], &starttls, &list].concat()).expect("it listens");
    let mut answer = [0; 20];
    stream.read_exact(&mut answer).expect("it answers");
    assert_eq!(answer[8..16], [0, 0, 0, 5, 0, 0, 0, 1], "STARTTLS, and an acknowledgement");
    stream.shutdown(Shutdown::Write).expect("it is open");
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).expect("it ends");
    assert_eq!(rest, [0u8; 0], "LIST was not answered");
    house.empty();
}

#[test]
fn garbage_and_silence_instead_of_a_handshake_end_the_connection() {
    let folder = Folder::new("garbage");
    let tls = Tls::new(&folder.0, TlsMode::On, false).expect("they were just made");
    let limits = Limits { handshake: Duration::from_ms(200), ..Limits::default() };
    let house = House::under_tls(alone(memory(1 << 20)), limits, tls);
    let starttls = [&1u32.to_be_bytes()[..], b"IHAVEOPT", &5u32.to_be_bytes(), &0u32.to_be_bytes()].concat();
    for garbage in [&b""[..], b"\x16\x03\x01", b"GET / HTTP/1.1\r\n\r\n", &[0xff; 4096]] {
        // On a busy machine, a client may miss the time limit for the handshake; it then tries again.
        let mut stream = again(|| {
            let mut stream = house.connect();
            stream.write_all(&starttls)?;
            stream.read_exact(&mut [0; 18 + 20]).map(|()| stream)
        });
        // The server may have closed the connection already.
        let _ = stream.write_all(garbage);
        let _ = stream.read_to_end(&mut Vec::new());
    }
    house.empty();
    again(|| Guest::new(house.connect(), client::ClientConfig::export(""))).read(0, 512);
}

/// Repeats `attempt` until it succeeds. On an idle machine the first attempt succeeds.
fn again<T>(attempt: impl FnMut() -> io::Result<T>) -> T {
    std::iter::repeat_with(attempt).take(1_000).find_map(Result::ok).expect("it succeeds at last")
}

/// Passes the first `bytes` bytes of a client to the server, and then ends both connections.
fn cut_after(house: &House, folder: &Folder, mut bytes: usize) -> Result<u64, LoadError> {
    let path = folder.0.join("proxy");
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).expect("the name is free");
    let socket = path.into_os_string().into_encoded_bytes();
    let uri = Uri { transport: Transport::Unix { socket }, ..folder.uri(house) };
    std::thread::scope(|scope| {
        let client = scope.spawn(|| run(&uri, &job("randwrite")));
        let (mut client_side, _) = listener.accept().expect("the client connects");
        let mut server_side = house.connect();
        let back = (server_side.try_clone(), client_side.try_clone());
        let (Ok(mut from), Ok(mut to)) = back else { panic!("there are descriptors") };
        scope.spawn(move || std::io::copy(&mut from, &mut to));
        let mut buffer = [0; 4096];
        while bytes > 0 {
            let most = bytes.min(buffer.len());
            let Ok(n @ 1..) = client_side.read(&mut buffer[..most]) else { break };
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
fn a_client_that_dies_at_any_place_is_only_its_own_end() {
    let folder = Folder::new("dies");
    let house = folder.house(TlsMode::Require, false);
    for bytes in (0..2000).step_by(41).chain([100_000, 1_000_000]) {
        assert!(cut_after(&house, &folder, bytes).is_err(), "after {bytes} bytes");
    }
    house.empty();
    run(&folder.uri(&house), &job("randrw")).expect("it still serves");
}

#[test]
fn certificates_that_are_missing_or_none_are_named() {
    let folder = Folder::new("missing");
    let error = |mode| Tls::new(&folder.0, mode, true).expect_err("they cannot be used").to_string();
    std::fs::write(folder.0.join("ca-cert.pem"), "no certificate").expect("the disk has room");
    assert!(error(TlsMode::On).contains("ca-cert.pem"), "{}", error(TlsMode::On));
    std::fs::remove_file(folder.0.join("server-key.pem")).expect("it is there");
    let refused = Tls::new(&folder.0, TlsMode::On, false).expect_err("it has no key").to_string();
    assert!(refused.contains("server-key.pem"), "{refused}");
}

#[test]
fn delayed_answers_come_under_tls_too() {
    let folder = Folder::new("delayed");
    let tls = Tls::new(&folder.0, TlsMode::Require, false).expect("they were just made");
    let (size, us) = (1 << 20, Duration::from_us);
    let throttle = Throttle::Delay { read: us(50), write: us(100), flush: us(10) };
    let geometry = Geometry { capacity: size, block: 512, request_max: 1 << 20 };
    let model = Throttled::new(Box::new(Untimed::new(geometry)), throttle);
    let store = Memory::new(size, Pages::Small).expect("a size that a device can have");
    let device = Arc::new(Timed::new(Box::new(model), Box::new(store)));
    let house = House::under_tls(alone(device), Limits::default(), tls);
    run(&folder.uri(&house), &Job { size: Some(64 << 10), ..job("randrw") }).expect("it serves");
}

/// A TLS client that sends arbitrary bytes.
struct Raw {
    stream: UnixStream,
    tls: ClientConnection,
}

impl Raw {
    /// Starts TLS without selecting an export.
    fn new(folder: &Folder, house: &House) -> Raw {
        Raw::attempt(folder, house).expect("the server agrees")
    }

    /// Starts TLS. Fails if the server ends the connection.
    fn attempt(folder: &Folder, house: &House) -> io::Result<Raw> {
        let mut stream = house.connect();
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
        Ok(Raw { stream, tls })
    }

    /// Selects the default export.
    fn open(&mut self) {
        self.try_open().expect("it answers");
    }

    fn try_open(&mut self) -> io::Result<()> {
        self.try_send(&[&b"IHAVEOPT"[..], &1u32.to_be_bytes(), &0u32.to_be_bytes()].concat(), &[])?;
        Stream::new(&mut self.tls, &mut self.stream).read_exact(&mut [0; 8 + 2 + 124])
    }

    /// Sends `sealed` under TLS, and `bytes` directly behind it without encryption.
    fn send(&mut self, sealed: &[u8], bytes: &[u8]) {
        self.try_send(sealed, bytes).expect("it listens");
    }

    fn try_send(&mut self, sealed: &[u8], bytes: &[u8]) -> io::Result<()> {
        self.tls.writer().write_all(sealed).expect("there is room");
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
fn what_follows_a_farewell_is_nothing_to_wait_for() {
    let folder = Folder::new("farewell");
    let house = folder.house(TlsMode::Require, false);
    let mut raw = Raw::new(&folder, &house);
    raw.open();
    raw.tls.writer().write_all(&request(0, 512)).expect("there is room");
    raw.tls.send_close_notify();
    // More bytes than TLS receives at a time.
    raw.send(&[], &[0x17; 20_000]);
    let mut answer = [0; 16 + 512];
    Stream::new(&mut raw.tls, &mut raw.stream).read_exact(&mut answer).expect("what was asked is answered");
    drop(raw);
    house.empty();
}

#[test]
fn a_part_of_a_record_holds_nothing_up() {
    let folder = Folder::new("part");
    let tls = Tls::new(&folder.0, TlsMode::Require, false).expect("they were just made");
    let limits = Limits { handshake: Duration::from_ms(500), ..Limits::default() };
    let house = House::under_tls(alone(memory(1 << 20)), limits, tls);
    let part = b"\x17\x03\x03";
    // On a busy machine, a client may miss the time limit for the handshake; it then tries again.
    let _silent = again(|| {
        let mut silent = Raw::attempt(&folder, &house)?;
        silent.try_send(&[], part).map(|()| silent)
    });
    let mut leaving = again(|| {
        let mut leaving = Raw::attempt(&folder, &house)?;
        leaving.try_open().map(|()| leaving)
    });
    leaving.send(&request(2, 0), part);
    // The two clients are still connected, so the server has to close them.
    house.empty();
}
