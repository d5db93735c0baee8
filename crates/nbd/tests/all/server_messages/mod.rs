//! A client, and messages of a server that are built without the crate.

use flashlab_nbd::client::{Client, ClientError, Event};

pub(crate) const GREETING: &[u8] = b"NBDMAGICIHAVEOPT\0\x03";
pub(crate) const MIB: u64 = 1 << 20;

pub(crate) fn reply(number: u32, kind: u32, data: &[u8]) -> Vec<u8> {
    let magic = 0x0003_e889_0455_65a9u64.to_be_bytes();
    [&magic[..], &number.to_be_bytes(), &kind.to_be_bytes(), &(data.len() as u32).to_be_bytes(), data]
        .concat()
}

pub(crate) fn ack(number: u32) -> Vec<u8> {
    reply(number, 1, &[])
}

/// Returns the data of NBD_INFO_EXPORT with every transmission flag except READ_ONLY.
pub(crate) fn export(size: u64) -> Vec<u8> {
    [&[0, 0][..], &size.to_be_bytes(), &[0x1f, 0xfd]].concat()
}

/// Returns the bytes that a client sends in response to a server's bytes, and its last event.
pub(crate) fn exchange(client: &mut Client, mut bytes: &[u8]) -> (Vec<u8>, Event) {
    let mut sent = Vec::new();
    loop {
        let received = client.receive(bytes, &mut sent);
        bytes = &bytes[received.consumed..];
        if received.event != Event::Send || bytes.is_empty() {
            return (sent, received.event);
        }
    }
}

pub(crate) fn closed(event: &Event) -> &ClientError {
    match event {
        Event::Closed(why) => why,
        event => panic!("{event:?}"),
    }
}
