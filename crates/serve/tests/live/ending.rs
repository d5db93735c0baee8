//! Stopping a busy server.

use crate::server::{TestServer, alone, memory};
use flashlab_block::conformance;
use flashlab_nbd::client::Request;
use flashlab_serve::Limits;
use flashlab_sim::Duration;

#[test]
fn answered_writes_survive_a_shutdown_and_clients_are_disconnected() {
    let device = memory(64 << 20);
    let mut server = TestServer::new(device.clone());
    let clients: Vec<_> = (0..4).map(|_| server.client()).collect();
    let writers: Vec<_> = (0u64..)
        .zip(clients)
        .map(|(n, mut client)| {
            std::thread::spawn(move || {
                let mut answered = 0;
                // Until the connection ends, every reply is successful.
                while let Ok(done) = client
                    .execute(Request::write((n << 24) + answered * 8 % (1 << 24), 8), &answered.to_le_bytes())
                {
                    assert_eq!(done.err(), None);
                    answered += 1;
                }
                answered
            })
        })
        .collect();
    while server.counters.read().requests() < 2_000 {
        std::thread::yield_now();
    }
    server.shut_down();
    for (n, writer) in (0u64..).zip(writers) {
        let answered = writer.join().expect("only good answers");
        assert!(answered > 0);
        let last = answered - 1;
        let found = conformance::read(&*device, (n << 24) + last * 8 % (1 << 24), 8);
        assert_eq!(found, last.to_le_bytes(), "writer {n} had {answered} answers");
    }
}

#[test]
fn idle_and_half_open_connections_do_not_delay_a_shutdown() {
    let mut server = TestServer::new(memory(1 << 20));
    let (_idle, _silent) = (server.client(), server.connect());
    server.shut_down();
}

#[test]
fn a_client_that_never_receives_is_closed_after_the_grace_period() {
    let limits = Limits { grace: Duration::from_ms(50), ..Limits::default() };
    let mut server = TestServer::with(alone(memory(1 << 30)), limits, None);
    let stalled = server.client();
    {
        use flashlab_nbd::wire::{CommandFlags, CommandType, RequestHeader, RequestLayout};
        use std::io::Write;
        let (flags, command) = (CommandFlags::NONE, CommandType::Read);
        let mut bytes = Vec::new();
        RequestHeader { flags, command, cookie: 1, offset: 0, length: 64 << 20 }
            .emit(RequestLayout::Extended, &mut bytes);
        // In one piece (`NBD_CMD_FLAG_DF`), so that holes do not shorten the reply.
        bytes[5] |= 4;
        (&stalled.stream).write_all(&bytes).expect("the server reads");
    }
    while server.counters.read().connections() < 1 {
        std::thread::yield_now();
    }
    server.shut_down();
    drop(stalled);
}
