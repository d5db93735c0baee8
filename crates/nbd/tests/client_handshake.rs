//! The client's side of the handshake, byte for byte, against old, unwilling and broken servers. Each test names the
//! section of proto.md that it covers.

mod asked;

use asked::*;
use flashlab_nbd::client::{Client, ClientError, Event, Goal, TOLD_MAX, Tls, Wish};
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

/// Runs a session in which the server sends one message after another, each after the client has sent the expected
/// bytes.
fn handshake(wish: Wish, lines: &[(&[u8], &[u8])]) -> (Client, Event) {
    let mut client = Client::new(wish);
    let mut last = Event::Send;
    for (server, client_says) in lines {
        let (sent, event) = talk(&mut client, server);
        assert_eq!(sent, *client_says, "{event:?}");
        last = event;
    }
    (client, last)
}

const FLAGS: &[u8] = &[0, 0, 0, 3];

#[test]
fn the_whole_way() {
    let mut wish = Wish::export("card");
    wish.tls = Tls::Require;
    wish.contexts = vec!["base:allocation".into()];
    let mut client = Client::new(wish);
    assert_eq!(talk(&mut client, GREETING).0, [FLAGS, &option(5, &[])].concat());
    assert_eq!(talk(&mut client, &ack(5)), (Vec::new(), Event::StartTls));
    let mut sent = Vec::new();
    client.tls_started(&mut sent);
    assert_eq!(sent, option(11, &[]));
    let query = b"\0\0\0\x04card\0\0\0\x01\0\0\0\x0fbase:allocation";
    assert_eq!(talk(&mut client, &ack(11)).0, option(10, query));
    let context = reply(10, 4, b"\0\0\0\x2abase:allocation");
    assert_eq!(talk(&mut client, &[context, ack(10)].concat()).0, go("card"));
    let sizes = reply(7, 3, b"\0\x03\0\0\x02\0\0\0\x10\0\0\x10\0\0");
    let infos = [sizes, reply(7, 3, &export(MIB)), reply(7, 3, b"\x01\0?")].concat();
    assert_eq!(talk(&mut client, &[infos, ack(7)].concat()), (Vec::new(), Event::Ready));
    assert_eq!(client.contexts(), ["base:allocation"]);
    let export = client.export().unwrap();
    assert_eq!((export.size, export.block_minimum(), export.payload_max()), (MIB, 512, MIB as u32));
}

/// "`NBD_OPT_INFO` and `NBD_OPT_GO`": "clients SHOULD be prepared to also handle `NBD_REP_ERR_UNSUP`".
#[test]
fn old_servers() {
    let name = option(1, b"card");
    let answer = [&MIB.to_be_bytes()[..], &[0, 1]].concat();
    let zeroes = [&answer[..], &[0; 124]].concat();
    let plain = [FLAGS, &option(8, &[])].concat();
    let wish = || Wish { extended: false, ..Wish::export("card") };
    // Fixed newstyle, but without `NBD_OPT_GO`.
    let lines: [(&[u8], &[u8]); 4] =
        [(GREETING, &plain), (&error(8, 1), &go("card")), (&error(7, 1), &name), (&answer, &[])];
    assert_eq!(handshake(wish(), &lines).1, Event::Ready);
    // Not even fixed newstyle.
    let first = [&[0, 0, 0, 0], &name[..]].concat();
    let (client, event) = handshake(wish(), &[(b"NBDMAGICIHAVEOPT\0\0", &first), (&zeroes, &[])]);
    assert_eq!((event, client.export().unwrap().size), (Event::Ready, MIB));
    let (_, event) = handshake(Wish { tls: Tls::Require, ..wish() }, &[(b"NBDMAGICIHAVEOPT\0\0", &[0; 4])]);
    assert_eq!(*closed(&event), ClientError::NotFixedNewstyle);
    // The client does not ask the server to omit the zeroes.
    let wish = Wish { export_name: true, no_zeroes: false, structured: false, ..wish() };
    let first = [&[0, 0, 0, 1], &name[..]].concat();
    assert_eq!(handshake(wish.clone(), &[(GREETING, &first), (&zeroes[..133], &[])]).1, Event::Need(134));
    assert_eq!(handshake(wish, &[(GREETING, &first), (&zeroes, &[])]).1, Event::Ready);
}

