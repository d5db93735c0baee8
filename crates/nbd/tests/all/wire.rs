//! The messages alone: a message that parses is emitted as the same bytes.

use flashlab_nbd::wire::*;
use proptest::prelude::*;

/// Asserts that each message at the beginning of these bytes is emitted unchanged.
fn read_and_write(bytes: &[u8]) {
    read_and_write_handshake(bytes);
    read_and_write_transmission(bytes);
}

/// Asserts that each handshake message at the beginning of these bytes is emitted unchanged.
fn read_and_write_handshake(bytes: &[u8]) {
    let same = |length: usize, written: Vec<u8>| assert_eq!(bytes[..length], written);
    let mut to = Vec::new();
    if let Some(Ok(greeting)) = Greeting::parse(bytes) {
        greeting.emit(&mut to);
        same(Greeting::LEN, std::mem::take(&mut to));
    }
    if let Some(reply) = ExportNameReply::parse(bytes, false) {
        reply.emit(false, &mut to);
        same(10, std::mem::take(&mut to));
    }
    if let Some(Ok(header)) = OptionHeader::parse(bytes) {
        header.emit(&mut to);
        same(OptionHeader::LEN, std::mem::take(&mut to));
    }
    if let Some(Ok(header)) = OptionReplyHeader::parse(bytes) {
        header.emit(&mut to);
        same(OptionReplyHeader::LEN, std::mem::take(&mut to));
    }
    if let Ok(query) = ExportQuery::parse(bytes) {
        ExportQuery::emit(query.name, &query.requests().collect::<Vec<_>>(), &mut to);
        same(bytes.len(), std::mem::take(&mut to));
    }
    if let Ok(query) = ContextQuery::parse(bytes) {
        let queries: Vec<&str> = query.queries().collect();
        assert_eq!(query.len(), queries.len());
        ContextQuery::emit(query.name, &queries, &mut to);
        same(bytes.len(), std::mem::take(&mut to));
    }
    if let Ok(entry) = ExportEntry::parse(bytes) {
        entry.emit(&mut to);
        same(bytes.len(), std::mem::take(&mut to));
    }
    if let Ok(entry) = ContextEntry::parse(bytes) {
        entry.emit(&mut to);
        same(bytes.len(), std::mem::take(&mut to));
    }
    if let Ok(info) = Info::parse(bytes) {
        info.emit(&mut to);
        same(to.len(), std::mem::take(&mut to));
    }
}

/// Asserts that each request or reply at the beginning of these bytes is emitted unchanged.
fn read_and_write_transmission(bytes: &[u8]) {
    let same = |length: usize, written: Vec<u8>| assert_eq!(bytes[..length], written);
    let mut to = Vec::new();
    for layout in [RequestLayout::Compact, RequestLayout::Extended] {
        if let Some(Ok(header)) = RequestHeader::parse(layout, bytes) {
            header.emit(layout, &mut to);
            same(layout.header_len(), std::mem::take(&mut to));
        }
    }
    if let Some(Ok(reply)) = SimpleReply::parse(bytes) {
        reply.emit(&mut to);
        same(SimpleReply::LEN, std::mem::take(&mut to));
    }
    for layout in [ChunkLayout::Structured, ChunkLayout::Extended] {
        if let Some(Ok(header)) = ChunkHeader::parse(layout, bytes) {
            header.emit(layout, &mut to);
            same(layout.header_len(), std::mem::take(&mut to));
        }
    }
    if let Ok(hole) = OffsetHole::parse(bytes) {
        hole.emit(&mut to);
        same(OffsetHole::LEN, std::mem::take(&mut to));
    }
    for kind in [ChunkType::Error, ChunkType::ErrorOffset] {
        if let Ok(chunk) = ErrorChunk::parse(kind, bytes) {
            assert_eq!(chunk.kind(), kind);
            // Further bytes after the fields are valid; the parser ignores them.
            chunk.emit(&mut to);
            same(chunk.len(), std::mem::take(&mut to));
        }
    }
    for wide in [false, true] {
        if let Some(Ok(head)) = Descriptors::parse(wide, bytes.len() as u64, bytes) {
            head.emit(wide, &mut to);
            assert_eq!(head.payload(wide), bytes.len() as u64);
            let mut rest = &bytes[Descriptors::len(wide)..];
            while let Some(descriptor) = BlockDescriptor::parse(wide, rest) {
                descriptor.emit(wide, &mut to);
                rest = &rest[BlockDescriptor::len(wide)..];
            }
            same(bytes.len(), std::mem::take(&mut to));
        }
    }
}

