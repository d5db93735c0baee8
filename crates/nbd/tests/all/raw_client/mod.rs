//! A server with an open export, and the bytes of requests and replies, built without the crate.
#![allow(dead_code, reason = "each test uses a part of it")]

use flashlab_nbd::server::{Event, Export, MetaContext, Policy, Request, Session, Style};
use flashlab_nbd::wire::TransmissionFlags as T;
use std::sync::Arc;

pub(crate) const READ: u16 = 0;
pub(crate) const WRITE: u16 = 1;
pub(crate) const DISC: u16 = 2;
pub(crate) const FLUSH: u16 = 3;
pub(crate) const TRIM: u16 = 4;
pub(crate) const CACHE: u16 = 5;
pub(crate) const ZEROES: u16 = 6;
pub(crate) const STATUS: u16 = 7;

pub(crate) const FUA: u16 = 1;
pub(crate) const NO_HOLE: u16 = 2;
pub(crate) const DF: u16 = 4;
pub(crate) const REQ_ONE: u16 = 8;
pub(crate) const FAST_ZERO: u16 = 16;
pub(crate) const PAYLOAD_LEN: u16 = 32;

pub(crate) const EPERM: u32 = 1;
pub(crate) const EINVAL: u32 = 22;
pub(crate) const ENOSPC: u32 = 28;
pub(crate) const EOVERFLOW: u32 = 75;
pub(crate) const ESHUTDOWN: u32 = 108;

pub(crate) const SIZE: u64 = 1 << 30;
pub(crate) const COOKIE: u64 = 0x0102_0304_0506_0708;

pub(crate) fn card() -> Export {
    let mut export = Export::new("", SIZE);
    export.flags =
        T::SEND_FLUSH | T::SEND_FUA | T::SEND_TRIM | T::SEND_WRITE_ZEROES | T::SEND_FAST_ZERO | T::SEND_CACHE;
    export.contexts = ["base:allocation", "x-flashlab:mapped"].map(MetaContext::new).into();
    export
}

pub(crate) struct TestServer {
    pub(crate) session: Session,
    pub(crate) style: Style,
    pub(crate) event: Event,
}

