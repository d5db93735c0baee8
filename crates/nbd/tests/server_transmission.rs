//! The server's side of the transmission, byte for byte. The bytes are put together here, not by the crate; each test
//! names the section of proto.md that it holds the server to.

use flashlab_nbd::server::{
    Closed, Command, ContextSet, Event, Export, MetaContext, PAYLOAD_MAX, Policy, Request, Session, Style,
};
use flashlab_nbd::wire::{BlockDescriptor, ErrorNumber, TransmissionFlags as T};
use std::sync::Arc;

const READ: u16 = 0;
const WRITE: u16 = 1;
const DISC: u16 = 2;
const FLUSH: u16 = 3;
const TRIM: u16 = 4;
const CACHE: u16 = 5;
const ZEROES: u16 = 6;
const STATUS: u16 = 7;

const FUA: u16 = 1;
const NO_HOLE: u16 = 2;
const DF: u16 = 4;
const REQ_ONE: u16 = 8;
const FAST_ZERO: u16 = 16;
const PAYLOAD_LEN: u16 = 32;

const EPERM: u32 = 1;
const EINVAL: u32 = 22;
const ENOSPC: u32 = 28;
const EOVERFLOW: u32 = 75;
const ESHUTDOWN: u32 = 108;

const SIZE: u64 = 1 << 30;
const COOKIE: u64 = 0x0102_0304_0506_0708;

fn card() -> Export {
    let mut export = Export::new("", SIZE);
    export.flags =
        T::SEND_FLUSH | T::SEND_FUA | T::SEND_TRIM | T::SEND_WRITE_ZEROES | T::SEND_FAST_ZERO | T::SEND_CACHE;
    export.contexts = ["base:allocation", "x-flashlab:mapped"].map(MetaContext::new).into();
    export
}

struct Talk {
    session: Session,
    style: Style,
    event: Event,
}

