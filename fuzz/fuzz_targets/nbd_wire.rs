//! Fuzzes all messages of the NBD protocol, and URIs: a parsed message is written back unchanged.
#![no_main]

use flashlab_nbd::uri::Uri;
use flashlab_nbd::wire::*;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let same = |written: Vec<u8>| assert_eq!(bytes[..written.len()], written);
    let written = |emit: &dyn Fn(&mut Vec<u8>)| {
        let mut to = Vec::new();
        emit(&mut to);
        same(to);
    };
    if let Some(Ok(greeting)) = Greeting::parse(bytes) {
        written(&|to| greeting.emit(to));
    }
    if let Some(reply) = ExportNameReply::parse(bytes, false) {
        written(&|to| reply.emit(false, to));
    }
    if let Some(Ok(header)) = OptionHeader::parse(bytes) {
        written(&|to| header.emit(to));
    }
    if let Some(Ok(header)) = OptionReplyHeader::parse(bytes) {
        written(&|to| header.emit(to));
    }
    if let Ok(query) = ExportQuery::parse(bytes) {
        written(&|to| ExportQuery::emit(query.name, &query.requests().collect::<Vec<_>>(), to));
    }
    if let Ok(query) = ContextQuery::parse(bytes) {
        written(&|to| ContextQuery::emit(query.name, &query.queries().collect::<Vec<_>>(), to));
    }
    if let Ok(entry) = ExportEntry::parse(bytes) {
        written(&|to| entry.emit(to));
    }
    if let Ok(entry) = ContextEntry::parse(bytes) {
        written(&|to| entry.emit(to));
    }
    if let Ok(info) = Info::parse(bytes) {
        written(&|to| info.emit(to));
    }
    for layout in [RequestLayout::Compact, RequestLayout::Extended] {
        if let Some(Ok(header)) = RequestHeader::parse(layout, bytes) {
            written(&|to| header.emit(layout, to));
        }
    }
    if let Some(Ok(reply)) = SimpleReply::parse(bytes) {
        written(&|to| reply.emit(to));
    }
    for layout in [ChunkLayout::Structured, ChunkLayout::Extended] {
        if let Some(Ok(header)) = ChunkHeader::parse(layout, bytes) {
            written(&|to| header.emit(layout, to));
        }
    }
    if let Ok(hole) = OffsetHole::parse(bytes) {
        written(&|to| hole.emit(to));
    }
    for kind in [ChunkType::Error, ChunkType::ErrorOffset, ChunkType::Other(0x9000)] {
        if let Ok(chunk) = ErrorChunk::parse(kind, bytes) {
            written(&|to| chunk.emit(to));
        }
    }
    for wide in [false, true] {
        if let Some(Ok(head)) = Descriptors::parse(wide, bytes.len() as u64, bytes) {
            written(&|to| head.emit(wide, to));
        }
        if let Some(descriptor) = BlockDescriptor::parse(wide, bytes) {
            written(&|to| descriptor.emit(wide, to));
        }
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        match Uri::parse(text) {
            Ok(uri) => assert_eq!(Uri::parse(&uri.to_string()), Ok(uri)),
            Err(error) => assert!(error.at <= text.len() && !error.to_string().is_empty()),
        }
    }
});
