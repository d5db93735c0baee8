//! The server's side of the transmission phase, byte for byte. This file builds the bytes without the crate.
//! Most tests name the section of proto.md that they cover.

use crate::raw_client::*;
use flashlab_nbd::server::{Closed, Command, ContextSet, Event, PAYLOAD_MAX, Request, Style};
use flashlab_nbd::wire::TransmissionFlags as T;

/// "Request types": the session returns each request with its flags.
#[test]
fn valid_requests_reach_the_owner() {
    for style in STYLES {
        let mut server = TestServer::new(style);
        let chunks = style != Style::Simple;
        assert_eq!(server.accepts(0, READ, 512, 4096).command, Command::Read { unfragmented: !chunks });
        assert_eq!(server.accepts(FUA, READ, SIZE - 1, 1).command, Command::Read { unfragmented: !chunks });
        if chunks {
            assert_eq!(server.accepts(DF, READ, 0, 1).command, Command::Read { unfragmented: true });
            let mut contexts = ContextSet::NONE;
            contexts.insert(0);
            contexts.insert(1);
            assert_eq!(
                server.accepts(0, STATUS, 0, SIZE).command,
                Command::BlockStatus { one: false, contexts }
            );
            let command = Command::BlockStatus { one: true, contexts };
            assert_eq!(server.accepts(REQ_ONE | FUA, STATUS, 0, SIZE).command, command);
        }
        let head = if style == Style::Extended { 32 } else { 28 };
        assert_eq!(
            server.accepts(0, WRITE, 7, 9).command,
            Command::Write { range: head..head + 9, fua: false }
        );
        assert_eq!(
            server.accepts(FUA, WRITE, 7, 9).command,
            Command::Write { range: head..head + 9, fua: true }
        );
        assert_eq!(server.accepts(0, FLUSH, 0, 0).command, Command::Flush);
        assert_eq!(server.accepts(FUA, FLUSH, 0, 0).command, Command::Flush);
        assert_eq!(server.accepts(0, TRIM, 0, SIZE).command, Command::Trim { fua: false });
        assert_eq!(server.accepts(FUA, TRIM, 0, 1).command, Command::Trim { fua: true });
        assert_eq!(server.accepts(0, CACHE, 0, SIZE).command, Command::Cache);
        for flags in 0..8 {
            let (fua, no_hole, fast) = (flags & 1 != 0, flags & 2 != 0, flags & 4 != 0);
            let flag = |set, flag| if set { flag } else { 0 };
            let sent = flag(fua, FUA) | flag(no_hole, NO_HOLE) | flag(fast, FAST_ZERO);
            assert_eq!(
                server.accepts(sent, ZEROES, 0, SIZE).command,
                Command::WriteZeroes { fua, no_hole, fast }
            );
        }
    }
}

/// "Error values".
#[test]
fn invalid_requests_get_the_specified_error_number() {
    for style in STYLES {
        let mut server = TestServer::new(style);
        for (offset, length) in [(SIZE, 1), (SIZE - 1, 2), (u64::MAX, 1), (u64::MAX - 3, 600), (SIZE, 5000)] {
            server.rejects(0, READ, offset, length, EINVAL);
            server.rejects(0, WRITE, offset, length, ENOSPC);
            server.rejects(0, ZEROES, offset, length, ENOSPC);
            server.rejects(0, TRIM, offset, length, EINVAL);
            server.rejects(0, CACHE, offset, length, EINVAL);
            server.rejects(0, STATUS, offset, length, EINVAL);
        }
        // Unknown commands, including RESIZE; unknown flags; flags of other commands.
        for kind in [8, 9, 100, u16::MAX] {
            server.rejects(0, kind, 0, 0, EINVAL);
        }
        for kind in [READ, WRITE, FLUSH, TRIM, CACHE, ZEROES, STATUS] {
            let length = if kind == FLUSH { 0 } else { 512 };
            server.rejects(1 << 6, kind, 0, length, EINVAL);
            server.rejects(1 << 15, kind, 0, length, EINVAL);
            if kind != READ || style == Style::Simple {
                server.rejects(DF, kind, 0, length, EINVAL);
            }
            if kind != ZEROES {
                server.rejects(NO_HOLE, kind, 0, length, EINVAL);
                server.rejects(FAST_ZERO, kind, 0, length, EINVAL);
            }
            if kind != STATUS {
                server.rejects(REQ_ONE, kind, 0, length, EINVAL);
            }
            if style != Style::Extended {
                server.rejects(PAYLOAD_LEN, kind, 0, length, EINVAL);
            }
        }
        server.rejects(0, FLUSH, 1, 0, EINVAL);
        server.rejects(0, FLUSH, 0, 1, EINVAL);
    }
}

/// "`NBD_FLAG_READ_ONLY`".
#[test]
fn a_read_only_export_rejects_writes() {
    for style in STYLES {
        let mut export = card();
        export.flags = export.flags | T::READ_ONLY;
        let mut server = TestServer::with(style, export);
        for length in [0, 1, 700, 100_000] {
            for kind in [WRITE, TRIM, ZEROES] {
                server.rejects(0, kind, 0, length, EPERM);
                server.rejects(0, kind, SIZE, length, EPERM);
            }
        }
        server.accepts(0, READ, 0, 1);
    }
}

