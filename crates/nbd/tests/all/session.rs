//! Whole sessions: the state machines of client and server exchange bytes in arbitrary pieces, and a reference model
//! checks the results.

use crate::pair::client::{Op, TestClient};
use crate::pair::disk::{BLOCK, CONTEXTS, Disk};
use crate::pair::server::TestServer;
use crate::pair::{Choices, Plan, run};
use flashlab_nbd::client::{ClientConfig, Goal, Request, Tls as ClientTls};
use flashlab_nbd::server::{Closed, Policy, Tls};
use flashlab_nbd::wire::{CommandFlags, CommandType, TransmissionFlags};
use proptest::prelude::*;

const BLOCKS: usize = 64;

fn ops() -> impl Strategy<Value = Op> {
    let size = (BLOCKS * BLOCK) as u64;
    let command = prop_oneof![
        4 => Just(CommandType::Read),
        4 => Just(CommandType::Write),
        1 => Just(CommandType::Flush),
        1 => Just(CommandType::Trim),
        1 => Just(CommandType::Cache),
        2 => Just(CommandType::WriteZeroes),
        2 => Just(CommandType::BlockStatus),
        1 => (8u16..20).prop_map(CommandType::from_wire),
    ];
    let range = prop_oneof![
        // Whole blocks, arbitrary bytes, ranges around the end of the export, and ranges at the end of 64 bits.
        6 => (0..BLOCKS as u64, 0..16u64).prop_map(|(at, n)| (at * BLOCK as u64, n * BLOCK as u64)),
        3 => (0..size, 0..9000u64),
        1 => (size - 1000..size + 1000, 0..2000u64),
        1 => (u64::MAX - 1000..=u64::MAX, 0..2000u64),
    ];
    let flags = prop_oneof![4 => Just(0u16), 2 => 0..32u16, 1 => any::<u16>()];
    // The client sets PAYLOAD_LEN itself.
    let flags = flags.prop_map(|flags| CommandFlags(flags).without(CommandFlags::PAYLOAD_LEN));
    (command, range, flags, any::<u8>(), prop::collection::btree_set(0..3usize, 0..3)).prop_map(
        |(command, (offset, length), flags, fill, contexts)| {
            let (offset, length) =
                if command == CommandType::Flush && fill < 250 { (0, 0) } else { (offset, length) };
            let request = Request { command, flags, offset, length };
            Op { request, fill, contexts: contexts.into_iter().collect() }
        },
    )
}

