//! The server's side of the handshake, byte for byte. This file builds the bytes without the crate. Most
//! tests name the section of proto.md that they cover.

use flashlab_nbd::server::{
    Closed, Event, Export, MetaContext, OPTION_DATA_MAX, Policy, Session, Style, Tls,
};
use flashlab_nbd::wire::{ClientFlags, OptionType, TransmissionFlags};
use std::sync::Arc;

const IHAVEOPT: &[u8] = b"IHAVEOPT";
const REPLY: [u8; 8] = [0, 3, 0xe8, 0x89, 4, 0x55, 0x65, 0xa9];
const ACK: u32 = 1;
const SERVER: u32 = 2;
const INFO: u32 = 3;
const META: u32 = 4;
const UNSUP: u32 = 0x8000_0001;
const POLICY: u32 = 0x8000_0002;
const INVALID: u32 = 0x8000_0003;
const TLS_REQD: u32 = 0x8000_0005;
const UNKNOWN: u32 = 0x8000_0006;
const SHUTDOWN: u32 = 0x8000_0007;
const BLOCK_SIZE_REQD: u32 = 0x8000_0008;
const TOO_BIG: u32 = 0x8000_0009;
const EXT_HEADER_REQD: u32 = 0x8000_000a;

fn option(number: u32, data: &[u8]) -> Vec<u8> {
    [IHAVEOPT, &number.to_be_bytes(), &(data.len() as u32).to_be_bytes(), data].concat()
}

fn reply(number: u32, kind: u32, data: &[u8]) -> Vec<u8> {
    [&REPLY[..], &number.to_be_bytes(), &kind.to_be_bytes(), &(data.len() as u32).to_be_bytes(), data]
        .concat()
}

/// Returns a string with its length prefix.
fn string(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat()
}

/// Returns the data of INFO and GO.
fn export_query(name: &str, infos: &[u16]) -> Vec<u8> {
    let infos: Vec<u8> = infos.iter().flat_map(|info| info.to_be_bytes()).collect();
    [string(name), (infos.len() as u16 / 2).to_be_bytes().to_vec(), infos].concat()
}

/// Returns the data of LIST_META_CONTEXT and SET_META_CONTEXT.
fn context_query(name: &str, queries: &[&str]) -> Vec<u8> {
    let strings: Vec<u8> = queries.iter().flat_map(|query| string(query)).collect();
    [string(name), (queries.len() as u32).to_be_bytes().to_vec(), strings].concat()
}

fn context(id: u32, name: &str) -> Vec<u8> {
    [&id.to_be_bytes()[..], name.as_bytes()].concat()
}

fn info_export(size: u64, flags: u16) -> Vec<u8> {
    [&0u16.to_be_bytes()[..], &size.to_be_bytes(), &flags.to_be_bytes()].concat()
}

fn exports() -> Vec<Export> {
    let mut card = Export::new("card", 0x1234_5600);
    card.description = "a card".into();
    card.block_preferred = 16384;
    card.contexts = ["base:allocation", "x-flashlab:mapped", "x-flashlab:wear"].map(MetaContext::new).into();
    card.contexts[2].wide = true;
    let mut secret = Export::new("secret", 1024);
    secret.tls_required = true;
    let mut strict = Export::new("strict", 8192);
    strict.block_minimum = 4096;
    strict.block_size_required = true;
    vec![card, secret, strict]
}

/// HAS_FLAGS, SEND_FLUSH, SEND_FUA, CAN_MULTI_CONN.
const FLAGS: u16 = 0x10d;
/// The same with SEND_DF.
const FLAGS_DF: u16 = 0x18d;

struct TestServer {
    session: Session,
    event: Event,
}