/// "Transmission flags": "The client MUST NOT use a feature documented as 'exposed' by a flag unless that flag was
/// set."
#[test]
fn unsupported_requests_are_rejected() {
    for style in STYLES {
        let mut export = card();
        export.flags = T::NONE;
        export.contexts.clear();
        let mut server = TestServer::with(style, export);
        for kind in [TRIM, CACHE, ZEROES, STATUS] {
            server.rejects_without_flush(0, kind, 512);
        }
        server.rejects_without_flush(0, FLUSH, 0);
        for kind in [READ, WRITE] {
            server.rejects_without_flush(FUA, kind, 512);
            server.accepts(0, kind, 0, 512);
        }
    }
}

/// "Size constraints": minimum block size.
#[test]
fn unaligned_requests_are_rejected() {
    for style in STYLES {
        let mut export = card();
        export.block_minimum = 4096;
        let mut server = TestServer::with(style, export);
        for kind in [READ, WRITE, TRIM, CACHE, ZEROES] {
            server.rejects(0, kind, 512, 4096, EINVAL);
            server.rejects(0, kind, 4096, 4095, EINVAL);
            server.accepts(0, kind, 4096, 8192);
        }
    }
}

/// "The client SHOULD NOT request a read length of 0; [...] the server SHOULD NOT disconnect."
#[test]
fn empty_requests_complete_at_once() {
    for style in STYLES {
        let mut server = TestServer::new(style);
        for kind in [READ, WRITE, TRIM, CACHE, ZEROES] {
            let bytes = server.request(0, kind, 5, 0);
            let sent = server.send(&bytes);
            // "MUST NOT use a simple reply for NBD_CMD_READ" with structured replies.
            let none = style == Style::Extended || style == Style::Structured && kind == READ;
            assert_eq!(sent, if none { server.chunk(1, 0, 5, &[]) } else { simple(0) });
            server.accepts(0, FLUSH, 0, 0);
        }
        // An extent has at least one byte, so no reply to this request is valid.
        server.rejects(0, STATUS, 0, 0, EINVAL);
    }
}

/// "Size constraints": payloads up to 64 MiB are accepted. Longer ones are rejected without being buffered.
#[test]
fn payloads_above_the_limit_are_rejected() {
    for style in STYLES {
        let mut server = TestServer::new(style);
        let longer = PAYLOAD_MAX + 1;
        let overflow = if style == Style::Simple { EINVAL } else { EOVERFLOW };
        server.rejects(0, READ, 0, longer, overflow);
        assert_eq!(server.accepts(0, READ, 0, PAYLOAD_MAX).length, PAYLOAD_MAX);
        let flags = if style == Style::Extended { PAYLOAD_LEN } else { 0 };
        // For a payload that the owner receives directly, the header is sufficient.
        let header = server.header(flags, WRITE, 0, PAYLOAD_MAX);
        assert_eq!(server.send(&header), []);
        let Event::Request(request) = &server.event else { panic!("{:?}", server.event) };
        assert_eq!(request.length, PAYLOAD_MAX);
        let head = header.len();
        assert_eq!(request.command, Command::Write { range: head..head, fua: false });
        server.accepts(0, FLUSH, 0, 0);
        let header = server.header(flags, WRITE, 0, longer);
        let sent = server.send(&header);
        assert_eq!(sent, [], "a reply before the payload has arrived");
        if style == Style::Extended {
            // "A server SHOULD initiate hard disconnect if a client sets the NBD_CMD_FLAG_PAYLOAD_LEN flag and uses a
            // length larger than" the server accepts.
            assert_eq!(server.event, Event::Closed(Closed::Payload(longer)));
            continue;
        }
        let mut payload = vec![0; longer as usize - 1];
        assert_eq!(server.send(&payload), []);
        assert_eq!(server.event, Event::Need(1));
        payload.truncate(1);
        let sent = server.send(&payload);
        assert_eq!(sent, server.error(&sent, 0, EINVAL));
        server.accepts(0, FLUSH, 0, 0);
    }
}

/// The session waits for short payloads, and returns long ones before they are complete.
#[test]
fn long_writes_are_returned_before_their_payload_is_complete() {
    for style in STYLES {
        let mut server = TestServer::new(style);
        let short = server.request(0, WRITE, 0, 999);
        assert_eq!(server.send(&short[..short.len() - 1]), []);
        assert_eq!(server.event, Event::Need(short.len()), "another need, or bytes were consumed");
        let long = server.request(0, WRITE, 0, 1000);
        assert_eq!(server.send(&long[..long.len() - 1]), []);
        let Event::Request(Request { command: Command::Write { range, .. }, length, .. }) = &server.event
        else {
            panic!("{:?}", server.event)
        };
        assert_eq!((range.len(), *length), (999, 1000));
        server.accepts(0, FLUSH, 0, 0);
    }
}

