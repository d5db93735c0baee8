//! The client's side, byte for byte, against servers of all kinds: old ones, unwilling ones, broken ones. Each test names
//! the section of proto.md that it is about.

use flashlab_nbd::client::{Client, ClientError, Event, Goal, Request, RequestError, TOLD_MAX, Tls, Wish};
use flashlab_nbd::wire::{
    ChunkError, ChunkType, CommandFlags, CommandType, ErrorNumber, OptionReplyType, OptionType,
};

const GREETING: &[u8] = b"NBDMAGICIHAVEOPT\0\x03";
const MIB: u64 = 1 << 20;

fn option(number: u32, data: &[u8]) -> Vec<u8> {
    [b"IHAVEOPT", &number.to_be_bytes()[..], &(data.len() as u32).to_be_bytes(), data].concat()
}

fn reply(number: u32, kind: u32, data: &[u8]) -> Vec<u8> {
    let magic = 0x0003_e889_0455_65a9u64.to_be_bytes();
    [&magic[..], &number.to_be_bytes(), &kind.to_be_bytes(), &(data.len() as u32).to_be_bytes(), data]
        .concat()
}

fn ack(number: u32) -> Vec<u8> {
    reply(number, 1, &[])
}

fn error(number: u32, kind: u32) -> Vec<u8> {
    reply(number, 0x8000_0000 + kind, b"because of this")
}

/// NBD_INFO_EXPORT with every transmission flag.
fn export(size: u64) -> Vec<u8> {
    [&[0, 0][..], &size.to_be_bytes(), &[0x1f, 0xfd]].concat()
}

fn go(name: &str) -> Vec<u8> {
    let name = [&(name.len() as u32).to_be_bytes()[..], name.as_bytes()].concat();
    option(7, &[&name[..], &[0, 3, 0, 1, 0, 2, 0, 3]].concat())
}

/// What a client says to what a server says, and its last event.
fn talk(client: &mut Client, mut bytes: &[u8]) -> (Vec<u8>, Event) {
    let mut sent = Vec::new();
    loop {
        let received = client.receive(bytes, &mut sent);
        bytes = &bytes[received.consumed..];
        if received.event != Event::Send || bytes.is_empty() {
            return (sent, received.event);
        }
    }
}

/// A session in which the server says one thing after the other, each when the client has said what is expected.
fn handshake(wish: Wish, lines: &[(&[u8], &[u8])]) -> (Client, Event) {
    let mut client = Client::new(wish);
    let mut last = Event::Send;
    for (server, client_says) in lines {
        let (sent, event) = talk(&mut client, server);
        assert_eq!(sent, *client_says, "{event:?}");
        last = event;
    }
    (client, last)
}

fn closed(event: &Event) -> &ClientError {
    match event {
        Event::Closed(why) => why,
        event => panic!("{event:?}"),
    }
}

const FLAGS: &[u8] = &[0, 0, 0, 3];

#[test]
fn the_whole_way() {
    let mut wish = Wish::export("card");
    wish.tls = Tls::Require;
    wish.contexts = vec!["base:allocation".into()];
    let mut client = Client::new(wish);
    assert_eq!(talk(&mut client, GREETING).0, [FLAGS, &option(5, &[])].concat());
    assert_eq!(talk(&mut client, &ack(5)), (Vec::new(), Event::StartTls));
    let mut sent = Vec::new();
    client.tls_started(&mut sent);
    assert_eq!(sent, option(11, &[]));
    let query = b"\0\0\0\x04card\0\0\0\x01\0\0\0\x0fbase:allocation";
    assert_eq!(talk(&mut client, &ack(11)).0, option(10, query));
    let context = reply(10, 4, b"\0\0\0\x2abase:allocation");
    assert_eq!(talk(&mut client, &[context, ack(10)].concat()).0, go("card"));
    let sizes = reply(7, 3, b"\0\x03\0\0\x02\0\0\0\x10\0\0\x10\0\0");
    let infos = [sizes, reply(7, 3, &export(MIB)), reply(7, 3, b"\x01\0?")].concat();
    assert_eq!(talk(&mut client, &[infos, ack(7)].concat()), (Vec::new(), Event::Ready));
    assert_eq!(client.contexts(), ["base:allocation"]);
    let export = client.export().unwrap();
    assert_eq!((export.size, export.block_minimum(), export.payload_max()), (MIB, 512, MIB as u32));
}

