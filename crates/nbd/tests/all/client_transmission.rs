//! The client's side of the transmission phase, byte for byte, against servers that follow proto.md and servers that
//! violate it.

use crate::server_messages::*;
use flashlab_nbd::client::{Client, ClientConfig, ClientError, Event, Request, RequestError};
use flashlab_nbd::wire::{ChunkError, ChunkType, CommandFlags, CommandType, ErrorNumber};

#[derive(Clone, Copy, PartialEq)]
enum Style {
    Simple,
    Structured,
    Extended,
}
use Style::{Extended, Simple, Structured};

/// Returns a client that is ready, with the contexts 7 and 9 if the style has chunks.
fn ready_client(style: Style) -> Client {
    let chunks = style != Simple;
    let mut config = ClientConfig {
        structured: style == Structured,
        extended: style == Extended,
        ..ClientConfig::export("card")
    };
    config.validate_requests = false;
    if chunks {
        config.contexts = vec!["base:allocation".into(), "x-flashlab:mapped".into()];
    }
    let mut client = Client::new(config);
    exchange(&mut client, GREETING);
    if chunks {
        exchange(&mut client, &ack(if style == Structured { 8 } else { 11 }));
        let contexts =
            [reply(10, 4, b"\0\0\0\x07base:allocation"), reply(10, 4, b"\0\0\0\x09x-flashlab:mapped")];
        exchange(&mut client, &[contexts.concat(), ack(10)].concat());
    }
    let (_, event) = exchange(&mut client, &[reply(7, 3, &export(MIB)), ack(7)].concat());
    assert_eq!(event, Event::Ready);
    client
}

/// Returns the cookie of an encoded request.
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

/// Returns all events up to the point where more bytes are needed.
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
fn requests_have_the_specified_bytes() {
    let mut sent = Vec::new();
    let mut client = ready_client(Structured);
    client.request(Request::write(0x200, 0x1000).with(CommandFlags::FUA), &mut sent).unwrap();
    let head = [&0x2560_9513u32.to_be_bytes()[..], &[0, 1, 0, 1]].concat();
    let id = cookie(&sent).to_be_bytes();
    assert_eq!(sent, [&head[..], &id, &0x200u64.to_be_bytes(), &[0, 0, 0x10, 0]].concat());
    let mut client = ready_client(Extended);
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
    let range = [0x200u64.to_be_bytes(), 12u64.to_be_bytes()].concat();
    assert_eq!(sent, [&head[..], &id, &range, &body].concat());
    sent.clear();
    client.disconnect(&mut sent);
    assert_eq!(sent[4..8], [0, 0, 0, 2]);
    assert_eq!(client.request(Request::flush(), &mut sent), Err(RequestError::NotReady));
}

#[test]
fn unsupported_requests_are_not_sent() {
    let config = ClientConfig::export("card").simple();
    let mut client = Client::new(config);
    exchange(&mut client, GREETING);
    let sizes = reply(7, 3, b"\0\x03\0\0\x02\0\0\0\x10\0\0\0\x80\0");
    // HAS_FLAGS and READ_ONLY.
    let export = reply(7, 3, &[&[0, 0][..], &MIB.to_be_bytes(), &[0, 3]].concat());
    exchange(&mut client, &[sizes, export, ack(7)].concat());
    let mut sent = Vec::new();
    let mut send = |request: Request| client.request(request, &mut sent).map(|_| ());
    for request in [
        Request::write(0, 512),
        Request::trim(0, 512),
        Request::write_zeroes(0, 512),
        Request::flush(),
        Request::cache(0, 512),
        Request::block_status(0, 512),
        Request { command: CommandType::Resize, ..Request::flush() },
    ] {
        assert_eq!(send(request), Err(RequestError::NotOffered(request.command)));
    }
    for flags in [CommandFlags::FUA, CommandFlags::DF] {
        assert_eq!(send(Request::read(0, 512).with(flags)), Err(RequestError::Flags(flags)));
    }
    assert_eq!(send(Request::read(MIB, 512)), Err(RequestError::Range));
    assert_eq!(send(Request::read(u64::MAX - 511, 512)), Err(RequestError::Range));
    assert_eq!(send(Request::read(0, 0)), Err(RequestError::Empty));
    assert_eq!(send(Request::read(256, 512)), Err(RequestError::Blocks));
    assert_eq!(send(Request::read(0, 1 << 16)), Err(RequestError::TooLong));
    assert_eq!(send(Request::read(0, 1 << 15)), Ok(()));
    assert_eq!(sent.len(), 28, "a rejected request was appended");
}