/// "Request message" (extension-ext-header): an unexpected payload, and a missing one.
#[test]
fn unexpected_extended_payloads_are_drained() {
    let mut server = TestServer::new(Style::Extended);
    for kind in [READ, FLUSH, TRIM, CACHE, ZEROES, STATUS, 8, 77] {
        for length in [1, 7, 5000] {
            let mut bytes = server.header(PAYLOAD_LEN, kind, 0, length);
            bytes.resize(bytes.len() + length as usize, 0x55);
            server.rejects_bytes(&bytes, 0, EINVAL);
        }
    }
    let bytes = server.header(0, WRITE, 0, 512);
    server.rejects_bytes(&bytes, 0, EINVAL);
    // Extended headers allow 64-bit lengths.
    let mut export = card();
    export.size = 1 << 50;
    let mut server = TestServer::with(Style::Extended, export);
    for kind in [TRIM, CACHE, ZEROES, STATUS] {
        assert_eq!(server.accepts(0, kind, 1 << 40, 1 << 45).length, 1 << 45);
    }
}

/// "`NBD_CMD_BLOCK_STATUS`" with a payload (extension-ext-header).
#[test]
fn a_valid_block_status_payload_selects_contexts() {
    let mut server = TestServer::new(Style::Extended);
    let status = |server: &TestServer, flags: u16, length: u64, ids: &[u32]| {
        let ids: Vec<u8> = ids.iter().flat_map(|id| id.to_be_bytes()).collect();
        let header = server.header(PAYLOAD_LEN | flags, STATUS, 4096, 8 + ids.len() as u64);
        [&header[..], &length.to_be_bytes(), &ids].concat()
    };
    for (ids, places) in [(&[1][..], &[1][..]), (&[1, 0], &[0, 1]), (&[0], &[0])] {
        let bytes = status(&server, REQ_ONE, 8192, ids);
        assert_eq!(server.send(&bytes[..bytes.len() - 1]), []);
        assert_eq!(server.event, Event::Need(bytes.len()));
        server.send(&bytes);
        let Event::Request(request) = &server.event else { panic!("{:?}", server.event) };
        assert_eq!((request.offset, request.length), (4096, 8192));
        let Command::BlockStatus { one: true, contexts } = request.command else { panic!("{request:?}") };
        assert_eq!(contexts.iter().collect::<Vec<_>>(), places);
    }
    for (length, ids) in
        [(8192, &[2][..]), (8192, &[0, 0]), (8192, &[]), (0, &[0]), (SIZE, &[0]), (1, &[u32::MAX])]
    {
        let bytes = status(&server, 0, length, ids);
        server.rejects_bytes(&bytes, 4096, EINVAL);
    }
    let bytes = status(&server, 0, 512, &vec![0; 1000]);
    server.rejects_bytes(&bytes, 4096, EINVAL);
    let odd = [server.header(PAYLOAD_LEN, STATUS, 4096, 13), vec![0; 13]].concat();
    server.rejects_bytes(&odd, 4096, EINVAL);
}

/// "`NBD_CMD_DISC`".
#[test]
fn disconnecting_ends_the_session() {
    for style in STYLES {
        let mut server = TestServer::new(style);
        let bytes = server.header(0, DISC, 0, 0);
        assert_eq!(server.send(&bytes), []);
        assert_eq!(server.event, Event::Closed(Closed::Disconnect));
        let more = server.header(0, FLUSH, 0, 0);
        assert_eq!(server.send(&more), []);
        assert_eq!(server.event, Event::Closed(Closed::Disconnect));
    }
}

#[test]
fn bad_magic_ends_the_session() {
    for style in STYLES {
        let mut server = TestServer::new(style);
        let mut bytes = server.header(0, FLUSH, 0, 0);
        bytes[3] ^= 1;
        assert_eq!(server.send(&bytes), []);
        assert!(matches!(server.event, Event::Closed(Closed::Magic(_))));
        // The magic number of the other layout is invalid too.
        let mut server = TestServer::new(style);
        let other = if style == Style::Extended { Style::Simple } else { Style::Extended };
        let bytes = [TestServer::new(other).header(0, FLUSH, 0, 0), vec![0; 4]].concat();
        assert_eq!(server.send(&bytes), []);
        assert!(matches!(server.event, Event::Closed(Closed::Magic(_))));
    }
}

/// "Terminating the transmission phase".
#[test]
fn a_server_that_shuts_down_rejects_requests() {
    for style in STYLES {
        let mut server = TestServer::new(style);
        server.session.shut_down();
        for (kind, length) in [(READ, 512), (WRITE, 5000), (FLUSH, 0), (99, 0)] {
            let bytes = server.request(0, kind, 0, length);
            let sent = server.send(&bytes);
            assert_eq!(sent, server.error(&sent, 0, ESHUTDOWN));
        }
        let bytes = server.header(0, DISC, 0, 0);
        server.send(&bytes);
        assert_eq!(server.event, Event::Closed(Closed::Disconnect));
    }
}