/// "`NBD_OPT_INFO` and `NBD_OPT_GO`": "clients SHOULD be prepared to also handle `NBD_REP_ERR_UNSUP`".
#[test]
fn old_servers() {
    let name = option(1, b"card");
    let answer = [&MIB.to_be_bytes()[..], &[0, 1]].concat();
    let zeroes = [&answer[..], &[0; 124]].concat();
    let plain = [FLAGS, &option(8, &[])].concat();
    let wish = || Wish { extended: false, ..Wish::export("card") };
    // Fixed newstyle, but no options.
    let lines: [(&[u8], &[u8]); 4] =
        [(GREETING, &plain), (&error(8, 1), &go("card")), (&error(7, 1), &name), (&answer, &[])];
    assert_eq!(handshake(wish(), &lines).1, Event::Ready);
    // Not even that.
    let first = [&[0, 0, 0, 0], &name[..]].concat();
    let (client, event) = handshake(wish(), &[(b"NBDMAGICIHAVEOPT\0\0", &first), (&zeroes, &[])]);
    assert_eq!((event, client.export().unwrap().size), (Event::Ready, MIB));
    let (_, event) = handshake(Wish { tls: Tls::Require, ..wish() }, &[(b"NBDMAGICIHAVEOPT\0\0", &[0; 4])]);
    assert_eq!(*closed(&event), ClientError::NotFixedNewstyle);
    // Zeroes that were not asked away.
    let wish = Wish { export_name: true, no_zeroes: false, structured: false, ..wish() };
    let first = [&[0, 0, 0, 1], &name[..]].concat();
    assert_eq!(handshake(wish.clone(), &[(GREETING, &first), (&zeroes[..133], &[])]).1, Event::Need(134));
    assert_eq!(handshake(wish, &[(GREETING, &first), (&zeroes, &[])]).1, Event::Ready);
}

/// "Client-side requirements" of TLS.
#[test]
fn servers_without_tls() {
    let asks = [FLAGS, &option(5, &[])].concat();
    let wish = |tls| Wish { tls, ..Wish::export("card") };
    let lines: [(&[u8], &[u8]); 2] = [(GREETING, &asks), (&error(5, 2), &option(11, &[]))];
    assert_eq!(handshake(wish(Tls::Try), &lines).1, Event::Send);
    let lines: [(&[u8], &[u8]); 2] = [(GREETING, &asks), (&error(5, 2), &option(2, &[]))];
    let (_, event) = handshake(wish(Tls::Require), &lines);
    let ClientError::Refused { option, reply, message } = closed(&event) else { panic!("{event:?}") };
    assert_eq!((*option, *reply), (OptionType::StartTls, OptionReplyType::ErrPolicy));
    assert_eq!(message, "because of this");
}

/// "Termination of the session during option haggling": a soft disconnect.
#[test]
fn refusals_are_passed_on_and_the_server_is_told() {
    let wish = || Wish::export("card").simple();
    let asks = [FLAGS, &go("card")].concat();
    for kind in [5, 6, 7, 8] {
        let lines: [(&[u8], &[u8]); 2] = [(GREETING, &asks), (&error(7, kind), &option(2, &[]))];
        let (_, event) = handshake(wish(), &lines);
        assert!(closed(&event).to_string().contains("because of this"), "{event:?}");
    }
}

#[test]
fn servers_that_talk_nonsense() {
    let asks = [FLAGS, &go("card")].concat();
    let broken = |bytes: &[u8]| {
        let lines: [(&[u8], &[u8]); 2] = [(GREETING, &asks), (bytes, &[])];
        closed(&handshake(Wish::export("card").simple(), &lines).1).clone()
    };
    assert!(matches!(broken(&[0; 20]), ClientError::Magic(_)));
    assert!(matches!(broken(&ack(6)), ClientError::Answer { answered: OptionType::Info, .. }));
    assert!(matches!(broken(&reply(7, 2, &[0; 4])), ClientError::Answer { .. }));
    assert_eq!(broken(&ack(7)), ClientError::NoExportInfo);
    assert!(matches!(broken(&reply(7, 3, &[0])), ClientError::Data { .. }));
    assert!(matches!(broken(&reply(7, 3, &export(1)[..11])), ClientError::Data { .. }));
    assert!(matches!(broken(&reply(7, 3, b"\0\x01\xff")), ClientError::Data { .. }));
    for size in [0u32, 3, 1 << 17] {
        let sizes = [&[0, 3][..], &size.to_be_bytes(), &[0; 8]].concat();
        assert_eq!(broken(&reply(7, 3, &sizes)), ClientError::BlockSize(size));
    }
    let long = reply(7, 3, &vec![0; 1 << 16]);
    assert_eq!(broken(&long[..20]), ClientError::TooMuch { option: OptionType::Go });
    let (_, event) = handshake(Wish::export(""), &[(b"SSH-2.0-OpenSSH_9.2p1 Debian", &[])]);
    assert!(closed(&event).to_string().contains("not an NBD server"));
}