impl TestServer {
    pub(crate) fn with(style: Style, export: Export) -> TestServer {
        let policy = Policy { direct_payload_min_bytes: 1000, ..Policy::default() };
        let mut sent = Vec::new();
        let mut session = Session::new(policy, Arc::new(vec![export]), &mut sent);
        let option = |number: u32, data: &[u8]| {
            [&b"IHAVEOPT"[..], &number.to_be_bytes(), &(data.len() as u32).to_be_bytes(), data].concat()
        };
        let mut bytes = vec![0, 0, 0, 3];
        match style {
            Style::Simple => {}
            Style::Structured => bytes.extend(option(8, &[])),
            Style::Extended => bytes.extend(option(11, &[])),
        }
        let names = ["base:allocation", "x-flashlab:mapped"];
        let query = |name: &str| [&(name.len() as u32).to_be_bytes()[..], name.as_bytes()].concat();
        let queries = [&[0, 0, 0, 0, 0, 0, 0, 2][..], &query(names[0]), &query(names[1])].concat();
        bytes.extend(option(10, &queries));
        bytes.extend(option(7, &[0; 6]));
        let mut rest = &bytes[..];
        loop {
            let received = session.receive(rest, &mut sent);
            rest = &rest[received.consumed..];
            match received.event {
                Event::Send => {}
                Event::Opened => break,
                event => panic!("{event:?}"),
            }
        }
        assert_eq!(rest, []);
        assert_eq!(session.replies().unwrap().style(), style);
        TestServer { session, style, event: Event::Opened }
    }
    pub(crate) fn new(style: Style) -> TestServer {
        TestServer::with(style, card())
    }
    /// Sends bytes to the session, and returns the replies that the session itself appends. Stores the last event.
    pub(crate) fn send(&mut self, mut bytes: &[u8]) -> Vec<u8> {
        let mut sent = Vec::new();
        loop {
            let received = self.session.receive(bytes, &mut sent);
            bytes = &bytes[received.consumed..];
            self.event = received.event;
            if matches!(self.event, Event::Need(_) | Event::Closed(_) | Event::Request(_)) {
                return sent;
            }
        }
    }
    /// Returns the header of a request in this session's layout.
    pub(crate) fn header(&self, flags: u16, kind: u16, offset: u64, length: u64) -> Vec<u8> {
        let extended = self.style == Style::Extended;
        let magic: u32 = if extended { 0x21e4_1c71 } else { 0x2560_9513 };
        let mut bytes = magic.to_be_bytes().to_vec();
        bytes.extend(flags.to_be_bytes());
        bytes.extend(kind.to_be_bytes());
        bytes.extend(COOKIE.to_be_bytes());
        bytes.extend(offset.to_be_bytes());
        if extended {
            bytes.extend(length.to_be_bytes());
        } else {
            bytes.extend((length as u32).to_be_bytes());
        }
        bytes
    }
    /// Returns a request, with its payload if it is a write.
    pub(crate) fn request(&self, flags: u16, kind: u16, offset: u64, length: u64) -> Vec<u8> {
        let flags = flags | if kind == WRITE && self.style == Style::Extended { PAYLOAD_LEN } else { 0 };
        let mut bytes = self.header(flags, kind, offset, length);
        if kind == WRITE {
            bytes.resize(bytes.len() + length as usize, 0xaa);
        }
        bytes
    }
    /// Sends a request, and asserts that the session returns it.
    pub(crate) fn accepts(&mut self, flags: u16, kind: u16, offset: u64, length: u64) -> Request {
        let bytes = self.request(flags, kind, offset, length);
        let mut sent = Vec::new();
        let received = self.session.receive(&bytes, &mut sent);
        let Event::Request(request) = received.event else { panic!("{received:?}") };
        assert_eq!((sent.len(), received.consumed), (0, bytes.len()));
        assert_eq!((request.token.cookie(), request.offset, request.length), (COOKIE, offset, length));
        request
    }
    /// Sends a request, and asserts that it is rejected and that the session continues.
    pub(crate) fn rejects(&mut self, flags: u16, kind: u16, offset: u64, length: u64, error: u32) {
        let bytes = self.request(flags, kind, offset, length);
        self.rejects_bytes(&bytes, offset, error);
    }
    pub(crate) fn rejects_bytes(&mut self, bytes: &[u8], offset: u64, error: u32) {
        let sent = self.send(bytes);
        assert!(matches!(self.event, Event::Need(_)), "{:?}", self.event);
        assert_eq!(sent, self.error(&sent, offset, error));
        // The next request is parsed correctly: exactly the payload was drained.
        self.accepts(0, FLUSH, 0, 0);
    }
    /// Returns an error reply with the message in `sent`.
    pub(crate) fn error(&self, sent: &[u8], offset: u64, error: u32) -> Vec<u8> {
        if self.style == Style::Simple {
            return simple(error);
        }
        let head = if self.style == Style::Extended { 32 } else { 20 };
        let words = sent.get(head + 6..).unwrap_or_default();
        let text = std::str::from_utf8(words).unwrap();
        assert!(text.contains(' '), "a sentence: {text:?}");
        let body = [&error.to_be_bytes()[..], &(words.len() as u16).to_be_bytes(), words].concat();
        self.chunk(1, 0x8001, offset, &body)
    }
    /// Returns a chunk in this session's layout.
    pub(crate) fn chunk(&self, flags: u16, kind: u16, offset: u64, body: &[u8]) -> Vec<u8> {
        let extended = self.style == Style::Extended;
        let magic: u32 = if extended { 0x6e8a_278c } else { 0x668e_33ef };
        let mut bytes = magic.to_be_bytes().to_vec();
        bytes.extend(flags.to_be_bytes());
        bytes.extend(kind.to_be_bytes());
        bytes.extend(COOKIE.to_be_bytes());
        if extended {
            bytes.extend(offset.to_be_bytes());
            bytes.extend((body.len() as u64).to_be_bytes());
        } else {
            bytes.extend((body.len() as u32).to_be_bytes());
        }
        bytes.extend(body);
        bytes
    }
}

pub(crate) fn simple(error: u32) -> Vec<u8> {
    [&0x6744_6698u32.to_be_bytes()[..], &error.to_be_bytes(), &COOKIE.to_be_bytes()].concat()
}

pub(crate) const STYLES: [Style; 3] = [Style::Simple, Style::Structured, Style::Extended];

impl TestServer {
    pub(crate) fn rejects_without_flush(&mut self, flags: u16, kind: u16, length: u64) {
        let bytes = self.request(flags, kind, 0, length);
        let sent = self.send(&bytes);
        assert_eq!(sent, self.error(&sent, 0, EINVAL), "{kind}");
    }
}