impl TestServer {
    /// Starts a session, up to the client's flags.
    fn with(policy: Policy, flags: u32) -> TestServer {
        let mut sent = Vec::new();
        let session = Session::new(policy, Arc::new(exports()), &mut sent);
        assert_eq!(sent, [b"NBDMAGICIHAVEOPT", &[0u8, 3][..]].concat(), "Newstyle negotiation");
        let mut server = TestServer { session, event: Event::Send };
        assert_eq!(server.send(&flags.to_be_bytes()), []);
        server
    }
    fn new() -> TestServer {
        TestServer::with(Policy::default(), 3)
    }
    /// Sends bytes to the session, and returns its replies.
    fn send(&mut self, mut bytes: &[u8]) -> Vec<u8> {
        let mut sent = Vec::new();
        loop {
            let received = self.session.receive(bytes, &mut sent);
            bytes = &bytes[received.consumed..];
            self.event = received.event;
            if self.event != Event::Send {
                return sent;
            }
        }
    }
    /// Sends an option, and asserts that the reply is an error with a sentence.
    fn rejects(&mut self, number: u32, data: &[u8], kind: u32) {
        let sent = self.send(&option(number, data));
        assert!(matches!(self.event, Event::Need(_)), "the session does not go on");
        let header = sent.len().min(20);
        let words = &sent[header..];
        assert_eq!(sent, reply(number, kind, words));
        let words = std::str::from_utf8(words).unwrap();
        assert!(words.len() > 10 && words.contains(' '), "a sentence: {words:?}");
    }
    fn closed(&self) -> &Closed {
        match &self.event {
            Event::Closed(why) => why,
            event => panic!("{event:?}"),
        }
    }
    fn open(&mut self, data: &[u8]) -> Vec<u8> {
        let sent = self.send(&option(7, data));
        assert!(self.session.export().is_some(), "{:?}", self.event);
        sent
    }
}

/// "Client flags".
#[test]
fn unknown_client_flags_end_the_session() {
    let mut server = TestServer::with(Policy::default(), 7);
    assert_eq!(*server.closed(), Closed::ClientFlags(ClientFlags(7)));
    server.send(&option(3, &[]));
    assert_eq!(*server.closed(), Closed::ClientFlags(ClientFlags(7)), "the reason has changed");
}

/// "`NBD_OPT_EXPORT_NAME`", "`NBD_FLAG_NO_ZEROES`".
#[test]
fn export_name_replies_have_zeroes_unless_the_client_omits_them() {
    let answer = [&0x1234_5600u64.to_be_bytes()[..], &FLAGS.to_be_bytes()].concat();
    for (flags, zeroes) in [(3, 0), (1, 124), (0, 124), (2, 0)] {
        for name in [&b"card"[..], b""] {
            let mut server = TestServer::with(Policy::default(), flags);
            let sent = server.send(&option(1, name));
            assert_eq!(server.event, Event::Opened);
            assert_eq!(sent, [&answer[..], &vec![0; zeroes]].concat());
            assert_eq!(server.session.replies().unwrap().style(), Style::Simple);
        }
    }
}

/// "`NBD_OPT_EXPORT_NAME`": an unavailable export ends the session.
#[test]
fn export_name_of_an_unavailable_export_ends_the_session() {
    let requires = Policy { tls: Tls::Require, ..Policy::default() };
    for (policy, name, word) in [
        (Policy::default(), &b"disk"[..], "no such export"),
        (Policy::default(), b"\xff", "no such export"),
        (Policy { tls: Tls::On, ..Policy::default() }, b"secret", "TLS"),
        (requires, b"card", "TLS"),
        (Policy::default(), b"strict", "block sizes"),
        (Policy::default(), &[b'a'; OPTION_DATA_MAX + 1], "too long"),
    ] {
        let mut server = TestServer::with(policy, 3);
        assert_eq!(server.send(&option(1, name)), []);
        let Closed::Export { why, .. } = server.closed() else { panic!("{:?}", server.closed()) };
        assert!(why.contains(word), "{why}");
    }
    // "Once extended headers are successfully requested, a client MUST NOT use NBD_OPT_EXPORT_NAME."
    let mut server = TestServer::new();
    assert_eq!(server.send(&option(11, &[])), reply(11, ACK, &[]));
    assert_eq!(server.send(&option(1, b"card")), []);
    assert!(matches!(server.closed(), Closed::Export { .. }));
}

/// "Fixed newstyle negotiation": without it, only `NBD_OPT_EXPORT_NAME` is valid.
#[test]
fn without_fixed_newstyle_other_options_end_the_session() {
    let mut server = TestServer::with(Policy::default(), 0);
    assert_eq!(server.send(&option(7, &export_query("card", &[]))), []);
    assert_eq!(*server.closed(), Closed::NotFixedNewstyle(OptionType::Go));
    // "The server MUST operate in NOTLS mode unless" both sides are fixed newstyle.
    let mut server = TestServer::with(Policy { tls: Tls::On, ..Policy::default() }, 2);
    assert_eq!(server.send(&option(5, &[])), []);
    assert_eq!(*server.closed(), Closed::NotFixedNewstyle(OptionType::StartTls));
}