/// "Client-side requirements" of TLS.
#[test]
fn servers_without_tls() {
    let asks = [FLAGS, &option(5, &[])].concat();
    let wish = |tls| Wish { tls, ..Wish::export("card") };
    let lines: [(&[u8], &[u8]); 2] = [(GREETING, &asks), (&error(5, 2), &option(11, &[]))];
    assert_eq!(handshake(wish(Tls::Try), &lines).1, Event::Send);
    let lines: [(&[u8], &[u8]); 2] = [(GREETING, &asks), (&error(5, 2), &option(2, &[]))];
    let (_, event) = handshake(wish(Tls::Require), &lines);
    let ClientError::Refused { option, reply, message } = closed(&event) else { panic!("{event:?}") };
    assert_eq!((*option, *reply), (OptionType::StartTls, OptionReplyType::ErrPolicy));
    assert_eq!(message, "because of this");
}

/// "Termination of the session during option haggling": a soft disconnect.
#[test]
fn refusals_are_passed_on_and_the_server_is_told() {
    let wish = || Wish::export("card").simple();
    let asks = [FLAGS, &go("card")].concat();
    for kind in [5, 6, 7, 8] {
        let lines: [(&[u8], &[u8]); 2] = [(GREETING, &asks), (&error(7, kind), &option(2, &[]))];
        let (_, event) = handshake(wish(), &lines);
        assert!(closed(&event).to_string().contains("because of this"), "{event:?}");
    }
}

#[test]
fn servers_that_talk_nonsense() {
    let asks = [FLAGS, &go("card")].concat();
    let broken = |bytes: &[u8]| {
        let lines: [(&[u8], &[u8]); 2] = [(GREETING, &asks), (bytes, &[])];
        closed(&handshake(Wish::export("card").simple(), &lines).1).clone()
    };
    assert!(matches!(broken(&[0; 20]), ClientError::Magic(_)));
    assert!(matches!(broken(&ack(6)), ClientError::Answer { answered: OptionType::Info, .. }));
    assert!(matches!(broken(&reply(7, 2, &[0; 4])), ClientError::Answer { .. }));
    assert_eq!(broken(&ack(7)), ClientError::NoExportInfo);
    assert!(matches!(broken(&reply(7, 3, &[0])), ClientError::Data { .. }));
    assert!(matches!(broken(&reply(7, 3, &export(1)[..11])), ClientError::Data { .. }));
    assert!(matches!(broken(&reply(7, 3, b"\0\x01\xff")), ClientError::Data { .. }));
    for size in [0u32, 3, 1 << 17] {
        let sizes = [&[0, 3][..], &size.to_be_bytes(), &[0; 8]].concat();
        assert_eq!(broken(&reply(7, 3, &sizes)), ClientError::BlockSize(size));
    }
    let long = reply(7, 3, &vec![0; 1 << 16]);
    assert_eq!(broken(&long[..20]), ClientError::TooMuch { option: OptionType::Go });
    let (_, event) = handshake(Wish::export(""), &[(b"SSH-2.0-OpenSSH_9.2p1 Debian", &[])]);
    assert!(closed(&event).to_string().contains("not an NBD server"));
}

/// A server cannot make a client store an unlimited amount.
#[test]
fn a_list_that_never_ends() {
    let wish = Wish { goal: Goal::List, ..Wish::export("") };
    let asks = [FLAGS, &option(3, &[])].concat();
    let (mut client, _) = handshake(wish, &[(GREETING, &asks)]);
    let line = reply(3, 2, &[&[0, 0, 16, 0][..], &[b'a'; 4096]].concat());
    let mut told = 0;
    loop {
        let (_, event) = talk(&mut client, &line);
        told += line.len();
        if let Event::Closed(why) = event {
            assert_eq!(why, ClientError::TooMuch { option: OptionType::List });
            break;
        }
        assert!(told <= TOLD_MAX);
    }
}
