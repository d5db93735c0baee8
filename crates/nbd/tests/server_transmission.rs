//! The server's side of the transmission phase, byte for byte. This file builds the bytes without the crate. Each
//! test names the section of proto.md that it covers.

mod exact;

use exact::*;
use flashlab_nbd::server::{Closed, Command, ContextSet, Event, PAYLOAD_MAX, Request, Style};
use flashlab_nbd::wire::TransmissionFlags as T;

/// "Request types": the session returns each request with its flags.
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
        // Unknown commands, including RESIZE; unknown flags; flags of other commands.
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

/// "Transmission flags": "The client MUST NOT use a feature documented as 'exposed' by a flag unless that flag was
/// set."
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

/// "Size constraints": minimum block size.
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
        // An extent has at least one byte, so no reply to this request is valid.
        talk.refused(0, STATUS, 0, 0, EINVAL);
    }
}

/// "Size constraints": payloads up to 64 MiB are accepted. Longer ones are rejected without being buffered.
#[test]
fn long_payloads() {
    for style in STYLES {
        let mut talk = Talk::new(style);
        let longer = PAYLOAD_MAX + 1;
        let overflow = if style == Style::Simple { EINVAL } else { EOVERFLOW };
        talk.refused(0, READ, 0, longer, overflow);
        assert_eq!(talk.asks(0, READ, 0, PAYLOAD_MAX).length, PAYLOAD_MAX);
        let flags = if style == Style::Extended { PAYLOAD_LEN } else { 0 };
        // For a payload that the owner receives directly, the header is sufficient.
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
            // length larger than" the server accepts.
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

/// The session waits for short payloads, and returns long ones before they are complete.
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

/// "Request message" (extension-ext-header): an unexpected payload, and a missing one.
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
    // Extended headers allow 64-bit lengths.
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
        // The magic number of the other layout is invalid too.
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