fn plans() -> impl Strategy<Value = Plan> {
    let mostly = || prop::bool::weighted(0.8);
    let offered = [mostly(), mostly(), mostly(), mostly()];
    let features = (any::<[bool; 4]>(), offered, 0..3u8, prop::collection::btree_set(0..3usize, 0..4));
    let limits = (prop_oneof![Just(1u32), Just(512)], 1..2000usize, 1..40usize);
    (features, limits, prop::collection::vec(ops(), 0..40)).prop_map(|(features, limits, ops)| {
        let (
            [extended, no_zeroes, validate_requests, old],
            [structured, server_structured, server_extended, writable],
            tls,
            contexts,
        ) = features;
        let (export_name, read_only) = (old && !no_zeroes, !writable);
        let (block_minimum, direct_payload_min_bytes, depth) = limits;
        let mut disk = Disk::new(BLOCKS);
        disk.export.block_minimum = block_minimum;
        disk.export.flags = disk.export.flags.with_if(read_only, TransmissionFlags::READ_ONLY);
        let config = ClientConfig {
            structured,
            extended,
            export_name,
            no_zeroes,
            validate_requests,
            tls: [ClientTls::Off, ClientTls::Try, ClientTls::Require][usize::from(tls)],
            contexts: contexts.into_iter().map(|index| CONTEXTS[index].into()).collect(),
            ..ClientConfig::export("disk")
        };
        let tls = [Tls::Off, Tls::On, Tls::Require][usize::from(tls)];
        let policy = Policy {
            tls,
            structured: server_structured,
            extended: server_extended,
            direct_payload_min_bytes,
            ..Policy::default()
        };
        Plan { config, policy, disk, ops, depth }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn random_sessions_in_random_pieces_agree_with_the_model(
        plan in plans(),
        bytes in prop::collection::vec(any::<u8>(), 0..3000),
    ) {
        let pair = run(&plan, &mut Choices::new(&bytes));
        prop_assert_eq!(pair.server.closed, Some(Closed::Disconnect));
        prop_assert!(pair.client.is_over() && pair.client.closed.is_none(), "{:?}", pair.client.closed);
        prop_assert_eq!(pair.server.disk.bytes, pair.client.disk.bytes);
        prop_assert_eq!(pair.server.disk.allocated, pair.client.disk.allocated);
    }
}

/// Returns the plan of a session with requests of every type.
fn plan_of_every_request(extended: bool) -> Plan {
    let op = |request| Op { request, fill: 7, contexts: Vec::new() };
    let zeroes = Request::write_zeroes(1024, 512).with(CommandFlags::NO_HOLE);
    let ops = vec![
        op(Request::write(512, 700)),
        op(Request::read(0, 2048)),
        op(Request::read(100, 1000).with(CommandFlags::DF)),
        op(Request::flush()),
        op(Request::trim(512, 512)),
        op(Request::cache(0, 4096)),
        op(zeroes.with(CommandFlags::FUA)),
        op(zeroes.with(CommandFlags::FAST_ZERO)),
        op(Request::block_status(0, 4096)),
        op(Request::block_status(300, 1000).with(CommandFlags::REQ_ONE)),
        Op { contexts: vec![1], ..op(Request::block_status(0, 2048)) },
        op(Request::write(1 << 40, 600)),
        op(Request { command: CommandType::Resize, ..Request::flush() }),
        op(Request::read(4, 0)),
        op(Request::write(0, 0)),
    ];
    let mut config = ClientConfig::export("disk");
    config.extended = extended;
    config.validate_requests = false;
    config.contexts = CONTEXTS.map(Into::into).into();
    config.tls = ClientTls::Try;
    let policy = Policy { tls: Tls::On, direct_payload_min_bytes: 650, ..Policy::default() };
    Plan { config, policy, disk: Disk::new(16), ops, depth: 100 }
}

/// Returns a server's replies to these bytes, and the server.
fn serve(plan: &Plan, pieces: &[&[u8]]) -> (Vec<u8>, TestServer) {
    let mut server = TestServer::new(plan.policy, plan.disk.clone());
    let mut sent = Vec::new();
    for piece in pieces {
        server.feed(piece);
        for _ in 0..1000 {
            server.send_replies(&mut Choices::new(&[]), true);
        }
        sent.extend(server.take_sent());
    }
    (sent, server)
}

#[test]
fn data_and_reply_length_of_a_server_do_not_depend_on_how_the_bytes_are_split() {
    for extended in [false, true] {
        let plan = plan_of_every_request(extended);
        let stream = run(&plan, &mut Choices::new(&[])).to_server;
        // Starting TLS discards the received bytes after STARTTLS, so no piece may extend beyond it.
        let tls = 4 + 16;
        let unsplit = serve(&plan, &[&stream[..tls], &stream[tls..]]);
        assert_eq!(unsplit.1.closed, Some(Closed::Disconnect));
        for cut in 0..=stream.len() {
            let cuts = if cut < tls { [cut, tls] } else { [tls, cut] };
            let pieces = [&stream[..cuts[0]], &stream[cuts[0]..cuts[1]], &stream[cuts[1]..]];
            let (sent, server) = serve(&plan, &pieces);
            assert_eq!(server.disk.bytes, unsplit.1.disk.bytes, "cut at {cut}");
            assert_eq!(server.closed, unsplit.1.closed, "cut at {cut}");
            assert_eq!(sent.len(), unsplit.0.len(), "cut at {cut}");
        }
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(serve(&plan, &bytes).0.len(), unsplit.0.len());
    }
}

#[test]
fn results_of_a_client_do_not_depend_on_how_the_bytes_are_split() {
    for extended in [false, true] {
        let plan = plan_of_every_request(extended);
        let stream = run(&plan, &mut Choices::new(&[])).to_client;
        let client = |pieces: &[&[u8]]| {
            let mut client =
                TestClient::new(plan.config.clone(), plan.disk.clone(), plan.ops.clone(), plan.depth);
            for piece in pieces {
                client.feed(piece);
            }
            assert!(client.is_over() && client.closed.is_none(), "{:?}", client.closed);
            (client.take_sent(), client.outcomes)
        };
        let tls = 18 + 20;
        let unsplit = client(&[&stream[..tls], &stream[tls..]]);
        for cut in 0..=stream.len() {
            let cuts = if cut < tls { [cut, tls] } else { [tls, cut] };
            assert_eq!(client(&[&stream[..cuts[0]], &stream[cuts[0]..cuts[1]], &stream[cuts[1]..]]), unsplit);
        }
        assert_eq!(client(&stream.chunks(1).collect::<Vec<_>>()), unsplit);
    }
}

#[test]
fn a_server_executes_only_complete_requests_of_an_interrupted_client() {
    for extended in [false, true] {
        let plan = plan_of_every_request(extended);
        let stream = run(&plan, &mut Choices::new(&[])).to_server;
        let (_, unsplit) = serve(&plan, &[&stream[..20], &stream[20..]]);
        let mut executed_max = 0;
        for killed in 0..stream.len() {
            let cut = killed.min(20);
            let (_, server) = serve(&plan, &[&stream[..cut], &stream[cut..killed]]);
            assert_eq!(server.closed, None, "a session closed although the client did not disconnect");
            assert!(server.executed.len() >= executed_max, "fewer requests for more bytes");
            executed_max = server.executed.len();
            let same = server
                .executed
                .iter()
                .zip(&unsplit.executed)
                .all(|(a, b)| (a.offset, a.length) == (b.offset, b.length));
            assert!(same);
            // Until a later request changes its range, the first write is applied completely or not at all.
            assert!(
                [0, 700].contains(&server.disk.bytes[512..1212].iter().filter(|byte| **byte == 7).count())
                    || executed_max > 4
            );
        }
        assert_eq!(executed_max, unsplit.executed.len());
    }
}

#[test]
fn a_client_lists_exports_and_contexts() {
    let plan = Plan { ops: Vec::new(), ..plan_of_every_request(false) };
    for goal in [Goal::List, Goal::Info] {
        let config = ClientConfig { goal, contexts: Vec::new(), ..plan.config.clone() };
        let mut server = TestServer::new(plan.policy, plan.disk.clone());
        let mut client = flashlab_nbd::client::Client::new(config);
        let (mut buffer, mut sent) = (Vec::new(), Vec::new());
        loop {
            buffer.extend(server.take_sent());
            let received = client.receive(&buffer, &mut sent);
            buffer.drain(..received.consumed);
            match received.event {
                flashlab_nbd::client::Event::StartTls => client.tls_started(&mut sent),
                flashlab_nbd::client::Event::InfoReceived => break,
                flashlab_nbd::client::Event::Closed(why) => panic!("{why}"),
                _ => {}
            }
            server.feed(&std::mem::take(&mut sent));
        }
        server.feed(&sent);
        assert_eq!(server.closed, Some(Closed::Abort));
        if goal == Goal::List {
            assert_eq!(client.exports(), [("disk".to_string(), "a disk of a test".to_string())]);
        } else {
            assert_eq!(client.contexts(), CONTEXTS[..2]);
            let export = client.export().unwrap();
            assert_eq!((export.size, export.name.as_deref()), (16 * BLOCK as u64, Some("disk")));
            assert_eq!(export.description.as_deref(), Some("a disk of a test"));
            assert_eq!(export.block_sizes, Some((1, 4096, 32 << 20)));
        }
    }
}
