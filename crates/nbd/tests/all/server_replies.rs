//! The server's replies, byte for byte.

use crate::raw_client::*;
use flashlab_nbd::server::Style;
use flashlab_nbd::wire::{BlockDescriptor, ErrorNumber};

/// Sections of the NBD protocol: "Simple reply message", "Structured reply chunk message", "Extended reply chunk
/// message", "Structured reply types".
#[test]
fn replies_have_the_specified_bytes() {
    for style in STYLES {
        let mut server = TestServer::new(style);
        let request = server.accepts(0, READ, 4096, 1024);
        let (token, replies) = (request.token, server.session.replies().unwrap());
        let mut sent = Vec::new();
        let mut written_by = |write: &dyn Fn(&mut Vec<u8>)| {
            sent.clear();
            write(&mut sent);
            sent.clone()
        };
        let at = 4096u64.to_be_bytes();
        let read = written_by(&|to| replies.read(token, 1024, to));
        let error = written_by(&|to| replies.error(token, ErrorNumber::Io, "it broke", to));
        let done = written_by(&|to| replies.done(token, to));
        if style == Style::Simple {
            assert_eq!((read, error, done), (simple(0), simple(5), simple(0)));
            assert!(!replies.can_fragment());
            continue;
        }
        // `read` appends the header only, but the header counts the 1024 bytes of data that follow.
        let whole = server.chunk(1, 1, 4096, &[&at[..], &[0; 1024]].concat());
        assert_eq!(read, whole[..whole.len() - 1024]);
        assert_eq!(error, server.chunk(1, 0x8001, 4096, b"\0\0\0\x05\0\x08it broke"));
        assert_eq!(done, if style == Style::Extended { server.chunk(1, 0, 4096, &[]) } else { simple(0) });
        let hole = written_by(&|to| replies.hole(token, 4608, 512, false, to));
        assert_eq!(hole, server.chunk(0, 2, 4096, &[&4608u64.to_be_bytes()[..], &[0, 0, 2, 0]].concat()));
        let data = written_by(&|to| replies.data(token, 4096, 2, true, to));
        assert_eq!(data, server.chunk(1, 1, 4096, &[&at[..], &[0; 2]].concat())[..data.len()]);
        let end = written_by(&|to| replies.end(token, to));
        assert_eq!(end, server.chunk(1, 0, 4096, &[]));
        let long = written_by(&|to| replies.error(token, ErrorNumber::Io, &"é".repeat(5000), to));
        let head = if style == Style::Extended { 32 } else { 20 };
        assert_eq!(long.len(), head + 6 + 4096, "a message is a string of at most 4096 bytes");
    }
}

/// Sections "`NBD_REPLY_TYPE_BLOCK_STATUS`" and "`NBD_REPLY_TYPE_BLOCK_STATUS_EXT`".
#[test]
fn block_status_replies_merge_and_limit_extents() {
    let extent = |length, status| BlockDescriptor { length, status };
    for style in [Style::Structured, Style::Extended] {
        let mut server = TestServer::new(style);
        let request = server.accepts(0, STATUS, 4096, 8192);
        let (token, replies) = (request.token, server.session.replies().unwrap());
        let wide = style == Style::Extended;
        let kind = if wide { 6 } else { 5 };
        let extents_of = |length: u64, one: bool, extents: &[BlockDescriptor]| {
            let mut sent = Vec::new();
            let covered =
                replies.block_status(token, length, one, 1, extents.iter().copied(), true, &mut sent);
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
            assert_eq!(sent, server.chunk(1, kind, 4096, &body));
            assert_eq!(each.iter().map(|(length, _)| length).sum::<u64>(), covered);
            each
        };
        assert_eq!(extents_of(8192, false, &[]), [(8192, 0)], "without extents, status 0 covers the request");
        assert_eq!(extents_of(8192, false, &[extent(8192, 3)]), [(8192, 3)]);
        assert_eq!(extents_of(8192, false, &[extent(1 << 40, 3)]), [(8192, 3)], "not beyond the request");
        let pieces = [extent(512, 3), extent(512, 3), extent(0, 1), extent(512, 0), extent(90_000, 3)];
        assert_eq!(extents_of(8192, false, &pieces), [(1024, 3), (512, 0), (6656, 3)]);
        assert_eq!(extents_of(8192, true, &pieces), [(1024, 3)]);
        assert_eq!(extents_of(600, true, &pieces), [(600, 3)]);
        assert_eq!(
            extents_of(8192, false, &pieces[..1]),
            [(512, 3)],
            "a reply may cover less than the request"
        );
        let long = extents_of(10 << 32, false, &[extent(9 << 32, 3), extent(1 << 32, 0)]);
        if wide {
            assert_eq!(long, [(9 << 32, 3), (1 << 32, 0)]);
            assert_eq!(extents_of(512, false, &[extent(512, 1 << 63)]), [(512, 1 << 63)]);
        } else {
            assert!(long.iter().all(|(length, _)| length % 65536 == 0), "lengths are multiples of 64 KiB");
            assert_eq!(long.iter().map(|(length, _)| length).sum::<u64>(), 10 << 32);
            let one = extents_of(10 << 32, true, &[extent(9 << 32, 3)]);
            assert_eq!(one, [(0xffff_0000, 3)]);
        }
        // "Servers SHOULD NOT send more than 2^20 extents in a single reply chunk." This server sends fewer, to save
        // memory.
        let many: Vec<_> = (0..(1 << 16) + 5).map(|n| extent(1, n % 2)).collect();
        assert_eq!(extents_of(1 << 21, false, &many).len(), 1 << 16);
    }
}
