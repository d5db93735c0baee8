//! The counters of a server.

use crate::server::{TestServer, memory};
use flashlab_block::model::{Throttle, Throttled, Untimed};
use flashlab_block::{Geometry, Memory, Pages, Timed};
use flashlab_serve::Count;
use flashlab_sim::Duration;
use std::io::{Read, Write};
use std::sync::Arc;

#[test]
fn requests_rejected_by_the_session_are_counted_as_errors() {
    let server = TestServer::new(memory(1 << 20));
    let mut stream = server.connect();
    let request = |command: u16, offset: u64, length: u32| {
        let head = [&0x2560_9513u32.to_be_bytes()[..], &[0; 2], &command.to_be_bytes(), &[0; 8]].concat();
        [&head[..], &offset.to_be_bytes(), &length.to_be_bytes()].concat()
    };
    let export_name = b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0";
    let requests = [request(0, 1 << 20, 512), request(0, 0, 512), request(99, 0, 0), request(2, 0, 0)];
    stream.write_all(&[&export_name[..], &requests.concat()].concat()).expect("the server listens");
    stream.read_to_end(&mut Vec::new()).expect("it ends in order");
    server.wait_until_empty();
    let counts = server.counters.read();
    assert_eq!((counts.get(Count::Errors), counts.get(Count::Reads)), (2, 1));
}

#[test]
fn batches_are_counted_by_arrival() {
    let (size, us) = (1 << 20, Duration::from_us);
    let geometry = Geometry { capacity: size, block: 512, request_max: 1 << 20 };
    let throttle = Throttle::Delay { read: us(50), write: us(50), flush: us(50) };
    let model = Throttled::new(Box::new(Untimed::new(geometry)), throttle);
    let store = Memory::new(size, Pages::Small).expect("a size that a device can have");
    let server = TestServer::new(Arc::new(Timed::new(Box::new(model), Box::new(store))));
    let mut client = server.client();
    for n in 0..10 {
        client.read(n * 512, 512);
    }
    drop(client);
    server.wait_until_empty();
    assert_eq!(server.counters.read().get(Count::Batches), 10);
}