/// "`NBD_OPT_ABORT`": acknowledged with and without data.
#[test]
fn abort_is_acknowledged() {
    for data in [&[][..], &[0; 100_000]] {
        let mut server = TestServer::new();
        assert_eq!(server.send(&option(2, data)), reply(2, ACK, &[]));
        assert_eq!(*server.closed(), Closed::Abort);
    }
}

/// "`NBD_OPT_LIST`".
#[test]
fn list_names_the_exports() {
    let card = reply(3, SERVER, &[&string("card")[..], b"a card"].concat());
    let (strict, done) = (reply(3, SERVER, &string("strict")), reply(3, ACK, &[]));
    let mut server = TestServer::new();
    assert_eq!(
        server.send(&option(3, &[])),
        [card, strict, done].concat(),
        "an export that needs TLS is listed, or another is not"
    );
    server.rejects(3, b"?", INVALID);
}

/// "`NBD_OPT_INFO` and `NBD_OPT_GO`".
#[test]
fn info_and_go_describe_the_export_with_the_requested_information() {
    let (name, words) = (b"\0\x01card", b"\0\x02a card");
    let sizes = [&3u16.to_be_bytes()[..], &[0, 0, 0, 1, 0, 0, 0x40, 0, 2, 0, 0, 0]].concat();
    for number in [6, 7] {
        let export = reply(number, INFO, &info_export(0x1234_5600, FLAGS));
        let (name, words) = (reply(number, INFO, name), reply(number, INFO, words));
        let (sizes, done) = (reply(number, INFO, &sizes), reply(number, ACK, &[]));
        for (infos, answer) in [
            (&[][..], [&export[..], &done].concat()),
            (&[0], [&export[..], &done].concat()),
            (&[3, 1, 2, 77], [&export[..], &name, &words, &sizes, &done].concat()),
            (&[2, 2], [&export[..], &words, &done].concat()),
        ] {
            let mut server = TestServer::new();
            assert_eq!(server.send(&option(number, &export_query("card", infos))), answer);
            assert_eq!(server.event == Event::Opened, number == 7);
            // The reply contains the name of the default export.
            let mut server = TestServer::new();
            assert_eq!(server.send(&option(number, &export_query("", infos))), answer);
        }
    }
}

#[test]
fn info_and_go_reject_unknown_exports_and_malformed_data() {
    let mut server = TestServer::new();
    for number in [6, 7] {
        server.rejects(number, &export_query("disk", &[]), UNKNOWN);
        server.rejects(number, &[], INVALID);
        server.rejects(number, &[0, 0, 0, 9, b'c', 0, 0], INVALID);
        server.rejects(number, &[0xff; 6], INVALID);
        server.rejects(number, &[&export_query("card", &[])[..], &[0]].concat(), INVALID);
        server.rejects(number, &[string("card"), vec![0, 2, 0, 3]].concat(), INVALID);
        server.rejects(number, &export_query("a\0b", &[]), INVALID);
        server.rejects(number, &export_query(&"a".repeat(4097), &[]), INVALID);
        server.rejects(number, &[&[0, 0, 0, 1, 0xff, 0, 0][..]].concat(), INVALID);
    }
    assert_eq!(server.open(&export_query("card", &[])).len(), 20 + 12 + 20);
}

/// "`NBD_REP_ERR_BLOCK_SIZE_REQD`": sent after the block sizes.
#[test]
fn strict_exports_require_a_request_for_block_sizes() {
    let sizes = [&3u16.to_be_bytes()[..], &[0, 0, 0x10, 0, 0, 0, 0x10, 0, 2, 0, 0, 0]].concat();
    for number in [6, 7] {
        let sizes = reply(number, INFO, &sizes);
        let mut server = TestServer::new();
        let sent = server.send(&option(number, &export_query("strict", &[1])));
        let words = sent[sizes.len() + 20..].to_vec();
        assert_eq!(sent, [sizes.clone(), reply(number, BLOCK_SIZE_REQD, &words)].concat());
        let sent = server.send(&option(number, &export_query("strict", &[3])));
        let export = reply(number, INFO, &info_export(8192, FLAGS));
        assert_eq!(sent, [export, sizes, reply(number, ACK, &[])].concat());
    }
}