#[test]
fn a_flush_with_a_range_is_not_sent() {
    let mut client = Client::new(ClientConfig::export("card").simple());
    exchange(&mut client, GREETING);
    exchange(&mut client, &[reply(7, 3, &export(MIB)), ack(7)].concat());
    let mut sent = Vec::new();
    for (offset, length) in [(512, 0), (0, 512)] {
        let error = client.request(Request { offset, length, ..Request::flush() }, &mut sent).unwrap_err();
        assert_eq!(error, RequestError::FlushWithRange);
        assert_eq!(error.to_string(), "the offset and the length of a flush must be zero");
    }
    assert_eq!(sent, []);
    client.request(Request::flush(), &mut sent).unwrap();
}

#[test]
fn slots_are_reused_and_old_cookies_are_rejected() {
    let mut client = ready_client(Simple);
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
        let mut client = ready_client(Simple);
        client.request(Request::flush(), &mut Vec::new()).unwrap();
        client.request(Request::flush(), &mut Vec::new()).unwrap();
        let first = events(&mut client, &done);
        let again = events(&mut client, &done);
        assert!(matches!(again[..], [Event::Closed(ClientError::UnknownCookie(_))]), "{first:?} {again:?}");
    }
}

/// "Simple reply message".
#[test]
fn simple_replies_complete_their_requests() {
    let mut client = ready_client(Simple);
    let mut sent = Vec::new();
    let slot = client.request(Request::read(512, 4), &mut sent).unwrap();
    let id = cookie(&sent);
    let data = Event::Data { slot, offset: 512, range: 16..20 };
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
fn a_read_arrives_in_pieces() {
    for style in [Structured, Extended] {
        let mut client = ready_client(style);
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

/// "Structured reply types": an error, with or without data before it.
#[test]
fn error_chunks_fail_their_requests() {
    for style in [Structured, Extended] {
        for (kind, tail, offset) in
            [(0x8001, &[][..], None), (0x8002, &[0, 0, 0, 0, 0, 0, 0, 104], Some(104))]
        {
            let mut client = ready_client(style);
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
        let mut client = ready_client(style);
        let mut sent = Vec::new();
        let slot = client.request(Request::flush(), &mut sent).unwrap();
        let error = chunk(style, 1, 0x8777, cookie(&sent), 0, b"\0\0\0\x1c\0\0something else");
        let all = events(&mut client, &error);
        assert_eq!(all[1], Event::Done { slot, result: Err(ErrorNumber::NoSpace) });
    }
}

/// Flags, type and data of a chunk.
type Body<'a> = (u16, u16, &'a [u8]);

fn at(offset: u64, rest: &[u8]) -> Vec<u8> {
    [&offset.to_be_bytes()[..], rest].concat()
}

/// Returns the type of the chunk with the extents that this style uses.
fn kind_of_extents(style: Style) -> u16 {
    if style == Extended { 6 } else { 5 }
}

/// Returns the data of a chunk with extents of the context `id`, each with its length and status.
fn extents(style: Style, id: u32, extents: &[(u64, u64)]) -> Vec<u8> {
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
}

/// Returns the error that ends the session when the server answers `request` with `chunks`. The chunks are
/// such that a client must disconnect ("Structured reply types", "Request types").
fn error_of(style: Style, request: Request, chunks: &[Body<'_>]) -> ClientError {
    let mut client = ready_client(style);
    let mut sent = Vec::new();
    client.request(request, &mut sent).unwrap();
    let id = cookie(&sent);
    let bytes: Vec<u8> = chunks
        .iter()
        .flat_map(|(flags, kind, body)| chunk(style, *flags, *kind, id, request.offset, body))
        .collect();
    closed(events(&mut client, &bytes).last().unwrap()).clone()
}

#[test]
fn malformed_data_of_a_read_ends_the_session() {
    for style in [Structured, Extended] {
        let error_of = |request: Request, chunks: &[Body<'_>]| error_of(style, request, chunks);
        let read = Request::read(100, 10);
        let piece = |offset, length| ClientError::InvalidRange { offset, length };
        assert_eq!(error_of(read, &[(1, 0, &[])]), ClientError::Incomplete(CommandType::Read));
        assert_eq!(
            error_of(read, &[(1, 1, &at(100, b"123456789"))]),
            ClientError::Incomplete(CommandType::Read)
        );
        assert_eq!(error_of(read, &[(0, 1, &at(100, b"12345")), (0, 1, &at(104, b"1"))]), piece(104, 1));
        assert_eq!(
            error_of(read, &[(0, 1, &at(105, b"12345")), (0, 2, &at(100, &[0, 0, 0, 6]))]),
            piece(100, 6)
        );
        assert_eq!(error_of(read, &[(0, 1, &at(99, b"12"))]), piece(99, 2));
        assert_eq!(error_of(read, &[(0, 1, &at(109, b"12"))]), piece(109, 2));
        assert_eq!(error_of(read, &[(0, 1, &at(u64::MAX, b"12"))]), piece(u64::MAX, 2));
        assert_eq!(
            error_of(read, &[(0, 2, &at(100, &[0; 4]))]),
            ClientError::MalformedChunk(ChunkError::EmptyHole)
        );
        assert!(matches!(error_of(read, &[(0, 1, &at(100, b""))]), ClientError::MalformedChunk(_)));
        assert!(matches!(error_of(read, &[(0, 1, b"1234567")]), ClientError::MalformedChunk(_)));
        assert!(matches!(
            error_of(read, &[(0, 2, &at(100, &[0, 0, 0, 1, 0]))]),
            ClientError::MalformedChunk(_)
        ));
        assert!(matches!(error_of(read, &[(1, 0, b"?")]), ClientError::MalformedChunk(_)));
    }
}

#[test]
fn chunks_that_do_not_belong_to_the_command_end_the_session() {
    for style in [Structured, Extended] {
        let error_of = |request: Request, chunks: &[Body<'_>]| error_of(style, request, chunks);
        let read = Request::read(100, 10);
        let status = Request::block_status(100, 10);
        let kind = kind_of_extents(style);
        let other = if style == Extended { 5 } else { 6 };
        let unexpected =
            |kind, command| ClientError::UnexpectedChunk { kind: ChunkType::from_wire(kind), command };
        assert_eq!(error_of(read, &[(0, 0, &[])]), unexpected(0, CommandType::Read));
        assert_eq!(error_of(read, &[(1, 77, &[])]), unexpected(77, CommandType::Read));
        assert_eq!(error_of(Request::flush(), &[(1, 1, &at(0, b"1"))]), unexpected(1, CommandType::Flush));
        assert_eq!(
            error_of(read, &[(1, kind, &extents(style, 7, &[(10, 0)]))]),
            unexpected(kind, CommandType::Read)
        );
        assert_eq!(error_of(status, &[(1, other, &[0; 40])]), unexpected(other, CommandType::BlockStatus));
        let df = read.with(CommandFlags::DF);
        assert_eq!(
            error_of(df, &[(0, 1, &at(100, b"1")), (0, 1, &at(101, b"1"))]),
            ClientError::TooManyFragments
        );
    }
}

#[test]
fn malformed_error_chunks_end_the_session() {
    for style in [Structured, Extended] {
        let error_of = |request: Request, chunks: &[Body<'_>]| error_of(style, request, chunks);
        let read = Request::read(100, 10);
        let piece = |offset, length| ClientError::InvalidRange { offset, length };
        assert_eq!(error_of(read, &[(1, 0x8001, &[0; 6])]), ClientError::MalformedChunk(ChunkError::NoError));
        assert!(matches!(error_of(read, &[(1, 0x8001, b"\0\0\0\x01\0")]), ClientError::MalformedChunk(_)));
        let message = ClientError::MalformedChunk(ChunkError::Message { length: 9 });
        assert_eq!(error_of(read, &[(1, 0x8001, b"\0\0\0\x01\0\x09short")]), message);
        assert_eq!(
            error_of(read, &[(1, 0x8002, &[&[0, 0, 0, 1, 0, 0][..], &at(110, b"")].concat())]),
            piece(110, 0)
        );
        assert!(matches!(error_of(read, &[(1, 0x8001, &[1; 5000])]), ClientError::MalformedChunk(_)));
    }
}

#[test]
fn malformed_extents_end_the_session() {
    for style in [Structured, Extended] {
        let error_of = |request: Request, chunks: &[Body<'_>]| error_of(style, request, chunks);
        let status = Request::block_status(100, 10);
        let kind = kind_of_extents(style);
        let all = |each: &[(u64, u64)]| extents(style, 7, each);
        assert_eq!(
            error_of(status, &[(1, kind, &all(&[(10, 0)]))]),
            ClientError::Incomplete(CommandType::BlockStatus)
        );
        assert_eq!(error_of(status, &[(1, 0, &[])]), ClientError::Incomplete(CommandType::BlockStatus));
        assert_eq!(error_of(status, &[(0, kind, &all(&[(0, 0)]))]), ClientError::InvalidExtents);
        assert_eq!(error_of(status, &[(0, kind, &all(&[(10, 0), (1, 1)]))]), ClientError::InvalidExtents);
        let one = status.with(CommandFlags::REQ_ONE);
        assert_eq!(error_of(one, &[(0, kind, &all(&[(5, 0), (5, 1)]))]), ClientError::InvalidExtents);
        assert_eq!(error_of(one, &[(0, kind, &all(&[(11, 0)]))]), ClientError::InvalidExtents);
        assert_eq!(
            error_of(status, &[(0, kind, &extents(style, 8, &[(10, 0)]))]),
            ClientError::InvalidContext(8)
        );
        let twice = all(&[(10, 0)]);
        assert_eq!(error_of(status, &[(0, kind, &twice), (0, kind, &twice)]), ClientError::InvalidContext(7));
        assert!(matches!(error_of(status, &[(0, kind, &all(&[]))]), ClientError::MalformedChunk(_)));
        assert!(matches!(
            error_of(status, &[(0, kind, &all(&[(10, 0)])[..11])]),
            ClientError::MalformedChunk(_)
        ));
    }
    let mut client = ready_client(Extended);
    let mut sent = Vec::new();
    client.request(Request::block_status(0, 512), &mut sent).unwrap();
    let body = [&[0, 0, 0, 7, 0, 0, 0, 2][..], &512u64.to_be_bytes(), &[0; 8]].concat();
    let bytes = chunk(Extended, 0, 6, cookie(&sent), 0, &body);
    assert!(matches!(closed(&events(&mut client, &bytes)[0]), ClientError::MalformedChunk(_)));
}

#[test]
fn replies_of_a_type_that_was_not_negotiated_end_the_session() {
    let mut client = ready_client(Structured);
    let mut sent = Vec::new();
    client.request(Request::read(0, 1), &mut sent).unwrap();
    let bytes = simple(0, cookie(&sent));
    assert_eq!(*closed(&events(&mut client, &bytes)[0]), ClientError::SimpleReply(CommandType::Read));
    let mut client = ready_client(Extended);
    let mut sent = Vec::new();
    client.request(Request::flush(), &mut sent).unwrap();
    let bytes = [simple(0, cookie(&sent)), vec![0; 16]].concat();
    assert!(matches!(closed(&events(&mut client, &bytes)[0]), ClientError::Magic(_)));
    let mut client = ready_client(Extended);
    let mut sent = Vec::new();
    client.request(Request::read(512, 1), &mut sent).unwrap();
    let bytes = chunk(Extended, 1, 0, cookie(&sent), 513, &[]);
    assert_eq!(
        *closed(&events(&mut client, &bytes)[0]),
        ClientError::OffsetMismatch { expected: 512, found: 513 }
    );
}

/// A server cannot make a client track a million pieces.
#[test]
fn too_many_pieces_of_a_read_end_the_session() {
    let mut client = ready_client(Structured);
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
    assert_eq!((why, pieces), (ClientError::TooManyFragments, 1024));
}
