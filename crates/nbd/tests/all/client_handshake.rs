//! The client's side of the handshake, byte for byte, against old servers, servers that reject options, and
//! faulty servers. Most tests name the section of proto.md that they cover.

use crate::server_messages::*;
use flashlab_nbd::client::{Client, ClientConfig, ClientError, Event, Goal, OPTION_REPLIES_MAX, Tls};
use flashlab_nbd::wire::{OptionReplyType, OptionType};

fn option(number: u32, data: &[u8]) -> Vec<u8> {
    [b"IHAVEOPT", &number.to_be_bytes()[..], &(data.len() as u32).to_be_bytes(), data].concat()
}

fn error(number: u32, kind: u32) -> Vec<u8> {
    reply(number, 0x8000_0000 + kind, b"because of this")
}

fn go(name: &str) -> Vec<u8> {
    let name = [&(name.len() as u32).to_be_bytes()[..], name.as_bytes()].concat();
    option(7, &[&name[..], &[0, 3, 0, 1, 0, 2, 0, 3]].concat())
}

/// Runs a session. After each message of the server, the client must send exactly the expected bytes.
fn handshake(config: ClientConfig, lines: &[(&[u8], &[u8])]) -> (Client, Event) {
    let mut client = Client::new(config);
    let mut last = Event::Send;
    for (server, expected) in lines {
        let (sent, event) = exchange(&mut client, server);
        assert_eq!(sent, *expected, "{event:?}");
        last = event;
    }
    (client, last)
}

const FLAGS: &[u8] = &[0, 0, 0, 3];

#[test]
fn a_handshake_negotiates_one_option_at_a_time() {
    let mut config = ClientConfig::export("card");
    config.tls = Tls::Require;
    config.contexts = vec!["base:allocation".into()];
    let mut client = Client::new(config);
    assert_eq!(exchange(&mut client, GREETING).0, [FLAGS, &option(5, &[])].concat());
    assert_eq!(exchange(&mut client, &ack(5)), (Vec::new(), Event::StartTls));
    let mut sent = Vec::new();
    client.tls_started(&mut sent);
    assert_eq!(sent, option(11, &[]));
    let query = b"\0\0\0\x04card\0\0\0\x01\0\0\0\x0fbase:allocation";
    assert_eq!(exchange(&mut client, &ack(11)).0, option(10, query));
    let context = reply(10, 4, b"\0\0\0\x2abase:allocation");
    assert_eq!(exchange(&mut client, &[context, ack(10)].concat()).0, go("card"));
    let sizes = reply(7, 3, b"\0\x03\0\0\x02\0\0\0\x10\0\0\x10\0\0");
    let infos = [sizes, reply(7, 3, &export(MIB)), reply(7, 3, b"\x01\0?")].concat();
    assert_eq!(exchange(&mut client, &[infos, ack(7)].concat()), (Vec::new(), Event::Ready));
    assert_eq!(client.contexts(), ["base:allocation"]);
    let export = client.export().unwrap();
    assert_eq!((export.size, export.block_minimum(), export.payload_max()), (MIB, 512, MIB as u32));
}

/// "`NBD_OPT_INFO` and `NBD_OPT_GO`": "clients SHOULD be prepared to also handle `NBD_REP_ERR_UNSUP`".
#[test]
fn a_client_falls_back_to_export_name_with_old_servers() {
    let name = option(1, b"card");
    let answer = [&MIB.to_be_bytes()[..], &[0, 1]].concat();
    let zeroes = [&answer[..], &[0; 124]].concat();
    let plain = [FLAGS, &option(8, &[])].concat();
    let config = || ClientConfig { extended: false, ..ClientConfig::export("card") };
    // Fixed newstyle, but without `NBD_OPT_GO`.
    let lines: [(&[u8], &[u8]); 4] =
        [(GREETING, &plain), (&error(8, 1), &go("card")), (&error(7, 1), &name), (&answer, &[])];
    assert_eq!(handshake(config(), &lines).1, Event::Ready);
    // Without fixed newstyle.
    let first = [&[0, 0, 0, 0], &name[..]].concat();
    let (client, event) = handshake(config(), &[(b"NBDMAGICIHAVEOPT\0\0", &first), (&zeroes, &[])]);
    assert_eq!((event, client.export().unwrap().size), (Event::Ready, MIB));
    let (_, event) =
        handshake(ClientConfig { tls: Tls::Require, ..config() }, &[(b"NBDMAGICIHAVEOPT\0\0", &[0; 4])]);
    assert_eq!(*closed(&event), ClientError::NotFixedNewstyle);
    // The client does not ask the server to omit the zeroes.
    let config = ClientConfig { export_name: true, no_zeroes: false, structured: false, ..config() };
    let first = [&[0, 0, 0, 1], &name[..]].concat();
    assert_eq!(handshake(config.clone(), &[(GREETING, &first), (&zeroes[..133], &[])]).1, Event::Need(134));
    assert_eq!(handshake(config, &[(GREETING, &first), (&zeroes, &[])]).1, Event::Ready);
}

