//! Stopping a busy server.

use crate::house::{House, alone, memory};
use flashlab_block::conformance;
use flashlab_nbd::client::Request;
use flashlab_serve::Limits;
use flashlab_sim::Duration;

#[test]
fn what_was_answered_before_the_end_is_there_and_clients_hear_of_it() {
    let device = memory(64 << 20);
    let mut house = House::of(device.clone());
    let clients: Vec<_> = (0..4).map(|_| house.client()).collect();
    let writers: Vec<_> = (0u64..)
        .zip(clients)
        .map(|(n, mut client)| {
            std::thread::spawn(move || {
                let mut answered = 0;
                // Until the connection ends, every reply is successful.
                while let Ok(done) = client
                    .ask(Request::write((n << 24) + answered * 8 % (1 << 24), 8), &answered.to_le_bytes())
                {
                    assert_eq!(done.err(), None);
                    answered += 1;
                }
                answered
            })
        })
        .collect();
    while house.counters.read().requests() < 2_000 {
        std::thread::yield_now();
    }
    house.end();
    for (n, writer) in (0u64..).zip(writers) {
        let answered = writer.join().expect("only good answers");
        assert!(answered > 0);
        let last = answered - 1;
        let found = conformance::read(&*device, (n << 24) + last * 8 % (1 << 24), 8);
        assert_eq!(found, last.to_le_bytes(), "writer {n} had {answered} answers");
    }
}

#[test]
fn idle_and_half_open_connections_do_not_hold_up_the_end() {
    let mut house = House::of(memory(1 << 20));
    let (_idle, _silent) = (house.client(), house.connect());
    house.end();
}

#[test]
fn a_client_that_never_listens_is_cut_after_the_grace() {
    let limits = Limits { grace: Duration::from_ms(50), ..Limits::default() };
    let mut house = House::with(alone(memory(1 << 30)), limits, None);
    let deaf = house.client();
    {
        use flashlab_nbd::wire::{CommandFlags, CommandType, RequestHeader, RequestLayout};
        use std::io::Write;
        let (flags, command) = (CommandFlags::NONE, CommandType::Read);
        let mut bytes = Vec::new();
        RequestHeader { flags, command, cookie: 1, offset: 0, length: 64 << 20 }
            .emit(RequestLayout::Extended, &mut bytes);
        // In one piece (`NBD_CMD_FLAG_DF`), so that holes do not shorten the reply.
        bytes[5] |= 4;
        (&deaf.stream).write_all(&bytes).expect("the server reads");
    }
    while house.counters.read().connections() < 1 {
        std::thread::yield_now();
    }
    house.end();
    drop(deaf);
}