/// "NOTLS mode".
#[test]
fn a_server_without_tls_rejects_starttls() {
    let mut server = TestServer::new();
    server.rejects(5, &[], POLICY);
    server.rejects(5, &[1], INVALID);
    // "MUST NOT respond to any option request with NBD_REP_ERR_TLS_REQD".
    server.rejects(7, &export_query("secret", &[]), POLICY);
}

/// "SELECTIVETLS mode", and "`NBD_OPT_STARTTLS`": the server discards all negotiation state.
#[test]
fn starting_tls_discards_negotiation_state_and_cleartext() {
    let mut server = TestServer::with(Policy { tls: Tls::On, ..Policy::default() }, 3);
    server.rejects(7, &export_query("secret", &[]), TLS_REQD);
    server.rejects(6, &export_query("secret", &[]), TLS_REQD);
    assert_eq!(server.send(&option(8, &[])), reply(8, ACK, &[]));
    assert_eq!(server.send(&option(11, &[])), reply(11, ACK, &[]));
    let query = context_query("card", &["base:allocation"]);
    assert_eq!(server.send(&option(10, &query)).len(), 20 + 4 + 15 + 20);
    server.rejects(5, b"x", INVALID);
    // An attacker in the middle has injected options after STARTTLS (CVE-2021-3716).
    let injected = [option(5, &[]), option(8, &[]), option(7, &export_query("card", &[]))].concat();
    assert_eq!(server.send(&injected), reply(5, ACK, &[]));
    assert_eq!(server.event, Event::StartTls);
    assert_eq!(server.send(&option(3, &[])), [], "an option before TLS was answered");
    assert_eq!(server.event, Event::StartTls);
    server.session.tls_started();
    server.rejects(5, &[], INVALID);
    server.rejects(10, &query, INVALID);
    let export = reply(7, INFO, &info_export(1024, FLAGS));
    assert_eq!(server.open(&export_query("secret", &[])), [export, reply(7, ACK, &[])].concat());
    assert_eq!(server.session.replies().unwrap().style(), Style::Simple);
    assert!(server.session.contexts().is_empty());
}

/// "FORCEDTLS mode".
#[test]
fn a_server_that_requires_tls_rejects_all_options_but_starttls_and_abort() {
    let policy = Policy { tls: Tls::Require, ..Policy::default() };
    let mut server = TestServer::with(policy, 3);
    for number in [3, 6, 7, 8, 9, 10, 11, 4, 0xdead] {
        server.rejects(number, &[], TLS_REQD);
    }
    server.rejects(0xdead, &vec![0; OPTION_DATA_MAX + 1], TLS_REQD);
    assert_eq!(server.send(&option(2, &[])), reply(2, ACK, &[]), "an abort was not acknowledged");
    let mut server = TestServer::with(policy, 3);
    assert_eq!(server.send(&option(5, &[])), reply(5, ACK, &[]));
    server.session.tls_started();
    server.rejects(0xdead, &[], UNSUP);
    let list = server.send(&option(3, &[]));
    assert!(list.windows(6).any(|window| window == b"secret"));
}

/// "`NBD_OPT_STRUCTURED_REPLY`", "`NBD_FLAG_SEND_DF`".
#[test]
fn structured_replies_enable_df() {
    let mut server = TestServer::new();
    server.rejects(8, &[0], INVALID);
    assert_eq!(server.send(&option(8, &[])), reply(8, ACK, &[]));
    let sent = server.open(&export_query("card", &[]));
    assert_eq!(sent, [reply(7, INFO, &info_export(0x1234_5600, FLAGS_DF)), reply(7, ACK, &[])].concat());
    assert_eq!(server.session.replies().unwrap().style(), Style::Structured);
    let mut server = TestServer::with(Policy { structured: false, ..Policy::default() }, 3);
    server.rejects(8, &[], UNSUP);
}