/// Returns bytes that begin like one of the messages.
fn messages() -> impl Strategy<Value = Vec<u8>> {
    let magic = prop_oneof![
        Just(INIT_MAGIC.to_be_bytes().to_vec()),
        Just(OPTION_MAGIC.to_be_bytes().to_vec()),
        Just([INIT_MAGIC.to_be_bytes(), OPTION_MAGIC.to_be_bytes()].concat()),
        Just(OPTION_REPLY_MAGIC.to_be_bytes().to_vec()),
        Just(REQUEST_MAGIC.to_be_bytes().to_vec()),
        Just(EXTENDED_REQUEST_MAGIC.to_be_bytes().to_vec()),
        Just(SIMPLE_REPLY_MAGIC.to_be_bytes().to_vec()),
        Just(STRUCTURED_REPLY_MAGIC.to_be_bytes().to_vec()),
        Just(EXTENDED_REPLY_MAGIC.to_be_bytes().to_vec()),
        Just(vec![0, 0, 0, 2, b'h', b'i', 0, 1]),
        Just(vec![0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2]),
        Just(vec![0, 0, 0, 5, 0, 3]),
        Just(vec![0, 0, 0, 7, 0, 0, 0, 1]),
        Just(vec![]),
    ];
    let rest = prop_oneof![prop::collection::vec(any::<u8>(), 0..60), prop::collection::vec(0..4u8, 0..30)];
    (magic, rest).prop_map(|(magic, rest)| [magic, rest].concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5000))]

    #[test]
    fn parsed_messages_are_written_unchanged(bytes in messages()) {
        read_and_write(&bytes);
        for cut in 0..bytes.len() {
            read_and_write(&bytes[..cut]);
        }
    }

    #[test]
    fn named_and_unknown_numbers_keep_their_value(number: u32) {
        for number in [number, number % 16, (number % 16) | (1 << 31)] {
            prop_assert_eq!(OptionType::from_wire(number).to_wire(), number);
            prop_assert_eq!(OptionReplyType::from_wire(number).to_wire(), number);
            prop_assert_eq!(ErrorNumber::from_wire(number).to_wire(), number);
            let short = number as u16;
            prop_assert_eq!(CommandType::from_wire(short).to_wire(), short);
            prop_assert_eq!(ChunkType::from_wire(short).to_wire(), short);
            prop_assert_eq!(InfoType::from_wire(short).to_wire(), short);
        }
    }
}

/// Some of the numbers of proto.md, "Values" and "Reserved Magic values".
#[test]
fn numbers_match_the_specification() {
    assert_eq!(INIT_MAGIC.to_be_bytes(), *b"NBDMAGIC");
    assert_eq!(OPTION_MAGIC.to_be_bytes(), *b"IHAVEOPT");
    assert_eq!(ErrorNumber::Overflow.to_wire(), 75);
    assert_eq!(ErrorNumber::NotSupported.to_string(), "NBD_ENOTSUP");
    assert_eq!(OptionReplyType::ErrExtHeaderReqd.to_wire(), (1 << 31) + 10);
    assert_eq!(OptionType::Other(77).to_string(), "0x4d");
    assert_eq!(TransmissionFlags::BLOCK_STATUS_PAYLOAD.0, 1 << 12);
    assert_eq!(CommandFlags::PAYLOAD_LEN.0, 1 << 5);
    assert!(ChunkType::ErrorOffset.is_error() && !ChunkType::BlockStatusExt.is_error());
}
