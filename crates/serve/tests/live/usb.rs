//! A USB device that serves one peer after another over a socket.

use flashlab_serve::{Address, Listener, Speed, Stop, TaskQueue, UsbPort};
use flashlab_usb::{Vub300, usbredir};
use std::io::{Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};

/// Returns a usbredir hello with the capabilities of QEMU, and a request for the port's status.
fn hello() -> Vec<u8> {
    let mut bytes = [0u32, 68, 0].map(u32::to_le_bytes).concat();
    bytes.extend([0; 64]);
    bytes.extend(0x7fu32.to_le_bytes());
    bytes.extend([100u32, 10, 1, 0].map(u32::to_le_bytes).concat());
    bytes.extend([0x80, 0, 0xc0, 0, 0, 0, 0, 0, 15, 0]);
    bytes
}

#[test]
fn peers_attach_one_after_the_other_and_an_invalid_one_is_disconnected() {
    let name = format!("flashlab-usb-test-{}", std::process::id());
    let listener = Listener::bind(&Address::Abstract(name.clone().into())).expect("the name is free");
    let stop = Stop::new().expect("there are descriptors");
    let port = UsbPort::new(listener, Speed::REAL, stop.clone());
    let tasks = TaskQueue::new().expect("there are descriptors");
    let port_tasks = tasks.clone();
    let serving =
        std::thread::spawn(move || port.serve::<usbredir::Session<Vub300>>(Vub300::new(None), &port_tasks));
    let commands = || tasks.send(|adapter: &mut Vub300, _| adapter.counters().commands);
    let connect = || {
        let address = SocketAddr::from_abstract_name(&name).expect("a short name");
        UnixStream::connect_addr(&address).expect("the server listens")
    };
    assert_eq!(commands(), Some(0), "no task runs without a peer");
    for round in 0..3 {
        let mut invalid = connect();
        invalid.write_all(b"GET / HTTP/1.1\r\n").expect("the peer is connected");
        let mut received = Vec::new();
        invalid.read_to_end(&mut received).expect("the port closes the connection in order");
        assert_eq!(received.len(), 12 + 68, "the port sends more or less than its hello in round {round}");

        let mut peer = connect();
        peer.write_all(&hello()).expect("the peer is connected");
        // The device's hello, its description, and the reply.
        let mut received = vec![0; 12 + 68 + (16 + 160) + (16 + 132) + (16 + 10) + (16 + 10 + 15)];
        peer.read_exact(&mut received).expect("the server answers");
        let status = &received[received.len() - 15..];
        assert_eq!((status[0], status[3] & 1), (15, 0), "the slot is not empty");
        assert_eq!(commands(), Some(0), "no task runs with a peer");
    }
    stop.throw();
    let (_, result) = serving.join().expect("it ends");
    result.expect("polling works");
    assert_eq!(commands(), None, "the queue is open");
}