/// A server cannot make a client remember without end.
#[test]
fn a_list_that_never_ends() {
    let wish = Wish { goal: Goal::List, ..Wish::export("") };
    let asks = [FLAGS, &option(3, &[])].concat();
    let (mut client, _) = handshake(wish, &[(GREETING, &asks)]);
    let line = reply(3, 2, &[&[0, 0, 16, 0][..], &[b'a'; 4096]].concat());
    let mut told = 0;
    loop {
        let (_, event) = talk(&mut client, &line);
        told += line.len();
        if let Event::Closed(why) = event {
            assert_eq!(why, ClientError::TooMuch { option: OptionType::List });
            break;
        }
        assert!(told <= TOLD_MAX);
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Style {
    Simple,
    Structured,
    Extended,
}
use Style::{Extended, Simple, Structured};

/// A client that is ready, with contexts 7 and 9 if there are chunks.
fn ready(style: Style) -> Client {
    let chunks = style != Simple;
    let mut wish =
        Wish { structured: style == Structured, extended: style == Extended, ..Wish::export("card") };
    wish.checks = false;
    if chunks {
        wish.contexts = vec!["base:allocation".into(), "x-flashlab:mapped".into()];
    }
    let mut client = Client::new(wish);
    talk(&mut client, GREETING);
    if chunks {
        talk(&mut client, &ack(if style == Structured { 8 } else { 11 }));
        let contexts =
            [reply(10, 4, b"\0\0\0\x07base:allocation"), reply(10, 4, b"\0\0\0\x09x-flashlab:mapped")];
        talk(&mut client, &[contexts.concat(), ack(10)].concat());
    }
    let (_, event) = talk(&mut client, &[reply(7, 3, &export(MIB)), ack(7)].concat());
    assert_eq!(event, Event::Ready);
    client
}

/// The cookie of a request's bytes.
fn cookie(sent: &[u8]) -> u64 {
    u64::from_be_bytes(sent[8..16].try_into().unwrap())
}

fn simple(error: u32, cookie: u64) -> Vec<u8> {
    [&0x6744_6698u32.to_be_bytes()[..], &error.to_be_bytes(), &cookie.to_be_bytes()].concat()
}

fn chunk(style: Style, flags: u16, kind: u16, cookie: u64, offset: u64, body: &[u8]) -> Vec<u8> {
    let magic: u32 = if style == Extended { 0x6e8a_278c } else { 0x668e_33ef };
    let mut bytes = [&magic.to_be_bytes()[..], &flags.to_be_bytes(), &kind.to_be_bytes()].concat();
    bytes.extend(cookie.to_be_bytes());
    if style == Extended {
        bytes.extend([offset.to_be_bytes(), (body.len() as u64).to_be_bytes()].concat());
    } else {
        bytes.extend((body.len() as u32).to_be_bytes());
    }
    bytes.extend(body);
    bytes
}

/// All that comes of these bytes, up to the point where more are needed.
fn events(client: &mut Client, mut bytes: &[u8]) -> Vec<Event> {
    let mut all = Vec::new();
    loop {
        let received = client.receive(bytes, &mut Vec::new());
        bytes = &bytes[received.consumed..];
        match received.event {
            Event::Need(need) => {
                assert!(need > bytes.len());
                return all;
            }
            event @ Event::Closed(_) => {
                all.push(event);
                return all;
            }
            event => all.push(event),
        }
    }
}

/// "Request message".
#[test]
fn requests() {
    let mut sent = Vec::new();
    let mut client = ready(Structured);
    client.request(Request::write(0x200, 0x1000).with(CommandFlags::FUA), &mut sent).unwrap();
    let head = [&0x2560_9513u32.to_be_bytes()[..], &[0, 1, 0, 1]].concat();
    let id = cookie(&sent).to_be_bytes();
    assert_eq!(sent, [&head[..], &id, &0x200u64.to_be_bytes(), &[0, 0, 0x10, 0]].concat());
    let mut client = ready(Extended);
    sent.clear();
    client.request(Request::write(0x200, 0x1000), &mut sent).unwrap();
    let head = [&0x21e4_1c71u32.to_be_bytes()[..], &[0, 32, 0, 1]].concat();
    let id = cookie(&sent).to_be_bytes();
    assert_eq!(sent, [&head[..], &id, &0x200u64.to_be_bytes(), &0x1000u64.to_be_bytes()].concat());
    sent.clear();
    client.block_status_of(Request::block_status(0x200, 1 << 40), &[1], &mut sent).unwrap();
    let head = [&0x21e4_1c71u32.to_be_bytes()[..], &[0, 32, 0, 7]].concat();
    let id = cookie(&sent).to_be_bytes();
    let body = [&(1u64 << 40).to_be_bytes()[..], &[0, 0, 0, 9]].concat();
    let place = [0x200u64.to_be_bytes(), 12u64.to_be_bytes()].concat();
    assert_eq!(sent, [&head[..], &id, &place, &body].concat());
    sent.clear();
    client.disconnect(&mut sent);
    assert_eq!(sent[4..8], [0, 0, 0, 2]);
    assert_eq!(client.request(Request::flush(), &mut sent), Err(RequestError::NotReady));
}

#[test]
fn requests_that_the_server_did_not_offer_are_not_sent() {
    let wish = Wish::export("card").simple();
    let mut client = Client::new(wish);
    talk(&mut client, GREETING);
    let sizes = reply(7, 3, b"\0\x03\0\0\x02\0\0\0\x10\0\0\0\x80\0");
    // HAS_FLAGS and READ_ONLY.
    let export = reply(7, 3, &[&[0, 0][..], &MIB.to_be_bytes(), &[0, 3]].concat());
    talk(&mut client, &[sizes, export, ack(7)].concat());
    let mut sent = Vec::new();
    let mut ask = |request: Request| client.request(request, &mut sent).map(|_| ());
    for request in [
        Request::write(0, 512),
        Request::trim(0, 512),
        Request::write_zeroes(0, 512),
        Request::flush(),
        Request::cache(0, 512),
        Request::block_status(0, 512),
        Request { command: CommandType::Resize, ..Request::flush() },
    ] {
        assert_eq!(ask(request), Err(RequestError::NotOffered(request.command)));
    }
    for flags in [CommandFlags::FUA, CommandFlags::DF] {
        assert_eq!(ask(Request::read(0, 512).with(flags)), Err(RequestError::Flags(flags)));
    }
    assert_eq!(ask(Request::read(MIB, 512)), Err(RequestError::Range));
    assert_eq!(ask(Request::read(u64::MAX - 511, 512)), Err(RequestError::Range));
    assert_eq!(ask(Request::read(0, 0)), Err(RequestError::Empty));
    assert_eq!(ask(Request::read(256, 512)), Err(RequestError::Blocks));
    assert_eq!(ask(Request::read(0, 1 << 16)), Err(RequestError::TooLong));
    assert_eq!(ask(Request::read(0, 1 << 15)), Ok(()));
    assert_eq!(sent.len(), 28, "nothing else was appended");
}

#[test]
fn slots_are_used_again_and_old_cookies_are_not() {
    let mut client = ready(Simple);
    let mut old = Vec::new();
    for _ in 0..3 {
        let mut sent = Vec::new();
        let slot = client.request(Request::flush(), &mut sent).unwrap();
        assert_eq!(slot.index(), 0);
        let done = simple(0, cookie(&sent));
        assert_eq!(events(&mut client, &done), [Event::Done { slot, result: Ok(()) }]);
        old.push(done);
    }
    let mut sent = Vec::new();
    client.request(Request::flush(), &mut sent).unwrap();
    for done in old {
        let mut client = ready(Simple);
        client.request(Request::flush(), &mut Vec::new()).unwrap();
        client.request(Request::flush(), &mut Vec::new()).unwrap();
        let first = events(&mut client, &done);
        let again = events(&mut client, &done);
        assert!(matches!(again[..], [Event::Closed(ClientError::Cookie(_))]), "{first:?} {again:?}");
    }
}

/// "Simple reply message".
#[test]
fn simple_replies() {
    let mut client = ready(Simple);
    let mut sent = Vec::new();
    let slot = client.request(Request::read(512, 4), &mut sent).unwrap();
    let id = cookie(&sent);
    let data = Event::Data { slot, offset: 512, here: 16..20 };
    let bytes = [simple(0, id), b"card".to_vec()].concat();
    assert_eq!(events(&mut client, &bytes), [data, Event::Done { slot, result: Ok(()) }]);
    sent.clear();
    let slot = client.request(Request::read(512, 4), &mut sent).unwrap();
    let bytes = simple(5, cookie(&sent));
    assert_eq!(events(&mut client, &bytes), [Event::Done { slot, result: Err(ErrorNumber::Io) }]);
    // "The client SHOULD treat an unexpected error value as if it had been NBD_EINVAL".
    sent.clear();
    let slot = client.request(Request::flush(), &mut sent).unwrap();
    let bytes = simple(4711, cookie(&sent));
    assert_eq!(events(&mut client, &bytes), [Event::Done { slot, result: Err(ErrorNumber::Invalid) }]);
}

/// "Structured reply types": pieces in any order.
#[test]
fn pieces_of_a_read() {
    for style in [Structured, Extended] {
        let mut client = ready(style);
        let mut sent = Vec::new();
        let slot = client.request(Request::read(100, 10), &mut sent).unwrap();
        let id = cookie(&sent);
        let data = |flags, offset: u64, data: &[u8]| {
            chunk(style, flags, 1, id, 100, &[&offset.to_be_bytes()[..], data].concat())
        };
        let hole = |offset: u64, length: u32| {
            chunk(style, 0, 2, id, 100, &[&offset.to_be_bytes()[..], &length.to_be_bytes()].concat())
        };
        let bytes = [data(0, 106, b"abcd"), hole(102, 4), data(1, 100, b"xy")].concat();
        let events = events(&mut client, &bytes);
        assert!(matches!(events[0], Event::Data { offset: 106, .. }), "{events:?}");
        assert_eq!(events[1], Event::Hole { slot, offset: 102, length: 4 });
        assert!(matches!(events[2], Event::Data { offset: 100, .. }));
        assert_eq!(events[3..], [Event::Done { slot, result: Ok(()) }]);
        assert_eq!(client.in_flight(), 0);
    }
}

/// "Structured reply types": an error, with or without what was read before it.
#[test]
fn errors_in_chunks() {
    for style in [Structured, Extended] {
        for (kind, tail, offset) in
            [(0x8001, &[][..], None), (0x8002, &[0, 0, 0, 0, 0, 0, 0, 104], Some(104))]
        {
            let mut client = ready(style);
            let mut sent = Vec::new();
            let slot = client.request(Request::read(100, 10), &mut sent).unwrap();
            let id = cookie(&sent);
            let data = chunk(style, 0, 1, id, 100, b"\0\0\0\0\0\0\0\x64abcd");
            let body = [b"\0\0\0\x05\0\x04ouch", tail].concat();
            let error = chunk(style, 0, kind, id, 100, &body);
            let end = chunk(style, 1, 0, id, 100, &[]);
            let all = events(&mut client, &[data, error, end].concat());
            let Event::Error { message, error, offset: at, .. } = &all[1] else { panic!("{all:?}") };
            assert_eq!((*error, *at, message.len()), (ErrorNumber::Io, offset, 4));
            assert_eq!(all[2], Event::Done { slot, result: Err(ErrorNumber::Io) });
        }
        // "If the client receives an unknown or unexpected type with bit 15 set, it MUST consider the current reply as
        // errored, but MAY continue".
        let mut client = ready(style);
        let mut sent = Vec::new();
        let slot = client.request(Request::flush(), &mut sent).unwrap();
        let error = chunk(style, 1, 0x8777, cookie(&sent), 0, b"\0\0\0\x1c\0\0something else");
        let all = events(&mut client, &error);
        assert_eq!(all[1], Event::Done { slot, result: Err(ErrorNumber::NoSpace) });
    }
}

/// What a client must hang up for ("Structured reply types", "Request types").
#[test]
fn broken_replies() {
    type Body<'a> = (u16, u16, &'a [u8]);
    let at = |offset: u64, rest: &[u8]| [&offset.to_be_bytes()[..], rest].concat();
    let extents = |style: Style, id: u32, extents: &[(u64, u64)]| {
        let mut body = id.to_be_bytes().to_vec();
        if style == Extended {
            body.extend((extents.len() as u32).to_be_bytes());
        }
        for (length, status) in extents {
            if style == Extended {
                body.extend([length.to_be_bytes(), status.to_be_bytes()].concat());
            } else {
                body.extend([(*length as u32).to_be_bytes(), (*status as u32).to_be_bytes()].concat());
            }
        }
        body
    };
    for style in [Structured, Extended] {
        let broken = |request: Request, chunks: &[Body<'_>]| {
            let mut client = ready(style);
            let mut sent = Vec::new();
            client.request(request, &mut sent).unwrap();
            let id = cookie(&sent);
            let bytes: Vec<u8> = chunks
                .iter()
                .flat_map(|(flags, kind, body)| chunk(style, *flags, *kind, id, request.offset, body))
                .collect();
            closed(events(&mut client, &bytes).last().unwrap()).clone()
        };
        let read = Request::read(100, 10);
        let status = Request::block_status(100, 10);
        let kind = if style == Extended { 6 } else { 5 };
        let other = if style == Extended { 5 } else { 6 };
        let piece = |offset, length| ClientError::Piece { offset, length };
        assert_eq!(broken(read, &[(1, 0, &[])]), ClientError::Incomplete(CommandType::Read));
        assert_eq!(
            broken(read, &[(1, 1, &at(100, b"123456789"))]),
            ClientError::Incomplete(CommandType::Read)
        );
        assert_eq!(broken(read, &[(0, 1, &at(100, b"12345")), (0, 1, &at(104, b"1"))]), piece(104, 1));
        assert_eq!(
            broken(read, &[(0, 1, &at(105, b"12345")), (0, 2, &at(100, &[0, 0, 0, 6]))]),
            piece(100, 6)
        );
        assert_eq!(broken(read, &[(0, 1, &at(99, b"12"))]), piece(99, 2));
        assert_eq!(broken(read, &[(0, 1, &at(109, b"12"))]), piece(109, 2));
        assert_eq!(broken(read, &[(0, 1, &at(u64::MAX, b"12"))]), piece(u64::MAX, 2));
        assert_eq!(broken(read, &[(0, 2, &at(100, &[0; 4]))]), ClientError::Chunk(ChunkError::EmptyHole));
        assert!(matches!(broken(read, &[(0, 1, &at(100, b""))]), ClientError::Chunk(_)));
        assert!(matches!(broken(read, &[(0, 1, b"1234567")]), ClientError::Chunk(_)));
        assert!(matches!(broken(read, &[(0, 2, &at(100, &[0, 0, 0, 1, 0]))]), ClientError::Chunk(_)));
        assert!(matches!(broken(read, &[(1, 0, b"?")]), ClientError::Chunk(_)));
        let unexpected =
            |kind, command| ClientError::Unexpected { kind: ChunkType::from_wire(kind), command };
        assert_eq!(broken(read, &[(0, 0, &[])]), unexpected(0, CommandType::Read));
        assert_eq!(broken(read, &[(1, 77, &[])]), unexpected(77, CommandType::Read));
        assert_eq!(broken(Request::flush(), &[(1, 1, &at(0, b"1"))]), unexpected(1, CommandType::Flush));
        assert_eq!(
            broken(read, &[(1, kind, &extents(style, 7, &[(10, 0)]))]),
            unexpected(kind, CommandType::Read)
        );
        assert_eq!(broken(status, &[(1, other, &[0; 40])]), unexpected(other, CommandType::BlockStatus));
        let df = read.with(CommandFlags::DF);
        assert_eq!(broken(df, &[(0, 1, &at(100, b"1")), (0, 1, &at(101, b"1"))]), ClientError::Fragments);
        // Errors.
        assert_eq!(broken(read, &[(1, 0x8001, &[0; 6])]), ClientError::Chunk(ChunkError::NoError));
        assert!(matches!(broken(read, &[(1, 0x8001, b"\0\0\0\x01\0")]), ClientError::Chunk(_)));
        let message = ClientError::Chunk(ChunkError::Message { length: 9 });
        assert_eq!(broken(read, &[(1, 0x8001, b"\0\0\0\x01\0\x09short")]), message);
        assert_eq!(
            broken(read, &[(1, 0x8002, &[&[0, 0, 0, 1, 0, 0][..], &at(110, b"")].concat())]),
            piece(110, 0)
        );
        assert!(matches!(broken(read, &[(1, 0x8001, &[1; 5000])]), ClientError::Chunk(_)));
        // Extents.
        let all = |each: &[(u64, u64)]| extents(style, 7, each);
        assert_eq!(
            broken(status, &[(1, kind, &all(&[(10, 0)]))]),
            ClientError::Incomplete(CommandType::BlockStatus)
        );
        assert_eq!(broken(status, &[(1, 0, &[])]), ClientError::Incomplete(CommandType::BlockStatus));
        assert_eq!(broken(status, &[(0, kind, &all(&[(0, 0)]))]), ClientError::Extents);
        assert_eq!(broken(status, &[(0, kind, &all(&[(10, 0), (1, 1)]))]), ClientError::Extents);
        let one = status.with(CommandFlags::REQ_ONE);
        assert_eq!(broken(one, &[(0, kind, &all(&[(5, 0), (5, 1)]))]), ClientError::Extents);
        assert_eq!(broken(one, &[(0, kind, &all(&[(11, 0)]))]), ClientError::Extents);
        assert_eq!(broken(status, &[(0, kind, &extents(style, 8, &[(10, 0)]))]), ClientError::Context(8));
        let twice = all(&[(10, 0)]);
        assert_eq!(broken(status, &[(0, kind, &twice), (0, kind, &twice)]), ClientError::Context(7));
        assert!(matches!(broken(status, &[(0, kind, &all(&[]))]), ClientError::Chunk(_)));
        assert!(matches!(broken(status, &[(0, kind, &all(&[(10, 0)])[..11])]), ClientError::Chunk(_)));
    }
    // Replies of another kind than was agreed on.
    let mut client = ready(Structured);
    let mut sent = Vec::new();
    client.request(Request::read(0, 1), &mut sent).unwrap();
    let bytes = simple(0, cookie(&sent));
    assert_eq!(*closed(&events(&mut client, &bytes)[0]), ClientError::SimpleReply(CommandType::Read));
    let mut client = ready(Extended);
    let mut sent = Vec::new();
    client.request(Request::flush(), &mut sent).unwrap();
    let bytes = [simple(0, cookie(&sent)), vec![0; 16]].concat();
    assert!(matches!(closed(&events(&mut client, &bytes)[0]), ClientError::Magic(_)));
    let mut client = ready(Extended);
    let mut sent = Vec::new();
    client.request(Request::read(512, 1), &mut sent).unwrap();
    let bytes = chunk(Extended, 1, 0, cookie(&sent), 513, &[]);
    assert_eq!(*closed(&events(&mut client, &bytes)[0]), ClientError::Offset { expected: 512, found: 513 });
    // An extended chunk whose count of extents is not what its length says.
    let mut client = ready(Extended);
    let mut sent = Vec::new();
    client.request(Request::block_status(0, 512), &mut sent).unwrap();
    let body = [&[0, 0, 0, 7, 0, 0, 0, 2][..], &512u64.to_be_bytes(), &[0; 8]].concat();
    let bytes = chunk(Extended, 0, 6, cookie(&sent), 0, &body);
    assert!(matches!(closed(&events(&mut client, &bytes)[0]), ClientError::Chunk(_)));
}

/// A server cannot make a client keep an account of a million pieces.
#[test]
fn a_read_in_a_million_pieces() {
    let mut client = ready(Structured);
    let mut sent = Vec::new();
    client.request(Request::read(0, MIB), &mut sent).unwrap();
    let id = cookie(&sent);
    let mut pieces = 0;
    let why = loop {
        let bytes = chunk(Structured, 0, 1, id, 0, &[&(pieces * 2u64).to_be_bytes()[..], b"x"].concat());
        if let Some(Event::Closed(why)) = events(&mut client, &bytes).pop() {
            break why;
        }
        pieces += 1;
    };
    assert_eq!((why, pieces), (ClientError::Fragments, 1024));
}