/// "Client-side requirements" of TLS.
#[test]
fn a_server_without_tls_is_rejected_only_if_the_client_requires_tls() {
    let request = [FLAGS, &option(5, &[])].concat();
    let config = |tls| ClientConfig { tls, ..ClientConfig::export("card") };
    let lines: [(&[u8], &[u8]); 2] = [(GREETING, &request), (&error(5, 2), &option(11, &[]))];
    assert_eq!(handshake(config(Tls::Try), &lines).1, Event::Send);
    let lines: [(&[u8], &[u8]); 2] = [(GREETING, &request), (&error(5, 2), &option(2, &[]))];
    let (_, event) = handshake(config(Tls::Require), &lines);
    let ClientError::Rejected { option, reply, message } = closed(&event) else { panic!("{event:?}") };
    assert_eq!((*option, *reply), (OptionType::StartTls, OptionReplyType::ErrPolicy));
    assert_eq!(message, "because of this");
}

/// "Termination of the session during option haggling": a soft disconnect.
#[test]
fn a_rejected_go_ends_the_session_with_an_abort() {
    let config = || ClientConfig::export("card").simple();
    let request = [FLAGS, &go("card")].concat();
    for kind in [5, 6, 7, 8] {
        let lines: [(&[u8], &[u8]); 2] = [(GREETING, &request), (&error(7, kind), &option(2, &[]))];
        let (_, event) = handshake(config(), &lines);
        assert!(closed(&event).to_string().contains("because of this"), "{event:?}");
    }
}

#[test]
fn malformed_replies_end_the_session() {
    let request = [FLAGS, &go("card")].concat();
    let error_of = |bytes: &[u8]| {
        let lines: [(&[u8], &[u8]); 2] = [(GREETING, &request), (bytes, &[])];
        closed(&handshake(ClientConfig::export("card").simple(), &lines).1).clone()
    };
    assert!(matches!(error_of(&[0; 20]), ClientError::Magic(_)));
    assert!(matches!(error_of(&ack(6)), ClientError::UnexpectedReply { reply_to: OptionType::Info, .. }));
    assert!(matches!(error_of(&reply(7, 2, &[0; 4])), ClientError::UnexpectedReply { .. }));
    assert_eq!(error_of(&ack(7)), ClientError::NoExportInfo);
    assert!(matches!(error_of(&reply(7, 3, &[0])), ClientError::MalformedReply { .. }));
    assert!(matches!(error_of(&reply(7, 3, &export(1)[..11])), ClientError::MalformedReply { .. }));
    assert!(matches!(error_of(&reply(7, 3, b"\0\x01\xff")), ClientError::MalformedReply { .. }));
    for size in [0u32, 3, 1 << 17] {
        let sizes = [&[0, 3][..], &size.to_be_bytes(), &[0; 8]].concat();
        assert_eq!(error_of(&reply(7, 3, &sizes)), ClientError::InvalidBlockSize(size));
    }
    let long = reply(7, 3, &vec![0; 1 << 16]);
    assert_eq!(error_of(&long[..20]), ClientError::ReplyTooLong { option: OptionType::Go });
    let (_, event) = handshake(ClientConfig::export(""), &[(b"SSH-2.0-OpenSSH_9.2p1 Debian", &[])]);
    assert!(closed(&event).to_string().contains("not an NBD server"));
}

/// A server cannot make a client store an unlimited amount of data.
#[test]
fn an_endless_list_ends_the_session() {
    let config = ClientConfig { goal: Goal::List, ..ClientConfig::export("") };
    let request = [FLAGS, &option(3, &[])].concat();
    let (mut client, _) = handshake(config, &[(GREETING, &request)]);
    let line = reply(3, 2, &[&[0, 0, 16, 0][..], &[b'a'; 4096]].concat());
    let mut sent_bytes = 0;
    loop {
        let (_, event) = exchange(&mut client, &line);
        sent_bytes += line.len();
        if let Event::Closed(why) = event {
            assert_eq!(why, ClientError::ReplyTooLong { option: OptionType::List });
            break;
        }
        assert!(sent_bytes <= OPTION_REPLIES_MAX);
    }
}