impl Talk {
    fn with(style: Style, export: Export) -> Talk {
        let policy = Policy { direct_min: 1000, ..Policy::default() };
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
        Talk { session, style, event: Event::Opened }
    }
    fn new(style: Style) -> Talk {
        Talk::with(style, card())
    }
    /// Says this, and returns what is answered without anybody's help. The event is the last one.
    fn say(&mut self, mut bytes: &[u8]) -> Vec<u8> {
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
    /// The bytes of a request in this session's layout, without its payload.
    fn header(&self, flags: u16, kind: u16, offset: u64, length: u64) -> Vec<u8> {
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
    /// A request with what follows it, if it has a payload.
    fn request(&self, flags: u16, kind: u16, offset: u64, length: u64) -> Vec<u8> {
        let flags = flags | if kind == WRITE && self.style == Style::Extended { PAYLOAD_LEN } else { 0 };
        let mut bytes = self.header(flags, kind, offset, length);
        if kind == WRITE {
            bytes.resize(bytes.len() + length as usize, 0xaa);
        }
        bytes
    }
    /// A request that must come out.
    fn asks(&mut self, flags: u16, kind: u16, offset: u64, length: u64) -> Request {
        let bytes = self.request(flags, kind, offset, length);
        let mut sent = Vec::new();
        let received = self.session.receive(&bytes, &mut sent);
        let Event::Request(request) = received.event else { panic!("{received:?}") };
        assert_eq!((sent.len(), received.consumed), (0, bytes.len()));
        assert_eq!((request.token.cookie(), request.offset, request.length), (COOKIE, offset, length));
        request
    }
    /// A request that must be refused. The session goes on.
    fn refused(&mut self, flags: u16, kind: u16, offset: u64, length: u64, error: u32) {
        let bytes = self.request(flags, kind, offset, length);
        self.refused_bytes(&bytes, offset, error);
    }
    fn refused_bytes(&mut self, bytes: &[u8], offset: u64, error: u32) {
        let sent = self.say(bytes);
        assert!(matches!(self.event, Event::Need(_)), "{:?}", self.event);
        assert_eq!(sent, self.error(&sent, offset, error));
        // What follows is understood: the payload was drained, and not a byte more.
        self.asks(0, FLUSH, 0, 0);
    }
    /// An error reply with the words that `sent` has.
    fn error(&self, sent: &[u8], offset: u64, error: u32) -> Vec<u8> {
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
    /// A chunk in this session's layout.
    fn chunk(&self, flags: u16, kind: u16, offset: u64, body: &[u8]) -> Vec<u8> {
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

fn simple(error: u32) -> Vec<u8> {
    [&0x6744_6698u32.to_be_bytes()[..], &error.to_be_bytes(), &COOKIE.to_be_bytes()].concat()
}

const STYLES: [Style; 3] = [Style::Simple, Style::Structured, Style::Extended];

/// "Request types": each comes out with its flags.
#[test]
fn sound_requests_come_out() {
    for style in STYLES {
        let mut talk = Talk::new(style);
        let chunks = style != Style::Simple;
        assert_eq!(talk.asks(0, READ, 512, 4096).command, Command::Read { unfragmented: !chunks });
        assert_eq!(talk.asks(FUA, READ, SIZE - 1, 1).command, Command::Read { unfragmented: !chunks });
        if chunks {
            assert_eq!(talk.asks(DF, READ, 0, 1).command, Command::Read { unfragmented: true });
            let mut contexts = ContextSet::NONE;
            contexts.insert(0);
            contexts.insert(1);
            assert_eq!(talk.asks(0, STATUS, 0, SIZE).command, Command::BlockStatus { one: false, contexts });
            let command = Command::BlockStatus { one: true, contexts };
            assert_eq!(talk.asks(REQ_ONE | FUA, STATUS, 0, SIZE).command, command);
        }
        let head = if style == Style::Extended { 32 } else { 28 };
        assert_eq!(talk.asks(0, WRITE, 7, 9).command, Command::Write { here: head..head + 9, fua: false });
        assert_eq!(talk.asks(FUA, WRITE, 7, 9).command, Command::Write { here: head..head + 9, fua: true });
        assert_eq!(talk.asks(0, FLUSH, 0, 0).command, Command::Flush);
        assert_eq!(talk.asks(FUA, FLUSH, 0, 0).command, Command::Flush);
        assert_eq!(talk.asks(0, TRIM, 0, SIZE).command, Command::Trim { fua: false });
        assert_eq!(talk.asks(FUA, TRIM, 0, 1).command, Command::Trim { fua: true });
        assert_eq!(talk.asks(0, CACHE, 0, SIZE).command, Command::Cache);
        for flags in 0..8 {
            let (fua, no_hole, fast) = (flags & 1 != 0, flags & 2 != 0, flags & 4 != 0);
            let flag = |set, flag| if set { flag } else { 0 };
            let sent = flag(fua, FUA) | flag(no_hole, NO_HOLE) | flag(fast, FAST_ZERO);
            assert_eq!(talk.asks(sent, ZEROES, 0, SIZE).command, Command::WriteZeroes { fua, no_hole, fast });
        }
    }
}

/// "Error values".
#[test]
fn what_is_wrong_with_a_request_has_its_number() {
    for style in STYLES {
        let mut talk = Talk::new(style);
        for (offset, length) in [(SIZE, 1), (SIZE - 1, 2), (u64::MAX, 1), (u64::MAX - 3, 600), (SIZE, 5000)] {
            talk.refused(0, READ, offset, length, EINVAL);
            talk.refused(0, WRITE, offset, length, ENOSPC);
            talk.refused(0, ZEROES, offset, length, ENOSPC);
            talk.refused(0, TRIM, offset, length, EINVAL);
            talk.refused(0, CACHE, offset, length, EINVAL);
            talk.refused(0, STATUS, offset, length, EINVAL);
        }
        // Unknown commands, RESIZE among them; unknown flags; flags of other commands.
        for kind in [8, 9, 100, u16::MAX] {
            talk.refused(0, kind, 0, 0, EINVAL);
        }
        for kind in [READ, WRITE, FLUSH, TRIM, CACHE, ZEROES, STATUS] {
            let length = if kind == FLUSH { 0 } else { 512 };
            talk.refused(1 << 6, kind, 0, length, EINVAL);
            talk.refused(1 << 15, kind, 0, length, EINVAL);
            if kind != READ || style == Style::Simple {
                talk.refused(DF, kind, 0, length, EINVAL);
            }
            if kind != ZEROES {
                talk.refused(NO_HOLE, kind, 0, length, EINVAL);
                talk.refused(FAST_ZERO, kind, 0, length, EINVAL);
            }
            if kind != STATUS {
                talk.refused(REQ_ONE, kind, 0, length, EINVAL);
            }
            if style != Style::Extended {
                talk.refused(PAYLOAD_LEN, kind, 0, length, EINVAL);
            }
        }
        talk.refused(0, FLUSH, 1, 0, EINVAL);
        talk.refused(0, FLUSH, 0, 1, EINVAL);
    }
}

/// "`NBD_FLAG_READ_ONLY`".
#[test]
fn a_read_only_export_is_not_written_to() {
    for style in STYLES {
        let mut export = card();
        export.flags = export.flags | T::READ_ONLY;
        let mut talk = Talk::with(style, export);
        for length in [0, 1, 700, 100_000] {
            for kind in [WRITE, TRIM, ZEROES] {
                talk.refused(0, kind, 0, length, EPERM);
                talk.refused(0, kind, SIZE, length, EPERM);
            }
        }
        talk.asks(0, READ, 0, 1);
    }
}

/// "Transmission flags": "The client MUST NOT use a feature documented as 'exposed' by a flag unless that flag was set."
#[test]
fn what_was_not_offered_is_refused() {
    for style in STYLES {
        let mut export = card();
        export.flags = T::NONE;
        export.contexts.clear();
        let mut talk = Talk::with(style, export);
        for kind in [TRIM, CACHE, ZEROES, STATUS] {
            talk.refused_without_flush(0, kind, 512);
        }
        talk.refused_without_flush(0, FLUSH, 0);
        for kind in [READ, WRITE] {
            talk.refused_without_flush(FUA, kind, 512);
            talk.asks(0, kind, 0, 512);
        }
    }
}

impl Talk {
    fn refused_without_flush(&mut self, flags: u16, kind: u16, length: u64) {
        let bytes = self.request(flags, kind, 0, length);
        let sent = self.say(&bytes);
        assert_eq!(sent, self.error(&sent, 0, EINVAL), "{kind}");
    }
}

/// "Size constraints": smallest blocks.
#[test]
fn what_is_not_of_whole_blocks_is_refused() {
    for style in STYLES {
        let mut export = card();
        export.block_minimum = 4096;
        let mut talk = Talk::with(style, export);
        for kind in [READ, WRITE, TRIM, CACHE, ZEROES] {
            talk.refused(0, kind, 512, 4096, EINVAL);
            talk.refused(0, kind, 4096, 4095, EINVAL);
            talk.asks(0, kind, 4096, 8192);
        }
    }
}

/// "The client SHOULD NOT request a read length of 0; [...] the server SHOULD NOT disconnect."
#[test]
fn nothing_is_done_for_requests_of_no_bytes() {
    for style in STYLES {
        let mut talk = Talk::new(style);
        for kind in [READ, WRITE, TRIM, CACHE, ZEROES] {
            let bytes = talk.request(0, kind, 5, 0);
            let sent = talk.say(&bytes);
            // "MUST NOT use a simple reply for NBD_CMD_READ" with structured replies.
            let none = style == Style::Extended || style == Style::Structured && kind == READ;
            assert_eq!(sent, if none { talk.chunk(1, 0, 5, &[]) } else { simple(0) });
            talk.asks(0, FLUSH, 0, 0);
        }
        // An extent has at least one byte, so that there is no answer to this.
        talk.refused(0, STATUS, 0, 0, EINVAL);
    }
}

/// "Size constraints": payloads up to 64 MiB are taken, longer ones refused without being kept.
#[test]
fn long_payloads() {
    for style in STYLES {
        let mut talk = Talk::new(style);
        let longer = PAYLOAD_MAX + 1;
        let overflow = if style == Style::Simple { EINVAL } else { EOVERFLOW };
        talk.refused(0, READ, 0, longer, overflow);
        assert_eq!(talk.asks(0, READ, 0, PAYLOAD_MAX).length, PAYLOAD_MAX);
        let flags = if style == Style::Extended { PAYLOAD_LEN } else { 0 };
        // The header is enough for a payload that is to be received directly.
        let header = talk.header(flags, WRITE, 0, PAYLOAD_MAX);
        assert_eq!(talk.say(&header), []);
        let Event::Request(request) = &talk.event else { panic!("{:?}", talk.event) };
        assert_eq!(request.length, PAYLOAD_MAX);
        let head = header.len();
        assert_eq!(request.command, Command::Write { here: head..head, fua: false });
        talk.asks(0, FLUSH, 0, 0);
        let header = talk.header(flags, WRITE, 0, longer);
        let sent = talk.say(&header);
        assert_eq!(sent, [], "not before the payload has come");
        if style == Style::Extended {
            // "A server SHOULD initiate hard disconnect if a client sets the NBD_CMD_FLAG_PAYLOAD_LEN flag and uses a
            // length larger than" what is taken.
            assert_eq!(talk.event, Event::Closed(Closed::Payload(longer)));
            continue;
        }
        let mut payload = vec![0; longer as usize - 1];
        assert_eq!(talk.say(&payload), []);
        assert_eq!(talk.event, Event::Need(1));
        payload.truncate(1);
        let sent = talk.say(&payload);
        assert_eq!(sent, talk.error(&sent, 0, EINVAL));
        talk.asks(0, FLUSH, 0, 0);
    }
}

/// Short payloads are waited for, long ones given out as they are.
#[test]
fn payloads_that_are_not_all_there() {
    for style in STYLES {
        let mut talk = Talk::new(style);
        let short = talk.request(0, WRITE, 0, 999);
        assert_eq!(talk.say(&short[..short.len() - 1]), []);
        assert_eq!(talk.event, Event::Need(short.len()), "and nothing was consumed");
        let long = talk.request(0, WRITE, 0, 1000);
        assert_eq!(talk.say(&long[..long.len() - 1]), []);
        let Event::Request(Request { command: Command::Write { here, .. }, length, .. }) = &talk.event else {
            panic!("{:?}", talk.event)
        };
        assert_eq!((here.len(), *length), (999, 1000));
        talk.asks(0, FLUSH, 0, 0);
    }
}

/// "Request message" (extension-ext-header): payloads where none is expected, none where one is.
#[test]
fn extended_payloads_are_drained_wherever_they_stand() {
    let mut talk = Talk::new(Style::Extended);
    for kind in [READ, FLUSH, TRIM, CACHE, ZEROES, STATUS, 8, 77] {
        for length in [1, 7, 5000] {
            let mut bytes = talk.header(PAYLOAD_LEN, kind, 0, length);
            bytes.resize(bytes.len() + length as usize, 0x55);
            talk.refused_bytes(&bytes, 0, EINVAL);
        }
    }
    let bytes = talk.header(0, WRITE, 0, 512);
    talk.refused_bytes(&bytes, 0, EINVAL);
    // Lengths of 64 bits are what extended headers are for.
    let mut export = card();
    export.size = 1 << 50;
    let mut talk = Talk::with(Style::Extended, export);
    for kind in [TRIM, CACHE, ZEROES, STATUS] {
        assert_eq!(talk.asks(0, kind, 1 << 40, 1 << 45).length, 1 << 45);
    }
}

/// "`NBD_CMD_BLOCK_STATUS`" with a payload (extension-ext-header).
#[test]
fn block_status_of_some_contexts() {
    let mut talk = Talk::new(Style::Extended);
    let status = |talk: &Talk, flags: u16, length: u64, ids: &[u32]| {
        let ids: Vec<u8> = ids.iter().flat_map(|id| id.to_be_bytes()).collect();
        let header = talk.header(PAYLOAD_LEN | flags, STATUS, 4096, 8 + ids.len() as u64);
        [&header[..], &length.to_be_bytes(), &ids].concat()
    };
    for (ids, places) in [(&[1][..], &[1][..]), (&[1, 0], &[0, 1]), (&[0], &[0])] {
        let bytes = status(&talk, REQ_ONE, 8192, ids);
        assert_eq!(talk.say(&bytes[..bytes.len() - 1]), []);
        assert_eq!(talk.event, Event::Need(bytes.len()));
        talk.say(&bytes);
        let Event::Request(request) = &talk.event else { panic!("{:?}", talk.event) };
        assert_eq!((request.offset, request.length), (4096, 8192));
        let Command::BlockStatus { one: true, contexts } = request.command else { panic!("{request:?}") };
        assert_eq!(contexts.iter().collect::<Vec<_>>(), places);
    }
    for (length, ids) in
        [(8192, &[2][..]), (8192, &[0, 0]), (8192, &[]), (0, &[0]), (SIZE, &[0]), (1, &[u32::MAX])]
    {
        let bytes = status(&talk, 0, length, ids);
        talk.refused_bytes(&bytes, 4096, EINVAL);
    }
    let bytes = status(&talk, 0, 512, &vec![0; 1000]);
    talk.refused_bytes(&bytes, 4096, EINVAL);
    let odd = [talk.header(PAYLOAD_LEN, STATUS, 4096, 13), vec![0; 13]].concat();
    talk.refused_bytes(&odd, 4096, EINVAL);
}

/// "`NBD_CMD_DISC`".
#[test]
fn disconnecting_ends_the_session() {
    for style in STYLES {
        let mut talk = Talk::new(style);
        let bytes = talk.header(0, DISC, 0, 0);
        assert_eq!(talk.say(&bytes), []);
        assert_eq!(talk.event, Event::Closed(Closed::Disconnect));
        let more = talk.header(0, FLUSH, 0, 0);
        assert_eq!(talk.say(&more), []);
        assert_eq!(talk.event, Event::Closed(Closed::Disconnect));
    }
}

#[test]
fn bad_magic_ends_the_session() {
    for style in STYLES {
        let mut talk = Talk::new(style);
        let mut bytes = talk.header(0, FLUSH, 0, 0);
        bytes[3] ^= 1;
        assert_eq!(talk.say(&bytes), []);
        assert!(matches!(talk.event, Event::Closed(Closed::Magic(_))));
        // The other layout's is as bad.
        let mut talk = Talk::new(style);
        let other = if style == Style::Extended { Style::Simple } else { Style::Extended };
        let bytes = [Talk::new(other).header(0, FLUSH, 0, 0), vec![0; 4]].concat();
        assert_eq!(talk.say(&bytes), []);
        assert!(matches!(talk.event, Event::Closed(Closed::Magic(_))));
    }
}

/// "Terminating the transmission phase".
#[test]
fn a_server_that_shuts_down_refuses_requests() {
    for style in STYLES {
        let mut talk = Talk::new(style);
        talk.session.shut_down();
        for (kind, length) in [(READ, 512), (WRITE, 5000), (FLUSH, 0), (99, 0)] {
            let bytes = talk.request(0, kind, 0, length);
            let sent = talk.say(&bytes);
            assert_eq!(sent, talk.error(&sent, 0, ESHUTDOWN));
        }
        let bytes = talk.header(0, DISC, 0, 0);
        talk.say(&bytes);
        assert_eq!(talk.event, Event::Closed(Closed::Disconnect));
    }
}

/// "Simple reply message", "Structured reply chunk message", "Extended reply chunk message", "Structured reply types".
#[test]
fn replies() {
    for style in STYLES {
        let mut talk = Talk::new(style);
        let request = talk.asks(0, READ, 4096, 1024);
        let (token, replies) = (request.token, talk.session.replies().unwrap());
        let mut sent = Vec::new();
        let mut wrote = |write: &dyn Fn(&mut Vec<u8>)| {
            sent.clear();
            write(&mut sent);
            sent.clone()
        };
        let at = 4096u64.to_be_bytes();
        let read = wrote(&|to| replies.read(token, 1024, to));
        let error = wrote(&|to| replies.error(token, ErrorNumber::Io, "it broke", to));
        let done = wrote(&|to| replies.done(token, to));
        if style == Style::Simple {
            assert_eq!((read, error, done), (simple(0), simple(5), simple(0)));
            assert!(!replies.fragments());
            continue;
        }
        // The header says how many bytes follow.
        let whole = talk.chunk(1, 1, 4096, &[&at[..], &[0; 1024]].concat());
        assert_eq!(read, whole[..whole.len() - 1024]);
        assert_eq!(error, talk.chunk(1, 0x8001, 4096, b"\0\0\0\x05\0\x08it broke"));
        assert_eq!(done, if style == Style::Extended { talk.chunk(1, 0, 4096, &[]) } else { simple(0) });
        let hole = wrote(&|to| replies.hole(token, 4608, 512, false, to));
        assert_eq!(hole, talk.chunk(0, 2, 4096, &[&4608u64.to_be_bytes()[..], &[0, 0, 2, 0]].concat()));
        let data = wrote(&|to| replies.data(token, 4096, 2, true, to));
        assert_eq!(data, talk.chunk(1, 1, 4096, &[&at[..], &[0; 2]].concat())[..data.len()]);
        let end = wrote(&|to| replies.end(token, to));
        assert_eq!(end, talk.chunk(1, 0, 4096, &[]));
        let long = wrote(&|to| replies.error(token, ErrorNumber::Io, &"é".repeat(5000), to));
        let head = if style == Style::Extended { 32 } else { 20 };
        assert_eq!(long.len(), head + 6 + 4096, "a message is a string of at most 4096 bytes");
    }
}

/// "`NBD_REPLY_TYPE_BLOCK_STATUS`" and "`NBD_REPLY_TYPE_BLOCK_STATUS_EXT`".
#[test]
fn extents() {
    let extent = |length, status| BlockDescriptor { length, status };
    for style in [Style::Structured, Style::Extended] {
        let mut talk = Talk::new(style);
        let request = talk.asks(0, STATUS, 4096, 8192);
        let (token, replies) = (request.token, talk.session.replies().unwrap());
        let wide = style == Style::Extended;
        let kind = if wide { 6 } else { 5 };
        let told = |length: u64, one: bool, given: &[BlockDescriptor]| {
            let mut sent = Vec::new();
            let told = replies.block_status(token, length, one, 1, given.iter().copied(), true, &mut sent);
            let head = if wide { 40 } else { 24 };
            let bytes = &sent[head..];
            let each: Vec<(u64, u64)> = if wide {
                let number = |bytes: &[u8]| u64::from_be_bytes(bytes.try_into().unwrap());
                bytes.chunks(16).map(|each| (number(&each[..8]), number(&each[8..]))).collect()
            } else {
                let number = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().unwrap()).into();
                bytes.chunks(8).map(|each| (number(&each[..4]), number(&each[4..]))).collect()
            };
            let count = (each.len() as u32).to_be_bytes();
            let body = [&[0, 0, 0, 1][..], if wide { &count } else { &[] }, bytes].concat();
            assert_eq!(sent, talk.chunk(1, kind, 4096, &body));
            assert_eq!(each.iter().map(|(length, _)| length).sum::<u64>(), told);
            each
        };
        assert_eq!(told(8192, false, &[]), [(8192, 0)], "0 is always safe to say");
        assert_eq!(told(8192, false, &[extent(8192, 3)]), [(8192, 3)]);
        assert_eq!(told(8192, false, &[extent(1 << 40, 3)]), [(8192, 3)], "no more than was asked");
        let pieces = [extent(512, 3), extent(512, 3), extent(0, 1), extent(512, 0), extent(90_000, 3)];
        assert_eq!(told(8192, false, &pieces), [(1024, 3), (512, 0), (6656, 3)]);
        assert_eq!(told(8192, true, &pieces), [(1024, 3)]);
        assert_eq!(told(600, true, &pieces), [(600, 3)]);
        assert_eq!(told(8192, false, &pieces[..1]), [(512, 3)], "less is allowed");
        let long = told(10 << 32, false, &[extent(9 << 32, 3), extent(1 << 32, 0)]);
        if wide {
            assert_eq!(long, [(9 << 32, 3), (1 << 32, 0)]);
            assert_eq!(told(512, false, &[extent(512, 1 << 63)]), [(512, 1 << 63)]);
        } else {
            assert!(long.iter().all(|(length, _)| length % 65536 == 0), "still of whole blocks");
            assert_eq!(long.iter().map(|(length, _)| length).sum::<u64>(), 10 << 32);
            let one = told(10 << 32, true, &[extent(9 << 32, 3)]);
            assert_eq!(one, [(0xffff_0000, 3)]);
        }
        // "Servers SHOULD NOT send more than 2^20 extents in a single reply chunk."
        let many: Vec<_> = (0..(1 << 20) + 5).map(|n| extent(1, n % 2)).collect();
        assert_eq!(told(1 << 21, false, &many).len(), 1 << 20);
    }
}