/// "`NBD_OPT_EXTENDED_HEADERS`" (extension-ext-header).
#[test]
fn extended_headers_take_precedence() {
    let mut server = TestServer::new();
    server.rejects(11, &[0], INVALID);
    assert_eq!(server.send(&option(8, &[])), reply(8, ACK, &[]));
    assert_eq!(server.send(&option(11, &[])), reply(11, ACK, &[]));
    server.rejects(8, &[], EXT_HEADER_REQD);
    server.rejects(11, &[], INVALID);
    assert_eq!(
        server.send(&option(10, &context_query("card", &["x-flashlab:wear"]))).len(),
        20 + 4 + 15 + 20
    );
    // NBD_FLAG_BLOCK_STATUS_PAYLOAD is set only if contexts were selected for this export.
    let sent = server.send(&option(6, &export_query("", &[])));
    assert_eq!(sent, [reply(6, INFO, &info_export(0x1234_5600, FLAGS_DF)), reply(6, ACK, &[])].concat());
    let sent = server.open(&export_query("card", &[]));
    let flags = FLAGS_DF | 1 << 12;
    assert_eq!(sent, [reply(7, INFO, &info_export(0x1234_5600, flags)), reply(7, ACK, &[])].concat());
    assert_eq!(server.session.replies().unwrap().style(), Style::Extended);
    let mut server = TestServer::with(Policy { extended: false, ..Policy::default() }, 3);
    server.rejects(11, &[], UNSUP);
}

/// "`NBD_OPT_LIST_META_CONTEXT`", "`NBD_OPT_SET_META_CONTEXT`", "The `base:` metadata namespace".
#[test]
fn contexts_are_listed_and_selected() {
    let mut server = TestServer::new();
    server.rejects(9, &context_query("card", &[]), INVALID);
    server.rejects(10, &context_query("card", &[]), INVALID);
    server.send(&option(8, &[]));
    let base = |number, id| reply(number, META, &context(id, "base:allocation"));
    let mapped = |number, id| reply(number, META, &context(id, "x-flashlab:mapped"));
    let done = |number| reply(number, ACK, &[]);
    for (queries, answer) in [
        // Without a query, the list contains all contexts except those that need extended headers.
        (&[][..], [base(9, 0), mapped(9, 0), done(9)].concat()),
        (&["base:"], [base(9, 0), done(9)].concat()),
        (&["x-flashlab:"], [mapped(9, 0), done(9)].concat()),
        (&["x-flashlab:mapped", "x-flashlab:mapped", "base:"], [base(9, 0), mapped(9, 0), done(9)].concat()),
        (&["qemu:dirty-bitmap:b", "base:nothing", "x-flashlab:wear"], done(9)),
    ] {
        assert_eq!(server.send(&option(9, &context_query("card", queries))), answer, "{queries:?}");
    }
    for (queries, answer) in [
        (&[][..], done(10)),
        (&["base:"], done(10)),
        (&["x-flashlab:"], done(10)),
        (&["x-flashlab:wear"], done(10)),
        (
            &["qemu:dirty-bitmap:b", "x-flashlab:mapped", "base:allocation"],
            [base(10, 0), mapped(10, 1), done(10)].concat(),
        ),
    ] {
        assert_eq!(server.send(&option(10, &context_query("card", queries))), answer, "{queries:?}");
    }
    server.open(&export_query("card", &[]));
    assert_eq!(server.session.contexts().iter().collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn selected_contexts_apply_to_one_export_name_until_the_next_selection() {
    let selection = option(10, &context_query("card", &["base:allocation"]));
    let selected_count = |between: &[Vec<u8>], name: &str| {
        let mut server = TestServer::new();
        server.send(&option(8, &[]));
        server.send(&selection);
        for option in between {
            server.send(option);
        }
        server.open(&export_query(name, &[3]));
        server.session.contexts().len()
    };
    assert_eq!(selected_count(&[], "card"), 1);
    assert_eq!(selected_count(&[], ""), 0, "contexts apply to the same export by another name");
    assert_eq!(selected_count(&[], "strict"), 0);
    assert_eq!(
        selected_count(&[option(10, &context_query("card", &[]))], "card"),
        0,
        "contexts remain after an empty selection"
    );
    assert_eq!(
        selected_count(&[option(10, &context_query("disk", &["base:allocation"]))], "card"),
        0,
        "contexts remain after a failed selection"
    );
    assert_eq!(selected_count(&[option(10, b"?")], "card"), 0, "contexts remain after malformed data");
    assert_eq!(
        selected_count(&[option(10, &vec![0; OPTION_DATA_MAX + 1])], "card"),
        0,
        "contexts remain after data above the limit"
    );
    assert_eq!(
        selected_count(&[option(9, &context_query("card", &[])), option(3, &[])], "card"),
        1,
        "other options changed the contexts"
    );
}

#[test]
fn unknown_exports_and_malformed_context_queries_are_rejected() {
    let mut server = TestServer::new();
    server.send(&option(8, &[]));
    for number in [9, 10] {
        server.rejects(number, &context_query("disk", &[]), UNKNOWN);
        server.rejects(number, &context_query("card", &["allocation"]), INVALID);
        server.rejects(number, &context_query("card", &[""]), INVALID);
        server.rejects(number, &[], INVALID);
        server.rejects(number, &[&context_query("card", &["base:"])[..], &[0]].concat(), INVALID);
        server.rejects(number, &[string("card"), vec![0, 0, 0, 2], string("base:")].concat(), INVALID);
        server.rejects(number, &[string("card"), vec![0xff; 4]].concat(), INVALID);
        server.rejects(number, &context_query("card", &[&format!("base:{}", "a".repeat(4096))]), INVALID);
        server.rejects(number, &[&string("card")[..], &[0, 0, 0, 1, 0, 0, 0, 9, b'b']].concat(), INVALID);
    }
}

/// "Baseline": unknown options get `NBD_REP_ERR_UNSUP`, and the session parses the next message correctly.
#[test]
fn unknown_options_are_rejected_and_skipped() {
    let mut server = TestServer::new();
    for number in [0, 4, 12, u32::MAX] {
        server.rejects(number, &[], UNSUP);
        server.rejects(number, &[7; 1000], UNSUP);
        server.rejects(number, &vec![7; OPTION_DATA_MAX], UNSUP);
        server.rejects(number, &vec![7; OPTION_DATA_MAX + 1], TOO_BIG);
        server.rejects(number, &vec![7; 1 << 20], TOO_BIG);
    }
    server.open(&export_query("card", &[]));
}

#[test]
fn the_number_of_options_is_limited() {
    let mut server = TestServer::with(Policy { options_max: 5, ..Policy::default() }, 3);
    for _ in 0..5 {
        server.rejects(99, &[], UNSUP);
    }
    assert_eq!(server.send(&option(99, &[])), []);
    assert_eq!(*server.closed(), Closed::TooManyOptions);
}

#[test]
fn invalid_magic_ends_the_handshake() {
    let mut server = TestServer::new();
    assert_eq!(server.send(b"GET / HTTP/1.1\r\n\r\n"), []);
    assert!(matches!(server.closed(), Closed::Magic(_)));
}

/// "Termination of the session during option haggling".
#[test]
fn a_server_that_shuts_down_rejects_options_but_acknowledges_an_abort() {
    let mut server = TestServer::new();
    server.session.shut_down();
    for number in [3, 6, 7, 8, 99] {
        server.rejects(number, &[], SHUTDOWN);
    }
    assert_eq!(server.send(&option(2, &[])), reply(2, ACK, &[]));
    let mut server = TestServer::new();
    server.session.shut_down();
    assert_eq!(server.send(&option(1, b"card")), []);
    assert!(matches!(server.closed(), Closed::Export { .. }));
}

/// "Transmission flags": some flags follow from the negotiation or from other flags.
#[test]
fn session_flags_override_the_flags_of_the_export() {
    use TransmissionFlags as T;
    let mut export = Export::new("", 512);
    export.flags = T::SEND_FAST_ZERO | T::SEND_DF | T::BLOCK_STATUS_PAYLOAD | T::SEND_RESIZE | T::READ_ONLY;
    let mut sent = Vec::new();
    let mut session = Session::new(Policy::default(), Arc::new(vec![export]), &mut sent);
    sent.clear();
    let bytes = [&[0, 0, 0, 3][..], &option(1, b"")].concat();
    assert_eq!(session.receive(&bytes, &mut sent).event, Event::Opened);
    assert_eq!(sent, [&512u64.to_be_bytes()[..], &[0, 3]].concat(), "HAS_FLAGS, READ_ONLY");
}
